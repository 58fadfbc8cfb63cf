/*
 * The table of all rows.
 *
 * Section: the heading in the specification (doc/proto.md; what only extended headers have is in its branch
 * extension-ext-header). Most of what happens in transmission is looked at in each of its three modes.
 */
#include "tests/conformance/rows.h"

/* The mode comes from the list's user, and so does the beginning of the names. */
#define IN_ANY_MODE(PREFIX, MODE) \
	{ PREFIX "read", read_basic, MODE, 0, MUST, \
	  "Request types: READ", "READ at the start, in the middle, at the end; the same twice" }, \
	{ PREFIX "read_odd", read_odd, MODE, FINE, MUST, \
	  "Request types: READ", "READ of odd lengths at odd offsets" }, \
	{ PREFIX "read_large", read_large, MODE, 0, MUST, \
	  "Block size constraints", "READ of the maximum payload, at most 32 MiB" }, \
	{ PREFIX "read_too_large", read_too_large, MODE, 0, SHOULD, \
	  "Block size constraints", "READ of 65 MiB does not end the connection" }, \
	{ PREFIX "read_outside", read_outside, MODE, 0, MUST, \
	  "Error values", "READ beyond the end, and around 2^64: EINVAL" }, \
	{ PREFIX "unaligned", unaligned, MODE, COARSE, MUST, \
	  "Block size constraints", "READ below the minimum block size: EINVAL" }, \
	{ PREFIX "command_unknown", command_unknown, MODE, 0, MUST, \
	  "Error values", "unknown commands: EINVAL" }, \
	{ PREFIX "flags_unknown", flags_unknown, MODE, 0, SHOULD, \
	  "Error values", "unknown command flags: EINVAL" }, \
	{ PREFIX "flags_misplaced", flags_misplaced, MODE, 0, SHOULD, \
	  "Error values", "flags of other commands: EINVAL" }, \
	{ PREFIX "df_not_offered", df_not_offered, MODE, NO_DF, SHOULD, \
	  "Command flags", "DF without SEND_DF: EINVAL" }, \
	{ PREFIX "fua_not_offered", fua_not_offered, MODE, NO_FUA, SHOULD, \
	  "Command flags", "FUA without SEND_FUA: EINVAL" }, \
	{ PREFIX "flags_write", flags_write, MODE, WRITABLE, SHOULD, \
	  "Error values", "WRITE with an unknown flag: EINVAL, the payload is skipped" }, \
	{ PREFIX "not_advertised", not_advertised, MODE, 0, SHOULD, \
	  "Error values", "commands that are not offered do not end the connection" }, \
	{ PREFIX "fua", fua_everywhere, MODE, FUA, MUST, \
	  "Command flags", "FUA is accepted on every command" }, \
	{ PREFIX "zero_length", zero_length, MODE, 0, SHOULD, \
	  "Request types", "lengths of 0 do not end the connection" }, \
	{ PREFIX "write", write_basic, MODE, WRITABLE, MUST, \
	  "Request types: WRITE", "what is written is read, its neighbours are as before" }, \
	{ PREFIX "write_odd", write_odd, MODE, WRITABLE | FINE, MUST, \
	  "Request types: WRITE", "WRITE of odd lengths at odd offsets" }, \
	{ PREFIX "write_large", write_large, MODE, WRITABLE, MUST, \
	  "Block size constraints", "WRITE of the maximum payload, at most 32 MiB" }, \
	{ PREFIX "write_too_large", write_too_large, MODE, WRITABLE, MUST, \
	  "Block size constraints", "WRITE of 65 MiB is skipped, or ends the connection" }, \
	{ PREFIX "write_outside", write_outside, MODE, WRITABLE, MUST, \
	  "Error values", "WRITE beyond the end, and around 2^64: ENOSPC, nothing is written" }, \
	{ PREFIX "write_read_only", write_read_only, MODE, READ_ONLY, MUST, \
	  "Error values", "modifying commands on a read-only export: EPERM" }, \
	{ PREFIX "unaligned_write", unaligned_write, MODE, WRITABLE | COARSE, MUST, \
	  "Block size constraints", "modifying commands below the minimum block size: EINVAL" }, \
	{ PREFIX "write_again", write_again, MODE, WRITABLE, MUST, \
	  "Ordering of messages and writes", "the last write of a block wins" }, \
	{ PREFIX "flush", flush_basic, MODE, FLUSH, MUST, \
	  "Request types: FLUSH", "FLUSH, alone, after a write, many at once" }, \
	{ PREFIX "flush_range", flush_range, MODE, FLUSH, SHOULD, \
	  "Request types: FLUSH", "FLUSH with a range does not end the connection" }, \
	{ PREFIX "trim", trim_basic, MODE, TRIM | WRITABLE, MUST, \
	  "Request types: TRIM", "TRIM leaves the neighbours as they were" }, \
	{ PREFIX "trim_outside", trim_outside, MODE, TRIM | WRITABLE, MUST, \
	  "Error values", "TRIM beyond the end, and around 2^64: EINVAL" }, \
	{ PREFIX "trim_large", trim_large, MODE, TRIM | WRITABLE, SHOULD, \
	  "Block size constraints", "TRIM may be larger than the maximum payload" }, \
	{ PREFIX "cache", cache_basic, MODE, CACHE, MUST, \
	  "Request types: CACHE", "CACHE succeeds, or fails with EINVAL" }, \
	{ PREFIX "cache_outside", cache_outside, MODE, CACHE, SHOULD, \
	  "Error values", "CACHE beyond the end, and around 2^64: EINVAL" }, \
	{ PREFIX "zeroes", zeroes_basic, MODE, ZEROES | WRITABLE, MUST, \
	  "Request types: WRITE_ZEROES", "WRITE_ZEROES with and without NO_HOLE reads as zeroes" }, \
	{ PREFIX "zeroes_odd", zeroes_odd, MODE, ZEROES | WRITABLE | FINE, MUST, \
	  "Request types: WRITE_ZEROES", "WRITE_ZEROES of odd lengths at odd offsets" }, \
	{ PREFIX "zeroes_outside", zeroes_outside, MODE, ZEROES | WRITABLE, MUST, \
	  "Error values", "WRITE_ZEROES beyond the end, and around 2^64: ENOSPC" }, \
	{ PREFIX "zeroes_large", zeroes_large, MODE, ZEROES | WRITABLE, MUST, \
	  "Request types: WRITE_ZEROES", "WRITE_ZEROES larger than a payload: all of it, or an error" }, \
	{ PREFIX "zeroes_fast", zeroes_fast, MODE, FAST_ZERO | WRITABLE, MUST, \
	  "Request types: WRITE_ZEROES", "FAST_ZERO: success or ENOTSUP" }, \
	{ PREFIX "zeroes_fast_not_offered", zeroes_fast_not_offered, MODE, ZEROES | NO_FAST_ZERO | WRITABLE, SHOULD, \
	  "Request types: WRITE_ZEROES", "FAST_ZERO without SEND_FAST_ZERO: EINVAL" }, \
	{ PREFIX "cookies", cookies, MODE, 0, MUST, \
	  "Transmission", "replies carry the cookie of their request, whatever it is" }, \
	{ PREFIX "pipeline_reads", pipeline_reads, MODE, 0, MUST, \
	  "Transmission", "64 reads at once: each has its own data" }, \
	{ PREFIX "pipeline_errors", pipeline_errors, MODE, 0, MUST, \
	  "Transmission", "errors among reads: each has its own" }, \
	{ PREFIX "pipeline_writes", pipeline_writes, MODE, WRITABLE, MUST, \
	  "Transmission", "64 writes at once, then 64 reads" }, \
	{ PREFIX "pieces_header", pieces_header, MODE, 0, MUST, \
	  "Request message", "a request may come byte by byte" }, \
	{ PREFIX "pieces_payload", pieces_payload, MODE, WRITABLE, MUST, \
	  "Request message", "a payload may come in small pieces" }, \
	{ PREFIX "magic_wrong", magic_wrong, MODE, 0, SHOULD, \
	  "Terminating the transmission phase", "a wrong request magic ends the connection" }, \
	{ PREFIX "disc", disc_closes, MODE, 0, MUST, \
	  "Terminating the transmission phase", "DISC ends the connection without a reply" }, \
	{ PREFIX "disc_outstanding", disc_outstanding, MODE, 0, MUST, \
	  "Request types: DISC", "requests before DISC are answered" }, \
	{ PREFIX "disc_writes", disc_writes, MODE, WRITABLE, MUST, \
	  "Request types: DISC", "writes before DISC are done" }, \
	{ PREFIX "gone_in_payload", gone_in_payload, MODE, WRITABLE, MUST, \
	  "Terminating the transmission phase", "clients that go inside a payload disturb nobody" }, \
	{ PREFIX "multi_same", multi_same, MODE, MULTI_CONN, MUST, \
	  "Transmission flags", "CAN_MULTI_CONN: the same export on each connection" }, \
	{ PREFIX "multi_visible", multi_visible, MODE, MULTI_CONN | WRITABLE, MUST, \
	  "Transmission flags", "CAN_MULTI_CONN: what is written on one is read on all" }, \
	{ PREFIX "multi_flush", multi_flush, MODE, MULTI_CONN | WRITABLE, MUST, \
	  "Transmission flags", "CAN_MULTI_CONN: FLUSH and FUA on another connection" }, \
	{ PREFIX "big_edges", big_edges, MODE, WRITABLE | BIG, MUST, \
	  "Request message", "reads and writes on both sides of 4 GiB" },

/* With replies in chunks. */
#define IN_CHUNKS(PREFIX, MODE) \
	{ PREFIX "lasts", option_refused_forgets_nothing, MODE, 0, MUST, \
	  "Option types", "refused options later do not undo it" }, \
	{ PREFIX "chunks", read_mixed, MODE, WRITABLE, MUST, \
	  "Request types: READ", "READ of holes and data: chunks inside, without overlap, complete" }, \
	{ PREFIX "chunks_odd", read_mixed_odd, MODE, WRITABLE | FINE, MUST, \
	  "Request types: READ", "the same at odd offsets" }, \
	{ PREFIX "chunks_trimmed", read_trimmed, MODE, TRIM | WRITABLE, MUST, \
	  "Request types: READ", "READ across what was trimmed" }, \
	{ PREFIX "chunk_sizes", read_chunk_sizes, MODE, 0, SHOULD, \
	  "Request types: READ", "chunks are multiples of 512 bytes" }, \
	{ PREFIX "errors", error_chunks, MODE, 0, MUST, \
	  "Structured reply chunk message", "errors of READ are chunks too" }, \
	{ PREFIX "error_text", error_text, MODE, 0, SHOULD, \
	  "Structured reply chunk message", "errors carry a text" }, \
	{ PREFIX "df", df_basic, MODE, DF, MUST, \
	  "Request types: READ", "DF: one content chunk, up to 64 KiB always" }, \
	{ PREFIX "df_mixed", df_mixed, MODE, DF | WRITABLE | ZEROES, MUST, \
	  "Request types: READ", "DF across data and a hole: data" }, \
	{ PREFIX "df_large", df_large, MODE, DF, MUST, \
	  "Request types: READ", "DF above 64 KiB: one chunk, or EOVERFLOW and none" }, \
	{ PREFIX "df_errors", df_errors, MODE, DF, SHOULD, \
	  "Command flags", "DF is for READ alone" }, \
	{ PREFIX "pipeline_mixed", pipeline_mixed, MODE, WRITABLE, MUST, \
	  "Structured reply chunk message", "24 reads of several chunks at once" }, \
	{ PREFIX "meta_list_all", meta_list_all, MODE, META, MUST, \
	  "Option types: LIST_META_CONTEXT", "LIST_META_CONTEXT without a query lists all" }, \
	{ PREFIX "meta_list_wildcard", meta_list_wildcard, MODE, ALLOCATION, MUST, \
	  "The `base:` metadata namespace", "LIST_META_CONTEXT of base: lists base:allocation" }, \
	{ PREFIX "meta_list_one", meta_list_one, MODE, ALLOCATION, MUST, \
	  "Option types: LIST_META_CONTEXT", "LIST_META_CONTEXT of base:allocation lists it alone" }, \
	{ PREFIX "meta_unknown_namespace", meta_unknown_namespace, MODE, ALLOCATION, MUST, \
	  "Option types: SET_META_CONTEXT", "unknown namespaces are ignored" }, \
	{ PREFIX "meta_unknown_leaf", meta_unknown_leaf, MODE, ALLOCATION, MUST, \
	  "The `base:` metadata namespace", "unknown names in base: are ignored" }, \
	{ PREFIX "meta_set_wildcard", meta_set_wildcard, MODE, ALLOCATION, MUST, \
	  "The `base:` metadata namespace", "SET_META_CONTEXT ignores base:" }, \
	{ PREFIX "meta_no_colon", meta_no_colon, MODE, ALLOCATION, MUST, \
	  "Option types: SET_META_CONTEXT", "a query without a colon selects nothing" }, \
	{ PREFIX "meta_set_all", meta_set_all, MODE, META, MUST, \
	  "Option types: SET_META_CONTEXT", "SET_META_CONTEXT of all: unique ids, a status of each" }, \
	{ PREFIX "meta_set_twice", meta_set_twice, MODE, ALLOCATION, MUST, \
	  "Option types: SET_META_CONTEXT", "the same query twice" }, \
	{ PREFIX "meta_set_none", meta_set_none, MODE, ALLOCATION, MUST, \
	  "Option types: SET_META_CONTEXT", "SET_META_CONTEXT without a query selects nothing" }, \
	{ PREFIX "meta_set_replaces", meta_set_replaces, MODE, ALLOCATION, MUST, \
	  "Option types: SET_META_CONTEXT", "the last SET_META_CONTEXT counts" }, \
	{ PREFIX "meta_set_fails", meta_set_fails, MODE, ALLOCATION, MUST, \
	  "Option types: SET_META_CONTEXT", "a SET_META_CONTEXT that fails selects nothing" }, \
	{ PREFIX "meta_set_lasts", meta_set_lasts, MODE, ALLOCATION | GO, MUST, \
	  "Option types: SET_META_CONTEXT", "options between SET_META_CONTEXT and GO do not matter" }, \
	{ PREFIX "meta_other_export", meta_other_export, MODE, ALLOCATION, MUST, \
	  "Option types: SET_META_CONTEXT", "a context of another export does not count" }, \
	{ PREFIX "meta_unknown_export", meta_unknown_export, MODE, ALLOCATION | NAMES, SHOULD, \
	  "Option reply types", "contexts of an unknown export: ERR_UNKNOWN" }, \
	{ PREFIX "meta_malformed", meta_malformed, MODE, META, MUST, \
	  "Option types: SET_META_CONTEXT", "contexts with wrong lengths: ERR_INVALID" }, \
	{ PREFIX "meta_many_queries", meta_many_queries, MODE, ALLOCATION, MUST, \
	  "Option types: SET_META_CONTEXT", "500 queries: one is known, or ERR_TOO_BIG" }, \
	{ PREFIX "meta_long_query", meta_long_query, MODE, META, MUST, \
	  "Conventions", "long queries do not confuse the server" }, \
	{ PREFIX "status_without", status_without, MODE, 0, MUST, \
	  "Metadata querying", "BLOCK_STATUS without a context: EINVAL" }, \
	{ PREFIX "status", status_basic, MODE, META, MUST, \
	  "Structured reply types", "BLOCK_STATUS: one chunk a context, sums as they must be" }, \
	{ PREFIX "status_odd", status_odd, MODE, META | FINE, MUST, \
	  "Structured reply types", "BLOCK_STATUS of odd lengths at odd offsets" }, \
	{ PREFIX "status_walk", status_walk, MODE, META, MUST, \
	  "Request types: BLOCK_STATUS", "BLOCK_STATUS from one end to the other" }, \
	{ PREFIX "status_req_one", status_req_one, MODE, META, MUST, \
	  "Command flags", "REQ_ONE: one extent, not longer than asked for" }, \
	{ PREFIX "status_true", status_true, MODE, ALLOCATION, MUST, \
	  "`base:allocation` metadata context", "what is said to be zero reads as zero" }, \
	{ PREFIX "status_written", status_written, MODE, ALLOCATION | WRITABLE, MUST, \
	  "`base:allocation` metadata context", "and so it is after writes and zeroes" }, \
	{ PREFIX "status_outside", status_outside, MODE, META, MUST, \
	  "Request types: BLOCK_STATUS", "BLOCK_STATUS beyond the end, and around 2^64: EINVAL" }, \
	{ PREFIX "status_zero_length", status_zero_length, MODE, META, SHOULD, \
	  "Request types: BLOCK_STATUS", "BLOCK_STATUS of length 0 does not end the connection" }, \
	{ PREFIX "status_flags", status_flags, MODE, META, SHOULD, \
	  "Error values", "flags of other commands: EINVAL; FUA is accepted" }, \
	{ PREFIX "status_pipeline", status_pipeline, MODE, META, MUST, \
	  "Structured reply chunk message", "BLOCK_STATUS and READ, 48 at once" }, \
	{ PREFIX "status_disc", status_disc, MODE, META, MUST, \
	  "Request types: BLOCK_STATUS", "BLOCK_STATUS before DISC is answered" },

const struct row rows[] = {
	{ "greeting", greeting, SIMPLE, 0, MUST,
	  "Handshake flags", "NBDMAGIC, IHAVEOPT, FIXED_NEWSTYLE and no unknown handshake flag" },
	{ "client_flags_unknown", client_flags_unknown, SIMPLE, 0, MUST,
	  "Client flags", "an unknown client flag ends the connection" },
	{ "client_flags_none", client_flags_none, SIMPLE, PLAIN, MUST,
	  "Newstyle negotiation", "a client without fixed newstyle enters by EXPORT_NAME, with 124 zeroes" },
	{ "client_flags_apart", client_flags_apart, SIMPLE, PLAIN, MUST,
	  "Client flags", "without C_NO_ZEROES there are 124 zeroes after EXPORT_NAME" },
	{ "export_name", export_name_short, SIMPLE, 0, MUST,
	  "Handshake flags", "with C_NO_ZEROES there are none" },
	{ "export_name_same", export_name_same, SIMPLE, GO, MUST,
	  "Option reply types", "EXPORT_NAME and GO tell the same size and flags" },
	{ "export_name_unknown", export_name_unknown, SIMPLE, NAMES, MUST,
	  "Option types: EXPORT_NAME", "EXPORT_NAME with an unknown name ends the session" },
	{ "export_name_long", export_name_long, SIMPLE, 0, MUST,
	  "Conventions", "EXPORT_NAME with more than 4096 bytes ends the session" },
	{ "option_unknown", option_unknown, SIMPLE, 0, MUST,
	  "Fixed newstyle negotiation", "unknown options are skipped and answered with ERR_UNSUP" },
	{ "option_peek", option_peek, SIMPLE, 0, SHOULD,
	  "Option types: PEEK_EXPORT", "the withdrawn PEEK_EXPORT is answered with ERR_UNSUP" },
	{ "option_large", option_large, SIMPLE, 0, SHOULD,
	  "Termination of the session during option haggling", "1 MiB of data of an unknown option is skipped" },
	{ "option_huge", option_huge, SIMPLE, 0, SHOULD,
	  "Termination of the session during option haggling",
	  "an option that announces 4 GiB is refused or ends the session" },
	{ "option_magic", option_magic, SIMPLE, 0, SHOULD,
	  "Termination of the session during option haggling", "an option with a wrong magic ends the session" },
	{ "option_pieces", option_pieces, SIMPLE, GO, MUST,
	  "Fixed newstyle negotiation", "an option may come byte by byte" },
	{ "abort", abort_ack, SIMPLE, 0, MUST,
	  "Option types: ABORT", "ABORT is acknowledged" },
	{ "abort_data", abort_data, SIMPLE, 0, SHOULD,
	  "Option types: ABORT", "data of ABORT is ignored" },
	{ "abort_gone", abort_gone, SIMPLE, 0, SHOULD,
	  "Option types: ABORT", "a client may close after ABORT without waiting" },
	{ "gone_early", gone_early, SIMPLE, 0, MUST,
	  "Termination of the session during option haggling", "clients that go during the handshake disturb nobody" },
	{ "list", list_names, SIMPLE, LIST, MUST,
	  "Option types: LIST", "LIST: SERVER replies with valid names, then ACK" },
	{ "list_data", list_data, SIMPLE, LIST, SHOULD,
	  "Option types: LIST", "LIST with data is answered with ERR_INVALID" },
	{ "list_twice", list_twice, SIMPLE, LIST, SHOULD,
	  "Option types: LIST", "LIST may be asked again" },
	{ "list_usable", list_usable, SIMPLE, LIST | GO, MUST,
	  "Option reply types", "INFO knows the names that LIST shows" },
	{ "info_go", info_export, SIMPLE, GO, MUST,
	  "Option reply types", "INFO sends INFO_EXPORT, then ACK, and stays in the handshake" },
	{ "go", go_enters, SIMPLE, GO, MUST,
	  "Option types: GO", "GO enters transmission, never with zeroes" },
	{ "info_then_go", info_then_go, SIMPLE, GO, MUST,
	  "Option types: INFO", "GO repeats what INFO has said" },
	{ "info_malformed", info_malformed, SIMPLE, GO, MUST,
	  "Option types: INFO", "INFO with wrong lengths is answered with ERR_INVALID" },
	{ "go_malformed", go_malformed, SIMPLE, GO, MUST,
	  "Option types: GO", "GO with wrong lengths is answered with ERR_INVALID" },
	{ "info_unknown_items", info_unknown_items, SIMPLE, GO, MUST,
	  "Option types: INFO", "unknown information requests are ignored" },
	{ "info_unknown_name", info_unknown_name, SIMPLE, GO | NAMES, MUST,
	  "Option types: INFO", "INFO and GO of an unknown export: ERR_UNKNOWN, then the right one" },
	{ "info_once", info_once, SIMPLE, GO, SHOULD,
	  "Option reply types", "each information item comes once" },
	{ "info_names", info_names, SIMPLE, GO, MUST,
	  "Option reply types", "INFO_NAME is a name of the same export" },
	{ "info_sizes", info_sizes, SIMPLE, GO | SIZES, MUST,
	  "Block size constraints", "minimum, preferred and maximum size are as they must be" },
	{ "go_without_sizes", go_without_sizes, SIMPLE, GO, SHOULD,
	  "Block size constraints", "GO need not ask for block sizes" },
	{ "name_4096", name_4096, SIMPLE, GO, MUST,
	  "Conventions", "names may have 4096 bytes" },
	{ "name_long", name_long, SIMPLE, GO, MUST,
	  "Conventions", "longer names are refused, and skipped" },
	{ "name_nul", name_nul, SIMPLE, GO, SHOULD,
	  "Conventions", "a name with a NUL is refused" },
	{ "name_utf8", name_utf8, SIMPLE, GO, SHOULD,
	  "Conventions", "a name that is no UTF-8 is refused" },
	{ "flags", flags_sane, SIMPLE, 0, MUST,
	  "Transmission flags", "transmission flags that need others come with them" },
	IN_ANY_MODE("", SIMPLE)
	{ "sr_option_data", option_no_data, STRUCTURED, 0, SHOULD,
	  "Option types: STRUCTURED_REPLY", "STRUCTURED_REPLY with data is answered with ERR_INVALID" },
	{ "sr_again", option_again, STRUCTURED, 0, MUST,
	  "Option types: STRUCTURED_REPLY", "STRUCTURED_REPLY once more changes nothing" },
	IN_CHUNKS("sr_", STRUCTURED)
	{ "sr_export_name", sr_export_name, STRUCTURED, 0, MUST,
	  "Option types: STRUCTURED_REPLY", "EXPORT_NAME enters with structured replies" },
	IN_ANY_MODE("sr_", STRUCTURED)
	{ "meta_list_early", meta_list_early, STRUCTURED, META, MUST,
	  "Option types: LIST_META_CONTEXT", "LIST_META_CONTEXT before STRUCTURED_REPLY: ACK or ERR_INVALID" },
	{ "meta_set_early", meta_set_early, STRUCTURED, META, SHOULD,
	  "Option types: SET_META_CONTEXT", "SET_META_CONTEXT before STRUCTURED_REPLY: ERR_INVALID" },
	{ "ext_option_data", option_no_data, EXTENDED, 0, SHOULD,
	  "Option types: EXTENDED_HEADERS", "EXTENDED_HEADERS with data is answered with ERR_INVALID" },
	{ "ext_again", option_again, EXTENDED, 0, MUST,
	  "Option types: EXTENDED_HEADERS", "EXTENDED_HEADERS once more changes nothing" },
	IN_CHUNKS("ext_", EXTENDED)
	{ "ext_then_structured", ext_then_structured, EXTENDED, 0, SHOULD,
	  "Option types: EXTENDED_HEADERS", "STRUCTURED_REPLY after it: ERR_EXT_HEADER_REQD" },
	{ "ext_after_structured", structured_then_ext, EXTENDED, 0, MUST,
	  "Option types: EXTENDED_HEADERS", "EXTENDED_HEADERS after STRUCTURED_REPLY takes precedence" },
	{ "ext_export_name", ext_export_name, EXTENDED, 0, SHOULD,
	  "Option types: EXTENDED_HEADERS", "EXPORT_NAME is forbidden with extended headers" },
	IN_ANY_MODE("ext_", EXTENDED)
	{ "ext_write_unflagged", ext_write_unflagged, EXTENDED, WRITABLE, MUST,
	  "Command flags", "WRITE without PAYLOAD_LEN has no payload: EINVAL" },
	{ "ext_payload_unexpected", ext_payload_unexpected, EXTENDED, 0, MUST,
	  "Command flags", "PAYLOAD_LEN on other commands: EINVAL, the payload is skipped" },
	{ "ext_payload_unexpected_write", ext_payload_unexpected_write, EXTENDED, WRITABLE, MUST,
	  "Command flags", "the same on TRIM and WRITE_ZEROES" },
	{ "ext_payload_huge", ext_payload_huge, EXTENDED, WRITABLE, SHOULD,
	  "Request message", "a payload of 1 TiB ends the connection" },
	{ "ext_read_long", ext_read_long, EXTENDED, 0, MUST,
	  "Request message", "READ of more than 4 GiB beyond the end: EINVAL" },
	{ "ext_cache_long", ext_cache_long, EXTENDED, CACHE, MUST,
	  "Request message", "CACHE of more than 4 GiB beyond the end: EINVAL" },
	{ "ext_trim_long", ext_trim_long, EXTENDED, TRIM | WRITABLE, MUST,
	  "Request message", "TRIM of more than 4 GiB beyond the end: EINVAL" },
	{ "ext_zeroes_long", ext_zeroes_long, EXTENDED, ZEROES | WRITABLE, MUST,
	  "Request message", "WRITE_ZEROES of more than 4 GiB beyond the end: ENOSPC" },
	{ "ext_big_zeroes", big_zeroes, EXTENDED, ZEROES | WRITABLE | BIG, MUST,
	  "Request message", "WRITE_ZEROES of more than 4 GiB" },
	{ "ext_big_trim", big_trim, EXTENDED, TRIM | WRITABLE | BIG, MUST,
	  "Request message", "TRIM of more than 4 GiB" },
	{ "ext_big_cache", big_cache, EXTENDED, CACHE | BIG, SHOULD,
	  "Request message", "CACHE of more than 4 GiB" },
	{ "ext_status_long", ext_status_long, EXTENDED, META, MUST,
	  "Request message", "BLOCK_STATUS of more than 4 GiB beyond the end: EINVAL" },
	{ "ext_big_status", big_status, EXTENDED, META | BIG, MUST,
	  "Structured reply types", "BLOCK_STATUS of more than 4 GiB" },
	{ "ext_payload_flag", payload_flag, EXTENDED, META, SHOULD,
	  "Transmission flags", "BLOCK_STAT_PAYLOAD comes with contexts" },
	{ "ext_payload_subsets", payload_subsets, EXTENDED, STATUS_PAYLOAD | ALLOCATION, MUST,
	  "Request types: BLOCK_STATUS", "BLOCK_STATUS with payload: those contexts and no others" },
	{ "ext_payload_wrong", payload_wrong, EXTENDED, STATUS_PAYLOAD | ALLOCATION, MUST,
	  "Request types: BLOCK_STATUS", "unknown and repeated contexts, wrong lengths: EINVAL" },
	{ "ext_payload_many", payload_many, EXTENDED, STATUS_PAYLOAD | ALLOCATION, MUST,
	  "Request types: BLOCK_STATUS", "20000 contexts: EINVAL, the payload is skipped" },
	{ "ext_payload_not_offered", payload_not_offered, EXTENDED, NO_STATUS_PAYLOAD | ALLOCATION, MUST,
	  "Request types: BLOCK_STATUS", "a payload without the flag: EINVAL, it is skipped" },
	{ "tls_absent", tls_absent, SIMPLE, NO_TLS | GO | PLAIN, MUST,
	  "NOTLS mode", "STARTTLS is refused, and nothing asks for it" },
	{ "tls_data", tls_data, SIMPLE, TLS, MUST,
	  "Option reply types", "STARTTLS with data: ERR_INVALID" },
	{ "tls_required", tls_required, SIMPLE, TLS | TLS_FORCED, MUST,
	  "FORCEDTLS mode", "before TLS: ERR_TLS_REQD for all but STARTTLS and ABORT" },
	{ "tls_optional", tls_optional, SIMPLE, TLS_ALLOWED | TLS, MUST,
	  "SELECTIVETLS mode", "where TLS is a choice, only INFO and GO may ask for it" },
	{ "tls_required_export_name", tls_required_export_name, SIMPLE, TLS | TLS_FORCED, MUST,
	  "FORCEDTLS mode", "EXPORT_NAME before TLS ends the session" },
	{ "tls", tls_works, SIMPLE, TLS | TLS_CREDENTIALS, MUST,
	  "SELECTIVETLS mode", "STARTTLS: ACK, the TLS handshake, and data" },
	{ "tls_1_2", tls_1_2, SIMPLE, TLS | TLS_CREDENTIALS, MUST,
	  "TLS versions", "TLS 1.2" },
	{ "tls_1_3", tls_1_3, SIMPLE, TLS | TLS_CREDENTIALS, SHOULD,
	  "TLS versions", "TLS 1.3" },
	{ "tls_old", tls_old, SIMPLE, TLS | TLS_CREDENTIALS, SHOULD,
	  "TLS versions", "no TLS 1.1 and 1.0" },
	{ "tls_again", tls_again, SIMPLE, TLS | TLS_CREDENTIALS, MUST,
	  "FORCEDTLS mode", "STARTTLS within TLS: ERR_INVALID" },
	{ "tls_never_required", tls_never_required, SIMPLE, TLS | TLS_CREDENTIALS | GO, MUST,
	  "FORCEDTLS mode", "never ERR_TLS_REQD within TLS" },
	{ "tls_forgets_structured", tls_forgets_structured, SIMPLE, TLS_ALLOWED | TLS | TLS_CREDENTIALS, MUST,
	  "Option types: STARTTLS", "STARTTLS forgets STRUCTURED_REPLY" },
	{ "tls_forgets_extended", tls_forgets_extended, SIMPLE, TLS_ALLOWED | TLS | TLS_CREDENTIALS, MUST,
	  "Option types: STARTTLS", "STARTTLS forgets EXTENDED_HEADERS" },
	{ "tls_forgets_contexts", tls_forgets_contexts, SIMPLE, TLS_ALLOWED | TLS | TLS_CREDENTIALS, MUST,
	  "Option types: STARTTLS", "STARTTLS forgets metadata contexts" },
	{ "tls_injected", tls_injected, SIMPLE, TLS | TLS_CREDENTIALS, MUST,
	  "FORCEDTLS mode", "bytes in the clear after STARTTLS are not taken as if in TLS" },
	{ "tls_garbage", tls_garbage, SIMPLE, TLS | TLS_CREDENTIALS, MUST,
	  "FORCEDTLS mode", "a TLS handshake that fails ends the session" },
	{ "tls_bye", tls_bye, SIMPLE, TLS | TLS_CREDENTIALS, MUST,
	  "Terminating the transmission phase", "DISC shuts TLS down before the connection" },
};

const size_t nrows = sizeof(rows) / sizeof(rows[0]);

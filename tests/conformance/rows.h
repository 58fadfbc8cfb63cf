/* The functions behind the rows; what each is about stands in the table (table.c). */
#ifndef TESTS_CONFORMANCE_ROWS_H
#define TESTS_CONFORMANCE_ROWS_H

#include "tests/conformance/test.h"

/* rows_handshake.c */
void greeting(struct test *t);
void client_flags_unknown(struct test *t);
void client_flags_none(struct test *t);
void client_flags_apart(struct test *t);
void export_name_short(struct test *t);
void export_name_same(struct test *t);
void export_name_unknown(struct test *t);
void export_name_long(struct test *t);
void option_unknown(struct test *t);
void option_peek(struct test *t);
void option_large(struct test *t);
void option_huge(struct test *t);
void option_magic(struct test *t);
void option_pieces(struct test *t);
void abort_ack(struct test *t);
void abort_data(struct test *t);
void abort_gone(struct test *t);
void gone_early(struct test *t);
void list_names(struct test *t);
void list_data(struct test *t);
void list_twice(struct test *t);
void list_usable(struct test *t);
void info_export(struct test *t);
void go_enters(struct test *t);
void info_then_go(struct test *t);
void info_malformed(struct test *t);
void go_malformed(struct test *t);
void info_unknown_items(struct test *t);
void info_unknown_name(struct test *t);
void info_once(struct test *t);
void info_names(struct test *t);
void info_sizes(struct test *t);
void go_without_sizes(struct test *t);
void name_4096(struct test *t);
void name_long(struct test *t);
void name_nul(struct test *t);
void name_utf8(struct test *t);
void flags_sane(struct test *t);

/* rows_simple.c */
void read_basic(struct test *t);
void read_odd(struct test *t);
void read_large(struct test *t);
void read_too_large(struct test *t);
void read_outside(struct test *t);
void unaligned(struct test *t);
void command_unknown(struct test *t);
void flags_unknown(struct test *t);
void flags_misplaced(struct test *t);
void df_not_offered(struct test *t);
void fua_not_offered(struct test *t);
void flags_write(struct test *t);
void not_advertised(struct test *t);
void fua_everywhere(struct test *t);
void zero_length(struct test *t);
void write_basic(struct test *t);
void write_odd(struct test *t);
void write_large(struct test *t);
void write_too_large(struct test *t);
void write_outside(struct test *t);
void write_read_only(struct test *t);
void unaligned_write(struct test *t);
void flush_basic(struct test *t);
void flush_range(struct test *t);
void trim_basic(struct test *t);
void trim_outside(struct test *t);
void trim_large(struct test *t);
void cache_basic(struct test *t);
void cache_outside(struct test *t);
void zeroes_basic(struct test *t);
void zeroes_odd(struct test *t);
void zeroes_outside(struct test *t);
void zeroes_large(struct test *t);
void zeroes_fast(struct test *t);
void zeroes_fast_not_offered(struct test *t);

/* rows_order.c */
void write_again(struct test *t);
void cookies(struct test *t);
void pipeline_reads(struct test *t);
void pipeline_errors(struct test *t);
void pipeline_writes(struct test *t);
void pieces_header(struct test *t);
void pieces_payload(struct test *t);
void magic_wrong(struct test *t);
void disc_closes(struct test *t);
void disc_outstanding(struct test *t);
void disc_writes(struct test *t);
void gone_in_payload(struct test *t);
void multi_same(struct test *t);
void multi_visible(struct test *t);
void multi_flush(struct test *t);

/* rows_reply.c */
void option_no_data(struct test *t);
void option_again(struct test *t);
void option_refused_forgets_nothing(struct test *t);
void sr_export_name(struct test *t);
void read_mixed(struct test *t);
void read_mixed_odd(struct test *t);
void read_trimmed(struct test *t);
void read_chunk_sizes(struct test *t);
void error_chunks(struct test *t);
void error_text(struct test *t);
void df_basic(struct test *t);
void df_mixed(struct test *t);
void df_large(struct test *t);
void df_errors(struct test *t);
void pipeline_mixed(struct test *t);

/* rows_extended.c */
void big_edges(struct test *t);
void ext_then_structured(struct test *t);
void structured_then_ext(struct test *t);
void ext_export_name(struct test *t);
void ext_write_unflagged(struct test *t);
void ext_payload_unexpected(struct test *t);
void ext_payload_unexpected_write(struct test *t);
void ext_payload_huge(struct test *t);
void ext_read_long(struct test *t);
void ext_cache_long(struct test *t);
void ext_trim_long(struct test *t);
void ext_zeroes_long(struct test *t);
void big_zeroes(struct test *t);
void big_trim(struct test *t);
void big_cache(struct test *t);
void ext_status_long(struct test *t);
void big_status(struct test *t);
void payload_flag(struct test *t);
void payload_subsets(struct test *t);
void payload_wrong(struct test *t);
void payload_many(struct test *t);
void payload_not_offered(struct test *t);

/* rows_meta.c */
void meta_list_all(struct test *t);
void meta_list_wildcard(struct test *t);
void meta_list_one(struct test *t);
void meta_unknown_namespace(struct test *t);
void meta_unknown_leaf(struct test *t);
void meta_set_wildcard(struct test *t);
void meta_no_colon(struct test *t);
void meta_set_all(struct test *t);
void meta_set_twice(struct test *t);
void meta_set_none(struct test *t);
void meta_set_replaces(struct test *t);
void meta_set_fails(struct test *t);
void meta_set_lasts(struct test *t);
void meta_other_export(struct test *t);
void meta_unknown_export(struct test *t);
void meta_malformed(struct test *t);
void meta_many_queries(struct test *t);
void meta_long_query(struct test *t);
void status_without(struct test *t);
void status_basic(struct test *t);
void status_odd(struct test *t);
void status_walk(struct test *t);
void status_req_one(struct test *t);
void status_true(struct test *t);
void status_written(struct test *t);
void status_outside(struct test *t);
void status_zero_length(struct test *t);
void status_flags(struct test *t);
void status_pipeline(struct test *t);
void status_disc(struct test *t);
void meta_list_early(struct test *t);
void meta_set_early(struct test *t);

/* rows_tls.c */
void tls_absent(struct test *t);
void tls_data(struct test *t);
void tls_required(struct test *t);
void tls_required_export_name(struct test *t);
void tls_works(struct test *t);
void tls_1_2(struct test *t);
void tls_1_3(struct test *t);
void tls_old(struct test *t);
void tls_optional(struct test *t);
void tls_again(struct test *t);
void tls_never_required(struct test *t);
void tls_forgets_structured(struct test *t);
void tls_forgets_extended(struct test *t);
void tls_forgets_contexts(struct test *t);
void tls_injected(struct test *t);
void tls_garbage(struct test *t);
void tls_bye(struct test *t);

#endif

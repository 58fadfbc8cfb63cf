/*
 * Settings: what is asked of a server and of each export, as text through the rows, checked
 * together and all or none, at start and while running.
 *
 * The names of an export's tunables live in several tables (the export's own, its store's, its
 * elevator's, each policy's); resolving a name to a row and to the struct it is in happens here and
 * nowhere else. Nothing here locks: struct export_settings is plain memory of its owner.
 */
#ifndef SERVER_EXPORT_SETTINGS_H
#define SERVER_EXPORT_SETTINGS_H

#include "sched/elevator.h"
#include "server/export/export.h"
#include "server/store/store.h"

/*
 * Settings of the server. Times in ns, sizes in bytes. Constant once the server runs, but for those
 * whose rows say otherwise: server_set_params.
 */
struct server_params {
	char **listen;              /* server/export/endpoint.h; NULL: none */
	char **unix_sockets;        /* likewise */
	char *control;              /* path; NULL: the default */
	uint64_t threads;           /* TUNABLE_AUTO: one per processor */
	uint64_t handshake_timeout;
	uint64_t stall_timeout;
	uint64_t drain_timeout;
	uint64_t keepalive;
	uint64_t user_timeout;      /* 0: the kernel's */
	uint64_t max_connections;
	uint64_t memory;
	uint64_t tls;               /* 0 off, 1 allow, 2 require */
	char *tls_certificates;     /* a folder */
	char *tls_psk;              /* a file */
	uint64_t tls_verify_peer;
	char *default_export;
	char *user, *group;
	char *pid_file;
	uint64_t log;               /* enum log_level */
};

/* Their rows, ended by a row without a name. */
extern const struct tunable server_rows[];

/* All settings of one export. */
struct export_settings {
	struct export_params export;
	struct store_params store;
	struct elv_params elv;
	/* By position in elv_policies; of a running export the elevator's own. */
	void *policy[ELV_MAX_POLICIES];
};

/* All defaults. 0 or -ENOMEM, with nothing to free. */
int export_settings_init(struct export_settings *st);

/* Copy with strings of its own. 0 or -ENOMEM, with nothing to free. */
int export_settings_copy(struct export_settings *dst, const struct export_settings *src);

/* Free everything that export_settings_init made. NULL is fine. */
void export_settings_free(struct export_settings *st);

/* The policy that the settings name. */
const struct elv_policy *export_settings_policy(const struct export_settings *st);

/* A row that a name stands for, and the struct that has its value. */
struct setting_place {
	const struct tunable *row;
	void *base;
	const struct elv_policy *policy; /* whose it is; NULL: none's */
};

/*
 * What `name` means while `policy` is in use. -ENOENT: nothing; the sentence in err has a hint: a
 * name that is nearly the same, or POLICY.NAME where another policy has it.
 */
int export_resolve(struct export_settings *st, const struct elv_policy *policy, const char *name,
		   struct setting_place *out, char *err, size_t errlen);

/*
 * Check n settings and add them to changes (zeroed but for `when`); the scheduler is settled first,
 * wherever it stands, and returned in *policy, changed or not. Nothing is committed. 0, or a
 * negative errno with *err filled; changes are then to be freed as they are.
 */
int export_check(struct export_settings *st, const struct setting *set, size_t n,
		 struct tunable_changes *changes, const struct elv_policy **policy,
		 struct setting_error *err);

/* For the last step of set-up: check and commit. */
int export_settings_set(struct export_settings *st, const struct setting *set, size_t n,
			struct setting_error *err);

/* Fill err for a setting that tunable_parse and the like refused with `text`. */
void setting_blame(struct setting_error *err, const struct setting *s, const struct tunable *row,
		   const char *text);

#endif

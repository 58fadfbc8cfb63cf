/*
 * nbdkit-lift-plugin.so: nbdkit's callbacks. Parameters in params.h, requests through the gate
 * (gate.h), the control socket in host.h.
 */
#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "plugin/gate.h"
#include "plugin/host.h"
#include "plugin/params.h"
#include "server/export/registry.h"

#define THREAD_MODEL NBDKIT_THREAD_MODEL_PARALLEL

/* What nbdkit itself takes: the largest request with data, preferred size, and description. */
enum { MOST_DATA = 64 << 20, MOST_PREFERRED = 32 << 20, MOST_TEXT = 4096 };

static struct params params;
static struct export_settings settings;
static bool has_settings, has_server;
static struct server server;
static struct export *export;
static struct gate gate;
static struct host *host;
static char not_writable[2 * TUNABLE_ERR_MAX]; /* why the image is open for reading only; or "" */

/* ---- starting and stopping ---- */

/* nbdkit goes to another folder before it serves, and the file may have to be found again. */
static int add_path(const char *name, const char *value, char *err, size_t errlen)
{
	char *path = nbdkit_absolute_path(value);
	int res = path ? params_add(&params, name, path, err, errlen) : -ENOMEM;

	if (!path)
		snprintf(err, errlen, "out of memory");
	free(path);
	return res;
}

static int lift_config(const char *key, const char *value)
{
	bool is_path = !strcmp(key, "path") && strcmp(value, "null:") && !client_option_is(value);
	bool is_control = !strcmp(key, "control");
	char err[2 * TUNABLE_ERR_MAX];
	int res = *value && (is_path || is_control) ?
			  add_path(key, value, err, sizeof(err)) :
			  params_add(&params, key, value, err, sizeof(err));

	if (res)
		nbdkit_error("%s", err);
	return res ? -1 : 0;
}

static int lift_config_complete(void)
{
	char err[2 * TUNABLE_ERR_MAX];

	if (params_check(&params, &settings, err, sizeof(err))) {
		nbdkit_error("%s", err);
		return -1;
	}
	has_settings = true;
	return 0;
}

static int init_server(void)
{
	const struct tunable *memory = tunable_find(server_rows, "memory");
	struct server_params p;

	if (tunable_defaults(server_rows, &p))
		return -ENOMEM;
	/* Data is in nbdkit's memory, which nobody can limit here. */
	tunable_set_num(memory, &p, memory->max * tunable_unit_factor(memory->unit));
	if (server_init(&server, &p)) {
		tunable_free(server_rows, &p);
		return -ENOMEM;
	}
	tunable_free(server_rows, &p);
	server.serial_slices = true;
	has_server = true;
	return 0;
}

/*
 * With nbdkit -r an image that may not be written to will do, but nbdkit tells of its -r
 * only when clients come: without it they are refused then.
 */
static int open_export(char *err, size_t errlen)
{
	int res = export_open(&server, &settings, &export, err, errlen);

	if ((res != -EACCES && res != -EPERM && res != -EROFS) || settings.store.readonly)
		return res;
	snprintf(not_writable, sizeof(not_writable), "%s", err);
	settings.store.readonly = 1;
	return export_open(&server, &settings, &export, err, errlen);
}

static void request_stop(void *ctx)
{
	(void)ctx;
	nbdkit_shutdown();
}

static int lift_get_ready(void)
{
	char err[2 * TUNABLE_ERR_MAX] = "out of memory";
	struct setting_error wrong;
	int res = init_server();

	for (size_t i = 0; i < params.nclient && !res; i++) {
		res = server_add_rule(&server, params.client[i].match, &params.client[i].set, 1,
				      &wrong);
		if (res)
			snprintf(err, sizeof(err), "%s", wrong.text);
	}
	if (!res)
		res = open_export(err, sizeof(err));
	if (!res) {
		server.stop = request_stop;
		gate_init(&gate, export);
		res = host_open(&gate, params.control, &host, err, sizeof(err));
		if (res && params.control) {
			nbdkit_error("control socket: %s", err);
			return -1;
		}
	}
	if (res) {
		nbdkit_error("%s", err);
		return -1;
	}
	if (export->store->notice[0])
		fprintf(stderr, "nbdkit: lift: %s\n", export->store->notice);
	return 0;
}

static int lift_after_fork(void)
{
	int res = host_start(host);

	if (res)
		nbdkit_error("cannot start a thread: %s", strerror(-res));
	return res ? -1 : 0;
}

static void end_host(void)
{
	host_close(host);
	host = NULL;
}

/* All requests have returned. What was written may not be durable yet: as in liftd, it is now. */
static void lift_cleanup(void)
{
	int error;

	end_host();
	error = export_flush(export);
	if (error)
		nbdkit_error("the last flush failed, writes may be lost: %s", strerror(-error));
}

/* ---- connections ---- */

struct conn {
	struct gate_conn gate; /* first */
};

/*
 * Who is at the other end, as far as nbdkit can tell: on stdin and stdout nobody is. What name it
 * has proved by TLS it does not say.
 */
static void find_peer(struct client_peer *peer)
{
	struct sockaddr_storage addr = { .ss_family = AF_UNSPEC };
	socklen_t len = sizeof(addr);
	int64_t uid, gid, pid;

	if (nbdkit_peer_name((struct sockaddr *)&addr, &len))
		addr.ss_family = AF_UNSPEC;
	client_peer_init(peer, (struct sockaddr *)&addr);
	if (addr.ss_family != AF_UNIX)
		return;
	uid = nbdkit_peer_uid();
	gid = nbdkit_peer_gid();
	pid = nbdkit_peer_pid();
	peer->has_uid = uid >= 0 && gid >= 0;
	peer->uid = peer->has_uid ? (uid_t)uid : 0;
	peer->gid = peer->has_uid ? (gid_t)gid : 0;
	peer->pid = pid > 0 ? (pid_t)pid : 0;
}

static void *lift_open(int readonly)
{
	const char *name = nbdkit_export_name();
	char err[TUNABLE_ERR_MAX];
	struct client_peer peer;
	struct conn *c;

	if (name && *name && strcmp(name, export->name)) {
		nbdkit_error("there is no export '%.200s'; the only one is '%s'", name,
			     export->name);
		return NULL;
	}
	if (!readonly && not_writable[0]) {
		nbdkit_error("%s", not_writable);
		return NULL;
	}
	c = calloc(1, sizeof(*c));
	if (!c) {
		nbdkit_error("out of memory");
		return NULL;
	}
	find_peer(&peer);
	peer.readonly = readonly;
	if (gate_open(&gate, &peer, &c->gate, err, sizeof(err))) {
		nbdkit_error("%s", err);
		free(c);
		return NULL;
	}
	return c;
}

static void lift_close(void *handle)
{
	struct conn *c = handle;

	gate_close(&c->gate);
	free(c);
}

/* NULL: there is none. */
static const char *description(void)
{
	char text[MOST_TEXT + 1];

	export_description(export, text, sizeof(text));
	return *text ? nbdkit_strdup_intern(text) : NULL;
}

static int lift_list_exports(int readonly, int is_tls, struct nbdkit_exports *exports)
{
	char err[TUNABLE_ERR_MAX];
	struct client_peer peer;
	struct export_use use;

	(void)readonly;
	(void)is_tls;
	find_peer(&peer);
	if (export_permits(export, &peer, &use, err, sizeof(err)))
		return 0;
	return nbdkit_add_export(exports, export->name, description());
}

static const char *lift_default_export(int readonly, int is_tls)
{
	(void)readonly;
	(void)is_tls;
	return export->name;
}

static const char *lift_export_description(void *handle)
{
	(void)handle;
	return description();
}

/* ---- what the export can do ---- */

static const struct store_geometry *geometry(void)
{
	return &export->store->geometry;
}

static int64_t lift_get_size(void *handle)
{
	(void)handle;
	return (int64_t)geometry()->size;
}

static int lift_block_size(void *handle, uint32_t *minimum, uint32_t *preferred, uint32_t *maximum)
{
	(void)handle;
	*minimum = 1;
	*preferred = geometry()->preferred < MOST_PREFERRED ? geometry()->preferred :
							      MOST_PREFERRED;
	*maximum = MOST_DATA;
	return 0;
}

static int lift_can_write(void *handle)
{
	return !((struct conn *)handle)->gate.seat.use.readonly;
}

static int lift_can_flush(void *handle)
{
	(void)handle;
	return 1;
}

/* Clients would sort, too; here is the elevator for that. */
static int lift_is_rotational(void *handle)
{
	(void)handle;
	return 0;
}

static int lift_can_trim(void *handle)
{
	(void)handle;
	return store_can(export->store, STORE_CAN_TRIM);
}

static int lift_can_zero(void *handle)
{
	(void)handle;
	return 1;
}

static int lift_can_fast_zero(void *handle)
{
	(void)handle;
	return store_can(export->store, STORE_CAN_FAST_ZERO);
}

static int lift_can_fua(void *handle)
{
	(void)handle;
	return NBDKIT_FUA_NATIVE;
}

static int lift_can_multi_conn(void *handle)
{
	return geometry()->multi_conn && !((struct conn *)handle)->gate.seat.use.alone;
}

static int lift_can_cache(void *handle)
{
	(void)handle;
	return store_can(export->store, STORE_CAN_CACHE) ? NBDKIT_CACHE_NATIVE : NBDKIT_CACHE_NONE;
}

static int lift_can_extents(void *handle)
{
	(void)handle;
	return 1;
}

/* ---- requests ---- */

static int fail(const char *what, uint64_t offset, uint64_t length, int error)
{
	if (error != -ENOTSUP) /* which is the right answer to a fast zero */
		nbdkit_error("%s, %llu bytes at %llu: %s", what, (unsigned long long)length,
			     (unsigned long long)offset, strerror(-error));
	nbdkit_set_error(-error);
	return -1;
}

static int pass(void *handle, enum elv_op op, const char *what, unsigned flags, const void *data,
		uint64_t offset, uint32_t length)
{
	struct conn *c = handle;
	int error = gate_execute(&c->gate, op, flags, (char *)data, offset, length);

	return error ? fail(what, offset, length, error) : 0;
}

static unsigned fua(uint32_t flags)
{
	return flags & NBDKIT_FLAG_FUA ? ELV_FUA : 0;
}

static int lift_pread(void *handle, void *buf, uint32_t count, uint64_t offset, uint32_t flags)
{
	(void)flags;
	return pass(handle, ELV_READ, "read", 0, buf, offset, count);
}

static int lift_pwrite(void *handle, const void *buf, uint32_t count, uint64_t offset,
		       uint32_t flags)
{
	return pass(handle, ELV_WRITE, "write", fua(flags), buf, offset, count);
}

static int lift_flush(void *handle, uint32_t flags)
{
	struct conn *c = handle;
	int error = gate_execute(&c->gate, ELV_FLUSH, 0, NULL, 0, 0);

	(void)flags;
	if (!error)
		return 0;
	nbdkit_error("flush: %s", strerror(-error));
	nbdkit_set_error(-error);
	return -1;
}

static int lift_trim(void *handle, uint32_t count, uint64_t offset, uint32_t flags)
{
	return pass(handle, ELV_TRIM, "trim", fua(flags), NULL, offset, count);
}

static int lift_zero(void *handle, uint32_t count, uint64_t offset, uint32_t flags)
{
	unsigned f = fua(flags) | (flags & NBDKIT_FLAG_MAY_TRIM ? 0 : ELV_NO_HOLE) |
		     (flags & NBDKIT_FLAG_FAST_ZERO ? ELV_FAST_ZERO : 0);

	return pass(handle, ELV_ZERO, "zero", f, NULL, offset, count);
}

static int lift_cache(void *handle, uint32_t count, uint64_t offset, uint32_t flags)
{
	(void)flags;
	return pass(handle, ELV_CACHE, "cache", 0, NULL, offset, count);
}

/* Through the gate like all else. It may stop early; nbdkit asks again for the rest. */
static int lift_extents(void *handle, uint32_t count, uint64_t offset, uint32_t flags,
			struct nbdkit_extents *extents)
{
	enum { MANY = 1024 };
	struct elv_status *status = calloc(1, sizeof(*status) + MANY * sizeof(struct elv_extent));
	int res;

	if (!status)
		return fail("extents", offset, count, -ENOMEM);
	status->max = flags & NBDKIT_FLAG_REQ_ONE ? 1 : MANY;
	res = pass(handle, ELV_STATUS, "extents", 0, (char *)status, offset, count);
	for (uint32_t i = 0; !res && i < status->n; i++) {
		const struct elv_extent *e = &status->extent[i];

		res = nbdkit_add_extent(extents, offset, e->length,
					e->hole ? NBDKIT_EXTENT_HOLE | NBDKIT_EXTENT_ZERO : 0);
		offset += e->length;
	}
	free(status);
	return res;
}

/* ---- the end, and what there is to tell ---- */

static char *help;

/*
 * When it is told to stop, nbdkit waits until all clients have gone, but does not close their
 * connections.
 */
static void lift_unload(void)
{
	end_host();
	while (export && !TAILQ_EMPTY(&gate.conns))
		lift_close(TAILQ_FIRST(&gate.conns));
	if (has_server)
		server_exit(&server);
	if (has_settings)
		export_settings_free(&settings);
	params_free(&params);
	free(help);
}

static void lift_dump_plugin(void)
{
	params_dump(stdout);
}

/* ---- the table ---- */

static struct nbdkit_plugin plugin = {
	.name = "lift",
	.longname = "nbdkit lift plugin",
	.version = LIFTD_VERSION,
	.description = "serve a file or block device through an I/O scheduler that is fair to all "
		       "clients",
	.magic_config_key = "path",
	.unload = lift_unload,
	.dump_plugin = lift_dump_plugin,
	.config = lift_config,
	.config_complete = lift_config_complete,
	.get_ready = lift_get_ready,
	.after_fork = lift_after_fork,
	.cleanup = lift_cleanup,
	.list_exports = lift_list_exports,
	.default_export = lift_default_export,
	.open = lift_open,
	.close = lift_close,
	.export_description = lift_export_description,
	.get_size = lift_get_size,
	.block_size = lift_block_size,
	.can_write = lift_can_write,
	.can_flush = lift_can_flush,
	.is_rotational = lift_is_rotational,
	.can_trim = lift_can_trim,
	.can_zero = lift_can_zero,
	.can_fast_zero = lift_can_fast_zero,
	.can_fua = lift_can_fua,
	.can_multi_conn = lift_can_multi_conn,
	.can_cache = lift_can_cache,
	.can_extents = lift_can_extents,
	.pread = lift_pread,
	.pwrite = lift_pwrite,
	.flush = lift_flush,
	.trim = lift_trim,
	.zero = lift_zero,
	.cache = lift_cache,
	.extents = lift_extents,
};

/* nbdkit copies the table as soon as it has it; the help is to be there by then. */
__attribute__((constructor)) static void write_help(void)
{
	help = params_help();
	plugin.config_help = help;
}

NBDKIT_REGISTER_PLUGIN(plugin)

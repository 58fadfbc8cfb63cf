/*
 * liftd: settings from the command line and the configuration (server/liftd/config.h); then the
 * images are opened, the sockets, and the server runs (server/net/service.h).
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "server/liftd/config.h"
#include "server/liftd/options.h"
#include "server/liftd/reload.h"
#include "server/net/log.h"
#include "server/net/service.h"

/*
 * Is the fault the image's, rather than that of a setting? Stores say -EINVAL for both; what
 * cannot be an image whatever the settings are is told apart here.
 */
static bool is_no_image(const char *path)
{
	struct stat st;

	if (!*path || !strcmp(path, "null:"))
		return false;
	if (stat(path, &st))
		return true;
	return S_ISREG(st.st_mode) ? st.st_size == 0 : !S_ISBLK(st.st_mode);
}

static int open_exports(struct service *s, const struct config *c)
{
	char err[2 * TUNABLE_ERR_MAX];
	struct export *e;

	for (size_t i = 0; i < c->nexports; i++) {
		const struct config_export *want = &c->exports[i];
		struct conf_place place = config_export_place(want);
		int res = export_open(&s->server, &want->settings, &e, err, sizeof(err));

		if (res) {
			if (place.file)
				log_error("%s:%u: %s", place.file, place.line, err);
			else
				log_error("%s", err);
			if (res != -EINVAL && res != -EEXIST)
				return SERVICE_BROKEN;
			return is_no_image(want->settings.store.path) ? SERVICE_BROKEN :
									SERVICE_MISUSED;
		}
		if (e->store->notice[0])
			log_info("export '%s': %s", e->name, e->store->notice);
	}
	return 0;
}

static int serve(const struct options *o, struct config *c)
{
	static struct service service; /* reachable, if threads have to be left behind */
	struct reload reload = { .service = &service, .options = o };
	char err[2 * TUNABLE_ERR_MAX] = "";
	int status;

	log_set_level((enum log_level)c->server.log);
	if (service_init(&service, &c->server)) {
		log_error("cannot set up: %s", strerror(errno));
		return SERVICE_BROKEN;
	}
	if (o->config) {
		service.reload = reload_config;
		service.reload_ctx = &reload;
	}
	server_swap_rules(&service.server, &c->rules);
	service_set_tls(&service, c->tls);
	c->tls = NULL;
	status = open_exports(&service, c);
	if (!status) {
		status = service_start(&service, err, sizeof(err));
		if (status)
			log_error("%s", err);
	}
	if (!status)
		status = service_run(&service);
	service_exit(&service);
	return status;
}

/* With --check as compilers do it, for editors. */
static void say_error(void *ctx, const char *text)
{
	const struct options *o = ctx;

	if (o->check)
		fprintf(stderr, "%s\n", text);
	else
		log_error("%s", text);
}

static int dump(const struct config *c)
{
	char err[TUNABLE_ERR_MAX];
	int res = config_dump(c, stdout, err, sizeof(err));

	if (!res)
		return SERVICE_STOPPED;
	log_error("%s", err);
	return res == -EINVAL ? SERVICE_MISUSED : SERVICE_BROKEN;
}

static int check(const struct options *o, const struct config *c)
{
	printf("%s: nothing is wrong, %zu export%s\n", o->config ? o->config : "liftd",
	       c->nexports, c->nexports == 1 ? "" : "s");
	return fflush(stdout) ? SERVICE_BROKEN : SERVICE_STOPPED;
}

int main(int argc, char **argv)
{
	static struct options options;
	static struct config config;
	int status = options_collect(&options, argc, argv);

	if (status)
		return status;
	status = config_load(&config, &options);
	if (status)
		config_each_error(&config, say_error, &options);
	else if (options.dump)
		status = dump(&config);
	else if (options.check)
		status = check(&options, &config);
	else
		status = serve(&options, &config);
	config_free(&config);
	return status;
}

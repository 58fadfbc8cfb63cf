/*
 * What the server is to be: a configuration file with [server], [export NAME] and [client MATCH],
 * or images of the command line, and then its options, which take the place of what the file says.
 * Everything is checked together, and all that is wrong is found at once.
 *
 * Nothing here opens an image or a socket; keys and certificates are read. The main thread's.
 */
#ifndef SERVER_LIFTD_CONFIG_H
#define SERVER_LIFTD_CONFIG_H

#include <stdio.h>

#include "conf/conf.h"
#include "server/export/rules.h"
#include "server/export/settings.h"
#include "server/liftd/options.h"
#include "server/net/tls.h"

struct config_export {
	struct export_settings settings;    /* with a name */
	const struct conf_section *section; /* NULL: an image of the command line */
};

struct config {
	struct conf file;                   /* its errors are those of the options as well */
	struct server_params server;
	struct config_export *exports;      /* nexports of them, in the order of the file */
	size_t nexports;
	struct rules rules;
	struct tls_context *tls;            /* a reference; NULL: tls is off */
};

/*
 * Load the file that the options name, if they do, and put everything together. 0, or an exit
 * status, with sentences in config_each_error. config_free is due in any case.
 */
int config_load(struct config *c, const struct options *o);
void config_free(struct config *c);

/* Call fn for each thing that is wrong: "FILE:LINE: NAME: what was expected". */
void config_each_error(const struct config *c, void (*fn)(void *ctx, const char *text), void *ctx);

/*
 * Write all settings as one configuration file, which loads to the same. 0, or with a sentence in
 * err: -EINVAL, something cannot be written there; -EIO.
 */
int config_dump(const struct config *c, FILE *f, char *err, size_t errlen);

/* --- sections.c, for config.c --- */

/* The kinds of sections there are. */
const struct conf_kind *config_kinds(void);

/* From a file that was read: sections to settings, whatever else is wrong. 0 or -ENOMEM. */
int config_take_sections(struct config *c);

/* Where the export's path is set, or its section begins; no file: neither. */
struct conf_place config_export_place(const struct config_export *e);

#endif

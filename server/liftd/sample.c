/*
 * A program for the build: writes a configuration in which everything that can be set stands behind
 * a #, with its default and its meaning, from the rows.
 */
#include <stdio.h>

#include "conf/conf.h"
#include "server/export/settings.h"

static int write_rows(const char *prefix, const struct tunable *rows)
{
	char err[TUNABLE_ERR_MAX];
	int res = conf_write_rows(stdout, prefix, rows, NULL, CONF_COMMENTED | CONF_HELP, err,
				  sizeof(err));

	if (res)
		fprintf(stderr, "conf-sample: %s\n", err);
	return res;
}

static int write_export(void)
{
	int res;

	puts("\n# One section for each export; NAME is what clients ask for.\n#[export NAME]");
	res = write_rows(NULL, export_rows) || write_rows(NULL, store_rows) ||
	      write_rows(NULL, elv_rows);
	for (unsigned i = 0; !res && elv_policies[i]; i++) {
		if (!elv_policies[i]->rows->name)
			continue;
		printf("\n# Scheduler %s: %s. In an export that has this scheduler, NAME stands "
		       "for %s.NAME.\n",
		       elv_policies[i]->name, elv_policies[i]->help, elv_policies[i]->name);
		res = write_rows(elv_policies[i]->name, elv_policies[i]->rows);
	}
	return res;
}

static const char head[] =
	"# Configuration of liftd: all that can be set, with the defaults. Copy what you need to\n"
	"# /etc/liftd/liftd.conf, without the #, and try it with liftd --check.\n"
	"#\n"
	"# One setting a line, NAME = VALUE; a value goes to the end of its line. A bare number\n"
	"# has the unit shown; ns us ms s, and K M G (powers of 1024) and s (512-byte sectors)\n"
	"# behind it are accepted. Options of the command line take the place of settings here.\n"
	"\n";

static const char client_head[] =
	"\n"
	"# One section for clients that MATCH: ip:10.0.0.7, ip:10.0.0.0/8, uid:1000, pid:4711,\n"
	"# export:NAME, or the beginning of such a name and *. The longest match wins.\n"
	"#[client MATCH]\n";

int main(void)
{
	fputs(head, stdout);
	conf_write_heading(stdout, "server", NULL, true);
	if (write_rows(NULL, conf_rows) || write_rows(NULL, server_rows) || write_export())
		return 1;
	fputs(client_head, stdout);
	return write_rows(NULL, elv_client_rows) || fflush(stdout) || ferror(stdout);
}

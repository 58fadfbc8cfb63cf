/* Between the files of this folder. */
#ifndef CONF_INTERNAL_H
#define CONF_INTERNAL_H

#include <sys/types.h>

#include "conf/conf.h"

/* A file that was read, or is being read. */
struct conf_file {
	char *name;
	dev_t dev;                   /* dev and ino: both 0 for a text in memory */
	ino_t ino;
	struct conf_place includer;  /* the line that includes it; file NULL: none */
	struct conf_file *parent;    /* while it is being read; then and for the first one: NULL */
	bool reading;
	unsigned depth;
	TAILQ_ENTRY(conf_file) link;
};

/* Nothing more is to be read: too many errors, or no memory. */
bool conf_is_full(const struct conf *c);

/* read.c: the file and what it includes, not checked yet. 0, or why the file could not be read. */
int conf_read_file(struct conf *c, const char *path, const struct conf_kind *kinds);
int conf_read_text(struct conf *c, const char *name, const char *text, size_t len,
		   const struct conf_kind *kinds);

#endif

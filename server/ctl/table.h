/*
 * Aligned tables for people, and numbers in units that people read.
 */
#ifndef SERVER_CTL_TABLE_H
#define SERVER_CTL_TABLE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { TABLE_COLUMNS = 16, TABLE_CELL = 160 };

struct table;

/*
 * A table with these headings, NULL-terminated, at most TABLE_COLUMNS; one that begins with '>' is
 * of a column that is aligned to the right. headings must stay. NULL without memory; all other
 * calls accept NULL,so that only table_write need tell.
 */
struct table *table_new(const char *const *headings);

/* The next cell of the row: copied, control characters replaced, cut to TABLE_CELL bytes. */
void table_cell(struct table *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* A line of its own, across the columns. */
void table_line(struct table *t, const char *text);

/* Print to f or to stdout, and free. -1 if memory was short: a part is missing. */
int table_write(struct table *t, FILE *f);
int table_print(struct table *t);

/* Free what is not printed. */
void table_free(struct table *t);

/* Replace control characters, which a terminal would obey, in foreign text. Returns s. */
char *text_clean(char *s);

/* Room for what the functions below write; they return buf. */
enum { HUMAN_MAX = 32 };

/* "0", "512 B", "64 MiB", "1.5 GiB": three digits, rounded. */
const char *human_bytes(uint64_t n, char buf[HUMAN_MAX]);

/* "0", "850 us", "12.3 ms", "4.56 s", "12 min". */
const char *human_ns(uint64_t ns, char buf[HUMAN_MAX]);

#endif

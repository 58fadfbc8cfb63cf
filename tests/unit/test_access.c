/*
 * Access lists: what the parser takes and refuses, and the decision, against a model that is
 * written down as the manual says it.
 */
#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/export/access.h"
#include "tests/unit/suite.h"

static char err[TUNABLE_ERR_MAX];

static struct client_peer tcp(const char *address)
{
	struct client_peer p = { .kind = PEER_TCP };

	snprintf(p.address, sizeof(p.address), "%s", address);
	return p;
}

static struct client_peer tls(const char *address, const char *name)
{
	struct client_peer p = tcp(address);

	p.secure = true;
	snprintf(p.name, sizeof(p.name), "%s", name);
	return p;
}

static struct client_peer local(uid_t uid, gid_t gid)
{
	return (struct client_peer){ .kind = PEER_UNIX, .has_uid = true, .uid = uid, .gid = gid };
}

/* What the list permits, and the entry that says so ("": none). */
static void permits(const char *list, struct client_peer peer, enum access want, const char *entry)
{
	struct access_list *l;
	const char *why;
	enum access got;

	ck_assert_msg(!access_parse(list, &l, err, sizeof(err)), "%s: %s", list, err);
	got = access_of(l, &peer, &why);
	ck_assert_msg(got == want, "'%s': %d instead of %d", list, got, want);
	if (entry)
		ck_assert_str_eq(why ? why : "", entry);
	access_free(l);
}

START_TEST(lists)
{
	struct client_peer member = local(1000, 100);
	gid_t groups[] = { 24, 25 };

	permits("", tcp("10.0.0.1"), ACCESS_WRITE, "");
	permits("* ro", tcp("10.0.0.1"), ACCESS_READ, "* ro");
	permits("uid:0 rw", tcp("10.0.0.1"), ACCESS_NONE, "");
	permits("ip:10.0.0.0/8 rw", tcp("10.255.0.1"), ACCESS_WRITE, "ip:10.0.0.0/8 rw");
	permits("ip:10.0.0.0/8 rw", tcp("11.0.0.1"), ACCESS_NONE, "");
	/* The longest prefix, whatever the order. */
	permits("ip:10.0.0.0/8 rw, ip:10.1.0.0/16 no, ip:10.1.2.3 ro", tcp("10.1.9.9"),
		ACCESS_NONE, "ip:10.1.0.0/16 no");
	permits("ip:10.1.2.3 ro,ip:10.1.0.0/16 no,ip:10.0.0.0/8 rw", tcp("10.1.2.3"), ACCESS_READ,
		"ip:10.1.2.3 ro");
	permits("ip:0.0.0.0/0 ro", tcp("1.2.3.4"), ACCESS_READ, NULL);
	permits("ip:0.0.0.0/0 ro", tcp("::1"), ACCESS_NONE, NULL);
	permits("ip:::/0 ro", tcp("1.2.3.4"), ACCESS_NONE, NULL);
	permits("ip:fd00::/9 rw", tcp("fd7f::1"), ACCESS_WRITE, NULL);
	permits("ip:fd00::/9 rw", tcp("fd80::1"), ACCESS_NONE, NULL);
	/* A whole name before one with an asterisk, of those the longest. */
	permits("tls:* no, tls:ba* ro, tls:backup rw", tls("::1", "backup"), ACCESS_WRITE,
		"tls:backup rw");
	permits("tls:* no, tls:ba* ro, tls:backup rw", tls("::1", "backup2"), ACCESS_READ, NULL);
	permits("tls:* no, tls:ba* ro, tls:backup rw", tls("::1", "b"), ACCESS_NONE, NULL);
	permits("tls:* rw", tcp("::1"), ACCESS_NONE, "");
	permits("tls:John  Smith   rw", tls("::1", "John  Smith"), ACCESS_WRITE, NULL);
	/* One no among the kinds is enough; else the most permissive. */
	permits("ip:10.0.0.0/8 rw, tls:mallory no", tls("10.0.0.1", "mallory"), ACCESS_NONE,
		"tls:mallory no");
	permits("ip:10.0.0.0/8 ro, tls:alice rw", tls("10.0.0.1", "alice"), ACCESS_WRITE,
		"tls:alice rw");
	permits("ip:10.0.0.0/8 no, tls:alice rw", tls("10.0.0.1", "alice"), ACCESS_NONE, NULL);
	/* Groups are equal to each other. */
	member.groups = groups;
	member.ngroups = 2;
	permits("gid:24 ro, gid:100 rw", member, ACCESS_WRITE, NULL);
	permits("gid:24 no, gid:100 rw", member, ACCESS_NONE, NULL);
	permits("gid:26 rw", member, ACCESS_NONE, NULL);
	permits("uid:1000 ro, gid:25 rw", member, ACCESS_WRITE, NULL);
	/* unix and * where no other matches. */
	permits("unix ro, * rw", member, ACCESS_READ, "unix ro");
	permits("unix rw, * no", member, ACCESS_WRITE, "unix rw");
	permits("unix no, * rw", member, ACCESS_NONE, "unix no");
	permits("unix no, uid:1000 rw, * no", member, ACCESS_WRITE, "uid:1000 rw");
	permits("unix no, * ro", tcp("::1"), ACCESS_READ, "* ro");
	permits("* no, cid:3 rw", (struct client_peer){ .kind = PEER_VSOCK, .cid = 3 },
		ACCESS_WRITE, "cid:3 rw");
	permits("cid:0 rw, uid:0 rw, gid:0 rw", tcp("10.0.0.1"), ACCESS_NONE, "");
	/* nbdkit may not know who it is. */
	permits("uid:0 rw", (struct client_peer){ .kind = PEER_UNIX }, ACCESS_NONE, "");
}
END_TEST

START_TEST(a_mapped_address_is_ipv4)
{
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6 };
	struct client_peer p;

	ck_assert_int_eq(inet_pton(AF_INET6, "::ffff:10.1.2.3", &in6.sin6_addr), 1);
	client_peer_init(&p, (struct sockaddr *)&in6);
	permits("ip:10.0.0.0/8 ro, ip:::/0 no", p, ACCESS_READ, NULL);
}
END_TEST

START_TEST(errors)
{
	static const struct {
		const char *list, *text;
	} bad[] = {
		{ " ", "'' does not say what is permitted; expected MATCH and rw, ro or no" },
		{ ",", "'' does not say" },
		{ "* rw,", "'' does not say" },
		{ "* rw,,unix ro", "'' does not say" },
		{ "rw", "'rw' does not say" },
		{ "*", "'*' does not say" },
		{ "* rwx", "'* rwx' does not say" },
		{ "* RW", "'* RW' does not say" },
		{ "*rw", "'*rw' does not say" },
		{ "* rw unix ro", "'* rw unix' matches nobody; expected ip:ADDRESS, " },
		{ "any rw", "'any' matches nobody" },
		{ "pid:1 rw", "'pid:1' matches nobody" },
		{ "unix:1 rw", "'unix:1' matches nobody" },
		{ "ip: rw", "'' is neither an address nor a network; expected ip:ADDRESS" },
		{ "ip:10.0.0.256 rw", "'10.0.0.256' is neither" },
		{ "ip:10.0.0 rw", "'10.0.0' is neither" },
		{ "ip:10.0.0.0/33 rw", "'10.0.0.0/33' is neither" },
		{ "ip:10.0.0.0/ rw", "'10.0.0.0/' is neither" },
		{ "ip:10.0.0.0/+8 rw", "'10.0.0.0/+8' is neither" },
		{ "ip:10.0.0.0/8/8 rw", "'10.0.0.0/8/8' is neither" },
		{ "ip:10.0.0.1/8 rw", "'10.0.0.1/8' has bits beyond its prefix; expected zeroes" },
		{ "ip:fd00::1/127 rw", "'fd00::1/127' has bits beyond" },
		{ "ip:::1/129 rw", "'::1/129' is neither" },
		{ "ip:fe80::1%lo rw", "'fe80::1%lo' is neither" },
		{ "ip:localhost rw", "'localhost' is neither" },
		{ "ip:::ffff:10.0.0.1 rw", "is an IPv4 address written as IPv6; expected it as" },
		{ "tls: rw", "'' is no name that a client can have; expected tls:NAME" },
		{ "tls:a*b rw", "'a*b' is no name" },
		{ "tls:** rw", "'**' is no name" },
		{ "uid: rw", "'' is not a number of a user" },
		{ "uid:root rw", "'root' is not a number" },
		{ "uid:-1 rw", "'-1' is not a number" },
		{ "gid:4294967295 rw", "expected 0..4294967294" },
		{ "cid:99999999999999999999999 rw", "is not a number" },
		{ "* rw, * rw", "'* rw' is for the same as '* rw'; expected each once" },
		{ "unix rw, unix no", "'unix no' is for the same as 'unix rw'" },
		{ "uid:7 rw, uid:007 no", "'uid:007 no' is for the same as 'uid:7 rw'" },
		{ "ip:10.0.0.1 rw, ip:10.0.0.1/32 no", "is for the same as 'ip:10.0.0.1 rw'" },
		{ "ip:::1 rw, ip:0::1/128 no", "is for the same as 'ip:::1 rw'" },
		{ "tls:a rw, tls:b rw, tls:a ro", "'tls:a ro' is for the same as 'tls:a rw'" },
	};
	struct access_list *l;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		err[0] = '\0';
		ck_assert_msg(access_parse(bad[i].list, &l, err, sizeof(err)) == -EINVAL, "'%s'",
			      bad[i].list);
		ck_assert_msg(strstr(err, bad[i].text), "'%s': %s", bad[i].list, err);
		ck_assert_ptr_null(l);
		ck_assert_int_eq(access_check(bad[i].list, err, sizeof(err)), -EINVAL);
	}
	/* Alike, but not the same. */
	ck_assert_int_eq(access_check("tls:a* rw, tls:a no, ip:10.0.0.0/8 rw, ip:10.0.0.0/9 ro,"
				      "uid:1 rw,gid:1 rw,cid:1 rw,unix rw,* rw", err, sizeof(err)), 0);
}
END_TEST

/* ---- against a model ---- */

static unsigned next(unsigned *seed, unsigned n)
{
	*seed = *seed * 1103515245 + 12345;
	return (*seed >> 16) % n;
}

struct line {
	char kind; /* i t u g c x * */
	unsigned value, bits;
	bool star;
	int access;
};

/* Small worlds, so that much matches: addresses are 10.0.0.0 to 10.0.0.15, names over {a, b}. */
static bool name_begins(const char *name, const struct line *l, char text[8])
{
	unsigned len = l->bits;

	for (unsigned i = 0; i < len; i++)
		text[i] = l->value >> i & 1 ? 'b' : 'a';
	text[len] = '\0';
	return l->star ? *name && !strncmp(name, text, len) : !strcmp(name, text);
}

static struct line random_line(unsigned *seed)
{
	struct line l = { .kind = "itugcx*"[next(seed, 7)], .access = (int)next(seed, 3) };

	l.value = next(seed, 4);
	if (l.kind == 'i') {
		l.bits = 28 + next(seed, 5);
		l.value = next(seed, 16) & ~((1u << (32 - l.bits)) - 1);
	} else if (l.kind == 't') {
		l.star = next(seed, 2);
		l.bits = next(seed, 3) + !l.star;
		l.value &= (1u << l.bits) - 1;
	} else if (l.kind == 'x' || l.kind == '*') {
		l.value = 0;
	}
	return l;
}

static void write_line(const struct line *l, char *out)
{
	static const char *const words[] = { "no", "ro", "rw" };
	char name[8];

	switch (l->kind) {
	case 'i':
		sprintf(out, "ip:10.0.0.%u/%u", l->value, l->bits);
		break;
	case 't':
		name_begins("", l, name);
		sprintf(out, "tls:%s%s", name, l->star ? "*" : "");
		break;
	case 'u':
		sprintf(out, "uid:%u", l->value);
		break;
	case 'g':
		sprintf(out, "gid:%u", l->value);
		break;
	case 'c':
		sprintf(out, "cid:%u", l->value);
		break;
	default:
		strcpy(out, l->kind == 'x' ? "unix" : "*");
	}
	sprintf(out + strlen(out), " %s", words[l->access]);
}

/* How specific a match it is: 0 none. */
static unsigned model_match(const struct line *l, const struct client_peer *p)
{
	unsigned last = 0;
	char name[8];

	switch (l->kind) {
	case 'i':
		if (p->kind != PEER_TCP)
			return 0;
		last = (unsigned)atoi(strrchr(p->address, '.') + 1);
		return last >> (32 - l->bits) == l->value >> (32 - l->bits) ? l->bits : 0;
	case 't':
		if (!name_begins(p->name, l, name))
			return 0;
		return l->star ? 1 + l->bits : 1000;
	case 'u':
		return p->kind == PEER_UNIX && p->uid == l->value;
	case 'g':
		return p->kind == PEER_UNIX &&
		       (p->gid == l->value || (p->ngroups && p->groups[0] == l->value));
	case 'c':
		return p->kind == PEER_VSOCK && p->cid == l->value;
	case 'x':
		return p->kind == PEER_UNIX;
	}
	return 1;
}

static int model(const struct line *lines, unsigned n, const struct client_peer *p)
{
	int most = -1;

	for (const char *kinds = "itugc"; *kinds; kinds++) {
		unsigned best = 0;

		for (unsigned i = 0; i < n; i++)
			if (lines[i].kind == *kinds && model_match(&lines[i], p) > best)
				best = model_match(&lines[i], p);
		for (unsigned i = 0; best && i < n; i++) {
			if (lines[i].kind != *kinds || model_match(&lines[i], p) != best)
				continue;
			if (!lines[i].access)
				return ACCESS_NONE;
			most = lines[i].access > most ? lines[i].access : most;
		}
	}
	for (const char *kinds = "x*"; *kinds && most < 0; kinds++)
		for (unsigned i = 0; i < n; i++)
			if (lines[i].kind == *kinds && model_match(&lines[i], p))
				most = lines[i].access;
	return most < 0 ? ACCESS_NONE : most;
}

START_TEST(as_the_model_says)
{
	unsigned seed = 7, permitted = 0, good = 0;

	for (unsigned round = 0; round < 20000; round++) {
		struct client_peer p = { .kind = next(&seed, 3) };
		unsigned n = 1 + next(&seed, 7);
		gid_t group = next(&seed, 4);
		struct access_list *l;
		struct line lines[8];
		char text[400] = "";

		for (unsigned i = 0; i < n; i++) {
			lines[i] = random_line(&seed);
			write_line(&lines[i], text + strlen(text));
			if (i + 1 < n)
				strcat(text, next(&seed, 2) ? ", " : ",");
		}
		snprintf(p.address, sizeof(p.address), "10.0.0.%u", next(&seed, 16));
		for (unsigned i = next(&seed, 4); i; i--)
			p.name[i - 1] = "ab"[next(&seed, 2)];
		p.has_uid = p.kind == PEER_UNIX;
		p.uid = next(&seed, 4);
		p.gid = next(&seed, 4);
		p.groups = &group;
		p.ngroups = next(&seed, 2);
		p.cid = next(&seed, 4);
		if (access_parse(text, &l, err, sizeof(err))) {
			/* That has happened by chance. */
			ck_assert_msg(strstr(err, "is for the same as"), "%s: %s", text, err);
			continue;
		}
		good++;
		permitted += access_of(l, &p, NULL) != ACCESS_NONE;
		ck_assert_msg((int)access_of(l, &p, NULL) == model(lines, n, &p),
			      "'%s': kind %d, %s, '%s', uid %u: %d instead of %d", text, p.kind,
			      p.address, p.name, p.uid, access_of(l, &p, NULL),
			      model(lines, n, &p));
		access_free(l);
	}
	ck_assert_uint_gt(good, 5000);
	ck_assert_uint_gt(permitted, good / 5);
	ck_assert_uint_lt(permitted, good - good / 5);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("access");
	TCase *tc = tcase_create("access");

	tcase_add_test(tc, lists);
	tcase_add_test(tc, a_mapped_address_is_ipv4);
	tcase_add_test(tc, errors);
	tcase_add_test(tc, as_the_model_says);
	suite_add_tcase(s, tc);
	return run_suite(s);
}

/* The table of policies, and what all of them need. A new policy is one line here. */
#include "sched/policy.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

extern const struct elv_policy elv_noop, elv_deadline, elv_cfq;

const struct elv_policy *const elv_policies[] = {
	&elv_noop,
	&elv_deadline,
	&elv_cfq,
	NULL,
};

_Static_assert(sizeof(elv_policies) / sizeof(elv_policies[0]) <= ELV_MAX_POLICIES + 1,
	       "ELV_MAX_POLICIES is too small");

unsigned elv_policy_index(const struct elv_policy *p)
{
	unsigned i = 0;

	while (elv_policies[i] != p)
		i++;
	return i;
}

const struct elv_policy *elv_policy_find(const char *name)
{
	for (unsigned i = 0; elv_policies[i]; i++)
		if (!strcmp(elv_policies[i]->name, name))
			return elv_policies[i];
	return NULL;
}

void elv_printf(struct elv_text *t, const char *fmt, ...)
{
	va_list ap;
	int n;

	if (t->used >= t->size)
		return;
	va_start(ap, fmt);
	n = vsnprintf(t->buf + t->used, t->size - t->used, fmt, ap);
	va_end(ap);
	if (n > 0)
		t->used += (size_t)n;
	if (t->used >= t->size)
		t->used = t->size ? t->size - 1 : 0;
}

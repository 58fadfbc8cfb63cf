/*
 * The elevator under the simplest policy, rule by rule: merging, slices, order, discards, syncs,
 * dead connections, age, depth.
 */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/chaos.h"
#include "tests/unit/suite.h"
#include "tests/unit/world.h"

enum { BLOCK = 512, SIZE = 64 << 10 };

static struct sim *sim;
static struct sim_disk *disk;
static struct sim_store *store;
static struct sim_export *export;
static struct sim_client *client[2]; /* of different identities */
static struct sim_conn *conn[2];

static void make_with(const struct sim_setup *setup)
{
	struct sim_model model = sim_model_constant(MS);

	sim = sim_new(1);
	sim->check = true;
	disk = sim_disk_new(sim, &model);
	store = sim_store_new(disk, BLOCK, SIZE);
	export = sim_export_new(store, setup);
	for (unsigned i = 0; i < 2; i++) {
		client[i] = sim_client_new(export, i + 1, 0, ELV_CLASS_BE);
		conn[i] = sim_conn_new(client[i]);
	}
}

static void make(unsigned depth)
{
	make_with(&(struct sim_setup){ .policy = "noop", .depth = depth });
}

static void end(void)
{
	sim_drain(sim);
	all_well(sim, "elevator", 0);
	sim_free(sim);
}

static struct sim_request *submit(int who, enum elv_op op, uint64_t block, uint64_t blocks)
{
	sim->now += 1000;
	return sim_submit(conn[who], op, block * BLOCK, blocks * BLOCK, 0);
}

/* What goes now, as "W4+2" in blocks, or "F" for a sync. */
static void dispatches(const char *want)
{
	char got[512] = "";
	size_t n = 0;
	struct sim_flight *f, *last = TAILQ_LAST(&disk->flights, sim_flights);

	sim_dispatch(disk);
	f = last ? TAILQ_NEXT(last, link) : TAILQ_FIRST(&disk->flights);
	for (; f; f = TAILQ_NEXT(f, link)) {
		n += (size_t)snprintf(got + n, sizeof(got) - n, "%s%c", n ? " " : "",
				      "RWFTZC"[f->io->op]);
		if (f->export)
			n += (size_t)snprintf(got + n, sizeof(got) - n, "%llu+%llu",
					      (unsigned long long)f->io->offset / BLOCK,
					      (unsigned long long)f->io->length / BLOCK);
	}
	ck_assert_str_eq(got, want);
}

/* The oldest io in flight (n: or a later one) completes. */
static void completes_nth(unsigned n)
{
	struct sim_flight *f = sim_flight(disk, n);

	ck_assert_ptr_nonnull(f);
	sim->now += MS;
	sim_complete(f);
}

static void completes(void)
{
	completes_nth(0);
}

/* --- first come, first served; merging --- */

START_TEST(test_fifo)
{
	make(1);
	submit(0, ELV_WRITE, 10, 1);
	submit(1, ELV_READ, 90, 1);
	submit(0, ELV_READ, 50, 1);
	submit(1, ELV_WRITE, 20, 1);
	dispatches("W10+1");
	completes();
	dispatches("R90+1");
	completes();
	submit(0, ELV_READ, 1, 1);
	dispatches("R50+1");
	completes();
	dispatches("W20+1");
	completes();
	dispatches("R1+1");
	end();
}
END_TEST

static uint64_t merges(uint64_t *front)
{
	static struct elv_stats st;

	elv_stats_sum(&export->e, &st);
	*front = st.front_merges;
	return st.back_merges;
}

START_TEST(test_merging)
{
	uint64_t front;

	make(1); /* the two examples of the kernel's documentation */
	submit(0, ELV_READ, 34, 4);
	submit(0, ELV_READ, 38, 3);
	dispatches("R34+7");
	completes();
	submit(0, ELV_READ, 34, 4);
	submit(0, ELV_READ, 31, 3);
	dispatches("R31+7");
	completes();
	ck_assert_uint_eq(merges(&front), 1);
	ck_assert_uint_eq(front, 1);
	/* Three in one, the last fills the hole; of two clients, as noop knows none. */
	submit(0, ELV_WRITE, 10, 2);
	submit(1, ELV_WRITE, 14, 2);
	submit(0, ELV_WRITE, 12, 2);
	dispatches("W10+6");
	completes();
	/* Not: another op, other flags, a gap, an overlap. */
	submit(0, ELV_READ, 60, 1);
	submit(0, ELV_WRITE, 61, 1);
	sim_submit(conn[0], ELV_WRITE, 62 * BLOCK, BLOCK, ELV_FUA);
	submit(0, ELV_READ, 64, 1);
	submit(0, ELV_READ, 64, 2);
	for (int i = 0; i < 5; i++) {
		sim_dispatch(disk);
		ck_assert_uint_eq(sim_flight(disk, 0)->npieces, 1);
		completes();
	}
	end();
}
END_TEST

START_TEST(test_nomerges)
{
	static const struct { unsigned nomerges; const char *first; } cases[] = {
		{ 0, "R20+6" }, { 1, "R20+2" }, { 2, "R20+1" }
	};
	struct elv_params p;

	for (int i = 0; i < 3; i++) {
		make(1);
		p = export->e.params;
		p.nomerges = cases[i].nomerges;
		sim_set_params(export, &p, false);
		submit(0, ELV_READ, 20, 1); /* two streams, now each alone, now in turns */
		submit(0, ELV_READ, 21, 1);
		submit(0, ELV_READ, 80, 1);
		submit(0, ELV_READ, 22, 1);
		submit(0, ELV_READ, 81, 1);
		submit(0, ELV_READ, 23, 3);
		dispatches(cases[i].first);
		end();
	}
}
END_TEST

START_TEST(test_merge_limits)
{
	make_with(&(struct sim_setup){ .policy = "noop", .max_io = 8 * BLOCK });
	for (uint64_t i = 0; i < 12; i++)
		submit(0, ELV_READ, i, 1);
	dispatches("R0+8");
	completes();
	dispatches("R8+4");
	end();

	make_with(&(struct sim_setup){ .policy = "noop", .max_io = MIB });
	for (uint64_t i = 0; i < 200; i++)
		sim_submit(conn[0], ELV_READ, i * 100, 100, 0);
	sim_dispatch(disk);
	ck_assert_uint_eq(sim_flight(disk, 0)->npieces, ELV_MAX_SEGMENTS);
	end();

	make_with(&(struct sim_setup){ .policy = "cfq" }); /* which knows clients */
	submit(0, ELV_READ, 0, 1);
	submit(1, ELV_READ, 1, 1);
	submit(0, ELV_READ, 2, 1);
	sim_dispatch(disk);
	ck_assert_uint_eq(sim_flight(disk, 0)->npieces, 1);
	end();
}
END_TEST

/* A blocked request merges only with all that is in its way. */
START_TEST(test_merge_blocked)
{
	make(1);
	submit(0, ELV_READ, 100, 1);
	dispatches("R100+1");
	sim_submit(conn[0], ELV_WRITE, 10 * BLOCK, 100, 0); /* three in one block */
	sim_submit(conn[0], ELV_WRITE, 10 * BLOCK + 100, 100, 0);
	sim_submit(conn[1], ELV_WRITE, 10 * BLOCK + 200, 312, 0);
	submit(0, ELV_WRITE, 20, 2); /* A */
	submit(1, ELV_WRITE, 21, 2); /* B: behind A */
	submit(0, ELV_WRITE, 23, 1); /* touches B, which is blocked */
	completes();
	dispatches("W10+1");
	completes();
	dispatches("W20+2");
	completes();
	dispatches("W21+2");
	completes();
	dispatches("W23+1");
	end();
}
END_TEST

/* --- slices --- */

START_TEST(test_slices)
{
	make_with(&(struct sim_setup){ .policy = "noop", .depth = 2, .max_io = 4 * BLOCK });
	submit(0, ELV_WRITE, 10, 10);
	submit(1, ELV_READ, 90, 1);
	dispatches("W10+4 W14+4");
	completes_nth(1);
	dispatches("W18+2");
	completes();
	dispatches("R90+1");
	end();

	/* Unaligned ends: cut at blocks. */
	make_with(&(struct sim_setup){ .policy = "noop", .depth = 8, .max_io = 4 * BLOCK });
	sim_submit(conn[0], ELV_READ, 100, 10 * BLOCK, 0);
	sim_dispatch(disk);
	ck_assert_uint_eq(sim_flight(disk, 0)->io->length, 4 * BLOCK - 100);
	ck_assert_uint_eq(sim_flight(disk, 1)->io->length, 4 * BLOCK);
	ck_assert_uint_eq(sim_flight(disk, 2)->io->length, 2 * BLOCK + 100);
	ck_assert_ptr_null(sim_flight(disk, 3));
	end();
}
END_TEST

/* One that waits for a large request takes just the slices in its way with it. */
START_TEST(test_slices_pulled)
{
	make_with(&(struct sim_setup){ .policy = "cfq", .depth = 4, .max_io = 4 * BLOCK });
	elv_client_set_params(&client[0]->c, &(struct elv_client_params){ 100, ELV_CLASS_IDLE }, 0);
	submit(1, ELV_READ, 120, 1);
	submit(0, ELV_WRITE, 0, 40); /* class idle: would not go for 200 ms */
	dispatches("W0+4 R120+1");
	completes();
	submit(1, ELV_WRITE, 21, 1);
	dispatches("W20+4");
	completes_nth(1);
	dispatches("W21+1");
	end();
}
END_TEST

/* One slice of a request at a time: the slots are for others meanwhile, and so is their order. */
START_TEST(test_slices_serial)
{
	make_with(&(struct sim_setup){
		.policy = "noop", .depth = 3, .max_io = 4 * BLOCK, .serial = true });
	submit(0, ELV_WRITE, 10, 10);
	submit(1, ELV_READ, 90, 10);
	submit(1, ELV_WRITE, 15, 1); /* behind the first one's second slice */
	dispatches("W10+4 R90+4");
	ck_assert_ptr_eq(elv_io_request(sim_flight(disk, 0)->io)->conn, &conn[0]->c);
	completes_nth(1);
	dispatches("R94+4");
	completes();
	dispatches("W14+4");
	completes_nth(1);
	dispatches("W18+2 W15+1");
	completes_nth(2);
	completes_nth(1);
	completes();
	dispatches("R98+2");
	end();

	/* Withdrawn between two slices; and the policy changes there. */
	make_with(&(struct sim_setup){
		.policy = "noop", .depth = 2, .max_io = 4 * BLOCK, .serial = true });
	submit(0, ELV_READ, 0, 10);
	submit(1, ELV_READ, 50, 10);
	dispatches("R0+4 R50+4");
	sim_close(conn[0]);
	ck_assert_int_eq(elv_switch(&export->e, elv_policy_find("deadline"), sim->now), 0);
	completes();
	dispatches("");
	completes();
	dispatches("R54+4");
	end();
}
END_TEST

/* A CACHE can be as large as the disk and is but a hint: it never takes more than one slot. */
START_TEST(test_slices_of_cache)
{
	static const char *const policies[] = { "noop", "deadline", "cfq" };

	make_with(&(struct sim_setup){ .policy = policies[_i], .depth = 3, .max_io = 4 * BLOCK });
	submit(0, ELV_CACHE, 0, 200);
	dispatches("C0+4");
	submit(1, ELV_WRITE, 10, 1);
	submit(1, ELV_READ, 120, 1);
	for (unsigned i = 0; i < 20 && client[1]->answered < 2; i++) {
		sim_dispatch(disk);
		completes();
	}
	ck_assert_uint_eq(client[1]->answered, 2);
	ck_assert_uint_eq(client[0]->answered, 0);
	end();
}
END_TEST

/* A large request of which a slice failed: no more slices, one error. */
START_TEST(test_slice_fails)
{
	make_with(&(struct sim_setup){ .policy = "noop", .max_io = 4 * BLOCK });
	store->faults.bad_start = 5 * BLOCK;
	store->faults.bad_end = 6 * BLOCK;
	submit(0, ELV_WRITE, 0, 40);
	submit(0, ELV_WRITE, 30, 1);
	dispatches("W0+4");
	completes();
	dispatches("W4+4");
	completes();
	ck_assert_uint_eq(client[0]->errors, 1);
	dispatches("W30+1");
	completes();
	ck_assert_uint_eq(client[0]->answered, 2);
	end();
}
END_TEST

/* --- errors and short transfers --- */

static int error_of[8];

static void note_error(struct sim *s, struct sim_request *r)
{
	(void)s;
	error_of[r->serial - 1] = r->rq.error;
}

START_TEST(test_guilty_part)
{
	make(1);
	sim->replied = note_error;
	store->faults.bad_start = 12 * BLOCK + 5;
	store->faults.bad_end = 12 * BLOCK + 6;
	for (uint64_t i = 0; i < 5; i++)
		submit(0, ELV_READ, 10 + i, 1);
	dispatches("R10+5");
	completes();
	sim_drain(sim);
	for (int i = 0; i < 5; i++)
		ck_assert_int_eq(error_of[i], i == 2 ? -EIO : 0);
	end();
}
END_TEST

/* One that is done with its part of an io may go while the others are tried: it is not touched. */
START_TEST(test_gone_before_the_io)
{
	struct sim_client *third;
	struct sim_conn *c;

	make(1);
	third = sim_client_new(export, 3, 0, ELV_CLASS_BE);
	c = sim_conn_new(third);
	store->faults.bad_end = 1;
	sim_submit(c, ELV_READ, 0, BLOCK, 0);
	submit(0, ELV_READ, 1, 1);
	dispatches("R0+2");
	completes();
	dispatches("");
	completes();
	ck_assert_uint_eq(third->errors, 1);
	sim_close(c);
	elv_client_exit(&third->c);
	TAILQ_REMOVE(&sim->clients, third, link);
	memset(third, 0xdd, sizeof(*third));
	dispatches("");
	ck_assert_ptr_eq(sim_flight(disk, 0)->io->client, &client[0]->c);
	completes();
	ck_assert_uint_eq(client[0]->answered, 1);
	end();
	free(c);
	free(third);
}
END_TEST

/* The rest of a short one goes on in the same slot; of several, each goes alone. */
START_TEST(test_short)
{
	make(1);
	submit(0, ELV_READ, 10, 4);
	dispatches("R10+4");
	store->faults.short_transfer = 100;
	completes();
	store->faults.short_transfer = 0;
	submit(0, ELV_READ, 90, 1);
	sim_dispatch(disk);
	ck_assert_uint_eq(disk->nflights, 1); /* the slot is still taken */
	completes();
	ck_assert_uint_eq(client[0]->answered, 1);
	ck_assert_uint_eq(client[0]->errors, 0);
	dispatches("R90+1");
	end();
}
END_TEST

/* --- order --- */

START_TEST(test_order)
{
	make(4);
	submit(0, ELV_WRITE, 10, 4); /* in flight */
	dispatches("W10+4");
	submit(1, ELV_WRITE, 12, 4); /* waits, whoever wrote */
	submit(1, ELV_READ, 10, 1);  /* does not wait for another's write */
	submit(0, ELV_READ, 13, 1);  /* waits for its own */
	submit(1, ELV_READ, 15, 1);  /* waits for its own */
	submit(0, ELV_READ, 14, 1);  /* not for another's */
	dispatches("R10+1 R14+1");
	submit(0, ELV_WRITE, 10, 1); /* waits for the write in flight; not for another's read */
	completes();
	dispatches("W12+4 R13+1");
	completes(); /* R10 */
	dispatches("W10+1");
	end();

	make(4);
	submit(0, ELV_READ, 10, 4);
	dispatches("R10+4");
	submit(0, ELV_WRITE, 12, 1); /* its own read is older */
	submit(1, ELV_WRITE, 11, 1); /* another's read is not in the way */
	dispatches("W11+1");
	completes();
	dispatches("W12+1");
	end();
}
END_TEST

/* Neighbours in one block are in each other's way: the store may read, change and write it. */
START_TEST(test_order_rounded)
{
	make(4);
	sim_submit(conn[0], ELV_WRITE, 10 * BLOCK, 100, 0);
	dispatches("W10+0");
	sim_submit(conn[1], ELV_WRITE, 10 * BLOCK + 200, 100, 0);
	dispatches("");
	completes();
	dispatches("W10+0");
	end();
}
END_TEST

/* A queued blocker goes in the place of the one that is picked; merely waiting promotes nothing. */
START_TEST(test_blocker_goes)
{
	make_with(&(struct sim_setup){ .policy = "cfq", .depth = 1 });
	elv_client_set_params(&client[0]->c, &(struct elv_client_params){ 100, ELV_CLASS_IDLE }, 0);
	submit(1, ELV_READ, 50, 1);
	submit(0, ELV_WRITE, 9, 1);
	dispatches("W9+1"); /* its turn of 200 ms */
	submit(0, ELV_WRITE, 10, 1);
	submit(1, ELV_READ, 51, 1);
	submit(1, ELV_WRITE, 10, 1);
	completes();
	dispatches("R50+2");
	completes();
	dispatches("W10+1"); /* class idle's */
	ck_assert_ptr_eq(sim_flight(disk, 0)->io->client, &client[0]->c);
	completes();
	dispatches("W10+1");
	ck_assert_ptr_eq(sim_flight(disk, 0)->io->client, &client[1]->c);
	end();
}
END_TEST

/* So does one that had to wait outside the policy itself. */
START_TEST(test_held_blocker_goes)
{
	make_with(&(struct sim_setup){ .policy = "cfq", .depth = 1 });
	elv_client_set_params(&client[0]->c, &(struct elv_client_params){ 100, ELV_CLASS_IDLE }, 0);
	submit(0, ELV_WRITE, 10, 2);
	dispatches("W10+2");
	submit(0, ELV_WRITE, 11, 2); /* waits for what is in flight */
	submit(1, ELV_WRITE, 12, 1); /* waits for that */
	submit(1, ELV_READ, 50, 1);
	submit(1, ELV_READ, 60, 1);
	completes();
	dispatches("R50+1");
	completes();
	dispatches("W11+2"); /* not its turn for 200 ms: the other's */
	completes();
	dispatches("W12+1");
	end();
}
END_TEST

/* So do all of a chain, and those on which the chain hangs, one with each choice. */
START_TEST(test_chain_goes)
{
	make_with(&(struct sim_setup){ .policy = "cfq", .depth = 1 });
	elv_client_set_params(&client[0]->c, &(struct elv_client_params){ 100, ELV_CLASS_IDLE }, 0);
	submit(1, ELV_READ, 50, 1);
	submit(0, ELV_WRITE, 9, 1);
	dispatches("W9+1"); /* its turn of 200 ms */
	submit(0, ELV_WRITE, 10, 2);
	submit(0, ELV_WRITE, 11, 2); /* waits for that one */
	submit(0, ELV_WRITE, 12, 2);
	submit(0, ELV_WRITE, 13, 1);
	submit(1, ELV_WRITE, 13, 1);
	completes();
	dispatches("R50+1");
	for (uint64_t i = 10; i < 13; i++) {
		char want[16];

		completes();
		snprintf(want, sizeof(want), "W%u+2", (unsigned)i);
		dispatches(want);
		ck_assert_ptr_eq(sim_flight(disk, 0)->io->client, &client[0]->c);
	}
	completes();
	dispatches("W13+1");
	ck_assert_ptr_eq(sim_flight(disk, 0)->io->client, &client[0]->c);
	completes();
	dispatches("W13+1");
	ck_assert_ptr_eq(sim_flight(disk, 0)->io->client, &client[1]->c);
	ck_assert_uint_lt(sim->now, SEC + 100 * MS);
	end();
}
END_TEST

/* --- discards --- */

START_TEST(test_discards)
{
	make_with(&(struct sim_setup){ .policy = "noop", .depth = 8, .max_discard = 4 * BLOCK });
	submit(0, ELV_TRIM, 0, 10);
	submit(1, ELV_ZERO, 20, 2);
	submit(0, ELV_WRITE, 40, 1);
	dispatches("T0+4 W40+1"); /* one of them at a time; others go on */
	submit(0, ELV_TRIM, 30, 1);
	completes();
	dispatches("T4+4");
	completes_nth(1);
	dispatches("T8+2");
	completes_nth(1);
	dispatches("Z20+2");
	completes_nth(1);
	dispatches("T30+1");
	end();
}
END_TEST

/* A client's go in the order in which they came, also those that were chosen and set aside. */
START_TEST(test_discards_in_order)
{
	make(4);
	for (uint64_t i = 0; i < 4; i++)
		submit(0, ELV_TRIM, 20 - 5 * i, 2);
	dispatches("T20+2");
	submit(0, ELV_TRIM, 40, 2);
	completes();
	dispatches("T15+2");
	completes();
	dispatches("T10+2");
	completes();
	dispatches("T5+2");
	completes();
	dispatches("T40+2");
	end();
}
END_TEST

/* Those that wait for the slot merge when it is free. */
START_TEST(test_discards_merge)
{
	make(8);
	submit(0, ELV_TRIM, 0, 2);
	dispatches("T0+2");
	for (uint64_t i = 0; i < 5; i++)
		submit(0, ELV_TRIM, 10 + 2 * i, 2);
	submit(0, ELV_TRIM, 50, 2);
	dispatches("");
	completes();
	dispatches("T10+10");
	completes();
	dispatches("T50+2");
	end();
}
END_TEST

/* --- syncs --- */

START_TEST(test_sync)
{
	make(1);
	submit(0, ELV_WRITE, 0, 1);
	dispatches("W0+1");
	submit(0, ELV_FLUSH, 0, 0); /* needs no slot and no drained queue */
	submit(1, ELV_FLUSH, 0, 0);
	dispatches("F");
	submit(1, ELV_FLUSH, 0, 0); /* one that comes while it runs waits for the next */
	dispatches("");
	completes_nth(1);
	ck_assert_uint_eq(client[0]->answered + client[1]->answered, 2);
	dispatches("F");
	completes_nth(1);
	ck_assert_uint_eq(client[1]->answered, 2);
	ck_assert_uint_eq(store->s.syncs, 2);
	end();
}
END_TEST

START_TEST(test_fua)
{
	make_with(&(struct sim_setup){ .policy = "noop", .depth = 8, .max_io = 4 * BLOCK,
				       .max_discard = 4 * BLOCK });
	sim_submit(conn[0], ELV_WRITE, 0, BLOCK, ELV_FUA); /* small: the store's affair */
	dispatches("W0+1");
	ck_assert_uint_eq(sim_flight(disk, 0)->io->flags, ELV_FUA);
	completes();
	ck_assert_uint_eq(client[0]->answered, 1);
	sim_submit(conn[0], ELV_WRITE, 0, 10 * BLOCK, ELV_FUA); /* sliced: one sync at the end */
	dispatches("W0+4 W4+4 W8+2");
	ck_assert_uint_eq(sim_flight(disk, 0)->io->flags, 0);
	completes();
	completes();
	dispatches("");
	completes();
	dispatches("F");
	ck_assert_uint_eq(client[0]->answered, 1);
	completes();
	ck_assert_uint_eq(client[0]->answered, 2);
	sim_submit(conn[0], ELV_TRIM, 0, BLOCK, ELV_FUA);
	dispatches("T0+1");
	completes();
	dispatches("F");
	completes();
	ck_assert_uint_eq(client[0]->answered, 3);
	sim_submit(conn[0], ELV_READ, 0, BLOCK, ELV_FUA); /* means nothing there */
	dispatches("R0+1");
	ck_assert_uint_eq(sim_flight(disk, 0)->io->flags, 0);
	end();
}
END_TEST

static int last_error;

static void note_last(struct sim *s, struct sim_request *r)
{
	(void)s;
	last_error = r->rq.error;
}

/* A request goes and comes back with this error. */
static void comes_back(int who, enum elv_op op, unsigned flags, int error)
{
	last_error = 1;
	sim_submit(conn[who], op, 0, op == ELV_FLUSH ? 0 : BLOCK, flags);
	do {
		sim_dispatch(disk);
		completes();
	} while (last_error == 1);
	ck_assert_int_eq(last_error, error);
}

START_TEST(test_sync_fails)
{
	make(1);
	sim->replied = note_last;
	comes_back(0, ELV_WRITE, 0, 0);
	store->faults.sync_error = 100;
	comes_back(1, ELV_FLUSH, 0, -EIO);
	store->faults.sync_error = 0;
	/*
	 * Whoever was connected hears of it on each FLUSH and FUA until they close, and only there.
	 */
	for (int i = 0; i < 2; i++) {
		comes_back(i, ELV_FLUSH, 0, -EIO);
		comes_back(i, ELV_WRITE, ELV_FUA, -EIO);
		comes_back(i, ELV_WRITE, 0, 0);
		comes_back(i, ELV_READ, ELV_FUA, 0);
	}
	ck_assert_uint_eq(store->s.sync_errors, 1);
	/* They have been told: not again after they come back. */
	for (int i = 0; i < 2; i++) {
		sim_close(conn[i]);
		sim_reopen(conn[i]);
		comes_back(i, ELV_FLUSH, 0, 0);
	}
	/* Out of space is told as such. */
	store->faults.sync_error = 100;
	store->faults.sync_errno = -EDQUOT;
	comes_back(0, ELV_FLUSH, 0, -ENOSPC);
	store->faults.sync_error = 0;
	comes_back(1, ELV_FLUSH, 0, -ENOSPC);
	end();
}
END_TEST

/* One whose writes were covered, and who was gone, is told once when it is back; others are not. */
START_TEST(test_sync_fails_behind_ones_back)
{
	struct sim_conn *other;

	make(1);
	sim->replied = note_last;
	comes_back(0, ELV_WRITE, 0, 0);
	sim_close(conn[0]);
	store->faults.sync_error = 100;
	comes_back(1, ELV_FLUSH, 0, -EIO);
	store->faults.sync_error = 0;
	sim_close(conn[1]);
	sim_reopen(conn[0]);
	sim_reopen(conn[1]);
	comes_back(1, ELV_FLUSH, 0, 0); /* had been told */
	/* An error of the request's own tells nothing about the sync. */
	store->faults.bad_end = BLOCK;
	comes_back(0, ELV_WRITE, ELV_FUA, -EIO);
	store->faults.bad_end = 0;
	comes_back(0, ELV_FLUSH, 0, -EIO);
	comes_back(0, ELV_FLUSH, 0, 0);
	/* A second connection is as good as the first to be told. */
	other = sim_conn_new(client[0]);
	comes_back(0, ELV_WRITE, 0, 0);
	sim_close(conn[0]);
	sim_close(other);
	store->faults.sync_error = 100;
	comes_back(1, ELV_FLUSH, 0, -EIO);
	store->faults.sync_error = 0;
	sim_reopen(other);
	sim_reopen(conn[0]);
	comes_back(0, ELV_FLUSH, 0, -EIO);
	sim_submit(other, ELV_FLUSH, 0, 0, 0);
	sim_dispatch(disk);
	completes();
	ck_assert_int_eq(last_error, 0);
	end();
}
END_TEST

/* What was told on a connection that then broke is told again, once, wherever the client is. */
START_TEST(test_sync_error_is_not_heard)
{
	make(1);
	sim->replied = note_last;
	comes_back(0, ELV_WRITE, 0, 0);
	store->faults.sync_error = 100;
	comes_back(0, ELV_FLUSH, 0, -EIO);
	store->faults.sync_error = 0;
	sim_break(conn[0]);
	sim_reopen(conn[0]);
	comes_back(0, ELV_FLUSH, 0, -EIO);
	comes_back(0, ELV_FLUSH, 0, 0);
	/* Nor was that heard; what it said before is of no importance. */
	sim_break(conn[0]);
	sim_reopen(conn[0]);
	comes_back(0, ELV_WRITE, ELV_FUA, -EIO);
	comes_back(0, ELV_FLUSH, 0, 0);
	sim_close(conn[0]);
	sim_reopen(conn[0]);
	comes_back(0, ELV_FLUSH, 0, 0);
	/* A connection on which nothing was told owes nothing. */
	sim_break(conn[0]);
	sim_reopen(conn[0]);
	comes_back(0, ELV_FLUSH, 0, 0);
	end();
}
END_TEST

/* --- dead connections --- */

START_TEST(test_dead)
{
	make(1);
	submit(0, ELV_WRITE, 10, 2);
	dispatches("W10+2");
	submit(0, ELV_WRITE, 20, 1); /* alone: withdrawn */
	submit(0, ELV_WRITE, 30, 1); /* merged with another's: goes */
	submit(1, ELV_WRITE, 31, 1);
	submit(0, ELV_READ, 40, 1); /* merged with another's: withdrawn out of it */
	submit(1, ELV_READ, 41, 1);
	submit(0, ELV_FLUSH, 0, 0);
	submit(0, ELV_WRITE, 11, 1); /* held: withdrawn */
	submit(1, ELV_WRITE, 10, 1); /* the resent one: waits for the one in flight */
	submit(1, ELV_WRITE, 20, 1);
	sim_close(conn[0]);
	ck_assert_uint_eq(conn[0]->pending, 2);
	dispatches("F"); /* for nobody: it had been on its way */
	completes_nth(1);
	completes();
	dispatches("W30+2");
	completes();
	ck_assert_uint_eq(conn[0]->pending, 0);
	dispatches("R41+1");
	completes();
	dispatches("W10+1");
	completes();
	dispatches("W20+1");
	end();
}
END_TEST

/* What waits for the discard slot, or has a part in flight. */
START_TEST(test_dead_large)
{
	make_with(&(struct sim_setup){ .policy = "noop", .depth = 2, .max_io = 4 * BLOCK,
				       .max_discard = 4 * BLOCK });
	submit(0, ELV_TRIM, 0, 10);
	submit(0, ELV_ZERO, 20, 2);
	submit(0, ELV_WRITE, 40, 20);
	dispatches("T0+4 W40+4");
	submit(1, ELV_WRITE, 8, 1);  /* behind the rest of the TRIM */
	submit(1, ELV_WRITE, 41, 1); /* behind the slice in flight */
	submit(1, ELV_WRITE, 50, 1); /* behind the rest */
	submit(1, ELV_TRIM, 100, 1);
	sim_close(conn[0]);
	ck_assert_uint_eq(conn[0]->pending, 2);
	completes();
	dispatches("W8+1");
	completes_nth(1);
	dispatches("W50+1");
	completes(); /* W40+4 */
	completes();
	dispatches("W41+1 T100+1");
	end();
}
END_TEST

/* --- switching --- */

START_TEST(test_switch)
{
	make_with(&(struct sim_setup){ .policy = "noop", .depth = 2, .max_io = 4 * BLOCK });
	submit(0, ELV_WRITE, 90, 1);
	submit(0, ELV_READ, 80, 1);
	submit(1, ELV_READ, 81, 1); /* merged across clients */
	submit(0, ELV_WRITE, 10, 10);
	dispatches("W90+1 R80+2");
	completes_nth(1);
	submit(0, ELV_READ, 60, 1);
	submit(1, ELV_READ, 61, 1);
	dispatches("W10+4");
	sim_switch(export, "cfq"); /* with ios in flight; the merged reads come apart */
	ck_assert_uint_eq(export->e.in_policy, 3);
	ck_assert_uint_eq(elv_oldest(&export->e, sim->now), MS + 2000);
	sim_switch(export, "deadline");
	sim_switch(export, "noop");
	completes();
	dispatches("W14+4");
	completes();
	completes();
	dispatches("W18+2 R60+2");
	ck_assert_uint_eq(export->e.switches, 3);
	end();
}
END_TEST

/* Deadlines count from the arrival, however often one switches. */
START_TEST(test_switch_keeps_age)
{
	make_with(&(struct sim_setup){ .policy = "deadline", .depth = 1 });
	sim_tune(export, "deadline", "fifo_batch", 1);
	submit(0, ELV_READ, 50, 1);
	dispatches("R50+1");
	submit(0, ELV_READ, 20, 1);
	for (int i = 0; i < 60; i++) {
		sim->now += 10 * MS;
		sim_switch(export, i % 2 ? "deadline" : "cfq");
	}
	submit(0, ELV_READ, 51, 1);
	completes();
	dispatches("R20+1");
	end();
}
END_TEST

/* --- age --- */

/* A policy that would starve them; one dispatch in eight is theirs, oldest first. */
START_TEST(test_age)
{
	static struct elv_stats st;
	unsigned promoted = 0;

	make_with(&(struct sim_setup){ .policy = "cfq", .max_age = SEC });
	elv_client_set_params(&client[0]->c, &(struct elv_client_params){ 1, ELV_CLASS_BE }, 0);
	elv_client_set_params(&client[1]->c, &(struct elv_client_params){ 1000, ELV_CLASS_BE }, 0);
	submit(1, ELV_READ, 1, 1);
	dispatches("R1+1"); /* something in flight */
	for (uint64_t i = 0; i < 5; i++)
		submit(0, ELV_READ, 100 - 2 * i, 1);
	sim->now += 2 * SEC;
	completes();
	for (int i = 1; i < 50; i++) {
		struct sim_flight *f;

		submit(1, ELV_READ, 2 * (i % 20), 1);
		submit(1, ELV_READ, 2 * (i % 20), 1);
		sim_dispatch(disk);
		f = sim_flight(disk, 0);
		if (f->io->promoted) {
			ck_assert_ptr_eq(f->pieces[0].r, TAILQ_FIRST(&store->pending));
			promoted++;
		}
		completes();
	}
	ck_assert_uint_ge(promoted, 3);
	elv_stats_sum(&export->e, &st);
	ck_assert_uint_eq(st.promoted, export->promoted);
	ck_assert_uint_le(export->promoted, export->dispatched / 8 + 1);
	end();
}
END_TEST

/* --- depth and several elevators --- */

START_TEST(test_depth)
{
	struct elv_params p;

	make(3);
	for (uint64_t i = 0; i < 20; i++)
		submit(0, ELV_READ, 3 * i, 1);
	sim_dispatch(disk);
	ck_assert_uint_eq(disk->nflights, 3);
	p = export->e.params;
	p.queue_depth = 1;
	sim_set_params(export, &p, false);
	completes();
	completes();
	dispatches("");
	completes();
	sim_dispatch(disk);
	ck_assert_uint_eq(disk->nflights, 1);
	p.queue_depth = 8;
	sim_set_params(export, &p, false);
	sim_dispatch(disk);
	ck_assert_uint_eq(disk->nflights, 8);
	end();
}
END_TEST

/* Exports of one disk share its slots by cost, however many clients, requests or bytes each has. */
START_TEST(test_shared_disk)
{
	static const struct { unsigned queue; uint64_t size; const char *policy; } loads[] = {
		{ 16, 4096, "noop" }, { 200, 4096, "deadline" }, { 40, MIB, "cfq" }
	};
	struct sim_model model = sim_model_linear();
	struct sim_client *c[3];
	uint64_t sum = 0;

	sim = sim_new(1);
	disk = sim_disk_new(sim, &model);
	for (unsigned i = 0; i < 3; i++) {
		struct sim_setup setup = { .policy = loads[i].policy, .depth = 8 };
		struct sim_load load = RANDOM(0, 0, 0);

		load.depth = loads[i].queue;
		load.sizes[0].bytes = loads[i].size;
		export = sim_export_new(sim_store_new(disk, 512, 0), &setup);
		c[i] = sim_client_new(export, i + 1, 0, ELV_CLASS_BE);
		sim_load_start(c[i], &load, 1);
	}
	ck_assert_uint_eq(disk->d.depth, 8);
	sim_run(sim, sim->now + 5 * SEC);
	for (int i = 0; i < 3; i++)
		sum += c[i]->cost;
	for (int i = 0; i < 3; i++) {
		double share = 3.0 * (double)c[i]->cost / (double)sum;

		ck_assert_msg(share > 0.99 && share < 1.01, "%s has %.3f of its share",
			      loads[i].policy, share);
		sim_load_stop(c[i]);
	}
	end();
}
END_TEST

/* Two exports of one image: one order, one discard at a time, one sync for both. */
START_TEST(test_shared_store)
{
	struct sim_setup setup = { .policy = "noop", .depth = 4 };
	struct sim_export *second;

	make(4);
	second = sim_export_new(store, &setup);
	client[1] = sim_client_new(second, 1, 0, ELV_CLASS_BE); /* the same identity as client 0 */
	conn[1] = sim_conn_new(client[1]);
	submit(0, ELV_WRITE, 10, 1);
	dispatches("W10+1");
	submit(1, ELV_WRITE, 10, 1);
	submit(1, ELV_READ, 10, 1); /* the same identity at both: its own write */
	submit(0, ELV_TRIM, 30, 1);
	submit(1, ELV_TRIM, 40, 1);
	dispatches("T40+1");
	submit(0, ELV_FLUSH, 0, 0);
	submit(1, ELV_FLUSH, 0, 0);
	dispatches("F");
	completes();
	dispatches("W10+1");
	completes();
	dispatches("T30+1");
	completes();
	ck_assert_uint_eq(client[0]->answered + client[1]->answered, 4);
	completes();
	dispatches("R10+1");
	end();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("elevator");
	TCase *tc = tcase_create("elevator");

	tcase_set_timeout(tc, 100);
	tcase_add_test(tc, test_fifo);
	tcase_add_test(tc, test_merging);
	tcase_add_test(tc, test_nomerges);
	tcase_add_test(tc, test_merge_limits);
	tcase_add_test(tc, test_merge_blocked);
	tcase_add_test(tc, test_slices);
	tcase_add_test(tc, test_slices_pulled);
	tcase_add_test(tc, test_slices_serial);
	tcase_add_loop_test(tc, test_slices_of_cache, 0, 3);
	tcase_add_test(tc, test_slice_fails);
	tcase_add_test(tc, test_guilty_part);
	tcase_add_test(tc, test_gone_before_the_io);
	tcase_add_test(tc, test_short);
	tcase_add_test(tc, test_order);
	tcase_add_test(tc, test_order_rounded);
	tcase_add_test(tc, test_blocker_goes);
	tcase_add_test(tc, test_held_blocker_goes);
	tcase_add_test(tc, test_chain_goes);
	tcase_add_test(tc, test_discards);
	tcase_add_test(tc, test_discards_in_order);
	tcase_add_test(tc, test_discards_merge);
	tcase_add_test(tc, test_sync);
	tcase_add_test(tc, test_fua);
	tcase_add_test(tc, test_sync_fails);
	tcase_add_test(tc, test_sync_fails_behind_ones_back);
	tcase_add_test(tc, test_sync_error_is_not_heard);
	tcase_add_test(tc, test_dead);
	tcase_add_test(tc, test_dead_large);
	tcase_add_test(tc, test_switch);
	tcase_add_test(tc, test_switch_keeps_age);
	tcase_add_test(tc, test_age);
	tcase_add_test(tc, test_depth);
	tcase_add_test(tc, test_shared_disk);
	tcase_add_test(tc, test_shared_store);
	suite_add_tcase(s, tc);
	return run_suite(s);
}

/// The local transport: how a run ends when a rank fails, hangs, waits in vain or is interrupted.
/// What is received by which key is told by mpi_messages, which runs over local too. Times here are
/// patience, never claims. And what groups of ranks promise beside their bytes, which mpi_groups
/// has.
#include "exec/transport/transport.h"
#include "tests/exec/thread_ranks.h"
#include "tests/exec/world_group.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { LONG_NS = 1000000000 };

static void nap(int64_t ns)
{
    const struct timespec time = {.tv_sec = (time_t)(ns / LONG_NS),
                                  .tv_nsec = (long)(ns % LONG_NS)};
    nanosleep(&time, NULL);
}

static uint64_t key(int microbatch)
{
    return exec_message_key(EXEC_MESSAGE_FORWARD, 7, 3, microbatch);
}

static status send_number(exec_endpoint *endpoint, int to, int microbatch, int64_t number,
                          error_message *err)
{
    const exec_message head = {.key = key(microbatch),
                               .ready_ns = number,
                               .payload_bytes = sizeof number,
                               .value = {1, 2, 3, number}};
    return endpoint->transport->send(endpoint, to, &head, &number, err);
}

static status receive_number(exec_endpoint *endpoint, int from, int microbatch, int64_t *number,
                             error_message *err)
{
    exec_message head;
    TRY(endpoint->transport->receive(endpoint, from, key(microbatch), &head, number, sizeof *number,
                                     err));
    if (head.ready_ns != *number || head.value[3] != *number || head.key != key(microbatch)) {
        return error_set(err, STATUS_BACKEND, "another head");
    }
    return STATUS_OK;
}

TEST(keys_hold_all_their_parts)
{
    const uint64_t base = exec_message_key(EXEC_MESSAGE_MIGRATE, 5, 9, 77);

    assert_true(base != exec_message_key(EXEC_MESSAGE_ORDER, 5, 9, 77));
    assert_true(base != exec_message_key(EXEC_MESSAGE_MIGRATE, 6, 9, 77));
    assert_true(base != exec_message_key(EXEC_MESSAGE_MIGRATE, 5, EXEC_STAGE_MAX, 77));
    assert_true(base != exec_message_key(EXEC_MESSAGE_MIGRATE, 5, 9, BAL_MICROBATCHES_MAX - 1));
    assert_true(base == exec_message_key(EXEC_MESSAGE_MIGRATE, 5 + (1 << 24), 9, 77));
}

static status expect_less(exec_endpoint *endpoint, void *context, error_message *err)
{
    char small[4];
    TRY(send_number(endpoint, 0, 1, 10, err));
    return endpoint->transport->receive(endpoint, 0, key(1), NULL, small, sizeof small, err);
}

TEST(a_message_that_is_too_long_names_both_lengths)
{
    assert_fails(run_threads(1, expect_less, NULL, &why), STATUS_BACKEND,
                 "rank 0: a message of 8 bytes from rank 0, where at most 4 are expected");
}

/// Rank 2 fails at an op; the others wait for messages, sleep, or send.
static status one_fails(exec_endpoint *endpoint, void *context, error_message *err)
{
    atomic_int *ended_with_it = context;
    const bal_op op = {.kind = OP_FORWARD, .microbatch = 5};
    if (endpoint->rank == 2) {
        exec_activity_set_op(&endpoint->activity, 12, 3, op);
        return error_set(err, STATUS_NO_MEMORY, "out of memory for 99 bytes");
    }
    int64_t number;
    status code = STATUS_OK;
    if (endpoint->rank == 0) code = receive_number(endpoint, 2, 0, &number, err);
    if (endpoint->rank == 1) {
        const int64_t far_ns = endpoint->transport->now_ns(endpoint) + 3600 * (int64_t)LONG_NS;
        code = endpoint->transport->sleep_until(endpoint, far_ns, err);
    }
    while (endpoint->rank == 3 && code == STATUS_OK) {
        code = send_number(endpoint, 3, 0, 1, err);
        nap(1000000);
    }
    const char *expected = "rank 2, iteration 12, F5 of stage 3: out of memory for 99 bytes";
    if (code == STATUS_BACKEND && strcmp(err->message, expected) == 0) {
        atomic_fetch_add(ended_with_it, 1);
    }
    return code;
}

TEST(the_failure_of_one_rank_is_that_of_all)
{
    atomic_int ended_with_it = 0;

    assert_fails(run_threads(4, one_fails, &ended_with_it, &why), STATUS_NO_MEMORY,
                 "rank 2, iteration 12, F5 of stage 3: out of memory for 99 bytes");
    assert_int_equal(why.code, STATUS_NO_MEMORY);
    assert_int_equal(ended_with_it, 3);
}

static status fail_in_phase(exec_endpoint *endpoint, void *context, error_message *err)
{
    exec_activity_set_phase(&endpoint->activity, 3, EXEC_PHASE_MIGRATION);
    return error_set(err, STATUS_IO, "%s", (const char *)context);
}

TEST(a_failure_that_names_a_rank_is_not_named_twice)
{
    char named[] = "rank 7 F0 waits for rank 6 F0";
    char unnamed[] = "disk full";

    assert_fails(run_threads(1, fail_in_phase, named, &why), STATUS_IO,
                 "rank 7 F0 waits for rank 6 F0");
    assert_fails(run_threads(1, fail_in_phase, unnamed, &why), STATUS_IO,
                 "rank 0, iteration 3, migration: disk full");
}

/// 0 waits for 1, 1 for 2, 2 for 1; 3 has ended.
static status wait_in_a_circle(exec_endpoint *endpoint, void *context, error_message *err)
{
    static const int waits_for[] = {1, 2, 1};
    int64_t number;
    const bal_op op = {.kind = OP_BACKWARD_INPUT, .microbatch = endpoint->rank};
    if (endpoint->rank == 3) return STATUS_OK;
    exec_activity_set_op(&endpoint->activity, 0, endpoint->rank, op);
    return receive_number(endpoint, waits_for[endpoint->rank], 0, &number, err);
}

TEST(ranks_that_wait_for_each_other_are_named_at_once)
{
    exec_transport_options options = exec_transport_options_default();
    options.rank_count = 4;
    options.watchdog_ns = INT64_MAX / 2; // is not what finds it

    assert_int_equal(exec_transport_run("local", &options, wait_in_a_circle, NULL, &why),
                     STATUS_BACKEND);

    const char *expected[] = {"rank 1, iteration 0, B1 of stage 1 waits for rank 2; "
                              "rank 2, iteration 0, B2 of stage 2 waits for rank 1",
                              "rank 2, iteration 0, B2 of stage 2 waits for rank 1; "
                              "rank 1, iteration 0, B1 of stage 1 waits for rank 2"};
    if (strcmp(why.message, expected[0]) != 0) assert_string_equal(why.message, expected[1]);
}

static status wait_for_who_has_left(exec_endpoint *endpoint, void *context, error_message *err)
{
    int64_t number;
    return endpoint->rank == 0 ? STATUS_OK : receive_number(endpoint, 0, 0, &number, err);
}

TEST(a_wait_for_a_rank_that_has_ended_is_named)
{
    assert_fails(run_threads(2, wait_for_who_has_left, NULL, &why), STATUS_BACKEND,
                 "rank 1 waits for rank 0, which has ended");
}

typedef struct hanging {
    atomic_int waiting_count; // ranks that are about to wait
    atomic_bool released;
    atomic_int ended_count;
} hanging;

/// Rank 1 hangs in an op until it is released, long after the end of the run.
static status hang(exec_endpoint *endpoint, void *context, error_message *err)
{
    hanging *shared = context;
    status code = STATUS_OK;
    int64_t number;
    if (endpoint->rank == 1) {
        const bal_op op = {.kind = OP_BACKWARD, .microbatch = 4};
        exec_activity_set_op(&endpoint->activity, 6, 1, op);
        while (code == STATUS_OK && atomic_load(&shared->waiting_count) < 2) {
            code = send_number(endpoint, 1, 0, 1, err); // so long it moves
            nap(1000000);
        }
        while (!atomic_load(&shared->released)) {
            nap(1000000);
        }
    } else {
        atomic_fetch_add(&shared->waiting_count, 1);
        code = receive_number(endpoint, 1, 0, &number, err);
    }
    atomic_fetch_add(&shared->ended_count, 1);
    return code;
}

TEST(a_rank_that_hangs_is_named_and_left_behind)
{
    hanging shared = {0};
    int abandoned_count = -1;
    exec_transport_options options = exec_transport_options_default();
    options.rank_count = 3;
    options.watchdog_ns = LONG_NS;
    options.grace_ns = LONG_NS / 10;
    options.abandoned_rank_count = &abandoned_count;

    assert_fails(exec_transport_run("local", &options, hang, &shared, &why), STATUS_BACKEND,
                 "rank 1, iteration 6, BW4 of stage 1: hangs: no rank has moved for 1 s");
    assert_true(abandoned_count >= 1);
    atomic_store(&shared.released, true);
    for (int patience = 0; patience < 60000 && atomic_load(&shared.ended_count) < 3; patience++) {
        nap(1000000);
    }
    assert_int_equal(shared.ended_count, 3);
}

static status wait_for_the_interrupt(exec_endpoint *endpoint, void *context, error_message *err)
{
    if (endpoint->rank == 1) {
        atomic_store((atomic_bool *)context, true);
        const int64_t far_ns = endpoint->transport->now_ns(endpoint) + 3600 * (int64_t)LONG_NS;
        return endpoint->transport->sleep_until(endpoint, far_ns, err);
    }
    int64_t number;
    return receive_number(endpoint, 1, 0, &number, err);
}

TEST(an_interrupt_ends_all_waits)
{
    atomic_bool interrupt = false;
    int abandoned_count = -1;
    exec_transport_options options = exec_transport_options_default();
    options.rank_count = 3;
    options.interrupt = &interrupt;
    options.grace_ns = 60 * (int64_t)LONG_NS;
    options.abandoned_rank_count = &abandoned_count;

    assert_fails(exec_transport_run("local", &options, wait_for_the_interrupt, &interrupt, &why),
                 STATUS_BACKEND, "interrupted");
    assert_int_equal(abandoned_count, 0);
}

static status pass_on(exec_endpoint *endpoint, void *context, error_message *err)
{
    int64_t number = 0;
    const int next = (endpoint->rank + 1) % endpoint->rank_count;
    const int before = (endpoint->rank + endpoint->rank_count - 1) % endpoint->rank_count;
    if (endpoint->rank > 0) TRY(receive_number(endpoint, before, 0, &number, err));
    TRY(send_number(endpoint, next, 0, number + 1, err));
    if (endpoint->rank > 0) return STATUS_OK;
    TRY(receive_number(endpoint, before, 0, &number, err));
    return number == endpoint->rank_count ? STATUS_OK : error_set(err, STATUS_BACKEND, "lost");
}

TEST(there_can_be_512_ranks)
{
    run_ranks(512, pass_on, NULL);
}

TEST(unknown_and_missing_transports_are_refused)
{
    exec_transport_options options = exec_transport_options_default();

    assert_fails(exec_transport_run("locale", &options, pass_on, NULL, &why), STATUS_INVALID,
                 "unknown transport 'locale'; did you mean 'local'?");
    assert_false(exec_transport_is_leader("locale"));
    assert_true(exec_transport_is_leader("local"));
    options.rank_count = 0;
    assert_fails(exec_transport_run("local", &options, pass_on, NULL, &why), STATUS_INVALID,
                 "0 ranks: outside [1, 4096]");
}

/// How many ranks have come to each of some barriers.
typedef struct meeting {
    atomic_int came[10];
} meeting;

static status meet(exec_endpoint *endpoint, void *context, error_message *err)
{
    meeting *shared = context;
    int ranks[24];
    int sequence;
    const exec_group group = world_group(endpoint, ranks, &sequence);
    for (int round = 0; round < 10; round++) {
        atomic_fetch_add(&shared->came[round], 1);
        TRY(exec_group_barrier(&group, err));
        if (atomic_load(&shared->came[round]) != endpoint->rank_count) {
            return error_set(err, STATUS_BACKEND, "passed a barrier before all had come");
        }
    }
    return STATUS_OK;
}

TEST(nobody_passes_a_barrier_before_all_have_come)
{
    static const int rank_counts[] = {1, 2, 3, 4, 7, 8, 16, 24};
    for (size_t index = 0; index < sizeof rank_counts / sizeof rank_counts[0]; index++) {
        meeting shared = {0};
        run_ranks(rank_counts[index], meet, &shared);
    }
}

static status come_with_other_counts(exec_endpoint *endpoint, void *context, error_message *err)
{
    int ranks[24];
    int sequence;
    const exec_group group = world_group(endpoint, ranks, &sequence);
    char bytes[8] = {0};
    return exec_group_broadcast(&group, bytes, endpoint->rank == 0 ? 4 : 8, err);
}

TEST(other_counts_are_a_failure_that_names_both)
{
    assert_fails(run_threads(2, come_with_other_counts, NULL, &why), STATUS_BACKEND,
                 "rank 0 takes part in a collective with 4 bytes, others with 8");
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}

/// watch: who hangs and who waits in vain is named; who moves, sleeps, has ended or is released is
/// not.
#include "exec/transport/watch.h"
#include "tests/test.h"

#include <string.h>

enum { RANKS = 2, FIRST_RANK = 8 };
static const int64_t watchdog_ns = 60 * 1000000000LL;

static exec_watched ranks[RANKS];
static exec_watch watch;
static exec_failure_note note;

/// World ranks 8 and 9, both at F5 of iteration 12.
static int watch_two_ranks(void **state)
{
    const bal_op op = {.kind = OP_FORWARD, .microbatch = 5};
    memset(ranks, 0, sizeof ranks);
    note = (exec_failure_note){0};
    watch = (exec_watch){.ranks = ranks,
                         .rank_count = RANKS,
                         .watchdog_ns = watchdog_ns,
                         .waiting_ns = 2 * watchdog_ns};
    for (int index = 0; index < RANKS; index++) {
        ranks[index].endpoint.rank = FIRST_RANK + index;
        exec_activity_set_op(&ranks[index].endpoint.activity, 12, index, op);
    }
    return 0;
}

static void wait_for(int index, int rank)
{
    atomic_store(&ranks[index].waits_for, rank + 1);
}

/// As if nothing had moved for so long when somebody looks.
static status look_after(int64_t quiet_ns)
{
    assert_ok(exec_watch_look(&watch, &note));
    watch.quiet_ns = quiet_ns;
    return exec_watch_look(&watch, &note);
}

TEST_BETWEEN(a_busy_rank_hangs_when_nothing_moves_for_too_long, watch_two_ranks, NULL)
{
    wait_for(0, 9);

    assert_ok(look_after(watchdog_ns / 2));
    assert_int_equal(look_after(watchdog_ns), STATUS_BACKEND);

    assert_string_equal(note.why.message,
                        "rank 9, iteration 12, F5 of stage 1: hangs: no rank has moved for 60 s");
    assert_int_equal(note.lost_rank, 9);
}

TEST_BETWEEN(ranks_that_all_wait_are_told_after_a_time_of_their_own, watch_two_ranks, NULL)
{
    wait_for(0, 9);
    wait_for(1, 8);

    assert_ok(look_after(watchdog_ns));
    assert_int_equal(look_after(2 * watchdog_ns), STATUS_BACKEND);

    assert_string_equal(note.why.message, "rank 8, iteration 12, F5 of stage 0 waits for rank 9; "
                                          "rank 9, iteration 12, F5 of stage 1 waits for rank 8");
    assert_int_equal(note.lost_rank, -1);
}

TEST_BETWEEN(a_wait_for_a_rank_elsewhere_is_told_too, watch_two_ranks, NULL)
{
    wait_for(0, 3);
    atomic_store(&ranks[1].has_ended, true);

    assert_int_equal(look_after(2 * watchdog_ns), STATUS_BACKEND);

    assert_string_equal(note.why.message, "rank 8, iteration 12, F5 of stage 0 waits for rank 3");
}

TEST_BETWEEN(a_released_rank_waits_as_long_as_the_others_go_on_elsewhere, watch_two_ranks, NULL)
{
    wait_for(0, 3);
    exec_activity_set_phase(&ranks[0].endpoint.activity, 0, EXEC_PHASE_RELEASED);
    atomic_store(&ranks[1].has_ended, true);

    assert_ok(look_after(100 * watchdog_ns));
}

TEST_BETWEEN(a_rank_that_moves_or_sleeps_to_an_end_is_no_hang, watch_two_ranks, NULL)
{
    assert_ok(exec_watch_look(&watch, &note));
    watch.quiet_ns = watchdog_ns;
    atomic_fetch_add(&ranks[0].move_count, 1);
    assert_ok(exec_watch_look(&watch, &note));
    assert_int_equal(watch.quiet_ns, 0);

    atomic_store(&ranks[1].sleep_until_ns, INT64_MAX);
    assert_ok(look_after(watchdog_ns));
    atomic_store(&ranks[1].sleep_until_ns, 1);
    assert_int_equal(look_after(watchdog_ns), STATUS_BACKEND);
}

TEST_BETWEEN(a_machine_that_stood_still_is_not_a_quiet_run, watch_two_ranks, NULL)
{
    assert_ok(exec_watch_look(&watch, &note));
    watch.looked_ns = 1; // long ago
    assert_ok(exec_watch_look(&watch, &note));

    assert_true(watch.quiet_ns <= 1000000000);
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}

/// node: bells wake, the first failure is everybody's, and who is gone, hangs or waits in vain is
/// named. The ranks are processes that the test forks, over memory that they share.
#include "exec/transport/node.h"
#include "tests/assert_close.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RANKS = 2, FIRST_RANK = 8 };
static const int64_t second_ns = 1000000000;
static const int64_t watchdog_ns = 60 * 1000000000LL;

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * second_ns + now.tv_nsec;
}

/// Memory for two ranks, which are world ranks 8 and 9.
static void *share_memory(void)
{
    void *memory = mmap(NULL, exec_node_bytes(RANKS), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    return memory;
}

static void join(exec_node *node, void *memory, int self)
{
    exec_node_join(node, memory, self, RANKS, FIRST_RANK + self, watchdog_ns);
    const bal_op op = {.kind = OP_FORWARD, .microbatch = 5};
    exec_activity_set_op(&exec_node_endpoint(node)->activity, 12, self, op);
}

/// Both ranks in this process.
static void join_both(exec_node node[RANKS], void *memory)
{
    join(&node[0], memory, 0);
    join(&node[1], memory, 1);
    exec_node_watch(&node[0], true);
}

static void give_back(void *memory)
{
    munmap(memory, exec_node_bytes(RANKS));
}

/// As if nothing had moved for the watchdog's time when rank 8 looks.
static void watch_when_quiet(exec_node *node, bool is_alone)
{
    exec_node_watch(node, is_alone);
    node->quiet_ns = watchdog_ns;
    exec_node_watch(node, is_alone);
}

static void a_bell_wakes_a_process_that_sleeps(void **state)
{
    (void)state;
    void *memory = share_memory();
    exec_node node;
    join(&node, memory, 0);
    exec_node_note_wait(&node, 9, 77, 0);
    const uint32_t bell = exec_node_bell(&node);
    const pid_t child = fork();
    if (child == 0) {
        exec_node other;
        join(&other, memory, 1);
        exec_node_ring(&other, 0, 77);
        _exit(0);
    }

    while (exec_node_bell(&node) == bell) {
        exec_node_sleep(&node, bell, now_ns() + 600 * second_ns);
    }

    assert_int_equal(exec_node_rung_count(&node), 1);
    waitpid(child, NULL, 0);
    give_back(memory);
}

static void a_bell_before_the_sleep_is_not_lost(void **state)
{
    (void)state;
    void *memory = share_memory();
    exec_node node[RANKS];
    join_both(node, memory);
    exec_node_note_wait(&node[0], 8, 0, 0); // of itself: any
    const uint32_t bell = exec_node_bell(&node[0]);

    exec_node_ring(&node[1], 0, 77);
    exec_node_sleep(&node[0], bell, now_ns() + 600 * second_ns);

    assert_int_equal(exec_node_rung_count(&node[0]), 1);
    assert_int_equal(exec_node_rung_count(&node[1]), 0);
    give_back(memory);
}

static void a_message_that_is_not_waited_for_is_counted_and_wakes_nobody(void **state)
{
    (void)state;
    void *memory = share_memory();
    exec_node node[RANKS];
    join_both(node, memory);
    exec_node_note_wait(&node[0], 9, 77, 0);
    const uint32_t bell = exec_node_bell(&node[0]);

    exec_node_ring(&node[1], 0, 78);

    assert_int_equal(exec_node_rung_count(&node[0]), 1);
    assert_int_equal(exec_node_bell(&node[0]), bell);
    give_back(memory);
}

static void the_first_failure_is_everybodys_and_wakes_them(void **state)
{
    (void)state;
    void *memory = share_memory();
    exec_node node[RANKS];
    join_both(node, memory);
    const uint32_t bell = exec_node_bell(&node[0]);
    const exec_node_failure first = {.code = STATUS_IO, .lost_rank = -1, .message = "disk full"};
    const exec_node_failure second = {.code = STATUS_BACKEND, .lost_rank = 8, .message = "other"};

    assert_false(exec_node_has_failed(&node[0]));
    exec_node_fail(&node[1], &first);
    exec_node_fail(&node[0], &second);
    exec_node_sleep(&node[0], bell, now_ns() + 600 * second_ns);

    assert_true(exec_node_has_failed(&node[0]));
    assert_string_equal(exec_node_first_failure(&node[0])->message, "disk full");
    assert_int_equal(exec_node_first_failure(&node[0])->code, STATUS_IO);
    give_back(memory);
}

/// A child joins, has itself seen, and ends.
static void leave_early(exec_node *node, void *memory, bool is_seen)
{
    int ready[2];
    int go[2];
    char byte = 0;
    assert_int_equal(pipe(ready), 0);
    assert_int_equal(pipe(go), 0);
    const pid_t child = fork();
    if (child == 0) {
        exec_node other;
        join(&other, memory, 1);
        const bool told = write(ready[1], "x", 1) == 1 && read(go[0], &byte, 1) == 1;
        _exit(told ? 0 : 1);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    if (is_seen) exec_node_watch(node, true);
    assert_int_equal(write(go[1], "x", 1), 1);
    waitpid(child, NULL, 0);
    for (int end = 0; end < 2; end++) {
        close(ready[end]);
        close(go[end]);
    }
}

static void a_process_that_is_gone_is_named_with_its_op(void **state)
{
    (void)state;
    void *memory = share_memory();
    exec_node node;
    join(&node, memory, 0);
    leave_early(&node, memory, true);

    exec_node_watch(&node, true);

    assert_true(exec_node_is_gone(&node, 1));
    assert_true(exec_node_has_failed(&node));
    assert_string_equal(exec_node_first_failure(&node)->message,
                        "rank 9, iteration 12, F5 of stage 1: its process is gone");
    assert_int_equal(exec_node_first_failure(&node)->lost_rank, 9);
    give_back(memory);
}

static void processes_that_could_never_be_seen_are_no_evidence(void **state)
{
    (void)state;
    void *memory = share_memory();
    exec_node node;
    join(&node, memory, 0);
    leave_early(&node, memory, false);

    exec_node_watch(&node, true);

    assert_false(exec_node_has_failed(&node));
    give_back(memory);
}

static void a_busy_rank_hangs_when_nothing_moves_for_too_long(void **state)
{
    (void)state;
    void *memory = share_memory();
    exec_node node[RANKS];
    join_both(node, memory);
    exec_node_note_wait(&node[0], 9, 0, 0);

    watch_when_quiet(&node[0], true);

    assert_string_equal(exec_node_first_failure(&node[0])->message,
                        "rank 9, iteration 12, F5 of stage 1: hangs: no rank has moved for 60 s");
    assert_int_equal(exec_node_first_failure(&node[0])->lost_rank, 9);
    give_back(memory);
}

static void ranks_that_wait_in_vain_are_all_named_and_none_is_lost(void **state)
{
    (void)state;
    void *memory = share_memory();
    exec_node node[RANKS];
    join_both(node, memory);
    exec_node_note_wait(&node[0], 9, 0, 0);
    exec_node_note_wait(&node[1], 8, 0, 0);

    watch_when_quiet(&node[0], true);

    assert_string_equal(exec_node_first_failure(&node[0])->message,
                        "rank 8, iteration 12, F5 of stage 0 waits for rank 9; "
                        "rank 9, iteration 12, F5 of stage 1 waits for rank 8");
    assert_int_equal(exec_node_first_failure(&node[0])->lost_rank, -1);
    give_back(memory);
}

static void moves_beats_planned_sleeps_and_other_nodes_are_patience(void **state)
{
    (void)state;
    void *memory = share_memory();
    exec_node node[RANKS];
    join_both(node, memory);
    exec_node_note_wait(&node[0], 9, 0, 0);

    node[0].quiet_ns = watchdog_ns;
    exec_node_note_move(&node[1]);
    exec_node_watch(&node[0], true);
    assert_false(exec_node_has_failed(&node[0]));
    node[0].quiet_ns = watchdog_ns;
    exec_node_note_beat(&node[0]);
    exec_node_watch(&node[0], true);
    assert_false(exec_node_has_failed(&node[0]));
    node[0].quiet_ns = watchdog_ns;
    exec_node_note_wait(&node[1], -1, 0, now_ns() + 600 * second_ns);
    exec_node_watch(&node[0], true);
    assert_false(exec_node_has_failed(&node[0]));
    exec_node_note_wait(&node[1], 8, 0, 0);
    watch_when_quiet(&node[0], false); // all wait here: perhaps another node knows why
    assert_false(exec_node_has_failed(&node[0]));

    assert_int_equal(exec_node_move_count(&node[0]), 1);
    give_back(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bell_wakes_a_process_that_sleeps),
        cmocka_unit_test(a_bell_before_the_sleep_is_not_lost),
        cmocka_unit_test(a_message_that_is_not_waited_for_is_counted_and_wakes_nobody),
        cmocka_unit_test(the_first_failure_is_everybodys_and_wakes_them),
        cmocka_unit_test(a_process_that_is_gone_is_named_with_its_op),
        cmocka_unit_test(processes_that_could_never_be_seen_are_no_evidence),
        cmocka_unit_test(a_busy_rank_hangs_when_nothing_moves_for_too_long),
        cmocka_unit_test(ranks_that_wait_in_vain_are_all_named_and_none_is_lost),
        cmocka_unit_test(moves_beats_planned_sleeps_and_other_nodes_are_patience),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

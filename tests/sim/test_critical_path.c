/// The critical path: by hand, and on random orders, where it has no gaps.
#include "sim/critical_path.h"

#include "sim/dispatch.h"
#include "sim/pipeline.h"
#include "tests/assert_close.h"
#include "tests/balance/reference_player.h"
#include "tests/sim/random_schedules.h"
#include "tests/test_memory.h"

#include <string.h>

enum { RANDOM_CASES = 500 };

static bal_timeline play(const bal_schedule *schedule, const bal_stage_costs *costs, arena *memory)
{
    sim_order order;
    bal_timeline timeline;
    error_message err = {0};
    if (sim_order_compile(schedule, memory, &order, &err) != STATUS_OK) fail_msg("%s", err.message);
    sim_timeline_init(schedule, memory, &timeline);
    sim_order_play(&order, costs, NULL, &timeline);
    return timeline;
}

/// The parts of the path add up to the end of the iteration, all of which begin at 0.
static void assert_path_adds_up(const sim_critical_path *path, const bal_timeline *timeline,
                                uint64_t seed)
{
    const bal_schedule *schedule = timeline->schedule;
    int64_t sum_ns = 0;
    int64_t makespan_ns = 0;
    for (int op = 0; op < schedule->first_op[schedule->rank_count]; op++) {
        if (timeline->end_ns[op] > makespan_ns) makespan_ns = timeline->end_ns[op];
    }
    for (int stage = 0; stage < path->stage_count; stage++) {
        for (int kind = 0; kind < OP_KIND_COUNT; kind++) {
            sum_ns += path->op_ns[stage][kind];
        }
        sum_ns += path->forward_link_ns[stage] + path->backward_link_ns[stage];
    }
    if (path->makespan_ns != makespan_ns || sum_ns != makespan_ns) {
        fail_msg("seed %llu: the path takes %lld ns, the iteration %lld", (unsigned long long)seed,
                 (long long)sum_ns, (long long)makespan_ns);
    }
}

static bool draw_problem(uint64_t seed, random_problem *problem, arena *memory)
{
    rng generator = rng_init(seed, 11);
    *problem = random_problem_draw(seed, memory);
    if (seed % 3 == 0) random_delays(&generator, &problem->costs, 20, memory);
    return seed % 2 > 0 || random_pairs(&generator, &problem->schedule);
}

/// Two stages of one microbatch: F 10, BW 20 + 5, messages 3 and 4.
static bal_stage_costs two_stages(arena *memory)
{
    static const int64_t send_forward[] = {3, 1000};
    static const int64_t send_backward[] = {1000, 4};
    bal_stage_costs costs = reference_uniform_costs(2, 10, 20, 5, 0, (int64_t[]){1, 0, -1}, memory);
    costs.send_forward_ns = send_forward;
    costs.send_backward_ns = send_backward;
    return costs;
}

static void two_stages_are_one_chain(void **state)
{
    arena *memory = *state;
    const bal_schedule schedule = reference_build("1f1b", 2, 1, 1, memory);
    const bal_stage_costs costs = two_stages(memory);
    const bal_timeline timeline = play(&schedule, &costs, memory);
    sim_critical_path path;

    sim_critical_path_of(&timeline, &costs, memory, &path);

    assert_int_equal(path.makespan_ns, 77);
    assert_int_equal(path.op_count, 4);
    assert_int_equal(path.message_count, 2);
    for (int stage = 0; stage < 2; stage++) {
        assert_int_equal(path.op_ns[stage][OP_FORWARD], 10);
        assert_int_equal(path.op_ns[stage][OP_BACKWARD], 25);
    }
    assert_int_equal(path.forward_link_ns[0], 3);
    assert_int_equal(path.backward_link_ns[1], 4);
    assert_int_equal(path.forward_link_ns[1] + path.backward_link_ns[0], 0);
}

static void the_path_of_any_order_has_no_gaps(void **state)
{
    arena *memory = *state;
    for (uint64_t seed = 0; seed < 2 * RANDOM_CASES; seed++, arena_reset(memory)) {
        random_problem problem;
        sim_critical_path path;
        if (!draw_problem(seed, &problem, memory)) continue;
        const bal_timeline timeline = play(&problem.schedule, &problem.costs, memory);

        sim_critical_path_of(&timeline, &problem.costs, memory, &path);

        assert_path_adds_up(&path, &timeline, seed);
    }
}

static void where_messages_keep_ranks_busy_the_path_has_no_gaps_either(void **state)
{
    arena *memory = *state;
    int played = 0;
    for (uint64_t seed = 0; seed < RANDOM_CASES; seed++, arena_reset(memory)) {
        const random_problem problem = random_problem_draw(seed, memory);
        const sim_network network = {.send =
                                         seed % 2 == 0 ? BAL_SEND_BLOCKING : BAL_SEND_RENDEZVOUS};
        sim_dispatch *dispatch = NULL;
        bal_timeline timeline;
        sim_critical_path path;
        assert_ok(
            sim_dispatch_create(&problem.schedule, SIM_STATIC, &network, memory, &dispatch, NULL));
        if (sim_dispatch_play(dispatch, &problem.costs, NULL, NULL, &timeline, NULL) != STATUS_OK) {
            continue; // a rendezvous in this order gets stuck
        }

        sim_critical_path_of(&timeline, &problem.costs, memory, &path);

        assert_path_adds_up(&path, &timeline, seed);
        played++;
    }
    assert_true(played > RANDOM_CASES / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_stages_are_one_chain),
        cmocka_unit_test(the_path_of_any_order_has_no_gaps),
        cmocka_unit_test(where_messages_keep_ranks_busy_the_path_has_no_gaps_either),
    };
    return cmocka_run_group_tests(tests, open_memory, close_memory);
}

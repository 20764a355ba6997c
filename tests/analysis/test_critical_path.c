/// The critical path and what shorter ops and links are worth: by hand, and on random orders, where
/// the path has no gaps and shortening it by hand gives the same.
#include "analysis/whatif/critical_path.h"
#include "analysis/whatif/sensitivity.h"
#include "sim/dispatch.h"
#include "sim/pipeline.h"
#include "tests/assert_close.h"
#include "tests/balance/reference_player.h"
#include "tests/sim/random_schedules.h"

enum { RANDOM_CASES = 500 };

static bal_timeline play(const bal_schedule *schedule, const bal_stage_costs *costs, arena *memory)
{
    sim_order order;
    bal_timeline timeline;
    error_message err = {0};
    if (sim_order_compile(schedule, memory, &order, &err) != STATUS_OK) fail_msg("%s", err.message);
    assert_int_equal(sim_timeline_init(schedule, memory, &timeline), STATUS_OK);
    sim_order_play(&order, costs, NULL, &timeline);
    return timeline;
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
    (void)state;
    arena *memory = arena_create(1 << 16);
    const bal_schedule schedule = reference_build("1f1b", 2, 1, 1, memory);
    const bal_stage_costs costs = two_stages(memory);
    const bal_timeline timeline = play(&schedule, &costs, memory);
    ana_critical_path path;

    ana_critical_path_of(&timeline, &costs, memory, &path);

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
    arena_destroy(memory);
}

static int64_t path_total(const ana_critical_path *path)
{
    int64_t sum = 0;
    for (int stage = 0; stage < path->stage_count; stage++) {
        for (int kind = 0; kind < OP_KIND_COUNT; kind++) {
            sum += path->op_ns[stage][kind];
        }
        sum += path->forward_link_ns[stage] + path->backward_link_ns[stage];
    }
    return sum;
}

static void the_path_of_any_order_has_no_gaps(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= RANDOM_CASES; seed++) {
        arena *memory = arena_create(1 << 16);
        const random_problem problem = random_problem_draw(seed, memory);
        const bal_timeline timeline = play(&problem.schedule, &problem.costs, memory);
        ana_critical_path path;
        ana_critical_path_of(&timeline, &problem.costs, memory, &path);
        int64_t makespan_ns = 0;
        for (int op = 0; op < problem.schedule.first_op[problem.schedule.rank_count]; op++) {
            if (timeline.end_ns[op] > makespan_ns) makespan_ns = timeline.end_ns[op];
        }
        if (path.makespan_ns != makespan_ns || path_total(&path) != makespan_ns) {
            fail_msg("seed %lu: %ld of %ld", (unsigned long)seed, (long)path_total(&path),
                     (long)makespan_ns);
        }
        arena_destroy(memory);
    }
}

static void where_messages_keep_ranks_busy_the_path_has_no_gaps_either(void **state)
{
    (void)state;
    arena *memory = arena_create(1 << 18);
    int played = 0;
    for (uint64_t seed = 0; seed < RANDOM_CASES; seed++) {
        const random_problem problem = random_problem_draw(seed, memory);
        const sim_network network = {.send =
                                         seed % 2 == 0 ? BAL_SEND_BLOCKING : BAL_SEND_RENDEZVOUS};
        sim_dispatch *dispatch = NULL;
        bal_timeline timeline;
        ana_critical_path path;
        assert_int_equal(
            sim_dispatch_create(&problem.schedule, SIM_STATIC, &network, memory, &dispatch, NULL),
            STATUS_OK);
        if (sim_dispatch_play(dispatch, &problem.costs, NULL, NULL, &timeline, NULL) != STATUS_OK) {
            continue; // a rendezvous in this order gets stuck
        }

        ana_critical_path_of(&timeline, &problem.costs, memory, &path);

        if (path_total(&path) != path.makespan_ns) {
            fail_msg("seed %llu: %lld of %lld ns", (unsigned long long)seed,
                     (long long)path_total(&path), (long long)path.makespan_ns);
        }
        played++;
        arena_reset(memory);
    }
    assert_true(played > RANDOM_CASES / 2);
    arena_destroy(memory);
}

static void one_percent_of_a_chain_is_its_share(void **state)
{
    (void)state;
    arena *memory = arena_create(1 << 16);
    const bal_schedule schedule = reference_build("zb-h1", 2, 1, 1, memory);
    const int64_t forward[] = {1000, 2000};
    const int64_t input[] = {3000, 4000};
    const int64_t weight[] = {500, 100};
    const int64_t send[] = {700, 800};
    bal_stage_costs costs = reference_uniform_costs(2, 1, 1, 1, 0, (int64_t[]){1, 0, -1}, memory);
    costs.forward_ns = forward;
    costs.backward_input_ns = input;
    costs.backward_weight_ns = weight;
    costs.send_forward_ns = send;
    costs.send_backward_ns = send;
    ana_sensitivity found;

    // F 1000, 700, F 2000, B 4000, 800, B 3000, W 500: stage 1's W has long ended.
    assert_int_equal(ana_sensitivity_of(&schedule, &costs, false, memory, &found, NULL), STATUS_OK);

    assert_int_equal(found.stage_ns[0], 10 + 30 + 5);
    assert_int_equal(found.stage_ns[1], 20 + 40);
    assert_int_equal(found.link_ns[0], 7 + 8);
    assert_int_equal(found.link_ns[1], 0);
    assert_int_equal(found.kind_ns[OP_FORWARD], 30);
    assert_int_equal(found.kind_ns[OP_BACKWARD_INPUT], 70);
    assert_int_equal(found.kind_ns[OP_BACKWARD_WEIGHT], 5);
    assert_int_equal(found.kind_ns[OP_BACKWARD], 75);
    assert_int_equal(found.all_ops_ns, 105);
    assert_int_equal(found.all_links_ns, 15);
    arena_destroy(memory);
}

static void shorter_is_never_longer(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= RANDOM_CASES; seed++) {
        arena *memory = arena_create(1 << 16);
        const random_problem problem = random_problem_draw(seed, memory);
        ana_sensitivity found;
        assert_int_equal(
            ana_sensitivity_of(&problem.schedule, &problem.costs, false, memory, &found, NULL),
            STATUS_OK);
        for (int stage = 0; stage < found.stage_count; stage++) {
            if (found.stage_ns[stage] < 0 || found.link_ns[stage] < 0 ||
                found.stage_ns[stage] > found.all_ops_ns ||
                found.link_ns[stage] > found.all_links_ns) {
                fail_msg("seed %lu, stage %d", (unsigned long)seed, stage);
            }
        }
        arena_destroy(memory);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_stages_are_one_chain),
        cmocka_unit_test(the_path_of_any_order_has_no_gaps),
        cmocka_unit_test(where_messages_keep_ranks_busy_the_path_has_no_gaps_either),
        cmocka_unit_test(one_percent_of_a_chain_is_its_share),
        cmocka_unit_test(shorter_is_never_longer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

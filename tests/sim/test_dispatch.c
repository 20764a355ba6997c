/// The event engine without resistance: under static it is the static engine; what the other
/// policies need of memory, published numbers, the same bytes everywhere. That every policy plays
/// as the plainest player does is in test_dispatch_network.c.
#include "balance/metrics.h"
#include "base/file.h"
#include "sim/costs.h"
#include "sim/dispatch.h"
#include "sim/pipeline.h"
#include "tests/balance/reference_player.h"
#include "tests/sim/random_schedules.h"
#include "tests/test.h"
#include "tests/test_memory.h"

#include <stdlib.h>
#include <string.h>

static bal_timeline play(const bal_schedule *schedule, const bal_stage_costs *costs,
                         sim_policy policy, const int64_t *memory_limit)
{
    sim_dispatch *dispatch = NULL;
    bal_timeline timeline = {0};
    require(sim_costs_check(schedule, costs, &why));
    require(sim_dispatch_create(schedule, policy, NULL, memory, &dispatch, &why));
    require(sim_dispatch_play(dispatch, costs, memory_limit, NULL, &timeline, &why));
    return timeline;
}

static bal_timeline play_static(const bal_schedule *schedule, const bal_stage_costs *costs,
                                const int64_t *start_ns)
{
    sim_order order;
    bal_timeline timeline;
    require(sim_order_compile(schedule, memory, &order, &why));
    sim_timeline_init(schedule, memory, &timeline);
    sim_order_play(&order, costs, start_ns, &timeline);
    return timeline;
}

static void assert_same_times(const bal_timeline *actual, const bal_timeline *expected,
                              const char *what, uint64_t seed)
{
    const bal_schedule *schedule = expected->schedule;
    const size_t bytes = (size_t)schedule->first_op[schedule->rank_count] * sizeof(int64_t);
    if (memcmp(actual->begin_ns, expected->begin_ns, bytes) != 0 ||
        memcmp(actual->end_ns, expected->end_ns, bytes) != 0) {
        fail_msg("%s, seed %llu: the engines differ", what, (unsigned long long)seed);
    }
}

TEST(the_families_play_alike_in_both_engines)
{
    int family_count = 0;
    const bal_schedule_family *families = bal_schedule_families(&family_count);
    rng generator = rng_init(7, 3);
    for (int family = 0; family < family_count; family++) {
        for (int p = 2; p <= 6; p += 2) {
            const int chunks = families[family].chunk_count != 0 ? families[family].chunk_count : 2;
            const int m = 3 * p;
            const int64_t rough[] = {1, 0, -1};
            const bal_stage_costs uniform =
                reference_uniform_costs(p * chunks, 10, 10, 10, 1, rough);
            const bal_schedule_request request = {.name = families[family].name,
                                                  .rank_count = p,
                                                  .microbatch_count = m,
                                                  .chunk_count = chunks,
                                                  .costs = &uniform};
            bal_schedule schedule;
            if (bal_schedule_build(&request, memory, &schedule, &why) != STATUS_OK) {
                fail_msg("%s: %s", families[family].name, why.message);
            }
            const bal_stage_costs costs =
                random_costs(&generator, p * chunks, schedule.microbatch_count, 1000, 100);
            const int64_t start_ns[] = {5, 0, 700, 30, 0, 9000};
            sim_dispatch *dispatch = NULL;
            bal_timeline actual;
            assert_ok(sim_dispatch_create(&schedule, SIM_STATIC, NULL, memory, &dispatch, NULL));

            assert_ok(sim_dispatch_play(dispatch, &costs, NULL, start_ns, &actual, NULL));

            const bal_timeline expected = play_static(&schedule, &costs, start_ns);
            assert_same_times(&actual, &expected, families[family].name, 0);
            arena_reset(memory);
        }
    }
}

static bool is_backward(bal_op op)
{
    return op.kind == OP_BACKWARD || op.kind == OP_BACKWARD_INPUT;
}

/// The least limit of a rank under greedy: one microbatch at each of its stages.
static int64_t greedy_need(const bal_schedule *schedule, const bal_stage_costs *costs, int rank)
{
    int64_t need = 0;
    for (int chunk = 0; chunk < schedule->chunk_count; chunk++) {
        const int stage = bal_stage_of(schedule->placement, schedule->rank_count,
                                       schedule->chunk_count, rank, chunk);
        const int64_t after_b = costs->memory_forward[stage] + costs->memory_backward_input[stage];
        need += costs->memory_forward[stage] > after_b ? costs->memory_forward[stage] : after_b;
    }
    return need;
}

/// The least limit of a rank under floating-w, op by op with every W right after its B.
static int64_t floating_need(const bal_schedule *schedule, const bal_stage_costs *costs, int rank)
{
    int64_t held = 0;
    int64_t need = 0;
    for (int index = schedule->first_op[rank]; index < schedule->first_op[rank + 1]; index++) {
        const bal_op op = schedule->ops[index];
        const int stage = bal_stage_of(schedule->placement, schedule->rank_count,
                                       schedule->chunk_count, rank, op.chunk);
        const int64_t after_b = costs->memory_forward[stage] + costs->memory_backward_input[stage];
        const int64_t claim =
            costs->memory_forward[stage] > after_b ? costs->memory_forward[stage] : after_b;
        if (op.kind == OP_FORWARD) held += claim;
        if (is_backward(op)) held -= claim;
        if (held > need) need = held;
    }
    return need;
}

static int64_t need_of(const bal_schedule *schedule, const bal_stage_costs *costs,
                       sim_policy policy, int rank)
{
    return policy == SIM_GREEDY ? greedy_need(schedule, costs, rank)
                                : floating_need(schedule, costs, rank);
}

TEST(one_less_than_the_least_limit_is_infeasible)
{
    for (uint64_t seed = 0; seed < 1000; seed++) {
        const random_problem problem = random_problem_draw(seed);
        const int ranks = problem.schedule.rank_count;
        for (int policy = SIM_FLOATING_W; policy <= SIM_GREEDY; policy++) {
            int64_t limit[5];
            sim_dispatch *dispatch = NULL;
            bal_timeline timeline;
            for (int rank = 0; rank < ranks; rank++) {
                limit[rank] = need_of(&problem.schedule, &problem.costs, (sim_policy)policy, rank);
            }
            limit[seed % (uint64_t)ranks]--;
            assert_ok(sim_dispatch_create(&problem.schedule, (sim_policy)policy, NULL, memory,
                                          &dispatch, NULL));

            if (sim_dispatch_play(dispatch, &problem.costs, limit, NULL, &timeline, NULL) !=
                STATUS_INFEASIBLE) {
                fail_msg("seed %llu, %s: a limit below the need was kept", (unsigned long long)seed,
                         sim_policy_names[(sim_policy)policy]);
            }
        }
        arena_reset(memory);
    }
}

/// 1F1B with every BW as B and W, which is the order of F and B of ZB-H1.
static bal_schedule split_1f1b(int p, int m)
{
    bal_schedule schedule = reference_build("1f1b", p, m, 1);
    bal_op *ops = arena_array(memory, (size_t)(3 * p * m), sizeof *ops);
    int *first_op = arena_array(memory, (size_t)p + 1, sizeof *first_op);
    int used = 0;
    for (int rank = 0; rank < p; rank++) {
        for (int index = schedule.first_op[rank]; index < schedule.first_op[rank + 1]; index++) {
            ops[used++] = schedule.ops[index];
            if (schedule.ops[index].kind != OP_BACKWARD) continue;
            ops[used - 1].kind = OP_BACKWARD_INPUT;
            ops[used] = ops[used - 1];
            ops[used++].kind = OP_BACKWARD_WEIGHT;
        }
        first_op[rank + 1] = used;
    }
    schedule.has_split = true;
    schedule.ops = ops;
    schedule.first_op = first_op;
    return schedule;
}

TEST(eight_equal_stages_take_the_measured_spans)
{
    // An independent simulator: P=8 M=32, 1F1B's memory; zero-bubble rates of greedy .0857 at equal
    // F, B, W and .1767 at 1, 1.2, 0.8 and latency .05; of floating W .0680.
    const bal_schedule schedule = split_1f1b(8, 32);
    const int64_t limit[] = {8, 8, 8, 8, 8, 8, 8, 8};
    const int64_t held[] = {1, 0, -1};
    const bal_stage_costs equal = reference_uniform_costs(8, 100, 100, 100, 0, held);
    const bal_stage_costs uneven = reference_uniform_costs(8, 100, 120, 80, 5, held);

    const bal_timeline greedy = play(&schedule, &equal, SIM_GREEDY, limit);
    const bal_timeline greedy_uneven = play(&schedule, &uneven, SIM_GREEDY, limit);
    const bal_timeline floating = play(&schedule, &equal, SIM_FLOATING_W, limit);

    assert_close(bal_metrics_of(&greedy).zb_bubble_rate, 0.0857, 1e-3);
    assert_close(bal_metrics_of(&greedy_uneven).zb_bubble_rate, 0.1767, 1e-3);
    assert_close(bal_metrics_of(&floating).zb_bubble_rate, 0.0680, 1e-3);
}

TEST(a_limit_too_low_names_rank_need_and_limit)
{
    const bal_schedule schedule = split_1f1b(3, 6);
    const bal_stage_costs costs = reference_uniform_costs(3, 10, 10, 10, 0, (int64_t[]){5, -2, -3});
    static const char *const messages[SIM_POLICY_COUNT] = {
        [SIM_STATIC] = "rank 0 needs memory of 15 under policy static; its limit is 14",
        [SIM_FLOATING_W] = "rank 0 needs memory of 15 under policy floating-w; its limit is 14",
        [SIM_GREEDY] = "rank 1 needs memory of 5 under policy greedy; its limit is 4",
    };
    for (int policy = 0; policy < SIM_POLICY_COUNT; policy++) {
        const int64_t limit[] = {14, policy == SIM_GREEDY ? 4 : 10, 5};
        sim_dispatch *dispatch = NULL;
        bal_timeline timeline = {0};
        assert_ok(
            sim_dispatch_create(&schedule, (sim_policy)policy, NULL, memory, &dispatch, NULL));

        assert_fails(sim_dispatch_play(dispatch, &costs, limit, NULL, &timeline, &why),
                     STATUS_INFEASIBLE, messages[policy]);
        assert_null(timeline.schedule);
    }
}

TEST(memory_left_behind_cannot_be_limited)
{
    const bal_schedule schedule = split_1f1b(2, 6);
    const bal_stage_costs costs = reference_uniform_costs(2, 10, 10, 10, 0, (int64_t[]){5, -2, -2});
    const int64_t limit[] = {100, 100};
    sim_dispatch *dispatch = NULL;
    bal_timeline timeline = {0};
    assert_ok(sim_dispatch_create(&schedule, SIM_GREEDY, NULL, memory, &dispatch, NULL));

    assert_fails(sim_dispatch_play(dispatch, &costs, limit, NULL, &timeline, &why), STATUS_INVALID,
                 "a microbatch leaves 1 of memory behind at stage 0: policy "
                 "greedy cannot keep a limit");
}

TEST(timelines_are_the_same_bytes_everywhere)
{
    uint64_t hash = FILE_HASH_START;
    for (uint64_t seed = 100; seed < 200; seed++) {
        for (int policy = 0; policy < SIM_POLICY_COUNT; policy++) {
            const random_problem problem = random_problem_draw(seed);
            const size_t ops = (size_t)problem.schedule.first_op[problem.schedule.rank_count];
            const bal_timeline timeline =
                play(&problem.schedule, &problem.costs, (sim_policy)policy, NULL);
            hash = file_hash(hash, timeline.schedule->ops, ops * sizeof(bal_op));
            hash = file_hash(hash, timeline.begin_ns, ops * sizeof(int64_t));
            hash = file_hash(hash, timeline.end_ns, ops * sizeof(int64_t));
            arena_reset(memory);
        }
    }
    const uint64_t golden = UINT64_C(0x27945a7f972c76fe); // of little-endian machines
    if (hash != golden) fail_msg("hash %016llx", (unsigned long long)hash);
}

int main(void)
{
    return run_all_tests(open_memory, close_memory);
}

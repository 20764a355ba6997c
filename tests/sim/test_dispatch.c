/// The event engine: under static it is the static engine; under the other policies the order that
/// it played replays to the same times, keeps the policy's rules as they are defined, and stays
/// within memory; one timeline by hand, one from an independent program.
#include "balance/metrics.h"
#include "base/file.h"
#include "base/json.h"
#include "sim/costs.h"
#include "sim/dispatch.h"
#include "sim/pipeline.h"
#include "tests/assert_close.h"
#include "tests/balance/reference_player.h"
#include "tests/sim/random_schedules.h"
#include "tests/test_memory.h"

#include <stdlib.h>
#include <string.h>

static bal_timeline play(const bal_schedule *schedule, const bal_stage_costs *costs,
                         sim_policy policy, const int64_t *memory_limit, arena *memory)
{
    sim_dispatch *dispatch = NULL;
    bal_timeline timeline = {0};
    error_message err = {0};
    if (sim_costs_check(schedule, costs, &err) != STATUS_OK ||
        sim_dispatch_create(schedule, policy, NULL, memory, &dispatch, &err) != STATUS_OK ||
        sim_dispatch_play(dispatch, costs, memory_limit, NULL, &timeline, &err) != STATUS_OK) {
        fail_msg("%s", err.message);
    }
    return timeline;
}

static bal_timeline play_static(const bal_schedule *schedule, const bal_stage_costs *costs,
                                const int64_t *start_ns, arena *memory)
{
    sim_order order;
    bal_timeline timeline;
    error_message err = {0};
    if (sim_order_compile(schedule, memory, &order, &err) != STATUS_OK) {
        fail_msg("%s", err.message);
    }
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

static void under_static_both_engines_agree_to_the_nanosecond(void **state)
{
    arena *memory = *state;
    for (uint64_t seed = 0; seed < 4000; seed++) {
        const random_problem problem = random_problem_draw(seed, memory);
        const bal_timeline expected = play_static(&problem.schedule, &problem.costs, NULL, memory);

        const bal_timeline actual =
            play(&problem.schedule, &problem.costs, SIM_STATIC, NULL, memory);

        assert_same_times(&actual, &expected, "static", seed);
        assert_memory_equal(actual.schedule->ops, problem.schedule.ops,
                            (size_t)problem.schedule.first_op[problem.schedule.rank_count] *
                                sizeof(bal_op));
        arena_reset(memory);
    }
}

static void the_families_play_alike_in_both_engines(void **state)
{
    arena *memory = *state;
    int family_count = 0;
    const bal_schedule_family *families = bal_schedule_families(&family_count);
    rng generator = rng_init(7, 3);
    for (int family = 0; family < family_count; family++) {
        for (int p = 2; p <= 6; p += 2) {
            const int chunks = families[family].chunk_count != 0 ? families[family].chunk_count : 2;
            const int m = 3 * p;
            const int64_t rough[] = {1, 0, -1};
            const bal_stage_costs uniform =
                reference_uniform_costs(p * chunks, 10, 10, 10, 1, rough, memory);
            const bal_schedule_request request = {.name = families[family].name,
                                                  .rank_count = p,
                                                  .microbatch_count = m,
                                                  .chunk_count = chunks,
                                                  .costs = &uniform};
            bal_schedule schedule;
            error_message err = {0};
            if (bal_schedule_build(&request, memory, &schedule, &err) != STATUS_OK) {
                fail_msg("%s: %s", families[family].name, err.message);
            }
            const bal_stage_costs costs =
                random_costs(&generator, p * chunks, schedule.microbatch_count, 1000, 100, memory);
            const int64_t start_ns[] = {5, 0, 700, 30, 0, 9000};
            sim_dispatch *dispatch = NULL;
            bal_timeline actual;
            assert_ok(sim_dispatch_create(&schedule, SIM_STATIC, NULL, memory, &dispatch, NULL));

            assert_ok(sim_dispatch_play(dispatch, &costs, NULL, start_ns, &actual, NULL));

            const bal_timeline expected = play_static(&schedule, &costs, start_ns, memory);
            assert_same_times(&actual, &expected, families[family].name, 0);
            arena_reset(memory);
        }
    }
}

/// What the checks of a rule need of one op of a played rank.
typedef struct played_op {
    bal_op op;
    int64_t begin_ns;
    int64_t ready_ns; // when what it waits for was there, on its own rank and on others
} played_op;

/// Time from which op of rank could have run but for the rank itself: the arrival of its message,
/// and for B and W the end of their F or B.
static int64_t ready_ns(const bal_timeline *timeline, const bal_stage_costs *costs, int rank,
                        bal_op op)
{
    const bal_schedule *schedule = timeline->schedule;
    int64_t ready = reference_arrival(timeline, costs, rank, op);
    for (int index = schedule->first_op[rank]; index < schedule->first_op[rank + 1]; index++) {
        const bal_op own = schedule->ops[index];
        const bool is_before =
            op.kind == OP_BACKWARD_WEIGHT ? own.kind == OP_BACKWARD_INPUT : own.kind == OP_FORWARD;
        if (op.kind == OP_FORWARD || !is_before || own.chunk != op.chunk ||
            own.microbatch != op.microbatch) {
            continue;
        }
        if (timeline->end_ns[index] > ready) ready = timeline->end_ns[index];
    }
    return ready;
}

static bool is_backward(bal_op op)
{
    return op.kind == OP_BACKWARD || op.kind == OP_BACKWARD_INPUT;
}

/// While an op that is later in the played order of its rank was ready and free to run, the policy
/// must have had a reason to run another one, or none, before it. "Ready" means earlier than the
/// decision: what happens at the same moment may come after it.
static void assert_greedy_rules(const played_op *ops, int count, bool has_limit, uint64_t seed)
{
    for (int index = 0; index < count; index++) {
        for (int later = index + 1; later < count; later++) {
            if (ops[later].ready_ns >= ops[index].begin_ns) continue;
            const bool backward_waited = is_backward(ops[later].op) && !is_backward(ops[index].op);
            const bool forward_waited = !has_limit && ops[later].op.kind == OP_FORWARD &&
                                        ops[index].op.kind == OP_BACKWARD_WEIGHT;
            if (backward_waited || forward_waited) {
                fail_msg("greedy, seed %llu: op %d ran before op %d", (unsigned long long)seed,
                         index, later);
            }
        }
    }
}

static void assert_floating_rules(const played_op *ops, int count, bool has_limit, uint64_t seed)
{
    for (int index = 0; index < count; index++) {
        int next_fixed = index + 1;
        while (next_fixed < count && ops[next_fixed].op.kind == OP_BACKWARD_WEIGHT) {
            next_fixed++;
        }
        if (ops[index].op.kind != OP_BACKWARD_WEIGHT || next_fixed == count) continue;
        const bool may_wait = has_limit && ops[next_fixed].op.kind == OP_FORWARD;
        if (!may_wait && ops[next_fixed].ready_ns < ops[index].begin_ns) {
            fail_msg("floating-w, seed %llu: W at %d ran before op %d", (unsigned long long)seed,
                     index, next_fixed);
        }
    }
}

/// No rank idles while a W is pending.
static void assert_no_idle_weight(const played_op *ops, const int64_t *end_ns, int count,
                                  uint64_t seed)
{
    for (int index = 0; index < count; index++) {
        const int64_t idle_from = index == 0 ? 0 : end_ns[index - 1];
        if (ops[index].begin_ns == idle_from) continue;
        for (int later = index; later < count; later++) {
            if (ops[later].op.kind == OP_BACKWARD_WEIGHT &&
                ops[later].ready_ns < ops[index].begin_ns) {
                fail_msg("seed %llu: idle before op %d while W at %d was pending",
                         (unsigned long long)seed, index, later);
            }
        }
    }
}

static void assert_rules(const bal_timeline *timeline, const bal_stage_costs *costs,
                         sim_policy policy, bool has_limit, uint64_t seed, arena *memory)
{
    const bal_schedule *schedule = timeline->schedule;
    for (int rank = 0; rank < schedule->rank_count; rank++) {
        const int first = schedule->first_op[rank];
        const int count = schedule->first_op[rank + 1] - first;
        played_op *ops = arena_array(memory, (size_t)count, sizeof *ops);
        for (int index = 0; index < count; index++) {
            const bal_op op = schedule->ops[first + index];
            ops[index] = (played_op){op, timeline->begin_ns[first + index],
                                     ready_ns(timeline, costs, rank, op)};
        }
        if (policy == SIM_GREEDY) assert_greedy_rules(ops, count, has_limit, seed);
        if (policy == SIM_FLOATING_W) assert_floating_rules(ops, count, has_limit, seed);
        assert_no_idle_weight(ops, timeline->end_ns + first, count, seed);
    }
}

/// F and BW or B of every rank, in order, are those of the schedule.
static void assert_fixed_order_kept(const bal_schedule *played, const bal_schedule *schedule)
{
    for (int rank = 0; rank < schedule->rank_count; rank++) {
        int at = schedule->first_op[rank];
        for (int index = schedule->first_op[rank]; index < schedule->first_op[rank + 1]; index++) {
            if (played->ops[index].kind == OP_BACKWARD_WEIGHT) continue;
            while (schedule->ops[at].kind == OP_BACKWARD_WEIGHT) {
                at++;
            }
            assert_memory_equal(&played->ops[index], &schedule->ops[at], sizeof(bal_op));
            at++;
        }
    }
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

static void one_less_than_the_least_limit_is_infeasible(void **state)
{
    arena *memory = *state;
    for (uint64_t seed = 0; seed < 1000; seed++) {
        const random_problem problem = random_problem_draw(seed, memory);
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
                         sim_policy_name((sim_policy)policy));
            }
        }
        arena_reset(memory);
    }
}

static void dynamic_policies_keep_their_rules_and_replay_to_the_same_times(void **state)
{
    arena *memory = *state;
    for (uint64_t seed = 0; seed < 6000; seed++) {
        const random_problem problem = random_problem_draw(seed, memory);
        const bal_schedule *schedule = &problem.schedule;
        const sim_policy policy = seed % 2 == 0 ? SIM_GREEDY : SIM_FLOATING_W;
        rng generator = rng_init(seed, 4);
        const bool has_limit = rng_below(&generator, 3) > 0;
        int64_t limit[5];
        int64_t peak[5];
        for (int rank = 0; rank < schedule->rank_count; rank++) {
            limit[rank] = need_of(schedule, &problem.costs, policy, rank);
            limit[rank] += rng_between(&generator, 0, 4);
        }

        const bal_timeline timeline =
            play(schedule, &problem.costs, policy, has_limit ? limit : NULL, memory);

        const bal_timeline replayed = play_static(timeline.schedule, &problem.costs, NULL, memory);
        assert_same_times(&timeline, &replayed, sim_policy_name(policy), seed);
        assert_rules(&timeline, &problem.costs, policy, has_limit, seed, memory);
        if (policy == SIM_FLOATING_W) assert_fixed_order_kept(timeline.schedule, schedule);
        bal_memory_peak(timeline.schedule, &problem.costs, peak);
        for (int rank = 0; has_limit && rank < schedule->rank_count; rank++) {
            if (peak[rank] > limit[rank]) {
                fail_msg("seed %llu: rank %d holds %lld of %lld", (unsigned long long)seed, rank,
                         (long long)peak[rank], (long long)limit[rank]);
            }
        }
        arena_reset(memory);
    }
}

static int64_t change_of(const bal_stage_costs *costs, int stage, uint8_t kind)
{
    if (kind == OP_FORWARD) return costs->memory_forward[stage];
    if (kind == OP_BACKWARD_INPUT) return costs->memory_backward_input[stage];
    if (kind == OP_BACKWARD_WEIGHT) return costs->memory_backward_weight[stage];
    return costs->memory_backward_input[stage] + costs->memory_backward_weight[stage];
}

/// What a rank holds once everything up to a moment has happened: F that began, B and W that ended.
static int64_t held_at(const bal_timeline *timeline, const bal_stage_costs *costs, int rank,
                       int64_t moment_ns)
{
    const bal_schedule *schedule = timeline->schedule;
    int64_t held = 0;
    for (int index = schedule->first_op[rank]; index < schedule->first_op[rank + 1]; index++) {
        const bal_op op = schedule->ops[index];
        const int stage = bal_stage_of(schedule->placement, schedule->rank_count,
                                       schedule->chunk_count, rank, op.chunk);
        const int64_t changes_at =
            op.kind == OP_FORWARD ? timeline->begin_ns[index] : timeline->end_ns[index];
        if (changes_at <= moment_ns) held += change_of(costs, stage, op.kind);
    }
    return held;
}

static void memory_counted_moment_by_moment_peaks_within_the_limit(void **state)
{
    arena *memory = *state;
    for (uint64_t seed = 0; seed < 500; seed++) {
        const random_problem problem = random_problem_draw(seed, memory);
        const bal_schedule *schedule = &problem.schedule;
        int64_t limit[5];
        for (int rank = 0; rank < schedule->rank_count; rank++) {
            limit[rank] = greedy_need(schedule, &problem.costs, rank) + (int64_t)(seed % 3);
        }

        const bal_timeline timeline = play(schedule, &problem.costs, SIM_GREEDY, limit, memory);

        for (int rank = 0; rank < schedule->rank_count; rank++) {
            for (int index = schedule->first_op[rank]; index < schedule->first_op[rank + 1];
                 index++) {
                const int64_t begin_ns = timeline.begin_ns[index];
                const int64_t end_ns = timeline.end_ns[index];
                if (held_at(&timeline, &problem.costs, rank, begin_ns) > limit[rank] ||
                    held_at(&timeline, &problem.costs, rank, end_ns) > limit[rank]) {
                    fail_msg("seed %llu: rank %d is above %lld", (unsigned long long)seed, rank,
                             (long long)limit[rank]);
                }
            }
        }
        arena_reset(memory);
    }
}

/// 1F1B with every BW as B and W, which is the order of F and B of ZB-H1.
static bal_schedule split_1f1b(int p, int m, arena *memory)
{
    bal_schedule schedule = reference_build("1f1b", p, m, 1, memory);
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

static void eight_equal_stages_take_the_measured_spans(void **state)
{
    arena *memory = *state;
    // An independent simulator: P=8 M=32, 1F1B's memory; zero-bubble rates of greedy .0857 at equal
    // F, B, W and .1767 at 1, 1.2, 0.8 and latency .05; of floating W .0680.
    const bal_schedule schedule = split_1f1b(8, 32, memory);
    const int64_t limit[] = {8, 8, 8, 8, 8, 8, 8, 8};
    const int64_t held[] = {1, 0, -1};
    const bal_stage_costs equal = reference_uniform_costs(8, 100, 100, 100, 0, held, memory);
    const bal_stage_costs uneven = reference_uniform_costs(8, 100, 120, 80, 5, held, memory);

    const bal_timeline greedy = play(&schedule, &equal, SIM_GREEDY, limit, memory);
    const bal_timeline greedy_uneven = play(&schedule, &uneven, SIM_GREEDY, limit, memory);
    const bal_timeline floating = play(&schedule, &equal, SIM_FLOATING_W, limit, memory);

    assert_close(bal_metrics_of(&greedy).zb_bubble_rate, 0.0857, 1e-3);
    assert_close(bal_metrics_of(&greedy_uneven).zb_bubble_rate, 0.1767, 1e-3);
    assert_close(bal_metrics_of(&floating).zb_bubble_rate, 0.0680, 1e-3);
}

static void read_times(json_value rows, int row_count, int column_count, int64_t *out)
{
    for (int row = 0; row < row_count; row++) {
        assert_ok(json_int64_array(json_element(rows, row), column_count, 0, INT64_MAX,
                                   out + row * column_count, NULL));
    }
}

static void a_floating_timeline_of_an_independent_program(void **state)
{
    arena *memory = *state;
    enum { P = 4, M = 8, OPS = 3 * M };
    json_document *document = NULL;
    error_message err = {0};
    if (json_open("golden/floating_w_p4_m8.json", &document, &err) != STATUS_OK) {
        fail_msg("%s", err.message);
    }
    const json_value root = json_root(document);
    int64_t times[3][P * M];
    int64_t begin_ns[P * OPS];
    int64_t end_ns[P * OPS];
    read_times(json_member(root, "forward_ns"), P, M, times[0]);
    read_times(json_member(root, "backward_input_ns"), P, M, times[1]);
    read_times(json_member(root, "backward_weight_ns"), P, M, times[2]);
    read_times(json_member(root, "begin_ns"), P, OPS, begin_ns);
    read_times(json_member(root, "end_ns"), P, OPS, end_ns);
    bal_op expected[P * OPS];
    bal_op ops[P * OPS]; // F and B as in the file, every W at the end
    int first_op[P + 1] = {0};
    for (int rank = 0; rank < P; rank++) {
        int fixed = rank * OPS;
        int weight = rank * OPS + 2 * M;
        for (int index = 0; index < OPS; index++) {
            const char *name = NULL;
            bal_op *op = &expected[rank * OPS + index];
            assert_ok(json_string(json_element(json_element(json_member(root, "ops"), rank), index),
                                  &name, NULL));
            assert_ok(bal_op_parse(name, op, NULL));
            ops[op->kind == OP_BACKWARD_WEIGHT ? weight++ : fixed++] = *op;
        }
        first_op[rank + 1] = (rank + 1) * OPS;
    }
    const bal_schedule schedule = {.name = "by hand",
                                   .rank_count = P,
                                   .chunk_count = 1,
                                   .microbatch_count = M,
                                   .has_split = true,
                                   .first_op = first_op,
                                   .ops = ops};
    bal_stage_costs costs = reference_uniform_costs(P, 0, 0, 0, 0, (int64_t[]){1, 0, -1}, memory);
    costs.microbatch_count = M;
    costs.forward_ns = times[0];
    costs.backward_input_ns = times[1];
    costs.backward_weight_ns = times[2];

    const bal_timeline timeline =
        play(&schedule, &costs, SIM_FLOATING_W, (int64_t[]){4, 4, 4, 4}, memory);

    assert_memory_equal(timeline.schedule->ops, expected, sizeof expected);
    assert_memory_equal(timeline.begin_ns, begin_ns, sizeof begin_ns);
    assert_memory_equal(timeline.end_ns, end_ns, sizeof end_ns);
    json_close(document);
}

static void a_limit_too_low_names_rank_need_and_limit(void **state)
{
    arena *memory = *state;
    const bal_schedule schedule = split_1f1b(3, 6, memory);
    const bal_stage_costs costs =
        reference_uniform_costs(3, 10, 10, 10, 0, (int64_t[]){5, -2, -3}, memory);
    static const char *const messages[SIM_POLICY_COUNT] = {
        [SIM_STATIC] = "rank 0 needs memory of 15 under policy static; its limit is 14",
        [SIM_FLOATING_W] = "rank 0 needs memory of 15 under policy floating-w; its limit is 14",
        [SIM_GREEDY] = "rank 1 needs memory of 5 under policy greedy; its limit is 4",
    };
    for (int policy = 0; policy < SIM_POLICY_COUNT; policy++) {
        const int64_t limit[] = {14, policy == SIM_GREEDY ? 4 : 10, 5};
        sim_dispatch *dispatch = NULL;
        bal_timeline timeline = {0};
        error_message err = {0};
        assert_ok(
            sim_dispatch_create(&schedule, (sim_policy)policy, NULL, memory, &dispatch, NULL));

        assert_int_equal(sim_dispatch_play(dispatch, &costs, limit, NULL, &timeline, &err),
                         STATUS_INFEASIBLE);

        assert_string_equal(err.message, messages[policy]);
        assert_null(timeline.schedule);
    }
}

static void memory_left_behind_cannot_be_limited(void **state)
{
    arena *memory = *state;
    const bal_schedule schedule = split_1f1b(2, 6, memory);
    const bal_stage_costs costs =
        reference_uniform_costs(2, 10, 10, 10, 0, (int64_t[]){5, -2, -2}, memory);
    const int64_t limit[] = {100, 100};
    sim_dispatch *dispatch = NULL;
    bal_timeline timeline = {0};
    error_message err = {0};
    assert_ok(sim_dispatch_create(&schedule, SIM_GREEDY, NULL, memory, &dispatch, NULL));

    assert_int_equal(sim_dispatch_play(dispatch, &costs, limit, NULL, &timeline, &err),
                     STATUS_INVALID);

    assert_string_equal(err.message, "a microbatch leaves 1 of memory behind at stage 0: policy "
                                     "greedy cannot keep a limit");
}

static void one_f_of_memory_is_enough_for_greedy(void **state)
{
    arena *memory = *state;
    const bal_schedule schedule = split_1f1b(4, 5, memory);
    const bal_stage_costs costs =
        reference_uniform_costs(4, 10, 10, 10, 0, (int64_t[]){1, 0, -1}, memory);

    const bal_timeline timeline =
        play(&schedule, &costs, SIM_GREEDY, (int64_t[]){1, 1, 1, 1}, memory);

    // One microbatch after the other: F down, B up, and the next F only after the W of rank 0.
    assert_int_equal(bal_metrics_of(&timeline).makespan_ns, 5 * (4 * 10 + 4 * 10 + 10));
}

static void plays_of_one_dispatch_do_not_know_each_other(void **state)
{
    arena *memory = *state;
    for (int policy = 0; policy < SIM_POLICY_COUNT; policy++) {
        const bal_schedule schedule = split_1f1b(4, 8, memory);
        const int64_t held[] = {1, 0, -1};
        const int64_t limit[] = {4, 4, 4, 4};
        const bal_stage_costs costs = reference_uniform_costs(4, 5, 6, 4, 1, held, memory);
        const bal_stage_costs others = reference_uniform_costs(4, 3, 9, 2, 7, held, memory);
        const bal_timeline expected = play(&schedule, &costs, (sim_policy)policy, limit, memory);
        sim_dispatch *dispatch = NULL;
        bal_timeline timeline;
        assert_ok(
            sim_dispatch_create(&schedule, (sim_policy)policy, NULL, memory, &dispatch, NULL));

        assert_ok(sim_dispatch_play(dispatch, &others, NULL, NULL, &timeline, NULL));
        assert_ok(sim_dispatch_play(dispatch, &costs, limit, NULL, &timeline, NULL));

        assert_same_times(&timeline, &expected, sim_policy_name((sim_policy)policy), 0);
        assert_memory_equal(timeline.schedule->ops, expected.schedule->ops,
                            4 * 24 * sizeof(bal_op));
    }
}

static void timelines_are_the_same_bytes_everywhere(void **state)
{
    arena *memory = *state;
    uint64_t hash = FILE_HASH_START;
    for (uint64_t seed = 100; seed < 200; seed++) {
        for (int policy = 0; policy < SIM_POLICY_COUNT; policy++) {
            const random_problem problem = random_problem_draw(seed, memory);
            const size_t ops = (size_t)problem.schedule.first_op[problem.schedule.rank_count];
            const bal_timeline timeline =
                play(&problem.schedule, &problem.costs, (sim_policy)policy, NULL, memory);
            hash = file_hash(hash, timeline.schedule->ops, ops * sizeof(bal_op));
            hash = file_hash(hash, timeline.begin_ns, ops * sizeof(int64_t));
            hash = file_hash(hash, timeline.end_ns, ops * sizeof(int64_t));
            arena_reset(memory);
        }
    }
    const uint64_t golden = UINT64_C(0x27945a7f972c76fe); // of little-endian machines
    if (hash != golden) fail_msg("hash %016llx", (unsigned long long)hash);
}

static void policies_are_named_as_in_the_commands(void **state)
{
    (void)state;
    sim_policy policy = SIM_POLICY_COUNT;
    error_message err = {0};
    for (int index = 0; index < SIM_POLICY_COUNT; index++) {
        assert_ok(sim_policy_parse(sim_policy_name((sim_policy)index), &policy, &err));
        assert_int_equal(policy, index);
    }
    assert_int_equal(sim_policy_parse("lazy", &policy, &err), STATUS_INVALID);
    assert_string_equal(err.message, "policy 'lazy' is none of static, floating-w and greedy");
    assert_int_equal(policy, SIM_GREEDY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(under_static_both_engines_agree_to_the_nanosecond),
        cmocka_unit_test(the_families_play_alike_in_both_engines),
        cmocka_unit_test(one_less_than_the_least_limit_is_infeasible),
        cmocka_unit_test(dynamic_policies_keep_their_rules_and_replay_to_the_same_times),
        cmocka_unit_test(memory_counted_moment_by_moment_peaks_within_the_limit),
        cmocka_unit_test(eight_equal_stages_take_the_measured_spans),
        cmocka_unit_test(a_floating_timeline_of_an_independent_program),
        cmocka_unit_test(a_limit_too_low_names_rank_need_and_limit),
        cmocka_unit_test(memory_left_behind_cannot_be_limited),
        cmocka_unit_test(one_f_of_memory_is_enough_for_greedy),
        cmocka_unit_test(plays_of_one_dispatch_do_not_know_each_other),
        cmocka_unit_test(timelines_are_the_same_bytes_everywhere),
        cmocka_unit_test(policies_are_named_as_in_the_commands),
    };
    return cmocka_run_group_tests(tests, open_memory, close_memory);
}

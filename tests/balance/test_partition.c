/// Exact partitioning: equal to an exhaustive search that is written as plainly as the definitions,
/// on thousands of small random chains; and the cases that have names.
#include "balance/partition/partition.h"
#include "base/rng.h"
#include "tests/assert_close.h"
#include "tests/test_memory.h"

#include <stdio.h>
#include <string.h>

enum { LAYERS = 9, STAGES = 6 };

/// One small problem with all its arrays inside.
typedef struct instance {
    bal_problem problem;
    int64_t forward[LAYERS];
    int64_t state[LAYERS];
    int64_t activation[LAYERS];
    int64_t transfer[LAYERS];
    int64_t cap[STAGES];
    int64_t inflight[STAGES];
    int64_t factor[STAGES];
    int64_t fixed[STAGES];
    int current[STAGES + 1];
} instance;

typedef struct oracle {
    bool feasible;
    int64_t bottleneck;
    bal_wide squares; // the least sum of squared loads of the plans with this bottleneck
    int64_t bound_1f1b;
    bool moved_feasible;
    int64_t moved_bytes;
} oracle;

/// Load of a stage, from the words of problem.h alone.
static int64_t plain_load(const instance *at, int stage, int begin, int end)
{
    if (begin == end) return 0;
    bal_wide sum = 0;
    for (int layer = begin; layer < end; layer++) {
        sum += at->forward[layer];
    }
    const bal_problem *problem = &at->problem;
    if (problem->stage_time_factor_ppb != NULL) {
        sum = (sum * problem->stage_time_factor_ppb[stage] + 500000000) / 1000000000;
    }
    if (problem->stage_fixed_ns != NULL) sum += problem->stage_fixed_ns[stage];
    if (problem->weight == BAL_WEIGHT_TIME_TRANSFER) {
        if (begin > 0) sum += at->transfer[begin - 1];
        if (end < problem->layers.layer_count) sum += at->transfer[end - 1];
    }
    return (int64_t)sum;
}

static bool plain_allowed(const instance *at, const int *first)
{
    const bal_problem *problem = &at->problem;
    const int stages = problem->stage_count;
    for (int stage = 0; stage < stages; stage++) {
        const bool empty = first[stage] == first[stage + 1];
        if (empty && !problem->allow_empty_stages) return false;
        if (empty && stage == 0 && problem->layers.embedding) return false;
        if (empty && stage == stages - 1 && problem->layers.head) return false;
        if (problem->stage_memory_bytes == NULL) continue;
        bal_wide memory = 0;
        for (int layer = first[stage]; layer < first[stage + 1]; layer++) {
            const int64_t inflight =
                problem->stage_inflight != NULL ? problem->stage_inflight[stage] : 1;
            memory += at->state[layer] + (bal_wide)inflight * at->activation[layer];
        }
        if (!empty && memory > problem->stage_memory_bytes[stage]) return false;
    }
    return true;
}

static int stage_of(const int *first, int layer)
{
    int stage = 0;
    while (layer >= first[stage + 1]) {
        stage++;
    }
    return stage;
}

static void plain_judge(const instance *at, const int *first, oracle *best)
{
    const bal_problem *problem = &at->problem;
    if (!plain_allowed(at, first)) return;
    int64_t bottleneck = 0;
    int64_t bound = 0;
    int64_t before = 0;
    bal_wide squares = 0;
    for (int stage = 0; stage < problem->stage_count; stage++) {
        const int64_t load = plain_load(at, stage, first[stage], first[stage + 1]);
        const int64_t value = before + problem->microbatch_count * load;
        if (load > bottleneck) bottleneck = load;
        if (value > bound) bound = value;
        before += load;
        squares += (bal_wide)load * load;
    }
    if (!best->feasible || bottleneck < best->bottleneck ||
        (bottleneck == best->bottleneck && squares < best->squares)) {
        best->bottleneck = bottleneck;
        best->squares = squares;
    }
    if (!best->feasible || bound < best->bound_1f1b) best->bound_1f1b = bound;
    best->feasible = true;
    if (bottleneck > problem->load_cap_ns) return;
    int64_t moved = 0;
    for (int layer = 0; layer < problem->layers.layer_count; layer++) {
        if (stage_of(first, layer) != stage_of(at->current, layer)) moved += at->state[layer];
    }
    if (!best->moved_feasible || moved < best->moved_bytes) best->moved_bytes = moved;
    best->moved_feasible = true;
}

/// Every way to cut, as an odometer of cuts.
static oracle exhaustive(const instance *at)
{
    const int stages = at->problem.stage_count;
    const int layers = at->problem.layers.layer_count;
    oracle best = {0};
    int first[STAGES + 1] = {0};
    first[stages] = layers;
    for (;;) {
        plain_judge(at, first, &best);
        int cut = stages - 1;
        while (cut >= 1 && first[cut] == layers) {
            cut--;
        }
        if (cut < 1) return best;
        const int next = first[cut] + 1;
        for (; cut < stages; cut++) {
            first[cut] = next;
        }
    }
}

static int64_t random_weight(rng *random, int kind)
{
    switch (kind) {
    case 0:
        return rng_between(random, 0, 3);
    case 1:
        return rng_between(random, 1, 100);
    case 2:
        return rng_between(random, 0, 1) * rng_between(random, 1, 1000000000);
    default:
        return rng_between(random, 0, 1) * INT64_C(1000000000000000000);
    }
}

static void fill_random(rng *random, instance *at)
{
    memset(at, 0, sizeof *at);
    bal_problem *problem = &at->problem;
    const int kind = (int)rng_below(random, 4);
    const int stages = (int)rng_between(random, 1, STAGES);
    problem->allow_empty_stages = rng_below(random, 2) == 0;
    const int fewest = problem->allow_empty_stages ? 2 : (stages > 2 ? stages : 2);
    const int layers = (int)rng_between(random, fewest, kind == 3 ? (fewest > 8 ? 9 : 8) : LAYERS);
    int64_t total = 0;
    for (int layer = 0; layer < layers; layer++) {
        at->forward[layer] = random_weight(random, kind);
        total += at->forward[layer];
        at->state[layer] = rng_between(random, 0, 9);
        at->activation[layer] = rng_between(random, 0, 4);
        at->transfer[layer] = rng_between(random, 0, kind == 3 ? 1000 : 60);
    }
    for (int stage = 0; stage < stages; stage++) {
        at->cap[stage] = rng_between(random, 5, 40);
        at->inflight[stage] = rng_between(random, 0, 3);
        at->factor[stage] = rng_between(random, 1, 5) * 500000000;
        if (rng_below(random, 4) == 0) at->factor[stage] = rng_between(random, 1, 2000000000);
        at->fixed[stage] = rng_between(random, 0, 20);
    }
    for (int cut = 1; cut < stages; cut++) {
        at->current[cut] = (int)rng_between(random, at->current[cut - 1], layers);
    }
    at->current[stages] = layers;
    problem->layers = (bal_layer_costs){.layer_count = layers,
                                        .microbatch_count = 1,
                                        .embedding = rng_below(random, 3) == 0,
                                        .head = rng_below(random, 3) == 0,
                                        .forward_ns = at->forward,
                                        .state_bytes = at->state,
                                        .activation_bytes = at->activation};
    problem->stage_count = stages;
    problem->microbatch_count = kind == 3 ? 1 : (int)rng_between(random, 1, 12);
    problem->transfer_ns = at->transfer;
    problem->current_first_layer = at->current;
    problem->load_cap_ns = total / stages + rng_between(random, 0, total / 2 + 1);
    if (rng_below(random, 2) == 0) problem->stage_memory_bytes = at->cap;
    if (rng_below(random, 2) == 0) problem->stage_inflight = at->inflight;
    if (kind != 3 && rng_below(random, 3) == 0) problem->stage_time_factor_ppb = at->factor;
    if (rng_below(random, 3) == 0) problem->stage_fixed_ns = at->fixed;
    if (rng_below(random, 3) == 0) problem->weight = BAL_WEIGHT_TIME_TRANSFER;
}

/// No cut of a plan within load is behind the latest or in front of the earliest.
static void assert_between(const bal_chain *chain, int64_t load, const int *first, arena *memory)
{
    int earliest[STAGES + 1];
    int latest[STAGES + 1];
    assert_ok(bal_partition_earliest(chain, load, memory, earliest, NULL));
    assert_ok(bal_partition_latest(chain, load, NULL, latest, NULL));
    for (int cut = 0; cut <= chain->stage_count; cut++) {
        assert_true(earliest[cut] <= first[cut] && first[cut] <= latest[cut]);
    }
}

static void assert_equals_oracle(const instance *at, int number, arena *memory)
{
    const oracle best = exhaustive(at);
    const bal_problem *problem = &at->problem;
    bal_chain chain;
    error_message err = {0};
    int first[STAGES + 1];
    int64_t value = -1;
    oracle ours;
    if (bal_chain_of(problem, memory, &chain, &err) != STATUS_OK) fail_msg("%s", err.message);

    status result = bal_partition_bottleneck(&chain, memory, first, &value, &err);
    assert_int_equal(result, best.feasible ? STATUS_OK : STATUS_INFEASIBLE);
    if (best.feasible) {
        if (value != best.bottleneck) {
            fail_msg("instance %d: bottleneck %lld, oracle %lld", number, (long long)value,
                     (long long)best.bottleneck);
        }
        ours = (oracle){0};
        plain_judge(at, first, &ours);
        assert_true(ours.feasible && ours.bottleneck == value);
        int flattest[STAGES + 1];
        assert_ok(bal_partition_flattest(&chain, value, memory, flattest, &err));
        ours = (oracle){0};
        plain_judge(at, flattest, &ours);
        assert_true(ours.feasible && ours.bottleneck == value && ours.squares == best.squares);
        if (chain.transfer_ns == NULL) assert_between(&chain, value, flattest, memory);
    }

    result = bal_partition_1f1b(&chain, problem->microbatch_count, memory, first, &value, &err);
    assert_int_equal(result, best.feasible ? STATUS_OK : STATUS_INFEASIBLE);
    if (best.feasible) {
        if (value != best.bound_1f1b) {
            fail_msg("instance %d: 1f1b bound %lld, oracle %lld", number, (long long)value,
                     (long long)best.bound_1f1b);
        }
        ours = (oracle){0};
        plain_judge(at, first, &ours);
        assert_true(ours.feasible && ours.bound_1f1b == value);
    }

    int owner[LAYERS];
    static const int stage_rank[STAGES] = {0, 1, 2, 3, 4, 5};
    for (int layer = 0; layer < chain.layer_count; layer++) {
        owner[layer] = stage_of(at->current, layer);
    }
    result = bal_partition_moved_bytes(&chain, owner, stage_rank, problem->load_cap_ns, memory,
                                       first, &value, &err);
    assert_int_equal(result, best.moved_feasible ? STATUS_OK : STATUS_INFEASIBLE);
    if (best.moved_feasible) {
        assert_int_equal(value, best.moved_bytes);
        ours = (oracle){0};
        plain_judge(at, first, &ours);
        assert_true(ours.moved_feasible && ours.moved_bytes == value);
    }
}

static void every_objective_equals_an_exhaustive_search(void **state)
{
    arena *memory = *state;
    enum { INSTANCES = 20000 };
    rng random = rng_init(1, 1);
    int infeasible = 0;
    for (int number = 0; number < INSTANCES; number++) {
        instance at;
        fill_random(&random, &at);
        arena_reset(memory);
        assert_equals_oracle(&at, number, memory);
        infeasible += !exhaustive(&at).feasible;
    }
    // The generator must keep producing both kinds.
    assert_in_range(infeasible, INSTANCES / 20, INSTANCES / 2);
}

static bal_chain chain_of(const bal_problem *problem, arena *memory)
{
    bal_chain chain;
    error_message err = {0};
    if (bal_chain_of(problem, memory, &chain, &err) != STATUS_OK) fail_msg("%s", err.message);
    return chain;
}

static bal_problem problem_of(const int64_t *time_ns, int layer_count, int stage_count)
{
    return (bal_problem){
        .layers = {.layer_count = layer_count, .microbatch_count = 1, .forward_ns = time_ns},
        .stage_count = stage_count};
}

static void a_stage_leaves_a_layer_that_only_the_next_one_can_hold(void **state)
{
    arena *memory = *state;
    // Stage 0 could take layers 0 and 1, but then stage 1 would begin with layer 2, which only
    // stage 2 has the memory for, and must not be empty.
    const int64_t time_ns[] = {1, 1, 1, 1};
    const int64_t bytes[] = {1, 1, 9, 1};
    bal_problem problem = problem_of(time_ns, 4, 3);
    problem.layers.state_bytes = bytes;
    problem.stage_memory_bytes = (const int64_t[]){2, 2, 10};
    const bal_chain chain = chain_of(&problem, memory);
    int first[4];
    int64_t bottleneck = 0;

    assert_ok(bal_partition_bottleneck(&chain, memory, first, &bottleneck, NULL));

    assert_memory_equal(first, ((const int[]){0, 1, 2, 4}), sizeof first);
    assert_int_equal(bottleneck, 2);
}

static void cuts_are_as_far_behind_as_the_optimum_allows(void **state)
{
    arena *memory = *state;
    const int64_t ones[] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    const bal_problem problem = problem_of(ones, 10, 4);
    const bal_chain chain = chain_of(&problem, memory);
    int first[5];
    int64_t bottleneck = 0;

    assert_ok(bal_partition_bottleneck(&chain, memory, first, &bottleneck, NULL));
    assert_memory_equal(first, ((const int[]){0, 3, 6, 9, 10}), sizeof first);
    assert_ok(bal_partition_latest(&chain, 3, (const int[]){0, 2, 6, 9, 10}, first, NULL));
    assert_memory_equal(first, ((const int[]){0, 2, 5, 8, 10}), sizeof first);
}

static void what_no_plan_keeps_is_infeasible_and_touches_nothing(void **state)
{
    arena *memory = *state;
    const int64_t time_ns[] = {5, 5, 5};
    const int64_t bytes[] = {1, 9, 1};
    bal_problem problem = problem_of(time_ns, 3, 2);
    problem.layers.state_bytes = bytes;
    problem.stage_memory_bytes = (const int64_t[]){5, 8};
    bal_chain chain = chain_of(&problem, memory);
    error_message err = {0};
    int first[3] = {-7, -7, -7};
    int64_t value = -7;

    assert_int_equal(bal_partition_bottleneck(&chain, memory, first, &value, &err),
                     STATUS_INFEASIBLE);
    assert_string_equal(err.message, "layer 1 alone (9 bytes of state) exceeds the memory cap of "
                                     "every stage");
    problem.stage_memory_bytes = (const int64_t[]){9, 9};
    chain = chain_of(&problem, memory);
    assert_int_equal(bal_partition_1f1b(&chain, 4, memory, first, &value, &err), STATUS_INFEASIBLE);
    assert_string_equal(err.message, "no plan of 2 stages keeps every stage within its memory cap "
                                     "and non-empty: together they hold at most the first 2 of 3 "
                                     "layers");
    problem.stage_memory_bytes = NULL;
    chain = chain_of(&problem, memory);
    assert_int_equal(bal_partition_moved_bytes(&chain, (const int[]){0, 1, 1}, (const int[]){0, 1},
                                               9, memory, first, &value, &err),
                     STATUS_INFEASIBLE);
    assert_string_equal(err.message, "no plan keeps every load within load_cap_ns 9; the smallest "
                                     "bottleneck is 10");
    assert_int_equal(bal_partition_latest(&chain, 10, (const int[]){0, 0, 3}, first, &err),
                     STATUS_INFEASIBLE);
    assert_string_equal(err.message,
                        "no plan keeps every load within 10 and its cuts within the limits");
    assert_int_equal(bal_partition_flattest(&chain, 9, memory, first, &err), STATUS_INFEASIBLE);
    problem.weight = BAL_WEIGHT_TIME_TRANSFER;
    problem.transfer_ns = bytes;
    chain = chain_of(&problem, memory);
    assert_int_equal(bal_partition_flattest(&chain, 10, memory, first, &err), STATUS_INFEASIBLE);
    assert_string_equal(err.message, "no plan keeps every load, messages included, within 10");
    assert_int_equal(value, -7);
}

static void the_flattest_plan_shares_what_the_head_leaves(void **state)
{
    arena *memory = *state;
    const int64_t time_ns[] = {1, 1, 1, 1, 1, 1, 5};
    const bal_problem problem = problem_of(time_ns, 7, 4);
    const bal_chain chain = chain_of(&problem, memory);
    int first[5];

    assert_ok(bal_partition_flattest(&chain, 5, memory, first, NULL));

    assert_memory_equal(first, ((const int[]){0, 2, 4, 6, 7}), sizeof first);
}

static void a_1f1b_bound_without_microbatches_or_beyond_int64_is_invalid(void **state)
{
    arena *memory = *state;
    const int64_t large[] = {INT64_MAX / 4, 1};
    const bal_problem problem = problem_of(large, 2, 2);
    const bal_chain chain = chain_of(&problem, memory);
    error_message err = {0};
    int first[3];
    int64_t value = 0;

    assert_int_equal(bal_partition_1f1b(&chain, 0, memory, first, &value, &err), STATUS_INVALID);
    assert_string_equal(err.message, "microbatch_count 0 of the 1F1B bound is below 1");
    assert_int_equal(bal_partition_1f1b(&chain, 4, memory, first, &value, &err), STATUS_INVALID);
    assert_string_equal(err.message, "loads of up to 2305843009213693952 times 4 microbatches do "
                                     "not fit 64 bits");
    assert_ok(bal_partition_1f1b(&chain, 3, memory, first, &value, &err));
}

static void the_1f1b_bound_counts_the_loads_before_a_stage(void **state)
{
    (void)state;
    assert_int_equal(bal_1f1b_bound_ns((const int64_t[]){3, 5, 4}, 3, 10), 3 + 50);
    assert_int_equal(bal_1f1b_bound_ns((const int64_t[]){3, 5, 5}, 3, 10), 8 + 50);
    assert_int_equal(bal_1f1b_bound_ns((const int64_t[]){7, 0}, 2, 1), 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_objective_equals_an_exhaustive_search),
        cmocka_unit_test(a_stage_leaves_a_layer_that_only_the_next_one_can_hold),
        cmocka_unit_test(cuts_are_as_far_behind_as_the_optimum_allows),
        cmocka_unit_test(what_no_plan_keeps_is_infeasible_and_touches_nothing),
        cmocka_unit_test(the_flattest_plan_shares_what_the_head_leaves),
        cmocka_unit_test(a_1f1b_bound_without_microbatches_or_beyond_int64_is_invalid),
        cmocka_unit_test(the_1f1b_bound_counts_the_loads_before_a_stage),
    };
    return cmocka_run_group_tests(tests, open_memory, close_memory);
}

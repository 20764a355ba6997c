/// Ranks of several chunks: equal to an exhaustive search over all cuts that is written as plainly
/// as the definitions, on thousands of small random chains; proven bounds where the search for more
/// than two chunks is no proof; and what larger chains must keep.
#include "balance/partition/balancer.h"
#include "balance/partition/bounds.h"
#include "balance/partition/partition.h"
#include "balance/partition/partition_pairs.h"
#include "base/rng.h"
#include "tests/assert_close.h"
#include "tests/test_memory.h"

#include <stdio.h>
#include <string.h>

enum { LAYERS = 10, STAGES = 8, RANKS = 4, PEAKS = 3 };

/// One small problem with all its arrays inside.
typedef struct instance {
    bal_problem problem;
    int64_t forward[LAYERS];
    int64_t state[LAYERS];
    int64_t activation[LAYERS];
    int64_t stage_cap[STAGES];
    int64_t rank_cap[RANKS];
    int64_t inflight[STAGES];
    int64_t factor[STAGES];
    int64_t fixed[STAGES];
    int current[STAGES + 1];
    bal_rank_peaks peaks;
    int first_peak[RANKS + 1];
    int64_t held[RANKS * PEAKS * STAGES];
} instance;

static int rank_count(const instance *at)
{
    return at->problem.stage_count / at->problem.chunk_count;
}

/// The rank of a stage, from the words of placement.h alone.
static int plain_rank(const instance *at, int stage)
{
    const int ranks = rank_count(at);
    if (at->problem.placement == BAL_PLACEMENT_V && stage >= ranks) return 2 * ranks - 1 - stage;
    return stage % ranks;
}

static int64_t plain_stage_load(const instance *at, int stage, const int *first)
{
    bal_wide sum = 0;
    if (first[stage] == first[stage + 1]) return 0;
    for (int layer = first[stage]; layer < first[stage + 1]; layer++) {
        sum += at->forward[layer];
    }
    if (at->problem.stage_time_factor_ppb != NULL) {
        sum = (sum * at->factor[stage] + 500000000) / 1000000000;
    }
    if (at->problem.stage_fixed_ns != NULL) sum += at->fixed[stage];
    return (int64_t)sum;
}

static int64_t plain_rank_load(const instance *at, int rank, const int *first)
{
    int64_t sum = 0;
    for (int stage = 0; stage < at->problem.stage_count; stage++) {
        if (plain_rank(at, stage) == rank) sum += plain_stage_load(at, stage, first);
    }
    return sum;
}

static int64_t sum_of(const int64_t *values, int begin, int end)
{
    int64_t sum = 0;
    for (int layer = begin; layer < end; layer++) {
        sum += values[layer];
    }
    return sum;
}

static int64_t plain_stage_bytes(const instance *at, int stage, const int *first)
{
    const int64_t held = at->problem.stage_inflight != NULL ? at->inflight[stage] : 1;
    return sum_of(at->state, first[stage], first[stage + 1]) +
           held * sum_of(at->activation, first[stage], first[stage + 1]);
}

static int64_t plain_rank_bytes(const instance *at, int rank, const int *first)
{
    int64_t state = 0;
    int64_t separate = 0;
    int64_t activation[STAGES] = {0}; // by chunk
    for (int stage = 0; stage < at->problem.stage_count; stage++) {
        if (plain_rank(at, stage) != rank) continue;
        state += sum_of(at->state, first[stage], first[stage + 1]);
        separate += plain_stage_bytes(at, stage, first);
        activation[stage / rank_count(at)] = sum_of(at->activation, first[stage], first[stage + 1]);
    }
    if (at->problem.rank_peaks == NULL) return separate;
    int64_t most = 0;
    for (int peak = at->first_peak[rank]; peak < at->first_peak[rank + 1]; peak++) {
        int64_t bytes = 0;
        for (int chunk = 0; chunk < at->problem.chunk_count; chunk++) {
            bytes += at->held[peak * at->problem.chunk_count + chunk] * activation[chunk];
        }
        if (bytes > most) most = bytes;
    }
    return state + most;
}

static bool plain_allowed(const instance *at, const int *first)
{
    const bal_problem *problem = &at->problem;
    for (int stage = 0; stage < problem->stage_count; stage++) {
        const bool empty = first[stage] == first[stage + 1];
        if (empty && !problem->allow_empty_stages) return false;
        if (empty && stage == 0 && problem->layers.embedding) return false;
        if (empty && stage == problem->stage_count - 1 && problem->layers.head) return false;
        if (empty || problem->stage_memory_bytes == NULL) continue;
        if (plain_stage_bytes(at, stage, first) > at->stage_cap[stage]) return false;
    }
    for (int rank = 0; problem->rank_memory_bytes != NULL && rank < rank_count(at); rank++) {
        if (plain_rank_bytes(at, rank, first) > at->rank_cap[rank]) return false;
    }
    return true;
}

static int64_t plain_bottleneck(const instance *at, const int *first)
{
    int64_t largest = 0;
    for (int rank = 0; rank < rank_count(at); rank++) {
        const int64_t load = plain_rank_load(at, rank, first);
        if (load > largest) largest = load;
    }
    return largest;
}

static int64_t plain_moved(const instance *at, const int *first)
{
    int64_t bytes = 0;
    for (int layer = 0; layer < at->problem.layers.layer_count; layer++) {
        int now = 0;
        int next = 0;
        while (layer >= at->current[now + 1]) {
            now++;
        }
        while (layer >= first[next + 1]) {
            next++;
        }
        if (plain_rank(at, now) != plain_rank(at, next)) bytes += at->state[layer];
    }
    return bytes;
}

typedef struct oracle {
    bool is_feasible;
    int64_t bottleneck;
    bool has_moves; // a plan within load_cap_ns
    int64_t moved_bytes;
} oracle;

static void judge(const instance *at, const int *first, oracle *best)
{
    if (!plain_allowed(at, first)) return;
    const int64_t bottleneck = plain_bottleneck(at, first);
    if (!best->is_feasible || bottleneck < best->bottleneck) best->bottleneck = bottleneck;
    best->is_feasible = true;
    if (bottleneck > at->problem.load_cap_ns) return;
    const int64_t moved = plain_moved(at, first);
    if (!best->has_moves || moved < best->moved_bytes) best->moved_bytes = moved;
    best->has_moves = true;
}

/// Every non-decreasing sequence of cuts, by counting up.
static oracle exhaustive(const instance *at)
{
    oracle best = {0};
    const int stages = at->problem.stage_count;
    const int layers = at->problem.layers.layer_count;
    int first[STAGES + 1] = {0};
    first[stages] = layers;
    for (;;) {
        judge(at, first, &best);
        int cut = stages - 1;
        while (cut > 0 && first[cut] == layers) {
            cut--;
        }
        if (cut == 0) return best;
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
        return rng_below(random, 4) == 0 ? rng_between(random, 20, 60) : 1;
    default:
        return rng_between(random, 0, 1) * rng_between(random, 1, 1000000000);
    }
}

static void fill_peaks(rng *random, instance *at)
{
    int count = 0;
    for (int rank = 0; rank < rank_count(at); rank++) {
        at->first_peak[rank] = count;
        count += (int)rng_between(random, 1, PEAKS);
    }
    at->first_peak[rank_count(at)] = count;
    for (int cell = 0; cell < count * at->problem.chunk_count; cell++) {
        at->held[cell] = rng_between(random, 0, 4);
    }
    at->peaks = (bal_rank_peaks){.rank_count = rank_count(at),
                                 .chunk_count = at->problem.chunk_count,
                                 .first_peak = at->first_peak,
                                 .held = at->held};
    at->problem.rank_peaks = &at->peaks;
}

/// @param chunks 2, or more for a loop
static void fill_random(rng *random, int chunks, instance *at)
{
    memset(at, 0, sizeof *at);
    bal_problem *problem = &at->problem;
    const int kind = (int)rng_below(random, 4);
    const int ranks =
        (int)rng_between(random, 1, STAGES / chunks < RANKS ? STAGES / chunks : RANKS);
    const int stages = ranks * chunks;
    problem->allow_empty_stages = rng_below(random, 2) == 0;
    const int fewest = problem->allow_empty_stages ? 2 : stages;
    const int layers = (int)rng_between(random, fewest, LAYERS);
    int64_t total = 0;
    for (int layer = 0; layer < layers; layer++) {
        at->forward[layer] = random_weight(random, kind);
        total += at->forward[layer];
        at->state[layer] = rng_between(random, 0, 9);
        at->activation[layer] = rng_between(random, 0, 4);
    }
    for (int stage = 0; stage < stages; stage++) {
        at->stage_cap[stage] = rng_between(random, 8, 40);
        at->inflight[stage] = rng_between(random, 0, 3);
        at->factor[stage] = rng_between(random, 1, 5) * 500000000;
        if (rng_below(random, 4) == 0) at->factor[stage] = rng_between(random, 1, 2000000000);
        at->fixed[stage] = rng_between(random, 0, 20);
    }
    for (int rank = 0; rank < ranks; rank++) {
        at->rank_cap[rank] = rng_between(random, 15, 80);
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
    problem->chunk_count = chunks;
    problem->placement =
        chunks == 2 && rng_below(random, 2) == 0 ? BAL_PLACEMENT_V : BAL_PLACEMENT_LOOP;
    problem->current_first_layer = at->current;
    problem->load_cap_ns = total / ranks + rng_between(random, 0, total / 2 + 1);
    if (rng_below(random, 3) == 0) problem->stage_memory_bytes = at->stage_cap;
    if (rng_below(random, 2) == 0) problem->stage_inflight = at->inflight;
    if (rng_below(random, 2) == 0) problem->rank_memory_bytes = at->rank_cap;
    if (rng_below(random, 2) == 0) fill_peaks(random, at);
    if (rng_below(random, 3) == 0) problem->stage_time_factor_ppb = at->factor;
    if (rng_below(random, 3) == 0) problem->stage_fixed_ns = at->fixed;
}

static const char *name_of(const instance *at)
{
    return at->problem.placement == BAL_PLACEMENT_V ? "v-partition" : "interleaved-partition";
}

static void two_chunks_meet_an_exhaustive_search(void **state)
{
    (void)state;
    rng random = rng_init(20261122, 0);
    int infeasible = 0;
    int gaps = 0; // a plan for which the furthest places alone are no proof
    for (int number = 0; number < 4000; number++) {
        instance at;
        fill_random(&random, 2, &at);
        const oracle best = exhaustive(&at);
        arena *memory = arena_create(1 << 16);
        bal_answer answer = {0};
        error_message err = {0};

        const status result =
            bal_balance(bal_balancer_find(name_of(&at)), &at.problem, memory, &answer, &err);

        if (!best.is_feasible) {
            assert_int_equal(result, STATUS_INFEASIBLE);
            infeasible++;
        } else {
            if (result != STATUS_OK) fail_msg("instance %d: %s", number, err.message);
            if (answer.bottleneck_ns != best.bottleneck) {
                fail_msg("instance %d: %lld, oracle %lld", number, (long long)answer.bottleneck_ns,
                         (long long)best.bottleneck);
            }
            assert_true(plain_allowed(&at, answer.first_layer));
            assert_int_equal(plain_bottleneck(&at, answer.first_layer), best.bottleneck);
            assert_int_equal(answer.moved_bytes, plain_moved(&at, answer.first_layer));
            assert_true(answer.optimal && answer.executable);
            for (int rank = 0; rank < rank_count(&at); rank++) {
                assert_int_equal(answer.rank_load[rank],
                                 plain_rank_load(&at, rank, answer.first_layer));
            }
            bal_problem relaxed = at.problem;
            relaxed.allow_empty_stages = true;
            bal_answer loose = {0};
            assert_ok(bal_balance(bal_balancer_find(name_of(&at)), &relaxed, memory, &loose, &err));
            gaps += loose.bottleneck_ns < answer.bottleneck_ns;
        }
        arena_destroy(memory);
    }
    assert_true(infeasible > 100 && infeasible < 2500);
    assert_true(gaps > 50);
}

static void the_fewest_moved_bytes_meet_an_exhaustive_search(void **state)
{
    (void)state;
    rng random = rng_init(7, 0);
    int found = 0;
    for (int number = 0; number < 2000; number++) {
        instance at;
        fill_random(&random, 2, &at);
        at.problem.objective = BAL_OBJECTIVE_MOVED_BYTES;
        const oracle best = exhaustive(&at);
        arena *memory = arena_create(1 << 16);
        bal_answer answer = {0};
        error_message err = {0};

        const status result =
            bal_balance(bal_balancer_find("partition"), &at.problem, memory, &answer, &err);

        assert_int_equal(result, best.has_moves ? STATUS_OK : STATUS_INFEASIBLE);
        if (best.has_moves) {
            if (answer.moved_bytes != best.moved_bytes) {
                fail_msg("instance %d: %lld bytes, oracle %lld", number,
                         (long long)answer.moved_bytes, (long long)best.moved_bytes);
            }
            assert_true(plain_allowed(&at, answer.first_layer));
            assert_true(plain_bottleneck(&at, answer.first_layer) <= at.problem.load_cap_ns);
            assert_int_equal(plain_moved(&at, answer.first_layer), best.moved_bytes);
            assert_true(answer.optimal);
            found++;
        }
        arena_destroy(memory);
    }
    assert_true(found > 500 && found < 1900);
}

static void every_balancer_is_above_its_bound_and_optimal_where_it_says_so(void **state)
{
    (void)state;
    rng random = rng_init(11, 0);
    int count = 0;
    const bal_balancer *balancers = bal_balancers(&count);
    int optimal = 0;
    int not_optimal = 0;
    for (int number = 0; number < 1500; number++) {
        instance at;
        fill_random(&random, (int)rng_between(&random, 2, 4), &at);
        const oracle best = exhaustive(&at);
        const bal_balancer *balancer = &balancers[rng_below(&random, (uint64_t)count)];
        if (balancer->evaluates) continue;
        at.problem.layers.parameters = at.forward;
        arena *memory = arena_create(1 << 16);
        bal_answer answer = {0};
        error_message err = {0};

        const status result = bal_balance(balancer, &at.problem, memory, &answer, &err);

        if (result == STATUS_OK && !balancer->owns_freely) {
            assert_true(best.is_feasible);
            assert_true(plain_allowed(&at, answer.first_layer));
            if (balancer->weight == BAL_WEIGHT_TIME) {
                assert_int_equal(plain_bottleneck(&at, answer.first_layer), answer.bottleneck_ns);
                assert_true(answer.bottleneck_lower_bound_ns <= best.bottleneck);
                assert_true(answer.bottleneck_ns >= best.bottleneck);
                assert_true(!answer.optimal || answer.bottleneck_ns == best.bottleneck);
                optimal += answer.optimal;
                not_optimal += !answer.optimal;
            }
        } else if (result == STATUS_OK) {
            assert_int_equal(answer.rank_count, rank_count(&at));
            assert_true(answer.bottleneck_lower_bound_ns <= answer.bottleneck_ns);
        } else {
            assert_true(result == STATUS_INFEASIBLE || result == STATUS_INVALID);
            assert_true(err.message[0] != '\0');
        }
        arena_destroy(memory);
    }
    assert_true(optimal > 100 && not_optimal > 100);
}

static void more_than_two_chunks_are_searched_close_to_the_optimum(void **state)
{
    (void)state;
    rng random = rng_init(3, 0);
    int64_t sum = 0;
    int64_t best_sum = 0;
    for (int number = 0; number < 400; number++) {
        instance at;
        fill_random(&random, 3, &at);
        at.problem.rank_memory_bytes = NULL;
        at.problem.stage_memory_bytes = NULL;
        const oracle best = exhaustive(&at);
        arena *memory = arena_create(1 << 16);
        bal_answer answer = {0};

        assert_ok(bal_balance(bal_balancer_find("interleaved-partition"), &at.problem, memory,
                              &answer, NULL));

        assert_true(answer.bottleneck_ns >= best.bottleneck);
        if (best.bottleneck < 10000) {
            sum += answer.bottleneck_ns;
            best_sum += best.bottleneck;
        }
        arena_destroy(memory);
    }
    assert_true(sum <= best_sum + best_sum / 10);
}

/// A chain of unlike layers, with its arrays.
static bal_problem long_problem(rng *random, int layers, int ranks, bal_placement placement,
                                int64_t *forward)
{
    for (int layer = 0; layer < layers; layer++) {
        forward[layer] = rng_between(random, 1000000, 4000000);
    }
    return (bal_problem){.layers = {.layer_count = layers,
                                    .microbatch_count = 1,
                                    .embedding = true,
                                    .head = true,
                                    .forward_ns = forward},
                         .stage_count = 2 * ranks,
                         .chunk_count = 2,
                         .placement = placement};
}

static void two_chunks_of_long_chains_lie_between_the_bound_and_two_stages(void **state)
{
    (void)state;
    rng random = rng_init(96, 0);
    static int64_t forward[96];
    for (int number = 0; number < 6; number++) {
        arena *memory = arena_create(1 << 16);
        const bal_placement placement = number % 2 == 0 ? BAL_PLACEMENT_V : BAL_PLACEMENT_LOOP;
        const bal_problem problem = long_problem(&random, 96, 24, placement, forward);
        bal_chain chain;
        bal_pairs_plan plan;
        int first[49];
        int64_t stage_bottleneck = 0;
        assert_ok(bal_chain_of(&problem, memory, &chain, NULL));
        assert_ok(bal_partition_bottleneck(&chain, memory, first, &stage_bottleneck, NULL));

        assert_ok(bal_partition_chunks(&chain, memory, &plan, NULL));

        assert_int_equal(plan.lower_bound, plan.bottleneck);
        assert_true(plan.bottleneck >= bal_assignment_lower_bound(&chain));
        assert_true(plan.bottleneck <= 2 * stage_bottleneck);
        assert_ok(bal_chain_check(&chain, plan.first_layer, NULL));
        // No plan is below: not one found by moving any two cuts together.
        for (int one = 1; one < 48; one++) {
            for (int by = -1; by <= 1; by += 2) {
                int moved[49];
                int64_t stage_load[48];
                int64_t rank_load[24];
                memcpy(moved, plan.first_layer, sizeof moved);
                moved[one] += by;
                if (bal_chain_check(&chain, moved, NULL) != STATUS_OK) continue;
                bal_chain_loads(&chain, moved, stage_load);
                bal_chain_rank_loads(&chain, stage_load, rank_load);
                int64_t largest = 0;
                for (int rank = 0; rank < 24; rank++) {
                    if (rank_load[rank] > largest) largest = rank_load[rank];
                }
                assert_true(largest >= plan.bottleneck);
            }
        }
        arena_destroy(memory);
    }
}

static void wrong_chunks_are_invalid_and_named(void **state)
{
    (void)state;
    int64_t forward[] = {1, 1, 1, 1, 1, 1};
    const bal_problem loop = {
        .layers = {.layer_count = 6, .microbatch_count = 1, .forward_ns = forward},
        .stage_count = 6,
        .chunk_count = 3};
    bal_problem v = loop;
    v.placement = BAL_PLACEMENT_V;
    bal_problem odd = loop;
    odd.stage_count = 5;
    bal_problem bound = loop;
    bound.objective = BAL_OBJECTIVE_1F1B_BOUND;
    bound.microbatch_count = 4;
    const struct {
        const char *balancer;
        const bal_problem *problem;
        const char *message;
    } cases[] = {
        {"v-partition", &loop,
         "v-partition is for two chunks per rank in V placement, not for 3 in interleaved "
         "placement"},
        {"partition", &v, "the placement v has 2 chunks per rank, not 3"},
        {"partition", &odd, "stage_count 5 is no multiple of chunk_count 3"},
        {"partition", &bound, "the objective 1f1b-bound is of one chunk per rank, not 3"},
    };
    for (size_t index = 0; index < sizeof cases / sizeof cases[0]; index++) {
        arena *memory = arena_create(1 << 16);
        bal_answer answer = {.bottleneck_ns = -7};
        error_message err = {0};

        const status result = bal_balance(bal_balancer_find(cases[index].balancer),
                                          cases[index].problem, memory, &answer, &err);

        assert_int_equal(result, STATUS_INVALID);
        assert_string_equal(err.message, cases[index].message);
        assert_int_equal(answer.bottleneck_ns, -7);
        arena_destroy(memory);
    }
}

static void a_rank_that_cannot_hold_both_of_its_chunks_is_named(void **state)
{
    arena *memory = *state;
    int64_t forward[] = {1, 1, 1, 1};
    int64_t bytes[] = {10, 10, 10, 10};
    const int64_t cap[] = {20, 19};
    const bal_problem problem = {.layers = {.layer_count = 4,
                                            .microbatch_count = 1,
                                            .forward_ns = forward,
                                            .state_bytes = bytes},
                                 .stage_count = 4,
                                 .chunk_count = 2,
                                 .placement = BAL_PLACEMENT_V,
                                 .rank_memory_bytes = cap};
    bal_answer answer;
    error_message even = {0};
    error_message exact = {0};

    assert_int_equal(bal_balance(bal_balancer_find("even"), &problem, memory, &answer, &even),
                     STATUS_INFEASIBLE);
    assert_int_equal(
        bal_balance(bal_balancer_find("v-partition"), &problem, memory, &answer, &exact),
        STATUS_INFEASIBLE);

    assert_string_equal(even.message, "even: rank 1 with 2 chunks needs 20 bytes, its cap is 19");
    assert_string_equal(exact.message, "no plan of 2 ranks of 2 chunks keeps the rules: every rank "
                                       "within its memory cap and every stage non-empty");
}

/// A chain of layers of 1 ns on 4 ranks of two chunks in a V.
static bal_problem even_layers(int layer_count, arena *memory)
{
    int64_t *forward = arena_array(memory, (size_t)layer_count, sizeof *forward);
    int64_t *bytes = arena_array(memory, (size_t)layer_count, sizeof *bytes);
    assert_non_null(forward);
    assert_non_null(bytes);
    for (int layer = 0; layer < layer_count; layer++) {
        forward[layer] = bytes[layer] = 1;
    }
    return (bal_problem){.layers = {.layer_count = layer_count,
                                    .microbatch_count = 1,
                                    .forward_ns = forward,
                                    .state_bytes = bytes},
                         .stage_count = 8,
                         .chunk_count = 2,
                         .placement = BAL_PLACEMENT_V};
}

static void an_answer_whose_plans_are_too_many_to_compare_is_one_without_a_proof(void **state)
{
    arena *memory = *state;
    enum { LAYERS_MANY = 4000 };
    bal_problem problem = even_layers(LAYERS_MANY, memory);
    int current[9];
    bal_answer answer = {0};
    error_message err = {0};
    for (int cut = 0; cut <= 8; cut++) {
        current[cut] = cut < 8 ? cut : LAYERS_MANY;
    }
    problem.current_first_layer = current;
    problem.objective = BAL_OBJECTIVE_MOVED_BYTES;
    problem.load_cap_ns = LAYERS_MANY;

    const status even = bal_balance(bal_balancer_find("even"), &problem, memory, &answer, &err);

    if (even != STATUS_OK) fail_msg("%s", err.message);
    assert_false(answer.optimal);
    assert_int_equal(answer.bottleneck_ns, LAYERS_MANY / 4);
    assert_int_equal(bal_balance(bal_balancer_find("v-partition"), &problem, memory, &answer, &err),
                     STATUS_UNSUPPORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_chunks_meet_an_exhaustive_search),
        cmocka_unit_test(the_fewest_moved_bytes_meet_an_exhaustive_search),
        cmocka_unit_test(every_balancer_is_above_its_bound_and_optimal_where_it_says_so),
        cmocka_unit_test(more_than_two_chunks_are_searched_close_to_the_optimum),
        cmocka_unit_test(two_chunks_of_long_chains_lie_between_the_bound_and_two_stages),
        cmocka_unit_test(wrong_chunks_are_invalid_and_named),
        cmocka_unit_test(an_answer_whose_plans_are_too_many_to_compare_is_one_without_a_proof),
        cmocka_unit_test(a_rank_that_cannot_hold_both_of_its_chunks_is_named),
    };
    return cmocka_run_group_tests(tests, open_memory, close_memory);
}

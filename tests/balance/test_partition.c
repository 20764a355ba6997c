/// Exact cuts, of one chunk per rank and of several: equal to an exhaustive search that is written
/// as plainly as the definitions, on thousands of small random problems; proven bounds where a
/// search is no proof; what larger chains must keep; and the cases that have names.
#include "balance/partition/balancer.h"
#include "balance/partition/chain.h"
#include "balance/partition/partition.h"
#include "balance/partition/partition_pairs.h"
#include "balance/partition/plan_book.h"
#include "base/rng.h"
#include "tests/test.h"
#include "tests/test_memory.h"

#include <stdio.h>
#include <string.h>

enum { LAYERS = 10, STAGES = 8, PEAKS = 3, HUGE_KIND = 4 };

/// One small problem with all its arrays inside.
typedef struct instance {
    bal_problem problem;
    int64_t forward[LAYERS];
    int64_t state[LAYERS];
    int64_t activation[LAYERS];
    int64_t transfer[LAYERS];
    int64_t stage_cap[STAGES];
    int64_t rank_cap[STAGES];
    int64_t inflight[STAGES];
    int64_t factor[STAGES];
    int64_t fixed[STAGES];
    int current[STAGES + 1];
    bal_rank_peaks peaks;
    int first_peak[STAGES + 1];
    int64_t held[STAGES * PEAKS * STAGES];
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

/// Load of a stage, from the words of problem.h alone.
static int64_t plain_stage_load(const instance *at, int stage, const int *first)
{
    const int begin = first[stage];
    const int end = first[stage + 1];
    bal_wide sum = 0;
    if (begin == end) return 0;
    for (int layer = begin; layer < end; layer++) {
        sum += at->forward[layer];
    }
    if (at->problem.stage_time_factor_ppb != NULL) {
        sum = (sum * at->factor[stage] + 500000000) / 1000000000;
    }
    if (at->problem.stage_fixed_ns != NULL) sum += at->fixed[stage];
    if (at->problem.weight == BAL_WEIGHT_TIME_TRANSFER) {
        if (begin > 0) sum += at->transfer[begin - 1];
        if (end < at->problem.layers.layer_count) sum += at->transfer[end - 1];
    }
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

static int64_t sum_of(const int64_t *values, const int *first, int stage)
{
    int64_t sum = 0;
    for (int layer = first[stage]; layer < first[stage + 1]; layer++) {
        sum += values[layer];
    }
    return sum;
}

static int64_t plain_stage_bytes(const instance *at, int stage, const int *first)
{
    const int64_t held = at->problem.stage_inflight != NULL ? at->inflight[stage] : 1;
    return sum_of(at->state, first, stage) + held * sum_of(at->activation, first, stage);
}

static int64_t plain_rank_bytes(const instance *at, int rank, const int *first)
{
    int64_t state = 0;
    int64_t separate = 0;
    int64_t activation[STAGES] = {0}; // by chunk
    for (int stage = 0; stage < at->problem.stage_count; stage++) {
        if (plain_rank(at, stage) != rank) continue;
        state += sum_of(at->state, first, stage);
        separate += plain_stage_bytes(at, stage, first);
        activation[stage / rank_count(at)] = sum_of(at->activation, first, stage);
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

/// The rank that holds a layer.
static int plain_owner(const instance *at, const int *first, int layer)
{
    int stage = 0;
    while (layer >= first[stage + 1]) {
        stage++;
    }
    return plain_rank(at, stage);
}

/// The best of the plans that were judged.
typedef struct oracle {
    bool is_feasible;
    int64_t bottleneck;
    bal_wide squares; // the least sum of ranks' squared loads of the plans with this bottleneck
    int64_t bound_1f1b;
    bool has_moves; // a plan within load_cap_ns
    int64_t moved_bytes;
} oracle;

static void judge(const instance *at, const int *first, oracle *best)
{
    const bal_problem *problem = &at->problem;
    int64_t bottleneck = 0;
    int64_t bound = 0;
    int64_t before = 0;
    int64_t moved = 0;
    bal_wide squares = 0;
    if (!plain_allowed(at, first)) return;
    for (int rank = 0; rank < rank_count(at); rank++) {
        const int64_t load = plain_rank_load(at, rank, first);
        const int64_t value = before + problem->microbatch_count * load;
        if (load > bottleneck) bottleneck = load;
        if (value > bound) bound = value;
        before += load;
        squares += (bal_wide)load * load;
    }
    if (!best->is_feasible || bottleneck < best->bottleneck ||
        (bottleneck == best->bottleneck && squares < best->squares)) {
        best->bottleneck = bottleneck;
        best->squares = squares;
    }
    if (!best->is_feasible || bound < best->bound_1f1b) best->bound_1f1b = bound;
    best->is_feasible = true;
    if (bottleneck > problem->load_cap_ns) return;
    for (int layer = 0; layer < problem->layers.layer_count; layer++) {
        if (plain_owner(at, first, layer) != plain_owner(at, at->current, layer)) {
            moved += at->state[layer];
        }
    }
    if (!best->has_moves || moved < best->moved_bytes) best->moved_bytes = moved;
    best->has_moves = true;
}

static oracle judged(const instance *at, const int *first)
{
    oracle one = {0};
    judge(at, first, &one);
    return one;
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
        if (cut <= 0) return best;
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
    case HUGE_KIND:
        return rng_between(random, 0, 1) * INT64_C(1000000000000000000);
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

static void fill_arrays(rng *random, instance *at, int kind, int layers, int stages)
{
    for (int layer = 0; layer < layers; layer++) {
        at->forward[layer] = random_weight(random, kind);
        at->state[layer] = rng_between(random, 0, 9);
        at->activation[layer] = rng_between(random, 0, 4);
        at->transfer[layer] = rng_between(random, 0, 60);
    }
    for (int stage = 0; stage < stages; stage++) {
        at->stage_cap[stage] = rng_between(random, 5, 40);
        at->rank_cap[stage] = rng_between(random, 15, 80);
        at->inflight[stage] = rng_between(random, 0, 3);
        at->factor[stage] = rng_between(random, 1, 5) * 500000000;
        if (rng_below(random, 4) == 0) at->factor[stage] = rng_between(random, 1, 2000000000);
        at->fixed[stage] = rng_between(random, 0, 20);
    }
    for (int cut = 1; cut < stages; cut++) {
        at->current[cut] = (int)rng_between(random, at->current[cut - 1], layers);
    }
    at->current[stages] = layers;
}

/// A problem with every part that it can have in some of the cases; one chunk also knows messages
/// and weights near the end of int64.
static void fill_random(rng *random, int chunks, instance *at)
{
    memset(at, 0, sizeof *at);
    bal_problem *problem = &at->problem;
    const int kind = (int)rng_below(random, chunks == 1 ? HUGE_KIND + 1 : HUGE_KIND);
    const int ranks = (int)rng_between(random, 1, chunks == 1 ? 6 : STAGES / chunks);
    const int stages = ranks * chunks;
    problem->allow_empty_stages = rng_below(random, 2) == 0;
    const int fewest = problem->allow_empty_stages || stages < 2 ? 2 : stages;
    const int layers = (int)rng_between(random, fewest, kind == HUGE_KIND ? 8 : LAYERS);
    fill_arrays(random, at, kind, layers, stages);
    problem->layers = (bal_layer_costs){.layer_count = layers,
                                        .microbatch_count = 1,
                                        .embedding = rng_below(random, 3) == 0,
                                        .head = rng_below(random, 3) == 0,
                                        .forward_ns = at->forward,
                                        .parameters = at->forward,
                                        .state_bytes = at->state,
                                        .activation_bytes = at->activation};
    problem->stage_count = stages;
    problem->chunk_count = chunks;
    problem->placement =
        chunks == 2 && rng_below(random, 2) == 0 ? BAL_PLACEMENT_V : BAL_PLACEMENT_LOOP;
    problem->microbatch_count = kind == HUGE_KIND ? 1 : (int)rng_between(random, 1, 12);
    problem->transfer_ns = at->transfer;
    problem->current_first_layer = at->current;
    int64_t total = 0;
    for (int layer = 0; layer < layers; layer++) {
        total += at->forward[layer];
    }
    problem->load_cap_ns = total / ranks + rng_between(random, 0, total / 2 + 1);
    if (rng_below(random, 2) == 0) problem->stage_memory_bytes = at->stage_cap;
    if (rng_below(random, 2) == 0) problem->stage_inflight = at->inflight;
    if (chunks > 1 && rng_below(random, 2) == 0) problem->rank_memory_bytes = at->rank_cap;
    if (chunks > 1 && rng_below(random, 2) == 0) fill_peaks(random, at);
    if (kind != HUGE_KIND && rng_below(random, 3) == 0) {
        problem->stage_time_factor_ppb = at->factor;
    }
    if (rng_below(random, 3) == 0) problem->stage_fixed_ns = at->fixed;
    if (chunks == 1 && rng_below(random, 3) == 0) problem->weight = BAL_WEIGHT_TIME_TRANSFER;
}

/// No cut of a plan within load is behind the latest or in front of the earliest.
static void assert_between(const bal_chain *chain, int64_t load, const int *first)
{
    int earliest[STAGES + 1];
    int latest[STAGES + 1];
    assert_ok(bal_partition_earliest(chain, load, memory, earliest, NULL));
    assert_ok(bal_partition_latest(chain, load, NULL, latest, NULL));
    for (int cut = 0; cut <= chain->stage_count; cut++) {
        assert_true(earliest[cut] <= first[cut] && first[cut] <= latest[cut]);
    }
}

TEST(one_chunk_equals_an_exhaustive_search)
{
    enum { INSTANCES = 12000 / TEST_SHARE };
    static const int stage_rank[STAGES] = {0, 1, 2, 3, 4, 5, 6, 7};
    rng random = rng_init(1, 1);
    int infeasible = 0;
    for (int number = 0; number < INSTANCES; number++) {
        instance at;
        bal_chain chain;
        int first[STAGES + 1];
        int owner[LAYERS];
        int64_t value = -1;
        arena_reset(memory);
        fill_random(&random, 1, &at);
        const oracle best = exhaustive(&at);
        const status expected = best.is_feasible ? STATUS_OK : STATUS_INFEASIBLE;
        infeasible += !best.is_feasible;
        assert_ok(bal_chain_of(&at.problem, memory, &chain, NULL));

        assert_int_equal(bal_partition_bottleneck(&chain, memory, first, &value, NULL), expected);
        if (best.is_feasible) {
            assert_int_equal(value, best.bottleneck);
            assert_int_equal(judged(&at, first).bottleneck, value);
            assert_ok(bal_partition_flattest(&chain, value, memory, first, NULL));
            assert_int_equal(judged(&at, first).bottleneck, value);
            assert_true(judged(&at, first).squares == best.squares);
            if (chain.transfer_ns == NULL) assert_between(&chain, value, first);
        }
        assert_int_equal(
            bal_partition_1f1b(&chain, at.problem.microbatch_count, memory, first, &value, NULL),
            expected);
        if (best.is_feasible) {
            assert_int_equal(value, best.bound_1f1b);
            assert_int_equal(judged(&at, first).bound_1f1b, value);
        }
        for (int layer = 0; layer < chain.layer_count; layer++) {
            owner[layer] = plain_owner(&at, at.current, layer);
        }
        assert_int_equal(bal_partition_moved_bytes(&chain, owner, stage_rank,
                                                   at.problem.load_cap_ns, memory, first, &value,
                                                   NULL),
                         best.has_moves ? STATUS_OK : STATUS_INFEASIBLE);
        if (!best.has_moves) continue;
        assert_int_equal(value, best.moved_bytes);
        assert_true(judged(&at, first).has_moves);
        assert_int_equal(judged(&at, first).moved_bytes, value);
    }
    // The generator must keep producing both kinds.
    assert_in_range(infeasible, INSTANCES / 20, INSTANCES / 2);
}

static const bal_balancer *balancer_of(const instance *at)
{
    return bal_balancer_find(at->problem.placement == BAL_PLACEMENT_V ? "v-partition"
                                                                      : "interleaved-partition");
}

TEST(two_chunks_equal_an_exhaustive_search)
{
    rng random = rng_init(20261122, 0);
    int infeasible = 0;
    int moved = 0;
    int gaps = 0; // a plan with empty stages would be better
    for (int number = 0; number < 4000; number++) {
        instance at;
        bal_answer answer = {0};
        arena_reset(memory);
        fill_random(&random, 2, &at);
        const oracle best = exhaustive(&at);

        const status result = bal_balance(balancer_of(&at), &at.problem, memory, &answer, NULL);

        assert_int_equal(result, best.is_feasible ? STATUS_OK : STATUS_INFEASIBLE);
        infeasible += !best.is_feasible;
        if (!best.is_feasible) continue;
        if (answer.bottleneck_ns != best.bottleneck) {
            fail_msg("instance %d: %lld, oracle %lld", number, (long long)answer.bottleneck_ns,
                     (long long)best.bottleneck);
        }
        const oracle ours = judged(&at, answer.first_layer);
        assert_true(ours.is_feasible && ours.bottleneck == best.bottleneck);
        assert_true(answer.optimal && answer.executable);
        for (int rank = 0; rank < rank_count(&at); rank++) {
            assert_int_equal(answer.rank_load[rank],
                             plain_rank_load(&at, rank, answer.first_layer));
        }
        at.problem.objective = BAL_OBJECTIVE_MOVED_BYTES;
        assert_int_equal(
            bal_balance(bal_balancer_find("partition"), &at.problem, memory, &answer, NULL),
            best.has_moves ? STATUS_OK : STATUS_INFEASIBLE);
        if (best.has_moves) {
            assert_int_equal(answer.moved_bytes, best.moved_bytes);
            assert_int_equal(judged(&at, answer.first_layer).moved_bytes, best.moved_bytes);
            assert_true(answer.optimal);
            moved++;
        }
        at.problem.objective = BAL_OBJECTIVE_BOTTLENECK;
        at.problem.allow_empty_stages = true;
        assert_ok(bal_balance(balancer_of(&at), &at.problem, memory, &answer, NULL));
        gaps += answer.bottleneck_ns < best.bottleneck;
    }
    assert_true(infeasible > 100 && infeasible < 2500);
    assert_true(moved > 500 && gaps > 50);
}

/// Those that find a plan of one chunk wherever there is one.
static bool knows_the_rules(const char *balancer)
{
    return strcmp(balancer, "tuned") == 0 || strcmp(balancer, "partition") == 0 ||
           strcmp(balancer, "diffusion") == 0;
}

TEST(every_balancer_is_above_its_bound_and_optimal_where_it_says_so)
{
    rng random = rng_init(11, 0);
    int count = 0;
    const bal_balancer *balancers = bal_balancers(&count);
    int optimal = 0;
    int not_optimal = 0;
    for (int number = 0; number < 4000; number++) {
        instance at;
        bal_answer answer = {0};
        arena_reset(memory);
        fill_random(&random, (int)rng_between(&random, 1, 4), &at);
        const oracle best = exhaustive(&at);
        const bal_balancer *balancer = &balancers[rng_below(&random, (uint64_t)count)];
        if (balancer->evaluates) continue;

        const status result = bal_balance(balancer, &at.problem, memory, &answer, &why);

        if (at.problem.chunk_count == 1 && knows_the_rules(balancer->name)) {
            assert_int_equal(result, best.is_feasible ? STATUS_OK : STATUS_INFEASIBLE);
        }
        if (result != STATUS_OK) {
            assert_true(result == STATUS_INFEASIBLE || result == STATUS_INVALID);
            assert_true(why.message[0] != '\0');
            continue;
        }
        assert_true(answer.bottleneck_lower_bound_ns <= answer.bottleneck_ns);
        assert_int_equal(answer.rank_count, rank_count(&at));
        if (balancer->owns_freely) continue;
        const oracle ours = judged(&at, answer.first_layer);
        assert_true(best.is_feasible && ours.is_feasible);
        assert_int_equal(ours.bottleneck, answer.bottleneck_ns);
        assert_true(answer.bottleneck_lower_bound_ns <= best.bottleneck);
        assert_true(!answer.optimal || answer.bottleneck_ns == best.bottleneck);
        optimal += answer.optimal;
        not_optimal += !answer.optimal;
    }
    assert_true(optimal > 400 && not_optimal > 100);
}

TEST(more_than_two_chunks_are_searched_close_to_the_optimum)
{
    rng random = rng_init(3, 0);
    int64_t sum = 0;
    int64_t best_sum = 0;
    for (int number = 0; number < 400; number++) {
        instance at;
        fill_random(&random, 3, &at);
        at.problem.rank_memory_bytes = NULL;
        at.problem.stage_memory_bytes = NULL;
        const oracle best = exhaustive(&at);
        arena_reset(memory);
        bal_answer answer = {0};

        assert_ok(bal_balance(bal_balancer_find("interleaved-partition"), &at.problem, memory,
                              &answer, NULL));

        assert_true(answer.bottleneck_ns >= best.bottleneck);
        if (best.bottleneck < 10000) {
            sum += answer.bottleneck_ns;
            best_sum += best.bottleneck;
        }
    }
    assert_true(sum <= best_sum + best_sum / 10);
}

/// Changes one input that plans depend on.
static void change_one(instance *at, int which)
{
    bal_problem *problem = &at->problem;
    switch (which) {
    case 0:
        at->forward[0] = at->forward[0] == 0;
        return;
    case 1:
        problem->stage_memory_bytes = NULL;
        return;
    case 2:
        problem->rank_memory_bytes = NULL;
        return;
    case 3:
        problem->stage_time_factor_ppb = NULL;
        return;
    case 4:
        problem->stage_fixed_ns = NULL;
        return;
    case 5:
        problem->rank_peaks = NULL;
        return;
    case 6:
        problem->stage_inflight = NULL;
        return;
    case 7:
        problem->layers.head = !problem->layers.head;
        return;
    case 8:
        problem->allow_empty_stages = true;
        return;
    default: // without an array whose length would tell
        problem->current_first_layer = NULL;
        if (problem->stage_count > problem->chunk_count)
            problem->stage_count -= problem->chunk_count;
        return;
    }
}

TEST(a_book_answers_as_if_it_had_asked)
{
    rng random = rng_init(17, 0);
    bal_plan_book book = {.memory = arena_create(1 << 16)};
    int asked_anew = 0;
    int asked_again = 0;
    for (int number = 0; number < 1500; number++) {
        instance at;
        arena_reset(memory);
        fill_random(&random, (int)rng_between(&random, 1, 3), &at);
        for (int which = 0; which < 11; which++) {
            bal_chain chain;
            bal_pairs_plan asked;
            assert_ok(bal_chain_of(&at.problem, memory, &chain, NULL));
            const status expected = bal_partition_chunks(&chain, memory, &asked, NULL);
            for (int time = 0; time < 2; time++) {
                const int next = book.next;
                bal_pairs_plan found;
                assert_int_equal(bal_plan_book_find(&book, &chain, memory, &found, NULL), expected);
                if (expected != STATUS_OK) continue;
                assert_int_equal(found.bottleneck, asked.bottleneck);
                assert_int_equal(found.lower_bound, asked.lower_bound);
                assert_memory_equal(found.first_layer, asked.first_layer,
                                    ((size_t)chain.stage_count + 1) * sizeof(int));
                asked_again += time == 1 && book.next == next;
                asked_anew += time == 0 && book.next != next;
            }
            change_one(&at, which);
        }
    }
    arena_destroy(book.memory);
    assert_true(asked_anew > 1500 && asked_again > asked_anew);
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

TEST(two_chunks_of_long_chains_lie_between_the_bound_and_two_stages)
{
    rng random = rng_init(96, 0);
    static int64_t forward[96];
    for (int number = 0; number < 6; number++) {
        arena_reset(memory);
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
    }
}

TEST(wrong_chunks_are_invalid_and_named)
{
    int64_t forward[] = {1, 1, 1, 1, 1, 1};
    const bal_problem loop = {
        .layers = {.layer_count = 6, .microbatch_count = 1, .forward_ns = forward},
        .stage_count = 6,
        .chunk_count = 3};
    bal_problem v = loop;
    v.placement = BAL_PLACEMENT_V;
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
        {"partition", &bound, "the objective 1f1b-bound is of one chunk per rank, not 3"},
    };
    for (size_t index = 0; index < sizeof cases / sizeof cases[0]; index++) {
        arena_reset(memory);
        bal_answer answer = {.bottleneck_ns = -7};

        const status result = bal_balance(bal_balancer_find(cases[index].balancer),
                                          cases[index].problem, memory, &answer, &why);

        assert_int_equal(result, STATUS_INVALID);
        assert_string_equal(why.message, cases[index].message);
        assert_int_equal(answer.bottleneck_ns, -7);
    }
}

TEST(a_rank_that_cannot_hold_both_of_its_chunks_is_named)
{
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
static bal_problem even_layers(int layer_count)
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

TEST(an_answer_whose_plans_are_too_many_to_compare_is_one_without_a_proof)
{
    enum { LAYERS_MANY = 4000 };
    bal_problem problem = even_layers(LAYERS_MANY);
    int current[9];
    bal_answer answer = {0};
    for (int cut = 0; cut <= 8; cut++) {
        current[cut] = cut < 8 ? cut : LAYERS_MANY;
    }
    problem.current_first_layer = current;
    problem.objective = BAL_OBJECTIVE_MOVED_BYTES;
    problem.load_cap_ns = LAYERS_MANY;

    const status even = bal_balance(bal_balancer_find("even"), &problem, memory, &answer, &why);

    require(even);
    assert_false(answer.optimal);
    assert_int_equal(answer.bottleneck_ns, LAYERS_MANY / 4);
    assert_int_equal(bal_balance(bal_balancer_find("v-partition"), &problem, memory, &answer, &why),
                     STATUS_UNSUPPORTED);
}

static bal_chain chain_of(const bal_problem *problem)
{
    bal_chain chain;
    require(bal_chain_of(problem, memory, &chain, &why));
    return chain;
}

static bal_problem problem_of(const int64_t *time_ns, int layer_count, int stage_count)
{
    return (bal_problem){
        .layers = {.layer_count = layer_count, .microbatch_count = 1, .forward_ns = time_ns},
        .stage_count = stage_count};
}

TEST(cuts_are_as_far_behind_as_the_optimum_allows)
{
    const int64_t ones[] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    const bal_problem problem = problem_of(ones, 10, 4);
    const bal_chain chain = chain_of(&problem);
    int first[5];
    int64_t bottleneck = 0;

    assert_ok(bal_partition_bottleneck(&chain, memory, first, &bottleneck, NULL));
    assert_memory_equal(first, ((const int[]){0, 3, 6, 9, 10}), sizeof first);
    assert_ok(bal_partition_latest(&chain, 3, (const int[]){0, 2, 6, 9, 10}, first, NULL));
    assert_memory_equal(first, ((const int[]){0, 2, 5, 8, 10}), sizeof first);
}

TEST(what_no_plan_keeps_is_infeasible_and_touches_nothing)
{
    const int64_t time_ns[] = {5, 5, 5};
    const int64_t bytes[] = {1, 9, 1};
    bal_problem problem = problem_of(time_ns, 3, 2);
    problem.layers.state_bytes = bytes;
    problem.stage_memory_bytes = (const int64_t[]){5, 8};
    bal_chain chain = chain_of(&problem);
    int first[3] = {-7, -7, -7};
    int64_t value = -7;

    assert_fails(bal_partition_bottleneck(&chain, memory, first, &value, &why), STATUS_INFEASIBLE,
                 "layer 1 alone (9 bytes of state) exceeds the memory cap of "
                 "every stage");
    problem.stage_memory_bytes = (const int64_t[]){9, 9};
    chain = chain_of(&problem);
    assert_fails(bal_partition_1f1b(&chain, 4, memory, first, &value, &why), STATUS_INFEASIBLE,
                 "no plan of 2 stages keeps every stage within its memory cap "
                 "and non-empty: together they hold at most the first 2 of 3 "
                 "layers");
    problem.stage_memory_bytes = NULL;
    chain = chain_of(&problem);
    assert_fails(bal_partition_moved_bytes(&chain, (const int[]){0, 1, 1}, (const int[]){0, 1}, 9,
                                           memory, first, &value, &why),
                 STATUS_INFEASIBLE,
                 "no plan keeps every load within load_cap_ns 9; the smallest "
                 "bottleneck is 10");
    assert_fails(bal_partition_latest(&chain, 10, (const int[]){0, 0, 3}, first, &why),
                 STATUS_INFEASIBLE,
                 "no plan keeps every load within 10 and its cuts within the limits");
    assert_int_equal(bal_partition_flattest(&chain, 9, memory, first, &why), STATUS_INFEASIBLE);
    problem.weight = BAL_WEIGHT_TIME_TRANSFER;
    problem.transfer_ns = bytes;
    chain = chain_of(&problem);
    assert_fails(bal_partition_flattest(&chain, 10, memory, first, &why), STATUS_INFEASIBLE,
                 "no plan keeps every load, messages included, within 10");
    assert_int_equal(value, -7);
}

TEST(a_1f1b_bound_beyond_int64_is_invalid)
{
    const int64_t large[] = {INT64_MAX / 4, 1};
    const bal_problem problem = problem_of(large, 2, 2);
    const bal_chain chain = chain_of(&problem);
    int first[3];
    int64_t value = 0;

    assert_fails(bal_partition_1f1b(&chain, 4, memory, first, &value, &why), STATUS_INVALID,
                 "loads of up to 2305843009213693952 times 4 microbatches do "
                 "not fit 64 bits");
    assert_ok(bal_partition_1f1b(&chain, 3, memory, first, &value, &why));
}

int main(void)
{
    return run_all_tests(open_memory, close_memory);
}

/// Claims about exchanges between pairs: sorted folding on the complete graph, and whole tokens on
/// a path.
#include "analysis/converge/verdict.h"

#include "base/rng.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RANDOM_PURPOSE = 104, TOKENS_PURPOSE = 105, NODES_MAX = 1024 };

/// count times the sum of squared deviations from the mean.
static bal_wide deviation(const int64_t *load, int count)
{
    bal_wide sum = 0;
    bal_wide squares = 0;
    for (int node = 0; node < count; node++) {
        sum += load[node];
        squares += (bal_wide)load[node] * load[node];
    }
    return squares * count - sum * sum;
}

/// Writes twice the loads after the k-th lightest has averaged with the k-th heaviest.
static void fold_doubled(const int64_t *sorted, int count, int64_t *doubled)
{
    for (int node = 0; node < count; node++) {
        doubled[node] = sorted[node] + sorted[count - 1 - node];
    }
}

static status try_fold(const int64_t *sorted, int count, arena *memory, ana_verdict_case *tried,
                       error_message *err)
{
    int64_t doubled[NODES_MAX];
    fold_doubled(sorted, count, doubled);
    const bal_wide before = deviation(sorted, count);
    const bal_wide after = deviation(doubled, count); // of doubled loads: four times too large
    tried->examined++;
    if (before > 0) ana_case_measure(tried, (double)after / (4.0 * (double)before));
    if (after <= 2 * before) return STATUS_OK;
    return ana_case_violate(tried, NULL, memory, err, "%d nodes, Phi2 falls to %.4g of it only",
                            count, (double)after / (4.0 * (double)before));
}

static int compare_loads(const void *left, const void *right)
{
    const int64_t a = *(const int64_t *)left;
    const int64_t b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

static status search_folds(arena *memory, ana_verdict_case *tried, error_message *err)
{
    const ana_search_box box = {.stage_min = 1,
                                .stage_max = 1,
                                .layer_min = 2,
                                .layer_max = 8,
                                .weight_min = 0,
                                .weight_max = 8,
                                .is_sorted = true};
    ana_search search;
    tried->searched = "2 to 8 nodes with every load of 0 to 8, in whole numbers";
    ana_search_begin(&search, &box);
    while (ana_search_next(&search)) {
        TRY(try_fold(search.instance.weight, search.instance.layer_count, memory, tried, err));
    }
    return STATUS_OK;
}

static status draw_folds(const ana_verdict_options *options, arena *memory, ana_verdict_case *tried,
                         error_message *err)
{
    rng generator = rng_init(options->seed, RANDOM_PURPOSE);
    tried->searched = "2 to 1,024 nodes with loads of 0 to 2^30";
    for (int index = 0; index < options->instance_count; index++) {
        int64_t load[NODES_MAX];
        const int count = (int)rng_between(&generator, 2, NODES_MAX);
        for (int node = 0; node < count; node++) {
            load[node] = rng_between(&generator, 0, INT64_C(1) << 30);
        }
        qsort(load, (size_t)count, sizeof *load, compare_loads);
        TRY(try_fold(load, count, memory, tried, err));
    }
    return STATUS_OK;
}

static int compare_reals(const void *left, const void *right)
{
    const double a = *(const double *)left;
    const double b = *(const double *)right;
    return (a > b) - (a < b);
}

/// Rounds of folding until (max - min) / mean is at most 0.1 %, from a load that one node has.
static int fold_rounds(int count)
{
    double load[NODES_MAX] = {0};
    double folded[NODES_MAX];
    load[count - 1] = count; // the mean is 1
    int rounds = 0;
    while (load[count - 1] - load[0] > 1e-3) {
        for (int node = 0; node < count; node++) {
            folded[node] = (load[node] + load[count - 1 - node]) / 2;
        }
        qsort(folded, (size_t)count, sizeof *folded, compare_reals);
        memcpy(load, folded, (size_t)count * sizeof *load);
        rounds++;
    }
    return rounds;
}

status ana_try_fold(const ana_verdict_options *options, arena *memory, arena *scratch,
                    ana_verdict *verdict, error_message *err)
{
    static const int sizes[] = {8, 64, 256, 1024};
    enum { SIZE_COUNT = sizeof sizes / sizeof sizes[0] };
    (void)scratch;
    verdict->claim = "Where any rank may exchange with any, and load is divisible, pairing the "
                     "k-th heaviest with the k-th lightest halves Phi2 = sum of (load - mean)^2 "
                     "in every round.";
    verdict->source = "derived here; Algorithm 3 has this graph";
    verdict->reason = "The pairs are nested: Phi2 is at most the sum of the squared differences "
                      "of the pairs, and a round takes half of that sum away.";
    verdict->case_count = 2;
    verdict->cases[0].condition = "small loads";
    verdict->cases[1].condition = "random loads";
    verdict->cases[0].worst_name = "Phi2 after / before";
    verdict->cases[1].worst_name = verdict->cases[0].worst_name;
    TRY(search_folds(memory, &verdict->cases[0], err));
    TRY(draw_folds(options, memory, &verdict->cases[1], err));
    verdict->growth =
        (ana_growth){.family = "all load on one node, until (max - min) / mean <= 0.1 %:",
                     .column = {"nodes", "rounds"},
                     .column_count = 2};
    ana_growth_init(&verdict->growth, SIZE_COUNT, memory);
    for (int row = 0; row < SIZE_COUNT; row++) {
        verdict->growth.value[2 * row] = sizes[row];
        verdict->growth.value[2 * row + 1] = fold_rounds(sizes[row]);
    }
    return STATUS_OK;
}

/// One round of whole tokens over alternate edges of a path: a pair shares evenly; the odd token
/// stays where it is, or with a generator goes to either with probability 1/2. True if any moved.
static bool exchange_tokens(int64_t *load, int count, int parity, rng *generator)
{
    bool moved = false;
    for (int node = parity; node + 1 < count; node += 2) {
        const int64_t sum = load[node] + load[node + 1];
        const int64_t before = load[node];
        int64_t share = sum / 2;
        if (generator != NULL) {
            if (sum % 2 != 0 && rng_below(generator, 2) == 1) share++;
        } else if (sum % 2 != 0 && load[node] > load[node + 1]) {
            share++; // floor of half the difference moves
        }
        load[node] = share;
        load[node + 1] = sum - share;
        moved = moved || share != before;
    }
    return moved;
}

/// Rounds of floor exchange until two in a row move nothing.
static int settle_tokens(int64_t *load, int count)
{
    int rounds = 0;
    for (int still = 0; still < 2; rounds++) {
        still = exchange_tokens(load, count, rounds % 2, NULL) ? 0 : still + 1;
    }
    return rounds - 2;
}

static status search_tokens(int nodes, int token_max, arena *memory, ana_verdict_case *tried,
                            error_message *err)
{
    const ana_search_box box = {.stage_min = 1,
                                .stage_max = 1,
                                .layer_min = nodes,
                                .layer_max = nodes,
                                .weight_min = 0,
                                .weight_max = token_max};
    ana_search search;
    tried->worst_name = "max - min at the end";
    ana_search_begin(&search, &box);
    while (ana_search_next(&search)) {
        int64_t load[ANA_SEARCH_LAYERS_MAX];
        memcpy(load, search.instance.weight, (size_t)nodes * sizeof *load);
        const int rounds = settle_tokens(load, nodes);
        const int64_t left = ana_verdict_spread(load, nodes);
        tried->examined++;
        ana_case_measure(tried, (double)left);
        if (left <= 1) continue;
        text_buffer start = {0};
        for (int node = 0; node < nodes; node++) {
            text_format(&start, "%s%" PRId64, node > 0 ? " " : "", search.instance.weight[node]);
        }
        const status kept = ana_case_violate(
            tried, NULL, memory, err, "tokens (%s) freeze after %d rounds with max - min %" PRId64,
            start.bytes != NULL ? start.bytes : "", rounds, left);
        text_free(&start);
        TRY(kept);
    }
    return STATUS_OK;
}

/// Rounds of random rounding until max - min <= 3, the median of some runs, and what is left after
/// as many rounds again.
static void measure_rounding(const ana_verdict_options *options, int nodes, int64_t tokens,
                             double *rounds_median, double *left)
{
    enum { RUNS = 9, NODES = 64 };
    int64_t rounds[RUNS];
    int64_t worst = 0;
    for (int run = 0; run < RUNS; run++) {
        int64_t load[NODES] = {tokens};
        rng generator = rng_init(options->seed, TOKENS_PURPOSE + ((uint64_t)run << 32));
        int64_t round = 0;
        while (ana_verdict_spread(load, nodes) > 3) {
            exchange_tokens(load, nodes, (int)(round % 2), &generator);
            round++;
        }
        rounds[run] = round;
        for (int64_t more = 0; more < 4 * round; more++) {
            exchange_tokens(load, nodes, (int)((round + more) % 2), &generator);
        }
        if (ana_verdict_spread(load, nodes) > worst) worst = ana_verdict_spread(load, nodes);
    }
    qsort(rounds, RUNS, sizeof *rounds, compare_loads);
    *rounds_median = (double)rounds[RUNS / 2];
    *left = (double)worst;
}

static void grow_tokens(const ana_verdict_options *options, arena *memory, ana_growth *growth)
{
    static const int sizes[] = {8, 16, 32, 64};
    enum { SIZE_COUNT = sizeof sizes / sizeof sizes[0], TOKENS_PER_NODE = 16, NODES = 64 };
    *growth = (ana_growth){
        .family = "16 tokens per node, all on node 0 of a path; left: max - min where it freezes; "
                  "with the odd token to either side by chance: rounds to max - min <= 3 (median "
                  "of 9), and max - min after four times as many more (worst of 9):",
        .column = {"nodes", "rounds", "left", "random: rounds", "random: left"},
        .column_count = 5};
    ana_growth_init(growth, SIZE_COUNT, memory);
    for (int row = 0; row < SIZE_COUNT; row++) {
        const int nodes = sizes[row];
        int64_t load[NODES] = {TOKENS_PER_NODE * nodes};
        double *value = &growth->value[row * growth->column_count];
        value[0] = nodes;
        value[1] = settle_tokens(load, nodes);
        value[2] = (double)ana_verdict_spread(load, nodes);
        measure_rounding(options, nodes, TOKENS_PER_NODE * nodes, &value[3], &value[4]);
    }
}

status ana_try_tokens(const ana_verdict_options *options, arena *memory, arena *scratch,
                      ana_verdict *verdict, error_message *err)
{
    (void)scratch;
    verdict->claim = "Neighbours on a path who share whole tokens, half of the difference rounded "
                     "down, come to max - min <= 1.";
    verdict->source = "what averaging would give if load were divisible";
    verdict->reason = "Half of a difference of 1, rounded down, is nothing: a staircase of N - 1 "
                      "steps moves no more. The odd token to either side by chance ends that; "
                      "layers are no unit tokens, their floor is about the largest layer.";
    verdict->case_count = 3;
    verdict->cases[0].condition = "2 nodes";
    verdict->cases[0].searched = "every load of 0 to 12 tokens";
    verdict->cases[1].condition = "3 nodes";
    verdict->cases[1].searched = "every load of 0 to 12 tokens";
    verdict->cases[2].condition = "5 nodes";
    verdict->cases[2].searched = "every load of 0 to 6 tokens";
    TRY(search_tokens(2, 12, memory, &verdict->cases[0], err));
    TRY(search_tokens(3, 12, memory, &verdict->cases[1], err));
    TRY(search_tokens(5, 6, memory, &verdict->cases[2], err));
    grow_tokens(options, memory, &verdict->growth);
    return STATUS_OK;
}

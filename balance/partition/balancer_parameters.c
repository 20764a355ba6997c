/// DeepSpeed's partition_balanced as of 0.12.5: a table over (layers, stages) that keeps, for each
/// entry, the one plan with the smallest difference between its largest and smallest stage.
///
/// Two faults belong to it and are kept. The difference is not what makes a pipeline slow: the
/// largest stage is. And a best plan of few stages need not be part of a best plan of more, so the
/// table does not even find the smallest difference. Of equal differences the later cut wins. The
/// original computes in doubles; here sums stay integers, which is the same up to 2^53.
/// Source: DeepSpeed pull request 4312, deepspeed/runtime/utils.py.

#include "balance/partition/balancers.h"

/// What is kept of the plan chosen for one number of layers.
typedef struct kept_plan {
    int64_t largest;
    int64_t smallest;
} kept_plan;

/// Where there are at most as many layers as stages: one each, then none.
static void one_layer_each(const bal_chain *chain, int *first_layer)
{
    for (int stage = 0; stage <= chain->stage_count; stage++) {
        first_layer[stage] = stage < chain->layer_count ? stage : chain->layer_count;
    }
}

/// Chooses the last cut for the first `layers` layers on `stages` stages.
static kept_plan choose_cut(const bal_chain *chain, const kept_plan *fewer, int stages, int layers,
                            int *cut)
{
    kept_plan kept = {0};
    int64_t difference = INT64_MAX;
    // One stage begins at 0; of more, every stage before the cut owns a layer.
    const int last = stages == 1 ? 0 : layers - 1;
    for (int begin = stages - 1; begin <= last; begin++) {
        const int64_t load = chain->weight_before[layers] - chain->weight_before[begin];
        kept_plan plan = {load, load};
        if (stages > 1 && fewer[begin].largest > load) plan.largest = fewer[begin].largest;
        if (stages > 1 && fewer[begin].smallest < load) plan.smallest = fewer[begin].smallest;
        if (plan.largest - plan.smallest > difference) continue;
        difference = plan.largest - plan.smallest;
        kept = plan;
        *cut = begin;
    }
    return kept;
}

status bal_balance_parameters(const bal_problem *problem, const bal_chain *chain, arena *memory,
                              bal_answer *answer, error_message *err)
{
    (void)err;
    (void)problem;
    const int stages = chain->stage_count;
    const size_t width = (size_t)chain->layer_count + 1;
    int *first = arena_array(memory, (size_t)stages + 1, sizeof *first);
    int *cuts = arena_array(memory, width * (size_t)stages, sizeof *cuts);
    kept_plan *plans = arena_array(memory, width, sizeof *plans);
    kept_plan *fewer = arena_array(memory, width, sizeof *fewer);
    answer->first_layer = first;
    if (chain->layer_count <= stages) {
        one_layer_each(chain, first);
        return STATUS_OK;
    }
    for (int stage = 0; stage < stages; stage++) {
        kept_plan *swap = fewer;
        fewer = plans;
        plans = swap;
        for (int layers = stage + 1; layers <= chain->layer_count; layers++) {
            plans[layers] = choose_cut(chain, fewer, stage + 1, layers,
                                       &cuts[(size_t)stage * width + (size_t)layers]);
        }
    }
    first[stages] = chain->layer_count;
    for (int stage = stages - 1; stage >= 0; stage--) {
        first[stage] = cuts[(size_t)stage * width + (size_t)first[stage + 1]];
    }
    return STATUS_OK;
}

static const double tolerance = 1e-3;

/// Weights up to and with a layer, as doubles.
typedef struct inclusive_sums {
    const double *sum; // [count]
    int count;
} inclusive_sums;

/// The first index in [low, high) whose sum is not below target; high if there is none.
static int bisect_left(const double *sum, double target, int low, int high)
{
    while (low < high) {
        const int middle = (low + high) / 2;
        if (sum[middle] < target) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/// The greedy probe: jumps by the mean number of layers, then looks for the cut in between.
static bool probe(inclusive_sums weights, int stages, double bottleneck, int *first)
{
    const int count = weights.count;
    const double total = weights.sum[count - 1];
    first[0] = 0;
    for (int stage = 1; stage <= stages; stage++) {
        first[stage] = count;
    }
    const int jump = count / stages;
    int ahead = jump;
    double target = bottleneck;
    for (int stage = 1; stage < stages; stage++) {
        while (ahead < count && weights.sum[ahead] < target) {
            ahead += jump;
        }
        first[stage] =
            bisect_left(weights.sum, target, ahead - jump, ahead < count ? ahead : count);
        if (first[stage] == count) return total - weights.sum[first[stage - 1]] < bottleneck;
        const int before = first[stage] > 0 ? first[stage] - 1 : count - 1;
        target = weights.sum[before] + bottleneck;
    }
    return target >= total;
}

/// DeepSpeed's partition_balanced before 0.12.5, which DynMo copied: bisection on the bottleneck in
/// doubles with an absolute tolerance, and a greedy probe.
///
/// Its faults are kept, as far as they end: the tolerance of 0.001 is far too wide for weights in
/// seconds; a first layer above the bottleneck makes the probe read the weight before the first,
/// which in the original is the last (the total); trailing stages may be empty. Where the tolerance
/// is below the spacing of doubles the original bisects for ever, and where its last probe fails it
/// stops at its own assertion: both are infeasible here.
/// Source: DeepSpeed before pull request 4312, deepspeed/runtime/utils.py.
status bal_balance_parameters_legacy(const bal_problem *problem, const bal_chain *chain,
                                     arena *memory, bal_answer *answer, error_message *err)
{
    (void)problem;
    const int stages = chain->stage_count;
    int *first = arena_array(memory, (size_t)stages + 1, sizeof *first);
    double *sum = arena_array(memory, (size_t)chain->layer_count + 1, sizeof *sum);
    answer->first_layer = first;
    if (chain->layer_count <= stages) {
        one_layer_each(chain, first);
        return STATUS_OK;
    }
    for (int layer = 0; layer < chain->layer_count; layer++) {
        sum[layer] = (double)chain->weight_before[layer + 1];
    }
    const inclusive_sums weights = {sum, chain->layer_count};
    double upper = sum[chain->layer_count - 1];
    double lower = upper / stages;
    while (upper > lower + tolerance) {
        const double middle = lower + (upper - lower) / 2;
        const bool success = probe(weights, stages, middle, first);
        const double next_upper = success ? middle : upper;
        const double next_lower = success ? lower : middle + tolerance;
        if (next_upper == upper && next_lower == lower) {
            return error_set(err, STATUS_INFEASIBLE,
                             "parameters-legacy: the original never ends on these weights: its "
                             "tolerance of 0.001 is below the spacing of doubles at %g",
                             upper);
        }
        upper = next_upper;
        lower = next_lower;
    }
    if (!probe(weights, stages, upper, first)) {
        return error_set(err, STATUS_INFEASIBLE,
                         "parameters-legacy: the original stops at its assertion: its last probe, "
                         "at %g, fails",
                         upper);
    }
    return STATUS_OK;
}

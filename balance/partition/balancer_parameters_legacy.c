/// DeepSpeed's partition_balanced before 0.12.5, which DynMo copied: bisection on the bottleneck in
/// doubles with an absolute tolerance, and a greedy probe.
///
/// Its faults are kept, as far as they end: the tolerance of 0.001 is far too wide for weights in
/// seconds; a first layer above the bottleneck makes the probe read the weight before the first,
/// which in the original is the last (the total); trailing stages may be empty. Where the tolerance
/// is below the spacing of doubles the original bisects for ever, and where its last probe fails it
/// stops at its own assertion: both are infeasible here.
/// Source: DeepSpeed before pull request 4312, deepspeed/runtime/utils.py.
#include "balance/partition/balancers.h"

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

status bal_balance_parameters_legacy(const bal_problem *problem, const bal_chain *chain,
                                     arena *memory, bal_answer *answer, error_message *err)
{
    (void)problem;
    const int stages = chain->stage_count;
    int *first = arena_array(memory, (size_t)stages + 1, sizeof *first);
    double *sum = arena_array(memory, (size_t)chain->layer_count + 1, sizeof *sum);
    answer->first_layer = first;
    if (chain->layer_count <= stages) {
        bal_one_layer_each(chain, first);
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

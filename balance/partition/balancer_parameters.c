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

void bal_one_layer_each(const bal_chain *chain, int *first_layer)
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
        bal_one_layer_each(chain, first);
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

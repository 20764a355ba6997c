/// What diffusion should be on a chain: the flow between neighbours that balances a chain of
/// divisible load is unique, and prefix sums give it in one scan. Each cut goes to the layer
/// boundary nearest to where that flow puts it, which keeps every stage within one layer of the
/// mean. Then single layers cross a cut as long as that lowers the larger of its two stages.
///
/// Stages take load in proportion to their speed. Where caps or rules forbid the rounded cuts, it
/// starts from the latest allowed cuts in front of them. The result depends on neighbours only, so
/// it is not the optimum: `partition` is, and costs no more.
#include "balance/partition/balancers.h"
#include "balance/partition/chain.h"
#include "balance/partition/partition.h"

status bal_balance_diffusion(const bal_problem *problem, const bal_chain *chain, arena *memory,
                             bal_answer *answer, error_message *err)
{
    int *first = arena_array(memory, (size_t)chain->stage_count + 1, sizeof *first);
    bool has_decided = false;
    if (problem->diffuser != NULL) {
        TRY(problem->diffuser->cuts(problem->diffuser->context, problem, first, &has_decided, err));
    }
    if (!has_decided) TRY(bal_diffusion_cuts(chain, memory, first, err));
    answer->first_layer = first;
    return STATUS_OK;
}

/// Where the flow that balances a chain of divisible load puts the cut in front of each stage:
/// stages take load in proportion to what they could take within level.
///
/// @param target [stage_count + 1] out: sums of weights in front of the cut; below 0 where no stage
///               could take anything
static void fill_targets(const bal_chain *chain, int64_t level, double *target)
{
    const int stages = chain->stage_count;
    const double total = (double)chain->weight_before[chain->layer_count];
    double all_shares = 0;
    for (int stage = 0; stage < stages; stage++) {
        const int64_t share = bal_chain_weight_within(chain, stage, level);
        if (share > 0) all_shares += (double)share;
    }
    double shares = 0;
    target[0] = 0;
    for (int stage = 0; stage < stages; stage++) {
        const int64_t share = bal_chain_weight_within(chain, stage, level);
        if (share > 0) shares += (double)share;
        target[stage + 1] = all_shares > 0 ? total * shares / all_shares : -1;
    }
}

/// The boundary whose sum of weights is nearest to target, the first of equal ones.
static int nearest_cut(const bal_chain *chain, double target)
{
    int low = 0;
    int high = chain->layer_count;
    while (low < high) { // the first boundary at or after target
        const int middle = low + (high - low) / 2;
        if ((double)chain->weight_before[middle] < target) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == 0) return 0;
    const double behind = (double)chain->weight_before[low] - target;
    const double before = target - (double)chain->weight_before[low - 1];
    return before <= behind ? low - 1 : low;
}

/// Rounds the balancing flow. Every stage that may not be empty leaves room for one layer.
static void round_flow(const bal_chain *chain, arena *memory, int *first)
{
    const int stages = chain->stage_count;
    double *target = arena_array(memory, (size_t)stages + 1, sizeof *target);
    fill_targets(chain, bal_assignment_lower_bound(chain), target);
    int least = 0;
    first[0] = 0;
    for (int stage = 0; stage + 1 < stages; stage++) {
        least += bal_chain_may_be_empty(chain, stage) ? 0 : 1;
        const int cut = nearest_cut(chain, target[stage + 1]);
        first[stage + 1] = cut > least ? cut : least;
    }
    first[stages] = chain->layer_count;
}

/// The latest allowed cuts that are not after the rounded ones; if there are none, those within
/// the smallest of some rising loads.
static status allowed_cuts(const bal_chain *chain, const int *rounded, int *first,
                           error_message *err)
{
    bal_chain without_transfer = *chain;
    without_transfer.transfer_ns = NULL;
    const int64_t largest = chain->load_sum_max;
    if (bal_partition_latest(&without_transfer, largest, rounded, first, NULL) == STATUS_OK) {
        return STATUS_OK;
    }
    int64_t load = bal_assignment_lower_bound(chain);
    while (load < largest &&
           bal_partition_latest(&without_transfer, load, NULL, first, NULL) != STATUS_OK) {
        load = load <= largest - load / 4 - 1 ? load + load / 4 + 1 : largest;
    }
    return bal_partition_latest(&without_transfer, load, NULL, first, err);
}

/// Moves the cut after a stage by step if both of its stages stay allowed and the larger of their
/// loads falls.
static bool shifts_cut(const bal_chain *chain, int *first, int stage, int step)
{
    const int begin = first[stage];
    const int cut = first[stage + 1];
    const int end = first[stage + 2];
    const int moved = cut + step;
    if (moved < begin || moved > end) return false;
    if (moved == begin && !bal_chain_may_be_empty(chain, stage)) return false;
    if (moved == end && !bal_chain_may_be_empty(chain, stage + 1)) return false;
    if (!bal_chain_fits(chain, stage, begin, moved)) return false;
    if (!bal_chain_fits(chain, stage + 1, moved, end)) return false;
    const int64_t left = bal_chain_load(chain, stage, begin, cut);
    const int64_t right = bal_chain_load(chain, stage + 1, cut, end);
    const int64_t larger = left > right ? left : right;
    if (bal_chain_load(chain, stage, begin, moved) >= larger) return false;
    if (bal_chain_load(chain, stage + 1, moved, end) >= larger) return false;
    first[stage + 1] = moved;
    return true;
}

static void search_locally(const bal_chain *chain, int *first)
{
    const int sweep_max = 4 * (chain->layer_count + chain->stage_count);
    bool moved = true;
    for (int sweep = 0; sweep < sweep_max && moved; sweep++) {
        moved = false;
        for (int stage = 0; stage + 1 < chain->stage_count; stage++) {
            if (shifts_cut(chain, first, stage, 1) || shifts_cut(chain, first, stage, -1)) {
                moved = true;
            }
        }
    }
}

status bal_diffusion_cuts(const bal_chain *chain, arena *memory, int *first_layer,
                          error_message *err)
{
    int *rounded = arena_array(memory, (size_t)chain->stage_count + 1, sizeof *rounded);
    round_flow(chain, memory, rounded);
    TRY(allowed_cuts(chain, rounded, first_layer, err));
    search_locally(chain, first_layer);
    return STATUS_OK;
}

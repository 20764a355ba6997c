/// What diffusion should be on a chain: the flow between neighbours that balances a chain of
/// divisible load is unique, and prefix sums give it in one scan. Each cut goes to the layer
/// boundary nearest to where that flow puts it, which keeps every stage within one layer of the
/// mean. Then single layers cross a cut as long as that lowers the larger of its two stages.
///
/// Stages take load in proportion to their speed. Where caps or rules forbid the rounded cuts, it
/// starts from the latest allowed cuts in front of them. The result depends on neighbours only, so
/// it is not the optimum: `partition` is, and costs no more.
#include "balance/balancers.h"
#include "balance/bounds.h"
#include "balance/partition.h"

/// The boundary whose prefix sum is nearest to target, the first of equal ones.
static int nearest_cut(const bal_chain *chain, double target)
{
    int low = 0;
    int high = chain->layer_count;
    while (low < high) { // the first boundary at or behind target
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
static void round_flow(const bal_chain *chain, int *first)
{
    const int stages = chain->stage_count;
    const double total = (double)chain->weight_before[chain->layer_count];
    const int64_t level = bal_assignment_lower_bound(chain);
    double all_shares = 0;
    for (int stage = 0; stage < stages; stage++) {
        const int64_t share = bal_chain_weight_within(chain, stage, level);
        if (share > 0) all_shares += (double)share;
    }
    double shares = 0;
    int least = 0;
    first[0] = 0;
    for (int stage = 0; stage + 1 < stages; stage++) {
        const int64_t share = bal_chain_weight_within(chain, stage, level);
        if (share > 0) shares += (double)share;
        least += bal_chain_may_be_empty(chain, stage) ? 0 : 1;
        const int cut = all_shares > 0 ? nearest_cut(chain, total * shares / all_shares) : least;
        first[stage + 1] = cut > least ? cut : least;
    }
    first[stages] = chain->layer_count;
}

/// The latest allowed cuts that are not behind the rounded ones; if there are none, those within
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

/// Moves the cut behind stage by step if both stages stay allowed and the larger load falls.
static bool shift_cut(const bal_chain *chain, int *first, int stage, int step)
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

/// Every shift lowers the loads, sorted from the largest, in dictionary order: it ends. The limit
/// keeps it short where it would end late.
static void search_locally(const bal_chain *chain, int *first)
{
    const int sweep_max = 4 * (chain->layer_count + chain->stage_count);
    bool moved = true;
    for (int sweep = 0; sweep < sweep_max && moved; sweep++) {
        moved = false;
        for (int stage = 0; stage + 1 < chain->stage_count; stage++) {
            if (shift_cut(chain, first, stage, 1) || shift_cut(chain, first, stage, -1)) {
                moved = true;
            }
        }
    }
}

status bal_balance_diffusion(const bal_problem *problem, const bal_chain *chain, arena *memory,
                             bal_answer *answer, error_message *err)
{
    (void)problem;
    const size_t cuts = (size_t)chain->stage_count + 1;
    int *rounded = arena_array(memory, cuts, sizeof *rounded);
    int *first = arena_array(memory, cuts, sizeof *first);
    if (rounded == NULL || first == NULL) {
        return error_set(err, STATUS_NO_MEMORY, "out of memory for %d stages", chain->stage_count);
    }
    round_flow(chain, rounded);
    TRY(allowed_cuts(chain, rounded, first, err));
    search_locally(chain, first);
    answer->first_layer = first;
    return STATUS_OK;
}

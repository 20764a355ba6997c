#include "balance/partition/partition_chunks.h"

#include "balance/bounds.h"
#include "balance/partition/partition.h"

/// How good a plan is; smaller is better, in the order of the fields.
typedef struct merit {
    bal_wide excess_bytes; // what ranks hold above their caps
    int64_t bottleneck;    // the largest load of a rank
    bal_wide squares;      // sum of the ranks' squared loads
} merit;

static bool is_better(const merit *one, const merit *other)
{
    if (one->excess_bytes != other->excess_bytes) return one->excess_bytes < other->excess_bytes;
    if (one->bottleneck != other->bottleneck) return one->bottleneck < other->bottleneck;
    return one->squares < other->squares;
}

/// The plan that is improved, and what its ranks have of it.
typedef struct improving {
    const bal_chain *chain;
    int *first_layer;      // [stage_count + 1]
    int64_t *load;         // [rank_count]
    int64_t *excess_bytes; // [rank_count] above its cap
    merit merit;
} improving;

static int rank_of(const bal_chain *chain, int stage)
{
    return bal_rank_of_stage(chain->placement, bal_chain_rank_count(chain), chain->chunk_count,
                             stage, NULL);
}

static int64_t load_of(const improving *at, int rank)
{
    int64_t load = 0;
    for (int chunk = 0; chunk < at->chain->chunk_count; chunk++) {
        const int stage = bal_chain_stage_of(at->chain, rank, chunk);
        load +=
            bal_chain_load(at->chain, stage, at->first_layer[stage], at->first_layer[stage + 1]);
    }
    return load;
}

static int64_t excess_of(const improving *at, int rank)
{
    if (at->chain->rank_memory_bytes == NULL) return 0;
    const int64_t bytes = bal_chain_rank_memory_bytes(at->chain, rank, at->first_layer);
    const int64_t cap = at->chain->rank_memory_bytes[rank];
    return bytes > cap ? bytes - cap : 0;
}

static int64_t largest_load(const improving *at)
{
    int64_t largest = 0;
    for (int rank = 0; rank < bal_chain_rank_count(at->chain); rank++) {
        if (at->load[rank] > largest) largest = at->load[rank];
    }
    return largest;
}

static void measure(improving *at)
{
    at->merit = (merit){0};
    for (int rank = 0; rank < bal_chain_rank_count(at->chain); rank++) {
        at->load[rank] = load_of(at, rank);
        at->excess_bytes[rank] = excess_of(at, rank);
        at->merit.squares += (bal_wide)at->load[rank] * at->load[rank];
        at->merit.excess_bytes += at->excess_bytes[rank];
    }
    at->merit.bottleneck = largest_load(at);
}

/// Measures a rank anew whose runs have changed. The bottleneck stays where the rank had it.
///
/// @return whether it had, and has no longer
static bool measure_rank(improving *at, int rank)
{
    const int64_t before = at->load[rank];
    const int64_t load = load_of(at, rank);
    const int64_t excess_bytes = excess_of(at, rank);
    at->merit.squares += (bal_wide)load * load - (bal_wide)before * before;
    at->merit.excess_bytes += excess_bytes - at->excess_bytes[rank];
    at->load[rank] = load;
    at->excess_bytes[rank] = excess_bytes;
    if (load >= at->merit.bottleneck) at->merit.bottleneck = load;
    return before == at->merit.bottleneck && load < before;
}

/// Moves a cut and measures the two ranks that it parts.
static void move_cut(improving *at, int cut, int by)
{
    const int ranks[] = {rank_of(at->chain, cut - 1), rank_of(at->chain, cut)};
    at->first_layer[cut] += by;
    const bool has_fallen = measure_rank(at, ranks[0]);
    if (measure_rank(at, ranks[1]) || has_fallen) at->merit.bottleneck = largest_load(at);
}

/// Whether the stages on both sides of a cut keep the rules of stages.
static bool is_allowed(const bal_chain *chain, const int *first_layer, int cut)
{
    for (int stage = cut - 1; stage <= cut; stage++) {
        const int begin = first_layer[stage];
        const int end = first_layer[stage + 1];
        if (end < begin || (end == begin && !bal_chain_may_be_empty(chain, stage))) return false;
        if (!bal_chain_fits(chain, stage, begin, end)) return false;
    }
    return true;
}

/// Moves a cut by a layer if that is better.
static bool steps(improving *at, int cut, int by)
{
    const merit before = at->merit;
    at->first_layer[cut] += by;
    const bool may_move = is_allowed(at->chain, at->first_layer, cut);
    at->first_layer[cut] -= by;
    if (!may_move) return false;
    move_cut(at, cut, by);
    if (is_better(&at->merit, &before)) return true;
    move_cut(at, cut, -by);
    return false;
}

static void improve(improving *at)
{
    int step_count = 0;
    for (bool has_moved = true; has_moved;) {
        has_moved = false;
        for (int cut = 1; cut < at->chain->stage_count; cut++) {
            for (int by = -1; by <= 1; by += 2) {
                while (step_count < BAL_CHUNK_STEPS_MAX && steps(at, cut, by)) {
                    step_count++;
                    has_moved = true;
                }
            }
        }
    }
}

static status by_stages(const bal_chain *chain, arena *memory, bal_pairs_plan *plan,
                        error_message *err)
{
    const size_t ranks = (size_t)bal_chain_rank_count(chain);
    int *first = arena_array(memory, (size_t)chain->stage_count + 1, sizeof *first);
    improving at = {.chain = chain,
                    .first_layer = first,
                    .load = arena_array(memory, ranks, sizeof *at.load),
                    .excess_bytes = arena_array(memory, ranks, sizeof *at.excess_bytes)};
    int64_t bottleneck = 0;
    TRY(bal_partition_bottleneck(chain, memory, first, &bottleneck, err));
    TRY(bal_partition_flattest(chain, bottleneck, memory, first, err));
    measure(&at);
    if (chain->chunk_count > 1) {
        improve(&at);
        TRY(bal_chain_check(chain, first, err));
    }
    *plan = (bal_pairs_plan){
        .first_layer = first,
        .bottleneck = at.merit.bottleneck,
        .lower_bound = chain->chunk_count > 1 ? bal_assignment_lower_bound(chain) : bottleneck};
    return STATUS_OK;
}

status bal_partition_chunks(const bal_chain *chain, arena *memory, bal_pairs_plan *plan,
                            error_message *err)
{
    if (chain->chunk_count == 2 && chain->transfer_ns == NULL) {
        return bal_partition_pairs(chain, memory, plan, err);
    }
    return by_stages(chain, memory, plan, err);
}

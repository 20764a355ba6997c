#include "balance/partition_chunks.h"

#include "balance/bounds.h"
#include "balance/partition.h"

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

static merit merit_of(const bal_chain *chain, const int *first_layer)
{
    merit out = {0};
    for (int rank = 0; rank < bal_chain_rank_count(chain); rank++) {
        int64_t load = 0;
        for (int chunk = 0; chunk < chain->chunk_count; chunk++) {
            const int stage = bal_chain_stage_of(chain, rank, chunk);
            load += bal_chain_load(chain, stage, first_layer[stage], first_layer[stage + 1]);
        }
        if (load > out.bottleneck) out.bottleneck = load;
        out.squares += (bal_wide)load * load;
        if (chain->rank_memory_bytes == NULL) continue;
        const int64_t bytes = bal_chain_rank_memory_bytes(chain, rank, first_layer);
        if (bytes > chain->rank_memory_bytes[rank]) {
            out.excess_bytes += bytes - chain->rank_memory_bytes[rank];
        }
    }
    return out;
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
static bool steps(const bal_chain *chain, int *first_layer, int cut, int by, merit *best)
{
    first_layer[cut] += by;
    if (is_allowed(chain, first_layer, cut)) {
        const merit tried = merit_of(chain, first_layer);
        if (is_better(&tried, best)) {
            *best = tried;
            return true;
        }
    }
    first_layer[cut] -= by;
    return false;
}

static void improve(const bal_chain *chain, int *first_layer)
{
    merit best = merit_of(chain, first_layer);
    int step_count = 0;
    for (bool has_moved = true; has_moved;) {
        has_moved = false;
        for (int cut = 1; cut < chain->stage_count; cut++) {
            for (int by = -1; by <= 1; by += 2) {
                while (step_count < BAL_CHUNK_STEPS_MAX &&
                       steps(chain, first_layer, cut, by, &best)) {
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
    int *first = arena_array(memory, (size_t)chain->stage_count + 1, sizeof *first);
    if (first == NULL) {
        return error_set(err, STATUS_NO_MEMORY, "out of memory for %d stages", chain->stage_count);
    }
    int64_t bottleneck = 0;
    TRY(bal_partition_bottleneck(chain, memory, first, &bottleneck, err));
    TRY(bal_partition_flattest(chain, bottleneck, memory, first, err));
    if (chain->chunk_count > 1) {
        improve(chain, first);
        TRY(bal_chain_check(chain, first, err));
    }
    *plan = (bal_pairs_plan){
        .first_layer = first,
        .bottleneck = merit_of(chain, first).bottleneck,
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

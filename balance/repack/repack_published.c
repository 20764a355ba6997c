/// Algorithm 4 as printed and as coded, the classical rules for bins, and halving.
#include "balance/repack/repack.h"

#include "balance/partition/partition.h"

enum { NONE = -1 };

/// The ranks, as the algorithm counts them.
typedef struct packing {
    int rank_count;
    int64_t cap_bytes;
    int64_t *memory_bytes; // [rank_count]
    bool *is_active;       // [rank_count]
    int active_count;
} packing;

/// Sends all that src holds to dst and releases src, whose books stay as they are if it keeps.
static void merge(packing *at, int src, int dst, bool keeps)
{
    at->active_count -= at->is_active[src];
    at->is_active[src] = false;
    at->memory_bytes[dst] += at->memory_bytes[src];
    if (!keeps) at->memory_bytes[src] = 0;
}

/// The double loop of Algorithm 4, as printed (keeps) or as coded.
static void run_algorithm_4(packing *at, int target, bool keeps)
{
    for (int src = 0; src < at->rank_count; src++) {
        for (int dst = src + 1; dst < at->rank_count; dst++) {
            if (at->memory_bytes[src] + at->memory_bytes[dst] >= at->cap_bytes) continue;
            if (at->active_count > target) merge(at, src, dst, keeps);
        }
    }
}

/// The rank in front of item that takes it, or NONE.
///
/// @param receiver the last one that took any, or NONE
static int find_bin(const packing *at, bal_repack_kind kind, int receiver, int item)
{
    const int64_t *memory = at->memory_bytes;
    int best = NONE;
    for (int step = 0; step < item; step++) {
        const int rank = kind == BAL_REPACK_ROUND_ROBIN ? (receiver + 1 + step) % item : step;
        if (!at->is_active[rank] || memory[rank] + memory[item] > at->cap_bytes) continue;
        if (kind != BAL_REPACK_BEST_FIT) return rank;
        if (best == NONE || memory[rank] > memory[best]) best = rank;
    }
    return best;
}

static void run_bins(packing *at, bal_repack_kind kind, int target)
{
    int receiver = NONE;
    for (int item = 1; item < at->rank_count && at->active_count > target; item++) {
        const int bin = find_bin(at, kind, receiver, item);
        if (bin == NONE) continue;
        receiver = bin;
        merge(at, item, bin, false);
    }
}

int bal_repack_merge(bal_repack_kind kind, int rank_count, int64_t cap_bytes, int target_rank_count,
                     int64_t *memory_bytes, bool *is_active)
{
    packing at = {.rank_count = rank_count,
                  .cap_bytes = cap_bytes,
                  .memory_bytes = memory_bytes,
                  .is_active = is_active,
                  .active_count = rank_count};
    for (int rank = 0; rank < rank_count; rank++) {
        is_active[rank] = true;
    }
    if (kind == BAL_REPACK_PUBLISHED || kind == BAL_REPACK_CODED) {
        run_algorithm_4(&at, target_rank_count, kind == BAL_REPACK_PUBLISHED);
    } else {
        run_bins(&at, kind, target_rank_count);
    }
    return at.active_count;
}

status bal_repack_halving(const int64_t *state_bytes, int layer_count, int rank_count,
                          int64_t start_rank_bytes_max, arena *memory, int *kept_rank_count,
                          error_message *err)
{
    int kept = rank_count;
    for (; kept >= 2; kept /= 2) {
        const bal_problem problem = {.layers = {.layer_count = layer_count,
                                                .microbatch_count = 1,
                                                .parameters = state_bytes},
                                     .weight = BAL_WEIGHT_PARAMETERS,
                                     .allow_empty_stages = true,
                                     .stage_count = kept / 2};
        bal_chain chain;
        int64_t largest = 0;
        int *first = arena_array(memory, (size_t)kept / 2 + 1, sizeof *first);
        TRY(bal_chain_of(&problem, memory, &chain, err));
        TRY(bal_partition_bottleneck(&chain, memory, first, &largest, err));
        if (largest > start_rank_bytes_max) break;
    }
    *kept_rank_count = kept;
    return STATUS_OK;
}

/// Algorithm 4 as printed and as coded, the classical rules for bins, and halving.
#include "balance/repack/repack_published.h"

#include "balance/partition/partition.h"
#include "balance/schedule/schedule.h"

#include <inttypes.h>

enum { NONE = -1 };

static status check(const bal_pack_question *question, error_message *err)
{
    if (question->kind < BAL_REPACK_PUBLISHED || question->kind > BAL_REPACK_ROUND_ROBIN) {
        return error_set(err, STATUS_INVALID, "'%s' does not merge ranks",
                         question->kind < BAL_REPACK_COUNT ? bal_repack_names[question->kind]
                                                           : "?");
    }
    if (question->rank_count < 1 || question->rank_count > BAL_RANKS_MAX) {
        return error_set(err, STATUS_INVALID, "rank_count %d is outside [1, %d]",
                         question->rank_count, BAL_RANKS_MAX);
    }
    if (question->target_rank_count < 1) {
        return error_set(err, STATUS_INVALID, "target_rank_count %d is below 1",
                         question->target_rank_count);
    }
    const int64_t limit = INT64_MAX / 4 / question->rank_count;
    for (int rank = 0; rank < question->rank_count; rank++) {
        if (question->memory_bytes[rank] >= 0 && question->memory_bytes[rank] <= limit) continue;
        return error_set(err, STATUS_INVALID,
                         "memory of rank %d: %" PRId64 " is outside [0, %" PRId64 "]", rank,
                         question->memory_bytes[rank], limit);
    }
    return STATUS_OK;
}

/// Sends all that src holds to dst and releases src, whose books stay as they are if it keeps.
static void merge(bal_pack_result *result, int src, int dst, bool keeps)
{
    result->active_count -= result->is_active[src];
    result->is_active[src] = false;
    result->memory_bytes[dst] += result->memory_bytes[src];
    if (!keeps) result->memory_bytes[src] = 0;
}

/// The double loop of Algorithm 4, as printed (keeps) or as coded.
static void run_algorithm_4(const bal_pack_question *question, bool keeps, bal_pack_result *result)
{
    for (int src = 0; src < question->rank_count; src++) {
        for (int dst = src + 1; dst < question->rank_count; dst++) {
            const int64_t both = result->memory_bytes[src] + result->memory_bytes[dst];
            if (both >= question->cap_bytes) continue;
            if (result->active_count <= question->target_rank_count) continue;
            merge(result, src, dst, keeps);
        }
    }
    result->is_dropped = !keeps && result->active_count != question->target_rank_count;
}

/// The rank in front of item that takes it, or NONE.
///
/// @param receiver the last one that took any, or NONE
static int find_bin(const bal_pack_question *question, const bal_pack_result *result, int receiver,
                    int item)
{
    const int64_t *memory = result->memory_bytes;
    int best = NONE;
    for (int step = 0; step < item; step++) {
        const bool in_turn = question->kind == BAL_REPACK_ROUND_ROBIN;
        const int rank = in_turn ? (receiver + 1 + step) % item : step;
        if (!result->is_active[rank]) continue;
        if (memory[rank] + memory[item] > question->cap_bytes) continue;
        if (question->kind != BAL_REPACK_BEST_FIT) return rank;
        if (best == NONE || memory[rank] > memory[best]) best = rank;
    }
    return best;
}

static void run_bins(const bal_pack_question *question, bal_pack_result *result)
{
    int receiver = NONE;
    for (int item = 1; item < question->rank_count; item++) {
        if (result->active_count <= question->target_rank_count) return;
        const int bin = find_bin(question, result, receiver, item);
        if (bin == NONE) continue;
        receiver = bin;
        merge(result, item, bin, false);
    }
}

status bal_repack_published(const bal_pack_question *question, arena *memory,
                            bal_pack_result *result, error_message *err)
{
    TRY(check(question, err));
    const int ranks = question->rank_count;
    bal_pack_result made = {.active_count = ranks,
                            .is_active = arena_array(memory, (size_t)ranks, sizeof *made.is_active),
                            .memory_bytes =
                                arena_array(memory, (size_t)ranks, sizeof *made.memory_bytes)};
    for (int rank = 0; rank < ranks; rank++) {
        made.is_active[rank] = true;
        made.memory_bytes[rank] = question->memory_bytes[rank];
    }
    if (question->kind == BAL_REPACK_PUBLISHED || question->kind == BAL_REPACK_CODED) {
        run_algorithm_4(question, question->kind == BAL_REPACK_PUBLISHED, &made);
    } else {
        run_bins(question, &made);
    }
    *result = made;
    return STATUS_OK;
}

bool bal_repack_published_triggers(int64_t load_ns, int64_t start_load_ns,
                                   double load_threshold_ratio, int active_count,
                                   int target_rank_count)
{
    return (double)load_ns < load_threshold_ratio * (double)start_load_ns &&
           active_count > target_rank_count;
}

status bal_repack_halving(const int64_t *state_bytes, int layer_count, int rank_count,
                          int64_t start_rank_bytes_max, arena *memory, int *kept_rank_count,
                          error_message *err)
{
    if (rank_count < 1 || rank_count > BAL_RANKS_MAX) {
        return error_set(err, STATUS_INVALID, "rank_count %d is outside [1, %d]", rank_count,
                         BAL_RANKS_MAX);
    }
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

/// Algorithm 4 as printed and as coded, the classical rules for bins, and halving.
#include "balance/repack/repack_published.h"

#include "balance/partition/partition.h"
#include "balance/schedule/schedule.h"

#include <inttypes.h>
#include <string.h>

enum { NONE = -1 };

/// Layers of a rank in the order in which it holds them; grows by doubling.
typedef struct layer_list {
    int *layers;
    int count;
    int capacity;
    int gone; // of the list: already sent once, though still on the books
} layer_list;

typedef struct packer {
    const bal_pack_question *question;
    arena *memory;
    error_message *err;
    bal_pack_result *result;
    layer_list *lists; // [rank_count]
    int receiver;      // round-robin: the last one
} packer;

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
    if (question->first_layer[0] != 0) {
        return error_set(err, STATUS_INVALID, "the first rank begins at layer %d",
                         question->first_layer[0]);
    }
    const int64_t limit = INT64_MAX / 4 / question->rank_count;
    for (int rank = 0; rank < question->rank_count; rank++) {
        if (question->first_layer[rank] > question->first_layer[rank + 1]) {
            return error_set(err, STATUS_INVALID, "rank %d ends before it begins: [%d, %d)", rank,
                             question->first_layer[rank], question->first_layer[rank + 1]);
        }
        if (question->memory_bytes[rank] < 0 || question->memory_bytes[rank] > limit) {
            return error_set(err, STATUS_INVALID,
                             "memory of rank %d: %" PRId64 " is outside [0, %" PRId64 "]", rank,
                             question->memory_bytes[rank], limit);
        }
    }
    return STATUS_OK;
}

/// Puts layers at the back of a list.
static void append(packer *at, layer_list *list, const int *layers, int count)
{
    if (list->count + count > list->capacity) {
        const int capacity = 2 * (list->count + count);
        int *larger = arena_array(at->memory, (size_t)capacity, sizeof *larger);
        if (list->count > 0) memcpy(larger, list->layers, (size_t)list->count * sizeof *larger);
        list->layers = larger;
        list->capacity = capacity;
    }
    for (int index = 0; index < count; index++) {
        list->layers[list->count++] = layers[index];
    }
}

/// Gives every rank the layers that it holds at the start.
static void fill_lists(packer *at)
{
    for (int rank = 0; rank < at->question->rank_count; rank++) {
        at->lists[rank].count = 0;
        for (int layer = at->question->first_layer[rank];
             layer < at->question->first_layer[rank + 1]; layer++) {
            append(at, &at->lists[rank], &layer, 1);
        }
    }
}

static void packer_init(packer *at)
{
    const bal_pack_question *question = at->question;
    bal_pack_result *result = at->result;
    const int ranks = question->rank_count;
    at->lists = arena_array(at->memory, (size_t)ranks, sizeof *at->lists);
    result->is_active = arena_array(at->memory, (size_t)ranks, sizeof *result->is_active);
    result->memory_bytes = arena_array(at->memory, (size_t)ranks, sizeof *result->memory_bytes);
    for (int rank = 0; rank < ranks; rank++) {
        result->is_active[rank] = question->is_active == NULL || question->is_active[rank];
        result->active_count += result->is_active[rank];
        result->memory_bytes[rank] = question->memory_bytes[rank];
    }
    fill_lists(at);
    at->receiver = NONE;
}

/// Sends every layer of src to the back of dst.
///
/// @param keeps src's books stay as they are
static status merge(packer *at, int src, int dst, bool keeps)
{
    bal_pack_result *result = at->result;
    layer_list *from = &at->lists[src];
    if (from->count > BAL_PACK_TRANSFERS_MAX - result->transfer_count) {
        return error_set(at->err, STATUS_INFEASIBLE,
                         "sending %d layers of rank %d to rank %d makes more than %d transfers",
                         from->count, src, dst, BAL_PACK_TRANSFERS_MAX);
    }
    append(at, &at->lists[dst], from->layers, from->count);
    result->transfer_count += from->count;
    result->duplicate_transfer_count += from->gone;
    from->gone = from->count;
    result->memory_bytes[dst] += result->memory_bytes[src];
    if (!keeps) {
        from->count = 0;
        from->gone = 0;
        result->memory_bytes[src] = 0;
    }
    return STATUS_OK;
}

static void release(packer *at, int rank)
{
    at->result->active_count -= at->result->is_active[rank];
    at->result->is_active[rank] = false;
}

/// The double loop of Algorithm 4, as printed (keeps) or as coded.
static status run_algorithm_4(packer *at, bool keeps)
{
    const bal_pack_question *question = at->question;
    bal_pack_result *result = at->result;
    for (int src = 0; src < question->rank_count; src++) {
        for (int dst = src + 1; dst < question->rank_count; dst++) {
            const int64_t both = result->memory_bytes[src] + result->memory_bytes[dst];
            if (both >= question->cap_bytes) continue;
            if (result->active_count <= question->target_rank_count) continue;
            release(at, src);
            TRY(merge(at, src, dst, keeps));
        }
    }
    result->is_dropped = !keeps && result->active_count != question->target_rank_count;
    return STATUS_OK;
}

/// The rank in front of item that takes it, or NONE.
static int find_bin(const packer *at, int item)
{
    const bal_pack_question *question = at->question;
    const int64_t *memory = at->result->memory_bytes;
    int best = NONE;
    for (int step = 0; step < item; step++) {
        const bool in_turn = question->kind == BAL_REPACK_ROUND_ROBIN;
        const int rank = in_turn ? (at->receiver + 1 + step) % item : step;
        if (!at->result->is_active[rank]) continue;
        if (memory[rank] + memory[item] > question->cap_bytes) continue;
        if (question->kind != BAL_REPACK_BEST_FIT) return rank;
        if (best == NONE || memory[rank] > memory[best]) best = rank;
    }
    return best;
}

static status run_bins(packer *at)
{
    const bal_pack_question *question = at->question;
    for (int item = 1; item < question->rank_count; item++) {
        if (at->result->active_count <= question->target_rank_count) return STATUS_OK;
        if (!at->result->is_active[item]) continue;
        const int bin = find_bin(at, item);
        if (bin == NONE) continue;
        at->receiver = bin;
        release(at, item);
        TRY(merge(at, item, bin, false));
    }
    return STATUS_OK;
}

/// Writes what the ranks hold, and what is wrong with it.
static void finish(packer *at)
{
    bal_pack_result *result = at->result;
    const int ranks = at->question->rank_count;
    if (result->is_dropped) { // no layer has moved
        fill_lists(at);
        result->transfer_count = 0;
        result->duplicate_transfer_count = 0;
    }
    result->first_held = arena_array(at->memory, (size_t)ranks + 1, sizeof *result->first_held);
    for (int rank = 0; rank < ranks; rank++) {
        result->first_held[rank + 1] = result->first_held[rank] + at->lists[rank].count;
    }
    result->held = arena_array(at->memory, (size_t)result->first_held[ranks], sizeof *result->held);
    int next = 0; // layer that comes next if the order is kept
    result->keeps_order = true;
    for (int rank = 0; rank < ranks; rank++) {
        const layer_list *list = &at->lists[rank];
        if (list->count == 0) continue;
        memcpy(&result->held[result->first_held[rank]], list->layers,
               (size_t)list->count * sizeof *list->layers);
        if (!result->is_active[rank]) result->holds_released = true;
        for (int index = 0; index < list->count; index++) {
            if (list->layers[index] != next++) result->keeps_order = false;
        }
    }
    if (next != at->question->first_layer[ranks] || result->holds_released) {
        result->keeps_order = false;
    }
}

status bal_repack_published(const bal_pack_question *question, arena *memory,
                            bal_pack_result *result, error_message *err)
{
    bal_pack_result made = {0};
    packer at = {.question = question, .memory = memory, .err = err, .result = &made};
    TRY(check(question, err));
    packer_init(&at);
    if (question->kind == BAL_REPACK_PUBLISHED || question->kind == BAL_REPACK_CODED) {
        TRY(run_algorithm_4(&at, question->kind == BAL_REPACK_PUBLISHED));
    } else {
        TRY(run_bins(&at));
    }
    finish(&at);
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

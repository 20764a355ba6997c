#include "balance/repack/repack.h"

#include "balance/schedule/schedule.h"
#include "base/text.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

const char *const bal_repack_names[BAL_REPACK_COUNT] = {
    [BAL_REPACK_NONE] = "none",         [BAL_REPACK_THROUGHPUT] = "throughput",
    [BAL_REPACK_GPU_TIME] = "gpu-time", [BAL_REPACK_PUBLISHED] = "published",
    [BAL_REPACK_CODED] = "coded",       [BAL_REPACK_FIRST_FIT] = "first-fit",
    [BAL_REPACK_BEST_FIT] = "best-fit", [BAL_REPACK_ROUND_ROBIN] = "round-robin",
    [BAL_REPACK_HALVING] = "halving",
};

const char *const bal_released_names[BAL_RELEASED_COUNT] = {
    [BAL_RELEASED_RELEASE] = "release",
    [BAL_RELEASED_REPLICATE] = "replicate",
    [BAL_RELEASED_LEND] = "lend",
};

bal_repack_options bal_repack_options_default(void)
{
    return (bal_repack_options){
        .tolerance_ratio = 0.05,
        .grow_ratio = 0.05,
        .rank_count_min = 1,
        .rank_unit = 1,
        .target_rank_count = 1,
        .load_threshold_ratio = 1,
        .op_fixed_ratio = 0.1,
    };
}

static status check_ratio(double value, double limit, const char *name, error_message *err)
{
    if (value >= 0 && value <= limit) return STATUS_OK;
    return error_set(err, STATUS_INVALID, "%s %g is outside [0, %g]", name, value, limit);
}

static status check_range(int value, int min, int max, const char *name, error_message *err)
{
    if (value >= min && value <= max) return STATUS_OK;
    return error_set(err, STATUS_INVALID, "%s %d is outside [%d, %d]", name, value, min, max);
}

static status check_count(int value, int max, const char *name, error_message *err)
{
    return check_range(value, 1, max, name, err);
}

int bal_repack_unit(const bal_repack_options *options)
{
    return options->rank_unit > 0 ? options->rank_unit : 1;
}

/// Refuses a number of ranks that is no multiple of the unit, naming the nearest ones.
static status check_layout(int rank_count, const char *name, int unit, int ranks,
                           error_message *err)
{
    if (rank_count % unit == 0) return STATUS_OK;
    const int below = rank_count / unit * unit;
    if (below == 0 || below + unit > ranks) {
        return error_set(err, STATUS_INVALID,
                         "%s %d: no layout of whole units of %d ranks has so many; %d does", name,
                         rank_count, unit, below == 0 ? unit : below);
    }
    return error_set(err, STATUS_INVALID,
                     "%s %d: no layout of whole units of %d ranks has so many; %d and %d do", name,
                     rank_count, unit, below, below + unit);
}

status bal_repack_options_check(const bal_repack_options *options, const bal_machine *machine,
                                error_message *err)
{
    const int ranks = machine->rank_count;
    const int unit = bal_repack_unit(options);
    TRY(check_ratio(options->tolerance_ratio, 1000, "tolerance_ratio", err));
    TRY(check_ratio(options->grow_ratio, 1000, "grow_ratio", err));
    TRY(check_ratio(options->load_threshold_ratio, 1000, "load_threshold_ratio", err));
    TRY(check_ratio(options->op_fixed_ratio, 1, "op_fixed_ratio", err));
    TRY(check_range(options->rank_count_min, 0, ranks, "rank_count_min", err));
    TRY(check_range(options->target_rank_count, 0, ranks, "target_rank_count", err));
    TRY(check_count(unit, ranks, "rank_unit", err));
    TRY(check_layout(ranks, "the machine's rank_count", unit, ranks, err));
    if (options->rank_count_min > 1) {
        TRY(check_layout(options->rank_count_min, "rank_count_min", unit, ranks, err));
    }
    if (options->target_rank_count > 1) {
        TRY(check_layout(options->target_rank_count, "target_rank_count", unit, ranks, err));
    }
    for (int index = 0; index < options->microbatch_choice_count; index++) {
        TRY(check_count(options->microbatch_counts[index], BAL_MICROBATCHES_MAX,
                        "a number of microbatches", err));
    }
    return STATUS_OK;
}

status bal_gpu_account_of(const bal_gpu_layout *layout, const int *machine_rank, int active_count,
                          arena *memory, bal_gpu_account *account, error_message *err)
{
    TRY(check_count(layout->rank_count, INT32_MAX, "rank_count", err));
    TRY(check_count(layout->replica_count, INT32_MAX, "replica_count", err));
    TRY(check_count(layout->gpus_per_rank, INT32_MAX, "gpus_per_rank", err));
    TRY(check_count(layout->gpus_per_node, INT32_MAX, "gpus_per_node", err));
    const int ranks = layout->rank_count;
    if (active_count < 0 || active_count > ranks) {
        return error_set(err, STATUS_INVALID, "%d active ranks of %d", active_count, ranks);
    }
    bool *is_active = arena_array(memory, (size_t)ranks, sizeof *is_active);
    for (int place = 0; place < active_count; place++) {
        const int rank = machine_rank != NULL ? machine_rank[place] : place;
        if (rank < 0 || rank >= ranks) {
            return error_set(err, STATUS_INVALID, "active rank %d is outside [0, %d)", rank, ranks);
        }
        is_active[rank] = true;
    }
    const bal_wide gpus = (bal_wide)ranks * layout->replica_count * layout->gpus_per_rank;
    if (gpus > INT64_MAX / 2) return error_set(err, STATUS_INVALID, "more than 2^62 GPUs");
    const int64_t released = (int64_t)layout->replica_count * (ranks - active_count);
    bal_gpu_account made = {.gpu_count = (int64_t)gpus,
                            .released_rank_count = released,
                            .idle_gpu_count = released * layout->gpus_per_rank};
    // Runs of ranks in use in the order of their GPUs; a node is idle if no run touches it.
    int64_t free_from = 0; // first node that no active GPU so far is on
    for (int64_t replica = 0; replica < layout->replica_count; replica++) {
        for (int rank = 0; rank < ranks; rank++) {
            if (!is_active[rank]) continue;
            const int64_t begin = (replica * ranks + rank) * layout->gpus_per_rank;
            const int64_t first = begin / layout->gpus_per_node;
            const int64_t last = (begin + layout->gpus_per_rank - 1) / layout->gpus_per_node;
            if (first > free_from) made.released_node_count += first - free_from;
            if (last + 1 > free_from) free_from = last + 1;
        }
    }
    const int64_t nodes = (made.gpu_count + layout->gpus_per_node - 1) / layout->gpus_per_node;
    made.released_node_count += nodes - free_from;
    *account = made;
    return STATUS_OK;
}

status bal_replication_of(int rank_count, int kept_rank_count, int replica_count,
                          int microbatch_count, bal_replication *out, error_message *err)
{
    TRY(check_count(rank_count, BAL_RANKS_MAX, "rank_count", err));
    TRY(check_count(kept_rank_count, rank_count, "kept_rank_count", err));
    TRY(check_count(replica_count, INT32_MAX / BAL_RANKS_MAX, "replica_count", err));
    TRY(check_count(microbatch_count, BAL_MICROBATCHES_MAX, "microbatch_count", err));
    const int64_t released = (int64_t)replica_count * (rank_count - kept_rank_count);
    const int64_t batch = (int64_t)replica_count * microbatch_count;
    const int64_t replicas = replica_count + released / kept_rank_count;
    if (replicas > batch) {
        return error_set(err, STATUS_INVALID,
                         "%" PRId64 " replicas cannot share the %" PRId64
                         " microbatches of the global batch",
                         replicas, batch);
    }
    *out = (bal_replication){
        .further_replica_count = (int)(released / kept_rank_count),
        .idle_rank_count = (int)(released % kept_rank_count),
        .microbatch_count = (int)(batch / replicas),
        .larger_replica_count = (int)(batch % replicas),
    };
    return STATUS_OK;
}

enum { PPB = 1000000000 };

/// What a cost of `from` columns becomes in column c of `to`: see bal_repack_scale_layers. Shares
/// are counted in 1 / (from * to) of the batch.
static status scale_cell(const int64_t *row, int columns, int from, int to, int column,
                         int64_t fixed_ppb, int64_t *scaled, error_message *err)
{
    bal_wide sum = 0; // of cost * share
    const int64_t begin = (int64_t)column * from;
    const int64_t end = begin + from;
    if (columns == 1) {
        sum = (bal_wide)row[0] * from;
    } else {
        for (int64_t old = begin / to; old * to < end; old++) {
            const int64_t share_begin = old * to > begin ? old * to : begin;
            const int64_t share_end = (old + 1) * to < end ? (old + 1) * to : end;
            sum += (bal_wide)row[old] * (share_end - share_begin);
        }
    }
    // sum / to is the time if all of it scales, sum / from if none does.
    const bal_wide weight = (bal_wide)(PPB - fixed_ppb) * from + (bal_wide)fixed_ppb * to;
    const bal_wide divisor = (bal_wide)PPB * from * to;
    const bal_wide whole = sum / divisor * weight;
    const bal_wide rest = (sum % divisor * weight + divisor / 2) / divisor;
    if (whole > INT64_MAX - rest) {
        return error_set(err, STATUS_INVALID,
                         "a cost of %d instead of %d microbatches does not fit "
                         "64 bits",
                         to, from);
    }
    *scaled = (int64_t)(whole + rest);
    return STATUS_OK;
}

static status scale_times(const int64_t *times, const bal_layer_costs *layers, int from, int to,
                          int64_t fixed_ppb, arena *memory, const int64_t **out, error_message *err)
{
    if (times == NULL) return STATUS_OK;
    const int columns = layers->microbatch_count == 1 ? 1 : to;
    int64_t *scaled =
        arena_array(memory, (size_t)layers->layer_count * (size_t)columns, sizeof *scaled);
    for (int layer = 0; layer < layers->layer_count; layer++) {
        const int64_t *row = times + (int64_t)layer * layers->microbatch_count;
        for (int column = 0; column < columns; column++) {
            TRY(scale_cell(row, layers->microbatch_count, from, to, column, fixed_ppb,
                           &scaled[(int64_t)layer * columns + column], err));
        }
    }
    *out = scaled;
    return STATUS_OK;
}

/// Bytes of one microbatch, rounded up.
static status scale_bytes(const int64_t *bytes, int layer_count, int from, int to, arena *memory,
                          const int64_t **out, error_message *err)
{
    if (bytes == NULL) return STATUS_OK;
    int64_t *scaled = arena_array(memory, (size_t)layer_count, sizeof *scaled);
    for (int layer = 0; layer < layer_count; layer++) {
        const bal_wide value = ((bal_wide)bytes[layer] * from + to - 1) / to;
        if (value > INT64_MAX) {
            return error_set(err, STATUS_INVALID,
                             "bytes of layer %d with %d instead of %d microbatches do not fit 64 "
                             "bits",
                             layer, to, from);
        }
        scaled[layer] = (int64_t)value;
    }
    *out = scaled;
    return STATUS_OK;
}

status bal_repack_scale_layers(const bal_layer_costs *layers, int from_count, int to_count,
                               double op_fixed_ratio, arena *memory, bal_layer_costs *scaled,
                               error_message *err)
{
    if (from_count < 1 || from_count > BAL_MICROBATCHES_MAX || to_count < 1 ||
        to_count > BAL_MICROBATCHES_MAX) {
        return error_set(err, STATUS_INVALID, "%d and %d microbatches are not both in [1, %d]",
                         from_count, to_count, BAL_MICROBATCHES_MAX);
    }
    if (layers->microbatch_count != 1 && layers->microbatch_count != from_count) {
        return error_set(err, STATUS_INVALID, "the costs are of %d microbatches, not of %d",
                         layers->microbatch_count, from_count);
    }
    if (!(op_fixed_ratio >= 0 && op_fixed_ratio <= 1)) {
        return error_set(err, STATUS_INVALID, "op_fixed_ratio %g is outside [0, 1]",
                         op_fixed_ratio);
    }
    const int64_t fixed_ppb = llround(op_fixed_ratio * PPB);
    bal_layer_costs made = *layers;
    const int64_t **arrays[BAL_COST_ARRAY_COUNT];
    bal_layer_costs_list(&made, arrays);
    for (int array = 0; array < BAL_COST_TIMES_COUNT; array++) {
        TRY(scale_times(*arrays[array], layers, from_count, to_count, fixed_ppb, memory,
                        arrays[array], err));
    }
    const int64_t **bytes[] = {&made.activation_bytes, &made.gradient_bytes, &made.message_bytes};
    for (int array = 0; array < 3; array++) {
        TRY(scale_bytes(*bytes[array], layers->layer_count, from_count, to_count, memory,
                        bytes[array], err));
    }
    if (layers->microbatch_count > 1) made.microbatch_count = to_count;
    *scaled = made;
    return STATUS_OK;
}

int64_t bal_repack_reduction_ns(int64_t ns, int from_replicas, int to_replicas)
{
    if (from_replicas == to_replicas || from_replicas <= 1) return ns;
    const bal_wide part = (bal_wide)ns * (to_replicas - 1) * from_replicas;
    const bal_wide whole = (bal_wide)to_replicas * (from_replicas - 1);
    const bal_wide value = (part + whole - 1) / whole;
    return value > INT64_MAX / 4 ? INT64_MAX / 4 : (int64_t)value;
}

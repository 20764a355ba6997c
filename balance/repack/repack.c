#include "balance/repack/repack.h"

#include "balance/schedule/schedule.h"
#include "base/text.h"

#include <inttypes.h>
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

int64_t bal_repack_reduction_ns(int64_t ns, int from_replicas, int to_replicas)
{
    if (from_replicas == to_replicas || from_replicas <= 1) return ns;
    const bal_wide part = (bal_wide)ns * (to_replicas - 1) * from_replicas;
    const bal_wide whole = (bal_wide)to_replicas * (from_replicas - 1);
    const bal_wide value = (part + whole - 1) / whole;
    return value > INT64_MAX / 4 ? INT64_MAX / 4 : (int64_t)value;
}

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

int bal_repack_unit(const bal_repack_options *options)
{
    return options->rank_unit > 0 ? options->rank_unit : 1;
}

static status check_layout(int rank_count, const char *name, int unit, error_message *err)
{
    if (rank_count <= 1 || rank_count % unit == 0) return STATUS_OK;
    return error_set(err, STATUS_INVALID, "%s %d is no multiple of rank_unit %d", name, rank_count,
                     unit);
}

status bal_repack_options_check(const bal_repack_options *options, const bal_machine *machine,
                                error_message *err)
{
    const int ranks = machine->rank_count;
    const int unit = bal_repack_unit(options);
    TRY(check_int_range("rank_count_min", options->rank_count_min, 0, ranks, err));
    TRY(check_int_range("target_rank_count", options->target_rank_count, 0, ranks, err));
    TRY(check_int_range("rank_unit", unit, 1, ranks, err));
    TRY(check_layout(ranks, "the machine's rank_count", unit, err));
    TRY(check_layout(options->rank_count_min, "rank_count_min", unit, err));
    return check_layout(options->target_rank_count, "target_rank_count", unit, err);
}

void bal_gpu_account_of(const bal_gpu_layout *layout, const int *machine_rank, int active_count,
                        arena *memory, bal_gpu_account *account)
{
    const int ranks = layout->rank_count;
    bool *is_active = arena_array(memory, (size_t)ranks, sizeof *is_active);
    for (int place = 0; place < active_count; place++) {
        is_active[machine_rank != NULL ? machine_rank[place] : place] = true;
    }
    const int64_t gpus = (int64_t)ranks * layout->replica_count * layout->gpus_per_rank;
    const int64_t released = (int64_t)layout->replica_count * (ranks - active_count);
    bal_gpu_account made = {.gpu_count = gpus,
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
}

bal_batch_share bal_batch_share_of(int rank_count, int kept_rank_count, int replica_count,
                                   int microbatch_count)
{
    const int64_t ranks = (int64_t)rank_count * replica_count;
    const int64_t batch = (int64_t)microbatch_count * replica_count;
    const int64_t replicas = ranks / kept_rank_count < batch ? ranks / kept_rank_count : batch;
    return (bal_batch_share){.replica_count = (int)replicas,
                             .played_count = (int)((batch + replicas - 1) / replicas),
                             .idle_rank_count = (int)(ranks - replicas * kept_rank_count)};
}

int64_t bal_repack_reduction_ns(int64_t ns, int from_replicas, int to_replicas)
{
    if (from_replicas == to_replicas || from_replicas <= 1) return ns;
    const bal_wide part = (bal_wide)ns * (to_replicas - 1) * from_replicas;
    const bal_wide whole = (bal_wide)to_replicas * (from_replicas - 1);
    const bal_wide value = (part + whole - 1) / whole;
    return value > INT64_MAX / 4 ? INT64_MAX / 4 : (int64_t)value;
}

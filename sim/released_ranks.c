#include "sim/released_ranks.h"

/// Makes further replicas, as many as there are ranks and microbatches for.
static status replicate(const bal_gpu_layout *layout, const bal_placed_partition *plan,
                        int microbatch_count, sim_gpu_use *out, error_message *err)
{
    const int64_t ranks = (int64_t)layout->replica_count * layout->rank_count;
    const int64_t batch = (int64_t)layout->replica_count * microbatch_count;
    int64_t idle = ranks - batch * plan->rank_count;
    if (ranks / plan->rank_count > batch) {
        out->replica_count = (int)batch;
        out->played_count = 1;
    } else {
        bal_replication made;
        TRY(bal_replication_of(layout->rank_count, plan->rank_count, layout->replica_count,
                               microbatch_count, &made, err));
        out->replica_count += made.further_replica_count;
        out->played_count = made.microbatch_count + (made.larger_replica_count > 0 ? 1 : 0);
        idle = made.idle_rank_count;
    }
    out->account.idle_gpu_count = idle * layout->gpus_per_rank;
    out->account.released_rank_count = idle;
    out->account.released_node_count = 0;
    return STATUS_OK;
}

status sim_gpu_use_of(const bal_gpu_layout *layout, bal_released_use use,
                      const bal_placed_partition *plan, int microbatch_count, arena *scratch,
                      sim_gpu_use *out, error_message *err)
{
    sim_gpu_use made = {.replica_count = layout->replica_count, .played_count = microbatch_count};
    TRY(bal_gpu_account_of(layout, plan->machine_rank, plan->rank_count, scratch, &made.account,
                           err));
    if (use == BAL_RELEASED_REPLICATE) TRY(replicate(layout, plan, microbatch_count, &made, err));
    *out = made;
    return STATUS_OK;
}

int64_t sim_replication_ns(const bal_machine *machine, const bal_layer_costs *layers,
                           const bal_placed_partition *plan, int replica_count, int further)
{
    const int64_t ns_max = INT64_MAX / 4;
    int64_t longest_ns = 0;
    const int64_t rounds = (further + replica_count - 1) / replica_count;
    for (int place = 0; place < plan->rank_count && rounds > 0; place++) {
        int64_t ns = 0;
        for (int chunk = 0; chunk < plan->chunk_count; chunk++) {
            const int stage =
                bal_stage_of(plan->placement, plan->rank_count, plan->chunk_count, place, chunk);
            for (int layer = plan->first_layer[stage]; layer < plan->first_layer[stage + 1];
                 layer++) {
                const int64_t bytes = layers->state_bytes != NULL ? layers->state_bytes[layer] : 0;
                const int64_t layer_ns = bal_link_transfer_ns(machine->inter_node, bytes);
                ns = layer_ns > ns_max - ns ? ns_max : ns + layer_ns;
            }
        }
        if (ns > longest_ns) longest_ns = ns;
    }
    return longest_ns > ns_max / (rounds > 0 ? rounds : 1) ? ns_max : longest_ns * rounds;
}

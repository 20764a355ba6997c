#include "sim/network.h"

bool sim_network_is_free(const sim_network *network)
{
    return network == NULL || (network->send == BAL_SEND_ASYNC && network->link_count == 0);
}

int sim_network_receiver(const bal_schedule *schedule, bal_op_kind kind, int stage)
{
    if (kind == OP_BACKWARD_WEIGHT) return -1;
    const int ranks = schedule->rank_count;
    const int chunks = schedule->chunk_count;
    const int receiver = kind == OP_FORWARD
                             ? bal_stage_behind(schedule->placement, ranks, chunks, stage)
                             : bal_stage_before(schedule->placement, ranks, stage);
    if (receiver < 0) return -1;
    const int from = bal_rank_of_stage(schedule->placement, ranks, chunks, stage, NULL);
    const int to = bal_rank_of_stage(schedule->placement, ranks, chunks, receiver, NULL);
    return from == to ? -1 : receiver;
}

/// The node of a stage's rank.
static int node_of(const bal_machine *machine, const bal_placed_partition *plan, int stage)
{
    return bal_placed_machine_rank(plan, stage) / machine->ranks_per_node;
}

void sim_network_of_machine(const bal_machine *machine, const bal_placed_partition *plan,
                            const bal_stage_costs *costs, arena *memory, sim_network *network)
{
    const int stages = costs->stage_count;
    const int nodes = (machine->rank_count + machine->ranks_per_node - 1) / machine->ranks_per_node;
    *network = (sim_network){.send = machine->send};
    if (!machine->shares_node_links || nodes == 1) return;
    network->link_count = nodes;
    for (int way = 0; way < 2; way++) {
        int *link = arena_array(memory, (size_t)stages, sizeof *link);
        int64_t *occupancy_ns = arena_array(memory, (size_t)stages, sizeof *occupancy_ns);
        network->link[way] = link;
        network->occupancy_ns[way] = occupancy_ns;
        for (int stage = 0; stage < stages; stage++) {
            const int receiver = way == 0 ? stage + 1 : stage - 1;
            const int node = node_of(machine, plan, stage);
            const bool is_sent =
                receiver >= 0 && receiver < stages && node_of(machine, plan, receiver) != node;
            link[stage] = is_sent ? node : -1;
            if (!is_sent) continue;
            occupancy_ns[stage] = costs->sends_ns[way][stage] - machine->inter_node.latency_ns;
        }
    }
}

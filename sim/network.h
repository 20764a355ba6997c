/// What carries messages between stages: how long they take, whom they occupy, and which links
/// they share.
#pragma once

#include "balance/costs/machine.h"
#include "balance/costs/stage_costs.h"
#include "balance/schedule/schedule.h"
#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/// How messages travel. Zero-initialised: asynchronous, and every message has its own way.
///
/// A link is held by one message at a time and serves them first come, first served; where several
/// come at once, the one of the lower rank goes first. A message that holds a link for its
/// occupancy is at the other end after its whole send time; the rest of that time is latency, in
/// which the next one may follow. Messages of both directions and of several stages may share a
/// link. The arrays are borrowed; those of links are NULL where link_count is 0.
typedef struct sim_network {
    bal_send send;
    int link_count; // 0: no link is shared
    // Of each way: [0] outputs of a stage to the next, [1] its gradients to the one before.
    const int *link[2]; // [stage_count] in [-1, link_count): the one that is crossed, -1: its own
    const int64_t *occupancy_ns[2]; // [stage_count] how long a message of the stage holds it, in
                                    // [0, sends_ns[way][s]]: bytes / bandwidth
} sim_network;

/// Whether a network is one whose messages are asynchronous and delay nobody else; NULL is.
bool sim_network_is_free(const sim_network *network);

/// The stage that waits for the message of an op on another rank: the next one for F, the one
/// before for B and BW.
///
/// @return -1 if none does: both stages are on one rank, no stage is there (F of the last stage, B
///         of the first), or the op is a W, which sends nothing
int sim_network_receiver(const bal_schedule *schedule, bal_op_kind kind, int stage);

/// Makes the network of a pipeline on a machine.
///
/// Where the machine says that nodes share their links, all messages that leave a node cross one
/// link, its own, in either direction of the pipeline; links are full duplex. A message holds it
/// for what it takes beyond the latency, so for its bytes over the bandwidth. Messages within a
/// node, and those of other replicas, are on ways of their own.
///
/// @param costs   sends are those of the machine (bal_stage_costs_from_layers)
/// @param network out: arrays are carved from memory; none where nothing is shared
/// Time O(stages).
void sim_network_of_machine(const bal_machine *machine, const bal_placed_partition *plan,
                            const bal_stage_costs *costs, arena *memory, sim_network *network);

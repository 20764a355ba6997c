/// The network of a machine: how the messages of a schedule travel over its links.
#pragma once

#include "balance/machine.h"
#include "balance/schedule/schedule.h"
#include "balance/stage_costs.h"
#include "base/arena.h"
#include "base/status.h"
#include "sim/network.h"

/// Makes the network of a pipeline on a machine.
///
/// Where the machine says that nodes share their links, all messages that leave a node cross one
/// link, its own, in either direction of the pipeline; links are full duplex. A message holds it
/// for what it takes beyond the latency, so for its bytes over the bandwidth. Messages within a
/// node, and those of other replicas, are on ways of their own.
///
/// @param machine_rank [schedule->rank_count] rank of the machine at each place, or NULL: the same
/// @param costs        sends are those of the machine (bal_stage_costs_from_layers)
/// @param network      out: arrays are carved from memory; none where nothing is shared
/// @return STATUS_NO_MEMORY. Time O(stages).
void sim_network_of_machine(const bal_machine *machine, const bal_schedule *schedule,
                            const int *machine_rank, const bal_stage_costs *costs, arena *memory,
                            sim_network *network);

/// What carries messages between stages. Links are asynchronous and full duplex: a message leaves
/// when its op ends, takes the link's time and delays nobody else.
#pragma once

#include "balance/schedule.h"
#include "balance/stage_costs.h"

#include <stdint.h>

/// Time from the end of an op until its message is at the neighbouring stage: the next one for F,
/// the one before for B and BW.
///
/// @return 0 if both stages are on one rank, if no stage is there (F of the last stage, B of the
///         first), and for W, which sends nothing
int64_t sim_network_transfer_ns(const bal_schedule *schedule, const bal_stage_costs *costs,
                                bal_op_kind kind, int stage);

/// What a message takes longer than that: costs->message_delay_ns of it.
///
/// @return 0 where costs have no delays and where nothing is sent to another rank
int64_t sim_network_delay_ns(const bal_schedule *schedule, const bal_stage_costs *costs,
                             bal_op_kind kind, int stage, int microbatch);

/// The stage that waits for the message of an op on another rank.
///
/// @return -1 if none does: see sim_network_transfer_ns
int sim_network_receiver(const bal_schedule *schedule, bal_op_kind kind, int stage);

/// The links that the costs file of `dynmo schedule` says messages share.
#pragma once

#include "balance/schedule/schedule.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/status.h"
#include "sim/network.h"

/// Whose messages they are.
typedef struct cli_link_shape {
    int rank_count;
    int chunk_count;
    bal_placement placement;
    int64_t send_ns; // of a message between ranks
} cli_link_shape;

/// Reads [{"pairs":[[from,to],...],"occupancy_ns":n},...]: each a link that all messages from rank
/// `from` to rank `to` of its pairs share, and which each of them holds for occupancy_ns (send_ns
/// where it is left out). Messages of pairs that are named nowhere have their own way.
///
/// @param links   missing: none
/// @param network out: arrays are carved from memory; its send is not touched
/// @return STATUS_FORMAT naming file and key, also where nothing is sent from one rank of a pair to
///         the other, or a pair is on two links; STATUS_NO_MEMORY
status cli_schedule_links_read(json_value links, const cli_link_shape *shape, arena *memory,
                               sim_network *network, error_message *err);

/// The static engine for many scenarios at once: what one step does, it does for a row of lanes,
/// each with costs and times of its own. Which vectors
/// the processor has is asked when the program starts, and changes no result.
#pragma once

#include "balance/costs/stage_costs.h"
#include "base/arena.h"
#include "base/status.h"
#include "sim/pipeline.h"

#include <stdbool.h>
#include <stdint.h>

/// With fewer lanes compilers make no vectors of a row; with more the rows of 24 ranks leave
/// first-level cache.
enum { SIM_LANES_MIN = 16, SIM_LANES_MAX = 32 };

/// Filled by sim_lanes_init, then by sim_lanes_set or directly. Lanes that nobody has set play too,
/// with costs of 0.
typedef struct sim_lanes {
    const sim_order *order;
    int lane_count;      // SIM_LANES_MIN or SIM_LANES_MAX
    int column_count;    // of op_ns: 1, or microbatch_count
    int message_columns; // of message_ns: 1, or microbatch_count where messages have delays
    int64_t *op_ns;      // [row_count][column_count][lane_count]
    int64_t *message_ns; // [row_count][message_columns][lane_count] end of op until it has arrived
    int64_t *start_ns;   // [rank_count][lane_count] earliest begin of each rank; 0 at first
    int64_t *end_ns;     // [rank_count][lane_count] out: end of its last op
    int64_t *arrival_ns; // [slot_count][lane_count] scratch
} sim_lanes;

/// The number of lanes that suits so many scenarios best: SIM_LANES_MAX where they are as many and
/// take no more than 256 MiB.
///
/// @param lane_bytes what sim_lanes_init takes for each
int sim_lanes_suited(int64_t scenario_count, int64_t lane_bytes);

/// What sim_lanes_init takes for each lane, about: for the costs of messages and ops by row and, as
/// they differ, by microbatch, and for what is on its way.
int64_t sim_lanes_lane_bytes(const sim_order *order, bool has_columns, bool has_delays);

/// Carves lanes from memory.
///
/// @param order      borrowed for their life; other plays of it do not disturb
/// @param lane_count SIM_LANES_MIN or SIM_LANES_MAX
/// @param has_columns costs differ by microbatch
/// @param has_delays  messages have delays of their own
void sim_lanes_init(const sim_order *order, int lane_count, bool has_columns, bool has_delays,
                    arena *memory, sim_lanes *lanes);

/// Sets the costs of one scenario.
///
/// @param costs ones that sim_costs_check accepts, copied. One column is spread over all of the
///              lanes'; more only where the lanes have them, and delays likewise (asserted).
///
/// Time O(ops) with columns, else O(stages).
void sim_lanes_set(sim_lanes *lanes, int lane, const bal_stage_costs *costs);

/// Plays one iteration of all lanes from start_ns. Each lane's times are to the ns those of
/// sim_order_summarise. Time O(ops * lanes), no allocation.
void sim_lanes_play(sim_lanes *lanes);

/// Lets the next iteration of every rank begin where its last op ended.
void sim_lanes_go_on(sim_lanes *lanes);

/// Lets every rank begin at 0 again.
void sim_lanes_rewind(sim_lanes *lanes);

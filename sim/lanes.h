/// The static engine for many scenarios at once: what one step does, it does for a row of lanes,
/// each with costs and times of its own. The processor's vectors take 2, 4 or 8 lanes in one
/// instruction; which they are is asked when a play begins, and changes no result.
#pragma once

#include "balance/stage_costs.h"
#include "base/arena.h"
#include "base/status.h"
#include "sim/pipeline.h"

#include <stdbool.h>
#include <stdint.h>

/// Rows of lanes are whole cache lines.
enum { SIM_LANES_STEP = 8, SIM_LANES_MAX = 64 };

/// Filled by sim_lanes_init, then by sim_lanes_set or directly. Lanes that nobody has set play too,
/// with costs of 0.
typedef struct sim_lanes {
    const sim_order *order;
    int lane_count;      // 8, 16, 32 or 64
    int column_count;    // of op_ns: 1, or microbatch_count
    int message_columns; // of message_ns: 1, or microbatch_count where messages have delays
    int64_t *op_ns;      // [row_count][column_count][lane_count]
    int64_t *message_ns; // [row_count][message_columns][lane_count] end of op until it has arrived
    int64_t *start_ns;   // [rank_count][lane_count] earliest begin of each rank; 0 at first
    int64_t *end_ns;     // [rank_count][lane_count] out: end of its last op
    int64_t *arrival_ns; // [slot_count][lane_count] scratch
} sim_lanes;

/// The number of lanes that suits so many scenarios best: 8, 16 or 32, and of those as many as stay
/// within 256 MiB, or 8.
///
/// @param lane_bytes what sim_lanes_init takes for each
int sim_lanes_suited(int64_t scenario_count, int64_t lane_bytes);

/// What sim_lanes_init takes for each lane, about: for the costs of messages and ops by row and, as
/// they differ, by microbatch, and for what is on its way.
int64_t sim_lanes_lane_bytes(const sim_order *order, bool has_columns, bool has_delays);

/// Carves lanes from memory.
///
/// @param order      borrowed for their life; other plays of it do not disturb
/// @param lane_count 8, 16, 32 or 64
/// @param has_columns costs differ by microbatch
/// @param has_delays  messages have delays of their own
/// @return STATUS_NO_MEMORY
status sim_lanes_init(const sim_order *order, int lane_count, bool has_columns, bool has_delays,
                      arena *memory, sim_lanes *lanes);

/// Sets the costs of one scenario.
///
/// @param costs ones that sim_costs_check accepts, copied. One column is spread over all of the
///              lanes'; more only where the lanes have them, and delays likewise (asserted).
///
/// Time O(ops) with columns, else O(stages).
void sim_lanes_set(sim_lanes *lanes, int lane, const bal_stage_costs *costs);

/// The vectors that a processor may have.
typedef enum sim_vectors {
    SIM_VECTORS_ANY, ///< whatever the program was built for
    SIM_VECTORS_AVX2,
    SIM_VECTORS_AVX512,
    SIM_VECTORS_COUNT
} sim_vectors;

/// The widest vectors of this processor. Those before it in the list it has too.
sim_vectors sim_vectors_here(void);

/// Plays one iteration of all lanes from start_ns. Each lane's times are to the ns those of
/// sim_order_summarise. Time O(ops * lanes), no allocation.
void sim_lanes_play(sim_lanes *lanes);

/// The same with given vectors, which this processor must have.
void sim_lanes_play_with(sim_lanes *lanes, sim_vectors vectors);

/// Lets the next iteration of every rank begin where its last op ended.
void sim_lanes_go_on(sim_lanes *lanes);

/// Lets every rank begin at 0 again.
void sim_lanes_rewind(sim_lanes *lanes);

/// What came of one lane.
///
/// @param costs   those that were set for it
/// @param summary of sim_summary_init for the order. Time O(ranks), with columns O(ops).
void sim_lanes_summarise(const sim_lanes *lanes, int lane, const bal_stage_costs *costs,
                         sim_summary *summary);

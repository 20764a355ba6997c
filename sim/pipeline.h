/// The static engine: plays a fixed order as a max-plus recurrence. No queue, no allocation.
///
/// Every op begins when the op before it on its rank has ended and the message that it waits for
/// has arrived. With the order fixed, that is one pass over the ops in an order in which nothing
/// stands before what it waits for. A plan is compiled once and played once per iteration.
#pragma once

#include "balance/costs/stage_costs.h"
#include "balance/schedule/schedule.h"
#include "base/arena.h"
#include "base/status.h"
#include "sim/costs.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    SIM_RANK_BITS = 12,
    SIM_ROW_BITS = 20,
    SIM_SLOT_BITS = 22, // messages on their way at once
    SIM_SLOT_NONE = 0,  // read by ops that wait for no message: always 0
    SIM_SLOT_WASTE = 1, // written by ops that send no message: never read
};

/// One op of the compiled order.
typedef struct sim_step {
    uint32_t row_and_rank; // row of costs << SIM_RANK_BITS | rank
    uint32_t wait; // upper half of its microbatch << SIM_SLOT_BITS | slot in which the message
                   // arrives that it waits for
    uint32_t send; // lower half of its microbatch << SIM_SLOT_BITS | slot of what it sends
} sim_step;
_Static_assert(sizeof(sim_step) == 12, "a compiled order is streamed once per play");

/// The parts of a step.
static inline uint32_t sim_step_rank(sim_step step)
{
    return step.row_and_rank & ((1u << SIM_RANK_BITS) - 1);
}

static inline uint32_t sim_step_row(sim_step step)
{
    return step.row_and_rank >> SIM_RANK_BITS;
}

static inline uint32_t sim_step_wait(sim_step step)
{
    return step.wait & ((1u << SIM_SLOT_BITS) - 1);
}

static inline uint32_t sim_step_send(sim_step step)
{
    return step.send & ((1u << SIM_SLOT_BITS) - 1);
}

static inline uint32_t sim_step_microbatch(sim_step step)
{
    return step.wait >> SIM_SLOT_BITS << (32 - SIM_SLOT_BITS) | step.send >> SIM_SLOT_BITS;
}

/// Where a rank stands during a play.
typedef struct sim_clock {
    int64_t free_ns; // end of its last op
    int64_t op;      // index into the timeline of its next op
} sim_clock;

/// A compiled order. Filled by sim_order_compile; clocks, messages and the rows of costs are
/// scratch of a play, so one order serves one play at a time.
typedef struct sim_order {
    const bal_schedule *schedule;
    int step_count; // ops, and three more for each pair
    int slot_count;
    const sim_step *steps; // [step_count] with rows of costs
    const int *first_wait; // [rank_count] slot that the first op of a rank waits for
    sim_cost_table costs;
    sim_clock *clocks;   // [rank_count]
    int64_t *arrival_ns; // [slot_count]
} sim_order;

/// Compiles an order for playing.
///
/// @param schedule borrowed for the life of the order
/// @param order    out: arrays are carved from memory, 12 bytes per op; untouched on failure
/// @return what bal_schedule_check refuses; STATUS_UNSUPPORTED where more messages are on their
///         way at once than a slot has bits for. Time O(ops).
status sim_order_compile(const bal_schedule *schedule, arena *memory, sim_order *order,
                         error_message *err);

/// What a replay of many iterations needs of each.
typedef struct sim_summary {
    int64_t makespan_ns;     // first op begin to last op end
    int64_t span_ns;         // largest over ranks of last end - own first begin
    int64_t *busy_ns;        // [rank_count] sum of its op times
    int64_t *first_begin_ns; // [rank_count]
    int64_t *last_end_ns;    // [rank_count]
    int64_t *stage_end_ns;   // [stage_count] of its last W or BW; NULL: not asked for
    int64_t *row_end_ns;     // scratch of it: of the last op of every row of costs
} sim_summary;

/// Carves the arrays of a summary or of a timeline for order from memory; those of a summary that
/// tell the ends of stages apart, for who asks for them.
void sim_summary_init(const sim_order *order, arena *memory, sim_summary *summary);
void sim_summary_ask_stage_ends(const sim_order *order, arena *memory, sim_summary *summary);
void sim_timeline_init(const bal_schedule *schedule, arena *memory, bal_timeline *timeline);

/// Plays one iteration and keeps begin and end of every op.
///
/// @param costs    ones that sim_costs_check accepts
/// @param start_ns [rank_count] earliest begin of each rank in [0, INT64_MAX / 2], or NULL: all may
///                 begin at 0
/// @param timeline of sim_timeline_init, for the schedule of order
///
/// Time O(ops), no allocation.
void sim_order_play(sim_order *order, const bal_stage_costs *costs, const int64_t *start_ns,
                    bal_timeline *timeline);

/// Plays one iteration and keeps only the summary; otherwise as sim_order_play, and faster.
void sim_order_summarise(sim_order *order, const bal_stage_costs *costs, const int64_t *start_ns,
                         sim_summary *summary);

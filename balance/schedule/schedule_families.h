/// How the rows of the schedule table write their orders; only schedule.c and the families see it.
#pragma once

#include "balance/schedule/schedule.h"

/// Writes the order of one rank of a fixed family into ops: F and either B and W or BW of every
/// chunk and microbatch (without a split always BW). The counts are already within the limits.
///
/// @param ops room for 3 ops (2 without a split) of every chunk and microbatch
/// @return the end of what was written
typedef bal_op *bal_schedule_fill(bal_schedule_counts counts, int rank, bal_op *ops);

bal_schedule_fill bal_schedule_fill_gpipe, bal_schedule_fill_1f1b,
    bal_schedule_fill_interleaved_1f1b, bal_schedule_fill_zb_h1, bal_schedule_fill_zb_h2,
    bal_schedule_fill_interleaved_zb, bal_schedule_fill_zb_v_hand, bal_schedule_fill_dualpipe_v;
bal_schedule_fill bal_schedule_fill_chimera; // microbatches of each of its pipelines

/// Whether a family has orders for these counts, which are within the limits.
///
/// @return STATUS_INVALID naming the count, the schedule and the rule
typedef status bal_schedule_rule(int rank_count, int microbatch_count, error_message *err);

bal_schedule_rule bal_schedule_rule_interleaved_1f1b; // P divides M
bal_schedule_rule bal_schedule_rule_interleaved_zb;   // max(1, floor(M / P)) divides M
bal_schedule_rule bal_schedule_rule_dualpipe_v;       // M >= 2P
bal_schedule_rule bal_schedule_rule_chimera;          // both counts are even

/// Makespan and span by formula: as bal_closed_form_of.
typedef bal_closed_form bal_schedule_length(const bal_equal_stages *stages);

bal_schedule_length bal_schedule_length_gpipe, bal_schedule_length_1f1b,
    bal_schedule_length_interleaved_1f1b, bal_schedule_length_zb_h1, bal_schedule_length_zb_h2,
    bal_schedule_length_interleaved_zb, bal_schedule_length_zb_v_hand, bal_schedule_length_1f1b_v,
    bal_schedule_length_v_half, bal_schedule_length_v_min, bal_schedule_length_dualpipe_v,
    bal_schedule_length_chimera;

/// Writes the orders of all ranks of a family, rank after rank, where they are searched or made
/// together. The counts are within the limits; request->costs fits them where the family is
/// searched, and is not read where it is not.
typedef status bal_schedule_writer(const bal_schedule_request *request, arena *memory, bal_op *ops,
                                   error_message *err);

/// Smallest span_ns, then smallest makespan_ns, of the orders that it tries; where costs vary by
/// microbatch, with their means. At least as good as zb-h1 and zb-h2 where they fit the limits.
/// Time O(ops * log ranks): up to some fifty passes over them, most of them given up early, until a
/// count of ops placed is spent, about twelve whole passes where there are thousands of ops.
///
/// @return STATUS_INVALID: times or memory outside their limits; STATUS_INFEASIBLE naming rank,
///         need and limit.
bal_schedule_writer bal_schedule_search_zb_auto;

/// The orders of a building block that holds half, or a third, of 1F1B's activations. Time O(ops)
/// and, for each of the O(P) ops of a rank in warm-up and cool-down, the slots that it moves.
bal_schedule_writer bal_schedule_order_v_half;
bal_schedule_writer bal_schedule_order_v_min;

/// The order of smallest span_ns, then smallest makespan_ns, of all V building blocks within the
/// limits, those of v-half and v-min among them, for the means over the microbatches where costs
/// vary; without limits, of those that hold no more than 2P chunks. More memory never makes it
/// longer. Time O(P) blocks of O(ops).
///
/// @return STATUS_INVALID: times or memory outside their limits; STATUS_INFEASIBLE naming the rank,
///         need and limit that keep the block nearest to fitting from it.
bal_schedule_writer bal_schedule_search_v_adaptive;

/// The same with B and W in one, two thirds of 1F1B's activations. Time as above.
bal_schedule_writer bal_schedule_order_1f1b_v;

/// The same for two chunks per rank in V placement, every chunk with its own costs. At least as
/// good as zb-v-hand where that fits the limits, and as v-half and v-min where it does not. Without
/// a limit a rank holds at most 2 rank_count chunks between F and W, the memory of 1f1b and the
/// setting that the schedule is known for. Time O(ops * log ranks): some thirty passes over them.
bal_schedule_writer bal_schedule_search_zb_v;

/// The next place of an order that is being written.
static inline bal_op *bal_op_put(bal_op *next, bal_op_kind kind, int chunk, int microbatch)
{
    *next = (bal_op){
        .kind = (uint8_t)kind, .chunk = (uint16_t)chunk, .microbatch = (int32_t)microbatch};
    return next + 1;
}

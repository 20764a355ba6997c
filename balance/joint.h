/// The joint search: partition, placement, schedule and order of ops together, against a lower
/// bound that holds for all of them. JOINT.md says how it goes about it.
#pragma once

#include "balance/joint_layers.h"
#include "balance/problem.h"
#include "balance/schedule.h"
#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/// What is asked. Zero-initialise, then fill by name.
typedef struct bal_joint_question {
    const bal_problem *problem; // stage_count ranks; its arrays of stages have one entry per rank
    int chunk_count;            // 1 or 2; 0: whichever is better
    int64_t play_budget;        // orders that may be played, >= 1
    uint64_t seed;
} bal_joint_question;

/// One source of orders, and what came of it.
typedef struct bal_joint_source {
    const char *name;    // a row of bal_schedule_families, "dispatch" or "local search"
    int64_t play_count;  // orders played
    int64_t makespan_ns; // of its best order; INT64_MAX where none fitted the memory
} bal_joint_source;

/// Arrays are carved from the arena given to bal_joint_search.
typedef struct bal_joint_answer {
    bal_joint_shape shape;
    const int *first_layer;     // [rank_count * chunk_count + 1]
    bal_schedule order;         // of every rank; its name is the row of bal_schedule_families that
                                // it came from, or the first with its shape
    const char *source;         // of the order, one of sources
    int64_t makespan_ns;        // of order
    int64_t lower_bound_ns;     // proven: no plan that the question allows is below it
    int64_t partition_bound_ns; // proven: no order of first_layer is below it
    bal_stage_costs costs;      // of first_layer: what order was played with
    const int64_t *peak_bytes;  // [rank_count] state and activations
    bool optimal;               // the makespan meets the bound
    int64_t play_count;
    const bal_joint_source *sources; // [source_count]
    int source_count;
} bal_joint_answer;

/// Searches until the budget is used up or the bound is met. The same question gives the same
/// answer on every machine, and a larger budget never a larger makespan.
///
/// The bound is the smallest over the placements in question (one chunk per rank; two in V; two
/// interleaved) of bal_joint_bound, whose assumptions it shares.
///
/// @return what bal_joint_layers_of refuses; STATUS_INVALID for a budget below 1 or a chunk_count
///         above 2; STATUS_INFEASIBLE if no partition fits the caps even with one microbatch at a
///         time, naming a rank, its need and its limit; STATUS_NO_MEMORY. answer is then untouched.
///
/// Time: bal_joint_bound, the searches of the searched families on some ten partitions, and
/// O(ops) per play.
status bal_joint_search(const bal_joint_question *question, arena *memory, bal_joint_answer *answer,
                        error_message *err);

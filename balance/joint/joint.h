/// The joint search: partition, placement, schedule and order of ops together, against a lower
/// bound that holds for all of them. JOINT.md says how it goes about it.
#pragma once

#include "balance/joint/joint_layers.h"
#include "balance/problem.h"
#include "balance/schedule/schedule.h"
#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/// Who watches a search.
typedef struct bal_joint_listener {
    void *context;
    /// Told every few plays how much of the budget is used up. @return false to end the search
    bool (*go_on)(void *context, int64_t play_count);
} bal_joint_listener;

/// What is asked. Zero-initialise, then fill by name.
typedef struct bal_joint_question {
    const bal_problem *problem; // stage_count ranks; its arrays of stages have one entry per rank
    int chunk_count;            // 1 or 2; 0: whichever is better
    int64_t play_budget;        // work, in plays of an order, >= 1
    uint64_t seed;
    const bal_joint_listener *listener; // NULL: nobody asks
} bal_joint_question;

/// A budget that takes seconds: 50,000 plays, fewer where an order of two chunks per rank has more
/// than 20,000 ops, but 1000 at least.
int64_t bal_joint_budget_default(int rank_count, int microbatch_count);

/// Arrays are carved from the arena given to bal_joint_search.
typedef struct bal_joint_answer {
    bal_joint_shape shape;
    const int *first_layer; // [rank_count * chunk_count + 1]
    bal_schedule order;     // of every rank; its name is the row of bal_schedule_families that
                            // it came from, or the first with its shape
    const char *source;     // of the order: a row of bal_schedule_families, "dispatch" or "local
                            // search"
    int64_t makespan_ns;    // of order
    int64_t lower_bound_ns; // proven: no plan that the question allows is below it
    int64_t partition_bound_ns; // proven: no order of first_layer is below it
    bal_stage_costs costs;      // of first_layer: what order was played with
    const int64_t *peak_bytes;  // [rank_count] state and activations
    bool optimal;               // the makespan meets the bound
    int64_t play_count;
} bal_joint_answer;

/// Searches until the budget is used up or the bound is met. The same question gives the same
/// answer on every machine, and a larger budget never a larger makespan. Work counts by the ops
/// placed in it, over those of an order of the placement: a play is 1, to dispatch an order and
/// play it BAL_JOINT_DISPATCH_PLAYS, and a searched schedule as much as its search placed. What
/// does not end within the budget does not count for the answer, but for the first order.
///
/// In question are one chunk per rank, two in V, and two interleaved where some schedule takes the
/// counts and bal_joint_bound bounds them; lower_bound_ns is the smallest of their bounds.
///
/// @return what bal_joint_layers_of refuses; STATUS_INVALID for a budget below 1, a chunk_count
///         above 2 or fewer layers than chunks; STATUS_INFEASIBLE if no partition fits the caps
///         even with one microbatch at a time, naming need and limits (with two chunks per rank it
///         may be that none was found, and the message says so); STATUS_BACKEND
///         "interrupted" if the listener ends it. answer is then untouched.
///
/// Time: bal_joint_bound, and O(ops) per play of the budget.
enum { BAL_JOINT_DISPATCH_PLAYS = 8 };
status bal_joint_search(const bal_joint_question *question, arena *memory, bal_joint_answer *answer,
                        error_message *err);

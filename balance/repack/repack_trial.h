/// What a number of ranks and of microbatches would take, tried one by one: repack.h is the
/// entrance.
#pragma once

#include "balance/repack/repack.h"

enum { BAL_REPACK_UNKNOWN = -1 };

/// A number of ranks and of microbatches.
typedef struct bal_repack_trial {
    int rank_count;
    int microbatch_count;
    int64_t iteration_ns;
    bool has_plan; // some cuts keep the rules, and the bounds did not rule it out
} bal_repack_trial;

/// What is tried. Arrays are carved from memory, those of a single trial from scratch.
typedef struct bal_repack_search {
    const bal_repack_question *question;
    const bal_repack_options *options;
    arena *memory;
    arena *scratch;
    error_message *err;
    bal_problem asked; // the question's; one cost for all microbatches where replicas share them
    bool replicates;   // released ranks make further replicas
    int chunk_count;
    int unit;                // ranks that come and go together
    int now;                 // ranks in force
    int least;               // ranks that the options allow
    int most;                // ranks that there are layers for
    int *unit_order;         // [rank_count / unit] units, those to be kept first
    bal_repack_point *curve; // [rank_count / unit + 1] by units; rank_count 0: not looked at
} bal_repack_search;

/// Orders the units by the wish to keep them: fast ones, then those in use, then by number.
status bal_repack_order_units(bal_repack_search *at);

/// Marks the ranks that a plan of so many may be on: with time factors all that are as fast as the
/// slowest of the first units in that order, else all.
///
/// @param is_available [ranks of the machine] false before the call
void bal_repack_mark_available(const bal_repack_search *at, int rank_count, bool *is_available);

/// The question that the balancer is asked for a number of ranks and microbatches, caps included.
///
/// @param memory   where what it points to is carved
status bal_repack_problem_of(const bal_repack_search *at, int rank_count, int microbatch_count,
                             arena *memory, bal_problem *problem);

/// Lets the balancer cut.
///
/// @param has_plan out: false if its plan, or any, breaks a memory cap
status bal_repack_cut(const bal_repack_search *at, const bal_problem *problem, arena *memory,
                      bal_answer *answer, bool *has_plan);

/// Plays a trial unless its bound exceeds limit_ns, and keeps it if it is the best. What the
/// schedule has no order for has no plan.
///
/// @param point in, out: the smallest bound and the best time of the number of ranks
/// @param best  in, out
status bal_repack_try(const bal_repack_search *at, bal_repack_trial tried, int64_t limit_ns,
                      bal_repack_point *point, bal_repack_trial *best);

/// Tries a number of ranks with every number of microbatches that the options allow, which is held
/// for the ranks in force, and enters it in the curve.
///
/// @param best out
status bal_repack_try_ranks(bal_repack_search *at, int rank_count, int64_t limit_ns,
                            bal_repack_trial *best);

/// What disturbs a run besides its loads: ranks that are slower at times, ops and messages that
/// take now more and now less, links that are slow for a while. Seeded; the draws of one thing do
/// not depend on what else is asked, or in which order.
///
/// A drawn factor is 1 + sigma * z, z normal with mean 0 and variance 1, and never below 0. z is
/// the sum of twelve uniform numbers less 6, which needs nothing but integers and never exceeds 6,
/// so that it is the same everywhere. Source: of the sum, the central limit theorem with n = 12;
/// kurtosis 2.9 instead of 3.
#pragma once

#include "base/rng.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum { BAL_STRAGGLE_ITERATIONS_MAX = 1000 };

/// A link that is slower than its machine says, in both directions, in every replica.
typedef struct bal_disturbed_link {
    int rank; // of the machine
    int other_rank;
    double time_factor;  // [1, 1000] of what a message takes
    int64_t delay_ns;    // >= 0, added to every message
    int first_iteration; // it holds for iterations [first, end)
    int end_iteration;
} bal_disturbed_link;

/// Zero-initialised: nothing is disturbed.
typedef struct bal_disturbance {
    uint64_t seed;
    double op_sigma;                 // [0, 1] of the time of every op, drawn for each
    double iteration_sigma;          // [0, 1] of all ops of a rank in an iteration
    double rank_sigma;               // [0, 1] of all ops of a rank in the whole run
    double straggler_probability;    // [0, 1] that a rank begins to straggle with an iteration
    double straggler_factor;         // [1, 1000] of its times, while it does
    int straggler_iterations;        // [1, BAL_STRAGGLE_ITERATIONS_MAX] how long it does
    double message_factor;           // mean of what a message takes, in times of its link, and
    double message_sigma;            // its deviation, [0, 1000];
    double message_factor_max;       // drawn factors are put within [1, this]; 0: messages are as
                                     // their links
    const bal_disturbed_link *links; // [link_count]
    int link_count;
} bal_disturbance;

/// Whether ranks are slower than their costs, now or then.
bool bal_disturbance_has_rank_factors(const bal_disturbance *disturbance);

/// Whether times of ops or messages are drawn anew for every op or message: no iteration then
/// repeats another.
bool bal_disturbance_is_drawn_per_op(const bal_disturbance *disturbance);

/// Whether some link is other in an iteration than in the one before.
bool bal_disturbance_changes_links(const bal_disturbance *disturbance, int iteration);

/// Multiplies the factors of the ranks of the machine by those of an iteration: the rank's own,
/// that of the iteration, and of a straggler. Every replica has the same.
///
/// @param rank_time_factor [rank_count] in and out
/// Time O(ranks * straggler_iterations).
void bal_disturbance_slow_ranks(const bal_disturbance *disturbance, int rank_count, int iteration,
                                double *rank_time_factor);

/// What is drawn: every purpose has its own streams.
typedef enum bal_draw_purpose {
    BAL_DRAW_RANK,
    BAL_DRAW_ITERATION,
    BAL_DRAW_STRAGGLER,
    BAL_DRAW_OP,
    BAL_DRAW_MESSAGE,
} bal_draw_purpose;

/// The stream of one thing in one iteration.
///
/// @param what  [0, 2^40) which of its purpose: a rank, or a row of ops
rng bal_disturbance_stream(uint64_t seed, bal_draw_purpose purpose, int64_t iteration,
                           uint64_t what);

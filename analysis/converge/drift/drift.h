/// Loads that drift while a scheme balances them: divisible layers on a chain of stages. In every
/// iteration the layers take other times, the stages execute with the cuts they have, then the
/// scheme plays its rounds and the cuts move to where it put the loads.
///
/// Loads are in units of their mean in that iteration.
#pragma once

#include "analysis/converge/converge_scheme.h"
#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/// Times of the layers over the iterations; between samples the last one holds.
typedef struct ana_layer_course {
    int layer_count;
    int sample_count;
    const int *iteration;   // [sample_count] ascending
    const int64_t *time_ns; // [sample_count][layer_count]
} ana_layer_course;

/// How loads drift that no trace gives.
typedef enum ana_drift_shape {
    ANA_DRIFT_SLOW,   ///< always along the mode that the chain evens out last: the worst
    ANA_DRIFT_RANDOM, ///< in a new direction in every iteration
    ANA_DRIFT_SHAPE_COUNT
} ana_drift_shape;

extern const char *const ana_drift_shape_names[ANA_DRIFT_SHAPE_COUNT];

typedef struct ana_drift_question {
    const ana_scheme *scheme;
    ana_scheme_options options;
    int stage_count;
    const ana_layer_course *course; // NULL: shape and drift say how loads change
    ana_drift_shape shape;
    double drift;        // l2 norm of the change per iteration
    int64_t round_count; // per iteration
    int instance_count;  // of schemes that throw coins: what follows are means over them
    uint64_t seed;
} ana_drift_question;

/// One point of the curve. The largest values are over the iterations, of drifts without a course
/// over those after the begin is forgotten.
typedef struct ana_drift_point {
    ana_drift_shape shape;
    int64_t round_count;
    int64_t iteration_count;
    double drift_mean; // l2 norm of what an iteration changed, as measured
    double drift_max;
    double tracked_mean; // max - min after the rounds
    double tracked_max;
    double tracked_bound; // never below tracked_max; INFINITY: none
    double executed_mean; // max - min of the loads that the iteration executed with
    double executed_max;
    double executed_bound;
    double imbalance_mean; // largest of the loads that the iteration executed with
    double imbalance_max;
} ana_drift_point;

enum {
    ANA_DRIFT_STAGES_MAX = 512,
    ANA_DRIFT_ROUNDS_MAX = 1 << 20,
    ANA_DRIFT_ITERATIONS_MAX = 1 << 20
};

/// @return STATUS_UNSUPPORTED for a scheme of which no bound is known; what the scheme says of a
///         path; STATUS_INVALID if the course has fewer layers than there are stages, or more
///         iterations than ANA_DRIFT_ITERATIONS_MAX
///
/// Time O(iterations * (layers + rounds * stages)).
status ana_drift_measure(const ana_drift_question *question, ana_drift_point *point,
                         error_message *err);

/// The fewest rounds per iteration, up to ANA_DRIFT_ROUNDS_MAX, whose tracked_max is within a
/// tolerance: doubling, then bisection.
///
/// @param point out: of that number of rounds
/// @param is_found out: false if none is; point is then of the largest number that was tried
status ana_drift_budget(const ana_drift_question *question, double tolerance,
                        ana_drift_point *point, bool *is_found, error_message *err);

/// Sum over the iterations of what the rounds leave of their drift: the deviation after the rounds
/// is at most d times this, the one before them at most d times 1 more, where an iteration changes
/// the deviation by at most d: in l2; of max-neighbor in the potential (sum over pairs), and in
/// expectation. VERDICTS.md has the proofs.
///
/// @param graph a path
/// @return INFINITY where the rounds promise nothing, as a scan that is cut short; NaN for a scheme
///         of which no bound is known
double ana_drift_sum(const ana_scheme *scheme, const ana_graph *graph,
                     const ana_scheme_options *options, int64_t round_count);

/// The order of the points of a study, and which of them nothing beats in everything.
#pragma once

#include "analysis/whatif/point.h"
#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum ana_objective {
    ANA_OBJECTIVE_TIME, ///< of the whole training; tokens per second where tokens are not known
    ANA_OBJECTIVE_GPU_HOURS, ///< of the whole training
    ANA_OBJECTIVE_COST,      ///< of the whole training
    ANA_OBJECTIVE_MEMORY,    ///< of the fullest rank
    ANA_OBJECTIVE_COUNT
} ana_objective;

/// "time", "gpu-hours", "cost", "memory".
extern const char *const ana_objective_names[ANA_OBJECTIVE_COUNT];

/// Filled by ana_standing_find, from an arena.
typedef struct ana_standing {
    int64_t *order; // [feasible_count] indices of points: best first, those of the same
                    // training as the reference before those of another one
    int64_t feasible_count;
    int64_t comparable_count; // of them: of the same training as the reference
    bool *is_pareto;          // [point_count] among its own kind of training
    int64_t pareto_count;     // of the same training as the reference
} ana_standing;

/// Orders the points by an objective; ties by time, then by their index.
///
/// A point is in the Pareto set if no other of the same training is at least as good in tokens per
/// second, time, GPU-hours, cost and peak memory, and better in one.
///
/// @param points    [point_count]
/// @param reference what training the points are compared with
///
/// Time O(n log n + n * size of the Pareto set).
void ana_standing_find(const ana_point *points, int64_t point_count,
                       const ana_learning_settings *reference, ana_objective objective,
                       arena *memory, ana_standing *standing);

/// Whether two points that were played are the same in all that is told of them.
bool ana_points_are_alike(const ana_point *one, const ana_point *other);

/// The rank after those points from rank on that are like the one at rank, in all that is told of
/// them: values that make no difference, as balancers on one stage.
///
/// @param end rank at which to stop
int64_t ana_standing_alike_end(const ana_standing *standing, const ana_point *points, int64_t rank,
                               int64_t end);

/// The order of the points of a study, and which of them nothing beats in everything.
#pragma once

#include "analysis/whatif/point.h"
#include "base/arena.h"

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

/// What the objective wants to be small; INFINITY of a point that is refused, or has no price.
double ana_point_loss(const ana_point *point, ana_objective objective);

/// Filled by ana_standing_find, from an arena.
typedef struct ana_standing {
    int64_t *order; // [feasible_count] indices of points: best first, those of the same
                    // training as the reference before those of another one
    int64_t feasible_count;
    int64_t comparable_count; // of them: of the same training as the reference
    bool *is_pareto;          // [point_count] among its own kind of training
} ana_standing;

/// Orders the points by an objective; ties by time, then by their index.
///
/// A point is in the Pareto set if no other of the same training is at least as good in tokens per
/// second, time, GPU-hours, cost and peak memory, and better in one.
///
/// @param points    [point_count]
/// @param training  of the reference, see ana_point
///
/// Time O(n log n + n * size of the Pareto set).
void ana_standing_find(const ana_point *points, int64_t point_count, uint64_t training,
                       ana_objective objective, arena *memory, ana_standing *standing);

/// Whether two points that were played are the same in all that is told of them.
bool ana_points_are_alike(const ana_point *one, const ana_point *other);

/// The rank after those points from rank on that are like the one at rank, in all that is told of
/// them: values that make no difference, as balancers on one stage.
///
/// @param end rank at which to stop
int64_t ana_standing_alike_end(const ana_standing *standing, const ana_point *points, int64_t rank,
                               int64_t end);

// Points over draws of what is not known.

/// What every point costs in every draw: a time, GPU-hours, money. Less is better. All points of a
/// draw share the values of what is uncertain (common random numbers), so that differences within a
/// draw are differences of the points.
typedef struct ana_losses {
    const double *values; // [point_count][draw_count], > 0; INFINITY: does not fit in this draw
    int point_count;      // >= 1
    int draw_count;       // >= 1
} ana_losses;

/// 9 of 10 draws lie between low and high, half of them below middle.
typedef struct ana_error_bar {
    double low;    // 5 %
    double middle; // 50 %
    double high;   // 95 %
} ana_error_bar;

/// The interval of count >= 1 draws, INFINITY where so many draws are.
///
/// @param values  [count]
/// @param scratch [count] overwritten
/// Quantiles are interpolated between the two draws beside them (Hyndman & Fan, The American
/// Statistician 50 (1996), definition 7).
ana_error_bar ana_error_bar_of(const double *values, int count, double *scratch);

/// Where a point stands.
typedef struct ana_ranked {
    int point; // row of the losses
    int group; // from 1; those of a group are indistinguishable from its first
    double mean;
    ana_error_bar behind;    // of loss / best's loss in the same draw - 1
    double infeasible_ratio; // share of the draws in which it does not fit
    double best_probability; // share of the draws in which no other is better; ties share a draw
} ana_ranked;

/// Ranks the points by their mean; ties by their number. The first is recommended: no other
/// has a smaller expected loss.
///
/// A point is indistinguishable from another if the interval of the paired relative difference
/// holds 0. Group 1 is the best with all that are indistinguishable
/// from it; group 2 begins with the best of the others, and so on.
///
/// Each interval is of one pair, 90 %; of many equal points every tenth would be called different.
/// best_probability counts all points at once, and needs no correction for their number.
///
/// @param standings   [point_count] out, best first
/// Time O(point_count^2 * draw_count log draw_count) at worst, where every point is a group.
void ana_rank(const ana_losses *losses, arena *memory, ana_ranked *standings);

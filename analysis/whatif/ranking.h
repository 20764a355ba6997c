/// How the points of a study compare over the draws of what is uncertain: intervals, paired
/// differences, groups that cannot be told apart, the chance of being the best.
#pragma once

#include "base/arena.h"

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

/// The same at one quantile in [0, 1].
double ana_quantile_of(const double *values, int count, double quantile, double *scratch);

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

/// How far pairs of values are apart, with an interval that supposes no distribution.
#pragma once

#include "base/arena.h"

#include <stdbool.h>

typedef struct ana_shift {
    double estimate;
    double low; // the shift is in [low, high] with the confidence that was asked for
    double high;
    bool is_bounded;  // false: too few values for that confidence; low and high are not set
    int needed_count; // of values, at least, for that confidence
} ana_shift;

/// The median of the differences of pairs, with the interval between two order statistics that
/// the sign test does not reject.
///
/// Values that resemble their neighbours tell less than as many that do not: where their signs
/// about the median are correlated beyond 2 / sqrt(count), the ranks of the interval are those of
/// count * (1 - r) / (1 + r) values, but never beyond the smallest and the largest.
///
/// @param values [count] differences in the order in which they came
/// @param alpha  in (0, 1): how often the interval may miss the median
void ana_shift_of_pairs(const double *values, int count, double alpha, arena *scratch,
                        ana_shift *shift);

/// Sorts in place, ascending. @return the median; 0 of none
double ana_shift_median(double *values, int count);

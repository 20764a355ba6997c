/// Straight lines through what a sweep measured: exponents in the number of nodes, rounds per
/// decade of gamma, each with an interval.
#pragma once

#include "analysis/converge/converge_sweep.h"

enum { ANA_FIT_POINTS_MIN = 3 };

/// An estimate and the interval that holds it with 95 %, if deviations from the line are normal
/// (Student's t).
typedef struct ana_estimate {
    double value;
    double low;
    double high;
} ana_estimate;

typedef struct ana_sweep_fit {
    bool has_nodes;             // at least ANA_FIT_POINTS_MIN numbers of nodes, one gamma
    ana_estimate exponent;      // of the median of rounds in N
    ana_estimate log_corrected; // of it over ln(potential / gamma)
    ana_estimate constant;      // mean of the points' constants
    bool has_gammas;            // at least so many gammas, one number of nodes
    ana_estimate per_decade;    // rounds more for a gamma ten times smaller
} ana_sweep_fit;

/// Slope of y over x by least squares.
/// @param x [count] not all the same, count >= ANA_FIT_POINTS_MIN
ana_estimate ana_fit_slope(const double *x, const double *y, int count);

/// @param summaries [ana_sweep_point_count]
///
/// Points that are at gamma from the start are left out; a fit with too few others is none.
ana_sweep_fit ana_sweep_fit_make(const ana_sweep *sweep, const ana_point_summary *summaries);

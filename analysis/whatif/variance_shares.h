/// What the error bars of a result are made of: the share of each uncertain input.
#pragma once

#include "base/arena.h"
#include "base/status.h"

/// One result over the draws, and what was different in each.
typedef struct ana_variation {
    const double *values; // [draw_count] of the result, > 0
    const double *inputs; // [input_count][draw_count] what was drawn
    int input_count;
    const double *factors; // [factor_count][draw_count] > 0; the result is a product with each:
                           // recorded variation, the residual of a calibration
    int factor_count;
    int draw_count;
} ana_variation;

/// Divides the variance of the logarithm of a result among its sources.
///
/// The logarithm of what is left without the factors is fitted by least squares, a parabola in
/// every input (a line where there are fewer than 10 draws per coefficient). The share of a source
/// is cov(its term, log value) / var(log value), less what a term without any effect would have by
/// chance; shares below 0 are 0. For inputs that are drawn independently this is the first-order
/// index of variance-based sensitivity analysis (Saltelli et al., Global Sensitivity Analysis,
/// 2008, section 1.2.5); what inputs do only together is unexplained.
///
/// @param shares      [input_count + factor_count] out
/// @param unexplained out: 1 - the sum, at least 0; 0 where nothing varies
/// @return STATUS_INVALID if there are fewer than 2 + 2 * input_count draws; STATUS_NO_MEMORY
status ana_variance_shares(const ana_variation *variation, arena *memory, double *shares,
                           double *unexplained, error_message *err);

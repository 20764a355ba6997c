/// What it is worth to know an uncertain input before choosing a point.
#pragma once

#include "analysis/whatif/ranking.h"
#include "base/arena.h"
#include "base/status.h"

/// A choice, judged over the draws.
typedef struct ana_choice_quality {
    double wrong_probability; // share of the draws in which another point is better, by more than
                              // the margin
    double regret_ratio;      // mean loss beyond the least of the draw, over the mean loss
                              // of what is recommended now
} ana_choice_quality;

/// How the point with the least mean loss does: what is chosen with what is known now.
///
/// @param equivalence relative; another point has to be better by more
/// @return STATUS_NO_MEMORY
/// Points that do not fit in some draw are left out; where all are, the quality is 0.
void ana_choice_now(const ana_losses *losses, double equivalence, arena *memory,
                    ana_choice_quality *quality);

/// How the choice would do if one input were known first: in every draw the point is chosen whose
/// expected loss, given the input's value of that draw, is least.
///
/// The expected loss of a point beyond that of the one that is recommended now is fitted as a cubic
/// polynomial of the input (a line below 40 draws), each draw predicted without itself, so that
/// noise does not look like knowledge. No estimate is better than what is there without knowing.
///
/// @param input [draw_count] its value in each draw
/// @return STATUS_NO_MEMORY
/// Source: expected value of partial perfect information by regression, Strong, Oakley & Brennan,
/// Medical Decision Making 34 (2014).
void ana_choice_knowing(const ana_losses *losses, const double *input, double equivalence,
                        arena *memory, ana_choice_quality *quality);

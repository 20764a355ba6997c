/// Jumps of many noisy series at once, by binary segmentation.
#pragma once

#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>

enum { ANA_CHANGE_POINTS_MAX = 64, ANA_SEGMENT_MIN = 4 };

/// Finds the places at which the mean of the columns changes. The largest jump is cut first, then
/// its two sides, as long as a jump stands out of the noise; see ana_forecastability_of.
///
/// @param values       [row_count][column_count]
/// @param points       [ANA_CHANGE_POINTS_MAX] out: first rows behind the jumps, in the order in
///                     which they were found
/// @param point_count  out
/// @param is_capped    out: there are more than ANA_CHANGE_POINTS_MAX
/// @return STATUS_NO_MEMORY
///
/// Time O(rows x columns x points).
void ana_change_points_find(const double *values, int row_count, int column_count, arena *memory,
                            int points[ANA_CHANGE_POINTS_MAX], int *point_count, bool *is_capped);

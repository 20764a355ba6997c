/// A calibration (analysis/calibration) at the points of a study: how far its times are from those
/// of the cost model, and how they vary from draw to draw.
///
/// What was fitted are whole iterations of dense models under 1F1B with an even split. A point is
/// therefore played a second time so, and the calibration's time over that is the point's level.
/// What the point's own schedule, balancer and case of dynamism make of it is simulated; its times
/// are then multiplied by the level and, draw by draw, by the calibration's factor.
#pragma once

#include "analysis/calibration/calibration.h"
#include "analysis/whatif/point.h"
#include "base/arena.h"
#include "base/status.h"

#include <stdint.h>

/// Opens a calibration for a study: what it did not measure of links, the study's hardware says.
///
/// @param study_path a path that is not absolute is meant from its folder
/// @param worker     has the study's setup open
/// @param calibration carved from memory
/// @return as ana_calibration_open
status ana_calibrated_open(const char *study_path, const char *path, const ana_point_worker *worker,
                           arena *memory, const ana_calibration **calibration, error_message *err);

typedef struct ana_calibrated_point {
    ana_run_shape shape;
    double level; // fitted time over that of the cost model
} ana_calibrated_point;

/// The level of the point that worker has open, played as what was fitted.
///
/// @param text of the point's study; worker has another one open afterwards
/// @return STATUS_INVALID if its costs come from a trace, its model is no dense one, or it cannot
///         be played under 1F1B
status ana_calibrated_level(const ana_calibration *calibration, ana_point_worker *worker,
                            const char *text, ana_calibrated_point *point, error_message *err);

/// Factors on the times of all points in all draws, levels included. Points of the same shape share
/// a residual, so that what differs between their schedules can be told.
///
/// @param points  [point_count]
/// @param factors [point_count][draw_count] out
/// @return as ana_calibration_factorise
status ana_calibrated_factors(const ana_calibration *calibration,
                              const ana_calibrated_point *points, int point_count, uint64_t seed,
                              int draw_count, arena *memory, double *factors, error_message *err);

/// How sure the answer of a what-if study is: the second pass, in which the points that matter are
/// played in every draw of what is not known.
#pragma once

#include "analysis/calibration/calibration.h"
#include "analysis/shards/spread.h"
#include "analysis/whatif/draws.h"
#include "analysis/whatif/whatif.h"
#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/// The figures that have error bars.
typedef enum ana_bar {
    ANA_BAR_ITERATION_NS,
    ANA_BAR_RATE, // per_second of a point
    ANA_BAR_TRAIN_S,
    ANA_BAR_GPU_HOURS,
    ANA_BAR_COST,
    ANA_BAR_MEMORY_BYTES,
    ANA_BAR_COUNT
} ana_bar;

/// One drawn point, all of it over the draws.
typedef struct ana_sure_point {
    int64_t item; // of the study
    ana_ranked ranked;
    bool is_reference; // the study as written, or like it
    ana_error_bar bars[ANA_BAR_COUNT];
} ana_sure_point;

enum { ANA_SOURCE_NAME_BYTES = 256 };

/// What error bars are made of.
typedef struct ana_source {
    char name[ANA_SOURCE_NAME_BYTES]; // "hardware.efficiency.gemm of h100-sxm", "calibration"
    const ana_uncertain *input;       // NULL: the calibration
    double share; // of the variance of the first point's loss: the square of its correlation
} ana_source;

typedef struct ana_certainty {
    const ana_whatif *study;
    const ana_uncertainty *uncertainty;
    ana_draws draws;
    int beyond_count;       // points outside of what a calibration measured
    ana_sure_point *points; // [point_count] the recommended one first
    int point_count;
    ana_source *sources; // [source_count] of the first point: what is to be measured first first
    int source_count;
} ana_certainty;

/// Draws the points that matter of a study that is finished: the best ones by the study's
/// objective, of those that are alike one, and the reference, all of its training.
///
/// @param certainty borrows study and uncertainty
/// @return STATUS_FORMAT for ranges that the study does not take or whose path an axis sets;
///         what spreading and evaluation return
status ana_certainty_find(ana_spread *spread, const ana_whatif *study,
                          const ana_uncertainty *uncertainty, arena *memory,
                          ana_certainty *certainty, error_message *err);

/// Appends it for people.
///
/// @param row_count points of the tables, besides the reference
void ana_certainty_print(const ana_certainty *certainty, int row_count, text_buffer *out);

/// Appends it as a JSON object.
void ana_certainty_write(const ana_certainty *certainty, json_writer *writer);

// A calibration (analysis/calibration, calibrated.c) at the points of a study: how far its times
// are from those of the cost model, and how they vary from draw to draw.
//
// What was fitted are whole iterations of dense models under 1F1B with an even split. A point is
// therefore played a second time so, and the calibration's time over that is the point's level.
// What the point's own schedule, balancer and case of dynamism make of it is simulated; its times
// are then multiplied by the level and, draw by draw, by the calibration's factor.

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

/// How sure the answer of a what-if study is: the second pass, in which the points that matter are
/// played in every draw of what is not known.
#pragma once

#include "analysis/calibration/calibration.h"
#include "analysis/shards/spread.h"
#include "analysis/whatif/correction.h"
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

// A calibration at the points of a study: how far its times are from those of the cost model, and
// how they vary from draw to draw (calibrated.c).
//
// It is either a "dynmo-calibration/3" of whole iterations of dense models under 1F1B with an even
// split (analysis/calibration): a point is then played a second time so, and the calibration's time
// over that is the point's level. Or it is a table of runs, FILE.csv, that say how far off the cost
// model is (correction.h), of any model. What the point's own schedule, balancer and case of
// dynamism make of it is simulated; its times are then multiplied by the level, or draw by draw by
// the calibration's factor.

typedef struct ana_calibrated {
    const ana_calibration *fitted;    // of iterations; or NULL
    const ana_correction *correction; // of the cost model; or NULL
} ana_calibrated;

/// Opens a calibration for a study: what it did not measure of links, the study's hardware says.
///
/// @param study_path a path that is not absolute is meant from its folder
/// @param worker     has the study's setup open
/// @param calibration carved from memory
/// @return as ana_calibration_open or ana_correction_open
status ana_calibrated_open(const char *study_path, const char *path, const ana_point_worker *worker,
                           arena *memory, const ana_calibrated **calibration, error_message *err);

typedef struct ana_calibrated_point {
    ana_run_shape shape;  // of what was fitted
    ana_time_parts parts; // of what is corrected
    double level;         // time over that of the cost model
    bool is_beyond;       // outside of what was fitted; or no run is of its machine
} ana_calibrated_point;

/// The level of a point.
///
/// @param worker has just played it; it may have another one open afterwards
/// @param text   of the point's study
/// @param point  that was played; NULL: it is played here
/// @return STATUS_INVALID if its costs come from a trace; of what was fitted also if its model is
///         no dense one, or if it cannot be played under 1F1B
status ana_calibrated_level(const ana_calibrated *calibration, ana_point_worker *worker,
                            const char *text, const ana_point *played, ana_calibrated_point *point,
                            error_message *err);

/// Factors on the times of all points in all draws, levels included. Points of the same shape share
/// a residual, so that what differs between their schedules can be told.
///
/// @param points  [point_count]
/// @param factors [point_count][draw_count] out
/// @return as ana_calibration_factorise or ana_correction_draw
status ana_calibrated_factors(const ana_calibrated *calibration, const ana_calibrated_point *points,
                              int point_count, uint64_t seed, int draw_count, arena *memory,
                              double *factors, error_message *err);

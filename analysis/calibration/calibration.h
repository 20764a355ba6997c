/// What was fitted to measured runs: how long an iteration takes, and how sure that is.
///
/// A run's time is predicted as the sum of its terms (iteration_terms.h), each part of it times
/// one plus the deviation that runs of the same shape showed, and assumed terms where no pipeline
/// was measured. Times are in milliseconds, errors are relative.
#pragma once

#include "analysis/calibration/iteration_terms.h"
#include "analysis/calibration/measured_runs.h"
#include "analysis/calibration/shrinkage.h"
#include "base/arena.h"
#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

/// Relative standard deviation of a pipeline's measured time around the time composed of its
/// stages, where no pipeline as deep was fitted: the residual of a fit to the twelve 1F1B
/// throughputs that the zero-bubble paper measured.
#define ANA_COMPOSITION_RATIO 0.0050

/// Relative standard deviation of a gradient reduction over a ring of fewer or more replicas than
/// any fitted one has, beside that among shapes. A judgement: libraries take other algorithms,
/// protocols and numbers of channels with the size of a ring, and no run at one size tells.
#define ANA_RING_RATIO 0.2

/// A deviation of one part at one shape: its coefficient comes after those of the terms.
typedef struct ana_part_shape {
    ana_part part;
    int64_t key[ANA_PART_KEY_FIELDS];
} ana_part_shape;

typedef struct ana_calibration {
    const char *source;      // what was fitted, in words
    int64_t vocabulary_size; // that rows were given where they had none; 0: all had one
    int gpus_per_node;
    int run_count;
    ana_term_state states[ANA_TERM_COUNT];
    double reference[ANA_TERM_COUNT]; // coefficients that deviations are relative to
    int coefficient_count;            // ANA_TERM_ALL_COUNT + part_shape_count
    double *coefficients;             // [coefficient_count] terms, then deviations
    double *covariance;               // [coefficient_count]^2, row-major, symmetric
    int part_shape_count;
    ana_part_shape *part_shapes;           // [part_shape_count]
    double part_deviation[ANA_PART_COUNT]; // standard deviation among shapes, relative
    double residual_ratio;                 // standard deviation of one run, relative
    double degrees;                        // of freedom, for the intervals' quantile
    int64_t seen_min[ANA_SHAPE_FIELDS];    // of every field of ana_run_shape
    int64_t seen_max[ANA_SHAPE_FIELDS];
} ana_calibration;

typedef struct ana_calibration_settings {
    int gpus_per_node;       // 0: 8
    int64_t vocabulary_size; // as ana_calibration has it, for the record
    const char *source;
} ana_calibration_settings;

/// Fits to runs.
///
/// @param shapes       [run_count]
/// @param iteration_ms [run_count] > 0
/// @return STATUS_INVALID if there are fewer than ANA_CALIBRATION_RUNS_MIN runs or more than
///         ANA_CALIBRATION_SHAPES_MAX shapes of parts (time grows with their cube), or none of
///         the terms explains them
status ana_calibration_fit(const ana_run_shape *shapes, const double *iteration_ms, int run_count,
                           const ana_calibration_settings *settings, arena *memory,
                           ana_calibration *out, error_message *err);
enum { ANA_CALIBRATION_RUNS_MIN = 4, ANA_CALIBRATION_SHAPES_MAX = 400 };

typedef struct ana_prediction {
    double mean_ms;
    double deviation_ms; // standard, of the time that a run would show
} ana_prediction;

/// Predicts one run.
///
/// @param scratch [2 * coefficient_count]
ana_prediction ana_calibration_predict(const ana_calibration *calibration,
                                       const ana_run_shape *shape, double *scratch);

/// Half the width of a two-sided interval, in standard deviations: Student's t.
///
/// @param level within (0, 1), for example 0.9
double ana_calibration_quantile(const ana_calibration *calibration, double level);

/// Coefficients as one draw from what the fit leaves open, the same for all points of the draw.
///
/// @param draw_coefficients [coefficient_count] out
/// @param scratch           [coefficient_count^2]
/// @return STATUS_INVALID if the covariance is none (a file that was changed by hand)
status ana_calibration_draw(const ana_calibration *calibration, uint64_t seed, int draw,
                            double *draw_coefficients, double *scratch, error_message *err);

/// Factor on the predicted time of a point in one draw: what the drawn coefficients give over what
/// the fitted ones give, with deviations of shapes that were not measured drawn by shape, and a
/// residual of the point's own. It grows with the distance from what was measured. At least 0.01.
///
/// @param scratch [2 * coefficient_count]
double ana_calibration_factor(const ana_calibration *calibration, const double *draw_coefficients,
                              const ana_run_shape *shape, uint64_t seed, int draw, int64_t point,
                              double *scratch);

/// Fields in which a shape lies outside of what was fitted, as a bit mask by field.
unsigned ana_calibration_beyond(const ana_calibration *calibration, const ana_run_shape *shape);

/// Reads a "dynmo-calibration/1" file; everything is carved from memory.
///
/// @return STATUS_IO; STATUS_FORMAT naming path and key for anything that is not as written
status ana_calibration_open(const char *path, arena *memory, ana_calibration *out,
                            error_message *err);

/// As ana_calibration_open, from bytes[length]; name stands for the path in messages.
status ana_calibration_open_bytes(const char *name, const char *bytes, size_t length, arena *memory,
                                  ana_calibration *out, error_message *err);

/// Appends the file's text.
void ana_calibration_write(const ana_calibration *calibration, text_buffer *out);

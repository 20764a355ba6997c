/// What was fitted to measured runs: how long an iteration takes, and how sure that is.
///
/// The log of a run's time is that of the sum of its terms (iteration_terms.c), each part of it
/// times the factor that runs of the same or related shapes showed, and a residual. Logs of
/// coefficients and of factors are known as a normal distribution: before any run as
/// iteration_terms says, after the fit as the runs leave it. What no run measured keeps what was
/// known before. Times are in milliseconds.
#pragma once

#include "analysis/calibration/measured_runs.h"
#include "base/arena.h"
#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

// What an iteration's time is made of: quantities that a run's shape fixes, each times a
// coefficient (README.md has their derivation and sources).

typedef enum ana_term {
    ANA_TERM_LAYER,           ///< layers passed, one microbatch each: launches and what is fixed
    ANA_TERM_PRODUCTS,        ///< TFLOP of the layers' matrix products on one GPU
    ANA_TERM_ATTENTION,       ///< TFLOP of queries times keys, and of scores times values
    ANA_TERM_SCORES,          ///< GB of attention scores read and written
    ANA_TERM_ACTIVATIONS,     ///< GB of activations read and written
    ANA_TERM_TENSOR_MESSAGES, ///< ring steps of all-reduces between tensor-parallel ranks
    ANA_TERM_TENSOR_BYTES,    ///< GB over their links inside a node
    ANA_TERM_TENSOR_NODES,    ///< GB over each link between nodes
    ANA_TERM_MICROBATCH,      ///< microbatches: embedding, head and loss, waited for
    ANA_TERM_HEAD,            ///< TFLOP of the head
    ANA_TERM_LOGITS,          ///< GB of logits
    ANA_TERM_ITERATION,       ///< 1
    ANA_TERM_UPDATE,          ///< 1e9 parameters updated by one GPU
    ANA_TERM_REDUCTION_STEPS, ///< steps of the ring of data-parallel ranks
    ANA_TERM_REDUCTION_BYTES, ///< GB over links inside a node
    ANA_TERM_REDUCTION_NODES, ///< GB over each link between nodes
    ANA_TERM_TIED,            ///< GB of gradients of a matrix that embedding and head share
    ANA_TERM_TRANSFER,        ///< GB sent to a stage in the same node
    ANA_TERM_BETWEEN,         ///< GB sent to a stage in another node
    ANA_TERM_COUNT
} ana_term;

/// Parts of an iteration. What a part costs at one shape may deviate from its terms by a factor
/// that all runs of that shape share, and runs of related shapes in part.
typedef enum ana_part {
    ANA_PART_LAYERS,    ///< shape: hidden size, tensor degree, microbatch, sequence, heads
    ANA_PART_HEAD,      ///< shape: hidden size, tensor degree, microbatch, sequence, vocabulary
    ANA_PART_UPDATE,    ///< shape: hidden size, tensor degree
    ANA_PART_REDUCTION, ///< shape: hidden size, tensor degree, data degree
    ANA_PART_COUNT      ///< of no such part: sends between stages
} ana_part;

/// A part of runs that share its deviation: what they share.
typedef struct ana_part_shape {
    ana_part part;
    int64_t key[5]; // 1 after the last
} ana_part_shape;

/// How a term goes with others. Those of speed are high or low together: the GPU's generation and
/// number format scale them all. Launches of a part run beside its work: the longer of both is what
/// it takes, but for what does not overlap.
typedef enum ana_term_kind {
    ANA_TERM_OF_ITS_OWN,
    ANA_TERM_OF_SPEED,
    ANA_TERM_OF_LAUNCHES
} ana_term_kind;

/// A term's coefficient: on hardware from a V100 over PCIe to a B200 over NVLink, 9 of 10 are in
/// [low, high], the middle of their orders of magnitude likeliest.
typedef struct ana_term_info {
    const char *name;
    const char *unit;
    ana_part part;
    double low;
    double high;
    ana_term_kind kind;
} ana_term_info;

extern const ana_term_info ana_terms[ANA_TERM_COUNT];
extern const char *const ana_part_names[ANA_PART_COUNT];

/// Mean and covariance of the logs of coefficients of which nothing is known but their ranges.
double ana_term_log_mean(ana_term term);
double ana_term_log_covariance(ana_term left, ana_term right);

/// Quantities of all terms for one run.
///
/// @param gpus_per_node ranks are placed tensor first, then data, then pipeline
/// @param quantities    [ANA_TERM_COUNT] out
void ana_term_quantities(const ana_run_shape *shape, int gpus_per_node, double *quantities);

/// Without replicas a run has no reduction.
bool ana_run_has_part(const ana_run_shape *shape, ana_part part);

ana_part_shape ana_part_shape_of(const ana_run_shape *shape, ana_part part);

/// How much the deviations of two shapes hang together that are so many doublings of their sizes
/// apart: 1 of the same shape, of others a share, less by 1/e for every three doublings.
double ana_shape_correlation(double doublings);

/// The same of parts of runs: 0 of different parts.
double ana_part_correlation(const ana_part_shape *left, const ana_part_shape *right);

// What is fitted.

/// Relative standard deviation of a pipeline's measured time around the time composed of its
/// stages, where no pipeline as deep was fitted: the residual of a fit to the twelve 1F1B
/// throughputs that the zero-bubble paper measured.
#define ANA_COMPOSITION_RATIO 0.0050

typedef struct ana_calibration {
    int64_t vocabulary_size; // that rows were given where they had none; 0: all had one
    int gpus_per_node;
    bool is_measured[ANA_TERM_COUNT]; // some run has the term
    int coefficient_count;            // ANA_TERM_COUNT + part_shape_count
    double *logs;                     // [coefficient_count] of terms, then of factors
    double *covariance;               // [coefficient_count]^2 of logs, row-major, symmetric
    int part_shape_count;
    ana_part_shape *part_shapes;           // [part_shape_count] whose factors' logs are known
    double *shape_inverse;                 // [part_shape_count]^2 inverse of the correlations
    double part_deviation[ANA_PART_COUNT]; // standard deviation of factors' logs among shapes
    double residual_ratio;                 // standard deviation of one run's log
    double degrees;                        // of freedom, for the intervals' quantile
    int64_t seen_min[ANA_SHAPE_FIELDS];    // of every field of ana_run_shape
    int64_t seen_max[ANA_SHAPE_FIELDS];
} ana_calibration;

typedef struct ana_calibration_settings {
    int gpus_per_node;       // 0: 8
    int64_t vocabulary_size; // as ana_calibration has it, for the record
} ana_calibration_settings;

/// Fits to runs (calibration_fit.c).
///
/// @param shapes       [run_count]
/// @param iteration_ms [run_count] > 0
/// @return STATUS_INVALID if there are fewer than ANA_CALIBRATION_RUNS_MIN runs or more than
///         ANA_CALIBRATION_SHAPES_MAX shapes of parts (time grows with their cube)
status ana_calibration_fit(const ana_run_shape *shapes, const double *iteration_ms, int run_count,
                           const ana_calibration_settings *settings, arena *memory,
                           ana_calibration *out, error_message *err);
enum { ANA_CALIBRATION_RUNS_MIN = 4, ANA_CALIBRATION_SHAPES_MAX = 400 };

/// The log of a run's time from logs of coefficients.
///
/// @param logs        [ANA_TERM_COUNT]
/// @param quantities  [ANA_TERM_COUNT] of ana_term_quantities
/// @param part_log    [ANA_PART_COUNT] logs of the parts' factors
/// @param term_share  [ANA_TERM_COUNT] out: shares of the time, the derivatives by logs
/// @param part_share  [ANA_PART_COUNT] out
double ana_log_time(const double *logs, const double *quantities, const double *part_log,
                    double *term_share, double *part_share);

typedef struct ana_prediction {
    double middle_ms;
    double deviation; // standard, of the log of the time that a run would show
} ana_prediction;

/// Predicts one run.
///
/// @param scratch [2 * coefficient_count]
ana_prediction ana_calibration_predict(const ana_calibration *calibration,
                                       const ana_run_shape *shape, double *scratch);

/// Half the width of a two-sided interval of a log, in standard deviations: Student's t.
///
/// @param level within (0, 1), for example 0.9
double ana_calibration_quantile(const ana_calibration *calibration, double level);

/// Fields in which a shape lies outside of what was fitted, as a bit mask by field.
unsigned ana_calibration_beyond(const ana_calibration *calibration, const ana_run_shape *shape);

// How well a calibration predicts runs that were measured.

/// Errors are predicted over measured, less 1, and absolute unless said.
typedef struct ana_errors {
    double mean, median, p90, max;
    double signed_mean;
} ana_errors;

/// @param errors [count] signed; taken to pieces. Of none all is 0.
ana_errors ana_errors_of(double *errors, int count);

/// One predicted run.
typedef struct ana_scored_run {
    int line; // of the table's file
    double measured_ms;
    double predicted_ms;
    double low_ms; // the interval
    double high_ms;
} ana_scored_run;

typedef struct ana_calibration_score {
    int fitted_count;
    int predicted_count;
    int both_count; // rows that were predicted and fitted, which is no test
    double level;   // of the intervals
    ana_errors error;
    double interval_coverage;           // share of runs whose measured time is within
    double interval_width_mean;         // over the predicted time
    double fitted_error_mean;           // of the rows that were fitted
    int beyond_count[ANA_SHAPE_FIELDS]; // predicted runs outside of what was fitted, by field
    ana_scored_run *runs;               // [predicted_count]
} ana_calibration_score;

/// Fits some rows and predicts others. With none to predict, of the score only fitted_count, level
/// and fitted_error_mean are other than zero.
///
/// @param fit_rows     [fit_count] rows of runs
/// @param predict_rows [predict_count] not read where predict_count is 0
/// @param level        within (0, 1)
/// @return as ana_calibration_fit
status ana_calibration_try(const ana_measured_runs *runs, const int *fit_rows, int fit_count,
                           const int *predict_rows, int predict_count,
                           const ana_calibration_settings *settings, double level, arena *memory,
                           ana_calibration *calibration, ana_calibration_score *score,
                           error_message *err);

/// @param with_runs each predicted run too
void ana_calibration_write_json(const ana_calibration *calibration,
                                const ana_calibration_score *score, bool with_runs,
                                text_buffer *out);
void ana_calibration_write_text(const ana_calibration *calibration,
                                const ana_calibration_score *score, bool with_runs,
                                text_buffer *out);

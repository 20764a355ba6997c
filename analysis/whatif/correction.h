/// What measured runs say of the cost model's error, and so of runs that were not measured.
///
/// The log of measured over predicted time is a sum over the parts of an iteration: the share of
/// the time that a part takes, times how far the model is off for that part. How far is known
/// before any run as a normal distribution: of each part of a machine, of the machine as a whole,
/// of layers and head of each shape, and of each layout; related shapes and layouts have a part in
/// common. Runs narrow that (a Gaussian process; Rasmussen & Williams, Gaussian Processes for
/// Machine Learning, 2006, chapter 2). What they say nothing of stays as wide as it was. README.md
/// of analysis/validate has the assumed deviations and what this is worth.
#pragma once

#include "analysis/calibration/real_runs.h"
#include "analysis/whatif/point.h"
#include "base/arena.h"
#include "base/status.h"
#include "models/cost/cost_model.h"

#include <stdbool.h>
#include <stdint.h>

/// Parts of an iteration: those of layers are model_cost_part.
enum {
    ANA_CORRECTED_HEAD = MODEL_COST_PART_COUNT, // embedding and loss too
    ANA_CORRECTED_UPDATE,
    ANA_CORRECTED_REST, // reductions and messages that nothing hides
    ANA_CORRECTED_PARTS
};

enum { ANA_LAYER_SIZES = 9, ANA_HEAD_SIZES = 5, ANA_LAYOUT_SIZES = 3, ANA_MACHINE_BYTES = 128 };

/// An iteration as far as runs tell of each other.
typedef struct ana_time_parts {
    char machine[ANA_MACHINE_BYTES];    // of ana_machine_name
    double share[ANA_CORRECTED_PARTS];  // of the time; a pass that the host is too slow for is all
                                        // the host's. Their sum is 1
    double layer_size[ANA_LAYER_SIZES]; // logs to base 2 of what decides the kernels of a layer
    double head_size[ANA_HEAD_SIZES];
    double layout_size[ANA_LAYOUT_SIZES]; // of stages, chunks of a rank, replicas
} ana_time_parts;

/// Number format and kind of GPU, by what decides how long its kernels take, whatever its file is
/// called.
void ana_machine_name(const ana_setup *setup, char name[ANA_MACHINE_BYTES]);

/// @param setup of a point whose costs are those of a model
/// @param point that was played
void ana_time_parts_of(const ana_setup *setup, const ana_point *point, ana_time_parts *parts);

typedef struct ana_correction {
    int run_count;
    const ana_time_parts *runs; // [run_count] that were measured
    const double *log_ratios;   // [run_count] of measured over predicted time
    double *factor;             // [run_count]^2 lower Cholesky factor of their covariance
    double *weight;             // [run_count] inverse covariance times logs of the ratios
    double residual;            // standard deviation of one run's log that no other shares
    double evidence;            // the log of how likely the runs are, up to a constant
    double machine_deviation;   // of a machine as a whole, before any run: what explains the runs
    uint64_t hash;              // of what was measured and played
    int refused_count;          // rows of its table that could not be modelled
    const char *refusal;        // of the first of them; NULL: none was
    const char *ignored;        // columns of its table that are not read, with commas; "": none
} ana_correction;

enum { ANA_CORRECTION_RUNS_MAX = 1000 };

/// Learns from runs. Residuals are Student's t, so that a run which something else slowed counts
/// for less.
///
/// @param runs       [run_count] borrowed as long as the correction is used
/// @param log_ratios [run_count] of measured over predicted time; borrowed likewise
/// @return STATUS_INVALID if there is no run or more than ANA_CORRECTION_RUNS_MAX (time grows with
///         their cube)
status ana_correction_fit(const ana_time_parts *runs, const double *log_ratios, int run_count,
                          arena *memory, ana_correction *out, error_message *err);

typedef struct ana_corrected {
    double log_factor; // on the predicted time
    double deviation;  // standard, of the log of what a run would show
} ana_corrected;

/// @param scratch [2 * run_count]
ana_corrected ana_correction_predict(const ana_correction *correction, const ana_time_parts *parts,
                                     double *scratch);

/// The factor on the predicted time alone, to 9 digits.
double ana_correction_factor(const ana_correction *correction, const ana_time_parts *parts);

/// Whether a run is one of those that were learned from.
bool ana_correction_has(const ana_correction *correction, const ana_time_parts *parts,
                        double log_ratio);

/// Whether a run was on a machine.
bool ana_correction_knows(const ana_correction *correction, const char *machine);

/// Half the width of a 90 % interval of a log in standard deviations: a normal's 1.64, and what is
/// guessed of deviations that few runs tell.
#define ANA_CORRECTION_REACH 1.8

/// Draws factors on the times of points, those of each draw together, with the mean of
/// ana_correction_factor, so that points are ranked in the mean as they are by it. Points of the
/// same shape on the same machine share what a run has of its own.
///
/// @param factors [point_count][draw_count] out
/// @return STATUS_INVALID if the points' covariance is none
status ana_correction_draw(const ana_correction *correction, const ana_time_parts *points,
                           int point_count, uint64_t seed, int draw_count, arena *memory,
                           double *factors, error_message *err);

// Measured runs, played (correction_runs.c).

typedef struct ana_played_run {
    ana_real_measured measured;
    const char *text; // its study
    const char
        *recompute;      // the first that fits the GPU's memory, as it was measured; or as written
    bool fits;           // with that
    const char *refusal; // why it cannot be modelled; NULL: it was played
    ana_point point;
    ana_time_parts parts;
} ana_played_run;

/// Plays a row of a table as `dynmo study` would.
///
/// @param memory of texts and messages
/// @return STATUS_FORMAT for a cell that is no value of its column; what ana_point_evaluate returns
///         that is no refusal
status ana_real_play(const ana_real_runs *runs, int row, ana_point_worker *worker, arena *memory,
                     ana_played_run *played, error_message *err);

/// Refuses a time that no machine is that far from: less than a tenth of the predicted one or more
/// than a hundred times it. It is in another unit, or of another training.
///
/// @return STATUS_FORMAT naming the row's line
status ana_real_check_units(const ana_real_runs *runs, int row, double measured_ns,
                            double predicted_ns, error_message *err);

/// Learns from those of the rows that can be modelled.
///
/// @param rows [row_count]
/// @return STATUS_INVALID if none can be; what ana_real_play and ana_real_check_units return
status ana_correction_learn(const ana_real_runs *runs, const int *rows, int row_count,
                            arena *memory, ana_correction *out, error_message *err);

/// Learns from all rows of a table that can be modelled: a path, or a name of a shipped one.
///
/// @param renamed, constants as ana_real_runs_read takes them
/// @return as table_open, ana_real_runs_read, ana_real_play and ana_correction_fit; STATUS_INVALID
///         if nothing says the hardware or no row can be modelled
status ana_correction_open(const char *path, const char *renamed, const char *constants,
                           arena *memory, ana_correction *out, error_message *err);

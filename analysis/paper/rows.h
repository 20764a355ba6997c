/// What experiments make their rows with.
#pragma once

#include "analysis/paper/reproduction.h"
#include "analysis/paper/trial.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/status.h"

enum { ANA_ROWS_MAX = 256, ANA_CHANGE_BYTES = 128 };

typedef struct ana_rows {
    arena *memory;          // of what the rows point to
    const char *experiment; // being played
    ana_reproduced rows[ANA_ROWS_MAX];
    int count;
} ana_rows;

/// A text that lives as long as the rows.
const char *ana_rows_text(ana_rows *rows, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/// Two changes as one, which lives as long as the rows; either may be NULL. They must not be of the
/// same path.
const char *ana_rows_join(ana_rows *rows, const char *first, const char *second);

/// A number at its stated inputs, and its extremes over all trials.
typedef struct ana_interval {
    double value;
    double low;
    double high;
    int count; // of trials
} ana_interval;

/// Adds the number of a further trial; that of the first is the value.
void ana_interval_add(ana_interval *interval, double number);

/// An interval of one number.
ana_interval ana_interval_of(double number);

/// What a speed-up is over.
typedef enum ana_baseline {
    ANA_BASELINE_STATIC, ///< the best static split of the paper, the dynamism alike
    ANA_BASELINE_STILL   ///< the even split of the model without the dynamism
} ana_baseline;

/// A speed-up that an experiment plays several times.
typedef struct ana_speed_up_case {
    const char *study;
    ana_baseline baseline;
    const char *common;        // changes for every trial, or NULL
    const char *const *ranges; // [range_count] further changes; the first are the stated inputs
    int range_count;
    bool repacks; // its row "replicated" instead of the fastest that does not re-pack; the bound is
                  // then that of all GPUs computing all the time, in pipelines of any length
} ana_speed_up_case;

/// What came of its trials.
typedef struct ana_speed_up {
    ana_interval total;
    ana_interval bound;       // what no plan and no schedule exceeds
    ana_interval before;      // bubble_ratio under the static split that is the baseline, or under
                              // `even`
    ana_interval after;       // bubble_ratio of the fastest dynamic row
    ana_interval after_bound; // no contiguous plan has a smaller bubble_ratio
    ana_factors factors;      // of the first trial, and all below
    ana_over_statics over;
    char still[ANA_TRIAL_LABEL_BYTES];   // label of the static split
    char dynamic[ANA_TRIAL_LABEL_BYTES]; // label of the fastest dynamic row
} ana_speed_up;

/// Plays the trials of a speed-up. Its study needs rows "even" and "tuned", and a dynamic one.
///
/// @return STATUS_INFEASIBLE naming the study if one of them was not played
status ana_speed_up_play(const ana_speed_up_case *what, ana_speed_up *out, error_message *err);

/// One number of a study, to be set so that a measured one comes out as wanted.
typedef struct ana_calibration {
    const char *study;
    const char *common; // changes for every trial, or NULL
    const char *rows;   // a change that leaves only what is measured, or NULL
    const char *path;   // of the number in the study
    double low;         // its range, over which what is measured rises or falls
    double high;
    double wanted;
    double (*measure)(const ana_trial *trial); // NAN: not played
} ana_calibration;

typedef struct ana_calibrated {
    double value;                  // of the number
    double reached;                // what was measured with it
    char change[ANA_CHANGE_BYTES]; // {path: value}, for the trials that follow
} ana_calibrated;

/// Bisects. Where wanted is outside of what the range reaches, the end that comes nearer is the
/// answer, and reached says how far off it is.
status ana_calibrate(const ana_calibration *calibration, ana_calibrated *calibrated,
                     error_message *err);

/// For calibrations by a static split: no other rows.
#define ANA_STATIC_ROWS                                                                            \
    "{\"balancing\":[{\"balancer\":\"even\"},{\"balancer\":\"parameters\"},"                       \
    "{\"balancer\":\"parameters-legacy\"}]}"

/// bubble_ratio of the best static split of the paper; NAN: not played.
double ana_measure_static_bubble(const ana_trial *trial);

/// Adds a row of a number with its interval, for the experiment being played. What the paper
/// publishes of the quantity is looked up.
///
/// @param bound NAN: none
void ana_rows_add_number(ana_rows *rows, const char *quantity, const ana_interval *number,
                         double bound, ana_agreement agreement, const char *baseline,
                         const char *note);

/// Adds the row of a speed-up: predicted, or unreachable where the largest bound is short of
/// the published number. The factors are those of the stated inputs.
void ana_rows_add_speed_up(ana_rows *rows, const char *quantity, ana_baseline baseline,
                           const ana_speed_up *result, const char *note);

/// Sets the published number of the row added last, where it stands in Table 1.
void ana_rows_publish(ana_rows *rows, double published);

/// Layers whose F, B and W take chosen times, the same for every microbatch.
typedef struct ana_chosen_loads {
    const char *schedule; // a fixed one of one chunk
    int stage_count;      // divides layer_count
    int microbatch_count;
    int layer_count;
    const int64_t *load_ns; // [layer_count]
} ana_chosen_loads;

/// What moving whole layers makes of them, by the exact smallest largest stage.
typedef struct ana_chosen_result {
    double idle_even;     // share of an iteration without a barrier, under the even split
    double idle_balanced; // under the balanced one
    double speed_up;      // of an iteration with a barrier at the optimizer step
} ana_chosen_result;

/// @return what the schedule or the partition refuses
status ana_chosen_loads_play(const ana_chosen_loads *chosen, ana_chosen_result *out,
                             error_message *err);

/// Plays an experiment of experiments.json.
status ana_experiment_play(json_value experiment, ana_rows *rows, error_message *err);

/// Table 1, all of it.
status ana_play_table1(ana_rows *rows, error_message *err);

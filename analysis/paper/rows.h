/// What experiments make their rows with.
#pragma once

#include "analysis/paper/reproduction.h"
#include "balance/run/training.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/status.h"

enum { ANA_ROWS_MAX = 256 };

typedef struct ana_rows {
    arena *memory;         // of what the rows point to
    json_value experiment; // being played
    ana_reproduced rows[ANA_ROWS_MAX];
    int count;
} ana_rows;

/// What experiments.json, which is part of the program and complete, has under a key; "" and NAN
/// where it has nothing.
const char *ana_paper_text(json_value object, const char *key);
double ana_paper_number(json_value object, const char *key);
double ana_paper_element(json_value array, int index);
const char *ana_paper_element_text(json_value array, int index);

// One study played with other values at some of its places, in trial.c: what numbers are made of.

enum { ANA_TRIAL_ROWS_MAX = 16, ANA_TRIAL_LABEL_BYTES = 64 };

/// What an experiment keeps of a row of a comparison.
typedef struct ana_trial_row {
    char label[ANA_TRIAL_LABEL_BYTES];
    bool is_dynamic;            // its plan may change after the start
    bool is_played;             // a plan fits, and it has times; else nothing below means anything
    bal_training_result result; // its arrays are gone
    int64_t unpacked_ns;        // the length of the run without re-packing; 0: it does not re-pack
} ana_trial_row;

typedef struct ana_trial {
    ana_trial_row rows[ANA_TRIAL_ROWS_MAX]; // [row_count] as the study lists them
    int row_count;
    int iteration_count;
    int64_t still_even_ns;      // `even` without the study's case of dynamism; 0: not played
    int64_t bound_ns;           // proven: no contiguous plan and no schedule makes the run shorter
    int64_t reduction_bound_ns; // nor exposes less of the reduction of gradients on top
    int64_t work_ns;            // a rank's share of one replica's compute, over the run
} ana_trial;

/// Plays a shipped study of the paper.
///
/// @param study   of ana_paper_studies (asserted)
/// @param changes [change_count] JSON objects of paths and values as json_change takes them,
///                applied one after the other; an entry may be NULL: nothing
/// @return what study, costs and replay return; STATUS_INVALID if the sums do not fit int64
status ana_trial_play(const char *study, const char *const *changes, int change_count,
                      ana_trial *trial, error_message *err);

/// The row of a label if it was played, else NULL. "static": the fastest of those that the paper
/// calls static, even and both versions of parameters.
const ana_trial_row *ana_trial_find(const ana_trial *trial, const char *label);

/// The fastest dynamic row that does not re-pack; NULL if none was played.
const ana_trial_row *ana_trial_best_dynamic(const ana_trial *trial);

/// Time that profiling, deciding and migrating added to the run.
int64_t ana_trial_overhead_ns(const ana_trial_row *row);

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

/// What the paper publishes of a quantity of the experiment being played, or of the one that this
/// is a variant of: what follows the last comma is left away until something is found. NAN:
/// nothing.
double ana_rows_published(const ana_rows *rows, const char *quantity);

/// Adds a row of a number with its interval for the experiment being played: predicted, without a
/// bound, beside what is published.
///
/// @return borrowed until the next is added
ana_reproduced *ana_rows_add(ana_rows *rows, const char *quantity, const ana_interval *number,
                             const char *baseline, const char *note);

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
    char still[ANA_TRIAL_LABEL_BYTES];   // label of the static split, of the first trial
    char dynamic[ANA_TRIAL_LABEL_BYTES]; // label of the fastest dynamic row
} ana_speed_up;

/// Plays the trials of a speed-up. Its study needs a static row and a dynamic one.
///
/// @return STATUS_INFEASIBLE naming the study if one of them was not played
status ana_speed_up_play(const ana_speed_up_case *what, ana_speed_up *out, error_message *err);

/// Adds the row of a speed-up: predicted, or unreachable where the largest bound is short of the
/// published number.
void ana_rows_add_speed_up(ana_rows *rows, const char *quantity, ana_baseline baseline,
                           const ana_speed_up *result, const char *note);

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
status ana_chosen_loads_play(const ana_chosen_loads *chosen, arena *memory, ana_chosen_result *out,
                             error_message *err);

/// Plays an experiment of experiments.json.
status ana_experiment_play(json_value experiment, ana_rows *rows, error_message *err);

/// Table 1, all of it.
///
/// @param published rows [layers, GPUs, samples per second of Megatron, diffusion and partition by
///              time, speed-up], by layers, then GPUs; the last four 0: out of memory
status ana_play_table1(ana_rows *rows, json_value published, error_message *err);

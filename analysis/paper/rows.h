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

/// What experiments.json, which is part of the program and complete, has at a place; "" and NAN
/// where it has nothing.
const char *ana_paper_text(json_value value);
double ana_paper_number(json_value value);

/// The elements of a list, at most so many (asserted); in the place of a name stand those of the
/// list that the file has under it. @return how many
int ana_paper_list(json_value list, int most, json_value *elements);

// One study played with other values at some of its places: what numbers are made of.

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

/// Plays an experiment of experiments.json.
status ana_experiment_play(json_value experiment, ana_rows *rows, error_message *err);

/// Loads that would give what is published: what moving whole layers makes of them.
///
/// @param row of experiments.json; "layers" are pairs of how many and their load. Its schedule is a
///            fixed one of one chunk, and its stages divide its layers
/// @return what the schedule or the partition refuses
status ana_play_chosen_loads(ana_rows *rows, json_value row, error_message *err);

/// Table 1, all of it.
///
/// @param published rows [layers, GPUs, samples per second of Megatron, diffusion and partition by
///              time, speed-up], by layers, then GPUs; the last four 0: out of memory
status ana_play_table1(ana_rows *rows, json_value published, error_message *err);

/// The DynMo paper's experiments, played again: what it publishes beside what the simulator says.
///
/// Every experiment is one or more shipped studies (models/studies/paper), opened as any study is
/// and played with other values at some of its places: other seeds, and the ends of the ranges of
/// what the paper leaves open. Inputs are fixed from named sources; none is tuned to the number
/// that is then compared with it, except where a row says that it is the calibration.
#pragma once

#include "analysis/study/factors.h"
#include "base/arena.h"
#include "base/embedded.h"
#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>

/// The studies of the experiments by name, for example "paper-pruning".
extern const embedded_file ana_paper_studies[];

/// What agreement, or the lack of it, means in a row.
typedef enum ana_agreement {
    ANA_AGREEMENT_PREDICTED,   ///< no input depends on the published number
    ANA_AGREEMENT_CONSISTENT,  ///< an identity of the inputs: it could not come out otherwise
    ANA_AGREEMENT_CALIBRATED,  ///< the row is the calibration
    ANA_AGREEMENT_UNREACHABLE, ///< no plan and no schedule gets there: the bound is below
    ANA_AGREEMENT_COUNT
} ana_agreement;

/// "predicted", "consistent", "calibrated", "unreachable". Static storage.
const char *ana_agreement_name(ana_agreement agreement);

/// The same dynamic run against each static split; NAN: that split was not played.
typedef struct ana_over_statics {
    double even;
    double parameters;
    double parameters_legacy;
    double tuned;
} ana_over_statics;

/// The paper's figure that a row is a bar of.
typedef enum ana_figure {
    ANA_FIGURE_NONE,
    ANA_FIGURE_IDLENESS,      ///< 1
    ANA_FIGURE_SPEED_UP,      ///< 3
    ANA_FIGURE_OVERHEAD,      ///< 4
    ANA_FIGURE_REPACKING,     ///< 5
    ANA_FIGURE_WEAK_SCALING,  ///< 7
    ANA_FIGURE_NETWORK_DELAY, ///< 8
    ANA_FIGURE_TABLE1,
    ANA_FIGURE_COUNT
} ana_figure;

/// One number. Unknown numbers are NAN.
typedef struct ana_reproduced {
    const char *experiment;
    const char *quantity;
    double published;
    double simulated; // with every input at its stated value
    double low;       // the least over seeds and ranges of uncertain inputs
    double high;
    double bound; // proven: the largest speed-up, or the smallest bubble, that any contiguous plan
                  // and any schedule could reach with these costs
    ana_agreement agreement;
    ana_factors factors;   // of a speed-up; total 0: it is none. The static factor is that of the
                           // best split of the paper
    ana_over_statics over; // with factors
    const char *baseline;  // what the number is relative to
    const char *note;
    ana_figure figure;
    const char *bar; // its name there
} ana_reproduced;

/// An input of an experiment, as it was fixed before anything was played.
typedef struct ana_experiment_input {
    const char *name;
    const char *value;
    const char *source;
} ana_experiment_input;

enum { ANA_EXPERIMENT_INPUTS_MAX = 16 };

typedef struct ana_rows ana_rows; // reproduction_rows.h

typedef struct ana_experiment {
    const char *name;
    const char *summary;
    ana_experiment_input inputs[ANA_EXPERIMENT_INPUTS_MAX]; // ends at name NULL
    status (*play)(ana_rows *rows, error_message *err);
} ana_experiment;

/// The table, in the order in which it is shown.
const ana_experiment *ana_experiments(int *count);

/// @return STATUS_INVALID naming the nearest known name, or all of them, if there is none of this
///         name.
status ana_experiment_find(const char *name, const ana_experiment **experiment, error_message *err);

typedef struct ana_reproduction {
    const ana_experiment *const *experiments; // [experiment_count] as played
    int experiment_count;
    const ana_reproduced *rows; // [row_count], by experiment
    int row_count;
} ana_reproduction;

/// Told before an experiment is played. NULL: nobody.
typedef struct ana_reproduction_listener {
    void *context;
    void (*begin)(void *context, const char *experiment);
} ana_reproduction_listener;

/// Plays experiments.
///
/// @param names        [name_count]; none: all of the table. A name that comes twice is played
/// once.
/// @param reproduction arrays are carved from memory
/// @return as ana_experiment_find, and what the studies and their replays return.
status ana_reproduce(const char *const *names, int name_count,
                     const ana_reproduction_listener *listener, arena *memory,
                     ana_reproduction *reproduction, error_message *err);

/// Appends the rows as tables for people, each experiment with its inputs and their sources.
void ana_reproduction_print(const ana_reproduction *reproduction, text_buffer *out);

/// Appends the rows as one JSON array.
void ana_reproduction_write(const ana_reproduction *reproduction, text_buffer *out);

/// The DynMo paper's experiments, played again: what it publishes beside what the simulator says.
///
/// Every experiment is one or more shipped studies (models/studies/paper), opened as any study is
/// and played with other values at some of its places: other seeds, and the ends of the ranges of
/// what the paper leaves open. Inputs are fixed from named sources; none is tuned to the number
/// that is then compared with it, except where a row says that it is the calibration.
#pragma once

#include "base/arena.h"
#include "base/embedded.h"
#include "base/json.h"
#include "base/status.h"
#include "base/text.h"

/// The studies of the experiments by name, for example "paper-pruning".
extern const embedded_file ana_paper_studies[];

/// What a row's number rests on, and so what agreement, or the lack of it, means.
typedef enum ana_agreement {
    ANA_AGREEMENT_PREDICTED,   ///< no input depends on the published number
    ANA_AGREEMENT_CONSISTENT,  ///< an identity of the inputs, or of chosen ones: it could not
                               ///< come out otherwise
    ANA_AGREEMENT_CALIBRATED,  ///< the row is the calibration
    ANA_AGREEMENT_UNREACHABLE, ///< no plan and no schedule gets there over the ranges that were
                               ///< played: the bound is below
    ANA_AGREEMENT_COUNT
} ana_agreement;

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
    const char *baseline; // what the number is relative to
    const char *note;
    const char *reason; // why it disagrees, in a sentence; "": it does not
} ana_reproduced;

enum { ANA_EXPERIMENTS_MAX = 16 };

/// Experiments of experiments.json, each with its inputs, as they were fixed before anything was
/// played, and what it plays.
typedef struct ana_reproduction {
    json_value experiments[ANA_EXPERIMENTS_MAX]; // [experiment_count] in the file's order
    int experiment_count;
    const ana_reproduced *rows; // [row_count], by experiment
    int row_count;
} ana_reproduction;

/// Chooses experiments.
///
/// @param names [name_count]; none: all of them. A name that comes twice is played once.
/// @return STATUS_INVALID naming the nearest known name, or all of them, if there is none of a name
status ana_reproduction_open(const char *const *names, int name_count, arena *memory,
                             ana_reproduction *reproduction, error_message *err);

/// Plays the chosen experiments.
///
/// @param begin  told before an experiment is played
/// @param memory of the rows
/// @return what the studies and their replays return
status ana_reproduction_play(ana_reproduction *reproduction, void (*begin)(void *context),
                             void *context, arena *memory, error_message *err);

/// Appends the rows as tables for people, each experiment with its inputs and their sources.
void ana_reproduction_print(const ana_reproduction *reproduction, text_buffer *out);

/// Appends the rows as one JSON array.
void ana_reproduction_write(const ana_reproduction *reproduction, text_buffer *out);

/// The questions that `dynmo converge` answers beside rounds over a graph, and which options belong
/// to which.
#pragma once

#include "analysis/spread/spread.h"
#include "base/arena.h"
#include "base/status.h"
#include "cli/command.h"

typedef enum cli_converge_mode {
    CLI_CONVERGE_ROUNDS,  ///< schemes over a graph, until gamma
    CLI_CONVERGE_VERDICT, ///< --verdict: what holds and what does not
    CLI_CONVERGE_LAYERS,  ///< --layers: discrete balancers on drawn layers
    CLI_CONVERGE_DRIFT,   ///< --trace or --drift: loads that drift
    CLI_CONVERGE_MODE_COUNT
} cli_converge_mode;

/// The question that the options ask.
///
/// @return STATUS_INVALID naming an option that does not belong to it
status cli_converge_mode_of(const cli_arguments *arguments, cli_converge_mode *mode,
                            error_message *err);

/// One function per mode but the first. Collective; the leader prints.
status cli_converge_verdict(const cli_arguments *arguments, ana_spread *spread, arena *memory,
                            error_message *err);
status cli_converge_layers(const cli_arguments *arguments, ana_spread *spread, arena *memory,
                           error_message *err);
status cli_converge_drift(const cli_arguments *arguments, ana_spread *spread, arena *memory,
                          error_message *err);

/// Before anything is played, on the leader: whether --figure and --potential can be drawn, and
/// written where they are wanted.
///
/// @return STATUS_INVALID for standard output; STATUS_UNSUPPORTED without gnuplot; STATUS_IO
status cli_converge_check_figures(const cli_arguments *arguments, error_message *err);

/// --seed, an integer in [0, 2^53]; default 1.
status cli_converge_seed(const cli_arguments *arguments, uint64_t *seed, error_message *err);

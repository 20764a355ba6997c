/// The questions that `dynmo converge` answers beside rounds over a graph, and which options belong
/// to which.
#pragma once

#include "analysis/spread.h"
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

/// --seed, an integer in [0, 2^53]; default 1.
status cli_converge_seed(const cli_arguments *arguments, uint64_t *seed, error_message *err);

/// The options of these modes, for the command's table.
#define CLI_CONVERGE_MODE_OPTIONS                                                                  \
    {.name = "--verdict", .help = "Say what holds of what is claimed, and what does not."},        \
        {.name = "--claim",                                                                        \
         .argument = "NAME",                                                                       \
         .help = "Of --verdict: try this claim alone.",                                            \
         .may_repeat = true},                                                                      \
        {.name = "--loads",                                                                        \
         .argument = "FILE",                                                                       \
         .help = "Of --verdict: judge these layers, in the format of dynmo plan --loads."},        \
        {.name = "--stages",                                                                       \
         .argument = "P",                                                                          \
         .help = "Stages; with --layers a list. Needed with --loads, --layers, --trace, "          \
                 "--drift."},                                                                      \
        {.name = "--layers",                                                                       \
         .argument = "LIST",                                                                       \
         .help = "Draw so many layers and let the discrete balancers split them."},                \
        {.name = "--family",                                                                       \
         .argument = "NAME",                                                                       \
         .help = "Of --layers: draw from this family alone. Default: all."},                       \
        {.name = "--trace",                                                                        \
         .argument = "FILE",                                                                       \
         .help = "A store: let loads drift as its trace's layers do."},                            \
        {.name = "--trace-name",                                                                   \
         .argument = "NAME",                                                                       \
         .help = "Of --trace: which one. Default: the latest."},                                   \
        {.name = "--iterations", .argument = "A:B", .help = "Of --trace. Default: all."},          \
        {.name = "--drift",                                                                        \
         .argument = "LIST",                                                                       \
         .help = "Let loads drift by so much per iteration: l2 norm, in units of the mean stage "  \
                 "load."},                                                                         \
        {.name = "--rounds-per-iteration",                                                         \
         .argument = "LIST",                                                                       \
         .help = "Of drifting loads. Default: 1,2,4,8,16,32,64."},                                 \
        {.name = "--tolerance",                                                                    \
         .argument = "X",                                                                          \
         .help = "Of --trace: look for the fewest rounds that keep (max - min) / mean within X. "  \
                 "Default: 0.05."},                                                                \
    {                                                                                              \
        .name = "--figure", .argument = "FILE.svg", .help = "Of drifting loads: draw the curve."   \
    }

/// `--store FILE.db`: the results of items are kept, and what is kept is not done again.
#pragma once

#include "analysis/spread/spread.h"
#include "analysis/study/kept_run.h"
#include "base/status.h"
#include "cli/command.h"

/// The options of such a command, for its table.
#define CLI_KEEP_OPTIONS                                                                           \
    {.name = "--store",                                                                            \
     .argument = "FILE.db",                                                                        \
     .help = "Keeps every result in a store, so that the same command goes on where it was "       \
             "interrupted, and answers from the store when it is given once more."},               \
        {.name = "--again", .help = "With --store: does all anew, as a run of its own."},

/// Opens the store on the leader, if one is asked for, and has the spread keep its results there.
/// Says on standard error what is there already. Collective.
///
/// @param about name, settings, config_json, config_path and seed; the rest comes from the command
/// line
/// @param kept  out: NULL without --store and on other ranks; ends with cli_keep_close
/// @return STATUS_INVALID for --again without --store; as ana_kept_run_open
status cli_keep_open(const cli_arguments *arguments, ana_spread *spread,
                     const ana_kept_options *about, ana_kept_run **kept, error_message *err);

/// Ends the run as the outcome of the command says. kept may be NULL.
///
/// @param outcome what the command returns, with its message in err
/// @return outcome; where that is STATUS_OK, what the store says
status cli_keep_close(ana_kept_run *kept, status outcome, error_message *err);

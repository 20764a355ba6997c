/// How a command does work in items: on how many threads (`--threads`), all of it or a shard
/// (`--shard`, or the rank under a launcher), and kept in which store (`--store`).
#pragma once

#include "analysis/shards/kept_run.h"
#include "analysis/shards/spread.h"
#include "base/status.h"
#include "cli/command.h"
#include "cli/progress.h"

/// The options of such a command, for its table.
#define CLI_SHARD_OPTIONS                                                                          \
    {"--threads", "N",                                                                             \
     .help = "Threads; default: the cores that the process may use, divided among the processes "  \
             "that a launcher started on them."},                                                  \
        {"--store", "FILE.db", .is_store = true,                                                   \
         .help = "Keeps every result in a store, so that the same command goes on where it was "   \
                 "interrupted, and answers from the store when it is given once more."},           \
        {"--shard", "i/N",                                                                         \
         .help = "Does only the items that leave i when divided by N, 0 <= i < N, into --store; "  \
                 "`dynmo merge` joins the stores of all N. Under mpirun or srun the rank is i."},

/// What the command line and the launcher's environment say. Interruptions are caught from then on
/// (cli/interrupt.h).
///
/// @return STATUS_INVALID naming the option; if there is a shard, of --shard or of a launcher that
///         started several processes, and no --store
status cli_spread_open(const cli_arguments *arguments, ana_spread *spread, error_message *err);

/// Shows the progress of what is done until cli_spread_unwatch; not on other ranks than 0.
///
/// @param what     the items, such as "points"
/// @param progress in the caller's memory
void cli_spread_watch(ana_spread *spread, const char *what, cli_progress *progress);
void cli_spread_unwatch(ana_spread *spread);

/// Opens the store, if one is asked for, and has the spread keep results there. Says on standard
/// error what is there already.
///
/// @param about name, settings, config_json, config_path and seed; the rest comes from the command
///              line
/// @return as ana_kept_run_open
status cli_keep_open(const cli_arguments *arguments, ana_spread *spread,
                     const ana_kept_options *about, error_message *err);

/// Ends the run, if there is one, as the outcome of the command says.
///
/// @param outcome what the command returns, with its message in err
/// @return outcome; where that is STATUS_OK, what the store says
status cli_keep_close(ana_spread *spread, status outcome, error_message *err);

/// Does the items of a command that do not depend on others.
typedef status (*cli_play)(void *context, ana_spread *spread, error_message *err);

/// Does the shard of this process, if it has one. With --shard it says what was done. Of the
/// processes of a launcher rank 0 then waits for the others, merges, and goes on as if alone.
///
/// @param is_part out: nothing is left to answer here
/// @return as play, cli_keep_open and ana_shards_merge
status cli_shard_play(const cli_arguments *arguments, ana_spread *spread,
                      const ana_kept_options *about, cli_play play, void *context, arena *memory,
                      bool *is_part, error_message *err);

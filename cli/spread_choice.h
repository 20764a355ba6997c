/// Over what a command spreads its work: the threads of this process or, where a launcher has
/// started several, their processes.
#pragma once

#include "analysis/spread/spread.h"
#include "base/status.h"
#include "cli/command.h"
#include "cli/progress.h"

/// The options of such a command, for its table.
#define CLI_SPREAD_OPTIONS                                                                         \
    {.name = "--threads",                                                                          \
     .argument = "N",                                                                              \
     .help = "Threads of a process; default: the cores that it may use, divided among the "        \
             "processes that a launcher started on them."},

/// Opens what the command line and the launcher's environment say. Interruptions are caught from
/// then on (cli/interrupt.h).
///
/// @param spread owned by the caller, released with cli_spread_close
/// @return STATUS_INVALID naming --threads and its limits; STATUS_UNSUPPORTED if a launcher has
///         started several processes and there is no module for MPI; STATUS_BACKEND
status cli_spread_open(const cli_arguments *arguments, ana_spread **spread, error_message *err);

/// NULL is allowed.
///
/// @param err its message is taken away but from the rank that is to print it
void cli_spread_close(ana_spread *spread, error_message *err);

/// Shows the progress of what is spread from now on, on the leader.
///
/// @param what     the items, such as "points"
/// @param progress in the caller's memory, which must stay to the last run
void cli_spread_watch(ana_spread *spread, const char *what, cli_progress *progress);

/// One line on standard error, of several ranks or on a terminal: how many items, on how many ranks
/// and threads, how fast, what was lost.
///
/// @param what the items, such as "points"
void cli_spread_tell(const ana_spread_report *report, const char *what);

/// Records an executed run as a trace: what every layer took in every iteration, in the form that
/// `dynmo simulate` reads.
#pragma once

#include "base/status.h"
#include "cli/run/run_request.h"
#include "cli/run/run_study.h"
#include "exec/run/execution.h"

/// A trace that is being recorded.
typedef struct cli_run_record cli_run_record;

/// Begins the trace, named after the study, in the store that --record names.
///
/// @param record owned by the caller; ends with cli_run_record_finish
/// @return what trace_store_open and trace_writer_begin refuse: a name that is taken, a store that
///         cannot be written
status cli_run_record_begin(const cli_run_request *request, const cli_run_study *opened,
                            const char *command_line, cli_run_record **record, error_message *err);

/// Takes an iteration in: layer times of the first replica, a column per microbatch; of the first
/// and the last iteration also every op.
status cli_run_record_put(cli_run_record *record, const exec_measured *measured,
                          error_message *err);

/// Ends the trace; the record is gone afterwards, also on failure.
///
/// @param outcome NULL, or why the run failed: what was recorded until then stays, as a trace that
///                says so; nothing stays where there was no iteration
/// @return what the store refuses
status cli_run_record_finish(cli_run_record *record, const error_message *outcome,
                             error_message *err);

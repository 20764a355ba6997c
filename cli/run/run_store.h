/// Puts an executed run into a store as `dynmo simulate --store` puts a simulated one, so that
/// reports and exports take both.
#pragma once

#include "balance/run/training.h"
#include "base/arena.h"
#include "base/status.h"
#include "cli/run/run_request.h"
#include "cli/run/run_study.h"

/// A run that is being put into the store.
typedef struct cli_run_store cli_run_store;

/// Begins the run in the store that --store names.
///
/// @param memory borrowed until the run ends
/// @param store  owned by the caller; ends with cli_run_store_finish
/// @return what trace_store_open and ana_recording_begin refuse
status cli_run_store_begin(const cli_run_request *request, const cli_run_study *opened,
                           const char *command_line, arena *memory, cli_run_store **store,
                           error_message *err);

/// Where the records of the iterations go.
bal_record_sink cli_run_store_sink(cli_run_store *store);

/// Ends the run; the store is closed afterwards, also on failure.
///
/// @param result  of the run, or NULL
/// @param outcome NULL, or why it failed: the iterations until then stay
status cli_run_store_finish(cli_run_store *store, const bal_training_result *result,
                            const error_message *outcome, error_message *err);

/// Writes how many tokens each expert got, as a table that a study's `moe` case reads.
#pragma once

#include "base/status.h"
#include "cli/run/run_request.h"
#include "exec/model/model.h"
#include "exec/run/execution.h"

/// A table that is being written.
typedef struct cli_run_counts cli_run_counts;

/// Begins the file that --counts names.
///
/// @param counts owned by the caller; ends with cli_run_counts_close
/// @return STATUS_INVALID where the model has no experts; STATUS_IO; STATUS_NO_MEMORY
status cli_run_counts_open(const cli_run_request *request, const exec_model *model,
                           cli_run_counts **counts, error_message *err);

/// Takes an iteration in: a row for each block and expert.
status cli_run_counts_put(cli_run_counts *counts, const exec_measured *measured,
                          error_message *err);

/// Ends the file; counts is gone afterwards, also on failure. STATUS_IO if not all was written.
status cli_run_counts_close(cli_run_counts *counts, error_message *err);

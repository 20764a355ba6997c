/// What `dynmo run` trains: the transformer that a study's model describes, and the mechanism that
/// its "execution" names.
#pragma once

#include "base/status.h"
#include "cli/run/run_request.h"
#include "cli/run/run_study.h"
#include "exec/model/model.h"

/// Reads both.
///
/// @param text out: path of the text to train on, borrowed from the request or carved from memory
/// @return STATUS_UNSUPPORTED for a model that is no gpt2 of 256 bytes; STATUS_FORMAT naming key,
///         value and limits; STATUS_INVALID where no text is named
status cli_run_model_read(const cli_run_request *request, const cli_run_study *opened,
                          arena *memory, exec_model *model, const char **text, error_message *err);

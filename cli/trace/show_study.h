/// `dynmo show STUDY.json`: the paper's c_l of the layers at one iteration.
#pragma once

#include "base/arena.h"
#include "base/text.h"
#include "cli/command.h"

/// Appends c_l of every layer, what it would be without the study's case, and the factor between
/// the two: the paper's p_l, 1 - f_l, s_l and so on.
///
/// @return STATUS_INVALID for a study without a case, or an iteration that it does not have
status cli_show_study(const cli_arguments *arguments, arena *memory, text_buffer *out,
                      error_message *err);

/// The run that a plan or a study predicts, for `dynmo check`.
#pragma once

#include "cli/check/check_side.h"

/// Simulates it: of a study the row that is named (else the one that the other side has, else what
/// `dynmo run` would execute) with its decisions; of a plan every iteration under that plan.
///
/// @return STATUS_INVALID for a plan without costs; else what study, trace, model and simulator
///         refuse
status cli_check_predict(const cli_check_side *side, const char *const *other, int other_count,
                         arena *memory, ana_observed *observed, error_message *err);

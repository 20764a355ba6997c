/// `dynmo study --explain POINT`: one point of a study, from its inputs to what 1 % is worth.
#pragma once

#include "analysis/whatif/whatif.h"
#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

/// Which point is meant.
///
/// @param word a number of the result's table, "best" or "reference", the study as written
/// @param item out
/// @return STATUS_INVALID naming the numbers that there are; of "best" before the points are
///         played, the number is not known: needs_ranking is then true and item untouched
status cli_study_explained_item(const ana_whatif *study, const char *word, bool *needs_ranking,
                                int64_t *item, error_message *err);

/// Appends the explanation, as JSON or for people.
///
/// @return STATUS_INFEASIBLE with the reason if the point cannot be played
status cli_study_explain(const ana_whatif *study, int64_t item, bool as_json, text_buffer *out,
                         error_message *err);

/// Rounds that schemes of balancing take: the questions of `dynmo converge` without --verdict.
#pragma once

#include "analysis/shards/spread.h"
#include "base/arena.h"
#include "base/status.h"
#include "base/text.h"
#include "cli/command.h"

/// Append the answer to out, as text or with --json as JSON.
status cli_converge_rounds(const cli_arguments *arguments, ana_spread *spread, arena *memory,
                           text_buffer *out, error_message *err);
status cli_converge_paper(const cli_arguments *arguments, ana_spread *spread, arena *memory,
                          text_buffer *out, error_message *err);

/// --seed, an integer in [0, 2^53]; default 1.
status cli_converge_seed(const cli_arguments *arguments, uint64_t *seed, error_message *err);

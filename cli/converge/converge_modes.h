/// The questions that `dynmo converge` answers, and what they share.
#pragma once

#include "analysis/converge/converge_scheme.h"
#include "analysis/shards/spread.h"
#include "base/arena.h"
#include "base/status.h"
#include "base/text.h"
#include "cli/command.h"

/// All append the answer to out, as text or with --json as JSON.
status cli_converge_rounds(const cli_arguments *arguments, ana_spread *spread, arena *memory,
                           text_buffer *out, error_message *err);
status cli_converge_paper(const cli_arguments *arguments, ana_spread *spread, arena *memory,
                          text_buffer *out, error_message *err);
status cli_converge_verdict(const cli_arguments *arguments, arena *memory, text_buffer *out,
                            error_message *err);

/// --seed, an integer in [0, 2^53]; default 1.
status cli_converge_seed(const cli_arguments *arguments, uint64_t *seed, error_message *err);

/// The questions that `dynmo converge` answers, and what they share.
#pragma once

#include "analysis/converge/converge_scheme.h"
#include "analysis/shards/spread.h"
#include "base/arena.h"
#include "base/status.h"
#include "base/text.h"
#include "cli/command.h"

/// Both append the answer to out, as text or with --json as JSON.
status cli_converge_rounds(const cli_arguments *arguments, ana_spread *spread, arena *memory,
                           text_buffer *out, error_message *err);
status cli_converge_verdict(const cli_arguments *arguments, arena *memory, text_buffer *out,
                            error_message *err);

/// Before anything is played: whether --figure can be drawn, and written where it is wanted.
///
/// @return STATUS_INVALID for standard output; STATUS_UNSUPPORTED without gnuplot; STATUS_IO
status cli_converge_check_figure(const cli_arguments *arguments, error_message *err);

/// --seed, an integer in [0, 2^53]; default 1.
status cli_converge_seed(const cli_arguments *arguments, uint64_t *seed, error_message *err);

/// --scheme; if it is not given, fallback.
status cli_converge_scheme(const cli_arguments *arguments, const ana_scheme *fallback,
                           const ana_scheme **scheme, error_message *err);

/// An option as a number in [min, max]; if it is not given, value stays.
status cli_converge_number(const cli_arguments *arguments, const char *option, double min,
                           double max, double *value, error_message *err);

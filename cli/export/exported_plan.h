/// What the `dynmo export` commands for training frameworks read and write: a plan file, and the
/// text made of it.
#pragma once

#include "balance/plan.h"
#include "base/arena.h"
#include "base/status.h"
#include "base/text.h"
#include "cli/command.h"

/// Reads a plan file (dynmo-plan/1).
///
/// @param plan carved from memory
/// @return what json_open and bal_plan_read say
status cli_exported_plan_read(const char *path, arena *memory, bal_plan *plan, error_message *err);

/// Reads the order of every rank: of a plan file the one that is in it, or that its schedule has;
/// else what cli_schedule_order_read reads, checked. A searched schedule needs costs.
///
/// @param costs_path file of `dynmo schedule --costs`, or NULL
/// @param schedule   carved from memory
/// @return STATUS_IO, STATUS_FORMAT; STATUS_INVALID: a searched schedule without order and costs,
///         costs beside an order, an order that cannot be played; what bal_schedule_build says
status cli_exported_order_read(const char *path, const char *costs_path, arena *memory,
                               bal_schedule *schedule, error_message *err);

/// Appends to out what the command's file holds.
typedef status (*cli_exporter)(const cli_arguments *arguments, arena *memory, text_buffer *out,
                               error_message *err);

/// Has export fill a buffer, with an arena of its own, and writes it to --output, else to standard
/// output. On failure nothing is written; the message begins with the operand's path where the
/// exporter refused what is in it.
status cli_run_exporter(const cli_arguments *arguments, cli_exporter export, error_message *err);

/// The order of ops that `dynmo export pytorch` reads.
#pragma once

#include "balance/plan.h"
#include "base/arena.h"
#include "base/status.h"
#include "cli/command.h"

/// Reads the order of every rank: of a plan (exported_plan.h) the one that is in it, or that its
/// schedule has; else what cli_schedule_order_read reads, checked. A searched schedule needs
/// --costs, a file of `dynmo schedule --costs`.
///
/// @param schedule   carved from memory
/// @return STATUS_IO, STATUS_FORMAT; STATUS_INVALID: a searched schedule without order and costs,
///         an order that cannot be played; what bal_schedule_build says
status cli_exported_order_read(const cli_arguments *arguments, const char *path, arena *memory,
                               bal_schedule *schedule, error_message *err);

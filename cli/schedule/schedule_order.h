/// The orders that `dynmo schedule --order` reads: a JSON document, or a table as PyTorch writes
/// it.
#pragma once

#include "balance/schedule/schedule.h"
#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

/// Reads the order of every rank.
///
/// JSON: {"order":[["F0","B0","W0",...],...],"placement":"interleaved"|"v"}, or what
/// `dynmo schedule --json` prints. Anything else is read as CSV, a row per rank and a cell per op:
/// the same names, or PyTorch's, which begin with the stage in model order: "0F0", "0I0" for B,
/// "0W0", and "0B0" for BW. Empty cells are skipped, and so are PyTorch's cells for messages and
/// for sharding, which follow from the order. "F0&BW1" and "(0F0;7B1)OVERLAP_F_B" are an overlapped
/// pair.
///
/// The numbers of ranks, chunks and microbatches are those that occur. The order may still be one
/// that cannot be played: see bal_schedule_check.
///
/// @param schedule carved from memory
/// @return STATUS_IO; STATUS_FORMAT naming file, rank, in a CSV row and cell, and the op that is
///         none or is on a rank without its stage
status cli_schedule_order_read(const char *path, arena *memory, bal_schedule *schedule,
                               error_message *err);

/// As cli_schedule_order_read, from bytes[length]; name stands for the path in messages.
status cli_schedule_order_parse(const char *name, const char *bytes, size_t length, arena *memory,
                                bal_schedule *schedule, error_message *err);

/// Whether bytes[length] are read as JSON: their first that is no blank opens an object.
bool cli_schedule_order_is_json(const char *bytes, size_t length);

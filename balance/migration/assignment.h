/// The assignment problem: every row its own column, at the least sum of costs.
#pragma once

#include "base/arena.h"
#include "base/status.h"

#include <stdint.h>

/// Solves it exactly.
///
/// @param cost          [row_count][column_count] >= 0
/// @param memory        for scratch
/// @param column_of_row [row_count] out, all different. Untouched on failure.
/// @return STATUS_INVALID if row_count is outside [0, column_count], a cost is negative, or a cost
///         times row_count + 1 exceeds a quarter of int64.
///
/// Time O(row_count^2 * column_count). Of several best ways it returns always the same one.
/// Source: Kuhn, Naval Research Logistics Quarterly 2 (1955), by shortest augmenting paths as in
/// Jonker & Volgenant, Computing 38 (1987).
status bal_assignment(const int64_t *cost, int row_count, int column_count, arena *memory,
                      int *column_of_row, error_message *err);

/// The assignment problem: every row its own column, at the least sum of costs.
#pragma once

#include "base/arena.h"
#include "base/status.h"

#include <stdint.h>

/// A cost of pairs that must not be chosen.
#define BAL_ASSIGNMENT_FORBIDDEN INT64_MAX

/// Solves it exactly.
///
/// @param cost          [row_count][column_count] >= 0, or BAL_ASSIGNMENT_FORBIDDEN
/// @param memory        for scratch
/// @param column_of_row [row_count] out, all different. Untouched on failure.
/// @param total         out: sum of the chosen costs; may be NULL
/// @return STATUS_INVALID if row_count is outside [0, column_count], a cost is negative, or a cost
///         times row_count + 1 exceeds a quarter of int64; STATUS_INFEASIBLE if every way chooses a
///         forbidden pair, naming the row at which that showed.
///
/// Time O(row_count^2 * column_count). Of several best ways it returns always the same one.
/// Source: Kuhn, Naval Research Logistics Quarterly 2 (1955), by shortest augmenting paths as in
/// Jonker & Volgenant, Computing 38 (1987).
status bal_assignment(const int64_t *cost, int row_count, int column_count, arena *memory,
                      int *column_of_row, int64_t *total, error_message *err);

#include "balance/migration/assignment.h"

#include <assert.h>
#include <inttypes.h>
#include <stdbool.h>

enum { NONE = -1 };

/// Rows are added one by one; the prices keep cost - row_price - column_price >= 0, and 0 for the
/// pairs that are chosen.
typedef struct matching {
    const int64_t *cost;
    int column_count;
    int64_t *row_price;    // [row_count]
    int64_t *column_price; // [column_count]
    int *row_of_column;    // [column_count] or NONE
    int64_t *distance;     // [column_count] of the search: shortest way from the new row
    int *column_before;    // [column_count] on that way, NONE: the new row itself
    bool *is_settled;      // [column_count] its distance is final
} matching;

static status check(const int64_t *cost, int rows, int columns, error_message *err)
{
    if (rows < 0 || rows > columns) {
        return error_set(err, STATUS_INVALID, "row_count %d is outside [0, column_count %d]", rows,
                         columns);
    }
    const int64_t limit = INT64_MAX / 4 / ((int64_t)rows + 1);
    for (int row = 0; row < rows; row++) {
        for (int column = 0; column < columns; column++) {
            const int64_t value = cost[(int64_t)row * columns + column];
            if (value >= 0 && value <= limit) continue;
            return error_set(err, STATUS_INVALID,
                             "the cost %" PRId64 " of row %d in column %d is outside [0, %" PRId64
                             "]",
                             value, row, column, limit);
        }
    }
    return STATUS_OK;
}

/// Shortens the distances of the columns that a row reaches, itself reached at length.
static void relax(matching *at, int row, int from_column, int64_t length)
{
    const int64_t *cost = at->cost + (int64_t)row * at->column_count;
    for (int column = 0; column < at->column_count; column++) {
        if (at->is_settled[column]) continue;
        const int64_t reached =
            length + cost[column] - at->row_price[row] - at->column_price[column];
        if (reached >= at->distance[column]) continue;
        at->distance[column] = reached;
        at->column_before[column] = from_column;
    }
}

static int nearest(const matching *at)
{
    int best = NONE;
    for (int column = 0; column < at->column_count; column++) {
        if (at->is_settled[column]) continue;
        if (best == NONE || at->distance[column] < at->distance[best]) best = column;
    }
    return best;
}

/// Gives a new row a column, moving others along a shortest way to a free one.
static void add_row(matching *at, int new_row)
{
    for (int column = 0; column < at->column_count; column++) {
        at->distance[column] = INT64_MAX;
        at->is_settled[column] = false;
    }
    relax(at, new_row, NONE, 0);
    int end = nearest(at);
    for (; at->row_of_column[end] != NONE; end = nearest(at)) {
        at->is_settled[end] = true;
        relax(at, at->row_of_column[end], end, at->distance[end]);
    }
    const int64_t length = at->distance[end];
    at->row_price[new_row] += length;
    for (int column = 0; column < at->column_count; column++) {
        if (!at->is_settled[column]) continue;
        at->row_price[at->row_of_column[column]] += length - at->distance[column];
        at->column_price[column] -= length - at->distance[column];
    }
    for (int column = end; column != NONE;) {
        const int before = at->column_before[column];
        at->row_of_column[column] = before == NONE ? new_row : at->row_of_column[before];
        column = before;
    }
}

status bal_assignment(const int64_t *cost, int row_count, int column_count, arena *memory,
                      int *column_of_row, error_message *err)
{
    TRY(check(cost, row_count, column_count, err));
    const size_t columns = (size_t)column_count;
    matching at = {.cost = cost, .column_count = column_count};
    at.row_price = arena_array(memory, (size_t)row_count, sizeof *at.row_price);
    at.column_price = arena_array(memory, columns, sizeof *at.column_price);
    at.row_of_column = arena_array(memory, columns, sizeof *at.row_of_column);
    at.distance = arena_array(memory, columns, sizeof *at.distance);
    at.column_before = arena_array(memory, columns, sizeof *at.column_before);
    at.is_settled = arena_array(memory, columns, sizeof *at.is_settled);
    for (int column = 0; column < column_count; column++) {
        at.row_of_column[column] = NONE;
    }
    for (int row = 0; row < row_count; row++) {
        add_row(&at, row);
    }
    for (int column = 0; column < column_count; column++) {
        if (at.row_of_column[column] != NONE) column_of_row[at.row_of_column[column]] = column;
    }
    return STATUS_OK;
}

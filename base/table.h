/// A table of comma-separated values: one line of column names, then lines of as many cells.
///
/// Cells are not quoted, blanks around them do not count, lines end with a line feed (or carriage
/// return and line feed), lines that begin with "# source:" before the names are kept as the
/// source, and empty lines are passed over.
#pragma once

#include "base/arena.h"
#include "base/status.h"
#include "base/text.h"

#include <stddef.h>

enum { TABLE_COLUMNS_MAX = 256, TABLE_ROWS_MAX = 1 << 20 };

typedef struct table {
    const char *path;   // for messages
    const char *source; // what stands after "# source:", lines joined by blanks; "" if nothing
    int column_count;
    int row_count;
    const char **columns; // [column_count] names, different from each other
    const char **cells;   // [row_count][column_count]
    int *lines;           // [row_count] line in the file, from 1
} table;

/// Reads a file; "-" is standard input. Everything is carved from memory.
///
/// @return STATUS_IO; STATUS_FORMAT with "path:line: ..." for a line with too few or too many
///         cells, a name given twice or empty, a quote, a byte that is not text, no row, too many
///         rows or columns
status table_open(const char *path, arena *memory, table *out, error_message *err);

/// As table_open, from bytes[length]; name stands for the path in messages.
status table_open_bytes(const char *name, const char *bytes, size_t length, arena *memory,
                        table *out, error_message *err);

/// The column of a name, letters large or small; -1 if there is none.
int table_column(const table *from, const char *name);

/// A cell as it is written, without blanks around it.
const char *table_cell(const table *from, int row, int column);

/// A cell as a number in [min, max].
///
/// @return STATUS_FORMAT "path:line: column: ..." naming the cell and the limits
status table_number(const table *from, int row, int column, double min, double max, double *value,
                    error_message *err);

/// Appends rows of a table as a table, its source included.
///
/// @param rows [row_count] in the order in which they are written
void table_write(const table *from, const int *rows, int row_count, text_buffer *out);

/// Which rows of a table are meant: "pipeline parallelism=2,4,# layers=24".
///
/// COLUMN=V pieces with commas between them. A piece without '=' is a further value of the column
/// before it, '|' between values does the same, and so does naming the column again: a row matches
/// if every named column has one of its values. Numbers are compared as numbers.
#pragma once

#include "base/arena.h"
#include "base/status.h"
#include "base/table.h"

#include <stdbool.h>

typedef struct ana_run_filter {
    int value_count;
    int *columns;        // [value_count]
    const char **values; // [value_count]
} ana_run_filter;

/// @param what for messages, for example "--fit"
/// @return STATUS_INVALID for a piece that is no condition, or a column that the table has not
///         (the nearest is named); STATUS_NO_MEMORY
status ana_run_filter_parse(const char *what, const char *text, const table *from, arena *memory,
                            ana_run_filter *out, error_message *err);

/// Whether a row matches.
bool ana_run_filter_takes(const ana_run_filter *filter, const table *from, int row);

/// Rows that match.
///
/// @param rows  out, in the order of the file; carved from memory
/// @return STATUS_INVALID if none does, naming the first condition that no row fulfils with the
///         values there are
status ana_run_filter_rows(const char *what, const ana_run_filter *filter, const table *from,
                           arena *memory, int **rows, int *count, error_message *err);

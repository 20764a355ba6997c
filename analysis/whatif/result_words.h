/// Words, numbers and tables that the sections of a study's answer share.
#pragma once

#include "analysis/whatif/whatif.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

enum { ANA_CELL_BYTES = 48, ANA_COLUMNS_MAX = ANA_AXES_MAX + 16 };

/// A table as it is filled: cells of text, columns as wide as their widest.
typedef struct ana_table {
    int column_count;
    int row_count; // the head is row 0
    bool is_left[ANA_COLUMNS_MAX];
    char (*cells)[ANA_COLUMNS_MAX][ANA_CELL_BYTES]; // the caller's, a row each
} ana_table;

/// Fills a cell, cut to its size, and goes on to the next column.
void ana_table_put(ana_table *filled, int row, int *column, const char *text);

void ana_table_print(const ana_table *filled, text_buffer *out);

/// Three digits and a suffix: 9.42M, 1.00T.
void ana_short_number(double value, char out[ANA_CELL_BYTES]);

/// A time of training: hours up to two days, then days.
void ana_long_time(double ns, char out[ANA_CELL_BYTES]);

/// Whole numbers with commas, 157,286; small ones with three digits, 27.4.
void ana_grouped_number(double value, char out[ANA_CELL_BYTES]);

/// "point 17 (stages 8, schedule zb-h1)".
void ana_name_point(const ana_whatif *study, int64_t item, text_buffer *out);

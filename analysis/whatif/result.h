/// The answer of a what-if study: for people, for programs, for spreadsheets.
#pragma once

#include "analysis/whatif/certainty.h"
#include "analysis/whatif/whatif.h"
#include "base/status.h"
#include "base/text.h"

/// Appends the answer in two sentences, the best points as a table, what could not be played by its
/// reasons, how sure it is, and what the best point was computed from.
///
/// @param certainty NULL: nothing was drawn
/// @param row_count points of the table, besides the reference
status ana_result_print(const ana_whatif *study, const ana_certainty *certainty, int row_count,
                        text_buffer *out, error_message *err);

/// Appends everything as one JSON object ("dynmo-study-result/1"), with all points.
///
/// @param certainty member "certainty"; NULL: null
void ana_result_write(const ana_whatif *study, const ana_certainty *certainty, text_buffer *out);

/// Appends all points as CSV with a header: numbers, values of the axes, figures.
void ana_result_write_csv(const ana_whatif *study, text_buffer *out);

// Words, numbers and tables that its sections share (result_words.c).

enum { ANA_CELL_BYTES = 48, ANA_COLUMNS_MAX = ANA_AXES_MAX + 16, ANA_TEXT_COLUMNS = 100 };

/// A table as it is filled: cells of text, columns as wide as their widest.
typedef struct ana_table {
    int column_count;
    int row_count; // the head is row 0
    int next_column;
    bool is_left[ANA_COLUMNS_MAX];
    char (*cells)[ANA_COLUMNS_MAX][ANA_CELL_BYTES];
} ana_table;

/// @param row_capacity besides the head
ana_table ana_table_begin(int row_capacity, arena *memory);

/// Adds a column, before any row.
void ana_table_column(ana_table *rows, const char *name, bool is_left);

/// Begins a row, whose cells are then filled from the left, each cut to its size.
void ana_table_row(ana_table *rows);
void ana_table_cell(ana_table *rows, const char *format, ...) __attribute__((format(printf, 2, 3)));

/// The columns of a study's axes, and the cells of an item in them.
void ana_table_axes(ana_table *rows, const ana_whatif *study);
void ana_table_values(ana_table *rows, const ana_whatif *study, int64_t item);

void ana_table_print(const ana_table *rows, text_buffer *out);

/// Three digits and a suffix: 9.42M, 1.00T.
text_words ana_short_number(double value);

/// A time of training: hours up to two days, then days.
text_words ana_long_time(double ns);

/// Whole numbers with commas, 157,286; small ones with three digits, 27.4.
text_words ana_grouped_number(double value);

/// "17"; "written" for the study as written where it is none of the points.
text_words ana_point_number(const ana_whatif *study, int64_t item);

/// "point 17 (stages 8, schedule zb-h1)".
void ana_name_point(const ana_whatif *study, int64_t item, text_buffer *out);

/// The same with the axes alone on which it differs from another item.
void ana_name_other(const ana_whatif *study, int64_t item, int64_t other, text_buffer *out);

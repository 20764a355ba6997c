/// Tables of text with aligned columns, and numbers as people read them.
#include "analysis/whatif/result.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

ana_table ana_table_begin(int row_capacity, arena *memory)
{
    ana_table made = {.row_count = 1};
    made.cells = arena_array(memory, (size_t)row_capacity + 1, sizeof *made.cells);
    return made;
}

void ana_table_column(ana_table *rows, const char *name, bool is_left)
{
    rows->is_left[rows->column_count] = is_left;
    snprintf(rows->cells[0][rows->column_count++], ANA_CELL_BYTES, "%s", name);
}

void ana_table_row(ana_table *rows)
{
    rows->row_count++;
    rows->next_column = 0;
}

void ana_table_cell(ana_table *rows, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(rows->cells[rows->row_count - 1][rows->next_column++], ANA_CELL_BYTES, format,
              arguments);
    va_end(arguments);
}

/// The last key of an axis' path.
static const char *short_name(const ana_axis *axis)
{
    const char *name = strrchr(axis->name, '.');
    return name != NULL ? name + 1 : axis->name;
}

void ana_table_axes(ana_table *rows, const ana_whatif *study)
{
    for (int axis = 0; axis < study->matrix.axis_count; axis++) {
        ana_table_column(rows, short_name(&study->matrix.axes[axis]), true);
    }
}

void ana_table_values(ana_table *rows, const ana_whatif *study, int64_t item)
{
    int value[ANA_AXES_MAX];
    ana_whatif_values(study, item, value);
    for (int axis = 0; axis < study->matrix.axis_count; axis++) {
        const ana_axis *named = &study->matrix.axes[axis];
        ana_table_cell(rows, "%s", value[axis] >= 0 ? named->values[value[axis]].label : "");
    }
}

/// Bytes of a cell that people see: not the later ones of a character.
static int cell_width(const char *cell)
{
    int width = 0;
    for (const char *c = cell; *c != '\0'; c++) {
        width += ((unsigned char)*c & 0xc0) != 0x80;
    }
    return width;
}

/// Takes blanks at the end of a line away.
static void trim_blanks(text_buffer *out)
{
    while (out->length > 0 && out->bytes[out->length - 1] == ' ') {
        out->bytes[--out->length] = '\0';
    }
}

void ana_table_print(const ana_table *rows, text_buffer *out)
{
    int width[ANA_COLUMNS_MAX] = {0};
    for (int row = 0; row < rows->row_count; row++) {
        for (int column = 0; column < rows->column_count; column++) {
            const int cell = cell_width(rows->cells[row][column]);
            if (cell > width[column]) width[column] = cell;
        }
    }
    for (int row = 0; row < rows->row_count; row++) {
        for (int column = 0; column < rows->column_count; column++) {
            const char *cell = rows->cells[row][column];
            const int blanks = width[column] - cell_width(cell);
            const bool is_last = column + 1 == rows->column_count;
            if (column > 0) text_append(out, "  ");
            if (!rows->is_left[column]) text_format(out, "%*s", blanks, "");
            text_append(out, cell);
            if (rows->is_left[column] && !is_last) text_format(out, "%*s", blanks, "");
        }
        trim_blanks(out);
        text_append(out, "\n");
    }
}

text_words ana_short_number(double value)
{
    static const char *const suffixes[] = {"", "k", "M", "B", "T"};
    int suffix = 0;
    while (value >= 999.5 && suffix < 4) {
        value /= 1000;
        suffix++;
    }
    const int digits = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
    return text_wording("%.*f%s", digits, value, suffixes[suffix]);
}

text_words ana_long_time(double ns)
{
    const double hours = ns / 3.6e12;
    if (hours < 1) return text_wording("%.1f min", hours * 60);
    return hours < 48 ? text_wording("%.2f h", hours) : text_wording("%.2f d", hours / 24);
}

text_words ana_grouped_number(double value)
{
    if (value >= 999.5) return text_grouped(value < 1e15 ? value : 1e15);
    return text_wording("%.*f", value < 9.995 ? 2 : value < 99.95 ? 1 : 0, value);
}

text_words ana_point_number(const ana_whatif *study, int64_t item)
{
    const int64_t number = ana_whatif_number(study, item);
    return number >= 0 ? text_wording("%" PRId64, number) : (text_words){"written"};
}

/// @param without [axis_count] values that go without saying; NULL: none
static void name_point(const ana_whatif *study, int64_t item, const int *without, text_buffer *out)
{
    const int64_t number = ana_whatif_number(study, item);
    const char *before = " (";
    int value[ANA_AXES_MAX];
    if (number < 0) {
        text_append(out, "the study as written");
        return;
    }
    ana_whatif_values(study, item, value);
    text_format(out, "point %" PRId64, number);
    for (int axis = 0; axis < study->matrix.axis_count; axis++) {
        const ana_axis *named = &study->matrix.axes[axis];
        if (without != NULL && value[axis] == without[axis]) continue;
        text_format(out, "%s%s %s", before, short_name(named), named->values[value[axis]].label);
        before = ", ";
    }
    if (before[0] == ',') text_append(out, ")");
}

void ana_name_point(const ana_whatif *study, int64_t item, text_buffer *out)
{
    name_point(study, item, NULL, out);
}

void ana_name_other(const ana_whatif *study, int64_t item, int64_t other, text_buffer *out)
{
    int value[ANA_AXES_MAX];
    ana_whatif_values(study, other, value);
    name_point(study, item, value, out);
}

#include "analysis/whatif/result_words.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void ana_table_put(ana_table *filled, int row, int *column, const char *text)
{
    snprintf(filled->cells[row][(*column)++], ANA_CELL_BYTES, "%s", text);
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

void ana_table_print(const ana_table *filled, text_buffer *out)
{
    int width[ANA_COLUMNS_MAX] = {0};
    for (int row = 0; row < filled->row_count; row++) {
        for (int column = 0; column < filled->column_count; column++) {
            const int cell = cell_width(filled->cells[row][column]);
            if (cell > width[column]) width[column] = cell;
        }
    }
    for (int row = 0; row < filled->row_count; row++) {
        for (int column = 0; column < filled->column_count; column++) {
            const char *cell = filled->cells[row][column];
            const int blanks = width[column] - cell_width(cell);
            const bool is_last = column + 1 == filled->column_count;
            if (column > 0) text_append(out, "  ");
            if (!filled->is_left[column]) text_format(out, "%*s", blanks, "");
            text_append(out, cell);
            if (filled->is_left[column] && !is_last) text_format(out, "%*s", blanks, "");
        }
        trim_blanks(out);
        text_append(out, "\n");
    }
}

void ana_short_number(double value, char out[ANA_CELL_BYTES])
{
    static const char *const suffixes[] = {"", "k", "M", "B", "T"};
    int suffix = 0;
    while (value >= 999.5 && suffix < 4) {
        value /= 1000;
        suffix++;
    }
    const int digits = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
    snprintf(out, ANA_CELL_BYTES, "%.*f%s", digits, value, suffixes[suffix]);
}

void ana_long_time(double ns, char out[ANA_CELL_BYTES])
{
    const double hours = ns / 3.6e12;
    if (hours < 1) {
        snprintf(out, ANA_CELL_BYTES, "%.1f min", hours * 60);
    } else if (hours < 48) {
        snprintf(out, ANA_CELL_BYTES, "%.2f h", hours);
    } else {
        snprintf(out, ANA_CELL_BYTES, "%.2f d", hours / 24);
    }
}

void ana_grouped_number(double value, char out[ANA_CELL_BYTES])
{
    char digits[32];
    if (value < 999.5) {
        snprintf(out, ANA_CELL_BYTES, "%.*f", value < 9.995 ? 2 : value < 99.95 ? 1 : 0, value);
        return;
    }
    const int length = snprintf(digits, sizeof digits, "%.0f", value < 1e15 ? value : 1e15);
    int at = 0;
    for (int digit = 0; digit < length; digit++) {
        if (digit > 0 && (length - digit) % 3 == 0) out[at++] = ',';
        out[at++] = digits[digit];
    }
    out[at] = '\0';
}

void ana_name_point(const ana_whatif *study, int64_t item, text_buffer *out)
{
    const int64_t number = ana_whatif_number(study, item);
    int value[ANA_AXES_MAX];
    if (number < 0) {
        text_append(out, "the study as written");
        return;
    }
    ana_matrix_values(&study->matrix, number, value);
    text_format(out, "point %" PRId64, number);
    for (int axis = 0; axis < study->matrix.axis_count; axis++) {
        const ana_axis *named = &study->matrix.axes[axis];
        const char *name = strrchr(named->name, '.');
        text_format(out, "%s%s %s", axis == 0 ? " (" : ", ", name != NULL ? name + 1 : named->name,
                    named->values[value[axis]].label);
        if (axis + 1 == study->matrix.axis_count) text_append(out, ")");
    }
}

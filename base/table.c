#include "base/table.h"

#include "base/file.h"
#include "base/text.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { TABLE_BYTES_MAX = 64 << 20 };
static const char source_mark[] = "# source:";

/// Where reading stands.
typedef struct table_reading {
    table *out;
    char *at; // terminated text that is cut into cells in place; NULL: all has been read
    int line;
    arena *memory;
} table_reading;

static status refuse(const table_reading *reading, error_message *err, const char *what)
{
    return error_set(err, STATUS_FORMAT, "%s:%d: %s", reading->out->path, reading->line, what);
}

/// The text without the blanks around it, cut in place.
static char *trimmed(char *text)
{
    while (*text == ' ' || *text == '\t') {
        text++;
    }
    char *end = text + strlen(text);
    while (end > text && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r')) {
        end--;
    }
    *end = '\0';
    return text;
}

/// The next line, without its end; NULL after the last.
static char *next_line(table_reading *reading)
{
    char *line = strsep(&reading->at, "\n");
    if (line == NULL) return NULL;
    reading->line++;
    return trimmed(line);
}

static int count_cells(const char *line)
{
    int count = 1;
    for (; *line != '\0'; line++) {
        count += *line == ',';
    }
    return count;
}

/// Cuts a line at its commas into cells [count].
static void cut(char *line, const char **cells, int count)
{
    for (int cell = 0; cell < count; cell++) {
        cells[cell] = trimmed(strsep(&line, ","));
    }
}

static status read_names(table_reading *reading, char *line, error_message *err)
{
    table *out = reading->out;
    const int count = count_cells(line);
    if (count > TABLE_COLUMNS_MAX) {
        return error_set(err, STATUS_FORMAT, "%s:%d: %d columns are more than %d", out->path,
                         reading->line, count, TABLE_COLUMNS_MAX);
    }
    out->columns = arena_array(reading->memory, (size_t)count, sizeof *out->columns);
    cut(line, out->columns, count);
    for (int column = 0; column < count; column++) {
        out->column_count = column;
        if (out->columns[column][0] == '\0') return refuse(reading, err, "a column has no name");
        if (table_column(out, out->columns[column]) >= 0) {
            return error_set(err, STATUS_FORMAT, "%s:%d: two columns are named '%.60s'", out->path,
                             reading->line, out->columns[column]);
        }
    }
    out->column_count = count;
    return STATUS_OK;
}

static status read_row(table_reading *reading, char *line, error_message *err)
{
    table *out = reading->out;
    const int count = count_cells(line);
    if (count != out->column_count) {
        return error_set(err, STATUS_FORMAT, "%s:%d: %d cells, but %d columns are named", out->path,
                         reading->line, count, out->column_count);
    }
    cut(line, out->cells + (size_t)out->row_count * (size_t)count, count);
    out->lines[out->row_count++] = reading->line;
    return STATUS_OK;
}

static void add_source(table_reading *reading, const char *words)
{
    table *out = reading->out;
    const size_t bytes = strlen(out->source) + strlen(words) + 2;
    char *joined = arena_array(reading->memory, bytes, 1);
    snprintf(joined, bytes, "%s%s%s", out->source, out->source[0] != '\0' ? " " : "", words);
    out->source = joined;
}

/// A row of n cells has n - 1 commas: what is left of the text bounds the cells, so that memory
/// stays in proportion to the file.
static status reserve_rows(table_reading *reading, error_message *err)
{
    table *out = reading->out;
    size_t rows = 1;
    size_t commas = 0;
    for (const char *at = reading->at; at != NULL && *at != '\0'; at++) {
        rows += *at == '\n';
        commas += *at == ',';
    }
    if (rows > TABLE_ROWS_MAX) {
        return error_set(err, STATUS_FORMAT, "%s: %zu rows are more than %d", out->path, rows,
                         TABLE_ROWS_MAX);
    }
    out->cells = arena_array(reading->memory, rows + commas, sizeof *out->cells);
    out->lines = arena_array(reading->memory, rows, sizeof *out->lines);
    return STATUS_OK;
}

static status read_line(table_reading *reading, char *line, error_message *err)
{
    const table *out = reading->out;
    const size_t mark = sizeof source_mark - 1;
    if (line[0] == '\0') return STATUS_OK;
    if (strchr(line, '"') != NULL) return refuse(reading, err, "cells are not quoted here");
    if (out->columns != NULL) return read_row(reading, line, err);
    if (strncmp(line, source_mark, mark) == 0) {
        add_source(reading, trimmed(line + mark));
        return STATUS_OK;
    }
    TRY(read_names(reading, line, err));
    return reserve_rows(reading, err);
}

/// Control characters other than line ends and tabs are not text.
static status check_text(const table_reading *reading, size_t length, error_message *err)
{
    int line = 1;
    for (size_t at = 0; at < length; at++) {
        const unsigned char byte = (unsigned char)reading->at[at];
        line += byte == '\n';
        if (byte >= ' ' || byte == '\n' || byte == '\r' || byte == '\t') continue;
        return error_set(err, STATUS_FORMAT, "%s:%d: byte 0x%02x is not text", reading->out->path,
                         line, byte);
    }
    return STATUS_OK;
}

status table_open_bytes(const char *name, const char *bytes, size_t length, arena *memory,
                        table *out, error_message *err)
{
    table read = {.path = arena_string(memory, name), .source = ""};
    char *text = arena_array(memory, length + 1, 1);
    if (length > 0) memcpy(text, bytes, length);
    table_reading reading = {.out = &read, .at = text, .memory = memory};
    TRY(check_text(&reading, length, err));
    for (char *line = next_line(&reading); line != NULL; line = next_line(&reading)) {
        TRY(read_line(&reading, line, err));
    }
    if (read.columns == NULL) {
        return error_set(err, STATUS_FORMAT, "%s: no line with the names of columns", name);
    }
    if (read.row_count == 0) {
        return error_set(err, STATUS_FORMAT, "%s: no row after the names of columns", name);
    }
    *out = read;
    return STATUS_OK;
}

status table_open(const char *path, arena *memory, table *out, error_message *err)
{
    char *bytes = NULL;
    size_t length = 0;
    TRY(file_read(path, TABLE_BYTES_MAX, &bytes, &length, err));
    const status result = table_open_bytes(path, bytes, length, memory, out, err);
    free(bytes);
    return result;
}

int table_column(const table *from, const char *name)
{
    for (int column = 0; column < from->column_count; column++) {
        if (strcasecmp(from->columns[column], name) == 0) return column;
    }
    return -1;
}

const char *table_cell(const table *from, int row, int column)
{
    return from->cells[(size_t)row * (size_t)from->column_count + (size_t)column];
}

status table_number(const table *from, int row, int column, double min, double max, double *value,
                    error_message *err)
{
    const char *cell = table_cell(from, row, column);
    error_message inner = {0};
    double parsed = 0;
    if (text_parse_double(cell, from->columns[column], min, max, &parsed, &inner) != STATUS_OK) {
        return error_set(err, STATUS_FORMAT, "%s:%d: %.200s", from->path, from->lines[row],
                         inner.message);
    }
    *value = parsed;
    return STATUS_OK;
}

static void write_line(const char *const *cells, int count, text_buffer *out)
{
    for (int cell = 0; cell < count; cell++) {
        text_format(out, "%s%s", cell > 0 ? "," : "", cells[cell]);
    }
    text_append(out, "\n");
}

void table_write(const table *from, const int *rows, int row_count, text_buffer *out)
{
    if (from->source[0] != '\0') text_format(out, "# source: %s\n", from->source);
    write_line(from->columns, from->column_count, out);
    for (int row = 0; row < row_count; row++) {
        write_line(from->cells + (size_t)rows[row] * (size_t)from->column_count, from->column_count,
                   out);
    }
}

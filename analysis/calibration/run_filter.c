#include "analysis/calibration/run_filter.h"

#include "analysis/calibration/measured_runs.h"

#include <float.h>
#include <stdio.h>
#include <string.h>

/// Where parsing stands.
typedef struct filter_parsing {
    const char *what;
    const table *from;
    ana_run_filter *out;
    int column; // of the piece before; -1 at the begin
} filter_parsing;

static char *without_blanks(char *text)
{
    while (*text == ' ') {
        text++;
    }
    char *end = text + strlen(text);
    while (end > text && end[-1] == ' ') {
        end--;
    }
    *end = '\0';
    return text;
}

static status add_values(filter_parsing *parsing, char *text, error_message *err)
{
    ana_run_filter *out = parsing->out;
    for (char *at = text; at != NULL;) {
        char *bar = strchr(at, '|');
        if (bar != NULL) *bar = '\0';
        out->columns[out->value_count] = parsing->column;
        out->values[out->value_count] = without_blanks(at);
        if (out->values[out->value_count][0] == '\0') {
            return error_set(err, STATUS_INVALID, "%s: no value for column '%s'", parsing->what,
                             parsing->from->columns[parsing->column]);
        }
        out->value_count++;
        at = bar != NULL ? bar + 1 : NULL;
    }
    return STATUS_OK;
}

static status add_piece(filter_parsing *parsing, char *piece, error_message *err)
{
    char *sign = strchr(piece, '=');
    if (sign == NULL) {
        if (parsing->column >= 0) return add_values(parsing, piece, err);
        return error_set(err, STATUS_INVALID, "%s: '%.60s' is not COLUMN=VALUE", parsing->what,
                         piece);
    }
    *sign = '\0';
    const char *name = without_blanks(piece);
    parsing->column = ana_runs_column(parsing->from, name);
    if (parsing->column >= 0) return add_values(parsing, sign + 1, err);
    char suggestion[TEXT_SUGGESTION_BYTES];
    return error_set(err, STATUS_INVALID, "%s: %s has no column '%.60s'%s", parsing->what,
                     parsing->from->path, name,
                     ana_runs_suggestion(parsing->from, name, suggestion));
}

status ana_run_filter_parse(const char *what, const char *text, const table *from, arena *memory,
                            ana_run_filter *out, error_message *err)
{
    size_t most = 1;
    for (const char *at = text; *at != '\0'; at++) {
        most += *at == ',' || *at == '|';
    }
    char *copy = arena_string(memory, text);
    ana_run_filter filter = {
        .columns = arena_array(memory, most, sizeof *filter.columns),
        .values = arena_array(memory, most, sizeof *filter.values),
    };
    filter_parsing parsing = {.what = what, .from = from, .out = &filter, .column = -1};
    for (char *piece = copy; piece != NULL;) {
        char *comma = strchr(piece, ',');
        if (comma != NULL) *comma = '\0';
        TRY(add_piece(&parsing, piece, err));
        piece = comma != NULL ? comma + 1 : NULL;
    }
    *out = filter;
    return STATUS_OK;
}

static bool is_same(const char *cell, const char *value)
{
    double left = 0;
    double right = 0;
    if (text_parse_double(cell, "", -DBL_MAX, DBL_MAX, &left, NULL) == STATUS_OK &&
        text_parse_double(value, "", -DBL_MAX, DBL_MAX, &right, NULL) == STATUS_OK) {
        return left >= right && left <= right;
    }
    return strcmp(cell, value) == 0;
}

/// Whether a row has one of the values that are named for a column.
static bool takes_column(const ana_run_filter *filter, const table *from, int row, int column)
{
    for (int index = 0; index < filter->value_count; index++) {
        if (filter->columns[index] != column) continue;
        if (is_same(table_cell(from, row, column), filter->values[index])) return true;
    }
    return false;
}

bool ana_run_filter_takes(const ana_run_filter *filter, const table *from, int row)
{
    for (int index = 0; index < filter->value_count; index++) {
        if (!takes_column(filter, from, row, filter->columns[index])) return false;
    }
    return true;
}

/// "; it has 1, 2, 4": the first different values of a column.
static void list_values(const table *from, int column, char *out, size_t size)
{
    enum { LISTED_MAX = 8 };
    const char *listed[LISTED_MAX];
    int count = 0;
    size_t length = (size_t)snprintf(out, size, "; it has");
    for (int row = 0; row < from->row_count && count < LISTED_MAX; row++) {
        const char *cell = table_cell(from, row, column);
        bool is_new = true;
        for (int index = 0; index < count; index++) {
            if (strcmp(listed[index], cell) == 0) is_new = false;
        }
        if (!is_new) continue;
        listed[count++] = cell;
        if (length < size) {
            length += (size_t)snprintf(out + length, size - length, "%s %.20s",
                                       count > 1 ? "," : "", cell);
        }
    }
}

/// Says why no row matches: a value that does not occur, or else all of them together.
static status refuse(const char *what, const ana_run_filter *filter, const table *from,
                     error_message *err)
{
    for (int index = 0; index < filter->value_count; index++) {
        const int column = filter->columns[index];
        bool occurs = false;
        for (int row = 0; row < from->row_count; row++) {
            occurs = occurs || takes_column(filter, from, row, column);
        }
        if (occurs) continue;
        char values[256];
        list_values(from, column, values, sizeof values);
        return error_set(err, STATUS_INVALID, "%s: no row has '%s' = %.60s%s", what,
                         from->columns[column], filter->values[index], values);
    }
    return error_set(err, STATUS_INVALID, "%s: no row fulfils all conditions at once", what);
}

status ana_run_filter_rows(const char *what, const ana_run_filter *filter, const table *from,
                           arena *memory, int **rows, int *count, error_message *err)
{
    int *found = arena_array(memory, (size_t)from->row_count, sizeof *found);
    int found_count = 0;
    for (int row = 0; row < from->row_count; row++) {
        if (ana_run_filter_takes(filter, from, row)) found[found_count++] = row;
    }
    if (found_count == 0) return refuse(what, filter, from, err);
    *rows = found;
    *count = found_count;
    return STATUS_OK;
}

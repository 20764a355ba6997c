/// Reads runs from a table, and chooses rows by conditions.
#include "analysis/calibration/measured_runs.h"

#include "base/text.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/// A column: how it is called, what else it may be called, where its number goes.
typedef struct run_column {
    const char *name;
    const char *short_names[3];
    size_t offset;
    bool is_needed;
} run_column;

static const run_column columns[ANA_SHAPE_FIELDS] = {
    {"# GPUs", {"gpus", "gpu_count"}, offsetof(ana_run_shape, gpu_count), false},
    {"global batch", {"gbs", "global_batch"}, offsetof(ana_run_shape, global_batch_count), true},
    {"micro batch", {"mbs", "microbatch"}, offsetof(ana_run_shape, microbatch_size), true},
    {"hidden size", {"hidden", "hidden_size"}, offsetof(ana_run_shape, hidden_size), true},
    {"attention heads", {"heads"}, offsetof(ana_run_shape, head_count), false},
    {"# layers", {"layers"}, offsetof(ana_run_shape, layer_count), true},
    {"sequence length", {"seq", "sequence"}, offsetof(ana_run_shape, sequence_length), true},
    {"vocabulary", {"vocab"}, offsetof(ana_run_shape, vocabulary_size), false},
    {"tensor parallelism", {"tp", "tensor"}, offsetof(ana_run_shape, tensor_degree), true},
    {"data parallelism", {"dp", "data"}, offsetof(ana_run_shape, data_degree), true},
    {"pipeline parallelism", {"pp", "pipeline"}, offsetof(ana_run_shape, pipeline_degree), true},
};
static const run_column time_column = {"iteration time (ms)", {"time", "iteration_ms"}, 0, true};

status ana_measured_table_open(const char *path, arena *memory, table *out, error_message *err)
{
    const bool is_name = strpbrk(path, "./") == NULL && access(path, F_OK) != 0;
    if (!is_name) return table_open(path, memory, out, err);
    const char *text = embedded_find(ana_measured_tables, path);
    char suggestion[TEXT_SUGGESTION_BYTES];
    if (text == NULL) {
        return error_set(err, STATUS_IO, "%s: no such file, and no shipped table is named so%s",
                         path, embedded_suggestion(ana_measured_tables, path, suggestion));
    }
    return table_open_bytes(path, text, strlen(text), memory, out, err);
}

static bool is_called(const run_column *column, const char *name)
{
    if (strcasecmp(column->name, name) == 0) return true;
    for (int index = 0; index < 3 && column->short_names[index] != NULL; index++) {
        if (strcasecmp(column->short_names[index], name) == 0) return true;
    }
    return false;
}

static int find_column(const table *from, const run_column *column)
{
    for (int index = 0; index < from->column_count; index++) {
        if (is_called(column, from->columns[index])) return index;
    }
    return -1;
}

/// The column that a name or a short name stands for; -1 if the table has none.
static int named_column(const table *from, const char *name)
{
    const int exact = table_column(from, name);
    if (exact >= 0) return exact;
    if (is_called(&time_column, name)) return find_column(from, &time_column);
    for (int field = 0; field < ANA_SHAPE_FIELDS; field++) {
        if (is_called(&columns[field], name)) return find_column(from, &columns[field]);
    }
    return -1;
}

const char *ana_run_field_name(int field)
{
    return columns[field].name;
}

int64_t *ana_run_field_place(ana_run_shape *shape, int field)
{
    return (int64_t *)(void *)((char *)shape + columns[field].offset);
}

int64_t ana_run_field(const ana_run_shape *shape, int field)
{
    return *(const int64_t *)(const void *)((const char *)shape + columns[field].offset);
}

static status require(const table *from, const run_column *column, int *index, error_message *err)
{
    *index = find_column(from, column);
    if (*index >= 0 || !column->is_needed) return STATUS_OK;
    char suggestion[TEXT_SUGGESTION_BYTES];
    return error_set(err, STATUS_FORMAT, "%s: no column '%s' (or '%s')%s", from->path, column->name,
                     column->short_names[0],
                     text_suggestion(column->name, from->columns, from->column_count, suggestion));
}

static status read_field(const table *from, int row, int index, int64_t *value, error_message *err)
{
    double number = 0;
    TRY(table_number(from, row, index, 1, ANA_RUN_FIELD_MAX, &number, err));
    const int64_t whole = (int64_t)number;
    if ((double)whole != number) {
        return error_set(err, STATUS_FORMAT, "%s:%d: %s: %g is not a whole number", from->path,
                         from->lines[row], from->columns[index], number);
    }
    *value = whole;
    return STATUS_OK;
}

status ana_run_shape_check(const ana_run_shape *shape, error_message *err)
{
    const double product = (double)shape->tensor_degree * (double)shape->data_degree *
                           (double)shape->pipeline_degree; // may be above whole numbers
    const int64_t pass = shape->microbatch_size * shape->data_degree;
    if (fabs((double)shape->gpu_count - product) > 0) {
        return error_set(err, STATUS_FORMAT,
                         "%" PRId64 " GPUs are not tensor * data * pipeline parallelism, %.0f",
                         shape->gpu_count, product);
    }
    if (shape->global_batch_count % pass != 0) {
        return error_set(err, STATUS_FORMAT,
                         "global batch %" PRId64 " is no multiple of micro batch * data "
                         "parallelism, %" PRId64,
                         shape->global_batch_count, pass);
    }
    if (shape->layer_count >= shape->pipeline_degree) return STATUS_OK;
    return error_set(err, STATUS_FORMAT,
                     "%" PRId64 " layers are fewer than pipeline parallelism %" PRId64,
                     shape->layer_count, shape->pipeline_degree);
}

static status read_run(const table *from, int row, const int index[ANA_SHAPE_FIELDS],
                       int64_t vocabulary_size, ana_run_shape *shape, error_message *err)
{
    for (int field = 0; field < ANA_SHAPE_FIELDS; field++) {
        if (index[field] < 0) continue;
        TRY(read_field(from, row, index[field], ana_run_field_place(shape, field), err));
    }
    if (shape->vocabulary_size == 0) shape->vocabulary_size = vocabulary_size;
    if (shape->head_count == 0) shape->head_count = (shape->hidden_size + 63) / 64;
    if (shape->gpu_count == 0) {
        shape->gpu_count = shape->tensor_degree * shape->data_degree; // at most 1e14
        if (shape->gpu_count <= ANA_RUN_FIELD_MAX) shape->gpu_count *= shape->pipeline_degree;
    }
    const status checked = ana_run_shape_check(shape, err);
    if (checked == STATUS_OK) return STATUS_OK;
    return error_prefix(err, checked, "%s:%d", from->path, from->lines[row]);
}

status ana_measured_runs_read(const table *from, int64_t vocabulary_size, arena *memory,
                              ana_measured_runs *out, error_message *err)
{
    int index[ANA_SHAPE_FIELDS];
    int time_index = -1;
    ana_measured_runs runs = {.source = *from};
    for (int field = 0; field < ANA_SHAPE_FIELDS; field++) {
        TRY(require(from, &columns[field], &index[field], err));
    }
    TRY(require(from, &time_column, &time_index, err));
    runs.shapes = arena_array(memory, (size_t)from->row_count, sizeof *runs.shapes);
    runs.iteration_ms = arena_array(memory, (size_t)from->row_count, sizeof *runs.iteration_ms);
    runs.vocabulary_is_given = find_column(from, &columns[7]) >= 0;
    for (int row = 0; row < from->row_count; row++) {
        TRY(read_run(from, row, index, vocabulary_size, &runs.shapes[row], err));
        TRY(table_number(from, row, time_index, ANA_RUN_MS_MIN, ANA_RUN_MS_MAX,
                         &runs.iteration_ms[row], err));
    }
    *out = runs;
    return STATUS_OK;
}

/// Conditions while they are parsed, then applied.
typedef struct row_filter {
    const char *what;
    const table *from;
    int column; // of the piece before; -1 at the start
    int value_count;
    int *columns;        // [value_count]
    const char **values; // [value_count]
} row_filter;

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

static status add_values(row_filter *filter, char *text, error_message *err)
{
    for (char *at = text; at != NULL;) {
        char *bar = strchr(at, '|');
        if (bar != NULL) *bar = '\0';
        filter->columns[filter->value_count] = filter->column;
        filter->values[filter->value_count] = without_blanks(at);
        if (filter->values[filter->value_count][0] == '\0') {
            return error_set(err, STATUS_INVALID, "%s: no value for column '%s'", filter->what,
                             filter->from->columns[filter->column]);
        }
        filter->value_count++;
        at = bar != NULL ? bar + 1 : NULL;
    }
    return STATUS_OK;
}

static status add_piece(row_filter *filter, char *piece, error_message *err)
{
    char *sign = strchr(piece, '=');
    if (sign == NULL) {
        if (filter->column >= 0) return add_values(filter, piece, err);
        return error_set(err, STATUS_INVALID, "%s: '%.60s' is not COLUMN=VALUE", filter->what,
                         piece);
    }
    *sign = '\0';
    const char *name = without_blanks(piece);
    filter->column = named_column(filter->from, name);
    if (filter->column >= 0) return add_values(filter, sign + 1, err);
    char suggestion[TEXT_SUGGESTION_BYTES];
    return error_set(
        err, STATUS_INVALID, "%s: %s has no column '%.60s'%s", filter->what, filter->from->path,
        name, text_suggestion(name, filter->from->columns, filter->from->column_count, suggestion));
}

static status parse_conditions(const char *conditions, arena *memory, row_filter *filter,
                               error_message *err)
{
    size_t most = 1;
    for (const char *at = conditions; *at != '\0'; at++) {
        most += *at == ',' || *at == '|';
    }
    filter->columns = arena_array(memory, most, sizeof *filter->columns);
    filter->values = arena_array(memory, most, sizeof *filter->values);
    for (char *piece = arena_string(memory, conditions); piece != NULL;) {
        char *comma = strchr(piece, ',');
        if (comma != NULL) *comma = '\0';
        TRY(add_piece(filter, piece, err));
        piece = comma != NULL ? comma + 1 : NULL;
    }
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
static bool takes_column(const row_filter *filter, int row, int column)
{
    for (int index = 0; index < filter->value_count; index++) {
        if (filter->columns[index] != column) continue;
        if (is_same(table_cell(filter->from, row, column), filter->values[index])) return true;
    }
    return false;
}

static bool takes(const row_filter *filter, int row)
{
    for (int index = 0; index < filter->value_count; index++) {
        if (!takes_column(filter, row, filter->columns[index])) return false;
    }
    return true;
}

/// Says why no row matches: a value that does not occur, or else all of them together.
static status refuse(const row_filter *filter, error_message *err)
{
    const table *from = filter->from;
    for (int index = 0; index < filter->value_count; index++) {
        const int column = filter->columns[index];
        bool occurs = false;
        for (int row = 0; row < from->row_count; row++) {
            occurs = occurs || takes_column(filter, row, column);
        }
        if (occurs) continue;
        return error_set(err, STATUS_INVALID, "%s: no row has '%s' = %.60s", filter->what,
                         from->columns[column], filter->values[index]);
    }
    return error_set(err, STATUS_INVALID, "%s: no row fulfils all conditions at once",
                     filter->what);
}

status ana_rows_matching(const char *what, const char *conditions, const table *from, arena *memory,
                         int **rows, int *count, error_message *err)
{
    row_filter filter = {.what = what, .from = from, .column = -1};
    int *found = arena_array(memory, (size_t)from->row_count, sizeof *found);
    int found_count = 0;
    TRY(parse_conditions(conditions, memory, &filter, err));
    for (int row = 0; row < from->row_count; row++) {
        if (takes(&filter, row)) found[found_count++] = row;
    }
    if (found_count == 0) return refuse(&filter, err);
    *rows = found;
    *count = found_count;
    return STATUS_OK;
}

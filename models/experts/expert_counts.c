#include "models/experts/expert_counts.h"

#include "base/text.h"
#include "models/experts/counts_builder.h"
#include "models/experts/line_reader.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum { CSV_INDEX_COLUMNS = 3, COLUMN_NAME_BYTES = 32 };

/// Cuts the next field off a line; NULL behind the last.
static char *next_field(char **rest)
{
    char *field = *rest;
    if (field == NULL) return NULL;
    char *comma = strchr(field, ',');
    *rest = comma != NULL ? comma + 1 : NULL;
    if (comma != NULL) *comma = '\0';
    return field;
}

/// @param name out: [COLUMN_NAME_BYTES]
static const char *column_name(int column, char *name)
{
    static const char *const fixed[] = {"iteration", "layer", "microbatch"};
    if (column < CSV_INDEX_COLUMNS) return fixed[column];
    snprintf(name, COLUMN_NAME_BYTES, "expert_%d", column - CSV_INDEX_COLUMNS);
    return name;
}

static status check_header(const model_counts_shape *shape, const char *place, char *line,
                           error_message *err)
{
    char name[COLUMN_NAME_BYTES];
    const int columns = CSV_INDEX_COLUMNS + shape->expert_count;
    for (int column = 0; column < columns; column++) {
        const char *field = next_field(&line);
        const char *wanted = column_name(column, name);
        if (field != NULL && strcmp(field, wanted) == 0) continue;
        return error_set(err, STATUS_FORMAT, "%s: column %d is '%.40s', expected '%s' (%d experts)",
                         place, column + 1, field != NULL ? field : "", wanted,
                         shape->expert_count);
    }
    if (line == NULL) return STATUS_OK;
    return error_set(err, STATUS_FORMAT, "%s: column '%.40s' beyond the %d experts of the model",
                     place, line, shape->expert_count);
}

/// The integers of a line, each within its limits.
static status split_line(const model_counts_shape *shape, const char *place, char *line,
                         int64_t index[CSV_INDEX_COLUMNS], int32_t *tokens, error_message *err)
{
    char name[COLUMN_NAME_BYTES];
    const int64_t limit[] = {MODEL_COUNTED_ITERATION_MAX, shape->layer_count - 1,
                             shape->microbatch_count - 1};
    const int columns = CSV_INDEX_COLUMNS + shape->expert_count;
    for (int column = 0; column < columns; column++) {
        const char *field = next_field(&line);
        const char *what = column_name(column, name);
        const bool is_index = column < CSV_INDEX_COLUMNS;
        int64_t value = 0;
        if (field == NULL) {
            return error_set(err, STATUS_FORMAT, "%s: %d columns, expected %d", place, column,
                             columns);
        }
        if (text_parse_int64(field, what, 0, is_index ? limit[column] : INT32_MAX, &value, err) !=
            STATUS_OK) {
            error_prefix(err, STATUS_FORMAT, "%s", place);
            if (err != NULL) err->code = STATUS_FORMAT;
            return STATUS_FORMAT;
        }
        if (is_index) {
            index[column] = value;
        } else {
            tokens[column - CSV_INDEX_COLUMNS] = (int32_t)value;
        }
    }
    if (line == NULL) return STATUS_OK;
    return error_set(err, STATUS_FORMAT, "%s: more than %d columns", place, columns);
}

static status read_csv_lines(model_line_reader *reader, model_counts_builder *into,
                             error_message *err)
{
    const model_counts_shape *shape = into->shape;
    int32_t *tokens = arena_array(into->memory, (size_t)shape->expert_count, sizeof *tokens);
    char *line = NULL;
    TRY(model_lines_next(reader, &line, err));
    if (line == NULL) {
        return error_set(err, STATUS_FORMAT, "%s: empty file", model_lines_place(reader));
    }
    TRY(check_header(shape, model_lines_place(reader), line, err));
    TRY(model_lines_next(reader, &line, err));
    while (line != NULL) {
        int64_t index[CSV_INDEX_COLUMNS];
        const char *place = model_lines_place(reader);
        TRY(split_line(shape, place, line, index, tokens, err));
        TRY(model_counts_check_layer(shape, place, index[1], err));
        const model_counted_row row = {.place = place,
                                       .iteration = (int)index[0],
                                       .layer = (int)index[1],
                                       .microbatch = (int)index[2],
                                       .tokens = tokens};
        TRY(model_counts_add(into, &row, err));
        TRY(model_lines_next(reader, &line, err));
    }
    return STATUS_OK;
}

static status read_csv(model_line_reader *reader, const char *name, const model_counts_shape *shape,
                       arena *memory, model_expert_counts *counts, error_message *err)
{
    model_counts_builder into = {.shape = shape, .memory = memory};
    TRY(read_csv_lines(reader, &into, err));
    return model_counts_finish(&into, name, counts, err);
}

status model_expert_counts_read_csv(const char *path, const model_counts_shape *shape,
                                    arena *memory, model_expert_counts *counts, error_message *err)
{
    model_line_reader *reader = NULL;
    TRY(model_lines_open(path, &reader, err));
    const status result = read_csv(reader, path, shape, memory, counts, err);
    model_lines_close(reader);
    return result;
}

status model_expert_counts_csv_bytes(const char *name, const char *bytes, size_t length,
                                     const model_counts_shape *shape, arena *memory,
                                     model_expert_counts *counts, error_message *err)
{
    model_line_reader *reader = NULL;
    TRY(model_lines_open_bytes(name, bytes, length, &reader, err));
    const status result = read_csv(reader, name, shape, memory, counts, err);
    model_lines_close(reader);
    return result;
}

int model_expert_counts_sample(const model_expert_counts *counts, int iteration)
{
    int low = 0; // the last sample at or before iteration, or 0
    int high = counts->sample_count;
    while (high - low > 1) {
        const int middle = low + (high - low) / 2;
        if (counts->iteration[middle] <= iteration) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

const int32_t *model_expert_counts_row(const model_expert_counts *counts, int sample, int layer,
                                       int microbatch)
{
    assert(sample >= 0 && sample < counts->sample_count);
    const int column = counts->microbatch_count == 1 ? 0 : microbatch;
    const size_t row = (size_t)layer * (size_t)counts->microbatch_stride + (size_t)column;
    return counts->tokens[sample] + row * (size_t)counts->expert_count;
}

#include "models/experts/expert_counts.h"

#include "base/text.h"
#include "models/experts/line_reader.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { CSV_INDEX_COLUMNS = 3, COLUMN_NAME_BYTES = 32 };

/// Cuts the next field off a line; NULL after the last.
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
    model_line_reader *reader = model_lines_open_bytes(name, bytes, length);
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

static size_t row_index(const model_counts_shape *shape, int layer, int microbatch)
{
    return (size_t)layer * (size_t)shape->microbatch_count + (size_t)microbatch;
}

static void reserve_sample(model_counts_builder *into)
{
    if (into->count < into->capacity) return;
    const int capacity = into->capacity == 0 ? 64 : 2 * into->capacity;
    model_counts_sample *grown = arena_array(into->memory, (size_t)capacity, sizeof *grown);
    if (into->count > 0) memcpy(grown, into->samples, (size_t)into->count * sizeof *grown);
    into->samples = grown;
    into->capacity = capacity;
}

static status insert_sample(model_counts_builder *into, int at, const model_counted_row *row,
                            error_message *err)
{
    const model_counts_shape *shape = into->shape;
    const size_t rows = row_index(shape, shape->layer_count, 0);
    const size_t each = rows * (size_t)shape->expert_count;
    if (each * (size_t)(into->count + 1) > MODEL_COUNTS_MAX) {
        return error_set(err, STATUS_INVALID,
                         "%s: iteration %d brings the counts above %d; take fewer iterations",
                         row->place, row->iteration, MODEL_COUNTS_MAX);
    }
    reserve_sample(into);
    const model_counts_sample inserted = {
        .iteration = row->iteration,
        .tokens = arena_array(into->memory, each, sizeof *inserted.tokens),
        .has_row = arena_array(into->memory, rows, sizeof *inserted.has_row),
    };
    memmove(into->samples + at + 1, into->samples + at,
            (size_t)(into->count - at) * sizeof *into->samples);
    into->samples[at] = inserted;
    into->count++;
    return STATUS_OK;
}

/// How many samples come before an iteration. Files are in order, so the end is tried first.
static int count_before(const model_counts_builder *from, int iteration)
{
    int low = 0;
    int high = from->count;
    if (high > 0 && from->samples[high - 1].iteration < iteration) return high;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (from->samples[middle].iteration < iteration) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static status check_sum(const model_counts_shape *shape, const model_counted_row *row,
                        error_message *err)
{
    int64_t sum = 0;
    for (int expert = 0; expert < shape->expert_count; expert++) {
        sum += row->tokens[expert];
    }
    const int64_t stated = shape->row_tokens;
    if (sum == 0) {
        return error_set(err, STATUS_FORMAT, "%s: no expert of layer %d has a token", row->place,
                         row->layer);
    }
    if (stated == 0 || sum == stated) return STATUS_OK;
    return error_set(err, STATUS_FORMAT,
                     "%s: the experts of layer %d, microbatch %d have %" PRId64
                     " tokens together, %" PRId64 " were routed",
                     row->place, row->layer, row->microbatch, sum, stated);
}

status model_counts_check_layer(const model_counts_shape *shape, const char *place, int64_t layer,
                                error_message *err)
{
    if (layer < 0 || layer >= shape->layer_count) {
        return error_set(err, STATUS_FORMAT, "%s: layer %" PRId64 ", the model has %d", place,
                         layer, shape->layer_count);
    }
    if (shape->is_moe[layer]) return STATUS_OK;
    return error_set(err, STATUS_FORMAT, "%s: layer %" PRId64 " of the model has no experts", place,
                     layer);
}

status model_counts_add(model_counts_builder *into, const model_counted_row *row,
                        error_message *err)
{
    const model_counts_shape *shape = into->shape;
    const size_t index = row_index(shape, row->layer, row->microbatch);
    const int at = count_before(into, row->iteration);
    TRY(check_sum(shape, row, err));
    if (at == into->count || into->samples[at].iteration != row->iteration) {
        TRY(insert_sample(into, at, row, err));
    }
    model_counts_sample *to = &into->samples[at];
    if (to->has_row[index]) {
        return error_set(err, STATUS_FORMAT,
                         "%s: iteration %d, layer %d, microbatch %d occurs twice", row->place,
                         row->iteration, row->layer, row->microbatch);
    }
    to->has_row[index] = true;
    memcpy(to->tokens + index * (size_t)shape->expert_count, row->tokens,
           (size_t)shape->expert_count * sizeof *row->tokens);
    if (row->microbatch > into->last_microbatch) into->last_microbatch = row->microbatch;
    return STATUS_OK;
}

static status check_complete(const model_counts_builder *from, const char *name, int columns,
                             error_message *err)
{
    const model_counts_shape *shape = from->shape;
    for (int at = 0; at < from->count; at++) {
        for (int layer = 0; layer < shape->layer_count; layer++) {
            for (int microbatch = 0; shape->is_moe[layer] && microbatch < columns; microbatch++) {
                if (from->samples[at].has_row[row_index(shape, layer, microbatch)]) continue;
                return error_set(err, STATUS_FORMAT,
                                 "%s: iteration %d lacks layer %d, microbatch %d", name,
                                 from->samples[at].iteration, layer, microbatch);
            }
        }
    }
    return STATUS_OK;
}

status model_counts_finish(const model_counts_builder *from, const char *name,
                           model_expert_counts *counts, error_message *err)
{
    const model_counts_shape *shape = from->shape;
    const int columns = from->last_microbatch == 0 ? 1 : shape->microbatch_count;
    if (from->count == 0) {
        return error_set(err, STATUS_FORMAT, "%s: no tokens per expert in it", name);
    }
    TRY(check_complete(from, name, columns, err));
    int *iteration = arena_array(from->memory, (size_t)from->count, sizeof *iteration);
    const int32_t **tokens = arena_array(from->memory, (size_t)from->count, sizeof *tokens);
    for (int at = 0; at < from->count; at++) {
        iteration[at] = from->samples[at].iteration;
        tokens[at] = from->samples[at].tokens;
    }
    *counts = (model_expert_counts){
        .layer_count = shape->layer_count,
        .expert_count = shape->expert_count,
        .microbatch_stride = shape->microbatch_count,
        .microbatch_count = columns,
        .sample_count = from->count,
        .iteration = iteration,
        .tokens = tokens,
    };
    return STATUS_OK;
}

#include "models/experts/expert_counts.h"

#include "base/json.h"
#include "base/sorter.h"
#include "base/text.h"
#include "traces/store/stream.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { CSV_INDEX_COLUMNS = 3, COLUMN_NAME_BYTES = 32 };

enum { COUNTED_ITERATION_MAX = INT32_MAX - 1 };

/// An iteration that was counted.
typedef struct counts_sample {
    int iteration;
    int32_t *tokens; // [layer_count][M][expert_count]
    bool *has_row;   // [layer_count][M]
} counts_sample;

/// Zero-initialise all but shape and memory.
typedef struct counts_builder {
    const model_counts_shape *shape;
    arena *memory;          // of the table
    counts_sample *samples; // [count] ascending
    int count;
    int last_microbatch; // of any row
} counts_builder;

/// A row with its place.
typedef struct counted_row {
    const char *place;     // file and line
    int iteration;         // in [0, COUNTED_ITERATION_MAX]
    int layer;             // with experts: check_layer
    int microbatch;        // in [0, M)
    const int32_t *tokens; // [expert_count] >= 0
} counted_row;

static size_t row_index(const model_counts_shape *shape, int layer, int microbatch)
{
    return (size_t)layer * (size_t)shape->microbatch_count + (size_t)microbatch;
}

static status insert_sample(counts_builder *into, int at, const counted_row *row,
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
    into->samples =
        arena_grow(into->memory, into->samples, (size_t)into->count, sizeof *into->samples);
    const counts_sample inserted = {
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

static int compare_iteration(const void *sample, const void *iteration)
{
    const int one = ((const counts_sample *)sample)->iteration;
    const int other = *(const int *)iteration;
    return (one > other) - (one < other);
}

/// How many samples come before an iteration. Files are in order, so the end is tried first.
static int count_before(const counts_builder *from, int iteration)
{
    const int count = from->count;
    if (count > 0 && from->samples[count - 1].iteration < iteration) return count;
    return (int)sorted_place(from->samples, (size_t)count, sizeof *from->samples, &iteration,
                             compare_iteration);
}

static int64_t row_sum(const int32_t *tokens, int expert_count)
{
    int64_t sum = 0;
    for (int expert = 0; expert < expert_count; expert++) {
        sum += tokens[expert];
    }
    return sum;
}

static status check_sum(const model_counts_shape *shape, const counted_row *row, error_message *err)
{
    const int64_t sum = row_sum(row->tokens, shape->expert_count);
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

static status check_layer(const model_counts_shape *shape, const char *place, int64_t layer,
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

static status add_row(counts_builder *into, const counted_row *row, error_message *err)
{
    const model_counts_shape *shape = into->shape;
    const size_t index = row_index(shape, row->layer, row->microbatch);
    const int at = count_before(into, row->iteration);
    TRY(check_sum(shape, row, err));
    if (at == into->count || into->samples[at].iteration != row->iteration) {
        TRY(insert_sample(into, at, row, err));
    }
    counts_sample *to = &into->samples[at];
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

static status check_complete(const counts_builder *from, const char *name, int columns,
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

/// What the experts of a layer have together, microbatch by microbatch.
typedef struct layer_totals {
    int64_t total; // of the microbatch at hand; 0: the layer has no experts
    int alike;     // microbatches in which it is the one that layers share
    int iteration; // of the first microbatch in which tokens have come back
    int microbatch;
    int64_t risen; // the total there; 0: nowhere
    int64_t shared;
} layer_totals;

static bool is_most(int part, int whole)
{
    return (int64_t)part * 4 >= (int64_t)whole * 3;
}

/// The total that most layers with experts share; 0: there is none.
static int64_t shared_total(const layer_totals *layers, int layer_count)
{
    int64_t shared = 0;
    int lead = 0; // a total of more than half the layers is what leads in the end
    int alike = 0;
    int count = 0;
    for (int layer = 0; layer < layer_count; layer++) {
        const int64_t total = layers[layer].total;
        if (total == 0) continue;
        if (lead == 0) shared = total;
        lead += total == shared ? 1 : -1;
    }
    for (int layer = 0; layer < layer_count; layer++) {
        count += layers[layer].total > 0;
        alike += layers[layer].total == shared;
    }
    return count > 0 && is_most(alike, count) ? shared : 0;
}

/// Compares the layers of the microbatch at hand, and notes the one that has risen where it is
/// alone.
static void compare_layers(layer_totals *layers, int layer_count, int iteration, int microbatch)
{
    const int64_t shared = shared_total(layers, layer_count);
    layer_totals *risen = NULL;
    int risen_count = 0;
    bool was_shared = false;
    for (int layer = 0; layer < layer_count; layer++) {
        layer_totals *each = &layers[layer];
        const bool is_alike = shared > 0 && each->total == shared;
        const bool has_risen = was_shared && each->total > shared;
        each->alike += is_alike;
        was_shared = was_shared || is_alike;
        risen_count += has_risen;
        if (has_risen) risen = each;
    }
    if (risen_count != 1 || risen->risen > 0) return;
    risen->iteration = iteration;
    risen->microbatch = microbatch;
    risen->risen = risen->total;
    risen->shared = shared;
}

/// The same tokens pass all layers, each to as many experts, so the totals of a microbatch are
/// alike. Where tokens are dropped or leave early they are smaller; padded to a capacity or summed
/// over ranks, all are larger. Layers that some tokens pass by have fewer in every microbatch, and
/// stages whose files are of other replicas differ in all of their layers. None of these is
/// refused: only a total above the one that three quarters of the layers share, one before it among
/// them, of the only layer that has risen, which has the shared one in three quarters of its
/// microbatches.
static status check_totals(const counts_builder *from, const char *name, int columns,
                           error_message *err)
{
    const model_counts_shape *shape = from->shape;
    layer_totals *layers = arena_array(from->memory, (size_t)shape->layer_count, sizeof *layers);
    for (int at = 0; at < from->count; at++) {
        const counts_sample *sample = &from->samples[at];
        for (int microbatch = 0; microbatch < columns; microbatch++) {
            for (int layer = 0; layer < shape->layer_count; layer++) {
                const int32_t *tokens = sample->tokens + row_index(shape, layer, microbatch) *
                                                             (size_t)shape->expert_count;
                layers[layer].total = row_sum(tokens, shape->expert_count);
            }
            compare_layers(layers, shape->layer_count, sample->iteration, microbatch);
        }
    }
    for (int layer = 0; layer < shape->layer_count; layer++) {
        const layer_totals *each = &layers[layer];
        if (each->risen == 0 || !is_most(each->alike, from->count * columns)) continue;
        return error_set(err, STATUS_FORMAT,
                         "%s: the experts of iteration %d, layer %d, microbatch %d have %" PRId64
                         " tokens together, those of most layers %" PRId64,
                         name, each->iteration, layer, each->microbatch, each->risen, each->shared);
    }
    return STATUS_OK;
}

static status finish(const counts_builder *from, const char *name, model_expert_counts *counts,
                     error_message *err)
{
    const model_counts_shape *shape = from->shape;
    const int columns = from->last_microbatch == 0 ? 1 : shape->microbatch_count;
    if (from->count == 0) {
        return error_set(err, STATUS_FORMAT, "%s: no tokens per expert in it", name);
    }
    TRY(check_complete(from, name, columns, err));
    TRY(check_totals(from, name, columns, err));
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
    const int64_t limit[] = {COUNTED_ITERATION_MAX, shape->layer_count - 1,
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

static status read_csv_lines(trace_lines *reader, counts_builder *into, error_message *err)
{
    const model_counts_shape *shape = into->shape;
    int32_t *tokens = arena_array(into->memory, (size_t)shape->expert_count, sizeof *tokens);
    char *line = NULL;
    TRY(trace_lines_next(reader, &line, err));
    if (line == NULL) {
        return error_set(err, STATUS_FORMAT, "%s: empty file", trace_lines_place(reader));
    }
    TRY(check_header(shape, trace_lines_place(reader), line, err));
    TRY(trace_lines_next(reader, &line, err));
    while (line != NULL) {
        int64_t index[CSV_INDEX_COLUMNS];
        const char *place = trace_lines_place(reader);
        TRY(split_line(shape, place, line, index, tokens, err));
        TRY(check_layer(shape, place, index[1], err));
        const counted_row row = {.place = place,
                                 .iteration = (int)index[0],
                                 .layer = (int)index[1],
                                 .microbatch = (int)index[2],
                                 .tokens = tokens};
        TRY(add_row(into, &row, err));
        TRY(trace_lines_next(reader, &line, err));
    }
    return STATUS_OK;
}

status model_expert_counts_read_csv(const char *path, const model_counts_shape *shape,
                                    arena *memory, model_expert_counts *counts, error_message *err)
{
    trace_lines *reader = NULL;
    counts_builder into = {.shape = shape, .memory = memory};
    TRY(trace_lines_open_path(path, &reader, err));
    const status result = read_csv_lines(reader, &into, err);
    trace_lines_close(reader);
    TRY(result);
    return finish(&into, path, counts, err);
}

static int compare_begun(const void *sample, const void *iteration)
{
    return *(const int *)sample <= *(const int *)iteration ? -1 : 1;
}

int model_expert_counts_sample(const model_expert_counts *counts, int iteration)
{
    const size_t begun = sorted_place(counts->iteration, (size_t)counts->sample_count,
                                      sizeof *counts->iteration, &iteration, compare_begun);
    return begun > 0 ? (int)begun - 1 : 0;
}

const int32_t *model_expert_counts_row(const model_expert_counts *counts, int sample, int layer,
                                       int microbatch)
{
    assert(sample >= 0 && sample < counts->sample_count);
    const int column = counts->microbatch_count == 1 ? 0 : microbatch;
    const size_t row = (size_t)layer * (size_t)counts->microbatch_stride + (size_t)column;
    return counts->tokens[sample] + row * (size_t)counts->expert_count;
}

// Megatron-LM's tokens per expert: JSON lines of several ranks, side by side.

/// A line of one rank.
typedef struct rank_line {
    int iteration;
    int layer; // within the stage
    int row_count;
    int local_count; // experts of the rank
    int32_t *rows;   // [row_count][local_count]
} rank_line;

/// @param local_count 0: as many as the first row has
static status read_rank_rows(json_value tpe, int local_count, arena *scratch, rank_line *line,
                             error_message *err)
{
    const int row_count = json_count(tpe);
    if (local_count == 0) local_count = json_count(json_element(tpe, 0));
    if (!json_is_array(tpe) || row_count < 1 || local_count < 1) {
        return json_error(tpe, STATUS_FORMAT, err, "not an array of microbatches");
    }
    int32_t *rows = arena_array(scratch, (size_t)row_count * (size_t)local_count, sizeof *rows);
    int64_t *numbers = arena_array(scratch, (size_t)local_count, sizeof *numbers);
    json_value row = json_element(tpe, 0);
    for (int at = 0; at < row_count; at++) {
        TRY(json_int64_array(row, local_count, 0, INT32_MAX, numbers, err));
        for (int expert = 0; expert < local_count; expert++) {
            rows[(size_t)at * (size_t)local_count + (size_t)expert] = (int32_t)numbers[expert];
        }
        row = json_next(row);
    }
    line->row_count = row_count;
    line->local_count = local_count;
    line->rows = rows;
    return STATUS_OK;
}

/// @param is_decoder out: false for other blocks, of which nothing else is read
static status read_object(json_value object, int local_count, arena *scratch, rank_line *line,
                          bool *is_decoder, error_message *err)
{
    const char *block = NULL;
    if (!json_is_object(object)) return json_error(object, STATUS_FORMAT, err, "not an object");
    TRY(json_string(json_member(object, "block"), &block, err));
    *is_decoder = strcmp(block, "decoder") == 0;
    if (!*is_decoder) return STATUS_OK;
    TRY(json_int(json_member(object, "iter"), 0, COUNTED_ITERATION_MAX, &line->iteration, err));
    TRY(json_int(json_member(object, "layer"), 0, INT32_MAX, &line->layer, err));
    return read_rank_rows(json_member(object, "tpe"), local_count, scratch, line, err);
}

/// Reads lines until one of a decoder layer.
///
/// @param found out: false at the end of the file
static status next_rank_line(trace_lines *reader, int local_count, arena *scratch, rank_line *line,
                             bool *found, error_message *err)
{
    *found = false;
    while (!*found) {
        char *text = NULL;
        json_document *document = NULL;
        TRY(trace_lines_next(reader, &text, err));
        if (text == NULL) return STATUS_OK;
        if (text[strspn(text, " \t")] == '\0') continue;
        const char *place = trace_lines_place(reader);
        if (json_open_bytes(place, text, strlen(text), &document, err) != STATUS_OK) {
            if (!trace_lines_is_cut(reader)) return err != NULL ? err->code : STATUS_FORMAT;
            return error_set(err, STATUS_FORMAT, "%s: the file ends within a line", place);
        }
        const status result =
            read_object(json_root(document), local_count, scratch, line, found, err);
        json_close(document);
        TRY(result);
    }
    return STATUS_OK;
}

/// Files of one stage, read side by side.
typedef struct stage_files {
    const model_count_stage *stage;
    trace_lines **readers; // [reader_count]
    int reader_count;
    int local_count;
    arena *scratch; // of one line
} stage_files;

/// Puts the experts of the ranks next to each other.
///
/// @param rows [row_count][expert_count] out
static void join_rank(const rank_line *line, int rank, int expert_count, int32_t *rows)
{
    for (int row = 0; row < line->row_count; row++) {
        memcpy(rows + (size_t)row * (size_t)expert_count + (size_t)rank * (size_t)line->local_count,
               line->rows + (size_t)row * (size_t)line->local_count,
               (size_t)line->local_count * sizeof *rows);
    }
}

static status check_rank(const rank_line *first, const rank_line *line, const char *first_place,
                         const char *place, error_message *err)
{
    if (line->iteration == first->iteration && line->layer == first->layer &&
        line->row_count == first->row_count) {
        return STATUS_OK;
    }
    return error_set(err, STATUS_FORMAT,
                     "%s: iteration %d, layer %d, %d microbatches do not go with %s: iteration %d, "
                     "layer %d, %d microbatches",
                     place, line->iteration, line->layer, line->row_count, first_place,
                     first->iteration, first->layer, first->row_count);
}

/// Reads the next line of every rank.
///
/// @param joined out: all experts of one layer; carved from the files' scratch
static status next_joined(const stage_files *files, int expert_count, rank_line *joined,
                          bool *found, error_message *err)
{
    int32_t *rows = NULL;
    arena_reset(files->scratch);
    for (int rank = 0; rank < files->reader_count; rank++) {
        rank_line line = {0};
        bool has_line = false;
        TRY(next_rank_line(files->readers[rank], files->local_count, files->scratch, &line,
                           &has_line, err));
        const char *place = trace_lines_place(files->readers[rank]);
        if (rank == 0) {
            *found = has_line;
            *joined = line;
            if (!has_line) continue;
            rows = arena_array(files->scratch, (size_t)line.row_count * (size_t)expert_count,
                               sizeof *rows);
        }
        if (has_line != *found) {
            return error_set(err, STATUS_FORMAT,
                             "%s: ends %s the file of the first expert rank, %s", place,
                             has_line ? "after" : "before", trace_lines_place(files->readers[0]));
        }
        if (!has_line) continue;
        TRY(check_rank(joined, &line, trace_lines_place(files->readers[0]), place, err));
        join_rank(&line, rank, expert_count, rows);
    }
    joined->rows = rows;
    joined->local_count = expert_count;
    return STATUS_OK;
}

/// Takes repetitions out: rows [2 * count] become rows [count].
///
/// @return false if they are no pairs
static bool drop_repetitions(int32_t *rows, int row_count, int expert_count)
{
    const size_t bytes = (size_t)expert_count * sizeof *rows;
    int kept = 0;
    int repeated = 0; // of the kept ones, the oldest first
    for (int row = 0; row < row_count; row++) {
        const int32_t *here = rows + (size_t)row * (size_t)expert_count;
        if (repeated < kept &&
            memcmp(rows + (size_t)repeated * (size_t)expert_count, here, bytes) == 0) {
            repeated++;
            continue;
        }
        memmove(rows + (size_t)kept * (size_t)expert_count, here, bytes);
        kept++;
    }
    return repeated == kept;
}

static status add_joined(counts_builder *into, const stage_files *files, const rank_line *joined,
                         error_message *err)
{
    const model_counts_shape *shape = into->shape;
    const char *place = trace_lines_place(files->readers[0]);
    const int microbatches = shape->microbatch_count;
    const int64_t layer = (int64_t)files->stage->first_layer + joined->layer;
    TRY(check_layer(shape, place, layer, err));
    if (joined->row_count != microbatches && joined->row_count / 2 != microbatches) {
        return error_set(err, STATUS_FORMAT,
                         "%s: %d microbatches, the training has %d (or twice as many lines with "
                         "recomputation)",
                         place, joined->row_count, microbatches);
    }
    if (joined->row_count != microbatches &&
        (joined->row_count % 2 != 0 ||
         !drop_repetitions(joined->rows, joined->row_count, shape->expert_count))) {
        return error_set(err, STATUS_FORMAT,
                         "%s: %d microbatches are not %d that recomputation has repeated", place,
                         joined->row_count, microbatches);
    }
    for (int microbatch = 0; microbatch < microbatches; microbatch++) {
        const counted_row row = {
            .place = place,
            .iteration = joined->iteration,
            .layer = (int)layer,
            .microbatch = microbatch,
            .tokens = joined->rows + (size_t)microbatch * (size_t)shape->expert_count,
        };
        TRY(add_row(into, &row, err));
    }
    return STATUS_OK;
}

static status read_stage(counts_builder *into, const stage_files *files, error_message *err)
{
    bool found = true;
    while (found) {
        rank_line joined = {0};
        TRY(next_joined(files, into->shape->expert_count, &joined, &found, err));
        if (found) TRY(add_joined(into, files, &joined, err));
    }
    return STATUS_OK;
}

static status check_stage(const model_count_stage *stage, const model_counts_shape *shape,
                          error_message *err)
{
    assert(stage->path_count >= 1 && stage->path_count <= MODEL_COUNT_FILES_MAX);
    if (shape->expert_count % stage->path_count == 0) return STATUS_OK;
    return error_set(err, STATUS_FORMAT, "%s: %d files cannot share %d experts", stage->paths[0],
                     stage->path_count, shape->expert_count);
}

/// Opens the files of a stage, reads them and closes them.
static status read_stage_files(counts_builder *into, const model_count_stage *stage, arena *scratch,
                               error_message *err)
{
    trace_lines *readers[MODEL_COUNT_FILES_MAX];
    stage_files files = {.stage = stage, .readers = readers, .scratch = scratch};
    TRY(check_stage(stage, into->shape, err));
    files.local_count = into->shape->expert_count / stage->path_count;
    status result = STATUS_OK;
    while (result == STATUS_OK && files.reader_count < stage->path_count) {
        result = trace_lines_open_path(stage->paths[files.reader_count],
                                       &readers[files.reader_count], err);
        if (result == STATUS_OK) files.reader_count++;
    }
    if (result == STATUS_OK) result = read_stage(into, &files, err);
    for (int reader = 0; reader < files.reader_count; reader++) {
        trace_lines_close(readers[reader]);
    }
    return result;
}

status model_expert_counts_read_megatron(const model_count_stage *stages, int stage_count,
                                         const model_counts_shape *shape, arena *memory,
                                         model_expert_counts *counts, error_message *err)
{
    counts_builder into = {.shape = shape, .memory = memory};
    arena *scratch = arena_create(1 << 16);
    assert(stage_count >= 1);
    status result = STATUS_OK;
    for (int stage = 0; result == STATUS_OK && stage < stage_count; stage++) {
        result = read_stage_files(&into, &stages[stage], scratch, err);
    }
    arena_destroy(scratch);
    TRY(result);
    return finish(&into, stages[0].paths[0], counts, err);
}

static status read_outline(trace_lines *reader, arena *scratch, model_counts_outline *found,
                           error_message *err)
{
    for (bool has_line = true; has_line; arena_reset(scratch)) {
        rank_line line = {0};
        TRY(next_rank_line(reader, found->local_count, scratch, &line, &has_line, err));
        if (!has_line) break;
        if (line.iteration > found->last_iteration) found->last_iteration = line.iteration;
        if (found->local_count > 0) continue;
        const bool is_repeated = line.row_count % 2 == 0 &&
                                 drop_repetitions(line.rows, line.row_count, line.local_count);
        found->microbatch_count = is_repeated ? line.row_count / 2 : line.row_count;
        found->local_count = line.local_count;
    }
    return STATUS_OK;
}

status model_counts_outline_read(const char *path, model_counts_outline *outline,
                                 error_message *err)
{
    trace_lines *reader = NULL;
    model_counts_outline found = {0};
    TRY(trace_lines_open_path(path, &reader, err));
    arena *scratch = arena_create(1 << 16);
    const status result = read_outline(reader, scratch, &found, err);
    arena_destroy(scratch);
    trace_lines_close(reader);
    TRY(result);
    if (found.local_count == 0) {
        return error_set(err, STATUS_FORMAT, "%.200s: no counts of a decoder layer", path);
    }
    *outline = found;
    return STATUS_OK;
}

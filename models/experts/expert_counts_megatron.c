/// Megatron-LM's tokens per expert: JSON lines of several ranks, side by side.
#include "base/json.h"
#include "models/experts/expert_counts.h"
#include "models/experts/line_reader.h"

#include <assert.h>
#include <string.h>

/// A line of one rank.
typedef struct rank_line {
    int iteration;
    int layer; // within the stage
    int row_count;
    int local_count; // experts of the rank
    int32_t *rows;   // [row_count][local_count]
} rank_line;

static status read_rows(json_value tpe, int local_count, arena *scratch, rank_line *line,
                        error_message *err)
{
    const int row_count = json_count(tpe);
    if (!json_is_array(tpe) || row_count < 1) {
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
    TRY(json_int(json_member(object, "iter"), 0, MODEL_COUNTED_ITERATION_MAX, &line->iteration,
                 err));
    TRY(json_int(json_member(object, "layer"), 0, INT32_MAX, &line->layer, err));
    return read_rows(json_member(object, "tpe"), local_count, scratch, line, err);
}

/// Reads lines until one of a decoder layer.
///
/// @param found out: false at the end of the file
static status next_rank_line(model_line_reader *reader, int local_count, arena *scratch,
                             rank_line *line, bool *found, error_message *err)
{
    *found = false;
    while (!*found) {
        char *text = NULL;
        json_document *document = NULL;
        TRY(model_lines_next(reader, &text, err));
        if (text == NULL) return STATUS_OK;
        if (text[strspn(text, " \t")] == '\0') continue;
        const char *place = model_lines_place(reader);
        if (json_open_bytes(place, text, strlen(text), &document, err) != STATUS_OK) {
            if (!model_lines_is_cut(reader)) return err != NULL ? err->code : STATUS_FORMAT;
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
    model_line_reader **readers; // [reader_count]
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
        const char *place = model_lines_place(files->readers[rank]);
        TRY(next_rank_line(files->readers[rank], files->local_count, files->scratch, &line,
                           &has_line, err));
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
                             has_line ? "after" : "before", model_lines_place(files->readers[0]));
        }
        if (!has_line) continue;
        TRY(check_rank(joined, &line, model_lines_place(files->readers[0]), place, err));
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

static status add_joined(model_counts_builder *into, const stage_files *files,
                         const rank_line *joined, error_message *err)
{
    const model_counts_shape *shape = into->shape;
    const char *place = model_lines_place(files->readers[0]);
    const int microbatches = shape->microbatch_count;
    const int64_t layer = (int64_t)files->stage->first_layer + joined->layer;
    TRY(model_counts_check_layer(shape, place, layer, err));
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
        const model_counted_row row = {
            .place = place,
            .iteration = joined->iteration,
            .layer = (int)layer,
            .microbatch = microbatch,
            .tokens = joined->rows + (size_t)microbatch * (size_t)shape->expert_count,
        };
        TRY(model_counts_add(into, &row, err));
    }
    return STATUS_OK;
}

static status read_stage(model_counts_builder *into, const stage_files *files, error_message *err)
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
static status read_stage_files(model_counts_builder *into, const model_count_stage *stage,
                               arena *scratch, error_message *err)
{
    model_line_reader *readers[MODEL_COUNT_FILES_MAX];
    stage_files files = {.stage = stage, .readers = readers, .scratch = scratch};
    TRY(check_stage(stage, into->shape, err));
    files.local_count = into->shape->expert_count / stage->path_count;
    status result = STATUS_OK;
    while (result == STATUS_OK && files.reader_count < stage->path_count) {
        result =
            model_lines_open(stage->paths[files.reader_count], &readers[files.reader_count], err);
        if (result == STATUS_OK) files.reader_count++;
    }
    if (result == STATUS_OK) result = read_stage(into, &files, err);
    for (int reader = 0; reader < files.reader_count; reader++) {
        model_lines_close(readers[reader]);
    }
    return result;
}

status model_expert_counts_read_megatron(const model_count_stage *stages, int stage_count,
                                         const model_counts_shape *shape, arena *memory,
                                         model_expert_counts *counts, error_message *err)
{
    model_counts_builder into = {.shape = shape, .memory = memory};
    arena *scratch = arena_create(1 << 16);
    assert(stage_count >= 1);
    status result = STATUS_OK;
    for (int stage = 0; result == STATUS_OK && stage < stage_count; stage++) {
        result = read_stage_files(&into, &stages[stage], scratch, err);
    }
    arena_destroy(scratch);
    TRY(result);
    return model_counts_finish(&into, stages[0].paths[0], counts, err);
}

status model_expert_counts_megatron_bytes(const char *name, const char *bytes, size_t length,
                                          const model_counts_shape *shape, arena *memory,
                                          model_expert_counts *counts, error_message *err)
{
    const model_count_stage stage = {.paths = &name, .path_count = 1};
    model_counts_builder into = {.shape = shape, .memory = memory};
    model_line_reader *reader = model_lines_open_bytes(name, bytes, length);
    const stage_files files = {.stage = &stage,
                               .readers = &reader,
                               .reader_count = 1,
                               .local_count = shape->expert_count,
                               .scratch = arena_create(1 << 16)};
    const status result = read_stage(&into, &files, err);
    model_lines_close(reader);
    arena_destroy(files.scratch);
    TRY(result);
    return model_counts_finish(&into, name, counts, err);
}

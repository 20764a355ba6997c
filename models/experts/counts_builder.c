#include "models/experts/counts_builder.h"

#include <inttypes.h>
#include <string.h>

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
    if (stated == 0 || sum == stated || (shape->may_drop && sum < stated)) return STATUS_OK;
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

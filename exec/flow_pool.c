#include "exec/flow_pool.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { NO_STAGE = -1 };

static size_t value_count(const exec_flow_pool *pool)
{
    return (size_t)pool->row_count * (size_t)pool->width;
}

status exec_flow_pool_init(exec_flow_pool *pool, const exec_model *model, exec_kernels *kernels,
                           error_message *err)
{
    *pool = (exec_flow_pool){.kernels = kernels,
                             .row_count = model->microbatch_size * model->sequence_length,
                             .width = model->width,
                             .sends_live = model->mechanism == EXEC_EARLY_EXIT};
    const size_t bytes = value_count(pool) * sizeof(float);
    void *rows = NULL;
    if (kernels->table->value_bytes != (int)sizeof(float)) {
        const status result = kernels->table->allocate(kernels, bytes, &rows, err);
        if (result != STATUS_OK) {
            *pool = (exec_flow_pool){0};
            return result;
        }
    }
    pool->rows = rows;
    return STATUS_OK;
}

static void destroy_buffer(exec_flow_pool *pool, exec_flow_buffer *buffer)
{
    if (buffer->values != NULL) pool->kernels->table->release(pool->kernels, buffer->values);
    free(buffer->is_live);
    free(buffer);
}

void exec_flow_pool_reset(exec_flow_pool *pool)
{
    for (int index = 0; index < pool->buffer_count; index++) {
        destroy_buffer(pool, pool->buffers[index]);
    }
    free(pool->buffers);
    if (pool->rows != NULL) pool->kernels->table->release(pool->kernels, pool->rows);
    *pool = (exec_flow_pool){0};
}

static status create_buffer(exec_flow_pool *pool, exec_flow_buffer **out, error_message *err)
{
    exec_flow_buffer *buffer = calloc(1, sizeof *buffer);
    if (buffer == NULL) return error_set(err, STATUS_NO_MEMORY, "out of memory for a microbatch");
    buffer->stage = NO_STAGE;
    buffer->is_live = malloc((size_t)pool->row_count);
    const size_t bytes = value_count(pool) * (size_t)pool->kernels->table->value_bytes;
    status result = STATUS_OK;
    if (buffer->is_live == NULL) {
        result = error_set(err, STATUS_NO_MEMORY, "out of memory for %d tokens", pool->row_count);
    } else {
        result = pool->kernels->table->allocate(pool->kernels, bytes, &buffer->values, err);
    }
    if (result != STATUS_OK) {
        destroy_buffer(pool, buffer);
        return result;
    }
    *out = buffer;
    return STATUS_OK;
}

status exec_flow_pool_take(exec_flow_pool *pool, exec_flow_buffer **buffer, error_message *err)
{
    for (int index = 0; index < pool->buffer_count; index++) {
        if (pool->buffers[index]->stage == NO_STAGE) {
            *buffer = pool->buffers[index];
            return STATUS_OK;
        }
    }
    const size_t count = (size_t)pool->buffer_count + 1;
    exec_flow_buffer **buffers = realloc(pool->buffers, count * sizeof *buffers);
    if (buffers == NULL) {
        return error_set(err, STATUS_NO_MEMORY, "out of memory for %zu microbatches", count);
    }
    pool->buffers = buffers;
    TRY(create_buffer(pool, &buffers[pool->buffer_count], err));
    *buffer = buffers[pool->buffer_count++];
    return STATUS_OK;
}

exec_flow_buffer *exec_flow_pool_find(const exec_flow_pool *pool, int stage, int microbatch,
                                      bool is_backward)
{
    for (int index = 0; index < pool->buffer_count; index++) {
        exec_flow_buffer *buffer = pool->buffers[index];
        if (buffer->stage == stage && buffer->microbatch == microbatch &&
            buffer->is_backward == is_backward) {
            return buffer;
        }
    }
    assert(false && "the stage before has left its output");
    return NULL;
}

void exec_flow_pool_clear(exec_flow_pool *pool)
{
    for (int index = 0; index < pool->buffer_count; index++) {
        pool->buffers[index]->stage = NO_STAGE;
    }
}

int64_t exec_flow_pool_packed_bytes(const exec_flow_pool *pool, bool is_backward)
{
    const size_t rows = value_count(pool) * sizeof(float);
    const bool has_live = pool->sends_live && !is_backward;
    return (int64_t)(rows + (has_live ? (size_t)pool->row_count : 0));
}

void exec_flow_pool_pack(exec_flow_pool *pool, const exec_flow_buffer *buffer, bool is_backward,
                         void *bytes)
{
    exec_kernels *kernels = pool->kernels;
    const size_t row_bytes = value_count(pool) * sizeof(float);
    const void *rows = buffer->values;
    if (pool->rows != NULL) {
        kernels->table->to_floats(kernels, buffer->values, pool->rows, value_count(pool));
        rows = pool->rows;
    }
    kernels->table->to_host(kernels, bytes, rows, row_bytes);
    if (pool->sends_live && !is_backward) {
        memcpy((char *)bytes + row_bytes, buffer->is_live, (size_t)pool->row_count);
    }
}

void exec_flow_pool_unpack(exec_flow_pool *pool, const void *bytes, bool is_backward,
                           exec_flow_buffer *buffer)
{
    exec_kernels *kernels = pool->kernels;
    const size_t row_bytes = value_count(pool) * sizeof(float);
    if (pool->rows != NULL) {
        kernels->table->to_device(kernels, pool->rows, bytes, row_bytes);
        kernels->table->to_values(kernels, pool->rows, buffer->values, value_count(pool));
    } else {
        kernels->table->to_device(kernels, buffer->values, bytes, row_bytes);
    }
    if (is_backward) return;
    if (pool->sends_live) {
        memcpy(buffer->is_live, (const char *)bytes + row_bytes, (size_t)pool->row_count);
    } else {
        memset(buffer->is_live, 1, (size_t)pool->row_count);
    }
}

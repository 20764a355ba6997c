#include "base/arena.h"
#include "exec/training/training_device_parts.h"

#include <assert.h>
#include <stdlib.h>

enum { NO_STAGE = -1, LEFT_ALIGNMENT = 16 };

/// Of the rows of a microbatch.
static size_t value_bytes(const exec_flow_pool *pool)
{
    return (size_t)pool->row_count * (size_t)pool->width *
           (size_t)pool->kernels->table->value_bytes;
}

/// Of the bytes that say who has left, after the values; so many that copies stay wide.
static size_t left_bytes(const exec_flow_pool *pool)
{
    const size_t rows = (size_t)pool->row_count;
    return pool->sends_left ? (rows + LEFT_ALIGNMENT - 1) / LEFT_ALIGNMENT * LEFT_ALIGNMENT : 0;
}

/// Of what goes from stage to stage.
static size_t sent_bytes(const exec_flow_pool *pool, bool is_backward)
{
    return value_bytes(pool) + (is_backward ? 0 : left_bytes(pool));
}

void exec_flow_pool_init(exec_flow_pool *pool, const exec_model *model, exec_kernels *kernels,
                         bool hands_over)
{
    *pool = (exec_flow_pool){.kernels = kernels,
                             .row_count = exec_model_row_count(model),
                             .width = model->width,
                             .sends_left = model->mechanism == EXEC_EARLY_EXIT,
                             .hands_over = hands_over};
}

void exec_flow_pool_reset(exec_flow_pool *pool)
{
    for (int index = 0; index < pool->buffer_count; index++) {
        pool->kernels->table->release(pool->kernels, pool->buffers[index]->values);
        free(pool->buffers[index]);
    }
    free(pool->buffers);
    *pool = (exec_flow_pool){0};
}

exec_flow_buffer *exec_flow_pool_take(exec_flow_pool *pool)
{
    for (int index = 0; index < pool->buffer_count; index++) {
        if (pool->buffers[index]->stage == NO_STAGE) return pool->buffers[index];
    }
    exec_flow_buffer *buffer = memory_array(1, sizeof *buffer);
    buffer->stage = NO_STAGE;
    buffer->values = pool->kernels->table->allocate(pool->kernels, sent_bytes(pool, false));
    if (pool->sends_left) buffer->has_left = (uint8_t *)buffer->values + value_bytes(pool);
    pool->buffers =
        memory_grow(pool->buffers, (size_t)pool->buffer_count, sizeof(exec_flow_buffer *));
    pool->buffers[pool->buffer_count++] = buffer;
    return buffer;
}

void exec_flow_pool_fill(const exec_flow_pool *pool, exec_flow_buffer *buffer)
{
    if (pool->sends_left) {
        pool->kernels->table->clear(pool->kernels, buffer->has_left, left_bytes(pool));
    }
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
    return (int64_t)(pool->hands_over ? sizeof(exec_handover) : sent_bytes(pool, is_backward));
}

int64_t exec_flow_pool_row_bytes(const exec_flow_pool *pool)
{
    return (int64_t)value_bytes(pool);
}

status exec_flow_pool_pack(exec_flow_pool *pool, const exec_flow_buffer *buffer, bool is_backward,
                           void *bytes, error_message *err)
{
    exec_kernels *kernels = pool->kernels;
    const size_t count = sent_bytes(pool, is_backward);
    if (pool->hands_over) return kernels->table->offer(kernels, buffer->values, count, bytes, err);
    kernels->table->to_host(kernels, bytes, buffer->values, count);
    return STATUS_OK;
}

status exec_flow_pool_unpack(exec_flow_pool *pool, const void *bytes, bool is_backward,
                             exec_flow_buffer *buffer, error_message *err)
{
    exec_kernels *kernels = pool->kernels;
    if (pool->hands_over) return kernels->table->take(kernels, bytes, buffer->values, err);
    kernels->table->to_device(kernels, buffer->values, bytes, sent_bytes(pool, is_backward));
    return STATUS_OK;
}

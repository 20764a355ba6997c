#include "exec/training/flow_pool.h"
#include "base/arena.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { NO_STAGE = -1 };

/// Of the rows of a microbatch.
static size_t value_bytes(const exec_flow_pool *pool)
{
    return (size_t)pool->row_count * (size_t)pool->width *
           (size_t)pool->kernels->table->value_bytes;
}

void exec_flow_pool_init(exec_flow_pool *pool, const exec_model *model, exec_kernels *kernels,
                         bool hands_over)
{
    *pool = (exec_flow_pool){.kernels = kernels,
                             .row_count = exec_model_row_count(model),
                             .width = model->width,
                             .sends_live = model->mechanism == EXEC_EARLY_EXIT,
                             .hands_over = hands_over};
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
    *pool = (exec_flow_pool){0};
}

static status create_buffer(exec_flow_pool *pool, exec_flow_buffer **out, error_message *err)
{
    exec_flow_buffer *buffer = memory_array(1, sizeof *buffer);
    buffer->stage = NO_STAGE;
    buffer->is_live = memory_array(1, (size_t)pool->row_count);
    const status result =
        pool->kernels->table->allocate(pool->kernels, value_bytes(pool), &buffer->values, err);
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
    TRY(create_buffer(pool, buffer, err));
    pool->buffers =
        memory_grow(pool->buffers, (size_t)pool->buffer_count, sizeof(exec_flow_buffer *));
    pool->buffers[pool->buffer_count++] = *buffer;
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

/// Of the rows, or of what describes them; after it is_live is packed.
static size_t packed_row_bytes(const exec_flow_pool *pool)
{
    return pool->hands_over ? sizeof(exec_handover) : value_bytes(pool);
}

int64_t exec_flow_pool_packed_bytes(const exec_flow_pool *pool, bool is_backward)
{
    const bool has_live = pool->sends_live && !is_backward;
    return (int64_t)(packed_row_bytes(pool) + (has_live ? (size_t)pool->row_count : 0));
}

int64_t exec_flow_pool_row_bytes(const exec_flow_pool *pool)
{
    return (int64_t)value_bytes(pool);
}

status exec_flow_pool_pack(exec_flow_pool *pool, const exec_flow_buffer *buffer, bool is_backward,
                           void *bytes, error_message *err)
{
    exec_kernels *kernels = pool->kernels;
    if (pool->hands_over) {
        TRY(kernels->table->offer(kernels, buffer->values, value_bytes(pool), bytes, err));
    } else {
        kernels->table->to_host(kernels, bytes, buffer->values, value_bytes(pool));
    }
    if (pool->sends_live && !is_backward) {
        memcpy((char *)bytes + packed_row_bytes(pool), buffer->is_live, (size_t)pool->row_count);
    }
    return STATUS_OK;
}

status exec_flow_pool_unpack(exec_flow_pool *pool, const void *bytes, bool is_backward,
                             exec_flow_buffer *buffer, error_message *err)
{
    exec_kernels *kernels = pool->kernels;
    if (pool->hands_over) {
        TRY(kernels->table->take(kernels, bytes, buffer->values, err));
    } else {
        kernels->table->to_device(kernels, buffer->values, bytes, value_bytes(pool));
    }
    if (is_backward) return STATUS_OK;
    if (pool->sends_live) {
        const char *live = (const char *)bytes + packed_row_bytes(pool);
        memcpy(buffer->is_live, live, (size_t)pool->row_count);
    } else {
        memset(buffer->is_live, 1, (size_t)pool->row_count);
    }
    return STATUS_OK;
}

#include "exec/model/slot_pool.h"
#include "base/arena.h"

#include <assert.h>
#include <stdlib.h>

enum { NO_SLOT = -1 };

void exec_slot_pool_init(exec_slot_pool *pool, exec_layer *layer, int microbatch_count)
{
    const size_t count = (size_t)microbatch_count;
    *pool = (exec_slot_pool){.layer = layer,
                             .microbatch_count = microbatch_count,
                             .slots = memory_array(count, sizeof *pool->slots),
                             .idle = memory_array(count, sizeof *pool->idle),
                             .slot_of = memory_array(count, sizeof *pool->slot_of)};
    for (int microbatch = 0; microbatch < microbatch_count; microbatch++) {
        pool->slot_of[microbatch] = NO_SLOT;
    }
}

void exec_slot_pool_reset(exec_slot_pool *pool)
{
    for (int slot = 0; slot < pool->slot_count; slot++) {
        exec_slot_destroy(pool->layer, pool->slots[slot]);
    }
    free(pool->slots);
    free(pool->idle);
    free(pool->slot_of);
    *pool = (exec_slot_pool){0};
}

status exec_slot_pool_take(exec_slot_pool *pool, int microbatch, exec_slot **slot,
                           error_message *err)
{
    assert(pool->slot_of[microbatch] == NO_SLOT);
    if (pool->idle_count == 0) {
        TRY(exec_slot_create(pool->layer, &pool->slots[pool->slot_count], err));
        pool->idle[pool->idle_count++] = pool->slot_count++;
    }
    const int taken = pool->idle[--pool->idle_count];
    pool->slot_of[microbatch] = taken;
    *slot = pool->slots[taken];
    return STATUS_OK;
}

exec_slot *exec_slot_pool_find(const exec_slot_pool *pool, int microbatch)
{
    assert(pool->slot_of[microbatch] != NO_SLOT);
    return pool->slots[pool->slot_of[microbatch]];
}

void exec_slot_pool_give_back(exec_slot_pool *pool, int microbatch)
{
    assert(pool->slot_of[microbatch] != NO_SLOT);
    pool->idle[pool->idle_count++] = pool->slot_of[microbatch];
    pool->slot_of[microbatch] = NO_SLOT;
}

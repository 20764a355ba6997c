#include "exec/buffers.h"
#include "base/arena.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>

typedef struct region {
    void *memory;
    size_t capacity;
    size_t bytes; // asked for, while taken
    bool is_taken;
} region;

/// Regions are found by walking them: a rank holds tens of sizes and some hundreds of regions, and
/// what is taken was mostly given back just before, so the walk begins at the end.
struct exec_buffers {
    exec_kernels *kernels;
    region *regions; // [region_count]
    int region_count;
    int64_t taken_bytes;
};

exec_buffers *exec_buffers_create(exec_kernels *kernels)
{
    exec_buffers *made = memory_array(1, sizeof *made);
    made->kernels = kernels;
    return made;
}

void exec_buffers_destroy(exec_buffers *buffers)
{
    if (buffers == NULL) return;
    for (int index = 0; index < buffers->region_count; index++) {
        buffers->kernels->table->release(buffers->kernels, buffers->regions[index].memory);
    }
    free(buffers->regions);
    free(buffers);
}

exec_kernels *exec_buffers_kernels(const exec_buffers *buffers)
{
    return buffers->kernels;
}

/// The smallest free region that fits and is less than twice as large; -1: none.
static int find_free(const exec_buffers *buffers, size_t bytes)
{
    int best = -1;
    for (int index = buffers->region_count - 1; index >= 0; index--) {
        const region *candidate = &buffers->regions[index];
        if (candidate->is_taken || candidate->capacity < bytes) continue;
        if (candidate->capacity == bytes) return index;
        if (candidate->capacity / 2 >= bytes) continue;
        if (best < 0 || candidate->capacity < buffers->regions[best].capacity) best = index;
    }
    return best;
}

void *exec_buffers_take(exec_buffers *buffers, size_t bytes)
{
    const size_t wanted = bytes > 0 ? bytes : 1; // so that no two regions are the same
    int index = find_free(buffers, wanted);
    if (index < 0) {
        void *memory = buffers->kernels->table->allocate(buffers->kernels, wanted);
        if (memory == NULL) return NULL;
        index = buffers->region_count++;
        buffers->regions = memory_grow(buffers->regions, (size_t)index, sizeof *buffers->regions);
        buffers->regions[index] = (region){.memory = memory, .capacity = wanted};
    }
    region *found = &buffers->regions[index];
    found->is_taken = true;
    found->bytes = bytes;
    buffers->taken_bytes += (int64_t)bytes;
    return found->memory;
}

void exec_buffers_give(exec_buffers *buffers, void *given)
{
    if (given == NULL) return;
    int index = buffers->region_count - 1;
    while (index >= 0 && buffers->regions[index].memory != given) {
        index--;
    }
    assert(index >= 0 && buffers->regions[index].is_taken);
    buffers->regions[index].is_taken = false;
    buffers->taken_bytes -= (int64_t)buffers->regions[index].bytes;
}

void exec_buffers_trim(exec_buffers *buffers)
{
    int kept = 0;
    for (int index = 0; index < buffers->region_count; index++) {
        if (buffers->regions[index].is_taken) {
            buffers->regions[kept++] = buffers->regions[index];
        } else {
            buffers->kernels->table->release(buffers->kernels, buffers->regions[index].memory);
        }
    }
    buffers->region_count = kept;
}

int64_t exec_buffers_taken_bytes(const exec_buffers *buffers)
{
    return buffers->taken_bytes;
}

void *exec_holding_take(exec_holding *holding, exec_buffers *buffers, size_t bytes)
{
    assert(holding->region_count < (int)(sizeof holding->region / sizeof holding->region[0]));
    void *taken = exec_buffers_take(buffers, bytes);
    holding->region[holding->region_count++] = taken;
    holding->bytes += (int64_t)bytes;
    return taken;
}

void exec_holding_give(exec_holding *holding, exec_buffers *buffers)
{
    for (int index = 0; index < holding->region_count; index++) {
        exec_buffers_give(buffers, holding->region[index]);
    }
    *holding = (exec_holding){0};
}

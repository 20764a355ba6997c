#include "base/arena.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct arena_block {
    struct arena_block *next;
    size_t capacity_bytes; // of the bytes behind this header
    alignas(max_align_t) unsigned char bytes[];
} arena_block;

struct arena {
    arena_block *first;
    arena_block *current;
    size_t used_bytes; // in current
    size_t block_bytes;
};

arena *arena_create(size_t block_bytes)
{
    arena *memory = calloc(1, sizeof *memory);
    if (memory != NULL) memory->block_bytes = block_bytes;
    return memory;
}

void arena_destroy(arena *memory)
{
    if (memory == NULL) return;
    for (arena_block *block = memory->first; block != NULL;) {
        arena_block *next = block->next;
        free(block);
        block = next;
    }
    free(memory);
}

static arena_block *block_append(arena *memory, size_t bytes)
{
    const size_t capacity = bytes > memory->block_bytes ? bytes : memory->block_bytes;
    arena_block *block = malloc(sizeof *block + capacity);
    if (block == NULL) return NULL;
    block->capacity_bytes = capacity;
    if (memory->current == NULL) {
        block->next = NULL;
        memory->first = block;
    } else {
        block->next = memory->current->next;
        memory->current->next = block;
    }
    return block;
}

void *arena_array(arena *memory, size_t count, size_t element_bytes)
{
    if (element_bytes != 0 && count > (SIZE_MAX / 4) / element_bytes) return NULL;
    const size_t alignment = alignof(max_align_t);
    const size_t bytes = (count * element_bytes + alignment - 1) / alignment * alignment;
    // Blocks behind the current one were left there by arena_reset.
    while (memory->current == NULL ||
           memory->current->capacity_bytes - memory->used_bytes < bytes) {
        arena_block *next = memory->current != NULL ? memory->current->next : memory->first;
        if (next == NULL || next->capacity_bytes < bytes) next = block_append(memory, bytes);
        if (next == NULL) return NULL;
        memory->current = next;
        memory->used_bytes = 0;
    }
    void *array = memory->current->bytes + memory->used_bytes;
    memory->used_bytes += bytes;
    return memset(array, 0, bytes);
}

char *arena_string(arena *memory, const char *text)
{
    const size_t bytes = strlen(text) + 1;
    char *copy = arena_array(memory, bytes, 1);
    if (copy != NULL) memcpy(copy, text, bytes);
    return copy;
}

void arena_reset(arena *memory)
{
    memory->current = memory->first;
    memory->used_bytes = 0;
}

#include "base/arena.h"

#include <stdalign.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct arena_block {
    struct arena_block *next;
    size_t capacity_bytes; // of the bytes after this header
    alignas(max_align_t) unsigned char bytes[];
} arena_block;

/// What ends with an arena; lies in it.
typedef struct owned_thing {
    struct owned_thing *before;
    void *thing;
    void (*release)(void *thing);
} owned_thing;

struct arena {
    arena_block *first;
    arena_block *current;
    size_t used_bytes; // in current
    size_t block_bytes;
    arena *first_within; // that end with this one
    arena *next_within;  // of the same owner
    owned_thing *last_owned;
};

_Noreturn static void end_without_memory(size_t count, size_t element_bytes)
{
    fprintf(stderr, "dynmo: error: out of memory for %zu x %zu bytes\n", count, element_bytes);
    _Exit(EXIT_FAILURE);
}

// What is asked for, and at least one byte, so that NULL means out of memory.
static size_t bytes_of(size_t count, size_t element_bytes)
{
    if (element_bytes != 0 && count > (SIZE_MAX / 4) / element_bytes) {
        end_without_memory(count, element_bytes);
    }
    return count * element_bytes > 0 ? count * element_bytes : 1;
}

void *memory_array(size_t count, size_t element_bytes)
{
    void *array = calloc(bytes_of(count, element_bytes), 1);
    if (array == NULL) end_without_memory(count, element_bytes);
    return array;
}

void *memory_aligned(size_t alignment, size_t bytes)
{
    const size_t rounded = (bytes / alignment + 1) * alignment;
    void *memory = aligned_alloc(alignment, rounded);
    if (memory == NULL) end_without_memory(bytes, 1);
    return memset(memory, 0, rounded);
}

void *memory_resize(void *array, size_t count, size_t element_bytes)
{
    void *resized = realloc(array, bytes_of(count, element_bytes));
    if (resized == NULL) end_without_memory(count, element_bytes);
    return resized;
}

void *memory_grow(void *array, size_t count, size_t element_bytes)
{
    enum { COUNT_MIN = 4 };
    if (array == NULL) return memory_resize(NULL, COUNT_MIN, element_bytes);
    if (count < COUNT_MIN || (count & (count - 1)) != 0) return array;
    return memory_resize(array, 2 * count, element_bytes);
}

double memory_half_of_machine(void)
{
    return (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE) / 2;
}

arena *arena_create(size_t block_bytes)
{
    arena *memory = memory_array(1, sizeof *memory);
    memory->block_bytes = block_bytes;
    return memory;
}

arena *arena_within(arena *owner, size_t block_bytes)
{
    arena *memory = arena_create(block_bytes);
    memory->next_within = owner->first_within;
    owner->first_within = memory;
    return memory;
}

void arena_own(arena *memory, void *thing, void (*release)(void *thing))
{
    owned_thing *owned = arena_array(memory, 1, sizeof *owned);
    *owned = (owned_thing){memory->last_owned, thing, release};
    memory->last_owned = owned;
}

static void end_what_it_owns(arena *memory)
{
    while (memory->first_within != NULL) {
        arena *within = memory->first_within;
        memory->first_within = within->next_within;
        arena_destroy(within);
    }
    for (const owned_thing *owned = memory->last_owned; owned != NULL; owned = owned->before) {
        owned->release(owned->thing);
    }
    memory->last_owned = NULL;
}

void arena_destroy(arena *memory)
{
    if (memory == NULL) return;
    end_what_it_owns(memory);
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
    arena_block *block = memory_resize(NULL, sizeof *block + capacity, 1);
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
    const size_t alignment = alignof(max_align_t);
    const size_t bytes = (bytes_of(count, element_bytes) + alignment - 1) / alignment * alignment;
    // Blocks after the current one were left there by arena_reset.
    while (memory->current == NULL ||
           memory->current->capacity_bytes - memory->used_bytes < bytes) {
        arena_block *next = memory->current != NULL ? memory->current->next : memory->first;
        if (next == NULL || next->capacity_bytes < bytes) next = block_append(memory, bytes);
        memory->current = next;
        memory->used_bytes = 0;
    }
    void *array = memory->current->bytes + memory->used_bytes;
    memory->used_bytes += bytes;
    return memset(array, 0, bytes);
}

void *arena_grow(arena *memory, void *array, size_t count, size_t element_bytes)
{
    if (count > 0 && (count & (count - 1)) != 0) return array;
    void *larger = arena_array(memory, count == 0 ? 1 : 2 * count, element_bytes);
    if (count > 0) memcpy(larger, array, count * element_bytes);
    return larger;
}

char *arena_string(arena *memory, const char *text)
{
    const size_t bytes = strlen(text) + 1;
    char *copy = arena_array(memory, bytes, 1);
    memcpy(copy, text, bytes);
    return copy;
}

char *arena_format(arena *memory, const char *format, ...)
{
    va_list arguments;
    va_list again;
    va_start(arguments, format);
    va_copy(again, arguments);
    const size_t bytes = (size_t)vsnprintf(NULL, 0, format, arguments) + 1;
    char *text = arena_array(memory, bytes, 1);
    vsnprintf(text, bytes, format, again);
    va_end(again);
    va_end(arguments);
    return text;
}

void arena_reset(arena *memory)
{
    end_what_it_owns(memory);
    memory->current = memory->first;
    memory->used_bytes = 0;
}

/// Many arrays with one lifetime: taken one after another from blocks, freed together.
#pragma once

#include <stddef.h>

typedef struct arena arena;

/// @param block_bytes size of the blocks it asks the system for; larger requests get their own
/// @return NULL if the host is out of memory. Release with arena_destroy.
arena *arena_create(size_t block_bytes);

/// Frees every array taken from it. NULL is allowed.
void arena_destroy(arena *memory);

/// Takes an array of count elements, all bytes zero, aligned for any type.
///
/// @return borrowed until arena_reset or arena_destroy; NULL if the host is out of memory or
///         count * element_bytes overflows. Never NULL for count 0.
void *arena_array(arena *memory, size_t count, size_t element_bytes);

/// Copies a string into the arena. NULL if out of memory.
char *arena_string(arena *memory, const char *text);

/// Takes back every array but keeps the blocks, so that a loop that fills the same arena again
/// asks the system for nothing.
void arena_reset(arena *memory);

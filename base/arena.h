/// Memory that never fails: arenas of arrays with one lifetime, and arrays of their own.
///
/// A host that is out of memory ends the process from here, with one message that names the bytes
/// asked for and exit code 1, so no caller ever sees NULL. What a store has committed stays.
#pragma once

#include <stddef.h>

typedef struct arena arena;

/// Many arrays with one lifetime: taken one after another from blocks, freed together.
///
/// @param block_bytes size of the blocks it asks the system for; larger requests get their own
/// @return release with arena_destroy
arena *arena_create(size_t block_bytes) __attribute__((returns_nonnull));

/// An arena that ends with another: destroyed when that one is reset or destroyed, never by itself.
/// For scratch that is reset often and lives as long as what uses it.
arena *arena_within(arena *owner, size_t block_bytes) __attribute__((returns_nonnull));

/// Has what is no array end with the arena: when that is reset or destroyed, and the arenas within
/// it have ended, release is called with it, with the last that was handed over first.
void arena_own(arena *memory, void *thing, void (*release)(void *thing));

/// Frees every array taken from it. NULL is allowed; not for one within another.
void arena_destroy(arena *memory);

/// Takes an array of count elements, all bytes zero, aligned for any type.
///
/// @return borrowed until arena_reset or arena_destroy
void *arena_array(arena *memory, size_t count, size_t element_bytes)
    __attribute__((returns_nonnull));

/// The same array with room for one element more, as it grows by doubling: where count is a power
/// of two it moves.
///
/// @param array [count] of the arena; NULL where count is 0
void *arena_grow(arena *memory, void *array, size_t count, size_t element_bytes)
    __attribute__((returns_nonnull));

/// Copies a string into the arena.
char *arena_string(arena *memory, const char *text) __attribute__((returns_nonnull));

/// Prints into the arena.
char *arena_format(arena *memory, const char *format, ...)
    __attribute__((returns_nonnull, format(printf, 2, 3)));

/// Takes back every array but keeps the blocks, so that a loop that fills the same arena again
/// asks the system for nothing.
void arena_reset(arena *memory);

/// An array with a lifetime of its own, all bytes zero. Release with free.
void *memory_array(size_t count, size_t element_bytes) __attribute__((returns_nonnull));

/// The same of bytes that begin at a multiple of the alignment, a power of two.
void *memory_aligned(size_t alignment, size_t bytes) __attribute__((returns_nonnull));

/// The same array with room for count elements; what it held stays, what is new is not set.
///
/// @param array NULL, or from memory_array or memory_resize
void *memory_resize(void *array, size_t count, size_t element_bytes)
    __attribute__((returns_nonnull));

/// The same array with room for one element more, as it grows by doubling.
///
/// @param array [count] and grown by this from NULL, for which count is 0; it may have shrunk since
void *memory_grow(void *array, size_t count, size_t element_bytes) __attribute__((returns_nonnull));

/// Half of the machine's memory in bytes: what would take more is refused before it is begun.
double memory_half_of_machine(void);

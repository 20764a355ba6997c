/// Memory for the tests of a group, released after the last of them:
/// `run_all_tests(open_memory, close_memory)`.
#pragma once

#include "base/arena.h"
#include "tests/test.h"

static arena *memory;

static inline int open_memory(void **state)
{
    memory = arena_create(1 << 16);
    return memory == NULL;
}

static inline int close_memory(void **state)
{
    arena_destroy(memory);
    return 0;
}

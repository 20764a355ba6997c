/// Memory for the tests of a group: they find it in *state, and it is released after the last.
#pragma once

#include "base/arena.h"

static inline int open_memory(void **state)
{
    *state = arena_create(1 << 16);
    return 0;
}

static inline int close_memory(void **state)
{
    arena_destroy(*state);
    return 0;
}

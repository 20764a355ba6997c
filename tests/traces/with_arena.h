/// An arena for all tests of one file: `cmocka_run_group_tests(tests, make_memory, drop_memory)`.
#pragma once

#include "base/arena.h"

static arena *memory;

static int make_memory(void **state)
{
    (void)state;
    memory = arena_create(1 << 16);
    return 0;
}

static int drop_memory(void **state)
{
    (void)state;
    arena_destroy(memory);
    return 0;
}

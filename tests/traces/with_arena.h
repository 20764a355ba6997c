/// An arena for all tests of one file: `cmocka_run_group_tests(tests, make_memory, close_memory)`.
#pragma once

#include "tests/test_memory.h"

static arena *memory;

static int make_memory(void **state)
{
    const int result = open_memory(state);
    memory = *state;
    return result;
}

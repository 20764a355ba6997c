/// A store in memory for the tests of one file: made before a test, gone after it.
#pragma once

#include "base/arena.h"
#include "tests/test.h"
#include "traces/store/store.h"

static trace_store *store;
static arena *memory;

static int open_memory_store(void **state)
{
    why = (error_message){0};
    memory = arena_create(1 << 12);
    require(trace_store_open_memory(&store, &why));
    return 0;
}

static int close_memory_store(void **state)
{
    trace_store_close(store);
    arena_destroy(memory);
    return 0;
}

#define WITH_STORE(test) TEST_BETWEEN(test, open_memory_store, close_memory_store)

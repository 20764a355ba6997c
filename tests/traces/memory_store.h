/// A store in memory for the tests of one file: made before a test, gone after it.
#pragma once

#include "base/arena.h"
#include "tests/assert_close.h"
#include "traces/store/store.h"

static trace_store *store;
static arena *memory;

/// Fails the test with the message unless result is STATUS_OK.
static void ok(status result, const error_message *err)
{
    if (result != STATUS_OK) fail_msg("%s", err->message);
}

static int open_memory_store(void **state)
{
    (void)state;
    error_message err = {0};
    memory = arena_create(1 << 12);
    ok(trace_store_open_memory(&store, &err), &err);
    return 0;
}

static int close_memory_store(void **state)
{
    (void)state;
    trace_store_close(store);
    arena_destroy(memory);
    return 0;
}

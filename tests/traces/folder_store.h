/// A folder of its own for every test of a file, with the path of a store in it; removed after the
/// test, which fails if it left anything but the store there.
#pragma once

#include "base/arena.h"
#include "tests/test.h"
#include "traces/store/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char folder[64];
static char path[96];
static arena *memory;

static int make_folder(void **state)
{
    snprintf(folder, sizeof folder, "%s/dynmo-test-XXXXXX", P_tmpdir);
    memory = arena_create(1 << 12);
    why = (error_message){0};
    if (mkdtemp(folder) == NULL || memory == NULL) return -1;
    snprintf(path, sizeof path, "%s/s.db", folder);
    return 0;
}

static int remove_folder(void **state)
{
    static const char *const suffixes[] = {"", "-wal", "-shm", "-journal"};
    for (int suffix = 0; suffix < 4; suffix++) {
        char name[128];
        snprintf(name, sizeof name, "%s%s", path, suffixes[suffix]);
        unlink(name);
    }
    arena_destroy(memory);
    return rmdir(folder);
}

static trace_store *open_store(trace_mode mode)
{
    trace_store *store = NULL;
    require(trace_store_open(path, mode, &store, &why));
    return store;
}

#define IN_FOLDER(test) TEST_BETWEEN(test, make_folder, remove_folder)

#include "analysis/study/setup.h"

#include "base/file.h"
#include "traces/store/reader.h"
#include "traces/store/store.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

typedef struct kept_entry {
    ana_memo_entry entry; // memory NULL: the place is free
    uint64_t hash;
    size_t length;
    const char *key; // [length]
    int64_t last_use;
} kept_entry;

struct ana_memo {
    kept_entry kept[ANA_MEMO_ENTRIES];
    int64_t use_count;
};

ana_memo *ana_memo_create(void)
{
    return memory_array(1, sizeof(ana_memo));
}

void ana_memo_destroy(ana_memo *memo)
{
    for (int place = 0; memo != NULL && place < ANA_MEMO_ENTRIES; place++) {
        arena_destroy(memo->kept[place].entry.memory);
    }
    free(memo);
}

ana_memo_entry *ana_memo_find(ana_memo *memo, const char *key, size_t length)
{
    const uint64_t hash = file_hash(FILE_HASH_START, key, length);
    kept_entry *oldest = &memo->kept[0];
    memo->use_count++;
    for (int place = 0; place < ANA_MEMO_ENTRIES; place++) {
        kept_entry *kept = &memo->kept[place];
        if (kept->last_use < oldest->last_use) oldest = kept;
        if (kept->entry.value == NULL || kept->hash != hash || kept->length != length ||
            memcmp(kept->key, key, length) != 0) {
            continue;
        }
        kept->last_use = memo->use_count;
        return &kept->entry;
    }
    arena_destroy(oldest->entry.memory);
    arena *memory = arena_create(1 << 12);
    char *copy = memcpy(arena_array(memory, length + 1, 1), key, length);
    *oldest = (kept_entry){{NULL, memory}, hash, length, copy, memo->use_count};
    return &oldest->entry;
}

// A trace

enum { KEPT_ITERATIONS_MAX = 1 << 22 };

struct ana_trace_cache {
    arena *memory; // of all below; NULL: no trace is open
    const char *path;
    const char *name; // NULL: as asked for
    trace_store *store;
    trace_reader *reader;
    trace_info info;
    bal_layer_costs **kept; // [kept_count] of each iteration that was asked for, those of one
                            // sample shared; NULL: not kept
    int kept_count;         // 0: nothing is kept, as of very long runs
    int read_iteration;     // that the reader was last asked for; -1: none
    int64_t kept_bytes;
    int64_t kept_bytes_max; // 0: nothing is kept
};

/// What a setup sees of a trace: whether costs have changed is told beside its own last question.
typedef struct view {
    ana_trace_cache *trace;
    bool has_asked;
    const bal_layer_costs *last; // NULL: none, or not kept
} view;

static void forget(ana_trace_cache *trace)
{
    trace_reader_close(trace->reader);
    trace_store_close(trace->store);
    arena_destroy(trace->memory);
    *trace = (ana_trace_cache){.kept_bytes_max = trace->kept_bytes_max};
}

static bool is_named(const ana_trace_cache *trace, const char *path, const char *name)
{
    if (trace->memory == NULL || strcmp(trace->path, path) != 0) return false;
    if (trace->name == NULL || name == NULL) return trace->name == name;
    return strcmp(trace->name, name) == 0;
}

static status open_trace(const char *path, const char *name, ana_trace_cache *trace,
                         error_message *err)
{
    trace->memory = arena_create(1 << 16);
    trace->read_iteration = -1;
    trace->path = arena_string(trace->memory, path);
    trace->name = name != NULL ? arena_string(trace->memory, name) : NULL;
    TRY(trace_store_open(path, TRACE_READ, &trace->store, err));
    TRY(trace_find(trace->store, name, trace->memory, &trace->info, err));
    TRY(trace_reader_open(trace->store, trace->info.trace_id, TRACE_COLUMNS_RECORDED,
                          &trace->reader, err));
    if (trace->kept_bytes_max == 0 || trace->info.last_iteration >= KEPT_ITERATIONS_MAX) {
        return STATUS_OK;
    }
    trace->kept_count = (int)trace->info.last_iteration + 1;
    trace->kept = arena_array(trace->memory, (size_t)trace->kept_count, sizeof *(trace->kept));
    return STATUS_OK;
}

/// Copies costs into the trace's memory; NULL if there is no room for them.
static bal_layer_costs *keep(ana_trace_cache *trace, const bal_layer_costs *costs)
{
    const int64_t **arrays[BAL_COST_ARRAY_COUNT];
    bal_layer_costs *copy = NULL;
    for (int array = 0; array < BAL_COST_ARRAY_COUNT; array++) {
        trace->kept_bytes += (int64_t)bal_layer_costs_array_bytes(costs, array);
    }
    if (trace->kept_bytes > trace->kept_bytes_max) return NULL;
    copy = arena_array(trace->memory, 1, sizeof *copy);
    *copy = *costs;
    bal_layer_costs_list(copy, arrays);
    for (int array = 0; array < BAL_COST_ARRAY_COUNT; array++) {
        if (*arrays[array] == NULL) continue;
        const size_t bytes = bal_layer_costs_array_bytes(costs, array);
        *arrays[array] = memcpy(arena_array(trace->memory, bytes, 1), *arrays[array], bytes);
    }
    return copy;
}

/// Reads the costs of an iteration, and keeps them if there is room.
static status read_costs(ana_trace_cache *trace, int iteration, bal_layer_costs *costs,
                         error_message *err)
{
    bool changed = false;
    const int before = trace->read_iteration;
    TRY(trace_reader_costs_at(trace->reader, iteration, costs, &changed, err));
    trace->read_iteration = iteration;
    bal_layer_costs *same = !changed && before >= 0 ? trace->kept[before] : NULL;
    trace->kept[iteration] = same != NULL ? same : keep(trace, costs);
    return STATUS_OK;
}

/// Iterations after the last sample cost what it does.
static status costs_at(void *context, int iteration, bal_layer_costs *costs, bool *changed,
                       error_message *err)
{
    view *seen = context;
    ana_trace_cache *trace = seen->trace;
    const bool is_first = !seen->has_asked;
    seen->has_asked = true;
    if (trace->kept_count == 0) {
        TRY(trace_reader_costs_at(trace->reader, iteration, costs, changed, err));
        *changed = *changed || is_first;
        return STATUS_OK;
    }
    const int sampled = iteration < trace->kept_count ? iteration : trace->kept_count - 1;
    if (trace->kept[sampled] == NULL) TRY(read_costs(trace, sampled, costs, err));
    const bal_layer_costs *kept = trace->kept[sampled];
    if (kept != NULL) *costs = *kept;
    *changed = kept == NULL || kept != seen->last;
    seen->last = kept;
    return STATUS_OK;
}

status ana_trace_cache_find(ana_trace_cache *cache, const char *path, const char *name,
                            arena *memory, const trace_info **info, bal_cost_source *source,
                            error_message *err)
{
    if (!is_named(cache, path, name)) {
        forget(cache);
        const status opened = open_trace(path, name, cache, err);
        if (opened != STATUS_OK) {
            forget(cache);
            return opened;
        }
    }
    view *seen = arena_array(memory, 1, sizeof *seen);
    seen->trace = cache;
    *info = &cache->info;
    *source = trace_reader_source(cache->reader);
    source->context = seen;
    source->costs_at = costs_at;
    return STATUS_OK;
}

// All of them

ana_setup_cache *ana_setup_cache_create(int64_t trace_bytes_max)
{
    ana_setup_cache *cache = memory_array(1, sizeof *cache);
    cache->traces = memory_array(1, sizeof *cache->traces);
    cache->traces->kept_bytes_max = trace_bytes_max;
    cache->costs = ana_memo_create();
    cache->bounds = ana_memo_create();
    return cache;
}

void ana_setup_cache_destroy(ana_setup_cache *cache)
{
    if (cache == NULL) return;
    forget(cache->traces);
    free(cache->traces);
    ana_memo_destroy(cache->costs);
    ana_memo_destroy(cache->bounds);
    free(cache);
}

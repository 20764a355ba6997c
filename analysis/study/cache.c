#include "analysis/study/setup.h"

#include "traces/store/reader.h"
#include "traces/store/store.h"

#include <stdbool.h>
#include <string.h>

enum { KEPT_ITERATIONS_MAX = 1 << 22 };

/// The trace that was opened last.
typedef struct kept_trace {
    arena *memory;    // of all below
    const char *path; // NULL: no trace is open
    const char *name; // NULL: as asked for
    trace_reader *reader;
    trace_info info;
    bal_layer_costs **kept; // [kept_count] of each iteration that was asked for, those of one
                            // sample shared; NULL: not kept
    int kept_count;         // 0: nothing is kept, as of very long runs
    int read_iteration;     // that the reader was last asked for; -1: none
    int64_t kept_bytes;
    int64_t kept_bytes_max; // 0: nothing is kept
} kept_trace;

typedef struct kept_inputs {
    ana_model_inputs inputs; // memory NULL: the place was never used
    size_t length;
    const char *key; // [length]
    int64_t last_use;
} kept_inputs;

struct ana_setup_cache {
    arena *memory;
    kept_trace trace;
    kept_inputs inputs[ANA_CACHED_INPUTS];
    int64_t use_count;
};

ana_setup_cache *ana_setup_cache_create(arena *memory, int64_t trace_bytes_max)
{
    ana_setup_cache *cache = arena_array(memory, 1, sizeof *cache);
    cache->memory = memory;
    cache->trace =
        (kept_trace){.memory = arena_within(memory, 1 << 16), .kept_bytes_max = trace_bytes_max};
    return cache;
}

ana_model_inputs *ana_setup_cache_inputs(ana_setup_cache *cache, const char *key, size_t length)
{
    kept_inputs *oldest = &cache->inputs[0];
    cache->use_count++;
    for (int place = 0; place < ANA_CACHED_INPUTS; place++) {
        kept_inputs *kept = &cache->inputs[place];
        if (kept->last_use < oldest->last_use) oldest = kept;
        if (kept->key == NULL || kept->length != length || memcmp(kept->key, key, length) != 0) {
            continue;
        }
        kept->last_use = cache->use_count;
        return &kept->inputs;
    }
    arena *memory = oldest->inputs.memory;
    if (memory == NULL) memory = arena_within(cache->memory, 1 << 12);
    arena_reset(memory);
    const char *copy = memcpy(arena_array(memory, length + 1, 1), key, length);
    *oldest = (kept_inputs){{.memory = memory}, length, copy, cache->use_count};
    return &oldest->inputs;
}

// The trace

/// What a setup sees of a trace: whether costs have changed is told beside its own last question.
typedef struct view {
    kept_trace *trace;
    bool has_asked;
    const bal_layer_costs *last; // NULL: none, or not kept
} view;

static void forget(kept_trace *trace)
{
    arena_reset(trace->memory);
    *trace = (kept_trace){.memory = trace->memory, .kept_bytes_max = trace->kept_bytes_max};
}

static bool is_named(const kept_trace *trace, const char *path, const char *name)
{
    if (trace->path == NULL || strcmp(trace->path, path) != 0) return false;
    if (trace->name == NULL || name == NULL) return trace->name == name;
    return strcmp(trace->name, name) == 0;
}

static status open_trace(const char *path, const char *name, kept_trace *trace, error_message *err)
{
    trace->read_iteration = -1;
    trace->name = name != NULL ? arena_string(trace->memory, name) : NULL;
    trace_store *store = NULL;
    TRY(trace_store_open_within(path, TRACE_READ, trace->memory, &store, err));
    TRY(trace_find(store, name, trace->memory, &trace->info, err));
    TRY(trace_reader_open(store, trace->info.trace_id, TRACE_COLUMNS_RECORDED, trace->memory,
                          &trace->reader, err));
    trace->path = arena_string(trace->memory, path);
    if (trace->kept_bytes_max == 0 || trace->info.last_iteration >= KEPT_ITERATIONS_MAX) {
        return STATUS_OK;
    }
    trace->kept_count = (int)trace->info.last_iteration + 1;
    trace->kept = arena_array(trace->memory, (size_t)trace->kept_count, sizeof *(trace->kept));
    return STATUS_OK;
}

/// Copies costs into the trace's memory; NULL if there is no room for them.
static bal_layer_costs *keep(kept_trace *trace, const bal_layer_costs *costs)
{
    for (int array = 0; array < BAL_COST_ARRAY_COUNT; array++) {
        trace->kept_bytes += (int64_t)bal_layer_costs_array_bytes(costs, array);
    }
    if (trace->kept_bytes > trace->kept_bytes_max) return NULL;
    bal_layer_costs *copy = arena_array(trace->memory, 1, sizeof *copy);
    *copy = bal_layer_costs_kept(costs, trace->memory);
    return copy;
}

/// Reads the costs of an iteration, and keeps them if there is room.
static status read_costs(kept_trace *trace, int iteration, bal_layer_costs *costs,
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
    kept_trace *trace = seen->trace;
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

status ana_setup_cache_trace(ana_setup_cache *cache, const char *path, const char *name,
                             arena *memory, const trace_info **info, bal_cost_source *source,
                             error_message *err)
{
    kept_trace *trace = &cache->trace;
    if (!is_named(trace, path, name)) {
        forget(trace);
        TRY(open_trace(path, name, trace, err));
    }
    view *seen = arena_array(memory, 1, sizeof *seen);
    seen->trace = trace;
    *info = &trace->info;
    *source = trace_reader_source(trace->reader);
    source->context = seen;
    source->costs_at = costs_at;
    return STATUS_OK;
}

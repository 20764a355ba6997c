/// Any bytes as a native trace, plain or gzip: refused with a message and nothing left in the
/// store, or imported; and what was imported answers layer costs that are not negative.
#include "tests/fuzz/fuzz.h"
#include "traces/import/csv.h"
#include "traces/store/catalog.h"
#include "traces/store/reader.h"

#include <assert.h>
#include <stdlib.h>

enum { CELLS_MAX = 1 << 20 }; // of a trace that is also read back; the importer allows more

static void check_costs(trace_reader *reader, int iteration)
{
    bal_layer_costs costs;
    bool changed = false;
    error_message err = {0};
    assert(trace_reader_costs_at(reader, iteration, &costs, &changed, &err) == STATUS_OK);
    const int64_t cells = (int64_t)costs.layer_count * costs.microbatch_count;
    for (int64_t cell = 0; cell < cells; cell++) {
        assert(costs.forward_ns[cell] >= 0);
        assert(costs.backward_input_ns[cell] >= 0);
        assert(costs.backward_weight_ns[cell] >= 0);
        assert(costs.has_split || costs.backward_weight_ns[cell] == 0);
    }
}

static void read_back(trace_store *store, int64_t trace_id)
{
    error_message err = {0};
    for (int columns = TRACE_COLUMNS_RECORDED; columns <= TRACE_COLUMNS_MEAN; columns++) {
        trace_reader *reader = NULL;
        arena *memory = arena_create(1 << 16);
        assert(trace_reader_open(store, trace_id, (trace_columns)columns, memory, &reader, &err) ==
               STATUS_OK);
        int sample = -1;
        for (int checked = 0; checked < 8; checked++) {
            assert(trace_next_sample(store, trace_id, sample, &sample, &err) == STATUS_OK);
            if (sample < 0) break;
            check_costs(reader, sample);
        }
        check_costs(reader, 0);
        check_costs(reader, TRACE_ITERATIONS_MAX);
        arena_destroy(memory);
    }
}

/// Imports and checks; true if the store now holds a trace.
static bool import(trace_store *store, const uint8_t *bytes, size_t count)
{
    error_message err = {0};
    trace_csv *csv = NULL;
    trace_stream *stream = NULL;
    trace_info info = trace_info_default();
    info.name = "t";
    info.backward_split = count % 2 == 0 ? 0.5 : -1;
    assert(trace_stream_open_bytes("fuzz", bytes, count, &stream) == STATUS_OK);
    assert(trace_csv_begin(store, &info, &csv, &err) == STATUS_OK);
    const status result = trace_csv_read(csv, stream, &err);
    trace_stream_close(stream);
    if (result != STATUS_OK) {
        assert(result == STATUS_FORMAT && err.code == STATUS_FORMAT && err.message[0] != '\0');
        trace_csv_abort(csv);
        return false;
    }
    int64_t trace_id = 0;
    if (trace_csv_finish(csv, &trace_id, NULL, &err) != STATUS_OK) {
        assert(err.code == STATUS_INVALID && err.message[0] != '\0');
        return false;
    }
    arena *memory = arena_create(1 << 12);
    assert(memory != NULL && trace_by_id(store, trace_id, memory, &info, &err) == STATUS_OK);
    if ((int64_t)info.layer_count * info.microbatch_columns <= CELLS_MAX) {
        read_back(store, trace_id);
    }
    arena_destroy(memory);
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    // Making a store costs more than most inputs: one serves until a trace is in it.
    static trace_store *store;
    error_message err = {0};
    arena *memory = arena_create(1 << 12);
    trace_info *traces = NULL;
    int trace_count = 0;
    if (store == NULL) assert(trace_store_open_memory(&store, &err) == STATUS_OK);

    const bool imported = import(store, bytes, count);

    assert(memory != NULL);
    assert(trace_list(store, memory, &traces, &trace_count, &err) == STATUS_OK);
    assert(trace_count == imported);
    arena_destroy(memory);
    if (imported) {
        trace_store_close(store);
        store = NULL;
    }
    return 0;
}

/// Any bytes as recorded ops, CSV or JSON, plain or gzip: refused with a message, or read; and what
/// was read is refused as a run, or every step of it replays as it was recorded or faster.
#include "analysis/stragglers/causes.h"
#include "tests/fuzz/fuzz.h"
#include "traces/import/ops.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static const trace_ops_words words = {0};
    error_message err = {0};
    trace_stream *stream = NULL;
    trace_op_table table;
    ana_op_run run;
    arena *memory = arena_create(1 << 12);
    assert(trace_stream_open_bytes("fuzz", bytes, count, &stream) == STATUS_OK);
    const status result = trace_ops_read(stream, "fuzz", &words, memory, &table, &err);
    trace_stream_close(stream);
    if (result != STATUS_OK) {
        assert(result == STATUS_FORMAT && err.message[0] != '\0');
    } else if (ana_op_run_make(&table, memory, &run, &err) != STATUS_OK) {
        assert(err.code == STATUS_FORMAT && err.message[0] != '\0');
    } else {
        ana_slowdowns slowdowns;
        ana_causes causes;
        ana_slowdowns_of(&run, memory, &slowdowns);
        ana_causes_of(&run, &slowdowns, NULL, memory, &causes);
        const ana_straggler_step *steps = slowdowns.steps;
        for (int step = 0; step < run.step_count; step++) {
            assert(steps[step].replayed_ns >= 0 && steps[step].ideal_ns >= 0);
            assert(steps[step].delayed_ns >= steps[step].replayed_ns);
        }
    }
    arena_destroy(memory);
    return 0;
}

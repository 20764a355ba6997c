#include "cli/run/run_store.h"

#include "analysis/compare/comparison.h"
#include "analysis/report/recording.h"
#include "cli/version.h"

struct cli_run_store {
    const cli_run_study *opened;
    trace_store *store;
    ana_recording *recording;
    bal_record_sink sink; // of the recording
    ana_course course;
};

status cli_run_store_begin(const cli_run_request *request, const cli_run_study *opened,
                           const char *command_line, arena *memory, cli_run_store **store,
                           error_message *err)
{
    cli_run_store *made = arena_array(memory, 1, sizeof *made);
    made->opened = opened;
    ana_course_init(&made->course, memory);
    TRY(trace_store_open(request->store, TRACE_WRITE, &made->store, err));
    status result = ana_recording_begin(made->store, TRACE_RUN_EXEC, &opened->setup, command_line,
                                        DYNMO_VERSION, &made->recording, err);
    if (result == STATUS_OK) {
        const ana_listener listener = ana_recording_listener(made->recording);
        made->sink = listener.sink;
        *store = made;
        return listener.begin_row(listener.sink.context, opened->row, err);
    }
    trace_store_close(made->store);
    return result;
}

static bool wants_timeline(void *context, int iteration)
{
    const cli_run_store *store = context;
    return store->sink.wants_timeline(store->sink.context, iteration);
}

static status put(void *context, const bal_training_iteration *iteration, error_message *err)
{
    cli_run_store *store = context;
    TRY(ana_course_add(&store->course, iteration, err));
    return store->sink.put(store->sink.context, iteration, err);
}

bal_record_sink cli_run_store_sink(cli_run_store *store)
{
    return (bal_record_sink){.context = store, .wants_timeline = wants_timeline, .put = put};
}

status cli_run_store_finish(cli_run_store *store, const bal_training_result *result,
                            const error_message *outcome, error_message *err)
{
    const ana_setup *setup = &store->opened->setup;
    ana_row row = {.balancing = store->opened->row, .course = store->course};
    const ana_comparison comparison = {.setup = setup, .rows = &row};
    if (result != NULL) {
        row.result = *result;
        ana_row_rate(&row, setup);
    }
    const status finished =
        ana_recording_finish(store->recording, result != NULL ? &comparison : NULL, outcome, err);
    trace_store_close(store->store);
    return finished;
}

#include "cli/check/check_prediction.h"

#include "analysis/check/plan_prediction.h"
#include "analysis/report/recording.h"
#include "cli/run/run_study.h"
#include "cli/version.h"
#include "sim/training_replay.h"

#include <stdio.h>
#include <string.h>

/// As `dynmo run` would open it on the device that is told how long ops take.
static cli_run_request request_of(const cli_check_side *side, const char *row)
{
    return (cli_run_request){
        .path = side->path,
        .device = "timed",
        .transport = "local",
        .row = row,
        .trace = side->trace,
        .model = side->model,
        .hardware = side->hardware,
        .iteration_count = side->iteration_count,
        .time_scale_ppb = 1000000000,
    };
}

/// Simulates the study with its decisions. @param peak_bytes [machine.rank_count] out
static status play(const cli_run_study *opened, bal_record_sink sink, arena *memory,
                   int64_t *peak_bytes, error_message *err)
{
    const bal_training training = ana_setup_training(&opened->setup, opened->row, sink);
    bal_training_result result;
    if (opened->has_plan) {
        return ana_plan_predict(&training, &opened->plan, memory, peak_bytes, err);
    }
    TRY(sim_training_replay(&training, memory, &result, err));
    memcpy(peak_bytes, result.peak_memory_bytes,
           (size_t)training.machine.rank_count * sizeof *peak_bytes);
    return STATUS_OK;
}

/// Plays it into a store.
static status record(const cli_run_study *opened, trace_store *store, arena *memory,
                     int64_t *peak_bytes, error_message *err)
{
    ana_recording *recording = NULL;
    error_message later = {0};
    TRY(ana_recording_begin(store, TRACE_RUN_SIM, &opened->setup, "dynmo check", DYNMO_VERSION,
                            &recording, err));
    const ana_listener listener = ana_recording_listener(recording);
    status played = listener.begin_row(listener.sink.context, opened->row, err);
    if (played == STATUS_OK) played = play(opened, listener.sink, memory, peak_bytes, err);
    const status finished =
        ana_recording_finish(recording, NULL, played == STATUS_OK ? NULL : err, &later);
    if (played != STATUS_OK || finished == STATUS_OK) return played;
    return error_set(err, finished, "%s", later.message);
}

static status predict(const cli_check_side *side, const cli_run_study *opened, arena *memory,
                      ana_observed *observed, error_message *err)
{
    trace_store *store = NULL;
    char source[400];
    int64_t *peak_bytes =
        arena_array(memory, (size_t)opened->setup.machine.rank_count, sizeof *peak_bytes);
    TRY(trace_store_open(":memory:", TRACE_WRITE, &store, err));
    status result = record(opened, store, memory, peak_bytes, err);
    if (result == STATUS_OK) result = ana_observed_read(store, NULL, NULL, memory, observed, err);
    trace_store_close(store);
    TRY(result);
    observed->peak_bytes = peak_bytes;
    snprintf(source, sizeof source, "%.250s, predicted, row '%.80s'", side->path, observed->label);
    observed->source = arena_string(memory, source);
    return STATUS_OK;
}

status cli_check_predict(const cli_check_side *side, const char *const *other, int other_count,
                         arena *memory, ana_observed *observed, error_message *err)
{
    const cli_run_request request =
        request_of(side, side->row != NULL || other_count != 1 ? side->row : other[0]);
    cli_run_study *opened = arena_array(memory, 1, sizeof *opened);
    status result = cli_run_study_open(&request, memory, opened, err);
    if (result == STATUS_OK) result = predict(side, opened, memory, observed, err);
    cli_run_study_close(opened);
    return result;
}

/// Finds, reads or predicts the run of one side of a check.
#include "cli/check/check_side.h"

#include "analysis/check/plan_prediction.h"
#include "analysis/report/recording.h"
#include "base/file.h"
#include "cli/run/run.h"
#include "cli/version.h"
#include "sim/training_replay.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/// What a side names: the file, and the run in it.
typedef struct place {
    const char *path;
    const char *run; // NULL: the newest
    bool is_store;
} place;

/// Whether the file can be opened, and begins as stores do.
static bool is_file(const char *path, bool *is_store)
{
    char head[16] = "";
    FILE *file = NULL;
    if (file_open(path, &file, NULL) != STATUS_OK) return false;
    const size_t length = fread(head, 1, sizeof head, file);
    fclose(file);
    *is_store = length == sizeof head && memcmp(head, "SQLite format 3", sizeof head) == 0;
    return true;
}

/// A file of the whole name, else of what stands before its last colon.
static status find_place(const cli_check_side *side, arena *memory, place *found,
                         error_message *err)
{
    *found = (place){.path = side->path};
    if (is_file(side->path, &found->is_store)) return STATUS_OK;
    char *path = arena_string(memory, side->path);
    char *colon = strrchr(path, ':');
    if (colon != NULL) {
        *colon = '\0';
        if (is_file(path, &found->is_store) && found->is_store) {
            found->path = path;
            found->run = colon + 1;
            return STATUS_OK;
        }
    }
    return error_set(err, STATUS_IO, "%s %s: No such file", side->option, side->path);
}

/// A store without runs, or without one of the name that is given, is read for its trace.
static status holds_trace(trace_store *store, const char *name, arena *memory, bool *is_trace,
                          error_message *err)
{
    trace_run_info *runs = NULL;
    trace_info *traces = NULL;
    trace_run_info run;
    trace_info trace;
    int run_count = 0;
    int trace_count = 0;
    TRY(trace_run_list(store, memory, &runs, &run_count, err));
    TRY(trace_list(store, memory, &traces, &trace_count, err));
    *is_trace = trace_count > 0 && run_count == 0;
    if (name != NULL && run_count > 0) {
        *is_trace = trace_run_find(store, name, memory, &run, NULL) != STATUS_OK &&
                    trace_find(store, name, memory, &trace, NULL) == STATUS_OK;
    }
    return STATUS_OK;
}

static status read_store(const cli_check_side *side, const place *at, const bal_plan *plan,
                         arena *memory, ana_observed *observed, error_message *err)
{
    trace_store *store = NULL;
    bool is_trace = false;
    TRY(trace_store_open(at->path, TRACE_READ, &store, err));
    status result = holds_trace(store, at->run, memory, &is_trace, err);
    if (result == STATUS_OK) {
        result = is_trace ? ana_observed_read_trace(store, at->run, plan, memory, observed, err)
                          : ana_observed_read(store, at->run, side->row, memory, observed, err);
    }
    trace_store_close(store);
    return result;
}

/// As `dynmo run` would open it on the device that is told how long ops take.
static cli_run_request request_of(const cli_check_side *side)
{
    return (cli_run_request){
        .path = side->path,
        .device = "timed",
        .transport = "local",
        .row = side->row,
        .trace = side->trace,
        .model = side->model,
        .hardware = side->hardware,
        .iteration_count = side->iteration_count,
    };
}

/// Simulates the study with its decisions. @param peak_bytes [machine.rank_count] out
static status play_study(const cli_run_study *opened, bal_record_sink sink, arena *memory,
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
    if (played == STATUS_OK) played = play_study(opened, listener.sink, memory, peak_bytes, err);
    const status finished =
        ana_recording_finish(recording, NULL, played == STATUS_OK ? NULL : err, &later);
    if (played != STATUS_OK || finished == STATUS_OK) return played;
    return error_set(err, finished, "%s", later.message);
}

static status predict_opened(const cli_check_side *side, const cli_run_study *opened, arena *memory,
                             ana_observed *observed, error_message *err)
{
    trace_store *store = NULL;
    char source[400];
    int64_t *peak_bytes =
        arena_array(memory, (size_t)opened->setup.machine.rank_count, sizeof *peak_bytes);
    TRY(trace_store_open_memory(&store, err));
    status result = record(opened, store, memory, peak_bytes, err);
    if (result == STATUS_OK) result = ana_observed_read(store, NULL, NULL, memory, observed, err);
    trace_store_close(store);
    TRY(result);
    observed->peak_bytes = peak_bytes;
    snprintf(source, sizeof source, "%.250s, predicted, row '%.80s'", side->path, observed->label);
    observed->source = arena_string(memory, source);
    return STATUS_OK;
}

/// Simulates a plan or a study: of a study the row that is named (else what `dynmo run` would
/// execute) with its decisions; of a plan every iteration under that plan.
static status predict_side(const cli_check_side *side, arena *memory, ana_observed *observed,
                           error_message *err)
{
    const cli_run_request request = request_of(side);
    cli_run_study *opened = arena_array(memory, 1, sizeof *opened);
    status result = cli_run_study_open(&request, memory, opened, err);
    if (result == STATUS_OK) result = predict_opened(side, opened, memory, observed, err);
    cli_run_study_close(opened);
    return result;
}

status cli_check_side_is_trace(const cli_check_side *side, arena *memory, bool *is_trace,
                               error_message *err)
{
    place at;
    trace_store *store = NULL;
    *is_trace = false;
    TRY(find_place(side, memory, &at, err));
    if (!at.is_store) return STATUS_OK;
    TRY(trace_store_open(at.path, TRACE_READ, &store, err));
    const status result = holds_trace(store, at.run, memory, is_trace, err);
    trace_store_close(store);
    return result;
}

status cli_check_side_read(const cli_check_side *side, const bal_plan *plan, arena *memory,
                           ana_observed *observed, error_message *err)
{
    place at;
    TRY(find_place(side, memory, &at, err));
    return at.is_store ? read_store(side, &at, plan, memory, observed, err)
                       : predict_side(side, memory, observed, err);
}

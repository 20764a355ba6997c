#include "analysis/recording.h"

#include "analysis/timeline_file.h"
#include "base/file.h"
#include "traces/runs.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ana_recording {
    const ana_setup *setup;
    trace_run *run;
    const char *series; // label of the row that is played
    int *first_layer;   // [stage_count + 1] of the plan recorded last
    int stage_count;    // of first_layer; 0: none recorded in this series
    int64_t plan_id;
    text_buffer json; // scratch
};

/// The study, or NULL for one from standard input; then the trace if there is one.
static int input_files(const ana_setup *setup, trace_input_file files[2], error_message *err,
                       status *result)
{
    const char *const paths[] = {setup->study->path, setup->study->trace_path};
    int count = 0;
    *result = STATUS_OK;
    for (int index = 0; index < 2 && *result == STATUS_OK; index++) {
        if (paths[index] == NULL || strcmp(paths[index], "-") == 0) continue;
        trace_input_file *file = &files[count++];
        *file = (trace_input_file){.path = paths[index]};
        *result = file_hash_path(paths[index], &file->bytes, &file->hash, err);
    }
    return count;
}

status ana_recording_begin(trace_store *store, const ana_setup *setup, const char *command_line,
                           const char *tool_version, ana_recording **recording, error_message *err)
{
    trace_input_file files[2];
    status hashed = STATUS_OK;
    const int file_count = input_files(setup, files, err, &hashed);
    TRY(hashed);
    ana_recording *opened = calloc(1, sizeof *opened);
    if (opened == NULL) return error_set(err, STATUS_NO_MEMORY, "out of memory");
    opened->setup = setup;
    const trace_run_info info = {
        .name = setup->study->name,
        .kind = TRACE_RUN_SIM,
        .command_line = command_line,
        .config_json = setup->study->text,
        .tool_version = tool_version,
    };
    const status begun = trace_run_begin(store, &info, files, file_count, &opened->run, err);
    if (begun != STATUS_OK) {
        free(opened);
        return begun;
    }
    *recording = opened;
    return STATUS_OK;
}

static status begin_row(void *context, const ana_balancing *balancing, error_message *err)
{
    (void)err;
    ana_recording *recording = context;
    recording->series = balancing->label;
    recording->stage_count = 0;
    recording->plan_id = 0;
    return STATUS_OK;
}

static bool wants_timeline(void *context, int iteration)
{
    const ana_recording *recording = context;
    const ana_setup *setup = recording->setup;
    const int64_t ops = (int64_t)setup->machine.rank_count * setup->microbatch_count * 3;
    return ops <= ANA_RECORDED_OPS_MAX &&
           (iteration == 0 || iteration == setup->iteration_count - 1);
}

/// Records the plan if it is not the one recorded last.
static status put_plan(ana_recording *recording, const sim_training_iteration *iteration,
                       error_message *err)
{
    const int stages = recording->setup->stage_count;
    const size_t bytes = ((size_t)stages + 1) * sizeof *recording->first_layer;
    if (recording->stage_count == stages &&
        memcmp(recording->first_layer, iteration->first_layer, bytes) == 0) {
        return STATUS_OK;
    }
    if (recording->first_layer == NULL) {
        recording->first_layer = malloc(bytes);
        if (recording->first_layer == NULL) {
            return error_set(err, STATUS_NO_MEMORY, "out of memory");
        }
    }
    memcpy(recording->first_layer, iteration->first_layer, bytes);
    recording->stage_count = stages;
    text_clear(&recording->json);
    json_writer writer = json_writer_init(&recording->json, false);
    json_begin_object(&writer);
    json_write_key(&writer, "schema");
    json_write_string(&writer, "dynmo-plan/1");
    json_write_key(&writer, "first_layer");
    json_write_int_array(&writer, iteration->first_layer, stages + 1);
    json_write_key(&writer, "schedule");
    json_write_string(&writer, recording->setup->study->schedule);
    json_write_key(&writer, "microbatches");
    json_write_int64(&writer, recording->setup->microbatch_count);
    json_end_object(&writer);
    if (recording->json.failed) return error_set(err, STATUS_NO_MEMORY, "out of memory");
    return trace_run_put_plan(recording->run, recording->series, iteration->iteration,
                              recording->json.bytes, &recording->plan_id, err);
}

static status put_timeline(ana_recording *recording, const sim_training_iteration *iteration,
                           error_message *err)
{
    char label[256];
    const ana_timeline timeline = {
        .label = recording->series,
        .iteration = iteration->iteration,
        .schedule = *iteration->timeline->schedule,
        .timeline = *iteration->timeline,
        .first_layer = iteration->first_layer,
        .memory_forward = iteration->costs->memory_forward,
        .memory_backward_input = iteration->costs->memory_backward_input,
        .memory_backward_weight = iteration->costs->memory_backward_weight,
    };
    snprintf(label, sizeof label, "timeline/%d/%s", iteration->iteration, recording->series);
    text_clear(&recording->json);
    ana_timeline_write(&timeline, &recording->json);
    if (recording->json.failed) return error_set(err, STATUS_NO_MEMORY, "out of memory");
    return trace_run_put_result(recording->run, label, recording->json.bytes, err);
}

static status put_iteration(void *context, const sim_training_iteration *iteration,
                            error_message *err)
{
    ana_recording *recording = context;
    if (iteration->first_layer != NULL) TRY(put_plan(recording, iteration, err));
    const trace_run_iteration row = {
        .iteration = iteration->iteration,
        .plan_id = recording->plan_id,
        .iteration_ns = iteration->iteration_ns,
        .makespan_ns = iteration->metrics.makespan_ns,
        .span_ns = iteration->metrics.span_ns,
        .busy_ns = iteration->metrics.busy_ns,
        .bubble_ratio = iteration->metrics.bubble_ratio,
        .imbalance_ratio = iteration->metrics.imbalance_ratio,
        .rebalanced = iteration->rebalanced,
        .moved_layer_count = iteration->moved_layer_count,
        .moved_bytes = iteration->moved_bytes,
        .migration_ns = iteration->migration_ns,
    };
    TRY(trace_run_put_iteration(recording->run, recording->series, &row, err));
    return iteration->timeline != NULL ? put_timeline(recording, iteration, err) : STATUS_OK;
}

ana_listener ana_recording_listener(ana_recording *recording)
{
    return (ana_listener){
        .context = recording,
        .begin_row = begin_row,
        .iteration = put_iteration,
        .wants_timeline = wants_timeline,
    };
}

int64_t ana_recording_run_id(const ana_recording *recording)
{
    return trace_run_id(recording->run);
}

status ana_recording_finish(ana_recording *recording, const ana_comparison *comparison,
                            const error_message *outcome, error_message *err)
{
    status result = STATUS_OK;
    if (comparison != NULL) {
        text_clear(&recording->json);
        ana_comparison_write(comparison, &recording->json);
        result = recording->json.failed ? error_set(err, STATUS_NO_MEMORY, "out of memory")
                                        : trace_run_put_result(recording->run, "comparison",
                                                               recording->json.bytes, err);
    }
    const error_message *ended = result == STATUS_OK ? outcome : err;
    error_message later = {0};
    const status finished = trace_run_finish(recording->run, ended, &later);
    if (result == STATUS_OK && finished != STATUS_OK) {
        result = error_set(err, finished, "%s", later.message);
    }
    text_free(&recording->json);
    free(recording->first_layer);
    free(recording);
    return result;
}

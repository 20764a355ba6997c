/// The files that a run writes while it goes on: trace, run in a store, tokens of experts.
#include "cli/run/run.h"

#include "analysis/compare/compare.h"
#include "analysis/report/recording.h"
#include "base/file.h"
#include "cli/version.h"
#include "traces/store/store.h"
#include "traces/store/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RESERVE_BYTES = 256 * 1024 }; // ending a record takes some pages of 4 KiB

/// Members of what is not asked for are NULL.
struct cli_run_files {
    const cli_run_request *request;
    const cli_run_study *opened;
    trace_store *record_store;
    trace_writer *writer;
    int reserve;    // file that takes space until the record ends; -1: none
    int seen_count; // iterations
    int put_count;
    trace_store *run_store;
    ana_recording *recording;
    ana_course course;
    file_output *counts_output; // --counts
    FILE *counts;               // of it
};

static trace_info describe(const cli_run_request *request, const cli_run_study *opened)
{
    const ana_setup *setup = &opened->setup;
    const trace_known known = request->learns ? TRACE_MEASURED : TRACE_ASSUMED;
    trace_info info = trace_info_default();
    info.name = opened->study.name;
    info.source = TRACE_SOURCE_EXEC;
    info.device = request->device;
    info.layer_count = setup->source.layer_count;
    info.tokens_per_microbatch =
        setup->tokens_per_microbatch > 0 ? setup->tokens_per_microbatch : TRACE_NOT_RECORDED;
    info.embedding = setup->embedding;
    info.head = setup->head;
    info.times = known;
    info.split = known;
    info.activations = known;
    info.parameters = known;
    info.messages = known;
    info.recorded_by = request->command_line;
    info.tool_version = DYNMO_VERSION;
    return info;
}

/// Takes space beside path, in a file without a name, so that a record can also be ended on a disk
/// that is full.
///
/// @return the open file; -1: there is no such space
static int take_reserve(const char *path)
{
    char name[4096];
    const int length = snprintf(name, sizeof name, "%s.XXXXXX", path);
    if (length < 0 || (size_t)length >= sizeof name) return -1;
    const int file = mkstemp(name);
    if (file < 0) return -1;
    unlink(name);
    if (posix_fallocate(file, 0, RESERVE_BYTES) == 0) return file;
    close(file);
    return -1;
}

static status begin_record(cli_run_files *files, error_message *err)
{
    const char *path = files->request->record;
    const trace_info info = describe(files->request, files->opened);
    const int iterations = files->opened->setup.iteration_count;
    if (files->request->warmup_count >= iterations) {
        return error_set(err, STATUS_INVALID,
                         "--record: of %d iterations none follows a warm-up of %d", iterations,
                         files->request->warmup_count);
    }
    TRY(trace_store_open(path, TRACE_WRITE, &files->record_store, err));
    TRY(trace_writer_begin(files->record_store, &info, &files->writer, err));
    files->reserve = take_reserve(path);
    return STATUS_OK;
}

static status begin_run(cli_run_files *files, arena *memory, error_message *err)
{
    files->course = (ana_course){.memory = memory};
    TRY(trace_store_open(files->request->store, TRACE_WRITE, &files->run_store, err));
    TRY(ana_recording_begin(files->run_store, TRACE_RUN_EXEC, &files->opened->setup,
                            files->request->command_line, DYNMO_VERSION, memory, &files->recording,
                            err));
    const ana_listener listener = ana_recording_listener(files->recording);
    return listener.begin_row(listener.sink.context, files->opened->row, err);
}

/// What `--counts` writes of a block is what its mechanism counts.
static status begin_counts(cli_run_files *files, const exec_model *model, error_message *err)
{
    static const char *const columns[EXEC_MECHANISM_COUNT] = {
        [EXEC_MOE] = "", // one for each expert
        [EXEC_MOD] = ",rows",
        [EXEC_EARLY_EXIT] = ",rows",
        [EXEC_SPARSE_ATTENTION] = ",met,dense",
    };
    const bool has_experts = model->mechanism == EXEC_MOE;
    if (columns[model->mechanism] == NULL) {
        return error_set(err, STATUS_INVALID,
                         "--counts: moe, mod, early-exit and sparse-attention count; the study "
                         "trains with '%s'",
                         exec_mechanism_names[model->mechanism]);
    }
    TRY(file_output_open(files->request->counts, &files->counts_output, err));
    files->counts = file_output_stream(files->counts_output);
    fprintf(files->counts, "iteration,layer,microbatch%s", columns[model->mechanism]);
    for (int expert = 0; has_experts && expert < model->moe.expert_count; expert++) {
        fprintf(files->counts, ",expert_%d", expert);
    }
    fprintf(files->counts, "\n");
    return STATUS_OK;
}

status cli_run_files_begin(const cli_run_request *request, const cli_run_study *opened,
                           const exec_model *model, arena *memory, cli_run_files **files,
                           error_message *err)
{
    cli_run_files *made = arena_array(memory, 1, sizeof *made);
    *made = (cli_run_files){.request = request, .opened = opened, .reserve = -1};
    *files = made;
    if (request->record != NULL) TRY(begin_record(made, err));
    if (request->store != NULL) TRY(begin_run(made, memory, err));
    return request->counts != NULL ? begin_counts(made, model, err) : STATUS_OK;
}

static bool wants_timeline(void *context, int iteration)
{
    cli_run_files *files = context;
    const bal_record_sink sink = ana_recording_listener(files->recording).sink;
    return sink.wants_timeline(sink.context, iteration);
}

static status put_run(void *context, const bal_training_iteration *iteration, error_message *err)
{
    cli_run_files *files = context;
    const bal_record_sink sink = ana_recording_listener(files->recording).sink;
    ana_course_add(&files->course, iteration);
    return sink.put(sink.context, iteration, err);
}

bal_record_sink cli_run_files_sink(cli_run_files *files)
{
    if (files->recording == NULL) return (bal_record_sink){0};
    return (bal_record_sink){.context = files, .wants_timeline = wants_timeline, .put = put_run};
}

static int64_t value_or_none(const int64_t *values, int64_t index)
{
    return values != NULL ? values[index] : TRACE_NOT_RECORDED;
}

static status put_layers(cli_run_files *files, const bal_layer_costs *layers, error_message *err)
{
    for (int layer = 0; layer < layers->layer_count; layer++) {
        const trace_layer row = {
            .layer = layer,
            .parameters = value_or_none(layers->parameters, layer),
            .state_bytes = value_or_none(layers->state_bytes, layer),
            .message_bytes = value_or_none(layers->message_bytes, layer),
        };
        TRY(trace_writer_put_layer(files->writer, &row, err));
    }
    return STATUS_OK;
}

static status put_loads(cli_run_files *files, int iteration, const bal_layer_costs *layers,
                        error_message *err)
{
    const int columns = layers->microbatch_count;
    for (int layer = 0; layer < layers->layer_count; layer++) {
        for (int column = 0; column < columns; column++) {
            const int64_t cell = (int64_t)layer * columns + column;
            trace_load load = trace_load_init(iteration, layer, columns > 1 ? column : TRACE_MEAN);
            load.time_ns[TRACE_OP_FORWARD] = layers->forward_ns[cell];
            if (layers->has_split) {
                load.time_ns[TRACE_OP_BACKWARD_INPUT] = layers->backward_input_ns[cell];
                load.time_ns[TRACE_OP_BACKWARD_WEIGHT] = layers->backward_weight_ns[cell];
            } else {
                load.time_ns[TRACE_OP_BACKWARD] = layers->backward_input_ns[cell];
            }
            load.activation_bytes = value_or_none(layers->activation_bytes, layer);
            TRY(trace_writer_put_load(files->writer, &load, err));
        }
    }
    return STATUS_OK;
}

static trace_op_kind kind_of(const bal_op *op)
{
    static const trace_op_kind kinds[OP_KIND_COUNT] = {
        [OP_FORWARD] = TRACE_OP_FORWARD,
        [OP_BACKWARD_INPUT] = TRACE_OP_BACKWARD_INPUT,
        [OP_BACKWARD_WEIGHT] = TRACE_OP_BACKWARD_WEIGHT,
        [OP_BACKWARD] = TRACE_OP_BACKWARD,
    };
    return kinds[op->kind];
}

/// Recorded are the numbers of the trace whose costs are played.
static int recorded_iteration(const cli_run_files *files, const exec_measured *measured)
{
    return measured->record->iteration + files->opened->setup.first_iteration;
}

/// The ops of a replica.
static status put_ops(cli_run_files *files, const exec_measured *measured, int replica,
                      error_message *err)
{
    const bal_timeline *timeline = &measured->timelines[replica];
    const bal_schedule *schedule = timeline->schedule;
    for (int rank = 0; rank < schedule->rank_count; rank++) {
        for (int op = schedule->first_op[rank]; op < schedule->first_op[rank + 1]; op++) {
            const bal_op *ran = &schedule->ops[op];
            const trace_op row = {
                .rank = replica * schedule->rank_count + rank,
                .replica = replica,
                .iteration = recorded_iteration(files, measured),
                .kind = kind_of(ran),
                .stage = bal_schedule_stage(schedule, rank, ran->chunk),
                .layer = TRACE_NOT_RECORDED,
                .microbatch = ran->microbatch,
                .begin_ns = timeline->begin_ns[op],
                .end_ns = timeline->end_ns[op],
                .busy_ns = timeline->end_ns[op] - timeline->begin_ns[op],
            };
            TRY(trace_writer_put_op(files->writer, &row, err));
        }
    }
    return STATUS_OK;
}

static status put_record(cli_run_files *files, const exec_measured *measured, error_message *err)
{
    const int iteration = measured->record->iteration;
    const bal_layer_costs *layers = &measured->played->replicas[0];
    const bool is_first = files->put_count++ == 0;
    if (is_first) TRY(put_layers(files, layers, err));
    TRY(put_loads(files, recorded_iteration(files, measured), layers, err));
    const bool is_last = iteration == files->opened->setup.iteration_count - 1;
    const int replica_count = is_first || is_last ? measured->played->replica_count : 0;
    for (int replica = 0; replica < replica_count; replica++) {
        TRY(put_ops(files, measured, replica, err));
    }
    return STATUS_OK;
}

/// Of all blocks: between embedding and head.
static status put_counts(cli_run_files *files, const exec_measured *measured, error_message *err)
{
    const int block_count = measured->played->replicas[0].layer_count - 2;
    const int microbatches = measured->played->schedule->microbatch_count;
    const int64_t *count = measured->load_count;
    for (int row = 0; count != NULL && row < block_count * microbatches; row++) {
        fprintf(files->counts, "%d,%d,%d", measured->record->iteration, row / microbatches,
                row % microbatches);
        for (int column = 0; column < measured->load_columns; column++) {
            fprintf(files->counts, ",%" PRId64,
                    count[(microbatches + row) * (int64_t)measured->load_columns + column]);
        }
        fprintf(files->counts, "\n");
    }
    if (!ferror(files->counts)) return STATUS_OK;
    return error_set(err, STATUS_IO, "%s: cannot write: %s", files->request->counts,
                     strerror(errno));
}

status cli_run_files_put(cli_run_files *files, const exec_measured *measured, error_message *err)
{
    if (files->counts != NULL) TRY(put_counts(files, measured, err));
    if (files->seen_count++ < files->request->warmup_count) return STATUS_OK;
    return files->writer != NULL ? put_record(files, measured, err) : STATUS_OK;
}

/// @param why of a failure, the message; NULL: none
static status finish_record(cli_run_files *files, const char *why, error_message *err)
{
    if (files->reserve >= 0) close(files->reserve);
    if (files->put_count == 0) {
        trace_writer_abort(files->writer);
        return STATUS_OK;
    }
    if (why == NULL) return trace_writer_finish(files->writer, err);
    trace_writer_put_note(files->writer, "ended by", why, NULL);
    return trace_writer_keep(files->writer, err);
}

static status finish_run(cli_run_files *files, const bal_training_result *result, status outcome,
                         error_message *err)
{
    const ana_setup *setup = &files->opened->setup;
    ana_row row = {.balancing = files->opened->row, .course = files->course};
    const ana_comparison comparison = {.setup = setup, .rows = &row};
    if (outcome == STATUS_OK) {
        row.result = *result;
        ana_row_rate(&row, setup);
    }
    return ana_recording_finish(files->recording, &comparison, outcome, err);
}

status cli_run_files_finish(cli_run_files *files, const bal_training_result *result, status outcome,
                            error_message *err)
{
    error_message later = {0};
    error_message *const failed = outcome == STATUS_OK ? err : &later; // the run's own stays
    status finished = STATUS_OK;
    if (files->writer != NULL) {
        const char *why = err != NULL ? err->message : "";
        finished = finish_record(files, outcome == STATUS_OK ? NULL : why, failed);
    }
    trace_store_close(files->record_store);
    if (files->recording != NULL) {
        const status stored = finish_run(files, result, outcome, err);
        if (finished == STATUS_OK) finished = stored;
    }
    trace_store_close(files->run_store);
    if (files->counts != NULL) {
        const status closed = file_output_close(files->counts_output, true, failed);
        if (finished == STATUS_OK) finished = closed;
    }
    return outcome != STATUS_OK ? outcome : finished;
}

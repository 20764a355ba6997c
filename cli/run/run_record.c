#include "cli/run/run_record.h"

#include "base/arena.h"
#include "base/file.h"
#include "cli/version.h"
#include "traces/store/store.h"
#include "traces/store/writer.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RESERVE_BYTES = 256 * 1024 }; // ending a record takes some pages of 4 KiB

struct cli_run_record {
    trace_store *store;
    trace_writer *writer;
    int reserve;        // file that takes space until the record ends; -1: none
    int last_iteration; // of the run
    int put_count;
};

static trace_info describe(const cli_run_request *request, const cli_run_study *opened,
                           const char *command_line)
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
    info.recorded_by = command_line;
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

status cli_run_record_begin(const cli_run_request *request, const cli_run_study *opened,
                            const char *command_line, cli_run_record **record, error_message *err)
{
    cli_run_record *made = memory_array(1, sizeof *made);
    const trace_info info = describe(request, opened, command_line);
    made->last_iteration = opened->setup.iteration_count - 1;
    status result = trace_store_open(request->record, TRACE_WRITE, &made->store, err);
    if (result == STATUS_OK) {
        result = trace_writer_begin(made->store, &info, &made->writer, err);
        if (result != STATUS_OK) trace_store_close(made->store);
    }
    if (result != STATUS_OK) {
        free(made);
        return result;
    }
    made->reserve = take_reserve(request->record);
    *record = made;
    return STATUS_OK;
}

static int64_t value_or_none(const int64_t *values, int64_t index)
{
    return values != NULL ? values[index] : TRACE_NOT_RECORDED;
}

static status put_layers(cli_run_record *record, const bal_layer_costs *layers, error_message *err)
{
    for (int layer = 0; layer < layers->layer_count; layer++) {
        const trace_layer row = {
            .layer = layer,
            .parameters = value_or_none(layers->parameters, layer),
            .state_bytes = value_or_none(layers->state_bytes, layer),
            .message_bytes = value_or_none(layers->message_bytes, layer),
        };
        TRY(trace_writer_put_layer(record->writer, &row, err));
    }
    return STATUS_OK;
}

static status put_loads(cli_run_record *record, int iteration, const bal_layer_costs *layers,
                        error_message *err)
{
    const int columns = layers->microbatch_count;
    for (int layer = 0; layer < layers->layer_count; layer++) {
        for (int column = 0; column < columns; column++) {
            const int64_t cell = (int64_t)layer * columns + column;
            trace_load load = trace_load_init(iteration, layer, columns > 1 ? column : TRACE_MEAN);
            load.forward_ns = layers->forward_ns[cell];
            if (layers->has_split) {
                load.backward_input_ns = layers->backward_input_ns[cell];
                load.backward_weight_ns = layers->backward_weight_ns[cell];
            } else {
                load.backward_ns = layers->backward_input_ns[cell];
            }
            load.activation_bytes = value_or_none(layers->activation_bytes, layer);
            TRY(trace_writer_put_load(record->writer, &load, err));
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

/// The ops of the first replica.
static status put_ops(cli_run_record *record, const exec_measured *measured, error_message *err)
{
    const bal_timeline *timeline = &measured->timelines[0];
    const bal_schedule *schedule = timeline->schedule;
    for (int rank = 0; rank < schedule->rank_count; rank++) {
        for (int op = schedule->first_op[rank]; op < schedule->first_op[rank + 1]; op++) {
            const bal_op *ran = &schedule->ops[op];
            const trace_op row = {
                .rank = rank,
                .iteration = measured->record->iteration,
                .kind = kind_of(ran),
                .stage = bal_stage_of(schedule->placement, schedule->rank_count,
                                      schedule->chunk_count, rank, ran->chunk),
                .layer = TRACE_NOT_RECORDED,
                .microbatch = ran->microbatch,
                .begin_ns = timeline->begin_ns[op],
                .end_ns = timeline->end_ns[op],
                .busy_ns = timeline->end_ns[op] - timeline->begin_ns[op],
            };
            TRY(trace_writer_put_op(record->writer, &row, err));
        }
    }
    return STATUS_OK;
}

status cli_run_record_put(cli_run_record *record, const exec_measured *measured, error_message *err)
{
    const int iteration = measured->record->iteration;
    const bal_layer_costs *layers = &measured->played->replicas[0];
    if (record->put_count == 0) TRY(put_layers(record, layers, err));
    TRY(put_loads(record, iteration, layers, err));
    if (record->put_count == 0 || iteration == record->last_iteration) {
        TRY(put_ops(record, measured, err));
    }
    record->put_count++;
    return STATUS_OK;
}

status cli_run_record_finish(cli_run_record *record, const error_message *outcome,
                             error_message *err)
{
    status result = STATUS_OK;
    if (record->reserve >= 0) close(record->reserve);
    if (record->put_count == 0) {
        trace_writer_abort(record->writer);
    } else if (outcome == NULL) {
        result = trace_writer_finish(record->writer, err);
    } else {
        trace_writer_put_note(record->writer, "ended by", outcome->message, NULL);
        result = trace_writer_keep(record->writer, err);
    }
    trace_store_close(record->store);
    free(record);
    return result;
}

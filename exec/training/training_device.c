#include "exec/training/training_device.h"

#include "base/arena.h"
#include "exec/model/layer.h"
#include "exec/training/training_device_parts.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { PASS_COUNT = 3 }; // F, B and W: ops of a stage and microbatch, and laps of a layer

/// Forgets the plan in force and frees what was made for it, but not the layers.
static void reset_plan(exec_learner *learner)
{
    exec_flow_pool_reset(&learner->flows);
    learner->kernels->table->release(learner->kernels, learner->token);
    learner->token = NULL;
    learner->target = NULL;
    learner->load_count = 0;
    arena_destroy(learner->memory);
    learner->memory = NULL;
    learner->report = (exec_layer_report){0};
}

static void drop_slots(exec_held_layer *held)
{
    for (int microbatch = 0; microbatch < held->microbatch_count; microbatch++) {
        exec_slot_destroy(held->layer, held->slots[microbatch]);
    }
    free(held->slots);
    held->slots = NULL;
    held->microbatch_count = 0;
}

static void drop_layer(exec_held_layer *held)
{
    drop_slots(held);
    exec_layer_destroy(held->layer);
    *held = (exec_held_layer){0};
}

static void destroy(exec_device *device)
{
    exec_learner *learner = (exec_learner *)device;
    reset_plan(learner);
    for (int layer = 0; layer < learner->layer_count && learner->held != NULL; layer++) {
        drop_layer(&learner->held[layer]);
    }
    free(learner->held);
    exec_expert_exchange_free(&learner->exchange);
    exec_buffers_destroy(learner->buffers);
    learner->kernels->table->close(learner->kernels);
    free(learner);
}

static bool is_held(const bal_placed_partition *plan, int place, int layer)
{
    for (int chunk = 0; place >= 0 && chunk < plan->chunk_count; chunk++) {
        const int stage = bal_placed_stage(plan, place, chunk);
        if (layer >= plan->first_layer[stage] && layer < plan->first_layer[stage + 1]) return true;
    }
    return false;
}

static void hold_layer(exec_learner *learner, int layer, int microbatch_count)
{
    exec_held_layer *held = &learner->held[layer];
    if (held->layer == NULL) {
        held->layer = exec_layer_create(&learner->model, learner->buffers, layer);
    }
    if (held->microbatch_count == microbatch_count) return;
    drop_slots(held);
    held->slots = memory_array((size_t)microbatch_count, sizeof(exec_slot *));
    held->microbatch_count = microbatch_count;
}

static void carve_plan(exec_learner *learner, const bal_placed_partition *plan, int place,
                       int microbatch_count, int held_count)
{
    arena *memory = learner->memory = arena_create(1 << 14);
    learner->place = place;
    learner->microbatch_count = microbatch_count;
    const size_t columns = (size_t)microbatch_count;
    const size_t cuts = (size_t)bal_placed_stage_count(plan) + 1;
    const size_t rows = (size_t)exec_model_row_count(&learner->model);
    const size_t packed = (size_t)exec_flow_pool_packed_bytes(&learner->flows, false);
    learner->first_layer = arena_array(memory, cuts, sizeof(int));
    learner->layers = arena_array(memory, (size_t)held_count, sizeof(exec_layer *));
    learner->drawn = arena_array(memory, 3 * columns * rows, sizeof(int));
    learner->read_loss = arena_array(memory, columns * rows, sizeof(float));
    learner->norm_columns =
        1 + (learner->model.mechanism == EXEC_MOE ? learner->model.moe.expert_count : 0);
    learner->sums = arena_array(memory, (size_t)held_count, sizeof *learner->sums);
    learner->square_sum = arena_array(
        memory, (size_t)learner->layer_count * (size_t)learner->norm_columns, sizeof(double));
    for (int way = 0; way < 2; way++) {
        learner->input[way] = arena_array(memory, packed, 1);
        learner->output[way] = arena_array(memory, packed, 1);
    }
    memcpy(learner->first_layer, plan->first_layer, cuts * sizeof(int));
    learner->report =
        (exec_layer_report){.layer_count = held_count,
                            .microbatch_count = microbatch_count,
                            .load_columns = exec_mechanism_load_columns(&learner->model)};
    exec_layer_report_carve(&learner->report, memory);
    learner->load_count = learner->mechanism->load != NULL
                              ? 0
                              : (size_t)held_count * columns * (size_t)learner->report.load_columns;
    learner->read_load = arena_array(memory, learner->load_count, sizeof(int));
    const int op_max = PASS_COUNT * microbatch_count * plan->chunk_count;
    const int lap_max = 1 + 2 * op_max + PASS_COUNT * microbatch_count * held_count;
    learner->watch = exec_stopwatch_of(learner->kernels, learner->clock, lap_max, op_max, memory);
}

/// Bytes of the layer's state: parameters, gradients, moments, what is computed with, and what the
/// mechanism keeps.
static int64_t state_bytes_of(const exec_learner *learner, const exec_layer *layer)
{
    const int value_bytes = learner->kernels->table->value_bytes;
    const bool has_weights = (void *)layer->master != layer->weights;
    const int floats = layer->is_frozen ? 1 : 4; // master, moments and gradient
    const int64_t bytes = (int64_t)layer->held_count *
                              (floats * (int64_t)sizeof(float) + (has_weights ? value_bytes : 0)) +
                          (int64_t)(layer->expert_gradient_count * sizeof(float));
    return learner->mechanism->state_bytes != NULL ? bytes + learner->mechanism->state_bytes(layer)
                                                   : bytes;
}

static status hold_plan(exec_learner *learner, const bal_placed_partition *plan, int place,
                        int microbatch_count, error_message *err)
{
    int held_count = 0;
    for (int layer = 0; layer < learner->layer_count; layer++) {
        if (!is_held(plan, place, layer)) continue;
        hold_layer(learner, layer, microbatch_count);
        learner->held[layer].row = held_count++;
    }
    exec_flow_pool_init(&learner->flows, &learner->model, learner->kernels,
                        learner->hands_over_memory);
    carve_plan(learner, plan, place, microbatch_count, held_count);
    for (int layer = 0; layer < learner->layer_count; layer++) {
        const exec_held_layer *held = &learner->held[layer];
        if (held->layer == NULL) continue;
        learner->layers[held->row] = held->layer;
        learner->report.layer[held->row] = layer;
    }
    const size_t tokens = (size_t)microbatch_count * (size_t)exec_model_row_count(&learner->model);
    learner->token = learner->kernels->table->allocate(
        learner->kernels,
        (3 * tokens + learner->load_count) * sizeof(int) + tokens * sizeof(float));
    learner->target = learner->token + tokens;
    learner->position = learner->target + tokens;
    learner->load = learner->position + tokens;
    learner->loss = (float *)(void *)(learner->load + learner->load_count);
    return learner->kernels->table->check(learner->kernels, err);
}

static status hold(exec_device *device, const bal_placed_partition *plan, int place,
                   int microbatch_count, error_message *err)
{
    exec_learner *learner = (exec_learner *)device;
    reset_plan(learner);
    for (int layer = 0; layer < learner->layer_count; layer++) {
        if (!is_held(plan, place, layer)) drop_layer(&learner->held[layer]);
    }
    exec_buffers_trim(learner->buffers);
    if (place < 0) return STATUS_OK;
    return hold_plan(learner, plan, place, microbatch_count, err);
}

static void report(const exec_device *device, exec_layer_report *report)
{
    const exec_learner *learner = (const exec_learner *)device;
    *report = learner->report;
    for (int row = 0; row < report->layer_count; row++) {
        const exec_layer *layer = learner->layers[row];
        report->parameters[row] = layer->is_frozen ? 0 : (int64_t)layer->held_count;
        report->state_bytes[row] = state_bytes_of(learner, layer);
        report->message_bytes[row] =
            layer->kind == EXEC_LAYER_HEAD ? 0 : exec_flow_pool_row_bytes(&learner->flows);
    }
}

static exec_held_layer *held_layer(const exec_device *device, int layer)
{
    const exec_learner *learner = (const exec_learner *)device;
    assert(layer >= 0 && layer < learner->layer_count && learner->held[layer].layer != NULL);
    return &learner->held[layer];
}

static int64_t packed_bytes(const exec_device *device, int layer)
{
    return exec_layer_state_bytes(held_layer(device, layer)->layer, !device->leaves_out_arrays);
}

static status pack(exec_device *device, int layer, void *bytes, error_message *err)
{
    const exec_held_layer *held = held_layer(device, layer);
    if (!held->is_filled) {
        return error_set(err, STATUS_INVALID, "layer %d has no parameters yet", layer);
    }
    return exec_layer_state_pack(held->layer, !device->leaves_out_arrays, bytes, err);
}

static int64_t shipped_bytes(const exec_device *device, int layer)
{
    return exec_layer_array_bytes(held_layer(device, layer)->layer);
}

static status ship(exec_device *device, exec_endpoint *endpoint, int layer, int rank, bool is_send,
                   int64_t byte_count, error_message *err)
{
    exec_learner *learner = (exec_learner *)device;
    exec_held_layer *held = &learner->held[layer];
    if (!is_send) {
        held->arrived = exec_buffers_take(learner->buffers, (size_t)byte_count);
        TRY(learner->kernels->table->check(learner->kernels, err));
    }
    void *memory = is_send ? held->layer->master : held->arrived;
    const exec_transfer one = {rank, is_send, memory, byte_count};
    return endpoint->transport->exchange(
        endpoint, learner->kernels->table->stream(learner->kernels), &one, 1, err);
}

static status unpack(exec_device *device, int layer, const void *bytes, int64_t byte_count,
                     error_message *err)
{
    exec_held_layer *held = held_layer(device, layer);
    held->is_filled = false;
    TRY(exec_layer_state_unpack(held->layer, bytes, byte_count, held->arrived, err));
    exec_buffers_give(((exec_learner *)device)->buffers, held->arrived);
    held->arrived = NULL;
    held->is_filled = true;
    return held->layer->kernels->table->check(held->layer->kernels, err);
}

static status initialise(exec_device *device, int layer, error_message *err)
{
    const exec_learner *learner = (const exec_learner *)device;
    exec_held_layer *held = held_layer(device, layer);
    TRY(exec_layer_initialise(held->layer, err));
    if (learner->mechanism->initialise != NULL) learner->mechanism->initialise(held->layer);
    held->is_filled = true;
    return learner->kernels->table->check(learner->kernels, err);
}

static status settle(exec_device *device, error_message *err)
{
    const exec_learner *learner = (const exec_learner *)device;
    return learner->kernels->table->finish(learner->kernels, err);
}

static exec_device_table table_of(const exec_training_device *options)
{
    const bool is_cuda = options->backend != EXEC_BACKEND_CPU;
    return (exec_device_table){
        .name = is_cuda ? "cuda" : "cpu",
        .is_asynchronous = is_cuda && options->runs_ahead,
        .learns = true,
        .hold = hold,
        .begin = exec_learner_begin,
        .input_place = exec_learner_input_place,
        .play = exec_learner_play,
        .finish = exec_learner_finish,
        .report = report,
        .packed_bytes = packed_bytes,
        .pack = pack,
        .unpack = unpack,
        .ship = is_cuda ? ship : NULL,
        .shipped_bytes = shipped_bytes,
        .destroy = destroy,
        .now_ns = exec_learner_now_ns,
        .initialise = initialise,
        .settle = settle,
        .reduce = exec_learner_reduce,
        .step = exec_learner_step,
        .adapt = exec_learner_adapt,
        .loss = exec_learner_loss,
    };
}

exec_device *exec_training_device_create_over(const exec_training_device *options, int world_rank,
                                              exec_kernels *kernels)
{
    exec_learner *learner = memory_array(1, sizeof *learner);
    *learner = (exec_learner){
        .table = table_of(options),
        .model = *options->model,
        .text = options->text,
        .packing = options->packing,
        .mechanism = exec_mechanism_find(options->model->mechanism),
        .kernels = kernels,
        .clock = options->counts_cpu_time ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC,
        .hands_over_memory = options->hands_over_memory && kernels->table->offer != NULL,
        .replica = options->replica_rank_count > 0 ? world_rank / options->replica_rank_count : 0,
        .layer_count = exec_model_layer_count(options->model),
        .replica_count = 1,
    };
    learner->device.table = &learner->table;
    if (learner->model.mechanism == EXEC_MOE && learner->model.moe.expert_parallel > 1) {
        learner->exchange = exec_expert_exchange_of(
            learner->model.moe.expert_parallel, learner->replica, &learner->watch, &learner->device,
            options->counts_cpu_time, learner->hands_over_memory);
        learner->model.expert_exchange = &learner->exchange;
    }
    learner->buffers = exec_buffers_create(learner->kernels);
    learner->held = memory_array((size_t)learner->layer_count, sizeof *learner->held);
    return &learner->device;
}

static status open_kernels(const exec_training_device *options, int world_rank,
                           exec_kernels **kernels, error_message *err)
{
    const int place_count = options->gpu_place_count > 0 ? options->gpu_place_count : 1;
    const exec_cuda_kind kind =
        options->backend == EXEC_BACKEND_CUDA_BF16 ? EXEC_CUDA_BF16 : EXEC_CUDA_FP32;
    switch (options->backend) {
    case EXEC_BACKEND_CPU:
        return exec_kernels_cpu_open(kernels);
    case EXEC_BACKEND_CUDA_FP32:
    case EXEC_BACKEND_CUDA_BF16:
        return exec_kernels_cuda_open(kind, world_rank % place_count, place_count, kernels, err);
    }
    assert(false && "a backend of the list");
    return STATUS_INVALID;
}

status exec_training_device_check(const exec_training_device *options, error_message *err)
{
    TRY(exec_model_check(options->model, err));
    if (options->backend != EXEC_BACKEND_CPU && options->model->mechanism == EXEC_PRUNING &&
        options->model->pruning.csr_from > 0) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "pruning: csr_from %g: device cuda has no products in compressed rows; "
                         "cpu has, and 0 keeps layers dense",
                         options->model->pruning.csr_from);
    }
    const size_t needed = (size_t)options->model->sequence_length + 1;
    if (options->text->token_count < needed) {
        return error_set(err, STATUS_INVALID, "text has %zu tokens; a sequence needs %zu",
                         options->text->token_count, needed);
    }
    if (options->packing != NULL && options->backend != EXEC_BACKEND_CPU) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "documents of unlike length are packed on device cpu only");
    }
    return STATUS_OK;
}

status exec_training_device_create(void *context, int world_rank, exec_device **out,
                                   error_message *err)
{
    const exec_training_device *options = context;
    exec_kernels *kernels = NULL;
    TRY(exec_training_device_check(options, err));
    TRY(open_kernels(options, world_rank, &kernels, err));
    *out = exec_training_device_create_over(options, world_rank, kernels);
    return STATUS_OK;
}

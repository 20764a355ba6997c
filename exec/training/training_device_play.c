/// How a device that learns plays the ops of an iteration.
#include "exec/training/training_device_parts.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

/// Takes no part in the backward pass: neither it nor anything in front of it learns.
static bool is_idle(const exec_layer *layer)
{
    return layer->is_frozen && (layer->passes_no_gradient || layer->index == 0);
}

static exec_packed_rows packed_rows_of(const exec_learner *learner, int microbatch)
{
    return exec_packing_rows(learner->packing, learner->iteration, learner->replica, microbatch);
}

int exec_learner_row_count(const exec_learner *learner, int microbatch)
{
    if (learner->packing == NULL) return exec_model_row_count(&learner->model);
    const exec_packed_rows packed = packed_rows_of(learner, microbatch);
    return packed.first_row[packed.document_count];
}

static void draw_batches(exec_learner *learner)
{
    const int rows = exec_model_row_count(&learner->model);
    const int tokens = rows * learner->microbatch_count;
    for (int microbatch = 0; microbatch < learner->microbatch_count; microbatch++) {
        int *token = learner->drawn + microbatch * rows;
        if (learner->packing != NULL) {
            const exec_packed_rows packed = packed_rows_of(learner, microbatch);
            exec_packing_draw(&packed, learner->text, learner->model.seed, token, token + tokens,
                              token + 2 * tokens);
            continue;
        }
        const exec_text_batch batch = {.seed = learner->model.seed,
                                       .iteration = learner->iteration,
                                       .microbatch = learner->replica * learner->microbatch_count +
                                                     microbatch,
                                       .sequence_count = learner->model.microbatch_size,
                                       .sequence_length = learner->model.sequence_length};
        exec_training_text_draw(learner->text, &batch, token, token + tokens);
    }
    learner->kernels->table->to_device(learner->kernels, learner->token, learner->drawn,
                                       3 * (size_t)tokens * sizeof(int));
}

/// Whether there are packed documents for the iteration; how much a token of them weighs.
static status weigh_rows(exec_learner *learner, error_message *err)
{
    const exec_packing *packing = learner->packing;
    if (packing == NULL) return STATUS_OK;
    if (learner->iteration >= packing->iteration_count ||
        learner->microbatch_count != packing->microbatch_count) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "iteration %d of %d microbatches; documents are packed for %d iterations "
                         "of %d",
                         learner->iteration, learner->microbatch_count, packing->iteration_count,
                         packing->microbatch_count);
    }
    learner->row_weight = (double)packing->microbatch_count * packing->replica_count /
                          (double)exec_packing_tokens(packing, learner->iteration);
    return STATUS_OK;
}

/// Forgets what was measured, but not which layers they are.
static void clear_report(exec_layer_report *report)
{
    int64_t **arrays[EXEC_REPORT_ARRAYS];
    int columns[EXEC_REPORT_ARRAYS];
    exec_layer_report_list(report, arrays, columns);
    for (int array = 0; array < EXEC_REPORT_ARRAYS; array++) {
        memset(*arrays[array], 0,
               (size_t)report->layer_count * (size_t)columns[array] * sizeof **arrays[array]);
    }
}

/// Where ops are to reduce gradients.
static status begin_reduction(exec_learner *learner, const exec_iteration *iteration,
                              error_message *err)
{
    learner->overlap = iteration->reduction_overlap;
    learner->replicas = iteration->replicas;
    learner->sum_count = learner->sum_done = 0;
    if (learner->overlap == BAL_REDUCTION_EXPOSED) return STATUS_OK;
    if (exec_learner_can_overlap(learner, learner->replicas)) return STATUS_OK;
    return error_set(err, STATUS_UNSUPPORTED,
                     "reduction_overlap '%s': %s reduce gradients after the pipeline",
                     bal_reduction_overlap_names[iteration->reduction_overlap],
                     learner->model.expert_exchange != NULL ? "replicas that share experts"
                                                            : "GPUs without NCCL");
}

status exec_learner_begin(exec_device *device, const exec_iteration *iteration, error_message *err)
{
    exec_learner *learner = (exec_learner *)device;
    const double factor = iteration->rank_time_factor;
    if (factor != 1.0 && (factor < 1.0 || learner->kernels->table->mark != NULL)) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "device %s cannot have its ops take %g times as long: cpu can where it is "
                         "more than 1, timed always",
                         device->table->name, factor);
    }
    if (learner->model.expert_exchange != NULL) {
        TRY(exec_expert_exchange_begin(&learner->exchange, iteration->replicas, err));
    }
    learner->watch.time_factor = factor;
    learner->iteration = iteration->iteration;
    learner->replica_count = 1;
    TRY(begin_reduction(learner, iteration, err));
    clear_report(&learner->report);
    exec_flow_pool_clear(&learner->flows);
    for (int row = 0; row < learner->report.layer_count; row++) {
        exec_layer *layer = learner->layers[row];
        if (!learner->held[layer->index].is_filled) {
            return error_set(err, STATUS_INVALID, "layer %d has no parameters yet", layer->index);
        }
        if (layer->is_frozen) continue;
        learner->kernels->table->clear(learner->kernels, layer->gradient,
                                       (layer->held_count + layer->expert_gradient_count) *
                                           sizeof(float));
    }
    TRY(weigh_rows(learner, err));
    draw_batches(learner);
    return exec_stopwatch_begin(&learner->watch, err);
}

int64_t exec_learner_input_place(exec_device *device, const exec_step *step, void **bytes)
{
    exec_learner *learner = (exec_learner *)device;
    *bytes = learner->input[step->op.kind != OP_FORWARD];
    return exec_flow_pool_packed_bytes(&learner->flows, step->op.kind != OP_FORWARD);
}

/// The part of an op that is a layer's has ended.
static void lap(exec_learner *learner, bal_op_kind kind, const exec_layer *layer, int microbatch)
{
    const exec_layer_report *report = &learner->report;
    int64_t *times = kind == OP_FORWARD          ? report->forward_ns
                     : kind == OP_BACKWARD_INPUT ? report->backward_input_ns
                                                 : report->backward_weight_ns;
    const int cell = learner->held[layer->index].row * report->microbatch_count + microbatch;
    exec_stopwatch_lap(&learner->watch, &times[cell],
                       kind == OP_FORWARD ? &report->exchange_ns[cell] : NULL);
}

/// Ends an op: the layers' times are the op's. Unless the device runs ahead it waits for it.
static status end_op(exec_learner *learner, int64_t *duration_ns, error_message *err)
{
    exec_stopwatch *watch = &learner->watch;
    exec_stopwatch_end_op(watch);
    if (learner->device.table->is_asynchronous) {
        return learner->kernels->table->check(learner->kernels, err);
    }
    const int op = watch->op_count - 1;
    TRY(exec_stopwatch_settle(watch, op, err));
    *duration_ns = exec_stopwatch_op_end_ns(watch, op) - exec_stopwatch_op_begin_ns(watch, op);
    return STATUS_OK;
}

/// The buffer with the input of an F or a B, which is this op's alone from now on.
static status take_input(exec_learner *learner, const exec_step *step, const exec_payload *input,
                         exec_flow_buffer **out, error_message *err)
{
    const bool is_backward = step->op.kind != OP_FORWARD;
    if (step->wait_stage >= 0 && input == NULL) {
        *out = exec_flow_pool_find(&learner->flows, step->stage, step->op.microbatch, is_backward);
        (*out)->stage = -1;
        return STATUS_OK;
    }
    *out = exec_flow_pool_take(&learner->flows);
    if (input == NULL) {
        exec_flow_pool_fill(&learner->flows, *out);
        return STATUS_OK;
    }
    const int64_t expected = exec_flow_pool_packed_bytes(&learner->flows, is_backward);
    if (input->byte_count != expected) {
        return error_set(err, STATUS_BACKEND,
                         "stage %d, microbatch %d: a message of %" PRId64 " bytes; %" PRId64
                         " were expected",
                         step->stage, step->op.microbatch, input->byte_count, expected);
    }
    return exec_flow_pool_unpack(&learner->flows, input->bytes, is_backward, *out, err);
}

/// Leaves the output for another stage of this rank, or packs it for another rank.
static status leave_output(exec_learner *learner, const exec_step *step, exec_flow_buffer *buffer,
                           exec_payload *output, error_message *err)
{
    if (step->send_place < 0) return STATUS_OK;
    const bool is_backward = step->op.kind != OP_FORWARD;
    if (step->send_place == learner->place) {
        buffer->stage = step->send_stage;
        buffer->microbatch = step->op.microbatch;
        buffer->is_backward = is_backward;
        return STATUS_OK;
    }
    TRY(exec_flow_pool_pack(&learner->flows, buffer, is_backward, learner->output[is_backward],
                            err));
    output->byte_count = exec_flow_pool_packed_bytes(&learner->flows, is_backward);
    return STATUS_OK;
}

/// Where the loads of a layer in a microbatch stand.
static size_t load_place(const exec_learner *learner, const exec_held_layer *held, int microbatch)
{
    const exec_layer_report *report = &learner->report;
    return ((size_t)held->row * (size_t)report->microbatch_count + (size_t)microbatch) *
           (size_t)report->load_columns;
}

static void note_forward(exec_learner *learner, exec_layer *layer, int microbatch)
{
    const exec_held_layer *held = &learner->held[layer->index];
    const exec_slot *slot = held->slots[microbatch];
    const exec_layer_report *report = &learner->report;
    if (slot->activation_bytes > report->activation_bytes[held->row]) {
        report->activation_bytes[held->row] = slot->activation_bytes;
    }
    if (learner->mechanism->load == NULL) return;
    learner->mechanism->load(layer, slot,
                             &report->load_count[load_place(learner, held, microbatch)]);
}

static status forward(exec_learner *learner, const exec_step *step, exec_flow_buffer *buffer,
                      int64_t *duration_ns, error_message *err)
{
    const int rows = exec_model_row_count(&learner->model);
    const int microbatch = step->op.microbatch;
    exec_flow flow = {.values = buffer->values,
                      .row_count = rows,
                      .has_left = buffer->has_left,
                      .token = learner->token + microbatch * rows,
                      .target = learner->target + microbatch * rows,
                      .loss = learner->loss + microbatch * rows,
                      .iteration = learner->iteration,
                      .microbatch = microbatch};
    if (learner->packing != NULL) {
        const exec_packed_rows packed = packed_rows_of(learner, microbatch);
        flow.row_count = exec_learner_row_count(learner, microbatch);
        flow.row_weight = (float)learner->row_weight;
        flow.document_count = packed.document_count;
        flow.first_row = packed.first_row;
        flow.position = learner->position + microbatch * rows;
    }
    const int end = learner->first_layer[step->stage + 1];
    exec_stopwatch_begin_op(&learner->watch);
    for (int index = learner->first_layer[step->stage]; index < end; index++) {
        exec_held_layer *held = &learner->held[index];
        exec_slot **slot = &held->slots[microbatch];
        if (*slot == NULL) *slot = exec_slot_create(held->layer);
        if (learner->load_count > 0)
            flow.load = learner->load + load_place(learner, held, microbatch);
        TRY(exec_layer_forward(held->layer, *slot, &flow, err));
        lap(learner, OP_FORWARD, held->layer, microbatch);
    }
    TRY(end_op(learner, duration_ns, err));
    for (int index = learner->first_layer[step->stage]; index < end; index++) {
        note_forward(learner, learner->held[index].layer, microbatch);
    }
    return STATUS_OK;
}

/// Whether gradients of a stage end with the microbatch: W takes them in ascending order.
static bool is_last(const exec_learner *learner, int microbatch)
{
    return microbatch == learner->microbatch_count - 1;
}

/// W of one layer.
static status backward_weight(exec_learner *learner, exec_held_layer *held, int microbatch,
                              error_message *err)
{
    if (held->layer->is_frozen) return STATUS_OK;
    exec_layer_backward_weight(held->layer, held->slots[microbatch]);
    lap(learner, OP_BACKWARD_WEIGHT, held->layer, microbatch);
    if (learner->overlap != BAL_REDUCTION_BACKWARD || !is_last(learner, microbatch)) {
        return STATUS_OK;
    }
    return exec_learner_begin_sum(learner, held->layer, err);
}

/// After the last W or BW of a stage its gradients are all there; the last layer goes first, as the
/// simulator has it.
static status begin_sums(exec_learner *learner, const exec_step *step, error_message *err)
{
    if (learner->overlap != BAL_REDUCTION_STAGE || !is_last(learner, step->op.microbatch)) {
        return STATUS_OK;
    }
    const int first = learner->first_layer[step->stage];
    for (int index = learner->first_layer[step->stage + 1] - 1; index >= first; index--) {
        TRY(exec_learner_begin_sum(learner, learner->held[index].layer, err));
    }
    return STATUS_OK;
}

/// B of one layer.
static status backward_input(exec_learner *learner, exec_held_layer *held, void *gradient,
                             int microbatch, error_message *err)
{
    exec_slot *slot = held->slots[microbatch];
    TRY(exec_layer_backward_input(held->layer, slot, gradient, err));
    int64_t *largest = &learner->report.gradient_bytes[held->row];
    if (slot->gradient_bytes > *largest) *largest = slot->gradient_bytes;
    lap(learner, OP_BACKWARD_INPUT, held->layer, microbatch);
    return STATUS_OK;
}

/// B of every layer that is not idle, W of every one that learns, or with BW both, the last layer
/// first.
static status backward(exec_learner *learner, const exec_step *step, void *gradient,
                       int64_t *duration_ns, error_message *err)
{
    const int first = learner->first_layer[step->stage];
    exec_stopwatch_begin_op(&learner->watch);
    for (int index = learner->first_layer[step->stage + 1] - 1; index >= first; index--) {
        exec_held_layer *held = &learner->held[index];
        if (step->op.kind != OP_BACKWARD_WEIGHT) {
            if (is_idle(held->layer)) break; // and so are all in front
            TRY(backward_input(learner, held, gradient, step->op.microbatch, err));
        }
        if (step->op.kind == OP_BACKWARD_INPUT) continue;
        TRY(backward_weight(learner, held, step->op.microbatch, err));
    }
    return end_op(learner, duration_ns, err);
}

static status play_forward(exec_learner *learner, const exec_step *step, const exec_payload *input,
                           exec_payload *output, int64_t *duration_ns, error_message *err)
{
    exec_flow_buffer *buffer = NULL;
    TRY(take_input(learner, step, input, &buffer, err));
    TRY(forward(learner, step, buffer, duration_ns, err));
    return leave_output(learner, step, buffer, output, err);
}

/// A stage that begins with a layer in front of which all are frozen has no gradient for the stage
/// before, which does not expect one: nothing but the head of a message is sent, or nothing left.
static status play_backward(exec_learner *learner, const exec_step *step, const exec_payload *input,
                            exec_payload *output, int64_t *duration_ns, error_message *err)
{
    const int first = learner->first_layer[step->stage];
    const int last = learner->first_layer[step->stage + 1] - 1;
    exec_flow_buffer *buffer = NULL;
    void *gradient = NULL;
    if (!is_idle(learner->held[last].layer)) {
        TRY(take_input(learner, step, input, &buffer, err));
        gradient = buffer->values;
    }
    TRY(backward(learner, step, gradient, duration_ns, err));
    if (step->op.kind == OP_BACKWARD) TRY(begin_sums(learner, step, err));
    if (learner->held[first].layer->passes_no_gradient) return STATUS_OK;
    return leave_output(learner, step, buffer, output, err);
}

status exec_learner_play(exec_device *device, const exec_step *step, const exec_payload *input,
                         exec_payload *output, int64_t *duration_ns, error_message *err)
{
    exec_learner *learner = (exec_learner *)device;
    if (output != NULL)
        *output = (exec_payload){.bytes = learner->output[step->op.kind != OP_FORWARD]};
    TRY(exec_learner_advance_sums(learner, false, err));
    switch ((bal_op_kind)step->op.kind) {
    case OP_FORWARD:
        return play_forward(learner, step, input, output, duration_ns, err);
    case OP_BACKWARD_INPUT:
    case OP_BACKWARD:
        return play_backward(learner, step, input, output, duration_ns, err);
    case OP_BACKWARD_WEIGHT:
        TRY(backward(learner, step, NULL, duration_ns, err));
        return begin_sums(learner, step, err);
    case OP_KIND_COUNT:
        break;
    }
    assert(false && "an op of a schedule");
    return STATUS_INVALID;
}

/// The only time that an iteration waits for what its mechanism has counted.
static void read_loads(exec_learner *learner)
{
    const size_t count = learner->load_count;
    if (count == 0) return;
    learner->kernels->table->to_host(learner->kernels, learner->read_load, learner->load,
                                     count * sizeof *learner->load);
    for (size_t index = 0; index < count; index++) {
        learner->report.load_count[index] = learner->read_load[index];
    }
}

status exec_learner_finish(exec_device *device, int64_t *begin_ns, int64_t *end_ns,
                           error_message *err)
{
    exec_learner *learner = (exec_learner *)device;
    const exec_stopwatch *watch = &learner->watch;
    read_loads(learner);
    if (!device->table->is_asynchronous) {
        return learner->kernels->table->finish(learner->kernels, err);
    }
    TRY(exec_stopwatch_settle(&learner->watch, 0, err));
    for (int op = 0; op < watch->op_count; op++) {
        begin_ns[op] = exec_stopwatch_op_begin_ns(watch, op);
        end_ns[op] = exec_stopwatch_op_end_ns(watch, op);
    }
    return STATUS_OK;
}

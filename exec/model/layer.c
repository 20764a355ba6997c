#include "exec/model/layer.h"

#include "base/arena.h"
#include "base/rng.h"
#include "exec/model/compression.h"
#include "exec/model/expert_exchange.h"
#include "exec/model/layer_table.h"
#include "exec/model/mechanism.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/// Streams of random numbers of parameters begin here; those of data and mechanisms elsewhere.
static const uint64_t parameter_purpose = (uint64_t)1 << 40;

static const exec_layer_table *const tables[] = {[EXEC_LAYER_EMBEDDING] = &exec_embedding_layer,
                                                 [EXEC_LAYER_BLOCK] = &exec_block_layer,
                                                 [EXEC_LAYER_HEAD] = &exec_head_layer};

void exec_layer_allocate_state(const exec_layer *layer, size_t held_count, bool is_frozen,
                               float **master, float **gradient)
{
    exec_kernels *kernels = layer->kernels;
    const size_t bytes = held_count * sizeof(float);
    const size_t expert_bytes = layer->expert_gradient_count * sizeof(float);
    *master = kernels->table->allocate(kernels, is_frozen ? bytes : 3 * bytes);
    *gradient = is_frozen ? NULL : kernels->table->allocate(kernels, bytes + expert_bytes);
}

void exec_layer_take_state(exec_layer *layer, size_t held_count, bool is_frozen, float *master,
                           float *gradient)
{
    if (layer->weights == layer->master) layer->weights = master;
    layer->kernels->table->release(layer->kernels, layer->master);
    layer->kernels->table->release(layer->kernels, layer->gradient);
    layer->held_count = held_count;
    layer->master = master;
    layer->moment1 = is_frozen ? NULL : master + held_count;
    layer->moment2 = is_frozen ? NULL : layer->moment1 + held_count;
    layer->gradient = gradient;
    layer->is_frozen = is_frozen;
}

static void allocate_parameters(exec_layer *layer)
{
    exec_kernels *kernels = layer->kernels;
    const size_t count = layer->parameter_count;
    const size_t value_bytes = (size_t)kernels->table->value_bytes;
    float *master;
    float *gradient;
    exec_layer_allocate_state(layer, count, false, &master, &gradient);
    exec_layer_take_state(layer, count, false, master, gradient);
    if (value_bytes == sizeof(float)) return;
    layer->weights = kernels->table->allocate(kernels, count * value_bytes);
}

exec_layer *exec_layer_create(const exec_model *model, exec_buffers *buffers, int index)
{
    assert(index >= 0 && index < exec_model_layer_count(model));
    const exec_layer_kind kind = index == 0                    ? EXEC_LAYER_EMBEDDING
                                 : index <= model->block_count ? EXEC_LAYER_BLOCK
                                                               : EXEC_LAYER_HEAD;
    exec_layer *made = memory_array(1, tables[kind]->layer_bytes);
    made->table = tables[kind];
    made->model = model;
    made->buffers = buffers;
    made->kernels = exec_buffers_kernels(buffers);
    made->kind = kind;
    made->index = index;
    made->table->describe(made);
    const int members = model->expert_exchange != NULL ? model->expert_exchange->member_count : 1;
    made->expert_gradient_count = (size_t)(members - 1) * made->expert_parameter_count;
    allocate_parameters(made);
    const exec_mechanism_table *mechanism = exec_mechanism_find(model->mechanism);
    if (mechanism->create != NULL) mechanism->create(made);
    return made;
}

void exec_layer_destroy(exec_layer *layer)
{
    if (layer == NULL) return;
    exec_kernels *kernels = layer->kernels;
    const exec_mechanism_table *mechanism = exec_mechanism_find(layer->model->mechanism);
    if (mechanism->destroy != NULL) mechanism->destroy(layer);
    if (layer->table->undescribe != NULL) layer->table->undescribe(layer);
    for (int index = 0; index < layer->tensor_count; index++) {
        exec_csr_destroy(layer->tensors[index].csr);
    }
    if (layer->weights != layer->master) kernels->table->release(kernels, layer->weights);
    kernels->table->release(kernels, layer->gradient);
    kernels->table->release(kernels, layer->master);
    free(layer);
}

/// Uniform numbers of the tensor's deviation: unlike normal ones they need no logarithm, whose bits
/// differ between libraries.
static void draw_tensor(const exec_layer *layer, int index, float *values)
{
    const exec_tensor *tensor = &layer->tensors[index];
    const size_t count = (size_t)tensor->rows * (size_t)tensor->columns;
    const double reach = (double)tensor->initial_deviation * sqrt(3.0);
    const uint64_t key = (uint64_t)layer->index * EXEC_LAYER_TENSORS_MAX + (uint64_t)index;
    rng generator = rng_init(layer->model->seed, parameter_purpose + key);
    for (size_t at = 0; reach > 0 && at < tensor->before; at++) {
        (void)rng_next(&generator);
    }
    for (size_t at = 0; at < count; at++) {
        values[at] =
            reach > 0 ? (float)(reach * (2.0 * rng_unit(&generator) - 1.0)) : tensor->initial_value;
    }
}

status exec_layer_set_frozen(exec_layer *layer, bool is_frozen, error_message *err)
{
    if (layer->is_frozen == is_frozen) return STATUS_OK;
    exec_kernels *kernels = layer->kernels;
    float *master;
    float *gradient;
    const size_t held_count = layer->held_count;
    exec_layer_allocate_state(layer, held_count, is_frozen, &master, &gradient);
    kernels->table->copy(kernels, master, layer->master, held_count * sizeof(float));
    const status result = kernels->table->finish(kernels, err); // before the old memory is released
    exec_layer_take_state(layer, held_count, is_frozen, master, gradient);
    return result;
}

status exec_layer_initialise(exec_layer *layer, error_message *err)
{
    TRY(exec_layer_set_frozen(layer, false, err));
    exec_layer_decompress(layer);
    const size_t count = layer->parameter_count;
    float *values = memory_array(count, sizeof *values);
    for (int index = 0; index < layer->tensor_count; index++) {
        draw_tensor(layer, index, values + layer->tensors[index].offset);
    }
    exec_kernels *kernels = layer->kernels;
    kernels->table->to_device(kernels, layer->master, values, count * sizeof *values);
    kernels->table->clear(kernels, layer->moment1, 2 * count * sizeof *values);
    kernels->table->clear(kernels, layer->gradient,
                          (count + layer->expert_gradient_count) * sizeof *values);
    exec_layer_refresh(layer);
    layer->step = 0;
    free(values);
    return kernels->table->check(kernels, err);
}

void exec_layer_refresh(exec_layer *layer)
{
    layer->kernels->table->to_values(layer->kernels, layer->master, layer->weights,
                                     layer->held_count);
}

exec_slot *exec_slot_create(exec_layer *layer)
{
    exec_slot *made = memory_array(1, layer->table->slot_bytes);
    if (layer->table->begin_slot != NULL) layer->table->begin_slot(layer, made);
    return made;
}

static void let_go(exec_layer *layer, exec_slot *slot)
{
    layer->table->let_go(layer, slot);
    exec_holding_give(&slot->input, layer->buffers);
}

void exec_slot_destroy(exec_layer *layer, exec_slot *slot)
{
    if (slot == NULL) return;
    let_go(layer, slot);
    if (layer->table->end_slot != NULL) layer->table->end_slot(layer, slot);
    free(slot);
}

static void keep_input(exec_layer *layer, exec_slot *slot, const exec_flow *flow)
{
    const size_t bytes = exec_layer_bytes(layer, flow->row_count, layer->model->width);
    slot->recomputed = *flow;
    slot->recomputed.values = exec_holding_take(&slot->input, layer->buffers, bytes);
    layer->kernels->table->copy(layer->kernels, slot->recomputed.values, flow->values, bytes);
}

status exec_layer_forward(exec_layer *layer, exec_slot *slot, exec_flow *flow, error_message *err)
{
    let_go(layer, slot);
    const int64_t before = exec_buffers_taken_bytes(layer->buffers);
    const bool has_backward = !layer->is_frozen || !layer->passes_no_gradient;
    const bool recomputes = layer->model->recomputes && layer->kind == EXEC_LAYER_BLOCK;
    if (recomputes && has_backward) keep_input(layer, slot, flow);
    TRY(layer->table->forward(layer, slot, flow, err));
    if (recomputes || !has_backward) layer->table->let_go(layer, slot);
    slot->activation_bytes = exec_buffers_taken_bytes(layer->buffers) - before;
    slot->gradient_bytes = slot->activation_bytes;
    return STATUS_OK;
}

status exec_layer_backward_input(exec_layer *layer, exec_slot *slot, void *gradient,
                                 error_message *err)
{
    const int64_t before = exec_buffers_taken_bytes(layer->buffers);
    if (slot->input.region_count > 0) {
        TRY(layer->table->forward(layer, slot, &slot->recomputed, err));
        exec_holding_give(&slot->input, layer->buffers);
    }
    TRY(layer->table->backward_input(layer, slot, gradient, err));
    slot->gradient_bytes =
        slot->activation_bytes + exec_buffers_taken_bytes(layer->buffers) - before;
    return STATUS_OK;
}

void exec_layer_backward_weight(exec_layer *layer, exec_slot *slot)
{
    assert(!layer->is_frozen);
    layer->table->backward_weight(layer, slot);
}

double exec_layer_square_norm(exec_layer *layer)
{
    if (layer->is_frozen) return 0;
    if (exec_layer_is_compressed(layer)) return exec_layer_held_squares(layer);
    return layer->kernels->table->sum_of_squares(layer->kernels, layer->gradient,
                                                 layer->held_count - layer->expert_parameter_count);
}

void exec_layer_update(exec_layer *layer, float gradient_scale, const uint8_t *keep)
{
    if (layer->is_frozen) return;
    const exec_model *model = layer->model;
    const exec_kernel_table *table = layer->kernels->table;
    layer->step++;
    int first = 0;
    while (first < layer->tensor_count) {
        int end = first + 1; // of tensors in a row that decay alike
        while (end < layer->tensor_count &&
               layer->tensors[end].decays == layer->tensors[first].decays) {
            end++;
        }
        const size_t offset = layer->tensors[first].held;
        const size_t after =
            end < layer->tensor_count ? layer->tensors[end].held : layer->held_count;
        const exec_adamw options = {.learning_rate = model->learning_rate,
                                    .beta1 = model->beta1,
                                    .beta2 = model->beta2,
                                    .epsilon = model->epsilon,
                                    .weight_decay =
                                        layer->tensors[first].decays ? model->weight_decay : 0.0F,
                                    .step = layer->step,
                                    .gradient_scale = gradient_scale};
        table->adamw(layer->kernels, &options, layer->master + offset, layer->moment1 + offset,
                     layer->moment2 + offset, layer->gradient + offset,
                     keep == NULL ? NULL : keep + offset,
                     (char *)layer->weights + offset * (size_t)table->value_bytes, after - offset);
        first = end;
    }
}

static size_t add_tensor(exec_layer *layer, exec_tensor tensor)
{
    assert(layer->tensor_count < EXEC_LAYER_TENSORS_MAX);
    tensor.offset = tensor.held = layer->parameter_count;
    layer->tensors[layer->tensor_count++] = tensor;
    layer->parameter_count += (size_t)tensor.rows * (size_t)tensor.columns;
    return tensor.offset;
}

size_t exec_layer_add_matrix(exec_layer *layer, const char *name, int rows, int columns,
                             float deviation)
{
    return add_tensor(layer, (exec_tensor){.name = name,
                                           .rows = rows,
                                           .columns = columns,
                                           .decays = true,
                                           .initial_deviation = deviation});
}

size_t exec_layer_add_vector(exec_layer *layer, const char *name, int columns, float value)
{
    return add_tensor(
        layer, (exec_tensor){.name = name, .rows = 1, .columns = columns, .initial_value = value});
}

/// Where the parameter at an offset is held.
static size_t held_at(const exec_layer *layer, size_t offset)
{
    if (!exec_layer_is_compressed(layer)) return offset;
    const exec_tensor *tensor = &layer->tensors[layer->tensor_count - 1];
    while (tensor->offset > offset) {
        tensor--;
    }
    return tensor->held + (offset - tensor->offset);
}

const void *exec_layer_weights(const exec_layer *layer, size_t offset)
{
    return (const char *)layer->weights +
           held_at(layer, offset) * (size_t)layer->kernels->table->value_bytes;
}

float *exec_layer_gradient(const exec_layer *layer, size_t offset)
{
    return layer->gradient + held_at(layer, offset);
}

size_t exec_layer_bytes(const exec_layer *layer, int rows, int width)
{
    return (size_t)rows * (size_t)width * (size_t)layer->kernels->table->value_bytes;
}

void *exec_layer_upload(const exec_layer *layer, const void *host, size_t bytes)
{
    void *region = exec_buffers_take(layer->buffers, bytes);
    layer->kernels->table->to_device(layer->kernels, region, host, bytes);
    return region;
}

void *exec_layer_take(const exec_layer *layer, exec_holding *holding, int rows, int width)
{
    return exec_holding_take(holding, layer->buffers, exec_layer_bytes(layer, rows, width));
}

void *exec_layer_take_numbers(const exec_layer *layer, exec_holding *holding, size_t count)
{
    return exec_holding_take(holding, layer->buffers, count * sizeof(float));
}

static const uint32_t state_magic = 0x6d6e7964; // "dynm" in memory of a little-endian machine

/// What stands in front of the arrays.
typedef struct state_head {
    uint32_t magic;
    int32_t kind; // exec_layer_kind
    int32_t index;
    int32_t step;
    uint8_t is_frozen;
    uint8_t passes_no_gradient;
    uint8_t mechanism; // exec_mechanism
    uint8_t reserved[5];
    int64_t parameter_count;
    int64_t mechanism_bytes;
} state_head;
_Static_assert(sizeof(state_head) == 40, "no padding: every byte of a state is hashed");

static int64_t mechanism_bytes(const exec_layer *layer)
{
    const exec_mechanism_table *mechanism = exec_mechanism_find(layer->model->mechanism);
    return mechanism->packed_bytes != NULL ? mechanism->packed_bytes(layer) : 0;
}

/// Master and, of a layer that learns, both moments, which lie one after another.
static size_t float_bytes(const exec_layer *layer, bool is_frozen)
{
    return (is_frozen ? 1 : 3) * layer->held_count * sizeof(float);
}

int64_t exec_layer_array_bytes(const exec_layer *layer)
{
    return (int64_t)float_bytes(layer, layer->is_frozen);
}

/// Of the parameters that are held those that travel: not what a mask says is pruned.
static size_t left_count(const exec_layer *layer)
{
    const exec_mechanism_table *mechanism = exec_mechanism_find(layer->model->mechanism);
    const bool is_pruned = mechanism->keep != NULL && mechanism->keep(layer) != NULL;
    return is_pruned ? (size_t)mechanism->read_keep(layer, NULL) : layer->held_count;
}

int64_t exec_layer_state_bytes(const exec_layer *layer, bool has_arrays)
{
    const size_t array_count = has_arrays ? layer->is_frozen ? 1 : 3 : 0;
    return (int64_t)(sizeof(state_head) + array_count * left_count(layer) * sizeof(float)) +
           mechanism_bytes(layer);
}

/// Packs the arrays' numbers as they travel, or unpacks them: of each array those of parameters
/// that are left. Others become 0. Bytes to unpack are only read.
static status move_arrays(const exec_layer *layer, bool packs, char *bytes, error_message *err)
{
    const exec_kernel_table *table = layer->kernels->table;
    const size_t array_bytes = float_bytes(layer, layer->is_frozen);
    const bool is_whole = left_count(layer) == layer->held_count;
    float *arrays = is_whole ? (float *)(void *)bytes : memory_array(1, array_bytes);
    uint8_t *keep = memory_array(layer->parameter_count, 1);
    if (!is_whole) exec_mechanism_find(layer->model->mechanism)->read_keep(layer, keep);
    if (packs) table->to_host(layer->kernels, arrays, layer->master, array_bytes);
    for (size_t at = 0; !is_whole && at < array_bytes / sizeof *arrays; at++) {
        if (keep[at % layer->parameter_count] == 0) continue;
        memcpy(packs ? (void *)bytes : &arrays[at], packs ? (void *)&arrays[at] : bytes,
               sizeof *arrays);
        bytes += sizeof *arrays;
    }
    if (!packs) table->to_device(layer->kernels, layer->master, arrays, array_bytes);
    free(keep);
    if (!is_whole) free(arrays);
    return table->check(layer->kernels, err);
}

status exec_layer_state_pack(const exec_layer *layer, bool has_arrays, void *bytes,
                             error_message *err)
{
    const state_head head = {.magic = state_magic,
                             .kind = (int32_t)layer->kind,
                             .index = layer->index,
                             .step = layer->step,
                             .is_frozen = layer->is_frozen,
                             .passes_no_gradient = layer->passes_no_gradient,
                             .mechanism = (uint8_t)layer->model->mechanism,
                             .parameter_count = (int64_t)layer->parameter_count,
                             .mechanism_bytes = mechanism_bytes(layer)};
    char *at = bytes;
    memcpy(at, &head, sizeof head);
    const exec_mechanism_table *mechanism = exec_mechanism_find(layer->model->mechanism);
    if (mechanism->pack != NULL) mechanism->pack(layer, at + sizeof head);
    if (!has_arrays) return STATUS_OK;
    return move_arrays(layer, true, at + sizeof head + head.mechanism_bytes, err);
}

/// Whether bytes are the state of this layer, as another rank of the run has packed it.
static bool is_own_state(const exec_layer *layer, const state_head *head, int64_t byte_count)
{
    return head->magic == state_magic && head->index == layer->index &&
           head->kind == (int32_t)layer->kind && head->mechanism == layer->model->mechanism &&
           head->parameter_count == (int64_t)layer->parameter_count && head->mechanism_bytes >= 0 &&
           head->mechanism_bytes <= byte_count - (int64_t)sizeof *head;
}

static status refuse_state(const exec_layer *layer, error_message *err)
{
    return error_set(err, STATUS_FORMAT, "layer %d: the packed bytes are not of this layer",
                     layer->index);
}

status exec_layer_state_unpack(exec_layer *layer, const void *bytes, int64_t byte_count,
                               const void *arrays, error_message *err)
{
    state_head head;
    if (byte_count < (int64_t)sizeof head) return refuse_state(layer, err);
    memcpy(&head, bytes, sizeof head);
    if (!is_own_state(layer, &head, byte_count)) return refuse_state(layer, err);
    const exec_mechanism_table *mechanism = exec_mechanism_find(layer->model->mechanism);
    char *at = (char *)bytes + sizeof head;
    TRY(exec_layer_set_frozen(layer, head.is_frozen != 0, err));
    if (mechanism->unpack != NULL) TRY(mechanism->unpack(layer, at, head.mechanism_bytes, err));
    if (byte_count != exec_layer_state_bytes(layer, arrays == NULL)) {
        return refuse_state(layer, err);
    }
    if (arrays != NULL) {
        layer->kernels->table->copy(layer->kernels, layer->master, arrays,
                                    float_bytes(layer, layer->is_frozen));
    } else {
        TRY(move_arrays(layer, false, at + head.mechanism_bytes, err));
    }
    exec_layer_refresh(layer);
    layer->step = head.step;
    layer->passes_no_gradient = head.passes_no_gradient != 0;
    return STATUS_OK;
}

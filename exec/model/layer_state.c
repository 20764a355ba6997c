#include "exec/model/layer_state.h"

#include "exec/mechanism/mechanism.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

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

/// Master and, of a layer that learns, both moments, which lie behind one another.
static size_t float_bytes(const exec_layer *layer, bool is_frozen)
{
    return (is_frozen ? 1 : 3) * layer->parameter_count * sizeof(float);
}

int64_t exec_layer_state_bytes(const exec_layer *layer)
{
    return (int64_t)(sizeof(state_head) + float_bytes(layer, layer->is_frozen)) +
           mechanism_bytes(layer);
}

void exec_layer_state_pack(const exec_layer *layer, void *bytes)
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
    at += sizeof head;
    layer->kernels->table->to_host(layer->kernels, at, layer->master,
                                   float_bytes(layer, layer->is_frozen));
    const exec_mechanism_table *mechanism = exec_mechanism_find(layer->model->mechanism);
    if (mechanism->pack != NULL) mechanism->pack(layer, at + float_bytes(layer, layer->is_frozen));
}

static status check_head(const exec_layer *layer, const state_head *head, int64_t byte_count,
                         error_message *err)
{
    if (head->magic != state_magic) {
        return error_set(err, STATUS_FORMAT, "layer %d: not the state of a layer", layer->index);
    }
    if (head->index != layer->index || head->kind != (int32_t)layer->kind) {
        return error_set(err, STATUS_FORMAT,
                         "layer %d of kind %d: the state is of layer %d of kind %d", layer->index,
                         (int)layer->kind, head->index, head->kind);
    }
    if (head->mechanism != layer->model->mechanism) {
        return error_set(err, STATUS_FORMAT, "layer %d: the state is of mechanism %d, not %d (%s)",
                         layer->index, head->mechanism, (int)layer->model->mechanism,
                         exec_mechanism_names[layer->model->mechanism]);
    }
    if (head->parameter_count != (int64_t)layer->parameter_count) {
        return error_set(err, STATUS_FORMAT,
                         "layer %d: the state has %" PRId64 " parameters, the model %zu",
                         layer->index, head->parameter_count, layer->parameter_count);
    }
    const int64_t arrays = (int64_t)(sizeof *head + float_bytes(layer, head->is_frozen != 0));
    if (head->step < 0 || head->mechanism_bytes < 0 ||
        head->mechanism_bytes != byte_count - arrays) {
        return error_set(err, STATUS_FORMAT,
                         "layer %d: state of %" PRId64 " bytes; %" PRId64 " and %" PRId64
                         " of the mechanism are expected",
                         layer->index, byte_count, arrays, head->mechanism_bytes);
    }
    return STATUS_OK;
}

status exec_layer_state_unpack(exec_layer *layer, const void *bytes, int64_t byte_count,
                               error_message *err)
{
    state_head head;
    if (byte_count < (int64_t)sizeof head) {
        return error_set(err, STATUS_FORMAT, "layer %d: state of %" PRId64 " bytes is cut off",
                         layer->index, byte_count);
    }
    memcpy(&head, bytes, sizeof head);
    TRY(check_head(layer, &head, byte_count, err));
    const char *at = (const char *)bytes + sizeof head;
    TRY(exec_layer_set_frozen(layer, head.is_frozen != 0, err));
    layer->kernels->table->to_device(layer->kernels, layer->master, at,
                                     float_bytes(layer, layer->is_frozen));
    exec_layer_refresh(layer);
    layer->step = head.step;
    layer->passes_no_gradient = head.passes_no_gradient != 0;
    const exec_mechanism_table *mechanism = exec_mechanism_find(layer->model->mechanism);
    if (mechanism->unpack == NULL) return STATUS_OK;
    return mechanism->unpack(layer, at + float_bytes(layer, layer->is_frozen), head.mechanism_bytes,
                             err);
}

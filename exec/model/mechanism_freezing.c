/// Freezing: layers whose parameters hardly move any more stop learning, front to back.
#include "base/arena.h"
#include "exec/model/mechanism.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/// What freezing keeps of a layer.
typedef struct freezing_layer {
    exec_plasticity plasticity;
    float *reference; // [parameter_count] host memory: parameters at the decision before; NULL:
                      // frozen
} freezing_layer;

static size_t parameter_bytes(const exec_layer *layer)
{
    return layer->parameter_count * sizeof(float);
}

/// Takes the parameters of now as what they move from.
static void note_reference(const exec_layer *layer, freezing_layer *freezing)
{
    layer->kernels->table->to_host(layer->kernels, freezing->reference, layer->master,
                                   parameter_bytes(layer));
}

/// Makes room for a reference where there is none.
static void make_reference(const exec_layer *layer, freezing_layer *freezing)
{
    if (freezing->reference == NULL) {
        freezing->reference = memory_array(layer->parameter_count, sizeof(float));
    }
}

static void create(exec_layer *layer)
{
    freezing_layer *freezing = memory_array(1, sizeof *freezing);
    layer->mechanism = freezing;
    make_reference(layer, freezing);
}

static void destroy(exec_layer *layer)
{
    freezing_layer *freezing = layer->mechanism;
    if (freezing == NULL) return;
    free(freezing->reference);
    free(freezing);
    layer->mechanism = NULL;
}

static void initialise(exec_layer *layer)
{
    freezing_layer *freezing = layer->mechanism;
    freezing->plasticity = (exec_plasticity){0};
    layer->passes_no_gradient = false;
    make_reference(layer, freezing);
    note_reference(layer, freezing);
}

/// How far a live layer has moved since the decision before, on the host.
static void observe(const exec_layer *layer, const exec_freezing_options *options)
{
    freezing_layer *freezing = layer->mechanism;
    float *before = freezing->reference;
    float *now = memory_array(1, parameter_bytes(layer));
    freezing->reference = now;
    note_reference(layer, freezing);
    const double movement = exec_parameter_movement(now, before, (int64_t)layer->parameter_count);
    const bool is_first = layer->index == 0 || layer->passes_no_gradient;
    exec_plasticity_observe(&freezing->plasticity, movement, is_first, options);
    free(before);
}

static status freeze(exec_layer *layer, error_message *err)
{
    freezing_layer *freezing = layer->mechanism;
    TRY(exec_layer_set_frozen(layer, true, err));
    free(freezing->reference);
    freezing->reference = NULL;
    return STATUS_OK;
}

/// @param is_frozen, is_calm [model_layer_count] in: 0
static status decide(const exec_layer_set *set, bool may_freeze, const exec_group *pipeline,
                     int64_t *is_frozen, int64_t *is_calm, bool *changed, error_message *err)
{
    const exec_freezing_options *options = &set->model->freezing;
    for (int row = 0; row < set->layer_count; row++) {
        const exec_layer *layer = set->layers[row];
        is_frozen[layer->index] = layer->is_frozen;
        if (layer->is_frozen) continue;
        observe(layer, options);
        const freezing_layer *freezing = layer->mechanism;
        is_calm[layer->index] = may_freeze && freezing->plasticity.calm_count >= options->patience;
    }
    TRY(exec_group_sum_int64(pipeline, is_frozen, set->model_layer_count, err));
    TRY(exec_group_sum_int64(pipeline, is_calm, set->model_layer_count, err));
    const int count = exec_frozen_layer_count(is_frozen, is_calm, set->model_layer_count, options);
    *changed = count > 0 && is_frozen[count - 1] == 0;
    for (int row = 0; row < set->layer_count; row++) {
        exec_layer *layer = set->layers[row];
        if (layer->index < count && !layer->is_frozen) TRY(freeze(layer, err));
        layer->passes_no_gradient = layer->index > 0 && layer->index <= count;
    }
    return STATUS_OK;
}

static status adapt(const exec_layer_set *set, int iteration, const exec_group *pipeline,
                    bool *changed, error_message *err)
{
    const exec_freezing_options *options = &set->model->freezing;
    if (!exec_freezing_decides(options, iteration)) return STATUS_OK;
    const size_t layers = (size_t)set->model_layer_count;
    int64_t *counts = memory_array(2 * layers, sizeof *counts);
    const bool may_freeze = iteration + 1 >= options->start_iteration;
    const status result = decide(set, may_freeze, pipeline, counts, counts + layers, changed, err);
    free(counts);
    return result;
}

static int64_t packed_bytes(const exec_layer *layer)
{
    const int64_t head = sizeof(exec_plasticity);
    return layer->is_frozen ? head : head + (int64_t)parameter_bytes(layer);
}

static void pack(const exec_layer *layer, void *bytes)
{
    const freezing_layer *freezing = layer->mechanism;
    memcpy(bytes, &freezing->plasticity, sizeof freezing->plasticity);
    if (layer->is_frozen) return;
    memcpy((char *)bytes + sizeof freezing->plasticity, freezing->reference,
           parameter_bytes(layer));
}

static status unpack(exec_layer *layer, const void *bytes, int64_t byte_count, error_message *err)
{
    freezing_layer *freezing = layer->mechanism;
    if (byte_count != packed_bytes(layer)) {
        return error_set(err, STATUS_FORMAT,
                         "layer %d: %" PRId64 " bytes of freezing instead of %" PRId64,
                         layer->index, byte_count, packed_bytes(layer));
    }
    memcpy(&freezing->plasticity, bytes, sizeof freezing->plasticity);
    if (layer->is_frozen) {
        free(freezing->reference);
        freezing->reference = NULL;
        return STATUS_OK;
    }
    make_reference(layer, freezing);
    memcpy(freezing->reference, (const char *)bytes + sizeof freezing->plasticity,
           parameter_bytes(layer));
    return STATUS_OK;
}

static int64_t state_bytes(const exec_layer *layer)
{
    return layer->is_frozen ? 0 : (int64_t)parameter_bytes(layer);
}

/// 1 where the layer learns.
static void count_learning(const exec_layer *layer, const exec_slot *slot, int64_t *count)
{
    (void)slot;
    *count = !layer->is_frozen;
}

const exec_mechanism_table exec_mechanism_freezing = {
    .create = create,
    .destroy = destroy,
    .initialise = initialise,
    .adapt = adapt,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .unpack = unpack,
    .state_bytes = state_bytes,
    .load_columns = 1,
    .load = count_learning,
};

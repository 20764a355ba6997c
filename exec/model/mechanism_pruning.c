/// Pruning: at the steps of its schedule, the smallest weights of the whole model become 0 for
/// good.
#include "base/arena.h"
#include "exec/mechanism/magnitude.h"
#include "exec/model/mechanism.h"
#include "exec/model/pruned_layer.h"

#include <stdlib.h>
#include <string.h>

static status start_dense(exec_layer *layer, error_message *err)
{
    (void)err;
    exec_pruned_layer_reset(layer);
    return STATUS_OK;
}

/// Weights of the caller's layers on the host.
static void list_weights(const exec_layer_set *set, arena *memory, exec_weights *weights)
{
    for (int row = 0; row < set->layer_count; row++) {
        const exec_layer *layer = set->layers[row];
        const exec_pruned_layer *pruned = exec_pruned_layer_of(layer);
        weights[row] = (exec_weights){.layer = layer->index};
        if (pruned == NULL) continue;
        float *weight = arena_array(memory, (size_t)pruned->weight_count, sizeof *weight);
        exec_pruned_layer_weights(layer, weight);
        weights[row].weight = weight;
        weights[row].count = pruned->weight_count;
        weights[row].keep = pruned->host_keep;
    }
}

static status prune_to(const exec_layer_set *set, double sparsity, arena *memory,
                       const exec_group *pipeline, error_message *err)
{
    exec_weights *weights = arena_array(memory, (size_t)set->layer_count + 1, sizeof *weights);
    list_weights(set, memory, weights);
    int64_t weight_count = 0;
    for (int row = 0; row < set->layer_count; row++) {
        weight_count += weights[row].count;
    }
    TRY(exec_group_sum_int64(pipeline, &weight_count, 1, err));
    const int64_t kept_count = exec_pruning_kept_count(sparsity, weight_count);
    if (set->model->pruning.gathers) {
        TRY(exec_keep_by_gather(weights, set->layer_count, kept_count, pipeline, err));
    } else {
        TRY(exec_keep_by_threshold(weights, set->layer_count, set->model_layer_count, kept_count,
                                   pipeline, err));
    }
    for (int row = 0; row < set->layer_count; row++) {
        if (weights[row].keep != NULL) TRY(exec_pruned_layer_apply(set->layers[row], err));
    }
    return STATUS_OK;
}

static status adapt(const exec_layer_set *set, int iteration, const exec_group *pipeline,
                    bool *changed, error_message *err)
{
    const exec_pruning_options *options = &set->model->pruning;
    if (!exec_pruning_is_step(options, iteration + 1)) return STATUS_OK;
    arena *memory = arena_create((size_t)1 << 16);
    const double sparsity = exec_pruning_sparsity(options, iteration + 1);
    const status result = prune_to(set, sparsity, memory, pipeline, err);
    arena_destroy(memory);
    *changed = result == STATUS_OK;
    return result;
}

/// A bit per weight of a layer that has been pruned, none before.
static int64_t packed_bytes(const exec_layer *layer)
{
    const exec_pruned_layer *pruned = exec_pruned_layer_of(layer);
    return pruned != NULL && pruned->is_pruned ? (pruned->weight_count + 7) / 8 : 0;
}

static void pack(const exec_layer *layer, void *bytes)
{
    const int64_t byte_count = packed_bytes(layer);
    if (byte_count == 0) return;
    const exec_pruned_layer *pruned = exec_pruned_layer_of(layer);
    uint8_t *bits = bytes;
    memset(bits, 0, (size_t)byte_count);
    for (int64_t at = 0; at < pruned->weight_count; at++) {
        if (pruned->host_keep[at] != 0) bits[at / 8] |= (uint8_t)(1U << (at % 8));
    }
}

static status unpack(exec_layer *layer, const void *bytes, int64_t byte_count, error_message *err)
{
    exec_pruned_layer *pruned = exec_pruned_layer_of(layer);
    const int64_t expected = pruned != NULL ? (pruned->weight_count + 7) / 8 : 0;
    if (byte_count != 0 && byte_count != expected) {
        return error_set(err, STATUS_FORMAT, "layer %d: a mask of %d bytes, not %d", layer->index,
                         (int)byte_count, (int)expected);
    }
    exec_pruned_layer_reset(layer);
    if (byte_count == 0) return STATUS_OK;
    const uint8_t *bits = bytes;
    for (int64_t at = 0; at < pruned->weight_count; at++) {
        pruned->host_keep[at] = bits[at / 8] >> (at % 8) & 1;
    }
    return exec_pruned_layer_apply(layer, err);
}

static int64_t state_bytes(const exec_layer *layer)
{
    const exec_pruned_layer *pruned = exec_pruned_layer_of(layer);
    if (pruned == NULL) return 0;
    int64_t bytes = pruned->weight_count;
    if (pruned->keep != NULL) bytes += (int64_t)layer->parameter_count;
    for (int index = 0; index < pruned->matrix_count; index++) {
        bytes += pruned->matrix[index].memory_bytes;
    }
    return bytes;
}

static const uint8_t *keep(const exec_layer *layer)
{
    const exec_pruned_layer *pruned = exec_pruned_layer_of(layer);
    return pruned != NULL ? pruned->keep : NULL;
}

static int load_columns(const exec_model *model)
{
    (void)model;
    return 2;
}

/// Weights that are left, and that there were.
static void count_entries(const exec_layer *layer, const exec_slot *slot, int64_t *count)
{
    (void)slot;
    const exec_pruned_layer *pruned = exec_pruned_layer_of(layer);
    if (pruned == NULL) return;
    count[0] = pruned->kept_count;
    count[1] = pruned->weight_count;
}

const exec_mechanism_table exec_mechanism_pruning = {
    .create = exec_pruned_layer_create,
    .destroy = exec_pruned_layer_destroy,
    .initialise = start_dense,
    .adapt = adapt,
    .refresh = exec_pruned_layer_refresh,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .unpack = unpack,
    .state_bytes = state_bytes,
    .keep = keep,
    .load_columns = load_columns,
    .load = count_entries,
};

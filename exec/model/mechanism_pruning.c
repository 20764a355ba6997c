/// Pruning: at the steps of its schedule, the smallest weights of the whole model become 0 for
/// good. Parameters, moments and gradients stay dense; masks keep what is pruned at 0, and tell
/// what of a layer travels when it migrates.
#include "base/arena.h"
#include "exec/mechanism/magnitude.h"
#include "exec/model/mechanism.h"

#include <stdlib.h>
#include <string.h>

/// What pruning knows of a block: layer->mechanism.
typedef struct pruned_layer {
    int64_t weight_count; // of all matrices
    int64_t kept_count;   // of them
    uint8_t *host_keep;   // [weight_count] of the matrices, one after the other
    uint8_t *keep;        // [parameter_count] device memory; NULL: not pruned yet
} pruned_layer;

static bool is_matrix(const exec_tensor *tensor)
{
    return tensor->rows > 1;
}

static size_t numbers_of(const exec_tensor *tensor)
{
    return (size_t)tensor->rows * (size_t)tensor->columns;
}

/// As if it had never been pruned; parameters stay as they are.
static void reset(const exec_layer *layer)
{
    pruned_layer *pruned = layer->mechanism;
    if (pruned == NULL) return;
    layer->kernels->table->release(layer->kernels, pruned->keep);
    pruned->keep = NULL;
    pruned->kept_count = pruned->weight_count;
    memset(pruned->host_keep, 1, (size_t)pruned->weight_count);
}

static status create(exec_layer *layer, error_message *err)
{
    (void)err;
    if (layer->kind != EXEC_LAYER_BLOCK) return STATUS_OK;
    pruned_layer *pruned = memory_array(1, sizeof *pruned);
    for (int index = 0; index < layer->tensor_count; index++) {
        const exec_tensor *tensor = &layer->tensors[index];
        if (is_matrix(tensor)) pruned->weight_count += (int64_t)numbers_of(tensor);
    }
    pruned->host_keep = memory_array(1, (size_t)pruned->weight_count);
    layer->mechanism = pruned;
    reset(layer);
    return STATUS_OK;
}

static void destroy(exec_layer *layer)
{
    pruned_layer *pruned = layer->mechanism;
    if (pruned == NULL) return;
    reset(layer);
    free(pruned->host_keep);
    free(pruned);
    layer->mechanism = NULL;
}

static status start_dense(exec_layer *layer, error_message *err)
{
    (void)err;
    reset(layer);
    return STATUS_OK;
}

/// The mask of all parameters; biases and norms stay.
static int64_t read_keep(const exec_layer *layer, uint8_t *keep)
{
    const pruned_layer *pruned = layer->mechanism;
    const uint8_t *from = pruned->host_keep;
    if (keep != NULL) memset(keep, 1, layer->parameter_count);
    for (int index = 0; keep != NULL && index < layer->tensor_count; index++) {
        const exec_tensor *tensor = &layer->tensors[index];
        if (!is_matrix(tensor)) continue;
        memcpy(keep + tensor->offset, from, numbers_of(tensor));
        from += numbers_of(tensor);
    }
    return (int64_t)layer->parameter_count - pruned->weight_count + pruned->kept_count;
}

/// Counts what host_keep leaves, and puts the mask of all parameters on the device.
static status take_keep(const exec_layer *layer, pruned_layer *pruned, error_message *err)
{
    pruned->kept_count = 0;
    for (int64_t at = 0; at < pruned->weight_count; at++) {
        pruned->kept_count += pruned->host_keep[at] != 0;
    }
    exec_kernels *kernels = layer->kernels;
    const size_t count = layer->parameter_count;
    void *memory = pruned->keep;
    if (memory == NULL) TRY(kernels->table->allocate(kernels, count, &memory, err));
    pruned->keep = memory;
    uint8_t *keep = memory_array(1, count);
    read_keep(layer, keep);
    kernels->table->to_device(kernels, pruned->keep, keep, count);
    const status result = kernels->table->finish(kernels, err);
    free(keep);
    return result;
}

/// Takes host_keep as the mask: what it leaves out becomes 0, moments too.
static status apply(exec_layer *layer, error_message *err)
{
    pruned_layer *pruned = layer->mechanism;
    const exec_kernel_table *table = layer->kernels->table;
    float *const arrays[] = {layer->master, layer->moment1, layer->moment2};
    TRY(take_keep(layer, pruned, err));
    for (size_t array = 0; array < sizeof arrays / sizeof arrays[0]; array++) {
        table->mask(layer->kernels, arrays[array], pruned->keep, layer->parameter_count);
    }
    exec_layer_refresh(layer);
    return table->finish(layer->kernels, err);
}

/// The weights of the matrices of a layer, one after the other, on the host.
static const float *read_weights(const exec_layer *layer, arena *memory)
{
    const pruned_layer *pruned = layer->mechanism;
    float *weights = arena_array(memory, (size_t)pruned->weight_count, sizeof *weights);
    float *to = weights;
    for (int index = 0; index < layer->tensor_count; index++) {
        const exec_tensor *tensor = &layer->tensors[index];
        if (!is_matrix(tensor)) continue;
        layer->kernels->table->to_host(layer->kernels, to, layer->master + tensor->offset,
                                       numbers_of(tensor) * sizeof *to);
        to += numbers_of(tensor);
    }
    return weights;
}

static status prune_to(const exec_layer_set *set, double sparsity, arena *memory,
                       const exec_group *pipeline, error_message *err)
{
    exec_weights *weights = arena_array(memory, (size_t)set->layer_count + 1, sizeof *weights);
    int64_t weight_count = 0;
    for (int row = 0; row < set->layer_count; row++) {
        const exec_layer *layer = set->layers[row];
        const pruned_layer *pruned = layer->mechanism;
        weights[row] = (exec_weights){.layer = layer->index};
        if (pruned == NULL) continue;
        weights[row].weight = read_weights(layer, memory);
        weights[row].count = pruned->weight_count;
        weights[row].keep = pruned->host_keep;
        weight_count += pruned->weight_count;
    }
    TRY(exec_group_sum_int64(pipeline, &weight_count, 1, err));
    TRY(exec_keep_by_threshold(weights, set->layer_count, set->model_layer_count,
                               exec_pruning_kept_count(sparsity, weight_count), pipeline, err));
    for (int row = 0; row < set->layer_count; row++) {
        if (weights[row].keep != NULL) TRY(apply(set->layers[row], err));
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
    const pruned_layer *pruned = layer->mechanism;
    return pruned != NULL && pruned->keep != NULL ? (pruned->weight_count + 7) / 8 : 0;
}

static void pack(const exec_layer *layer, void *bytes)
{
    const int64_t byte_count = packed_bytes(layer);
    if (byte_count == 0) return;
    const pruned_layer *pruned = layer->mechanism;
    uint8_t *bits = bytes;
    memset(bits, 0, (size_t)byte_count);
    for (int64_t at = 0; at < pruned->weight_count; at++) {
        if (pruned->host_keep[at] != 0) bits[at / 8] |= (uint8_t)(1U << (at % 8));
    }
}

static status unpack(exec_layer *layer, const void *bytes, int64_t byte_count, error_message *err)
{
    pruned_layer *pruned = layer->mechanism;
    const int64_t expected = pruned != NULL ? (pruned->weight_count + 7) / 8 : 0;
    if (byte_count != 0 && byte_count != expected) {
        return error_set(err, STATUS_FORMAT, "layer %d: a mask of %d bytes, not %d", layer->index,
                         (int)byte_count, (int)expected);
    }
    reset(layer);
    if (byte_count == 0) return STATUS_OK;
    const uint8_t *bits = bytes;
    for (int64_t at = 0; at < pruned->weight_count; at++) {
        pruned->host_keep[at] = bits[at / 8] >> (at % 8) & 1;
    }
    return take_keep(layer, pruned, err);
}

static int64_t state_bytes(const exec_layer *layer)
{
    const pruned_layer *pruned = layer->mechanism;
    if (pruned == NULL) return 0;
    return pruned->weight_count + (pruned->keep != NULL ? (int64_t)layer->parameter_count : 0);
}

static const uint8_t *keep(const exec_layer *layer)
{
    const pruned_layer *pruned = layer->mechanism;
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
    const pruned_layer *pruned = layer->mechanism;
    if (pruned == NULL) return;
    count[0] = pruned->kept_count;
    count[1] = pruned->weight_count;
}

const exec_mechanism_table exec_mechanism_pruning = {
    .create = create,
    .destroy = destroy,
    .initialise = start_dense,
    .adapt = adapt,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .unpack = unpack,
    .state_bytes = state_bytes,
    .keep = keep,
    .read_keep = read_keep,
    .load_columns = load_columns,
    .load = count_entries,
};

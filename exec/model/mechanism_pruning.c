/// Pruning: at the steps of its schedule, the smallest weights of the whole model become 0 for
/// good. Parameters, moments and gradients stay dense, while masks keep what is pruned at 0 and
/// tell what of a layer travels when it migrates; or the layer is compressed and needs no mask.
#include "base/arena.h"
#include "exec/mechanism/magnitude.h"
#include "exec/model/compression.h"
#include "exec/model/mechanism.h"

#include <stdlib.h>
#include <string.h>

/// What pruning knows of a block: layer->mechanism.
typedef struct pruned_layer {
    int64_t weight_count; // of all matrices
    int64_t kept_count;   // of them
    uint8_t *host_keep;   // [weight_count] of the matrices, one after the other; NULL: compressed
    uint8_t *keep;        // [parameter_count] device memory; NULL: not pruned yet, or compressed
} pruned_layer;

static void drop_masks(const exec_layer *layer)
{
    pruned_layer *pruned = layer->mechanism;
    layer->kernels->table->release(layer->kernels, pruned->keep);
    free(pruned->host_keep);
    pruned->keep = pruned->host_keep = NULL;
}

/// Which weights are left: a compressed layer has a mask for as long as this is looked at.
static uint8_t *open_mask(const exec_layer *layer)
{
    pruned_layer *pruned = layer->mechanism;
    if (pruned->host_keep == NULL) {
        pruned->host_keep = memory_array((size_t)pruned->weight_count, 1);
        exec_layer_read_kept(layer, pruned->host_keep);
    }
    return pruned->host_keep;
}

static void close_mask(const exec_layer *layer)
{
    if (exec_layer_is_compressed(layer)) drop_masks(layer);
}

/// As if it had never been pruned; parameters stay as they are, but of a compressed layer they
/// become 0.
static void reset(exec_layer *layer)
{
    pruned_layer *pruned = layer->mechanism;
    if (pruned == NULL) return;
    exec_layer_decompress(layer);
    drop_masks(layer);
    pruned->kept_count = pruned->weight_count;
    open_mask(layer);
}

static void create(exec_layer *layer)
{
    if (layer->kind != EXEC_LAYER_BLOCK) return;
    pruned_layer *pruned = memory_array(1, sizeof *pruned);
    pruned->weight_count = exec_layer_weight_count(layer);
    layer->mechanism = pruned;
    reset(layer);
}

static void destroy(exec_layer *layer)
{
    pruned_layer *pruned = layer->mechanism;
    if (pruned == NULL) return;
    drop_masks(layer);
    free(pruned);
    layer->mechanism = NULL;
}

/// The mask of all parameters; biases and norms stay.
static int64_t read_keep(const exec_layer *layer, uint8_t *keep)
{
    const pruned_layer *pruned = layer->mechanism;
    const uint8_t *from = pruned->host_keep;
    if (keep != NULL) memset(keep, 1, layer->parameter_count);
    for (int index = 0; keep != NULL && index < layer->tensor_count; index++) {
        const exec_tensor *tensor = &layer->tensors[index];
        if (!exec_tensor_is_matrix(tensor)) continue;
        memcpy(keep + tensor->offset, from, exec_tensor_number_count(tensor));
        from += exec_tensor_number_count(tensor);
    }
    return (int64_t)layer->parameter_count - pruned->weight_count + pruned->kept_count;
}

/// Puts the mask of all parameters on the device.
static void put_keep(const exec_layer *layer, pruned_layer *pruned)
{
    exec_kernels *kernels = layer->kernels;
    const size_t count = layer->parameter_count;
    if (pruned->keep == NULL) pruned->keep = kernels->table->allocate(kernels, count);
    uint8_t *keep = memory_array(1, count);
    read_keep(layer, keep);
    kernels->table->to_device(kernels, pruned->keep, keep, count);
    free(keep);
}

/// Whether so much of a layer is pruned that it is compressed.
static bool turns_to_csr(const exec_layer *layer)
{
    const pruned_layer *pruned = layer->mechanism;
    const double csr_from = layer->model->pruning.csr_from;
    const int64_t gone = pruned->weight_count - pruned->kept_count;
    return csr_from > 0 && gone > 0 && (double)gone >= csr_from * (double)pruned->weight_count;
}

/// Takes host_keep as what is left: the layer is compressed, or gets a mask.
static void take_keep(exec_layer *layer)
{
    pruned_layer *pruned = layer->mechanism;
    pruned->kept_count = 0;
    for (int64_t at = 0; at < pruned->weight_count; at++) {
        pruned->kept_count += pruned->host_keep[at] != 0;
    }
    if (turns_to_csr(layer)) {
        exec_layer_compress(layer, pruned->host_keep);
        close_mask(layer);
    } else {
        put_keep(layer, pruned);
    }
}

/// What host_keep leaves out is pruned: it becomes 0, moments too, or is held no more.
static void apply(exec_layer *layer)
{
    pruned_layer *pruned = layer->mechanism;
    const exec_kernel_table *table = layer->kernels->table;
    take_keep(layer);
    if (exec_layer_is_compressed(layer)) return;
    float *const arrays[] = {layer->master, layer->moment1, layer->moment2};
    for (size_t array = 0; array < sizeof arrays / sizeof arrays[0]; array++) {
        table->mask(layer->kernels, arrays[array], pruned->keep, layer->parameter_count);
    }
    exec_layer_refresh(layer);
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
        float *read = arena_array(memory, (size_t)pruned->weight_count, sizeof *read);
        exec_layer_read_weights(layer, read);
        weights[row].weight = read;
        weights[row].count = pruned->weight_count;
        weights[row].keep = open_mask(layer);
        weight_count += pruned->weight_count;
    }
    TRY(exec_group_sum_int64(pipeline, &weight_count, 1, err));
    TRY(exec_keep_by_threshold(weights, set->layer_count, set->model_layer_count,
                               exec_pruning_kept_count(sparsity, weight_count), pipeline, err));
    for (int row = 0; row < set->layer_count; row++) {
        if (weights[row].keep != NULL) apply(set->layers[row]);
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
    const bool is_pruned =
        pruned != NULL && (pruned->keep != NULL || exec_layer_is_compressed(layer));
    return is_pruned ? (pruned->weight_count + 7) / 8 : 0;
}

static void pack(const exec_layer *layer, void *bytes)
{
    const int64_t byte_count = packed_bytes(layer);
    if (byte_count == 0) return;
    const pruned_layer *pruned = layer->mechanism;
    const uint8_t *mask = open_mask(layer);
    uint8_t *bits = bytes;
    memset(bits, 0, (size_t)byte_count);
    for (int64_t at = 0; at < pruned->weight_count; at++) {
        if (mask[at] != 0) bits[at / 8] |= (uint8_t)(1U << (at % 8));
    }
    close_mask(layer);
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
    take_keep(layer);
    return STATUS_OK;
}

static int64_t state_bytes(const exec_layer *layer)
{
    const pruned_layer *pruned = layer->mechanism;
    if (pruned == NULL) return 0;
    if (exec_layer_is_compressed(layer)) return exec_layer_index_bytes(layer);
    return pruned->weight_count + (pruned->keep != NULL ? (int64_t)layer->parameter_count : 0);
}

static const uint8_t *keep(const exec_layer *layer)
{
    const pruned_layer *pruned = layer->mechanism;
    return pruned != NULL ? pruned->keep : NULL;
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
    .initialise = reset,
    .adapt = adapt,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .unpack = unpack,
    .state_bytes = state_bytes,
    .keep = keep,
    .read_keep = read_keep,
    .load_columns = 2,
    .load = count_entries,
};

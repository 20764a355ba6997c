#include "exec/model/compression.h"

#include "base/arena.h"
#include "exec/model/layer_table.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

bool exec_tensor_is_matrix(const exec_tensor *tensor)
{
    return tensor->rows > 1;
}

size_t exec_tensor_number_count(const exec_tensor *tensor)
{
    return (size_t)tensor->rows * (size_t)tensor->columns;
}

bool exec_layer_is_compressed(const exec_layer *layer)
{
    return layer->held_count < layer->parameter_count;
}

int64_t exec_layer_weight_count(const exec_layer *layer)
{
    int64_t count = 0;
    for (int index = 0; index < layer->tensor_count; index++) {
        const exec_tensor *tensor = &layer->tensors[index];
        if (exec_tensor_is_matrix(tensor)) count += (int64_t)exec_tensor_number_count(tensor);
    }
    return count;
}

static size_t held_numbers(const exec_tensor *tensor)
{
    return tensor->csr != NULL ? (size_t)tensor->csr->first[tensor->csr->rows]
                               : exec_tensor_number_count(tensor);
}

/// @param keep [rows][columns]
static exec_csr *make_csr(const exec_tensor *tensor, const uint8_t *keep)
{
    exec_csr *csr = memory_array(1, sizeof *csr);
    int64_t *first = memory_array((size_t)tensor->rows + 1, sizeof *first);
    const size_t columns = (size_t)tensor->columns;
    for (size_t row = 0; row < (size_t)tensor->rows; row++) {
        first[row + 1] = first[row];
        for (size_t column = 0; column < columns; column++) {
            first[row + 1] += keep[row * columns + column] != 0;
        }
    }
    int *held = memory_array((size_t)first[tensor->rows] + 1, sizeof *held);
    int64_t entry = 0;
    for (size_t at = 0; at < (size_t)tensor->rows * columns; at++) {
        if (keep[at] != 0) held[entry++] = (int)(at % columns);
    }
    *csr = (exec_csr){tensor->rows, tensor->columns, first, held};
    return csr;
}

void exec_csr_destroy(exec_csr *csr)
{
    if (csr == NULL) return;
    free((void *)csr->first);
    free((void *)csr->column);
    free(csr);
}

/// Copies what is held now of what was held before.
static void copy_held(const exec_tensor *old, const float *from, const exec_tensor *now, float *to)
{
    from += old->held;
    to += now->held;
    if (now->csr == NULL) {
        memcpy(to, from, held_numbers(now) * sizeof *to);
        return;
    }
    for (int row = 0; row < now->rows; row++) {
        int64_t at = old->csr != NULL ? old->csr->first[row] : (int64_t)row * now->columns;
        for (int64_t entry = now->csr->first[row]; entry < now->csr->first[row + 1]; entry++) {
            const int column = now->csr->column[entry];
            while (old->csr != NULL && old->csr->column[at] < column) {
                at++;
            }
            to[entry] = from[old->csr != NULL ? at : at + column];
        }
    }
}

/// Takes tensors that are held in another way, and memory for them, in place of the layer's.
static void take_tensors(exec_layer *layer, const exec_tensor *tensors, size_t held_count,
                         float *master, float *gradient)
{
    for (int index = 0; index < layer->tensor_count; index++) {
        exec_csr_destroy(layer->tensors[index].csr);
        layer->tensors[index] = tensors[index];
    }
    exec_layer_take_state(layer, held_count, layer->is_frozen, master, gradient);
}

/// @param tensors out: as they are held with what is kept
/// @return numbers that are held
static size_t compress_tensors(const exec_layer *layer, const uint8_t *keep, exec_tensor *tensors)
{
    size_t held_count = 0;
    for (int index = 0; index < layer->tensor_count; index++) {
        exec_tensor *tensor = &tensors[index];
        *tensor = layer->tensors[index];
        tensor->held = held_count;
        tensor->csr = NULL;
        if (exec_tensor_is_matrix(tensor)) {
            tensor->csr = make_csr(tensor, keep);
            keep += exec_tensor_number_count(tensor);
        }
        held_count += held_numbers(tensor);
    }
    return held_count;
}

void exec_layer_compress(exec_layer *layer, const uint8_t *keep)
{
    const exec_kernel_table *table = layer->kernels->table;
    assert(table->csr_matmul != NULL && table->has_host_memory && layer->weights == layer->master);
    exec_tensor tensors[EXEC_LAYER_TENSORS_MAX];
    const size_t held_count = compress_tensors(layer, keep, tensors);
    float *master;
    float *gradient;
    exec_layer_allocate_state(layer, held_count, layer->is_frozen, &master, &gradient);
    for (size_t array = 0; array < (layer->is_frozen ? 1 : 3); array++) {
        for (int index = 0; index < layer->tensor_count; index++) {
            copy_held(&layer->tensors[index], layer->master + array * layer->held_count,
                      &tensors[index], master + array * held_count);
        }
    }
    take_tensors(layer, tensors, held_count, master, gradient);
}

void exec_layer_decompress(exec_layer *layer)
{
    exec_tensor tensors[EXEC_LAYER_TENSORS_MAX];
    float *master;
    float *gradient;
    if (!exec_layer_is_compressed(layer)) return;
    exec_layer_allocate_state(layer, layer->parameter_count, layer->is_frozen, &master, &gradient);
    for (int index = 0; index < layer->tensor_count; index++) {
        tensors[index] = layer->tensors[index];
        tensors[index].held = tensors[index].offset;
        tensors[index].csr = NULL;
    }
    take_tensors(layer, tensors, layer->parameter_count, master, gradient);
}

/// Where an entry of a matrix is among its numbers.
///
/// @param row in: not after the entry's, out: the entry's
static size_t place_of(const exec_csr *csr, int64_t entry, int *row)
{
    while (csr->first[*row + 1] <= entry) {
        ++*row;
    }
    return (size_t)*row * (size_t)csr->columns + (size_t)csr->column[entry];
}

void exec_layer_read_kept(const exec_layer *layer, uint8_t *keep)
{
    for (int index = 0; index < layer->tensor_count; index++) {
        const exec_tensor *tensor = &layer->tensors[index];
        if (!exec_tensor_is_matrix(tensor)) continue;
        const int64_t entry_count = tensor->csr != NULL ? (int64_t)held_numbers(tensor) : 0;
        int row = 0;
        memset(keep, tensor->csr == NULL, exec_tensor_number_count(tensor));
        for (int64_t entry = 0; entry < entry_count; entry++) {
            keep[place_of(tensor->csr, entry, &row)] = 1;
        }
        keep += exec_tensor_number_count(tensor);
    }
}

void exec_layer_read_weights(const exec_layer *layer, float *weights)
{
    for (int index = 0; index < layer->tensor_count; index++) {
        const exec_tensor *tensor = &layer->tensors[index];
        if (!exec_tensor_is_matrix(tensor)) continue;
        const size_t bytes = exec_tensor_number_count(tensor) * sizeof *weights;
        const float *held = layer->master + tensor->held;
        if (tensor->csr == NULL) {
            layer->kernels->table->to_host(layer->kernels, weights, held, bytes);
        } else {
            int row = 0;
            memset(weights, 0, bytes);
            for (int64_t entry = 0; entry < (int64_t)held_numbers(tensor); entry++) {
                weights[place_of(tensor->csr, entry, &row)] = held[entry];
            }
        }
        weights += exec_tensor_number_count(tensor);
    }
}

int64_t exec_layer_index_bytes(const exec_layer *layer)
{
    int64_t bytes = 0;
    for (int index = 0; index < layer->tensor_count; index++) {
        const exec_csr *csr = layer->tensors[index].csr;
        if (csr == NULL) continue;
        bytes += ((int64_t)csr->rows + 1) * (int64_t)sizeof *csr->first +
                 csr->first[csr->rows] * (int64_t)sizeof *csr->column;
    }
    return bytes;
}

double exec_layer_held_squares(const exec_layer *layer)
{
    exec_held held[EXEC_LAYER_TENSORS_MAX];
    for (int index = 0; index < layer->tensor_count; index++) {
        const exec_tensor *tensor = &layer->tensors[index];
        held[index] = (exec_held){tensor->offset, held_numbers(tensor), tensor->csr};
    }
    return layer->kernels->table->held_squares(layer->kernels, held, layer->tensor_count,
                                               layer->gradient, layer->parameter_count);
}

const exec_csr *exec_layer_csr(const exec_layer *layer, size_t offset)
{
    if (!exec_layer_is_compressed(layer)) return NULL;
    int index = 0;
    while (index < layer->tensor_count && layer->tensors[index].offset != offset) {
        index++;
    }
    assert(index < layer->tensor_count);
    return layer->tensors[index].csr;
}

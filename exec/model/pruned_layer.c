#include "exec/model/pruned_layer.h"

#include "base/arena.h"
#include "exec/model/layer_table.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

exec_pruned_layer *exec_pruned_layer_of(const exec_layer *layer)
{
    return layer->model->mechanism == EXEC_PRUNING ? layer->mechanism : NULL;
}

static void list_matrices(const exec_layer *layer, exec_pruned_layer *pruned)
{
    for (int index = 0; index < layer->tensor_count; index++) {
        const exec_tensor *tensor = &layer->tensors[index];
        if (tensor->rows <= 1) continue;
        assert(pruned->matrix_count < EXEC_PRUNED_MATRICES_MAX);
        pruned->matrix[pruned->matrix_count++] = (exec_pruned_matrix){
            .weight = tensor->offset, .rows = tensor->rows, .columns = tensor->columns};
        pruned->weight_count += (int64_t)tensor->rows * tensor->columns;
    }
    pruned->kept_count = pruned->weight_count;
}

status exec_pruned_layer_create(exec_layer *layer, error_message *err)
{
    (void)err;
    if (layer->kind != EXEC_LAYER_BLOCK) return STATUS_OK;
    exec_pruned_layer *pruned = memory_array(1, sizeof *pruned);
    layer->mechanism = pruned;
    list_matrices(layer, pruned);
    pruned->host_keep = memory_array(1, (size_t)pruned->weight_count);
    exec_pruned_layer_reset(layer);
    return STATUS_OK;
}

static void release_matrix(const exec_layer *layer, exec_pruned_matrix *matrix)
{
    layer->kernels->table->release(layer->kernels, matrix->memory);
    *matrix = (exec_pruned_matrix){
        .weight = matrix->weight, .rows = matrix->rows, .columns = matrix->columns};
}

void exec_pruned_layer_reset(exec_layer *layer)
{
    exec_pruned_layer *pruned = exec_pruned_layer_of(layer);
    if (pruned == NULL) return;
    for (int index = 0; index < pruned->matrix_count; index++) {
        release_matrix(layer, &pruned->matrix[index]);
    }
    layer->kernels->table->release(layer->kernels, pruned->keep);
    pruned->keep = NULL;
    pruned->is_pruned = false;
    pruned->kept_count = pruned->weight_count;
    memset(pruned->host_keep, 1, (size_t)pruned->weight_count);
}

void exec_pruned_layer_destroy(exec_layer *layer)
{
    exec_pruned_layer *pruned = exec_pruned_layer_of(layer);
    if (pruned == NULL) return;
    exec_pruned_layer_reset(layer);
    free(pruned->host_keep);
    free(pruned);
    layer->mechanism = NULL;
}

void exec_pruned_layer_weights(const exec_layer *layer, float *weight)
{
    const exec_pruned_layer *pruned = exec_pruned_layer_of(layer);
    for (int index = 0; index < pruned->matrix_count; index++) {
        const exec_pruned_matrix *matrix = &pruned->matrix[index];
        const size_t count = (size_t)matrix->rows * (size_t)matrix->columns;
        layer->kernels->table->to_host(layer->kernels, weight, layer->master + matrix->weight,
                                       count * sizeof *weight);
        weight += count;
    }
}

/// Compressed rows of a matrix, or of its transpose, on the host.
static void list_entries(const uint8_t *keep, const exec_pruned_matrix *matrix, bool is_transposed,
                         int *first_entry, int *column)
{
    const int rows = is_transposed ? matrix->columns : matrix->rows;
    const int columns = is_transposed ? matrix->rows : matrix->columns;
    const size_t row_step = is_transposed ? 1 : (size_t)matrix->columns;
    const size_t column_step = is_transposed ? (size_t)matrix->columns : 1;
    int count = 0;
    for (int row = 0; row < rows; row++) {
        first_entry[row] = count;
        const uint8_t *at = keep + (size_t)row * row_step;
        for (int other = 0; other < columns; other++) {
            if (at[(size_t)other * column_step] != 0) column[count++] = other;
        }
    }
    first_entry[rows] = count;
}

/// Bytes of compressed rows in memory: values, first entries, columns.
static size_t sparse_bytes(const exec_layer *layer, int rows, int entry_count)
{
    const size_t values = exec_layer_bytes(layer, entry_count, 1);
    const size_t rounded = (values + sizeof(int) - 1) / sizeof(int) * sizeof(int);
    return rounded + ((size_t)rows + 1 + (size_t)entry_count) * sizeof(int);
}

/// Lays compressed rows into memory, which takes sparse_bytes.
///
/// @param scratch [rows + 1 + entry_count] host memory
static exec_sparse put_sparse(const exec_layer *layer, const exec_pruned_matrix *matrix,
                              const uint8_t *keep, bool is_transposed, int entry_count,
                              int *scratch, void *memory)
{
    const int rows = is_transposed ? matrix->columns : matrix->rows;
    const size_t ints = (size_t)rows + 1 + (size_t)entry_count;
    int *device = (int *)memory; // the integers first: they are aligned
    list_entries(keep, matrix, is_transposed, scratch, scratch + rows + 1);
    layer->kernels->table->to_device(layer->kernels, device, scratch, ints * sizeof *scratch);
    return (exec_sparse){.rows = rows,
                         .columns = is_transposed ? matrix->rows : matrix->columns,
                         .entry_count = entry_count,
                         .first_entry = device,
                         .column = device + rows + 1,
                         .value = device + ints};
}

static int count_kept(const uint8_t *keep, size_t count)
{
    int kept = 0;
    for (size_t at = 0; at < count; at++) {
        kept += keep[at] != 0;
    }
    return kept;
}

/// Whether an operation is done in compressed rows at this density.
static bool is_compressed(const exec_layer *layer, double density, double faster_below)
{
    if (layer->kernels->table->sparse_matmul == NULL) return false;
    const double stated = layer->model->pruning.compress_density;
    return density <= (stated >= 0 ? stated : faster_below);
}

static status compress(const exec_layer *layer, exec_pruned_matrix *matrix, const uint8_t *keep,
                       error_message *err)
{
    exec_kernels *kernels = layer->kernels;
    const size_t count = (size_t)matrix->rows * (size_t)matrix->columns;
    const int kept = count_kept(keep, count);
    const double density = (double)kept / (double)count;
    release_matrix(layer, matrix);
    matrix->is_multiplied = is_compressed(layer, density, kernels->table->sparse_matmul_density);
    matrix->has_gradient = is_compressed(layer, density, kernels->table->sparse_gradient_density);
    if (!matrix->is_multiplied && !matrix->has_gradient) return STATUS_OK;
    const size_t by_input_bytes = sparse_bytes(layer, matrix->rows, kept);
    const size_t by_output_bytes = sparse_bytes(layer, matrix->columns, kept);
    const size_t bytes = by_input_bytes + (matrix->is_multiplied ? by_output_bytes : 0);
    TRY(kernels->table->allocate(kernels, bytes, &matrix->memory, err));
    matrix->memory_bytes = (int64_t)bytes;
    const int longest = matrix->rows > matrix->columns ? matrix->rows : matrix->columns;
    int *scratch = memory_array(((size_t)longest + 1 + (size_t)kept), sizeof *scratch);
    matrix->by_input = put_sparse(layer, matrix, keep, false, kept, scratch, matrix->memory);
    status result = kernels->table->finish(kernels, err); // scratch is free again
    if (matrix->is_multiplied && result == STATUS_OK) {
        matrix->by_output = put_sparse(layer, matrix, keep, true, kept, scratch,
                                       (char *)matrix->memory + by_input_bytes);
        result = kernels->table->finish(kernels, err);
    }
    free(scratch);
    return result;
}

/// The mask of all parameters; biases and norms stay.
static status put_keep(const exec_layer *layer, exec_pruned_layer *pruned, error_message *err)
{
    exec_kernels *kernels = layer->kernels;
    const size_t count = layer->parameter_count;
    void *memory = pruned->keep;
    if (memory == NULL) TRY(kernels->table->allocate(kernels, count, &memory, err));
    pruned->keep = memory;
    uint8_t *keep = memory_array(1, count);
    memset(keep, 1, count);
    const uint8_t *from = pruned->host_keep;
    for (int index = 0; index < pruned->matrix_count; index++) {
        const exec_pruned_matrix *matrix = &pruned->matrix[index];
        const size_t entries = (size_t)matrix->rows * (size_t)matrix->columns;
        memcpy(keep + matrix->weight, from, entries);
        from += entries;
    }
    kernels->table->to_device(kernels, pruned->keep, keep, count);
    const status result = kernels->table->finish(kernels, err);
    free(keep);
    return result;
}

status exec_pruned_layer_apply(exec_layer *layer, error_message *err)
{
    exec_pruned_layer *pruned = exec_pruned_layer_of(layer);
    const exec_kernel_table *table = layer->kernels->table;
    const uint8_t *keep = pruned->host_keep;
    TRY(put_keep(layer, pruned, err));
    for (int index = 0; index < pruned->matrix_count; index++) {
        exec_pruned_matrix *matrix = &pruned->matrix[index];
        TRY(compress(layer, matrix, keep, err));
        keep += (size_t)matrix->rows * (size_t)matrix->columns;
    }
    pruned->kept_count = count_kept(pruned->host_keep, (size_t)pruned->weight_count);
    pruned->is_pruned = true;
    table->mask(layer->kernels, layer->master, pruned->keep, layer->parameter_count);
    table->mask(layer->kernels, layer->moment1, pruned->keep, layer->parameter_count);
    table->mask(layer->kernels, layer->moment2, pruned->keep, layer->parameter_count);
    exec_layer_refresh(layer);
    return table->finish(layer->kernels, err);
}

void exec_pruned_layer_refresh(exec_layer *layer)
{
    const exec_pruned_layer *pruned = exec_pruned_layer_of(layer);
    if (pruned == NULL) return;
    for (int index = 0; index < pruned->matrix_count; index++) {
        const exec_pruned_matrix *matrix = &pruned->matrix[index];
        if (!matrix->is_multiplied) continue;
        const void *weights = exec_layer_weights(layer, matrix->weight);
        layer->kernels->table->sparse_fill(layer->kernels, &matrix->by_input, false, weights);
        layer->kernels->table->sparse_fill(layer->kernels, &matrix->by_output, true, weights);
    }
}

const exec_pruned_matrix *exec_pruned_layer_find(const exec_layer *layer, size_t weight)
{
    const exec_pruned_layer *pruned = exec_pruned_layer_of(layer);
    if (pruned == NULL || !pruned->is_pruned) return NULL;
    for (int index = 0; index < pruned->matrix_count; index++) {
        if (pruned->matrix[index].weight == weight) return &pruned->matrix[index];
    }
    return NULL;
}

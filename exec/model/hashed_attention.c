#include "exec/model/block_layer.h"

#include "base/arena.h"
#include "base/rng.h"
#include "exec/model/layer_table.h"
#include "exec/model/mechanism.h"

#include <stdlib.h>

/// Streams of random numbers of projections begin here; those of parameters elsewhere.
static const uint64_t projection_purpose = (uint64_t)1 << 41;

// layer->mechanism is what a layer hashes with: directions [3 * width][2 * bit_count] values,
// device memory: as qkv lies, so that one product makes all projections; 0 for values, which are
// not hashed.

static int bits_of(const exec_layer *layer)
{
    return layer->model->sparse_attention.bit_count;
}

static int64_t direction_count(const exec_layer *layer)
{
    return 6 * (int64_t)exec_model_attention_width(layer->model) * bits_of(layer);
}

/// The same directions for queries and keys.
static void draw_directions(const exec_layer *layer, float *directions)
{
    const int width = exec_model_attention_width(layer->model);
    const int bits = bits_of(layer);
    rng random = rng_init(layer->model->seed, projection_purpose + (uint64_t)layer->index);
    for (int row = 0; row < width; row++) {
        for (int bit = 0; bit < bits; bit++) {
            const float drawn = (float)(2.0 * rng_unit(&random) - 1.0);
            directions[row * 2 * bits + bit] = drawn;
            directions[(width + row) * 2 * bits + bits + bit] = drawn;
        }
    }
}

/// Projections from the model's seed, keyed by the layer.
static void create(exec_layer *layer)
{
    exec_kernels *kernels = layer->kernels;
    const exec_kernel_table *table = kernels->table;
    const size_t count = (size_t)direction_count(layer);
    if (layer->kind != EXEC_LAYER_BLOCK) return;
    float *drawn = memory_array(count, sizeof *drawn);
    draw_directions(layer, drawn);
    float *floats = exec_layer_upload(layer, drawn, count * sizeof *drawn);
    layer->mechanism = table->allocate(kernels, count * (size_t)table->value_bytes);
    table->to_values(kernels, floats, layer->mechanism, count);
    exec_buffers_give(layer->buffers, floats);
    free(drawn);
}

/// Accepts a layer without.
static void destroy(exec_layer *layer)
{
    layer->kernels->table->release(layer->kernels, layer->mechanism);
    layer->mechanism = NULL;
}

exec_block_choice *exec_block_lists_carve(const exec_layer *layer, arena *memory)
{
    const exec_sparse_attention_options *options = &layer->model->sparse_attention;
    exec_block_choice *made = arena_array(memory, 1, sizeof *made);
    *made = (exec_block_choice){.sorts_rows = options->order == EXEC_ROWS_SORTED,
                                .bit_count = options->bit_count,
                                .affinity = options->affinity};
    return made;
}

static void take_lists(const exec_layer *layer, const exec_attention *shape, int row_count,
                       exec_block_choice *lists, exec_holding *holding)
{
    const size_t sorted = lists->sorts_rows ? (size_t)row_count : 0;
    const size_t blocks = (size_t)shape->block_count;
    const size_t entries = (size_t)exec_dense_block_count(shape);
    lists->met_count =
        exec_layer_take_numbers(layer, holding, 2 * sorted + blocks + 1 + entries + 2);
    lists->first_entry = lists->met_count + 2;
    lists->key_block = lists->first_entry + blocks + 1;
    lists->row = lists->sorts_rows ? lists->key_block + entries : NULL;
    lists->first_key = lists->sorts_rows ? lists->row + sorted : NULL;
}

void exec_block_lists_choose(const exec_layer *layer, const exec_attention *shape, const void *qkv,
                             int row_count, exec_block_choice *lists, exec_holding *holding)
{
    exec_kernels *kernels = layer->kernels;
    const exec_matmul product = {.rows = row_count,
                                 .columns = 2 * bits_of(layer),
                                 .inner = 3 * exec_model_attention_width(layer->model),
                                 .is_float = true};
    const size_t bytes = (size_t)product.rows * (size_t)product.columns * sizeof(float);
    take_lists(layer, shape, row_count, lists, holding);
    float *projection = exec_buffers_take(layer->buffers, bytes);
    kernels->table->matmul(kernels, &product, qkv, layer->mechanism, projection);
    kernels->table->choose_blocks(kernels, shape, lists, projection);
    exec_buffers_give(layer->buffers, projection);
}

static int64_t state_bytes(const exec_layer *layer)
{
    if (layer->mechanism == NULL) return 0;
    return direction_count(layer) * layer->kernels->table->value_bytes;
}

const exec_mechanism_table exec_mechanism_sparse_attention = {
    .create = create,
    .destroy = destroy,
    .state_bytes = state_bytes,
    .load_columns = 2,
};

#include "exec/model/hashed_attention.h"

#include "base/arena.h"
#include "base/rng.h"

#include <stdlib.h>

/// Streams of random numbers of projections begin here; those of parameters elsewhere.
static const uint64_t projection_purpose = (uint64_t)1 << 41;

/// What a layer hashes with. One microbatch is hashed at a time.
typedef struct hashed_attention {
    void *directions;  // [3 * width][2 * bit_count] values, device memory: as qkv lies, so that
                       // one product makes all projections; 0 for values, which are not hashed
    float *projection; // [row_count][2 * bit_count] host memory
    uint8_t *bucket;   // [2][row_count]
    int *bucket_rows;  // [2][block_count][2^bit_count]
} hashed_attention;

static int bits_of(const exec_layer *layer)
{
    return layer->model->sparse_attention.bit_count;
}

/// Blocks of a sequence of the model's length.
static int sequence_blocks(const exec_model *model)
{
    const int first_row[2] = {0, model->sequence_length};
    return exec_block_attention(model, 1, first_row).block_count;
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

static status put_directions(const exec_layer *layer, hashed_attention *hashed, error_message *err)
{
    exec_kernels *kernels = layer->kernels;
    const exec_kernel_table *table = kernels->table;
    const size_t count =
        6 * (size_t)exec_model_attention_width(layer->model) * (size_t)bits_of(layer);
    TRY(table->allocate(kernels, count * (size_t)table->value_bytes, &hashed->directions, err));
    float *drawn = memory_array(count, sizeof *drawn);
    void *floats = NULL;
    status result = table->allocate(kernels, count * sizeof *drawn, &floats, err);
    if (result == STATUS_OK) {
        draw_directions(layer, drawn);
        table->to_device(kernels, floats, drawn, count * sizeof *drawn);
        table->to_values(kernels, floats, hashed->directions, count);
        result = table->finish(kernels, err);
    }
    table->release(kernels, floats);
    free(drawn);
    return result;
}

status exec_hashed_attention_create(exec_layer *layer, error_message *err)
{
    if (layer->kind != EXEC_LAYER_BLOCK) return STATUS_OK;
    const exec_model *model = layer->model;
    const size_t rows = (size_t)exec_model_row_count(model);
    const size_t blocks = (size_t)sequence_blocks(model) * (size_t)model->microbatch_size;
    const int bits = bits_of(layer);
    hashed_attention *hashed = memory_array(1, sizeof *hashed);
    layer->mechanism = hashed;
    hashed->projection = memory_array(rows * 2 * (size_t)bits, sizeof *hashed->projection);
    hashed->bucket = memory_array(1, rows * 2);
    hashed->bucket_rows = memory_array((2 * blocks << bits), sizeof *hashed->bucket_rows);
    return put_directions(layer, hashed, err);
}

void exec_hashed_attention_destroy(exec_layer *layer)
{
    hashed_attention *hashed = layer->mechanism;
    if (hashed == NULL) return;
    layer->kernels->table->release(layer->kernels, hashed->directions);
    free(hashed->bucket_rows);
    free(hashed->bucket);
    free(hashed->projection);
    free(hashed);
    layer->mechanism = NULL;
}

exec_block_lists *exec_block_lists_carve(const exec_layer *layer, arena *memory)
{
    const exec_model *model = layer->model;
    const size_t blocks = (size_t)sequence_blocks(model);
    const size_t sequences = (size_t)model->microbatch_size;
    exec_block_lists *made = arena_array(memory, 1, sizeof *made);
    made->first_entry = arena_array(memory, sequences * blocks + 1, sizeof *made->first_entry);
    made->key_block =
        arena_array(memory, sequences * (blocks * (blocks + 1) / 2), sizeof *made->key_block);
    if (model->sparse_attention.order == EXEC_ROWS_SORTED) {
        const size_t rows = (size_t)exec_model_row_count(model);
        made->row = arena_array(memory, rows, sizeof *made->row);
        made->first_key = arena_array(memory, rows, sizeof *made->first_key);
    }
    return made;
}

/// Projections of queries and keys, on the host.
static status project(const exec_layer *layer, const void *qkv, int row_count, error_message *err)
{
    const hashed_attention *hashed = layer->mechanism;
    exec_kernels *kernels = layer->kernels;
    const exec_matmul shape = {.rows = row_count,
                               .columns = 2 * bits_of(layer),
                               .inner = 3 * exec_model_attention_width(layer->model),
                               .is_float = true};
    const size_t bytes = (size_t)shape.rows * (size_t)shape.columns * sizeof(float);
    void *projection;
    TRY(exec_buffers_take(layer->buffers, bytes, &projection, err));
    kernels->table->matmul(kernels, &shape, qkv, hashed->directions, projection);
    kernels->table->to_host(kernels, hashed->projection, projection, bytes);
    exec_buffers_give(layer->buffers, projection);
    return kernels->table->finish(kernels, err);
}

status exec_block_lists_choose(const exec_layer *layer, const exec_attention *shape,
                               const void *qkv, int row_count, exec_block_lists *lists,
                               error_message *err)
{
    const hashed_attention *hashed = layer->mechanism;
    uint8_t *query_bucket = hashed->bucket;
    uint8_t *key_bucket = hashed->bucket + row_count;
    TRY(project(layer, qkv, row_count, err));
    if (lists->row != NULL) {
        exec_hash_tokens(hashed->projection, row_count, bits_of(layer), key_bucket);
        exec_sort_rows(shape, key_bucket, lists->row, lists->first_key);
        exec_choose_sorted_blocks(shape, lists->row, lists->first_key, lists->first_entry,
                                  lists->key_block);
    } else {
        exec_hash_rows(hashed->projection, row_count, bits_of(layer), query_bucket, key_bucket);
        exec_choose_key_blocks(&layer->model->sparse_attention, shape, query_bucket, key_bucket,
                               hashed->bucket_rows, lists->first_entry, lists->key_block);
    }
    lists->live_count = lists->first_entry[shape->block_count];
    return STATUS_OK;
}

#include "exec/cuda/cuda_backend.h"

#include "base/arena.h"
#include "exec/cuda/cuda_check.h"

#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_WORDS = (int)(sizeof(exec_cuda_block) / sizeof(int)) };

void exec_cuda_blocks_reset(exec_cuda_blocks *blocks)
{
    for (int index = 0; index < EXEC_CUDA_SHAPES_KEPT; index++) {
        cudaFree(blocks->kept[index].device);
        free(blocks->kept[index].asked);
    }
    cudaFree(blocks->device_chosen);
    *blocks = (exec_cuda_blocks){0};
}

/// Appends ints to a list.
static int *append(int *end, const int *values, size_t count)
{
    memcpy(end, values, count * sizeof *end);
    return end + count;
}

/// What dense lists depend on.
static int *words_of(const exec_attention *shape, size_t *count)
{
    const int head[] = {shape->head_count, shape->head_width, shape->block_rows,
                        shape->sequence_count, shape->block_count};
    const size_t head_words = sizeof head / sizeof head[0];
    *count = head_words + (size_t)shape->sequence_count + 1;
    int *words = memory_array(*count, sizeof *words);
    int *end = append(words, head, head_words);
    append(end, shape->first_row, (size_t)shape->sequence_count + 1);
    return words;
}

/// Rows, key blocks and query blocks of every block: those before it in its sequence and itself,
/// and itself and those after it, in ascending order.
static void list_dense_blocks(const exec_attention *shape, exec_cuda_block *block, int *key_block,
                              int *query_block)
{
    int number = 0, keys = 0, queries = 0;
    for (int sequence = 0; sequence < shape->sequence_count; sequence++) {
        const int first = number, end = first + exec_blocks_of(shape, sequence);
        for (; number < end; number++) {
            const int row = shape->first_row[sequence] + (number - first) * shape->block_rows;
            const int rest = shape->first_row[sequence + 1] - row;
            block[number] =
                (exec_cuda_block){.first_row = row,
                                  .row_count = rest < shape->block_rows ? rest : shape->block_rows,
                                  .first_key_block = keys,
                                  .key_block_count = number + 1 - first,
                                  .first_query_block = queries,
                                  .query_block_count = end - number};
            for (int key = first; key <= number; key++) {
                key_block[keys++] = key;
            }
            for (int query = number; query < end; query++) {
                query_block[queries++] = query;
            }
        }
    }
}

/// Room for a number of ints on the device; what was there is lost.
static status grow(exec_kernels *kernels, int **device, size_t *capacity, size_t words,
                   error_message *err)
{
    if (words <= *capacity) return STATUS_OK;
    const size_t room = words > 2 * *capacity ? words : 2 * *capacity;
    exec_cuda_retire(kernels, *device);
    *device = NULL;
    *capacity = 0;
    void *made = NULL;
    TRY_CUDA(cudaMallocAsync(&made, room * sizeof(int), kernels->table->stream(kernels)));
    *device = made;
    *capacity = room;
    return STATUS_OK;
}

static status make_lists(exec_cuda_dense_lists *made, const exec_attention *shape,
                         exec_kernels *kernels, error_message *err)
{
    const size_t entries = (size_t)exec_dense_block_count(shape);
    const size_t block_words = (size_t)shape->block_count * BLOCK_WORDS;
    const size_t words = block_words + 2 * entries;
    TRY(grow(kernels, &made->device, &made->word_capacity, words, err));
    int *host = memory_array(words, sizeof *host);
    list_dense_blocks(shape, (exec_cuda_block *)host, host + block_words,
                      host + block_words + entries);
    kernels->table->to_device(kernels, made->device, host, words * sizeof *host);
    free(host);
    made->lists = (exec_cuda_lists){
        .head_count = shape->head_count,
        .head_width = shape->head_width,
        .block_rows = shape->block_rows,
        .block_count = shape->block_count,
        .row_count = shape->first_row[shape->sequence_count] - shape->first_row[0],
        .block = (const exec_cuda_block *)made->device,
        .key_block = made->device + block_words,
        .query_block = made->device + block_words + entries,
    };
    return STATUS_OK;
}

/// The lists that are there, or in the place of the oldest new ones.
static status find_dense(exec_cuda_blocks *blocks, const exec_attention *shape,
                         exec_kernels *kernels, exec_cuda_lists *lists, error_message *err)
{
    size_t count;
    int *asked = words_of(shape, &count);
    for (int index = 0; index < EXEC_CUDA_SHAPES_KEPT; index++) {
        const exec_cuda_dense_lists *kept = &blocks->kept[index];
        if (count != kept->asked_count) continue;
        if (memcmp(asked, kept->asked, count * sizeof *asked) != 0) continue;
        free(asked);
        *lists = kept->lists;
        return STATUS_OK;
    }
    exec_cuda_dense_lists *oldest = &blocks->kept[blocks->next];
    blocks->next = (blocks->next + 1) % EXEC_CUDA_SHAPES_KEPT;
    free(oldest->asked);
    oldest->asked = asked;
    oldest->asked_count = 0; // until they are made
    TRY(make_lists(oldest, shape, kernels, err));
    oldest->asked_count = count;
    *lists = oldest->lists;
    return STATUS_OK;
}

/// Blocks and query blocks of lists that are chosen on the device, made there. Each key block has
/// room for as many query blocks as the longest sequence has.
static status list_chosen(exec_cuda_blocks *blocks, const exec_attention *shape,
                          exec_kernels *kernels, exec_cuda_lists *lists, error_message *err)
{
    int longest = 0;
    for (int sequence = 0; sequence < shape->sequence_count; sequence++) {
        const int count = exec_blocks_of(shape, sequence);
        if (count > longest) longest = count;
    }
    const size_t block_words = (size_t)shape->block_count * BLOCK_WORDS;
    const size_t words = block_words + (size_t)shape->block_count * (size_t)longest;
    TRY(grow(kernels, &blocks->device_chosen, &blocks->chosen_capacity, words, err));
    exec_cuda_block *block = (exec_cuda_block *)blocks->device_chosen;
    int *query_block = blocks->device_chosen + block_words;
    exec_cuda_list_chosen(kernels, lists, shape, longest, block, query_block);
    lists->block = block;
    lists->key_block = shape->key_block;
    lists->query_block = query_block;
    return STATUS_OK;
}

/// Blocks of rows that the device alone knows, made there.
static status list_live(exec_cuda_blocks *blocks, const exec_attention *shape,
                        exec_kernels *kernels, exec_cuda_lists *lists, error_message *err)
{
    const size_t words = (size_t)shape->block_count * BLOCK_WORDS;
    TRY(grow(kernels, &blocks->device_chosen, &blocks->chosen_capacity, words, err));
    exec_cuda_block *block = (exec_cuda_block *)blocks->device_chosen;
    exec_cuda_list_live(kernels, lists, shape, block);
    lists->block = block;
    return STATUS_OK;
}

status exec_cuda_blocks_find(exec_cuda_blocks *blocks, const exec_attention *shape,
                             exec_kernels *kernels, exec_cuda_lists *lists, error_message *err)
{
    if (shape->block_rows < 1 || shape->block_rows > EXEC_CUDA_BLOCK_ROWS ||
        shape->block_rows * shape->head_width > EXEC_CUDA_TILE_VALUES) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "attention in blocks of %d rows with heads of %d exceeds what the kernels "
                         "take: %d rows and rows times width %d",
                         shape->block_rows, shape->head_width, EXEC_CUDA_BLOCK_ROWS,
                         EXEC_CUDA_TILE_VALUES);
    }
    TRY(find_dense(blocks, shape, kernels, lists, err));
    lists->first_key = shape->first_key;
    if (shape->live_first_row != NULL) return list_live(blocks, shape, kernels, lists, err);
    return shape->first_entry != NULL ? list_chosen(blocks, shape, kernels, lists, err) : STATUS_OK;
}

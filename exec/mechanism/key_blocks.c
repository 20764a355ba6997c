#include "exec/mechanism/key_blocks.h"

#include <math.h>
#include <string.h>

exec_sparse_attention_options exec_sparse_attention_options_default(void)
{
    return (exec_sparse_attention_options){.bit_count = 4, .affinity = 1, .block_rows = 16};
}

status exec_sparse_attention_options_check(const exec_sparse_attention_options *options,
                                           error_message *err)
{
    if (options->bit_count < 1 || options->bit_count > EXEC_HASH_BITS_MAX) {
        return error_set(err, STATUS_INVALID, "bit_count %d is outside [1, %d]", options->bit_count,
                         EXEC_HASH_BITS_MAX);
    }
    if (!(options->affinity >= 0) || !isfinite(options->affinity)) {
        return error_set(err, STATUS_INVALID, "affinity %g is negative or not finite",
                         options->affinity);
    }
    const int rows = options->block_rows;
    if (rows == 0 || rows == 16 || rows == 32 || rows == 64) return STATUS_OK;
    return error_set(err, STATUS_INVALID, "block_rows %d is none of 0, 16, 32, 64", rows);
}

void exec_hash_rows(const float *projection, int row_count, int bit_count, uint8_t *query_bucket,
                    uint8_t *key_bucket)
{
    for (int row = 0; row < row_count; row++) {
        unsigned query = 0;
        unsigned key = 0;
        for (int bit = 0; bit < bit_count; bit++) {
            query |= (projection[bit] > 0 ? 1U : 0U) << bit;
            key |= (projection[bit_count + bit] > 0 ? 1U : 0U) << bit;
        }
        query_bucket[row] = (uint8_t)query;
        key_bucket[row] = (uint8_t)key;
        projection += 2 * bit_count;
    }
}

/// How many rows of each block are in each bucket.
static void count_buckets(const exec_attention *shape, const uint8_t *bucket, int bucket_count,
                          int *rows)
{
    memset(rows, 0, (size_t)shape->block_count * (size_t)bucket_count * sizeof *rows);
    for (int sequence = 0; sequence < shape->sequence_count; sequence++) {
        const int end = shape->first_row[sequence + 1];
        for (int row = shape->first_row[sequence]; row < end; row += shape->block_rows) {
            const int block_end = row + shape->block_rows < end ? row + shape->block_rows : end;
            for (int at = row; at < block_end; at++) {
                rows[bucket[at]]++;
            }
            rows += bucket_count;
        }
    }
}

/// Whether blocks meet: pairs in one bucket, against affinity / bucket_count of all pairs.
static bool do_meet(const int *query_rows, const int *key_rows, int bucket_count, double affinity)
{
    int64_t pairs = 0;
    int64_t queries = 0;
    int64_t keys = 0;
    for (int bucket = 0; bucket < bucket_count; bucket++) {
        pairs += (int64_t)query_rows[bucket] * key_rows[bucket];
        queries += query_rows[bucket];
        keys += key_rows[bucket];
    }
    return (double)(pairs * bucket_count) >= affinity * (double)(queries * keys);
}

static int blocks_of(const exec_attention *shape, int sequence)
{
    const int rows = shape->first_row[sequence + 1] - shape->first_row[sequence];
    return (rows + shape->block_rows - 1) / shape->block_rows;
}

void exec_choose_key_blocks(const exec_sparse_attention_options *options,
                            const exec_attention *shape, const uint8_t *query_bucket,
                            const uint8_t *key_bucket, int *bucket_rows, int *first_entry,
                            int *key_block)
{
    const int buckets = 1 << options->bit_count;
    const int *query_rows = bucket_rows;
    int *key_rows = bucket_rows + (size_t)shape->block_count * (size_t)buckets;
    count_buckets(shape, query_bucket, buckets, bucket_rows);
    count_buckets(shape, key_bucket, buckets, key_rows);
    int entry = 0;
    int first = 0; // block of the sequence
    for (int sequence = 0; sequence < shape->sequence_count; sequence++) {
        const int end = first + blocks_of(shape, sequence);
        for (int query = first; query < end; query++) {
            first_entry[query] = entry;
            for (int key = first; key < query; key++) {
                if (do_meet(query_rows + (size_t)query * (size_t)buckets,
                            key_rows + (size_t)key * (size_t)buckets, buckets, options->affinity)) {
                    key_block[entry++] = key;
                }
            }
            key_block[entry++] = query;
        }
        first = end;
    }
    first_entry[first] = entry;
}

int64_t exec_dense_block_count(const exec_attention *shape)
{
    int64_t count = 0;
    for (int sequence = 0; sequence < shape->sequence_count; sequence++) {
        const int64_t blocks = blocks_of(shape, sequence);
        count += blocks * (blocks + 1) / 2;
    }
    return count;
}

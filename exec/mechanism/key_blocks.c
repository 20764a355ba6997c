#include "exec/mechanism/key_blocks.h"

#include <math.h>
#include <string.h>

const char *const exec_row_order_names[EXEC_ROW_ORDER_COUNT] = {"sorted", "text"};

exec_sparse_attention_options exec_sparse_attention_options_default(void)
{
    return (exec_sparse_attention_options){
        .order = EXEC_ROWS_SORTED, .bit_count = 4, .affinity = 1, .block_rows = 16};
}

status exec_sparse_attention_options_check(const exec_sparse_attention_options *options,
                                           error_message *err)
{
    if (options->order < 0 || options->order >= EXEC_ROW_ORDER_COUNT) {
        return error_set(err, STATUS_INVALID, "order %d is outside [0, %d]", options->order,
                         EXEC_ROW_ORDER_COUNT - 1);
    }
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

void exec_hash_tokens(const float *projection, int row_count, int bit_count, uint8_t *bucket)
{
    for (int row = 0; row < row_count; row++) {
        unsigned token = 0;
        for (int bit = 0; bit < bit_count; bit++) {
            token |= (projection[bit] + projection[bit_count + bit] > 0 ? 1U : 0U) << bit;
        }
        bucket[row] = (uint8_t)token;
        projection += 2 * bit_count;
    }
}

static void sort_sequence(const uint8_t *bucket, int begin, int end, int *row, int *first_key)
{
    int next[1 << EXEC_HASH_BITS_MAX] = {0}; // rows of the bucket, then where its next one goes
    for (int at = begin; at < end; at++) {
        next[bucket[at]]++;
    }
    int first = begin;
    for (int of = 0; of < 1 << EXEC_HASH_BITS_MAX; of++) {
        const int count = next[of];
        next[of] = first;
        for (int at = first; at < first + count; at++) {
            first_key[at] = first;
        }
        first += count;
    }
    for (int at = begin; at < end; at++) {
        row[next[bucket[at]]++] = at;
    }
}

void exec_sort_rows(const exec_attention *shape, const uint8_t *bucket, int *row, int *first_key)
{
    for (int sequence = 0; sequence < shape->sequence_count; sequence++) {
        sort_sequence(bucket, shape->first_row[sequence], shape->first_row[sequence + 1], row,
                      first_key);
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

/// The last block that the queries of sorted rows [first, last] meet: where their last bucket ends,
/// or before it one that holds a token which is not after all of them.
static int last_met(const exec_attention *shape, int sequence, int first, int last, const int *row,
                    const int *first_key)
{
    const int begin = shape->first_row[sequence];
    const int end = shape->first_row[sequence + 1];
    int latest = 0;
    for (int at = first; at <= last; at++) {
        if (row[at] > latest) latest = row[at];
    }
    int met = last; // a row of the block
    while (met + 1 < end && first_key[met + 1] == first_key[last]) {
        met++;
    }
    // The rest of the last bucket's last block belongs to it.
    const int rest = (met - begin) / shape->block_rows * shape->block_rows + shape->block_rows;
    met = begin + rest < end ? begin + rest - 1 : end - 1;
    while (row[met] > latest) {
        met--;
    }
    return (met - begin) / shape->block_rows;
}

/// Appends the blocks that each of a sequence's meets, of which `block` is the first.
///
/// @return whether they are no more than dense attention's
static bool append_met(const exec_attention *shape, int sequence, int block, const int *row,
                       const int *first_key, int *first_entry, int *key_block, int *entry)
{
    const int begin = shape->first_row[sequence];
    const int end = shape->first_row[sequence + 1];
    const int64_t blocks = blocks_of(shape, sequence);
    const int64_t most = *entry + blocks * (blocks + 1) / 2;
    for (int query = 0; query < blocks; query++) {
        const int first = begin + query * shape->block_rows;
        const int last = end - first < shape->block_rows ? end - 1 : first + shape->block_rows - 1;
        const int last_key = last_met(shape, sequence, first, last, row, first_key);
        first_entry[block + query] = *entry;
        for (int key = (first_key[first] - begin) / shape->block_rows; key <= last_key; key++) {
            if (*entry == most) return false;
            key_block[(*entry)++] = block + key;
        }
    }
    return true;
}

void exec_choose_sorted_blocks(const exec_attention *shape, const int *row, const int *first_key,
                               int *first_entry, int *key_block)
{
    int entry = 0;
    int first = 0; // block of the sequence
    for (int sequence = 0; sequence < shape->sequence_count; sequence++) {
        const int end = first + blocks_of(shape, sequence);
        const int begun = entry;
        if (!append_met(shape, sequence, first, row, first_key, first_entry, key_block, &entry)) {
            entry = begun;
            for (int query = first; query < end; query++) {
                first_entry[query] = entry;
                for (int key = first; key <= query; key++) {
                    key_block[entry++] = key;
                }
            }
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

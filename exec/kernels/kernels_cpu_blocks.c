/// What choose_blocks decides in plain C: buckets, the order of rows, lists of key blocks. Why so:
/// ../mechanism/README.md.
#include "exec/kernels/kernels_cpu.h"

#include <string.h>

enum { BUCKETS_MAX = 1 << EXEC_HASH_BITS_MAX };

/// Buckets of rows: bit b is set where projection b is above 0.
static void hash_rows(const float *projection, int row_count, int bit_count, uint8_t *query_bucket,
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

/// The same of tokens: bit b is set where projections b of query and key sum to more than 0, as
/// where the two are one vector (HashSparse).
static void hash_tokens(const float *projection, int row_count, int bit_count, uint8_t *bucket)
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
    int next[BUCKETS_MAX] = {0}; // rows of the bucket, then where its next one goes
    for (int at = begin; at < end; at++) {
        next[bucket[at]]++;
    }
    int first = begin;
    for (int of = 0; of < BUCKETS_MAX; of++) {
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

/// Sorts the rows of every sequence by bucket.
static void sort_rows(const exec_attention *shape, const uint8_t *bucket, int *row, int *first_key)
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

/// Blocks of keys of every block of queries in the order of the text: its own, and those in front
/// of it in its sequence that it meets. Ties meet.
///
/// @param bucket_rows [2][block_count][2^bit_count] scratch
static void choose_key_blocks(const exec_block_choice *choice, const exec_attention *shape,
                              const uint8_t *query_bucket, const uint8_t *key_bucket,
                              int *bucket_rows)
{
    const int buckets = 1 << choice->bit_count;
    int *first_entry = choice->first_entry;
    int *key_block = choice->key_block;
    const int *query_rows = bucket_rows;
    int *key_rows = bucket_rows + (size_t)shape->block_count * (size_t)buckets;
    count_buckets(shape, query_bucket, buckets, bucket_rows);
    count_buckets(shape, key_bucket, buckets, key_rows);
    int entry = 0;
    int first = 0; // block of the sequence
    for (int sequence = 0; sequence < shape->sequence_count; sequence++) {
        const int end = first + exec_blocks_of(shape, sequence);
        for (int query = first; query < end; query++) {
            first_entry[query] = entry;
            for (int key = first; key < query; key++) {
                if (do_meet(query_rows + (size_t)query * (size_t)buckets,
                            key_rows + (size_t)key * (size_t)buckets, buckets, choice->affinity)) {
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
    const int64_t blocks = exec_blocks_of(shape, sequence);
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

/// Blocks of keys of every block of queries among sorted rows.
static void choose_sorted_blocks(const exec_attention *shape, const int *row, const int *first_key,
                                 int *first_entry, int *key_block)
{
    int entry = 0;
    int first = 0; // block of the sequence
    for (int sequence = 0; sequence < shape->sequence_count; sequence++) {
        const int end = first + exec_blocks_of(shape, sequence);
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

void exec_cpu_choose_blocks(exec_kernels *kernels, const exec_attention *shape,
                            const exec_block_choice *choice, const float *projection)
{
    const int rows = shape->first_row[shape->sequence_count];
    const int bits = choice->bit_count;
    const size_t count = ((size_t)shape->block_count * 2 << bits) + (size_t)rows;
    int *scratch = (int *)(void *)exec_cpu_scratch((exec_cpu *)kernels, count);
    uint8_t *query_bucket = (uint8_t *)(scratch + ((size_t)shape->block_count * 2 << bits));
    uint8_t *key_bucket = query_bucket + rows;
    if (choice->sorts_rows) {
        hash_tokens(projection, rows, bits, key_bucket);
        sort_rows(shape, key_bucket, choice->row, choice->first_key);
        choose_sorted_blocks(shape, choice->row, choice->first_key, choice->first_entry,
                             choice->key_block);
    } else {
        hash_rows(projection, rows, bits, query_bucket, key_bucket);
        choose_key_blocks(choice, shape, query_bucket, key_bucket, scratch);
    }
    choice->met_count[0] = choice->first_entry[shape->block_count];
    choice->met_count[1] = exec_dense_block_count(shape);
}

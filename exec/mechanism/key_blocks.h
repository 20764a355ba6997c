/// Block-sparse attention by hashing, decided on the host: which blocks of keys a block of queries
/// meets. Queries and keys that point alike fall into the same bucket; blocks meet where they have
/// enough of such pairs.
///
/// Source of hashing queries and keys by the signs of random projections: Charikar, Similarity
/// estimation techniques from rounding algorithms, STOC 2002; of attention within buckets:
/// Pagliardini et al., arXiv 2306.01160, which sorts tokens by bucket where here blocks of
/// neighbours stay together, so that the kernel of dense attention serves.
#pragma once

#include "base/status.h"
#include "exec/kernels/kernels.h"

#include <stdint.h>

typedef struct exec_sparse_attention_options {
    int bit_count; // random projections; 2^bit_count buckets, 1 to EXEC_HASH_BITS_MAX
    double
        affinity;   // blocks meet where their pairs of a query and a key in one bucket are at least
                    // affinity times as many as if all buckets were equally full; 0: all meet
    int block_rows; // 16, 32 or 64 rows; 0: as dense attention does
} exec_sparse_attention_options;

enum { EXEC_HASH_BITS_MAX = 8 };

/// 16 buckets, as many pairs as by chance, blocks of 16 rows.
exec_sparse_attention_options exec_sparse_attention_options_default(void);

/// STATUS_INVALID naming parameter, value and limits.
status exec_sparse_attention_options_check(const exec_sparse_attention_options *options,
                                           error_message *err);

/// Buckets of rows: bit b is set where projection b is above 0.
///
/// @param projection [row_count][2 * bit_count] of queries, then of keys
/// @param query_bucket, key_bucket [row_count] out
void exec_hash_rows(const float *projection, int row_count, int bit_count, uint8_t *query_bucket,
                    uint8_t *key_bucket);

/// Blocks of keys of every block of queries: its own, and those in front of it in its sequence that
/// it meets. Ties meet.
///
/// @param shape             sequences and blocks; lists are not read
/// @param bucket_rows       [2][block_count][2^bit_count] scratch
/// @param first_entry       [block_count + 1] out
/// @param key_block         out: at most as many as dense causal attention has
void exec_choose_key_blocks(const exec_sparse_attention_options *options,
                            const exec_attention *shape, const uint8_t *query_bucket,
                            const uint8_t *key_bucket, int *bucket_rows, int *first_entry,
                            int *key_block);

/// Blocks of keys that all blocks of queries meet in dense causal attention.
int64_t exec_dense_block_count(const exec_attention *shape);

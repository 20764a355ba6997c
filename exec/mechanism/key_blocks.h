/// Block-sparse attention by hashing: which blocks of keys a block of queries meets, as the device
/// decides (choose_blocks, kernels.h). Queries and keys that point alike fall into the same bucket,
/// of all heads at once.
///
/// Rows sorted: each token has one bucket; rows are sorted by it, those of a bucket stay in the
/// order of the text. A token attends to the tokens of its bucket up to itself, and to no others.
/// A block of queries meets the blocks from the one where its first bucket begins to the one where
/// its last bucket ends, less those at the end that hold only later tokens than all of its queries.
/// Some of these are masked throughout. Where a sequence's would be more than dense attention
/// computes, its blocks meet all up to themselves. This is hash-sparse attention as Pagliardini et
/// al., arXiv 2306.01160, have it, with the tiles that _fwd_kernel of hsparse_attn.py in its code
/// reads. There heads have buckets of their own, and a token does not attend to itself, so the
/// first of a bucket to none.
///
/// Rows as in the text: queries and keys have buckets of their own, and blocks of neighbours meet
/// where they have enough pairs in one bucket; all pairs of such blocks count.
///
/// Source of hashing by the signs of random projections: Charikar, Similarity estimation techniques
/// from rounding algorithms, STOC 2002.
#pragma once

#include "exec/kernels/kernels.h"

typedef enum exec_row_order {
    EXEC_ROWS_SORTED,
    EXEC_ROWS_AS_TEXT,
    EXEC_ROW_ORDER_COUNT
} exec_row_order;

typedef struct exec_sparse_attention_options {
    int order;       // exec_row_order
    int bit_count;   // random projections; 2^bit_count buckets, 1 to EXEC_HASH_BITS_MAX
    double affinity; // of EXEC_ROWS_AS_TEXT: blocks meet where their pairs of a query and a key in
                     // one bucket are at least affinity times as many as if all buckets were
                     // equally full; 0: all meet
    int block_rows;  // 16, 32 or 64 rows; 0: as dense attention does
} exec_sparse_attention_options;

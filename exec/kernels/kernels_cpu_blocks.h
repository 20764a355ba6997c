/// What choose_blocks decides in plain C: buckets, the order of rows, lists of key blocks. Why so:
/// key_blocks.h.
#pragma once

#include "exec/kernels/kernels.h"

/// Buckets of rows: bit b is set where projection b is above 0.
///
/// @param projection [row_count][2 * bit_count] of queries, then of keys
/// @param query_bucket, key_bucket [row_count] out
void exec_hash_rows(const float *projection, int row_count, int bit_count, uint8_t *query_bucket,
                    uint8_t *key_bucket);

/// The same of tokens: bit b is set where projections b of query and key sum to more than 0, as
/// where the two are one vector (HashSparse).
///
/// @param bucket [row_count] out
void exec_hash_tokens(const float *projection, int row_count, int bit_count, uint8_t *bucket);

/// Sorts the rows of every sequence by bucket.
///
/// @param row       [row_count] out: which row comes where
/// @param first_key [row_count] out: where the bucket of that row begins, as of exec_attention
void exec_sort_rows(const exec_attention *shape, const uint8_t *bucket, int *row, int *first_key);

/// Blocks of keys of every block of queries among sorted rows.
///
/// @param row, first_key as exec_sort_rows gives them
/// @param first_entry, key_block out: of exec_attention
void exec_choose_sorted_blocks(const exec_attention *shape, const int *row, const int *first_key,
                               int *first_entry, int *key_block);

/// Blocks of keys of every block of queries in the order of the text: its own, and those in front
/// of it in its sequence that it meets. Ties meet.
///
/// @param choice      bit_count and affinity are read; first_entry and key_block out
/// @param shape       sequences and blocks; lists are not read
/// @param bucket_rows [2][block_count][2^bit_count] scratch
void exec_choose_key_blocks(const exec_block_choice *choice, const exec_attention *shape,
                            const uint8_t *query_bucket, const uint8_t *key_bucket,
                            int *bucket_rows);

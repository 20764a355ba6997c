/// A block whose attention meets only blocks of keys that hashing finds (key_blocks.h): random
/// projections of a layer, and the lists that a microbatch got in F and keeps for B. Internal to
/// the layers and to the mechanism.
#pragma once

#include "exec/mechanism/key_blocks.h"
#include "exec/model/block_layer.h"

/// Lists of one microbatch, in host memory.
typedef struct exec_block_lists {
    int *first_entry; // [block_count + 1]
    int *key_block;
    int live_count; // entries
    int *row;       // [row_count] exec_sort_rows; NULL: rows stay as in the text
    int *first_key; // [row_count] likewise
    void *device_row, *device_first_key; // the same, from F to B
} exec_block_lists;

/// Makes layer->mechanism of a block: projections from the model's seed, keyed by the layer.
status exec_hashed_attention_create(exec_layer *layer, error_message *err);

/// Accepts a layer without.
void exec_hashed_attention_destroy(exec_layer *layer);

/// Room for the lists of a microbatch with all rows of the model.
exec_block_lists *exec_block_lists_carve(const exec_layer *layer, arena *memory);

/// Chooses lists by hashing the queries and keys of one microbatch. Waits for them: the decision is
/// the host's.
///
/// @param qkv [row_count][3 * width]
status exec_block_lists_choose(const exec_layer *layer, const exec_attention *shape,
                               const void *qkv, int row_count, exec_block_lists *lists,
                               error_message *err);

/// A block whose attention meets only blocks of keys that hashing finds (../mechanism):
/// random projections of a layer, which are its state of the mechanism, and the lists that a
/// microbatch got in F and keeps for B. Internal to the layers.
#pragma once

#include "exec/mechanism/mechanisms.h"
#include "exec/model/block_layer.h"

/// What the lists of a microbatch are chosen by; its arrays come with exec_block_lists_choose.
exec_block_choice *exec_block_lists_carve(const exec_layer *layer, arena *memory);

/// Has the device choose lists by hashing the queries and keys of one microbatch.
///
/// @param qkv     [row_count][3 * width]
/// @param holding of the lists
void exec_block_lists_choose(const exec_layer *layer, const exec_attention *shape, const void *qkv,
                             int row_count, exec_block_choice *lists, exec_holding *holding);

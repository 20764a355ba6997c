/// A block that computes some of the rows: those that a router picks (mixture of depths), or those
/// that have not left (early exit). Internal to the layers.
///
/// Chosen rows are gathered, both halves of the block work on them as if there were no others, and
/// the result goes back to where they came from; the other rows pass by untouched, in F and in B.
/// Attention is among chosen rows alone, in order of their positions.
#pragma once

#include "exec/mechanism/mechanisms.h"
#include "exec/model/block_layer.h"

/// Rows chosen of one microbatch, and what F leaves of them for B and W.
typedef struct exec_rows_slot exec_rows_slot;

exec_rows_slot *exec_rows_slot_carve(const exec_layer *layer, arena *memory);

/// Gives back the regions that the slot holds.
void exec_rows_slot_let_go(exec_layer *layer, exec_rows_slot *slot);

/// Whether the block computes chosen rows under the model's mechanism; all rows otherwise.
bool exec_block_chooses_rows(const exec_layer *layer);

/// F, B and W of such a block.
///
/// Mixture of depths: values[row] += gate(score) * (block(rows)[row] - values[row]) of the chosen.
/// The router, a vector, scores every row; the device chooses as many of each sequence as the model
/// says, so that the host knows their number.
///
/// Early exit: rows that have not left become block(rows); those that the exit after it (exits.h)
/// finds sure leave. Where the host does not see device memory, room is taken for all rows, and
/// operations find on the device how many there are.
///
/// @param flow with early exit has_left is changed
status exec_chosen_rows_forward(exec_block *block, exec_block_slot *slot, exec_flow *flow,
                                error_message *err);
status exec_chosen_rows_backward_input(exec_block *block, exec_block_slot *slot, void *gradient,
                                       error_message *err);
void exec_chosen_rows_backward_weight(exec_block *block, exec_block_slot *slot);

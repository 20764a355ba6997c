/// Mixture of experts in the place of a block's MLP: its second half becomes values += the sum over
/// a token's experts of weight * expert(norm2(values)). The rows of one expert lie together, in
/// order of tokens, so that all experts are a pair of products of groups of rows; where ranks share
/// the experts of a block, rows go to the rank that has their expert and come back
/// (expert_exchange.h). Internal to the layers.
#pragma once

#include "exec/mechanism/mechanisms.h"
#include "exec/model/block_layer.h"

/// What one microbatch leaves, beside the half's slot.
///
/// Rows that lie by place (kernels.h) are "of entries", [entry_count]: of this rank's tokens. Those
/// of the experts that are here are "held", by the rank that they come from and then by expert: in
/// expert_count segments, since of R ranks that share the experts each has 1 / R of them. Where the
/// rank has all experts both are the same rows. Others are of tokens.
typedef struct exec_moe_slot {
    exec_routing routing;  // first_place and place_expert until W, the rest until B
    int held_row_count;    // rows that are held
    const int *first_row;  // [expert_count + 1] device memory: held, of each segment
    const int *row_group;  // [held] device memory: of which expert that is here a row is
    int *count;            // [R][expert_count] host: entries that each rank has of each expert;
                           // NULL, as what follows, where the rank has all experts
    int *shared_entry;     // [expert_count + 1] host: entries of each expert begin there
    int *shared_row;       // [expert_count + 1 + held] host: first_row, and row_group after it
    void *input;           // [held][width] F to W: what experts get
    void *output;          // [entry_count][width] F to B: what experts made of this rank's tokens
    void *output_gradient; // [held][width] B to W
    void *logits_gradient; // [row_count][expert_count] B to W
} exec_moe_slot;

/// Appends the tensors of router and experts to the layer.
/// @param up_deviation, down_deviation of the matrices' initial values; the router's is up's
exec_experts exec_experts_add(exec_layer *layer, float up_deviation, float down_deviation);

exec_moe_slot *exec_moe_slot_carve(const exec_layer *layer, arena *memory);

/// Tokens of each expert in the microbatch of the last F, of all ranks that share the experts.
///
/// @param count [expert_count] device memory, out
void exec_moe_slot_count(const exec_layer *layer, const exec_moe_slot *slot, int *count);

/// Sums of squares of the gradients of the experts that are here, in double; the layer learns.
/// Waits.
///
/// @param sum [expert_count] out; entries of others stay
void exec_experts_square_norms(exec_layer *layer, double *sum);

/// F, B and W, as those of a block's other halves. B adds the gradient of the balance loss: the
/// loss of the model is then its mean loss plus, for each block, the model's coefficient times the
/// balance loss (route_input, kernels.h).
status exec_moe_half_forward(exec_block *block, exec_half_slot *half, exec_moe_slot *slot,
                             int row_count, void *values, error_message *err);
status exec_moe_half_backward_input(exec_block *block, exec_half_slot *half, exec_moe_slot *slot,
                                    void *gradient, error_message *err);
void exec_moe_half_backward_weight(exec_block *block, exec_half_slot *half, exec_moe_slot *slot);

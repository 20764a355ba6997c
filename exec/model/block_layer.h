/// The inside of a transformer block, for those who change what it computes. Internal to the
/// layers.
///
/// A block is two halves, one after the other: attention (x += attention(norm1(x))) and MLP
/// (x += mlp(norm2(x))). A half computes rows [row_count][width], dense, of any number of sequences
/// of any length, the residual path in place. Each half has F, B and W of its own and keeps its own
/// part of the slot, in regions of the rank's buffers that are taken for the rows there really are:
///
///   until_input   F to B: what only B needs
///   until_weight  F to W: what W needs too; B adds the gradients that W multiplies with it
///
/// B gives back the first holding, W the second. Of a frozen layer nothing is kept for W.
/// A failed call leaves regions in the holdings and may lose scratch: the rank ends then.
///
/// Where mechanisms enter, each at one place:
///   rows        which rows a block computes, and how they return: block_layer.c calls the halves
///               with all rows. A choice of rows (block_rows.c) gathers them, calls the halves with
///               the shape of what it gathered, and scatters.
///   key blocks  exec_block_attention makes the shape of attention: all blocks up to the query's.
///               Sparse attention chooses fewer after the queries and keys, and may sort rows for
///               attention alone (hashed_attention.c).
///   MLP         the second half is one pair of linears, block_layer.c, or experts, moe_half.h.
///   freezing    is_frozen and passes_no_gradient of exec_layer are heeded everywhere.
#pragma once

#include "base/arena.h"
#include "exec/mechanism/mechanisms.h"
#include "exec/model/exits.h"
#include "exec/model/layer_table.h"
#include "exec/model/linear.h"

/// What a half of a block keeps of one microbatch.
typedef struct exec_half_slot {
    exec_holding until_input, until_weight;
    exec_norm_slot norm;
    void *output_gradient; // [row_count][width] B to W: of the half's output
    /// Attention: queries, keys and values of all heads [row_count][3 * attention width], rows
    /// sorted where attention sorts them, as is log_sum; its output [row_count][attention width];
    /// MLP: before the activation [row_count] [exec_block_inner_width] and after it
    /// [row_count][hidden_width]. inner F to B, outer F to W.
    void *inner, *outer;
    void *inner_gradient; // B to W: of what the first linear made
    float *log_sum;       // attention only, [row_count][head_count] F to B
} exec_half_slot;

/// Where a router and its experts are among the block's parameters.
typedef struct exec_experts {
    int expert_count;
    int held_count;       // that are here: the rank's share of them
    size_t router;        // offset of [width][expert_count]
    exec_linear up, down; // of the first that is here; the others follow, matrices after matrices,
                          // biases after biases
} exec_experts;

typedef struct exec_block {
    exec_layer layer; // first member
    exec_norm norm1, norm2;
    exec_linear query_key_value, attention_output;
    exec_linear up, down; // not with experts
    exec_experts experts; // mixture of experts only
    size_t row_router;    // mixture of depths only: offset of [width]
    exec_exit exit;       // early exit only, where exec_exit_follows
    float *rotation;      // of exec_heads; NULL where positions are learned
} exec_block;

/// The sequences of a block's rows, and the shape of attention over them.
typedef struct exec_block_rows {
    int row_count;
    const int *row; // [row_count] device memory: of the microbatch, or of the document; its
                    // position is that % sequence_length; NULL: all of them
    exec_attention attention;
    exec_block_choice *lists; // of key blocks, chosen in F; NULL: dense causal attention
} exec_block_rows;

typedef struct exec_block_slot {
    exec_slot slot; // first member
    exec_half_slot attention_half, mlp_half;
    exec_block_rows rows;               // of the microbatch it holds
    arena *memory;                      // of the arrays on the host
    int *first_row;                     // [microbatch_size + 1] of rows.attention
    struct exec_moe_slot *moe;          // NULL but with experts (moe_half.h)
    struct exec_rows_slot *chosen_rows; // NULL but in blocks that choose rows
    exec_block_choice *lists;           // NULL but with sparse attention
} exec_block_slot;

/// Both halves, over the rows that slot->rows says; the second with experts where the model has
/// them. F and B work in place: B makes of the gradient of the output that of the input.
status exec_block_halves_forward(exec_block *block, exec_block_slot *slot, void *values,
                                 error_message *err);
status exec_block_halves_backward_input(exec_block *block, exec_block_slot *slot, void *gradient,
                                        error_message *err);
void exec_block_halves_backward_weight(exec_block *block, exec_block_slot *slot);

/// Numbers that go into the activation for each that leaves it, times hidden_width.
int exec_block_inner_width(const exec_model *model, int hidden_width);

/// outer [rows][hidden_width] = the activation of inner.
void exec_half_activate(const exec_layer *layer, const void *inner, int rows, int hidden_width,
                        void *outer);

/// @param outer_gradient [rows][hidden_width]; without gates it must be inner_gradient
/// @param inner_gradient [rows][exec_block_inner_width] out
void exec_half_activate_input(const exec_layer *layer, const void *inner, int rows,
                              int hidden_width, const void *outer_gradient, void *inner_gradient);

/// The shape of dense causal attention over sequences of the given first rows.
///
/// @param first_row [sequence_count + 1] borrowed by the shape
exec_attention exec_block_attention(const exec_model *model, int sequence_count,
                                    const int *first_row);

// A block that computes some of the rows (block_rows.c): those that a router picks (mixture of
// depths), or those that have not left (early exit).
//
// Chosen rows are gathered, both halves of the block work on them as if there were no others, and
// the result goes back to where they came from; the other rows pass by untouched, in F and in B.
// Attention is among chosen rows alone, in order of their positions.

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

// A block whose attention meets only blocks of keys that hashing finds (hashed_attention.c): random
// projections of a layer, which are its state of the mechanism, and the lists that a microbatch
// got in F and keeps for B.

/// What the lists of a microbatch are chosen by; its arrays come with exec_block_lists_choose.
exec_block_choice *exec_block_lists_carve(const exec_layer *layer, arena *memory);

/// Has the device choose lists by hashing the queries and keys of one microbatch.
///
/// @param qkv     [row_count][3 * width]
/// @param holding of the lists
void exec_block_lists_choose(const exec_layer *layer, const exec_attention *shape, const void *qkv,
                             int row_count, exec_block_choice *lists, exec_holding *holding);

/// The layers of the model (model.h): parameters, forward, backward for the input and backward for
/// the weights, apart.
///
/// A layer owns its parameters in one run of memory. It computes one microbatch at a time; what
/// a microbatch leaves for its B and its W lies in a slot.
#pragma once

#include "base/status.h"
#include "exec/buffers.h"
#include "exec/kernels/kernels.h"
#include "exec/model/model.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum exec_layer_kind {
    EXEC_LAYER_EMBEDDING,
    EXEC_LAYER_BLOCK,
    EXEC_LAYER_HEAD
} exec_layer_kind;

/// What flows from layer to layer for one microbatch: the hidden state of every token, in order of
/// (sequence, position). values and has_left are borrowed for the call, the rest to the
/// microbatch's last op.
typedef struct exec_flow {
    void *values; // [row_count][width] device memory
    int row_count;
    uint8_t *has_left; // [row_count] device memory, with early exit: 0 where the token has not left
    const int *token;  // [row_count] device memory: input bytes
    const int *target; // [row_count] device memory: bytes to be predicted
    float *loss;       // [row_count] device memory, out: nats, by the head
    int *load;         // [load_columns] device memory, out of layers that count on the device
                       // (mechanism.h); NULL: not wanted
    float row_weight;  // of a row in the loss whose gradients are made; 0: 1 / row_count
    int document_count;   // of packed documents; 0: sequences of the model's length
    const int *first_row; // [document_count + 1] host memory
    const int *position;  // [row_count] device memory: of each row in its document
    int iteration;        // with microbatch the key of everything random
    int microbatch;
} exec_flow;

/// One tensor of a layer: part of its parameters.
typedef struct exec_tensor {
    const char *name; // "query-key-value", "norm1 weight", ...
    size_t offset;    // first of its parameters
    size_t held;      // and of its numbers in the layer's arrays: offset, but of a compressed layer
    exec_csr *csr;    // of a matrix of a compressed layer, owned by it; else NULL
    int rows;         // of a matrix [rows][columns], its input width; 1: a vector
    int columns;
    size_t before;       // parameters in front of the first, which another rank has and draws
    bool decays;         // by weight_decay
    float initial_value; // of all; where initial_deviation is 0
    float initial_deviation;
} exec_tensor;

enum { EXEC_LAYER_TENSORS_MAX = 16 }; ///< tensors of a layer

/// What a layer keeps of one microbatch from F to B and from B to W. Kinds of layers extend it.
typedef struct exec_slot {
    int64_t activation_bytes; // held from the last F on
    int64_t gradient_bytes;   // held from the last B on, until W
    exec_flow recomputed;     // F to B, where B computes F again: values are the input,
    exec_holding input;       // which is held here
} exec_slot;

typedef struct exec_layer_table exec_layer_table; // exec/model/layer_table.h

/// A layer's parameters, and how they are computed with. Kinds of layers extend it.
typedef struct exec_layer {
    const exec_layer_table *table;
    const exec_model *model;
    exec_buffers *buffers;
    exec_kernels *kernels; // of buffers
    exec_layer_kind kind;
    int index; // model order
    exec_tensor tensors[EXEC_LAYER_TENSORS_MAX];
    int tensor_count;
    size_t parameter_count; // numbers
    size_t held_count;      // of them that are held: all, but of a compressed layer (compression.h)
    size_t expert_parameter_count; // the last of them, of experts (moe_half.h); 0: none
    size_t expert_gradient_count;  // expert_parameter_count for each further rank that sends rows
                                   // to these experts (expert_exchange.h)
    /// [held_count] device memory each, one after another: master, moment1, moment2. A frozen layer
    /// has no moments and no gradient: NULL.
    float *master, *moment1, *moment2;
    float *gradient;         // [held_count + expert_gradient_count] device memory
    void *weights;           // [held_count] values; master itself on fp32 backends
    int step;                // updates so far; travels with the layer
    bool is_frozen;          // no W, no update
    bool passes_no_gradient; // everything in front is frozen too: B makes no input gradient
    void *mechanism;         // the mechanism's own state of this layer (mechanism.h)
} exec_layer;

/// Makes a layer with zero parameters.
///
/// @param model, buffers borrowed until exec_layer_destroy
/// @return release with exec_layer_destroy
exec_layer *exec_layer_create(const exec_model *model, exec_buffers *buffers, int index);

/// Its slots must have been destroyed. NULL is allowed.
void exec_layer_destroy(exec_layer *layer);

/// Fresh parameters from the model's seed, keyed by the layer: the same on any rank. Moments and
/// gradients are 0, the step is 0.
status exec_layer_initialise(exec_layer *layer, error_message *err);

/// Freezes a layer, which gives back the memory of its moments and gradient, or lets it learn again
/// with moments and gradient 0. passes_no_gradient stays.
///
/// @return what the kernels' finish returns
status exec_layer_set_frozen(exec_layer *layer, bool is_frozen, error_message *err);

/// Where master and moments were written from elsewhere: makes the weights of them.
void exec_layer_refresh(exec_layer *layer);

/// A slot serves one microbatch after the other. F may be called again at any time: what the slot
/// held of the microbatch before is given back.
///
/// @return release with exec_slot_destroy
exec_slot *exec_slot_create(exec_layer *layer);

/// NULL is allowed.
void exec_slot_destroy(exec_layer *layer, exec_slot *slot);

/// F: flow->values becomes the layer's output in place. The head leaves losses; the values it
/// leaves are not defined.
status exec_layer_forward(exec_layer *layer, exec_slot *slot, exec_flow *flow, error_message *err);

/// B: the gradient of the output becomes that of the input in place. The head makes it of its
/// losses, whatever was there; the embedding only keeps it for W; with passes_no_gradient it is not
/// defined after the call. Gradients are of the loss that row_weight makes of the rows.
///
/// @param gradient [row_count][width] device memory
status exec_layer_backward_input(exec_layer *layer, exec_slot *slot, void *gradient,
                                 error_message *err);

/// W: adds this microbatch's gradient of the parameters. To be called in ascending microbatches;
/// not of frozen layers.
void exec_layer_backward_weight(exec_layer *layer, exec_slot *slot);

/// Sum of squares of the gradient, but for that of experts (moe_half.h), in double; 0 for a frozen
/// layer. Waits.
double exec_layer_square_norm(exec_layer *layer);

/// One step of AdamW with the model's settings, unless the layer is frozen.
///
/// @param gradient_scale the gradient counts times this
/// @param keep           [parameter_count] device memory, 0 where a parameter is pruned; NULL: all
///                       that is held stays
void exec_layer_update(exec_layer *layer, float gradient_scale, const uint8_t *keep);

// A layer's state as bytes: how it travels when it migrates. Flags, what the mechanism keeps, and
// parameters and moments in fp32, of a pruned layer those that are left. Gradients, which are
// nothing between two iterations, stay behind.

/// Bytes of the arrays: parameters and moments, from master on in device memory.
int64_t exec_layer_array_bytes(const exec_layer *layer);

/// Bytes of the packed state, with its arrays or without.
int64_t exec_layer_state_bytes(const exec_layer *layer, bool has_arrays);

/// @param bytes [exec_layer_state_bytes] out
/// @return what the kernels' check returns
status exec_layer_state_pack(const exec_layer *layer, bool has_arrays, void *bytes,
                             error_message *err);

/// Fills a layer of the same model. The bits are those of the layer that was packed.
///
/// @param arrays device memory with the arrays, which were not packed then; NULL: they were
/// @return STATUS_FORMAT if the bytes are of another layer or model: nothing has been changed then,
///         unless it was the mechanism that refused its part, or the length did not fit it
status exec_layer_state_unpack(exec_layer *layer, const void *bytes, int64_t byte_count,
                               const void *arrays, error_message *err);

/// A block whose matrices are pruned: which weights are left, and the matrices in compressed rows
/// where products with these take less time.
///
/// Master, moments, gradients and weights stay dense, zero where pruned: only what is computed
/// shrinks. Internal to the layers and to the mechanism.
#pragma once

#include "exec/model/layer.h"

/// One matrix W [input][output] of a layer.
typedef struct exec_pruned_matrix {
    size_t weight;         // its offset among the parameters
    int rows, columns;     // of W
    bool is_multiplied;    // in compressed rows: both below are there, with values
    bool has_gradient;     // in compressed rows: by_input is there
    exec_sparse by_input;  // W, for B and W
    exec_sparse by_output; // its transpose, for F
    void *memory;          // of both, device memory
    int64_t memory_bytes;
} exec_pruned_matrix;

enum { EXEC_PRUNED_MATRICES_MAX = 8 };

typedef struct exec_pruned_layer {
    exec_pruned_matrix matrix[EXEC_PRUNED_MATRICES_MAX];
    int matrix_count;
    int64_t weight_count; // of all matrices
    int64_t kept_count;   // of them
    bool is_pruned;       // yet
    uint8_t *host_keep;   // [weight_count] of the matrices, one after the other
    uint8_t *keep;        // [parameter_count] device memory; NULL: not pruned yet
} exec_pruned_layer;

/// What pruning knows of a layer: layer->mechanism of a block of a model that is pruned; else NULL.
exec_pruned_layer *exec_pruned_layer_of(const exec_layer *layer);

/// Makes layer->mechanism, with nothing pruned.
status exec_pruned_layer_create(exec_layer *layer, error_message *err);

/// Accepts a layer without.
void exec_pruned_layer_destroy(exec_layer *layer);

/// The weights of all matrices, as the masks have them.
///
/// @param weight [weight_count] out, host memory
void exec_pruned_layer_weights(const exec_layer *layer, float *weight);

/// Takes host_keep as the mask: what it leaves out becomes 0, moments too, and matrices are
/// compressed where their density allows.
///
/// @return STATUS_NO_MEMORY: the layer can then only be destroyed
status exec_pruned_layer_apply(exec_layer *layer, error_message *err);

/// As if it had never been pruned; parameters stay as they are.
void exec_pruned_layer_reset(exec_layer *layer);

/// Puts the weights, which have changed, into the compressed rows.
void exec_pruned_layer_refresh(exec_layer *layer);

/// The matrix at an offset, if it is pruned; else NULL.
const exec_pruned_matrix *exec_pruned_layer_find(const exec_layer *layer, size_t weight);

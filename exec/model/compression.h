/// Layers whose matrices are held without what is pruned: parameters, gradient and moments of what
/// is left alone, one after the other, and in each matrix's exec_tensor the rows and columns that
/// they are of. What is computed has the bits that zeros in place would give (kernels.h).
///
/// Biases and norms are held whole. Only over backends with products in compressed rows and with
/// host memory.
#pragma once

#include "exec/model/layer.h"

bool exec_tensor_is_matrix(const exec_tensor *tensor);

/// rows * columns
size_t exec_tensor_number_count(const exec_tensor *tensor);

bool exec_layer_is_compressed(const exec_layer *layer);

/// Weights of the layer's matrices.
int64_t exec_layer_weight_count(const exec_layer *layer);

/// Holds only what is kept; gradients become 0.
///
/// @param keep [exec_layer_weight_count] of the matrices, one after the other: 0 where a weight
///             goes, which is somewhere; of a compressed layer, also where it is gone
void exec_layer_compress(exec_layer *layer, const uint8_t *keep);

/// Holds all numbers again, all 0; nothing where it does.
void exec_layer_decompress(exec_layer *layer);

/// Which weights are held, as exec_layer_compress takes them.
void exec_layer_read_kept(const exec_layer *layer, uint8_t *keep);

/// All weights, in the same order, on the host; 0 where they are not held.
void exec_layer_read_weights(const exec_layer *layer, float *weights);

/// Bytes of the rows and columns of what is held.
int64_t exec_layer_index_bytes(const exec_layer *layer);

/// exec_layer_square_norm of a compressed layer.
double exec_layer_held_squares(const exec_layer *layer);

/// What is held of the matrix at an offset; NULL: all of it.
const exec_csr *exec_layer_csr(const exec_layer *layer, size_t offset);

/// NULL is allowed.
void exec_csr_destroy(exec_csr *csr);

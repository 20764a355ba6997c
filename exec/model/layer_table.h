/// What the kinds of layers fill in (embedding_layer.c, block_layer.c, prediction.c). Internal to
/// the layers.
#pragma once

#include "exec/model/layer.h"

/// sizes are those of the structs that extend exec_layer and exec_slot.
struct exec_layer_table {
    size_t layer_bytes, slot_bytes;
    /// Lists the tensors with exec_layer_add_..., and fills what the kind has beside.
    void (*describe)(exec_layer *layer);
    void (*undescribe)(exec_layer *layer); // NULL: nothing
    /// What a slot has beside regions of the buffers; both NULL: nothing.
    void (*begin_slot)(const exec_layer *layer, exec_slot *slot);
    void (*end_slot)(exec_layer *layer, exec_slot *slot);
    /// Gives back everything that the slot holds.
    void (*let_go)(exec_layer *layer, exec_slot *slot);
    status (*forward)(exec_layer *layer, exec_slot *slot, exec_flow *flow, error_message *err);
    status (*backward_input)(exec_layer *layer, exec_slot *slot, void *gradient,
                             error_message *err);
    void (*backward_weight)(exec_layer *layer, exec_slot *slot);
};

extern const exec_layer_table exec_embedding_layer;
extern const exec_layer_table exec_block_layer;
extern const exec_layer_table exec_head_layer;

/// Appends a tensor that decays, of uniform numbers with this deviation, or one that does not and
/// begins with one value. At most EXEC_LAYER_TENSORS_MAX.
///
/// @param name static storage
/// @return its offset
size_t exec_layer_add_matrix(exec_layer *layer, const char *name, int rows, int columns,
                             float deviation);
size_t exec_layer_add_vector(exec_layer *layer, const char *name, int columns, float value);

/// Memory of master and, of a layer that learns, of moments and gradient, all 0; the gradient
/// apart, since only the others travel.
///
/// @param held_count numbers of each
/// @param gradient   out: NULL of a frozen layer
void exec_layer_allocate_state(const exec_layer *layer, size_t held_count, bool is_frozen,
                               float **master, float **gradient);

/// Takes such memory in place of what the layer has, which is released.
void exec_layer_take_state(exec_layer *layer, size_t held_count, bool is_frozen, float *master,
                           float *gradient);

/// The weights of a tensor, to compute with, and its gradient.
const void *exec_layer_weights(const exec_layer *layer, size_t offset);
float *exec_layer_gradient(const exec_layer *layer, size_t offset);

/// Bytes of rows of values.
size_t exec_layer_bytes(const exec_layer *layer, int rows, int width);

/// Takes a region with bytes of the host.
void *exec_layer_upload(const exec_layer *layer, const void *host, size_t bytes);

/// Takes memory for rows of values, and for numbers of four bytes.
void *exec_layer_take(const exec_layer *layer, exec_holding *holding, int rows, int width);
void *exec_layer_take_numbers(const exec_layer *layer, exec_holding *holding, size_t count);

/// What follows a block that tokens may leave (early exit): which of them leave, by which measure
/// of confidence, and what that learns (../mechanism has the table). Internal to the layers.
#pragma once

#include "exec/model/prediction.h"

/// Where an exit's parameters are among the block's.
typedef struct exec_exit {
    exec_prediction prediction; // softmax, probability
    size_t vector;              // classifier: offset of [width], and of [1], the bias, after it
} exec_exit;

/// What one microbatch leaves.
typedef struct exec_exit_slot {
    exec_prediction_slot prediction; // softmax, probability
    exec_holding until_weight;       // classifier
    float *classifier_gradient;      // [width + 1] device memory, F to W: of vector and bias
} exec_exit_slot;

/// Rows that the block has computed.
typedef struct exec_exit_rows {
    const int *row; // [count] device memory, ascending: their places in the microbatch
    int count;
    const void *before, *after; // [count][width] their states before the block and after it
} exec_exit_rows;

/// Whether tokens may leave after the layer: a block from first_exit on, but the last.
bool exec_exit_follows(const exec_layer *layer);

/// Appends the parameters of the model's measure to the layer.
exec_exit exec_exit_add(exec_layer *layer);

/// Gives back the regions that the slot holds.
void exec_exit_let_go(const exec_layer *layer, exec_exit_slot *slot);

/// Marks the rows that leave.
///
/// @param flow has_left is changed
void exec_exit_forward(const exec_layer *layer, const exec_exit *leaving,
                       const exec_exit_rows *rows, exec_exit_slot *slot, const exec_flow *flow);

/// Adds what comes back from the exit to the gradient [count][width] of the states after the block.
void exec_exit_backward_input(const exec_layer *layer, const exec_exit *leaving,
                              exec_exit_slot *slot, void *gradient);

void exec_exit_backward_weight(const exec_layer *layer, const exec_exit *leaving,
                               exec_exit_slot *slot);

/// A matrix and a bias of a layer: y = x W + b, its gradients, apart. Internal to the layers.
#pragma once

#include "exec/model/layer.h"

typedef struct exec_linear {
    int input_width, output_width;
    size_t weight; // offset of W [input_width][output_width] in the layer's parameters
    bool has_bias;
    size_t bias; // offset of b [output_width]
} exec_linear;

/// Appends both tensors to the layer.
/// @param names of the matrix and the bias, static storage; the second NULL: it has no bias
exec_linear exec_linear_add(exec_layer *layer, int input_width, int output_width,
                            float initial_deviation, const char *const names[2]);

/// output [rows][output_width] = input W + b
void exec_linear_forward(const exec_layer *layer, const exec_linear *linear, const void *input,
                         int rows, void *output);

/// output += input W + b: onto a residual path.
void exec_linear_forward_add(const exec_layer *layer, const exec_linear *linear, const void *input,
                             int rows, void *output);

/// input_gradient [rows][input_width] = output_gradient W^T
void exec_linear_backward_input(const exec_layer *layer, const exec_linear *linear,
                                const void *output_gradient, int rows, void *input_gradient);

/// Adds input^T output_gradient and the column sums of output_gradient to the layer's gradient.
void exec_linear_backward_weight(const exec_layer *layer, const exec_linear *linear,
                                 const void *input, const void *output_gradient, int rows);

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
/// @param name, bias_name static storage; bias_name NULL: it has no bias
exec_linear exec_linear_add(exec_layer *layer, int input_width, int output_width,
                            float initial_deviation, const char *name, const char *bias_name);

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

// A linear of which every group of rows has its own: matrices after matrices, biases after biases,
// of which the linear says the first.

void exec_linears_forward(const exec_layer *layer, const exec_linear *first,
                          const exec_groups *groups, const void *input, void *output);
void exec_linears_backward_input(const exec_layer *layer, const exec_linear *first,
                                 const exec_groups *groups, const void *output_gradient,
                                 void *input_gradient);
void exec_linears_backward_weight(const exec_layer *layer, const exec_linear *first,
                                  const exec_groups *groups, const void *input,
                                  const void *output_gradient);

/// score [rows] device memory = the products of rows of values with a vector [width] of the layer's
/// parameters.
void exec_vector_forward(const exec_layer *layer, size_t vector, const void *values, int rows,
                         float *score);

/// sum [width] += the rows of values, each times its score's gradient: the gradient of the vector.
///
/// @param score_gradient [rows] device memory, as sum
void exec_vector_backward_weight(const exec_layer *layer, const void *values,
                                 const float *score_gradient, int rows, float *sum);

/// A LayerNorm of a layer, in front of what it feeds. Internal to the layers.
///
/// The gradient of weight and bias needs the gradient of the norm's output, which nothing else
/// keeps until W. So B sums it over the rows into two vectors of the microbatch, and W adds those.

typedef struct exec_norm {
    int width;
    bool is_rms;         // has no bias, and means are 0: NULL in slots
    size_t weight, bias; // offsets in the layer's parameters
} exec_norm;

/// What one microbatch leaves.
typedef struct exec_norm_slot {
    int row_count;
    void *input;               // [row_count][width] F to B
    float *mean, *rstd;        // [row_count] F to B
    void *output;              // [row_count][width] F to W
    float *parameter_gradient; // [2 * width] B to W: weight, bias
} exec_norm_slot;

/// @param name, bias_name of weight and bias, static storage
exec_norm exec_norm_add(exec_layer *layer, const char *name, const char *bias_name);

/// Copies the rows of values and normalises them into slot->output.
void exec_norm_forward(const exec_layer *layer, const exec_norm *norm, const void *values, int rows,
                       exec_norm_slot *slot, exec_holding *until_input, exec_holding *until_weight);

/// gradient [row_count][width] += what comes back through the norm; NULL: nobody needs it. Sums the
/// gradient of weight and bias for W, unless the layer is frozen.
void exec_norm_backward_input(const exec_layer *layer, const exec_norm *norm,
                              const void *output_gradient, exec_norm_slot *slot,
                              exec_holding *until_weight, void *gradient);

void exec_norm_backward_weight(const exec_layer *layer, const exec_norm *norm,
                               const exec_norm_slot *slot);

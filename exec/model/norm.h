/// A LayerNorm of a layer, in front of what it feeds. Internal to the layers.
///
/// The gradient of gain and shift needs the gradient of the norm's output, which nothing else keeps
/// until W. So B sums it over the rows into two vectors of the microbatch, and W adds those.
#pragma once

#include "exec/model/layer.h"

typedef struct exec_norm {
    int width;
    size_t gain, shift; // offsets in the layer's parameters
} exec_norm;

/// What one microbatch leaves.
typedef struct exec_norm_slot {
    int row_count;
    void *input;                     // [row_count][width] F to B
    float *mean, *inverse_deviation; // [row_count] F to B
    void *output;                    // [row_count][width] F to W
    float *parameter_gradient;       // [2 * width] B to W: gain, shift
} exec_norm_slot;

/// @param names of gain and shift, static storage
exec_norm exec_norm_add(exec_layer *layer, const char *const names[2]);

/// Copies the rows of values and normalises them into slot->output.
status exec_norm_forward(const exec_layer *layer, const exec_norm *norm, const void *values,
                         int rows, exec_norm_slot *slot, exec_holding *until_input,
                         exec_holding *until_weight, error_message *err);

/// gradient [row_count][width] += what comes back through the norm; NULL: nobody needs it. Sums the
/// gradient of gain and shift for W, unless the layer is frozen.
status exec_norm_backward_input(const exec_layer *layer, const exec_norm *norm,
                                const void *output_gradient, exec_norm_slot *slot,
                                exec_holding *until_weight, void *gradient, error_message *err);

void exec_norm_backward_weight(const exec_layer *layer, const exec_norm *norm,
                               const exec_norm_slot *slot);

/// A norm, the product with the vocabulary and the loss of the token that follows: the model's
/// head, or that of an exit (exits.h). Internal to the layers.
#pragma once

#include "exec/model/linear.h"

typedef struct exec_prediction {
    exec_norm norm;
    exec_linear logits;
} exec_prediction;

/// What one microbatch leaves.
typedef struct exec_prediction_slot {
    exec_holding until_input, until_weight;
    exec_norm_slot norm;
    void *logits_gradient; // [row_count][vocabulary] F to W
} exec_prediction_slot;

/// Appends the tensors to the layer.
/// @param weight_name, bias_name of the norm, static storage
exec_prediction exec_prediction_add(exec_layer *layer, const char *weight_name,
                                    const char *bias_name, const char *matrix_name);

/// @param target, loss, confidence device memory, as cross_entropy takes them
/// @param scale the gradients are of the sum of losses times this
void exec_prediction_forward(const exec_layer *layer, const exec_prediction *prediction,
                             const void *values, const int *target, int rows, float scale,
                             float *loss, float *confidence, exec_prediction_slot *slot);

/// @param gradient [rows][width] +=; NULL: nobody needs it
void exec_prediction_backward_input(const exec_layer *layer, const exec_prediction *prediction,
                                    exec_prediction_slot *slot, void *gradient);

void exec_prediction_backward_weight(const exec_layer *layer, const exec_prediction *prediction,
                                     exec_prediction_slot *slot);

/// Gives back the regions that the slot holds.
void exec_prediction_let_go(const exec_layer *layer, exec_prediction_slot *slot);

/// The model of exec/model/model.h a second time, as plainly as its formulas: one rank, double
/// precision, whole microbatches, forward only: gradients are differences of its loss. Dense models
/// only.
///
/// Nothing of exec's computation is used; parameters lie as an exec_layer lists its tensors, so
/// that both can be started alike and compared.
#pragma once

#include "exec/model/layer.h"

typedef struct reference_layer {
    exec_tensor tensors[EXEC_LAYER_TENSORS_MAX];
    int tensor_count;
    size_t parameter_count;
    double *parameters; // [parameter_count]
} reference_layer;

typedef struct reference_transformer {
    exec_model model;
    int layer_count;
    reference_layer *layers; // [layer_count]
} reference_transformer;

/// With the parameters that the layers hold now, in host memory.
///
/// @param layers [exec_model_layer_count(model)]
reference_transformer *reference_create(const exec_model *model, exec_layer *const *layers);
void reference_destroy(reference_transformer *reference);

/// Mean loss over the rows of a microbatch.
///
/// @param first_layer 0, or 1: then hidden is the embedding's output
/// @param hidden      [rows][width] with first_layer 1
double reference_loss(reference_transformer *reference, int first_layer, const int *token,
                      const int *target, const double *hidden);

#include "exec/model/prediction.h"

#include "exec/model/layer_table.h"

#include <math.h>

exec_prediction exec_prediction_add(exec_layer *layer, const char *weight_name,
                                    const char *bias_name, const char *matrix_name)
{
    const exec_model *model = layer->model;
    exec_prediction prediction = {.norm = exec_norm_add(layer, weight_name, bias_name)};
    prediction.logits = exec_linear_add(layer, model->width, model->vocabulary,
                                        0.5F / sqrtf((float)model->width), matrix_name, NULL);
    return prediction;
}

void exec_prediction_forward(const exec_layer *layer, const exec_prediction *prediction,
                             const void *values, const int *target, int rows, float scale,
                             float *loss, float *confidence, exec_prediction_slot *slot)
{
    const int classes = layer->model->vocabulary;
    exec_norm_forward(layer, &prediction->norm, values, rows, &slot->norm, &slot->until_input,
                      &slot->until_weight);
    void *logits = exec_layer_take(layer, &slot->until_weight, rows, classes);
    slot->logits_gradient = logits;
    exec_linear_forward(layer, &prediction->logits, slot->norm.output, rows, logits);
    layer->kernels->table->cross_entropy(layer->kernels, logits, target, rows, classes, scale, loss,
                                         confidence, logits);
}

void exec_prediction_backward_input(const exec_layer *layer, const exec_prediction *prediction,
                                    exec_prediction_slot *slot, void *gradient)
{
    const int rows = slot->norm.row_count;
    void *norm_gradient = exec_layer_take(layer, &slot->until_input, rows, layer->model->width);
    exec_linear_backward_input(layer, &prediction->logits, slot->logits_gradient, rows,
                               norm_gradient);
    exec_norm_backward_input(layer, &prediction->norm, norm_gradient, &slot->norm,
                             &slot->until_weight, gradient);
    exec_holding_give(&slot->until_input, layer->buffers);
}

void exec_prediction_backward_weight(const exec_layer *layer, const exec_prediction *prediction,
                                     exec_prediction_slot *slot)
{
    exec_linear_backward_weight(layer, &prediction->logits, slot->norm.output,
                                slot->logits_gradient, slot->norm.row_count);
    exec_norm_backward_weight(layer, &prediction->norm, &slot->norm);
    exec_holding_give(&slot->until_weight, layer->buffers);
}

void exec_prediction_let_go(const exec_layer *layer, exec_prediction_slot *slot)
{
    exec_holding_give(&slot->until_input, layer->buffers);
    exec_holding_give(&slot->until_weight, layer->buffers);
}

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

// The last layer: the prediction of every token that follows, and the loss.

typedef struct head {
    exec_layer layer; // first member
    exec_prediction prediction;
} head;

typedef struct head_slot {
    exec_slot slot; // first member
    exec_prediction_slot prediction;
} head_slot;

static void describe(exec_layer *layer)
{
    ((head *)layer)->prediction = exec_prediction_add(layer, "norm weight", "norm bias", "logits");
}

static void let_go(exec_layer *layer, exec_slot *slot)
{
    exec_prediction_let_go(layer, &((head_slot *)slot)->prediction);
}

static status forward(exec_layer *layer, exec_slot *slot, exec_flow *flow, error_message *err)
{
    (void)err;
    const float weight = flow->row_weight > 0 ? flow->row_weight : 1.0F / (float)flow->row_count;
    exec_prediction_forward(layer, &((const head *)layer)->prediction, flow->values, flow->target,
                            flow->row_count, weight, flow->loss, NULL,
                            &((head_slot *)slot)->prediction);
    return STATUS_OK;
}

static status backward_input(exec_layer *layer, exec_slot *slot, void *gradient, error_message *err)
{
    (void)err;
    exec_prediction_slot *kept = &((head_slot *)slot)->prediction;
    layer->kernels->table->clear(
        layer->kernels, gradient,
        exec_layer_bytes(layer, kept->norm.row_count, layer->model->width));
    exec_prediction_backward_input(layer, &((const head *)layer)->prediction, kept,
                                   layer->passes_no_gradient ? NULL : gradient);
    if (layer->is_frozen) exec_prediction_let_go(layer, kept);
    return STATUS_OK;
}

static void backward_weight(exec_layer *layer, exec_slot *slot)
{
    exec_prediction_backward_weight(layer, &((const head *)layer)->prediction,
                                    &((head_slot *)slot)->prediction);
}

const exec_layer_table exec_head_layer = {
    .layer_bytes = sizeof(head),
    .slot_bytes = sizeof(head_slot),
    .describe = describe,
    .let_go = let_go,
    .forward = forward,
    .backward_input = backward_input,
    .backward_weight = backward_weight,
};

/// The last layer: the prediction of every token that follows, and the loss.
#include "exec/model/layer_table.h"
#include "exec/model/prediction.h"

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

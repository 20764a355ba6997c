/// The last norm, the product with the vocabulary, and the loss.
#include "exec/model/layer_table.h"
#include "exec/model/linear.h"

#include <math.h>

typedef struct head {
    exec_layer layer; // first member
    exec_norm norm;
    exec_linear logits;
} head;

typedef struct head_slot {
    exec_slot slot; // first member
    exec_holding until_input, until_weight;
    exec_norm_slot norm;
    void *logits_gradient; // [row_count][vocabulary] F to W
} head_slot;

static status describe(exec_layer *layer, error_message *err)
{
    (void)err;
    head *self = (head *)layer;
    const exec_model *model = layer->model;
    self->norm = exec_norm_add(layer, (const char *const[]){"norm weight", "norm bias"});
    self->logits =
        exec_linear_add(layer, model->width, model->vocabulary, 0.5F / sqrtf((float)model->width),
                        (const char *const[]){"logits", NULL});
    return STATUS_OK;
}

static void let_go(exec_layer *layer, exec_slot *slot)
{
    head_slot *kept = (head_slot *)slot;
    exec_holding_give(&kept->until_input, layer->buffers);
    exec_holding_give(&kept->until_weight, layer->buffers);
}

static status forward(exec_layer *layer, exec_slot *slot, exec_flow *flow, error_message *err)
{
    const head *self = (const head *)layer;
    head_slot *kept = (head_slot *)slot;
    exec_kernels *kernels = layer->kernels;
    const int rows = flow->row_count;
    const int classes = layer->model->vocabulary;
    const float weight = flow->row_weight > 0 ? flow->row_weight : 1.0F / (float)rows;
    TRY(exec_norm_forward(layer, &self->norm, flow->values, rows, &kept->norm, &kept->until_input,
                          &kept->until_weight, err));
    TRY(exec_holding_take(&kept->until_weight, layer->buffers,
                          exec_layer_bytes(layer, rows, classes), &kept->logits_gradient, err));
    exec_linear_forward(layer, &self->logits, kept->norm.output, rows, kept->logits_gradient);
    kernels->table->cross_entropy(kernels, kept->logits_gradient, flow->target, rows, classes,
                                  weight, flow->loss, kept->logits_gradient);
    return STATUS_OK;
}

static status backward_input(exec_layer *layer, exec_slot *slot, void *gradient, error_message *err)
{
    const head *self = (const head *)layer;
    head_slot *kept = (head_slot *)slot;
    exec_kernels *kernels = layer->kernels;
    const int rows = kept->norm.row_count;
    const size_t bytes = exec_layer_bytes(layer, rows, layer->model->width);
    void *norm_gradient;
    TRY(exec_buffers_take(layer->buffers, bytes, &norm_gradient, err));
    exec_linear_backward_input(layer, &self->logits, kept->logits_gradient, rows, norm_gradient);
    kernels->table->clear(kernels, gradient, bytes);
    const status result = exec_norm_backward_input(
        layer, &self->norm, norm_gradient, &kept->norm, &kept->until_weight,
        layer->passes_no_gradient ? NULL : gradient, err);
    exec_buffers_give(layer->buffers, norm_gradient);
    exec_holding_give(&kept->until_input, layer->buffers);
    if (layer->is_frozen) exec_holding_give(&kept->until_weight, layer->buffers);
    return result;
}

static status backward_weight(exec_layer *layer, exec_slot *slot, error_message *err)
{
    (void)err;
    const head *self = (const head *)layer;
    head_slot *kept = (head_slot *)slot;
    exec_linear_backward_weight(layer, &self->logits, kept->norm.output, kept->logits_gradient,
                                kept->norm.row_count);
    exec_norm_backward_weight(layer, &self->norm, &kept->norm);
    exec_holding_give(&kept->until_weight, layer->buffers);
    return STATUS_OK;
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

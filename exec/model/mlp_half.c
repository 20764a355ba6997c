#include "exec/model/block_layer.h"

status exec_mlp_half_forward(exec_block *block, exec_half_slot *half, int row_count, void *values,
                             error_message *err)
{
    const exec_layer *layer = &block->layer;
    exec_kernels *kernels = layer->kernels;
    const int hidden = exec_model_hidden_width(layer->model);
    const size_t bytes = exec_layer_bytes(layer, row_count, hidden);
    exec_holding passing = {0}; // what W needs is not kept of a frozen layer
    exec_holding *for_weight = layer->is_frozen ? &passing : &half->until_weight;
    TRY(exec_norm_forward(layer, &block->norm2, values, row_count, &half->norm, &half->until_input,
                          for_weight, err));
    TRY(exec_holding_take(&half->until_input, layer->buffers, bytes, &half->inner, err));
    TRY(exec_holding_take(for_weight, layer->buffers, bytes, &half->outer, err));
    exec_linear_forward(layer, &block->up, half->norm.output, row_count, half->inner);
    kernels->table->gelu(kernels, half->inner, half->outer, (size_t)row_count * (size_t)hidden);
    exec_linear_forward_add(layer, &block->down, half->outer, row_count, values);
    exec_holding_give(&passing, layer->buffers);
    return STATUS_OK;
}

status exec_mlp_half_backward_input(exec_block *block, exec_half_slot *half, void *gradient,
                                    error_message *err)
{
    const exec_layer *layer = &block->layer;
    exec_kernels *kernels = layer->kernels;
    const int rows = half->norm.row_count;
    const int hidden = exec_model_hidden_width(layer->model);
    exec_holding scratch = {0};
    void *norm_gradient;
    TRY(exec_half_keep_gradient(block, half, rows, gradient, err));
    TRY(exec_holding_take(&scratch, layer->buffers,
                          exec_layer_bytes(layer, rows, layer->model->width), &norm_gradient, err));
    TRY(exec_holding_take(layer->is_frozen ? &scratch : &half->until_weight, layer->buffers,
                          exec_layer_bytes(layer, rows, hidden), &half->inner_gradient, err));
    exec_linear_backward_input(layer, &block->down, half->output_gradient, rows,
                               half->inner_gradient);
    kernels->table->gelu_input(kernels, half->inner, half->inner_gradient,
                               (size_t)rows * (size_t)hidden);
    exec_linear_backward_input(layer, &block->up, half->inner_gradient, rows, norm_gradient);
    TRY(exec_norm_backward_input(layer, &block->norm2, norm_gradient, &half->norm,
                                 &half->until_weight, gradient, err));
    exec_holding_give(&scratch, layer->buffers);
    exec_holding_give(&half->until_input, layer->buffers);
    return STATUS_OK;
}

void exec_mlp_half_backward_weight(exec_block *block, exec_half_slot *half)
{
    const exec_layer *layer = &block->layer;
    const int rows = half->norm.row_count;
    exec_linear_backward_weight(layer, &block->up, half->norm.output, half->inner_gradient, rows);
    exec_linear_backward_weight(layer, &block->down, half->outer, half->output_gradient, rows);
    exec_norm_backward_weight(layer, &block->norm2, &half->norm);
    exec_holding_give(&half->until_weight, layer->buffers);
}

#include "exec/model/block_layer.h"

#include "exec/mechanism/hashed_attention.h"

/// The shape of attention with the key blocks that F has chosen.
static exec_attention shape_of(const exec_block_rows *rows)
{
    exec_attention shape = rows->attention;
    if (rows->lists == NULL) return shape;
    shape.first_entry = rows->lists->first_entry;
    shape.key_block = rows->lists->key_block;
    return shape;
}

status exec_attention_half_forward(exec_block *block, exec_half_slot *half,
                                   const exec_block_rows *rows, void *values, error_message *err)
{
    const exec_layer *layer = &block->layer;
    exec_kernels *kernels = layer->kernels;
    const int count = rows->row_count;
    const int width = layer->model->width;
    exec_holding passing = {0}; // what W needs is not kept of a frozen layer
    exec_holding *for_weight = layer->is_frozen ? &passing : &half->until_weight;
    TRY(exec_norm_forward(layer, &block->norm1, values, count, &half->norm, &half->until_input,
                          for_weight, err));
    TRY(exec_holding_take(&half->until_input, layer->buffers,
                          exec_layer_bytes(layer, count, 3 * width), &half->inner, err));
    void *log_sum;
    TRY(exec_holding_take(&half->until_input, layer->buffers,
                          (size_t)count * (size_t)layer->model->head_count * sizeof(float),
                          &log_sum, err));
    half->log_sum = log_sum;
    TRY(exec_holding_take(layer->is_frozen ? &half->until_input : &half->until_weight,
                          layer->buffers, exec_layer_bytes(layer, count, width), &half->outer,
                          err));
    exec_linear_forward(layer, &block->query_key_value, half->norm.output, count, half->inner);
    if (rows->lists != NULL) {
        TRY(exec_block_lists_choose(layer, &rows->attention, half->inner, count, rows->lists, err));
    }
    const exec_attention shape = shape_of(rows);
    kernels->table->attention(kernels, &shape, half->inner, half->outer, half->log_sum);
    exec_linear_forward_add(layer, &block->attention_output, half->outer, count, values);
    exec_holding_give(&passing, layer->buffers);
    return STATUS_OK;
}

status exec_attention_half_backward_input(exec_block *block, exec_half_slot *half,
                                          const exec_block_rows *rows, void *gradient,
                                          error_message *err)
{
    const exec_layer *layer = &block->layer;
    exec_kernels *kernels = layer->kernels;
    const int count = rows->row_count;
    const int width = layer->model->width;
    exec_holding scratch = {0};
    void *behind; // gradient of attention's output, then of the norm's
    TRY(exec_half_keep_gradient(block, half, count, gradient, err));
    TRY(exec_holding_take(&scratch, layer->buffers, exec_layer_bytes(layer, count, width), &behind,
                          err));
    TRY(exec_holding_take(layer->is_frozen ? &scratch : &half->until_weight, layer->buffers,
                          exec_layer_bytes(layer, count, 3 * width), &half->inner_gradient, err));
    exec_linear_backward_input(layer, &block->attention_output, half->output_gradient, count,
                               behind);
    const exec_attention shape = shape_of(rows);
    kernels->table->attention_input(kernels, &shape, half->inner, half->outer, half->log_sum,
                                    behind, half->inner_gradient);
    exec_linear_backward_input(layer, &block->query_key_value, half->inner_gradient, count, behind);
    TRY(exec_norm_backward_input(layer, &block->norm1, behind, &half->norm, &half->until_weight,
                                 layer->passes_no_gradient ? NULL : gradient, err));
    exec_holding_give(&scratch, layer->buffers);
    exec_holding_give(&half->until_input, layer->buffers);
    return STATUS_OK;
}

void exec_attention_half_backward_weight(exec_block *block, exec_half_slot *half)
{
    const exec_layer *layer = &block->layer;
    const int count = half->norm.row_count;
    exec_linear_backward_weight(layer, &block->query_key_value, half->norm.output,
                                half->inner_gradient, count);
    exec_linear_backward_weight(layer, &block->attention_output, half->outer, half->output_gradient,
                                count);
    exec_norm_backward_weight(layer, &block->norm1, &half->norm);
    exec_holding_give(&half->until_weight, layer->buffers);
}

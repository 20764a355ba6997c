/// Mixture of depths: a block of which only the rows that its router picks make use.
#include "exec/mechanism/rows_slot.h"

/// Scores of all rows, their products with the router's vector; waits for them.
static status score_rows(exec_block *block, const void *values, int row_count, exec_rows_slot *rows,
                         error_message *err)
{
    exec_layer *layer = &block->layer;
    exec_kernels *kernels = layer->kernels;
    const size_t bytes = (size_t)row_count * sizeof(float);
    exec_holding scratch = {0};
    void *score = NULL;
    void *zero = NULL;
    status code = exec_holding_take(&scratch, layer->buffers, bytes, &score, err);
    if (code == STATUS_OK) {
        code = exec_holding_take(&scratch, layer->buffers, (size_t)row_count * sizeof(int), &zero,
                                 err);
    }
    if (code == STATUS_OK) {
        kernels->table->clear(kernels, zero, (size_t)row_count * sizeof(int));
        kernels->table->row_dots(kernels, values, NULL,
                                 exec_layer_weights(layer, block->row_router), zero, row_count,
                                 layer->model->width, score);
        kernels->table->to_host(kernels, rows->score, score, bytes);
    }
    exec_holding_give(&scratch, layer->buffers);
    return code;
}

/// to [chosen_count][width] += weight * from, row by row.
static void add_rows(exec_layer *layer, const exec_rows_slot *rows, const void *from,
                     const float *weight, void *to)
{
    layer->kernels->table->combine_rows(layer->kernels, from, rows->device_number,
                                        rows->device_number, weight, rows->chosen_count,
                                        layer->model->width, to);
}

/// all [row_count][width] += weight * chosen, at the places of the chosen rows.
static void add_chosen(exec_layer *layer, const exec_rows_slot *rows, const void *chosen,
                       const float *weight, void *all)
{
    layer->kernels->table->combine_rows(
        layer->kernels, chosen, rows->device_first_chosen, rows->device_number, weight,
        exec_model_row_count(layer->model), layer->model->width, all);
}

/// Uploads the gates, and a scratch of as many times -1.
static status upload_gates(exec_layer *layer, exec_rows_slot *rows, void **minus,
                           error_message *err)
{
    const size_t bytes = (size_t)rows->chosen_count * sizeof(float);
    for (int chosen = 0; chosen < rows->chosen_count; chosen++) {
        rows->gate[chosen] = exec_gate(rows->score[rows->choice.row[chosen]]);
        rows->minus[chosen] = -1;
    }
    TRY(exec_holding_upload(&rows->until_weight, layer->buffers, rows->gate, bytes,
                            &rows->device_gate, err));
    return exec_holding_upload(&rows->until_input, layer->buffers, rows->minus, bytes, minus, err);
}

status exec_block_mod_forward(exec_block *block, exec_block_slot *slot, exec_flow *flow,
                              error_message *err)
{
    exec_layer *layer = &block->layer;
    exec_kernels *kernels = layer->kernels;
    exec_rows_slot *rows = slot->chosen_rows;
    const exec_mod_options *options = &layer->model->mod;
    const int width = layer->model->width;
    void *minus = NULL;
    TRY(score_rows(block, flow->values, flow->row_count, rows, err));
    exec_choose_top_rows(&rows->choice, rows->score,
                         exec_mod_row_count(options, layer->model->sequence_length));
    TRY(exec_rows_slot_upload(layer, slot, err));
    TRY(upload_gates(layer, rows, &minus, err));
    const size_t bytes = exec_layer_bytes(layer, rows->chosen_count, width);
    TRY(exec_holding_take(&rows->until_weight, layer->buffers, bytes, &rows->input, err));
    TRY(exec_holding_take(&rows->until_input, layer->buffers, bytes, &rows->change, err));
    kernels->table->gather_rows(kernels, flow->values, rows->device_row, rows->chosen_count, width,
                                rows->input);
    kernels->table->copy(kernels, rows->change, rows->input, bytes);
    TRY(exec_block_halves_forward(block, slot, rows->change, err));
    add_rows(layer, rows, rows->input, minus, rows->change);
    add_chosen(layer, rows, rows->change, rows->device_gate, flow->values);
    return STATUS_OK;
}

/// Gradients of the scores, from those of the gates, which multiply what the block changed.
static status backward_gates(exec_layer *layer, exec_rows_slot *rows, const void *output_gradient,
                             error_message *err)
{
    exec_kernels *kernels = layer->kernels;
    const size_t bytes = (size_t)rows->chosen_count * sizeof(float);
    void *score_gradient = NULL;
    TRY(exec_holding_take(&rows->until_weight, layer->buffers, bytes, &score_gradient, err));
    kernels->table->row_dots(kernels, output_gradient, NULL, rows->change, NULL, rows->chosen_count,
                             layer->model->width, score_gradient);
    kernels->table->to_host(kernels, rows->score, score_gradient, bytes);
    for (int chosen = 0; chosen < rows->chosen_count; chosen++) {
        rows->score[chosen] = exec_gate_gradient(rows->gate[chosen], rows->score[chosen]);
        rows->minus[chosen] = -rows->gate[chosen];
    }
    kernels->table->to_device(kernels, score_gradient, rows->score, bytes);
    rows->device_score_gradient = score_gradient;
    return STATUS_OK;
}

/// With y = x + gate(router . x) * (block(x) - x) of chosen rows, the gradient of x beyond that of
/// the residual path: through the block, less gate times that of y, and through the router.
status exec_block_mod_backward_input(exec_block *block, exec_block_slot *slot, void *gradient,
                                     error_message *err)
{
    exec_layer *layer = &block->layer;
    exec_kernels *kernels = layer->kernels;
    exec_rows_slot *rows = slot->chosen_rows;
    exec_holding *holding = &rows->until_input;
    const int width = layer->model->width;
    const size_t numbers = (size_t)rows->chosen_count * sizeof(float);
    const size_t bytes = exec_layer_bytes(layer, rows->chosen_count, width);
    void *output_gradient = NULL;
    void *input_gradient = NULL;
    void *minus = NULL;
    void *zero = NULL;
    TRY(exec_holding_take(holding, layer->buffers, bytes, &output_gradient, err));
    TRY(exec_holding_take(holding, layer->buffers, bytes, &input_gradient, err));
    kernels->table->gather_rows(kernels, gradient, rows->device_row, rows->chosen_count, width,
                                output_gradient);
    TRY(backward_gates(layer, rows, output_gradient, err));
    kernels->table->scale_rows(kernels, output_gradient, rows->device_gate, rows->chosen_count,
                               width, input_gradient);
    TRY(exec_block_halves_backward_input(block, slot, input_gradient, err));
    TRY(exec_holding_upload(holding, layer->buffers, rows->minus, numbers, &minus, err));
    TRY(exec_holding_take(holding, layer->buffers, numbers, &zero, err));
    kernels->table->clear(kernels, zero, numbers);
    add_rows(layer, rows, output_gradient, minus, input_gradient);
    kernels->table->combine_rows(kernels, exec_layer_weights(layer, block->row_router),
                                 rows->device_number, zero, rows->device_score_gradient,
                                 rows->chosen_count, width, input_gradient);
    add_chosen(layer, rows, input_gradient, NULL, gradient);
    exec_holding_give(holding, layer->buffers);
    return STATUS_OK;
}

status exec_block_mod_backward_weight(exec_block *block, exec_block_slot *slot, error_message *err)
{
    exec_layer *layer = &block->layer;
    exec_kernels *kernels = layer->kernels;
    exec_rows_slot *rows = slot->chosen_rows;
    const int width = layer->model->width;
    void *scaled = NULL;
    exec_block_halves_backward_weight(block, slot);
    TRY(exec_buffers_take(layer->buffers, exec_layer_bytes(layer, rows->chosen_count, width),
                          &scaled, err));
    kernels->table->scale_rows(kernels, rows->input, rows->device_score_gradient,
                               rows->chosen_count, width, scaled);
    kernels->table->column_sums(kernels, scaled, rows->chosen_count, width,
                                exec_layer_gradient(layer, block->row_router));
    exec_buffers_give(layer->buffers, scaled);
    exec_holding_give(&rows->until_weight, layer->buffers);
    return STATUS_OK;
}

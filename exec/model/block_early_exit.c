/// Early exit: a block behind which tokens leave whose state it hardly turned.
#include "exec/mechanism/rows_slot.h"

/// Marks the rows that leave: saturation of the hidden state, the cosine of what went into the
/// block and what came out of it. Waits for the device.
static status let_rows_leave(exec_layer *layer, exec_rows_slot *rows, const void *before,
                             const void *after, exec_flow *flow, error_message *err)
{
    exec_kernels *kernels = layer->kernels;
    const exec_kernel_table *table = kernels->table;
    const int count = rows->chosen_count;
    const int width = layer->model->width;
    const double threshold = exec_exit_threshold(&layer->model->early_exit, flow->iteration);
    void *taken = NULL;
    TRY(exec_buffers_take(layer->buffers, 3 * (size_t)count * sizeof(float), &taken, err));
    float *dots = taken;
    table->row_dots(kernels, before, NULL, after, NULL, count, width, dots);
    table->row_dots(kernels, before, NULL, before, NULL, count, width, dots + count);
    table->row_dots(kernels, after, NULL, after, NULL, count, width, dots + 2 * count);
    table->to_host(kernels, rows->score, dots, 3 * (size_t)count * sizeof(float));
    exec_buffers_give(layer->buffers, taken);
    for (int chosen = 0; chosen < count; chosen++) {
        const bool leaves = exec_is_saturated(rows->score[chosen], rows->score[count + chosen],
                                              rows->score[2 * count + chosen], threshold);
        if (leaves) flow->is_live[rows->choice.row[chosen]] = 0;
    }
    return STATUS_OK;
}

status exec_block_early_exit_forward(exec_block *block, exec_block_slot *slot, exec_flow *flow,
                                     error_message *err)
{
    exec_layer *layer = &block->layer;
    exec_kernels *kernels = layer->kernels;
    exec_rows_slot *rows = slot->chosen_rows;
    const int width = layer->model->width;
    const bool is_last = layer->index == layer->model->block_count;
    void *before = NULL;
    void *after = NULL;
    exec_choose_live_rows(&rows->choice, flow->is_live);
    TRY(exec_rows_slot_upload(layer, slot, err));
    if (rows->chosen_count == 0) return STATUS_OK;
    const size_t bytes = exec_layer_bytes(layer, rows->chosen_count, width);
    TRY(exec_holding_take(&rows->until_input, layer->buffers, bytes, &before, err));
    TRY(exec_holding_take(&rows->until_input, layer->buffers, bytes, &after, err));
    kernels->table->gather_rows(kernels, flow->values, rows->device_row, rows->chosen_count, width,
                                before);
    kernels->table->copy(kernels, after, before, bytes);
    TRY(exec_block_halves_forward(block, slot, after, err));
    kernels->table->scatter_rows(kernels, after, rows->device_row, rows->chosen_count, width,
                                 flow->values);
    if (!is_last) TRY(let_rows_leave(layer, rows, before, after, flow, err));
    exec_holding_give(&rows->until_input, layer->buffers);
    return STATUS_OK;
}

status exec_block_early_exit_backward_input(exec_block *block, exec_block_slot *slot,
                                            void *gradient, error_message *err)
{
    exec_layer *layer = &block->layer;
    exec_kernels *kernels = layer->kernels;
    exec_rows_slot *rows = slot->chosen_rows;
    const int width = layer->model->width;
    void *live = NULL;
    if (rows->chosen_count == 0) return STATUS_OK;
    TRY(exec_holding_take(&rows->until_input, layer->buffers,
                          exec_layer_bytes(layer, rows->chosen_count, width), &live, err));
    kernels->table->gather_rows(kernels, gradient, rows->device_row, rows->chosen_count, width,
                                live);
    TRY(exec_block_halves_backward_input(block, slot, live, err));
    kernels->table->scatter_rows(kernels, live, rows->device_row, rows->chosen_count, width,
                                 gradient);
    exec_holding_give(&rows->until_input, layer->buffers);
    return STATUS_OK;
}

void exec_block_early_exit_backward_weight(exec_block *block, exec_block_slot *slot)
{
    if (slot->chosen_rows->chosen_count > 0) exec_block_halves_backward_weight(block, slot);
    exec_holding_give(&slot->chosen_rows->until_weight, block->layer.buffers);
}

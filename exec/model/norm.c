#include "exec/model/norm.h"

#include "exec/model/layer_table.h"

exec_norm exec_norm_add(exec_layer *layer, const char *const names[2])
{
    const int width = layer->model->width;
    exec_norm norm = {.width = width};
    norm.gain = exec_layer_add_tensor(
        layer,
        &(exec_tensor){.name = names[0], .rows = 1, .columns = width, .initial_value = 1.0F});
    norm.shift =
        exec_layer_add_tensor(layer, &(exec_tensor){.name = names[1], .rows = 1, .columns = width});
    return norm;
}

status exec_norm_forward(const exec_layer *layer, const exec_norm *norm, const void *values,
                         int rows, exec_norm_slot *slot, exec_holding *until_input,
                         exec_holding *until_weight, error_message *err)
{
    exec_kernels *kernels = layer->kernels;
    const size_t bytes = exec_layer_bytes(layer, rows, norm->width);
    void *moments;
    slot->row_count = rows;
    TRY(exec_holding_take(until_input, layer->buffers, bytes, &slot->input, err));
    TRY(exec_holding_take(until_input, layer->buffers, 2 * (size_t)rows * sizeof(float), &moments,
                          err));
    TRY(exec_holding_take(until_weight, layer->buffers, bytes, &slot->output, err));
    slot->mean = moments;
    slot->inverse_deviation = slot->mean + rows;
    kernels->table->copy(kernels, slot->input, values, bytes);
    kernels->table->layer_norm(kernels, slot->input, exec_layer_weights(layer, norm->gain),
                               exec_layer_weights(layer, norm->shift), rows, norm->width,
                               slot->output, slot->mean, slot->inverse_deviation);
    return STATUS_OK;
}

status exec_norm_backward_input(const exec_layer *layer, const exec_norm *norm,
                                const void *output_gradient, exec_norm_slot *slot,
                                exec_holding *until_weight, void *gradient, error_message *err)
{
    exec_kernels *kernels = layer->kernels;
    const size_t width = (size_t)norm->width;
    if (!layer->is_frozen) {
        void *sums;
        TRY(exec_holding_take(until_weight, layer->buffers, 2 * width * sizeof(float), &sums, err));
        slot->parameter_gradient = sums;
        kernels->table->clear(kernels, sums, 2 * width * sizeof(float));
        kernels->table->layer_norm_weight(kernels, output_gradient, slot->input, slot->mean,
                                          slot->inverse_deviation, slot->row_count, norm->width,
                                          slot->parameter_gradient,
                                          slot->parameter_gradient + width);
    }
    if (gradient != NULL) {
        kernels->table->layer_norm_input(
            kernels, output_gradient, slot->input, exec_layer_weights(layer, norm->gain),
            slot->mean, slot->inverse_deviation, slot->row_count, norm->width, gradient);
    }
    return STATUS_OK;
}

void exec_norm_backward_weight(const exec_layer *layer, const exec_norm *norm,
                               const exec_norm_slot *slot)
{
    exec_kernels *kernels = layer->kernels;
    const size_t width = (size_t)norm->width;
    kernels->table->add_floats(kernels, exec_layer_gradient(layer, norm->gain),
                               slot->parameter_gradient, width);
    kernels->table->add_floats(kernels, exec_layer_gradient(layer, norm->shift),
                               slot->parameter_gradient + width, width);
}

#include "exec/model/linear.h"

#include "exec/model/compression.h"
#include "exec/model/layer_table.h"

exec_linear exec_linear_add(exec_layer *layer, int input_width, int output_width,
                            float initial_deviation, const char *name, const char *bias_name)
{
    exec_linear linear = {
        .input_width = input_width, .output_width = output_width, .has_bias = bias_name != NULL};
    linear.weight =
        exec_layer_add_matrix(layer, name, input_width, output_width, initial_deviation);
    if (linear.has_bias) linear.bias = exec_layer_add_vector(layer, bias_name, output_width, 0);
    return linear;
}

/// rows x the weights, or x the weights transposed.
static void multiply(const exec_layer *layer, const exec_linear *linear, const void *input,
                     int rows, bool is_transposed, bool accumulates, void *output)
{
    exec_kernels *kernels = layer->kernels;
    const void *weights = exec_layer_weights(layer, linear->weight);
    const exec_csr *csr = exec_layer_csr(layer, linear->weight);
    const exec_matmul shape = {.rows = rows,
                               .columns =
                                   is_transposed ? linear->input_width : linear->output_width,
                               .inner = is_transposed ? linear->output_width : linear->input_width,
                               .transposes_b = is_transposed,
                               .accumulates = accumulates};
    if (csr != NULL) {
        kernels->table->csr_matmul(kernels, csr, rows, is_transposed, accumulates, input, weights,
                                   output);
    } else {
        kernels->table->matmul(kernels, &shape, input, weights, output);
    }
}

static void add_bias(const exec_layer *layer, const exec_linear *linear, int rows, void *output)
{
    if (!linear->has_bias) return;
    layer->kernels->table->add_bias(layer->kernels, output, exec_layer_weights(layer, linear->bias),
                                    rows, linear->output_width);
}

void exec_linear_forward(const exec_layer *layer, const exec_linear *linear, const void *input,
                         int rows, void *output)
{
    multiply(layer, linear, input, rows, false, false, output);
    add_bias(layer, linear, rows, output);
}

void exec_linear_forward_add(const exec_layer *layer, const exec_linear *linear, const void *input,
                             int rows, void *output)
{
    multiply(layer, linear, input, rows, false, true, output);
    add_bias(layer, linear, rows, output);
}

void exec_linear_backward_input(const exec_layer *layer, const exec_linear *linear,
                                const void *output_gradient, int rows, void *input_gradient)
{
    multiply(layer, linear, output_gradient, rows, true, false, input_gradient);
}

void exec_linear_backward_weight(const exec_layer *layer, const exec_linear *linear,
                                 const void *input, const void *output_gradient, int rows)
{
    exec_kernels *kernels = layer->kernels;
    float *gradient = exec_layer_gradient(layer, linear->weight);
    const exec_csr *csr = exec_layer_csr(layer, linear->weight);
    const exec_matmul shape = {.rows = linear->input_width,
                               .columns = linear->output_width,
                               .inner = rows,
                               .transposes_a = true,
                               .accumulates = true,
                               .is_float = true};
    if (csr != NULL) {
        kernels->table->csr_sample(kernels, csr, rows, input, output_gradient, gradient);
    } else {
        kernels->table->matmul(kernels, &shape, input, output_gradient, gradient);
    }
    if (!linear->has_bias) return;
    kernels->table->column_sums(kernels, output_gradient, rows, linear->output_width,
                                exec_layer_gradient(layer, linear->bias));
}

void exec_linears_forward(const exec_layer *layer, const exec_linear *first,
                          const exec_groups *groups, const void *input, void *output)
{
    exec_kernels *kernels = layer->kernels;
    const exec_matmul shape = {.columns = first->output_width, .inner = first->input_width};
    kernels->table->group_matmul(kernels, &shape, groups, input,
                                 exec_layer_weights(layer, first->weight), output);
    if (!first->has_bias) return;
    char *rows = (char *)output + exec_layer_bytes(layer, groups->begin, first->output_width);
    kernels->table->combine_rows(kernels, exec_layer_weights(layer, first->bias), NULL,
                                 groups->of_row, NULL, 1, groups->row_count, first->output_width,
                                 rows);
}

void exec_linears_backward_input(const exec_layer *layer, const exec_linear *first,
                                 const exec_groups *groups, const void *output_gradient,
                                 void *input_gradient)
{
    const exec_matmul shape = {
        .columns = first->input_width, .inner = first->output_width, .transposes_b = true};
    layer->kernels->table->group_matmul(layer->kernels, &shape, groups, output_gradient,
                                        exec_layer_weights(layer, first->weight), input_gradient);
}

void exec_linears_backward_weight(const exec_layer *layer, const exec_linear *first,
                                  const exec_groups *groups, const void *input,
                                  const void *output_gradient)
{
    exec_kernels *kernels = layer->kernels;
    const exec_matmul shape = {.rows = first->input_width,
                               .columns = first->output_width,
                               .transposes_a = true,
                               .accumulates = true,
                               .is_float = true};
    kernels->table->group_matmul(kernels, &shape, groups, input, output_gradient,
                                 exec_layer_gradient(layer, first->weight));
    if (!first->has_bias) return;
    const char *rows =
        (const char *)output_gradient + exec_layer_bytes(layer, groups->begin, first->output_width);
    kernels->table->embed_weight(kernels, rows, groups->of_row, NULL, groups->row_count,
                                 first->output_width, groups->count, 0,
                                 exec_layer_gradient(layer, first->bias), NULL);
}

void exec_vector_forward(const exec_layer *layer, size_t vector, const void *values, int rows,
                         float *score)
{
    exec_kernels *kernels = layer->kernels;
    const size_t bytes = (size_t)rows * sizeof(int);
    int *zero = exec_buffers_take(layer->buffers, bytes);
    kernels->table->clear(kernels, zero, bytes);
    kernels->table->row_dots(kernels, values, NULL, exec_layer_weights(layer, vector), zero, rows,
                             layer->model->width, score);
    exec_buffers_give(layer->buffers, zero);
}

void exec_vector_backward_weight(const exec_layer *layer, const void *values,
                                 const float *score_gradient, int rows, float *sum)
{
    exec_kernels *kernels = layer->kernels;
    const int width = layer->model->width;
    void *scaled = exec_buffers_take(layer->buffers, exec_layer_bytes(layer, rows, width));
    kernels->table->scale_rows(kernels, values, score_gradient, rows, width, scaled);
    kernels->table->column_sums(kernels, scaled, rows, width, sum);
    exec_buffers_give(layer->buffers, scaled);
}

exec_norm exec_norm_add(exec_layer *layer, const char *name, const char *bias_name)
{
    const int width = layer->model->width;
    exec_norm norm = {.width = width, .is_rms = layer->model->has_rms_norm};
    norm.weight = exec_layer_add_vector(layer, name, width, 1);
    if (!norm.is_rms) norm.bias = exec_layer_add_vector(layer, bias_name, width, 0);
    return norm;
}

void exec_norm_forward(const exec_layer *layer, const exec_norm *norm, const void *values, int rows,
                       exec_norm_slot *slot, exec_holding *until_input, exec_holding *until_weight)
{
    exec_kernels *kernels = layer->kernels;
    slot->row_count = rows;
    slot->input = exec_layer_take(layer, until_input, rows, norm->width);
    slot->rstd = exec_layer_take_numbers(layer, until_input, 2 * (size_t)rows);
    slot->output = exec_layer_take(layer, until_weight, rows, norm->width);
    slot->mean = norm->is_rms ? NULL : slot->rstd + rows;
    kernels->table->copy(kernels, slot->input, values, exec_layer_bytes(layer, rows, norm->width));
    kernels->table->layer_norm(kernels, slot->input, exec_layer_weights(layer, norm->weight),
                               norm->is_rms ? NULL : exec_layer_weights(layer, norm->bias), rows,
                               norm->width, slot->output, slot->mean, slot->rstd);
}

void exec_norm_backward_input(const exec_layer *layer, const exec_norm *norm,
                              const void *output_gradient, exec_norm_slot *slot,
                              exec_holding *until_weight, void *gradient)
{
    exec_kernels *kernels = layer->kernels;
    const size_t width = (size_t)norm->width;
    if (!layer->is_frozen) {
        float *sums = exec_layer_take_numbers(layer, until_weight, 2 * width);
        slot->parameter_gradient = sums;
        kernels->table->clear(kernels, sums, 2 * width * sizeof(float));
        kernels->table->layer_norm_weight(kernels, output_gradient, slot->input, slot->mean,
                                          slot->rstd, slot->row_count, norm->width, sums,
                                          norm->is_rms ? NULL : sums + width);
    }
    if (gradient == NULL) return;
    kernels->table->layer_norm_input(kernels, output_gradient, slot->input,
                                     exec_layer_weights(layer, norm->weight), slot->mean,
                                     slot->rstd, slot->row_count, norm->width, gradient);
}

void exec_norm_backward_weight(const exec_layer *layer, const exec_norm *norm,
                               const exec_norm_slot *slot)
{
    exec_kernels *kernels = layer->kernels;
    const size_t width = (size_t)norm->width;
    kernels->table->add_floats(kernels, exec_layer_gradient(layer, norm->weight),
                               slot->parameter_gradient, width);
    if (norm->is_rms) return;
    kernels->table->add_floats(kernels, exec_layer_gradient(layer, norm->bias),
                               slot->parameter_gradient + width, width);
}

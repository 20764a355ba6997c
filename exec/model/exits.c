#include "exec/model/exits.h"

#include "exec/model/layer_table.h"

bool exec_exit_follows(const exec_layer *layer)
{
    const exec_model *model = layer->model;
    return model->mechanism == EXEC_EARLY_EXIT && layer->kind == EXEC_LAYER_BLOCK &&
           layer->index > model->early_exit.first_exit && layer->index < model->block_count;
}

static bool has_head(const exec_early_exit_options *options)
{
    return options->measure == EXEC_EXIT_SOFTMAX || options->measure == EXEC_EXIT_PROBABILITY;
}

/// The classifier begins undecided, with zeros.
exec_exit exec_exit_add(exec_layer *layer)
{
    const exec_early_exit_options *options = &layer->model->early_exit;
    exec_exit added = {0};
    if (has_head(options)) {
        added.prediction =
            exec_prediction_add(layer, "exit norm weight", "exit norm bias", "exit logits");
    } else if (options->measure == EXEC_EXIT_CLASSIFIER) {
        added.vector = exec_layer_add_matrix(layer, "exit vector", 1, layer->model->width, 0);
        exec_layer_add_vector(layer, "exit bias", 1, 0);
    }
    return added;
}

void exec_exit_let_go(const exec_layer *layer, exec_exit_slot *slot)
{
    exec_prediction_let_go(layer, &slot->prediction);
    exec_holding_give(&slot->until_weight, layer->buffers);
}

/// The products of the two states of every row, and of each with itself.
static exec_compared compare_states(const exec_layer *layer, const exec_exit_rows *rows,
                                    exec_holding *holding)
{
    exec_kernels *kernels = layer->kernels;
    const exec_kernel_table *table = kernels->table;
    const int count = rows->count;
    const int width = layer->model->width;
    float *product = exec_layer_take_numbers(layer, holding, 3 * (size_t)count);
    float *of_before = product + count, *of_after = of_before + count;
    table->row_dots(kernels, rows->before, NULL, rows->after, NULL, count, width, product);
    table->row_dots(kernels, rows->before, NULL, rows->before, NULL, count, width, of_before);
    table->row_dots(kernels, rows->after, NULL, rows->after, NULL, count, width, of_after);
    return (exec_compared){product, of_before, of_after};
}

/// Has the block's own head predict. Its loss is weighted as CALM's: that of layer i with i; rows
/// that are gone count as 0 in the mean over the microbatch.
///
/// @return [count][2] device memory: both measures of confidence
static float *predict(const exec_layer *layer, const exec_exit *leaving, const exec_exit_rows *rows,
                      exec_exit_slot *slot, const exec_flow *flow, exec_holding *scratch)
{
    const exec_kernel_table *table = layer->kernels->table;
    const size_t count = (size_t)rows->count;
    const float weight = (float)layer->index / (float)layer->model->block_count;
    const int words = (int)sizeof(int) / table->value_bytes; // values in a target's place
    int *target = exec_layer_take_numbers(layer, scratch, count);
    float *loss = exec_layer_take_numbers(layer, scratch, count);
    float *both = exec_layer_take_numbers(layer, scratch, 2 * count);
    table->gather_rows(layer->kernels, flow->target, rows->row, rows->count, words, target);
    exec_prediction_forward(layer, &leaving->prediction, rows->after, target, rows->count,
                            weight / (float)flow->row_count, loss, both, &slot->prediction);
    return both;
}

/// Has the classifier say which rows are saturated. Its cross-entropy is a mean over the microbatch
/// as above; the gradient is summed here, so that W needs no states.
///
/// @return confidence [count] device memory
static float *classify(const exec_layer *layer, const exec_exit *leaving,
                       const exec_exit_rows *rows, exec_exit_slot *slot, const exec_flow *flow,
                       exec_holding *scratch, const exec_compared *states)
{
    exec_kernels *kernels = layer->kernels;
    const size_t count = (size_t)rows->count;
    const size_t width = (size_t)layer->model->width;
    float *score = exec_layer_take_numbers(layer, scratch, count);
    float *score_gradient = exec_layer_take_numbers(layer, scratch, count);
    float *sum = exec_layer_take_numbers(layer, &slot->until_weight, width + 1);
    slot->classifier_gradient = sum;
    exec_vector_forward(layer, leaving->vector, rows->after, rows->count, score);
    kernels->table->clear(kernels, sum, (width + 1) * sizeof *sum);
    kernels->table->judge_rows(kernels, states, layer->model->early_exit.target_cosine,
                               layer->master + leaving->vector + width,
                               1.0F / (float)flow->row_count, rows->count, score, score_gradient,
                               sum + width);
    exec_vector_backward_weight(layer, rows->after, score_gradient, rows->count, sum);
    return score;
}

void exec_exit_forward(const exec_layer *layer, const exec_exit *leaving,
                       const exec_exit_rows *rows, exec_exit_slot *slot, const exec_flow *flow)
{
    const exec_early_exit_options *options = &layer->model->early_exit;
    exec_leaving found = {.row = rows->row,
                          .stride = 1,
                          .threshold = exec_exit_threshold(options, flow->iteration),
                          .has_left = flow->has_left};
    exec_holding scratch = {0};
    if (has_head(options)) {
        const float *both = predict(layer, leaving, rows, slot, flow, &scratch);
        found.confidence = options->measure == EXEC_EXIT_PROBABILITY ? both + 1 : both;
        found.stride = 2;
    } else {
        found.states = compare_states(layer, rows, &scratch);
    }
    if (options->measure == EXEC_EXIT_CLASSIFIER) {
        found.confidence = classify(layer, leaving, rows, slot, flow, &scratch, &found.states);
        found.states = (exec_compared){0};
    }
    layer->kernels->table->leave_rows(layer->kernels, &found, rows->count);
    exec_holding_give(&scratch, layer->buffers);
}

void exec_exit_backward_input(const exec_layer *layer, const exec_exit *leaving,
                              exec_exit_slot *slot, void *gradient)
{
    if (!has_head(&layer->model->early_exit)) return;
    exec_prediction_backward_input(layer, &leaving->prediction, &slot->prediction, gradient);
}

void exec_exit_backward_weight(const exec_layer *layer, const exec_exit *leaving,
                               exec_exit_slot *slot)
{
    const exec_early_exit_options *options = &layer->model->early_exit;
    if (has_head(options)) {
        exec_prediction_backward_weight(layer, &leaving->prediction, &slot->prediction);
    } else if (options->measure == EXEC_EXIT_CLASSIFIER) {
        layer->kernels->table->add_floats(
            layer->kernels, exec_layer_gradient(layer, leaving->vector), slot->classifier_gradient,
            (size_t)layer->model->width + 1);
        exec_holding_give(&slot->until_weight, layer->buffers);
    }
}

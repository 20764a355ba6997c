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
static status compare_states(const exec_layer *layer, const exec_exit_rows *rows,
                             exec_holding *holding, exec_compared *states, error_message *err)
{
    exec_kernels *kernels = layer->kernels;
    const exec_kernel_table *table = kernels->table;
    const int count = rows->count;
    const int width = layer->model->width;
    void *taken = NULL;
    TRY(exec_holding_take(holding, layer->buffers, 3 * (size_t)count * sizeof(float), &taken, err));
    float *product = taken, *of_before = product + count, *of_after = of_before + count;
    *states = (exec_compared){product, of_before, of_after};
    table->row_dots(kernels, rows->before, NULL, rows->after, NULL, count, width, product);
    table->row_dots(kernels, rows->before, NULL, rows->before, NULL, count, width, of_before);
    table->row_dots(kernels, rows->after, NULL, rows->after, NULL, count, width, of_after);
    return STATUS_OK;
}

/// Has the block's own head predict. Its loss is weighted as CALM's: that of layer i with i; rows
/// that are gone count as 0 in the mean over the microbatch.
///
/// @param both [count][2] device memory, out: both measures of confidence
static status predict(const exec_layer *layer, const exec_exit *leaving, const exec_exit_rows *rows,
                      exec_exit_slot *slot, const exec_flow *flow, exec_holding *scratch,
                      float **both, error_message *err)
{
    const exec_kernel_table *table = layer->kernels->table;
    const size_t bytes = (size_t)rows->count * sizeof(float);
    const float weight = (float)layer->index / (float)layer->model->block_count;
    const int words = (int)sizeof(int) / table->value_bytes; // values in a target's place
    void *target = NULL;
    void *loss = NULL;
    void *taken = NULL;
    TRY(exec_holding_take(scratch, layer->buffers, bytes, &target, err));
    TRY(exec_holding_take(scratch, layer->buffers, bytes, &loss, err));
    TRY(exec_holding_take(scratch, layer->buffers, 2 * bytes, &taken, err));
    *both = taken;
    table->gather_rows(layer->kernels, flow->target, rows->row, rows->count, words, target);
    return exec_prediction_forward(layer, &leaving->prediction, rows->after, target, rows->count,
                                   weight / (float)flow->row_count, loss, taken, &slot->prediction,
                                   err);
}

/// Has the classifier say which rows are saturated. Its cross-entropy is a mean over the microbatch
/// as above; the gradient is summed here, so that W needs no states.
///
/// @param confidence [count] device memory, out
static status classify(const exec_layer *layer, const exec_exit *leaving,
                       const exec_exit_rows *rows, exec_exit_slot *slot, const exec_flow *flow,
                       exec_holding *scratch, const exec_compared *states, float **confidence,
                       error_message *err)
{
    exec_kernels *kernels = layer->kernels;
    const int width = layer->model->width;
    const size_t bytes = ((size_t)width + 1) * sizeof(float);
    void *score = NULL;
    void *score_gradient = NULL;
    void *sum = NULL;
    TRY(exec_holding_take(scratch, layer->buffers, (size_t)rows->count * sizeof(float), &score,
                          err));
    TRY(exec_holding_take(scratch, layer->buffers, (size_t)rows->count * sizeof(float),
                          &score_gradient, err));
    TRY(exec_holding_take(&slot->until_weight, layer->buffers, bytes, &sum, err));
    slot->classifier_gradient = sum;
    *confidence = score;
    TRY(exec_vector_forward(layer, leaving->vector, rows->after, rows->count, score, err));
    kernels->table->clear(kernels, sum, bytes);
    kernels->table->judge_rows(kernels, states, layer->model->early_exit.target_cosine,
                               layer->master + leaving->vector + width,
                               1.0F / (float)flow->row_count, rows->count, score, score_gradient,
                               slot->classifier_gradient + width);
    return exec_vector_backward_weight(layer, rows->after, score_gradient, rows->count, sum, err);
}

status exec_exit_forward(const exec_layer *layer, const exec_exit *leaving,
                         const exec_exit_rows *rows, exec_exit_slot *slot, const exec_flow *flow,
                         error_message *err)
{
    const exec_early_exit_options *options = &layer->model->early_exit;
    exec_leaving found = {.row = rows->row,
                          .stride = 1,
                          .threshold = exec_exit_threshold(options, flow->iteration),
                          .has_left = flow->has_left};
    exec_holding scratch = {0};
    float *confidence = NULL;
    if (has_head(options)) {
        TRY(predict(layer, leaving, rows, slot, flow, &scratch, &confidence, err));
        if (options->measure == EXEC_EXIT_PROBABILITY) confidence++;
        found.stride = 2;
    } else {
        TRY(compare_states(layer, rows, &scratch, &found.states, err));
    }
    if (options->measure == EXEC_EXIT_CLASSIFIER) {
        TRY(classify(layer, leaving, rows, slot, flow, &scratch, &found.states, &confidence, err));
        found.states = (exec_compared){0};
    }
    found.confidence = confidence;
    layer->kernels->table->leave_rows(layer->kernels, &found, rows->count);
    exec_holding_give(&scratch, layer->buffers);
    return STATUS_OK;
}

status exec_exit_backward_input(const exec_layer *layer, const exec_exit *leaving,
                                exec_exit_slot *slot, void *gradient, error_message *err)
{
    if (!has_head(&layer->model->early_exit)) return STATUS_OK;
    return exec_prediction_backward_input(layer, &leaving->prediction, &slot->prediction, gradient,
                                          err);
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

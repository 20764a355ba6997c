#include "exec/model/exits.h"

#include "exec/model/layer_table.h"

#include <stddef.h>

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

void exec_exit_carve(const exec_layer *layer, arena *memory, exec_exit_slot *slot)
{
    const size_t rows = (size_t)exec_model_row_count(layer->model);
    slot->number = arena_array(memory, 4 * rows, sizeof(float));
    slot->target = arena_array(memory, 2 * rows, sizeof(int));
}

void exec_exit_let_go(const exec_layer *layer, exec_exit_slot *slot)
{
    exec_prediction_let_go(layer, &slot->prediction);
    exec_holding_give(&slot->until_weight, layer->buffers);
}

/// The products of the two states of every row, and of each with itself: dots [3][count] on the
/// host. Waits for the device.
static status compare_states(const exec_layer *layer, const exec_exit_rows *rows, float *dots,
                             error_message *err)
{
    exec_kernels *kernels = layer->kernels;
    const exec_kernel_table *table = kernels->table;
    const int count = rows->count;
    const int width = layer->model->width;
    void *taken = NULL;
    TRY(exec_buffers_take(layer->buffers, 3 * (size_t)count * sizeof(float), &taken, err));
    float *products = taken;
    table->row_dots(kernels, rows->before, NULL, rows->after, NULL, count, width, products);
    table->row_dots(kernels, rows->before, NULL, rows->before, NULL, count, width,
                    products + count);
    table->row_dots(kernels, rows->after, NULL, rows->after, NULL, count, width,
                    products + 2 * count);
    table->to_host(kernels, dots, products, 3 * (size_t)count * sizeof(float));
    exec_buffers_give(layer->buffers, taken);
    return STATUS_OK;
}

static bool is_saturated(const float *dots, int count, int chosen, double cosine)
{
    return exec_is_saturated(dots[chosen], dots[count + chosen], dots[2 * count + chosen], cosine);
}

/// The bytes that follow the rows, on the device; waits for what has been drawn.
static status take_targets(const exec_layer *layer, const exec_exit_rows *rows,
                           exec_exit_slot *slot, const exec_flow *flow, exec_holding *holding,
                           void **target, error_message *err)
{
    int *all = slot->target;
    int *of_rows = all + flow->row_count;
    layer->kernels->table->to_host(layer->kernels, all, flow->target,
                                   (size_t)flow->row_count * sizeof(int));
    for (int chosen = 0; chosen < rows->count; chosen++) {
        of_rows[chosen] = all[rows->row[chosen]];
    }
    return exec_holding_upload(holding, layer->buffers, of_rows, (size_t)rows->count * sizeof(int),
                               target, err);
}

/// Has the block's own head predict. Its loss is weighted as CALM's: that of layer i with i; rows
/// that are gone count as 0 in the mean over the microbatch.
///
/// @param both       [2 * count] host: scratch
/// @param confidence [count] host, out
static status predict(const exec_layer *layer, const exec_exit *leaving, const exec_exit_rows *rows,
                      exec_exit_slot *slot, const exec_flow *flow, float *both, float *confidence,
                      error_message *err)
{
    const size_t bytes = (size_t)rows->count * sizeof(float);
    const float weight = (float)layer->index / (float)layer->model->block_count;
    exec_holding scratch = {0};
    void *target = NULL;
    void *loss = NULL;
    void *device_both = NULL;
    TRY(take_targets(layer, rows, slot, flow, &scratch, &target, err));
    TRY(exec_holding_take(&scratch, layer->buffers, bytes, &loss, err));
    TRY(exec_holding_take(&scratch, layer->buffers, 2 * bytes, &device_both, err));
    TRY(exec_prediction_forward(layer, &leaving->prediction, rows->after, target, rows->count,
                                weight / (float)flow->row_count, loss, device_both,
                                &slot->prediction, err));
    layer->kernels->table->to_host(layer->kernels, both, device_both, 2 * bytes);
    const int which = layer->model->early_exit.measure == EXEC_EXIT_PROBABILITY ? 1 : 0;
    for (int chosen = 0; chosen < rows->count; chosen++) {
        confidence[chosen] = both[2 * chosen + which];
    }
    exec_holding_give(&scratch, layer->buffers);
    return STATUS_OK;
}

/// Has the classifier say which rows are saturated. Its cross-entropy is a mean over the microbatch
/// as above; the gradient is summed here, so that W needs no states.
///
/// @param dots       [3][count] host: of compare_states; becomes scratch
/// @param confidence [count] host, out
static status classify(const exec_layer *layer, const exec_exit *leaving,
                       const exec_exit_rows *rows, exec_exit_slot *slot, const exec_flow *flow,
                       float *dots, float *confidence, error_message *err)
{
    exec_kernels *kernels = layer->kernels;
    const exec_kernel_table *table = kernels->table;
    const int width = layer->model->width;
    const float scale = 1.0F / (float)flow->row_count;
    const size_t bytes = ((size_t)width + 1) * sizeof(float);
    exec_holding scratch = {0};
    float *gradient = dots; // a row's takes the place of a product that has been read
    float bias = 0;
    float of_bias = 0;
    void *score = NULL;
    void *score_gradient = NULL;
    void *sum = NULL;
    TRY(exec_holding_take(&scratch, layer->buffers, (size_t)rows->count * sizeof(float), &score,
                          err));
    TRY(exec_vector_forward(layer, leaving->vector, rows->after, rows->count, score, err));
    table->to_host(kernels, confidence, score, (size_t)rows->count * sizeof(float));
    table->to_host(kernels, &bias, layer->master + leaving->vector + width, sizeof bias);
    for (int chosen = 0; chosen < rows->count; chosen++) {
        const bool target =
            is_saturated(dots, rows->count, chosen, layer->model->early_exit.target_cosine);
        confidence[chosen] = exec_gate(confidence[chosen] + bias);
        gradient[chosen] = scale * (confidence[chosen] - (target ? 1.0F : 0.0F));
        of_bias += gradient[chosen];
    }
    TRY(exec_holding_upload(&scratch, layer->buffers, gradient, (size_t)rows->count * sizeof(float),
                            &score_gradient, err));
    TRY(exec_holding_take(&slot->until_weight, layer->buffers, bytes, &sum, err));
    slot->classifier_gradient = sum;
    table->clear(kernels, sum, bytes);
    table->to_device(kernels, slot->classifier_gradient + width, &of_bias, sizeof of_bias);
    TRY(exec_vector_backward_weight(layer, rows->after, score_gradient, rows->count, sum, err));
    exec_holding_give(&scratch, layer->buffers);
    return STATUS_OK;
}

status exec_exit_forward(const exec_layer *layer, const exec_exit *leaving,
                         const exec_exit_rows *rows, exec_exit_slot *slot, const exec_flow *flow,
                         error_message *err)
{
    const exec_early_exit_options *options = &layer->model->early_exit;
    const double threshold = exec_exit_threshold(options, flow->iteration);
    float *dots = slot->number;
    float *confidence = dots + 3 * (ptrdiff_t)rows->count;
    if (has_head(options)) {
        TRY(predict(layer, leaving, rows, slot, flow, dots, confidence, err));
    } else {
        TRY(compare_states(layer, rows, dots, err));
    }
    if (options->measure == EXEC_EXIT_CLASSIFIER) {
        TRY(classify(layer, leaving, rows, slot, flow, dots, confidence, err));
    }
    for (int chosen = 0; chosen < rows->count; chosen++) {
        const bool leaves = options->measure == EXEC_EXIT_SATURATION
                                ? is_saturated(dots, rows->count, chosen, threshold)
                                : (double)confidence[chosen] > threshold;
        if (leaves) flow->is_live[rows->row[chosen]] = 0;
    }
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

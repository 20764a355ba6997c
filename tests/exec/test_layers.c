/// Layers of the model: the loss against a second, plain implementation in double
/// (reference_transformer.h), gradients against its finite differences; what decays; the split of
/// backward; what slots hold.
#include "base/arena.h"
#include "base/rng.h"
#include "exec/model/layer.h"
#include "tests/exec/reference_transformer.h"
#include "tests/test.h"

#include <stdlib.h>
#include <string.h>

enum { LAYER_MAX = 16 };

/// Of one block of attention and a part of it, of one token, and of one block.
static const int packed_first_row[] = {0, 37, 38, 51, 83};
enum { DOCUMENTS = 4, PACKED_ROWS = 83 };

/// A kind of model.
typedef struct kind_of_model {
    bool is_llama;
    bool is_packed;
} kind_of_model;

static const kind_of_model kinds[] = {{false, false}, {true, false}, {false, true}, {true, true}};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

/// All layers of a model on one rank, with a slot each.
typedef struct network {
    exec_model model;
    exec_kernels *kernels;
    exec_buffers *buffers;
    int layer_count, row_count;
    exec_layer *layers[LAYER_MAX];
    exec_slot *slots[LAYER_MAX];
    float *values, *gradient; // [row_count][width]
    int *token, *target;      // [row_count] of the microbatch
    float *loss;              // [row_count]
    int *position;            // [row_count] of packed documents
} network;

/// Odd sizes: sequences of two blocks of attention, the second short.
static exec_model odd_model(void)
{
    exec_model model = exec_model_default();
    model.block_count = 2;
    model.width = 12;
    model.head_count = 3;
    model.hidden_width = 21;
    model.vocabulary = 19;
    model.sequence_length = 37;
    model.microbatch_size = 2;
    model.seed = 11;
    return model;
}

/// Llama's blocks: 4 heads of 6 on 2 of keys and values, rotary, RMSNorm, SwiGLU, no biases.
static exec_model llama_model(void)
{
    exec_model model = odd_model();
    model.head_count = 4;
    model.head_width = 6;
    model.kv_head_count = 2;
    model.rotary_base = 50;
    model.has_rms_norm = model.is_gated = true;
    model.lacks_query_key_value_bias = model.lacks_attention_output_bias = true;
    model.lacks_mlp_bias = true;
    return model;
}

static exec_model model_of(const kind_of_model *kind)
{
    exec_model model = kind->is_llama ? llama_model() : odd_model();
    if (kind->is_packed) model.packed_rows = PACKED_ROWS;
    return model;
}

static void network_create(network *made, const exec_model *model)
{
    memset(made, 0, sizeof *made);
    made->model = *model;
    assert_ok(exec_model_check(model, NULL));
    assert_ok(exec_kernels_cpu_open(&made->kernels));
    made->buffers = exec_buffers_create(made->kernels);
    made->layer_count = exec_model_layer_count(model);
    made->row_count = exec_model_row_count(model);
    const size_t count = (size_t)made->row_count * (size_t)model->width;
    made->values = memory_array(count, sizeof *made->values);
    made->gradient = memory_array(count, sizeof *made->gradient);
    made->token = memory_array((size_t)made->row_count, sizeof *made->token);
    made->target = memory_array((size_t)made->row_count, sizeof *made->target);
    made->loss = memory_array((size_t)made->row_count, sizeof *made->loss);
    made->position = memory_array((size_t)made->row_count, sizeof *made->position);
    for (int document = 0; model->packed_rows > 0 && document < DOCUMENTS; document++) {
        const int first = packed_first_row[document];
        for (int row = first; row < packed_first_row[document + 1]; row++) {
            made->position[row] = row - first;
        }
    }
    for (int layer = 0; layer < made->layer_count; layer++) {
        made->layers[layer] = exec_layer_create(&made->model, made->buffers, layer);
        assert_ok(exec_layer_initialise(made->layers[layer], NULL));
        made->slots[layer] = exec_slot_create(made->layers[layer]);
    }
}

static void network_destroy(network *destroyed)
{
    for (int layer = 0; layer < destroyed->layer_count; layer++) {
        exec_slot_destroy(destroyed->layers[layer], destroyed->slots[layer]);
        exec_layer_destroy(destroyed->layers[layer]);
    }
    assert_int_equal(exec_buffers_taken_bytes(destroyed->buffers), 0);
    exec_buffers_destroy(destroyed->buffers);
    destroyed->kernels->table->close(destroyed->kernels);
    free(destroyed->values);
    free(destroyed->gradient);
    free(destroyed->token);
    free(destroyed->target);
    free(destroyed->loss);
    free(destroyed->position);
}

/// Tokens of a microbatch: a noisy ramp, so that there is something to learn.
static void load(network *of, int microbatch)
{
    rng generator = rng_init(5, (uint64_t)microbatch);
    for (int row = 0; row < of->row_count; row++) {
        const int base = (row * 3 + microbatch) % of->model.vocabulary;
        const bool is_noise = rng_below(&generator, 4) == 0;
        of->token[row] =
            is_noise ? (int)rng_below(&generator, (uint64_t)of->model.vocabulary) : base;
        of->target[row] = (base + 3) % of->model.vocabulary;
    }
}

static exec_flow flow_of(network *of)
{
    exec_flow flow = {.values = of->values,
                      .row_count = of->row_count,
                      .token = of->token,
                      .target = of->target,
                      .loss = of->loss};
    if (of->model.packed_rows == 0) return flow;
    flow.document_count = DOCUMENTS;
    flow.first_row = packed_first_row;
    flow.position = of->position;
    return flow;
}

static double forward(network *of, int first_layer)
{
    exec_flow flow = flow_of(of);
    for (int layer = first_layer; layer < of->layer_count; layer++) {
        assert_ok(exec_layer_forward(of->layers[layer], of->slots[layer], &flow, NULL));
    }
    double sum = 0;
    for (int row = 0; row < of->row_count; row++) {
        sum += (double)of->loss[row];
    }
    return sum / of->row_count;
}

static void backward_input(network *of, int first_layer)
{
    for (int layer = of->layer_count - 1; layer >= first_layer; layer--) {
        assert_ok(
            exec_layer_backward_input(of->layers[layer], of->slots[layer], of->gradient, NULL));
    }
}

static void backward_weight(network *of, int first_layer)
{
    for (int layer = first_layer; layer < of->layer_count; layer++) {
        if (of->layers[layer]->is_frozen) continue;
        exec_layer_backward_weight(of->layers[layer], of->slots[layer]);
    }
}

/// The loss in double: of packed documents the mean over all their tokens, each a microbatch alone.
static double loss_of(reference_transformer *reference, const network *of, int first_layer,
                      const double *hidden)
{
    double sum = 0;
    if (of->model.packed_rows == 0) {
        return reference_loss(reference, first_layer, of->token, of->target, hidden);
    }
    reference->model.packed_rows = 0;
    reference->model.microbatch_size = 1;
    for (int document = 0; document < DOCUMENTS; document++) {
        const int first = packed_first_row[document];
        const int tokens = packed_first_row[document + 1] - first;
        reference->model.sequence_length = tokens;
        sum +=
            tokens * reference_loss(reference, first_layer, of->token + first, of->target + first,
                                    hidden != NULL ? hidden + first * of->model.width : NULL);
    }
    return sum / PACKED_ROWS;
}

/// Central difference of the loss in double.
static double difference(reference_transformer *reference, const network *of, double *parameter)
{
    const double step = 1e-4, before = *parameter;
    *parameter = before + step;
    const double above = loss_of(reference, of, 0, NULL);
    *parameter = before - step;
    const double below = loss_of(reference, of, 0, NULL);
    *parameter = before;
    return (above - below) / (2 * step);
}

static void check_gradients(const kind_of_model *kind)
{
    const exec_model model = model_of(kind);
    network net;
    network_create(&net, &model);
    reference_transformer *reference = reference_create(&model, net.layers);
    rng generator = rng_init(3, 0);
    load(&net, 0);

    const double loss = forward(&net, 0);
    backward_input(&net, 0);
    backward_weight(&net, 0);

    assert_close(loss, loss_of(reference, &net, 0, NULL), 1e-6);
    for (int index = 0; index < net.layer_count; index++) {
        const exec_layer *layer = net.layers[index];
        for (int at = 0; at < layer->tensor_count; at++) {
            const exec_tensor *tensor = &layer->tensors[at];
            const uint64_t count = (uint64_t)tensor->rows * (uint64_t)tensor->columns;
            for (int sample = 0; sample < 3; sample++) {
                const size_t place = tensor->offset + (size_t)rng_below(&generator, count);
                const double expected =
                    difference(reference, &net, &reference->layers[index].parameters[place]);
                const double actual = (double)layer->gradient[place];
                if (fabs(actual - expected) <= 1e-6 + 1e-4 * fabs(expected)) continue;
                fail_msg("layer %d, %s: gradient %.9g, difference %.9g", index, tensor->name,
                         actual, expected);
            }
        }
    }
    reference_destroy(reference);
    network_destroy(&net);
}

TEST(loss_and_gradients_are_those_of_the_second_implementation)
{
    for (int kind = 0; kind < KINDS; kind++) {
        check_gradients(&kinds[kind]);
    }
}

static void check_input_gradients(const kind_of_model *kind)
{
    exec_model model = model_of(kind);
    if (model.packed_rows == 0) model.sequence_length = 9;
    network net;
    network_create(&net, &model);
    reference_transformer *reference = reference_create(&model, net.layers);
    const int count = net.row_count * model.width;
    double *hidden = memory_array((size_t)count, sizeof *hidden);
    rng generator = rng_init(4, 0);
    load(&net, 0);
    for (int index = 0; index < count; index++) {
        net.values[index] = (float)(2 * rng_unit(&generator) - 1);
        hidden[index] = (double)net.values[index];
    }

    const double loss = forward(&net, 1);
    backward_input(&net, 1);

    assert_close(loss, loss_of(reference, &net, 1, hidden), 1e-6);
    for (int index = 0; index<count; index += model.packed_rows> 0 ? 71 : 7) {
        const double step = 1e-4, before = hidden[index];
        hidden[index] = before + step;
        const double above = loss_of(reference, &net, 1, hidden);
        hidden[index] = before - step;
        const double below = loss_of(reference, &net, 1, hidden);
        hidden[index] = before;
        const double expected = (above - below) / (2 * step);
        assert_true(fabs((double)net.gradient[index] - expected) <= 1e-6 + 1e-4 * fabs(expected));
    }
    free(hidden);
    reference_destroy(reference);
    network_destroy(&net);
}

TEST(gradients_of_a_layers_input_are_differences_of_the_loss)
{
    for (int kind = 0; kind < KINDS; kind++) {
        check_input_gradients(&kinds[kind]);
    }
}

/// Without a gradient only weight decay changes parameters.
TEST(matrices_decay_and_vectors_do_not)
{
    const exec_model model = odd_model();
    network net;
    network_create(&net, &model);
    reference_transformer *before = reference_create(&model, net.layers);

    for (int index = 0; index < net.layer_count; index++) {
        exec_layer *layer = net.layers[index];
        exec_layer_update(layer, 1, NULL);
        for (int kind = 0; kind < layer->tensor_count; kind++) {
            const exec_tensor *tensor = &layer->tensors[kind];
            const double rate = (double)model.learning_rate * (double)model.weight_decay;
            const double left = tensor->rows > 1 ? 1 - rate : 1;
            assert_close((double)layer->master[tensor->offset],
                         left * before->layers[index].parameters[tensor->offset], 1e-6);
        }
    }
    reference_destroy(before);
    network_destroy(&net);
}

/// W of all microbatches after all their B gives the bits that W after each B gives.
TEST(backward_for_weights_may_wait)
{
    enum { MICROBATCHES = 3 };
    const exec_model model = odd_model();
    network at_once, later;
    network_create(&at_once, &model);
    network_create(&later, &model);
    exec_slot *slots[MICROBATCHES][LAYER_MAX];
    exec_slot *own[LAYER_MAX];
    int *token[MICROBATCHES];
    memcpy(own, later.slots, sizeof own);

    for (int microbatch = 0; microbatch < MICROBATCHES; microbatch++) {
        load(&at_once, microbatch);
        forward(&at_once, 0);
        backward_input(&at_once, 0);
        backward_weight(&at_once, 0);
        for (int layer = 0; layer < later.layer_count; layer++) {
            slots[microbatch][layer] = exec_slot_create(later.layers[layer]);
        }
        memcpy(later.slots, slots[microbatch], sizeof own);
        load(&later, microbatch);
        forward(&later, 0);
        backward_input(&later, 0);
        token[microbatch] = later.token; // stays until W
        later.token = memory_array((size_t)later.row_count, sizeof *later.token);
    }
    for (int microbatch = 0; microbatch < MICROBATCHES; microbatch++) {
        memcpy(later.slots, slots[microbatch], sizeof own);
        backward_weight(&later, 0);
    }

    for (int layer = 0; layer < later.layer_count; layer++) {
        assert_memory_equal(later.layers[layer]->gradient, at_once.layers[layer]->gradient,
                            later.layers[layer]->parameter_count * sizeof(float));
    }
    for (int microbatch = 0; microbatch < MICROBATCHES; microbatch++) {
        for (int layer = 0; layer < later.layer_count; layer++) {
            exec_slot_destroy(later.layers[layer], slots[microbatch][layer]);
        }
        free(token[microbatch]);
    }
    memcpy(later.slots, own, sizeof own);
    network_destroy(&at_once);
    network_destroy(&later);
}

TEST(a_slot_holds_what_its_next_pass_needs_and_no_more)
{
    const exec_model model = odd_model();
    network net;
    network_create(&net, &model);
    const exec_slot *slot = net.slots[1];
    const int64_t rows = net.row_count, width = model.width, hidden = 21;
    load(&net, 0);

    forward(&net, 0);
    // Inputs and outputs of both norms, query-key-value, attention's output, the MLP's inside
    // twice; two moments per row of each norm, one sum per row and head.
    assert_int_equal(slot->activation_bytes,
                     4 * rows * (4 * width + 3 * width + width + 2 * hidden + 4 + 3));
    backward_input(&net, 0);
    // Inputs of the four linears and gradients of their outputs; gradients of two norms.
    assert_int_equal(slot->gradient_bytes, 4 * rows * (2 * width + width + hidden) +
                                               4 * rows * (3 * width + width + hidden + width) +
                                               4 * 4 * width);
    const int64_t before = exec_buffers_taken_bytes(net.buffers);
    exec_layer_backward_weight(net.layers[1], net.slots[1]);
    assert_int_equal(exec_buffers_taken_bytes(net.buffers), before - slot->gradient_bytes);

    network_destroy(&net);
}

static void check_recomputation(const kind_of_model *kind)
{
    exec_model model = model_of(kind);
    network kept, again;
    network_create(&kept, &model);
    model.recomputes = true;
    network_create(&again, &model);
    load(&kept, 0);
    load(&again, 0);

    assert_close(forward(&again, 0), forward(&kept, 0), 0);
    assert_int_equal(again.slots[1]->activation_bytes, 4 * again.row_count * model.width);
    backward_input(&kept, 0);
    backward_input(&again, 0);
    assert_int_equal(again.slots[1]->gradient_bytes, kept.slots[1]->gradient_bytes);
    backward_weight(&kept, 0);
    backward_weight(&again, 0);

    for (int layer = 0; layer < kept.layer_count; layer++) {
        assert_memory_equal(again.layers[layer]->gradient, kept.layers[layer]->gradient,
                            kept.layers[layer]->parameter_count * sizeof(float));
    }
    network_destroy(&kept);
    network_destroy(&again);
}

TEST(blocks_that_compute_f_again_keep_their_input_and_give_the_same_bits)
{
    for (int kind = 0; kind < KINDS; kind++) {
        check_recomputation(&kinds[kind]);
    }
}

TEST(frozen_layers_pass_gradients_on_and_keep_nothing_for_weights)
{
    const exec_model model = odd_model();
    network live, frozen;
    network_create(&live, &model);
    network_create(&frozen, &model);
    frozen.layers[2]->is_frozen = true;
    load(&live, 0);
    load(&frozen, 0);

    const double loss = forward(&live, 0);
    backward_input(&live, 0);
    assert_close(forward(&frozen, 0), loss, 0);
    backward_input(&frozen, 0);

    assert_memory_equal(frozen.gradient, live.gradient,
                        (size_t)(live.row_count * model.width) * sizeof(float));
    assert_true(frozen.slots[2]->activation_bytes < live.slots[2]->activation_bytes);
    assert_int_equal(frozen.slots[2]->gradient_bytes, 0);
    exec_layer_update(frozen.layers[2], 1, NULL);
    assert_int_equal(frozen.layers[2]->step, 0);
    assert_close(exec_layer_square_norm(frozen.layers[2]), 0, 0);

    network_destroy(&live);
    network_destroy(&frozen);
}

TEST(after_a_frozen_front_no_gradient_of_the_input_is_made)
{
    const exec_model model = odd_model();
    network live, frozen;
    network_create(&live, &model);
    network_create(&frozen, &model);
    for (int layer = 0; layer < 2; layer++) {
        frozen.layers[layer]->is_frozen = true;
        frozen.layers[layer]->passes_no_gradient = true;
    }
    frozen.layers[2]->passes_no_gradient = true;
    load(&live, 0);
    load(&frozen, 0);

    forward(&live, 0);
    backward_input(&live, 0);
    backward_weight(&live, 0);
    forward(&frozen, 0);
    backward_input(&frozen, 2);
    backward_weight(&frozen, 2);

    assert_int_equal(frozen.slots[0]->activation_bytes, 0);
    assert_int_equal(frozen.slots[1]->activation_bytes, 0);
    for (int layer = 2; layer < live.layer_count; layer++) {
        assert_memory_equal(frozen.layers[layer]->gradient, live.layers[layer]->gradient,
                            live.layers[layer]->parameter_count * sizeof(float));
    }
    network_destroy(&live);
    network_destroy(&frozen);
}

TEST(parameters_come_from_seed_and_layer_alone)
{
    exec_model model = odd_model();
    network first, second;
    network_create(&first, &model);
    model.seed++;
    network_create(&second, &model);
    float *before = memory_array(first.layers[1]->parameter_count, sizeof *before);
    const size_t bytes = first.layers[1]->parameter_count * sizeof *before;
    memcpy(before, first.layers[1]->master, bytes);
    memset(first.layers[1]->master, 1, 3 * bytes);
    first.layers[1]->step = 9;

    assert_ok(exec_layer_initialise(first.layers[1], NULL));

    assert_memory_equal(first.layers[1]->master, before, bytes);
    assert_memory_not_equal(first.layers[1]->master, first.layers[2]->master, bytes);
    assert_memory_not_equal(first.layers[1]->master, second.layers[1]->master, bytes);
    assert_true(first.layers[1]->moment1[0] == 0 && first.layers[1]->moment2[0] == 0);
    assert_int_equal(first.layers[1]->step, 0);
    free(before);
    network_destroy(&first);
    network_destroy(&second);
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}

/// A block on its own over plain C, and whether its gradients are those of finite differences.
#pragma once

#include "base/rng.h"
#include "exec/model/mechanism.h"
#include "exec/model/moe_half.h"
#include "tests/test.h"

#include <stdlib.h>
#include <string.h>

#ifndef BLOCK_FIXTURE_LENGTH
#define BLOCK_FIXTURE_LENGTH 12
#endif

enum {
    WIDTH = 16,
    LENGTH = BLOCK_FIXTURE_LENGTH,
    SEQUENCES = 2,
    ROWS = LENGTH * SEQUENCES,
    VALUES = ROWS * WIDTH
};

/// A block of its own, with a slot, an input and a slope: the loss is the sum of slope * output,
/// and what the block adds of its own.
typedef struct block_fixture block_fixture;
struct block_fixture {
    exec_model model;
    exec_kernels *kernels;
    exec_buffers *buffers;
    exec_layer *layer;
    exec_slot *slot;
    float input[VALUES], slope[VALUES];
    uint8_t live[ROWS]; // in front of the block
    uint8_t live_after[ROWS];
    float output[VALUES];
    int target[ROWS];
    int load[EXEC_EXPERT_COUNT_MAX];                  // that the device has counted
    double (*own_loss)(const block_fixture *fixture); // NULL: none
    double rounding;                                  // of the loss over the step of a difference
};

static inline void fill(float *values, size_t count, double largest, uint64_t seed)
{
    rng random = rng_init(seed, 0);
    for (size_t at = 0; at < count; at++) {
        values[at] = (float)(largest * (2 * rng_unit(&random) - 1));
    }
}

static inline exec_model model_of(exec_mechanism mechanism)
{
    exec_model model = exec_model_default();
    model.block_count = 3;
    model.width = WIDTH;
    model.head_count = 2;
    model.hidden_width = 2 * WIDTH;
    model.sequence_length = LENGTH;
    model.microbatch_size = SEQUENCES;
    model.mechanism = mechanism;
    return model;
}

/// Opens block (from 0) of a model, with parameters large enough to matter.
static inline void open_block(block_fixture *fixture, const exec_model *model, int block)
{
    *fixture = (block_fixture){.model = *model};
    require(exec_model_check(&fixture->model, &why));
    require(exec_kernels_cpu_open(&fixture->kernels));
    fixture->buffers = exec_buffers_create(fixture->kernels);
    fixture->layer = exec_layer_create(&fixture->model, fixture->buffers, 1 + block);
    require(exec_layer_initialise(fixture->layer, &why));
    fixture->slot = exec_slot_create(fixture->layer);
    fill(fixture->layer->master, fixture->layer->parameter_count, 0.5, 5);
    exec_layer_refresh(fixture->layer);
    fill(fixture->input, VALUES, 1, 6);
    fill(fixture->slope, VALUES, 1, 7);
    memset(fixture->live, 1, sizeof fixture->live);
    fixture->rounding = 1e-4 * sqrt(VALUES); // of a loss that is a sum of so many products
    for (int row = 0; row < ROWS; row++) {
        fixture->target[row] = row * 7 % model->vocabulary;
    }
}

static inline void close_block(block_fixture *fixture)
{
    exec_slot_destroy(fixture->layer, fixture->slot);
    exec_layer_destroy(fixture->layer);
    exec_buffers_destroy(fixture->buffers);
    fixture->kernels->table->close(fixture->kernels);
}

static inline void run_forward(block_fixture *fixture)
{
    uint8_t has_left[ROWS];
    exec_flow flow = {.values = fixture->output,
                      .row_count = ROWS,
                      .has_left = has_left,
                      .target = fixture->target,
                      .load = fixture->load,
                      .iteration = 3};
    memcpy(fixture->output, fixture->input, sizeof fixture->output);
    for (int row = 0; row < ROWS; row++) {
        has_left[row] = !fixture->live[row];
    }
    exec_layer_refresh(fixture->layer); // the test may have changed parameters
    require(exec_layer_forward(fixture->layer, fixture->slot, &flow, &why));
    require(fixture->kernels->table->finish(fixture->kernels, &why));
    for (int row = 0; row < ROWS; row++) {
        fixture->live_after[row] = !has_left[row];
    }
}

/// The balance loss with coefficient 1: 1 where shares and probabilities are even, up to
/// expert_count where all go to one.
static inline double balance_of(const exec_routing *routing)
{
    double sum = 0;
    for (int expert = 0; expert < routing->expert_count; expert++) {
        const double share = (double)routing->count[expert] / (routing->row_count * routing->top_k);
        double probability = 0;
        for (int row = 0; row < routing->row_count; row++) {
            probability += (double)routing->probability[row * routing->expert_count + expert];
        }
        sum += share * probability / routing->row_count;
    }
    return routing->expert_count * sum;
}

static inline double loss_of(block_fixture *fixture)
{
    double loss = 0;
    run_forward(fixture);
    for (int at = 0; at < VALUES; at++) {
        loss += (double)fixture->output[at] * (double)fixture->slope[at];
    }
    if (fixture->model.mechanism == EXEC_MOE) {
        const exec_block_slot *slot = (const exec_block_slot *)fixture->slot;
        loss += fixture->model.moe.balance * balance_of(&slot->moe->routing);
    }
    return fixture->own_loss != NULL ? loss + fixture->own_loss(fixture) : loss;
}

/// Derivative of the loss along a direction, by differences.
static inline double slope_along(block_fixture *fixture, float *values, size_t count,
                                 const float *direction)
{
    const double step = 1.0 / 512;
    double loss[2];
    float *kept = malloc(count * sizeof *kept);
    assert_non_null(kept);
    memcpy(kept, values, count * sizeof *kept);
    for (int side = 0; side < 2; side++) {
        const double signed_step = side == 0 ? -step : step;
        for (size_t at = 0; at < count; at++) {
            values[at] = (float)((double)kept[at] + signed_step * (double)direction[at]);
        }
        loss[side] = loss_of(fixture);
    }
    memcpy(values, kept, count * sizeof *kept);
    free(kept);
    return (loss[1] - loss[0]) / (2 * step);
}

/// Asserts that the gradient agrees with differences along some random directions.
static inline void check_gradient(block_fixture *fixture, const char *name, float *values,
                                  size_t count, const float *gradient)
{
    for (uint64_t seed = 20; seed < 24; seed++) {
        float *direction = malloc(count * sizeof *direction);
        double product = 0;
        double scale = 0;
        assert_non_null(direction);
        fill(direction, count, 1 / sqrt((double)count), seed);
        for (size_t at = 0; at < count; at++) {
            product += (double)gradient[at] * (double)direction[at];
            scale += (double)gradient[at] * (double)gradient[at];
        }
        const double difference = slope_along(fixture, values, count, direction);
        free(direction);
        const double tolerance = 2e-3 * sqrt(scale / (double)count) + fixture->rounding;
        if (!(fabs(product - difference) <= tolerance)) {
            fail_msg("%s: gradient gives %.9g, differences %.9g", name, product, difference);
        }
    }
}

/// Runs F, B and W. Gradients of parameters are added to those that there are.
static inline void run_passes(block_fixture *fixture, float input_gradient[VALUES])
{
    run_forward(fixture);
    memcpy(input_gradient, fixture->slope, sizeof fixture->slope);
    require(exec_layer_backward_input(fixture->layer, fixture->slot, input_gradient, &why));
    exec_layer_backward_weight(fixture->layer, fixture->slot);
    require(fixture->kernels->table->finish(fixture->kernels, &why));
}

/// Gradients of input and parameters after F, B and W.
static inline void check_gradients(block_fixture *fixture)
{
    exec_layer *layer = fixture->layer;
    float input_gradient[VALUES];
    float *gradient = malloc(layer->parameter_count * sizeof *gradient);
    assert_non_null(gradient);
    run_passes(fixture, input_gradient);
    memcpy(gradient, layer->gradient, layer->parameter_count * sizeof *gradient);
    check_gradient(fixture, "input", fixture->input, VALUES, input_gradient);
    for (int index = 0; index < layer->tensor_count; index++) {
        const exec_tensor *tensor = &layer->tensors[index];
        check_gradient(fixture, tensor->name, layer->master + tensor->offset,
                       (size_t)tensor->rows * (size_t)tensor->columns, gradient + tensor->offset);
    }
    free(gradient);
}

static inline int64_t load_of(const block_fixture *fixture, int column)
{
    const exec_mechanism_table *mechanism = exec_mechanism_find(fixture->model.mechanism);
    int64_t count[EXEC_EXPERT_COUNT_MAX] = {0};
    if (mechanism->load == NULL) return fixture->load[column];
    mechanism->load(fixture->layer, fixture->slot, count);
    return count[column];
}

/// Copies the tensors that both layers have.
static inline void copy_parameters(const exec_layer *from, exec_layer *to)
{
    for (int left = 0; left < from->tensor_count; left++) {
        for (int right = 0; right < to->tensor_count; right++) {
            const exec_tensor *tensor = &from->tensors[left];
            if (strcmp(tensor->name, to->tensors[right].name) != 0) continue;
            memcpy(to->master + to->tensors[right].offset, from->master + tensor->offset,
                   (size_t)tensor->rows * (size_t)tensor->columns * sizeof(float));
        }
    }
    exec_layer_refresh(to);
}

static inline float *tensor_of(const exec_layer *layer, const char *name)
{
    for (int index = 0; index < layer->tensor_count; index++) {
        if (strcmp(layer->tensors[index].name, name) == 0) {
            return layer->master + layer->tensors[index].offset;
        }
    }
    fail_msg("no tensor '%s'", name);
    return NULL;
}

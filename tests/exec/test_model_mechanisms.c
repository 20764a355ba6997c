/// A whole model, embedding to head, with experts, mixture of depths or early exit: the gradient of
/// every layer against finite differences of the loss, with every choice as it is.
#include "exec/model/block_layer.h"
#include "exec/model/moe_half.h"

#include "base/arena.h"
#include "base/rng.h"
#include "tests/assert_close.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 3, LAYERS = BLOCKS + 2, WIDTH = 16, LENGTH = 12, ROWS = 2 * LENGTH };

typedef struct model_fixture {
    exec_model model;
    exec_kernels *kernels;
    exec_buffers *buffers;
    exec_layer *layers[LAYERS];
    exec_slot *slots[LAYERS];
    int token[ROWS], target[ROWS];
    float loss[ROWS];
    uint8_t is_live[ROWS];
    float values[ROWS * WIDTH], gradient[ROWS * WIDTH];
} model_fixture;

static void require(status code, const error_message *err)
{
    if (code != STATUS_OK) fail_msg("%s", err->message);
}

static void fill(float *values, size_t count, double largest, uint64_t seed)
{
    rng random = rng_init(seed, 0);
    for (size_t at = 0; at < count; at++) {
        values[at] = (float)(largest * (2 * rng_unit(&random) - 1));
    }
}

static void open_model(model_fixture *fixture, exec_mechanism mechanism)
{
    error_message err = {0};
    rng random = rng_init(9, 0);
    *fixture = (model_fixture){.model = exec_model_default()};
    exec_model *model = &fixture->model;
    model->block_count = BLOCKS;
    model->width = WIDTH;
    model->head_count = 2;
    model->vocabulary = 32;
    model->sequence_length = LENGTH;
    model->microbatch_size = 2;
    model->mechanism = mechanism;
    model->moe = (exec_moe_options){.expert_count = 4, .top_k = 2, .balance = 0.5};
    model->mod = (exec_mod_options){.capacity_ratio = 0.5, .every = 2};
    model->early_exit = (exec_early_exit_options){.threshold = 0.7};
    require(exec_model_check(model, &err), &err);
    require(exec_kernels_cpu_open(&fixture->kernels), &err);
    fixture->buffers = exec_buffers_create(fixture->kernels);
    for (int layer = 0; layer < LAYERS; layer++) {
        exec_layer **made = &fixture->layers[layer];
        require(exec_layer_create(model, fixture->buffers, layer, made, &err), &err);
        require(exec_layer_initialise(*made, &err), &err);
        fill((*made)->master, (*made)->parameter_count, 0.4, 30 + (uint64_t)layer);
        exec_layer_refresh(*made);
        require(exec_slot_create(*made, &fixture->slots[layer], &err), &err);
    }
    for (int row = 0; row < ROWS; row++) {
        fixture->token[row] = (int)rng_below(&random, 32);
        fixture->target[row] = (int)rng_below(&random, 32);
    }
}

static void close_model(model_fixture *fixture)
{
    for (int layer = 0; layer < LAYERS; layer++) {
        exec_slot_destroy(fixture->layers[layer], fixture->slots[layer]);
        exec_layer_destroy(fixture->layers[layer]);
    }
    exec_buffers_destroy(fixture->buffers);
    fixture->kernels->table->close(fixture->kernels);
}

/// Loss of the head, and of the balance of experts.
static double loss_of(model_fixture *fixture)
{
    error_message err = {0};
    exec_flow flow = {.values = fixture->values,
                      .row_count = ROWS,
                      .is_live = fixture->is_live,
                      .token = fixture->token,
                      .target = fixture->target,
                      .loss = fixture->loss,
                      .iteration = 1000};
    double loss = 0;
    memset(fixture->is_live, 1, ROWS);
    for (int layer = 0; layer < LAYERS; layer++) {
        require(exec_layer_forward(fixture->layers[layer], fixture->slots[layer], &flow, &err),
                &err);
        if (fixture->model.mechanism != EXEC_MOE || layer == 0 || layer == LAYERS - 1) continue;
        const exec_block_slot *slot = (const exec_block_slot *)fixture->slots[layer];
        loss += fixture->model.moe.balance * exec_routing_balance(exec_moe_slot_routing(slot->moe));
    }
    for (int row = 0; row < ROWS; row++) {
        loss += (double)fixture->loss[row] / ROWS;
    }
    return loss;
}

static double slope_along(model_fixture *fixture, exec_layer *layer, const float *direction)
{
    const double step = 1.0 / 1024;
    const size_t count = layer->parameter_count;
    double loss[2];
    float *kept = memory_array(count, sizeof *kept);
    assert_non_null(kept);
    memcpy(kept, layer->master, count * sizeof *kept);
    for (int side = 0; side < 2; side++) {
        const double signed_step = side == 0 ? -step : step;
        for (size_t at = 0; at < count; at++) {
            layer->master[at] = (float)((double)kept[at] + signed_step * (double)direction[at]);
        }
        exec_layer_refresh(layer);
        loss[side] = loss_of(fixture);
    }
    memcpy(layer->master, kept, count * sizeof *kept);
    exec_layer_refresh(layer);
    free(kept);
    return (loss[1] - loss[0]) / (2 * step);
}

/// Along the gradient itself, made of length 1, where the slope is the gradient's length.
static void check_layer(model_fixture *fixture, int index)
{
    exec_layer *layer = fixture->layers[index];
    const size_t count = layer->parameter_count;
    float *direction = memory_array(count, sizeof *direction);
    double square = 0;
    assert_non_null(direction);
    for (size_t at = 0; at < count; at++) {
        square += (double)layer->gradient[at] * (double)layer->gradient[at];
    }
    const double length = sqrt(square);
    for (size_t at = 0; at < count; at++) {
        direction[at] = (float)((double)layer->gradient[at] / length);
    }
    const double slope = slope_along(fixture, layer, direction);
    free(direction);
    if (!(fabs(slope - length) <= 0.01 * length + 1e-4)) {
        fail_msg("%s, layer %d: gradient of length %.9g, differences %.9g",
                 exec_mechanism_names[fixture->model.mechanism], index, length, slope);
    }
}

/// Gradients of all layers after F, B and W.
static void check_model(model_fixture *fixture)
{
    error_message err = {0};
    loss_of(fixture);
    for (int layer = LAYERS - 1; layer >= 0; layer--) {
        require(exec_layer_backward_input(fixture->layers[layer], fixture->slots[layer],
                                          fixture->gradient, &err),
                &err);
        require(exec_layer_backward_weight(fixture->layers[layer], fixture->slots[layer], &err),
                &err);
    }
    for (int layer = 0; layer < LAYERS; layer++) {
        check_layer(fixture, layer);
    }
}

static void a_model_of_experts_has_the_gradient_of_loss_and_balance(void **state)
{
    (void)state;
    model_fixture fixture;
    open_model(&fixture, EXEC_MOE);

    check_model(&fixture);

    close_model(&fixture);
}

static void a_model_that_chooses_rows_has_the_gradient_of_its_loss(void **state)
{
    (void)state;
    model_fixture fixture;
    open_model(&fixture, EXEC_MOD);

    check_model(&fixture);

    close_model(&fixture);
}

static void a_model_that_tokens_leave_has_the_gradient_of_its_loss(void **state)
{
    (void)state;
    model_fixture fixture;
    int live = 0;
    open_model(&fixture, EXEC_EARLY_EXIT);

    check_model(&fixture);

    for (int row = 0; row < ROWS; row++) {
        live += fixture.is_live[row];
    }
    assert_in_range(live, 1, ROWS - 2);
    close_model(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_of_experts_has_the_gradient_of_loss_and_balance),
        cmocka_unit_test(a_model_that_chooses_rows_has_the_gradient_of_its_loss),
        cmocka_unit_test(a_model_that_tokens_leave_has_the_gradient_of_its_loss),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

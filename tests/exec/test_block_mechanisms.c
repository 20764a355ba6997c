// Blocks with experts, with chosen rows and with early exit, over plain C: gradients against finite
// differences with the routing as it is, outputs against a dense block, loads and memory.
#include "exec/block_layer.h"
#include "exec/block_rows.h"
#include "exec/mechanism.h"
#include "exec/moe_half.h"

#include "base/rng.h"
#include "tests/assert_close.h"

#include <stdlib.h>
#include <string.h>

enum { WIDTH = 16, LENGTH = 12, SEQUENCES = 2, ROWS = LENGTH * SEQUENCES, VALUES = ROWS * WIDTH };

/// A block of its own, with a slot, an input and a slope: the loss is the sum of slope * output.
typedef struct block_fixture {
    exec_model model;
    exec_kernels *kernels;
    exec_buffers *buffers;
    exec_layer *layer;
    exec_slot *slot;
    float input[VALUES], slope[VALUES];
    uint8_t live[ROWS]; // in front of the block
    uint8_t live_after[ROWS];
    float output[VALUES];
} block_fixture;

static void fill(float *values, size_t count, double largest, uint64_t seed)
{
    rng random = rng_init(seed, 0);
    for (size_t at = 0; at < count; at++) {
        values[at] = (float)(largest * (2 * rng_unit(&random) - 1));
    }
}

static void require(status code, const error_message *err)
{
    if (code != STATUS_OK) fail_msg("%s", err->message);
}

static exec_model model_of(exec_mechanism mechanism)
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
static void open_block(block_fixture *fixture, const exec_model *model, int block)
{
    error_message err = {0};
    *fixture = (block_fixture){.model = *model};
    require(exec_model_check(&fixture->model, &err), &err);
    require(exec_kernels_cpu_open(&fixture->kernels, &err), &err);
    require(exec_buffers_create(fixture->kernels, &fixture->buffers, &err), &err);
    require(exec_layer_create(&fixture->model, fixture->buffers, 1 + block, &fixture->layer, &err),
            &err);
    require(exec_layer_initialise(fixture->layer, &err), &err);
    require(exec_slot_create(fixture->layer, &fixture->slot, &err), &err);
    fill(fixture->layer->master, fixture->layer->parameter_count, 0.5, 5);
    exec_layer_refresh(fixture->layer);
    fill(fixture->input, VALUES, 1, 6);
    fill(fixture->slope, VALUES, 1, 7);
    memset(fixture->live, 1, sizeof fixture->live);
}

static void close_block(block_fixture *fixture)
{
    exec_slot_destroy(fixture->layer, fixture->slot);
    exec_layer_destroy(fixture->layer);
    exec_buffers_destroy(fixture->buffers);
    fixture->kernels->table->close(fixture->kernels);
}

static void run_forward(block_fixture *fixture)
{
    error_message err = {0};
    exec_flow flow = {.values = fixture->output,
                      .row_count = ROWS,
                      .is_live = fixture->live_after,
                      .iteration = 3};
    memcpy(fixture->output, fixture->input, sizeof fixture->output);
    memcpy(fixture->live_after, fixture->live, sizeof fixture->live);
    require(exec_layer_forward(fixture->layer, fixture->slot, &flow, &err), &err);
    require(fixture->kernels->table->finish(fixture->kernels, &err), &err);
}

static double loss_of(block_fixture *fixture)
{
    double loss = 0;
    run_forward(fixture);
    for (int at = 0; at < VALUES; at++) {
        loss += (double)fixture->output[at] * (double)fixture->slope[at];
    }
    if (fixture->model.mechanism == EXEC_MOE) {
        const exec_block_slot *slot = (const exec_block_slot *)fixture->slot;
        loss += fixture->model.moe.balance * exec_routing_balance(exec_moe_slot_routing(slot->moe));
    }
    return loss;
}

/// Derivative of the loss along a direction, by differences.
static double slope_along(block_fixture *fixture, float *values, size_t count,
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
static void check_gradient(block_fixture *fixture, const char *name, float *values, size_t count,
                           const float *gradient)
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
        if (!(fabs(product - difference) <= 2e-3 * sqrt(scale / (double)count) + 2e-3)) {
            fail_msg("%s: gradient gives %.9g, differences %.9g", name, product, difference);
        }
    }
}

/// Gradients of input and parameters after F, B and W.
static void check_gradients(block_fixture *fixture)
{
    error_message err = {0};
    exec_layer *layer = fixture->layer;
    float input_gradient[VALUES];
    float *gradient = malloc(layer->parameter_count * sizeof *gradient);
    assert_non_null(gradient);
    run_forward(fixture);
    memcpy(input_gradient, fixture->slope, sizeof input_gradient);
    require(exec_layer_backward_input(layer, fixture->slot, input_gradient, &err), &err);
    require(exec_layer_backward_weight(layer, fixture->slot, &err), &err);
    require(fixture->kernels->table->finish(fixture->kernels, &err), &err);
    memcpy(gradient, layer->gradient, layer->parameter_count * sizeof *gradient);
    check_gradient(fixture, "input", fixture->input, VALUES, input_gradient);
    for (int index = 0; index < layer->tensor_count; index++) {
        const exec_tensor *tensor = &layer->tensors[index];
        check_gradient(fixture, tensor->name, layer->master + tensor->offset,
                       (size_t)tensor->rows * (size_t)tensor->columns, gradient + tensor->offset);
    }
    free(gradient);
}

static int64_t load_of(const block_fixture *fixture, int column)
{
    int64_t count[EXEC_EXPERT_COUNT_MAX] = {0};
    exec_mechanism_find(fixture->model.mechanism)->load(fixture->layer, fixture->slot, count);
    return count[column];
}

static void experts_have_the_gradients_of_finite_differences(void **state)
{
    (void)state;
    for (int top_k = 1; top_k <= 3; top_k++) {
        block_fixture fixture;
        exec_model model = model_of(EXEC_MOE);
        model.moe = (exec_moe_options){
            .expert_count = 4, .top_k = top_k, .expert_width = 8, .balance = 0.5};
        open_block(&fixture, &model, 0);

        check_gradients(&fixture);

        close_block(&fixture);
    }
}

static void chosen_rows_have_the_gradients_of_finite_differences(void **state)
{
    (void)state;
    block_fixture fixture;
    exec_model model = model_of(EXEC_MOD);
    model.mod = (exec_mod_options){.capacity_ratio = 0.4, .every = 1};
    open_block(&fixture, &model, 0);

    check_gradients(&fixture);

    assert_int_equal(load_of(&fixture, 0), 10);
    close_block(&fixture);
}

static void live_rows_have_the_gradients_of_finite_differences(void **state)
{
    (void)state;
    block_fixture fixture;
    exec_model model = model_of(EXEC_EARLY_EXIT);
    model.early_exit = (exec_early_exit_options){.threshold = 0.5};
    open_block(&fixture, &model, 1);
    for (int row = 0; row < ROWS; row++) {
        fixture.live[row] = row % 3 != 0 && row < ROWS - 4;
    }

    check_gradients(&fixture);

    assert_int_equal(load_of(&fixture, 0), 13);
    close_block(&fixture);
}

/// Copies the tensors that both layers have.
static void copy_parameters(const exec_layer *from, exec_layer *to)
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

static float *tensor_of(exec_layer *layer, const char *name)
{
    for (int index = 0; index < layer->tensor_count; index++) {
        if (strcmp(layer->tensors[index].name, name) == 0) {
            return layer->master + layer->tensors[index].offset;
        }
    }
    fail_msg("no tensor '%s'", name);
    return NULL;
}

static void experts_that_are_all_alike_are_the_dense_block(void **state)
{
    (void)state;
    block_fixture dense;
    block_fixture experts;
    const exec_model plain = model_of(EXEC_DENSE);
    exec_model model = model_of(EXEC_MOE);
    model.moe = (exec_moe_options){.expert_count = 4, .top_k = 2, .expert_width = 2 * WIDTH};
    open_block(&dense, &plain, 0);
    open_block(&experts, &model, 0);
    copy_parameters(dense.layer, experts.layer);
    const size_t matrix = (size_t)WIDTH * 2 * WIDTH;
    for (size_t expert = 0; expert < 4; expert++) {
        memcpy(tensor_of(experts.layer, "experts up") + expert * matrix,
               tensor_of(dense.layer, "up"), matrix * sizeof(float));
        memcpy(tensor_of(experts.layer, "experts up bias") + expert * 2 * WIDTH,
               tensor_of(dense.layer, "up bias"), 2 * WIDTH * sizeof(float));
        memcpy(tensor_of(experts.layer, "experts down") + expert * matrix,
               tensor_of(dense.layer, "down"), matrix * sizeof(float));
        memcpy(tensor_of(experts.layer, "experts down bias") + expert * WIDTH,
               tensor_of(dense.layer, "down bias"), WIDTH * sizeof(float));
    }
    exec_layer_refresh(experts.layer);

    run_forward(&dense);
    run_forward(&experts);

    for (int at = 0; at < VALUES; at++) {
        assert_true(fabs((double)(dense.output[at] - experts.output[at])) < 1e-4);
    }
    int64_t sum = 0;
    for (int expert = 0; expert < 4; expert++) {
        sum += load_of(&experts, expert);
    }
    assert_int_equal(sum, 2 * ROWS);
    close_block(&experts);
    close_block(&dense);
}

static void all_rows_chosen_are_the_dense_block_times_the_gate(void **state)
{
    (void)state;
    block_fixture dense;
    block_fixture chosen;
    const exec_model plain = model_of(EXEC_DENSE);
    exec_model model = model_of(EXEC_MOD);
    model.mod = (exec_mod_options){.capacity_ratio = 1, .every = 1};
    open_block(&dense, &plain, 0);
    open_block(&chosen, &model, 0);
    copy_parameters(dense.layer, chosen.layer);
    const float *router = tensor_of(chosen.layer, "row router");

    run_forward(&dense);
    run_forward(&chosen);

    for (int row = 0; row < ROWS; row++) {
        double score = 0;
        for (int column = 0; column < WIDTH; column++) {
            score += (double)router[column] * (double)dense.input[row * WIDTH + column];
        }
        for (int at = row * WIDTH; at < (row + 1) * WIDTH; at++) {
            const double change = (double)dense.output[at] - (double)dense.input[at];
            const double expected = (double)dense.input[at] + change / (1 + exp(-score));
            assert_true(fabs((double)chosen.output[at] - expected) < 1e-4);
        }
    }
    close_block(&chosen);
    close_block(&dense);
}

static void rows_that_are_not_chosen_pass_by_unchanged(void **state)
{
    (void)state;
    block_fixture fixture;
    exec_model model = model_of(EXEC_MOD);
    model.mod = (exec_mod_options){.capacity_ratio = 0.25, .every = 2};
    open_block(&fixture, &model, 1);

    run_forward(&fixture);

    int changed = 0;
    for (int row = 0; row < ROWS; row++) {
        if (memcmp(fixture.output + row * WIDTH, fixture.input + row * WIDTH,
                   WIDTH * sizeof(float)) != 0) {
            changed++;
        }
    }
    assert_int_equal(changed, 6);
    assert_int_equal(load_of(&fixture, 0), 6);
    close_block(&fixture);
}

static void blocks_between_the_routing_ones_compute_all_rows(void **state)
{
    (void)state;
    block_fixture fixture;
    exec_model model = model_of(EXEC_MOD);
    model.mod = (exec_mod_options){.capacity_ratio = 0.25, .every = 2};
    open_block(&fixture, &model, 2);

    run_forward(&fixture);

    assert_int_equal(load_of(&fixture, 0), ROWS);
    close_block(&fixture);
}

static void live_rows_are_computed_as_a_dense_block_computes_them_alone(void **state)
{
    (void)state;
    block_fixture live;
    block_fixture dense;
    exec_model model = model_of(EXEC_EARLY_EXIT);
    exec_model plain = model_of(EXEC_DENSE);
    model.early_exit = (exec_early_exit_options){.threshold = 1};
    plain.sequence_length = LENGTH / 2;
    open_block(&live, &model, 0);
    open_block(&dense, &plain, 0);
    copy_parameters(dense.layer, live.layer);
    for (int row = 0; row < ROWS; row++) {
        live.live[row] = row % 2 == 1;
        if (row % 2 == 0) continue;
        memcpy(dense.output + row / 2 * WIDTH, live.input + row * WIDTH, WIDTH * sizeof(float));
    }
    error_message err = {0};
    exec_flow flow = {.values = dense.output, .row_count = ROWS / 2, .is_live = dense.live_after};

    run_forward(&live);
    require(exec_layer_forward(dense.layer, dense.slot, &flow, &err), &err);

    for (int row = 0; row < ROWS; row++) {
        const float *expected =
            row % 2 == 1 ? dense.output + row / 2 * WIDTH : live.input + row * WIDTH;
        assert_memory_equal(live.output + row * WIDTH, expected, WIDTH * sizeof(float));
    }
    assert_memory_equal(live.live_after, live.live, ROWS);
    close_block(&dense);
    close_block(&live);
}

static void rows_leave_where_the_block_hardly_turned_them(void **state)
{
    (void)state;
    block_fixture fixture;
    exec_model model = model_of(EXEC_EARLY_EXIT);
    model.early_exit = (exec_early_exit_options){.threshold = 0.6};
    open_block(&fixture, &model, 0);
    fixture.live[3] = 0;

    run_forward(&fixture);

    int left = 0;
    for (int row = 0; row < ROWS; row++) {
        double product = 0;
        double before = 0;
        double after = 0;
        for (int at = row * WIDTH; at < (row + 1) * WIDTH; at++) {
            product += (double)fixture.input[at] * (double)fixture.output[at];
            before += (double)fixture.input[at] * (double)fixture.input[at];
            after += (double)fixture.output[at] * (double)fixture.output[at];
        }
        const bool is_saturated = product > 0.6 * sqrt(before * after);
        assert_int_equal(fixture.live_after[row], row != 3 && !is_saturated);
        if (fixture.live_after[row] == 0) left++;
    }
    assert_in_range(left, 2, ROWS - 1);
    close_block(&fixture);
}

static void nobody_leaves_behind_the_last_block_or_in_front_of_the_first_exit(void **state)
{
    (void)state;
    exec_model model = model_of(EXEC_EARLY_EXIT);
    model.early_exit = (exec_early_exit_options){.threshold = -0.99, .first_exit = 1};
    for (int block = 0; block < 3; block++) {
        block_fixture fixture;
        open_block(&fixture, &model, block);

        run_forward(&fixture);

        int left = 0;
        for (int row = 0; row < ROWS; row++) {
            if (fixture.live_after[row] == 0) left++;
        }
        assert_int_equal(left, block == 1 ? ROWS : 0);
        close_block(&fixture);
    }
}

static void a_block_without_live_rows_does_nothing(void **state)
{
    (void)state;
    error_message err = {0};
    block_fixture fixture;
    const exec_model model = model_of(EXEC_EARLY_EXIT);
    open_block(&fixture, &model, 0);
    memset(fixture.live, 0, sizeof fixture.live);
    float gradient[VALUES];
    memcpy(gradient, fixture.slope, sizeof gradient);

    run_forward(&fixture);
    require(exec_layer_backward_input(fixture.layer, fixture.slot, gradient, &err), &err);
    require(exec_layer_backward_weight(fixture.layer, fixture.slot, &err), &err);

    assert_memory_equal(fixture.output, fixture.input, sizeof fixture.output);
    assert_memory_equal(gradient, fixture.slope, sizeof gradient);
    assert_int_equal(load_of(&fixture, 0), 0);
    assert_true(exec_layer_square_norm(fixture.layer) == 0);
    close_block(&fixture);
}

static void memory_follows_the_rows_that_are_computed(void **state)
{
    (void)state;
    int64_t activation_bytes[2];
    int64_t gradient_bytes[2];
    for (int half = 0; half < 2; half++) {
        error_message err = {0};
        block_fixture fixture;
        exec_model model = model_of(EXEC_EARLY_EXIT);
        model.early_exit.threshold = 1;
        open_block(&fixture, &model, 0);
        for (int row = 0; half == 1 && row < ROWS; row++) {
            fixture.live[row] = row % 2 == 0;
        }
        run_forward(&fixture);
        activation_bytes[half] = fixture.slot->activation_bytes;
        require(exec_layer_backward_input(fixture.layer, fixture.slot, fixture.slope, &err), &err);
        gradient_bytes[half] = fixture.slot->gradient_bytes;
        require(exec_layer_backward_weight(fixture.layer, fixture.slot, &err), &err);
        close_block(&fixture);
    }
    // Numbers of rows, which do not shrink, are a small part.
    assert_close((double)activation_bytes[1], 0.5 * (double)activation_bytes[0], 0.1);
    assert_close((double)gradient_bytes[1], 0.5 * (double)gradient_bytes[0], 0.1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(experts_have_the_gradients_of_finite_differences),
        cmocka_unit_test(chosen_rows_have_the_gradients_of_finite_differences),
        cmocka_unit_test(live_rows_have_the_gradients_of_finite_differences),
        cmocka_unit_test(experts_that_are_all_alike_are_the_dense_block),
        cmocka_unit_test(all_rows_chosen_are_the_dense_block_times_the_gate),
        cmocka_unit_test(rows_that_are_not_chosen_pass_by_unchanged),
        cmocka_unit_test(blocks_between_the_routing_ones_compute_all_rows),
        cmocka_unit_test(live_rows_are_computed_as_a_dense_block_computes_them_alone),
        cmocka_unit_test(rows_leave_where_the_block_hardly_turned_them),
        cmocka_unit_test(nobody_leaves_behind_the_last_block_or_in_front_of_the_first_exit),
        cmocka_unit_test(a_block_without_live_rows_does_nothing),
        cmocka_unit_test(memory_follows_the_rows_that_are_computed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

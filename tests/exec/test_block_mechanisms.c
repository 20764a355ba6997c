/// Blocks with experts, with chosen rows and with early exit, over plain C: gradients against
/// finite differences with the routing as it is, outputs against a dense block, loads and memory.
#include "exec/model/block_layer.h"
#include "tests/exec/block_fixture.h"

TEST(experts_have_the_gradients_of_finite_differences)
{
    for (int top_k = 1; top_k <= 3; top_k++) {
        block_fixture fixture;
        exec_model model = model_of(EXEC_MOE);
        model.moe = (exec_moe_options){
            .expert_count = 4, .top_k = top_k, .expert_width = 8, .balance = 0.5};
        open_block(&fixture, &model, 0);

        check_gradients(&fixture);
        close_block(&fixture);

        model.has_rms_norm = model.is_gated = model.lacks_mlp_bias = true;
        open_block(&fixture, &model, 0);
        check_gradients(&fixture);
        close_block(&fixture);
    }
}

TEST(chosen_rows_have_the_gradients_of_finite_differences)
{
    block_fixture fixture;
    exec_model model = model_of(EXEC_MOD);
    model.mod = (exec_mod_options){.capacity_ratio = 0.4, .every = 1};
    for (int is_rotary = 0; is_rotary < 2; is_rotary++) {
        if (is_rotary != 0) {
            model.rotary_base = 100;
            model.kv_head_count = 1;
        }
        open_block(&fixture, &model, 0);

        check_gradients(&fixture);

        assert_int_equal(load_of(&fixture, 0), 10);
        close_block(&fixture);
    }
}

/// What a block makes of some rows is what it makes of sequences without the others, where
/// positions do not count. Where they do, it is not.
TEST(chosen_rows_keep_their_positions)
{
    float output[2][VALUES];
    for (int is_rotary = 0; is_rotary < 2; is_rotary++) {
        block_fixture fixture;
        exec_model model = model_of(EXEC_EARLY_EXIT);
        model.early_exit = (exec_early_exit_options){.threshold = 1};
        model.rotary_base = is_rotary != 0 ? 100 : 0;
        for (int gap = 0; gap < 2; gap++) {
            open_block(&fixture, &model, 1);
            for (int row = 0; row < ROWS; row++) {
                const int position = row % LENGTH;
                fixture.live[row] = position == 0 || position == (gap != 0 ? 5 : 1);
                if (position == 5) {
                    memcpy(fixture.input + (ptrdiff_t)row * WIDTH,
                           fixture.input + (ptrdiff_t)(row - 4) * WIDTH, WIDTH * sizeof(float));
                }
            }
            run_forward(&fixture);
            memcpy(output[gap], fixture.output, sizeof fixture.output);
            close_block(&fixture);
        }
        const float *near_row = output[0] + WIDTH, *far_row = output[1] + 5 * (ptrdiff_t)WIDTH;
        const bool is_same = memcmp(near_row, far_row, WIDTH * sizeof(float)) == 0;
        assert_int_equal(is_same, is_rotary == 0);
    }
}

TEST(live_rows_have_the_gradients_of_finite_differences)
{
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

TEST(experts_that_are_all_alike_are_the_dense_block)
{
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

TEST(all_rows_chosen_are_the_dense_block_times_the_gate)
{
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

/// Of every second block; those between compute all rows.
TEST(rows_that_are_not_chosen_pass_by_unchanged)
{
    exec_model model = model_of(EXEC_MOD);
    model.mod = (exec_mod_options){.capacity_ratio = 0.25, .every = 2};
    for (int block = 1; block <= 2; block++) {
        block_fixture fixture;
        open_block(&fixture, &model, block);

        run_forward(&fixture);

        int changed = 0;
        for (int at = 0; at < VALUES; at += WIDTH) {
            const size_t bytes = WIDTH * sizeof(float);
            changed += memcmp(fixture.output + at, fixture.input + at, bytes) != 0;
        }
        assert_int_equal(changed, block == 1 ? 6 : ROWS);
        assert_int_equal(load_of(&fixture, 0), changed);
        close_block(&fixture);
    }
}

TEST(live_rows_are_computed_as_a_dense_block_computes_them_alone)
{
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
    exec_flow flow = {.values = dense.output, .row_count = ROWS / 2};

    run_forward(&live);
    require(exec_layer_forward(dense.layer, dense.slot, &flow, &why));

    for (int row = 0; row < ROWS; row++) {
        const float *expected =
            row % 2 == 1 ? dense.output + row / 2 * WIDTH : live.input + row * WIDTH;
        assert_memory_equal(live.output + row * WIDTH, expected, WIDTH * sizeof(float));
    }
    assert_memory_equal(live.live_after, live.live, ROWS);
    close_block(&dense);
    close_block(&live);
}

TEST(nobody_leaves_after_the_last_block_or_in_front_of_the_first_exit)
{
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

int main(void)
{
    return run_all_tests(NULL, NULL);
}

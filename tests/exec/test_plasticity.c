/// When layers freeze: movement, calm and the order front to back, by numbers worked out by hand;
/// and what a frozen layer still has, computes and sends.
#include "base/arena.h"
#include "exec/mechanism/mechanisms.h"
#include "exec/model/layer.h"
#include "tests/exec/block_fixture.h"

TEST(movement_is_relative_to_the_size)
{
    const float before[] = {3, 0, 0};
    const float now[] = {0, 4, 0};

    assert_close(exec_parameter_movement(now, before, 3), 5.0 / 4, 1e-12);
    assert_true(exec_parameter_movement(before, before, 3) == 0);
    assert_true(exec_parameter_movement((const float[]){0}, before, 1) == 0);
}

TEST(a_layer_is_calm_far_below_its_largest_movement)
{
    const exec_freezing_options options = exec_model_default().freezing; // half
    exec_plasticity plasticity = {0};

    exec_plasticity_observe(&plasticity, 4, true, &options);
    assert_int_equal(plasticity.calm_count, 0);
    exec_plasticity_observe(&plasticity, 1, true, &options); // (4 + 1) / 2 = 2.5
    assert_int_equal(plasticity.calm_count, 0);
    exec_plasticity_observe(&plasticity, 1, true, &options); // 1.75 < 2
    assert_int_equal(plasticity.calm_count, 1);
    exec_plasticity_observe(&plasticity, 1, true, &options);
    assert_int_equal(plasticity.calm_count, 2);
    exec_plasticity_observe(&plasticity, 9, true, &options);
    assert_int_equal(plasticity.calm_count, 0);
    assert_close(plasticity.largest, (1.375 + 9) / 2, 1e-12);
}

TEST(a_layer_after_the_first_waits)
{
    const exec_freezing_options options = exec_model_default().freezing;
    exec_plasticity plasticity = {0};

    exec_plasticity_observe(&plasticity, 4, false, &options);
    exec_plasticity_observe(&plasticity, 0, false, &options);
    exec_plasticity_observe(&plasticity, 0, false, &options);
    assert_int_equal(plasticity.calm_count, 0);
    exec_plasticity_observe(&plasticity, 0, true, &options);
    assert_int_equal(plasticity.calm_count, 1);
}

TEST(layers_freeze_front_to_back)
{
    const exec_freezing_options options = exec_model_default().freezing; // 6 of 8
    const int64_t none[8] = {0};
    const int64_t two[8] = {1, 1};
    const int64_t calm[8] = {1, 1, 0, 1, 1, 1, 1, 1};
    const int64_t calm_after[8] = {0, 0, 1, 1, 1, 1, 1, 1};

    assert_int_equal(exec_frozen_layer_count(none, none, 8, &options), 0);
    assert_int_equal(exec_frozen_layer_count(none, calm, 8, &options), 2);
    assert_int_equal(exec_frozen_layer_count(none, calm_after, 8, &options), 0);
    assert_int_equal(exec_frozen_layer_count(two, calm, 8, &options), 2);
    assert_int_equal(exec_frozen_layer_count(two, calm_after, 8, &options), 6);
}

TEST(decisions_are_at_the_end_of_intervals)
{
    const exec_freezing_options options = exec_model_default().freezing; // 10

    assert_false(exec_freezing_decides(&options, 0));
    assert_true(exec_freezing_decides(&options, 9));
    assert_false(exec_freezing_decides(&options, 10));
    assert_true(exec_freezing_decides(&options, 19));
}

/// B of a block, from the fixture's slope.
static void run_backward(block_fixture *fixture, float *gradient)
{
    run_forward(fixture);
    memcpy(gradient, fixture->slope, VALUES * sizeof *gradient);
    require(exec_layer_backward_input(fixture->layer, fixture->slot, gradient, &why));
}

TEST(a_frozen_block_passes_the_gradient_on)
{
    block_fixture fixture;
    float live[VALUES];
    float frozen[VALUES];
    const exec_model model = model_of(EXEC_FREEZING);
    open_block(&fixture, &model, 0);
    run_backward(&fixture, live);
    exec_layer_backward_weight(fixture.layer, fixture.slot);
    const int64_t live_bytes = fixture.slot->activation_bytes;
    const int64_t live_state_bytes = exec_layer_state_bytes(fixture.layer, true);

    require(exec_layer_set_frozen(fixture.layer, true, &why));
    run_backward(&fixture, frozen);

    assert_memory_equal(frozen, live, sizeof live);
    assert_true(fixture.slot->activation_bytes < live_bytes);
    assert_null(fixture.layer->gradient);
    // Its state is parameters alone; before, moments and the reference travelled too.
    const int64_t parameters = (int64_t)fixture.layer->parameter_count;
    assert_int_equal(live_state_bytes - exec_layer_state_bytes(fixture.layer, true),
                     3 * 4 * parameters);
    close_block(&fixture);
}

TEST(a_frozen_prefix_keeps_nothing_of_a_microbatch)
{
    block_fixture fixture;
    const exec_model model = model_of(EXEC_FREEZING);
    open_block(&fixture, &model, 0);
    require(exec_layer_set_frozen(fixture.layer, true, &why));
    fixture.layer->passes_no_gradient = true;

    run_forward(&fixture);

    assert_int_equal(fixture.slot->activation_bytes, 0);
    assert_int_equal(load_of(&fixture, 0), 0);
    close_block(&fixture);
}

TEST(the_state_of_a_frozen_layer_freezes_another)
{
    block_fixture from;
    block_fixture to;
    const exec_model model = model_of(EXEC_FREEZING);
    for (int frozen = 0; frozen < 2; frozen++) {
        open_block(&from, &model, 0);
        open_block(&to, &model, 0);
        // The receiver was otherwise before.
        require(exec_layer_set_frozen(frozen == 1 ? from.layer : to.layer, true, &why));
        fill(from.layer->master, from.layer->parameter_count, 1, 9);
        exec_layer_refresh(from.layer);
        const int64_t byte_count = exec_layer_state_bytes(from.layer, true);
        void *bytes = memory_array(2, (size_t)byte_count);
        assert_non_null(bytes);

        require(exec_layer_state_pack(from.layer, true, bytes, &why));
        require(exec_layer_state_unpack(to.layer, bytes, byte_count, NULL, &why));

        assert_int_equal(to.layer->is_frozen, frozen);
        assert_int_equal(exec_layer_state_bytes(to.layer, true), byte_count);
        require(exec_layer_state_pack(to.layer, true, (char *)bytes + byte_count, &why));
        assert_memory_equal(bytes, (char *)bytes + byte_count, (size_t)byte_count);
        free(bytes);
        close_block(&to);
        close_block(&from);
    }
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}

/// A pruned block over plain C: gradients against finite differences with the mask as it is, and
/// the block on its way to another rank.
#include "base/arena.h"
#include "tests/exec/block_fixture.h"

enum { MASK_BYTES_MAX = 1 << 10 };

/// Takes a mask that leaves about every third weight of the matrices, as bytes of its state.
static int64_t draw_mask(const exec_layer *layer, uint8_t *bytes)
{
    int64_t weights = 0;
    rng random = rng_init(11, 0);
    for (int index = 0; index < layer->tensor_count; index++) {
        const exec_tensor *tensor = &layer->tensors[index];
        if (tensor->rows > 1) weights += (int64_t)tensor->rows * tensor->columns;
    }
    const int64_t byte_count = (weights + 7) / 8;
    assert_true(byte_count <= MASK_BYTES_MAX);
    memset(bytes, 0, (size_t)byte_count);
    for (int64_t at = 0; at < weights; at++) {
        if (rng_below(&random, 3) == 0) bytes[at / 8] |= (uint8_t)(1U << (at % 8));
    }
    return byte_count;
}

static void open_pruned(block_fixture *fixture)
{
    error_message err = {0};
    uint8_t bytes[MASK_BYTES_MAX];
    const exec_model model = model_of(EXEC_PRUNING);
    open_block(fixture, &model, 0);
    const int64_t byte_count = draw_mask(fixture->layer, bytes);
    require(exec_mechanism_pruning.unpack(fixture->layer, bytes, byte_count, &err), &err);
    exec_layer *layer = fixture->layer;
    layer->kernels->table->mask(layer->kernels, layer->master, exec_mechanism_pruning.keep(layer),
                                layer->parameter_count);
    exec_layer_refresh(layer);
}

static void zeros_have_the_gradients_of_finite_differences(void **state)
{
    (void)state;
    block_fixture fixture;
    open_pruned(&fixture);

    check_gradients(&fixture);

    close_block(&fixture);
}

static void pruned_weights_stay_zero_after_updates(void **state)
{
    (void)state;
    block_fixture fixture;
    error_message err = {0};
    float gradient[VALUES];
    open_pruned(&fixture);
    exec_layer *layer = fixture.layer;
    const uint8_t *keep = exec_mechanism_pruning.keep(layer);
    memcpy(gradient, fixture.slope, sizeof gradient);

    run_forward(&fixture);
    require(exec_layer_backward_input(layer, fixture.slot, gradient, &err), &err);
    require(exec_layer_backward_weight(layer, fixture.slot, &err), &err);
    exec_layer_update(layer, 1, keep);

    int64_t zero_count = 0;
    for (size_t at = 0; at < layer->parameter_count; at++) {
        if (keep[at] != 0) continue;
        assert_true(layer->master[at] == 0 && layer->moment1[at] == 0 && layer->moment2[at] == 0);
        zero_count++;
    }
    assert_true(zero_count > 0);
    assert_int_equal(load_of(&fixture, 0), load_of(&fixture, 1) - zero_count);
    close_block(&fixture);
}

static void what_is_left_of_a_layer_travels(void **state)
{
    (void)state;
    block_fixture from;
    block_fixture to;
    error_message err = {0};
    const exec_model model = model_of(EXEC_PRUNING);
    open_pruned(&from);
    open_block(&to, &model, 0);
    fill(from.layer->moment2, from.layer->parameter_count, 1, 5);
    from.layer->kernels->table->mask(from.layer->kernels, from.layer->moment2,
                                     exec_mechanism_pruning.keep(from.layer),
                                     from.layer->parameter_count);
    const int64_t whole = exec_layer_state_bytes(to.layer, true);
    const int64_t pruned = load_of(&from, 1) - load_of(&from, 0);
    const int64_t mask = exec_mechanism_pruning.packed_bytes(from.layer);
    const int64_t byte_count = exec_layer_state_bytes(from.layer, true);
    char *bytes = memory_array(1, (size_t)byte_count);

    require(exec_layer_state_pack(from.layer, true, bytes, &err), &err);
    require(exec_layer_state_unpack(to.layer, bytes, byte_count, NULL, &err), &err);

    assert_true(pruned > 0);
    assert_int_equal(byte_count, whole + mask - 3 * 4 * pruned); // parameter and both moments
    const size_t array_bytes = from.layer->parameter_count * sizeof(float);
    assert_memory_equal(from.layer->master, to.layer->master, array_bytes);
    assert_memory_equal(from.layer->moment1, to.layer->moment1, array_bytes);
    assert_memory_equal(from.layer->moment2, to.layer->moment2, array_bytes);
    run_forward(&from);
    run_forward(&to);
    assert_memory_equal(from.output, to.output, sizeof from.output);
    free(bytes);
    close_block(&to);
    close_block(&from);
}

/// Every length but the right one, and a mask of another count than the numbers after it.
static void bytes_of_another_length_are_refused(void **state)
{
    (void)state;
    block_fixture from;
    block_fixture to;
    error_message err = {0};
    const exec_model model = model_of(EXEC_PRUNING);
    open_pruned(&from);
    open_block(&to, &model, 0);
    const int64_t byte_count = exec_layer_state_bytes(from.layer, true);
    uint8_t *bytes = memory_array(1, (size_t)byte_count + 1);
    require(exec_layer_state_pack(from.layer, true, bytes, &err), &err);

    for (int64_t length = 0; length <= byte_count + 1; length++) {
        if (length == byte_count) continue;
        assert_int_equal(exec_layer_state_unpack(to.layer, bytes, length, NULL, &err),
                         STATUS_FORMAT);
    }
    const int64_t floats =
        3 * 4 * ((int64_t)from.layer->parameter_count - (load_of(&from, 1) - load_of(&from, 0)));
    const int64_t mask = exec_mechanism_pruning.packed_bytes(from.layer);
    bytes[byte_count - floats - mask] ^= 1;
    assert_int_equal(exec_layer_state_unpack(to.layer, bytes, byte_count, NULL, &err),
                     STATUS_FORMAT);
    free(bytes);
    close_block(&to);
    close_block(&from);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(zeros_have_the_gradients_of_finite_differences),
        cmocka_unit_test(pruned_weights_stay_zero_after_updates),
        cmocka_unit_test(what_is_left_of_a_layer_travels),
        cmocka_unit_test(bytes_of_another_length_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

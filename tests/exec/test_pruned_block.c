/// A pruned block over plain C: gradients against finite differences with the mask as it is, both
/// ways of computing against each other, and the mask on its way to another rank.
#include "base/arena.h"
#include "exec/model/pruned_layer.h"
#include "tests/exec/block_fixture.h"

/// Opens a block of which about every third weight of the matrices is left.
///
/// @param compress_density 1: in compressed rows, 0: dense with zeros
static void open_pruned(block_fixture *fixture, double compress_density)
{
    error_message err = {0};
    exec_model model = model_of(EXEC_PRUNING);
    model.pruning.compress_density = compress_density;
    open_block(fixture, &model, 0);
    exec_pruned_layer *pruned = exec_pruned_layer_of(fixture->layer);
    rng random = rng_init(11, 0);
    for (int64_t at = 0; at < pruned->weight_count; at++) {
        pruned->host_keep[at] = rng_below(&random, 3) == 0;
    }
    require(exec_pruned_layer_apply(fixture->layer, &err), &err);
}

static void compressed_rows_have_the_gradients_of_finite_differences(void **state)
{
    (void)state;
    block_fixture fixture;
    open_pruned(&fixture, 1);

    check_gradients(&fixture);

    close_block(&fixture);
}

static void zeros_have_the_gradients_of_finite_differences(void **state)
{
    (void)state;
    block_fixture fixture;
    open_pruned(&fixture, 0);

    check_gradients(&fixture);

    close_block(&fixture);
}

/// F, B and W; the gradient of the input goes to input_gradient.
static void run_all(block_fixture *fixture, float *input_gradient)
{
    error_message err = {0};
    run_forward(fixture);
    memcpy(input_gradient, fixture->slope, VALUES * sizeof *input_gradient);
    require(exec_layer_backward_input(fixture->layer, fixture->slot, input_gradient, &err), &err);
    require(exec_layer_backward_weight(fixture->layer, fixture->slot, &err), &err);
}

static void assert_close_values(const float *one, const float *other, size_t count)
{
    for (size_t at = 0; at < count; at++) {
        assert_true(fabs((double)one[at] - (double)other[at]) < 1e-4);
    }
}

static void compressed_rows_compute_what_zeros_do(void **state)
{
    (void)state;
    block_fixture dense;
    block_fixture compressed;
    float gradient[2][VALUES];
    open_pruned(&dense, 0);
    open_pruned(&compressed, 1);
    const exec_layer *layer = dense.layer;
    const uint8_t *keep = exec_mechanism_pruning.keep(layer);

    run_all(&dense, gradient[0]);
    run_all(&compressed, gradient[1]);
    dense.kernels->table->mask(dense.kernels, layer->gradient, keep, layer->parameter_count);

    assert_close_values(dense.output, compressed.output, VALUES);
    assert_close_values(gradient[0], gradient[1], VALUES);
    assert_close_values(layer->gradient, compressed.layer->gradient, layer->parameter_count);
    assert_int_equal(load_of(&dense, 0), load_of(&compressed, 0));
    close_block(&compressed);
    close_block(&dense);
}

static void pruned_weights_stay_zero_behind_updates(void **state)
{
    (void)state;
    block_fixture fixture;
    float gradient[VALUES];
    open_pruned(&fixture, 0);
    const exec_layer *layer = fixture.layer;
    const uint8_t *keep = exec_mechanism_pruning.keep(layer);

    run_all(&fixture, gradient);
    exec_layer_update(fixture.layer, 1, keep);

    int64_t zero_count = 0;
    for (size_t at = 0; at < layer->parameter_count; at++) {
        if (keep[at] != 0) continue;
        assert_true(layer->master[at] == 0 && layer->moment1[at] == 0 && layer->moment2[at] == 0);
        zero_count++;
    }
    const exec_pruned_layer *pruned = exec_pruned_layer_of(layer);
    assert_int_equal(zero_count, pruned->weight_count - pruned->kept_count);
    assert_int_equal(load_of(&fixture, 0), pruned->kept_count);
    close_block(&fixture);
}

static void the_mask_travels_with_the_layer(void **state)
{
    (void)state;
    block_fixture from;
    block_fixture to;
    error_message err = {0};
    const exec_model model = model_of(EXEC_PRUNING);
    open_pruned(&from, 1);
    open_block(&to, &model, 0);
    const int64_t byte_count = exec_mechanism_pruning.packed_bytes(from.layer);
    void *bytes = memory_array(1, (size_t)byte_count);
    assert_non_null(bytes);
    assert_int_equal(exec_mechanism_pruning.packed_bytes(to.layer), 0); // nothing is pruned yet

    exec_mechanism_pruning.pack(from.layer, bytes);
    to.model.pruning.compress_density = 1;
    require(exec_mechanism_pruning.unpack(to.layer, bytes, byte_count, &err), &err);

    assert_memory_equal(exec_pruned_layer_of(to.layer)->host_keep,
                        exec_pruned_layer_of(from.layer)->host_keep,
                        (size_t)exec_pruned_layer_of(from.layer)->weight_count);
    run_forward(&from);
    run_forward(&to);
    assert_memory_equal(from.output, to.output, sizeof from.output);
    assert_int_equal(exec_mechanism_pruning.unpack(to.layer, bytes, byte_count - 1, &err),
                     STATUS_FORMAT);
    free(bytes);
    close_block(&to);
    close_block(&from);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compressed_rows_have_the_gradients_of_finite_differences),
        cmocka_unit_test(zeros_have_the_gradients_of_finite_differences),
        cmocka_unit_test(compressed_rows_compute_what_zeros_do),
        cmocka_unit_test(pruned_weights_stay_zero_behind_updates),
        cmocka_unit_test(the_mask_travels_with_the_layer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

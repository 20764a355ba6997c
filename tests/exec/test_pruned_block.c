/// A pruned block over plain C, with a mask and in compressed rows: gradients against finite
/// differences, equal bits of both, and the block on its way to another rank.
#include "base/arena.h"
#include "exec/model/compression.h"
#include "tests/exec/block_fixture.h"

enum { MASK_BYTES_MAX = 1 << 10, WEIGHTS_MAX = 8 * MASK_BYTES_MAX };

static const double never = 0; // csr_from
static const double always = 0.01;

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

static exec_model pruned_model(double csr_from)
{
    exec_model model = model_of(EXEC_PRUNING);
    model.pruning.csr_from = csr_from;
    return model;
}

/// Of a layer that is not compressed.
static void set_pruned_to_zero(const exec_layer *layer, float *values)
{
    const uint8_t *keep = exec_mechanism_pruning.keep(layer);
    if (keep == NULL) return;
    layer->kernels->table->mask(layer->kernels, values, keep, layer->parameter_count);
}

static void open_pruned(block_fixture *fixture, double csr_from)
{
    uint8_t bytes[MASK_BYTES_MAX];
    const exec_model model = pruned_model(csr_from);
    open_block(fixture, &model, 0);
    const int64_t byte_count = draw_mask(fixture->layer, bytes);
    require(exec_mechanism_pruning.unpack(fixture->layer, bytes, byte_count, &why));
    set_pruned_to_zero(fixture->layer, fixture->layer->master);
    exec_layer_refresh(fixture->layer);
    assert_int_equal(exec_layer_is_compressed(fixture->layer), csr_from > 0);
}

TEST(zeros_have_the_gradients_of_finite_differences)
{
    block_fixture fixture;
    open_pruned(&fixture, never);

    check_gradients(&fixture);

    close_block(&fixture);
}

TEST(pruned_weights_stay_zero_after_updates)
{
    block_fixture fixture;
    float gradient[VALUES];
    open_pruned(&fixture, never);
    exec_layer *layer = fixture.layer;
    const uint8_t *keep = exec_mechanism_pruning.keep(layer);

    run_passes(&fixture, gradient);
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

/// F, B, W, the gradient's norm and three updates.
static void learn(block_fixture *fixture, float *gradient, double *square_norm)
{
    exec_layer *layer = fixture->layer;
    for (int update = 0; update < 3; update++) {
        memset(layer->gradient, 0, layer->held_count * sizeof *layer->gradient);
        run_passes(fixture, gradient);
        set_pruned_to_zero(layer, layer->gradient);
        *square_norm = exec_layer_square_norm(layer);
        exec_layer_update(layer, 1, exec_mechanism_pruning.keep(layer));
    }
}

TEST(compressed_rows_compute_the_bits_of_zeros_in_place)
{
    static const double csr_from[] = {never, always};
    block_fixture block[2];
    float gradient[2][VALUES];
    double square_norm[2];
    float *weights[2];
    for (int way = 0; way < 2; way++) {
        open_pruned(&block[way], csr_from[way]);
        learn(&block[way], gradient[way], &square_norm[way]);
        weights[way] = memory_array(WEIGHTS_MAX, sizeof(float));
        exec_layer_read_weights(block[way].layer, weights[way]);
    }

    assert_true(exec_layer_weight_count(block[0].layer) <= WEIGHTS_MAX);
    assert_memory_equal(block[0].output, block[1].output, sizeof block[0].output);
    assert_memory_equal(gradient[0], gradient[1], sizeof gradient[0]);
    assert_memory_equal(&square_norm[0], &square_norm[1], sizeof square_norm[0]);
    assert_memory_equal(weights[0], weights[1], WEIGHTS_MAX * sizeof(float));
    for (int way = 0; way < 2; way++) {
        free(weights[way]);
        close_block(&block[way]);
    }
}

/// From a mask to compressed rows, and from these to fewer: what stays keeps its numbers.
TEST(a_layer_is_compressed_step_by_step)
{
    block_fixture fixture;
    const exec_model model = pruned_model(always);
    open_block(&fixture, &model, 0);
    exec_layer *layer = fixture.layer;
    const int64_t count = exec_layer_weight_count(layer);
    float *before = memory_array((size_t)count, sizeof *before);
    float *after = memory_array((size_t)count, sizeof *after);
    uint8_t *keep = memory_array((size_t)count, 1);
    uint8_t *kept = memory_array((size_t)count, 1);
    exec_layer_read_weights(layer, before);

    for (int every = 2; every <= 8; every *= 2) {
        for (int64_t at = 0; at < count; at++) {
            keep[at] = at % every == 0;
        }
        exec_layer_compress(layer, keep);
        exec_layer_read_weights(layer, after);
        exec_layer_read_kept(layer, kept);
        assert_memory_equal(kept, keep, (size_t)count);
        for (int64_t at = 0; at < count; at++) {
            assert_true(after[at] == (keep[at] != 0 ? before[at] : 0));
        }
        assert_int_equal(layer->parameter_count - layer->held_count,
                         count - (count + every - 1) / every);
    }
    memset(keep, 0, (size_t)count);
    exec_layer_compress(layer, keep);
    assert_int_equal(layer->held_count, (int64_t)layer->parameter_count - count);
    run_forward(&fixture); // of biases and norms alone

    require(exec_layer_initialise(layer, &why));
    assert_false(exec_layer_is_compressed(layer));
    free(before);
    free(after);
    free(keep);
    free(kept);
    close_block(&fixture);
}

/// Four floats and a column of each weight that is left, the first entry of each row of the four
/// matrices and one more: no mask.
TEST(a_compressed_layer_holds_what_is_left)
{
    block_fixture fixture;
    open_pruned(&fixture, always);
    const exec_layer *layer = fixture.layer;
    const int64_t pruned = load_of(&fixture, 1) - load_of(&fixture, 0);
    const int rows = WIDTH + WIDTH + WIDTH + 2 * WIDTH;

    assert_true(pruned > 0);
    assert_int_equal(layer->held_count, (int64_t)layer->parameter_count - pruned);
    assert_int_equal(exec_mechanism_pruning.state_bytes(layer),
                     4 * load_of(&fixture, 0) + 8 * (rows + 4));
    close_block(&fixture);
}

static void check_travel(double csr_from)
{
    block_fixture from;
    block_fixture to;
    const exec_model model = pruned_model(csr_from);
    open_pruned(&from, csr_from);
    open_block(&to, &model, 0);
    fill(from.layer->moment2, from.layer->held_count, 1, 5);
    set_pruned_to_zero(from.layer, from.layer->moment2);
    const int64_t whole = exec_layer_state_bytes(to.layer, true);
    const int64_t pruned = load_of(&from, 1) - load_of(&from, 0);
    const int64_t mask = exec_mechanism_pruning.packed_bytes(from.layer);
    const int64_t byte_count = exec_layer_state_bytes(from.layer, true);
    char *bytes = memory_array(1, (size_t)byte_count);

    require(exec_layer_state_pack(from.layer, true, bytes, &why));
    require(exec_layer_state_unpack(to.layer, bytes, byte_count, NULL, &why));

    assert_true(pruned > 0);
    assert_int_equal(byte_count, whole + mask - 3 * 4 * pruned); // parameter and both moments
    assert_int_equal(from.layer->held_count, to.layer->held_count);
    const size_t array_bytes = from.layer->held_count * sizeof(float);
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

TEST(what_is_left_of_a_layer_travels)
{
    check_travel(never);
    check_travel(always);
}

/// Every length but the right one, and a mask of another count than the numbers after it.
static void check_lengths(double csr_from)
{
    block_fixture from;
    block_fixture to;
    const exec_model model = pruned_model(csr_from);
    open_pruned(&from, csr_from);
    open_block(&to, &model, 0);
    const int64_t byte_count = exec_layer_state_bytes(from.layer, true);
    uint8_t *bytes = memory_array(1, (size_t)byte_count + 1);
    require(exec_layer_state_pack(from.layer, true, bytes, &why));

    for (int64_t length = 0; length <= byte_count + 1; length++) {
        if (length == byte_count) continue;
        assert_int_equal(exec_layer_state_unpack(to.layer, bytes, length, NULL, &why),
                         STATUS_FORMAT);
    }
    const int64_t floats =
        3 * 4 * ((int64_t)from.layer->parameter_count - (load_of(&from, 1) - load_of(&from, 0)));
    const int64_t mask = exec_mechanism_pruning.packed_bytes(from.layer);
    bytes[byte_count - floats - mask] ^= 1;
    assert_int_equal(exec_layer_state_unpack(to.layer, bytes, byte_count, NULL, &why),
                     STATUS_FORMAT);
    free(bytes);
    close_block(&to);
    close_block(&from);
}

TEST(bytes_of_another_length_are_refused)
{
    check_lengths(never);
    check_lengths(always);
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}

/// When the ops of a device that learns are told to have run, over kernels that run behind their
/// caller: shown with kernels on the host that have a clock of marks.
#include "base/arena.h"
#include "exec/training/training_device.h"
#include "tests/exec/learning_run.h"

enum { MARKS_MAX = 256, MARK_NS = 10 };

static exec_kernel_table marking_table;
static int mark_count; // highest mark, and one

/// The place that is noted under a number is number * MARK_NS after mark 0.
static void mark(exec_kernels *kernels, int number)
{
    assert_in_range(number, 0, MARKS_MAX - 1);
    if (number >= mark_count) mark_count = number + 1;
}

static int64_t mark_ns(exec_kernels *kernels, int number)
{
    assert_true(number < mark_count);
    return (int64_t)number * MARK_NS;
}

static exec_device *open_device(exec_training_device options)
{
    exec_kernels *kernels = NULL;
    require(exec_kernels_cpu_open(&kernels));
    marking_table = *kernels->table;
    marking_table.mark = mark;
    marking_table.mark_ns = mark_ns;
    kernels->table = &marking_table;
    mark_count = 0;
    options.text = &learning_text;
    options.backend = EXEC_BACKEND_CUDA_FP32; // of the table that stands in for
    return exec_training_device_create_over(&options, 0, kernels);
}

static void hold(exec_device *device, const bal_placed_partition *plan, int place)
{
    exec_layer_report report;
    require(device->table->hold(device, plan, place, 1, &why));
    device->table->report(device, &report);
    for (int row = 0; row < report.layer_count; row++) {
        assert_ok(device->table->initialise(device, report.layer[row], &why));
    }
}

static void begin(exec_device *device)
{
    const exec_iteration at = {.rank_time_factor = 1};
    assert_ok(device->table->begin(device, &at, NULL));
}

static exec_payload play(exec_device *device, const exec_step *step, const exec_payload *input)
{
    exec_payload output = {0};
    int64_t duration_ns = 0;
    require(device->table->play(device, step, input, &output, &duration_ns, &why));
    return output;
}

TEST(times_of_ops_that_run_ahead_come_at_the_end)
{
    const exec_model model = learning_model(EXEC_DENSE);
    exec_device *device = open_device((exec_training_device){.model = &model, .runs_ahead = true});
    const bal_placed_partition plan = {
        .first_layer = (const int[]){0, 8}, .rank_count = 1, .chunk_count = 1};
    const exec_step alone = {.wait_place = -1, .wait_stage = -1, .send_place = -1};
    exec_step steps[3] = {alone, alone, alone};
    int64_t begin_ns[3];
    int64_t end_ns[3];
    exec_layer_report report;
    steps[0].op.kind = OP_FORWARD;
    steps[1].op.kind = OP_BACKWARD_INPUT;
    steps[2].op.kind = OP_BACKWARD_WEIGHT;
    hold(device, &plan, 0);

    begin(device);
    for (int step = 0; step < 3; step++) {
        play(device, &steps[step], NULL);
    }
    assert_true(device->table->is_asynchronous);
    assert_ok(device->table->finish(device, begin_ns, end_ns, NULL));
    device->table->report(device, &report);

    // Mark 0 is the iteration's begin; every op has one at its begin and one after each layer.
    for (int step = 0; step < 3; step++) {
        assert_int_equal(begin_ns[step], (1 + 9 * step) * MARK_NS);
        assert_int_equal(end_ns[step], (9 + 9 * step) * MARK_NS);
    }
    for (int layer = 0; layer < 8; layer++) {
        assert_int_equal(report.forward_ns[layer], MARK_NS);
        assert_int_equal(report.backward_input_ns[layer], MARK_NS);
        assert_int_equal(report.backward_weight_ns[layer], MARK_NS);
    }
    device->table->destroy(device);
}

int main(void)
{
    return run_all_tests(learning_read_text, learning_free_text);
}

/// What a device that learns does over kernels that run behind their caller, and that hand memory
/// over: shown with kernels on the host that have a clock of marks, and that offer and take.
#include "base/arena.h"
#include "exec/model/training_device.h"
#include "tests/exec/learning_run.h"

#include <stdlib.h>

enum { MARKS_MAX = 256, MARK_NS = 10 };

static exec_kernel_table marking_table;
static int mark_count; // highest mark, and one
static int offered;
static int taken;

/// The place that is noted under a number is number * MARK_NS behind mark 0.
static status mark(exec_kernels *kernels, int number)
{
    (void)kernels;
    assert_in_range(number, 0, MARKS_MAX - 1);
    if (number >= mark_count) mark_count = number + 1;
    return STATUS_OK;
}

static int64_t mark_ns(exec_kernels *kernels, int number)
{
    (void)kernels;
    assert_true(number < mark_count);
    return (int64_t)number * MARK_NS;
}

static status offer(exec_kernels *kernels, const void *memory, size_t bytes,
                    exec_handover *described, error_message *err)
{
    (void)err;
    (void)kernels;
    void *copy = memory_array(1, bytes);
    memcpy(copy, memory, bytes);
    *described = (exec_handover){.byte_count = (int64_t)bytes, .memory = copy};
    offered++;
    return STATUS_OK;
}

static status take(exec_kernels *kernels, const exec_handover *described, void *to,
                   error_message *err)
{
    (void)kernels;
    (void)err;
    memcpy(to, described->memory, (size_t)described->byte_count);
    free(described->memory);
    taken++;
    return STATUS_OK;
}

static exec_device *open_device(exec_training_device options)
{
    exec_kernels *kernels = NULL;
    exec_device *device = NULL;
    error_message err = {0};
    if (exec_kernels_cpu_open(&kernels) != STATUS_OK) fail_msg("%s", err.message);
    marking_table = *kernels->table;
    marking_table.mark = mark;
    marking_table.mark_ns = mark_ns;
    marking_table.offer = offer;
    marking_table.take = take;
    kernels->table = &marking_table;
    mark_count = 0;
    options.text = &learning_text;
    options.backend = EXEC_BACKEND_CUDA_FP32; // of the table that stands in for
    if (exec_training_device_create_over(&options, 0, kernels, &device, &err) != STATUS_OK) {
        fail_msg("%s", err.message);
    }
    return device;
}

static void hold(exec_device *device, const bal_placed_partition *plan, int place)
{
    exec_layer_report report;
    error_message err = {0};
    if (device->table->hold(device, plan, place, 1, &err) != STATUS_OK) fail_msg("%s", err.message);
    device->table->report(device, &report);
    for (int row = 0; row < report.layer_count; row++) {
        assert_int_equal(device->table->initialise(device, report.layer[row], &err), STATUS_OK);
    }
}

static void begin(exec_device *device)
{
    const exec_iteration at = {.rank_time_factor = 1, .is_profiled = true};
    assert_int_equal(device->table->begin(device, &at, NULL), STATUS_OK);
}

static exec_payload play(exec_device *device, const exec_step *step, const exec_payload *input)
{
    exec_payload output = {0};
    int64_t duration_ns = 0;
    error_message err = {0};
    if (device->table->play(device, step, input, &output, &duration_ns, &err) != STATUS_OK) {
        fail_msg("%s", err.message);
    }
    return output;
}

static void times_of_ops_that_run_ahead_come_at_the_end(void **state)
{
    (void)state;
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
    assert_int_equal(device->table->finish(device, begin_ns, end_ns, NULL), STATUS_OK);
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

/// What two stages make of one microbatch.
typedef struct outcome {
    double loss;
    double norm[2];
    int64_t payload_bytes[2]; // forward, backward
} outcome;

static double norm_of(exec_device *device)
{
    const int own = 0;
    int sequence = 0;
    exec_endpoint endpoint = {.rank_count = 1};
    const exec_group alone = {
        .endpoint = &endpoint, .rank = &own, .rank_count = 1, .sequence = &sequence};
    double norm = 0;
    assert_int_equal(device->table->step(device, &alone, &norm, NULL), STATUS_OK);
    return norm;
}

static exec_payload carry(exec_device *to, const exec_step *step, const exec_payload *payload)
{
    void *place = NULL;
    assert_true(to->table->input_place(to, step, &place) >= payload->byte_count);
    memcpy(place, payload->bytes, (size_t)payload->byte_count);
    return (exec_payload){.bytes = place, .byte_count = payload->byte_count};
}

static outcome play_pair(exec_mechanism mechanism, bool hands_over_memory)
{
    exec_model model = learning_model(mechanism);
    model.early_exit.settle_iterations = 0;
    const exec_training_device options = {.model = &model, .hands_over_memory = hands_over_memory};
    exec_device *first = open_device(options);
    exec_device *second = open_device(options);
    const bal_placed_partition plan = {
        .first_layer = (const int[]){0, 4, 8}, .rank_count = 2, .chunk_count = 1};
    const exec_step front = {.op.kind = OP_FORWARD,
                             .wait_place = -1,
                             .wait_stage = -1,
                             .send_place = 1,
                             .send_stage = 1};
    const exec_step back = {.op.kind = OP_FORWARD, .stage = 1, .wait_place = 0, .send_place = -1};
    const exec_step turn = {.op.kind = OP_BACKWARD, .stage = 1, .wait_place = -1, .wait_stage = -1};
    const exec_step home = {
        .op.kind = OP_BACKWARD, .wait_place = 1, .wait_stage = 1, .send_place = -1};
    outcome result;
    hold(first, &plan, 0);
    hold(second, &plan, 1);
    begin(first);
    begin(second);

    exec_payload output = play(first, &front, NULL);
    exec_payload input = carry(second, &back, &output);
    result.payload_bytes[0] = output.byte_count;
    play(second, &back, &input);
    output = play(second, &turn, NULL);
    input = carry(first, &home, &output);
    result.payload_bytes[1] = output.byte_count;
    play(first, &home, &input);

    assert_true(second->table->loss(second, &result.loss));
    result.norm[0] = norm_of(first);
    result.norm[1] = norm_of(second);
    first->table->destroy(first);
    second->table->destroy(second);
    return result;
}

static void memory_that_is_handed_over_holds_the_same_bits(void **state)
{
    (void)state;
    const int rows = 2 * 32;
    const exec_mechanism mechanisms[] = {EXEC_DENSE, EXEC_EARLY_EXIT};
    for (int index = 0; index < 2; index++) {
        const bool has_live = mechanisms[index] == EXEC_EARLY_EXIT;
        offered = taken = 0;

        const outcome copied = play_pair(mechanisms[index], false);
        assert_int_equal(offered, 0);
        const outcome handed = play_pair(mechanisms[index], true);

        assert_int_equal(offered, 2);
        assert_int_equal(taken, 2);
        assert_true(copied.loss == handed.loss);
        assert_true(copied.norm[0] == handed.norm[0] && copied.norm[1] == handed.norm[1]);
        assert_int_equal(copied.payload_bytes[0], rows * (16 * 4 + has_live));
        assert_int_equal(copied.payload_bytes[1], rows * 16 * 4);
        assert_int_equal(handed.payload_bytes[0],
                         (int)sizeof(exec_handover) + (has_live ? rows : 0));
        assert_int_equal(handed.payload_bytes[1], sizeof(exec_handover));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_of_ops_that_run_ahead_come_at_the_end),
        cmocka_unit_test(memory_that_is_handed_over_holds_the_same_bits),
    };
    return cmocka_run_group_tests(tests, learning_read_text, learning_free_text);
}

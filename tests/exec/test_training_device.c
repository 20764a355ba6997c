/// The devices that learn: that packed layers keep their bits, what is
/// measured, what is refused, and that released ranks hold no memory.
#include "exec/device/device.h"
#include "exec/stopwatch.h"
#include "tests/exec/learning_run.h"

#include <time.h>

/// Two blocks of width 16, sequences of 16 bytes, one a microbatch.
static exec_model small_model(void)
{
    exec_model model = learning_model(EXEC_DENSE);
    model.block_count = 2;
    model.sequence_length = 16;
    model.microbatch_size = 1;
    return model;
}

/// A device on its own, with all memory that its kernels give counted.
typedef struct lone_device {
    exec_model model;
    exec_device *device;
    bal_schedule schedule;
    exec_program program;
    int64_t begin_ns[64];
    int64_t end_ns[64];
} lone_device;

static const exec_kernel_table *counted_table;
static int region_count; // that are allocated now

static void *allocate_counted(exec_kernels *kernels, size_t bytes)
{
    region_count++;
    return counted_table->allocate(kernels, bytes);
}

static void release_counted(exec_kernels *kernels, void *memory)
{
    if (memory != NULL) region_count--;
    counted_table->release(kernels, memory);
}

static void open_lone(lone_device *lone, arena *memory)
{
    static exec_kernel_table table;
    exec_kernels *kernels = NULL;
    lone->model = small_model();
    require(exec_kernels_cpu_open(&kernels));
    counted_table = kernels->table;
    table = *kernels->table;
    table.allocate = allocate_counted;
    table.release = release_counted;
    kernels->table = &table;
    exec_training_device options = {.model = &lone->model, .text = &learning_text};
    lone->device = exec_training_device_create_over(&options, 0, kernels);
    const bal_schedule_request request = {.name = "zb-h1", .rank_count = 1, .microbatch_count = 3};
    assert_ok(bal_schedule_build(&request, memory, &lone->schedule, &why));
    exec_program_compile(&lone->schedule, 0, memory, &lone->program);
}

static status hold_all(lone_device *lone, int place)
{
    const bal_placed_partition plan = {
        .first_layer = (const int[]){0, 4}, .rank_count = 1, .chunk_count = 1};
    return lone->device->table->hold(lone->device, &plan, place, 3, NULL);
}

static void hold_fresh(lone_device *lone)
{
    assert_ok(hold_all(lone, 0));
    for (int layer = 0; layer < 4; layer++) {
        assert_ok(lone->device->table->initialise(lone->device, layer, NULL));
    }
}

/// Plays one iteration and updates; returns the norm.
static double play_lone(lone_device *lone, int iteration)
{
    exec_device *device = lone->device;
    int own = 0;
    int sequence = 0;
    exec_endpoint endpoint = {.rank_count = 1};
    const exec_group alone = {
        .endpoint = &endpoint, .rank = &own, .rank_count = 1, .sequence = &sequence};
    const exec_iteration at = {.iteration = iteration, .rank_time_factor = 1};
    double norm = 0;
    status result = device->table->begin(device, &at, &why);
    for (int step = 0; step < lone->program.step_count && result == STATUS_OK; step++) {
        exec_payload output;
        int64_t duration_ns = -1;
        result = device->table->play(device, &lone->program.steps[step], NULL, &output,
                                     &duration_ns, &why);
        assert_true(duration_ns >= 0);
    }
    if (result == STATUS_OK) {
        result = device->table->finish(device, lone->begin_ns, lone->end_ns, &why);
    }
    if (result == STATUS_OK) result = device->table->step(device, &alone, &norm, &why);
    require(result);
    return norm;
}

TEST(packed_layers_go_on_with_the_same_bits)
{
    arena *memory = arena_create(1 << 14);
    lone_device first = {0};
    lone_device second = {0};
    open_lone(&first, memory);
    hold_fresh(&first);
    for (int iteration = 0; iteration < 3; iteration++) {
        play_lone(&first, iteration);
    }
    void *bytes[4];
    int64_t byte_count[4];
    for (int layer = 0; layer < 4; layer++) {
        byte_count[layer] = first.device->table->packed_bytes(first.device, layer);
        bytes[layer] = arena_array(memory, (size_t)byte_count[layer], 1);
        assert_ok(first.device->table->pack(first.device, layer, bytes[layer], NULL));
    }

    open_lone(&second, memory);
    assert_ok(hold_all(&second, 0));
    for (int layer = 0; layer < 4; layer++) {
        assert_ok(second.device->table->unpack(second.device, layer, bytes[layer],
                                               byte_count[layer], NULL));
    }

    for (int iteration = 3; iteration < 6; iteration++) {
        const double first_norm = play_lone(&first, iteration);
        const double second_norm = play_lone(&second, iteration);
        assert_true(first_norm == second_norm);
        double losses[2];
        assert_true(first.device->table->loss(first.device, &losses[0]));
        assert_true(second.device->table->loss(second.device, &losses[1]));
        assert_true(losses[0] == losses[1]);
    }
    first.device->table->destroy(first.device);
    second.device->table->destroy(second.device);
    arena_destroy(memory);
}

TEST(bytes_of_another_layer_are_refused)
{
    arena *memory = arena_create(1 << 14);
    lone_device lone = {0};
    open_lone(&lone, memory);
    hold_fresh(&lone);
    exec_device *device = lone.device;
    const int64_t byte_count = device->table->packed_bytes(device, 1);
    unsigned char *bytes = arena_array(memory, (size_t)byte_count, 1);
    assert_ok(device->table->pack(device, 1, bytes, NULL));

    assert_fails(device->table->unpack(device, 2, bytes, byte_count, &why), STATUS_FORMAT,
                 "layer 2: the packed bytes are not of this layer");
    assert_int_equal(device->table->unpack(device, 1, bytes, byte_count - 4, &why), STATUS_FORMAT);

    device->table->destroy(device);
    arena_destroy(memory);
}

TEST(iterations_that_cannot_be_played_are_refused)
{
    arena *memory = arena_create(1 << 14);
    lone_device lone = {0};
    open_lone(&lone, memory);
    assert_ok(hold_all(&lone, 0));
    const exec_iteration plain = {.rank_time_factor = 1};
    const exec_iteration faster = {.rank_time_factor = 0.5};

    assert_fails(lone.device->table->begin(lone.device, &plain, &why), STATUS_INVALID,
                 "layer 0 has no parameters yet");
    hold_fresh(&lone);
    assert_fails(lone.device->table->begin(lone.device, &faster, &why), STATUS_UNSUPPORTED,
                 "device cpu cannot have its ops take 0.5 times as long: cpu can where it "
                 "is more than 1, timed always");

    lone.device->table->destroy(lone.device);
    arena_destroy(memory);
}

static int64_t thread_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/// What is computed between the two laps takes at least as long as is seen here.
TEST(parts_of_ops_last_as_many_times_as_long_on_a_slow_rank)
{
    exec_kernels *kernels = NULL;
    arena *memory = arena_create(1 << 10);
    int64_t cell = 0;
    assert_ok(exec_kernels_cpu_open(&kernels));
    exec_stopwatch watch = exec_stopwatch_of(kernels, CLOCK_THREAD_CPUTIME_ID, 8, 2, memory);
    watch.time_factor = 3;
    assert_ok(exec_stopwatch_begin(&watch, &why));
    exec_stopwatch_begin_op(&watch);
    const int64_t begin_ns = thread_ns();
    while (thread_ns() - begin_ns < 100000) {
    }
    const int64_t computed_ns = thread_ns() - begin_ns;

    exec_stopwatch_lap(&watch, &cell, NULL);
    exec_stopwatch_end_op(&watch);
    assert_ok(exec_stopwatch_settle(&watch, 0, &why));

    assert_true(cell >= 3 * computed_ns);
    assert_true(exec_stopwatch_op_end_ns(&watch, 0) - exec_stopwatch_op_begin_ns(&watch, 0) >=
                3 * computed_ns);
    arena_destroy(memory);
    kernels->table->close(kernels);
}

TEST(every_layer_is_measured)
{
    arena *memory = arena_create(1 << 14);
    lone_device lone = {0};
    open_lone(&lone, memory);
    hold_fresh(&lone);
    exec_layer_report report;

    play_lone(&lone, 0);
    lone.device->table->report(lone.device, &report);

    assert_int_equal(report.layer_count, 4);
    assert_int_equal(report.microbatch_count, 3);
    for (int layer = 0; layer < 4; layer++) {
        assert_int_equal(report.layer[layer], layer);
        assert_true(report.parameters[layer] > 0);
        assert_int_equal(report.state_bytes[layer], 16 * report.parameters[layer]);
        assert_int_equal(report.message_bytes[layer], layer < 3 ? 16 * 16 * 4 : 0);
        assert_true(layer == 0 || report.activation_bytes[layer] > 0);
        assert_true(report.gradient_bytes[layer] > 0);
        for (int microbatch = 0; microbatch < 3; microbatch++) {
            const int cell = layer * 3 + microbatch;
            assert_true(report.forward_ns[cell] > 0);
            assert_true(report.backward_weight_ns[cell] > 0);
            assert_true(report.backward_input_ns[cell] > 0);
        }
    }
    lone.device->table->destroy(lone.device);
    arena_destroy(memory);
}

TEST(a_released_rank_holds_no_memory_and_can_be_taken_back)
{
    arena *memory = arena_create(1 << 14);
    lone_device lone = {0};
    region_count = 0;
    open_lone(&lone, memory);
    hold_fresh(&lone);
    play_lone(&lone, 0);
    assert_true(region_count > 0);

    assert_ok(hold_all(&lone, -1));

    assert_int_equal(region_count, 0);
    hold_fresh(&lone);
    play_lone(&lone, 1);
    lone.device->table->destroy(lone.device);
    assert_int_equal(region_count, 0);
    arena_destroy(memory);
}

enum { POOR_RANK = 1 };

static const exec_kernel_table *rich_table;
static bool is_computing; // the poor rank has begun with its first op
static size_t missing_bytes;

static void norm_poorly(exec_kernels *kernels, const void *input, const void *weight,
                        const void *bias, int rows, int width, void *output, float *mean,
                        float *rstd)
{
    is_computing = true;
    rich_table->layer_norm(kernels, input, weight, bias, rows, width, output, mean, rstd);
}

/// Memory runs out within the first op. What is computed then is of no use, but plain C computes
/// it.
static void *allocate_poorly(exec_kernels *kernels, size_t bytes)
{
    if (is_computing) missing_bytes = bytes;
    return rich_table->allocate(kernels, bytes);
}

static status finish_poorly(exec_kernels *kernels, error_message *err)
{
    (void)kernels;
    if (missing_bytes == 0) return STATUS_OK;
    return error_set(err, STATUS_NO_MEMORY, "out of memory for %zu bytes", missing_bytes);
}

static status make_poor(void *context, int world_rank, exec_device **out, error_message *err)
{
    static exec_kernel_table poor_table;
    exec_kernels *kernels = NULL;
    exec_training_device options = {.model = context, .text = &learning_text};
    TRY(exec_kernels_cpu_open(&kernels));
    if (world_rank == POOR_RANK) {
        rich_table = kernels->table;
        poor_table = *kernels->table;
        poor_table.allocate = allocate_poorly;
        poor_table.finish = finish_poorly;
        poor_table.layer_norm = norm_poorly;
        kernels->table = &poor_table;
    }
    *out = exec_training_device_create_over(&options, world_rank, kernels);
    return STATUS_OK;
}

TEST(memory_that_runs_out_ends_the_run_and_names_rank_and_op)
{
    exec_model model = learning_model(EXEC_DENSE);
    const learning_way way = {
        .name = "two ranks", .schedule = "gpipe", .plans = {{-1, 2, {0, 4, 8}, {0, 1}}}};
    learning_run run = {.model = &model,
                        .way = &way,
                        .iteration_count = 1,
                        .devices = {.context = &model, .create = make_poor}};

    assert_int_equal(learning_try(&run, &why), STATUS_NO_MEMORY);

    if (strstr(why.message, "rank 1, iteration 0, F0") == NULL ||
        strstr(why.message, "out of memory for") == NULL) {
        fail_msg("%s", why.message);
    }
}

TEST(what_cannot_be_trained_is_refused)
{
    exec_model model = small_model();
    exec_device *device = NULL;
    const exec_training_text short_text = {
        .bytes = learning_text.bytes, .token_count = 16, .token_bytes = 1};
    exec_training_device options = {.model = &model, .text = &short_text};

    assert_fails(exec_training_device_create(&options, 0, &device, &why), STATUS_INVALID,
                 "text has 16 tokens; a sequence needs 17");

    options.text = &learning_text;
    options.backend = EXEC_BACKEND_CUDA_FP32;
    model.mechanism = EXEC_PRUNING;
    model.pruning.csr_from = 0.8;
    assert_fails(exec_training_device_create(&options, 0, &device, &why), STATUS_UNSUPPORTED,
                 "pruning: csr_from 0.8: device cuda has no products in "
                 "compressed rows; cpu has, and 0 keeps layers dense");

    model.head_count = 0;
    assert_int_equal(exec_training_device_create(&options, 0, &device, &why), STATUS_INVALID);
    assert_null(device);
}

int main(void)
{
    return run_all_tests(learning_read_text, learning_free_text);
}

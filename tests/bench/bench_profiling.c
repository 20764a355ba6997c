/// What it costs to time the layers of an iteration on device `cpu`: an iteration of one rank
/// without it, and with all microbatches timed layer by layer. The difference is
/// the profile_ns of a study.
#include "exec/device/program.h"
#include "exec/model/training_device.h"
#include "tests/bench/bench.h"

#include <math.h>

enum { MICROBATCHES = 8 };

typedef struct run {
    exec_device *device;
    exec_program program;
    bool is_profiled;
    int iteration;
} run;

static void play(void *context)
{
    run *at = context;
    error_message err = {0};
    const exec_device_table *table = at->device->table;
    const exec_iteration iteration = {
        .iteration = at->iteration++, .rank_time_factor = 1, .is_profiled = at->is_profiled};
    bench_require(table->begin(at->device, &iteration, &err), &err);
    for (int step = 0; step < at->program.step_count; step++) {
        exec_payload output;
        int64_t duration_ns;
        bench_require(
            table->play(at->device, &at->program.steps[step], NULL, &output, &duration_ns, &err),
            &err);
    }
    bench_require(table->finish(at->device, NULL, NULL, &err), &err);
}

/// A device with all layers, fresh.
static exec_device *open_device(exec_training_device *options)
{
    error_message err = {0};
    exec_device *device = NULL;
    bench_require(exec_training_device_create(options, 0, &device, &err), &err);
    const int layer_count = exec_model_layer_count(options->model);
    const bal_placed_partition plan = {
        .first_layer = (const int[]){0, layer_count}, .rank_count = 1, .chunk_count = 1};
    bench_require(device->table->hold(device, &plan, 0, MICROBATCHES, &err), &err);
    for (int layer = 0; layer < layer_count; layer++) {
        bench_require(device->table->initialise(device, layer, &err), &err);
    }
    return device;
}

/// The fastest iteration of a way to time, the device being as options say.
static double measure(bool smoke, exec_training_device *options, bool is_profiled)
{
    error_message err = {0};
    arena *memory = arena_create(1 << 14);
    const bal_schedule_request request = {
        .name = "zb-h1", .rank_count = 1, .microbatch_count = MICROBATCHES};
    bal_schedule schedule;
    run at = {.device = open_device(options), .is_profiled = is_profiled};
    bench_require(bal_schedule_build(&request, memory, &schedule, &err), &err);
    exec_program_compile(&schedule, 0, memory, &at.program);
    const bench_time time = bench_measure(smoke, play, &at);
    at.device->table->destroy(at.device);
    arena_destroy(memory);
    return time.min_ns;
}

/// The layers are as small as can be: what timing adds depends on how many there are, not on their
/// size, and would drown in the noise of larger ones.
static void compare(bool smoke, const exec_training_text *text, bool counts_cpu_time)
{
    exec_model model = exec_model_default();
    model.width = 2;
    model.head_count = 1;
    model.vocabulary = 2;
    model.sequence_length = 1;
    model.microbatch_size = 1;
    exec_training_device every = {.model = &model,
                                  .text = text,
                                  .backend = EXEC_BACKEND_CPU,
                                  .counts_cpu_time = counts_cpu_time};
    double off_ns = INFINITY;
    double every_ns = INFINITY;
    for (int round = 0; round < (smoke ? 1 : 5); round++) {
        off_ns = fmin(off_ns, measure(smoke, &every, false));
        every_ns = fmin(every_ns, measure(smoke, &every, true));
    }
    const char *setting = "cpu, 1 rank, zb-h1, layers=%d M=%d, %s clock";
    const char *clock = counts_cpu_time ? "thread" : "monotonic";
    const int layers = exec_model_layer_count(&model);
    bench_print("profiling_by_microbatch_ns", every_ns - off_ns, "ns", setting, layers,
                MICROBATCHES, clock);
}

int main(int argc, char **argv)
{
    const bool smoke = bench_is_smoke(argc, argv);
    unsigned char bytes[4096];
    for (size_t index = 0; index < sizeof bytes; index++) {
        bytes[index] = (index * 2654435761u >> 13) & 1;
    }
    const exec_training_text text = {.bytes = bytes, .token_count = sizeof bytes, .token_bytes = 1};
    compare(smoke, &text, false);
    compare(smoke, &text, true);
    const exec_model model = exec_model_default();
    exec_training_device device = {.model = &model, .text = &text, .backend = EXEC_BACKEND_CPU};
    bench_print("profiling_off_iteration_ns", measure(smoke, &device, false), "ns",
                "cpu plain, 1 rank, zb-h1, layers=%d width=%d tokens=%d M=%d",
                exec_model_layer_count(&model), model.width, exec_model_row_count(&model),
                MICROBATCHES);
    return 0;
}

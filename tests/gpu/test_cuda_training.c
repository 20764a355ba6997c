/// Training on the CUDA backends beside training on the cpu, and bit by bit the same under every
/// plan: one, two and four stages on one GPU, even and uneven, with migrations in between.
#include "tests/gpu/gpu_backend.h"

#include "exec/run/execution.h"
#include "exec/training/training_device.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ITERATIONS_MAX = 20, ITERATIONS_COMPARED = 8, RANKS_MAX = 4, MICROBATCHES = 2 };

/// Who computes, under which plan; layers are embedding, four blocks, head.
typedef struct training_way {
    const char *name;
    exec_backend backend;
    int rank_count;
    int first_layer[RANKS_MAX + 1];
    int later_first_layer[RANKS_MAX + 1]; // from the middle on; 0: the same
    const char *schedule;
} training_way;

typedef struct training_run {
    const exec_model *model;
    const exec_training_text *text;
    training_way way;
    int iteration_count;
    exec_training training;
    arena *memory;
    bal_training_result result;
    double loss[ITERATIONS_MAX]; // out
    double norm[ITERATIONS_MAX];
    uint64_t state_hash;
} training_run;

static status note_iteration(void *context, const exec_measured *measured, error_message *err)
{
    (void)err;
    training_run *run = context;
    run->loss[measured->record->iteration] = measured->loss;
    run->norm[measured->record->iteration] = measured->gradient_norm;
    run->state_hash = measured->state_hash;
    return STATUS_OK;
}

static status make_device(void *context, int world_rank, exec_device **out, error_message *err)
{
    const training_run *run = context;
    exec_training_device options = {.model = run->model,
                                    .text = run->text,
                                    .backend = run->way.backend,
                                    .gpu_place_count = run->way.rank_count,
                                    .hands_over_memory = true};
    exec_kernels *kernels = NULL;
    if (run->way.backend == EXEC_BACKEND_CPU) {
        return exec_training_device_create(&options, world_rank, out, err);
    }
    const exec_cuda_kind kind =
        run->way.backend == EXEC_BACKEND_CUDA_BF16 ? EXEC_CUDA_BF16 : EXEC_CUDA_FP32;
    TRY(gpu_open(kind, world_rank, run->way.rank_count, &kernels, err));
    *out = exec_training_device_create_over(&options, world_rank, kernels);
    return STATUS_OK;
}

static status body(exec_endpoint *endpoint, void *context, error_message *err)
{
    training_run *run = context;
    return exec_training_rank(endpoint, &run->training, run->memory, &run->result, err);
}

static void execute(training_run *run)
{
    static const int machine_rank[RANKS_MAX] = {0, 1, 2, 3};
    const exec_training_listener listener = {.context = run, .put = note_iteration};
    const bal_training training = {
        .data_parallel = 1,
        .machine = {.rank_count = run->way.rank_count, .ranks_per_node = RANKS_MAX},
        .iteration_count = run->iteration_count,
        .microbatch_count = MICROBATCHES,
        .chunk_count = 1,
        .schedule = run->way.schedule,
        .change_ratio = 0.25,
        .balancer = bal_balancer_find("even")};
    const bal_plan start = {.first_layer = run->way.first_layer,
                            .rank_count = run->way.rank_count,
                            .chunk_count = 1,
                            .schedule = run->way.schedule,
                            .microbatch_count = MICROBATCHES,
                            .stage_ranks = machine_rank,
                            .data_parallel = 1,
                            .embedding = true,
                            .head = true};
    const exec_forced_plan later = {.after_iteration = (run->iteration_count - 1) / 2,
                                    .plan = {.first_layer = run->way.later_first_layer,
                                             .rank_count = run->way.rank_count,
                                             .chunk_count = 1,
                                             .machine_rank = machine_rank}};
    run->memory = arena_create(1 << 14);
    run->training = (exec_training){.training = &training,
                                    .plan = &start,
                                    .forced = &later,
                                    .forced_count = run->way.later_first_layer[1] > 0,
                                    .layer_count = exec_model_layer_count(run->model),
                                    .devices = {.context = run, .create = make_device},
                                    .clock = EXEC_CLOCK_REAL,
                                    .listener = &listener};
    exec_transport_options options = exec_transport_options_default();
    options.rank_count = run->way.rank_count;
    error_message err = {.code = STATUS_OK};
    const status result = exec_transport_run("local", &options, body, run, &err);
    arena_destroy(run->memory);
    if (result == STATUS_OK) return;
    printf("%s: %s\n", run->way.name, err.message);
    exit(1);
}

static const training_way one_rank[] = {
    {"cpu", EXEC_BACKEND_CPU, 1, {0, 6}, {0}, "1f1b"},
    {"cuda fp32", EXEC_BACKEND_CUDA_FP32, 1, {0, 6}, {0}, "1f1b"},
    {"cuda bf16", EXEC_BACKEND_CUDA_BF16, 1, {0, 6}, {0}, "1f1b"},
};

static const training_way other_plans[] = {
    {"two stages, a migration, zb-h1", EXEC_BACKEND_CUDA_BF16, 2, {0, 2, 6}, {0, 4, 6}, "zb-h1"},
    {"four stages, a migration",
     EXEC_BACKEND_CUDA_BF16,
     4,
     {0, 2, 3, 5, 6},
     {0, 1, 3, 4, 6},
     "1f1b"},
    {"two even stages", EXEC_BACKEND_CUDA_BF16, 2, {0, 3, 6}, {0}, "1f1b"},
};

/// Losses of the GPU follow the cpu's: to rounding in fp32, roughly in bf16. Only over
/// ITERATIONS_COMPARED: in the 13th the loss of the dense model leaps, and there a learning rate
/// that differs by 2e-6 changes it by 7e-4 on the cpu; before the 9th by less than 5e-7.
static int compare_with_cpu(const exec_model *model, const exec_training_text *text, int iterations)
{
    training_run run[3];
    int failures = 0;
    for (int way = 0; way < 3; way++) {
        run[way] = (training_run){
            .model = model, .text = text, .way = one_rank[way], .iteration_count = iterations};
        execute(&run[way]);
        const double tolerance = way == 1 ? 1e-4 : 3e-2;
        for (int iteration = 0; iteration < iterations; iteration++) {
            const double expected = run[0].loss[iteration], actual = run[way].loss[iteration];
            if (fabs(actual - expected) <= tolerance * expected) continue;
            printf("%s, iteration %d: loss %.6f, on the cpu %.6f\n", run[way].way.name, iteration,
                   actual, expected);
            failures++;
        }
    }
    if (!(run[2].loss[iterations - 1] < run[2].loss[0])) {
        printf("cuda bf16: the loss does not fall: %.6f, then %.6f\n", run[2].loss[0],
               run[2].loss[iterations - 1]);
        failures++;
    }
    return failures;
}

/// Whether a mechanism announces changes as it sets in.
static bool sets_in(exec_mechanism mechanism)
{
    return mechanism == EXEC_PRUNING || mechanism == EXEC_FREEZING || mechanism == EXEC_EARLY_EXIT;
}

/// @param way_count of other_plans, from the first
static int compare_plans(const exec_model *model, const exec_training_text *text, int iterations,
                         size_t way_count)
{
    training_run one = {
        .model = model, .text = text, .way = one_rank[2], .iteration_count = iterations};
    int failures = 0;
    execute(&one);
    for (size_t way = 0; way < way_count; way++) {
        training_run other = {
            .model = model, .text = text, .way = other_plans[way], .iteration_count = iterations};
        execute(&other);
        const size_t bytes = (size_t)iterations * sizeof(double);
        if (memcmp(one.loss, other.loss, bytes) == 0 && memcmp(one.norm, other.norm, bytes) == 0 &&
            one.state_hash == other.state_hash && one.state_hash != 0 &&
            (!sets_in(model->mechanism) || other.result.change_count > 0)) {
            continue;
        }
        printf("%s, %s: other bits than on one rank, or %d changes\n",
               exec_mechanism_names[model->mechanism], other.way.name, other.result.change_count);
        failures++;
    }
    return failures;
}

/// Small where kernels are emulated.
static exec_model model_of(exec_mechanism mechanism)
{
    exec_model model = exec_model_default();
    model.block_count = 4;
    model.width = gpu_is_small ? 16 : 256;
    model.head_count = 2;
    model.hidden_width = 4 * model.width;
    model.sequence_length = gpu_is_small ? 16 : 256;
    model.microbatch_size = gpu_is_small ? 1 : 4;
    model.seed = 11;
    model.mechanism = mechanism;
    // All that sets in late sets in at once, before layers move.
    model.pruning.start_iteration = 0;
    model.pruning.end_iteration = 4;
    model.pruning.interval = 1;
    model.freezing.start_iteration = 0;
    model.freezing.interval = 1;
    model.freezing.tolerance = 1;
    model.freezing.patience = 1;
    model.early_exit.settle_iterations = 1;
    return model;
}

/// The same sizes in blocks as Llama's, one head of keys and values for two of queries.
static exec_model llama_of(const exec_model *dense)
{
    exec_model model = *dense;
    model.kv_head_count = model.head_count / 2;
    model.rotary_base = 10000;
    model.has_rms_norm = model.is_gated = true;
    model.lacks_query_key_value_bias = model.lacks_attention_output_bias = true;
    model.lacks_mlp_bias = true;
    return model;
}

int main(int argc, char **argv)
{
    gpu_begin(argc, argv);
    exec_training_text text;
    error_message err = {.code = STATUS_OK};
    const exec_model dense = model_of(EXEC_DENSE);
    if (exec_training_text_read("../LICENSE", &dense, 1, &text, &err) != STATUS_OK) {
        printf("%s\n", err.message);
        return 1;
    }
    int failures = compare_with_cpu(&dense, &text, gpu_is_small ? 2 : ITERATIONS_COMPARED);
    const exec_model llama = llama_of(&dense);
    failures += compare_with_cpu(&llama, &text, gpu_is_small ? 2 : ITERATIONS_COMPARED);
    failures += compare_plans(&llama, &text, 2, 1);
    failures +=
        compare_plans(&dense, &text, gpu_is_small ? 2 : ITERATIONS_MAX, gpu_is_small ? 2 : 3);
    for (int mechanism = EXEC_DENSE + 1; mechanism < EXEC_MECHANISM_COUNT; mechanism++) {
        const exec_model model = model_of((exec_mechanism)mechanism);
        failures +=
            compare_plans(&model, &text, gpu_is_small ? 5 : ITERATIONS_MAX, gpu_is_small ? 1 : 3);
    }
    for (int measure = EXEC_EXIT_SOFTMAX; measure < EXEC_EXIT_MEASURE_COUNT; measure++) {
        exec_model model = model_of(EXEC_EARLY_EXIT);
        model.early_exit = exec_early_exit_options_default((exec_exit_measure)measure);
        model.early_exit.settle_iterations = 1;
        failures += compare_with_cpu(&model, &text, 2);
        failures +=
            compare_plans(&model, &text, gpu_is_small ? 5 : ITERATIONS_MAX, gpu_is_small ? 1 : 3);
    }
    exec_training_text_free(&text);
    printf("%s\n", failures == 0 ? "training agrees" : "failed");
    return failures == 0 ? 0 : 1;
}

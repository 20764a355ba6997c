/// What replaying a training run costs: iterations whose loads all change, per layer or per
/// microbatch and replica as under mixture of experts, under policies that decide never, sometimes
/// and always; and how that grows with layers, stages, microbatches and replicas.
#include "base/rng.h"
#include "sim/training_replay.h"
#include "tests/bench/bench.h"

#include <stdlib.h>

/// Costs that go round: as many tables as make every iteration differ from the one before, drawn
/// once, so that the replay is timed and not the drawing.
enum { TABLES = 4 };

typedef struct turning_source {
    int layer_count;
    int column_count;
    int64_t *forward[TABLES]; // [layer_count][column_count]
    int64_t *input[TABLES];
    int64_t *weight[TABLES];
    int64_t *bytes;     // [layer_count]
    bool announces_all; // each of these changes is one of the model
} turning_source;

static status turning_costs_at(void *context, int iteration, bal_layer_costs *costs, bool *changed,
                               error_message *err)
{
    (void)err;
    const turning_source *source = context;
    const int table = iteration % TABLES;
    *changed = source->announces_all || iteration == 0;
    *costs = (bal_layer_costs){.layer_count = source->layer_count,
                               .microbatch_count = source->column_count,
                               .has_split = true,
                               .forward_ns = source->forward[table],
                               .backward_input_ns = source->input[table],
                               .backward_weight_ns = source->weight[table],
                               .state_bytes = source->bytes,
                               .activation_bytes = source->bytes,
                               .gradient_bytes = source->bytes,
                               .message_bytes = source->bytes,
                               .reduction_ns = source->bytes};
    return STATUS_OK;
}

typedef struct run_shape {
    int layers;
    int stages;
    int microbatches;
    int columns; // of the costs
    int replicas;
    const char *schedule;
    const char *balancer;
    const char *policy;
    bal_reduction_overlap overlap;
    bool is_quiet; // changes of the numbers are not announced
    int iterations;
} run_shape;

static bal_cost_source make_source(const run_shape *shape, int replica, arena *memory)
{
    rng generator = rng_init(1, (uint64_t)replica);
    turning_source *source = arena_array(memory, 1, sizeof *source);
    const int cells = shape->layers * shape->columns;
    source->layer_count = shape->layers;
    source->column_count = shape->columns;
    source->announces_all = !shape->is_quiet;
    for (int table = 0; table < TABLES; table++) {
        source->forward[table] = bench_draw(&generator, cells, 4000000, 6000000, memory);
        source->input[table] = bench_draw(&generator, cells, 4000000, 6000000, memory);
        source->weight[table] = bench_draw(&generator, cells, 3000000, 5000000, memory);
    }
    source->bytes = bench_draw(&generator, shape->layers, 1 << 20, 1 << 20, memory);
    return (bal_cost_source){.context = source,
                             .layer_count = shape->layers,
                             .iteration_count = shape->iterations,
                             .announces_changes = true,
                             .costs_at = turning_costs_at};
}

static void measure(bool smoke, const run_shape *shape)
{
    arena *memory = arena_create(1 << 20);
    error_message err = {0};
    bal_cost_source *sources = arena_array(memory, (size_t)shape->replicas, sizeof *sources);
    for (int replica = 0; replica < shape->replicas; replica++) {
        sources[replica] = make_source(shape, replica, memory);
    }
    bal_training training = {
        .sources = sources,
        .source_count = shape->replicas,
        .data_parallel = shape->replicas,
        .reduction_overlap = shape->overlap,
        .machine = {.rank_count = shape->stages,
                    .ranks_per_node = 8,
                    .intra_node = {.latency_ns = 5000, .bytes_per_s = 450000000000},
                    .inter_node = {.latency_ns = 10000, .bytes_per_s = 50000000000}},
        .iteration_count = smoke ? 3 : shape->iterations,
        .microbatch_count = shape->microbatches,
        .schedule = shape->schedule,
        .change_ratio = 0.25,
        .balancer = bal_balancer_find(shape->balancer),
    };
    bench_require(bal_policy_parse(shape->policy, &training.policy, &err), &err);
    bal_training_result result;
    const int64_t begin_ns = bench_now_ns();
    bench_require(sim_training_replay(&training, NULL, memory, &result, &err), &err);
    const double seconds = (double)(bench_now_ns() - begin_ns) / 1e9;
    bench_print(
        "training_replay_s", seconds, "s",
        "D=%d P=%d M=%d L=%d costs per %s, %s, %s %s, reduction %s, %d iterations%s, %d plans",
        shape->replicas, shape->stages, shape->microbatches, shape->layers,
        shape->columns > 1 ? "microbatch" : "layer", shape->schedule, shape->balancer,
        shape->policy, bal_reduction_overlap_names[shape->overlap], training.iteration_count,
        shape->is_quiet ? " (unannounced)" : "", 1 + result.rebalance_count);
    arena_destroy(memory);
}

/// Loads per layer, one replica: what a recorded trace is.
static void measure_traces(bool smoke)
{
    static const char *const policies[][2] = {
        {"even", "never"}, {"partition", "every:10"}, {"partition", "every:1"}};
    for (size_t policy = 0; policy < sizeof policies / sizeof policies[0]; policy++) {
        measure(smoke, &(run_shape){.layers = 96,
                                    .stages = 24,
                                    .microbatches = 96,
                                    .columns = 1,
                                    .replicas = 1,
                                    .schedule = "zb-h1",
                                    .balancer = policies[policy][0],
                                    .policy = policies[policy][1],
                                    .iterations = 10000});
    }
}

/// Mixture of experts: every microbatch of every replica costs its own, and every iteration is
/// rebalanced.
static void measure_experts(bool smoke)
{
    const run_shape experts = {.layers = 34,
                               .stages = 16,
                               .microbatches = 64,
                               .columns = 64,
                               .replicas = 8,
                               .schedule = "1f1b",
                               .balancer = "partition",
                               .policy = "every:1",
                               .overlap = BAL_REDUCTION_STAGE,
                               .iterations = 10000};
    enum { SHAPES = 12 };
    run_shape shapes[SHAPES];
    for (int shape = 0; shape < SHAPES; shape++) {
        shapes[shape] = experts;
        if (shape > 3) shapes[shape].iterations = 1000;
    }
    shapes[1].schedule = "zb-h1";
    shapes[2].policy = shapes[3].policy = "shadow";
    shapes[3].is_quiet = true;
    shapes[4].layers = 68;
    shapes[5].layers = 136;
    shapes[6].stages = 8;
    shapes[7].stages = 32;
    shapes[8].microbatches = shapes[8].columns = 256;
    shapes[9].replicas = 1;
    shapes[10].replicas = 32;
    shapes[11].microbatches = shapes[11].columns = 128;
    for (int shape = 0; shape < SHAPES; shape++) {
        measure(smoke, &shapes[shape]);
    }
}

int main(int argc, char **argv)
{
    const bool smoke = bench_is_smoke(argc, argv);
    measure_traces(smoke);
    measure_experts(smoke);
    return 0;
}

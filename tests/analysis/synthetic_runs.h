/// Runs that were never measured: a transformer of this file's own making, played by the simulator
/// under 1F1B, with seeded noise. What a calibration should find is therefore known.
#pragma once

#include "analysis/calibration/measured_runs.h"
#include "balance/schedule/schedule.h"
#include "base/rng.h"
#include "sim/pipeline.h"
#include "tests/balance/reference_player.h"
#include "tests/test_memory.h"

#include <math.h>

/// What the made-up machine takes.
typedef struct synthetic_machine {
    double layer_ms;      // per layer and microbatch
    double products_ms;   // per TFLOP
    double microbatch_ms; // of embedding, head and loss
    double head_ms;       // per TFLOP
    double update_ms;     // per 1e9 parameters
    double iteration_ms;
    double reduction_ms;    // per GB
    double transfer_ms;     // per GB between stages
    double embedding_share; // of microbatch_ms at the first stage
    double shape_deviation; // layers of one kernel shape are slower by this, as 1 sigma
    double noise;           // of a run, as 1 sigma
} synthetic_machine;

static inline synthetic_machine synthetic_machine_default(void)
{
    return (synthetic_machine){.layer_ms = 0.8,
                               .products_ms = 7,
                               .microbatch_ms = 2,
                               .head_ms = 9,
                               .update_ms = 25,
                               .iteration_ms = 1,
                               .reduction_ms = 8,
                               .transfer_ms = 40,
                               .embedding_share = 0.2};
}

/// A standard normal number: the sum of twelve uniform ones, so that no libm is involved.
static inline double synthetic_normal(rng *generator)
{
    double sum = -6;
    for (int draw = 0; draw < 12; draw++) {
        sum += rng_unit(generator);
    }
    return sum;
}

/// Layers of one stage for one microbatch, forward and backward, ms.
static inline double synthetic_layers_ms(const synthetic_machine *machine,
                                         const ana_run_shape *shape, uint64_t seed)
{
    const double hidden = (double)shape->hidden_size;
    const double tokens = (double)(shape->microbatch_size * shape->sequence_length);
    const double products = 72e-12 * tokens * hidden * hidden / (double)shape->tensor_degree;
    const uint64_t kernels =
        (uint64_t)(shape->hidden_size * 4096 + shape->tensor_degree * 64 + shape->microbatch_size);
    rng generator = rng_init(seed, kernels);
    const double deviation = machine->shape_deviation * synthetic_normal(&generator);
    return (machine->layer_ms + machine->products_ms * products) * (1 + deviation) *
           (double)shape->layer_count / (double)shape->pipeline_degree;
}

/// Plays one iteration: embedding at the first stage, head at the last, backward twice forward.
static inline double synthetic_pipeline_ms(const synthetic_machine *machine,
                                           const ana_run_shape *shape, uint64_t seed)
{
    const int stages = (int)shape->pipeline_degree;
    const int microbatches = (int)ana_run_microbatches(shape);
    const bal_schedule schedule = reference_build("1f1b", stages, microbatches, 1);
    bal_stage_costs costs = reference_uniform_costs(stages, 0, 0, 0, 0, (int64_t[]){1, 0, -1});
    int64_t *forward = arena_array(memory, (size_t)stages, sizeof *forward);
    int64_t *backward = arena_array(memory, (size_t)stages, sizeof *backward);
    int64_t *none = arena_array(memory, (size_t)stages, sizeof *none);
    int64_t *sends = arena_array(memory, (size_t)stages, sizeof *sends);
    const double tokens = (double)(shape->microbatch_size * shape->sequence_length);
    const double head = 6e-12 * tokens * (double)(shape->hidden_size * shape->vocabulary_size) /
                        (double)shape->tensor_degree;
    const double transfer = 2e-9 * tokens * (double)shape->hidden_size * machine->transfer_ms;
    for (int stage = 0; stage < stages; stage++) {
        double ms = synthetic_layers_ms(machine, shape, seed);
        if (stage == 0) ms += machine->embedding_share * machine->microbatch_ms;
        if (stage == stages - 1) {
            ms += (1 - machine->embedding_share) * machine->microbatch_ms + machine->head_ms * head;
        }
        forward[stage] = llround(ms * 1e6 / 3);
        backward[stage] = llround(ms * 1e6) - forward[stage];
        sends[stage] = llround(transfer * 1e6);
    }
    costs.forward_ns = forward;
    costs.backward_input_ns = backward;
    costs.backward_weight_ns = none;
    costs.send_forward_ns = sends;
    costs.send_backward_ns = sends;
    sim_order order;
    sim_summary summary;
    assert_ok(sim_order_compile(&schedule, memory, &order, NULL));
    sim_summary_init(&order, memory, &summary);
    sim_order_summarise(&order, &costs, NULL, &summary);
    return (double)summary.makespan_ns * 1e-6;
}

/// The whole iteration, with the noise of the run's number.
static inline double synthetic_run_ms(const synthetic_machine *machine, const ana_run_shape *shape,
                                      uint64_t seed, int run)
{
    const double hidden = (double)shape->hidden_size;
    const double stage_layers = (double)shape->layer_count / (double)shape->pipeline_degree;
    const double parameters =
        1e-9 * (stage_layers * 12 * hidden * hidden + (double)shape->vocabulary_size * hidden) /
        (double)shape->tensor_degree;
    const double data = (double)shape->data_degree;
    double reduced = 4 * (data - 1) / data * parameters;
    if (shape->pipeline_degree > 1) {
        reduced += 2e-9 * (double)shape->vocabulary_size * hidden / (double)shape->tensor_degree;
    }
    rng generator = rng_init(seed, (uint64_t)run + 1000000);
    const double clean = synthetic_pipeline_ms(machine, shape, seed) + machine->iteration_ms +
                         machine->update_ms * parameters + machine->reduction_ms * reduced;
    return clean * (1 + machine->noise * synthetic_normal(&generator));
}

enum { SYNTHETIC_RUNS_MAX = 2048 };

/// Runs of every combination of degrees on 2 to 8 GPUs, of 12 and 24 layers and of microbatch
/// sizes.
typedef struct synthetic_runs {
    int count;
    ana_run_shape shapes[SYNTHETIC_RUNS_MAX];
    double ms[SYNTHETIC_RUNS_MAX];
} synthetic_runs;

static inline void synthetic_add(synthetic_runs *runs, const synthetic_machine *machine,
                                 ana_run_shape shape, uint64_t seed)
{
    shape.head_count = shape.hidden_size / 64;
    shape.sequence_length = 1024;
    shape.vocabulary_size = 51200;
    shape.gpu_count = shape.tensor_degree * shape.data_degree * shape.pipeline_degree;
    runs->shapes[runs->count] = shape;
    runs->ms[runs->count] = synthetic_run_ms(machine, &shape, seed, runs->count);
    runs->count++;
}

/// @param pipelined whether pipeline degrees are 2 and 4, or 1
static inline void synthetic_fill(synthetic_runs *runs, const synthetic_machine *machine,
                                  int64_t hidden_size, bool pipelined, uint64_t seed)
{
    for (int64_t pipeline = pipelined ? 2 : 1; pipeline <= (pipelined ? 4 : 1); pipeline *= 2) {
        for (int64_t tensor = 1; tensor <= 4; tensor *= 2) {
            for (int64_t data = 1; data * tensor * pipeline <= 8; data *= 2) {
                for (int64_t size = 1; size <= 4; size *= 2) {
                    for (int64_t layers = 12; layers <= 24; layers += 12) {
                        for (int64_t count = 4; count <= 8; count *= 2) {
                            const ana_run_shape shape = {
                                .global_batch_count = count * size * data,
                                .microbatch_size = size,
                                .hidden_size = hidden_size,
                                .layer_count = layers,
                                .tensor_degree = tensor,
                                .data_degree = data,
                                .pipeline_degree = pipeline,
                            };
                            synthetic_add(runs, machine, shape, seed);
                        }
                    }
                }
            }
        }
    }
}

/// Many scenarios of one order at once, with the bare recurrence in lanes beside them as what the
/// machine could do; and draws of chained iterations.
#include "balance/costs/disturbance.h"
#include "base/rng.h"
#include "sim/iteration_chain.h"
#include "sim/lanes.h"
#include "tests/bench/bench.h"

#include <stdlib.h>

enum { RANKS = 24, MICROBATCHES = 96 };

static void *take(arena *memory, size_t count, size_t bytes)
{
    void *taken = arena_array(memory, count, bytes);
    if (taken == NULL) abort();
    return taken;
}

static int64_t *draw(rng *generator, int count, int64_t low, int64_t high, arena *memory)
{
    int64_t *row = take(memory, (size_t)count, sizeof *row);
    for (int index = 0; index < count; index++) {
        row[index] = rng_between(generator, low, high);
    }
    return row;
}

typedef struct problem {
    bal_schedule schedule;
    bal_stage_costs costs;
    sim_order order;
} problem;

/// Stages up to 40 % apart, 20 us between them.
static void problem_init(problem *made, int columns, arena *memory)
{
    error_message err = {0};
    rng generator = rng_init(1, 1);
    const int cells = RANKS * columns;
    const bal_schedule_request request = {
        .name = "zb-h1", .rank_count = RANKS, .microbatch_count = MICROBATCHES};
    bench_require(bal_schedule_build(&request, memory, &made->schedule, &err), &err);
    made->costs = (bal_stage_costs){
        .stage_count = RANKS,
        .microbatch_count = columns,
        .forward_ns = draw(&generator, cells, 5000000, 7000000, memory),
        .backward_input_ns = draw(&generator, cells, 5000000, 7000000, memory),
        .backward_weight_ns = draw(&generator, cells, 4000000, 5600000, memory),
        .send_forward_ns = draw(&generator, RANKS, 20000, 20000, memory),
        .send_backward_ns = draw(&generator, RANKS, 20000, 20000, memory),
        .memory_forward = draw(&generator, RANKS, 1, 1, memory),
        .memory_backward_input = draw(&generator, RANKS, 0, 0, memory),
        .memory_backward_weight = draw(&generator, RANKS, -1, -1, memory),
    };
    bench_require(sim_order_compile(&made->schedule, memory, &made->order, &err), &err);
    bench_require(sim_costs_check(&made->schedule, &made->costs, &err), &err);
}

/// The recurrence in lanes and nothing else: one descriptor per op, one row of costs per kind of op
/// and rank, rows of lanes in first-level cache.
typedef struct bare_op {
    uint16_t rank;
    uint16_t row;
    uint16_t wait;
    uint16_t send;
} bare_op;

typedef struct bare_case {
    int op_count;
    int lane_count;
    const bare_op *ops;  // [op_count]
    int64_t *op_ns;      // [rows][lane_count]
    int64_t *clock_ns;   // [ranks][lane_count]
    int64_t *arrival_ns; // [slots][lane_count]
} bare_case;

#if defined(__x86_64__)
__attribute__((target_clones("avx512f", "avx2", "default")))
#endif
static void
bare(const bare_case *bound)
{
    const size_t lanes = (size_t)bound->lane_count;
    for (int index = 0; index < bound->op_count; index++) {
        const bare_op op = bound->ops[index];
        int64_t *restrict clock_ns = bound->clock_ns + op.rank * lanes;
        const int64_t *restrict op_ns = bound->op_ns + op.row * lanes;
        const int64_t *arrived_ns = bound->arrival_ns + op.wait * lanes;
        int64_t *sent_ns = bound->arrival_ns + op.send * lanes;
        for (size_t lane = 0; lane < lanes; lane++) {
            const int64_t begin_ns =
                clock_ns[lane] > arrived_ns[lane] ? clock_ns[lane] : arrived_ns[lane];
            clock_ns[lane] = begin_ns + op_ns[lane];
            sent_ns[lane] = clock_ns[lane] + 20000;
        }
    }
}

static void run_bare(void *context)
{
    const bare_case *bound = context;
    bare(bound);
}

static void measure_bare(bool smoke, const sim_order *order, int lane_count, arena *memory)
{
    const size_t lanes = (size_t)lane_count;
    bare_op *ops = take(memory, (size_t)order->step_count, sizeof *ops);
    for (int index = 0; index < order->step_count; index++) {
        const sim_step step = order->steps[index];
        ops[index] = (bare_op){.rank = (uint16_t)sim_step_rank(step),
                               .row = (uint16_t)sim_step_row(step),
                               .wait = (uint16_t)sim_step_wait(step),
                               .send = (uint16_t)sim_step_send(step)};
    }
    bare_case bound = {
        .op_count = order->step_count,
        .lane_count = lane_count,
        .ops = ops,
        .op_ns = take(memory, (size_t)order->row_count * lanes, sizeof(int64_t)),
        .clock_ns = take(memory, RANKS * lanes, sizeof(int64_t)),
        .arrival_ns = take(memory, (size_t)order->slot_count * lanes, sizeof(int64_t)),
    };
    const bench_time time = bench_measure(smoke, run_bare, &bound);
    bench_print("max_plus_bound_lanes_ns_per_op", time.median_ns / order->step_count / lane_count,
                "ns", "P=%d M=%d, %d lanes", RANKS, MICROBATCHES, lane_count);
}

static void run_lanes(void *context)
{
    sim_lanes *lanes = context;
    sim_lanes_play(lanes);
}

static void measure_lanes(bool smoke, int columns)
{
    arena *memory = arena_create(1 << 20);
    problem made;
    problem_init(&made, columns, memory);
    for (int lane_count = SIM_LANES_MIN; lane_count <= SIM_LANES_MAX; lane_count *= 2) {
        sim_lanes lanes;
        sim_lanes_init(&made.order, lane_count, columns > 1, false, memory, &lanes);
        for (int lane = 0; lane < lane_count; lane++) {
            sim_lanes_set(&lanes, lane, &made.costs);
        }
        if (columns == 1) measure_bare(smoke, &made.order, lane_count, memory);
        const bench_time time = bench_measure(smoke, run_lanes, &lanes);
        bench_print("static_engine_lanes_ns_per_op",
                    time.median_ns / made.order.step_count / lane_count, "ns",
                    "P=%d M=%d, %d lanes, costs per %s", RANKS, MICROBATCHES, lane_count,
                    columns == 1 ? "stage" : "microbatch");
    }
    arena_destroy(memory);
}

/// A thousand draws of a thousand iterations, in which every rank is slower or faster.
typedef struct ensemble_case {
    sim_ensemble ensemble;
    int64_t *total_ns;
    arena *scratch;
} ensemble_case;

static void run_ensemble(void *context)
{
    ensemble_case *played = context;
    error_message err = {0};
    bench_require(sim_ensemble_play(&played->ensemble, played->scratch, played->total_ns, &err),
                  &err);
    arena_reset(played->scratch);
}

static void measure_ensemble(bool smoke)
{
    enum { DRAWS = 1000, ITERATIONS = 1000 };
    arena *memory = arena_create(1 << 20);
    const bal_disturbance disturbance = {.seed = 1, .iteration_sigma = 0.05};
    problem made;
    problem_init(&made, 1, memory);
    ensemble_case played = {
        .ensemble = {.order = &made.order,
                     .costs = &made.costs,
                     .disturbance = &disturbance,
                     .draw_count = smoke ? 10 : DRAWS,
                     .iteration_count = smoke ? 10 : ITERATIONS},
        .total_ns = take(memory, DRAWS, sizeof(int64_t)),
        .scratch = arena_create(1 << 20),
    };
    const bench_time time = bench_measure(smoke, run_ensemble, &played);
    bench_print("ensemble_s", time.median_ns / 1e9, "s",
                "P=%d M=%d, %d draws of %d chained iterations, ranks slower or faster in each",
                RANKS, MICROBATCHES, DRAWS, ITERATIONS);
    arena_destroy(played.scratch);
    arena_destroy(memory);
}

int main(int argc, char **argv)
{
    const bool smoke = bench_is_smoke(argc, argv);
    measure_lanes(smoke, 1);
    measure_lanes(smoke, MICROBATCHES);
    measure_ensemble(smoke);
    return 0;
}

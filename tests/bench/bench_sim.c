/// What playing a schedule costs in the static engine, per op, beside the bound of the machine for
/// the same recurrence; how it grows; a run of 10,000 iterations.
#include "balance/schedule/schedule.h"
#include "base/rng.h"
#include "sim/pipeline.h"
#include "tests/bench/bench.h"

static bal_schedule zb_h1(int rank_count, int microbatch_count, arena *memory)
{
    const bal_schedule_request request = {
        .name = "zb-h1", .rank_count = rank_count, .microbatch_count = microbatch_count};
    bal_schedule schedule;
    error_message err = {0};
    bench_require(bal_schedule_build(&request, memory, &schedule, &err), &err);
    return schedule;
}

/// Stages up to 40 % apart, 20 us between them.
static bal_stage_costs skewed_costs(int stage_count, int columns, arena *memory)
{
    rng generator = rng_init(1, 1);
    const int cells = stage_count * columns;
    return (bal_stage_costs){
        .stage_count = stage_count,
        .microbatch_count = columns,
        .forward_ns = bench_draw(&generator, cells, 5000000, 7000000, memory),
        .backward_input_ns = bench_draw(&generator, cells, 5000000, 7000000, memory),
        .backward_weight_ns = bench_draw(&generator, cells, 4000000, 5600000, memory),
        .send_forward_ns = bench_draw(&generator, stage_count, 20000, 20000, memory),
        .send_backward_ns = bench_draw(&generator, stage_count, 20000, 20000, memory),
        .memory_forward = bench_draw(&generator, stage_count, 1, 1, memory),
        .memory_backward_input = bench_draw(&generator, stage_count, 0, 0, memory),
        .memory_backward_weight = bench_draw(&generator, stage_count, -1, -1, memory),
    };
}

typedef struct static_case {
    bal_schedule schedule;
    bal_stage_costs costs;
    sim_order order;
    sim_summary summary;
    bal_timeline timeline;
    arena *scratch;
} static_case;

static void static_case_init(static_case *problem, int ranks, int microbatches, int columns,
                             arena *memory)
{
    error_message err = {0};
    problem->schedule = zb_h1(ranks, microbatches, memory);
    problem->costs = skewed_costs(ranks, columns, memory);
    bench_require(sim_order_compile(&problem->schedule, memory, &problem->order, &err), &err);
    bench_require(sim_costs_check(&problem->schedule, &problem->costs, &err), &err);
    sim_summary_init(&problem->order, memory, &problem->summary);
    sim_timeline_init(&problem->schedule, memory, &problem->timeline);
}

static void summarise(void *context)
{
    static_case *problem = context;
    sim_order_summarise(&problem->order, &problem->costs, NULL, &problem->summary);
}

static void play(void *context)
{
    static_case *problem = context;
    sim_order_play(&problem->order, &problem->costs, NULL, &problem->timeline);
}

static void compile(void *context)
{
    static_case *problem = context;
    error_message err = {0};
    sim_order order;
    bench_require(sim_order_compile(&problem->schedule, problem->scratch, &order, &err), &err);
    arena_reset(problem->scratch);
}

static void measure_static(bool smoke, int ranks, int microbatches, int columns)
{
    arena *memory = arena_create(1 << 20);
    static_case problem;
    static_case_init(&problem, ranks, microbatches, columns, memory);
    problem.scratch = arena_create(1 << 20);
    const double ops = problem.order.step_count;
    const char *costs = columns == 1 ? "stage" : "microbatch";
    const bench_time summary = bench_measure(smoke, summarise, &problem);
    bench_print("static_engine_ns_per_op", summary.median_ns / ops, "ns", "P=%d M=%d costs per %s",
                ranks, microbatches, costs);
    bench_print("static_engine_min_ns_per_op", summary.min_ns / ops, "ns", "P=%d M=%d costs per %s",
                ranks, microbatches, costs);
    const bench_time timeline = bench_measure(smoke, play, &problem);
    bench_print("static_engine_timeline_ns_per_op", timeline.median_ns / ops, "ns",
                "P=%d M=%d costs per %s", ranks, microbatches, costs);
    if (columns == 1) {
        const bench_time compiled = bench_measure(smoke, compile, &problem);
        bench_print("static_engine_compile_ns_per_op", compiled.median_ns / ops, "ns", "P=%d M=%d",
                    ranks, microbatches);
    }
    arena_destroy(problem.scratch);
    arena_destroy(memory);
}

/// Iterations whose costs all change, as under mixture of experts: check them and play.
typedef struct run_case {
    static_case problem;
    rng generator;
    int iteration_count;
    int64_t *forward_ns;
} run_case;

static void play_run(void *context)
{
    run_case *run = context;
    static_case *problem = &run->problem;
    const int ranks = problem->schedule.rank_count;
    error_message err = {0};
    for (int iteration = 0; iteration < run->iteration_count; iteration++) {
        for (int stage = 0; stage < ranks; stage++) {
            run->forward_ns[stage] = rng_between(&run->generator, 5000000, 7000000);
        }
        bench_require(sim_costs_check(&problem->schedule, &problem->costs, &err), &err);
        sim_order_summarise(&problem->order, &problem->costs, NULL, &problem->summary);
    }
}

static void measure_run(bool smoke)
{
    enum { RANKS = 24, MICROBATCHES = 96 };
    arena *memory = arena_create(1 << 20);
    run_case run = {.generator = rng_init(1, 2),
                    .iteration_count = smoke ? 10 : 10000,
                    .forward_ns = arena_array(memory, RANKS, sizeof(int64_t))};
    static_case_init(&run.problem, RANKS, MICROBATCHES, 1, memory);
    run.problem.costs.forward_ns = run.forward_ns;
    const bench_time time = bench_measure(smoke, play_run, &run);
    bench_print("static_engine_run_ms", time.median_ns / 1e6, "ms",
                "P=%d M=%d 10000 iterations, costs change in each", RANKS, MICROBATCHES);
    arena_destroy(memory);
}

/// The recurrence and nothing else: one descriptor and one duration per op, clocks and messages in
/// first-level cache, ranks in turns.
typedef struct bound_op {
    uint16_t rank;
    uint16_t wait;
    uint16_t send;
    uint16_t unused;
} bound_op;

typedef struct bound_case {
    int op_count;
    const bound_op *ops;  // [op_count]
    const int32_t *op_ns; // [op_count]
    int64_t *clock_ns;    // [rank_count]
    int64_t *arrival_ns;  // [slot_count]
    int rank_count;
    int64_t makespan_ns;
} bound_case;

static void bound(void *context)
{
    bound_case *problem = context;
    const bound_op *restrict op = problem->ops;
    const int32_t *restrict op_ns = problem->op_ns;
    int64_t *restrict clock_ns = problem->clock_ns;
    int64_t *restrict arrival_ns = problem->arrival_ns;
    for (int rank = 0; rank < problem->rank_count; rank++) {
        clock_ns[rank] = 0;
    }
    for (int index = 0; index < problem->op_count; index++, op++) {
        const int64_t free_ns = clock_ns[op->rank];
        const int64_t arrived_ns = arrival_ns[op->wait];
        const int64_t end_ns = (free_ns > arrived_ns ? free_ns : arrived_ns) + op_ns[index];
        clock_ns[op->rank] = end_ns;
        arrival_ns[op->send] = end_ns + 20000;
    }
    problem->makespan_ns = clock_ns[0];
}

static void measure_bound(bool smoke, int ranks, int microbatches)
{
    arena *memory = arena_create(1 << 20);
    static_case compiled;
    static_case_init(&compiled, ranks, microbatches, 1, memory);
    const int op_count = compiled.order.step_count;
    bound_op *ops = arena_array(memory, (size_t)op_count, sizeof *ops);
    int32_t *op_ns = arena_array(memory, (size_t)op_count, sizeof *op_ns);
    for (int index = 0; index < op_count; index++) {
        const sim_step step = compiled.order.steps[index];
        ops[index] = (bound_op){.rank = (uint16_t)sim_step_rank(step),
                                .wait = (uint16_t)sim_step_wait(step),
                                .send = (uint16_t)sim_step_send(step)};
        op_ns[index] = 5000000 + index % 1000;
    }
    bound_case problem = {
        .op_count = op_count,
        .ops = ops,
        .op_ns = op_ns,
        .clock_ns = arena_array(memory, (size_t)ranks, sizeof(int64_t)),
        .arrival_ns = arena_array(memory, (size_t)compiled.order.slot_count, sizeof(int64_t)),
        .rank_count = ranks,
    };
    const bench_time time = bench_measure(smoke, bound, &problem);
    bench_print("max_plus_bound_ns_per_op", time.median_ns / op_count, "ns", "P=%d M=%d", ranks,
                microbatches);
    arena_destroy(memory);
}

int main(int argc, char **argv)
{
    const bool smoke = bench_is_smoke(argc, argv);
    static const int sizes[][2] = {{8, 96}, {64, 256}, {128, 512}, {512, 2048}};
    measure_bound(smoke, 24, 96);
    measure_static(smoke, 24, 96, 1);
    measure_static(smoke, 24, 96, 96);
    measure_run(smoke);
    if (smoke) return 0;
    for (size_t size = 0; size < sizeof sizes / sizeof sizes[0]; size++) {
        measure_static(smoke, sizes[size][0], sizes[size][1], 1);
        measure_static(smoke, sizes[size][0], sizes[size][1], sizes[size][1]);
    }
    return 0;
}

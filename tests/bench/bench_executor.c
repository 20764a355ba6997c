/// What the executor's engine costs: its own time per op with ops that take none, what an iteration
/// loses with ops of 1 ms, and how far an execution with ops of 5 ms is from the simulator, as it
/// is and with what it measured of itself put into the simulator's costs.
///
/// By itself it measures the transport `local`; under `mpirun -n P` the transport `mpi` with P
/// ranks.
#include "exec/run/rank.h"
#include "sim/pipeline.h"
#include "tests/bench/bench.h"
#include "tests/exec/world_group.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

enum { ITERATIONS = 4, RANKS_MAX = 64 }; // the first iteration warms up

/// What one rank says of an iteration.
typedef struct rank_figures {
    int64_t first_begin_ns;
    int64_t last_end_ns;
    int64_t overhead_ns;
    int64_t latency_ns;
    int64_t awaited_count;
} rank_figures;

typedef struct trial {
    const char *transport;
    const char *schedule;
    int rank_count;
    int64_t op_ns; // of F, B and W
    exec_clock clock;
    bool real_time;
    // Out, at the leader:
    int64_t simulated_ns; // makespan
    int64_t best_ns;      // smallest makespan of the iterations
    double overhead_ns;   // per op, mean over the iterations
    double core_ratio;    // of this process: processor time over the time of the run
    double calibrated_ns; // the simulator's makespan with the latency of the best iteration
} trial;

/// A trial as every rank prepares it for itself.
typedef struct prepared {
    bal_schedule schedule;
    bal_layer_costs layers; // one layer per stage
    bal_stage_costs costs;
    int *first_layer;
    int64_t *send_ns; // [rank_count] of both directions
} prepared;

static status prepare(const trial *at, arena *memory, prepared *made, error_message *err)
{
    const int ranks = at->rank_count;
    int64_t *times = arena_array(memory, (size_t)ranks, sizeof *times);
    int64_t *zeros = arena_array(memory, (size_t)ranks, sizeof *zeros);
    made->send_ns = arena_array(memory, (size_t)ranks, sizeof *made->send_ns);
    made->first_layer = arena_array(memory, (size_t)(ranks + 1), sizeof *made->first_layer);
    for (int stage = 0; stage < ranks; stage++) {
        times[stage] = at->op_ns;
        made->first_layer[stage + 1] = stage + 1;
    }
    made->layers = (bal_layer_costs){.layer_count = ranks,
                                     .microbatch_count = 1,
                                     .has_split = true,
                                     .forward_ns = times,
                                     .backward_input_ns = times,
                                     .backward_weight_ns = times};
    made->costs = (bal_stage_costs){.stage_count = ranks,
                                    .microbatch_count = 1,
                                    .forward_ns = times,
                                    .backward_input_ns = times,
                                    .backward_weight_ns = times,
                                    .send_forward_ns = made->send_ns,
                                    .send_backward_ns = made->send_ns,
                                    .memory_forward = zeros,
                                    .memory_backward_input = zeros,
                                    .memory_backward_weight = zeros};
    const bal_schedule_request request = {.name = at->schedule,
                                          .rank_count = ranks,
                                          .microbatch_count = 2 * ranks,
                                          .costs = &made->costs};
    return bal_schedule_build(&request, memory, &made->schedule, err);
}

/// The simulator's makespan where every message takes send_ns.
static status simulate(prepared *made, int64_t send_ns, int64_t *makespan_ns, error_message *err)
{
    arena *memory = arena_create(1 << 20);
    sim_order order;
    sim_summary summary;
    for (int stage = 0; stage < made->schedule.rank_count; stage++) {
        made->send_ns[stage] = send_ns;
    }
    status code = sim_order_compile(&made->schedule, memory, &order, err);
    if (code == STATUS_OK) {
        sim_summary_init(&order, memory, &summary);
        sim_order_summarise(&order, &made->costs, NULL, &summary);
        *makespan_ns = summary.makespan_ns;
    }
    arena_destroy(memory);
    return code;
}

/// The leader's account of an iteration of all ranks.
static status account(trial *at, prepared *made, const rank_figures *ranks, bool is_warm,
                      error_message *err)
{
    const int ops = made->schedule.first_op[at->rank_count];
    rank_figures sum = {.first_begin_ns = INT64_MAX};
    for (int rank = 0; rank < at->rank_count; rank++) {
        const rank_figures *own = &ranks[rank];
        if (own->first_begin_ns < sum.first_begin_ns) sum.first_begin_ns = own->first_begin_ns;
        if (own->last_end_ns > sum.last_end_ns) sum.last_end_ns = own->last_end_ns;
        sum.overhead_ns += own->overhead_ns;
        sum.latency_ns += own->latency_ns;
        sum.awaited_count += own->awaited_count;
    }
    const int64_t makespan_ns = sum.last_end_ns - sum.first_begin_ns;
    if (!is_warm) return simulate(made, 0, &at->simulated_ns, err);
    at->overhead_ns += (double)sum.overhead_ns / ops / (ITERATIONS - 1);
    if (at->best_ns != 0 && makespan_ns >= at->best_ns) return STATUS_OK;
    at->best_ns = makespan_ns;
    int64_t calibrated_ns = 0;
    TRY(simulate(made, sum.awaited_count > 0 ? sum.latency_ns / sum.awaited_count : 0,
                 &calibrated_ns, err));
    at->calibrated_ns = (double)calibrated_ns;
    return STATUS_OK;
}

/// Plays an iteration and tells the leader of it.
static status iterate(trial *at, prepared *made, exec_rank_play *play, const exec_group *group,
                      int iteration, arena *memory, error_message *err)
{
    exec_endpoint *endpoint = play->endpoint;
    const int steps = play->program->step_count;
    exec_rank_times times = {.begin_ns = arena_array(memory, (size_t)steps, sizeof(int64_t)),
                             .end_ns = arena_array(memory, (size_t)steps, sizeof(int64_t))};
    const exec_iteration what = {
        .iteration = iteration, .costs = &made->layers, .rank_time_factor = 1};
    play->iteration_begin_ns = endpoint->transport->now_ns(endpoint) + 2000000;
    TRY(exec_group_broadcast(group, &play->iteration_begin_ns, sizeof play->iteration_begin_ns,
                             err));
    TRY(exec_group_barrier(group, err));
    TRY(exec_rank_iterate(play, &what, &times, err));
    const rank_figures own = {.first_begin_ns = times.begin_ns[0],
                              .last_end_ns = times.end_ns[steps - 1],
                              .overhead_ns = times.overhead_ns,
                              .latency_ns = times.latency_ns,
                              .awaited_count = times.awaited_count};
    int64_t sizes[RANKS_MAX];
    void *all = NULL;
    TRY(exec_group_gather(group, &own, sizeof own, memory, sizes, &all, err));
    return group->self == 0 ? account(at, made, all, iteration > 0, err) : STATUS_OK;
}

static status play_with(exec_endpoint *endpoint, trial *at, exec_device *device, arena *memory,
                        error_message *err)
{
    prepared made = {0};
    exec_program program;
    int ranks[RANKS_MAX];
    int sequence;
    const exec_group group = world_group(endpoint, ranks, &sequence);
    TRY(prepare(at, memory, &made, err));
    const bal_placed_partition plan = {
        .first_layer = made.first_layer, .rank_count = at->rank_count, .chunk_count = 1};
    TRY(device->table->hold(device, &plan, endpoint->rank, 2 * at->rank_count, err));
    exec_program_compile(&made.schedule, endpoint->rank, memory, &program);
    exec_rank_play play = {.endpoint = endpoint,
                           .device = device,
                           .program = &program,
                           .world_rank = ranks,
                           .clock = at->clock};
    for (int iteration = 0; iteration < ITERATIONS; iteration++) {
        TRY(iterate(at, &made, &play, &group, iteration, memory, err));
    }
    return STATUS_OK;
}

static status play_rank(exec_endpoint *endpoint, void *context, error_message *err)
{
    trial *at = context;
    arena *memory = arena_create(1 << 18);
    exec_device *device = exec_device_timed_create(at->rank_count);
    const status code = play_with(endpoint, at, device, memory, err);
    device->table->destroy(device);
    arena_destroy(memory);
    return code;
}

static double processor_s(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

static void run(trial *at)
{
    const double processor_begin_s = processor_s();
    const int64_t begin_ns = bench_now_ns();
    error_message err = {0};
    exec_transport_options options = exec_transport_options_default();
    options.rank_count = at->rank_count;
    options.real_time = at->real_time;
    bench_require(exec_transport_run(at->transport, &options, play_rank, at, &err), &err);
    const double wall_s = (double)(bench_now_ns() - begin_ns) / 1e9;
    at->core_ratio = (processor_s() - processor_begin_s) / wall_s;
}

static const char *priority(const trial *at)
{
    return at->real_time ? ", SCHED_RR" : "";
}

static void measure_overhead(const char *transport, int rank_count)
{
    trial at = {.transport = transport,
                .schedule = "zb-h1",
                .rank_count = rank_count,
                .clock = EXEC_CLOCK_REAL};
    run(&at);
    if (!exec_transport_is_leader(transport)) return;
    bench_print("executor_overhead_us_per_op", at.overhead_ns / 1e3, "us",
                "%s P=%d M=%d zb-h1, ops of 0 ns", transport, rank_count, 2 * rank_count);
    bench_print("executor_iteration_us_per_op", (double)at.best_ns / 1e3 / (6.0 * rank_count), "us",
                "%s P=%d M=%d zb-h1, ops of 0 ns: iteration over the ops of a rank", transport,
                rank_count, 2 * rank_count);
}

static void measure_share(const char *transport, int rank_count, int64_t op_ns)
{
    trial at = {.transport = transport,
                .schedule = "zb-h1",
                .rank_count = rank_count,
                .op_ns = op_ns,
                .clock = EXEC_CLOCK_REAL};
    run(&at);
    if (!exec_transport_is_leader(transport)) return;
    const double share = 100 * (1 - (double)at.simulated_ns / (double)at.best_ns);
    bench_print("executor_share_percent", share, "%",
                "%s P=%d M=%d zb-h1, ops of %g ms, real clock, best of 3", transport, rank_count,
                2 * rank_count, (double)op_ns / 1e6);
}

static void measure_error(const char *transport, const char *schedule, int rank_count,
                          int64_t op_ns, exec_clock clock, bool real_time)
{
    trial at = {.transport = transport,
                .schedule = schedule,
                .rank_count = rank_count,
                .op_ns = op_ns,
                .clock = clock,
                .real_time = real_time};
    run(&at);
    if (!exec_transport_is_leader(transport)) return;
    const double error = 100 * ((double)at.best_ns / (double)at.simulated_ns - 1);
    bench_print("executor_error_percent", error, "%",
                "%s P=%d M=%d %s, ops of %g ms, %s clock%s, best of 3", transport, rank_count,
                2 * rank_count, schedule, (double)op_ns / 1e6, exec_clock_names[clock],
                priority(&at));
    if (clock != EXEC_CLOCK_QUEUE) return;
    bench_print("executor_process_core_percent", 100 * at.core_ratio, "%",
                "%s P=%d M=%d %s, ops of %g ms, %s clock%s: of one core, by the process", transport,
                rank_count, 2 * rank_count, schedule, (double)op_ns / 1e6, exec_clock_names[clock],
                priority(&at));
    bench_print("executor_calibrated_error_percent",
                100 * ((double)at.best_ns / at.calibrated_ns - 1), "%",
                "%s P=%d M=%d %s, ops of %g ms, %s clock%s, best of 3, its own latency simulated",
                transport, rank_count, 2 * rank_count, schedule, (double)op_ns / 1e6,
                exec_clock_names[clock], priority(&at));
}

static void measure_all(const char *transport, int rank_count, bool smoke)
{
    const int64_t op_ns = smoke ? 100000 : 5000000;
    measure_overhead(transport, rank_count);
    if (rank_count < 2) return;
    measure_share(transport, rank_count, smoke ? 100000 : 1000000);
    for (int is_split = 0; is_split < 2 && rank_count >= 8; is_split++) {
        const char *schedule = is_split ? "zb-h1" : "1f1b";
        measure_error(transport, schedule, rank_count, op_ns, EXEC_CLOCK_REAL, false);
        measure_error(transport, schedule, rank_count, op_ns, EXEC_CLOCK_QUEUE, false);
        measure_error(transport, schedule, rank_count, op_ns, EXEC_CLOCK_QUEUE, true);
    }
}

int main(int argc, char **argv)
{
    const bool smoke = bench_is_smoke(argc, argv);
    static const int rank_counts[] = {1, 2, 8, 16, 24};
    const char *launched = getenv("OMPI_COMM_WORLD_SIZE");
    if (launched != NULL) {
        measure_all("mpi", atoi(launched), smoke);
        return 0;
    }
    for (int index = 0; index < (smoke ? 3 : 5); index++) {
        measure_all("local", rank_counts[index], smoke);
    }
    return 0;
}

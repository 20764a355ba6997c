/// What the event engine costs per op: under every policy, by every way to send, with shared links,
/// and how it grows.
#include "balance/schedule/schedule.h"
#include "base/rng.h"
#include "sim/costs.h"
#include "sim/dispatch.h"
#include "tests/bench/bench.h"

enum { RANKS = 24, MICROBATCHES = 96 };

typedef struct event_case {
    bal_schedule schedule;
    bal_stage_costs costs;
    const int64_t *memory_limit;
    sim_network network;
    sim_dispatch *dispatch;
    bal_timeline timeline;
    rng generator;
} event_case;

/// zb-h1 with costs per microbatch up to 40 % apart and 20 us between ranks, in the memory of 1F1B.
/// Links are those of nodes of 8 ranks: what leaves a node shares one.
static void init(event_case *problem, int ranks, int microbatches, sim_policy policy, bal_send send,
                 int ranks_per_link, arena *memory)
{
    const bal_schedule_request request = {
        .name = "zb-h1", .rank_count = ranks, .microbatch_count = microbatches};
    const int cells = ranks * microbatches;
    error_message err = {0};
    rng *generator = &problem->generator;
    *problem = (event_case){.generator = rng_init(1, 3)};
    bench_require(bal_schedule_build(&request, memory, &problem->schedule, &err), &err);
    problem->costs = (bal_stage_costs){
        .stage_count = ranks,
        .microbatch_count = microbatches,
        .forward_ns = bench_draw(generator, cells, 5000000, 7000000, memory),
        .backward_input_ns = bench_draw(generator, cells, 5000000, 7000000, memory),
        .backward_weight_ns = bench_draw(generator, cells, 4000000, 5600000, memory),
        .send_forward_ns = bench_draw(generator, ranks, 20000, 20000, memory),
        .send_backward_ns = bench_draw(generator, ranks, 20000, 20000, memory),
        .memory_forward = bench_draw(generator, ranks, 1, 1, memory),
        .memory_backward_input = bench_draw(generator, ranks, 0, 0, memory),
        .memory_backward_weight = bench_draw(generator, ranks, -1, -1, memory),
    };
    problem->memory_limit = bench_draw(generator, ranks, ranks, ranks, memory);
    problem->network.send = send;
    if (ranks_per_link > 0) {
        int *link = arena_array(memory, (size_t)ranks, sizeof *link);
        for (int rank = 0; rank < ranks; rank++) {
            link[rank] = rank / ranks_per_link;
        }
        problem->network.link_count = (ranks - 1) / ranks_per_link + 1;
        problem->network.link[0] = problem->network.link[1] = link;
        problem->network.occupancy_ns[0] = problem->network.occupancy_ns[1] =
            bench_draw(generator, ranks, 15000, 15000, memory);
    }
    bench_require(sim_costs_check(&problem->schedule, &problem->costs, &err), &err);
    bench_require(sim_dispatch_create(&problem->schedule, policy, &problem->network, memory,
                                      &problem->dispatch, &err),
                  &err);
}

static void play(void *context)
{
    event_case *problem = context;
    error_message err = {0};
    bench_require(sim_dispatch_play(problem->dispatch, &problem->costs, problem->memory_limit, NULL,
                                    &problem->timeline, &err),
                  &err);
}

/// @param ranks_per_link 0: no link is shared
static void measure(bool smoke, int ranks, int microbatches, sim_policy policy, bal_send send,
                    int ranks_per_link)
{
    arena *memory = arena_create(1 << 20);
    event_case problem;
    init(&problem, ranks, microbatches, policy, send, ranks_per_link, memory);
    const bench_time time = bench_measure(smoke, play, &problem);
    bench_print("event_engine_ns_per_op", time.median_ns / problem.schedule.first_op[ranks], "ns",
                "P=%d M=%d costs per microbatch, policy %s, sends %s, %d shared links", ranks,
                microbatches, sim_policy_names[policy], bal_send_names[send],
                problem.network.link_count);
    arena_destroy(memory);
}

int main(int argc, char **argv)
{
    const bool smoke = bench_is_smoke(argc, argv);
    static const int sizes[][2] = {{8, 96}, {64, 256}, {128, 512}, {512, 2048}};
    for (int policy = 0; policy < SIM_POLICY_COUNT; policy++) {
        for (int send = 0; send < BAL_SEND_COUNT; send++) {
            measure(smoke, RANKS, MICROBATCHES, (sim_policy)policy, (bal_send)send, 0);
        }
        measure(smoke, RANKS, MICROBATCHES, (sim_policy)policy, BAL_SEND_ASYNC, 8);
    }
    if (smoke) return 0;
    for (size_t size = 0; size < sizeof sizes / sizeof sizes[0]; size++) {
        for (int policy = 0; policy < SIM_POLICY_COUNT; policy++) {
            measure(smoke, sizes[size][0], sizes[size][1], (sim_policy)policy, BAL_SEND_ASYNC, 0);
        }
    }
    return 0;
}

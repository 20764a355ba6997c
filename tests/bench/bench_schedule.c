/// What deciding an order costs: the searches of zb-auto and zb-v, in process, as after each
/// rebalance.
#include "balance/schedule/schedule.h"
#include "tests/bench/bench.h"

typedef struct search {
    bal_schedule_request request;
    arena *memory;
} search;

static void build(void *context)
{
    search *of = context;
    bal_schedule schedule;
    error_message err = {0};
    arena_reset(of->memory);
    bench_require(bal_schedule_build(&of->request, of->memory, &schedule, &err), &err);
}

/// Costs of a 6.2B GPT (Qi et al., ICLR 2024, table 6) on every rank; where imbalanced, 3 % more on
/// each stage than on the one before.
static void measure(bool smoke, int chunk_count, int rank_count, int microbatch_count,
                    int memory_factor, bool imbalanced)
{
    enum { STAGES_MAX = 48, ROWS = 9 };
    const int64_t first[ROWS] = {29718000, 29444000, 19927000, 527000, 527000, 2, -1, -1};
    int64_t rows[ROWS][STAGES_MAX];
    const int stage_count = chunk_count * rank_count;
    for (int row = 0; row < ROWS; row++) {
        for (int stage = 0; stage < stage_count; stage++) {
            const bool grows = imbalanced && row < 3;
            rows[row][stage] = first[row] + (grows ? first[row] * 3 * stage / 100 : 0);
        }
    }
    for (int rank = 0; rank < rank_count; rank++) {
        rows[8][rank] = (int64_t)2 * memory_factor * stage_count; // the last row is the limit
    }
    const bal_stage_costs costs = {.stage_count = stage_count,
                                   .microbatch_count = 1,
                                   .forward_ns = rows[0],
                                   .backward_input_ns = rows[1],
                                   .backward_weight_ns = rows[2],
                                   .send_forward_ns = rows[3],
                                   .send_backward_ns = rows[4],
                                   .memory_forward = rows[5],
                                   .memory_backward_input = rows[6],
                                   .memory_backward_weight = rows[7]};
    search of = {.request = {.name = chunk_count == 1 ? "zb-auto" : "zb-v",
                             .rank_count = rank_count,
                             .microbatch_count = microbatch_count,
                             .costs = &costs,
                             .memory_limit = rows[8]},
                 .memory = arena_create(1 << 20)};
    const bench_time time = bench_measure(smoke, build, &of);
    bench_print(chunk_count == 1 ? "zb_auto_search_us" : "zb_v_search_us", time.median_ns / 1e3,
                "us", "P=%d M=%d memory=%dx%s", rank_count, microbatch_count, memory_factor,
                imbalanced ? " imbalanced" : "");
    arena_destroy(of.memory);
}

int main(int argc, char **argv)
{
    const bool smoke = bench_is_smoke(argc, argv);
    for (int memory_factor = 1; memory_factor <= 2; memory_factor++) {
        for (int chunk_count = 1; chunk_count <= 2; chunk_count++) {
            measure(smoke, chunk_count, 24, 96, memory_factor, false);
            measure(smoke, chunk_count, 24, 96, memory_factor, true);
            measure(smoke, chunk_count, 8, 32, memory_factor, false);
            measure(smoke, chunk_count, 8, 32, memory_factor, true);
        }
    }
    return 0;
}

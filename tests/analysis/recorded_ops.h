/// Runs of several replicas as a tracer would have recorded them, played by the simulator with what
/// slowed them planted.
#pragma once

#include "base/rng.h"
#include "sim/pipeline.h"
#include "tests/test.h"
#include "tests/test_memory.h"
#include "traces/store/op_table.h"

#include <string.h>

enum { PLANT_STAGES = 4, PLANT_REPLICAS = 4, PLANT_MICROBATCHES = 8, PLANT_STEPS_MAX = 64 };

typedef struct planted {
    int step_count;
    int stage_count;  // at most PLANT_STAGES
    double noise;     // relative spread of every F and backward
    int slow_replica; // its slow_stage takes slow_factor times as long; -1: none
    int slow_stage;
    double slow_factor;
    double last_factor;   // of the last stage's F and backward; 0: 1
    double length_spread; // microbatches take between 1 - and 1 + this, on all stages; 0: none
    double cold_factor; // the first microbatch of the first step takes so many times as long; 0: 1
    int64_t pause_ns;   // before or inside an F, where one in pause_every of them is hit
    int pause_every;    // 0: none
    bool pause_is_inside;  // the op lasts longer; else it begins later
    bool pause_is_named;   // and an op "gc" stands in the gap
    int slow_link_replica; // its messages from stage 1 to 2 take slow_link_ns; -1: none
    int64_t slow_link_ns;
    uint64_t seed;
} planted;

/// What is left 0 takes its default.
static inline planted planted_of(planted how)
{
    if (how.step_count == 0) how.step_count = 24;
    if (how.stage_count == 0) how.stage_count = PLANT_STAGES;
    if (how.noise <= 0) how.noise = 0.01;
    if (how.slow_factor <= 0) how.slow_replica = -1;
    if (how.slow_link_ns == 0) how.slow_link_replica = -1;
    if (how.seed == 0) how.seed = 7;
    return how;
}

enum { // names of ops, from 1
    NAME_FORWARD = 1,
    NAME_BACKWARD,
    NAME_SEND_FORWARD,
    NAME_RECV_FORWARD,
    NAME_SEND_BACKWARD,
    NAME_RECV_BACKWARD,
    NAME_GATHER,
    NAME_REDUCE,
    NAME_STEP,
    NAME_GC,
    NAME_COUNT = NAME_GC
};

static const char *const planted_names[NAME_COUNT] = {
    "forward-compute", "backward-compute",  "forward-send",         "forward-recv", "backward-send",
    "backward-recv",   "params-all-gather", "grads-reduce-scatter", "optimizer",    "gc"};
static const trace_op_kind planted_kinds[NAME_COUNT] = {
    TRACE_OP_FORWARD,       TRACE_OP_BACKWARD,      TRACE_OP_SEND_FORWARD, TRACE_OP_RECV_FORWARD,
    TRACE_OP_SEND_BACKWARD, TRACE_OP_RECV_BACKWARD, TRACE_OP_REPLICAS,     TRACE_OP_REPLICAS,
    TRACE_OP_LOCAL,         TRACE_OP_LOCAL,
};

enum { PLANT_CELLS = PLANT_STAGES * PLANT_MICROBATCHES };

/// What one replica's ops take in one step, and the pauses in front of its F.
typedef struct plant_costs {
    int64_t forward_ns[PLANT_CELLS];
    int64_t backward_ns[PLANT_CELLS];
    int64_t pause_ns[PLANT_CELLS];
    int64_t zero_ns[PLANT_CELLS];
    int64_t send_ns[PLANT_STAGES];
} plant_costs;

static inline void plant_draw(const planted *run, int step, int replica, rng *random,
                              plant_costs *costs)
{
    double length[PLANT_MICROBATCHES];
    memset(costs, 0, sizeof *costs);
    for (int microbatch = 0; microbatch < PLANT_MICROBATCHES; microbatch++) {
        length[microbatch] = 1 + run->length_spread * (2 * rng_unit(random) - 1);
    }
    if (step == 0 && run->cold_factor > 0) length[0] *= run->cold_factor;
    for (int stage = 0; stage < run->stage_count; stage++) {
        double factor = 1;
        if (replica == run->slow_replica && stage == run->slow_stage) factor = run->slow_factor;
        if (stage == run->stage_count - 1 && run->last_factor > 0) factor *= run->last_factor;
        const bool is_slow = replica == run->slow_link_replica && stage == 1;
        costs->send_ns[stage] = is_slow ? run->slow_link_ns : 500000;
        for (int microbatch = 0; microbatch < PLANT_MICROBATCHES; microbatch++) {
            const int cell = stage * PLANT_MICROBATCHES + microbatch;
            const double scale = factor * length[microbatch];
            costs->forward_ns[cell] =
                (int64_t)(20e6 * scale * (1 + run->noise * (2 * rng_unit(random) - 1)));
            costs->backward_ns[cell] =
                (int64_t)(40e6 * scale * (1 + run->noise * (2 * rng_unit(random) - 1)));
            const bool is_hit =
                run->pause_every > 0 && rng_below(random, (uint64_t)run->pause_every) == 0;
            if (is_hit) costs->pause_ns[cell] = run->pause_ns;
            costs->forward_ns[cell] += costs->pause_ns[cell];
        }
    }
}

static inline void plant_put(trace_op_table *table, int step, int replica, int stage, int name,
                             int microbatch, int64_t begin_ns, int64_t end_ns)
{
    const trace_op op = {.iteration = step,
                         .replica = replica,
                         .stage = stage,
                         .rank = replica * table->stage_count + stage,
                         .layer = name <= NAME_BACKWARD ? stage : TRACE_NOT_RECORDED,
                         .microbatch = name <= NAME_BACKWARD ? microbatch : TRACE_NOT_RECORDED,
                         .name = name,
                         .begin_ns = begin_ns,
                         .end_ns = end_ns};
    trace_op_table_add(table, &op);
}

/// The op of a rank, as a place in the schedule.
static inline int find_op(const bal_schedule *schedule, int rank, int kind, int microbatch)
{
    int op = schedule->first_op[rank];
    while ((int)schedule->ops[op].kind != kind || (int)schedule->ops[op].microbatch != microbatch) {
        op++;
    }
    return op;
}

/// Plays a replica behind its all-gather and puts its ops. @return [stage_count] last ends
static inline void plant_replica(const planted *run, int step, int replica, rng *random,
                                 trace_op_table *table, int64_t *ends_ns)
{
    static const int64_t gather_ns = 3000000;
    plant_costs costs;
    sim_order order;
    bal_schedule schedule;
    bal_timeline timeline;
    plant_draw(run, step, replica, random, &costs);
    const bal_stage_costs stages = {.stage_count = run->stage_count,
                                    .microbatch_count = PLANT_MICROBATCHES,
                                    .forward_ns = costs.forward_ns,
                                    .backward_input_ns = costs.backward_ns,
                                    .backward_weight_ns = costs.zero_ns,
                                    .send_forward_ns = costs.send_ns,
                                    .send_backward_ns = costs.send_ns,
                                    .memory_forward = costs.zero_ns,
                                    .memory_backward_input = costs.zero_ns,
                                    .memory_backward_weight = costs.zero_ns};
    const bal_schedule_request request = {
        .name = "1f1b", .rank_count = run->stage_count, .microbatch_count = PLANT_MICROBATCHES};
    assert_ok(bal_schedule_build(&request, memory, &schedule, NULL));
    assert_ok(sim_order_compile(&schedule, memory, &order, NULL));
    sim_timeline_init(&schedule, memory, &timeline);
    sim_order_play(&order, &stages, NULL, &timeline);
    for (int stage = 0; stage < run->stage_count; stage++) {
        int64_t received_ns[2] = {0}; // end of the last receive of each direction
        plant_put(table, step, replica, stage, NAME_GATHER, -1, 0, gather_ns);
        for (int op = schedule.first_op[stage]; op < schedule.first_op[stage + 1]; op++) {
            const bal_op each = schedule.ops[op];
            const bool forward = each.kind == OP_FORWARD;
            const int cell = stage * PLANT_MICROBATCHES + (int)each.microbatch;
            int64_t begin_ns = timeline.begin_ns[op] + gather_ns;
            const int64_t end_ns = timeline.end_ns[op] + gather_ns;
            const int from = forward ? stage - 1 : stage + 1;
            const int to = forward ? stage + 1 : stage - 1;
            if (from >= 0 && from < run->stage_count) {
                const int sender = find_op(&schedule, from, each.kind, (int)each.microbatch);
                const int64_t arrived_ns =
                    timeline.end_ns[sender] + gather_ns + costs.send_ns[from];
                plant_put(table, step, replica, stage,
                          forward ? NAME_RECV_FORWARD : NAME_RECV_BACKWARD, -1,
                          received_ns[forward], arrived_ns);
                received_ns[forward] = arrived_ns;
            }
            if (forward && run->pause_is_named && costs.pause_ns[cell] > 0) {
                plant_put(table, step, replica, stage, NAME_GC, -1, begin_ns,
                          begin_ns + costs.pause_ns[cell]);
            }
            if (forward && !run->pause_is_inside) begin_ns += costs.pause_ns[cell];
            plant_put(table, step, replica, stage, forward ? NAME_FORWARD : NAME_BACKWARD,
                      (int)each.microbatch, begin_ns, end_ns);
            if (to >= 0 && to < run->stage_count) {
                plant_put(table, step, replica, stage,
                          forward ? NAME_SEND_FORWARD : NAME_SEND_BACKWARD, -1, end_ns,
                          end_ns + costs.send_ns[stage]);
            }
            ends_ns[stage] = end_ns;
        }
    }
}

/// The whole run. Everything is carved from memory.
static inline trace_op_table plant(const planted *run)
{
    const int per_step = PLANT_REPLICAS * run->stage_count * (7 * PLANT_MICROBATCHES + 3);
    trace_op_table table = {
        .replica_count = PLANT_REPLICAS,
        .stage_count = run->stage_count,
        .chunk_count = 1,
        .name_count = NAME_COUNT,
        .names = arena_array(memory, NAME_COUNT, sizeof(const char *)),
        .kinds = arena_array(memory, NAME_COUNT, sizeof(trace_op_kind)),
        .ops = arena_array(memory, (size_t)(per_step * run->step_count), sizeof(trace_table_op))};
    rng random = rng_init(run->seed, 1);
    for (int name = 0; name < NAME_COUNT; name++) {
        table.names[name] = planted_names[name];
        table.kinds[name] = planted_kinds[name];
    }
    for (int step = 0; step < run->step_count; step++) {
        int64_t ends_ns[PLANT_REPLICAS][PLANT_STAGES] = {{0}};
        for (int replica = 0; replica < PLANT_REPLICAS; replica++) {
            plant_replica(run, step, replica, &random, &table, ends_ns[replica]);
        }
        for (int stage = 0; stage < run->stage_count; stage++) {
            int64_t together_ns = 0;
            for (int replica = 0; replica < PLANT_REPLICAS; replica++) {
                if (ends_ns[replica][stage] > together_ns) together_ns = ends_ns[replica][stage];
            }
            for (int replica = 0; replica < PLANT_REPLICAS; replica++) {
                const int64_t end_ns = together_ns + 5000000;
                plant_put(&table, step, replica, stage, NAME_REDUCE, -1, ends_ns[replica][stage],
                          end_ns);
                plant_put(&table, step, replica, stage, NAME_STEP, -1, end_ns, end_ns + 2000000);
            }
        }
    }
    trace_op_table_sort(table.ops, table.op_count);
    return table;
}

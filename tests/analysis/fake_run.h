/// Runs that nobody played, for tests of checks: ops of given times under a real schedule, with
/// noise, put into a store as recordings put them.
#pragma once

#include "analysis/check/check.h"
#include "analysis/report/recording.h"
#include "balance/metrics.h"
#include "base/rng.h"
#include "sim/pipeline.h"
#include "tests/test.h"
#include "tests/test_memory.h"

#include <stdio.h>
#include <string.h>

enum { FAKE_RANKS = 4, FAKE_LAYERS = 16, FAKE_MICROBATCHES = 8, FAKE_LABEL_BYTES = 16 };

typedef struct fake_run {
    const char *name;
    trace_run_kind kind;
    const char *schedule; // as the plan says
    const char *order;    // that is played; NULL: schedule
    int iteration_count;
    int first_iteration;
    int left_out;                     // every so many iterations one is not recorded; 0: all are
    double layer_factor[FAKE_LAYERS]; // 0: 1
    double kind_factor[OP_KIND_COUNT];
    double rank_factor[FAKE_RANKS];
    int factors_from;     // iteration from which on the three hold
    int64_t slow_link_ns; // more, between ranks 1 and 2
    int64_t outside_ns;   // of every iteration
    int64_t peak_bytes;   // of rank 0; others need 1000
    double noise;         // of ops, about its relative spread
    uint64_t seed;
    int move_at; // iteration from which on the second cut is in force; 0: never
    bool starts_moved;
    bool is_unfinished; // ends with a failure
} fake_run;

/// A run of 40 iterations without noise.
static inline fake_run fake_run_default(trace_run_kind kind)
{
    return (fake_run){.name = "fake",
                      .kind = kind,
                      .schedule = "zb-h1",
                      .iteration_count = 40,
                      .peak_bytes = 1000};
}

static const int fake_cuts[2][FAKE_RANKS + 1] = {{0, 4, 8, 12, 16}, {0, 4, 6, 12, 16}};

static inline double fake_factor(double factor)
{
    return factor > 0 ? factor : 1.0;
}

/// Right-skewed, of median about 1: most ops vary a little, one in twenty is held up.
static inline double fake_noise(rng *generator, double noise)
{
    const double shape = rng_unit(generator) + rng_unit(generator) + rng_unit(generator) - 1.5;
    const double tail = rng_unit(generator) < 0.05 ? 10 * rng_unit(generator) : 0;
    return 1 + noise * (2 * shape + tail);
}

/// What an op takes: its layers' times with all factors.
static inline int64_t fake_op_ns(const fake_run *run, int iteration, const int *cuts, int rank,
                                 bal_op_kind kind, rng *generator)
{
    static const int64_t layer_ns[OP_KIND_COUNT] = {
        [OP_FORWARD] = 100000, [OP_BACKWARD_INPUT] = 110000, [OP_BACKWARD_WEIGHT] = 90000};
    const bool holds = iteration >= run->factors_from;
    double sum = 0;
    for (int layer = cuts[rank]; layer < cuts[rank + 1]; layer++) {
        sum += (double)layer_ns[kind] * (holds ? fake_factor(run->layer_factor[layer]) : 1);
    }
    if (holds) sum *= fake_factor(run->kind_factor[kind]) * fake_factor(run->rank_factor[rank]);
    return (int64_t)(sum * fake_noise(generator, run->noise));
}

static inline const int *fake_cuts_at(const fake_run *run, int iteration)
{
    const bool is_moved = run->starts_moved || (run->move_at > 0 && iteration >= run->move_at);
    return fake_cuts[is_moved];
}

/// Plays one iteration. @param timeline of a schedule in memory
static inline void fake_play(const fake_run *run, int iteration, rng *generator,
                             bal_schedule *schedule, bal_timeline *timeline)
{
    enum { CELLS = FAKE_RANKS * FAKE_MICROBATCHES };
    static int64_t times[3][CELLS];
    static int64_t send[FAKE_RANKS];
    static int64_t send_back[FAKE_RANKS];
    static int64_t zero[FAKE_RANKS];
    static const bal_op_kind kinds[] = {OP_FORWARD, OP_BACKWARD_INPUT, OP_BACKWARD_WEIGHT};
    const int *cuts = fake_cuts_at(run, iteration);
    sim_order order;
    for (int cell = 0; cell < CELLS; cell++) {
        for (int kind = 0; kind < 3; kind++) {
            times[kind][cell] =
                fake_op_ns(run, iteration, cuts, cell / FAKE_MICROBATCHES, kinds[kind], generator);
        }
    }
    for (int rank = 0; rank < FAKE_RANKS; rank++) {
        send[rank] = 10000 + (rank == 1 ? run->slow_link_ns : 0);
        send_back[rank] = 10000 + (rank == 2 ? run->slow_link_ns : 0);
    }
    const bal_stage_costs costs = {.stage_count = FAKE_RANKS,
                                   .microbatch_count = FAKE_MICROBATCHES,
                                   .forward_ns = times[0],
                                   .backward_input_ns = times[1],
                                   .backward_weight_ns = times[2],
                                   .send_forward_ns = send,
                                   .send_backward_ns = send_back,
                                   .memory_forward = zero,
                                   .memory_backward_input = zero,
                                   .memory_backward_weight = zero};
    const bal_schedule_request request = {.name = run->order != NULL ? run->order : run->schedule,
                                          .rank_count = FAKE_RANKS,
                                          .microbatch_count = FAKE_MICROBATCHES};
    assert_ok(bal_schedule_build(&request, memory, schedule, NULL));
    assert_ok(sim_order_compile(schedule, memory, &order, NULL));
    sim_timeline_init(schedule, memory, timeline);
    sim_order_play(&order, &costs, NULL, timeline);
}

static inline void fake_put_plan(trace_run *run, const fake_run *fake, int iteration,
                                 int64_t *plan_id)
{
    char json[400];
    const int *cuts = fake_cuts_at(fake, iteration);
    snprintf(json, sizeof json,
             "{\"schema\":\"dynmo-plan/1\",\"first_layer\":[%d,%d,%d,%d,%d],\"chunks\":1,"
             "\"placement\":\"interleaved\",\"schedule\":\"%s\",\"microbatches\":%d,"
             "\"stage_ranks\":[0,1,2,3],\"data_parallel\":1,\"embedding\":false,\"head\":false}",
             cuts[0], cuts[1], cuts[2], cuts[3], cuts[4], fake->schedule, FAKE_MICROBATCHES);
    assert_ok(trace_run_put_plan(run, "row", iteration, json, plan_id, NULL));
}

static inline void fake_put_timeline(trace_run *run, const fake_run *fake, int iteration,
                                     const bal_timeline *timeline)
{
    static const int64_t zero[FAKE_RANKS];
    char label[40];
    text_buffer json = {0};
    const ana_timeline written = {.label = "row",
                                  .iteration = iteration,
                                  .schedule = *timeline->schedule,
                                  .timeline = *timeline,
                                  .first_layer = fake_cuts_at(fake, iteration),
                                  .memory_forward = zero,
                                  .memory_backward_input = zero,
                                  .memory_backward_weight = zero};
    snprintf(label, sizeof label, "timeline/%d/row", iteration);
    ana_timeline_write(&written, &json);
    assert_ok(trace_run_put_result(run, label, json.bytes, NULL));
    text_free(&json);
}

static inline void fake_put_rows(trace_run *run, const fake_run *fake, int iteration,
                                 int64_t plan_id, const bal_timeline *timeline)
{
    const bal_metrics metrics = bal_metrics_of(timeline);
    trace_run_op_time *op_times = NULL;
    int count = 0;
    const trace_run_iteration row = {.iteration = iteration,
                                     .plan_id = plan_id,
                                     .iteration_ns = metrics.makespan_ns + fake->outside_ns,
                                     .makespan_ns = metrics.makespan_ns,
                                     .span_ns = metrics.span_ns,
                                     .busy_ns = metrics.busy_ns};
    assert_ok(trace_run_put(run, TRACE_RUN_ITERATIONS, "row", &row, NULL));
    for (int rank = 0; rank < FAKE_RANKS; rank++) {
        const bal_schedule *schedule = timeline->schedule;
        trace_run_work work = {.iteration = iteration, .place = rank, .rank = rank};
        for (int op = schedule->first_op[rank]; op < schedule->first_op[rank + 1]; op++) {
            work.work_ns += timeline->end_ns[op] - timeline->begin_ns[op];
        }
        assert_ok(trace_run_put(run, TRACE_RUN_WORK, "row", &work, NULL));
    }
    ana_op_times_of(timeline, iteration, memory, &op_times, &count);
    for (int op = 0; op < count; op++) {
        assert_ok(trace_run_put(run, TRACE_RUN_OP_TIMES, "row", &op_times[op], NULL));
    }
}

/// Puts the run into the store.
static inline void fake_run_put(trace_store *store, const fake_run *fake)
{
    const error_message failure = {STATUS_BACKEND, "rank 2 is gone"};
    const trace_run_info info = {.name = fake->name, .kind = fake->kind, .command_line = "dynmo"};
    trace_run *run = NULL;
    rng generator = rng_init(fake->seed, 1);
    int64_t plan_id = 0;
    char comparison[200];
    assert_ok(trace_run_begin(store, &info, NULL, 0, &run, NULL));
    for (int index = 0; index < fake->iteration_count; index++) {
        const int iteration = fake->first_iteration + index;
        bal_schedule schedule;
        bal_timeline timeline;
        fake_play(fake, iteration, &generator, &schedule, &timeline);
        if (index == 0 || iteration == fake->move_at) fake_put_plan(run, fake, iteration, &plan_id);
        if (fake->left_out > 0 && index % fake->left_out == fake->left_out - 1) continue;
        fake_put_rows(run, fake, iteration, plan_id, &timeline);
        if (index == 0 || index == fake->iteration_count - 1) {
            fake_put_timeline(run, fake, iteration, &timeline);
        }
    }
    if (!fake->is_unfinished) {
        snprintf(comparison, sizeof comparison,
                 "{\"rows\":[{\"label\":\"row\",\"peak_memory_bytes\":[%lld,1000,1000,1000]}]}",
                 (long long)fake->peak_bytes);
        assert_ok(trace_run_put_result(run, "comparison", comparison, NULL));
    }
    assert_ok(trace_run_finish(run, fake->is_unfinished ? &failure : NULL, NULL));
}

/// One iteration on its own, op by op: what sim_training_replay records of an iteration, the replay
/// of its plan finds again, for every schedule, overlap and barrier, with replicas and slow ranks;
/// and what it refuses.
#include "balance/run/iteration_times.h"
#include "balance/run/training.h"
#include "base/arena.h"
#include "base/rng.h"
#include "sim/training_play.h"
#include "sim/training_replay.h"
#include "tests/sim/table_source.h"
#include "tests/test.h"
#include "tests/test_memory.h"

#include <stdlib.h>
#include <string.h>

enum { RANKS = 3, LAYERS = 14, MICROBATCHES = 6, REPLICAS = 2, ITERATIONS = 6 };

/// A run whose iterations are replayed one by one while it is recorded.
typedef struct watched_run {
    bal_training training;
    table_source *tables; // [REPLICAS]
    int watched_count;
} watched_run;

static bool always(void *context, int iteration)
{
    return true;
}

/// What the sources give in an iteration.
static void layers_at(const watched_run *run, int iteration, bal_layer_costs layers[REPLICAS])
{
    for (int replica = 0; replica < REPLICAS; replica++) {
        bool changed = false;
        assert_ok(
            table_costs_at(&run->tables[replica], iteration, &layers[replica], &changed, NULL));
    }
}

static void assert_same_timeline(const bal_timeline *found, const bal_timeline *recorded)
{
    const bal_schedule *schedule = recorded->schedule;
    const int ops = schedule->first_op[schedule->rank_count];
    assert_int_equal(found->schedule->first_op[found->schedule->rank_count], ops);
    assert_memory_equal(found->schedule->ops, schedule->ops, (size_t)ops * sizeof(bal_op));
    assert_memory_equal(found->begin_ns, recorded->begin_ns, (size_t)ops * sizeof(int64_t));
    assert_memory_equal(found->end_ns, recorded->end_ns, (size_t)ops * sizeof(int64_t));
}

/// Replays the iteration that was recorded and compares.
static status compare(void *context, const bal_training_iteration *record, error_message *err)
{
    watched_run *run = context;
    const bal_training *training = &run->training;
    const bal_schedule *schedule = record->timeline->schedule;
    const bal_placed_partition plan = {
        .first_layer = record->first_layer,
        .rank_count = record->rank_count,
        .chunk_count = schedule->chunk_count,
        .placement = schedule->placement,
        .machine_rank = record->machine_rank,
    };
    bal_layer_costs layers[REPLICAS];
    double factor[RANKS];
    layers_at(run, record->iteration, layers);
    bal_training_speeds(training, record->iteration, factor);
    const bal_played_plan played = {
        .plan = &plan,
        .schedule = schedule,
        .replicas = layers,
        .replica_count = REPLICAS,
        .rank_time_factor = factor,
        .post_validation = training->post_validation,
        .reduction_overlap = training->reduction_overlap,
        .reduction_from = training->data_parallel,
        .reduction_to = record->replica_count,
    };
    sim_plan_replay replay;
    TRY(sim_plan_replay_play(&training->machine, &played, memory, &replay, err));
    assert_int_equal(replay.times.pipeline_ns, record->pipeline_ns);
    assert_int_equal(replay.times.reduction_ns, record->reduction_ns);
    assert_memory_equal(&replay.times.metrics, &record->metrics, sizeof record->metrics);
    assert_memory_equal(replay.times.rank_work_ns, record->rank_work_ns,
                        (size_t)record->rank_count * sizeof *record->rank_work_ns);
    assert_same_timeline(&replay.timelines[replay.times.slowest], record->timeline);
    run->watched_count++;
    return STATUS_OK;
}

static void fill_tables(table_source *tables, rng *generator)
{
    for (int replica = 0; replica < REPLICAS; replica++) {
        table_source *table = &tables[replica];
        table_source_init(table, LAYERS, MICROBATCHES);
        for (int iteration = 0; iteration < ITERATIONS; iteration++) {
            for (int cell = 0; cell < LAYERS * MICROBATCHES; cell++) {
                table->forward[iteration][cell] = rng_between(generator, 0, 900);
                table->input[iteration][cell] = rng_between(generator, 0, 900);
                table->weight[iteration][cell] = rng_between(generator, 0, 900);
            }
        }
        for (int layer = 0; layer < LAYERS; layer++) {
            table->reduction_ns[layer] = rng_between(generator, 0, 5000);
            table->state_bytes[layer] = 1000;
        }
    }
}

/// How often the run was rebalanced.
static int run_and_compare(const char *schedule, bal_reduction_overlap overlap,
                           bool post_validation, table_source *tables)
{
    const bal_cost_source sources[REPLICAS] = {tables[0].source, tables[1].source};
    const bal_slow_rank slow = {
        .rank = 1, .time_factor = 1.7, .first_iteration = 2, .end_iteration = 4};
    const bal_link link = {.latency_ns = 20, .bytes_per_s = 1000000000};
    watched_run run = {.tables = tables};
    run.training = (bal_training){
        .sources = sources,
        .source_count = REPLICAS,
        .data_parallel = REPLICAS,
        .machine = {.rank_count = RANKS,
                    .ranks_per_node = 2,
                    .intra_node = link,
                    .inter_node = link},
        .iteration_count = ITERATIONS,
        .microbatch_count = MICROBATCHES,
        .schedule = schedule,
        .post_validation = post_validation,
        .reduction_overlap = overlap,
        .change_ratio = 0.25,
        .balancer = bal_balancer_find("partition"),
        .policy = {.kind = BAL_POLICY_EVERY, .period = 2},
        .migration = bal_migration_options_default(),
        .slow_ranks = &slow,
        .slow_rank_count = 1,
        .sink = {.context = &run, .wants_timeline = always, .put = compare},
    };
    bal_training_result result;
    if (sim_training_replay(&run.training, NULL, memory, &result, &why) != STATUS_OK) {
        fail_msg("%s: %s", schedule, why.message);
    }
    assert_int_equal(run.watched_count, ITERATIONS);
    return result.rebalance_count;
}

TEST(a_replayed_plan_is_the_iteration_that_was_recorded)
{
    rng generator = rng_init(7, 0);
    table_source *tables = memory_array(REPLICAS, sizeof *tables);
    int families = 0;
    int rebalances = 0;
    const bal_schedule_family *family = bal_schedule_families(&families);
    assert_non_null(tables);

    for (int index = 0; index < families; index++) {
        if (family[index].placement == BAL_PLACEMENT_BIDIRECTIONAL) continue; // refused
        for (int overlap = 0; overlap < BAL_REDUCTION_OVERLAP_COUNT; overlap++) {
            fill_tables(tables, &generator);
            rebalances += run_and_compare(family[index].name, (bal_reduction_overlap)overlap,
                                          index % 2 == 0, tables);
        }
    }

    assert_true(rebalances > families * BAL_REDUCTION_OVERLAP_COUNT);
    free(tables);
}

/// Two ranks of a layer each under GPipe, all ops of 100 ns.
static void two_layers(table_source *table, bal_layer_costs *layers)
{
    bool changed = false;
    table_source_init(table, 2, 1);
    table_fill(table, 0, 1, 100, 100, 0);
    assert_ok(table_costs_at(table, 0, layers, &changed, NULL));
}

TEST(what_does_not_fit_together_is_refused)
{
    table_source *table = memory_array(1, sizeof *table);
    bal_layer_costs layers;
    assert_non_null(table);
    two_layers(table, &layers);
    const bal_machine machine = {.rank_count = 2, .ranks_per_node = 2};
    const bal_schedule_request request = {.name = "gpipe", .rank_count = 2, .microbatch_count = 2};
    const int first_layer[] = {0, 1, 2, 2};
    bal_placed_partition plan = {.first_layer = first_layer, .rank_count = 3, .chunk_count = 1};
    bal_schedule schedule;
    assert_ok(bal_schedule_build(&request, memory, &schedule, &why));
    const bal_played_plan played = {
        .plan = &plan, .schedule = &schedule, .replicas = &layers, .replica_count = 1};
    sim_plan_replay replay = {0};

    assert_fails(sim_plan_replay_play(&machine, &played, memory, &replay, &why), STATUS_INVALID,
                 "the plan has 3 ranks, the machine 2");
    const bal_machine larger = {.rank_count = 3, .ranks_per_node = 3};
    assert_fails(sim_plan_replay_play(&larger, &played, memory, &replay, &why), STATUS_INVALID,
                 "a schedule of 2 ranks of 1 chunks for a plan of 3 ranks of 1");
    table->forward[0][1] = -1;
    plan.rank_count = 2;
    assert_int_equal(sim_plan_replay_play(&machine, &played, memory, &replay, &why),
                     STATUS_INVALID);
    assert_null(replay.timelines);

    table->forward[0][1] = 100;
    assert_ok(sim_plan_replay_play(&machine, &played, memory, &replay, &why));
    assert_int_equal(replay.times.pipeline_ns, 600); // 2 + 2 microbatches and a neighbour's each
    assert_int_equal(replay.stages[0].stage_count, 2);
    free(table);
}

int main(void)
{
    return run_all_tests(open_memory, close_memory);
}

/// Predictions on their own. That a controller decides by them as the replay's own does is in
/// tests/exec/test_nominal_clock.c.
#include "balance/run/training.h"
#include "base/arena.h"
#include "sim/training_plan.h"
#include "sim/training_play.h"
#include "tests/sim/table_source.h"
#include "tests/test.h"
#include "tests/test_memory.h"

#include <stdlib.h>

enum { LAYERS = 8, RANKS = 4, MICROBATCHES = 4, ITERATIONS = 8 };

/// Eight layers of 100 ns.
typedef struct predicted_run {
    bal_training training;
    table_source table;
} predicted_run;

static predicted_run *run_of(const char *schedule)
{
    predicted_run *run = memory_array(1, sizeof *run);
    table_source *table = &run->table;
    table_source_init(table, LAYERS, 1);
    table_fill(table, 0, ITERATIONS, 100, 60, 40);
    const bal_link byte_per_ns = {.bytes_per_s = 1000000000};
    run->training = (bal_training){
        .sources = &table->source,
        .source_count = 1,
        .data_parallel = 1,
        .machine = {.rank_count = RANKS,
                    .ranks_per_node = 2,
                    .intra_node = byte_per_ns,
                    .inter_node = byte_per_ns},
        .iteration_count = ITERATIONS,
        .microbatch_count = MICROBATCHES,
        .schedule = schedule,
        .change_ratio = 0.25,
        .balancer = bal_balancer_find("partition"),
        .policy = {.kind = BAL_POLICY_ON_CHANGE},
        .migration = bal_migration_options_default(),
        .repack = bal_repack_options_default(),
    };
    return run;
}

TEST(a_prediction_is_the_pipeline_and_the_exposed_reduction)
{
    predicted_run *run = run_of("1f1b");
    for (int layer = 0; layer < LAYERS; layer++) {
        run->table.reduction_ns[layer] = 50;
    }
    const int first_layer[] = {0, 3, 5, 8};
    const bal_placed_partition plan = {
        .first_layer = first_layer, .rank_count = 3, .chunk_count = 1};
    const bal_evaluator *evaluator = NULL;
    sim_plan_replay replay;
    bal_schedule schedule;
    bool changed = false;
    bal_layer_costs layers;
    assert_ok(table_costs_at(&run->table, 0, &layers, &changed, NULL));
    assert_ok(sim_predictor_create(&run->training, memory, &evaluator, &why));

    for (int microbatches = 3; microbatches <= 5; microbatches++) {
        int64_t predicted_ns = 0;
        assert_ok(bal_training_order(&run->training, &plan, &layers, microbatches, memory,
                                     &schedule, &why));
        const bal_played_plan played = {
            .plan = &plan, .schedule = &schedule, .replicas = &layers, .replica_count = 1};
        assert_ok(sim_plan_replay_play(&run->training.machine, &played, memory, &replay, &why));
        assert_ok(evaluator->iteration_ns(evaluator->context, &layers, &plan, microbatches,
                                          &predicted_ns, &why));
        assert_int_equal(predicted_ns, replay.times.pipeline_ns + 3 * 50); // the largest rank's
    }

    free(run);
}

TEST(a_run_that_is_wrong_has_no_predictor)
{
    predicted_run *run = run_of("2f2b");
    const bal_evaluator *predictor = NULL;

    assert_int_equal(sim_predictor_create(&run->training, memory, &predictor, &why),
                     STATUS_INVALID);

    assert_null(predictor);
    assert_string_equal(why.message, "unknown schedule '2f2b'");
    free(run);
}

int main(void)
{
    return run_all_tests(open_memory, close_memory);
}

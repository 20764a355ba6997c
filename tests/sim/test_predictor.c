/// Predictions on their own: a controller that asks the predictor decides, iteration by iteration,
/// what the replay's own controller decides, through rebalancing, re-packing and a change of the
/// number of microbatches.
#include "balance/run/training.h"
#include "base/arena.h"
#include "sim/training_plan.h"
#include "sim/training_play.h"
#include "sim/training_replay.h"
#include "tests/assert_close.h"
#include "tests/sim/table_source.h"
#include "tests/test_memory.h"

#include <stdlib.h>

enum { LAYERS = 8, RANKS = 4, MICROBATCHES = 4, ITERATIONS = 8 };

typedef struct decided {
    bal_action action;
    bal_reason reason;
    int rank_count;
    int first_layer[RANKS + 1];
} decided;

typedef struct recorded_run {
    bal_training training;
    table_source table;
    decided decisions[ITERATIONS]; // the decision after an iteration; plan: in force during it
} recorded_run;

static status keep(void *context, const bal_training_iteration *iteration, error_message *err)
{
    (void)err;
    recorded_run *run = context;
    decided *kept = &run->decisions[iteration->iteration];
    *kept = (decided){iteration->action, iteration->reason, iteration->rank_count, {0}};
    for (int place = 0; place <= iteration->rank_count; place++) {
        kept->first_layer[place] = iteration->first_layer[place];
    }
    return STATUS_OK;
}

/// Eight layers of 100 ns, that take 400 and nothing in iterations 2 to 4: fewer ranks then do.
static recorded_run *lighter_for_a_while(const char *balancer, const char *schedule)
{
    recorded_run *run = memory_array(1, sizeof *run);
    assert_non_null(run);
    table_source *table = &run->table;
    table_source_init(table, LAYERS, 1);
    table_fill(table, 0, ITERATIONS, 100, 60, 40);
    for (int iteration = 2; iteration < 5; iteration++) {
        table->forward[iteration][0] = 400;
        for (int layer = 4; layer < LAYERS; layer++) {
            table->forward[iteration][layer] = 0;
            table->input[iteration][layer] = 1;
            table->weight[iteration][layer] = 0;
        }
    }
    for (int layer = 0; layer < LAYERS; layer++) {
        table->state_bytes[layer] = 1000;
    }
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
        .balancer = bal_balancer_find(balancer),
        .policy = {.kind = BAL_POLICY_ON_CHANGE},
        .migration = bal_migration_options_default(),
        .repack = bal_repack_options_default(),
        .sink = {.context = run, .put = keep},
    };
    return run;
}

static void record(recorded_run *run)
{
    arena *memory = arena_create(1 << 16);
    bal_training_result result;
    error_message err = {0};
    if (sim_training_replay(&run->training, memory, &result, &err) != STATUS_OK) {
        fail_msg("%s", err.message);
    }
    arena_destroy(memory);
}

static bal_layer_costs layers_at(recorded_run *run, int iteration, bool *changed)
{
    bal_layer_costs layers;
    assert_ok(table_costs_at(&run->table, iteration, &layers, changed, NULL));
    *changed = *changed && iteration > 0;
    return layers;
}

static void assert_same_plan(const bal_placed_partition *plan, const decided *expected)
{
    assert_int_equal(plan->rank_count, expected->rank_count);
    for (int place = 0; place <= plan->rank_count; place++) {
        assert_int_equal(plan->first_layer[place], expected->first_layer[place]);
    }
}

/// Lets a controller with the predictor decide, and compares with what was recorded.
static int decide_again(recorded_run *run)
{
    sim_predictor *predictor = NULL;
    bal_controller *controller = NULL;
    bal_decision decision;
    error_message err = {0};
    int acted_count = 0;
    bool changed = false;
    assert_ok(sim_predictor_create(&run->training, &predictor, &err));
    assert_ok(bal_training_controller(&run->training, sim_predictor_evaluator(predictor),
                                      &controller, &err));
    bal_layer_costs layers = layers_at(run, 0, &changed);
    assert_ok(bal_controller_start(controller, &layers, &decision, &err));
    for (int iteration = 0; iteration < ITERATIONS; iteration++) {
        const decided *expected = &run->decisions[iteration];
        assert_same_plan(&decision.plan, expected);
        layers = layers_at(run, iteration, &changed);
        const bal_profile profile = {.iteration = iteration, .layers = &layers, .changed = changed};
        if (bal_controller_observe(controller, &profile, &decision, &err) != STATUS_OK) {
            fail_msg("%s", err.message);
        }
        assert_int_equal(decision.action, expected->action);
        assert_int_equal(decision.reason, expected->reason);
        acted_count += decision.action != BAL_ACTION_KEEP;
    }
    bal_controller_destroy(controller);
    sim_predictor_destroy(predictor);
    return acted_count;
}

static void a_controller_with_the_predictor_decides_as_the_replay_does(void **state)
{
    (void)state;
    const char *const schedules[] = {"gpipe", "1f1b", "zb-h1", "zb-auto"};
    for (int schedule = 0; schedule < 4; schedule++) {
        recorded_run *run = lighter_for_a_while("makespan", schedules[schedule]);

        record(run);

        assert_int_equal(decide_again(run), 2);
        free(run);
    }
}

static void ranks_are_released_and_taken_back_as_in_the_replay(void **state)
{
    (void)state;
    recorded_run *run = lighter_for_a_while("partition", "1f1b");
    run->training.repack.kind = BAL_REPACK_THROUGHPUT;
    run->training.repack.tolerance_ratio = 0.05;

    record(run);

    assert_true(decide_again(run) >= 2);
    assert_int_equal(run->decisions[2].action, BAL_ACTION_REPACK);
    assert_true(run->decisions[3].rank_count < RANKS);
    free(run);
}

static void a_prediction_is_the_pipeline_and_the_exposed_reduction(void **state)
{
    arena *memory = *state;
    recorded_run *run = lighter_for_a_while("partition", "1f1b");
    for (int layer = 0; layer < LAYERS; layer++) {
        run->table.reduction_ns[layer] = 50;
    }
    const int first_layer[] = {0, 3, 5, 8};
    const bal_placed_partition plan = {
        .first_layer = first_layer, .rank_count = 3, .chunk_count = 1};
    sim_predictor *predictor = NULL;
    sim_plan_replay replay;
    bal_schedule schedule;
    bool changed = false;
    error_message err = {0};
    const bal_layer_costs layers = layers_at(run, 0, &changed);
    assert_ok(sim_predictor_create(&run->training, &predictor, &err));
    const bal_evaluator *evaluator = sim_predictor_evaluator(predictor);

    for (int microbatches = 3; microbatches <= 5; microbatches++) {
        int64_t predicted_ns = 0;
        assert_ok(bal_training_order(&run->training, &plan, &layers, microbatches, memory,
                                     &schedule, &err));
        const bal_played_plan played = {
            .plan = &plan, .schedule = &schedule, .replicas = &layers, .replica_count = 1};
        assert_ok(sim_plan_replay_play(&run->training.machine, &played, memory, &replay, &err));
        assert_ok(evaluator->iteration_ns_of(evaluator->context, &layers, &plan, microbatches,
                                             &predicted_ns, &err));
        assert_int_equal(predicted_ns, replay.times.pipeline_ns + 3 * 50); // the largest rank's
    }

    sim_predictor_destroy(predictor);
    free(run);
}

static void a_run_that_is_wrong_has_no_predictor(void **state)
{
    (void)state;
    recorded_run *run = lighter_for_a_while("partition", "1f1b");
    sim_predictor *predictor = NULL;
    error_message err = {0};
    run->training.schedule = "2f2b";

    assert_int_equal(sim_predictor_create(&run->training, &predictor, &err), STATUS_INVALID);

    assert_null(predictor);
    assert_string_equal(err.message, "unknown schedule '2f2b'");
    sim_predictor_destroy(NULL);
    free(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_controller_with_the_predictor_decides_as_the_replay_does),
        cmocka_unit_test(ranks_are_released_and_taken_back_as_in_the_replay),
        cmocka_unit_test(a_prediction_is_the_pipeline_and_the_exposed_reduction),
        cmocka_unit_test(a_run_that_is_wrong_has_no_predictor),
    };
    return cmocka_run_group_tests(tests, open_memory, close_memory);
}

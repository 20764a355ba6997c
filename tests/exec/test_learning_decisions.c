/// A controller over ranks that learn: it sees what was measured, moves layers and releases ranks,
/// and what is learnt has the bits of a lone rank all the same.
#include "sim/training_plan.h"
#include "tests/exec/learning_run.h"

enum { ITERATIONS = 6, RANKS = 3 };

/// A run under a controller, and what its records said.
typedef struct decided_run {
    learning_run learnt; // what it has in common with others
    const char *balancer;
    bal_policy policy;
    bal_repack_options repack;
    int replica_count;
    bal_training_result result;
    int record_count;
    bal_reason reasons[ITERATIONS];
    bool was_asked[ITERATIONS];
    int rank_counts[ITERATIONS];
    int64_t layer_ns; // F, B and W of all layers
    int64_t least_state_bytes;
} decided_run;

/// Notes what the layers were said to cost.
static void note_layers(decided_run *run, const bal_layer_costs *layers)
{
    const int cells = layers->layer_count * layers->microbatch_count;
    for (int cell = 0; cell < cells; cell++) {
        assert_true(layers->forward_ns[cell] >= 0);
        run->layer_ns += layers->forward_ns[cell] + layers->backward_input_ns[cell] +
                         layers->backward_weight_ns[cell];
    }
    for (int layer = 0; layer < layers->layer_count; layer++) {
        if (layers->state_bytes[layer] < run->least_state_bytes) {
            run->least_state_bytes = layers->state_bytes[layer];
        }
    }
}

static status note(void *context, const exec_measured *measured, error_message *err)
{
    decided_run *run = context;
    const bal_training_iteration *record = measured->record;
    run->reasons[record->iteration] = record->reason;
    run->was_asked[record->iteration] = record->was_asked;
    run->rank_counts[record->iteration] = record->rank_count;
    run->record_count++;
    for (int replica = 0; replica < measured->played->replica_count; replica++) {
        note_layers(run, &measured->played->replicas[replica]);
    }
    return learning_note(&run->learnt, measured, err);
}

static bal_training describe(const decided_run *run)
{
    return (bal_training){
        .data_parallel = run->replica_count,
        .machine = {.rank_count = RANKS, .ranks_per_node = 8},
        .iteration_count = ITERATIONS,
        .microbatch_count = LEARNING_MICROBATCHES / run->replica_count,
        .schedule = "zb-h1",
        .change_ratio = 0.25,
        .balancer = bal_balancer_find(run->balancer),
        .weight = bal_balancer_find(run->balancer)->weight,
        .policy = run->policy,
        .migration = bal_migration_options_default(),
        .repack = run->repack,
    };
}

static void execute(decided_run *run)
{
    const bal_training training = describe(run);
    bal_training predicted = training;
    const bal_cost_source unknown = {.layer_count = LEARNING_LAYERS};
    const exec_training_listener listener = {.context = run, .put = note};
    const bal_evaluator *predictor = NULL;
    arena *predictor_memory = arena_create(1 << 14);
    exec_training_device device = {.model = run->learnt.model,
                                   .text = &learning_text,
                                   .backend = EXEC_BACKEND_CPU,
                                   .replica_rank_count = RANKS,
                                   .counts_cpu_time = true};
    predicted.sources = &unknown;
    predicted.source_count = 1;
    run->least_state_bytes = INT64_MAX;
    assert_ok(sim_predictor_create(&predicted, predictor_memory, &predictor, NULL));
    learning_context context = {
        .training = {.training = &training,
                     .evaluator = predictor,
                     .layer_count = LEARNING_LAYERS,
                     .devices = {.context = &device, .create = exec_training_device_create},
                     .clock = EXEC_CLOCK_NOMINAL,
                     .listener = &listener},
        .memory = arena_create(1 << 14)};
    run_ranks(RANKS * run->replica_count, learning_body, &context);
    run->result = context.result;
    arena_destroy(context.memory);
    arena_destroy(predictor_memory);
}

/// The same training on one rank per replica that nobody balances.
static learning_run learn_alone(const exec_model *model, int replica_count)
{
    static learning_way way;
    way = learning_one_rank;
    way.replica_count = replica_count;
    learning_run run = {.model = model, .way = &way, .iteration_count = ITERATIONS};
    learning_execute(&run);
    return run;
}

static const learning_way controlled = {.name = "under a controller"};

static decided_run run_with(const exec_model *model, const char *balancer, bal_policy policy)
{
    return (decided_run){
        .learnt = {.model = model, .way = &controlled, .iteration_count = ITERATIONS},
        .balancer = balancer,
        .policy = policy,
        .repack = bal_repack_options_default(),
        .replica_count = 1,
    };
}

TEST(what_was_measured_is_decided_on_from_iteration_0)
{
    const exec_model model = learning_model(EXEC_DENSE);
    const learning_run alone = learn_alone(&model, 1);
    decided_run run =
        run_with(&model, "partition", (bal_policy){.kind = BAL_POLICY_EVERY, .period = 1});

    execute(&run);

    assert_int_equal(run.record_count, ITERATIONS);
    assert_int_equal(run.reasons[0], BAL_REASON_START);
    for (int iteration = 0; iteration < ITERATIONS; iteration++) {
        assert_true(run.was_asked[iteration]);
    }
    assert_int_equal(run.result.decision_count, ITERATIONS);
    assert_true(run.layer_ns > 0);
    assert_true(run.least_state_bytes > 0);
    assert_true(run.result.is_memory_known);
    assert_true(run.result.total_ns > run.result.pipeline_ns);
    learning_assert_same(&alone, &run.learnt);
}

TEST(parameters_are_weighed_when_they_are_known)
{
    const exec_model model = learning_model(EXEC_DENSE);
    decided_run run =
        run_with(&model, "parameters", (bal_policy){.kind = BAL_POLICY_EVERY, .period = 2});

    execute(&run);

    assert_int_equal(run.reasons[0], BAL_REASON_START);
    // Parameters do not change, so no answer after the first moves anything.
    assert_true(run.result.rebalance_count <= 1);
}

TEST(a_policy_that_never_asks_keeps_what_iteration_0_told)
{
    const exec_model model = learning_model(EXEC_DENSE);
    decided_run run = run_with(&model, "partition", (bal_policy){.kind = BAL_POLICY_NEVER});

    execute(&run);

    assert_int_equal(run.reasons[0], BAL_REASON_START);
    assert_int_equal(run.result.decision_count, 1);
}

TEST(a_mechanism_announces_what_it_changes)
{
    const exec_model model = learning_model(EXEC_FREEZING);
    const learning_run alone = learn_alone(&model, 1);
    decided_run run = run_with(&model, "partition", (bal_policy){.kind = BAL_POLICY_ON_CHANGE});

    execute(&run);

    assert_true(run.result.change_count > 0);
    // The start, and every change but one after the last iteration.
    assert_int_equal(run.result.decision_count, 1 + run.result.change_count);
    learning_assert_same(&alone, &run.learnt);
}

TEST(released_ranks_leave_the_learning_as_it_is)
{
    const exec_model model = learning_model(EXEC_DENSE);
    const learning_run alone = learn_alone(&model, 2);
    decided_run run =
        run_with(&model, "partition", (bal_policy){.kind = BAL_POLICY_EVERY, .period = 2});
    run.replica_count = 2;
    run.repack.kind = BAL_REPACK_THROUGHPUT;
    run.repack.tolerance_ratio = 1000; // one rank does

    execute(&run);

    assert_int_equal(run.rank_counts[0], RANKS);
    assert_int_equal(run.rank_counts[1], RANKS);
    assert_int_equal(run.rank_counts[2], 1);
    assert_int_equal(run.result.final_rank_count, 1);
    assert_int_equal(run.result.repack_count, 1);
    assert_true(run.result.released_rank_ns > 0);
    learning_assert_same(&alone, &run.learnt);
}

int main(void)
{
    return run_all_tests(learning_read_text, learning_free_text);
}

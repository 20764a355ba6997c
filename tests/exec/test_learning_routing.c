// Training with experts, mixture of depths and early exit on the ranks of a pipeline: it learns,
// and where the layers are does not change a bit.
#include "tests/assert_close.h"
#include "tests/exec/learning.h"

static exec_training_text text; // the project's own README

static int read_text(void **state)
{
    (void)state;
    return exec_training_text_read("../README.md", 64, &text, NULL) == STATUS_OK ? 0 : -1;
}

static int free_text(void **state)
{
    (void)state;
    exec_training_text_free(&text);
    return 0;
}

static void train(learning *all)
{
    error_message err = {0};
    if (learning_train(all, &err) != STATUS_OK) fail_msg("%s", err.message);
}

/// Four blocks; two sequences a microbatch, so that they choose apart. Tokens begin to leave within
/// the first iterations.
static exec_model model_of(exec_mechanism mechanism)
{
    exec_model model = learning_model();
    model.block_count = 4;
    model.microbatch_size = 2;
    model.mechanism = mechanism;
    model.moe.expert_count = 4;
    model.mod.capacity_ratio = 0.25;
    model.early_exit.threshold = 0.95;
    model.early_exit.settle_iterations = 2;
    return model;
}

static learning learning_of(const exec_model *model, int iteration_count)
{
    static const int one_stage[] = {0, 6};
    return (learning){.model = model,
                      .text = &text,
                      .schedule = "1f1b",
                      .rank_count = 1,
                      .first_layer = one_stage,
                      .microbatch_count = 4,
                      .iteration_count = iteration_count};
}

static void assert_same_learning(const learning *one, const learning *other)
{
    for (int iteration = 0; iteration < one->iteration_count; iteration++) {
        if (one->loss[iteration] == other->loss[iteration] &&
            one->norm[iteration] == other->norm[iteration]) {
            continue;
        }
        fail_msg("%s, %d ranks, %s, iteration %d: loss %.17g, norm %.17g; alone %.17g, %.17g",
                 exec_mechanism_names[one->model->mechanism], other->rank_count, other->schedule,
                 iteration, other->loss[iteration], other->norm[iteration], one->loss[iteration],
                 one->norm[iteration]);
    }
    assert_true(one->state_hash == other->state_hash);
}

/// One rank against 2, 3 and 6, even and uneven, under other schedules.
static void check_plans(exec_mechanism mechanism)
{
    static const struct {
        const char *schedule;
        int rank_count;
        int first_layer[7];
    } plans[] = {
        {"1f1b", 2, {0, 1, 6}},
        {"zb-h1", 2, {0, 4, 6}},
        {"zb-h1", 3, {0, 2, 4, 6}},
        {"gpipe", 6, {0, 1, 2, 3, 4, 5, 6}},
    };
    const exec_model model = model_of(mechanism);
    learning one = learning_of(&model, 8);
    train(&one);
    for (size_t plan = 0; plan < sizeof plans / sizeof plans[0]; plan++) {
        learning other = learning_of(&model, 8);
        other.schedule = plans[plan].schedule;
        other.rank_count = plans[plan].rank_count;
        other.first_layer = plans[plan].first_layer;
        train(&other);
        assert_same_learning(&one, &other);
    }
}

static void experts_learn_the_same_bits_under_any_plan(void **state)
{
    (void)state;
    check_plans(EXEC_MOE);
}

static void chosen_rows_learn_the_same_bits_under_any_plan(void **state)
{
    (void)state;
    check_plans(EXEC_MOD);
}

static void live_rows_learn_the_same_bits_under_any_plan(void **state)
{
    (void)state;
    check_plans(EXEC_EARLY_EXIT);
}

static void replicas_learn_the_same_bits_under_any_plan(void **state)
{
    (void)state;
    const exec_mechanism mechanisms[] = {EXEC_MOE, EXEC_MOD, EXEC_EARLY_EXIT};
    for (int index = 0; index < 3; index++) {
        const exec_model model = model_of(mechanisms[index]);
        learning one = learning_of(&model, 4);
        one.replica_count = 2;
        learning two = one;
        two.rank_count = 2;
        two.first_layer = (const int[]){0, 3, 6};

        train(&one);
        train(&two);

        assert_same_learning(&one, &two);
    }
}

static void the_loss_falls_with_every_mechanism_and_differs_from_dense(void **state)
{
    (void)state;
    const exec_mechanism mechanisms[] = {EXEC_DENSE, EXEC_MOE, EXEC_MOD, EXEC_EARLY_EXIT};
    double last[4];
    for (int index = 0; index < 4; index++) {
        const exec_model model = model_of(mechanisms[index]);
        learning all = learning_of(&model, 40);

        train(&all);

        last[index] = all.loss[39];
        assert_true(all.loss[0] > 5.4 && all.loss[39] < 4.2);
    }
    for (int index = 1; index < 4; index++) {
        assert_true(last[index] != last[0]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(experts_learn_the_same_bits_under_any_plan),
        cmocka_unit_test(chosen_rows_learn_the_same_bits_under_any_plan),
        cmocka_unit_test(live_rows_learn_the_same_bits_under_any_plan),
        cmocka_unit_test(replicas_learn_the_same_bits_under_any_plan),
        cmocka_unit_test(the_loss_falls_with_every_mechanism_and_differs_from_dense),
    };
    return cmocka_run_group_tests(tests, read_text, free_text);
}

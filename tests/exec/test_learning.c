/// Balancing does not touch learning: loss and gradient norm of every iteration and the state of
/// all layers at the end have the same bits however the layers lie on ranks, in which order ops
/// run, and whatever moves in mid-run. Bits are compared between runs of one program, never with
/// stored ones.
#include "tests/exec/learning_run.h"

enum { ITERATIONS = 8 };

static const learning_way ways[] = {
    {.name = "gpipe, 2 even stages",
     .schedule = "gpipe",
     .rank_count = 2,
     .chunk_count = 1,
     .replica_count = 1,
     .plans = {{-1, 2, {0, 4, 8}, {0, 1}}}},
    {.name = "1f1b, 4 uneven stages",
     .schedule = "1f1b",
     .rank_count = 4,
     .chunk_count = 1,
     .replica_count = 1,
     .plans = {{-1, 4, {0, 1, 5, 6, 8}, {0, 1, 2, 3}}}},
    {.name = "zb-h1, 8 stages",
     .schedule = "zb-h1",
     .rank_count = 8,
     .chunk_count = 1,
     .replica_count = 1,
     .plans = {{-1, 8, {0, 1, 2, 3, 4, 5, 6, 7, 8}, {0, 1, 2, 3, 4, 5, 6, 7}}}},
    {.name = "interleaved-1f1b, 2 ranks of 2 stages",
     .schedule = "interleaved-1f1b",
     .rank_count = 2,
     .chunk_count = 2,
     .replica_count = 1,
     .plans = {{-1, 2, {0, 2, 3, 6, 8}, {0, 1}}, {3, 2, {0, 1, 4, 5, 8}, {1, 0}}}},
    {.name = "zb-v-hand, 2 ranks folded, the turn and both ends move",
     .schedule = "zb-v-hand",
     .rank_count = 2,
     .chunk_count = 2,
     .replica_count = 1,
     .plans = {{-1, 2, {0, 2, 4, 6, 8}, {0, 1}}, {2, 2, {0, 1, 3, 5, 8}, {1, 0}}}},
    {.name = "v-half, 4 ranks to 2 and back",
     .schedule = "v-half",
     .rank_count = 4,
     .chunk_count = 2,
     .replica_count = 1,
     .plans = {{-1, 4, {0, 1, 2, 3, 4, 5, 6, 7, 8}, {0, 1, 2, 3}},
               {2, 2, {0, 2, 3, 5, 8}, {0, 2}},
               {4, 4, {0, 1, 2, 3, 4, 5, 6, 7, 8}, {3, 1, 0, 2}}}},
    {.name = "dualpipe-v, 2 ranks folded, pairs overlap",
     .schedule = "dualpipe-v",
     .rank_count = 2,
     .chunk_count = 2,
     .replica_count = 1,
     .plans = {{-1, 2, {0, 1, 4, 6, 8}, {0, 1}}}},
    {.name = "1f1b-v, 2 ranks folded, uneven",
     .schedule = "1f1b-v",
     .rank_count = 2,
     .chunk_count = 2,
     .replica_count = 1,
     .plans = {{-1, 2, {0, 3, 4, 5, 8}, {0, 1}}}},
    {.name = "1f1b, three migrations",
     .schedule = "1f1b",
     .rank_count = 4,
     .chunk_count = 1,
     .replica_count = 1,
     .plans = {{-1, 4, {0, 2, 4, 6, 8}, {0, 1, 2, 3}},
               {1, 4, {0, 1, 3, 7, 8}, {0, 1, 2, 3}},
               {2, 4, {0, 3, 4, 5, 8}, {0, 1, 2, 3}},
               {5, 4, {0, 1, 2, 3, 8}, {3, 1, 0, 2}}}},
    {.name = "zb-h1, 4 ranks to 2 to 1 and back",
     .schedule = "zb-h1",
     .rank_count = 4,
     .chunk_count = 1,
     .replica_count = 1,
     .plans = {{-1, 4, {0, 2, 4, 6, 8}, {0, 1, 2, 3}},
               {1, 2, {0, 5, 8}, {0, 2}},
               {2, 1, {0, 8}, {2}},
               {4, 2, {0, 4, 8}, {2, 1}},
               {5, 4, {0, 1, 3, 6, 8}, {0, 1, 2, 3}}}},
};
enum { WAY_COUNT = sizeof ways / sizeof ways[0] };

static learning_run learn(const exec_model *model, const learning_way *way)
{
    learning_run run = {.model = model, .way = way, .iteration_count = ITERATIONS};
    learning_execute(&run);
    return run;
}

static void assert_ways_learn_the_same(const exec_model *model, int way_count)
{
    const learning_run one = learn(model, &learning_one_rank);
    for (int index = 0; index < way_count; index++) {
        const learning_run other = learn(model, &ways[index]);
        learning_assert_same(&one, &other);
        assert_true((other.migrated_bytes > 0) == (ways[index].plans[1].rank_count > 0));
    }
}

static void plans_and_migrations_learn_the_same_with_every_mechanism(void **state)
{
    (void)state;
    for (int mechanism = 0; mechanism < EXEC_MECHANISM_COUNT; mechanism++) {
        const exec_model model = learning_model((exec_mechanism)mechanism);
        assert_ways_learn_the_same(&model, WAY_COUNT);
    }
    exec_model model = learning_model(EXEC_SPARSE_ATTENTION);
    model.sparse_attention.order = EXEC_ROWS_AS_TEXT;
    assert_ways_learn_the_same(&model, 4);
}

/// That they happen at all.
static void mechanisms_change_what_is_learnt(void **state)
{
    (void)state;
    for (int mechanism = EXEC_DENSE + 1; mechanism < EXEC_MECHANISM_COUNT; mechanism++) {
        exec_model model = learning_model((exec_mechanism)mechanism);
        const learning_run changed = learn(&model, &learning_one_rank);
        model.mechanism = EXEC_DENSE;
        const learning_run dense_run = learn(&model, &learning_one_rank);

        if (changed.loss[ITERATIONS - 1] != dense_run.loss[ITERATIONS - 1]) continue;
        fail_msg("%s learns what a dense model does", exec_mechanism_names[mechanism]);
    }
}

static void assert_replicas_learn_the_same(exec_mechanism mechanism)
{
    const exec_model model = learning_model(mechanism);
    learning_way way = learning_one_rank;
    way.replica_count = 2;
    const learning_run one = learn(&model, &way);
    for (int index = 0; index < WAY_COUNT; index++) {
        if (ways[index].plans[1].rank_count == 0) continue;
        learning_way doubled = ways[index];
        doubled.replica_count = 2;
        const learning_run other = learn(&model, &doubled);
        learning_assert_same(&one, &other);
    }
}

/// With two replicas gradients are summed in another order than with one, so that runs at one
/// number of replicas are compared.
static void two_replicas(void **state)
{
    (void)state;
    for (int mechanism = 0; mechanism < EXEC_MECHANISM_COUNT; mechanism++) {
        assert_replicas_learn_the_same((exec_mechanism)mechanism);
    }
}

static void replicas_learn_from_texts_of_their_own(void **state)
{
    (void)state;
    const exec_model model = learning_model(EXEC_DENSE);
    learning_way way = learning_one_rank;
    way.replica_count = 2;

    const learning_run one = learn(&model, &learning_one_rank);
    const learning_run two = learn(&model, &way);

    // The same four microbatches, two each: the same mean but for the order of the sum.
    assert_close(two.loss[0], one.loss[0], 1e-6);
    assert_close(two.norm[0], one.norm[0], 1e-4);
}

static void the_loss_falls_with_every_mechanism(void **state)
{
    (void)state;
    double dense_loss = 0;
    for (int mechanism = 0; mechanism < EXEC_MECHANISM_COUNT; mechanism++) {
        const exec_model model = learning_model((exec_mechanism)mechanism);
        learning_run run = {.model = &model, .way = &learning_one_rank, .iteration_count = 40};

        learning_execute(&run);

        if (mechanism == EXEC_DENSE) dense_loss = run.loss[39];
        const bool acts = mechanism == EXEC_DENSE || run.loss[39] != dense_loss;
        if (run.loss[0] > 5.4 && run.loss[39] < 4.2 && acts) continue;
        fail_msg("%s: loss %g, then %g", exec_mechanism_names[mechanism], run.loss[0],
                 run.loss[39]);
    }
}

/// That the comparison sees a difference at all.
static void another_seed_learns_something_else(void **state)
{
    (void)state;
    exec_model model = learning_model(EXEC_DENSE);
    const learning_run one = learn(&model, &learning_one_rank);
    model.seed++;
    const learning_run other = learn(&model, &learning_one_rank);

    for (int iteration = 0; iteration < ITERATIONS; iteration++) {
        assert_true(one.loss[iteration] != other.loss[iteration]);
        assert_true(one.norm[iteration] != other.norm[iteration]);
    }
    assert_true(one.state_hash != other.state_hash);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_and_migrations_learn_the_same_with_every_mechanism),
        cmocka_unit_test(mechanisms_change_what_is_learnt),
        cmocka_unit_test(two_replicas),
        cmocka_unit_test(the_loss_falls_with_every_mechanism),
        cmocka_unit_test(replicas_learn_from_texts_of_their_own),
        cmocka_unit_test(another_seed_learns_something_else),
    };
    return cmocka_run_group_tests(tests, learning_read_text, learning_free_text);
}

/// A training that was ended and goes on from its checkpoint learns what one that was never ended
/// does, bit for bit, on any number of ranks and in any order of ops.
#include "tests/exec/learning_run.h"

#include <stdio.h>
#include <unistd.h>

enum { ENDED = 4, ITERATIONS = 8 };

static const learning_way two_ranks = {
    .name = "1f1b, 2 ranks",
    .schedule = "1f1b",
    .rank_count = 2,
    .chunk_count = 1,
    .replica_count = 1,
    .plans = {{-1, 2, {0, 3, 8}, {0, 1}}},
};

static const learning_way four_ranks = {
    .name = "zb-h1, 4 ranks, one migration",
    .schedule = "zb-h1",
    .rank_count = 4,
    .chunk_count = 1,
    .replica_count = 1,
    .plans = {{-1, 4, {0, 2, 4, 6, 8}, {3, 1, 2, 0}}, {5, 4, {0, 1, 2, 3, 8}, {0, 1, 2, 3}}},
};

/// Trains to ENDED in one way and from there in another; the file is removed.
static learning_run train_in_two_parts(const exec_model *model, const learning_way *first,
                                       const learning_way *second)
{
    char path[64];
    snprintf(path, sizeof path, "restart.%ld.checkpoint", (long)getpid());
    learning_run begun = {
        .model = model, .way = first, .iteration_count = ENDED, .checkpoint_write = path};
    learning_execute(&begun);
    learning_run continued = {
        .model = model, .way = second, .iteration_count = ITERATIONS, .checkpoint_read = path};
    learning_execute(&continued);
    remove(path);
    assert_false(continued.seen[ENDED - 1]);
    assert_true(continued.seen[ENDED]);
    return continued;
}

static void assert_restarts(exec_mechanism mechanism)
{
    const exec_model model = learning_model(mechanism);
    learning_run whole = {
        .model = &model, .way = &learning_one_rank, .iteration_count = ITERATIONS};
    learning_execute(&whole);

    const learning_run more = train_in_two_parts(&model, &two_ranks, &four_ranks);
    const learning_run fewer = train_in_two_parts(&model, &four_ranks, &learning_one_rank);

    learning_assert_same(&whole, &more);
    learning_assert_same(&whole, &fewer);
}

static void every_mechanism_restarts_on_other_ranks(void **state)
{
    (void)state;
    for (int mechanism = 0; mechanism < EXEC_MECHANISM_COUNT; mechanism++) {
        assert_restarts((exec_mechanism)mechanism);
    }
}

static void two_replicas_restart(void **state)
{
    (void)state;
    const exec_model model = learning_model(EXEC_DENSE);
    learning_way one = learning_one_rank;
    learning_way two = two_ranks;
    one.replica_count = 2;
    two.replica_count = 2;
    learning_run whole = {.model = &model, .way = &one, .iteration_count = ITERATIONS};
    learning_execute(&whole);

    const learning_run parts = train_in_two_parts(&model, &one, &two);

    learning_assert_same(&whole, &parts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_mechanism_restarts_on_other_ranks),
        cmocka_unit_test(two_replicas_restart),
    };
    return cmocka_run_group_tests(tests, learning_read_text, learning_free_text);
}

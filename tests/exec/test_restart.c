/// A training that was ended and goes on from its checkpoint learns what one that was never ended
/// does, bit for bit, on any number of ranks and in any order of ops; a file that is cut off,
/// changed or something else is refused.
#include "base/file.h"
#include "exec/run/run.h"
#include "tests/exec/learning_run.h"

#include <stdio.h>
#include <stdlib.h>
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

static const char *checkpoint_path(void)
{
    static char path[64];
    snprintf(path, sizeof path, "restart.%ld.checkpoint", (long)getpid());
    return path;
}

/// Trains to ENDED in one way and from there in another, and compares with a run of one piece.
static void assert_restarts(const exec_model *model, const learning_run *whole,
                            const learning_way *first, const learning_way *second)
{
    const char *path = checkpoint_path();
    learning_run begun = {
        .model = model, .way = first, .iteration_count = ENDED, .checkpoint_write = path};
    learning_run continued = {
        .model = model, .way = second, .iteration_count = ITERATIONS, .checkpoint_read = path};
    learning_execute(&begun);
    learning_execute(&continued);
    remove(path);
    assert_true(continued.loss[ENDED - 1] == 0); // was not executed again
    memcpy(continued.loss, begun.loss, ENDED * sizeof continued.loss[0]);
    memcpy(continued.norm, begun.norm, ENDED * sizeof continued.norm[0]);
    learning_assert_same(whole, &continued);
}

static void every_mechanism_restarts_on_other_ranks(void **state)
{
    (void)state;
    for (int mechanism = 0; mechanism < EXEC_MECHANISM_COUNT; mechanism++) {
        const exec_model model = learning_model((exec_mechanism)mechanism);
        learning_run whole = {
            .model = &model, .way = &learning_one_rank, .iteration_count = ITERATIONS};
        learning_execute(&whole);
        assert_restarts(&model, &whole, &two_ranks, &four_ranks);
        assert_restarts(&model, &whole, &four_ranks, &learning_one_rank);
    }
}

static void two_replicas_restart(void **state)
{
    (void)state;
    const exec_model model = learning_model(EXEC_DENSE);
    learning_way one = learning_one_rank;
    learning_way two = two_ranks;
    one.replica_count = two.replica_count = 2;
    learning_run whole = {.model = &model, .way = &one, .iteration_count = ITERATIONS};
    learning_execute(&whole);

    assert_restarts(&model, &whole, &one, &two);
}

static status parse(void *bytes, size_t length, error_message *err)
{
    exec_checkpoint checkpoint = {.iteration = -7};
    arena *memory = arena_create(1 << 12);
    const status parsed = exec_checkpoint_parse(bytes, length, "file", memory, &checkpoint, err);
    assert_true((parsed == STATUS_OK) == (checkpoint.iteration == ENDED));
    arena_destroy(memory);
    return parsed;
}

static void a_file_that_is_cut_off_or_changed_is_refused(void **state)
{
    (void)state;
    const char *path = checkpoint_path();
    const exec_model model = learning_model(EXEC_DENSE);
    learning_run run = {.model = &model,
                        .way = &learning_one_rank,
                        .iteration_count = ENDED,
                        .checkpoint_write = path};
    char *bytes = NULL;
    size_t length = 0;
    error_message err = {0};
    learning_execute(&run);
    assert_int_equal(file_read(path, 1 << 24, &bytes, &length, NULL), STATUS_OK);
    remove(path);

    assert_int_equal(parse(bytes, length, &err), STATUS_OK);
    for (size_t cut = 0; cut < length; cut += cut < 200 ? 1 : 997) {
        assert_int_equal(parse(bytes, cut, &err), STATUS_FORMAT);
    }
    assert_string_equal(err.message,
                        "file: the checkpoint is cut off, or has other bytes than were written");
    for (size_t at = 0; at < length; at += at < 200 ? 1 : 991) {
        bytes[at] ^= 4;
        assert_true(parse(bytes, length, &err) != STATUS_OK);
        bytes[at] ^= 4;
    }
    bytes[0] = 'x';
    assert_int_equal(parse(bytes, length, &err), STATUS_FORMAT);
    assert_string_equal(err.message, "file: this is not a checkpoint");
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_mechanism_restarts_on_other_ranks),
        cmocka_unit_test(two_replicas_restart),
        cmocka_unit_test(a_file_that_is_cut_off_or_changed_is_refused),
    };
    return cmocka_run_group_tests(tests, learning_read_text, learning_free_text);
}

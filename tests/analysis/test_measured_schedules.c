/// Measured throughputs of schedules: the zero-bubble paper's, and made-up ones whose making is
/// known.
#include "analysis/calibration/calibration.h"
#include "analysis/calibration/measured_schedules.h"
#include "tests/assert_close.h"
#include "tests/test_memory.h"

#include <stdio.h>
#include <string.h>

/// Rows of a table with a schedule, or with another one.
static int rows_of(const table *from, const char *schedule, bool is_same, int *rows)
{
    int count = 0;
    for (int row = 0; row < from->row_count; row++) {
        const char *name = from->cells[(size_t)row * (size_t)from->column_count];
        if ((strcmp(name, schedule) == 0) == is_same) rows[count++] = row;
    }
    return count;
}

static void other_schedules_follow_from_1f1b(void **state)
{
    arena *memory = *state;
    table from;
    int fit[48];
    int predict[48];
    ana_schedule_calibration found;
    error_message err = {0};
    assert_ok(ana_measured_table_open("zero-bubble", memory, &from, NULL));
    const int fit_count = rows_of(&from, "1f1b", true, fit);
    const int predict_count = rows_of(&from, "1f1b", false, predict);

    if (ana_schedule_calibrate(&from, fit, fit_count, predict, predict_count, memory, &found,
                               &err) != STATUS_OK) {
        fail_msg("%s", err.message);
    }

    assert_int_equal(found.fitted_count, 12);
    assert_int_equal(found.predicted_count, 36);
    assert_int_equal(found.score_count, 4);
    assert_null(found.scores[3].schedule);
    assert_true(found.scores[3].error_mean < 0.025);
    assert_true(found.scores[3].error_max < 0.06);
    assert_true(found.compute_factor > 1 && found.compute_factor < 1.08);
    // What calibration.h takes for the error of composing stages.
    assert_close(found.residual, ANA_COMPOSITION_RATIO, 0.1);
}

/// What the table says of the microbatch size: no other whole number is possible.
static void microbatch_sizes_are_the_only_possible_ones(void **state)
{
    arena *memory = *state;
    table from;
    int rows[48];
    assert_ok(ana_measured_table_open("zero-bubble", memory, &from, NULL));
    const int count = rows_of(&from, "1f1b", true, rows);
    static const char *const names[] = {"stages",
                                        "microbatches",
                                        "microbatch size",
                                        "forward (ms)",
                                        "backward input (ms)",
                                        "backward weight (ms)",
                                        "samples per GPU and s"};
    for (int index = 0; index < count; index++) {
        double cells[7];
        for (int name = 0; name < 7; name++) {
            assert_ok(table_number(&from, rows[index], table_column(&from, names[name]), 0, 1e6,
                                   &cells[name], NULL));
        }
        // 1F1B without messages: (m + p - 1) (F + B + W).
        const double ideal_s = 1e-3 * (cells[1] + cells[0] - 1) * (cells[3] + cells[4] + cells[5]);
        const double one_s = cells[1] / (cells[0] * cells[6]); // of microbatches of one sample
        int possible = 0;
        for (int size = 1; size <= 16; size++) {
            const double ratio = size * one_s / ideal_s;
            if (ratio < 1 || ratio > 1.15) continue;
            possible++;
            assert_int_equal(size, (int)cells[2]);
        }
        assert_int_equal(possible, 1);
    }
}

/// One stage sends no messages, so that m microbatches of 1 + 1 + 1 ms take 3 m ms; measured they
/// take 1.25 times as long.
static void a_factor_comes_back(void **state)
{
    arena *memory = *state;
    static const char text[] =
        "schedule,order,model,stages,microbatches,chunks,microbatch size,hidden size,attention "
        "heads,"
        "sequence length,memory limit,forward (ms),backward input (ms),backward weight (ms),"
        "send (ms),samples per GPU and s\n"
        "a,1f1b,x,1,8,1,2,64,1,64,0,1,1,1,0.5,533.3333333\n"
        "b,gpipe,x,1,4,1,2,64,1,64,0,1,1,1,0.5,533.3333333\n"
        "a,1f1b,x,1,2,1,2,64,1,64,0,1,1,1,0.5,533.3333333\n"
        "b,gpipe,x,1,6,1,2,64,1,64,0,1,1,1,0.5,533.3333333\n"
        "c,1f1b,y,1,16,1,2,64,1,64,0,1,1,1,0.5,533.3333333\n";
    table from;
    ana_schedule_calibration found;
    assert_ok(table_open_bytes("t.csv", text, sizeof text - 1, memory, &from, NULL));

    assert_ok(
        ana_schedule_calibrate(&from, (int[]){0, 1, 2, 3}, 4, (int[]){4}, 1, memory, &found, NULL));

    assert_close(found.compute_factor * found.model_factors[0], 1.25, 1e-3);
    assert_close(found.rows[0].predicted, 533.3333333, 0.02);
}

static void assert_refused(const char *order, const char *cells, const char *message)
{
    arena *memory = arena_create(1 << 16);
    char text[1024];
    table from;
    ana_schedule_calibration found = {.fitted_count = -7};
    error_message err = {0};
    snprintf(text, sizeof text,
             "schedule,order,model,stages,microbatches,chunks,microbatch size,hidden size,"
             "attention heads,sequence length,memory limit,forward (ms),backward input (ms),"
             "backward weight (ms),send (ms),samples per GPU and s\n"
             "a,1f1b,x,2,8,1,2,64,1,64,0,1,1,1,0.5,100\n"
             "a,%s,x,%s\n",
             order, cells);
    assert_ok(table_open_bytes("t.csv", text, strlen(text), memory, &from, NULL));

    assert_int_not_equal(
        ana_schedule_calibrate(&from, (int[]){0, 0, 0, 1}, 4, (int[]){0}, 1, memory, &found, &err),
        STATUS_OK);

    assert_string_equal(err.message, message);
    assert_int_equal(found.fitted_count, -7);
    arena_destroy(memory);
}

static void too_few_rows_are_refused(void **state)
{
    arena *memory = *state;
    table from;
    ana_schedule_calibration found;
    error_message err = {0};
    assert_ok(ana_measured_table_open("zero-bubble", memory, &from, NULL));

    assert_int_equal(
        ana_schedule_calibrate(&from, (int[]){2}, 1, (int[]){0}, 1, memory, &found, &err),
        STATUS_INVALID);

    assert_string_equal(err.message, "1 row to fit: at least 4 are needed");
}

static void what_cannot_be_played_is_refused(void **state)
{
    (void)state;
    assert_refused("1f1b", "2,8,1,2,64,1,64,0,1,1,1,0.5,0",
                   "t.csv:3: throughput and forward must be above 0");
    assert_refused("1f1b", "2,8.5,1,2,64,1,64,0,1,1,1,0.5,7",
                   "t.csv:3: microbatches: 8.5 is no whole number from 1");
    assert_refused("1f1", "2,8,1,2,64,1,64,0,1,1,1,0.5,7",
                   "t.csv:3: unknown schedule '1f1'; did you mean '1f1b'?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_schedules_follow_from_1f1b),
        cmocka_unit_test(microbatch_sizes_are_the_only_possible_ones),
        cmocka_unit_test(a_factor_comes_back),
        cmocka_unit_test(too_few_rows_are_refused),
        cmocka_unit_test(what_cannot_be_played_is_refused),
    };
    return cmocka_run_group_tests(tests, open_memory, close_memory);
}

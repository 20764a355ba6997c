/// Runs measured elsewhere, for which DYNMO_REFERENCE_DATA names the folder: dense GPT training on
/// one node of 8 A100, published with vTrain (Bang et al., MICRO 2024).
#include "analysis/calibration/calibration.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static ana_calibration_score score_of(const char *fit, const char *predict, arena *memory)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/vtrain_8xA100_hidden1024.csv", getenv("DYNMO_REFERENCE_DATA"));
    table from;
    ana_measured_runs runs;
    int *rows[2];
    int counts[2];
    ana_calibration calibration;
    ana_calibration_score score = {0};
    error_message err = {0};
    const ana_calibration_settings settings = {.vocabulary_size = 51200, .source = "vTrain"};
    if (table_open(path, memory, &from, &err) != STATUS_OK ||
        ana_measured_runs_read(&from, 51200, memory, &runs, &err) != STATUS_OK ||
        ana_rows_matching("fit", fit, &from, memory, &rows[0], &counts[0], &err) != STATUS_OK ||
        ana_rows_matching("predict", predict, &from, memory, &rows[1], &counts[1], &err) !=
            STATUS_OK ||
        ana_calibration_try(&runs, rows[0], counts[0], rows[1], counts[1], &settings, 0.9, memory,
                            &calibration, &score, &err) != STATUS_OK) {
        fail_msg("%s", err.message);
    }
    return score;
}

static void runs_without_a_pipeline_tell_those_with_one(void **state)
{
    (void)state;
    arena *memory = arena_create(1 << 20);

    const ana_calibration_score score = score_of("pp=1", "pp=2,4", memory);

    assert_int_equal(score.fitted_count, 360);
    assert_int_equal(score.predicted_count, 360);
    assert_true(score.error_mean <= 0.0175);
    assert_true(score.error_p90 <= 0.045);
    assert_true(score.interval_coverage >= 0.88);
    assert_true(score.interval_width_mean <= 0.06);
    arena_destroy(memory);
}

/// A third of the layer counts, batches and degrees is enough, as long as every kernel shape is
/// seen.
static void a_part_of_the_runs_is_enough(void **state)
{
    (void)state;
    static const char *const parts[] = {"pp=1,layers=12|24", "pp=1,layers=16|20",
                                        "pp=1,layers=12|16|20", "pp=1,dp=1|2"};
    for (int part = 0; part < 4; part++) {
        arena *memory = arena_create(1 << 20);
        assert_true(score_of(parts[part], "pp=2|4", memory).error_mean <= 0.0175);
        arena_destroy(memory);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_without_a_pipeline_tell_those_with_one),
        cmocka_unit_test(a_part_of_the_runs_is_enough),
    };
    if (getenv("DYNMO_REFERENCE_DATA") == NULL) {
        puts("skipped: DYNMO_REFERENCE_DATA names no folder with vtrain_8xA100_hidden1024.csv");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}

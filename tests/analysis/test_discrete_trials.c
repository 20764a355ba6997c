/// Discrete balancers on drawn layers: what the statistics are of, bounds that no instance breaks,
/// and that threads and other cells change nothing.
#include "analysis/converge/trials/discrete_trials.h"
#include "base/arena.h"
#include "tests/assert_close.h"

#include <stdlib.h>
#include <string.h>

static arena *memory; // of all tests

static ana_trials trials_of(const ana_trial_question *question, int threads)
{
    ana_trials trials = {0};
    error_message err = {0};
    ana_spread spread = {.thread_count = threads};
    if (ana_trials_run(question, &spread, memory, &trials, &err) != STATUS_OK) {
        fail_msg("%s", err.message);
    }
    return trials;
}

static const ana_trial_question small = {.layer_counts = {8, 20},
                                         .layer_count_count = 2,
                                         .stage_counts = {2, 5, 16},
                                         .stage_count_count = 3,
                                         .instance_count = 70,
                                         .seed = 5};

static void no_instance_beats_a_bound_and_the_exact_balancer_is_never_worse(void **state)
{
    (void)state;
    const ana_trials trials = trials_of(&small, 1);

    for (int index = 0; index < trials.row_count; index++) {
        const ana_trial_row *row = &trials.rows[index];
        assert_true(row->assignment_ratio.mean >= 1 && row->assignment_ratio.median >= 1);
        assert_true(row->assignment_ratio.mean <= row->assignment_ratio.max);
        assert_true(row->worse_low <= row->worse_high);
        if (strcmp(row->balancer, "partition") == 0) {
            assert_int_equal(row->worse_count, 0);
            assert_close(row->contiguous_ratio.max, 1, 0);
        }
        if (strcmp(row->balancer, "diffusion") == 0 || strcmp(row->balancer, "even") == 0) {
            assert_true(row->contiguous_ratio.median >= 1);
            assert_close(row->transfers.max, 0, 0);
        }
        if (strcmp(row->balancer, "diffusion-published") == 0) {
            assert_int_equal(row->above_guarantee_count, 0);
        }
    }
}

static void threads_change_no_byte(void **state)
{
    (void)state;
    text_buffer one = {0};
    text_buffer three = {0};
    const ana_trials alone = trials_of(&small, 1);
    const ana_trials together = trials_of(&small, 3);
    json_writer first = json_writer_init(&one);
    json_writer second = json_writer_init(&three);

    ana_trials_write(&alone, &first);
    ana_trials_write(&together, &second);

    assert_string_equal(one.bytes, three.bytes);
    text_free(&one);
    text_free(&three);
}

static void a_cell_is_the_same_whatever_else_is_asked(void **state)
{
    (void)state;
    ana_trial_question alone = small;
    int families = 0;
    alone.family = &ana_layer_families(&families)[5];
    alone.layer_counts[0] = 20;
    alone.layer_count_count = 1;
    alone.stage_counts[0] = 5;
    alone.stage_count_count = 1;

    const ana_trials all = trials_of(&small, 1);
    const ana_trials one = trials_of(&alone, 1);

    int found = 0;
    for (int index = 0; index < all.row_count; index++) {
        const ana_trial_row *row = &all.rows[index];
        if (row->family != alone.family || row->layer_count != 20 || row->stage_count != 5)
            continue;
        const ana_trial_row *same = &one.rows[one.row_count / 2 + found];
        assert_string_equal(row->balancer, same->balancer);
        assert_true(row->assignment_ratio.mean == same->assignment_ratio.mean);
        assert_true(row->transfers.max == same->transfers.max);
        found++;
    }
    assert_int_equal(found, one.row_count / 2);
}

static void chunks_add_rows_and_change_no_other(void **state)
{
    (void)state;
    ana_trial_question folded = small;
    folded.layer_counts[0] = 20;
    folded.layer_count_count = 1;
    folded.stage_count_count = 2; // 16 stages of 2 chunks need 32 layers
    ana_trial_question plain = folded;
    folded.chunk_count = 2;

    const ana_trials one = trials_of(&plain, 1);
    const ana_trials two = trials_of(&folded, 3);

    const int few = one.row_count / (one.cell_count + 1);
    const int many = two.row_count / (two.cell_count + 1);
    assert_int_equal(one.cell_count, two.cell_count);
    assert_int_equal(many, few + 2);
    for (int index = 0; index < two.row_count; index++) {
        const ana_trial_row *row = &two.rows[index];
        const bool is_added = index % many >= few;
        assert_true(row->assignment_ratio.mean >= 1);
        assert_true(is_added == (strcmp(row->balancer, "v-partition") == 0 ||
                                 strcmp(row->balancer, "interleaved-partition") == 0));
        if (is_added) continue;
        const ana_trial_row *same = &one.rows[index / many * few + index % many];
        assert_string_equal(row->balancer, same->balancer);
        assert_true(row->assignment_ratio.mean == same->assignment_ratio.mean);
        assert_true(row->contiguous_ratio.max == same->contiguous_ratio.max);
    }
}

static void questions_without_a_cell_or_with_too_many_instances_are_refused(void **state)
{
    (void)state;
    ana_trial_question wide = small;
    wide.stage_counts[0] = 64;
    wide.stage_count_count = 1;
    ana_trial_question many = small;
    many.instance_count = ANA_TRIAL_INSTANCES_MAX;
    ana_spread spread = {.thread_count = 1};
    ana_trials trials = {.row_count = -7};
    error_message err = {0};

    assert_int_equal(ana_trials_run(&wide, &spread, memory, &trials, &err), STATUS_INVALID);
    assert_string_equal(
        err.message, "every number of stages exceeds every number of layers: 64 stages, 8 layers");
    assert_int_equal(ana_trials_run(&many, &spread, memory, &trials, &err), STATUS_INVALID);
    assert_non_null(strstr(err.message, "more than 2000000"));
    assert_int_equal(trials.row_count, -7);
}

static void a_sample_says_mean_and_intervals_as_tables_have_them(void **state)
{
    (void)state;
    double values[] = {4, 1, 3, 2, 5};
    double many[1000];
    double one[] = {7};
    for (int index = 0; index < 1000; index++) {
        many[index] = (index * 389) % 1000; // 0 to 999, each once
    }

    const ana_sample sample = ana_sample_of(values, 5, 0.95);
    const ana_sample large = ana_sample_of(many, 1000, 0.95);
    const ana_sample single = ana_sample_of(one, 1, 0.95);

    assert_close(sample.mean, 3, 1e-12);
    assert_close(sample.median, 3, 1e-12);
    assert_close(sample.max, 5, 0);
    // t(4, 0.975) = 2.7764451, deviation sqrt(2.5)
    assert_close(sample.mean_high, 3 + 2.7764451 * sqrt(2.5) / sqrt(5), 1e-7);
    assert_true(isnan(sample.p95_high));
    assert_close(large.p95, 949.05, 1e-12);
    // Binomial(1000, 0.95): P(X <= 935) = 0.0217 <= 0.025 < P(X <= 936), P(X <= 962) = 0.971.
    assert_true(large.p95_low >= 930 && large.p95_low <= 940);
    assert_true(large.p95_high >= 958 && large.p95_high <= 968);
    assert_true(isnan(single.mean_low) && isnan(single.p95_high));
}

static void shares_have_exact_intervals(void **state)
{
    (void)state;
    double low = -1;
    double high = -1;

    ana_share_interval(0, 10, 0.95, &low, &high);
    assert_close(low, 0, 0);
    assert_close(high, 1 - pow(0.025, 0.1), 1e-9);
    ana_share_interval(10, 10, 0.95, &low, &high);
    assert_close(low, pow(0.025, 0.1), 1e-9);
    assert_close(high, 1, 0);
    ana_share_interval(5, 10, 0.95, &low, &high); // tables: 0.1871 to 0.8129
    assert_close(low, 0.187086, 1e-5);
    assert_close(high, 0.812914, 1e-5);
}

static void large_samples_have_intervals_that_go_on_from_small_ones(void **state)
{
    (void)state;
    double below = 0;
    double above = 0;
    for (int64_t hits = 0; hits <= 100000; hits += 1000) {
        double low = -1;
        double high = -1;
        ana_share_interval(hits, 100000, 0.95, &below, &above);
        ana_share_interval(hits + (hits > 0 ? 1 : 0), 100001, 0.95, &low, &high);
        assert_true(below >= 0 && below <= (double)hits / 100000 && above <= 1);
        assert_true(fabs(low - below) < 5e-5 && fabs(high - above) < 5e-5);
    }
    enum { MANY = 120000 };
    double *values = memory_array(MANY, sizeof *values);
    assert_non_null(values);
    for (int index = 0; index < MANY; index++) {
        values[index] = index;
    }
    const ana_sample exact = ana_sample_of(values, 100000, 0.95);
    const ana_sample normal = ana_sample_of(values, MANY, 0.95);
    assert_close(exact.p95_low / 95000, 1 - 1.96 * sqrt(0.05 / 0.95 / 100000), 5e-5);
    assert_close(normal.p95_low / 114000, 1 - 1.96 * sqrt(0.05 / 0.95 / MANY), 5e-5);
    assert_close(normal.p95_high / 114000, 1 + 1.96 * sqrt(0.05 / 0.95 / MANY), 5e-5);
    free(values);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_instance_beats_a_bound_and_the_exact_balancer_is_never_worse),
        cmocka_unit_test(threads_change_no_byte),
        cmocka_unit_test(a_cell_is_the_same_whatever_else_is_asked),
        cmocka_unit_test(chunks_add_rows_and_change_no_other),
        cmocka_unit_test(questions_without_a_cell_or_with_too_many_instances_are_refused),
        cmocka_unit_test(a_sample_says_mean_and_intervals_as_tables_have_them),
        cmocka_unit_test(shares_have_exact_intervals),
        cmocka_unit_test(large_samples_have_intervals_that_go_on_from_small_ones),
    };
    memory = arena_create(1 << 16);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    arena_destroy(memory);
    return failed;
}

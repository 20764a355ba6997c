/// Checks of runs that nobody played (fake_run.h): each cause is provoked alone and found, what is
/// noise is no departure, what departs is found through noise, and what cannot be compared is
/// refused.
#include "analysis/check/check_parts.h"
#include "base/rng.h"
#include "tests/analysis/fake_run.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <unistd.h>

static ana_observed *observed(const fake_run *fake)
{
    trace_store *store = NULL;
    ana_observed *read = arena_array(memory, 1, sizeof *read);
    require(trace_store_open_memory(&store, &why));
    fake_run_put(store, fake);
    require(ana_observed_read(store, NULL, NULL, memory, read, &why));
    trace_store_close(store);
    return read;
}

static ana_check *check_with(const fake_run *plan, const fake_run *measured,
                             const ana_check_options *options)
{
    ana_check *check = arena_array(memory, 1, sizeof *check);
    require(ana_check_compare(observed(plan), observed(measured), options, memory, check, &why));
    return check;
}

static ana_check *check_of(const fake_run *plan, const fake_run *measured)
{
    const ana_check_options options = ana_check_options_default();
    return check_with(plan, measured, &options);
}

/// Checks a run against what was predicted of it without any of its faults.
static ana_check *check_fault(const fake_run *measured)
{
    const fake_run plan = fake_run_default(TRACE_RUN_SIM);
    return check_of(&plan, measured);
}

static void assert_cause(const ana_check *check, ana_check_cause_kind kind)
{
    if (check->cause.kind != kind) {
        fail_msg("%s instead of %s: %s", ana_check_cause_names[check->cause.kind],
                 ana_check_cause_names[kind], check->cause.summary);
    }
    assert_int_equal(check->verdict, ANA_CHECK_DEPARTS);
}

TEST(a_run_as_predicted_agrees)
{
    const fake_run measured = fake_run_default(TRACE_RUN_EXEC);

    const ana_check *check = check_fault(&measured);

    assert_int_equal(check->verdict, ANA_CHECK_AGREES);
    assert_int_equal(check->cause.kind, ANA_CHECK_CAUSE_NONE);
    assert_int_equal(check->first, -1);
    assert_int_equal(check->warmup, 0);
}

/// One fault of a measured run, or a plan that moves layers, and what the check must say of it.
typedef struct fault {
    fake_run measured; // only what differs from the default
    int move_at;       // of both sides: iteration from which on layers 6 and 7 are on rank 2
    ana_check_cause_kind cause;
    ana_check_group group; // of what departed first
    int since;
    int rank;          // of the cause; -1: not looked at
    double factor;     // of the cause; 0: not looked at
    const char *words; // in the summary, the evidence, or the name or detail of what departed first
} fault;

static const fault faults[] = {
    {.measured = {.rank_factor = {[2] = 1.2}},
     .cause = ANA_CHECK_CAUSE_STRAGGLER,
     .group = ANA_CHECK_OP,
     .rank = 2,
     .factor = 1.2,
     .words = "F of stage 2 (rank 2)"},
    {.measured = {.rank_factor = {[1] = 1.5}, .factors_from = 21}, // becomes slow
     .cause = ANA_CHECK_CAUSE_STRAGGLER,
     .group = ANA_CHECK_OP,
     .since = 21,
     .rank = 1,
     .factor = 1.5},
    {.measured = {.rank_factor = {[2] = 1.3}}, // slow with all its layers, where layers move
     .move_at = 20,
     .cause = ANA_CHECK_CAUSE_STRAGGLER,
     .group = ANA_CHECK_OP,
     .rank = 2},
    {.measured = {.rank_factor = {[2] = 1.3}, .factors_from = 15}, // after layers moved
     .move_at = 10,
     .cause = ANA_CHECK_CAUSE_STRAGGLER,
     .group = ANA_CHECK_OP,
     .since = 15,
     .rank = 2},
    {.measured = {.layer_factor = {[6] = 1.8, [7] = 1.8}}, // slow wherever they are
     .move_at = 20,
     .cause = ANA_CHECK_CAUSE_STAGES,
     .group = ANA_CHECK_IDLE,
     .since = 10, // warm-up
     .rank = -1},
    {.measured = {.rank_factor = {1.1, 1.1, 1.1, 1.1}},
     .cause = ANA_CHECK_CAUSE_ALL_OPS,
     .group = ANA_CHECK_OP,
     .rank = -1,
     .factor = 1.1},
    {.measured = {.kind_factor = {[OP_BACKWARD_WEIGHT] = 1.4}},
     .cause = ANA_CHECK_CAUSE_KIND,
     .group = ANA_CHECK_OP,
     .rank = -1,
     .words = "W of all stages alike"},
    {.measured = {.rank_factor = {[0] = 1.2, [3] = 1.3}},
     .cause = ANA_CHECK_CAUSE_STAGES,
     .group = ANA_CHECK_OP,
     .rank = -1,
     .words = "W of stage 3"},
    {.measured = {.slow_link_ns = 300000},
     .cause = ANA_CHECK_CAUSE_LINK,
     .group = ANA_CHECK_MESSAGE,
     .rank = -1,
     .words = "between rank 2 and rank 1"},
    {.measured = {.rank_factor = {[3] = 1.5},
                  .slow_link_ns = 100000}, // a link that is a little slow
     .cause = ANA_CHECK_CAUSE_STRAGGLER,
     .group = ANA_CHECK_OP,
     .rank = 3},
    {.measured = {.order = "zb-h2"},
     .cause = ANA_CHECK_CAUSE_ORDER,
     .group = ANA_CHECK_ORDER,
     .rank = 0,
     .words = "runs F4 where the plan has"},
    {.measured = {.move_at = 25},
     .cause = ANA_CHECK_CAUSE_DECISION,
     .group = ANA_CHECK_DECISIONS,
     .since = 25,
     .rank = -1,
     .words = "layers 0,4,6,12,16 instead of 0,4,8,12,16"},
    {.measured = {.starts_moved = true},
     .cause = ANA_CHECK_CAUSE_PLAN,
     .group = ANA_CHECK_PLAN,
     .rank = -1},
    {.measured = {.outside_ns = 4000000},
     .cause = ANA_CHECK_CAUSE_OUTSIDE,
     .group = ANA_CHECK_OUTSIDE,
     .rank = -1},
    {.measured = {.peak_bytes = 1200},
     .cause = ANA_CHECK_CAUSE_MEMORY,
     .group = ANA_CHECK_MEMORY,
     .since = 39,
     .rank = 0,
     .words = "peak memory of rank 0"},
};

static bool is_said(const ana_check *check, const char *words)
{
    const ana_check_quantity *first = &check->quantities[check->first];
    bool found = strstr(check->cause.summary, words) != NULL ||
                 strstr(first->name, words) != NULL || strstr(first->detail, words) != NULL;
    for (int line = 0; line < check->cause.evidence.count; line++) {
        found = found || strstr(check->cause.evidence.line[line], words) != NULL;
    }
    return found;
}

TEST(every_fault_is_found_with_its_cause)
{
    for (size_t each = 0; each < sizeof faults / sizeof faults[0]; each++) {
        const fault *given = &faults[each];
        const fake_run shape = fake_run_default(TRACE_RUN_EXEC);
        fake_run plan = fake_run_default(TRACE_RUN_SIM);
        fake_run measured = given->measured;
        measured.name = shape.name;
        measured.kind = shape.kind;
        measured.schedule = shape.schedule;
        measured.iteration_count = shape.iteration_count;
        if (measured.peak_bytes == 0) measured.peak_bytes = shape.peak_bytes;
        if (given->move_at > 0) plan.move_at = measured.move_at = given->move_at;

        const ana_check *check = check_of(&plan, &measured);

        const ana_check_quantity *first = &check->quantities[check->first];
        assert_cause(check, given->cause);
        assert_int_equal(first->group, given->group);
        assert_int_equal(first->since, given->since);
        if (given->rank >= 0) assert_int_equal(check->cause.rank, given->rank);
        if (given->factor > 0) assert_close(check->cause.factor, given->factor, 1e-5);
        if (given->words != NULL && !is_said(check, given->words)) {
            fail_msg("nobody says '%s'", given->words);
        }
    }
}

TEST(a_faster_run_departs_unless_only_slower_ones_shall)
{
    const fake_run plan = fake_run_default(TRACE_RUN_SIM);
    fake_run measured = fake_run_default(TRACE_RUN_EXEC);
    ana_check_options options = ana_check_options_default();
    for (int rank = 0; rank < FAKE_RANKS; rank++) {
        measured.rank_factor[rank] = 0.8;
    }
    assert_cause(check_of(&plan, &measured), ANA_CHECK_CAUSE_ALL_OPS);
    options.only_slower = true;

    const ana_check *check = check_with(&plan, &measured, &options);

    assert_int_equal(check->verdict, ANA_CHECK_AGREES);
}

TEST(too_few_iterations_are_undecided)
{
    fake_run measured = fake_run_default(TRACE_RUN_EXEC);
    measured.iteration_count = 11;
    measured.rank_factor[1] = 3;

    const ana_check *check = check_fault(&measured);

    assert_int_equal(check->verdict, ANA_CHECK_UNDECIDED);
    assert_int_equal(check->cause.kind, ANA_CHECK_CAUSE_NONE);
    assert_int_equal(check->quantities[check->length].group, ANA_CHECK_ITERATION);
    assert_int_equal(check->quantities[check->length].change.needed_count, 12);
}

TEST(missing_iterations_are_told_and_the_others_compared)
{
    fake_run measured = fake_run_default(TRACE_RUN_EXEC);
    measured.left_out = 5;

    const ana_check *check = check_fault(&measured);

    assert_int_equal(check->verdict, ANA_CHECK_AGREES);
    assert_int_equal(check->pair_count, 32);
    assert_non_null(strstr(check->notes.line[0], "lacks 7 iterations between 0 and 38"));
}

/// Runs SQL on a store, after its back.
static void change(const char *path, const char *text)
{
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

/// A store with a run of 20 iterations, changed. @return what reading it returns
static status read_changed(const char *text, ana_observed *read)
{
    char path[64];
    fake_run fake = fake_run_default(TRACE_RUN_EXEC);
    trace_store *store = NULL;
    fake.iteration_count = 20;
    snprintf(path, sizeof path, "%s/dynmo-check-XXXXXX", P_tmpdir);
    const int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    require(trace_store_open(path, TRACE_WRITE, &store, &why));
    fake_run_put(store, &fake);
    trace_store_close(store);
    change(path, text);
    require(trace_store_open(path, TRACE_READ, &store, &why));
    const status result = ana_observed_read(store, NULL, NULL, memory, read, &why);
    trace_store_close(store);
    unlink(path);
    return result;
}

TEST(a_run_that_was_interrupted_is_checked_as_far_as_it_went)
{
    const fake_run plan = fake_run_default(TRACE_RUN_SIM);
    const ana_check_options options = ana_check_options_default();
    ana_check *check = arena_array(memory, 1, sizeof *check);
    ana_observed measured;
    assert_int_equal(read_changed("UPDATE run SET status='interrupted';"
                                  "DELETE FROM result WHERE label='comparison'",
                                  &measured),
                     STATUS_OK);

    require(ana_check_compare(observed(&plan), &measured, &options, memory, check, &why));

    assert_int_equal(check->verdict, ANA_CHECK_UNDECIDED);
    assert_non_null(strstr(check->notes.line[0], "is interrupted: only its 20 iterations"));
    assert_non_null(strstr(check->notes.line[1], "peak memory is not known of both"));
}

TEST(a_store_of_nonsense_is_refused_or_left_out)
{
    ana_observed read;
    assert_int_equal(read_changed("UPDATE rank_work SET rank = 4000 + place", &read), STATUS_OK);
    assert_int_equal(read.work_ns[0], -1);
    assert_int_equal(read_changed("UPDATE op_time SET stage = 9 + stage", &read), STATUS_OK);
    assert_int_equal(read.op_ns[0], -1);
    assert_int_equal(read_changed("UPDATE plan SET plan_json = '{}'", &read), STATUS_FORMAT);
    assert_fails_naming(read_changed("UPDATE iteration SET plan_id = NULL", &read), STATUS_INVALID,
                        "row 'row' has no plan in iteration 0");
    assert_int_equal(read_changed("UPDATE result SET result_json = '[]'", &read), STATUS_FORMAT);
}

TEST(runs_without_common_iterations_are_compared_in_their_order)
{
    fake_run plan = fake_run_default(TRACE_RUN_EXEC);
    fake_run measured = fake_run_default(TRACE_RUN_EXEC);
    plan.noise = measured.noise = 0.02;
    measured.first_iteration = 100;
    measured.seed = 7;
    ana_check *check = check_of(&plan, &measured);
    assert_int_equal(check->verdict, ANA_CHECK_AGREES);
    assert_false(check->is_paired);
    measured.rank_factor[2] = 1.25;

    check = check_of(&plan, &measured);

    assert_cause(check, ANA_CHECK_CAUSE_STRAGGLER);
    assert_int_equal(check->cause.rank, 2);
}

static void assert_refused(const fake_run *plan, const fake_run *measured,
                           const ana_check_options *options, const char *message)
{
    ana_check check;
    assert_fails_naming(
        ana_check_compare(observed(plan), observed(measured), options, memory, &check, &why),
        STATUS_INVALID, message);
}

TEST(other_schedules_and_a_warm_up_of_all_are_refused)
{
    const fake_run plan = fake_run_default(TRACE_RUN_SIM);
    fake_run measured = fake_run_default(TRACE_RUN_EXEC);
    ana_check_options options = ana_check_options_default();
    measured.schedule = "zb-h2";
    assert_refused(&plan, &measured, &options, "not the same training: schedule zb-h1 in ");
    measured.schedule = "zb-h1";
    options.warmup = 40;
    assert_refused(&plan, &measured, &options, "--warmup 40 leaves none of the 40 iterations");
}

TEST(runs_without_iterations_are_refused)
{
    const fake_run empty = {
        .name = "empty", .kind = TRACE_RUN_EXEC, .schedule = "zb-h1", .is_unfinished = true};
    trace_store *store = NULL;
    ana_observed read;
    require(trace_store_open_memory(&store, &why));
    assert_fails_naming(ana_observed_read(store, NULL, NULL, memory, &read, &why), STATUS_INVALID,
                        "holds no runs");
    fake_run_put(store, &empty);

    assert_fails(ana_observed_read(store, NULL, NULL, memory, &read, &why), STATUS_INVALID,
                 ":memory:: run 1 (failed) has no iterations");
    fake_run other = fake_run_default(TRACE_RUN_EXEC);
    fake_run_put(store, &other);
    assert_int_equal(ana_observed_read(store, "3", NULL, memory, &read, &why), STATUS_INVALID);
    trace_store_close(store);
}

/// Pairs of runs of one plan, with the noise of a busy machine: none may be said to depart more
/// often than 5 of 100, and none does. With a rank that is slower by 15 % under a tolerance of 5 %:
/// found, with the right cause, in at least 9 of 10.
TEST(a_slow_rank_is_found_through_noise_and_noise_is_no_departure)
{
    enum { TRIALS = 40 };
    for (int is_slow = 0; is_slow < 2; is_slow++) {
        int departing = 0;
        int found = 0;
        for (uint64_t seed = 0; seed < TRIALS; seed++) {
            fake_run plan = fake_run_default(TRACE_RUN_EXEC);
            plan.noise = 0.05;
            plan.iteration_count = 30;
            fake_run measured = plan;
            plan.seed = 2 * seed;
            measured.seed = 2 * seed + 1;
            if (is_slow) measured.rank_factor[1] = 1.15;
            arena_reset(memory);
            const ana_check *check = check_of(&plan, &measured);
            departing += check->verdict == ANA_CHECK_DEPARTS;
            found += check->cause.kind == ANA_CHECK_CAUSE_STRAGGLER && check->cause.rank == 1;
        }
        assert_in_range(departing, is_slow ? TRIALS * 9 / 10 : 0, is_slow ? TRIALS : 0);
        assert_in_range(found, is_slow ? TRIALS * 9 / 10 : 0, is_slow ? TRIALS : 0);
    }
}

// Intervals: against numbers from tables and by hand, and how often they miss.

static ana_shift pairs(const double *values, int count, double alpha)
{
    ana_shift shift;
    ana_shift_since(values, count, 0, alpha, memory, &shift);
    return shift;
}

/// Of 12 values the sign test at 5 % takes the third smallest and the third largest:
/// P(at most 2 of 12) = 79 / 4096 = 0.0193, P(at most 3) = 0.073.
TEST(order_statistics_are_those_of_the_sign_test)
{
    const double values[] = {5, 1, 9, 3, 12, 7, 2, 11, 4, 10, 6, 8};

    const ana_shift shift = pairs(values, 12, 0.05);

    assert_true(shift.is_bounded);
    assert_close(shift.estimate, 6.5, 1e-12);
    assert_close(shift.low, 3, 1e-12);
    assert_close(shift.high, 10, 1e-12);
}

/// 2 / 2^n <= 0.05 first at n = 6.
TEST(fewer_values_than_the_confidence_needs_have_no_interval)
{
    const double values[] = {1, 1, 1, 1, 1, 1};
    assert_false(pairs(values, 5, 0.05).is_bounded);
    assert_int_equal(pairs(values, 5, 0.05).needed_count, 6);

    assert_true(pairs(values, 6, 0.05).is_bounded);
}

/// Plateaus: neighbours tell the same. Of 15 alike the signs' correlation is (56 - 3) / 60, with
/// what Kendall adds 0.959; so the 60 count for one, and the interval goes half beyond 1 and 2.
/// Of 5 alike it is (48 - 11) / 60, so that they count for 6, of which the sign test takes the
/// first and the last: the 10th of 60, and the 51st.
TEST(values_that_resemble_their_neighbours_widen_the_interval)
{
    static const int alike[] = {15, 5};
    static const double lows[] = {0.5, 1};
    for (int each = 0; each < 2; each++) {
        double values[60];
        for (int index = 0; index < 60; index++) {
            values[index] = 1 + (index / alike[each]) % 2 + index * 1e-6;
        }

        const ana_shift shift = pairs(values, 60, 0.05);

        assert_close(shift.low + 1, lows[each] + 1, 1e-3);
        assert_close(shift.high, 3 - lows[each], 1e-3);
    }
}

/// Student's of {0, ..., 0, 1, 1, 1}: mean 3 / 16, deviation sqrt(3 x 13 / 16 / 15), t of 15
/// at 97.5 % 2.13145. Fewer than 12 tell nothing.
TEST(a_mean_has_an_interval_by_student)
{
    double values[16] = {0};
    ana_shift shift;
    values[2] = values[7] = values[12] = 1;

    ana_shift_of_mean(values, 16, 0.05, memory, &shift);

    const double reach = 2.13145 * sqrt(3.0 * 13 / 16 / 15 / 16);
    assert_true(shift.is_bounded);
    assert_close(shift.estimate, 3.0 / 16, 1e-12);
    assert_close(shift.low, 3.0 / 16 - reach, 1e-5);
    assert_close(shift.high, 3.0 / 16 + reach, 1e-5);
    ana_shift_of_mean(values, 11, 0.05, memory, &shift);
    assert_false(shift.is_bounded);
}

/// Skewed, of median 0: the exponential of rates 1 and 3 below and above, by inversion of a table.
static double skewed(rng *generator)
{
    const double unit = rng_unit(generator);
    if (unit < 0.5) return -unit * 0.02;
    const double above = 2 * (unit - 0.5);
    return above * above * above * 0.3;
}

enum { DRAWS = 4000 };

/// @return trials in which changes of this median are said to depart, of 30 iterations each
static int departing_of(double median, double alpha, uint64_t seed)
{
    const ana_check check = {.options = {.tolerance = 0.05}};
    rng generator = rng_init(seed, 1);
    int departing = 0;
    for (int trial = 0; trial < DRAWS; trial++) {
        double changes[30];
        int iteration[30];
        ana_check_quantity quantity = {.group = ANA_CHECK_ITERATION};
        for (int index = 0; index < 30; index++) {
            changes[index] = median + skewed(&generator);
            iteration[index] = index;
        }
        arena_reset(memory);
        ana_check_decide(&check, changes, iteration, 30, alpha / 2, memory, &quantity);
        departing += quantity.verdict == ANA_CHECK_DEPARTS;
    }
    return departing;
}

/// A change whose median is the tolerance itself is the hardest that must not depart. Both tests of
/// a quantity together, of the whole and of its end: 5 %, and three standard errors of grace,
/// 0.05 + 3 sqrt(0.05 x 0.95 / 4000) = 0.0603.
TEST(what_is_at_the_tolerance_departs_as_rarely_as_promised)
{
    const int departing = departing_of(0.05, 0.05, 13);
    print_message("at the tolerance %d of %d depart\n", departing, DRAWS);
    assert_in_range(departing, 0, (int)(0.0603 * DRAWS));
}

/// Every fifth iteration takes ten times as long: of runs that departs, of a prediction it is told.
TEST(a_run_with_some_far_longer_iterations_departs_in_the_mean)
{
    const bool has_stalls[] = {true, false};
    double changes[60];
    int iteration[60];
    rng generator = rng_init(7, 1);
    for (int index = 0; index < 60; index++) {
        changes[index] = (rng_unit(&generator) < 0.2 ? 9 : 0) + 0.01 * rng_unit(&generator);
        iteration[index] = index;
    }
    for (int each = 0; each < 2; each++) {
        const ana_check check = {.options = {.tolerance = 0.05}, .has_stalls = has_stalls[each]};
        ana_check_quantity quantity = {.group = ANA_CHECK_ITERATION};

        ana_check_decide(&check, changes, iteration, 60, 0.001, memory, &quantity);

        assert_int_equal(quantity.is_of_means, has_stalls[each]);
        assert_int_equal(quantity.verdict, has_stalls[each] ? ANA_CHECK_DEPARTS : ANA_CHECK_AGREES);
    }
}

/// One stall of 60 decides nothing.
TEST(one_stall_does_not_depart_in_the_mean)
{
    const ana_check check = {.options = {.tolerance = 0.05}, .has_stalls = true};
    ana_check_quantity quantity = {.group = ANA_CHECK_ITERATION};
    double changes[60] = {[20] = 9};
    int iteration[60];
    for (int index = 0; index < 60; index++) {
        iteration[index] = index;
    }

    ana_check_decide(&check, changes, iteration, 60, 0.001, memory, &quantity);

    assert_int_equal(quantity.verdict, ANA_CHECK_AGREES);
}

TEST(warm_up_is_as_long_as_iterations_are_slower_than_the_rest)
{
    double changes[40];
    for (int index = 0; index < 40; index++) {
        changes[index] = 0.001 * (index % 3) + (index < 8 ? 0.3 : 0);
    }
    assert_in_range(ana_check_warmup_of(changes, 40, memory), 4, 8);
    for (int index = 0; index < 40; index++) {
        changes[index] = index < 8 ? -0.3 : 0; // faster is no warm-up
    }
    assert_int_equal(ana_check_warmup_of(changes, 40, memory), 0);
    for (int index = 0; index < 40; index++) {
        changes[index] = index < 30 ? 0.3 : 0; // at most 10, or a tenth
    }
    assert_true(ana_check_warmup_of(changes, 40, memory) <= 10);
    assert_int_equal(ana_check_warmup_of(changes, 12, memory), 0);
}

TEST(a_departure_begins_where_more_depart_than_not)
{
    const double changes[] = {0, 0, 0.2, 0, 0, 0.2, 0.2, 0, 0.2, 0.2};
    assert_int_equal(ana_check_since(changes, 10, 0.05), 5);
    assert_int_equal(ana_check_since(changes, 2, 0.05), -1);
    assert_int_equal(ana_check_since(changes + 8, 2, 0.05), 0);
}

int main(void)
{
    return run_all_tests(open_memory, close_memory);
}

/// The comparison: who is compared with whom, what an infeasible row becomes, and that the record
/// in the store holds what was played. Costs come from a shipped model, which needs no file. And
/// the bound over all contiguous plans.
#include "analysis/compare/compare.h"
#include "analysis/report/recorded.h"
#include "analysis/report/recording.h"
#include "analysis/study/setup.h"
#include "balance/partition/chain.h"
#include "balance/plan.h"
#include "base/arena.h"
#include "base/rng.h"
#include "tests/test.h"
#include "tests/test_memory.h"
#include "traces/store/runs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/// A study with everything opened from it.
static ana_study study;
static ana_setup setup;
static ana_comparison comparison;

#define STUDY(rest)                                                                                \
    "{\"schema\":\"dynmo-study/1\",\"name\":\"n\",\"model\":\"gpt2\",\"hardware\":\"h100-dynmo\"," \
    "\"training\":{\"iterations\":3,\"microbatches\":8},\"pipeline\":{\"stages\":4}" rest "}"

static void open_study(const char *content)
{
    require(ana_study_open_text("-", content, "{}", memory, &study, &why));
    require(ana_setup_open(&study, NULL, memory, &setup, &why));
}

/// Plays a study into a store in memory.
static trace_store *record(void)
{
    trace_store *store = NULL;
    ana_recording *recording = NULL;
    assert_ok(trace_store_open_memory(&store, NULL));
    assert_ok(ana_recording_begin(store, TRACE_RUN_SIM, &setup, "dynmo simulate", "0", memory,
                                  &recording, NULL));
    const ana_listener listener = ana_recording_listener(recording);
    assert_ok(ana_compare(&setup, &listener, memory, &comparison, NULL));
    assert_ok(ana_recording_finish(recording, &comparison, STATUS_OK, NULL));
    return store;
}

TEST(rows_are_relative_to_even_and_tuned)
{
    open_study(STUDY(""));

    assert_ok(ana_compare(&setup, NULL, memory, &comparison, NULL));

    const ana_row *even = &comparison.rows[0];
    const ana_row *tuned = &comparison.rows[1];
    assert_close(even->relative_to_even, 1.0, 1e-12);
    assert_close(tuned->relative_to_tuned, 1.0, 1e-12);
    assert_close(tuned->relative_to_even, tuned->per_second / even->per_second, 1e-12);
    assert_true(tuned->relative_to_even > 1); // the head of gpt2 costs several layers
    for (int row = 0; row < study.balancing_count; row++) {
        assert_int_equal(comparison.rows[row].result.rebalance_count, 0); // nothing changes
    }
    // 8 microbatches of 1024 tokens in iteration_mean_ns.
    assert_close(even->per_second, 8 * 1024 * 1e9 / (double)even->iteration_mean_ns, 1e-6);
}

TEST(a_row_that_fits_nowhere_is_an_outcome_until_all_are)
{
    open_study(STUDY(",\"cluster\":{\"memory_bytes\":1700000000},\"balancing\":"
                     "[{\"balancer\":\"even\"},{\"balancer\":\"partition\"}]"));
    text_buffer out = {0};

    require(ana_compare(&setup, NULL, memory, &comparison, &why));
    assert_int_equal(comparison.rows[0].outcome, STATUS_INFEASIBLE);
    assert_ok(comparison.rows[1].outcome);
    ana_comparison_print(&comparison, &out);
    assert_non_null(strstr(out.bytes, "infeasible: "));
    text_free(&out);
    open_study(STUDY(",\"cluster\":{\"memory_bytes\":1000000}"));
    assert_int_equal(ana_compare(&setup, NULL, memory, &comparison, &why), STATUS_INFEASIBLE);
    assert_true(strlen(why.message) > 0);
}

TEST(the_record_holds_what_was_played)
{
    open_study(STUDY(""));
    ana_recorded recorded;
    trace_store *store = record();

    assert_ok(ana_recorded_open(store, NULL, memory, &recorded, &why));
    assert_int_equal(recorded.series_count, 5);
    assert_int_equal(recorded.series[0].count, 3);
    assert_close(recorded.series[0].iterations[2].bubble_ratio,
                 comparison.rows[0].result.last.bubble_ratio, 1e-12);
    const char *before = NULL;
    const char *after = NULL;
    ana_recorded_before_after(&recorded, &before, &after);
    assert_string_equal(before, "even");
    ana_timeline timeline;
    assert_ok(ana_recorded_timeline(store, &recorded, after, -1, memory, &timeline, &why));
    assert_int_equal(timeline.iteration, 2);
    assert_fails_naming(ana_recorded_timeline(store, &recorded, "even", 1, memory, &timeline, &why),
                        STATUS_INVALID,
                        ":memory:: no such timeline of 'even'; recorded, with "
                        "iterations: 'even' 0, 'even' 2, 'tuned' 0, ");
    trace_run_plan *plans = NULL;
    int plan_count = 0;
    assert_ok(trace_run_rows(store, recorded.info.run_id, TRACE_RUN_PLANS, NULL, memory, &plans,
                             &plan_count, &why));
    assert_true(plan_count >= recorded.series_count);
    for (int index = 0; index < plan_count; index++) {
        json_value root;
        bal_plan plan;
        const char *json = plans[index].plan_json;
        assert_ok(json_read_text("plan", json, memory, &root, &why));
        assert_ok(bal_plan_read(root, memory, &plan, &why));
        assert_int_equal(plan.rank_count, setup.machine.rank_count);
    }
    trace_store_close(store);
}

TEST(a_store_without_a_simulation_is_told_apart)
{
    trace_store *store = NULL;
    ana_recorded recorded;
    assert_ok(trace_store_open_memory(&store, &why));

    assert_fails(ana_recorded_open(store, NULL, memory, &recorded, &why), STATUS_INVALID,
                 ":memory:: holds no complete run; record one with "
                 "`dynmo simulate --store`");
    trace_store_close(store);
}

#define FREEZING                                                                                   \
    "{\"schema\":\"dynmo-study/1\",\"name\":\"n\",\"model\":\"gpt2\",\"hardware\":\"h100-dynmo\"," \
    "\"training\":{\"iterations\":12,\"microbatches\":8},\"pipeline\":{\"stages\":4},"             \
    "\"dynamism\":{\"case\":\"freezing\",\"start_iteration\":2,\"interval\":2,"                    \
    "\"last_iteration\":10},"

static void count_step(void *context)
{
    ++*(int64_t *)context;
}

TEST(what_a_row_is_compared_with_is_played_beside_it)
{
    open_study(FREEZING
               "\"balancing\":[{\"balancer\":\"partition\",\"policy\":\"on-change\",\"repack\":{"
               "\"kind\":\"throughput\",\"tolerance\":1}}]}");
    int64_t steps = 0;
    const ana_listener counting = {.step = count_step, .step_context = &steps};

    assert_ok(ana_compare(&setup, &counting, memory, &comparison, NULL));

    const ana_row *row = &comparison.rows[0];
    assert_int_equal(steps, 12); // of the row; what is beside it is not told
    assert_true(row->unpacked_ns > 0 && row->unpacked_ns != row->result.total_ns);
    assert_true(comparison.still_even_ns > comparison.even_ns); // freezing saves W
    assert_close(row->speed_up, (double)comparison.still_even_ns / (double)row->result.total_ns,
                 1e-12);
    double product = 1;
    for (int factor = 0; factor < ANA_FACTOR_COUNT; factor++) {
        if (factor != ANA_FACTOR_PACKING) product *= row->factors[factor];
    }
    assert_close(product, row->speed_up, 1e-12);
    assert_true(row->relative_to_even == 0); // even is no row of this study
}

TEST(the_record_follows_a_pipeline_that_shrinks)
{
    open_study(
        FREEZING
        "\"balancing\":[{\"balancer\":\"partition\",\"policy\":\"on-change\",\"label\":\"r\","
        "\"repack\":{\"kind\":\"throughput\",\"tolerance\":1}}]}");
    trace_run_info run;
    trace_run_decision *decisions = NULL;
    trace_run_work *work = NULL;
    int decision_count = 0;
    int work_count = 0;
    trace_store *store = record();

    const ana_splits *splits = &comparison.rows[0].splits;
    assert_ok(trace_run_find(store, NULL, memory, &run, &why));
    assert_ok(trace_run_rows(store, run.run_id, TRACE_RUN_DECISIONS, "r", memory, &decisions,
                             &decision_count, &why));
    assert_ok(
        trace_run_rows(store, run.run_id, TRACE_RUN_WORK, "r", memory, &work, &work_count, &why));
    assert_int_equal(decision_count, comparison.rows[0].course.asked_count);
    int cells = 0;
    for (int step = 0; step < splits->step_count; step++) {
        const ana_split_step *each = &splits->steps[step];
        const int end = step + 1 < splits->step_count ? each[1].from_iteration : 12;
        cells += (end - each->from_iteration) * each->stage_count;
    }
    assert_true(cells < 12 * 4);         // it does shrink
    assert_int_equal(work_count, cells); // one for each rank in use
    trace_store_close(store);
}

/// Every second iteration keeps its plan, and of the others more move than are kept.
TEST(decisions_are_counted_beyond_what_is_kept)
{
    ana_course course = {.memory = memory};
    for (int iteration = 0; iteration < 2 * ANA_COURSE_MAX + 4; iteration++) {
        const bool moves = iteration % 2 == 1;
        const bal_training_iteration played = {
            .iteration = iteration,
            .was_asked = iteration > 0,
            .action = moves ? BAL_ACTION_REBALANCE : BAL_ACTION_KEEP,
            .reason = moves ? BAL_REASON_CHANGE : BAL_REASON_SAME,
            .moved_layer_count = 3,
            .decision_ns = 5,
            .migration_ns = moves ? 7 : 0};
        ana_course_add(&course, &played);
    }

    assert_int_equal(course.asked_count, 2 * ANA_COURSE_MAX + 3);
    assert_int_equal(course.reason_counts[BAL_REASON_SAME], ANA_COURSE_MAX + 1);
    assert_int_equal(course.acted_count, ANA_COURSE_MAX + 2);
    assert_int_equal(course.move_count, ANA_COURSE_MAX);
    assert_int_equal(course.moves[2].iteration, 5);
    assert_int_equal(course.moves[2].moved_layer_count, 3);
    assert_int_equal(course.moves[2].migration_ns, 7);
}

TEST(splits_are_kept_where_they_change_and_always_the_last)
{
    ana_splits splits = {.memory = memory, .chunk_count = 2};
    for (int iteration = 0; iteration < 4 * ANA_SPLITS_MAX; iteration++) {
        // Every second iteration another split of four stages; at the end two, of one rank.
        const bool is_last = iteration == 4 * ANA_SPLITS_MAX - 1;
        const int first_layer[] = {0, 1, 2 + iteration / 2, 3000, 4000};
        const bal_training_iteration played = {
            .iteration = iteration, .rank_count = is_last ? 1 : 2, .first_layer = first_layer};
        ana_splits_add(&splits, &played);
    }
    const bal_training_iteration without_stages = {.iteration = 9999, .rank_count = 2};
    ana_splits_add(&splits, &without_stages);

    assert_int_equal(splits.step_count, ANA_SPLITS_MAX);
    assert_int_equal(splits.change_count, 2 * ANA_SPLITS_MAX);
    for (int step = 0; step < ANA_SPLITS_MAX - 1; step++) {
        assert_int_equal(splits.steps[step].from_iteration, 2 * step);
        assert_int_equal(splits.steps[step].stage_count, 4);
        assert_int_equal(splits.steps[step].first_layer[2], 2 + step);
    }
    const ana_split_step *last = &splits.steps[ANA_SPLITS_MAX - 1];
    assert_int_equal(last->from_iteration, 4 * ANA_SPLITS_MAX - 1);
    assert_int_equal(last->stage_count, 2);
    assert_int_equal(last->first_layer[2], 2 + (4 * ANA_SPLITS_MAX - 1) / 2);
}

// The bound over all contiguous plans: it equals an exhaustive search over the plans.

enum { LAYERS = 7, MICROBATCHES = 3, RANKS_MAX = 4 };

typedef struct random_layers {
    int64_t forward[LAYERS * MICROBATCHES];
    int64_t input[LAYERS * MICROBATCHES];
    int64_t weight[LAYERS * MICROBATCHES];
} random_layers;

static bal_layer_costs draw(rng *random, int columns, random_layers *layers)
{
    for (int cell = 0; cell < LAYERS * columns; cell++) {
        layers->forward[cell] = rng_between(random, 0, 20);
        layers->input[cell] = rng_between(random, 0, 30);
        layers->weight[cell] = rng_between(random, 0, 20);
    }
    return (bal_layer_costs){.layer_count = LAYERS,
                             .microbatch_count = columns,
                             .has_split = true,
                             .forward_ns = layers->forward,
                             .backward_input_ns = layers->input,
                             .backward_weight_ns = layers->weight};
}

static int64_t cell_of(const bal_layer_costs *costs, const int64_t *times, int layer,
                       int microbatch)
{
    return times[layer * costs->microbatch_count + microbatch % costs->microbatch_count];
}

/// The definition, for one stage.
static int64_t bound_of_stage(const bal_layer_costs *costs, int begin, int end)
{
    int64_t reach = 0;
    int64_t back = 0;
    int64_t chain = 0;
    int64_t weights = 0;
    for (int layer = 0; layer < end; layer++) {
        int64_t shortest[2] = {INT64_MAX, INT64_MAX};
        for (int microbatch = 0; microbatch < MICROBATCHES; microbatch++) {
            const int64_t forward = cell_of(costs, costs->forward_ns, layer, microbatch);
            const int64_t input = cell_of(costs, costs->backward_input_ns, layer, microbatch);
            if (forward < shortest[0]) shortest[0] = forward;
            if (input < shortest[1]) shortest[1] = input;
            if (layer < begin) continue;
            chain += forward + input;
            weights += cell_of(costs, costs->backward_weight_ns, layer, microbatch);
        }
        if (layer >= begin) continue;
        reach += shortest[0];
        back += shortest[1];
    }
    const int64_t tail = weights > back ? weights : back;
    return reach + chain + tail;
}

/// Tries every plan: cuts count in base LAYERS + 1 and must not fall.
static int64_t exhaustive(const bal_layer_costs *costs, int rank_count)
{
    int64_t best = INT64_MAX;
    int plans = 1;
    for (int cut = 1; cut < rank_count; cut++) {
        plans *= LAYERS + 1;
    }
    for (int plan = 0; plan < plans; plan++) {
        int64_t largest = 0;
        int begin = 0;
        int rest = plan;
        bool is_ordered = true;
        for (int rank = 0; rank < rank_count; rank++) {
            const int end = rank + 1 < rank_count ? rest % (LAYERS + 1) : LAYERS;
            rest /= LAYERS + 1;
            is_ordered = is_ordered && end >= begin;
            if (is_ordered && end > begin) {
                const int64_t stage = bound_of_stage(costs, begin, end);
                if (stage > largest) largest = stage;
            }
            begin = end;
        }
        if (is_ordered && largest < best) best = largest;
    }
    return best;
}

TEST(it_is_the_smallest_over_all_plans)
{
    rng random = rng_init(7, 0);
    for (int round = 0; round < 300; round++) {
        random_layers layers;
        const int ranks = 1 + (int)rng_below(&random, RANKS_MAX);
        const bal_layer_costs costs = draw(&random, round % 2 == 0 ? 1 : MICROBATCHES, &layers);
        ana_contiguous_bound bound;
        ana_contiguous_bound work;
        arena_reset(memory);

        assert_ok(ana_bound_contiguous(&costs, ranks, MICROBATCHES, memory, &bound, NULL));
        assert_ok(ana_bound_contiguous(&costs, 0, MICROBATCHES, memory, &work, NULL));
        assert_int_equal(work.work_ns, bound.work_ns);
        assert_int_equal(work.longest_ns, bound.longest_ns);

        if (bound.makespan_ns != exhaustive(&costs, ranks)) {
            fail_msg("round %d: %lld is not %lld", round, (long long)bound.makespan_ns,
                     (long long)exhaustive(&costs, ranks));
        }
    }
}

TEST(work_beyond_64_bits_is_refused)
{
    static const int64_t ns[] = {INT64_MAX / 8};
    const bal_layer_costs costs = {.layer_count = 1,
                                   .microbatch_count = 1,
                                   .has_split = true,
                                   .forward_ns = ns,
                                   .backward_input_ns = ns,
                                   .backward_weight_ns = ns};
    ana_contiguous_bound bound = {-7, -7, -7};

    assert_fails(ana_bound_contiguous(&costs, 1, 1, memory, &bound, &why), STATUS_INVALID,
                 "the work of an iteration does not fit 64 bits");
    assert_int_equal(bound.makespan_ns, -7);
}

int main(void)
{
    return run_all_tests(open_memory, close_memory);
}

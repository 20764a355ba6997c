/// Orders of other programs' making: every case of schedule_cases.json played by the plainest
/// player and by the static engine gives its makespan, span and peak memory to the nanosecond;
/// every begin and end of schedule_timelines.json is met. Searched orders may be better, never
/// worse.
///
/// In the cases the costs are those of a device; with V chunks all times are multiplied by V, so
/// that a chunk's share is whole.
#include "balance/metrics.h"
#include "base/json.h"
#include "sim/pipeline.h"
#include "tests/balance/reference_player.h"
#include "tests/test.h"
#include "tests/test_memory.h"

#include <stdio.h>
#include <string.h>

typedef struct schedule_case {
    const char *schedule;
    const char *costs;
    int ranks;
    int microbatches;
    int chunks;
    int64_t memory_fbw[3];
    int64_t memory_limit; // searched schedules only
    int64_t makespan_ns;
    int64_t span_ns;
    json_value peak; // fixed schedules only
} schedule_case;

static json_document *open_file(const char *path)
{
    json_document *document = NULL;
    require(json_open(path, &document, &why));
    return document;
}

static int64_t number(json_value object, const char *key)
{
    int64_t value = 0;
    require(json_int64(json_member(object, key), 0, JSON_INTEGER_MAX, &value, &why));
    return value;
}

static const char *word(json_value object, const char *key)
{
    const char *value = "";
    assert_ok(json_string(json_member(object, key), &value, NULL));
    return value;
}

static schedule_case read_case(json_value row)
{
    schedule_case read = {
        .schedule = word(row, "schedule"),
        .costs = word(row, "costs"),
        .ranks = (int)number(row, "ranks"),
        .microbatches = (int)number(row, "microbatches"),
        .chunks = (int)number(row, "chunks"),
        .memory_fbw = {1, 0, -1},
        .makespan_ns = number(row, "makespan"),
        .span_ns = number(row, "span"),
        .peak = json_member(row, "peak"),
    };
    if (!json_is_missing(json_member(row, "memory_limit"))) {
        read.memory_limit = number(row, "memory_limit");
        assert_ok(
            json_int64_array(json_member(row, "memory_fbw"), 3, -9, 9, read.memory_fbw, NULL));
    }
    return read;
}

/// The times of a rank's list for every one of its chunks.
static int64_t *stage_times(json_value set, const char *key, const schedule_case *of)
{
    int64_t *times = arena_array(memory, (size_t)(of->ranks * of->chunks), sizeof *times);
    const bal_placement placement = bal_schedule_family_find(of->schedule)->placement;
    for (int stage = 0; stage < of->ranks * of->chunks; stage++) {
        const int rank = bal_rank_of_stage(placement, of->ranks, of->chunks, stage, NULL);
        const json_value value = json_element(json_member(set, key), rank);
        assert_ok(json_int64(value, 0, JSON_INTEGER_MAX, &times[stage], NULL));
    }
    return times;
}

static bal_stage_costs read_costs(json_value sets, const schedule_case *of)
{
    const json_value set = json_member(sets, of->costs);
    bal_stage_costs costs = reference_uniform_costs(
        of->ranks * of->chunks, 0, 0, 0, number(set, "send") * of->chunks, of->memory_fbw);
    costs.forward_ns = stage_times(set, "forward", of);
    costs.backward_input_ns = stage_times(set, "backward_input", of);
    costs.backward_weight_ns = stage_times(set, "backward_weight", of);
    return costs;
}

/// Plays an order with both players, which must agree on every op.
static bal_timeline play(const bal_schedule *schedule, const bal_stage_costs *costs)
{
    const bal_timeline plainest = reference_play(schedule, costs);
    const size_t bytes = (size_t)schedule->first_op[schedule->rank_count] * sizeof(int64_t);
    sim_order order;
    bal_timeline timeline;
    assert_ok(sim_order_compile(schedule, memory, &order, NULL));
    sim_timeline_init(schedule, memory, &timeline);
    sim_order_play(&order, costs, NULL, &timeline);
    assert_memory_equal(timeline.begin_ns, plainest.begin_ns, bytes);
    assert_memory_equal(timeline.end_ns, plainest.end_ns, bytes);
    return timeline;
}

static void play_fixed_case(const schedule_case *of, const bal_stage_costs *costs)
{
    const bal_schedule schedule =
        reference_build(of->schedule, of->ranks, of->microbatches, of->chunks);
    const bal_timeline timeline = play(&schedule, costs);
    int64_t *peak = arena_array(memory, (size_t)of->ranks, sizeof *peak);

    const bal_metrics metrics = bal_metrics_of(&timeline);
    bal_memory_peak(&schedule, costs, peak);

    assert_ok(bal_schedule_check(&schedule, NULL));
    if (metrics.makespan_ns != of->makespan_ns || metrics.span_ns != of->span_ns) {
        fail_msg("%s %s P=%d M=%d V=%d: makespan %lld, span %lld; expected %lld, %lld",
                 of->schedule, of->costs, of->ranks, of->microbatches, of->chunks,
                 (long long)metrics.makespan_ns, (long long)metrics.span_ns,
                 (long long)of->makespan_ns, (long long)of->span_ns);
    }
    for (int rank = 0; rank < of->ranks; rank++) {
        int64_t expected = -1;
        assert_ok(json_int64(json_element(of->peak, rank), 0, 1 << 20, &expected, NULL));
        assert_int_equal(peak[rank], expected);
    }
}

static void play_searched_case(const schedule_case *of, const bal_stage_costs *costs)
{
    const bal_schedule_request request = {.name = of->schedule,
                                          .rank_count = of->ranks,
                                          .microbatch_count = of->microbatches,
                                          .costs = costs,
                                          .memory_limit =
                                              reference_row(&of->memory_limit, of->ranks, true)};
    bal_schedule schedule;
    int64_t peak[8];

    assert_ok(bal_schedule_build(&request, memory, &schedule, NULL));

    assert_ok(bal_schedule_check(&schedule, NULL));
    const bal_timeline timeline = play(&schedule, costs);
    const bal_metrics metrics = bal_metrics_of(&timeline);
    if (metrics.span_ns > of->span_ns) {
        fail_msg("%s %s P=%d M=%d limit %lld: span %lld is above %lld", of->schedule, of->costs,
                 of->ranks, of->microbatches, (long long)of->memory_limit,
                 (long long)metrics.span_ns, (long long)of->span_ns);
    }
    bal_memory_peak(&schedule, costs, peak);
    for (int rank = 0; rank < of->ranks; rank++) {
        assert_true(peak[rank] <= of->memory_limit);
    }
}

/// Plays the cases of fixed or of searched schedules; how many there are.
static int play_cases(void (*play_case)(const schedule_case *, const bal_stage_costs *))
{
    json_document *file = open_file("balance/schedule_cases.json");
    const json_value sets = json_member(json_root(file), "costs");
    const json_value cases = json_member(json_root(file), "cases");
    int played = 0;
    for (int index = 0; index < json_count(cases); index++) {
        const schedule_case row = read_case(json_element(cases, index));
        if ((row.memory_limit > 0) != (play_case == play_searched_case)) continue;
        const bal_stage_costs costs = read_costs(sets, &row);
        play_case(&row, &costs);
        arena_reset(memory);
        played++;
    }
    json_close(file);
    return played;
}

TEST(fixed_schedules_meet_every_case_to_the_nanosecond)
{
    assert_int_equal(play_cases(play_fixed_case), 616);
}

TEST(searched_schedules_are_never_worse_within_the_same_memory)
{
    assert_int_equal(play_cases(play_searched_case), 434);
}

TEST(recorded_timelines_are_met_op_by_op)
{
    json_document *file = open_file("balance/schedule_timelines.json");
    for (int index = 0; index < json_count(json_root(file)); index++) {
        const json_value row = json_element(json_root(file), index);
        const int ranks = (int)number(row, "ranks");
        const bal_schedule schedule =
            reference_build(word(row, "schedule"), ranks, (int)number(row, "microbatches"), 0);
        const bal_stage_costs costs = reference_uniform_costs(
            ranks * schedule.chunk_count, number(row, "forward"), number(row, "backward_input"),
            number(row, "backward_weight"), number(row, "send"), (int64_t[]){1, 0, -1});

        const bal_timeline timeline = play(&schedule, &costs);

        for (int rank = 0; rank < ranks; rank++) {
            const json_value ops = json_element(json_member(row, "timeline"), rank);
            const int first = schedule.first_op[rank];
            assert_int_equal(json_count(ops), schedule.first_op[rank + 1] - first);
            for (int op = 0; op < json_count(ops); op++) {
                const json_value expected = json_element(ops, op);
                const char *expected_name = "";
                int64_t times[2] = {-1, -1};
                json_string(json_element(expected, 0), &expected_name, NULL);
                json_int64(json_element(expected, 1), 0, 1 << 20, &times[0], NULL);
                json_int64(json_element(expected, 2), 0, 1 << 20, &times[1], NULL);
                assert_string_equal(bal_op_name(schedule.ops[first + op]).text, expected_name);
                assert_int_equal(timeline.begin_ns[first + op], times[0]);
                assert_int_equal(timeline.end_ns[first + op], times[1]);
            }
        }
    }
    assert_int_equal(json_count(json_root(file)), 3);
    json_close(file);
}

int main(void)
{
    return run_all_tests(open_memory, close_memory);
}

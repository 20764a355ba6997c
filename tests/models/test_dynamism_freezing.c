/// dynamism, case freezing: what a frozen layer loses, worked out by hand over a base of round
/// numbers, schedules in use, and what is refused.
#include "tests/models/dynamism_fixture.h"

#include <stdio.h>

// The first two transformer layers freeze at 10 and 20.
#define LIST "{'case':'freezing','schedule':'list','freeze_at':[10,20]"

FIXTURE_TEST(a_frozen_prefix_computes_forward_only)
{
    fixture->costs.reduction_ns = fixture->bytes;
    model_dynamism *freezing = fixture_open(LIST "}");

    const bal_layer_costs before = fixture_costs(freezing, 0, 9);
    fixture_times(&before, 0, 70, 140, 60);
    fixture_times(&before, 1, 1000, 2000, 800);
    const bal_layer_costs after = fixture_costs(freezing, 0, 10);

    assert_true(fixture->changed);
    fixture_times(&after, 0, 70, 0, 0);
    fixture_times(&after, 1, 1000, 0, 0);
    fixture_times(&after, 2, 1000, 2000, 800);
    fixture_times(&after, 5, 70, 140, 60);
    assert_int_equal(after.parameters[1], 1600);
    assert_int_equal(after.activation_bytes[1], 0);
    assert_int_equal(after.gradient_bytes[1], 0);
    assert_int_equal(after.reduction_ns[1], 0);
    assert_int_equal(after.message_bytes[1], 1600);
    assert_int_equal(after.activation_bytes[2], 1600);
    assert_int_equal(after.reduction_ns[2], 1600);
    const bal_layer_costs later = fixture_costs(freezing, 0, 999);
    fixture_times(&later, 2, 1000, 0, 0);
    fixture_times(&later, 3, 1000, 2000, 800);
}

FIXTURE_TEST(a_trace_without_embedding_freezes_from_its_first_layer)
{
    fixture->base.transformer_first = 0;
    fixture->base.transformer_end = FIXTURE_LAYERS;

    const bal_layer_costs costs = fixture_costs(fixture_open(LIST "}"), 0, 20);

    fixture_times(&costs, 1, 1000, 0, 0);
    fixture_times(&costs, 2, 1000, 2000, 800);
}

FIXTURE_TEST(frozen_layers_keep_their_weights_only)
{
    int64_t state_bytes[FIXTURE_LAYERS];
    for (int layer = 0; layer < FIXTURE_LAYERS; layer++) {
        state_bytes[layer] = 18 * 1600;
    }
    fixture->costs.state_bytes = state_bytes;

    const bal_layer_costs costs = fixture_costs(fixture_open(LIST "}"), 0, 20);

    assert_int_equal(costs.state_bytes[1], 2 * 1600);
    assert_int_equal(costs.state_bytes[2], 2 * 1600);
    assert_int_equal(costs.state_bytes[3], 18 * 1600);
}

FIXTURE_TEST(a_cached_prefix_is_read_instead_of_computed)
{
    model_dynamism *freezing =
        fixture_open(LIST ",'cached_prefix':true,'cache_bytes_per_s':1e9,'cache_delay':5}");

    fixture_costs(freezing, 0, 13);
    bal_layer_costs costs = fixture_costs(freezing, 0, 14);
    assert_false(fixture->changed);
    fixture_times(&costs, 1, 1000, 0, 0);
    costs = fixture_costs(freezing, 0, 15);

    assert_true(fixture->changed);
    fixture_times(&costs, 0, 0, 0, 0);
    fixture_times(&costs, 1, 0, 0, 0);
    fixture_times(&costs, 2, 1000 + 1600, 2000, 800); // 1600 bytes at 1 byte per ns
    assert_int_equal(costs.message_bytes[0], 0);
    assert_int_equal(costs.message_bytes[1], 0);
    assert_int_equal(costs.message_bytes[2], 1600);
    // From 20 to 24 two layers are frozen, and one is in the cache.
    costs = fixture_costs(freezing, 0, 24);
    fixture_times(&costs, 2, 2600, 0, 0);
    costs = fixture_costs(freezing, 0, 25);
    fixture_times(&costs, 2, 0, 0, 0);
    fixture_times(&costs, 3, 2600, 2000, 800);
}

FIXTURE_TEST(a_reference_model_costs_its_evaluations)
{
    model_dynamism *freezing = fixture_open(LIST ",'interval':4,'reference_time_ratio':0.5}");

    bal_layer_costs costs = fixture_costs(freezing, 0, 7);
    fixture_times(&costs, 1, 1000, 2000, 800);
    costs = fixture_costs(freezing, 0, 8);
    assert_false(fixture->changed); // the model is the same, its times are not
    fixture_times(&costs, 1, 1500, 2000, 800);
    costs = fixture_costs(freezing, 0, 9);
    assert_false(fixture->changed);
    fixture_times(&costs, 1, 1000, 2000, 800);
    costs = fixture_costs(freezing, 0, 10);
    assert_true(fixture->changed);
}

/// Iterations at which the costs change, after the first.
static int changes_of(const char *text, int *at, int at_max)
{
    model_dynamism *freezing = fixture_open(text);
    int count = 0;
    for (int iteration = 0; iteration < 1000; iteration++) {
        fixture_costs(freezing, 0, iteration);
        if (!fixture->changed || iteration == 0) continue;
        assert_true(count < at_max);
        at[count++] = iteration;
    }
    return count;
}

// Four layers that settle front to back, twelve decisions.
#define MEASURED                                                                                   \
    "'measured':[[64,65,62,67],[44,45,51,55],[23,37,49,53],[14,26,41,51],[14,20,29,40],"           \
    "[9,15,23,39],[7,12,21,35],[6,11,16,33],[8,13,16,27],[4,10,14,24],[9,7,9,24],[5,10,10,24]]"

/// The iterations at which layers freeze by what was measured are those of a second implementation,
/// in Python.
FIXTURE_TEST(schedules_freeze_when_they_say)
{
    const struct {
        const char *schedule;
        int count;
        int at[3];
    } cases[] = {
        // max_frozen leaves one to learn
        {"'schedule':'interval','interval':30,'start_iteration':100", 3, {100, 130, 160}},
        // ceil(4 / 2) = 2, ceil(4 x 3/4) = 3, ceil(4 x 7/8) = 4 layers
        {"'schedule':'share','interval':30,'start_iteration':100,'max_frozen':4",
         3,
         {100, 130, 160}},
        // ceil(4 (1 - (2/3)^e)): 2, 3, 3, 4
        {"'schedule':'share','interval':30,'share':0.333333333333,'start_iteration':100,"
         "'max_frozen':4",
         3,
         {100, 130, 190}},
        // at multiples of the interval only
        {"'jitter':0,'interval':300,'max_frozen':3,'last_iteration':900", 3, {300, 600, 900}},
        {"'jitter':0,'max_frozen':3,'last_iteration':900", 3, {100, 500, 900}},
        {"'interval':10,'schedule':'autofreeze','max_frozen':3," MEASURED, 1, {50}},
        {"'interval':10,'schedule':'autofreeze','max_frozen':4,'percentile':75," MEASURED,
         2,
         {50, 70}}, // two layers at 50
        {"'interval':10,'schedule':'autofreeze','max_frozen':3,'start_iteration':60," MEASURED,
         0,
         {0}},
        {"'interval':10,'schedule':'egeria','max_frozen':3,'window':2,'tolerance':0.3," MEASURED,
         3,
         {60, 80, 100}},
        {"'interval':10,'schedule':'egeria','max_frozen':3,'window':3,'tolerance':0.2,"
         "'start_iteration':60," MEASURED,
         2,
         {80, 110}},
    };
    for (size_t each = 0; each < sizeof cases / sizeof cases[0]; each++) {
        char text[512];
        int at[8];
        snprintf(text, sizeof text, "{'case':'freezing',%s}", cases[each].schedule);
        assert_int_equal(changes_of(text, at, 8), cases[each].count);
        assert_memory_equal(at, cases[each].at, (size_t)cases[each].count * sizeof *at);
    }
}

FIXTURE_TEST(what_is_wrong_is_named)
{
    fixture_refused("{'case':'freezing','schedule':'list'}", STATUS_FORMAT,
                    "study.json: freeze_at: schedule 'list' needs the iterations at which layers "
                    "freeze");
    fixture_refused("{'case':'freezing','schedule':'list','freeze_at':[1,2,3,4,5]}", STATUS_INVALID,
                    "study.json: freeze_at: 5 layers freeze, the model has 4");
    fixture_refused("{'case':'freezing','schedule':'list','freeze_at':[5,3]}", STATUS_INVALID,
                    "study.json: freeze_at[1]: 3 is before 5, when the layer in front of it "
                    "freezes: layers freeze front to back");
    fixture_refused("{'case':'freezing','schedule':'list','freeze_at':[-1]}", STATUS_FORMAT,
                    "study.json: freeze_at[0]: -1 is outside [0, 2147483646]");
    fixture_refused("{'case':'freezing','max_frozen':5}", STATUS_FORMAT,
                    "study.json: max_frozen: 5 is outside [0, 4]");
    fixture_refused("{'case':'freezing','start_iteration':500,'last_iteration':400}",
                    STATUS_INVALID,
                    "case 'freezing': the schedule ends before it starts: last_iteration 400 "
                    "is before start_iteration 500");
    fixture_unknown("{'case':'freezing','schedule':'interval','jitter':0.5}", "jitter");
    fixture_unknown("{'case':'freezing','freeze_at':[1]}", "freeze_at");
    fixture_refused("{'case':'freezing','schedule':'egeria'}", STATUS_FORMAT,
                    "study.json: measured: this schedule needs an array of 2 rows at least, one "
                    "per decision");
    fixture_refused("{'case':'freezing','schedule':'egeria','measured':[[1,2,3,4],[1]]}",
                    STATUS_FORMAT,
                    "study.json: measured[1]: not a number for each of the 4 layers");
    fixture_unknown("{'case':'freezing'," MEASURED "}", "measured");
    fixture->costs.message_bytes = NULL;
    fixture_refused("{'case':'freezing','cached_prefix':true}", STATUS_INVALID,
                    "case 'freezing': cached_prefix needs to know the bytes that layers hand "
                    "on");
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}

/// What slowed a recorded run: replays against the record, against ends worked out op by op as the
/// definition says, and planted causes named.
#include "analysis/stragglers/causes.h"
#include "tests/analysis/recorded_ops.h"

#include <stdio.h>
#include <string.h>

static ana_op_run *make_run(const planted *how)
{
    trace_op_table *table = arena_array(memory, 1, sizeof *table);
    ana_op_run *run = arena_array(memory, 1, sizeof *run);
    *table = plant(how);
    require(ana_op_run_make(table, memory, run, &why));
    return run;
}

TEST(a_replay_with_its_delays_is_the_record)
{
    planted how = planted_of((planted){0});
    ana_slowdowns slowdowns;
    int paused_count = 0;
    how.noise = 0.3;
    how.pause_every = 10;
    how.pause_ns = 15000000;

    const ana_op_run *run = make_run(&how);

    ana_slowdowns_of(run, memory, &slowdowns);
    const ana_straggler_step *steps = slowdowns.steps;
    for (int step = 0; step < run->step_count; step++) {
        assert_int_equal(steps[step].delayed_ns, steps[step].recorded_ns);
        assert_true(steps[step].replayed_ns <= steps[step].recorded_ns);
        paused_count += steps[step].replayed_ns < steps[step].recorded_ns;
        assert_int_equal(run->steps[step].negative_count, 0);
    }
    assert_true(paused_count > run->step_count / 2);
}

/// The end of an op by the definition: recursion over what it waits for, without an order.
static int64_t end_of(const ana_op_step *step, const int64_t *durations, int op, int64_t *known)
{
    if (known[op] >= 0) return known[op];
    int unit = 0;
    int64_t together_ns = 0;
    while (step->first_op[unit + 1] <= op) {
        unit++;
    }
    for (int member = step->first_op[unit]; member < step->first_op[unit + 1]; member++) {
        for (int each = step->first_before[member]; each < step->first_before[member + 1]; each++) {
            const int64_t end_ns = end_of(step, durations, step->before[each], known);
            if (end_ns > together_ns) together_ns = end_ns;
        }
    }
    return known[op] = together_ns + durations[op];
}

TEST(slowdowns_are_those_of_the_definition)
{
    planted how = planted_of((planted){0});
    ana_slowdowns found;
    how.noise = 0.4;
    how.step_count = 2;
    how.slow_replica = 1;
    how.slow_stage = 2;
    how.slow_factor = 1.5;
    const ana_op_run *run = make_run(&how);

    ana_slowdowns_of(run, memory, &found);

    for (int worker = 0; worker < run->worker_count; worker++) {
        double lengths = 0;
        double ideal = 0;
        for (int step = 0; step < run->step_count; step++) {
            const ana_op_step *of = &run->steps[step];
            int64_t *known = arena_array(memory, (size_t)of->op_count, sizeof *known);
            int64_t *durations = arena_array(memory, (size_t)of->op_count, sizeof *durations);
            int64_t length_ns = 0;
            for (int op = 0; op < of->op_count; op++) {
                known[op] = -1;
                durations[op] = of->ops[op].rank == worker ? of->own_ns[op]
                                                           : run->ideal_ns[of->ops[op].name - 1];
            }
            for (int op = 0; op < of->op_count; op++) {
                const int64_t end_ns = end_of(of, durations, op, known);
                if (end_ns > length_ns) length_ns = end_ns;
            }
            lengths += (double)length_ns;
            ideal += (double)found.steps[step].ideal_ns;
        }
        assert_close(found.by[ANA_SLOW_WORKER][worker], lengths / ideal, 1e-12);
    }
    assert_int_equal(found.slow_worker_count, 1);
    assert_true(found.is_slow[1 * PLANT_STAGES + 2]);
}

TEST(what_cannot_be_matched_is_refused)
{
    planted how = planted_of((planted){0});
    ana_op_run run;
    how.step_count = 1;
    trace_op_table table = plant(&how);
    for (int64_t op = 0; op < table.op_count; op++) { // a send of replica 2, stage 1 is lost
        const trace_table_op *each = &table.ops[op];
        if (each->replica != 2 || each->stage != 1 || each->name != NAME_SEND_FORWARD) continue;
        memmove(table.ops + op, table.ops + op + 1,
                (size_t)(table.op_count - op - 1) * sizeof *table.ops);
        table.op_count--;
        break;
    }

    assert_fails(ana_op_run_make(&table, memory, &run, &why), STATUS_FORMAT,
                 "step 0, replica 2, stage 1: 7 sends beside 8 ops that make a "
                 "message: they cannot be matched");
    table = plant(&how);
    table.op_count--; // the last op: optimizer of the last worker
    table.ops[table.op_count - 1].name = NAME_GATHER;
    assert_fails(ana_op_run_make(&table, memory, &run, &why), STATUS_FORMAT,
                 "step 0, replica 3, stage 3: 2 params-all-gather beside 1 of another "
                 "worker that takes part: they cannot be matched");
}

TEST(collectives_in_another_order_wait_in_a_circle)
{
    static const char *names[] = {"a", "b"};
    static trace_op_kind kinds[] = {TRACE_OP_WORLD, TRACE_OP_WORLD};
    ana_op_run run;
    trace_table_op ops[] = {
        {.rank = 0, .name = 1, .begin_ns = 0, .end_ns = 1000000},
        {.rank = 0, .name = 2, .begin_ns = 1000000, .end_ns = 2000000},
        {.rank = 1, .stage = 1, .name = 2, .end_ns = 1000000},
        {.rank = 1, .stage = 1, .name = 1, .begin_ns = 1000000, .end_ns = 2000000},
    };
    const trace_op_table table = {.replica_count = 1,
                                  .stage_count = 2,
                                  .chunk_count = 1,
                                  .name_count = 2,
                                  .names = names,
                                  .kinds = kinds,
                                  .op_count = 4,
                                  .ops = ops};

    assert_fails(ana_op_run_make(&table, memory, &run, &why), STATUS_FORMAT,
                 "step 0: 4 ops wait for each other in a circle: the order of "
                 "messages or collectives differs between workers");
}

/// The causes that are named of a planted run, with commas between.
static const char *named(const planted *how, ana_causes *causes)
{
    static char names[200];
    ana_slowdowns slowdowns;
    const ana_op_run *run = make_run(how);
    ana_slowdowns_of(run, memory, &slowdowns);
    ana_causes_of(run, &slowdowns, &(ana_stage_layers){0}, memory, causes);
    names[0] = '\0';
    for (int each = 0; each < causes->named_count; each++) {
        const size_t length = strlen(names);
        snprintf(names + length, sizeof names - length, "%s%s", each > 0 ? "," : "",
                 causes->all[each].name);
    }
    return names;
}

TEST(nothing_is_named_on_a_clean_run)
{
    ana_causes causes;
    for (int stages = 1; stages <= PLANT_STAGES; stages *= 2) {
        for (uint64_t seed = 1; seed <= 5; seed++) {
            const planted how = planted_of(
                (planted){.stage_count = stages, .seed = seed, .noise = 0.02 * (double)seed});
            assert_string_equal(named(&how, &causes), "");
        }
    }
}

/// What is planted, and the causes that are named of it, largest gain first.
static const struct {
    planted how;
    const char *causes;
} plantings[] = {
    {{.slow_replica = 2, .slow_stage = 3, .slow_factor = 1.3}, "slow worker"},
    {{.stage_count = 2, .slow_replica = 2, .slow_stage = 1, .slow_factor = 1.3}, "slow worker"},
    {{.stage_count = 1, .slow_replica = 2, .slow_factor = 1.3}, "slow worker"},
    {{.last_factor = 1.5}, "last stage too long"},
    {{.length_spread = 0.5}, "sequence lengths"},
    {{.length_spread = 0.5, .stage_count = 2}, "sequence lengths"},
    {{.length_spread = 0.5, .stage_count = 1}, "sequence lengths"},
    {{.pause_every = 20, .pause_ns = 40000000}, "pauses of the host"},
    {{.pause_every = 20, .pause_ns = 40000000, .pause_is_inside = true}, "pauses of the host"},
    {{.pause_every = 20, .pause_ns = 40000000, .pause_is_named = true}, "pauses of the host"},
    {{.length_spread = 0.3, .pause_is_inside = true, .pause_every = 50, .pause_ns = 100000000},
     "pauses of the host,sequence lengths"},
    {{.slow_link_replica = 1, .slow_link_ns = 30000000}, "slow link"},
    {{.last_factor = 1.6, .length_spread = 0.2, .step_count = 10}, // too few steps to be drawn
     "last stage too long,sequence lengths"},
};

TEST(what_is_planted_is_named)
{
    for (size_t each = 0; each < sizeof plantings / sizeof plantings[0]; each++) {
        ana_causes causes;
        const planted how = planted_of(plantings[each].how);
        assert_string_equal(named(&how, &causes), plantings[each].causes);
        const ana_cause *first = &causes.all[0];
        const ana_gain_interval *gain = &first->gain;
        assert_true(!gain->is_short && gain->low < gain->gain && gain->gain < gain->high);
        if (how.slow_factor > 0) {
            const int slow = how.slow_replica * how.stage_count + how.slow_stage;
            assert_close(causes.worker_factor[slow], how.slow_factor, 0.02);
            assert_true(gain->gain > 0.1 && gain->gain < 0.31);
        }
        if (how.length_spread > 0.4) assert_true(causes.correlation > 0.95);
        if (how.slow_link_ns > 0) assert_non_null(strstr(first->evidence, "of replica 1, stage "));
    }
}

TEST(of_two_steps_both_must_say_so)
{
    ana_causes causes;
    const planted cold = planted_of((planted){.step_count = 2, .cold_factor = 3});
    assert_string_equal(named(&cold, &causes), "");
    assert_true(causes.correlation > 0.7);
    const ana_gain_interval gain = causes.all[0].gain;
    assert_true(gain.gain > ANA_CAUSE_GAIN_MIN && gain.low < ANA_CAUSE_GAIN_MIN);
    const planted spread = planted_of((planted){.step_count = 2, .length_spread = 0.5});
    assert_string_equal(named(&spread, &causes), "sequence lengths");
    assert_true(causes.all[0].gain.is_short);
}

/// Takes the messages out of a run.
static void drop_messages(trace_op_table *table)
{
    int64_t kept = 0;
    for (int64_t op = 0; op < table->op_count; op++) {
        const trace_op_kind kind = table->kinds[table->ops[op].name - 1];
        const bool is_message = ana_op_is_shared(kind) && kind < TRACE_OP_REPLICAS;
        if (!is_message) table->ops[kept++] = table->ops[op];
    }
    table->op_count = kept;
    for (int name = NAME_SEND_FORWARD; name <= NAME_RECV_BACKWARD; name++) {
        table->kinds[name - 1] = TRACE_OP_LOCAL;
    }
}

TEST(messages_that_were_not_recorded_are_no_pauses)
{
    planted how = planted_of((planted){0});
    ana_op_run run;
    ana_slowdowns slowdowns;
    ana_causes causes;
    how.slow_link_replica = 1;
    how.slow_link_ns = 30000000;
    trace_op_table table = plant(&how);
    drop_messages(&table);

    require(ana_op_run_make(&table, memory, &run, &why));
    ana_slowdowns_of(&run, memory, &slowdowns);
    ana_causes_of(&run, &slowdowns, &(ana_stage_layers){0}, memory, &causes);

    assert_int_equal(slowdowns.steps[0].delayed_ns, slowdowns.steps[0].recorded_ns);
    assert_true(slowdowns.launch_slowdown > 1.05);
    assert_int_equal(causes.named_count, 0);

    const ana_stragglers all = {
        .table = table, .run = run, .slowdowns = slowdowns, .causes = causes};
    text_buffer out = {.memory = memory};
    ana_stragglers_print(&all, &out);
    assert_non_null(strstr(out.bytes, "no cause that can be told: "));
    assert_non_null(strstr(out.bytes, "not told: late launches and the travel of messages "));
}

TEST(a_long_last_stage_is_named_with_the_split_that_mends_it)
{
    static const int counts[PLANT_STAGES] = {6, 6, 6, 6};
    static const int uneven[PLANT_STAGES] = {2, 1, 1, 3};
    static const int64_t times[] = {4, 2, 6, 6, 5, 1, 3}; // of stages 6, 6, 6, 9
    const ana_stage_layers alike = {.counts = counts};
    const ana_stage_layers timed = {.counts = uneven, .layer_ns = times};
    ana_causes causes;
    ana_slowdowns slowdowns;
    planted how = planted_of((planted){0});
    how.last_factor = 1.5; // 6 layers and a head worth 3
    assert_string_equal(named(&how, &causes), "last stage too long");
    assert_true(causes.all[0].is_bound);
    assert_null(causes.split.layers);
    const double bound = causes.all[0].gain.gain;

    const ana_op_run *run = make_run(&how);
    ana_slowdowns_of(run, memory, &slowdowns);
    ana_causes_of(run, &slowdowns, &alike, memory, &causes);
    assert_false(causes.all[0].is_bound);
    assert_true(causes.all[0].gain.gain < bound);
    assert_int_equal(causes.split.layers[0], 7);
    assert_int_equal(causes.split.layers[3], 3); // and the head: 6
    assert_int_equal(causes.split.layers[0] + causes.split.layers[1] + causes.split.layers[2] +
                         causes.split.layers[3],
                     24);

    // No cut of these makes the longest stage shorter than 9: 4+2, 6, 6, 5+1+3.
    ana_causes_of(run, &slowdowns, &timed, memory, &causes);
    assert_int_equal(causes.named_count, 0);
}

int main(void)
{
    return run_all_tests(open_memory, close_memory);
}

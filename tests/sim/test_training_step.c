/// Tests of the end of an iteration in a replayed run, and of what disturbs one: post-validation,
/// gradient accumulation, drawn times. Expected values are
/// worked out by hand or played op by op by the engine itself.
#include "sim/pipeline.h"
#include "tests/balance/reference_player.h"
#include "tests/sim/kept_run.h"
#include "tests/test.h"
#include "tests/test_memory.h"

static table_source *new_table(int layers)
{
    table_source *table = tables(1, layers, 1);
    table_fill(table, 0, TABLE_ITERATIONS, 1000, 1000, 1000);
    return table;
}

static bal_training training_of(const table_source *table, const char *schedule, int ranks,
                                int microbatches, int iterations)
{
    bal_training training = kept_training(table, 1, ranks, iterations, microbatches);
    training.schedule = schedule;
    training.change_ratio = 0;
    return training;
}

TEST(post_validation_leaves_zb_h2_its_span_and_gives_1f1b_the_makespan)
{
    static const struct {
        const char *schedule;
        int64_t pipeline_ns;
    } cases[] = {{"zb-h2", 96000}, {"zb-h1", 103000}, {"1f1b", 117000}, {"gpipe", 117000}};
    for (size_t each = 0; each < sizeof cases / sizeof cases[0]; each++) {
        table_source *table = new_table(8);
        bal_training training = training_of(table, cases[each].schedule, 8, 32, 3);
        training.post_validation = true;
        training.optimizer_step_ns = 50;

        const bal_training_result result = replay(&training);

        assert_int_equal(result.pipeline_ns, 3 * cases[each].pipeline_ns);
        assert_int_equal(result.total_ns, 3 * (cases[each].pipeline_ns + 50));
        assert_int_equal(result.simulated_count, 1); // the others repeat it
    }
}

/// Rank 0 of 2 ends first; the time of a place from its first begin, and its own reduction, counts.
TEST(reductions_wait_per_stage_without_a_barrier)
{
    table_source *table = new_table(2);
    table->reduction_ns[0] = 5000;
    table->reduction_ns[1] = 100;
    bal_training training = training_of(table, "zb-h2", 2, 6, 2);
    training.data_parallel = 2;
    training.post_validation = true;

    const bal_training_result chained = replay(&training);
    training.post_validation = false;
    const bal_training_result barrier = replay(&training);

    // Rank 0 is busy without a gap for 18000 and reduces for 5000; rank 1, 1000 later, hides in it.
    assert_int_equal(chained.pipeline_ns, 2 * 18000);
    assert_int_equal(chained.reduction_ns, 2 * 5000);
    assert_int_equal(barrier.pipeline_ns, 2 * 19000);
    assert_int_equal(barrier.reduction_ns, 2 * 5000);
}

/// Plays rounds one after the other, op by op.
static int64_t makespan_of_rounds(const char *name, int ranks, int microbatches, int rounds)
{
    const bal_schedule schedule = reference_build(name, ranks, microbatches, 0);
    const bal_stage_costs costs =
        reference_uniform_costs(ranks, 1000, 1000, 1000, 0, (int64_t[]){0, 0, 0});
    sim_order order;
    bal_timeline timeline;
    int64_t start[16] = {0};
    int64_t last = 0;
    assert_ok(sim_order_compile(&schedule, memory, &order, NULL));
    sim_timeline_init(&schedule, memory, &timeline);
    for (int round = 0; round < rounds; round++) {
        sim_order_play(&order, &costs, start, &timeline);
        for (int rank = 0; rank < ranks; rank++) {
            start[rank] = timeline.end_ns[schedule.first_op[rank + 1] - 1];
            if (start[rank] > last) last = start[rank];
        }
    }
    return last;
}

TEST(rounds_follow_each_other_and_reduce_once)
{
    static const char *const names[] = {"gpipe", "1f1b", "zb-h1", "zb-h2"};
    for (size_t each = 0; each < sizeof names / sizeof names[0]; each++) {
        for (int rounds = 1; rounds <= 5; rounds += 2) {
            table_source *table = new_table(4);
            table->reduction_ns[3] = 12345;
            bal_training training = training_of(table, names[each], 4, 8, 2);
            training.round_count = rounds;

            const bal_training_result result = replay(&training);

            assert_int_equal(result.pipeline_ns, 2 * makespan_of_rounds(names[each], 4, 8, rounds));
            assert_int_equal(result.reduction_ns, 2 * 12345);
            assert_int_equal(all.iterations[0].metrics.busy_ns, 4 * 8 * 3000 * rounds);
            assert_int_equal(all.iterations[0].round_count, rounds);
        }
    }
    // Without a barrier between the rounds zb-h2 fills the bubble after each but the last.
    assert_int_equal(makespan_of_rounds("zb-h2", 4, 8, 5), 5 * 8 * 3000 + 3 * 1000);
}

TEST(drawn_times_are_those_of_the_seed_and_every_replica_has_its_own)
{
    table_source *table = new_table(4);
    bal_training training = training_of(table, "zb-h1", 4, 8, 16);
    const bal_training_result still = replay(&training);
    training.disturbance = (bal_disturbance){.seed = 5, .op_sigma = 0.1};
    const bal_training_result drawn = replay(&training);
    const int64_t fourth_ns = all.iterations[3].iteration_ns;
    const bal_training_result again = replay(&training);
    assert_int_equal(all.iterations[3].iteration_ns, fourth_ns);
    training.disturbance.seed = 6;
    const bal_training_result other = replay(&training);
    training.data_parallel = 8;
    const bal_training_result eight = replay(&training);

    assert_int_equal(still.simulated_count, 1);
    assert_int_equal(drawn.simulated_count, 16);
    assert_int_equal(drawn.total_ns, again.total_ns);
    assert_true(drawn.total_ns != other.total_ns);
    assert_true(drawn.total_ns > still.total_ns); // waiting for whatever is late
    assert_true(eight.total_ns > other.total_ns); // and for the latest of eight
}

TEST(a_slow_link_is_slow_in_its_iterations_only)
{
    table_source *table = new_table(4);
    const bal_disturbed_link link = {.rank = 1,
                                     .other_rank = 2,
                                     .time_factor = 4,
                                     .delay_ns = 30,
                                     .first_iteration = 2,
                                     .end_iteration = 5};
    bal_training training = training_of(table, "gpipe", 4, 8, 7);
    training.machine.intra_node = (bal_link){.latency_ns = 100};
    training.disturbance = (bal_disturbance){.links = &link, .link_count = 1};

    const bal_training_result result = replay(&training);

    // GPipe passes a link once forth and once back: 2 x 3 messages of 100, two of them 430.
    for (int iteration = 0; iteration < 7; iteration++) {
        const bool is_slow = iteration >= 2 && iteration < 5;
        assert_int_equal(all.iterations[iteration].pipeline_ns,
                         (8 + 3) * 3000 + 600 + (is_slow ? 2 * 330 : 0));
    }
    assert_int_equal(result.simulated_count, 3);
}

TEST(stragglers_are_seen_by_whoever_looks_at_speeds)
{
    table_source *table = new_table(4);
    bal_training training = training_of(table, "gpipe", 4, 8, 4);
    training.disturbance = (bal_disturbance){
        .straggler_probability = 1, .straggler_factor = 1.5, .straggler_iterations = 1};

    const bal_training_result result = replay(&training);

    assert_int_equal(result.pipeline_ns, 4 * 3 * (8 + 3) * 1500);
}

TEST(too_many_drawn_replicas_are_refused)
{
    table_source *table = new_table(4);
    bal_training replicas = training_of(table, "gpipe", 4, 8, 4);
    bal_training_result result;
    replicas.disturbance.op_sigma = 0.5;
    replicas.data_parallel = 16385;

    assert_fails(sim_training_replay(&replicas, NULL, memory, &result, &why), STATUS_INVALID,
                 "data_parallel 16385 of drawn times is above 16384");
}

TEST(rounds_that_do_not_fit_64_bits_are_refused)
{
    table_source *table = new_table(4);
    bal_training training = training_of(table, "gpipe", 4, 8, 1);
    bal_training_result result;
    table_fill(table, 0, 1, INT64_MAX / 4000, INT64_MAX / 4000, INT64_MAX / 4000);
    training.round_count = 1024;

    assert_fails(sim_training_replay(&training, NULL, memory, &result, &why), STATUS_INVALID,
                 "the ns of 1024 rounds do not fit 64 bits");
}

int main(void)
{
    return run_all_tests(open_memory, close_memory);
}

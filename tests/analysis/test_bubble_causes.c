/// The causes of idle time: each alone by hand, and that they always add up to all of it.
#include "analysis/whatif/bubble_causes.h"
#include "balance/metrics.h"
#include "balance/partition/balancer.h"
#include "base/arena.h"
#include "sim/pipeline.h"
#include "sim/training_replay.h"
#include "tests/assert_close.h"
#include "tests/balance/reference_player.h"
#include "tests/drawn_source.h"
#include "tests/test_memory.h"

#include <stdlib.h>
#include <string.h>

enum { RANDOM_RUNS = 300 };

/// An iteration of this order and these costs in which nothing follows the pipeline.
static bal_training_iteration iteration_of(const bal_schedule *schedule,
                                           const bal_stage_costs *costs, bool post_validation,
                                           arena *memory)
{
    sim_order order;
    bal_timeline *timeline = arena_array(memory, 1, sizeof *timeline);
    error_message err = {0};
    if (sim_order_compile(schedule, memory, &order, &err) != STATUS_OK) fail_msg("%s", err.message);
    sim_timeline_init(schedule, memory, timeline);
    sim_order_play(&order, costs, NULL, timeline);
    const bal_metrics metrics = bal_metrics_of(timeline);
    const int64_t pipeline_ns = post_validation ? metrics.span_ns : metrics.makespan_ns;
    return (bal_training_iteration){.iteration_ns = pipeline_ns,
                                    .pipeline_ns = pipeline_ns,
                                    .metrics = metrics,
                                    .rank_count = schedule->rank_count,
                                    .validates_behind = post_validation,
                                    .timeline = timeline,
                                    .costs = costs};
}

/// Orders whose causes can be added up by hand, in ns of all ranks.
static const struct {
    const char *schedule;
    int rank_count;
    int microbatch_count;
    int64_t op_ns[3];      // F, B, W
    int64_t forward_ns[2]; // of each of two stages; 0: alike
    int64_t send_ns;
    bool validates_behind;
    int round_count;
    int64_t after_ns[3]; // reduction, migration, optimizer
    int64_t network_ns;  // that ranks wait for a network they share
    int64_t cause_ns[ANA_BUBBLE_CAUSE_COUNT];
} by_hand[] = {
    {"1f1b", 4, 8, {10, 20, 10}, .cause_ns = {[ANA_BUBBLE_FILL] = 4 * 3 * 40}},
    // F: 10 + 3 x 30, alike 20 + 3 x 20; BW: 3 x 10 + 10 in both.
    {"gpipe",
     2,
     3,
     {0, 10, 0},
     {10, 30},
     .cause_ns = {[ANA_BUBBLE_IMBALANCE] = 2 * 20, [ANA_BUBBLE_FILL] = 2 * 120 - 180}},
    {"1f1b",
     2,
     1,
     {10, 20, 0},
     .send_ns = 5,
     .after_ns = {7, 123, 11},
     .cause_ns = {[ANA_BUBBLE_COMMUNICATION] = 2 * 10,
                  [ANA_BUBBLE_REDUCTION] = 2 * 7,
                  [ANA_BUBBLE_MIGRATION] = 2 * 123,
                  [ANA_BUBBLE_BARRIER] = 2 * 11,
                  [ANA_BUBBLE_FILL] = 2 * 30}},
    {"zb-h2", 4, 12, {10, 10, 10}, .cause_ns = {[ANA_BUBBLE_BARRIER] = 4 * 3 * 10}},
    {"zb-h2", 4, 12, {10, 10, 10}, .validates_behind = true},
    // Rank 0 begins each pass when it has ended the one before, and rank 1 waits for it.
    {"1f1b", 2, 2, {10, 20, 0}, .round_count = 3, .cause_ns = {[ANA_BUBBLE_FILL] = 3 * 60}},
    {"gpipe",
     2,
     3,
     {10, 20, 0},
     .send_ns = 5,
     .network_ns = 17,
     .cause_ns = {[ANA_BUBBLE_COMMUNICATION] = 2 * (2 * 5 + 17), [ANA_BUBBLE_FILL] = 2 * 30}},
};

static void causes_are_those_that_are_added_up_by_hand(void **state)
{
    arena *memory = *state;
    for (size_t row = 0; row < sizeof by_hand / sizeof by_hand[0]; row++) {
        const int64_t *op_ns = by_hand[row].op_ns;
        const int64_t *after_ns = by_hand[row].after_ns;
        const int rounds = by_hand[row].round_count > 0 ? by_hand[row].round_count : 1;
        const int ranks = by_hand[row].rank_count;
        const bal_schedule schedule =
            reference_build(by_hand[row].schedule, ranks, by_hand[row].microbatch_count, 1, memory);
        bal_stage_costs costs =
            reference_uniform_costs(ranks, op_ns[0], op_ns[1], op_ns[2], by_hand[row].send_ns,
                                    (int64_t[]){1, 0, -1}, memory);
        if (by_hand[row].forward_ns[0] > 0) costs.forward_ns = by_hand[row].forward_ns;
        bal_training_iteration iteration =
            iteration_of(&schedule, &costs, by_hand[row].validates_behind, memory);
        iteration.round_count = rounds;
        iteration.metrics.busy_ns *= rounds;
        iteration.pipeline_ns = rounds * iteration.pipeline_ns + by_hand[row].network_ns;
        iteration.is_network_shared = by_hand[row].network_ns > 0;
        iteration.reduction_ns = after_ns[0];
        iteration.migration_ns = after_ns[1];
        iteration.iteration_ns = iteration.pipeline_ns + after_ns[0] + after_ns[1] + after_ns[2];
        ana_bubble_causes causes = {0};

        assert_ok(ana_bubble_causes_add(&causes, &iteration, memory, NULL));

        assert_memory_equal(causes.cause_ns, by_hand[row].cause_ns, sizeof causes.cause_ns);
        assert_int_equal(causes.rank_ns, ranks * iteration.iteration_ns);
        if (row > 0) continue;
        assert_close(ana_bubble_causes_idle_ratio(&causes), 3.0 / 11.0, 1e-12);
        assert_close(ana_bubble_causes_share(&causes, ANA_BUBBLE_FILL), 3.0 / 11.0, 1e-12);
    }
}

/// A run that is drawn, and what its iterations are made of.
typedef struct watched_run {
    drawn_source sources[DRAWN_REPLICAS_MAX];
    bal_cost_source ports[DRAWN_REPLICAS_MAX];
    bal_training training;
    uint64_t seed;
    arena *scratch;
    int iteration_count;
    ana_bubble_causes sums;
} watched_run;

static bool wants_every_timeline(void *context, int iteration)
{
    (void)context;
    (void)iteration;
    return true;
}

/// All ops of one pass, from the costs.
static int64_t pass_ns(const bal_stage_costs *costs, int microbatch_count)
{
    const int columns = costs->microbatch_count;
    int64_t sum = 0;
    for (int stage = 0; stage < costs->stage_count; stage++) {
        for (int microbatch = 0; microbatch < microbatch_count; microbatch++) {
            const int at = stage * columns + (columns > 1 ? microbatch : 0);
            sum += costs->forward_ns[at] + costs->backward_input_ns[at] +
                   costs->backward_weight_ns[at];
        }
    }
    return sum;
}

static status check_causes(void *context, const bal_training_iteration *iteration,
                           error_message *err)
{
    watched_run *run = context;
    ana_bubble_causes one = {0};
    int64_t sum = 0;
    arena_reset(run->scratch);
    TRY(ana_bubble_causes_add(&one, iteration, run->scratch, err));
    for (int cause = 0; cause < ANA_BUBBLE_CAUSE_COUNT; cause++) {
        if (one.cause_ns[cause] < 0) fail_msg("seed %lu: below 0", (unsigned long)run->seed);
        sum += one.cause_ns[cause];
        run->sums.cause_ns[cause] += one.cause_ns[cause];
    }
    assert_int_equal(sum, one.rank_ns - one.busy_ns);
    assert_int_equal(one.rank_ns, iteration->rank_count * iteration->iteration_ns);
    if (!bal_disturbance_is_drawn_per_op(&run->training.disturbance)) {
        const int microbatches = iteration->timeline->schedule->microbatch_count;
        assert_int_equal(one.busy_ns,
                         iteration->round_count * pass_ns(iteration->costs, microbatches));
    }
    run->iteration_count++;
    return STATUS_OK;
}

static void draw_watched(watched_run *run, uint64_t seed)
{
    static const char *const schedules[] = {"gpipe", "1f1b",   "interleaved-1f1b",
                                            "zb-h1", "v-half", "zb-v-hand"};
    rng random = rng_init(seed, 8);
    memset(run, 0, sizeof *run);
    run->seed = seed;
    run->scratch = arena_create(1 << 16);
    const int ranks = 1 + pick(&random, 4);
    const int microbatches = ranks * (1 + pick(&random, 3));
    const drawn_shape shape = {.layer_count = 2 * ranks + pick(&random, 8),
                               .column_count = pick(&random, 2) == 0 ? 1 : microbatches,
                               .period_max = 3,
                               .iteration_count = 6,
                               .announces_changes = true};
    draw_sources(&shape, &random, run->sources, run->ports);
    run->training = (bal_training){
        .sources = run->ports,
        .source_count = 1,
        .data_parallel = 1,
        .gpus_per_rank = 1,
        .machine = {.rank_count = ranks,
                    .ranks_per_node = 1 + pick(&random, ranks),
                    .intra_node = {.latency_ns = 3, .bytes_per_s = 2000000000},
                    .inter_node = {.latency_ns = 9, .bytes_per_s = 1000000000},
                    .send = (bal_send)pick(&random, BAL_SEND_COUNT),
                    .shares_node_links = pick(&random, 2) == 0},
        .iteration_count = 6,
        .microbatch_count = microbatches,
        .schedule = schedules[pick(&random, 6)],
        .round_count = 1 + pick(&random, 3),
        .post_validation = pick(&random, 2) == 0,
        .optimizer_step_ns = 13,
        .change_ratio = 0.25,
        .balancer = bal_balancer_find("partition"),
        .policy = {.kind = BAL_POLICY_ON_CHANGE},
        .migration = bal_migration_options_default(),
        .repack = bal_repack_options_default(),
        .sink = {.context = run, .wants_timeline = wants_every_timeline, .put = check_causes},
    };
    run->training.disturbance.op_sigma = pick(&random, 3) == 0 ? 0.2 : 0;
    run->training.disturbance.seed = seed;
}

static void causes_add_up_with_accumulation_and_a_network_that_resists(void **state)
{
    (void)state;
    watched_run *run = memory_array(1, sizeof *run);
    int played = 0;
    int64_t communication_ns = 0;
    for (uint64_t seed = 1; seed <= RANDOM_RUNS; seed++) {
        arena *memory = arena_create(1 << 16);
        bal_training_result result;
        error_message err = {0};
        draw_watched(run, seed);
        const status replayed = sim_training_replay(&run->training, memory, &result, &err);
        // An order may wait for itself where both ranks are held by a message.
        const bool is_stuck = strncmp(err.message, "rendezvous deadlock", 19) == 0;
        if (replayed != STATUS_OK && !is_stuck) {
            fail_msg("seed %lu: %s", (unsigned long)seed, err.message);
        }
        if (replayed == STATUS_OK) {
            assert_int_equal(run->iteration_count, run->training.iteration_count);
            communication_ns += run->sums.cause_ns[ANA_BUBBLE_COMMUNICATION];
            played++;
        }
        arena_destroy(run->scratch);
        arena_destroy(memory);
    }
    free(run);
    assert_true(played > RANDOM_RUNS / 2 && communication_ns > 0);
}

static void time_beyond_64_bits_is_refused_and_adds_nothing(void **state)
{
    arena *memory = *state;
    const bal_schedule schedule = reference_build("gpipe", 2, 1, 1, memory);
    const bal_stage_costs costs =
        reference_uniform_costs(2, 1000, 1000, 0, 0, (int64_t[]){1, 0, -1}, memory);
    const bal_training_iteration iteration = iteration_of(&schedule, &costs, false, memory);
    const int64_t nearly_all = INT64_MAX / 4 - 1;
    ana_bubble_causes causes = {.rank_ns = nearly_all};
    error_message err = {0};

    assert_int_equal(ana_bubble_causes_add(&causes, &iteration, memory, &err), STATUS_INVALID);

    assert_string_equal(err.message, "iteration 0: the time of 2 ranks exceeds 64 bits");
    assert_int_equal(causes.rank_ns, nearly_all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(causes_are_those_that_are_added_up_by_hand),
        cmocka_unit_test(causes_add_up_with_accumulation_and_a_network_that_resists),
        cmocka_unit_test(time_beyond_64_bits_is_refused_and_adds_nothing),
    };
    return cmocka_run_group_tests(tests, open_memory, close_memory);
}

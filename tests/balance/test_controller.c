/// What the controller decides after an iteration, and what it says of it. Four layers on two
/// ranks, state of 10 bytes each, links of 1 byte per ns.
#include "balance/control/controller.h"
#include "tests/test.h"

#include <string.h>

enum { LAYERS = 4, RANKS = 2 };

static const int64_t even_ns[LAYERS] = {100, 100, 100, 100};
static const int64_t heavy_tail_ns[LAYERS] = {100, 100, 100, 300}; // best cut: 3 | 1
static const int64_t state_bytes[LAYERS] = {10, 10, 10, 10};

static bal_layer_costs costs_of(const int64_t *forward_ns)
{
    static const int64_t none[LAYERS] = {0};
    return (bal_layer_costs){.layer_count = LAYERS,
                             .microbatch_count = 1,
                             .forward_ns = forward_ns,
                             .backward_input_ns = none,
                             .backward_weight_ns = none,
                             .parameters = state_bytes,
                             .state_bytes = state_bytes};
}

static bal_controller_options options_with(const char *balancer, const char *policy)
{
    bal_controller_options options = {
        .balancer = bal_balancer_find(balancer),
        .weight = BAL_WEIGHT_TIME,
        .change_ratio = 0.25,
        .machine = {.rank_count = RANKS,
                    .ranks_per_node = RANKS,
                    .intra_node = {.bytes_per_s = 1000000000}},
        .schedule = "1f1b",
        .microbatch_count = 4,
        .layer_count = LAYERS,
    };
    assert_ok(bal_policy_parse(policy, &options.policy, NULL));
    return options;
}

static bal_controller *controller; // that was started last
static arena *controller_memory;

static int end_controller(void **state)
{
    arena_destroy(controller_memory);
    controller_memory = NULL;
    return 0;
}

static bal_decision start_with(const bal_controller_options *options, const bal_layer_costs *layers)
{
    bal_decision decision;
    end_controller(NULL);
    controller_memory = arena_create(1 << 16);
    require(bal_controller_create(options, controller_memory, &controller, &why));
    require(bal_controller_start(controller, layers, &decision, &why));
    assert_int_equal(decision.reason, BAL_REASON_START);
    return decision;
}

static void start(const bal_controller_options *options, const int64_t *forward_ns)
{
    const bal_layer_costs layers = costs_of(forward_ns);
    start_with(options, &layers);
}

static bal_decision observe_profile(const bal_profile *profile)
{
    bal_decision decision;
    require(bal_controller_observe(controller, profile, &decision, &why));
    return decision;
}

static bal_decision observe(int iteration, const int64_t *forward_ns)
{
    const bal_layer_costs layers = costs_of(forward_ns);
    return observe_profile(
        &(bal_profile){.iteration = iteration, .layers = &layers, .changed = true});
}

TEST(policies_ask_and_move_as_they_say)
{
    static const int64_t level[LAYERS] = {100, 100, 0, 200}; // 2 | 2 and 3 | 1 are both 200
    enum { CHANGED = 1, ASKED = 2, BOTH = 3 };
    enum {
        NOT = BAL_REASON_NONE,
        SAME = BAL_REASON_SAME,
        CHANGE = BAL_REASON_CHANGE,
        PERIOD = BAL_REASON_PERIOD,
        GAIN = BAL_REASON_THRESHOLD
    };
    typedef struct step {
        int iteration;
        const int64_t *forward_ns; // NULL: the end
        int flags, reason, cut;
    } step;
    const int64_t *const heavy = heavy_tail_ns;
    const step moved = {1, heavy, BOTH, PERIOD, 3};
    const step gained = {1, heavy, BOTH, GAIN, 3};
    const step kept = {1, heavy, BOTH, SAME, 2};
    const step not_asked = {1, heavy, CHANGED, NOT, 2};
    const step again = {2, heavy, 0, NOT, 3};
    const struct {
        const char *balancer, *policy;
        double hysteresis_ratio;
        bool announces;
        step steps[4];
    } rows[] = {
        {"partition",
         "on-change",
         0,
         false,
         {{0, even_ns, 0, NOT, 2}, {1, heavy, BOTH, CHANGE, 3}, again}},
        {"partition",
         "every:2",
         0,
         false,
         {{0, heavy, 0, NOT, 2}, moved, again, {3, heavy, ASKED, SAME, 3}}},
        // Announced changes are believed; the plan of the start was made for the first iteration.
        {"partition", "on-change", 0, true, {{0, even_ns, 0, NOT, 2}, {1, even_ns, BOTH, SAME, 2}}},
        {"even", "every-iteration", 0, false, {not_asked}},
        {"partition", "never", 0, false, {not_asked}},
        // 2 | 2 is 400 and 3 | 1 is 300: a quarter is gained.
        {"partition", "threshold:0.24", 0, false, {gained}},
        {"partition", "threshold:0.26", 0, false, {kept}},
        {"partition", "threshold:0", 0, false, {gained}},
        {"partition", "threshold:0", 0, false, {{1, level, BOTH, SAME, 2}}},
        {"partition", "threshold:0.1", 0.26, false, {kept}},
        {"partition", "every-iteration", 0.24, false, {moved}},
        {"partition", "every-iteration", 0.26, false, {kept}},
    };
    for (size_t row = 0; row < sizeof rows / sizeof rows[0]; row++) {
        bal_controller_options options = options_with(rows[row].balancer, rows[row].policy);
        options.migration.hysteresis_ratio = rows[row].hysteresis_ratio;
        options.announces_changes = rows[row].announces;
        start(&options, even_ns);
        for (const step *at = rows[row].steps; at < rows[row].steps + 4 && at->forward_ns; at++) {
            const bal_decision decision = observe(at->iteration, at->forward_ns);
            const bool was_asked = (at->flags & ASKED) != 0;
            const bool moves = at->reason != NOT && at->reason != SAME;

            assert_int_equal(decision.changed, (at->flags & CHANGED) != 0);
            assert_int_equal(decision.was_asked, was_asked);
            assert_int_equal(decision.reason, at->reason);
            assert_int_equal(decision.action, moves ? BAL_ACTION_REBALANCE : BAL_ACTION_KEEP);
            assert_int_equal(decision.plan.first_layer[1], at->cut);
            assert_int_equal(decision.migration.layer_count, moves);
            assert_int_equal(decision.migration.bytes, moves ? 10 : 0);
            assert_int_equal(decision.migration_ns, moves ? 10 : 0);
        }
    }
}

TEST(foresight_decides_from_the_next_iteration)
{
    bal_controller_options options = options_with("partition", "every-iteration");
    options.information = BAL_INFORMATION_FORESIGHT;
    start(&options, even_ns);
    const bal_layer_costs layers = costs_of(even_ns);
    const bal_layer_costs next = costs_of(heavy_tail_ns);
    bal_profile profile = {.iteration = 0, .layers = &layers, .next = &next};

    assert_int_equal(observe_profile(&profile).plan.first_layer[1], 3);
    profile = (bal_profile){.iteration = 1, .layers = &layers}; // nothing follows
    assert_int_equal(observe_profile(&profile).plan.first_layer[1], 2);
}

TEST(owners_are_followed_without_time)
{
    const bal_controller_options options = options_with("diffusion-published", "on-change");
    start(&options, even_ns);
    static const int64_t light_head_ns[LAYERS] = {10, 10, 100, 100};

    // Of 20 and 200 the paper's sweeps make 120 and 100, then 110 and 110: two layers.
    const bal_decision decision = observe(1, light_head_ns);

    assert_non_null(decision.owner);
    assert_null(decision.plan.first_layer);
    assert_int_equal(decision.action, BAL_ACTION_REBALANCE);
    assert_int_equal(decision.migration.layer_count, 2);
    assert_int_equal(decision.migration.bytes, 20);
    assert_int_equal(decision.migration_ns, 0);
}

TEST(memory_caps_count_what_the_schedule_holds)
{
    // 1f1b holds 2 microbatches on rank 0, 1 on rank 1: three layers of 10 + 2 * 5 need 60 there.
    static const int64_t activation[LAYERS] = {5, 5, 5, 5};
    bal_controller_options options = options_with("partition", "on-change");
    bal_layer_costs layers = costs_of(heavy_tail_ns);
    layers.activation_bytes = activation;

    for (int64_t cap = 59; cap <= 60; cap++) {
        options.machine.rank_memory_bytes = cap;
        assert_int_equal(start_with(&options, &layers).plan.first_layer[1], cap == 60 ? 3 : 2);
    }
}

TEST(a_failed_decision_names_the_iteration_and_keeps_the_plan)
{
    bal_controller_options options = options_with("partition", "every-iteration");
    options.machine.rank_memory_bytes = 100;
    start(&options, even_ns);
    static const int64_t grown[LAYERS] = {10, 10, 10, 1000};
    bal_layer_costs layers = costs_of(even_ns);
    layers.state_bytes = grown;
    const bal_profile profile = {.iteration = 7, .layers = &layers, .changed = true};
    bal_decision decision = {.microbatch_count = -7};

    assert_int_equal(bal_controller_observe(controller, &profile, &decision, &why),
                     STATUS_INFEASIBLE);
    assert_int_equal(strncmp(why.message, "iteration 7: ", 13), 0);
    assert_int_equal(decision.microbatch_count, -7);
    assert_int_equal(observe(8, even_ns).action, BAL_ACTION_KEEP);
}

/// Four microbatches of the slowest stage.
static status play_slowest(void *context, const bal_layer_costs *layers,
                           const bal_placed_partition *plan, int microbatch_count,
                           int64_t *iteration_ns, error_message *err)
{
    *iteration_ns = 0;
    for (int stage = 0; stage < bal_placed_stage_count(plan); stage++) {
        int64_t load = 0;
        for (int layer = plan->first_layer[stage]; layer < plan->first_layer[stage + 1]; layer++) {
            load += layers->forward_ns[layer];
        }
        if (4 * load > *iteration_ns) *iteration_ns = 4 * load;
    }
    return STATUS_OK;
}

TEST(ranks_are_released_where_few_do_and_taken_back_when_load_returns)
{
    static const char *const policies[] = {"every-iteration", "shadow"};
    static const int64_t light_ns[LAYERS] = {100, 30, 30, 30};
    for (int index = 0; index < 2; index++) {
        const bal_evaluator evaluator = {.iteration_ns = play_slowest};
        bal_controller_options options = options_with("partition", policies[index]);
        options.machine.rank_count = 4;
        options.machine.ranks_per_node = 4;
        options.evaluator = &evaluator;
        options.repack.kind = BAL_REPACK_THROUGHPUT;
        start(&options, even_ns);

        bal_decision decision = observe(0, even_ns);
        assert_int_equal(decision.plan.rank_count, 4);
        decision = observe(1, light_ns);

        assert_int_equal(decision.action, BAL_ACTION_REPACK);
        assert_int_equal(decision.reason, BAL_REASON_SHRINK);
        assert_int_equal(decision.plan.rank_count, 2); // 100 | 90
        assert_int_equal(decision.plan.first_layer[1], 1);
        assert_int_equal(decision.migration.layer_count, 2);
        assert_int_equal(observe(2, light_ns).action, BAL_ACTION_KEEP);
        decision = observe(3, even_ns);
        assert_int_equal(decision.reason, BAL_REASON_GROW);
        assert_int_equal(decision.plan.rank_count, 4);
        assert_int_equal(decision.migration.layer_count, 2);
    }
}

TEST(shadows_that_may_repack_still_weigh_moves_on_the_same_ranks)
{
    const bal_evaluator evaluator = {.iteration_ns = play_slowest};
    bal_controller_options options = options_with("partition", "shadow");
    options.evaluator = &evaluator;
    options.repack.kind = BAL_REPACK_THROUGHPUT;
    options.decision_ns = 1000000; // far more than a few iterations could save
    start(&options, even_ns);

    // Half as much again in all, and best on two ranks as before, but cut elsewhere.
    for (int iteration = 0; iteration < 40; iteration++) {
        assert_int_equal(observe(iteration, heavy_tail_ns).action, BAL_ACTION_KEEP);
    }
}

TEST(relabelled_places_keep_layers_where_they_are)
{
    // From 3 | 1 to 1 | 3: layers 1 and 2 move, or with the places swapped the smaller 0 and 3.
    static const int64_t heavy_head_ns[LAYERS] = {300, 100, 100, 100};
    static const int64_t bytes[LAYERS] = {10, 30, 30, 10};
    bal_layer_costs layers = costs_of(heavy_head_ns);
    layers.state_bytes = bytes;
    for (int relabels = 0; relabels < 2; relabels++) {
        bal_controller_options options = options_with("partition", "every-iteration");
        options.migration.relabels = relabels == 1;
        start(&options, heavy_tail_ns);
        const bal_profile profile = {.iteration = 1, .layers = &layers};

        bal_decision decision = observe_profile(&profile);

        assert_int_equal(decision.plan.first_layer[1], 1);
        assert_int_equal(decision.migration.bytes, relabels == 1 ? 20 : 60);
        assert_int_equal(decision.plan.machine_rank[0], relabels == 1 ? 1 : 0);
        // The next question starts from the ranks as they are now.
        decision = observe_profile(&profile);
        assert_int_equal(decision.action, BAL_ACTION_KEEP);
        assert_int_equal(decision.plan.machine_rank[0], relabels == 1 ? 1 : 0);
    }
}

TEST(migration_hides_behind_the_backward_sweep_where_it_may)
{
    // Layer 2 goes from rank 1 to rank 0: 10 ns from when both have ended their last op.
    static const struct {
        bool overlaps;
        int64_t rank_end_ns[RANKS];
        int64_t exposed_ns;
    } rows[] = {
        {false, {1000, 990}, 10},
        {true, {1000, 990}, 10},
        {true, {995, 990}, 5},
        {true, {980, 990}, 0},
    };
    const bal_layer_costs layers = costs_of(heavy_tail_ns);
    for (size_t row = 0; row < sizeof rows / sizeof rows[0]; row++) {
        bal_controller_options options = options_with("partition", "every-iteration");
        options.migration.overlaps = rows[row].overlaps;
        start(&options, even_ns);
        const bal_profile profile = {.iteration = 1,
                                     .layers = &layers,
                                     .rank_end_ns = rows[row].rank_end_ns,
                                     .makespan_ns = 1000};

        const bal_decision decision = observe_profile(&profile);

        assert_int_equal(decision.migration.time_ns, 10);
        assert_int_equal(decision.migration_ns, rows[row].exposed_ns);
    }
}

TEST(a_plan_without_room_to_move_to_is_not_taken)
{
    // Two chunks on each of two ranks, from 2 | 2 | 2 | 2 to 3 | 2 | 1 | 2: layers 2 and 4 change
    // places. Both ranks hold four layers of 10 bytes, and one must take a fifth for a while.
    static const int64_t even[] = {6, 6, 6, 6, 6, 6, 6, 6};
    static const int64_t uneven[] = {7, 3, 2, 8, 3, 4, 3, 2};
    static const int64_t none[8] = {0};
    static const int64_t bytes[] = {10, 10, 10, 10, 10, 10, 10, 10};
    for (int64_t cap = 40; cap <= 50; cap += 10) {
        bal_controller_options options = options_with("partition", "every-iteration");
        options.schedule = "interleaved-1f1b";
        options.chunk_count = 2;
        options.layer_count = 8;
        options.machine.rank_memory_bytes = cap;
        bal_layer_costs layers = {.layer_count = 8,
                                  .microbatch_count = 1,
                                  .forward_ns = even,
                                  .backward_input_ns = none,
                                  .backward_weight_ns = none,
                                  .state_bytes = bytes};
        start_with(&options, &layers);
        layers.forward_ns = uneven;

        const bal_decision decision =
            observe_profile(&(bal_profile){.iteration = 1, .layers = &layers, .changed = true});

        assert_int_equal(decision.action, cap == 40 ? BAL_ACTION_KEEP : BAL_ACTION_REBALANCE);
        assert_int_equal(decision.reason, cap == 40 ? BAL_REASON_NO_ROOM : BAL_REASON_PERIOD);
        assert_int_equal(decision.plan.first_layer[1], cap == 40 ? 2 : 3);
        assert_int_equal(decision.migration.layer_count, cap == 40 ? 0 : 2);
    }
}

TEST(wrong_options_are_refused)
{
    const bal_repack_options packs = {.kind = BAL_REPACK_THROUGHPUT};
    const bal_repack_options threes = {.kind = BAL_REPACK_THROUGHPUT, .rank_unit = 3};
    const bal_controller_options good = options_with("partition", "never");
    bal_controller_options wrong[] = {good, good, good};
    static const char *const messages[] = {
        "rank_unit 3 is outside [1, 2]",
        "the plans of diffusion-published have no stages to re-pack",
        ("shadow predicts iterations, which the plans of diffusion-coded, having no stages, do not "
         "allow"),
    };
    wrong[0].repack = threes;
    wrong[1] = options_with("diffusion-published", "on-change");
    wrong[1].repack = packs;
    wrong[2] = options_with("diffusion-coded", "shadow");
    for (size_t row = 0; row < sizeof wrong / sizeof wrong[0]; row++) {
        bal_controller *made = NULL;

        assert_fails(bal_controller_create(&wrong[row], NULL, &made, &why), STATUS_INVALID,
                     messages[row]);
        assert_null(made);
    }
}

int main(void)
{
    return run_all_tests(NULL, end_controller);
}

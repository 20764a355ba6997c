/// The policy `shadow`: that it leaves noise alone, follows changes at about the price of knowing
/// them, and cannot be made to thrash. The runs are those of policy_study.h; the limits of the
/// ratios to an offline optimum are those that the policy was designed for.
#include "balance/control/shadow.h"
#include "tests/balance/policy_study.h"
#include "tests/test.h"

static const double layer_moves[] = {0.02, 0.2, 2};

static study_outcome play(study_family family, int iterations, double layer_move, uint64_t seed)
{
    study_run *run = study_create(family, iterations, layer_move, seed);
    const study_outcome outcome = study_play(run, "shadow");
    free(run);
    return outcome;
}

TEST(constant_loads_with_noise_cause_no_move)
{
    for (int price = 0; price < 3; price++) {
        for (uint64_t seed = 1; seed <= 10; seed++) {
            assert_int_equal(play(STUDY_CONSTANT, 800, layer_moves[price], seed).move_count, 0);
        }
    }
}

/// 35 equal layers on 8 ranks: three ranks hold five, and which three makes no difference, so that
/// noise alone prefers one plan to another (under gpipe also the order of ranks makes none). Moving
/// costs no more than a latency.
TEST(noise_between_equally_good_plans_causes_no_move)
{
    enum { LAYERS = 35 };
    const bal_machine machine = {.rank_count = STUDY_RANKS,
                                 .ranks_per_node = STUDY_RANKS,
                                 .intra_node = {.latency_ns = 1000}};
    for (uint64_t seed = 1; seed <= 10; seed++) {
        const bal_controller_options options = {.balancer = bal_balancer_find("partition"),
                                                .policy = {.kind = BAL_POLICY_SHADOW},
                                                .machine = machine,
                                                .schedule = "gpipe",
                                                .microbatch_count = STUDY_MICROBATCHES,
                                                .layer_count = LAYERS};
        bal_controller *controller = NULL;
        arena *own = arena_create(1 << 16);
        bal_decision decision;
        int64_t forward[LAYERS];
        int64_t state_bytes[LAYERS];
        rng random = rng_init(seed, 1);
        for (int layer = 0; layer < LAYERS; layer++) {
            forward[layer] = 1000000;
            state_bytes[layer] = 1;
        }
        const bal_layer_costs layers = {.layer_count = LAYERS,
                                        .microbatch_count = 1,
                                        .forward_ns = forward,
                                        .backward_input_ns = forward,
                                        .backward_weight_ns = forward,
                                        .state_bytes = state_bytes};
        assert_ok(bal_controller_create(&options, own, &controller, NULL));
        assert_ok(bal_controller_start(controller, &layers, &decision, NULL));
        for (int t = 0; t < 1000; t++) {
            for (int layer = 0; layer < LAYERS; layer++) {
                forward[layer] = rng_between(&random, 950000, 1050000);
            }
            const bal_profile profile = {.iteration = t, .layers = &layers};
            assert_ok(bal_controller_observe(controller, &profile, &decision, NULL));
            if (decision.action != BAL_ACTION_KEEP) fail_msg("seed %d moves at %d", (int)seed, t);
        }
        arena_destroy(own);
    }
}

TEST(pruning_and_experts_take_few_moves)
{
    for (int price = 0; price < 3; price++) {
        for (uint64_t seed = 1; seed <= 4; seed++) {
            assert_in_range(play(STUDY_PRUNING, 800, layer_moves[price], seed).move_count, 1, 5);
            assert_in_range(play(STUDY_EXPERTS, 800, layer_moves[price], seed).move_count, 0, 4);
        }
    }
}

typedef struct ratio_sum {
    double log_sum;
    double worst;
    int count;
} ratio_sum;

static void add_run(ratio_sum *sum, study_family family, int iterations, double layer_move,
                    uint64_t seed)
{
    study_run *run = study_create(family, iterations, layer_move, seed);
    const study_outcome outcome = study_play(run, "shadow");
    const double ratio = (double)outcome.total_ns / (double)study_offline_ns(run);
    sum->log_sum += log(ratio);
    sum->count++;
    if (ratio > sum->worst) sum->worst = ratio;
    free(run);
}

static ratio_sum add_families(study_family first, study_family end)
{
    ratio_sum sum = {0};
    for (int family = (int)first; family < (int)end; family++) {
        for (int price = 0; price < 3; price++) {
            add_run(&sum, (study_family)family, 800, layer_moves[price], 1);
            for (uint64_t seed = 2; seed <= 4; seed++) {
                add_run(&sum, (study_family)family, 400, layer_moves[price], seed);
            }
        }
    }
    print_message("%d runs: %.4f of the offline time on average, %.3f at worst\n", sum.count,
                  exp(sum.log_sum / sum.count), sum.worst);
    return sum;
}

TEST(realistic_runs_are_near_the_offline_optimum)
{
    const ratio_sum sum = add_families(STUDY_CONSTANT, STUDY_REALISTIC_COUNT);
    assert_true(exp(sum.log_sum / sum.count) <= 1.012);
    assert_true(sum.worst <= 1.057);
}

TEST(ping_pong_stays_near_the_offline_optimum)
{
    const ratio_sum sum = add_families(STUDY_PING_PONG, STUDY_OBLIVIOUS_COUNT);
    assert_true(exp(sum.log_sum / sum.count) <= 1.17);
    assert_true(sum.worst <= 1.38);
}

/// Whatever an adversary does, a move comes only after its price has been lost by not having moved,
/// each loss counted for one move: all moves together cost at most what was lost. As moves that do
/// not pay for themselves raise the price to eightfold, they come to cost a fraction of it.
TEST(an_adversary_cannot_make_moves_cost_more_than_staying)
{
    static const study_family families[] = {STUDY_ADVERSARY, STUDY_ADVERSARY_MILD};
    for (size_t index = 0; index < sizeof families / sizeof families[0]; index++) {
        for (int price = 0; price < 3; price++) {
            study_run *run = study_create(families[index], 800, layer_moves[price], 1);
            const study_outcome outcome = study_play(run, "shadow");
            const int64_t lost_ns =
                outcome.total_ns - outcome.migration_ns - study_followed_ns(run);
            print_message("%s at %g iterations a layer: %d moves, %.3f of what was lost\n",
                          study_family_names[families[index]], layer_moves[price],
                          outcome.move_count, (double)outcome.migration_ns / (double)lost_ns);
            assert_true(4 * outcome.migration_ns <= lost_ns);
            free(run);
        }
    }
}

/// Equal layers on two ranks, one of which becomes heavy for some iterations from the 20th on.
///
/// @param cuts [stages + 1] out: of the last plan
static int moves_after_spike(const char *balancer, const char *schedule, int layer_count, int heavy,
                             int64_t heavy_ns, int spike_count, int *cuts)
{
    enum { LAYERS = 8, ITERATIONS = 80 };
    const bal_controller_options options = {.balancer = bal_balancer_find(balancer),
                                            .policy = {.kind = BAL_POLICY_SHADOW},
                                            .machine = {.rank_count = 2,
                                                        .ranks_per_node = 2,
                                                        .intra_node = {.bytes_per_s = 1000000000}},
                                            .schedule = schedule,
                                            .microbatch_count = 8,
                                            .layer_count = layer_count};
    static const int64_t state_bytes[LAYERS] = {5000, 5000, 5000, 5000, 5000, 5000, 5000, 5000};
    static const int64_t none[LAYERS] = {0};
    int64_t forward[LAYERS] = {100, 100, 100, 100, 100, 100, 100, 100};
    const bal_layer_costs layers = {.layer_count = layer_count,
                                    .microbatch_count = 1,
                                    .forward_ns = forward,
                                    .backward_input_ns = none,
                                    .backward_weight_ns = none,
                                    .state_bytes = state_bytes};
    bal_controller *controller = NULL;
    arena *own = arena_create(1 << 16);
    bal_decision decision;
    int moves = 0;
    assert_ok(bal_controller_create(&options, own, &controller, NULL));
    assert_ok(bal_controller_start(controller, &layers, &decision, NULL));
    for (int t = 0; t < ITERATIONS; t++) {
        forward[heavy] = t >= 20 && t < 20 + spike_count ? heavy_ns : 100;
        const bal_profile profile = {.iteration = t, .layers = &layers};
        assert_ok(bal_controller_observe(controller, &profile, &decision, NULL));
        if (decision.action == BAL_ACTION_KEEP) continue;
        assert_int_equal(decision.reason, BAL_REASON_REGRET);
        assert_true(decision.was_asked);
        moves++;
    }
    memcpy(cuts, decision.plan.first_layer,
           (size_t)(2 * decision.plan.chunk_count + 1) * sizeof *cuts);
    arena_destroy(own);
    return moves;
}

TEST(a_lasting_change_is_followed_once_and_a_spike_is_not)
{
    int cuts[3] = {0};
    // Under gpipe with 8 microbatches, 3 | 1 takes 2 * 300 + 7 * 300 and 2 | 2 takes 600 + 7 * 400:
    // a move of 5000 ns pays after 8 iterations.
    assert_int_equal(moves_after_spike("partition", "gpipe", 4, 3, 300, 7, cuts), 0);
    assert_int_equal(moves_after_spike("partition", "gpipe", 4, 3, 300, 60, cuts), 1);
    assert_int_equal(cuts[1], 3);
}

TEST(folded_chunks_follow_a_lasting_change_by_the_loads_of_ranks)
{
    int cuts[5] = {0};

    assert_int_equal(moves_after_spike("v-partition", "1f1b-v", 8, 2, 500, 2, cuts), 0);
    assert_int_equal(moves_after_spike("v-partition", "1f1b-v", 8, 2, 500, 60, cuts), 1);

    // 1200 ns in all: the rank of the heavy layer has one other layer, the other rank six.
    const int inner = cuts[3] - cuts[1];
    const bool is_inner = cuts[1] <= 2 && 2 < cuts[3];
    assert_int_equal(is_inner ? inner : 8 - inner, 2);
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}

/// What policies make of synthetic runs, as ratios to an offline optimum
/// (tests/balance/policy_study.h): geometric mean and worst over families, prices of moving, and
/// seeds.
#include "tests/balance/policy_study.h"
#include "tests/bench/bench.h"

#include <stdio.h>

static const char *const policies[] = {"never",     "every-iteration", "every:10",      "every:100",
                                       "on-change", "threshold:0.05",  "threshold:0.1", "shadow"};
enum { POLICY_COUNT = sizeof policies / sizeof policies[0] };

typedef struct ratios {
    double log_sum;
    double worst;
    int count;
} ratios;

static void add_ratio(ratios *to, double ratio)
{
    to->log_sum += log(ratio);
    to->count++;
    if (ratio > to->worst) to->worst = ratio;
}

/// Adds the ratios of all policies over one run to all[policy] and of[policy].
static void play_run(study_family family, int iteration_count, double layer_move, uint64_t seed,
                     ratios all[POLICY_COUNT], ratios of[POLICY_COUNT])
{
    study_run *run = study_create(family, iteration_count, layer_move, seed);
    const bool provokes = family >= STUDY_OBLIVIOUS_COUNT;
    int64_t offline_ns = provokes ? 0 : study_offline_ns(run);
    for (int policy = 0; policy < POLICY_COUNT; policy++) {
        const study_outcome outcome = study_play(run, policies[policy]);
        if (provokes) offline_ns = study_offline_ns(run);
        const double ratio = (double)outcome.total_ns / (double)offline_ns;
        add_ratio(&all[policy], ratio);
        add_ratio(&of[policy], ratio);
    }
    free(run);
}

static void play_family(bool smoke, study_family family, ratios all[POLICY_COUNT])
{
    static const double layer_moves[] = {0.02, 0.2, 2};
    ratios of[POLICY_COUNT] = {0};
    for (int price = 0; price < 3; price++) {
        if (smoke) {
            play_run(family, 20, layer_moves[price], 1, all, of);
            continue;
        }
        play_run(family, 800, layer_moves[price], 1, all, of);
        for (uint64_t seed = 2; seed <= 4; seed++) {
            play_run(family, 400, layer_moves[price], seed, all, of);
        }
    }
    for (int policy = 0; policy < POLICY_COUNT; policy++) {
        const double mean = exp(of[policy].log_sum / of[policy].count);
        bench_print("policy_over_offline_mean", mean, "ratio", "%s, %s", policies[policy],
                    study_family_names[family]);
        bench_print("policy_over_offline_worst", of[policy].worst, "ratio", "%s, %s",
                    policies[policy], study_family_names[family]);
    }
}

static void print_all(const ratios all[POLICY_COUNT], const char *families)
{
    for (int policy = 0; policy < POLICY_COUNT; policy++) {
        bench_print("policy_over_offline_mean", exp(all[policy].log_sum / all[policy].count),
                    "ratio", "%s, all %s", policies[policy], families);
        bench_print("policy_over_offline_worst", all[policy].worst, "ratio", "%s, all %s",
                    policies[policy], families);
    }
}

int main(int argc, char **argv)
{
    const bool smoke = bench_is_smoke(argc, argv);
    ratios realistic[POLICY_COUNT] = {0};
    ratios in_turn[POLICY_COUNT] = {0};
    ratios provoked[POLICY_COUNT] = {0};
    for (int family = 0; family < STUDY_FAMILY_COUNT; family++) {
        play_family(smoke, (study_family)family,
                    family < STUDY_REALISTIC_COUNT   ? realistic
                    : family < STUDY_OBLIVIOUS_COUNT ? in_turn
                                                     : provoked);
    }
    print_all(realistic, "realistic");
    print_all(in_turn, "ping-pong");
    print_all(provoked, "adversaries");
    return 0;
}

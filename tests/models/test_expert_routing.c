/// Routing of tokens to experts: sums, limits and moments of what is drawn, and the busiest rank by
/// hand.
#include "models/dynamism/expert_load.h"
#include "tests/test.h"

#include <math.h>
#include <string.h>

TEST(every_token_meets_k_experts_whatever_the_skew)
{
    const uint64_t seed = 11;
    rng random = rng_init(seed, 0);
    for (int round = 0; round < 2000; round++) {
        const int experts = (int)rng_between(&random, 1, 64);
        const model_routing routing = {
            .seed = (uint64_t)round,
            .expert_count = experts,
            .top_k = (int)rng_between(&random, 1, experts),
            .tokens = rng_between(&random, 1, 5000),
            .sigma = 8 * rng_unit(&random),
            .persistent = rng_unit(&random),
            .drift_period = (int)rng_between(&random, 0, 20),
            .noise = 2 * rng_unit(&random),
            .correlation = 10 * rng_unit(&random),
        };
        double share[64];
        int32_t counts[64];
        double share_sum = 0;
        int64_t sum = 0;

        model_routing_shares(&routing, round % 7, round, share);
        model_routing_draw(&routing, share, &random, counts);

        for (int expert = 0; expert < experts; expert++) {
            assert_true(share[expert] > 0);
            assert_true(counts[expert] >= 0 && counts[expert] <= routing.tokens);
            share_sum += share[expert];
            sum += counts[expert];
        }
        assert_close(share_sum, 1.0, 1e-12);
        if (sum != routing.tokens * routing.top_k) fail_msg("seed %d, round %d", 11, round);
    }
}

static double spread_of(const double *share, int experts)
{
    double lowest = share[0];
    double highest = share[0];
    for (int expert = 1; expert < experts; expert++) {
        lowest = fmin(lowest, share[expert]);
        highest = fmax(highest, share[expert]);
    }
    return (highest - lowest) * experts;
}

TEST(layers_spread_up_to_what_is_asked)
{
    enum { LAYERS = 4000, EXPERTS = 8 };
    const model_routing routing = {.seed = 3,
                                   .expert_count = EXPERTS,
                                   .top_k = 2,
                                   .tokens = 4096,
                                   .sigma = model_routing_sigma(EXPERTS, 0.4),
                                   .persistent = 1};
    double sum = 0;
    for (int layer = 0; layer < LAYERS; layer++) {
        double share[EXPERTS];
        model_routing_shares(&routing, layer, 0, share);
        sum += spread_of(share, EXPERTS);
    }

    assert_close(model_routing_sigma(EXPERTS, 0.4), 0.4 / 2.847, 0.01); // range of 8 normal draws
    assert_close(sum / LAYERS, 0.2, 0.04); // each layer between none and all of it
}

TEST(what_persists_stays_and_the_rest_drifts)
{
    enum { EXPERTS = 1000 };
    model_routing routing = {.seed = 4,
                             .expert_count = EXPERTS,
                             .top_k = 1,
                             .tokens = 1000,
                             .sigma = 0.1,
                             .persistent = 1,
                             .drift_period = 100};
    double first[EXPERTS];
    double later[EXPERTS];
    model_routing_shares(&routing, 0, 0, first);
    model_routing_shares(&routing, 0, 12345, later);
    for (int expert = 0; expert < EXPERTS; expert++) {
        assert_close(later[expert], first[expert], 1e-12);
    }

    double correlation[3] = {0};
    const int iterations[] = {10, 100, 200};
    routing.persistent = 0.5;
    for (int distance = 0; distance < 3; distance++) {
        double product = 0;
        double squares = 0;
        model_routing_shares(&routing, 0, 0, first);
        model_routing_shares(&routing, 0, iterations[distance], later);
        for (int expert = 0; expert < EXPERTS; expert++) {
            product += (first[expert] * EXPERTS - 1) * (later[expert] * EXPERTS - 1);
            squares += (first[expert] * EXPERTS - 1) * (first[expert] * EXPERTS - 1);
        }
        correlation[distance] = product / squares;
    }
    assert_true(correlation[0] > 0.9);
    assert_true(fabs(correlation[1] - 0.5) < 0.1);
    assert_true(fabs(correlation[2] - 0.5) < 0.1);
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}

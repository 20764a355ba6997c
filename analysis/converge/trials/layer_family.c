/// The families of drawn layers. A layer of the dense model takes 1 ms. Draws use no libm, so that
/// the layers are the same on every machine.
#include "analysis/converge/trials/discrete_trials.h"

#include "models/dynamism/random_draw.h"

static const double dense_ns = 1e6;

/// Rounded, and at least 1 ns.
static int64_t time_of(double dense_layers)
{
    const double ns = dense_layers * dense_ns + 0.5;
    return ns > 1 ? (int64_t)ns : 1;
}

/// 1 and a variation of a few percent, as measured times have it.
static double jitter(rng *generator)
{
    return 1 + 0.02 * model_draw_normal(generator);
}

static void draw_uniform(rng *generator, int layer_count, int64_t *weight)
{
    for (int layer = 0; layer < layer_count; layer++) {
        weight[layer] = time_of(0.1 + 1.9 * rng_unit(generator));
    }
}

static void draw_lognormal(rng *generator, int layer_count, int64_t *weight)
{
    for (int layer = 0; layer < layer_count; layer++) {
        weight[layer] = time_of(model_portable_exp(0.5 * model_draw_normal(generator)));
    }
}

static void draw_freezing(rng *generator, int layer_count, int64_t *weight)
{
    const int frozen = (int)rng_between(generator, 1, layer_count);
    for (int layer = 0; layer < layer_count; layer++) {
        weight[layer] = time_of((layer < frozen ? 1.0 / 3 : 1) * jitter(generator));
    }
}

static void draw_early_exit(rng *generator, int layer_count, int64_t *weight)
{
    const double left_at_end = 0.05 + 0.45 * rng_unit(generator);
    double share = 1;
    for (int layer = 0; layer < layer_count; layer++) {
        weight[layer] = time_of(share * jitter(generator));
        const double leaves = (1 - left_at_end) / layer_count;
        share -= 2 * leaves * rng_unit(generator);
        if (share < left_at_end / 2) share = left_at_end / 2;
    }
}

static void draw_pruning(rng *generator, int layer_count, int64_t *weight)
{
    const double sparsity = 0.9 * rng_unit(generator);
    for (int layer = 0; layer < layer_count; layer++) {
        double kept = 1 - sparsity * (1 + 0.3 * model_draw_normal(generator));
        kept = kept > 1 ? 1 : kept;
        weight[layer] = time_of((kept < 0.02 ? 0.02 : kept) * jitter(generator));
    }
}

/// Every second layer has experts; the rank waits for the one with the most tokens.
static void draw_experts(rng *generator, int layer_count, int64_t *weight)
{
    for (int layer = 0; layer < layer_count; layer++) {
        const double skew = layer % 2 == 1 ? 1 + 2 * rng_unit(generator) * rng_unit(generator) : 1;
        weight[layer] = time_of(skew * jitter(generator));
    }
}

/// Every second layer sees an eighth of the tokens.
static void draw_depths(rng *generator, int layer_count, int64_t *weight)
{
    for (int layer = 0; layer < layer_count; layer++) {
        weight[layer] = time_of((layer % 2 == 1 ? 0.125 : 1) * jitter(generator));
    }
}

static void draw_heavy_ends(rng *generator, int layer_count, int64_t *weight)
{
    for (int layer = 0; layer < layer_count; layer++) {
        weight[layer] = time_of(jitter(generator));
    }
    weight[0] = time_of(0.2 + 0.3 * rng_unit(generator));
    weight[layer_count - 1] = time_of(1 + 3 * rng_unit(generator));
}

static const ana_layer_family families[] = {
    {"uniform", "0.1 to 2 of a dense layer, evenly", draw_uniform},
    {"lognormal", "e to a normal number of deviation 0.5", draw_lognormal},
    {"freezing", "the front, up to a place drawn evenly, takes a third", draw_freezing},
    {"early-exit", "tokens leave on the way; 5 to 50 % reach the end", draw_early_exit},
    {"pruning", "0 to 90 % of the weights are gone, unevenly", draw_pruning},
    {"moe", "every second layer waits for its fullest expert, up to 3 times", draw_experts},
    {"mod", "every second layer sees an eighth of the tokens", draw_depths},
    {"heavy-ends", "a light embedding and a head of 1 to 4 layers", draw_heavy_ends},
};
enum { FAMILY_COUNT = sizeof families / sizeof families[0] };

const ana_layer_family *ana_layer_families(int *count)
{
    *count = FAMILY_COUNT;
    return families;
}

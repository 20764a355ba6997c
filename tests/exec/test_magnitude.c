/// Which weights stay when a model is pruned: on any number of ranks with any share of the
/// layers, against sorting all weights at one place. Few different magnitudes make
/// many ties.
#include "base/rng.h"
#include "exec/mechanism/magnitude.h"
#include "tests/exec/thread_ranks.h"
#include "tests/exec/world_group.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 9, WEIGHTS_MAX = 40, RANKS_MAX = 9 };

/// A model, what shall stay, and what is kept.
typedef struct model {
    int64_t count[LAYERS]; // some 0
    float weight[LAYERS][WEIGHTS_MAX];
    uint8_t before[LAYERS][WEIGHTS_MAX]; // pruned earlier where 0
    uint8_t keep[LAYERS][WEIGHTS_MAX];   // out, of the rank that has the layer
    int64_t kept_count;
    int first_layer[RANKS_MAX + 1];
} model;

static status choose(exec_endpoint *endpoint, void *context, error_message *err)
{
    model *shared = context;
    int ranks[RANKS_MAX];
    int sequence;
    const exec_group group = world_group(endpoint, ranks, &sequence);
    exec_weights held[LAYERS];
    int held_count = 0;
    for (int layer = shared->first_layer[endpoint->rank];
         layer < shared->first_layer[endpoint->rank + 1]; layer++) {
        memcpy(shared->keep[layer], shared->before[layer], sizeof shared->keep[layer]);
        held[held_count++] = (exec_weights){.layer = layer,
                                            .count = shared->count[layer],
                                            .weight = shared->weight[layer],
                                            .keep = shared->keep[layer]};
    }
    return exec_keep_by_threshold(held, held_count, LAYERS, shared->kept_count, &group, err);
}

static float magnitude(float weight)
{
    return isnan(weight) ? INFINITY : fabsf(weight); // there is no infinite weight in these models
}

/// How many weights are larger, as plainly as the definition.
static int64_t place_of(const model *of, int layer, int64_t index)
{
    int64_t place = 0;
    const float own = magnitude(of->weight[layer][index]);
    for (int other = 0; other < LAYERS; other++) {
        for (int64_t at = 0; at < of->count[other]; at++) {
            if (of->before[other][at] == 0) continue;
            const float size = magnitude(of->weight[other][at]);
            const bool is_before = other < layer || (other == layer && at < index);
            if (size > own || (size == own && is_before)) place++;
        }
    }
    return place;
}

static void assert_largest_stay(const model *of, int rank_count)
{
    for (int layer = 0; layer < LAYERS; layer++) {
        for (int64_t index = 0; index < of->count[layer]; index++) {
            const bool stays =
                of->before[layer][index] != 0 && place_of(of, layer, index) < of->kept_count;
            if (of->keep[layer][index] == (stays ? 1 : 0)) continue;
            fail_msg("%d ranks: layer %d, weight %d: %d", rank_count, layer, (int)index,
                     of->keep[layer][index]);
        }
    }
}

/// @param level_count different magnitudes
static void draw(model *to, uint64_t seed, int level_count)
{
    rng random = rng_init(seed, 0);
    int64_t total = 0;
    memset(to, 0, sizeof *to);
    for (int layer = 0; layer < LAYERS; layer++) {
        to->count[layer] = rng_between(&random, -5, WEIGHTS_MAX);
        if (to->count[layer] < 0) to->count[layer] = 0;
        for (int64_t index = 0; index < to->count[layer]; index++) {
            const double sign = rng_below(&random, 2) == 0 ? 1 : -1;
            const double level = (double)rng_below(&random, (uint64_t)level_count);
            to->weight[layer][index] = (float)(sign * level / 7);
            to->before[layer][index] = rng_below(&random, 5) > 0;
            total += to->before[layer][index];
        }
    }
    to->kept_count = rng_between(&random, 0, total + 3);
}

/// Layers on ranks by chance; some ranks have none.
static void place_layers(model *of, rng *random, int rank_count)
{
    int count[RANKS_MAX] = {0};
    for (int layer = 0; layer < LAYERS; layer++) {
        count[rng_below(random, (uint64_t)rank_count)]++;
    }
    of->first_layer[0] = 0;
    for (int rank = 0; rank < rank_count; rank++) {
        of->first_layer[rank + 1] = of->first_layer[rank] + count[rank];
    }
}

TEST(the_largest_stay_on_any_ranks)
{
    static const int rank_counts[] = {1, 2, 4, 9};
    for (uint64_t seed = 1; seed <= 30; seed++) {
        model shared;
        draw(&shared, seed, seed % 3 == 0 ? 2 : seed % 3 == 1 ? 10 : 100000);
        rng random = rng_init(seed, 1);
        for (size_t at = 0; at < sizeof rank_counts / sizeof rank_counts[0]; at++) {
            place_layers(&shared, &random, rank_counts[at]);
            memset(shared.keep, 7, sizeof shared.keep);
            run_ranks(rank_counts[at], choose, &shared);
            assert_largest_stay(&shared, rank_counts[at]);
        }
    }
}

TEST(what_is_no_number_counts_as_largest)
{
    model shared = {.count = {4},
                    .weight = {{1.0F, -NAN, 1e30F, -1e-40F}},
                    .before = {{1, 1, 1, 1}},
                    .kept_count = 2,
                    .first_layer = {0, LAYERS}};
    const uint8_t expected[] = {0, 1, 1, 0};

    run_ranks(1, choose, &shared);

    assert_memory_equal(shared.keep[0], expected, sizeof expected);
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}

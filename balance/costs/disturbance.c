#include "balance/costs/disturbance.h"

#include <math.h>
#include <stddef.h>

bool bal_disturbance_has_rank_factors(const bal_disturbance *disturbance)
{
    return disturbance->iteration_sigma > 0 || disturbance->rank_sigma > 0 ||
           disturbance->straggler_probability > 0;
}

bool bal_disturbance_is_drawn_per_op(const bal_disturbance *disturbance)
{
    return disturbance->op_sigma > 0 || disturbance->message_factor_max > 1;
}

bool bal_disturbance_changes_links(const bal_disturbance *disturbance, int iteration)
{
    for (int index = 0; index < disturbance->link_count; index++) {
        const bal_disturbed_link *link = &disturbance->links[index];
        if (link->first_iteration == iteration || link->end_iteration == iteration) return true;
    }
    return false;
}

/// What the streams of an iteration have in common.
static uint64_t iteration_key(uint64_t seed, int64_t iteration)
{
    rng of_iteration = rng_init(seed, (uint64_t)iteration);
    return rng_next(&of_iteration);
}

static rng stream_of(uint64_t key, bal_draw_purpose purpose, uint64_t what)
{
    return rng_init(key, (uint64_t)purpose << 40 | what);
}

rng bal_disturbance_stream(uint64_t seed, bal_draw_purpose purpose, int64_t iteration,
                           uint64_t what)
{
    return stream_of(iteration_key(seed, iteration), purpose, what);
}

/// 1 + sigma * z, from the stream of a rank; key is its iteration's.
static double drawn_factor(uint64_t key, bal_draw_purpose purpose, int rank, double sigma)
{
    if (sigma <= 0) return 1.0;
    rng generator = stream_of(key, purpose, (uint64_t)rank);
    const double factor = 1.0 + sigma * rng_normal(&generator);
    return factor > 0.0 ? factor : 0.0;
}

static bool straggles(const bal_disturbance *disturbance, int iteration, int rank)
{
    if (disturbance->straggler_probability <= 0) return false;
    for (int ago = 0; ago < disturbance->straggler_iterations && ago <= iteration; ago++) {
        rng generator = bal_disturbance_stream(disturbance->seed, BAL_DRAW_STRAGGLER,
                                               iteration - ago, (uint64_t)rank);
        if (rng_unit(&generator) < disturbance->straggler_probability) return true;
    }
    return false;
}

void bal_disturbance_slow_ranks(const bal_disturbance *disturbance, int rank_count, int iteration,
                                double *rank_time_factor)
{
    if (!bal_disturbance_has_rank_factors(disturbance)) return;
    const uint64_t rank_key = iteration_key(disturbance->seed, 0);
    const uint64_t key = iteration_key(disturbance->seed, iteration);
    for (int rank = 0; rank < rank_count; rank++) {
        double factor = drawn_factor(rank_key, BAL_DRAW_RANK, rank, disturbance->rank_sigma) *
                        drawn_factor(key, BAL_DRAW_ITERATION, rank, disturbance->iteration_sigma);
        if (straggles(disturbance, iteration, rank)) factor *= disturbance->straggler_factor;
        rank_time_factor[rank] *= factor;
    }
}

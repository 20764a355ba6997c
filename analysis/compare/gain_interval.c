/// The bootstrap of a gain.
#include "analysis/compare/gain_interval.h"

#include "base/rng.h"

#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>

enum { PURPOSE_BLOCKS = 0x67a1 };

/// Whether differences of the runs, lag iterations apart, still go together.
///
/// @param differences [count] less their mean
static bool is_correlated(const double *differences, int count, int lag)
{
    double products = 0;
    double power = 0;
    for (int index = 0; index < count; index++) {
        power += differences[index] * differences[index];
        if (index >= lag) products += differences[index] * differences[index - lag];
    }
    return products > power * 2 / sqrt(count);
}

static int block_length(const int64_t *baseline_ns, const int64_t *other_ns, int count,
                        arena *memory)
{
    const int longest = count / ANA_BOOTSTRAP_BLOCKS_MIN;
    double *differences = arena_array(memory, (size_t)count, sizeof *differences);
    int block = 1;
    for (int index = 0; index < count; index++) {
        differences[index] = (double)(baseline_ns[index] - other_ns[index]);
    }
    const double mean = gsl_stats_mean(differences, 1, (size_t)count);
    for (int index = 0; index < count; index++) {
        differences[index] -= mean;
    }
    while (block < longest && is_correlated(differences, count, block))
        block *= 2;
    while (block * block * block < count)
        block++;
    return block < longest ? block : longest;
}

/// What takes no time gains nothing.
static double gain_of(int64_t baseline_ns, int64_t other_ns)
{
    return other_ns > 0 ? (double)baseline_ns / (double)other_ns - 1 : 0;
}

/// The gain over blocks that are drawn until they are as many iterations as the run has.
static double draw_gain(const int64_t *baseline_ns, const int64_t *other_ns, int count, int block,
                        rng *generator)
{
    int64_t baseline = 0;
    int64_t other = 0;
    int begin = 0;
    for (int drawn = 0; drawn < count; drawn++) {
        if (drawn % block == 0) begin = (int)rng_below(generator, (uint64_t)count);
        const int index = (begin + drawn % block) % count;
        baseline += baseline_ns[index];
        other += other_ns[index];
    }
    return gain_of(baseline, other);
}

void ana_gain_interval_of(const int64_t *baseline_ns, const int64_t *other_ns, int count,
                          double tail, uint64_t seed, arena *memory, ana_gain_interval *interval)
{
    double gains[ANA_BOOTSTRAP_ROUNDS];
    rng generator = rng_init(seed, PURPOSE_BLOCKS);
    int64_t baseline = 0;
    int64_t other = 0;
    for (int index = 0; index < count; index++) {
        baseline += baseline_ns[index];
        other += other_ns[index];
    }
    const double gain = gain_of(baseline, other);
    *interval = (ana_gain_interval){.gain = gain, .low = gain, .high = gain, .is_short = true};
    if (count < ANA_BOOTSTRAP_COUNT_MIN) return;
    interval->is_short = false;
    interval->block = block_length(baseline_ns, other_ns, count, memory);
    for (int round = 0; round < ANA_BOOTSTRAP_ROUNDS; round++) {
        gains[round] = draw_gain(baseline_ns, other_ns, count, interval->block, &generator);
    }
    gsl_sort(gains, 1, ANA_BOOTSTRAP_ROUNDS);
    interval->low = gsl_stats_quantile_from_sorted_data(gains, 1, ANA_BOOTSTRAP_ROUNDS, tail);
    interval->high = gsl_stats_quantile_from_sorted_data(gains, 1, ANA_BOOTSTRAP_ROUNDS, 1 - tail);
}

/// The bootstrap of a gain, and the rules of the verdict.
#include "analysis/diagnosis/verdict.h"

#include "base/rng.h"

#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>

enum { PURPOSE_BLOCKS = 0x67a1 };

/// Two runs as prefix sums, so that a block costs two subtractions.
typedef struct pairs {
    int count;
    int64_t *baseline_before; // [count + 1]
    int64_t *other_before;    // [count + 1]
} pairs;

static void sum_up(const int64_t *baseline_ns, const int64_t *other_ns, int count, arena *memory,
                   pairs *sums)
{
    const size_t entries = (size_t)count + 1;
    *sums = (pairs){count, arena_array(memory, entries, sizeof(int64_t)),
                    arena_array(memory, entries, sizeof(int64_t))};
    for (int index = 0; index < count; index++) {
        sums->baseline_before[index + 1] = sums->baseline_before[index] + baseline_ns[index];
        sums->other_before[index + 1] = sums->other_before[index] + other_ns[index];
    }
}

static double difference_at(const pairs *sums, int index)
{
    const int64_t baseline = sums->baseline_before[index + 1] - sums->baseline_before[index];
    return (double)(baseline - (sums->other_before[index + 1] - sums->other_before[index]));
}

/// Whether the differences of the runs, lag iterations apart, still go together.
static bool is_correlated(const pairs *sums, double mean, int lag)
{
    double products = 0;
    double power = 0;
    for (int index = 0; index < sums->count; index++) {
        const double here = difference_at(sums, index) - mean;
        power += here * here;
        if (index >= lag) products += here * (difference_at(sums, index - lag) - mean);
    }
    return products > power * 2 / sqrt(sums->count);
}

static int block_length(const pairs *sums)
{
    const int longest = sums->count / ANA_BOOTSTRAP_BLOCKS_MIN;
    const double mean =
        (double)(sums->baseline_before[sums->count] - sums->other_before[sums->count]) /
        sums->count;
    int block = 1;
    while (block < longest && is_correlated(sums, mean, block))
        block *= 2;
    while (block * block * block < sums->count)
        block++;
    return block < longest ? block : longest;
}

static int64_t sum_of(const int64_t *before, int count, int begin, int length)
{
    if (begin + length <= count) return before[begin + length] - before[begin];
    return before[count] - before[begin] + before[begin + length - count];
}

/// What takes no time gains nothing.
static double gain_of(int64_t baseline_ns, int64_t other_ns)
{
    return other_ns > 0 ? (double)baseline_ns / (double)other_ns - 1 : 0;
}

/// The gain over blocks that are drawn until they are as many iterations as the run has.
static double draw_gain(const pairs *sums, int block, rng *generator)
{
    int64_t baseline = 0;
    int64_t other = 0;
    for (int drawn = 0; drawn < sums->count; drawn += block) {
        const int begin = (int)rng_below(generator, (uint64_t)sums->count);
        const int length = sums->count - drawn < block ? sums->count - drawn : block;
        baseline += sum_of(sums->baseline_before, sums->count, begin, length);
        other += sum_of(sums->other_before, sums->count, begin, length);
    }
    return gain_of(baseline, other);
}

void ana_gain_interval_of(const int64_t *baseline_ns, const int64_t *other_ns, int count,
                          double tail, uint64_t seed, arena *memory, ana_gain_interval *interval)
{
    pairs sums;
    double gains[ANA_BOOTSTRAP_ROUNDS];
    rng generator = rng_init(seed, PURPOSE_BLOCKS);
    sum_up(baseline_ns, other_ns, count, memory, &sums);
    const double gain = gain_of(sums.baseline_before[count], sums.other_before[count]);
    *interval = (ana_gain_interval){.gain = gain, .low = gain, .high = gain, .is_short = true};
    if (count < ANA_BOOTSTRAP_COUNT_MIN) return;
    interval->is_short = false;
    interval->block = block_length(&sums);
    for (int round = 0; round < ANA_BOOTSTRAP_ROUNDS; round++) {
        gains[round] = draw_gain(&sums, interval->block, &generator);
    }
    gsl_sort(gains, 1, ANA_BOOTSTRAP_ROUNDS);
    interval->low = gsl_stats_quantile_from_sorted_data(gains, 1, ANA_BOOTSTRAP_ROUNDS, tail);
    interval->high = gsl_stats_quantile_from_sorted_data(gains, 1, ANA_BOOTSTRAP_ROUNDS, 1 - tail);
}

/// Which ground decides, the first that holds.
static ana_ground ground_of(const ana_evidence *evidence)
{
    const double threshold = evidence->threshold_ratio;
    const ana_gain_interval *best = &evidence->best;
    if (evidence->is_uniform) return ANA_GROUND_UNIFORM;
    if (best->is_short) return ANA_GROUND_SHORT;
    if (evidence->is_of_stages) return ANA_GROUND_STAGES;
    if (evidence->bound.high < threshold) return ANA_GROUND_PROVEN;
    if (best->high < threshold) return ANA_GROUND_NOISE;
    if (evidence->best_over_kept.high < threshold) return ANA_GROUND_ONE_SPLIT;
    if (best->low > threshold) {
        return evidence->knows_state ? ANA_GROUND_GAIN : ANA_GROUND_STATE_UNKNOWN;
    }
    return ANA_GROUND_INTERVAL;
}

static const struct {
    const char *name;
    ana_verdict verdict;
} grounds[ANA_GROUND_COUNT] = {
    [ANA_GROUND_UNIFORM] = {"uniform", ANA_VERDICT_UNDECIDABLE},
    [ANA_GROUND_SHORT] = {"short", ANA_VERDICT_UNDECIDABLE},
    [ANA_GROUND_STAGES] = {"stages", ANA_VERDICT_UNDECIDABLE},
    [ANA_GROUND_PROVEN] = {"proven", ANA_VERDICT_NOT_WORTHWHILE},
    [ANA_GROUND_NOISE] = {"noise", ANA_VERDICT_NOT_WORTHWHILE},
    [ANA_GROUND_ONE_SPLIT] = {"one-split", ANA_VERDICT_NOT_WORTHWHILE},
    [ANA_GROUND_STATE_UNKNOWN] = {"state-unknown", ANA_VERDICT_UNDECIDABLE},
    [ANA_GROUND_GAIN] = {"gain", ANA_VERDICT_WORTHWHILE},
    [ANA_GROUND_INTERVAL] = {"interval", ANA_VERDICT_UNDECIDABLE},
};

ana_judgement ana_judge(const ana_evidence *evidence)
{
    const ana_ground ground = ground_of(evidence);
    return (ana_judgement){grounds[ground].verdict, ground};
}

const char *ana_verdict_name(ana_verdict verdict)
{
    static const char *const names[] = {"worthwhile", "not worthwhile", "undecidable"};
    return names[verdict];
}

const char *ana_ground_name(ana_ground ground)
{
    return grounds[ground].name;
}

int64_t ana_iterations_to_decide(const ana_evidence *evidence, int count)
{
    const ana_gain_interval *best = &evidence->best;
    const double threshold = evidence->threshold_ratio;
    const bool is_above = best->gain > threshold;
    const double distance = is_above ? best->gain - threshold : threshold - best->gain;
    const double half = is_above ? best->gain - best->low : best->high - best->gain;
    const double factor = distance > 0 ? half / distance : INT32_MAX;
    const double wanted = factor * factor * count;
    return wanted < INT32_MAX ? (int64_t)wanted + 1 : INT32_MAX;
}

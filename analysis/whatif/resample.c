#include "analysis/whatif/resample.h"

#include <assert.h>
#include <math.h>
#include <stdint.h>

static double mean_of(const double *times, int count)
{
    double sum = 0;
    for (int iteration = 0; iteration < count; iteration++)
        sum += times[iteration];
    return sum / count;
}

static double covariance_at(const double *times, int count, double mean, int lag)
{
    double sum = 0;
    for (int iteration = lag; iteration < count; iteration++) {
        sum += (times[iteration] - mean) * (times[iteration - lag] - mean);
    }
    return sum / count;
}

int ana_resample_block(const double *times, int count)
{
    const double mean = mean_of(times, count);
    const double variance = covariance_at(times, count, mean, 0);
    const int longest = count / 4 > 1 ? count / 4 : 1;
    int block = 1;
    while ((int64_t)block * block * block < count)
        block++;
    if (!(variance > 0)) return block < longest ? block : longest;
    const double chance = 2 / sqrt(count) * variance;
    while (block < longest && covariance_at(times, count, mean, block) > chance)
        block++;
    return block < longest ? block : longest;
}

double ana_resample_factor(const double *times, int count, int block, rng *generator)
{
    double sum = 0;
    int drawn = 0;
    assert(count >= 1 && block >= 1 && block <= count);
    while (drawn < count) {
        const int begin = (int)rng_below(generator, (uint64_t)count);
        for (int step = 0; step < block && drawn < count; step++, drawn++) {
            sum += times[(begin + step) % count];
        }
    }
    return sum / count / mean_of(times, count);
}

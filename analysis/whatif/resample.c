#include "analysis/whatif/resample.h"

#include <assert.h>
#include <math.h>
#include <stdint.h>

enum { BLOCK_MAX = 512 };

#define FACTOR_MIN 0.01
#define ROUNDING 1e-12

double ana_resample_residuals(double *times, int count)
{
    const double middle = (count - 1) / 2.0;
    double mean = 0;
    double along = 0; // products with the distance from the middle
    double spread = 0;
    for (int iteration = 0; iteration < count; iteration++)
        mean += times[iteration] / count;
    for (int iteration = 0; iteration < count; iteration++) {
        along += (iteration - middle) * (times[iteration] - mean);
        spread += (iteration - middle) * (iteration - middle);
    }
    const double slope = spread > 0 ? along / spread : 0;
    for (int iteration = 0; iteration < count; iteration++) {
        times[iteration] -= mean + slope * (iteration - middle);
        if (fabs(times[iteration]) < ROUNDING * mean) times[iteration] = 0;
    }
    return mean;
}

static double covariance_at(const double *residuals, int count, int lag)
{
    double sum = 0;
    for (int iteration = lag; iteration < count; iteration++) {
        sum += residuals[iteration] * residuals[iteration - lag];
    }
    return sum / count;
}

int ana_resample_block(const double *residuals, int count)
{
    const double chance = 2 / sqrt(count) * covariance_at(residuals, count, 0);
    const int quarter = count / 4 > 1 ? count / 4 : 1;
    const int longest = quarter < BLOCK_MAX ? quarter : BLOCK_MAX;
    int block = 1;
    while ((int64_t)block * block * block < count)
        block++;
    while (block < longest && covariance_at(residuals, count, block) > chance)
        block++;
    return block < longest ? block : longest;
}

double ana_resample_factor(const double *residuals, int count, double mean, int block,
                           rng *generator)
{
    double sum = 0;
    int drawn = 0;
    assert(count >= 1 && block >= 1 && block <= count && mean > 0);
    while (drawn < count) {
        const int begin = (int)rng_below(generator, (uint64_t)count);
        for (int step = 0; step < block && drawn < count; step++, drawn++) {
            sum += residuals[(begin + step) % count];
        }
    }
    return fmax(1 + sum / count / mean, FACTOR_MIN); // of a trend that began near 0, too
}

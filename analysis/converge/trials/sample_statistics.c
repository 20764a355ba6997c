#include "analysis/converge/trials/sample_statistics.h"

#include <gsl/gsl_cdf.h>
#include <gsl/gsl_errno.h>
#include <gsl/gsl_sort_double.h>
#include <gsl/gsl_statistics_double.h>

#include <assert.h>
#include <math.h>

static const double tail = 0.95; // the quantile beside the median

/// Up to here GSL's continued fraction of the beta distribution converges; beyond, binomial numbers
/// are as good as normal.
enum { EXACT_COUNT_MAX = 100000 };

/// How many of count values are below the quantile with a chance of at most chance: the largest
/// number that is.
static int64_t order_below(int64_t count, double chance)
{
    if (count > EXACT_COUNT_MAX) {
        const double deviation = sqrt((double)count * tail * (1 - tail));
        return (int64_t)((double)count * tail + gsl_cdf_ugaussian_Pinv(chance) * deviation) - 1;
    }
    int64_t low = -1;
    int64_t high = count;
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (gsl_cdf_binomial_P((unsigned)middle, tail, (unsigned)count) <= chance) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

static void bound_tail(const double *sorted, int64_t count, double confidence, ana_sample *sample)
{
    const double side = (1 - confidence) / 2;
    const int64_t below = order_below(count, side);
    const int64_t above = order_below(count, 1 - side) + 1; // P(at most above) > 1 - side
    sample->p95_low = below >= 0 ? sorted[below] : NAN;
    sample->p95_high = above < count ? sorted[above] : NAN;
}

ana_sample ana_sample_of(double *values, int64_t count, double confidence)
{
    assert(count >= 1 && count <= UINT32_MAX && confidence > 0 && confidence < 1);
    gsl_set_error_handler_off(); // the default one ends the program
    const size_t size = (size_t)count;
    ana_sample sample = {.count = count, .mean_low = NAN, .mean_high = NAN};
    gsl_sort(values, 1, size);
    sample.mean = gsl_stats_mean(values, 1, size);
    if (count > 1) {
        const double deviation = gsl_stats_sd_m(values, 1, size, sample.mean);
        const double quantile = gsl_cdf_tdist_Pinv((1 + confidence) / 2, (double)(count - 1));
        const double half = quantile * deviation / sqrt((double)count);
        sample.mean_low = sample.mean - half;
        sample.mean_high = sample.mean + half;
    }
    sample.median = gsl_stats_quantile_from_sorted_data(values, 1, size, 0.5);
    sample.p95 = gsl_stats_quantile_from_sorted_data(values, 1, size, tail);
    sample.max = values[count - 1];
    bound_tail(values, count, confidence, &sample);
    return sample;
}

/// The probability whose beta distribution has this much below it, by bisection: GSL's inverse
/// gives up on large parameters.
static double beta_quantile(double below, double a, double b)
{
    double low = 0;
    double high = 1;
    while (high - low > 1e-12) {
        const double middle = (low + high) / 2;
        if (gsl_cdf_beta_P(middle, a, b) < below) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return (low + high) / 2;
}

/// Source: Wilson, J. Amer. Statist. Assoc. 22 (1927).
static void score_interval(double share, double count, double side, double *low, double *high)
{
    const double z = gsl_cdf_ugaussian_Qinv(side);
    const double spread = z * sqrt(share * (1 - share) / count + z * z / (4 * count * count));
    const double middle = share + z * z / (2 * count);
    *low = (middle - spread) / (1 + z * z / count);
    *high = (middle + spread) / (1 + z * z / count);
}

void ana_share_interval(int64_t hits, int64_t count, double confidence, double *low, double *high)
{
    assert(count >= 1 && hits >= 0 && hits <= count);
    gsl_set_error_handler_off();
    const double side = (1 - confidence) / 2;
    const double yes = (double)hits;
    const double no = (double)(count - hits);
    if (count > EXACT_COUNT_MAX) {
        score_interval(yes / (double)count, (double)count, side, low, high);
    } else {
        *low = hits == 0 ? 0 : beta_quantile(side, yes, no + 1);
        *high = hits == count ? 1 : beta_quantile(1 - side, yes + 1, no);
    }
    if (hits == 0) *low = 0;
    if (hits == count) *high = 1;
}

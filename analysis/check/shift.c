/// The sign test of pairs, and Student's of their mean.
#include "analysis/check/check.h"

#include <gsl/gsl_cdf.h>
#include <gsl/gsl_errno.h>
#include <gsl/gsl_sort_double.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

static double sign_of(double value)
{
    return (value > 0) - (value < 0);
}

/// How many values count for as much as these would if they did not resemble their neighbours.
///
/// r is the correlation of neighbours' signs about the middle, less the bias that it has as the
/// middle is taken from the same values, (1 + 4 r) / count (Kendall, Biometrika 41, 1954). Of a
/// Gaussian process whose memory fades by rho a step r is 2 / pi asin(rho); the signs' correlations
/// sum up to some 2 / pi rho / (1 - rho).
static int independent_count(const double *signs, int count)
{
    const double seen = gsl_stats_lag1_autocorrelation(signs, 1, (size_t)count);
    if (!(seen * sqrt(count) > 2)) return count; // none, or NaN of signs that are all alike
    const double correlation = seen + (1 + 4 * seen) / count;
    if (correlation >= 1) return 1;
    const double rho = sin(M_PI_2 * correlation);
    const int left = (int)(count / (1 + M_2_PI * 2 * rho / (1 - rho)));
    return left > 1 ? left : 1;
}

/// The largest rank k such that the k-th smallest of count values exceeds the median with a chance
/// of at most alpha / 2; 0 if that is too much to ask even of the smallest.
static int sign_test_rank(int count, double alpha)
{
    int rank = 0;
    while (2 * (rank + 1) <= count &&
           gsl_cdf_binomial_P((unsigned)rank, 0.5, (unsigned)count) <= alpha / 2) {
        rank++;
    }
    return rank;
}

static int sign_test_needs(double alpha)
{
    int count = 1;
    while (ldexp(1, -count) > alpha / 2) {
        count++;
    }
    return count;
}

double ana_shift_median(double *values, int count)
{
    gsl_sort(values, 1, (size_t)count);
    return gsl_stats_median_from_sorted_data(values, 1, (size_t)count);
}

void ana_shift_since(const double *values, int count, int since, double alpha, arena *scratch,
                     ana_shift *shift)
{
    gsl_set_error_handler_off(); // chances of these counts have no failures to handle
    const int left = count - since;
    double *sorted = arena_array(scratch, (size_t)count, sizeof *sorted);
    double *signs = arena_array(scratch, (size_t)count, sizeof *signs);
    memcpy(sorted, values, (size_t)count * sizeof *sorted);
    const double before = ana_shift_median(sorted, since);
    const double median = ana_shift_median(sorted + since, left);
    for (int index = 0; index < count; index++) {
        signs[index] = sign_of(values[index] - (index < since ? before : median));
    }
    *shift = (ana_shift){.estimate = median, .needed_count = sign_test_needs(alpha)};
    if (left < shift->needed_count) return;
    const int64_t share = independent_count(signs, count);
    const int independent = (int)(share * left / count > 1 ? share * left / count : 1);
    const int rank = (int)((int64_t)sign_test_rank(independent, alpha) * left / independent);
    // Of too few that are independent, somewhat farther than all of them went.
    const double beyond = rank > 0 ? 0 : gsl_stats_mad0(sorted + since, 1, (size_t)left, signs);
    shift->low = sorted[since + (rank > 0 ? rank - 1 : 0)] - beyond;
    shift->high = sorted[since + left - (rank > 0 ? rank : 1)] + beyond;
    shift->is_bounded = true;
}

void ana_shift_of_mean(const double *values, int count, double alpha, arena *scratch,
                       ana_shift *shift)
{
    enum { INDEPENDENT_MIN = 12 };
    const double mean = gsl_stats_mean(values, 1, (size_t)count);
    double *signs = arena_array(scratch, (size_t)count, sizeof *signs);
    for (int index = 0; index < count; index++) {
        signs[index] = sign_of(values[index] - mean);
    }
    const int independent = independent_count(signs, count);
    *shift = (ana_shift){.estimate = mean, .needed_count = INDEPENDENT_MIN};
    if (count < INDEPENDENT_MIN || independent < INDEPENDENT_MIN) return;
    const double error = gsl_stats_sd_m(values, 1, (size_t)count, mean) / sqrt(independent);
    const double reach = error * gsl_cdf_tdist_Qinv(alpha / 2, independent - 1);
    shift->low = mean - reach;
    shift->high = mean + reach;
    shift->is_bounded = true;
}

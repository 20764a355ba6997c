/// The sign test of pairs.
#include "analysis/check/check.h"

#include <gsl/gsl_cdf.h>
#include <gsl/gsl_errno.h>
#include <gsl/gsl_sort_double.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

/// How many values count for as much as these would if they did not resemble their neighbours.
static int independent_count(const double *values, int count, double median)
{
    int square = 0;
    int product = 0;
    int before = 0;
    for (int index = 0; index < count; index++) {
        const int sign = (values[index] > median) - (values[index] < median);
        square += sign * sign;
        product += sign * before;
        before = sign;
    }
    if (square == 0) return count;
    const double correlation = (double)product / square;
    if (correlation * sqrt(count) <= 2) return count;
    const int left = (int)(count * (1 - correlation) / (1 + correlation));
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

void ana_shift_of_pairs(const double *values, int count, double alpha, arena *scratch,
                        ana_shift *shift)
{
    gsl_set_error_handler_off(); // chances of these counts have no failures to handle
    double *sorted = arena_array(scratch, (size_t)count, sizeof *sorted);
    memcpy(sorted, values, (size_t)count * sizeof *sorted);
    *shift = (ana_shift){.estimate = ana_shift_median(sorted, count),
                         .needed_count = sign_test_needs(alpha)};
    if (count < shift->needed_count) return;
    const int independent = independent_count(values, count, shift->estimate);
    int rank = (int)((int64_t)sign_test_rank(independent, alpha) * count / independent);
    if (rank < 1) rank = 1;
    shift->low = sorted[rank - 1];
    shift->high = sorted[count - rank];
    shift->is_bounded = true;
}

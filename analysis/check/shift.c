/// The sign test of pairs, and the test of Mann and Whitney of two samples.
#include "analysis/check/shift.h"

#include <gsl/gsl_cdf.h>
#include <gsl/gsl_errno.h>
#include <gsl/gsl_sort_double.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

enum { EXACT_DIFFERENCES_MAX = 2500 };

static double *sorted_copy(const double *values, int count, arena *scratch)
{
    double *sorted = arena_array(scratch, (size_t)count, sizeof *sorted);
    memcpy(sorted, values, (size_t)count * sizeof *sorted);
    gsl_sort(sorted, 1, (size_t)count);
    return sorted;
}

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
    const double *sorted = sorted_copy(values, count, scratch);
    *shift = (ana_shift){.estimate = gsl_stats_median_from_sorted_data(sorted, 1, (size_t)count),
                         .needed_count = sign_test_needs(alpha)};
    if (count < shift->needed_count) return;
    const int independent = independent_count(values, count, shift->estimate);
    int rank = (int)((int64_t)sign_test_rank(independent, alpha) * count / independent);
    if (rank < 1) rank = 1;
    shift->low = sorted[rank - 1];
    shift->high = sorted[count - rank];
    shift->is_bounded = true;
}

/// The chances that so many of the from_count x to_count differences are negative, if the samples
/// are of one distribution: p(m, n, u) = (m p(m - 1, n, u - n) + n p(m, n - 1, u)) / (m + n).
///
/// @return [from_count * to_count + 1]
static const double *negative_chances(int from_count, int to_count, arena *scratch)
{
    const size_t width = (size_t)from_count * (size_t)to_count + 1;
    double *rows = arena_array(scratch, width * ((size_t)to_count + 1), sizeof *rows);
    for (int n = 0; n <= to_count; n++) {
        rows[(size_t)n * width] = 1; // m = 0
    }
    for (int m = 1; m <= from_count; m++) {
        for (int n = 1; n <= to_count; n++) { // n = 0 stays as it is
            double *row = rows + (size_t)n * width;
            const double *fewer = row - width; // of this m already
            for (int u = m * n; u >= 0; u--) {
                const double with = u >= n ? m * row[u - n] : 0;
                row[u] = (with + n * fewer[u]) / (m + n);
            }
        }
    }
    return rows + (size_t)to_count * width;
}

/// The rank of the interval's ends among the sorted differences; 0: none.
static void between_rank(int from_count, int to_count, double alpha, arena *scratch, int *rank)
{
    const double m = from_count;
    const double n = to_count;
    *rank = 0;
    if (m * n > EXACT_DIFFERENCES_MAX) {
        const double spread = sqrt(m * n * (m + n + 1) / 12);
        const double found = floor(m * n / 2 - gsl_cdf_ugaussian_Qinv(alpha / 2) * spread);
        *rank = found > 0 ? (int)found : 0;
        return;
    }
    const double *chances = negative_chances(from_count, to_count, scratch);
    double sum = chances[0];
    while (sum <= alpha / 2 && 2 * (*rank + 1) <= from_count * to_count) {
        sum += chances[++*rank];
    }
}

/// With this many of each, the interval can reach the smallest and the largest difference.
static int between_needs(double alpha)
{
    int count = 1;
    double ways = 2; // of choosing count of 2 count
    while (1 / ways > alpha / 2) {
        count++;
        ways = ways * (2 * count - 1) * 2 / count;
    }
    return count;
}

void ana_shift_between(const double *from, int from_count, const double *to, int to_count,
                       double alpha, arena *scratch, ana_shift *shift)
{
    const size_t count = (size_t)from_count * (size_t)to_count;
    double *differences = arena_array(scratch, count, sizeof *differences);
    int rank = 0;
    gsl_set_error_handler_off();
    for (int first = 0; first < from_count; first++) {
        for (int second = 0; second < to_count; second++) {
            differences[(size_t)first * (size_t)to_count + (size_t)second] =
                to[second] - from[first];
        }
    }
    gsl_sort(differences, 1, count);
    *shift = (ana_shift){.estimate = gsl_stats_median_from_sorted_data(differences, 1, count),
                         .needed_count = between_needs(alpha)};
    between_rank(from_count, to_count, alpha, scratch, &rank);
    if (rank < 1) return;
    shift->low = differences[rank - 1];
    shift->high = differences[count - (size_t)rank];
    shift->is_bounded = true;
}

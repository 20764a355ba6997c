/// Correlation, noise and jumps of the layers' shares.
#include "analysis/diagnosis/predictability.h"

#include <gsl/gsl_cdf.h>
#include <math.h>
#include <string.h>

/// One in so many series without any change shows one; and what a column's noise is at the least,
/// so that columns without noise do not divide by 0.
static const double false_alarm_ratio = 0.001;
static const double noise_floor = 1e-18;

enum { DEGREES_OF_GSL = 1000 };

typedef struct segmenting {
    const double *values; // [row_count][column_count]
    int row_count;
    int column_count;
    double *noise; // [column_count] variance of a sample about its neighbours
    double *front; // [column_count] sums of the rows of a segment before a cut
    double *whole; // [column_count] sums of all its rows
    double threshold;
} segmenting;

/// A run of rows [begin, end), and where it is best cut.
typedef struct segment {
    int begin;
    int end;
    int cut;
    double jump; // 0: it is too short to be cut
} segment;

static const double *row_of(const segmenting *work, int row)
{
    return work->values + (size_t)row * (size_t)work->column_count;
}

/// Half the mean squared difference of neighbours: a jump is one difference among many.
static void measure_noise(segmenting *work)
{
    for (int row = 1; row < work->row_count; row++) {
        const double *here = row_of(work, row);
        const double *before = row_of(work, row - 1);
        for (int column = 0; column < work->column_count; column++) {
            const double step = here[column] - before[column];
            work->noise[column] += step * step;
        }
    }
    for (int column = 0; column < work->column_count; column++) {
        work->noise[column] /= 2.0 * (work->row_count - 1);
        if (work->noise[column] < noise_floor) work->noise[column] = noise_floor;
    }
}

static void add_row(const segmenting *work, int row, double *sums)
{
    const double *values = row_of(work, row);
    for (int column = 0; column < work->column_count; column++) {
        sums[column] += values[column];
    }
}

/// The squared distance of the means before and after a cut, in units of the noise of their
/// difference.
static double jump_at(const segmenting *work, int front_count, int count)
{
    const double after_count = count - front_count;
    double jump = 0;
    for (int column = 0; column < work->column_count; column++) {
        const double difference = work->front[column] / front_count -
                                  (work->whole[column] - work->front[column]) / after_count;
        jump += difference * difference / work->noise[column];
    }
    return jump * front_count * after_count / count;
}

static segment best_cut(const segmenting *work, int begin, int end)
{
    segment found = {.begin = begin, .end = end};
    const size_t bytes = (size_t)work->column_count * sizeof(double);
    memset(work->front, 0, bytes);
    memset(work->whole, 0, bytes);
    for (int row = begin; row < end; row++) {
        add_row(work, row, work->whole);
    }
    for (int cut = begin + 1; cut <= end - ANA_SEGMENT_MIN; cut++) {
        add_row(work, cut - 1, work->front);
        if (cut - begin < ANA_SEGMENT_MIN) continue;
        const double jump = jump_at(work, cut - begin, end - begin);
        if (jump <= found.jump) continue;
        found.jump = jump;
        found.cut = cut;
    }
    return found;
}

static int largest(const segment *segments, int count)
{
    int best = 0;
    for (int index = 1; index < count; index++) {
        if (segments[index].jump > segments[best].jump) best = index;
    }
    return best;
}

static void segment_all(const segmenting *work, int points[ANA_CHANGE_POINTS_MAX], int *count,
                        bool *is_capped)
{
    segment segments[ANA_CHANGE_POINTS_MAX + 1];
    segments[0] = best_cut(work, 0, work->row_count);
    *count = 0;
    for (;;) {
        segment *chosen = &segments[largest(segments, *count + 1)];
        *is_capped = *count == ANA_CHANGE_POINTS_MAX && chosen->jump > work->threshold;
        if (chosen->jump <= work->threshold || *count == ANA_CHANGE_POINTS_MAX) return;
        const segment cut = *chosen;
        points[(*count)++] = cut.cut;
        *chosen = best_cut(work, cut.begin, cut.cut);
        segments[*count] = best_cut(work, cut.cut, cut.end);
    }
}

/// What a jump's statistic exceeds by chance. Above a thousand degrees of freedom GSL's inverse
/// gives up at some chances; the cube root is normal there (Wilson & Hilferty, PNAS 17, 1931).
static double threshold_of(double chance, int degrees)
{
    if (degrees <= DEGREES_OF_GSL) return gsl_cdf_chisq_Qinv(chance, degrees);
    const double part = 2 / (9.0 * degrees);
    const double root = 1 - part + gsl_cdf_ugaussian_Qinv(chance) * sqrt(part);
    return degrees * root * root * root;
}

void ana_change_points_find(const double *values, int row_count, int column_count, arena *memory,
                            int points[ANA_CHANGE_POINTS_MAX], int *point_count, bool *is_capped)
{
    *point_count = 0;
    *is_capped = false;
    if (row_count < 2 * ANA_SEGMENT_MIN || column_count < 2) return;
    double *numbers = arena_array(memory, 3 * (size_t)column_count, sizeof *numbers);
    segmenting work = {.values = values,
                       .row_count = row_count,
                       .column_count = column_count,
                       .noise = numbers,
                       .front = numbers + column_count,
                       .whole = numbers + 2 * (size_t)column_count};
    measure_noise(&work);
    work.threshold = threshold_of(false_alarm_ratio / row_count, column_count - 1);
    segment_all(&work, points, point_count, is_capped);
}

/// Shares of a series, and what is summed over it for every layer.
typedef struct shares {
    int count;
    int layer_count;
    double *share;     // [count][layer_count], about the mean
    double *mean;      // [layer_count]
    double *power;     // [layer_count] sum of squares about the mean
    double *roughness; // [layer_count] sum of squared differences of neighbours
    double *product;   // [ANA_LAGS_MAX][layer_count] sum of products at each lag
} shares;

static shares make_shares(const ana_series *series, arena *memory)
{
    const size_t layers = (size_t)series->layer_count;
    return (shares){.count = series->count,
                    .layer_count = series->layer_count,
                    .share = arena_array(memory, (size_t)series->count * layers, sizeof(double)),
                    .mean = arena_array(memory, layers, sizeof(double)),
                    .power = arena_array(memory, layers, sizeof(double)),
                    .roughness = arena_array(memory, layers, sizeof(double)),
                    .product = arena_array(memory, ANA_LAGS_MAX * layers, sizeof(double))};
}

static double *shares_at(const shares *of, int index)
{
    return of->share + (size_t)index * (size_t)of->layer_count;
}

/// An iteration in which nothing took time has no shares; it counts as all layers alike.
static void fill_row(const ana_series *series, int index, shares *of)
{
    const int64_t total = ana_series_before(series, index)[series->layer_count];
    double *row = shares_at(of, index);
    for (int layer = 0; layer < of->layer_count; layer++) {
        const int64_t load = ana_series_load_ns(series, index, layer);
        row[layer] = total > 0 ? (double)load / (double)total : 1.0 / of->layer_count;
        of->mean[layer] += row[layer];
    }
}

static void centre(const ana_series *series, shares *of)
{
    for (int index = 0; index < of->count; index++) {
        fill_row(series, index, of);
    }
    for (int layer = 0; layer < of->layer_count; layer++) {
        of->mean[layer] /= of->count;
    }
    for (int index = 0; index < of->count; index++) {
        double *row = shares_at(of, index);
        for (int layer = 0; layer < of->layer_count; layer++) {
            row[layer] -= of->mean[layer];
            of->power[layer] += row[layer] * row[layer];
            const double step = index > 0 ? row[layer] - shares_at(of, index - 1)[layer] : 0;
            of->roughness[layer] += step * step;
        }
    }
}

/// 1, 2, 3, 4, 6, 8, 12, 16, ...
static int next_lag(int lag)
{
    if (lag < 4) return lag + 1;
    return (lag & (lag - 1)) == 0 ? lag + lag / 2 : lag / 3 * 4;
}

/// Fills one lag of all layers together, and the products of each.
static void measure_lag(const shares *of, int number, ana_lag *lag)
{
    double *product = of->product + (size_t)number * (size_t)of->layer_count;
    double error = 0;
    double error_of_mean = 0;
    double all_products = 0;
    double all_power = 0;
    for (int index = lag->lag; index < of->count; index++) {
        const double *now = shares_at(of, index - lag->lag);
        const double *then = shares_at(of, index);
        for (int layer = 0; layer < of->layer_count; layer++) {
            product[layer] += now[layer] * then[layer];
            error += (then[layer] - now[layer]) * (then[layer] - now[layer]);
            error_of_mean += then[layer] * then[layer];
        }
    }
    for (int layer = 0; layer < of->layer_count; layer++) {
        all_products += product[layer];
        all_power += of->power[layer];
    }
    lag->correlation = all_power > 0 ? all_products / all_power : (double)NAN;
    lag->persistence_r2 = error_of_mean > 0 ? 1 - error / error_of_mean : (double)NAN;
}

/// @param correlation [lag_count] at the lags of forecast
static int half_life(const ana_forecastability *forecast, const double *correlation, int count)
{
    if (forecast->lag_count == 0) return -1;
    if (correlation[0] <= 2 / sqrt(count)) return 0;
    for (int number = 1; number < forecast->lag_count; number++) {
        if (correlation[number] <= correlation[0] / 2) return forecast->lags[number].lag;
    }
    return -1;
}

static double noise_ratio(double roughness, double power, int count)
{
    if (!(power > 0) || count < 2) return (double)NAN;
    const double ratio = roughness / 2 / (count - 1) / (power / count);
    return ratio < 1 ? ratio : 1;
}

/// @param mean        of the layer's share; of all layers the root of the sum of their squares
/// @param correlation [lag_count] at the lags of forecast
static ana_predictability result_of(const shares *of, const ana_forecastability *forecast,
                                    double mean, double power, double roughness,
                                    const double *correlation)
{
    ana_predictability result = {.share_mean = mean, .half_life = -1};
    result.variation_ratio = mean > 0 ? sqrt(power / of->count) / mean : (double)NAN;
    result.noise_ratio = noise_ratio(roughness, power, of->count);
    if (power > 0) result.half_life = half_life(forecast, correlation, of->count);
    return result;
}

static ana_predictability layer_result(const shares *of, const ana_forecastability *forecast,
                                       int layer)
{
    double correlation[ANA_LAGS_MAX] = {0};
    const double power = of->power[layer];
    for (int number = 0; number < forecast->lag_count && power > 0; number++) {
        correlation[number] =
            of->product[(size_t)number * (size_t)of->layer_count + (size_t)layer] / power;
    }
    return result_of(of, forecast, of->mean[layer], power, of->roughness[layer], correlation);
}

static ana_predictability overall_result(const shares *of, const ana_forecastability *forecast)
{
    double correlation[ANA_LAGS_MAX] = {0};
    double power = 0;
    double roughness = 0;
    double squared_means = 0;
    for (int layer = 0; layer < of->layer_count; layer++) {
        power += of->power[layer];
        roughness += of->roughness[layer];
        squared_means += of->mean[layer] * of->mean[layer];
    }
    for (int number = 0; number < forecast->lag_count; number++) {
        correlation[number] = forecast->lags[number].correlation;
    }
    ana_predictability result =
        result_of(of, forecast, sqrt(squared_means), power, roughness, correlation);
    result.share_mean = 1;
    return result;
}

void ana_forecastability_of(const ana_series *series, arena *memory, ana_forecastability *forecast)
{
    int points[ANA_CHANGE_POINTS_MAX];
    ana_predictability *layers = arena_array(memory, (size_t)series->layer_count, sizeof *layers);
    shares of = make_shares(series, memory);
    *forecast = (ana_forecastability){.layers = layers};
    centre(series, &of);
    for (int lag = 1; lag <= series->count / 2 && forecast->lag_count < ANA_LAGS_MAX;
         lag = next_lag(lag)) {
        ana_lag *next = &forecast->lags[forecast->lag_count];
        next->lag = lag;
        measure_lag(&of, forecast->lag_count++, next);
    }
    for (int layer = 0; layer < series->layer_count; layer++) {
        layers[layer] = layer_result(&of, forecast, layer);
    }
    forecast->overall = overall_result(&of, forecast);
    ana_change_points_find(of.share, of.count, of.layer_count, memory, points,
                           &forecast->change_point_count, &forecast->change_points_capped);
}

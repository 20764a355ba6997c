#include "analysis/diagnosis/predictability.h"

#include "analysis/diagnosis/change_points.h"

#include <math.h>

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

static status carve(const ana_series *series, arena *memory, shares *of, error_message *err)
{
    const size_t layers = (size_t)series->layer_count;
    *of = (shares){.count = series->count, .layer_count = series->layer_count};
    of->share = arena_array(memory, (size_t)series->count * layers, sizeof(double));
    of->mean = arena_array(memory, layers, sizeof(double));
    of->power = arena_array(memory, layers, sizeof(double));
    of->roughness = arena_array(memory, layers, sizeof(double));
    of->product = arena_array(memory, ANA_LAGS_MAX * layers, sizeof(double));
    if (of->share != NULL && of->mean != NULL && of->power != NULL && of->roughness != NULL &&
        of->product != NULL) {
        return STATUS_OK;
    }
    return error_set(err, STATUS_NO_MEMORY, "out of memory for the shares of the layers");
}

static double *row_of(const shares *of, int index)
{
    return of->share + (size_t)index * (size_t)of->layer_count;
}

/// An iteration in which nothing took time has no shares; it counts as all layers alike.
static void fill_row(const ana_series *series, int index, shares *of)
{
    const int64_t total = ana_series_before(series, index)[series->layer_count];
    double *row = row_of(of, index);
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
        double *row = row_of(of, index);
        for (int layer = 0; layer < of->layer_count; layer++) {
            row[layer] -= of->mean[layer];
            of->power[layer] += row[layer] * row[layer];
            const double step = index > 0 ? row[layer] - row_of(of, index - 1)[layer] : 0;
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
        const double *now = row_of(of, index - lag->lag);
        const double *then = row_of(of, index);
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

static ana_predictability layer_result(const shares *of, const ana_forecastability *forecast,
                                       int layer)
{
    double correlation[ANA_LAGS_MAX] = {0};
    const double power = of->power[layer];
    ana_predictability result = {.share_mean = of->mean[layer], .half_life = -1};
    const double deviation = sqrt(power / of->count);
    result.variation_ratio = of->mean[layer] > 0 ? deviation / of->mean[layer] : (double)NAN;
    result.noise_ratio = noise_ratio(of->roughness[layer], power, of->count);
    if (!(power > 0)) return result;
    for (int number = 0; number < forecast->lag_count; number++) {
        correlation[number] =
            of->product[(size_t)number * (size_t)of->layer_count + (size_t)layer] / power;
    }
    result.half_life = half_life(forecast, correlation, of->count);
    return result;
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
    ana_predictability result = {.share_mean = 1, .half_life = -1};
    result.variation_ratio = sqrt(power / of->count) / sqrt(squared_means);
    result.noise_ratio = noise_ratio(roughness, power, of->count);
    if (power > 0) result.half_life = half_life(forecast, correlation, of->count);
    return result;
}

status ana_forecastability_of(const ana_series *series, arena *memory,
                              ana_forecastability *forecast, error_message *err)
{
    shares of;
    int points[ANA_CHANGE_POINTS_MAX];
    ana_forecastability made = {.lag_count = 0};
    TRY(carve(series, memory, &of, err));
    ana_predictability *layers = arena_array(memory, (size_t)series->layer_count, sizeof *layers);
    centre(series, &of);
    for (int lag = 1; lag <= series->count / 2 && made.lag_count < ANA_LAGS_MAX;
         lag = next_lag(lag)) {
        made.lags[made.lag_count].lag = lag;
        measure_lag(&of, made.lag_count, &made.lags[made.lag_count]);
        made.lag_count++;
    }
    for (int layer = 0; layer < series->layer_count; layer++) {
        layers[layer] = layer_result(&of, &made, layer);
    }
    made.overall = overall_result(&of, &made);
    made.layers = layers;
    ana_change_points_find(of.share, of.count, of.layer_count, memory, points,
                           &made.change_point_count, &made.change_points_capped);
    *forecast = made;
    return STATUS_OK;
}

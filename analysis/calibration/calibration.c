/// Predictions of what was fitted, with their deviation.
#include "analysis/calibration/calibration.h"

#include <gsl/gsl_cdf.h>
#include <math.h>
#include <string.h>

/// Launches and work of a part hide each other: less than their sum, more than the longer. In the
/// mean over kernels whose work is log-normal, by a factor of e, the longer of both is 1.38 of
/// either where they are equal in sum; the root of the sum of squares is 1.41.
static double together(double launches, double work)
{
    return sqrt(launches * launches + work * work);
}

/// What a term adds to its part, over what it would take alone: derivatives are shares.
static double added_share(double whole, double of)
{
    return of > 0 ? of / whole : 0;
}

double ana_log_time(const double *logs, const double *quantities, const double *part_log,
                    double *term_share, double *part_share)
{
    double halves[ANA_PART_COUNT + 1][2] = {{0}}; // work, launches
    double whole[ANA_PART_COUNT + 1];
    double sum = 0;
    for (int term = 0; term < ANA_TERM_COUNT; term++) {
        const ana_part part = ana_terms[term].part;
        const double factor = part < ANA_PART_COUNT ? part_log[part] : 0;
        term_share[term] = quantities[term] > 0 ? quantities[term] * exp(logs[term] + factor) : 0;
        halves[part][ana_terms[term].kind == ANA_TERM_OF_LAUNCHES] += term_share[term];
    }
    for (int part = 0; part <= ANA_PART_COUNT; part++) {
        whole[part] = together(halves[part][1], halves[part][0]);
        sum += whole[part];
    }
    for (int term = 0; term < ANA_TERM_COUNT; term++) {
        const ana_part part = ana_terms[term].part;
        const double half = halves[part][ana_terms[term].kind == ANA_TERM_OF_LAUNCHES];
        term_share[term] *= added_share(whole[part], half) / sum;
    }
    for (int part = 0; part < ANA_PART_COUNT; part++) {
        part_share[part] = whole[part] / sum;
    }
    return log(sum);
}

/// How much more than the fit says varies what no run has: that related shapes are alike, and by
/// how much, is itself a guess.
static const double open_variance = 2;

/// How the factor of a shape follows from those that are known.
///
/// @param weights [part_shape_count] out, 0 of other parts
/// @return share of the factor's variance that they leave open, 0 of a shape that is known
static double weigh(const ana_calibration *calibration, const ana_part_shape *shape,
                    double *weights)
{
    const size_t count = (size_t)calibration->part_shape_count;
    double open = 1;
    memset(weights, 0, count * sizeof *weights);
    for (size_t column = 0; column < count; column++) {
        const double correlation = ana_part_correlation(shape, &calibration->part_shapes[column]);
        if (!(correlation > 0)) continue;
        for (size_t row = 0; row < count; row++) {
            weights[row] += correlation * calibration->shape_inverse[row * count + column];
        }
    }
    for (size_t column = 0; column < count; column++) {
        open -= weights[column] * ana_part_correlation(shape, &calibration->part_shapes[column]);
    }
    return open_variance * fmax(open, 0);
}

/// The log of a run's time.
///
/// @param slope   [coefficient_count] out
/// @param weights [part_shape_count]
/// @param open    variance of the factors that no shape tells is added
static double respond(const ana_calibration *calibration, const ana_run_shape *shape, double *slope,
                      double *weights, double *open)
{
    const int shape_count = calibration->part_shape_count;
    const double *logs = calibration->logs;
    const double *factors = logs + ANA_TERM_COUNT;
    double quantities[ANA_TERM_COUNT];
    double part_log[ANA_PART_COUNT] = {0};
    double part_share[ANA_PART_COUNT];
    double left[ANA_PART_COUNT] = {0};
    memset(slope, 0, (size_t)calibration->coefficient_count * sizeof *slope);
    for (ana_part part = 0; part < ANA_PART_COUNT; part++) {
        const ana_part_shape each = ana_part_shape_of(shape, part);
        if (!ana_run_has_part(shape, part)) continue;
        left[part] = weigh(calibration, &each, weights);
        for (int index = 0; index < shape_count; index++) {
            part_log[part] += weights[index] * factors[index];
            slope[ANA_TERM_COUNT + index] += weights[index];
        }
    }
    ana_term_quantities(shape, calibration->gpus_per_node, quantities);
    const double log_time = ana_log_time(logs, quantities, part_log, slope, part_share);
    for (int index = 0; index < shape_count; index++) {
        slope[ANA_TERM_COUNT + index] *= part_share[calibration->part_shapes[index].part];
    }
    for (int part = 0; part < ANA_PART_COUNT; part++) {
        const double deviation = calibration->part_deviation[part] * part_share[part];
        *open += left[part] * deviation * deviation;
    }
    return log_time;
}

/// Relative standard deviation of a run around what its terms say.
static double residual_of(const ana_calibration *calibration, const ana_run_shape *shape)
{
    const int field = ANA_SHAPE_FIELDS - 1; // pipeline_degree
    const bool is_seen = shape->pipeline_degree >= calibration->seen_min[field] &&
                         shape->pipeline_degree <= calibration->seen_max[field];
    return hypot(calibration->residual_ratio, is_seen ? 0 : ANA_COMPOSITION_RATIO);
}

/// Where a term that no run has is only known by its order of magnitude, its reach upwards is
/// longer than downwards: slopes for which an interval of 90 % is as wide as both together.
static void bend(const ana_calibration *calibration, double *slope)
{
    static const double reach = 1.645;
    const size_t count = (size_t)calibration->coefficient_count;
    for (size_t term = 0; term < ANA_TERM_COUNT; term++) {
        const double far = reach * sqrt(calibration->covariance[term * count + term]);
        if (!calibration->is_measured[term] && far > 0) slope[term] *= sinh(far) / far;
    }
}

ana_prediction ana_calibration_predict(const ana_calibration *calibration,
                                       const ana_run_shape *shape, double *scratch)
{
    const size_t count = (size_t)calibration->coefficient_count;
    const double residual = residual_of(calibration, shape);
    double variance = residual * residual;
    const double middle = respond(calibration, shape, scratch, scratch + count, &variance);
    bend(calibration, scratch);
    for (size_t row = 0; row < count; row++) {
        if (scratch[row] == 0.0) continue;
        for (size_t column = 0; column < count; column++) {
            variance +=
                scratch[row] * scratch[column] * calibration->covariance[row * count + column];
        }
    }
    return (ana_prediction){.middle_ms = exp(middle), .deviation = sqrt(fmax(0, variance))};
}

double ana_calibration_quantile(const ana_calibration *calibration, double level)
{
    return gsl_cdf_tdist_Pinv((1 + level) / 2, calibration->degrees);
}

unsigned ana_calibration_beyond(const ana_calibration *calibration, const ana_run_shape *shape)
{
    unsigned mask = 0;
    for (int field = 0; field < ANA_SHAPE_FIELDS; field++) {
        const int64_t value = ana_run_field(shape, field);
        if (value < calibration->seen_min[field] || value > calibration->seen_max[field]) {
            mask |= 1U << field;
        }
    }
    return mask;
}

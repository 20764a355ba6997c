/// Predictions of what was fitted, with their deviation, and draws for studies.
#include "analysis/calibration/calibration.h"

#include "base/rng.h"

#include <gsl/gsl_cdf.h>
#include <gsl/gsl_errno.h>
#include <gsl/gsl_linalg.h>
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

int ana_calibration_take_shape(ana_calibration *calibration, const ana_run_shape *shape,
                               ana_part part, int most)
{
    const ana_part_shape wanted = ana_part_shape_of(shape, part);
    for (int index = 0; index < calibration->part_shape_count; index++) {
        const ana_part_shape *known = &calibration->part_shapes[index];
        if (known->part == part && memcmp(known->key, wanted.key, sizeof wanted.key) == 0) {
            return index;
        }
    }
    if (calibration->part_shape_count == most) return -1;
    calibration->part_shapes[calibration->part_shape_count] = wanted;
    return calibration->part_shape_count++;
}

status ana_calibration_relate(ana_calibration *calibration, arena *memory, error_message *err)
{
    const size_t count = (size_t)calibration->part_shape_count;
    gsl_set_error_handler_off();
    calibration->shape_inverse =
        arena_array(memory, count * count, sizeof *calibration->shape_inverse);
    if (count == 0) return STATUS_OK;
    gsl_matrix_view inverse = gsl_matrix_view_array(calibration->shape_inverse, count, count);
    for (size_t row = 0; row < count; row++) {
        for (size_t column = 0; column < count; column++) {
            gsl_matrix_set(&inverse.matrix, row, column,
                           ana_part_correlation(&calibration->part_shapes[row],
                                                &calibration->part_shapes[column]));
        }
    }
    if (gsl_linalg_cholesky_decomp1(&inverse.matrix) == GSL_SUCCESS) {
        gsl_linalg_cholesky_invert(&inverse.matrix);
        return STATUS_OK;
    }
    return error_set(err, STATUS_INVALID, "two shapes of a calibration are the same");
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

/// The log of a run's time with some logs of coefficients.
///
/// @param slope   [coefficient_count] out
/// @param weights [part_shape_count]
/// @param open    out: variance of the factors that no shape tells; may be NULL
static double respond(const ana_calibration *calibration, const double *logs,
                      const ana_run_shape *shape, double *slope, double *weights, double *open)
{
    const int shape_count = calibration->part_shape_count;
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
    for (int part = 0; open != NULL && part < ANA_PART_COUNT; part++) {
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
    const double middle =
        respond(calibration, calibration->logs, shape, scratch, scratch + count, &variance);
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

void ana_calibration_learn(ana_calibration *calibration, ana_term term, double log_value,
                           double deviation)
{
    const size_t count = (size_t)calibration->coefficient_count;
    double *covariance = calibration->covariance;
    const double *line = covariance + (size_t)term * count;
    const double variance = line[term] + deviation * deviation;
    const double missed = log_value - calibration->logs[term];
    double gain[ANA_TERM_COUNT + 4 * ANA_CALIBRATION_SHAPES_MAX];
    for (size_t row = 0; row < count; row++) {
        gain[row] = covariance[row * count + (size_t)term] / variance;
        calibration->logs[row] += gain[row] * missed;
    }
    for (size_t row = 0; row < count; row++) {
        for (size_t column = 0; column < count; column++) {
            covariance[row * count + column] -= gain[row] * gain[column] * variance;
        }
    }
}

/// Room for shapes that are added to those that are known.
typedef struct extension {
    const ana_calibration *from;
    ana_calibration *to;
    double *weights; // [to->part_shape_count - from->part_shape_count][from->part_shape_count]
} extension;

/// Covariance of an added factor with coefficient `other`, which is known or was added before it.
static double added_covariance(const extension *of, int added, int other)
{
    const int known = of->from->part_shape_count;
    const size_t count = (size_t)of->to->coefficient_count;
    const double *weights = of->weights + (size_t)added * (size_t)known;
    double sum = 0;
    for (int index = 0; index < known; index++) {
        sum += weights[index] *
               of->to->covariance[(size_t)(ANA_TERM_COUNT + index) * count + (size_t)other];
    }
    if (other < of->from->coefficient_count) return sum;
    const ana_part_shape *left = &of->to->part_shapes[known + added];
    const ana_part_shape *right = &of->to->part_shapes[other - ANA_TERM_COUNT];
    const double deviation = of->to->part_deviation[left->part];
    double open = ana_part_correlation(left, right);
    for (int index = 0; index < known; index++) {
        open -= weights[index] * ana_part_correlation(&of->to->part_shapes[index], right);
    }
    return sum + open_variance * deviation * deviation * open;
}

static void fill_extension(const extension *of)
{
    const size_t before = (size_t)of->from->coefficient_count;
    const size_t count = (size_t)of->to->coefficient_count;
    double *covariance = of->to->covariance;
    for (size_t row = 0; row < before; row++) {
        memcpy(covariance + row * count, of->from->covariance + row * before,
               before * sizeof *covariance);
    }
    memcpy(of->to->logs, of->from->logs, before * sizeof *of->to->logs);
    for (size_t row = before; row < count; row++) {
        const size_t added = row - before;
        double *weights = of->weights + added * (size_t)of->from->part_shape_count;
        weigh(of->from, &of->to->part_shapes[row - ANA_TERM_COUNT], weights);
        for (int index = 0; index < of->from->part_shape_count; index++) {
            of->to->logs[row] += weights[index] * of->from->logs[ANA_TERM_COUNT + index];
        }
        for (size_t column = 0; column <= row; column++) {
            covariance[row * count + column] = covariance[column * count + row] =
                added_covariance(of, (int)added, (int)column);
        }
    }
}

status ana_calibration_extend(const ana_calibration *calibration, const ana_run_shape *shapes,
                              int shape_count, arena *memory, ana_calibration *out,
                              error_message *err)
{
    const size_t known = (size_t)calibration->part_shape_count;
    const size_t most = known + ANA_PART_COUNT * (size_t)shape_count;
    ana_calibration made = *calibration;
    made.part_shapes = arena_array(memory, most, sizeof *made.part_shapes);
    memcpy(made.part_shapes, calibration->part_shapes, known * sizeof *made.part_shapes);
    for (int shape = 0; shape < shape_count; shape++) {
        for (ana_part part = 0; part < ANA_PART_COUNT; part++) {
            if (!ana_run_has_part(&shapes[shape], part)) continue;
            (void)ana_calibration_take_shape(&made, &shapes[shape], part, (int)most);
        }
    }
    made.coefficient_count = ANA_TERM_COUNT + made.part_shape_count;
    const size_t count = (size_t)made.coefficient_count;
    made.logs = arena_array(memory, count, sizeof *made.logs);
    made.covariance = arena_array(memory, count * count, sizeof *made.covariance);
    const size_t added = (size_t)made.part_shape_count - known;
    const extension of = {calibration, &made, arena_array(memory, added * known, sizeof(double))};
    fill_extension(&of);
    TRY(ana_calibration_relate(&made, memory, err));
    *out = made;
    return STATUS_OK;
}

/// A standard normal number of a stream: by inversion, so that one number costs one draw.
static double normal(rng *generator)
{
    return gsl_cdf_ugaussian_Pinv(fmax(rng_unit(generator), 0x1p-54));
}

/// What random numbers are for; one stream each.
typedef enum draw_purpose { DRAW_COEFFICIENTS = 1, DRAW_POINT } draw_purpose;

static rng stream(uint64_t seed, draw_purpose purpose, int draw, uint64_t what)
{
    const uint64_t mixed =
        ((uint64_t)purpose << 32 | (uint32_t)draw) * UINT64_C(0x9e3779b97f4a7c15);
    return rng_init(seed, (mixed ^ mixed >> 29) + what);
}

status ana_calibration_factorise(const ana_calibration *calibration, double *factor,
                                 error_message *err)
{
    const size_t count = (size_t)calibration->coefficient_count;
    memset(factor, 0, count * count * sizeof *factor);
    for (size_t row = 0; row < count; row++) {
        const double variance = calibration->covariance[row * count + row];
        for (size_t column = 0; column <= row; column++) {
            double value = calibration->covariance[row * count + column];
            for (size_t index = 0; index < column; index++) {
                value -= factor[row * count + index] * factor[column * count + index];
            }
            const double pivot = factor[column * count + column];
            if (column < row) {
                factor[row * count + column] = pivot > 0 ? value / pivot : 0;
            } else if (value > 1e-12 * variance) {
                factor[row * count + row] = sqrt(value);
            } else if (value < -1e-6 * variance || variance < 0) {
                return error_set(err, STATUS_INVALID,
                                 "the calibration's covariance has a direction of negative "
                                 "variance");
            }
        }
    }
    return STATUS_OK;
}

void ana_calibration_draw(const ana_calibration *calibration, const double *factor, uint64_t seed,
                          int draw, double *drawn)
{
    const size_t count = (size_t)calibration->coefficient_count;
    rng generator = stream(seed, DRAW_COEFFICIENTS, draw, 0);
    const double unit = fmax(rng_unit(&generator), 0x1p-54);
    const double tail = sqrt(calibration->degrees / gsl_cdf_chisq_Pinv(unit, calibration->degrees));
    memcpy(drawn, calibration->logs, count * sizeof *drawn);
    for (size_t column = 0; column < count; column++) {
        const double number = tail * normal(&generator);
        for (size_t row = column; row < count; row++) {
            drawn[row] += number * factor[row * count + column];
        }
    }
}

double ana_calibration_factor(const ana_calibration *calibration, const double *drawn,
                              const ana_run_shape *shape, uint64_t seed, int draw, int64_t point,
                              double *scratch)
{
    const int count = calibration->coefficient_count;
    double moved = 0;
    respond(calibration, calibration->logs, shape, scratch, scratch + count, NULL);
    bend(calibration, scratch);
    for (int index = 0; index < count; index++) {
        moved += scratch[index] * (drawn[index] - calibration->logs[index]);
    }
    rng generator = stream(seed, DRAW_POINT, draw, (uint64_t)point);
    return exp(moved + residual_of(calibration, shape) * normal(&generator));
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

/// The fit of the cost model to runs, predictions with their deviation, and draws for studies.
#include "analysis/calibration/calibration.h"

#include "base/rng.h"

#include <gsl/gsl_cdf.h>
#include <math.h>
#include <string.h>

enum { REFERENCE_ROUNDS = 2, GPUS_PER_NODE_DEFAULT = 8 };

/// Clocks and repetition are not better than this; it also keeps noiseless runs apart from 0.
static const double residual_min = 1e-4;
static const double factor_min = 0.01;
static const double mean_min_ms = 1e-6;

/// Index of a part's deviation at a shape; -1 if it was not measured.
static int find_part_shape(const ana_calibration *calibration, ana_part part,
                           const ana_run_shape *shape)
{
    int64_t key[ANA_PART_KEY_FIELDS];
    ana_part_key(part, shape, key);
    for (int index = 0; index < calibration->part_shape_count; index++) {
        const ana_part_shape *known = &calibration->part_shapes[index];
        if (known->part == part && memcmp(known->key, key, sizeof key) == 0) return index;
    }
    return -1;
}

/// What a part costs by its terms alone, ms.
static double reference_ms(const ana_calibration *calibration, ana_part part, const double *fixed)
{
    double sum = 0;
    for (ana_term term = 0; term < ANA_TERM_COUNT; term++) {
        if (ana_terms[term].part == part) sum += calibration->reference[term] * fixed[term];
    }
    return sum;
}

/// Whether a shape's ring of replicas is smaller or larger than any that was measured: what a
/// ring's deviation is at one size says little of another, as libraries change algorithms with
/// size.
static bool is_other_ring(const ana_calibration *calibration, const ana_run_shape *shape)
{
    const int field = ANA_SHAPE_FIELDS - 2; // data_degree
    return shape->data_degree > 1 && (shape->data_degree < calibration->seen_min[field] ||
                                      shape->data_degree > calibration->seen_max[field]);
}

/// Standard deviation of what no fitted run says of a part at a shape, relative; 0: all is known.
static double unknown_deviation(const ana_calibration *calibration, ana_part part,
                                const ana_run_shape *shape)
{
    const double among_shapes = calibration->part_deviation[part];
    if (part == ANA_PART_REDUCTION && is_other_ring(calibration, shape)) {
        return sqrt(among_shapes * among_shapes + ANA_RING_RATIO * ANA_RING_RATIO);
    }
    return find_part_shape(calibration, part, shape) < 0 ? among_shapes : 0;
}

/// The quantity that each coefficient is multiplied with, ms per unit.
///
/// @return variance of what deviations were not measured at this shape, ms^2
static double fill_quantities(const ana_calibration *calibration, const ana_run_shape *shape,
                              double *quantities)
{
    double unknown = 0;
    memset(quantities, 0, (size_t)calibration->coefficient_count * sizeof *quantities);
    ana_term_quantities(shape, calibration->gpus_per_node, quantities);
    quantities[ANA_TERM_FRONT] *= calibration->reference[ANA_TERM_MICROBATCH];
    for (ana_part part = 0; part < ANA_PART_COUNT; part++) {
        const double ms = reference_ms(calibration, part, quantities);
        const int index = find_part_shape(calibration, part, shape);
        const double deviation = unknown_deviation(calibration, part, shape) * ms;
        if (index >= 0) quantities[ANA_TERM_ALL_COUNT + index] = ms;
        unknown += deviation * deviation;
    }
    return unknown;
}

/// Runs while they are fitted.
typedef struct fitting {
    const ana_run_shape *shapes;
    const double *iteration_ms;
    int run_count;
    arena *memory;
    ana_calibration *out;
} fitting;

static status collect_shapes(const fitting *fit, error_message *err)
{
    ana_calibration *out = fit->out;
    for (int run = 0; run < fit->run_count; run++) {
        const ana_run_shape *shape = &fit->shapes[run];
        for (ana_part part = 0; part < ANA_PART_COUNT; part++) {
            if (part == ANA_PART_REDUCTION && shape->data_degree == 1) continue;
            if (find_part_shape(out, part, shape) >= 0) continue;
            if (out->part_shape_count == ANA_CALIBRATION_SHAPES_MAX) {
                return error_set(err, STATUS_INVALID,
                                 "runs to fit have more than %d shapes of layers, heads, updates "
                                 "and reductions: fit fewer rows",
                                 ANA_CALIBRATION_SHAPES_MAX);
            }
            ana_part_shape *next = &out->part_shapes[out->part_shape_count++];
            next->part = part;
            ana_part_key(part, shape, next->key);
        }
    }
    return STATUS_OK;
}

static void collect_ranges(const fitting *fit)
{
    for (int field = 0; field < ANA_SHAPE_FIELDS; field++) {
        int64_t *low = &fit->out->seen_min[field];
        int64_t *high = &fit->out->seen_max[field];
        *low = *high = ana_run_field(&fit->shapes[0], field);
        for (int run = 1; run < fit->run_count; run++) {
            const int64_t value = ana_run_field(&fit->shapes[run], field);
            if (value < *low) *low = value;
            if (value > *high) *high = value;
        }
    }
}

/// Columns of the terms, and of the deviations if column_count says so, relative to the measured
/// time, so that the residual is a relative error. Assumed terms are taken off at their mean.
static void fill_rows(const fitting *fit, int column_count, double *values, double *target)
{
    const ana_calibration *out = fit->out;
    double *quantities =
        arena_array(fit->memory, (size_t)out->coefficient_count, sizeof *quantities);
    for (int run = 0; run < fit->run_count; run++) {
        const double weight = 1 / fit->iteration_ms[run];
        double *row = values + (size_t)run * (size_t)column_count;
        fill_quantities(out, &fit->shapes[run], quantities);
        target[run] = 1;
        for (int column = 0; column < column_count; column++) {
            row[column] = weight * quantities[column];
            if (column < ANA_TERM_COUNT || column >= ANA_TERM_ALL_COUNT) continue;
            target[run] -= ana_term_mean((ana_term)column) * row[column];
        }
    }
}

/// Standard deviation of a term that is not in use: around the middle of its range where no row has
/// it; else around zero, as a term in use has taken its place.
static double unused_deviation(const fitting *fit, const double *values, int column_count,
                               ana_term term)
{
    for (int run = 0; run < fit->run_count; run++) {
        if (values[(size_t)run * (size_t)column_count + (size_t)term] > 0) {
            return ana_terms[term].high / sqrt(3);
        }
    }
    return ana_term_deviation(term);
}

/// @param random_count 0, or all columns beside the fitted terms
static status solve_once(const fitting *fit, int random_count, ana_shrinkage_fit *solved,
                         error_message *err)
{
    const size_t runs = (size_t)fit->run_count;
    const int columns = ANA_TERM_COUNT + random_count;
    double *values = arena_array(fit->memory, runs * (size_t)columns, sizeof *values);
    double *target = arena_array(fit->memory, runs, sizeof *target);
    int *class = arena_array(fit->memory, (size_t)random_count, sizeof *class);
    double deviation[ANA_TERM_COUNT];
    ana_shrinkage_problem problem = {
        .row_count = fit->run_count,
        .fixed_count = ANA_TERM_COUNT,
        .random_count = random_count,
        .class_count = random_count > 0 ? ANA_PART_COUNT + ANA_TERM_ASSUMED_COUNT : 0,
        .values = values,
        .target = target,
        .random_class = class,
        .fixed_deviation = deviation,
        .residual_min = residual_min};
    fill_rows(fit, columns, values, target);
    for (ana_term term = 0; term < ANA_TERM_COUNT; term++) {
        deviation[term] = unused_deviation(fit, values, columns, term);
    }
    for (int column = 0; column < random_count; column++) {
        const int shape = column - ANA_TERM_ASSUMED_COUNT;
        class[column] =
            shape < 0 ? ANA_PART_COUNT + column : (int)fit->out->part_shapes[shape].part;
    }
    for (int part = 0; part < ANA_PART_COUNT; part++) {
        problem.class_deviation[part] = -1;
    }
    for (ana_term term = ANA_TERM_COUNT; term < ANA_TERM_ALL_COUNT; term++) {
        problem.class_deviation[ANA_PART_COUNT + term - ANA_TERM_COUNT] = ana_term_deviation(term);
    }
    return ana_shrinkage_solve(&problem, fit->memory, solved, err);
}

static void take_over(ana_calibration *out, const ana_shrinkage_fit *solved)
{
    out->coefficients = solved->coefficients;
    out->covariance = solved->covariance;
    memcpy(out->states, solved->states, sizeof out->states);
    for (ana_term term = 0; term < ANA_TERM_ALL_COUNT; term++) {
        if (term >= ANA_TERM_COUNT) {
            out->coefficients[term] += ana_term_mean(term);
        } else if (out->states[term] == ANA_STATE_ABSENT) {
            out->coefficients[term] = out->reference[term] = ana_term_mean(term);
        }
    }
    memcpy(out->part_deviation, solved->class_deviation, sizeof out->part_deviation);
    out->residual_ratio = solved->residual;
    out->degrees = solved->degrees;
}

/// First the terms alone; then, relative to them, with deviations by shape, twice, as the terms
/// change when they need not explain what is a shape's own.
static status solve(const fitting *fit, error_message *err)
{
    ana_shrinkage_fit solved;
    TRY(solve_once(fit, 0, &solved, err));
    for (int round = 0; round < REFERENCE_ROUNDS; round++) {
        memcpy(fit->out->reference, solved.coefficients, sizeof fit->out->reference);
        TRY(solve_once(fit, fit->out->coefficient_count - ANA_TERM_COUNT, &solved, err));
    }
    take_over(fit->out, &solved);
    return STATUS_OK;
}

status ana_calibration_fit(const ana_run_shape *shapes, const double *iteration_ms, int run_count,
                           const ana_calibration_settings *settings, arena *memory,
                           ana_calibration *out, error_message *err)
{
    if (run_count < ANA_CALIBRATION_RUNS_MIN) {
        return error_set(err, STATUS_INVALID, "%d run%s to fit: at least %d are needed", run_count,
                         run_count == 1 ? "" : "s", ANA_CALIBRATION_RUNS_MIN);
    }
    ana_calibration made = {
        .source = arena_string(memory, settings->source != NULL ? settings->source : ""),
        .vocabulary_size = settings->vocabulary_size,
        .gpus_per_node =
            settings->gpus_per_node > 0 ? settings->gpus_per_node : GPUS_PER_NODE_DEFAULT,
        .run_count = run_count,
        .part_shapes = arena_array(memory, ANA_CALIBRATION_SHAPES_MAX, sizeof *made.part_shapes),
    };
    const fitting fit = {shapes, iteration_ms, run_count, memory, &made};
    TRY(collect_shapes(&fit, err));
    collect_ranges(&fit);
    made.coefficient_count = ANA_TERM_ALL_COUNT + made.part_shape_count;
    TRY(solve(&fit, err));
    *out = made;
    return STATUS_OK;
}

static double dot(const double *left, const double *right, int count)
{
    double sum = 0;
    for (int index = 0; index < count; index++) {
        sum += left[index] * right[index];
    }
    return sum;
}

/// Relative standard deviation of a run around what its terms say.
static double residual_of(const ana_calibration *calibration, const ana_run_shape *shape)
{
    const int field = ANA_SHAPE_FIELDS - 1; // pipeline_degree
    const bool is_seen = shape->pipeline_degree >= calibration->seen_min[field] &&
                         shape->pipeline_degree <= calibration->seen_max[field];
    const double composition = is_seen ? 0 : ANA_COMPOSITION_RATIO;
    return sqrt(calibration->residual_ratio * calibration->residual_ratio +
                composition * composition);
}

ana_prediction ana_calibration_predict(const ana_calibration *calibration,
                                       const ana_run_shape *shape, double *scratch)
{
    const int count = calibration->coefficient_count;
    double variance = fill_quantities(calibration, shape, scratch);
    for (int row = 0; row < count; row++) {
        if (scratch[row] == 0.0) continue;
        const double *line = calibration->covariance + (size_t)row * (size_t)count;
        variance += scratch[row] * dot(line, scratch, count);
    }
    const double mean = dot(scratch, calibration->coefficients, count);
    const double residual = residual_of(calibration, shape) * mean;
    return (ana_prediction){.mean_ms = fmax(mean, mean_min_ms),
                            .deviation_ms = sqrt(fmax(0, variance) + residual * residual)};
}

double ana_calibration_quantile(const ana_calibration *calibration, double level)
{
    return gsl_cdf_tdist_Pinv((1 + level) / 2, calibration->degrees);
}

/// A standard normal number of a stream: by inversion, so that one number costs one draw.
static double normal(rng *generator)
{
    return gsl_cdf_ugaussian_Pinv(fmax(rng_unit(generator), 0x1p-54));
}

/// What random numbers are for; one stream each.
typedef enum draw_purpose { DRAW_COEFFICIENTS = 1, DRAW_SHAPE, DRAW_POINT } draw_purpose;

static uint64_t mixed(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ (hash >> 29);
}

static rng stream(uint64_t seed, draw_purpose purpose, int draw, uint64_t what)
{
    return rng_init(seed, mixed(mixed((uint64_t)purpose, (uint64_t)draw), what));
}

/// Lower factor of a matrix that is positive semidefinite: columns without a variance of their own
/// (terms not in use) are zero.
static bool factorise(const double *matrix, int count, double *factor)
{
    const size_t n = (size_t)count;
    memset(factor, 0, n * n * sizeof *factor);
    for (size_t row = 0; row < n; row++) {
        for (size_t column = 0; column <= row; column++) {
            double value = matrix[row * n + column];
            for (size_t index = 0; index < column; index++) {
                value -= factor[row * n + index] * factor[column * n + index];
            }
            const double floor = 1e-12 * matrix[column * n + column];
            if (column < row) {
                const double pivot = factor[column * n + column];
                factor[row * n + column] = pivot > 0 ? value / pivot : 0;
            } else if (value > floor) {
                factor[row * n + row] = sqrt(value);
            } else if (value < -1e-6 * matrix[row * n + row] || matrix[row * n + row] < 0) {
                return false;
            }
        }
    }
    return true;
}

status ana_calibration_draw(const ana_calibration *calibration, uint64_t seed, int draw,
                            double *draw_coefficients, double *scratch, error_message *err)
{
    const int count = calibration->coefficient_count;
    if (!factorise(calibration->covariance, count, scratch)) {
        return error_set(err, STATUS_INVALID,
                         "the calibration's covariance has a direction of "
                         "negative variance");
    }
    rng generator = stream(seed, DRAW_COEFFICIENTS, draw, 0);
    memcpy(draw_coefficients, calibration->coefficients, (size_t)count * sizeof *scratch);
    for (int column = 0; column < count; column++) {
        const double number = normal(&generator);
        for (int row = column; row < count; row++) {
            draw_coefficients[row] +=
                number * scratch[(size_t)row * (size_t)count + (size_t)column];
        }
    }
    return STATUS_OK;
}

/// What deviations that were not measured add in one draw, ms: equal for points of equal shape.
static double unknown_ms(const ana_calibration *calibration, const ana_run_shape *shape,
                         const double *quantities, uint64_t seed, int draw)
{
    double sum = 0;
    for (ana_part part = 0; part < ANA_PART_COUNT; part++) {
        const double deviation = unknown_deviation(calibration, part, shape);
        if (!(deviation > 0)) continue;
        int64_t key[ANA_PART_KEY_FIELDS];
        ana_part_key(part, shape, key);
        uint64_t hash = (uint64_t)part;
        if (part == ANA_PART_REDUCTION) hash = mixed(hash, (uint64_t)shape->data_degree);
        for (int field = 0; field < ANA_PART_KEY_FIELDS; field++) {
            hash = mixed(hash, (uint64_t)key[field]);
        }
        rng generator = stream(seed, DRAW_SHAPE, draw, hash);
        sum += normal(&generator) * deviation * reference_ms(calibration, part, quantities);
    }
    return sum;
}

double ana_calibration_factor(const ana_calibration *calibration, const double *draw_coefficients,
                              const ana_run_shape *shape, uint64_t seed, int draw, int64_t point,
                              double *scratch)
{
    const int count = calibration->coefficient_count;
    fill_quantities(calibration, shape, scratch);
    const double mean = dot(scratch, calibration->coefficients, count);
    const double drawn = dot(scratch, draw_coefficients, count) +
                         unknown_ms(calibration, shape, scratch, seed, draw);
    rng generator = stream(seed, DRAW_POINT, draw, (uint64_t)point);
    const double residual = residual_of(calibration, shape) * normal(&generator);
    return mean > 0 ? fmax(factor_min, drawn / mean + residual) : 1;
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

#include "analysis/calibration/calibration.h"

#include "analysis/calibration/measured_runs.h"
#include "analysis/calibration/shrinkage.h"
#include "base/rng.h"

#include <gsl/gsl_cdf.h>
#include <math.h>
#include <string.h>

enum { REFERENCE_ROUNDS = 2, GPUS_PER_NODE_DEFAULT = 8 };

/// Clocks and repetition are not better than this; it also keeps noiseless runs apart from 0.
static const double residual_min = 1e-4;
static const double factor_min = 0.01;
static const double mean_min_ms = 1e-6;

/// Runs while they are fitted.
typedef struct fitting {
    const ana_run_shape *shapes;
    const double *iteration_ms;
    int run_count;
    double *fixed;   // [run_count][ANA_TERM_COUNT] quantities
    double *assumed; // [run_count][ANA_ASSUMED_COUNT]
    arena *memory;
    ana_calibration *out;
} fitting;

static int first_part_shape(void)
{
    return ANA_TERM_COUNT + ANA_ASSUMED_COUNT;
}

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
        if (ana_term_part(term) == part) sum += calibration->reference[term] * fixed[term];
    }
    return sum;
}

static void measure(fitting *fit)
{
    for (int run = 0; run < fit->run_count; run++) {
        ana_term_quantities(&fit->shapes[run], fit->out->gpus_per_node,
                            fit->fixed + (size_t)run * ANA_TERM_COUNT,
                            fit->assumed + (size_t)run * ANA_ASSUMED_COUNT);
    }
}

static status collect_shapes(fitting *fit, error_message *err)
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

static void collect_ranges(fitting *fit)
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

/// Quantity of an assumed term in ms per unit of its coefficient.
static double assumed_ms(const ana_calibration *calibration, ana_assumed_term term,
                         const double *assumed)
{
    const double scale =
        term == ANA_ASSUMED_FRONT ? calibration->reference[ANA_TERM_MICROBATCH] : 1;
    return scale * assumed[term];
}

/// The columns of one run beside the fixed terms, ms; random [ANA_ASSUMED_COUNT + shapes].
static void fill_random(const fitting *fit, int run, double *random)
{
    const ana_calibration *out = fit->out;
    const double *fixed = fit->fixed + (size_t)run * ANA_TERM_COUNT;
    const double *assumed = fit->assumed + (size_t)run * ANA_ASSUMED_COUNT;
    for (ana_assumed_term term = 0; term < ANA_ASSUMED_COUNT; term++) {
        random[term] = assumed_ms(out, term, assumed);
    }
    for (ana_part part = 0; part < ANA_PART_COUNT; part++) {
        const int index = find_part_shape(out, part, &fit->shapes[run]);
        if (index >= 0) random[ANA_ASSUMED_COUNT + index] = reference_ms(out, part, fixed);
    }
}

/// Standard deviation of a term that is not in use: around the middle of its range where no row has
/// it; else around zero, as a term in use has taken its place.
static double unused_deviation(const fitting *fit, ana_term term)
{
    const ana_assumption_range range = ana_term_range(term);
    for (int run = 0; run < fit->run_count; run++) {
        if (fit->fixed[(size_t)run * ANA_TERM_COUNT + (size_t)term] > 0) {
            return range.high / sqrt(3);
        }
    }
    return range.deviation;
}

/// Rows relative to their measured time, so that the residual is a relative error.
static void make_problem(const fitting *fit, bool has_random, ana_shrinkage_problem *problem)
{
    const ana_calibration *out = fit->out;
    const size_t runs = (size_t)fit->run_count;
    const int random_count = has_random ? ANA_ASSUMED_COUNT + out->part_shape_count : 0;
    double *fixed = arena_array(fit->memory, runs * ANA_TERM_COUNT, sizeof *fixed);
    double *random = arena_array(fit->memory, runs * (size_t)random_count, sizeof *random);
    double *target = arena_array(fit->memory, runs, sizeof *target);
    int *class = arena_array(fit->memory, (size_t)random_count, sizeof *class);
    double *deviation = arena_array(fit->memory, ANA_TERM_COUNT, sizeof *deviation);
    for (ana_term term = 0; term < ANA_TERM_COUNT; term++) {
        deviation[term] = unused_deviation(fit, term);
    }
    for (int run = 0; run < fit->run_count; run++) {
        const double weight = 1 / fit->iteration_ms[run];
        double *row = random + (size_t)run * (size_t)random_count;
        target[run] = 1;
        for (int term = 0; term < ANA_TERM_COUNT; term++) {
            const size_t at = (size_t)run * ANA_TERM_COUNT + (size_t)term;
            fixed[at] = weight * fit->fixed[at];
        }
        if (!has_random) continue;
        fill_random(fit, run, row);
        for (int column = 0; column < random_count; column++) {
            row[column] *= weight;
        }
        for (ana_assumed_term term = 0; term < ANA_ASSUMED_COUNT; term++) {
            target[run] -= ana_assumed_term_range(term).mean * row[term];
        }
    }
    *problem =
        (ana_shrinkage_problem){.row_count = fit->run_count,
                                .fixed_count = ANA_TERM_COUNT,
                                .random_count = random_count,
                                .class_count = has_random ? ANA_PART_COUNT + ANA_ASSUMED_COUNT : 0,
                                .fixed = fixed,
                                .random = random,
                                .target = target,
                                .random_class = class,
                                .fixed_deviation = deviation,
                                .residual_min = residual_min};
    for (int column = 0; column < random_count; column++) {
        const int shape = column - ANA_ASSUMED_COUNT;
        class[column] = shape < 0 ? ANA_PART_COUNT + column : (int)out->part_shapes[shape].part;
    }
    for (int part = 0; part < ANA_PART_COUNT; part++) {
        problem->class_deviation[part] = -1;
    }
    for (ana_assumed_term term = 0; term < ANA_ASSUMED_COUNT; term++) {
        problem->class_deviation[ANA_PART_COUNT + term] = ana_assumed_term_range(term).deviation;
    }
}

static void take_over(ana_calibration *out, const ana_shrinkage_fit *solved)
{
    out->coefficients = solved->coefficients;
    out->covariance = solved->covariance;
    for (ana_assumed_term term = 0; term < ANA_ASSUMED_COUNT; term++) {
        out->coefficients[ANA_TERM_COUNT + term] += ana_assumed_term_range(term).mean;
    }
    for (int term = 0; term < ANA_TERM_COUNT; term++) {
        out->states[term] = solved->uses[term] == ANA_TERM_USED     ? ANA_STATE_USED
                            : solved->uses[term] == ANA_TERM_ABSENT ? ANA_STATE_ABSENT
                                                                    : ANA_STATE_NO_GAIN;
    }
    for (ana_term term = 0; term < ANA_TERM_COUNT; term++) {
        if (out->states[term] != ANA_STATE_ABSENT) continue;
        out->coefficients[term] = out->reference[term] = ana_term_range(term).mean;
    }
    memcpy(out->part_deviation, solved->class_deviation, sizeof out->part_deviation);
    out->residual_ratio = solved->residual;
    out->degrees = solved->degrees;
}

/// First the terms alone; then, relative to them, with deviations by shape, twice, as the terms
/// change when they need not explain what is a shape's own.
static status solve(fitting *fit, error_message *err)
{
    ana_shrinkage_problem problem;
    ana_shrinkage_fit solved;
    make_problem(fit, false, &problem);
    TRY(ana_shrinkage_solve(&problem, fit->memory, &solved, err));
    for (int round = 0; round < REFERENCE_ROUNDS; round++) {
        memcpy(fit->out->reference, solved.coefficients, sizeof fit->out->reference);
        make_problem(fit, true, &problem);
        TRY(ana_shrinkage_solve(&problem, fit->memory, &solved, err));
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
    fitting fit = {
        .shapes = shapes,
        .iteration_ms = iteration_ms,
        .run_count = run_count,
        .fixed = arena_array(memory, (size_t)run_count * ANA_TERM_COUNT, sizeof *fit.fixed),
        .assumed = arena_array(memory, (size_t)run_count * ANA_ASSUMED_COUNT, sizeof *fit.assumed),
        .memory = memory,
        .out = &made,
    };
    measure(&fit);
    TRY(collect_shapes(&fit, err));
    collect_ranges(&fit);
    TRY(solve(&fit, err));
    made.coefficient_count = first_part_shape() + made.part_shape_count;
    *out = made;
    return STATUS_OK;
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
    double assumed[ANA_ASSUMED_COUNT];
    double unknown = 0;
    memset(quantities, 0, (size_t)calibration->coefficient_count * sizeof *quantities);
    ana_term_quantities(shape, calibration->gpus_per_node, quantities, assumed);
    for (ana_assumed_term term = 0; term < ANA_ASSUMED_COUNT; term++) {
        quantities[ANA_TERM_COUNT + term] = assumed_ms(calibration, term, assumed);
    }
    for (ana_part part = 0; part < ANA_PART_COUNT; part++) {
        const double ms = reference_ms(calibration, part, quantities);
        const int index = find_part_shape(calibration, part, shape);
        const double deviation = unknown_deviation(calibration, part, shape) * ms;
        if (index >= 0) quantities[first_part_shape() + index] = ms;
        unknown += deviation * deviation;
    }
    return unknown;
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

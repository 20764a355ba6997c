/// The fit: the likeliest logs of coefficients and factors, by Gauss-Newton steps from what is
/// known before any run, and the likeliest spread of factors and of residuals, by Laplace's
/// approximation of the evidence (MacKay, "Bayesian interpolation", Neural Computation 4, 1992).
#include "analysis/calibration/calibration.h"

#include <gsl/gsl_cdf.h>
#include <gsl/gsl_errno.h>
#include <gsl/gsl_linalg.h>
#include <math.h>
#include <string.h>

enum { STEPS = 12, GPUS_PER_NODE_DEFAULT = 8, ROW_ENTRIES = ANA_TERM_COUNT + ANA_PART_COUNT };

/// No step moves a log by more, so that far starts come home.
static const double step_max = 1.5;

/// Spreads that are tried: of layers' factors and of residuals. What is likely beforehand: factors
/// within some 15 %, runs that repeat within 1 to 2 %, either within a factor of 2 to 3.
static const double spreads[] = {0.005, 0.015, 0.04, 0.08, 0.16, 0.3};
static const double residuals[] = {0.0002, 0.001, 0.003, 0.008, 0.015, 0.03, 0.06, 0.1};
static const double spread_usual = 0.15;
static const double residual_usual = 0.015;
static const double usual_deviation = 0.8; // of the logs of both

/// Residuals are Student's t: a run that something else slowed down, as some runs of every cluster
/// are, counts for less the farther off it is. Source: Lange, Little & Taylor, Robust Statistical
/// Modeling Using the t Distribution, JASA 84 (1989), who find 4 to serve.
static const double residual_degrees = 4;

/// Spread of the parts' factors over that of layers: libraries change algorithms with the size of a
/// ring, and heads and updates are few kernels.
static const double part_ratios[ANA_PART_COUNT] = {1, 1.5, 1.5, 2};

/// Runs while they are fitted.
typedef struct fitting {
    int run_count;
    int count;          // of coefficients
    double *log_ms;     // [run_count]
    double *quantities; // [run_count][ANA_TERM_COUNT]
    int *shape_of;      // [run_count][ANA_PART_COUNT] coefficient of the part's factor; -1: none
    double *mean;       // [count] of the logs before any run
    gsl_matrix *known;  // [count]^2 inverse of their covariance
    double known_log_determinant; // of the covariance
    gsl_matrix *curvature;        // [count]^2
    gsl_vector *slope;            // [count]
    gsl_vector *step;             // [count]
} fitting;

/// What one choice of spreads comes to.
typedef struct attempt {
    double spread;
    double residual;
    double evidence; // log, up to a constant
    double *logs;    // [count]
} attempt;

/// The index among part_shapes of a part of a run, which is added if it is the first of its shape;
/// -1: there is no room for it.
static int take_shape(ana_calibration *calibration, const ana_run_shape *shape, ana_part part)
{
    const ana_part_shape wanted = ana_part_shape_of(shape, part);
    for (int index = 0; index < calibration->part_shape_count; index++) {
        const ana_part_shape *known = &calibration->part_shapes[index];
        if (known->part == part && memcmp(known->key, wanted.key, sizeof wanted.key) == 0) {
            return index;
        }
    }
    if (calibration->part_shape_count == ANA_CALIBRATION_SHAPES_MAX) return -1;
    calibration->part_shapes[calibration->part_shape_count] = wanted;
    return calibration->part_shape_count++;
}

static status collect(const ana_run_shape *shapes, const double *iteration_ms, fitting *fit,
                      ana_calibration *out, error_message *err)
{
    for (int run = 0; run < fit->run_count; run++) {
        double *quantities = fit->quantities + (size_t)run * ANA_TERM_COUNT;
        ana_term_quantities(&shapes[run], out->gpus_per_node, quantities);
        fit->log_ms[run] = log(iteration_ms[run]);
        for (ana_term term = 0; term < ANA_TERM_COUNT; term++) {
            if (quantities[term] > 0) out->is_measured[term] = true;
        }
        for (ana_part part = 0; part < ANA_PART_COUNT; part++) {
            int *index = &fit->shape_of[run * ANA_PART_COUNT + (int)part];
            *index = -1;
            if (!ana_run_has_part(&shapes[run], part)) continue;
            const int taken = take_shape(out, &shapes[run], part);
            *index = ANA_TERM_COUNT + taken;
            if (taken >= 0) continue;
            return error_set(err, STATUS_INVALID,
                             "runs to fit have more than %d shapes of layers, heads, updates and "
                             "reductions: fit fewer rows",
                             ANA_CALIBRATION_SHAPES_MAX);
        }
    }
    out->coefficient_count = fit->count = ANA_TERM_COUNT + out->part_shape_count;
    return STATUS_OK;
}

/// Makes shape_inverse from part_shapes.
static status relate(ana_calibration *calibration, arena *memory, error_message *err)
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

static void collect_ranges(const ana_run_shape *shapes, int run_count, ana_calibration *out)
{
    for (int field = 0; field < ANA_SHAPE_FIELDS; field++) {
        out->seen_min[field] = out->seen_max[field] = ana_run_field(&shapes[0], field);
        for (int run = 1; run < run_count; run++) {
            const int64_t value = ana_run_field(&shapes[run], field);
            if (value < out->seen_min[field]) out->seen_min[field] = value;
            if (value > out->seen_max[field]) out->seen_max[field] = value;
        }
    }
}

static double half_log_determinant(const gsl_matrix *factor)
{
    double sum = 0;
    for (size_t row = 0; row < factor->size1; row++) {
        sum += log(gsl_matrix_get(factor, row, row));
    }
    return sum;
}

static double known_covariance(const ana_calibration *out, int left, int right)
{
    const bool is_term = left < ANA_TERM_COUNT;
    if (is_term != (right < ANA_TERM_COUNT)) return 0;
    if (is_term) return ana_term_log_covariance((ana_term)left, (ana_term)right);
    const ana_part_shape *first = &out->part_shapes[left - ANA_TERM_COUNT];
    const ana_part_shape *second = &out->part_shapes[right - ANA_TERM_COUNT];
    const double deviation = out->part_deviation[first->part];
    return deviation * deviation * ana_part_correlation(first, second);
}

/// What is known before any run, with a spread of factors.
static void know(const ana_calibration *out, fitting *fit)
{
    for (int row = 0; row < fit->count; row++) {
        fit->mean[row] = row < ANA_TERM_COUNT ? ana_term_log_mean((ana_term)row) : 0;
        for (int column = 0; column < fit->count; column++) {
            gsl_matrix_set(fit->known, (size_t)row, (size_t)column,
                           known_covariance(out, row, column));
        }
    }
    gsl_linalg_cholesky_decomp1(fit->known);
    fit->known_log_determinant = 2 * half_log_determinant(fit->known);
    gsl_linalg_cholesky_invert(fit->known);
}

/// One run's residual, and where its derivatives are not zero.
static double row_of(const fitting *fit, const double *logs, int run, int *index, double *slope)
{
    double part_log[ANA_PART_COUNT];
    const int *shape_of = fit->shape_of + run * ANA_PART_COUNT;
    for (int part = 0; part < ANA_PART_COUNT; part++) {
        part_log[part] = shape_of[part] >= 0 ? logs[shape_of[part]] : 0;
        index[ANA_TERM_COUNT + part] = shape_of[part];
    }
    for (int term = 0; term < ANA_TERM_COUNT; term++) {
        index[term] = term;
    }
    const double *quantities = fit->quantities + (size_t)run * ANA_TERM_COUNT;
    return fit->log_ms[run] -
           ana_log_time(logs, quantities, part_log, slope, slope + ANA_TERM_COUNT);
}

static void add_row(fitting *fit, const int *index, const double *slope, double residual,
                    double weight)
{
    for (int left = 0; left < ROW_ENTRIES; left++) {
        if (index[left] < 0 || !(slope[left] > 0)) continue;
        const size_t row = (size_t)index[left];
        *gsl_vector_ptr(fit->slope, row) += weight * slope[left] * residual;
        for (int right = 0; right < ROW_ENTRIES; right++) {
            if (index[right] < 0) continue;
            *gsl_matrix_ptr(fit->curvature, row, (size_t)index[right]) +=
                weight * slope[left] * slope[right];
        }
    }
}

/// Slope and curvature of the log of the probability at logs. @return the log itself
static double probe(fitting *fit, const double *logs, double residual_deviation)
{
    const double variance = residual_deviation * residual_deviation;
    int index[ROW_ENTRIES];
    double slope[ROW_ENTRIES];
    double log_probability = -fit->run_count * log(residual_deviation);
    gsl_matrix_memcpy(fit->curvature, fit->known);
    for (int row = 0; row < fit->count; row++) {
        double pull = 0;
        for (int column = 0; column < fit->count; column++) {
            pull += gsl_matrix_get(fit->known, (size_t)row, (size_t)column) *
                    (fit->mean[column] - logs[column]);
        }
        gsl_vector_set(fit->slope, (size_t)row, pull);
        log_probability += 0.5 * pull * (logs[row] - fit->mean[row]);
    }
    for (int run = 0; run < fit->run_count; run++) {
        const double residual = row_of(fit, logs, run, index, slope);
        const double tail = residual_degrees * variance + residual * residual;
        add_row(fit, index, slope, residual, (residual_degrees + 1) / tail);
        log_probability -= 0.5 * (residual_degrees + 1) * log(tail / (residual_degrees * variance));
    }
    return log_probability;
}

/// Goes uphill from try->logs; leaves the factor of the curvature there.
static void climb(fitting *fit, attempt *try)
{
    double log_probability = 0;
    for (int step = 0; step <= STEPS; step++) {
        double longest = 0;
        log_probability = probe(fit, try->logs, try->residual);
        gsl_linalg_cholesky_decomp1(fit->curvature);
        if (step == STEPS) break;
        gsl_linalg_cholesky_solve(fit->curvature, fit->slope, fit->step);
        for (int index = 0; index < fit->count; index++) {
            longest = fmax(longest, fabs(gsl_vector_get(fit->step, (size_t)index)));
        }
        if (longest < 1e-7) break;
        const double share = fmin(1, step_max / longest);
        for (int index = 0; index < fit->count; index++) {
            try->logs[index] += share * gsl_vector_get(fit->step, (size_t)index);
        }
    }
    const double far_spread = log(try->spread / spread_usual) / usual_deviation;
    const double far_residual = log(try->residual / residual_usual) / usual_deviation;
    try->evidence = log_probability - half_log_determinant(fit->curvature) -
                    0.5 * fit->known_log_determinant -
                    0.5 * (far_spread * far_spread + far_residual * far_residual);
}

static void set_spread(ana_calibration *out, double spread)
{
    for (int part = 0; part < ANA_PART_COUNT; part++) {
        out->part_deviation[part] = part_ratios[part] * spread;
    }
}

/// Sums over attempts, weighed by their evidence.
typedef struct weighed {
    double best; // log evidence that weights are relative to
    double weight;
    double spread_squared;
    double residual_squared;
} weighed;

static void weigh(weighed *sums, const attempt *try)
{
    const double shrink = try->evidence > sums->best ? exp(sums->best - try->evidence) : 1;
    if (!(try->evidence > -INFINITY)) return;
    sums->best = fmax(sums->best, try->evidence);
    const double weight = exp(try->evidence - sums->best);
    sums->weight = shrink * sums->weight + weight;
    sums->spread_squared = shrink * sums->spread_squared + weight * try->spread * try->spread;
    sums->residual_squared =
        shrink * sums->residual_squared + weight * try->residual * try->residual;
}

/// The spreads of mean variance: what they leave open is as wide as all that are likely.
static attempt choose_spreads(fitting *fit, ana_calibration *out)
{
    attempt try = {.logs = out->logs};
    weighed sums = {.best = -INFINITY};
    for (size_t spread = 0; spread < sizeof spreads / sizeof *spreads; spread++) {
        set_spread(out, try.spread = spreads[spread]);
        know(out, fit);
        memcpy(try.logs, fit->mean, (size_t)fit->count * sizeof *try.logs);
        for (size_t residual = sizeof residuals / sizeof *residuals; residual-- > 0;) {
            try.residual = residuals[residual];
            climb(fit, &try);
            weigh(&sums, &try);
        }
    }
    memcpy(try.logs, fit->mean, (size_t)fit->count * sizeof *try.logs);
    try.spread = sqrt(sums.spread_squared / sums.weight);
    try.residual = sqrt(sums.residual_squared / sums.weight);
    return try;
}

/// The fit under these spreads, with the covariance that it leaves.
static void solve(fitting *fit, ana_calibration *out)
{
    const size_t count = (size_t)fit->count;
    attempt chosen = choose_spreads(fit, out);
    set_spread(out, chosen.spread);
    know(out, fit);
    climb(fit, &chosen);
    gsl_linalg_cholesky_invert(fit->curvature);
    for (size_t row = 0; row < count; row++) {
        for (size_t column = 0; column < count; column++) {
            out->covariance[row * count + column] = gsl_matrix_get(fit->curvature, row, column);
        }
    }
    // Of a normal distribution of which as much lies within the 90 % interval.
    out->residual_ratio =
        chosen.residual * gsl_cdf_tdist_Pinv(0.95, residual_degrees) / gsl_cdf_ugaussian_Pinv(0.95);
}

static fitting begin(int run_count, arena *memory)
{
    const size_t runs = (size_t)run_count;
    fitting fit = {.run_count = run_count};
    fit.log_ms = arena_array(memory, runs, sizeof *fit.log_ms);
    fit.quantities = arena_array(memory, runs * ANA_TERM_COUNT, sizeof *fit.quantities);
    fit.shape_of = arena_array(memory, runs * ANA_PART_COUNT, sizeof *fit.shape_of);
    return fit;
}

static void solve_with_gsl(fitting *fit, ana_calibration *out, arena *memory)
{
    const size_t count = (size_t)fit->count;
    gsl_set_error_handler_off(); // matrices here are sums of a positive definite one
    fit->mean = arena_array(memory, count, sizeof *fit->mean);
    out->logs = arena_array(memory, count, sizeof *out->logs);
    out->covariance = arena_array(memory, count * count, sizeof *out->covariance);
    fit->known = gsl_matrix_alloc(count, count);
    fit->curvature = gsl_matrix_alloc(count, count);
    fit->slope = gsl_vector_alloc(count);
    fit->step = gsl_vector_alloc(count);
    solve(fit, out);
    gsl_matrix_free(fit->known);
    gsl_matrix_free(fit->curvature);
    gsl_vector_free(fit->slope);
    gsl_vector_free(fit->step);
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
        .vocabulary_size = settings->vocabulary_size,
        .gpus_per_node =
            settings->gpus_per_node > 0 ? settings->gpus_per_node : GPUS_PER_NODE_DEFAULT,
        .degrees = run_count + 3, // beside the runs: what is likely of spreads beforehand
        .part_shapes = arena_array(memory, ANA_CALIBRATION_SHAPES_MAX, sizeof *made.part_shapes),
    };
    fitting fit = begin(run_count, memory);
    TRY(collect(shapes, iteration_ms, &fit, &made, err));
    collect_ranges(shapes, run_count, &made);
    solve_with_gsl(&fit, &made, memory);
    TRY(relate(&made, memory, err));
    *out = made;
    return STATUS_OK;
}

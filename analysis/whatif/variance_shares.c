#include "analysis/whatif/variance_shares.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>

#include <gsl/gsl_errno.h>
#include <gsl/gsl_multifit.h>
#include <gsl/gsl_statistics_double.h>

enum { DRAWS_PER_COEFFICIENT = 10 };

/// Below this share of the mean, differences between draws are rounding.
#define STEADY_RATIO 1e-12

/// The parts that add to the logarithm of the value.
typedef struct terms {
    int draw_count;
    int degree;
    double *logarithm; // [draw_count] of the value
    double *rest;      // [draw_count] the same without the factors
    double *powers;    // [input_count][degree][draw_count] of the inputs, without mean
    double *term;      // [draw_count] of one source
    int *column;       // [input_count] of the design; -1: the input does not vary
    int column_count;
} terms;

static double covariance(const double *left, const double *right, int count)
{
    return gsl_stats_covariance(left, 1, right, 1, (size_t)count);
}

static void carve(const ana_variation *variation, arena *memory, terms *parts)
{
    const size_t draws = (size_t)variation->draw_count;
    const size_t inputs = (size_t)variation->input_count;
    const bool curved =
        variation->draw_count >= DRAWS_PER_COEFFICIENT * (1 + 2 * variation->input_count);
    *parts = (terms){.draw_count = variation->draw_count, .degree = curved ? 2 : 1};
    const size_t rows = 3 + inputs * (size_t)parts->degree;
    parts->logarithm = arena_array(memory, rows * draws, sizeof *parts->logarithm);
    parts->column = arena_array(memory, inputs, sizeof *parts->column);
    parts->rest = parts->logarithm + draws;
    parts->term = parts->logarithm + 2 * draws;
    parts->powers = parts->logarithm + 3 * draws;
}

static const double *row_of(const double *rows, int row, int draw_count)
{
    return rows + (size_t)row * (size_t)draw_count;
}

static double *power_of(const terms *parts, int input, int degree)
{
    const size_t row = (size_t)input * (size_t)parts->degree + (size_t)(degree - 1);
    return parts->powers + row * (size_t)parts->draw_count;
}

static void take_logarithms(const ana_variation *variation, terms *parts)
{
    for (int draw = 0; draw < parts->draw_count; draw++) {
        parts->logarithm[draw] = log(variation->values[draw]);
        parts->rest[draw] = parts->logarithm[draw];
        for (int factor = 0; factor < variation->factor_count; factor++) {
            parts->rest[draw] -= log(row_of(variation->factors, factor, parts->draw_count)[draw]);
        }
    }
}

/// The input in units of its deviation, and its square, each without its mean: the fit is then
/// well conditioned, and a constant takes up the rest.
static void raise_input(const ana_variation *variation, int input, terms *parts)
{
    const double *values = row_of(variation->inputs, input, parts->draw_count);
    const size_t count = (size_t)parts->draw_count;
    const double mean = gsl_stats_mean(values, 1, count);
    const double deviation = gsl_stats_sd_m(values, 1, count, mean);
    if (deviation <= fabs(mean) * STEADY_RATIO) {
        parts->column[input] = -1;
        return;
    }
    parts->column[input] = parts->column_count;
    parts->column_count += parts->degree;
    for (int degree = 1; degree <= parts->degree; degree++) {
        double *power = power_of(parts, input, degree);
        for (int draw = 0; draw < parts->draw_count; draw++) {
            const double unit = (values[draw] - mean) / deviation;
            power[draw] = degree == 1 ? unit : unit * unit;
        }
        const double power_mean = gsl_stats_mean(power, 1, count);
        for (int draw = 0; draw < parts->draw_count; draw++)
            power[draw] -= power_mean;
    }
}

/// GSL's arrays of one fit.
typedef struct fit {
    gsl_multifit_linear_workspace *workspace;
    gsl_matrix *design;       // [draw_count][1 + column_count]
    gsl_vector *observed;     // [draw_count]
    gsl_vector *coefficients; // [1 + column_count]
    gsl_matrix *covariance;
    double squares; // of the residuals
} fit;

static void fit_free(fit *fitted)
{
    gsl_multifit_linear_free(fitted->workspace);
    gsl_matrix_free(fitted->design);
    gsl_vector_free(fitted->observed);
    gsl_vector_free(fitted->coefficients);
    gsl_matrix_free(fitted->covariance);
}

static status fit_allocate(const terms *parts, fit *fitted, error_message *err)
{
    const size_t draws = (size_t)parts->draw_count;
    const size_t columns = 1 + (size_t)parts->column_count;
    *fitted = (fit){
        .workspace = gsl_multifit_linear_alloc(draws, columns),
        .design = gsl_matrix_alloc(draws, columns),
        .observed = gsl_vector_alloc(draws),
        .coefficients = gsl_vector_alloc(columns),
        .covariance = gsl_matrix_alloc(columns, columns),
    };
    if (fitted->workspace != NULL && fitted->design != NULL && fitted->observed != NULL &&
        fitted->coefficients != NULL && fitted->covariance != NULL) {
        return STATUS_OK;
    }
    return error_set(err, STATUS_NO_MEMORY, "out of memory for a fit of %d draws",
                     parts->draw_count);
}

static void fill_design(const ana_variation *variation, const terms *parts, fit *fitted)
{
    for (int draw = 0; draw < parts->draw_count; draw++) {
        const size_t row = (size_t)draw;
        gsl_vector_set(fitted->observed, row, parts->rest[draw]);
        gsl_matrix_set(fitted->design, row, 0, 1);
        for (int input = 0; input < variation->input_count; input++) {
            if (parts->column[input] < 0) continue;
            for (int degree = 1; degree <= parts->degree; degree++) {
                gsl_matrix_set(fitted->design, row, (size_t)(parts->column[input] + degree),
                               power_of(parts, input, degree)[draw]);
            }
        }
    }
}

static status solve(fit *fitted, error_message *err)
{
    const int code = gsl_multifit_linear(fitted->design, fitted->observed, fitted->coefficients,
                                         fitted->covariance, &fitted->squares, fitted->workspace);
    if (code == GSL_SUCCESS) return STATUS_OK;
    return error_set(err, STATUS_BACKEND, "least squares over the draws: %s", gsl_strerror(code));
}

static double share_of_input(const terms *parts, const fit *fitted, int input, double variance)
{
    if (parts->column[input] < 0) return 0;
    for (int draw = 0; draw < parts->draw_count; draw++)
        parts->term[draw] = 0;
    for (int degree = 1; degree <= parts->degree; degree++) {
        const double slope =
            gsl_vector_get(fitted->coefficients, (size_t)(parts->column[input] + degree));
        const double *power = power_of(parts, input, degree);
        for (int draw = 0; draw < parts->draw_count; draw++) {
            parts->term[draw] += slope * power[draw];
        }
    }
    // A term without effect follows the residuals by chance, by one degree of freedom a
    // coefficient.
    const int freedom = parts->draw_count - 1 - parts->column_count;
    const double chance = parts->degree * fitted->squares / freedom / (parts->draw_count - 1);
    return (covariance(parts->term, parts->logarithm, parts->draw_count) - chance) / variance;
}

static double share_of_factor(const ana_variation *variation, const terms *parts, int factor,
                              double variance)
{
    const double *values = row_of(variation->factors, factor, parts->draw_count);
    for (int draw = 0; draw < parts->draw_count; draw++)
        parts->term[draw] = log(values[draw]);
    return covariance(parts->term, parts->logarithm, parts->draw_count) / variance;
}

static void divide(const ana_variation *variation, const terms *parts, const fit *fitted,
                   double variance, double *shares, double *unexplained)
{
    double sum = 0;
    for (int source = 0; source < variation->input_count + variation->factor_count; source++) {
        const int factor = source - variation->input_count;
        const double share = factor < 0 ? share_of_input(parts, fitted, source, variance)
                                        : share_of_factor(variation, parts, factor, variance);
        shares[source] = fmax(share, 0);
        sum += shares[source];
    }
    *unexplained = fmax(1 - sum, 0);
}

static void divide_nothing(const ana_variation *variation, double *shares, double *unexplained)
{
    for (int source = 0; source < variation->input_count + variation->factor_count; source++) {
        shares[source] = 0;
    }
    *unexplained = 0;
}

status ana_variance_shares(const ana_variation *variation, arena *memory, double *shares,
                           double *unexplained, error_message *err)
{
    terms parts = {0};
    fit fitted = {0};
    if (variation->draw_count < 2 + 2 * variation->input_count) {
        return error_set(
            err, STATUS_INVALID, "%d draws are too few for the shares of %d inputs: at least %d",
            variation->draw_count, variation->input_count, 2 + 2 * variation->input_count);
    }
    carve(variation, memory, &parts);
    take_logarithms(variation, &parts);
    const double variance = covariance(parts.logarithm, parts.logarithm, parts.draw_count);
    if (variance <= STEADY_RATIO * STEADY_RATIO) {
        divide_nothing(variation, shares, unexplained);
        return STATUS_OK;
    }
    for (int input = 0; input < variation->input_count; input++) {
        raise_input(variation, input, &parts);
    }
    gsl_set_error_handler_off();
    status result = fit_allocate(&parts, &fitted, err);
    if (result == STATUS_OK) {
        fill_design(variation, &parts, &fitted);
        result = solve(&fitted, err);
    }
    if (result == STATUS_OK) divide(variation, &parts, &fitted, variance, shares, unexplained);
    fit_free(&fitted);
    return result;
}

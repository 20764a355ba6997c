#include "analysis/whatif/correction.h"

#include "analysis/calibration/calibration.h"
#include "base/file.h"
#include "base/rng.h"
#include "base/text.h"
#include "models/cost/dtype.h"

#include <gsl/gsl_blas.h>
#include <gsl/gsl_linalg.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

// Judgements, round numbers; what they are worth the README of analysis/validate says.

/// Of logs, how far off a part of a machine is.
static const double part_deviation[ANA_CORRECTED_PARTS] = {
    [MODEL_COST_PROJECTION] = 0.12, [MODEL_COST_MLP] = 0.12,      [MODEL_COST_ATTENTION] = 0.2,
    [MODEL_COST_ELEMENTWISE] = 0.2, [MODEL_COST_TENSOR] = 0.25,   [MODEL_COST_CONTEXT] = 0.25,
    [MODEL_COST_EXPERT] = 0.25,     [MODEL_COST_HOST] = 0.3,      [MODEL_COST_SHARDING] = 0.25,
    [ANA_CORRECTED_HEAD] = 0.15,    [ANA_CORRECTED_UPDATE] = 0.3, [ANA_CORRECTED_REST] = 0.25,
};
static const double shape_deviation = 0.12;
static const double layout_deviation = 0.04;
static const double layout_doublings = 3;      // over which the layouts' correlation falls by 1/e
static const double machine_correlation = 0.5; // of two machines that run the same software
/// Kernels know the width of an MLP less well than their other sizes.
static const double ffn_weight = 0.5;
// Tried are residuals of runs and deviations of machines; the first of each is the usual one.
static const double residuals[] = {0.02, 0.04, 0.08, 0.16, 0.32};
static const double machine_deviations[] = {0.1, 0.2, 0.4, 0.8, 1.6};
static const double student_degrees = 4;

enum {
    RESIDUALS = sizeof residuals / sizeof residuals[0],
    MACHINES = sizeof machine_deviations / sizeof machine_deviations[0],
    WEIGHTINGS = 5,
    DIGITS = 9
};

/// Adds a row of the costs to parts: what the host is too slow for is the host's.
static void add_row(const model_costs *costs, int row, double *parts)
{
    for (int pass = 0; pass < MODEL_PASS_COUNT; pass++) {
        const bool is_host = costs->part_ns[pass][MODEL_COST_HOST][row] > 0;
        for (int part = 0; part < MODEL_COST_PART_COUNT; part++) {
            parts[is_host ? MODEL_COST_HOST : part] += (double)costs->part_ns[pass][part][row];
        }
    }
}

/// Shares of an iteration of microbatches that go through even stages, the last of which has the
/// head; where that is more than the iteration took, as other schedules have it, in proportion.
static void measure_shares(const ana_setup *setup, double iteration_ns, double *share)
{
    const model_costs *costs = &setup->model_costs;
    const int stages = setup->study->stage_count;
    const int chunks = setup->stage_count / setup->machine.rank_count;
    const int last = costs->layers.layer_count - 1;
    const double microbatches = (double)setup->microbatch_count * setup->study->run.round_count;
    const double passes = (microbatches + (double)(stages - 1) / chunks) / stages;
    double embedding[MODEL_COST_PART_COUNT] = {0};
    double head[MODEL_COST_PART_COUNT] = {0};
    double sum = 0;
    add_row(costs, 0, embedding);
    add_row(costs, last, head);
    for (int row = 1; row < last; row++) {
        add_row(costs, row, share);
    }
    for (int part = 0; part < MODEL_COST_PART_COUNT; part++) {
        share[part] *= passes / iteration_ns;
        share[ANA_CORRECTED_HEAD] += (microbatches * head[part] + embedding[part]) / iteration_ns;
    }
    share[ANA_CORRECTED_UPDATE] = (double)costs->update_ns / iteration_ns;
    for (int part = 0; part < ANA_CORRECTED_PARTS; part++) {
        sum += share[part];
    }
    share[ANA_CORRECTED_REST] = fmax(0, 1 - sum);
    for (int part = 0; part < ANA_CORRECTED_PARTS && sum > 1; part++) {
        share[part] /= sum;
    }
}

static double log_of(int size)
{
    return log2(size > 1 ? size : 1);
}

void ana_machine_name(const ana_setup *setup, char name[ANA_MACHINE_BYTES])
{
    const model_hardware *hardware = &setup->hardware;
    const model_dtype dtype = setup->model_costs.shape.dtype;
    const double constants[] = {
        (double)hardware->flop_per_s[dtype], (double)hardware->memory_bytes_per_s,
        hardware->gemm_efficiency,           hardware->attention_efficiency,
        hardware->memory_efficiency,         (double)hardware->operator_ns,
        (double)hardware->kernel_ns,
    };
    const uint64_t hash = file_hash(FILE_HASH_START, constants, sizeof constants);
    snprintf(name, ANA_MACHINE_BYTES, "%s, %.48s, %016" PRIx64, model_dtype_name(dtype),
             hardware->name, hash);
}

void ana_time_parts_of(const ana_setup *setup, const ana_point *point, ana_time_parts *parts)
{
    const model_config *config = &setup->model_costs.config;
    const model_shape *shape = &setup->model_costs.shape;
    const model_parallel *parallel = &setup->study->parallel;
    *parts = (ana_time_parts){
        .layer_size = {log_of(config->hidden_size), log_of(config->head_count),
                       log_of(shape->microbatch_size), log_of(shape->sequence_length),
                       log_of(parallel->tensor), ffn_weight * log_of(config->ffn_size),
                       log_of(config->expert_count), log_of(parallel->expert),
                       log_of(parallel->context)},
        .head_size = {log_of(config->hidden_size), log_of(parallel->tensor),
                      log_of(shape->microbatch_size), log_of(shape->sequence_length),
                      log_of(config->vocabulary_size)},
        .layout_size = {log_of(setup->study->stage_count),
                        log_of(setup->stage_count / setup->machine.rank_count),
                        log_of(setup->replicas.rank_count)},
    };
    ana_machine_name(setup, parts->machine);
    measure_shares(setup, point->iteration_ns, parts->share);
}

static double doublings_between(const double *left, const double *right, int count)
{
    double doublings = 0;
    for (int size = 0; size < count; size++) {
        doublings += fabs(left[size] - right[size]);
    }
    return doublings;
}

static double related(const double *left, const double *right, int count)
{
    return ana_shape_correlation(doublings_between(left, right, count));
}

static double of_layers(const ana_time_parts *parts)
{
    double sum = 0;
    for (int part = 0; part < MODEL_COST_PART_COUNT; part++) {
        sum += parts->share[part];
    }
    return sum;
}

/// Covariance of the logs of two runs before any was measured.
///
/// @param machine standard deviation of a machine as a whole
static double covariance(const ana_time_parts *left, const ana_time_parts *right, double machine)
{
    const double shape = of_layers(left) * of_layers(right) *
                             related(left->layer_size, right->layer_size, ANA_LAYER_SIZES) +
                         left->share[ANA_CORRECTED_HEAD] * right->share[ANA_CORRECTED_HEAD] *
                             related(left->head_size, right->head_size, ANA_HEAD_SIZES);
    const double layout =
        exp(-doublings_between(left->layout_size, right->layout_size, ANA_LAYOUT_SIZES) /
            layout_doublings);
    double sum = machine * machine + shape_deviation * shape_deviation * shape +
                 layout_deviation * layout_deviation * layout;
    for (int part = 0; part < ANA_CORRECTED_PARTS; part++) {
        sum += part_deviation[part] * part_deviation[part] * left->share[part] * right->share[part];
    }
    return strcmp(left->machine, right->machine) == 0 ? sum : machine_correlation * sum;
}

/// Whether one run would show what another of its own shows.
static bool is_alike(const ana_time_parts *left, const ana_time_parts *right)
{
    return strcmp(left->machine, right->machine) == 0 &&
           memcmp(left->layer_size, right->layer_size, sizeof left->layer_size) == 0 &&
           memcmp(left->head_size, right->head_size, sizeof left->head_size) == 0;
}

/// Runs while a residual and a machine's deviation are tried.
typedef struct fitting {
    int count;
    const ana_time_parts *runs;
    gsl_vector_const_view ratios;
    gsl_matrix *prior;
    gsl_matrix *factor;
    gsl_vector *weight;
    double *variance; // [count] of each run's residual
} fitting;

static void relate_runs(fitting *of, double machine)
{
    for (int row = 0; row < of->count; row++) {
        for (int column = 0; column <= row; column++) {
            const double both = covariance(&of->runs[row], &of->runs[column], machine);
            gsl_matrix_set(of->prior, (size_t)row, (size_t)column, both);
            gsl_matrix_set(of->prior, (size_t)column, (size_t)row, both);
        }
    }
}

/// Solves for the weights with the variances as they are.
static status solve(fitting *of, error_message *err)
{
    gsl_matrix_memcpy(of->factor, of->prior);
    for (int run = 0; run < of->count; run++) {
        *gsl_matrix_ptr(of->factor, (size_t)run, (size_t)run) += of->variance[run];
    }
    if (gsl_linalg_cholesky_decomp1(of->factor) != GSL_SUCCESS) {
        return error_set(err, STATUS_INVALID, "the measured runs have no covariance");
    }
    gsl_linalg_cholesky_solve(of->factor, &of->ratios.vector, of->weight);
    return STATUS_OK;
}

/// Gives runs that are far off larger variances, those that make Student's t of a normal
/// (iteratively reweighted least squares).
static void weigh(fitting *of, double residual)
{
    for (int run = 0; run < of->count; run++) {
        const double off = of->variance[run] * gsl_vector_get(of->weight, (size_t)run);
        of->variance[run] =
            (student_degrees * residual * residual + off * off) / (student_degrees + 1);
    }
}

/// How well the runs are explained: the log of their normal density with the variances that were
/// found, less what is unusual.
static double evidence_of(const fitting *of, double residual, double machine)
{
    double fit = 0;
    gsl_blas_ddot(&of->ratios.vector, of->weight, &fit);
    double evidence = -fit / 2 - pow(log(residual / residuals[0]), 2) / 2 -
                      pow(log(machine / machine_deviations[0]), 2) / 4;
    for (size_t run = 0; run < (size_t)of->count; run++) {
        evidence -= log(gsl_matrix_get(of->factor, run, run));
    }
    return evidence;
}

static status try_residual(fitting *of, double residual, error_message *err)
{
    for (int run = 0; run < of->count; run++) {
        of->variance[run] = residual * residual;
    }
    TRY(solve(of, err));
    for (int weighting = 0; weighting < WEIGHTINGS; weighting++) {
        weigh(of, residual);
        TRY(solve(of, err));
    }
    return STATUS_OK;
}

/// Tries residuals from the least upwards, until they explain the runs no better; a larger one that
/// would after all is not looked for.
static status try_machine(fitting *of, double machine, double *best, ana_correction *out,
                          error_message *err)
{
    const size_t count = (size_t)of->count;
    double last = -INFINITY;
    relate_runs(of, machine);
    for (int trial = 0; trial < RESIDUALS; trial++) {
        TRY(try_residual(of, residuals[trial], err));
        const double evidence = evidence_of(of, residuals[trial], machine);
        if (evidence < last) break;
        last = evidence;
        if (evidence <= *best) continue;
        *best = out->evidence = evidence;
        out->residual = residuals[trial];
        out->machine_deviation = machine;
        memcpy(out->factor, of->factor->data, count * count * sizeof *out->factor);
        memcpy(out->weight, of->weight->data, count * sizeof *out->weight);
    }
    return STATUS_OK;
}

static status fit(fitting *of, ana_correction *out, error_message *err)
{
    double best = -INFINITY;
    for (int trial = 0; trial < MACHINES; trial++) {
        TRY(try_machine(of, machine_deviations[trial], &best, out, err));
    }
    return STATUS_OK;
}

status ana_correction_fit(const ana_time_parts *runs, const double *log_ratios, int run_count,
                          arena *memory, ana_correction *out, error_message *err)
{
    if (run_count < 1 || run_count > ANA_CORRECTION_RUNS_MAX) {
        return error_set(err, STATUS_INVALID, "%d runs to learn from: it takes 1 to %d", run_count,
                         ANA_CORRECTION_RUNS_MAX);
    }
    const size_t count = (size_t)run_count;
    gsl_set_error_handler_off(); // a factor that is none is a status
    *out = (ana_correction){.run_count = run_count, .runs = runs, .log_ratios = log_ratios};
    out->factor = arena_array(memory, count * count, sizeof *out->factor);
    out->weight = arena_array(memory, count, sizeof *out->weight);
    fitting of = {.count = run_count,
                  .runs = runs,
                  .ratios = gsl_vector_const_view_array(log_ratios, count),
                  .prior = gsl_matrix_alloc(count, count),
                  .factor = gsl_matrix_alloc(count, count),
                  .weight = gsl_vector_alloc(count),
                  .variance = arena_array(memory, count, sizeof *of.variance)};
    const status fitted = fit(&of, out, err);
    gsl_matrix_free(of.prior);
    gsl_matrix_free(of.factor);
    gsl_vector_free(of.weight);
    return fitted;
}

/// How a point hangs together with the runs, and what of it they do not tell: the lower factor's
/// inverse times that.
///
/// @param with [run_count] out
/// @param told [run_count] out
static void relate(const ana_correction *correction, const ana_time_parts *parts, double *with,
                   double *told)
{
    const size_t count = (size_t)correction->run_count;
    gsl_matrix_const_view factor = gsl_matrix_const_view_array(correction->factor, count, count);
    gsl_vector_view solved = gsl_vector_view_array(told, count);
    for (size_t run = 0; run < count; run++) {
        with[run] = told[run] =
            covariance(parts, &correction->runs[run], correction->machine_deviation);
    }
    gsl_blas_dtrsv(CblasLower, CblasNoTrans, CblasNonUnit, &factor.matrix, &solved.vector);
}

static double product(const double *left, const double *right, int count)
{
    double sum = 0;
    for (int index = 0; index < count; index++) {
        sum += left[index] * right[index];
    }
    return sum;
}

ana_corrected ana_correction_predict(const ana_correction *correction, const ana_time_parts *parts,
                                     double *scratch)
{
    const int count = correction->run_count;
    double *told = scratch + count;
    relate(correction, parts, scratch, told);
    const double open =
        covariance(parts, parts, correction->machine_deviation) - product(told, told, count);
    return (ana_corrected){
        .log_factor = product(scratch, correction->weight, count),
        .deviation = sqrt(fmax(0, open) + correction->residual * correction->residual),
    };
}

double ana_correction_factor(const ana_correction *correction, const ana_time_parts *parts)
{
    double log_factor = 0;
    for (int run = 0; run < correction->run_count; run++) {
        log_factor += correction->weight[run] *
                      covariance(parts, &correction->runs[run], correction->machine_deviation);
    }
    return text_rounded(exp(log_factor), DIGITS);
}

bool ana_correction_has(const ana_correction *correction, const ana_time_parts *parts,
                        double log_ratio)
{
    for (int run = 0; run < correction->run_count; run++) {
        if (correction->log_ratios[run] == log_ratio &&
            memcmp(&correction->runs[run], parts, sizeof *parts) == 0) {
            return true;
        }
    }
    return false;
}

bool ana_correction_knows(const ana_correction *correction, const char *machine)
{
    int run = 0;
    while (run < correction->run_count && strcmp(correction->runs[run].machine, machine) != 0) {
        run++;
    }
    return run < correction->run_count;
}

/// The lower factor of what is open of points, all of it together.
static status factorise(const ana_correction *correction, const ana_time_parts *points, int count,
                        const double *told, gsl_matrix *factor, error_message *err)
{
    static const double least = 1e-10; // so that points that are the same have a factor
    const int runs = correction->run_count;
    for (int row = 0; row < count; row++) {
        for (int column = 0; column < count; column++) {
            double open = covariance(&points[row], &points[column], correction->machine_deviation) -
                          product(told + (size_t)row * (size_t)runs,
                                  told + (size_t)column * (size_t)runs, runs);
            if (is_alike(&points[row], &points[column])) {
                open += correction->residual * correction->residual;
            }
            gsl_matrix_set(factor, (size_t)row, (size_t)column, open + (row == column ? least : 0));
        }
    }
    if (gsl_linalg_cholesky_decomp1(factor) == GSL_SUCCESS) return STATUS_OK;
    return error_set(err, STATUS_INVALID, "what measured runs leave open has no covariance");
}

/// Standard normal numbers [draw_count][point_count]; those of a point have the mean 0, so that its
/// draws are right in the mean.
static double *draw_normals(int point_count, int draw_count, uint64_t seed, arena *memory)
{
    const size_t count = (size_t)point_count * (size_t)draw_count;
    double *normals = arena_array(memory, count, sizeof *normals);
    rng random = rng_init(seed, 1);
    for (size_t index = 0; index < count; index++) {
        normals[index] = rng_normal(&random);
    }
    for (int point = 0; point < point_count; point++) {
        double sum = 0;
        for (size_t index = (size_t)point; index < count; index += (size_t)point_count) {
            sum += normals[index];
        }
        for (size_t index = (size_t)point; index < count; index += (size_t)point_count) {
            normals[index] -= sum / draw_count;
        }
    }
    return normals;
}

status ana_correction_draw(const ana_correction *correction, const ana_time_parts *points,
                           int point_count, uint64_t seed, int draw_count, arena *memory,
                           double *factors, error_message *err)
{
    static const double widening = ANA_CORRECTION_REACH / 1.6449;
    const size_t runs = (size_t)correction->run_count;
    const size_t count = (size_t)point_count;
    double *with = arena_array(memory, runs, sizeof *with);
    double *told = arena_array(memory, count * runs, sizeof *told);
    double *middle = arena_array(memory, count, sizeof *middle);
    double *normals = draw_normals(point_count, draw_count, seed, memory);
    gsl_matrix *factor = gsl_matrix_alloc(count, count);
    for (size_t point = 0; point < count; point++) {
        relate(correction, &points[point], with, told + point * runs);
        middle[point] = product(with, correction->weight, (int)runs);
    }
    const status factorised = factorise(correction, points, point_count, told, factor, err);
    for (size_t point = 0; factorised == STATUS_OK && point < count; point++) {
        const double *row = gsl_matrix_const_ptr(factor, point, 0);
        const double variance = product(row, row, (int)point + 1) * widening * widening;
        for (int draw = 0; draw < draw_count; draw++) {
            const double moved = product(row, normals + (size_t)draw * count, (int)point + 1);
            factors[point * (size_t)draw_count + (size_t)draw] =
                text_rounded(exp(middle[point] + widening * moved - variance / 2), DIGITS);
        }
    }
    gsl_matrix_free(factor);
    return factorised;
}

/// Quantiles of a sweep, and how its rounds grow: least-squares fits with intervals.
#include "analysis/converge/converge_sweep.h"

#include <gsl/gsl_cdf.h>
#include <gsl/gsl_fit.h>
#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>

#include <math.h>

enum { FIT_POINTS_MIN = 3 };

/// Nearest rank of sorted values.
static double quantile(const double *sorted, int count, double share)
{
    const int rank = (int)ceil(share * count);
    return sorted[rank < 1 ? 0 : rank - 1];
}

static ana_estimate interval(double value, double deviation, int freedom)
{
    const double half = gsl_cdf_tdist_Pinv(0.975, freedom) * deviation;
    return (ana_estimate){.value = value, .low = value - half, .high = value + half};
}

static ana_estimate mean_of(const double *values, int count)
{
    const double mean = gsl_stats_mean(values, 1, (size_t)count);
    return interval(mean, gsl_stats_sd(values, 1, (size_t)count) / sqrt(count), count - 1);
}

static void add_rounds(const ana_sweep *sweep, const ana_sweep_point *point, double *rounds,
                       ana_point_summary *summary)
{
    const int count = sweep->instance_count;
    for (int index = 0; index < count; index++) {
        rounds[index] = (double)point->instances[index].round_count;
    }
    gsl_sort(rounds, 1, (size_t)count);
    summary->rounds_median = (int64_t)quantile(rounds, count, 0.5);
    summary->rounds_p95 = (int64_t)quantile(rounds, count, 0.95);
    summary->rounds_max = (int64_t)rounds[count - 1];
}

static void add_good_rounds(const ana_sweep *sweep, const ana_sweep_point *point,
                            ana_point_summary *summary)
{
    int64_t rounds = 0;
    int64_t good = 0;
    for (int index = 0; index < sweep->instance_count; index++) {
        const ana_instance *at = &point->instances[index];
        rounds += at->round_count;
        good += at->good_round_count;
        summary->potential_first = fmax(summary->potential_first, at->potential_first);
    }
    summary->good_round_ratio = (double)good / (double)rounds; // NaN without a round
}

static void compare_with_bounds(const ana_sweep *sweep, const ana_sweep_point *point,
                                double *constants, ana_point_summary *summary)
{
    const ana_bound_question largest = {.node_count = point->graph.node_count,
                                        .potential = summary->potential_first,
                                        .stop = sweep->instance.stop,
                                        .gamma = point->gamma,
                                        .delta = sweep->delta};
    int within = 0;
    int count = 0;
    for (int index = 0; index < sweep->instance_count; index++) {
        const ana_instance *at = &point->instances[index];
        ana_bound_question own = largest;
        own.potential = at->potential_first;
        within += at->round_count <= ana_bound_repaired(&own);
        const double constant = ana_convergence_constant(&own, (double)at->round_count);
        if (!isnan(constant)) constants[count++] = constant;
    }
    gsl_sort(constants, 1, (size_t)count);
    summary->constant = count > 0 ? quantile(constants, count, 0.5) : (double)NAN;
    summary->within_repaired_ratio = (double)within / sweep->instance_count;
    summary->bound_paper = ana_bound_paper(&largest);
    summary->bound_repaired = ana_bound_repaired(&largest);
    summary->rounds_spectral =
        ana_rounds_predicted(&largest, ana_scheme_contraction(sweep->scheme, &point->graph));
}

/// Slope of y over x by least squares.
static ana_estimate slope_of(const double *x, const double *y, int count)
{
    double intercept = 0;
    double slope = 0;
    double cov00 = 0;
    double cov01 = 0;
    double cov11 = 0;
    double residual = 0;
    gsl_fit_linear(x, 1, y, 1, (size_t)count, &intercept, &slope, &cov00, &cov01, &cov11,
                   &residual);
    return interval(slope, sqrt(cov11), count - 2);
}

static void fit_nodes(const ana_sweep *sweep, const ana_point_summary *summaries,
                      ana_sweep_fit *fit)
{
    double nodes[ANA_SWEEP_POINTS_MAX];
    double rounds[ANA_SWEEP_POINTS_MAX];
    double corrected[ANA_SWEEP_POINTS_MAX];
    double constants[ANA_SWEEP_POINTS_MAX];
    int count = 0;
    for (int point = 0; point < sweep->nodes_count; point++) {
        const ana_point_summary *at = &summaries[point];
        if (at->rounds_median < 1 || isnan(at->constant)) continue;
        nodes[count] = log(sweep->nodes[point]);
        rounds[count] = log((double)at->rounds_median);
        corrected[count] = log(at->constant) + 2 * nodes[count];
        constants[count++] = at->constant;
    }
    if (count < FIT_POINTS_MIN) return;
    fit->has_nodes = true;
    fit->exponent = slope_of(nodes, rounds, count);
    fit->log_corrected = slope_of(nodes, corrected, count);
    fit->constant = mean_of(constants, count);
}

static void fit_gammas(const ana_sweep *sweep, const ana_point_summary *summaries,
                       ana_sweep_fit *fit)
{
    double decades[ANA_SWEEP_POINTS_MAX];
    double rounds[ANA_SWEEP_POINTS_MAX];
    int count = 0;
    for (int point = 0; point < sweep->gamma_count; point++) {
        if (summaries[point].rounds_median < 1) continue;
        decades[count] = -log10(sweep->gammas[point]);
        rounds[count++] = (double)summaries[point].rounds_median;
    }
    if (count < FIT_POINTS_MIN) return;
    fit->has_gammas = true;
    fit->per_decade = slope_of(decades, rounds, count);
}

void ana_sweep_summarise(ana_sweep_answer *answer, double *scratch)
{
    const ana_sweep *sweep = answer->sweep;
    for (int point = 0; point < ana_sweep_point_count(sweep); point++) {
        ana_point_summary *summary = &answer->summaries[point];
        *summary = (ana_point_summary){.rounds_median = 0};
        add_rounds(sweep, &answer->points[point], scratch, summary);
        add_good_rounds(sweep, &answer->points[point], summary);
        compare_with_bounds(sweep, &answer->points[point], scratch, summary);
    }
    if (sweep->gamma_count == 1) fit_nodes(sweep, answer->summaries, &answer->fit);
    if (sweep->nodes_count == 1) fit_gammas(sweep, answer->summaries, &answer->fit);
}

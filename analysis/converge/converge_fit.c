#include "analysis/converge/converge_fit.h"

#include <gsl/gsl_cdf.h>
#include <gsl/gsl_fit.h>
#include <gsl/gsl_statistics_double.h>

#include <assert.h>
#include <math.h>

static ana_estimate interval(double value, double deviation, int freedom)
{
    const double half = gsl_cdf_tdist_Pinv(0.975, freedom) * deviation;
    return (ana_estimate){.value = value, .low = value - half, .high = value + half};
}

ana_estimate ana_fit_slope(const double *x, const double *y, int count)
{
    assert(count >= ANA_FIT_POINTS_MIN);
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

static ana_estimate mean_of(const double *values, int count)
{
    const double deviation = gsl_stats_sd(values, 1, (size_t)count);
    return interval(gsl_stats_mean(values, 1, (size_t)count), deviation / sqrt(count), count - 1);
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
    if (count < ANA_FIT_POINTS_MIN) return;
    fit->has_nodes = true;
    fit->exponent = ana_fit_slope(nodes, rounds, count);
    fit->log_corrected = ana_fit_slope(nodes, corrected, count);
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
    if (count < ANA_FIT_POINTS_MIN) return;
    fit->has_gammas = true;
    fit->per_decade = ana_fit_slope(decades, rounds, count);
}

ana_sweep_fit ana_sweep_fit_make(const ana_sweep *sweep, const ana_point_summary *summaries)
{
    ana_sweep_fit fit = {0};
    if (sweep->gamma_count == 1) fit_nodes(sweep, summaries, &fit);
    if (sweep->nodes_count == 1) fit_gammas(sweep, summaries, &fit);
    return fit;
}

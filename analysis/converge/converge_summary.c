/// What the instances of a point of a sweep say together.
#include "analysis/converge/converge_sweep.h"

#include <gsl/gsl_cdf.h>
#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>

#include <math.h>

/// Nearest rank of sorted values.
static double quantile(const double *sorted, int count, double share)
{
    const int rank = (int)ceil(share * count);
    return sorted[rank < 1 ? 0 : rank - 1];
}

static void summarise_rounds(const ana_sweep_point *point, int count, double *rounds,
                             ana_point_summary *summary)
{
    for (int index = 0; index < count; index++) {
        rounds[index] = (double)point->instances[index].round_count;
    }
    gsl_sort(rounds, 1, (size_t)count);
    summary->rounds_median = (int64_t)quantile(rounds, count, 0.5);
    summary->rounds_p95 = (int64_t)quantile(rounds, count, 0.95);
    summary->rounds_min = (int64_t)rounds[0];
    summary->rounds_max = (int64_t)rounds[count - 1];
    summary->rounds_mean = gsl_stats_mean(rounds, 1, (size_t)count);
}

static void find_interval(const double *rounds, int count, bool is_certain,
                          ana_point_summary *summary)
{
    summary->rounds_low = summary->rounds_high = (double)NAN;
    if (is_certain || count < 2) return;
    const double deviation = gsl_stats_sd(rounds, 1, (size_t)count);
    const double half = gsl_cdf_tdist_Pinv(0.975, count - 1) * deviation / sqrt(count);
    summary->rounds_low = summary->rounds_mean - half;
    summary->rounds_high = summary->rounds_mean + half;
}

/// Of one instance alone.
static double mean_drop_of(const ana_instance *instance)
{
    const double folds = log(instance->potential_last / instance->potential_first);
    return -expm1(folds / (double)instance->round_count);
}

static void add_drops(const ana_sweep_point *point, int count, ana_point_summary *summary)
{
    int64_t rounds = 0;
    int64_t good = 0;
    int64_t sixteenth = 0;
    int with_rounds = 0;
    double drops = 0;
    for (int index = 0; index < count; index++) {
        const ana_instance *at = &point->instances[index];
        rounds += at->round_count;
        good += at->good_round_count;
        sixteenth += at->sixteenth_round_count;
        summary->drop_check_count += at->drop_check_count;
        summary->drop_violation_count += at->drop_violation_count;
        summary->good_rounds_max = at->good_round_count > summary->good_rounds_max
                                       ? at->good_round_count
                                       : summary->good_rounds_max;
        summary->potential_first = fmax(summary->potential_first, at->potential_first);
        summary->smallest_drop_share = fmin(summary->smallest_drop_share, at->smallest_drop_share);
        if (at->round_count == 0) continue;
        const double ratio = (double)at->good_round_count / (double)at->round_count;
        summary->good_round_ratio_min = fmin(summary->good_round_ratio_min, ratio);
        drops += mean_drop_of(at);
        with_rounds++;
    }
    summary->good_round_ratio = (double)good / (double)rounds; // NaN without a round
    summary->sixteenth_round_ratio = (double)sixteenth / (double)rounds;
    summary->mean_drop_ratio = drops / with_rounds;
}

static ana_bound_question question_of(const ana_sweep *sweep, const ana_sweep_point *point,
                                      double potential)
{
    return (ana_bound_question){.node_count = point->graph.node_count,
                                .potential = potential,
                                .stop = sweep->instance.stop,
                                .gamma = point->gamma,
                                .delta = sweep->delta};
}

static void compare_with_bounds(const ana_sweep *sweep, const ana_sweep_point *point,
                                double *constants, ana_point_summary *summary)
{
    const ana_bound_question largest = question_of(sweep, point, summary->potential_first);
    const double contraction =
        ana_scheme_contraction(sweep->scheme, &point->graph, &sweep->options);
    int within = 0;
    int count = 0;
    for (int index = 0; index < sweep->instance_count; index++) {
        const ana_instance *at = &point->instances[index];
        const ana_bound_question own = question_of(sweep, point, at->potential_first);
        within += at->round_count <= ana_bound_repaired(&own);
        const double constant = ana_convergence_constant(&own, (double)at->round_count);
        if (!isnan(constant)) constants[count++] = constant;
    }
    gsl_sort(constants, 1, (size_t)count);
    summary->constant = count > 0 ? quantile(constants, count, 0.5) : (double)NAN;
    summary->within_repaired_ratio = (double)within / sweep->instance_count;
    summary->bound_paper = ana_bound_paper(&largest);
    summary->bound_repaired = ana_bound_repaired(&largest);
    summary->rounds_spectral = ana_rounds_predicted(&largest, contraction);
}

ana_point_summary ana_point_summarise(const ana_sweep *sweep, const ana_sweep_point *point,
                                      double *scratch)
{
    const int count = sweep->instance_count;
    ana_point_summary summary = {.smallest_drop_share = (double)INFINITY,
                                 .good_round_ratio_min = (double)INFINITY};
    summarise_rounds(point, count, scratch, &summary);
    find_interval(scratch, count, ana_sweep_is_certain(sweep), &summary);
    add_drops(point, count, &summary);
    compare_with_bounds(sweep, point, scratch + count, &summary);
    return summary;
}

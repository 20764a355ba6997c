#include "analysis/whatif/goodput.h"

#include <assert.h>
#include <math.h>

#include <gsl/gsl_cdf.h>

#define SECONDS_PER_HOUR 3600.0
#define HOPELESS_RATIO 50.0 // e^50 attempts

double ana_failures_mtbf_s(const ana_failures *failures, double gpu_count)
{
    return failures->mtbf_hours * SECONDS_PER_HOUR / gpu_count;
}

double ana_checkpoint_interval_s(const ana_failures *failures, double gpu_count)
{
    const double mtbf_s = ana_failures_mtbf_s(failures, gpu_count);
    const double ratio = failures->checkpoint_s / (2 * mtbf_s);
    if (failures->interval_s > 0) return failures->interval_s;
    if (ratio >= 1) return mtbf_s;
    return sqrt(2 * failures->checkpoint_s * mtbf_s) * (1 + sqrt(ratio) / 3 + ratio / 9) -
           failures->checkpoint_s;
}

/// A job cut into parts of work and a checkpoint each; the last one may be shorter.
typedef struct parts {
    double mtbf_s;
    double part_s;
    double whole_count; // parts of part_s
    double last_s;      // what is left: less than part_s
} parts;

static parts cut(const ana_failures *failures, const ana_job *job)
{
    const double mtbf_s = ana_failures_mtbf_s(failures, job->gpu_count);
    double interval_s = ana_checkpoint_interval_s(failures, job->gpu_count);
    assert(mtbf_s > 0 && job->work_s > 0);
    // Free checkpoints could come all the time: a thousandth of the time between failures is near.
    if (!(interval_s > 0)) interval_s = mtbf_s / 1000;
    const double count = floor(job->work_s / interval_s);
    const double rest_s = job->work_s - count * interval_s;
    return (parts){
        .mtbf_s = mtbf_s,
        .part_s = interval_s + failures->checkpoint_s,
        .whole_count = count,
        .last_s = rest_s > 0 ? rest_s + failures->checkpoint_s : 0,
    };
}

/// Mean and variance of something that takes time_s if nothing fails, and begins anew, after
/// recovery, whenever something does.
typedef struct moments {
    double mean;
    double variance;
} moments;

static moments until_done(double time_s, double mtbf_s, moments recovery)
{
    // The failures before the success are geometric; each loses an exponential time below time_s.
    const double failures_mean = expm1(time_s / mtbf_s);
    const double failures_variance = failures_mean * (1 + failures_mean);
    if (failures_mean == 0) return (moments){time_s, 0};
    const double lost_mean = mtbf_s - time_s / failures_mean;
    const double lost_square =
        2 * mtbf_s * mtbf_s - (time_s * time_s + 2 * mtbf_s * time_s) / failures_mean;
    const double lost_variance = fmax(lost_square - lost_mean * lost_mean, 0);
    const double each_mean = lost_mean + recovery.mean;
    return (moments){
        .mean = time_s + failures_mean * each_mean,
        .variance = failures_mean * (lost_variance + recovery.variance) +
                    failures_variance * each_mean * each_mean,
    };
}

static moments all_moments(const ana_failures *failures, const parts *divided)
{
    const moments none = {0};
    const moments restart = until_done(failures->restart_s, divided->mtbf_s, none);
    const moments part = until_done(divided->part_s, divided->mtbf_s, restart);
    const moments last = until_done(divided->last_s, divided->mtbf_s, restart);
    return (moments){
        .mean = part.mean * divided->whole_count + last.mean,
        .variance = part.variance * divided->whole_count + last.variance,
    };
}

bool ana_delivery_expect(const ana_failures *failures, const ana_job *job, ana_delivery *delivery)
{
    const parts divided = cut(failures, job);
    const double longest_s = divided.whole_count > 0 ? divided.part_s : divided.last_s;
    const double limit_s = HOPELESS_RATIO * divided.mtbf_s;
    if (longest_s > limit_s || failures->restart_s > limit_s) return false;
    const moments all = all_moments(failures, &divided);
    const double least_s = divided.part_s * divided.whole_count + divided.last_s;
    *delivery = (ana_delivery){
        .least_s = least_s,
        .none_probability = exp(-least_s / divided.mtbf_s),
        .mean_s = all.mean,
        .deviation_s = sqrt(all.variance),
    };
    return true;
}

double ana_delivery_quantile(const ana_delivery *delivery, double quantile)
{
    static const double least_quantile = 1e-6; // nearer to 0 the inverse is not found
    const double some = 1 - delivery->none_probability;
    if (quantile <= delivery->none_probability || !(some > 0)) return delivery->least_s;
    // Mean and variance of what is lost where something is.
    const double all_mean = delivery->mean_s - delivery->least_s;
    const double all_square = delivery->deviation_s * delivery->deviation_s + all_mean * all_mean;
    const double mean = all_mean / some;
    const double variance = all_square / some - mean * mean;
    const double within = (quantile - delivery->none_probability) / some;
    if (!(variance > 1e-9 * mean * mean)) return delivery->least_s + mean;
    return delivery->least_s + gsl_cdf_gamma_Pinv(fmax(within, least_quantile),
                                                  mean * mean / variance, variance / mean);
}

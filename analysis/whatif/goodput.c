#include "analysis/whatif/goodput.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>

#include <gsl/gsl_cdf.h>

#define SECONDS_PER_HOUR 3600.0
#define FAILURES_TO_DRAW 1000.0
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

static status check_hope(const ana_failures *failures, const parts *divided, double gpu_count,
                         error_message *err)
{
    const double longest_s = divided->whole_count > 0 ? divided->part_s : divided->last_s;
    const double limit_s = HOPELESS_RATIO * divided->mtbf_s;
    if (longest_s <= limit_s && failures->restart_s <= limit_s) return STATUS_OK;
    return error_set(err, STATUS_INFEASIBLE,
                     "%.6g GPUs fail every %.3g s; work of %.3g s with its checkpoint, or a "
                     "restart of %.3g s, is never finished",
                     gpu_count, divided->mtbf_s, longest_s, failures->restart_s);
}

status ana_delivery_expect(const ana_failures *failures, const ana_job *job, ana_delivery *delivery,
                           error_message *err)
{
    const parts divided = cut(failures, job);
    TRY(check_hope(failures, &divided, job->gpu_count, err));
    const moments all = all_moments(failures, &divided);
    *delivery = (ana_delivery){all.mean, sqrt(all.variance)};
    return STATUS_OK;
}

static double draw_gap_s(double mtbf_s, rng *generator)
{
    return gsl_cdf_exponential_Pinv(rng_unit(generator), mtbf_s);
}

/// The restart, with those that begin anew.
static double draw_restart_s(double restart_s, double mtbf_s, rng *generator)
{
    double spent_s = 0;
    for (;;) {
        const double gap_s = draw_gap_s(mtbf_s, generator);
        if (gap_s >= restart_s) return spent_s + restart_s;
        spent_s += gap_s;
    }
}

/// A failure takes back what was done of the part that it comes in. The time to the next one does
/// not depend on what has been, so that many parts pass in one step.
static double draw_failures_s(const ana_failures *failures, const parts *divided, rng *generator)
{
    double done = 0; // whole parts
    double spent_s = 0;
    for (;;) {
        const double gap_s = draw_gap_s(divided->mtbf_s, generator);
        const double whole_s = (divided->whole_count - done) * divided->part_s;
        if (gap_s >= whole_s + divided->last_s) return spent_s + whole_s + divided->last_s;
        done = fmin(done + floor(gap_s / divided->part_s), divided->whole_count);
        spent_s += gap_s + draw_restart_s(failures->restart_s, divided->mtbf_s, generator);
    }
}

static double draw_normal_s(moments all, rng *generator)
{
    const double unit = rng_unit(generator) + 0x1p-54; // not 0, whose quantile is without end
    return all.mean + sqrt(all.variance) * gsl_cdf_ugaussian_Pinv(unit);
}

status ana_delivery_draw(const ana_failures *failures, const ana_job *job, rng *generator,
                         double *time_s, error_message *err)
{
    const parts divided = cut(failures, job);
    TRY(check_hope(failures, &divided, job->gpu_count, err));
    const moments all = all_moments(failures, &divided);
    const bool is_many = all.mean / divided.mtbf_s > FAILURES_TO_DRAW;
    *time_s =
        is_many ? draw_normal_s(all, generator) : draw_failures_s(failures, &divided, generator);
    return STATUS_OK;
}

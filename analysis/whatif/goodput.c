#include "analysis/whatif/goodput.h"

#include <assert.h>
#include <math.h>

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

double ana_delivery_s(const ana_failures *failures, double work_s, double gpu_count)
{
    const double mtbf_s = ana_failures_mtbf_s(failures, gpu_count);
    double interval_s = ana_checkpoint_interval_s(failures, gpu_count);
    assert(mtbf_s > 0 && work_s > 0);
    // Free checkpoints could come all the time: a thousandth of the time between failures is near.
    if (!(interval_s > 0)) interval_s = mtbf_s / 1000;
    const double count = floor(work_s / interval_s);
    const double rest_s = work_s - count * interval_s;
    const double part_s = interval_s + failures->checkpoint_s;
    const double last_s = rest_s > 0 ? rest_s + failures->checkpoint_s : 0;
    const double longest_s = fmax(count > 0 ? part_s : last_s, failures->restart_s);
    if (longest_s > HOPELESS_RATIO * mtbf_s) return INFINITY;
    return mtbf_s * exp(failures->restart_s / mtbf_s) *
           (count * expm1(part_s / mtbf_s) + expm1(last_s / mtbf_s));
}

#include "analysis/whatif/delivery.h"

#include "analysis/whatif/goodput.h"
#include "analysis/whatif/ranking.h"
#include "base/rng.h"

#include <math.h>

enum { RUNS = 4096, FAILURE_PURPOSE = 0x6661696c };

#define NS_PER_S 1e9
#define LATE_QUANTILE 0.95

static ana_job job_of(const ana_drawn_run *run)
{
    return (ana_job){.work_s = run->train_ns / NS_PER_S, .gpu_count = run->gpu_count};
}

/// One run of a draw; INFINITY if it does not fit or never ends.
static double draw_time(const ana_drawn_run *run, uint64_t seed, uint64_t purpose)
{
    const ana_job job = job_of(run);
    rng random = rng_init(seed ^ FAILURE_PURPOSE, purpose);
    double time_s = INFINITY;
    if (run->refusal != ANA_REFUSAL_NONE) return INFINITY;
    if (ana_delivery_draw(&run->failures, &job, &random, &time_s, NULL) != STATUS_OK) {
        return INFINITY;
    }
    return time_s;
}

/// With the inputs as the study has them.
static void describe(const ana_drawn_run *nominal, ana_delivery_range *range)
{
    const ana_job job = job_of(nominal);
    ana_delivery expected;
    range->mtbf_s = ana_failures_mtbf_s(&nominal->failures, nominal->gpu_count);
    range->interval_s = ana_checkpoint_interval_s(&nominal->failures, nominal->gpu_count);
    range->failure_count = range->middle_s / range->mtbf_s;
    if (ana_delivery_expect(&nominal->failures, &job, &expected, NULL) == STATUS_OK) {
        range->expected_ratio = job.work_s / expected.mean_s;
    }
}

void ana_delivery_find(const ana_drawn_points *drawn, int point, uint64_t seed, arena *memory,
                       ana_delivery_range *range)
{
    const ana_drawn_run *nominal = &drawn->nominal[point];
    const int draws = drawn->draw_count;
    const int each = draws < RUNS ? (RUNS + draws - 1) / draws : 1;
    const size_t count = (size_t)draws * (size_t)each;
    *range = (ana_delivery_range){0};
    if (!(nominal->failures.mtbf_hours > 0) || !(nominal->train_ns > 0)) return;
    double *times = arena_array(memory, 3 * count, sizeof *times);
    double *const ratios = times + count;
    double *const scratch = times + 2 * count;
    for (int draw = 0; draw < draws; draw++) {
        const ana_drawn_run run = ana_drawn_run_of(drawn, point, draw);
        for (int repeat = 0; repeat < each; repeat++) {
            const size_t place = (size_t)draw * (size_t)each + (size_t)repeat;
            times[place] = draw_time(&run, seed, place);
            ratios[place] = isinf(times[place]) ? 0 : run.train_ns / NS_PER_S / times[place];
        }
    }
    range->is_known = true;
    range->middle_s = ana_quantile_of(times, (int)count, 0.5, scratch);
    range->late_s = ana_quantile_of(times, (int)count, LATE_QUANTILE, scratch);
    range->goodput_ratio = ana_quantile_of(ratios, (int)count, 0.5, scratch);
    describe(nominal, range);
}

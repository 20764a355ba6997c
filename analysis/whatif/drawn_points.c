#include "analysis/whatif/drawn_points.h"

#include "base/arena.h"
#include "base/json.h"
#include "base/rng.h"
#include "base/text.h"

#include <assert.h>
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_MAX = 512 };

#define FACTOR_MIN 0.01
#define ROUNDING 1e-12

double ana_resample_residuals(double *times, int count)
{
    const double middle = (count - 1) / 2.0;
    double mean = 0;
    double along = 0; // products with the distance from the middle
    double spread = 0;
    for (int iteration = 0; iteration < count; iteration++)
        mean += times[iteration] / count;
    for (int iteration = 0; iteration < count; iteration++) {
        along += (iteration - middle) * (times[iteration] - mean);
        spread += (iteration - middle) * (iteration - middle);
    }
    const double slope = spread > 0 ? along / spread : 0;
    for (int iteration = 0; iteration < count; iteration++) {
        times[iteration] -= mean + slope * (iteration - middle);
        if (fabs(times[iteration]) < ROUNDING * mean) times[iteration] = 0;
    }
    return mean;
}

static double covariance_at(const double *residuals, int count, int lag)
{
    double sum = 0;
    for (int iteration = lag; iteration < count; iteration++) {
        sum += residuals[iteration] * residuals[iteration - lag];
    }
    return sum / count;
}

int ana_resample_block(const double *residuals, int count)
{
    const double chance = 2 / sqrt(count) * covariance_at(residuals, count, 0);
    const int quarter = count / 4 > 1 ? count / 4 : 1;
    const int longest = quarter < BLOCK_MAX ? quarter : BLOCK_MAX;
    int block = 1;
    while ((int64_t)block * block * block < count)
        block++;
    while (block < longest && covariance_at(residuals, count, block) > chance)
        block++;
    return block < longest ? block : longest;
}

double ana_resample_factor(const double *residuals, int count, double mean, int block,
                           rng *generator)
{
    double sum = 0;
    int drawn = 0;
    assert(count >= 1 && block >= 1 && block <= count && mean > 0);
    while (drawn < count) {
        const int begin = (int)rng_below(generator, (uint64_t)count);
        for (int step = 0; step < block && drawn < count; step++, drawn++) {
            sum += residuals[(begin + step) % count];
        }
    }
    return fmax(1 + sum / count / mean, FACTOR_MIN); // of a trend that began near 0, too
}

enum { RECORDED_PURPOSE = 0x7265636f, SHORTEST_RECORD = 8 };

/// The iterations of a point as it is, without mean and trend.
typedef struct recorded_times {
    double *residuals; // [count] ns; NULL: not recorded
    int count;
    double mean;
} recorded_times;

/// What all workers share, and where results go. A result is an ana_drawn_run and, of
/// a point as it is, its iterations, as they lie in memory: what joins processes joins equal
/// machines.
typedef struct drawing {
    const ana_draws *draws;
    const char *name;
    const char *const *texts;
    arena *memory;
    ana_drawn_points *drawn;
    recorded_times *times; // [point_count]
} drawing;

/// A worker: its evaluator, the texts that it writes, and the iterations of what it plays.
typedef struct player {
    ana_point_worker *worker;
    text_buffer changes;
    text_buffer text;
    text_buffer times; // int64_t of each iteration, ns
} player;

static status begin_worker(void *context, void **worker, error_message *err)
{
    (void)context;
    player *made = memory_array(1, sizeof *made);
    (void)err;
    made->worker = ana_point_worker_create();
    *worker = made;
    return STATUS_OK;
}

static void end_worker(void *context, void *worker)
{
    (void)context;
    player *made = worker;
    ana_point_worker_destroy(made->worker);
    text_free(&made->changes);
    text_free(&made->text);
    text_free(&made->times);
    free(made);
}

/// Notes an iteration of a run that is played as it is.
static status put_iteration(void *context, const bal_training_iteration *iteration,
                            error_message *err)
{
    (void)err;
    text_buffer *times = context;
    text_append_bytes(times, (const char *)&iteration->iteration_ns,
                      sizeof iteration->iteration_ns);
    return STATUS_OK;
}

/// Draw -1 is the point as it is; its iterations are noted if they are to be resampled.
static status play_item(const drawing *shared, player *own, int point, int draw, ana_point *played,
                        error_message *err)
{
    const bool is_noted = draw < 0 && shared->draws->uncertainty->resamples;
    const bal_record_sink sink = {.context = &own->times, .put = put_iteration};
    const char *text = shared->texts[point];
    text_clear(&own->changes);
    text_clear(&own->text);
    text_clear(&own->times);
    if (draw >= 0) {
        ana_draws_changes(shared->draws, point, draw, &own->changes);
        TRY(json_change(shared->name, text, own->changes.bytes, &own->text, err));
        text = own->text.bytes;
    }
    return ana_point_evaluate(own->worker, shared->name, text, is_noted ? &sink : NULL, played,
                              err);
}

static ana_drawn_run run_of(const ana_point *point, const ana_setup *setup)
{
    ana_drawn_run run;
    memset(&run, 0, sizeof run); // its bytes travel, with those between the members
    run.refusal = point->refusal;
    run.iteration_ns = point->iteration_ns;
    run.per_second = point->per_second;
    run.train_ns = point->train_ns;
    run.gpu_count = point->gpu_count;
    run.gpu_hours = point->gpu_hours;
    run.cost = point->cost;
    run.peak_memory_bytes = (double)point->peak_memory_bytes;
    if (setup != NULL && setup->study->mtbf_hours > 0) {
        run.failures.mtbf_hours = setup->study->mtbf_hours;
        run.failures.checkpoint_s = setup->study->checkpoint_s;
        run.failures.restart_s = setup->study->restart_s;
        run.failures.interval_s = setup->study->checkpoint_interval_s;
    }
    return run;
}

static status run_item(void *context, void *worker, int64_t item, text_buffer *result,
                       error_message *err)
{
    const drawing *shared = context;
    player *own = worker;
    const int columns = shared->draws->uncertainty->draw_count + 1;
    ana_point point;
    TRY(play_item(shared, own, (int)(item / columns), (int)(item % columns) - 1, &point, err));
    const ana_setup *setup = ana_point_worker_setup(own->worker);
    const ana_drawn_run run = run_of(&point, setup);
    text_append_bytes(result, (const char *)&run, sizeof run);
    // Only what was recorded can be resampled: iterations of a trace.
    if (setup != NULL && setup->study->trace_path != NULL && own->times.length > 0) {
        text_append_bytes(result, own->times.bytes, own->times.length);
    }
    return STATUS_OK;
}

/// Keeps the iterations of a point as it is.
static void keep_times(drawing *shared, int point, const char *bytes, size_t length)
{
    const size_t count = length / sizeof(int64_t);
    if (count < SHORTEST_RECORD || count > INT_MAX) return;
    double *times = arena_array(shared->memory, count, sizeof *times);
    for (size_t iteration = 0; iteration < count; iteration++) {
        int64_t time_ns = 0;
        memcpy(&time_ns, bytes + iteration * sizeof time_ns, sizeof time_ns);
        times[iteration] = (double)time_ns;
    }
    const double mean = ana_resample_residuals(times, (int)count);
    if (mean > 0) shared->times[point] = (recorded_times){times, (int)count, mean};
}

static void scale(ana_drawn_run *run, double factor)
{
    run->iteration_ns *= factor;
    run->per_second /= factor;
    run->train_ns *= factor;
    run->gpu_hours *= factor;
    if (run->cost > 0) run->cost *= factor;
}

static status put_item(void *context, int64_t item, const text_buffer *result, error_message *err)
{
    drawing *shared = context;
    const int draw_count = shared->drawn->draw_count;
    const int point = (int)(item / (draw_count + 1));
    const int draw = (int)(item % (draw_count + 1)) - 1;
    ana_drawn_run *run =
        draw < 0 ? &shared->drawn->nominal[point]
                 : &shared->drawn->runs[(size_t)point * (size_t)draw_count + (size_t)draw];
    if (result->length < sizeof *run) {
        return error_set(err, STATUS_FORMAT, "a result of %zu bytes is not one of a draw",
                         result->length);
    }
    memcpy(run, result->bytes, sizeof *run);
    if (draw >= 0) scale(run, ana_draws_time_factor(shared->draws, point, draw));
    keep_times(shared, point, result->bytes + sizeof *run, result->length - sizeof *run);
    return STATUS_OK;
}

static void carve(drawing *shared)
{
    ana_drawn_points *drawn = shared->drawn;
    arena *memory = shared->memory;
    const size_t points = (size_t)drawn->point_count;
    const size_t runs = points * (size_t)drawn->draw_count;
    drawn->nominal = arena_array(memory, points, sizeof *drawn->nominal);
    drawn->runs = arena_array(memory, runs, sizeof *drawn->runs);
    drawn->recorded = arena_array(memory, runs, sizeof *drawn->recorded);
    drawn->fitted = arena_array(memory, runs, sizeof *drawn->fitted);
    shared->times = arena_array(memory, points, sizeof *shared->times);
    for (size_t run = 0; run < runs; run++) {
        drawn->recorded[run] = 1;
        drawn->fitted[run] = 1;
    }
}

/// The blocks of a draw are the same at all points: their length is that of the point with the
/// longest, and they begin where the draw's own stream of numbers says.
static int longest_block(const drawing *shared)
{
    int longest = 1;
    for (int point = 0; point < shared->drawn->point_count; point++) {
        const recorded_times *times = &shared->times[point];
        if (times->residuals == NULL) continue;
        const int block = ana_resample_block(times->residuals, times->count);
        if (block > longest) longest = block;
    }
    return longest;
}

static void resample(const drawing *shared)
{
    ana_drawn_points *drawn = shared->drawn;
    const int longest = longest_block(shared);
    const uint64_t seed = shared->draws->uncertainty->seed ^ RECORDED_PURPOSE;
    for (int point = 0; point < drawn->point_count; point++) {
        const recorded_times *times = &shared->times[point];
        const int block = longest < times->count ? longest : times->count;
        if (times->residuals == NULL) continue;
        drawn->is_recorded = true;
        for (int draw = 0; draw < drawn->draw_count; draw++) {
            rng random = rng_init(seed, (uint64_t)draw);
            drawn->recorded[(size_t)point * (size_t)drawn->draw_count + (size_t)draw] =
                ana_resample_factor(times->residuals, times->count, times->mean, block, &random);
        }
    }
}

status ana_drawn_points_play(ana_spread *spread, const ana_draws *draws, const char *name,
                             const char *const *texts, arena *memory, ana_drawn_points *drawn,
                             error_message *err)
{
    *drawn = (ana_drawn_points){
        .point_count = draws->point_count,
        .draw_count = draws->uncertainty->draw_count,
    };
    drawing shared = {
        .draws = draws,
        .name = name,
        .texts = texts,
        .memory = memory,
        .drawn = drawn,
    };
    const ana_items items = {
        .count = (int64_t)draws->point_count * (drawn->draw_count + 1),
        .context = &shared,
        .begin_worker = begin_worker,
        .end_worker = end_worker,
        .run = run_item,
        .put = put_item,
    };
    carve(&shared);
    TRY(ana_spread_run(spread, &items, NULL, err));
    resample(&shared);
    return STATUS_OK;
}

ana_drawn_run ana_drawn_run_of(const ana_drawn_points *drawn, int point, int draw)
{
    const size_t place = (size_t)point * (size_t)drawn->draw_count + (size_t)draw;
    ana_drawn_run run = drawn->runs[place];
    scale(&run, drawn->recorded[place] * drawn->fitted[place]);
    return run;
}

double ana_drawn_loss(ana_objective objective, const ana_drawn_run *run)
{
    if (run->refusal != ANA_REFUSAL_NONE) return INFINITY;
    switch (objective) {
    case ANA_OBJECTIVE_GPU_HOURS:
        return run->gpu_hours;
    case ANA_OBJECTIVE_COST:
        return run->cost;
    case ANA_OBJECTIVE_MEMORY:
        return run->peak_memory_bytes;
    default:
        return run->train_ns > 0 ? run->train_ns : 1 / run->per_second;
    }
}

#include "analysis/whatif/certainty.h"

#include "base/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gsl/gsl_statistics_double.h>

#define NS_PER_S 1e9

/// What all workers share, and where results go.
typedef struct drawing {
    ana_certainty *certainty;
    int64_t *items;        // [point_count] of the study
    const char **texts;    // [point_count] their studies
    ana_time_parts *parts; // [point_count] with a calibration
    int point_count;
    int draw_count;
    ana_point *runs; // [point_count][draw_count]
    double *fitted;  // [point_count][draw_count] factors of the calibration; NULL: there is none
    double *losses;  // [point_count][draw_count]
} drawing;

// Which points

/// Takes an item of the training of the reference, unless one that is like it is taken: beside its
/// own double it would be the best in half as many draws.
static void take_item(const ana_whatif *study, int64_t item, drawing *shared)
{
    const ana_point *point = &study->points[item];
    const double loss = ana_point_loss(point, study->objective); // 0 where GPUs cost nothing
    if (!(loss > 0) || isinf(loss) || point->training != study->training) return;
    for (int taken = 0; taken < shared->point_count; taken++) {
        if (ana_points_are_alike(point, &study->points[shared->items[taken]])) return;
    }
    shared->items[shared->point_count++] = item;
}

static void choose_points(const ana_certainty *certainty, arena *memory, drawing *shared)
{
    const ana_whatif *study = certainty->study;
    const int most = certainty->uncertainty->point_count;
    shared->items = arena_array(memory, (size_t)most + 1, sizeof *shared->items);
    shared->texts = arena_array(memory, (size_t)most + 1, sizeof *shared->texts);
    for (int64_t rank = 0; rank < study->standing.comparable_count; rank++) {
        if (shared->point_count == most) break;
        take_item(study, study->standing.order[rank], shared);
    }
    take_item(study, study->reference, shared);
}

/// A range of the value itself would put the same value at all points of an axis.
static status check_axes(const ana_whatif *study, const ana_uncertainty *uncertainty,
                         error_message *err)
{
    for (int range = 0; range < uncertainty->range_count; range++) {
        const ana_declared_range *declared = &uncertainty->ranges[range];
        const ana_axis *axis = ana_matrix_axis(&study->matrix, declared->path);
        if (declared->range.is_factor || axis == NULL) continue;
        return json_error(declared->place, STATUS_FORMAT, err,
                          "the axis '%.80s' sets it; give a \"factor\" of its values", axis->name);
    }
    return STATUS_OK;
}

/// Adds a point to the draws, from its study.
static status add_point(drawing *shared, int point, ana_point_worker *worker, arena *memory,
                        error_message *err)
{
    ana_certainty *certainty = shared->certainty;
    const ana_whatif *study = certainty->study;
    text_buffer built = {.memory = memory};
    ana_point played;
    TRY(ana_whatif_text(study, shared->items[point], &built, err));
    shared->texts[point] = built.bytes;
    TRY(ana_point_check(worker, study->path, shared->texts[point], "{}", err));
    const ana_setup *setup = ana_point_worker_setup(worker);
    TRY(ana_draws_add_point(&certainty->draws, setup, err));
    if (study->calibration == NULL) return STATUS_OK;
    TRY(ana_point_evaluate(worker, study->path, shared->texts[point], "{}", &played, err));
    ana_time_parts_of(ana_point_worker_setup(worker), &played, &shared->parts[point]);
    certainty->beyond_count +=
        !ana_correction_knows(study->calibration, shared->parts[point].machine);
    return STATUS_OK;
}

static status add_points(drawing *shared, arena *memory, error_message *err)
{
    arena *scratch = arena_within(memory, 1 << 16);
    ana_point_worker *worker = ana_point_worker_create(scratch);
    for (int point = 0; point < shared->point_count; point++) {
        TRY(add_point(shared, point, worker, memory, err));
    }
    TRY(ana_draws_check(&shared->certainty->draws, worker, shared->certainty->study->path,
                        shared->texts[0], err));
    arena_reset(scratch);
    return STATUS_OK;
}

// Playing them

static status play(const drawing *shared, ana_point_worker *worker, int point, int draw,
                   ana_point *played, error_message *err)
{
    const char *name = shared->certainty->study->path;
    text_buffer changes = {0};
    ana_draws_changes(&shared->certainty->draws, point, draw, &changes);
    const status result =
        ana_point_evaluate(worker, name, shared->texts[point], changes.bytes, played, err);
    text_free(&changes);
    return result;
}

static status run_item(void *context, void *worker, int64_t item, text_buffer *result,
                       error_message *err)
{
    const drawing *shared = context;
    ana_point run;
    TRY(play(shared, worker, (int)(item / shared->draw_count), (int)(item % shared->draw_count),
             &run, err));
    run.message = NULL; // of a refusal only that it is one counts
    ana_point_write(&run, result);
    return STATUS_OK;
}

static status put_item(void *context, int64_t item, const text_buffer *result, error_message *err)
{
    drawing *shared = context;
    const int point = (int)(item / shared->draw_count);
    const int draw = (int)(item % shared->draw_count);
    ana_point *run = &shared->runs[item];
    TRY(ana_point_read(result->bytes, result->length, shared->certainty->study->memory, run, err));
    ana_point_scale(run, ana_draws_time_factor(&shared->certainty->draws, point, draw));
    return STATUS_OK;
}

static status draw_points(ana_spread *spread, drawing *shared, arena *memory, error_message *err)
{
    ana_certainty *certainty = shared->certainty;
    const size_t runs = (size_t)shared->point_count * (size_t)shared->draw_count;
    const ana_items items = {
        .count = (int64_t)runs,
        .context = shared,
        .begin_worker = ana_point_worker_create,
        .run = run_item,
        .put = put_item,
    };
    ana_draws_init(certainty->uncertainty, shared->point_count, memory, &certainty->draws);
    shared->parts = arena_array(memory, (size_t)shared->point_count, sizeof *shared->parts);
    TRY(add_points(shared, memory, err));
    ana_draws_make(&certainty->draws);
    shared->runs = arena_array(memory, runs, sizeof *shared->runs);
    shared->losses = arena_array(memory, runs, sizeof *shared->losses);
    TRY(ana_spread_run(spread, &items, err));
    if (certainty->study->calibration != NULL) {
        shared->fitted = arena_array(memory, runs, sizeof *shared->fitted);
        TRY(ana_correction_draw(certainty->study->calibration, shared->parts, shared->point_count,
                                certainty->uncertainty->seed, shared->draw_count, memory,
                                shared->fitted, err));
    }
    for (size_t run = 0; run < runs; run++) {
        if (shared->fitted != NULL) ana_point_scale(&shared->runs[run], shared->fitted[run]);
        shared->losses[run] = ana_point_loss(&shared->runs[run], certainty->study->objective);
    }
    return STATUS_OK;
}

// What the draws say

static double value_of(const ana_point *point, ana_bar bar)
{
    const double values[ANA_BAR_COUNT] = {
        point->iteration_ns, point->per_second, point->train_ns / NS_PER_S,
        point->gpu_hours,    point->cost,       (double)point->peak_memory_bytes,
    };
    if (point->refusal == ANA_REFUSAL_NONE) return values[bar];
    return bar == ANA_BAR_RATE ? 0 : INFINITY;
}

/// @param scratch [2 * draw_count]
static void fill_point(const drawing *shared, double *scratch, ana_sure_point *sure)
{
    const ana_whatif *study = shared->certainty->study;
    const int draws = shared->draw_count;
    const int point = sure->ranked.point;
    double *const values = scratch + draws;
    sure->item = shared->items[point];
    sure->is_reference =
        ana_points_are_alike(&study->points[sure->item], &study->points[study->reference]);
    for (int bar = 0; bar < ANA_BAR_COUNT; bar++) {
        for (int draw = 0; draw < draws; draw++) {
            const size_t run = (size_t)point * (size_t)draws + (size_t)draw;
            values[draw] = value_of(&shared->runs[run], (ana_bar)bar);
        }
        sure->bars[bar] = ana_error_bar_of(values, draws, scratch);
    }
}

static int by_share(const void *left, const void *right)
{
    const ana_source *a = left;
    const ana_source *b = right;
    if (a->share != b->share) return a->share > b->share ? -1 : 1;
    return strcmp(a->name, b->name);
}

/// The square of the correlation of what a source is in the draws with the first point's loss, as
/// far as it fits, less what draws of that number have by chance.
static double share_of(const drawing *shared, const double *values, double *scratch)
{
    const int draws = shared->draw_count;
    const size_t first = (size_t)shared->certainty->points[0].ranked.point * (size_t)draws;
    double *const losses = scratch + draws;
    size_t count = 0;
    for (int draw = 0; draw < draws; draw++) {
        if (isinf(shared->losses[first + (size_t)draw])) continue;
        scratch[count] = values[draw];
        losses[count++] = shared->losses[first + (size_t)draw];
    }
    const double correlation = count > 1 ? gsl_stats_correlation(scratch, 1, losses, 1, count) : 0;
    const double share = isfinite(correlation) ? correlation * correlation : 0;
    return count > 2 ? fmax(share - (1 - share) / (double)(count - 2), 0) : share;
}

static void find_sources(const drawing *shared, double *scratch, arena *memory,
                         ana_certainty *certainty)
{
    const ana_draws *draws = &certainty->draws;
    const size_t first = (size_t)certainty->points[0].ranked.point;
    const size_t draw_count = (size_t)shared->draw_count;
    certainty->sources =
        arena_array(memory, (size_t)draws->input_count + 1, sizeof *certainty->sources);
    for (int index = 0; index < draws->input_count; index++) {
        const ana_uncertain *input = &draws->inputs[index];
        if (!draws->points[first].has[index]) continue;
        ana_source *source = &certainty->sources[certainty->source_count++];
        source->input = input;
        source->share = share_of(shared, draws->values + (size_t)index * draw_count, scratch);
        snprintf(source->name, sizeof source->name, "%.120s%s%.120s", input->path,
                 input->scope != NULL ? " of " : "", input->scope != NULL ? input->scope : "");
    }
    if (shared->fitted != NULL) {
        certainty->sources[certainty->source_count++] = (ana_source){
            .name = "calibration",
            .share = share_of(shared, shared->fitted + first * draw_count, scratch),
        };
    }
    qsort(certainty->sources, (size_t)certainty->source_count, sizeof *certainty->sources,
          by_share);
}

static void judge(const drawing *shared, arena *memory, ana_certainty *certainty)
{
    const ana_losses losses = {shared->losses, shared->point_count, shared->draw_count};
    const size_t points = (size_t)shared->point_count;
    ana_ranked *ranked = arena_array(memory, points, sizeof *ranked);
    double *scratch = arena_array(memory, 2 * (size_t)shared->draw_count, sizeof *scratch);
    certainty->points = arena_array(memory, points, sizeof *certainty->points);
    certainty->point_count = shared->point_count;
    ana_rank(&losses, memory, ranked);
    for (int place = 0; place < shared->point_count; place++) {
        certainty->points[place].ranked = ranked[place];
        fill_point(shared, scratch, &certainty->points[place]);
    }
    find_sources(shared, scratch, memory, certainty);
}

status ana_certainty_find(ana_spread *spread, const ana_whatif *study,
                          const ana_uncertainty *uncertainty, arena *memory,
                          ana_certainty *certainty, error_message *err)
{
    drawing shared = {.certainty = certainty, .draw_count = uncertainty->draw_count};
    *certainty = (ana_certainty){.study = study, .uncertainty = uncertainty};
    TRY(check_axes(study, uncertainty, err));
    choose_points(certainty, memory, &shared);
    if (shared.point_count == 0) return STATUS_OK;
    TRY(draw_points(spread, &shared, memory, err));
    judge(&shared, memory, certainty);
    return STATUS_OK;
}

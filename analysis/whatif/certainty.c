#include "analysis/whatif/certainty.h"

#include "analysis/whatif/calibrated.h"
#include "analysis/whatif/drawn_points.h"
#include "base/text.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/// A point that could be drawn, best first.
typedef struct candidate {
    int64_t item;
    double loss;
} candidate;

static double nominal_loss(const ana_whatif *study, int64_t item)
{
    const ana_point *point = &study->points[item];
    const ana_drawn_run run = {
        .refusal = point->refusal,
        .per_second = point->per_second,
        .train_ns = point->train_ns,
        .gpu_hours = point->gpu_hours,
        .cost = point->cost,
        .peak_memory_bytes = (double)point->peak_memory_bytes,
    };
    return ana_drawn_loss(study->objective, &run);
}

static void take_point(ana_screening *chosen, bool *is_taken, int64_t item)
{
    if (is_taken[item]) return;
    is_taken[item] = true;
    chosen->items[chosen->count++] = item;
}

/// Takes the reference, unless a point that is like it is taken: beside its own double it would be
/// the best in half as many draws.
static void take_reference(const ana_whatif *study, bool *is_taken, ana_screening *chosen)
{
    const ana_point *reference = &study->points[study->reference];
    if (reference->refusal != ANA_REFUSAL_NONE || !(nominal_loss(study, study->reference) > 0) ||
        reference->learning.training != study->learning.training) {
        return;
    }
    for (int64_t place = 0; place < chosen->count; place++) {
        if (ana_points_are_alike(reference, &study->points[chosen->items[place]])) return;
    }
    take_point(chosen, is_taken, study->reference);
}

static void choose_points(const ana_whatif *study, const candidate *candidates, int64_t count,
                          int detail, bool *is_taken, ana_screening *chosen)
{
    int pareto_left = detail;
    for (int64_t rank = 0; rank < count && rank < detail; rank++) {
        take_point(chosen, is_taken, candidates[rank].item);
    }
    for (int64_t rank = detail; rank < count && pareto_left > 0; rank++) {
        if (!study->standing.is_pareto[candidates[rank].item]) continue;
        take_point(chosen, is_taken, candidates[rank].item);
        pareto_left--;
    }
    take_reference(study, is_taken, chosen);
    for (int64_t rank = 0; rank < count; rank++) {
        if (is_taken[candidates[rank].item]) continue;
        chosen->next_ratio = candidates[rank].loss / candidates[0].loss - 1;
        return;
    }
}

/// Those of the training of the reference that can be compared, by the study's objective; of points
/// that are alike the first, as they would be alike in every draw.
static int64_t gather(const ana_whatif *study, candidate *candidates)
{
    const ana_standing *standing = &study->standing;
    const int64_t end = standing->comparable_count;
    int64_t count = 0;
    for (int64_t rank = 0, next = 0; rank < end; rank = next) {
        next = ana_standing_alike_end(standing, study->points, rank, end);
        const double loss = nominal_loss(study, standing->order[rank]);
        if (!(loss > 0) || isinf(loss)) continue; // without a price there is no cost
        candidates[count++] = (candidate){standing->order[rank], loss};
    }
    return count;
}

static void screen(const ana_whatif *study, int detail, arena *memory, ana_screening *screening)
{
    candidate *candidates =
        arena_array(memory, (size_t)study->standing.comparable_count, sizeof *candidates);
    bool *is_taken = arena_array(memory, (size_t)study->item_count, sizeof *is_taken);
    *screening = (ana_screening){
        .items = arena_array(memory, 2 * (size_t)detail + 1, sizeof *screening->items),
        .next_ratio = INFINITY,
    };
    const int64_t count = gather(study, candidates);
    screening->candidate_count = count;
    choose_points(study, candidates, count, detail, is_taken, screening);
}

/// Whether outer is path, or an object that path leads through.
static bool leads_to(const char *outer, const char *path)
{
    const size_t length = strlen(outer);
    return strncmp(outer, path, length) == 0 && (path[length] == '.' || path[length] == '\0');
}

static bool sets(const ana_axis *axis, const char *path)
{
    for (int index = 0; index < axis->path_count; index++) {
        if (leads_to(axis->paths[index], path) || leads_to(path, axis->paths[index])) return true;
    }
    return false;
}

/// A range of the value itself would put the same value at all points of an axis.
static status check_axes(const ana_whatif *study, const ana_uncertainty *uncertainty,
                         error_message *err)
{
    for (int range = 0; range < uncertainty->range_count; range++) {
        const ana_declared_range *declared = &uncertainty->ranges[range];
        if (declared->range.is_factor) continue;
        for (int axis = 0; axis < study->matrix.axis_count; axis++) {
            if (!sets(&study->matrix.axes[axis], declared->path)) continue;
            return json_error(declared->place, STATUS_FORMAT, err,
                              "the axis '%.80s' sets it; give a \"factor\" of its values",
                              study->matrix.axes[axis].name);
        }
    }
    return STATUS_OK;
}

static status check_failures(const ana_study *study, error_message *err)
{
    if (!(study->mtbf_hours > 0)) return STATUS_OK;
    if (study->checkpoint_s >= 0 && study->restart_s >= 0) return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "%s: cluster.mtbf_hours needs training.%s_s, which is missing", study->path,
                     study->checkpoint_s < 0 ? "checkpoint" : "restart");
}

/// Adds a point to the draws, from its study.
static status add_point(int64_t item, ana_point_worker *worker, arena *memory,
                        ana_certainty *certainty, const char **text, error_message *err)
{
    const ana_whatif *study = certainty->study;
    text_buffer built = {0};
    status result = ana_whatif_text(study, item, NULL, &built, err);
    if (result == STATUS_OK) result = ana_point_check(worker, study->path, built.bytes, err);
    if (result == STATUS_OK) *text = arena_string(memory, built.bytes);
    text_free(&built);
    if (result != STATUS_OK) return result;
    const ana_setup *setup = ana_point_worker_setup(worker);
    TRY(check_failures(setup->study, err));
    TRY(ana_draws_add_point(&certainty->draws, *text, setup, err));
    if (certainty->study->calibration == NULL) return STATUS_OK;
    return ana_calibrated_add_point(&certainty->calibrated, worker, *text, err);
}

/// What the study says once for all points.
static void keep_start(const ana_point_worker *worker, arena *memory, ana_certainty *certainty)
{
    const ana_study *study = ana_point_worker_study(worker);
    if (study == NULL || study->start_date == NULL) return;
    certainty->start_date = arena_string(memory, study->start_date);
}

static status add_points(const ana_screening *chosen, arena *memory, ana_certainty *certainty,
                         const char **texts, error_message *err)
{
    const ana_whatif *study = certainty->study;
    ana_draws *draws = &certainty->draws;
    ana_point_worker *worker = ana_point_worker_create();
    status result = STATUS_OK;
    for (int64_t point = 0; point < chosen->count && result == STATUS_OK; point++) {
        result = add_point(chosen->items[point], worker, memory, certainty, &texts[point], err);
    }
    if (result == STATUS_OK) {
        keep_start(worker, memory, certainty);
        result = ana_draws_check(draws, worker, study->path, texts[0], 0, err);
    }
    ana_point_worker_destroy(worker);
    return result;
}

static status draw(ana_spread *spread, const ana_screening *chosen, arena *memory,
                   ana_certainty *certainty, error_message *err)
{
    ana_draws *draws = &certainty->draws;
    const char **texts = arena_array(memory, (size_t)chosen->count, sizeof *texts);
    ana_draws_init(certainty->uncertainty, (int)chosen->count, memory, draws);
    ana_calibrated_init(certainty->study->calibration, (int)chosen->count, memory,
                        &certainty->calibrated);
    TRY(add_points(chosen, memory, certainty, texts, err));
    ana_draws_make(draws);
    return ana_drawn_points_play(spread, draws, certainty->study->path, texts, memory,
                                 &certainty->drawn, err);
}

/// Losses of all points in all draws.
static void fill_losses(const ana_certainty *certainty, arena *memory, ana_losses *losses)
{
    const int points = certainty->point_count;
    const int draws = certainty->drawn.draw_count;
    double *values = arena_array(memory, (size_t)points * (size_t)draws, sizeof *values);
    for (int point = 0; point < points; point++) {
        for (int draw_index = 0; draw_index < draws; draw_index++) {
            const ana_drawn_run run = ana_drawn_run_of(&certainty->drawn, point, draw_index);
            values[(size_t)point * (size_t)draws + (size_t)draw_index] =
                ana_drawn_loss(certainty->study->objective, &run);
        }
    }
    *losses = (ana_losses){values, points, draws};
}

/// The quantities that have error bars: where each lies in a run and in a point, and what it is
/// where a point does not fit.
typedef struct quantity {
    size_t in_run;
    size_t in_point;
    double infeasible;
} quantity;

static const quantity quantities[] = {
    {offsetof(ana_drawn_run, iteration_ns), offsetof(ana_sure_point, iteration_ns), INFINITY},
    {offsetof(ana_drawn_run, per_second), offsetof(ana_sure_point, per_second), 0},
    {offsetof(ana_drawn_run, train_ns), offsetof(ana_sure_point, train_ns), INFINITY},
    {offsetof(ana_drawn_run, gpu_hours), offsetof(ana_sure_point, gpu_hours), INFINITY},
    {offsetof(ana_drawn_run, cost), offsetof(ana_sure_point, cost), INFINITY},
    {offsetof(ana_drawn_run, peak_memory_bytes), offsetof(ana_sure_point, peak_memory_bytes),
     INFINITY},
};

static void fill_error_bars(const ana_drawn_points *drawn, int point, double *scratch,
                            ana_sure_point *sure)
{
    double *const values = scratch + drawn->draw_count;
    for (size_t row = 0; row < sizeof quantities / sizeof quantities[0]; row++) {
        for (int draw_index = 0; draw_index < drawn->draw_count; draw_index++) {
            const ana_drawn_run run = ana_drawn_run_of(drawn, point, draw_index);
            const bool fits = run.refusal == ANA_REFUSAL_NONE;
            memcpy(&values[draw_index], (const char *)&run + quantities[row].in_run,
                   sizeof values[draw_index]);
            if (!fits) values[draw_index] = quantities[row].infeasible;
        }
        const ana_error_bar bar = ana_error_bar_of(values, drawn->draw_count, scratch);
        memcpy((char *)sure + quantities[row].in_point, &bar, sizeof bar);
    }
}

static void fill_point(const ana_certainty *certainty, const ana_losses *losses,
                       const ana_screening *chosen, arena *memory, ana_sure_point *sure)
{
    const ana_whatif *study = certainty->study;
    const int point = sure->ranked.point;
    double *scratch = arena_array(memory, 2 * (size_t)losses->draw_count, sizeof *scratch);
    sure->item = chosen->items[point];
    sure->is_reference =
        ana_points_are_alike(&study->points[sure->item], &study->points[study->reference]);
    sure->is_pareto = study->standing.is_pareto[sure->item];
    fill_error_bars(&certainty->drawn, point, scratch, sure);
    ana_delivery_find(&certainty->drawn, point, certainty->uncertainty->seed, memory,
                      &sure->delivery);
}

static int by_regret(const void *left, const void *right)
{
    const ana_source_worth *a = left;
    const ana_source_worth *b = right;
    const ana_choice_quality *x = &a->knowing;
    const ana_choice_quality *y = &b->knowing;
    if (x->regret_ratio != y->regret_ratio) return x->regret_ratio < y->regret_ratio ? -1 : 1;
    if (x->wrong_probability != y->wrong_probability) {
        return x->wrong_probability < y->wrong_probability ? -1 : 1;
    }
    return a->source - b->source;
}

/// What a source is in each draw, for all points: inputs as they were drawn, factors of times as
/// those of the recommended point.
static void source_values(const ana_certainty *certainty, int source, double *values)
{
    const int draws = certainty->drawn.draw_count;
    const int inputs = certainty->draws.input_count;
    const size_t best = (size_t)certainty->points[0].ranked.point * (size_t)draws;
    const double *from = source < inputs ? certainty->draws.values + (size_t)source * (size_t)draws
                         : source == inputs ? certainty->drawn.recorded + best
                                            : certainty->drawn.fitted + best;
    memcpy(values, from, (size_t)draws * sizeof *values);
}

static void fill_worth(ana_certainty *certainty, const ana_losses *losses, arena *memory)
{
    const double equivalence = certainty->uncertainty->equivalence;
    double *values = arena_array(memory, (size_t)losses->draw_count, sizeof *values);
    certainty->worth = arena_array(certainty->study->memory, (size_t)certainty->source_count,
                                   sizeof *certainty->worth);
    ana_choice_now(losses, equivalence, memory, &certainty->now);
    for (int source = 0; source < certainty->source_count; source++) {
        ana_source_worth *worth = &certainty->worth[source];
        worth->source = source;
        source_values(certainty, source, values);
        ana_choice_knowing(losses, values, equivalence, memory, &worth->knowing);
    }
    qsort(certainty->worth, (size_t)certainty->source_count, sizeof *certainty->worth, by_regret);
}

/// What the draws say.
static status judge(ana_certainty *certainty, const ana_screening *chosen, arena *memory,
                    error_message *err)
{
    ana_losses losses = {0};
    if (certainty->study->calibration != NULL) {
        certainty->drawn.is_fitted = true;
        TRY(ana_calibrated_factors(&certainty->calibrated, certainty->uncertainty->seed,
                                   certainty->drawn.draw_count, memory, certainty->drawn.fitted,
                                   err));
    }
    certainty->point_count = (int)chosen->count;
    certainty->source_count = certainty->draws.input_count + 2;
    certainty->points = arena_array(memory, (size_t)chosen->count, sizeof *certainty->points);
    ana_ranked *ranked = arena_array(memory, (size_t)chosen->count, sizeof *ranked);
    arena *scratch = arena_create(1 << 18);
    fill_losses(certainty, memory, &losses);
    ana_rank(&losses, certainty->uncertainty->equivalence, memory, ranked);
    for (int place = 0; place < certainty->point_count; place++) {
        arena_reset(scratch);
        certainty->points[place].ranked = ranked[place];
        fill_point(certainty, &losses, chosen, scratch, &certainty->points[place]);
    }
    fill_worth(certainty, &losses, scratch);
    arena_destroy(scratch);
    return STATUS_OK;
}

status ana_certainty_find(ana_spread *spread, const ana_whatif *study,
                          const ana_uncertainty *uncertainty, arena *memory,
                          ana_certainty *certainty, error_message *err)
{
    ana_screening chosen = {.next_ratio = INFINITY};
    *certainty =
        (ana_certainty){.study = study, .uncertainty = uncertainty, .next_ratio = INFINITY};
    TRY(check_axes(study, uncertainty, err));
    screen(study, uncertainty->detail_count, memory, &chosen);
    certainty->candidate_count = chosen.candidate_count;
    certainty->next_ratio = chosen.next_ratio;
    if (chosen.count == 0) return STATUS_OK;
    TRY(draw(spread, &chosen, memory, certainty, err));
    return judge(certainty, &chosen, memory, err);
}

void ana_certainty_source_name(const ana_certainty *certainty, int source,
                               char out[ANA_SOURCE_NAME_BYTES])
{
    const int inputs = certainty->draws.input_count;
    if (source >= inputs) {
        snprintf(out, ANA_SOURCE_NAME_BYTES, "%s",
                 source == inputs ? "recorded variation" : "calibration");
        return;
    }
    const ana_uncertain *input = &certainty->draws.inputs[source];
    snprintf(out, ANA_SOURCE_NAME_BYTES, "%.120s%s%.120s", input->path,
             input->scope != NULL ? " of " : "", input->scope != NULL ? input->scope : "");
}

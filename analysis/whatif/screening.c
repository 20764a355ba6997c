#include "analysis/whatif/screening.h"

#include "analysis/whatif/calibrated.h"
#include "analysis/whatif/drawn_points.h"
#include "base/text.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

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

static int by_loss(const void *left, const void *right)
{
    const candidate *a = left;
    const candidate *b = right;
    if (a->loss != b->loss) return a->loss < b->loss ? -1 : 1;
    return (a->item > b->item) - (a->item < b->item);
}

static status add_level(const ana_whatif *study, ana_point_worker *worker,
                        ana_calibrated *calibrated, candidate *point, error_message *err)
{
    text_buffer text = {0};
    status result = ana_whatif_text(study, point->item, NULL, &text, err);
    if (result == STATUS_OK) result = ana_point_check(worker, study->path, text.bytes, err);
    if (result == STATUS_OK) {
        result = ana_calibrated_add_point(calibrated, worker, text.bytes, err);
    }
    text_free(&text);
    if (result == STATUS_OK) point->loss *= calibrated->points[calibrated->point_count - 1].level;
    return result;
}

/// Puts the candidates at the level of the calibration, and in its order.
static status calibrate(const ana_whatif *study, const char *path, arena *memory,
                        candidate *candidates, int count, error_message *err)
{
    ana_calibrated calibrated;
    ana_point_worker *worker = NULL;
    TRY(ana_calibrated_open(study->path, path, count, memory, &calibrated, err));
    TRY(ana_point_worker_create(&worker, err));
    status result = STATUS_OK;
    for (int index = 0; index < count && result == STATUS_OK; index++) {
        result = add_level(study, worker, &calibrated, &candidates[index], err);
    }
    ana_point_worker_destroy(worker);
    qsort(candidates, (size_t)count, sizeof *candidates, by_loss);
    return result;
}

static void take(ana_screening *chosen, bool *is_taken, int64_t item)
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
    take(chosen, is_taken, study->reference);
}

static void choose(const ana_whatif *study, const candidate *candidates, int64_t count, int detail,
                   bool *is_taken, ana_screening *chosen)
{
    int pareto_left = detail;
    for (int64_t rank = 0; rank < count && rank < detail; rank++) {
        take(chosen, is_taken, candidates[rank].item);
    }
    for (int64_t rank = detail; rank < count && pareto_left > 0; rank++) {
        if (!study->standing.is_pareto[candidates[rank].item]) continue;
        take(chosen, is_taken, candidates[rank].item);
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

status ana_screening_find(const ana_whatif *study, const ana_uncertainty *uncertainty,
                          arena *memory, ana_screening *screening, error_message *err)
{
    const int detail = uncertainty->detail_count;
    const bool is_time = study->objective != ANA_OBJECTIVE_MEMORY;
    candidate *candidates =
        arena_array(memory, (size_t)study->standing.comparable_count, sizeof *candidates);
    bool *is_taken = arena_array(memory, (size_t)study->item_count, sizeof *is_taken);
    *screening = (ana_screening){
        .items = arena_array(memory, 2 * (size_t)detail + 1, sizeof *screening->items),
        .next_ratio = INFINITY,
    };
    int64_t count = gather(study, candidates);
    screening->candidate_count = count;
    if (uncertainty->calibration != NULL && is_time) {
        if (count > ANA_CALIBRATED_CANDIDATES_MAX) count = ANA_CALIBRATED_CANDIDATES_MAX;
        TRY(calibrate(study, uncertainty->calibration, memory, candidates, (int)count, err));
    }
    choose(study, candidates, count, detail, is_taken, screening);
    return STATUS_OK;
}

#include "analysis/whatif/closer_look.h"

#include "base/arena.h"

#include <stdlib.h>
#include <string.h>

static int compare_items(const void *one, const void *other)
{
    const int64_t a = *(const int64_t *)one;
    const int64_t b = *(const int64_t *)other;
    return (a > b) - (a < b);
}

/// Makes room for so many chosen points.
static status carve(const ana_whatif *study, int64_t count, ana_closer_look *look)
{
    *look = (ana_closer_look){
        .study = study,
        .items = arena_array(study->memory, (size_t)count, sizeof *look->items),
        .causes = arena_array(study->memory, (size_t)count, sizeof *look->causes),
    };
    return look->items != NULL && STATUS_OK;
}

/// What is chosen so far.
typedef struct choice {
    bool *is_chosen; // [item_count]
    int64_t count;
} choice;

static void choose(choice *chosen, int64_t item)
{
    if (chosen->is_chosen[item] || chosen->count == ANA_CHOSEN_MAX) return;
    chosen->is_chosen[item] = true;
    chosen->count++;
}

/// The first of each of the best best_count kinds of points that are not alike.
static void choose_best(const ana_whatif *study, int64_t from, int64_t to, int best_count,
                        choice *chosen)
{
    for (int kind = 0; kind < best_count && from < to; kind++) {
        choose(chosen, study->standing.order[from]);
        from = ana_standing_alike_end(&study->standing, study->points, from, to);
    }
}

static void choose_all(const ana_whatif *study, int best_count, choice *chosen)
{
    const ana_standing *standing = &study->standing;
    choose_best(study, 0, standing->comparable_count, best_count, chosen);
    choose_best(study, standing->comparable_count, standing->feasible_count, best_count, chosen);
    if (study->points[study->reference].refusal == ANA_REFUSAL_NONE) {
        choose(chosen, study->reference);
    }
    for (int64_t rank = 0; rank < standing->comparable_count; rank++) {
        if (standing->is_pareto[standing->order[rank]]) choose(chosen, standing->order[rank]);
    }
}

status ana_closer_look_choose(const ana_whatif *study, int best_count, ana_closer_look *look)
{
    choice chosen = {.is_chosen =
                         memory_array((size_t)study->item_count, sizeof *chosen.is_chosen)};
    choose_all(study, best_count, &chosen);
    const status result = carve(study, chosen.count, look);
    for (int64_t item = 0; item < study->item_count && result == STATUS_OK; item++) {
        if (chosen.is_chosen[item]) look->items[look->count++] = item;
    }
    free(chosen.is_chosen);
    return result;
}

/// Told of the iterations of a point: some of them, evenly spaced, stand for all.
typedef struct observer {
    int iteration_count;
    ana_bubble_causes causes;
    arena *scratch;
} observer;

/// Iterations at which one of the spaced ones stands.
static bool is_looked_at(void *context, int iteration)
{
    const observer *seen = context;
    if (seen->iteration_count <= ANA_LOOKED_AT_ITERATIONS) return true;
    // The k-th stands at k * count / LOOKED_AT.
    const int64_t next =
        ((int64_t)iteration * ANA_LOOKED_AT_ITERATIONS + seen->iteration_count - 1) /
        seen->iteration_count;
    return next * seen->iteration_count / ANA_LOOKED_AT_ITERATIONS == iteration;
}

static status look_at(void *context, const bal_training_iteration *iteration, error_message *err)
{
    observer *seen = context;
    if (iteration->timeline == NULL) return STATUS_OK;
    return ana_bubble_causes_add(&seen->causes, iteration, iteration->validates_behind, 1,
                                 seen->scratch, err);
}

/// Opens the point to learn how long its run is, then plays it under observation.
static status observe(const ana_whatif *study, ana_point_worker *worker, const char *text,
                      observer *seen, error_message *err)
{
    ana_point point;
    const bal_record_sink sink = {.context = seen, .wants_timeline = is_looked_at, .put = look_at};
    TRY(ana_point_check(worker, study->path, text, err));
    const ana_setup *setup = ana_point_worker_setup(worker);
    if (setup == NULL)
        return error_set(err, STATUS_INVALID, "a point that was played opens no more");
    seen->iteration_count = setup->iteration_count;
    return ana_point_evaluate(worker, study->path, text, &sink, &point, err);
}

status ana_closer_look_begin_worker(void *context, void **worker, error_message *err)
{
    return ana_whatif_begin_worker(context, worker, err);
}

void ana_closer_look_end_worker(void *context, void *worker)
{
    ana_whatif_end_worker(context, worker);
}

status ana_closer_look_evaluate(void *context, void *worker, int64_t index, text_buffer *result,
                                error_message *err)
{
    const ana_closer_look *look = context;
    observer seen = {.scratch = arena_create(1 << 18)};
    text_buffer text = {0};
    status looked = ana_whatif_text(look->study, look->items[index], NULL, &text, err);
    if (looked == STATUS_OK) looked = observe(look->study, worker, text.bytes, &seen, err);
    text_free(&text);
    arena_destroy(seen.scratch);
    if (looked != STATUS_OK) return looked;
    // As they lie in memory: all processes of a study run the same program.
    text_append_bytes(result, (const char *)&seen.causes, sizeof seen.causes);
    return STATUS_OK;
}

status ana_closer_look_put(void *context, int64_t index, const text_buffer *result,
                           error_message *err)
{
    ana_closer_look *look = context;
    if (result->length != sizeof look->causes[index]) {
        return error_set(err, STATUS_FORMAT, "a result of %zu bytes is not one of causes",
                         result->length);
    }
    memcpy(&look->causes[index], result->bytes, sizeof look->causes[index]);
    return STATUS_OK;
}

const ana_bubble_causes *ana_closer_look_find(const ana_closer_look *look, int64_t item)
{
    if (look->count == 0) return NULL;
    const int64_t *found =
        bsearch(&item, look->items, (size_t)look->count, sizeof item, compare_items);
    return found != NULL ? &look->causes[found - look->items] : NULL;
}

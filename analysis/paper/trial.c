#include "analysis/paper/trial.h"

#include "analysis/compare/compare.h"
#include "analysis/compare/contiguous_bound.h"
#include "analysis/paper/reproduction.h"
#include "analysis/study/setup.h"
#include "analysis/study/study.h"
#include "base/arena.h"
#include "base/text.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/// Applies the changes one after the other. text is the study and then what came of it.
static status change_text(const char *name, const char *const *changes, int change_count,
                          text_buffer *text, error_message *err)
{
    for (int change = 0; change < change_count; change++) {
        if (changes[change] == NULL) continue;
        text_buffer changed = {0};
        const status result = json_change(name, text->bytes, changes[change], &changed, err);
        if (result != STATUS_OK) {
            text_free(&changed);
            return result;
        }
        text_free(text);
        *text = changed;
    }
    return STATUS_OK;
}

/// What the reduction adds to any plan's iteration where nothing hides it: all of it, shared evenly
/// by the ranks.
static int64_t bare_reduction_ns(const ana_setup *setup, const bal_layer_costs *costs)
{
    int64_t sum = 0;
    if (setup->study->reduction_overlap != BAL_REDUCTION_EXPOSED) return 0;
    for (int layer = 0; costs->reduction_ns != NULL && layer < costs->layer_count; layer++) {
        sum += costs->reduction_ns[layer];
    }
    return sum / setup->machine.rank_count;
}

/// Sums over the run. An iteration in which nothing changes repeats the one before it.
static status bound_run(const ana_setup *setup, ana_trial *trial, error_message *err)
{
    arena *memory = arena_create(1 << 16);
    ana_contiguous_bound bound = {0, 0};
    int64_t work_ns = 0;
    int64_t reduction_ns = 0;
    status result = STATUS_OK;
    for (int iteration = 0; iteration < setup->iteration_count && result == STATUS_OK;
         iteration++) {
        bal_layer_costs costs;
        bool changed = false;
        result = setup->source.costs_at(setup->source.context, iteration, &costs, &changed, err);
        if (result == STATUS_OK && (changed || iteration == 0)) {
            arena_reset(memory);
            result = ana_bound_contiguous(&costs, setup->machine.rank_count,
                                          setup->microbatch_count, memory, &bound, err);
            reduction_ns = bare_reduction_ns(setup, &costs);
        }
        if (result == STATUS_OK && bound.work_ns > INT64_MAX - work_ns) {
            result = error_set(err, STATUS_INVALID, "the work of the run does not fit 64 bits");
        }
        if (result != STATUS_OK) break;
        trial->bound_ns += bound.makespan_ns;
        trial->reduction_bound_ns += reduction_ns;
        work_ns += bound.work_ns;
    }
    arena_destroy(memory);
    trial->work_ns = work_ns / setup->machine.rank_count;
    return result;
}

static void keep_row(const ana_row *row, ana_trial_row *kept)
{
    const bal_training_result *result = &row->result;
    *kept = (ana_trial_row){
        .is_dynamic = ana_balancing_is_dynamic(row->balancing),
        .is_played = row->outcome == STATUS_OK && result->executable,
    };
    snprintf(kept->label, sizeof kept->label, "%s", row->balancing->label);
    if (!kept->is_played) return;
    kept->fits = result->fits;
    kept->total_ns = result->total_ns;
    kept->unpacked_ns = row->unpacked_ns;
    kept->profile_ns = result->profile_ns;
    kept->decision_ns = result->decision_ns;
    kept->migration_ns = result->migration_ns;
    kept->last_ns = result->last.makespan_ns;
    kept->rank_count_mean = result->rank_count_mean;
    kept->bubble_ratio = result->bubble_ratio;
    kept->first_bubble_ratio = result->first.bubble_ratio;
    kept->last_bubble_ratio = result->last.bubble_ratio;
}

static status play(ana_study *study, arena *memory, ana_trial *trial, error_message *err)
{
    ana_setup setup;
    ana_comparison comparison;
    TRY(ana_setup_open(study, memory, &setup, err));
    status result = ana_compare(&setup, NULL, memory, &comparison, err);
    if (result == STATUS_OK) result = bound_run(&setup, trial, err);
    if (result == STATUS_OK) {
        assert(study->balancing_count <= ANA_TRIAL_ROWS_MAX);
        const int size = study->microbatch_size > 0 ? study->microbatch_size : 1;
        trial->row_count = study->balancing_count;
        trial->iteration_count = setup.iteration_count;
        trial->samples_per_iteration = size * setup.microbatch_count * study->round_count;
        trial->still_even_ns = comparison.still_even_ns;
        for (int row = 0; row < trial->row_count; row++) {
            keep_row(&comparison.rows[row], &trial->rows[row]);
        }
    }
    ana_setup_close(&setup);
    return result;
}

status ana_trial_play(const char *study, const char *const *changes, int change_count,
                      ana_trial *trial, error_message *err)
{
    const char *shipped = embedded_find(ana_paper_studies, study);
    assert(shipped != NULL);
    arena *memory = arena_create(1 << 20);
    *trial = (ana_trial){.row_count = 0};
    text_buffer text = {0};
    text_append(&text, shipped);
    ana_study opened;
    status result = change_text(study, changes, change_count, &text, err);
    if (result == STATUS_OK) {
        result = ana_study_open_text(study, text.bytes, memory, &opened, err);
        if (result == STATUS_OK) {
            result = play(&opened, memory, trial, err);
            ana_study_close(&opened);
        }
    }
    text_free(&text);
    arena_destroy(memory);
    return result;
}

const ana_trial_row *ana_trial_find(const ana_trial *trial, const char *label)
{
    for (int row = 0; row < trial->row_count; row++) {
        const ana_trial_row *found = &trial->rows[row];
        if (strcmp(found->label, label) == 0) return found->is_played ? found : NULL;
    }
    return NULL;
}

static const ana_trial_row *faster(const ana_trial_row *a, const ana_trial_row *b)
{
    if (b == NULL || !b->is_played) return a;
    return a == NULL || b->total_ns < a->total_ns ? b : a;
}

const ana_trial_row *ana_trial_best_static(const ana_trial *trial)
{
    static const char *const labels[] = {"even", "parameters", "parameters-legacy"};
    const ana_trial_row *best = NULL;
    for (size_t label = 0; label < sizeof labels / sizeof labels[0]; label++) {
        best = faster(best, ana_trial_find(trial, labels[label]));
    }
    return best;
}

const ana_trial_row *ana_trial_best_dynamic(const ana_trial *trial)
{
    const ana_trial_row *best = NULL;
    for (int row = 0; row < trial->row_count; row++) {
        const ana_trial_row *candidate = &trial->rows[row];
        if (candidate->is_dynamic && candidate->unpacked_ns == 0) best = faster(best, candidate);
    }
    return best;
}

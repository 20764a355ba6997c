#include "analysis/trial.h"

#include "analysis/compare.h"
#include "analysis/reproduction.h"
#include "analysis/setup.h"
#include "analysis/study.h"
#include "balance/partition.h"
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

/// All that one iteration computes, layer by layer: F, B and W of all its microbatches.
static void sum_microbatches(const bal_layer_costs *costs, int microbatch_count, int64_t *work_ns)
{
    const int columns = costs->microbatch_count;
    for (int layer = 0; layer < costs->layer_count; layer++) {
        work_ns[layer] = 0;
        for (int microbatch = 0; microbatch < microbatch_count; microbatch++) {
            const size_t at = (size_t)layer * (size_t)columns + (size_t)(microbatch % columns);
            work_ns[layer] += costs->forward_ns[at] + costs->backward_input_ns[at] +
                              costs->backward_weight_ns[at];
        }
    }
}

/// Of one iteration: what its largest stage computes under any contiguous plan, and what all
/// compute.
typedef struct iteration_work {
    int64_t bound_ns;
    int64_t all_ns;
} iteration_work;

static status bound_iteration(const ana_setup *setup, const bal_layer_costs *costs, arena *memory,
                              iteration_work *work, error_message *err)
{
    int64_t *work_ns = arena_array(memory, (size_t)costs->layer_count, sizeof *work_ns);
    int *first_layer = arena_array(memory, (size_t)setup->stage_count + 1, sizeof *first_layer);
    int64_t *none = arena_array(memory, (size_t)costs->layer_count, sizeof *none);
    if (work_ns == NULL || first_layer == NULL || none == NULL) {
        return error_set(err, STATUS_NO_MEMORY, "out of memory");
    }
    sum_microbatches(costs, setup->microbatch_count, work_ns);
    work->all_ns = 0;
    for (int layer = 0; layer < costs->layer_count; layer++) {
        work->all_ns += work_ns[layer];
    }
    const bal_problem problem = {
        .layers = {.layer_count = costs->layer_count,
                   .microbatch_count = 1,
                   .embedding = costs->embedding,
                   .head = costs->head,
                   .forward_ns = work_ns,
                   .backward_input_ns = none,
                   .backward_weight_ns = none},
        .stage_count = setup->stage_count,
        .weight = BAL_WEIGHT_TIME,
        .allow_empty_stages = true,
    };
    bal_chain chain;
    TRY(bal_chain_of(&problem, memory, &chain, err));
    return bal_partition_bottleneck(&chain, memory, first_layer, &work->bound_ns, err);
}

/// Sums over the run. An iteration in which nothing changes repeats the one before it.
static status bound_run(const ana_setup *setup, ana_trial *trial, error_message *err)
{
    arena *memory = arena_create(1 << 16);
    if (memory == NULL) return error_set(err, STATUS_NO_MEMORY, "out of memory");
    iteration_work work = {0, 0};
    int64_t all_ns = 0;
    status result = STATUS_OK;
    for (int iteration = 0; iteration < setup->iteration_count && result == STATUS_OK;
         iteration++) {
        bal_layer_costs costs;
        bool changed = false;
        result = setup->source.costs_at(setup->source.context, iteration, &costs, &changed, err);
        if (result == STATUS_OK && (changed || iteration == 0)) {
            arena_reset(memory);
            result = bound_iteration(setup, &costs, memory, &work, err);
        }
        if (result == STATUS_OK && work.all_ns > INT64_MAX - all_ns) {
            result = error_set(err, STATUS_INVALID, "the work of the run does not fit 64 bits");
        }
        if (result != STATUS_OK) break;
        trial->bound_ns += work.bound_ns;
        all_ns += work.all_ns;
    }
    arena_destroy(memory);
    trial->work_ns = all_ns / setup->machine.rank_count;
    return result;
}

static void keep_row(const ana_row *row, ana_trial_row *kept)
{
    const sim_training_result *result = &row->result;
    *kept = (ana_trial_row){
        .is_dynamic = ana_balancing_is_dynamic(row->balancing),
        .is_played = row->outcome == STATUS_OK && result->executable,
    };
    snprintf(kept->label, sizeof kept->label, "%s", row->balancing->label);
    if (!kept->is_played) return;
    kept->fits = result->fits;
    kept->total_ns = result->total_ns;
    kept->unpacked_ns = row->unpacked_ns;
    kept->overhead_ns = result->profile_ns + result->decision_ns + result->migration_ns;
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
        trial->samples_per_iteration = size * setup.microbatch_count;
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
    if (memory == NULL) return error_set(err, STATUS_NO_MEMORY, "out of memory");
    *trial = (ana_trial){.row_count = 0};
    text_buffer text = {0};
    text_append(&text, shipped);
    ana_study opened;
    status result = text.failed ? error_set(err, STATUS_NO_MEMORY, "out of memory")
                                : change_text(study, changes, change_count, &text, err);
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
        if (trial->rows[row].is_dynamic) best = faster(best, &trial->rows[row]);
    }
    return best;
}

double ana_trial_rate(const ana_trial *trial, const ana_trial_row *row)
{
    return (double)trial->samples_per_iteration * trial->iteration_count /
           ((double)row->total_ns / 1e9);
}

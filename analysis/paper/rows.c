/// Intervals, and rows with what is published of them.
#include "analysis/paper/rows.h"

#include "analysis/compare/compare.h"
#include "analysis/study/setup.h"
#include "analysis/study/study.h"
#include "base/arena.h"
#include "base/text.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

const char *ana_paper_text(json_value value)
{
    const char *text = "";
    (void)json_string(value, &text, NULL);
    return text;
}

double ana_paper_number(json_value value)
{
    double number = NAN;
    (void)json_double(value, -1e300, 1e300, &number, NULL);
    return number;
}

int ana_paper_list(json_value list, int most, json_value *elements)
{
    int count = 0;
    for (json_value at = json_element(list, 0); at.node != NULL; at = json_next(at)) {
        const char *name = NULL;
        if (json_string(at, &name, NULL) == STATUS_OK) {
            const json_value shared = json_member(json_root(at.document), name);
            count += ana_paper_list(shared, most - count, elements + count);
        } else {
            assert(count < most);
            elements[count++] = at;
        }
    }
    return count;
}

ana_interval ana_interval_of(double number)
{
    return (ana_interval){number, number, number, 1};
}

void ana_interval_add(ana_interval *interval, double number)
{
    if (interval->count == 0) *interval = (ana_interval){number, number, number, 0};
    interval->count++;
    interval->low = fmin(interval->low, number);
    interval->high = fmax(interval->high, number);
}

double ana_rows_published(const ana_rows *rows, const char *quantity)
{
    char name[128];
    snprintf(name, sizeof name, "%s", quantity);
    for (char *comma = name; comma != NULL; comma = strrchr(name, ',')) {
        json_value entry = json_element(json_member(rows->experiment, "published"), 0);
        if (comma != name) *comma = '\0';
        for (; entry.node != NULL; entry = json_next(entry)) {
            if (strcmp(ana_paper_text(json_element(entry, 0)), name) != 0) continue;
            return ana_paper_number(json_element(entry, 1));
        }
    }
    return NAN;
}

ana_reproduced *ana_rows_add(ana_rows *rows, const char *quantity, const ana_interval *number,
                             const char *baseline, const char *note)
{
    assert(rows->count < ANA_ROWS_MAX);
    ana_reproduced *row = &rows->rows[rows->count++];
    *row = (ana_reproduced){.experiment = ana_paper_text(json_member(rows->experiment, "name")),
                            .quantity = quantity,
                            .published = ana_rows_published(rows, quantity),
                            .simulated = number->value,
                            .low = number->low,
                            .high = number->high,
                            .bound = NAN,
                            .agreement = ANA_AGREEMENT_PREDICTED,
                            .baseline = baseline,
                            .note = note};
    return row;
}

// One study of the paper played with other values at some of its places.

/// Applies the changes one after the other. text is the study and then what came of it.
static status change_text(const char *name, const char *const *changes, int change_count,
                          arena *memory, const char **text, error_message *err)
{
    for (int change = 0; change < change_count; change++) {
        if (changes[change] == NULL) continue;
        text_buffer changed = {.memory = memory};
        TRY(json_change(name, *text, changes[change], &changed, err));
        *text = changed.bytes;
    }
    return STATUS_OK;
}

/// Sums over the run. An iteration in which nothing changes repeats the one before it.
static status bound_run(const ana_setup *setup, arena *memory, ana_trial *trial, error_message *err)
{
    const bool hides_reduction = setup->study->run.reduction_overlap != BAL_REDUCTION_EXPOSED;
    ana_contiguous_bound bound = {0};
    int64_t work_ns = 0;
    int64_t reduction_ns = 0;
    for (int iteration = 0; iteration < setup->iteration_count; iteration++) {
        bal_layer_costs costs;
        bool changed = false;
        TRY(setup->source.costs_at(setup->source.context, iteration, &costs, &changed, err));
        if (changed || iteration == 0) {
            arena_reset(memory);
            TRY(ana_bound_contiguous(&costs, setup->machine.rank_count, setup->microbatch_count,
                                     memory, &bound, err));
            if (!hides_reduction) {
                reduction_ns = ana_reduction_share_ns(&costs, setup->machine.rank_count);
            }
        }
        if (bound.work_ns > INT64_MAX - work_ns) {
            return error_set(err, STATUS_INVALID, "the work of the run does not fit 64 bits");
        }
        trial->bound_ns += bound.makespan_ns;
        trial->reduction_bound_ns += reduction_ns;
        work_ns += bound.work_ns;
    }
    trial->work_ns = work_ns / setup->machine.rank_count;
    return STATUS_OK;
}

static status play(ana_study *study, arena *memory, ana_trial *trial, error_message *err)
{
    ana_setup setup;
    ana_comparison comparison;
    TRY(ana_setup_open(study, NULL, memory, &setup, err));
    TRY(ana_compare(&setup, NULL, memory, &comparison, err));
    TRY(bound_run(&setup, arena_within(memory, 1 << 16), trial, err));
    assert(study->balancing_count <= ANA_TRIAL_ROWS_MAX);
    trial->row_count = study->balancing_count;
    trial->iteration_count = setup.iteration_count;
    trial->still_even_ns = comparison.still_even_ns;
    for (int row = 0; row < trial->row_count; row++) {
        const ana_row *played = &comparison.rows[row];
        ana_trial_row *kept = &trial->rows[row];
        kept->is_dynamic = ana_balancing_is_dynamic(played->balancing);
        kept->is_played = played->outcome == STATUS_OK && played->result.executable;
        kept->result = played->result;
        kept->unpacked_ns = played->unpacked_ns;
        snprintf(kept->label, sizeof kept->label, "%s", played->balancing->label);
    }
    return STATUS_OK;
}

status ana_trial_play(const char *study, const char *const *changes, int change_count,
                      ana_trial *trial, error_message *err)
{
    const char *text = embedded_find(ana_paper_studies, study);
    assert(text != NULL);
    arena *memory = arena_create(1 << 20);
    *trial = (ana_trial){.row_count = 0};
    ana_study opened;
    status result = change_text(study, changes, change_count, memory, &text, err);
    if (result == STATUS_OK) {
        result = ana_study_open_text(study, text, "{}", memory, &opened, err);
    }
    if (result == STATUS_OK) result = play(&opened, memory, trial, err);
    arena_destroy(memory);
    return result;
}

static const ana_trial_row *faster(const ana_trial_row *a, const ana_trial_row *b)
{
    if (b == NULL || !b->is_played) return a;
    return a == NULL || b->result.total_ns < a->result.total_ns ? b : a;
}

const ana_trial_row *ana_trial_find(const ana_trial *trial, const char *label)
{
    static const char *const statics[] = {"even", "parameters", "parameters-legacy"};
    const ana_trial_row *found = NULL;
    if (strcmp(label, "static") == 0) {
        for (size_t each = 0; each < sizeof statics / sizeof statics[0]; each++) {
            found = faster(found, ana_trial_find(trial, statics[each]));
        }
        return found;
    }
    for (int row = 0; row < trial->row_count; row++) {
        if (strcmp(trial->rows[row].label, label) == 0) found = &trial->rows[row];
    }
    return found != NULL && found->is_played ? found : NULL;
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

int64_t ana_trial_overhead_ns(const ana_trial_row *row)
{
    return row->result.profile_ns + row->result.decision_ns + row->result.migration_ns;
}

/// Scores of predictions: errors, coverage, and what choosing by them costs.
#include "analysis/calibration/real_runs.h"
#include "analysis/validate/validate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_scored(const ana_validated_run *run)
{
    return !run->is_refused && !run->is_learned;
}

static void score_times(ana_validation *validation, double *errors)
{
    ana_validation_summary *summary = &validation->summary;
    int bars = 0;
    int held = 0;
    double plain = 0;
    for (int row = 0; row < validation->runs->source.row_count; row++) {
        const ana_validated_run *run = &validation->rows[row];
        summary->refused_count += run->is_refused;
        summary->learned_count += run->is_learned;
        if (!is_scored(run)) continue;
        plain += run->plain_ns > 0 ? fabs(run->plain_ns / run->measured_ns - 1) : NAN;
        errors[summary->row_count++] = run->predicted_ns / run->measured_ns - 1;
        summary->ambiguous_count += run->is_ambiguous;
        bars += run->has_bar;
        held += run->has_bar && run->low_ns <= run->measured_ns && run->measured_ns <= run->high_ns;
    }
    summary->plain_error_mean = plain / summary->row_count;
    summary->coverage = bars > 0 ? (double)held / bars : NAN;
    summary->error = ana_errors_of(errors, summary->row_count);
}

static void score_memory(ana_validation *validation, double *errors)
{
    ana_validation_summary *summary = &validation->summary;
    for (int row = 0; row < validation->runs->source.row_count; row++) {
        const ana_validated_run *run = &validation->rows[row];
        if (!is_scored(run) || run->measured_peak_bytes == 0) continue;
        errors[summary->memory_count++] = run->peak_bytes / run->measured_peak_bytes - 1;
    }
    summary->memory_error = ana_errors_of(errors, summary->memory_count);
    if (summary->memory_count > 0) return;
    summary->memory_error = (ana_errors){.mean = NAN, .median = NAN, .signed_mean = NAN};
}

/// A predicted row and the group it is in.
typedef struct grouped_row {
    const char *group;
    int row;
} grouped_row;

static int compare_groups(const void *a, const void *b)
{
    const grouped_row *first = a;
    const grouped_row *second = b;
    const int order = strcmp(first->group, second->group);
    return order != 0 ? order : (first->row > second->row) - (first->row < second->row);
}

/// Pairs that are in the same order by prediction and by measurement, less those that are not.
typedef struct pair_count {
    double agreement;
    double pairs;
} pair_count;

static void count_pairs(const ana_validation *validation, const grouped_row *rows, int count,
                        pair_count *pairs)
{
    for (int a = 0; a < count; a++) {
        for (int b = a + 1; b < count; b++) {
            const ana_validated_run *first = &validation->rows[rows[a].row];
            const ana_validated_run *second = &validation->rows[rows[b].row];
            const double measured = first->measured_ns - second->measured_ns;
            const double predicted = first->predicted_ns - second->predicted_ns;
            if (measured == 0) continue;
            pairs->pairs++;
            if (predicted != 0) pairs->agreement += (measured > 0) == (predicted > 0) ? 1 : -1;
        }
    }
}

/// What choosing the row predicted fastest costs in one group; of equal ones the first.
static void score_group(ana_validation *validation, const grouped_row *rows, int count)
{
    ana_validation_summary *summary = &validation->summary;
    const ana_validated_run *chosen = &validation->rows[rows[0].row];
    double least = INFINITY;
    double sum = 0;
    for (int index = 0; index < count; index++) {
        const ana_validated_run *run = &validation->rows[rows[index].row];
        if (run->predicted_ns < chosen->predicted_ns) chosen = run;
        least = fmin(least, run->measured_ns);
        sum += run->measured_ns;
    }
    const double regret = chosen->measured_ns / least - 1;
    summary->group_count++;
    summary->regret_mean += regret;
    summary->regret_max = fmax(summary->regret_max, regret);
    summary->random_regret_mean += sum / count / least - 1;
}

static void score_groups(ana_validation *validation, const grouped_row *rows, int count)
{
    ana_validation_summary *summary = &validation->summary;
    pair_count pairs = {0};
    for (int first = 0, end = 0; first < count; first = end) {
        for (end = first; end < count && strcmp(rows[end].group, rows[first].group) == 0;) {
            end++;
        }
        if (end - first < 2) continue;
        score_group(validation, rows + first, end - first);
        count_pairs(validation, rows + first, end - first, &pairs);
    }
    const int groups = summary->group_count;
    summary->regret_mean = groups > 0 ? summary->regret_mean / groups : NAN;
    summary->regret_max = groups > 0 ? summary->regret_max : NAN;
    summary->random_regret_mean = groups > 0 ? summary->random_regret_mean / groups : NAN;
    summary->rank_correlation = pairs.pairs > 0 ? pairs.agreement / pairs.pairs : NAN;
}

void ana_validation_score(ana_validation *validation)
{
    const int count = validation->runs->source.row_count;
    arena *memory = validation->memory;
    double *errors = arena_array(memory, (size_t)count, sizeof *errors);
    grouped_row *rows = arena_array(memory, (size_t)count, sizeof *rows);
    int row_count = 0;
    validation->summary = (ana_validation_summary){0};
    score_times(validation, errors);
    score_memory(validation, errors);
    for (int row = 0; row < count; row++) {
        text_buffer group = {0};
        if (!is_scored(&validation->rows[row])) continue;
        ana_real_group(validation->runs, row, &group);
        rows[row_count++] = (grouped_row){text_keep(&group, memory), row};
    }
    qsort(rows, (size_t)row_count, sizeof *rows, compare_groups);
    score_groups(validation, rows, row_count);
}

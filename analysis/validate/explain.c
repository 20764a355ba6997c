#include "analysis/validate/explain.h"

#include "analysis/whatif/correction.h"

#include <math.h>
#include <string.h>

enum { VALUES_MAX = 6, BEAM = 4 };

/// Of the log of a likelihood: that a default is wrong is taken to be less likely than that it is
/// right.
static const double price = 2.5;
static const double closer = 0.8; // the mean error of what explains anything, at most

/// What may be tried where nothing says it.
static const struct {
    ana_real_column column;
    const char *values[VALUES_MAX];
} choices[] = {
    {ANA_REAL_PRECISION, {"tf32", "fp32"}},
    {ANA_REAL_ATTENTION, {"unfused", "flash-2"}},
    {ANA_REAL_RECOMPUTE, {"none", "selective", "full"}},
    {ANA_REAL_SEQUENCE_PARALLEL, {"0", "1"}},
    {ANA_REAL_SHARDING, {"none", "optimizer", "parameters"}},
    {ANA_REAL_VP, {"2", "3", "4", "6", "8"}},
    {ANA_REAL_KERNELS, {"eager"}},
    {ANA_REAL_LOSS, {"eager"}},
    {ANA_REAL_EXPERT_DEDUPLICATION, {"0", "1"}},
};

enum { CHOICES = sizeof choices / sizeof choices[0] };

/// How well runs are explained under some settings.
typedef struct trial {
    double evidence; // -INFINITY: not all that can be modelled otherwise can be so
    double error;    // mean of |predicted / measured - 1|
    int learned;
} trial;

static double mean_error(const ana_correction *correction)
{
    double sum = 0;
    for (int run = 0; run < correction->run_count; run++) {
        sum += fabs(exp(-correction->log_ratios[run]) - 1);
    }
    return sum / correction->run_count;
}

static status try_settings(const ana_real_runs *runs, trial *out, error_message *err)
{
    const int rows = runs->source.row_count;
    const int stride = (rows + ANA_EXPLAINED_ROWS_MAX - 1) / ANA_EXPLAINED_ROWS_MAX;
    arena *memory = arena_create(1 << 16);
    ana_correction learned;
    const status result = ana_correction_learn(runs, stride, memory, &learned, err);
    if (result == STATUS_OK) {
        *out = (trial){learned.evidence, mean_error(&learned), learned.run_count};
    }
    arena_destroy(memory);
    return result;
}

/// Settings beside the defaults, and how well they explain the runs.
typedef struct hypothesis {
    int count;
    ana_real_column column[ANA_EXPLAINED_MAX];
    const char *value[ANA_EXPLAINED_MAX];
    trial trial;
} hypothesis;

/// The best hypotheses of as many settings, the first the best.
typedef struct beam {
    int count;
    hypothesis best[BEAM];
} beam;

static double worth(const hypothesis *of)
{
    return of->trial.evidence - price * of->count;
}

static bool has_column(const hypothesis *of, ana_real_column column)
{
    int setting = 0;
    while (setting < of->count && of->column[setting] != column) {
        setting++;
    }
    return setting < of->count;
}

/// Whether the settings are the same in another order.
static bool is_same(const hypothesis *left, const hypothesis *right)
{
    int same = 0;
    for (int one = 0; one < left->count; one++) {
        for (int other = 0; other < right->count; other++) {
            same += left->column[one] == right->column[other] &&
                    strcmp(left->value[one], right->value[other]) == 0;
        }
    }
    return same == left->count;
}

static void keep(beam *kept, const hypothesis *found)
{
    for (int at = 0; at < kept->count; at++) {
        if (is_same(&kept->best[at], found)) return;
    }
    int at = kept->count < BEAM ? kept->count++ : BEAM - 1;
    if (at == BEAM - 1 && worth(&kept->best[at]) >= worth(found) && kept->count == BEAM) return;
    for (; at > 0 && worth(&kept->best[at - 1]) < worth(found); at--) {
        kept->best[at] = kept->best[at - 1];
    }
    kept->best[at] = *found;
}

/// Adds a setting to a hypothesis and keeps it if all rows can be modelled so.
static void try_value(const ana_real_runs *runs, const hypothesis *from, ana_real_column column,
                      const char *value, beam *kept)
{
    ana_real_runs set = *runs;
    hypothesis found = *from;
    if (ana_real_says(runs, column) || has_column(from, column)) return;
    found.column[found.count] = column;
    found.value[found.count++] = value;
    for (int setting = 0; setting < found.count; setting++) {
        set.constant[found.column[setting]] = found.value[setting];
    }
    if (try_settings(&set, &found.trial, NULL) != STATUS_OK) return;
    if (found.trial.learned >= from->trial.learned) keep(kept, &found);
}

/// Tries every setting more.
static void extend(const ana_real_runs *runs, const hypothesis *from, beam *kept)
{
    for (int choice = 0; choice < CHOICES; choice++) {
        const char *const *values = choices[choice].values;
        for (int value = 0; value < VALUES_MAX && values[value] != NULL; value++) {
            try_value(runs, from, choices[choice].column, values[value], kept);
        }
    }
}

static void take(const hypothesis *found, ana_explanation *out)
{
    out->count = found->count;
    out->error_after = found->trial.error;
    for (int setting = 0; setting < found->count; setting++) {
        out->settings[setting] =
            (ana_explained){ana_real_name(found->column[setting]), found->value[setting]};
    }
}

status ana_explain(const ana_real_runs *runs, ana_explanation *out, error_message *err)
{
    beam now = {.count = 1};
    hypothesis best = {0};
    if (!ana_real_says(runs, ANA_REAL_HARDWARE)) {
        return error_set(err, STATUS_INVALID,
                         "%s: what explains times cannot be told where nothing says the hardware "
                         "(--set hardware=NAME)",
                         runs->source.path);
    }
    TRY(try_settings(runs, &best.trial, err));
    now.best[0] = best;
    const double before = best.trial.evidence;
    *out = (ana_explanation){.row_count = best.trial.learned, .error_before = best.trial.error};
    for (int depth = 0; depth < ANA_EXPLAINED_MAX && now.count > 0; depth++) {
        beam next = {0};
        for (int from = 0; from < now.count; from++) {
            extend(runs, &now.best[from], &next);
        }
        for (int found = 0; found < next.count; found++) {
            const hypothesis *other = &next.best[found];
            const bool is_closer = other->trial.error < closer * out->error_before;
            if (is_closer && worth(other) > worth(&best)) best = *other;
        }
        now = next;
    }
    out->gain = best.trial.evidence - before;
    take(&best, out);
    return STATUS_OK;
}

void ana_explanation_write_json(const ana_explanation *explanation, json_writer *writer)
{
    json_put_object(writer, "explanation");
    json_put_int64(writer, "rows", explanation->row_count);
    json_put_double(writer, "error_before", text_rounded(explanation->error_before, 6));
    json_put_double(writer, "error_after", text_rounded(explanation->error_after, 6));
    json_put_double(writer, "log_likelihood_gain", text_rounded(explanation->gain, 4));
    json_put_array(writer, "settings");
    for (int setting = 0; setting < explanation->count; setting++) {
        const ana_explained *found = &explanation->settings[setting];
        json_begin_object(writer);
        json_put_string(writer, "column", found->column);
        json_put_string(writer, "value", found->value);
        json_end_object(writer);
    }
    json_end_array(writer);
    json_end_object(writer);
}

void ana_explanation_write_text(const ana_explanation *explanation, text_buffer *out)
{
    if (explanation->count == 0) {
        text_format(out,
                    "\nNothing that the table leaves open explains its times much better (%d rows "
                    "played).\n",
                    explanation->row_count);
        return;
    }
    text_append(out, "\nThe table leaves open, and its times are explained best with, --set ");
    for (int setting = 0; setting < explanation->count; setting++) {
        const ana_explained *found = &explanation->settings[setting];
        text_format(out, "%s%s=%s", setting > 0 ? "," : "", found->column, found->value);
    }
    text_format(
        out,
        ":\ne^%.1f times as likely as with the defaults, mean error of %d rows %.1f %%, with "
        "the defaults %.1f %%.\n",
        explanation->gain, explanation->row_count, 100 * explanation->error_after,
        100 * explanation->error_before);
}

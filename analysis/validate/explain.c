#include "analysis/validate/explain.h"

#include "analysis/whatif/correction.h"

#include <math.h>
#include <string.h>

enum { VALUES_MAX = 6, BEAM = 4, ROWS_MIN = 4, FEW_ROWS = 16 };

/// Of the log of a likelihood: that a default is wrong is taken to be less likely than that it is
/// right.
static const double price = 2.5;
static const double closer = 0.8; // the mean error of what explains anything, at most
static const double near = 0.5;   // of what is worth telling beside a slower machine

/// What may be tried where nothing says it.
static const struct {
    ana_real_column column;
    const char *values[VALUES_MAX];
} choices[] = {
    {ANA_REAL_PRECISION, {"tf32", "fp32"}},
    {ANA_REAL_ATTENTION, {"unfused", "flash-2"}},
    {ANA_REAL_RECOMPUTE, {"none", "selective", "full", "early-stop"}},
    {ANA_REAL_SEQUENCE_PARALLEL, {"0", "1"}},
    {ANA_REAL_SHARDING, {"none", "optimizer", "parameters"}},
    {ANA_REAL_VP, {"2", "3", "4", "6", "8"}},
    {ANA_REAL_KERNELS, {"eager"}},
    {ANA_REAL_LOSS, {"eager"}},
    {ANA_REAL_EXPERT_DEDUPLICATION, {"0", "1"}},
    {ANA_REAL_BLOCKING_LAUNCHES, {"1"}},
};

enum { CHOICES = sizeof choices / sizeof choices[0] };

/// Settings beside the defaults, and how well they explain the runs.
typedef struct hypothesis {
    int count;
    ana_real_column column[ANA_EXPLAINED_MAX];
    const char *value[ANA_EXPLAINED_MAX];
    double evidence;
    double error; // mean of |predicted / measured - 1|
} hypothesis;

/// The best hypotheses of some, the first the best.
typedef struct beam {
    int count;
    hypothesis best[BEAM];
} beam;

typedef struct settings_search {
    const ana_real_runs *runs;
    int rows[ANA_EXPLAINED_ROWS_MAX]; // that can be modelled with the defaults, the same throughout
    int row_count;
    bool is_open[CHOICES]; // no row says it
    hypothesis defaults;
    beam closest;       // of those that are closer than the defaults
    hypothesis nearest; // of one setting, the closest; count 0: none is closer
} settings_search;

static double worth(const hypothesis *of)
{
    return of->evidence - price * of->count;
}

static bool has_column(const hypothesis *of, ana_real_column column)
{
    int setting = 0;
    while (setting < of->count && of->column[setting] != column) {
        setting++;
    }
    return setting < of->count;
}

/// Whether the settings are the same, maybe in another order.
static bool is_same(const hypothesis *left, const hypothesis *right)
{
    int same = 0;
    for (int one = 0; one < left->count; one++) {
        for (int other = 0; other < right->count; other++) {
            same += left->column[one] == right->column[other] &&
                    strcmp(left->value[one], right->value[other]) == 0;
        }
    }
    return left->count == right->count && same == left->count;
}

/// Keeps a hypothesis if it is among the best.
static void keep(beam *kept, const hypothesis *found)
{
    for (int at = 0; at < kept->count; at++) {
        if (is_same(&kept->best[at], found)) return;
    }
    if (kept->count == BEAM && worth(&kept->best[BEAM - 1]) >= worth(found)) return;
    if (kept->count < BEAM) kept->count++;
    int at = kept->count - 1;
    for (; at > 0 && worth(&kept->best[at - 1]) < worth(found); at--) {
        kept->best[at] = kept->best[at - 1];
    }
    kept->best[at] = *found;
}

static double mean_error(const ana_correction *correction)
{
    double sum = 0;
    for (int run = 0; run < correction->run_count; run++) {
        sum += fabs(exp(-correction->log_ratios[run]) - 1);
    }
    return sum / correction->run_count;
}

/// Plays the rows under a hypothesis. @return whether all of them can be modelled so
static bool weigh(const settings_search *search, hypothesis *of)
{
    arena *memory = arena_create(1 << 16);
    ana_real_runs runs = *search->runs;
    ana_correction learned = {0};
    for (int setting = 0; setting < of->count; setting++) {
        runs.constant[of->column[setting]] = of->value[setting];
    }
    const bool is_played = ana_correction_learn(&runs, search->rows, search->row_count, memory,
                                                &learned, NULL) == STATUS_OK &&
                           learned.run_count == search->row_count;
    if (is_played) {
        of->evidence = learned.evidence;
        of->error = mean_error(&learned);
    }
    arena_destroy(memory);
    return is_played;
}

static void try_value(settings_search *search, const hypothesis *from, ana_real_column column,
                      const char *value, beam *kept)
{
    hypothesis found = *from;
    found.column[found.count] = column;
    found.value[found.count++] = value;
    if (!weigh(search, &found)) return;
    keep(kept, &found);
    if (found.error < closer * search->defaults.error) keep(&search->closest, &found);
    if (found.count == 1 && found.error < search->nearest.error) search->nearest = found;
}

/// Tries every setting more.
static void extend(settings_search *search, const hypothesis *from, beam *kept)
{
    for (int choice = 0; choice < CHOICES; choice++) {
        const char *const *values = choices[choice].values;
        if (!search->is_open[choice] || has_column(from, choices[choice].column)) continue;
        for (int value = 0; value < VALUES_MAX && values[value] != NULL; value++) {
            try_value(search, from, choices[choice].column, values[value], kept);
        }
    }
}

/// Whether the runs are less likely without any one of the settings, each by its price.
static bool all_pay(const settings_search *search, const hypothesis *of)
{
    for (int left_out = 0; left_out < of->count; left_out++) {
        hypothesis without = *of;
        without.count--;
        without.column[left_out] = of->column[without.count];
        without.value[left_out] = of->value[without.count];
        if (!weigh(search, &without) || of->evidence - without.evidence < price) return false;
    }
    return true;
}

/// Takes rows evenly among those of the table, and of them what can be modelled.
static status choose_rows(settings_search *search, error_message *err)
{
    const int rows = search->runs->source.row_count;
    const int wanted = rows < ANA_EXPLAINED_ROWS_MAX ? rows : ANA_EXPLAINED_ROWS_MAX;
    arena *memory = arena_create(1 << 16);
    ana_point_worker *worker = ana_point_worker_create(memory);
    status result = STATUS_OK;
    for (int at = 0; at < wanted && result == STATUS_OK; at++) {
        const int row = (int)((int64_t)at * rows / wanted);
        ana_played_run played;
        result = ana_real_play(search->runs, row, worker, memory, &played, err);
        if (result == STATUS_OK && played.refusal == NULL) {
            search->rows[search->row_count++] = row;
        }
    }
    arena_destroy(memory);
    return result;
}

static void take(const hypothesis *found, const hypothesis *defaults, ana_explanation *out)
{
    out->count = found->count;
    out->error_after = found->error;
    out->gain = found->evidence - defaults->evidence;
    for (int setting = 0; setting < found->count; setting++) {
        out->settings[setting] =
            (ana_explained){ana_real_name(found->column[setting]), found->value[setting]};
    }
}

static void search_settings(settings_search *search)
{
    beam now = {.count = 1, .best = {search->defaults}};
    for (int depth = 0; depth < ANA_EXPLAINED_MAX && now.count > 0; depth++) {
        beam next = {0};
        for (int from = 0; from < now.count; from++) {
            extend(search, &now.best[from], &next);
        }
        now = next;
    }
}

status ana_explain(const ana_real_runs *runs, ana_explanation *out, error_message *err)
{
    settings_search search = {.runs = runs};
    *out = (ana_explanation){0};
    if (!ana_real_says(runs, ANA_REAL_HARDWARE)) {
        return error_set(err, STATUS_INVALID,
                         "%s: what explains times cannot be told where nothing says the hardware "
                         "(--set hardware=NAME)",
                         runs->source.path);
    }
    TRY(choose_rows(&search, err));
    out->row_count = search.row_count;
    if (search.row_count < ROWS_MIN || !weigh(&search, &search.defaults)) return STATUS_OK;
    for (int choice = 0; choice < CHOICES; choice++) {
        const ana_real_column column = choices[choice].column;
        const bool is_fsdp = column == ANA_REAL_SHARDING && ana_real_says(runs, ANA_REAL_FSDP);
        search.is_open[choice] = !ana_real_says(runs, column) && !is_fsdp;
    }
    search.nearest.error = search.defaults.error;
    search_settings(&search);
    out->error_before = out->error_after = search.defaults.error;
    for (int at = 0; at < search.closest.count; at++) {
        const hypothesis *found = &search.closest.best[at];
        if (worth(found) > worth(&search.defaults) && all_pay(&search, found)) {
            take(found, &search.defaults, out);
            break;
        }
    }
    if (out->count == 0 && search.nearest.error < near * search.defaults.error) {
        out->error_nearest = search.nearest.error;
        out->nearest =
            (ana_explained){ana_real_name(search.nearest.column[0]), search.nearest.value[0]};
    }
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
    if (explanation->nearest.column != NULL) {
        json_put_object(writer, "nearest");
        json_put_string(writer, "column", explanation->nearest.column);
        json_put_string(writer, "value", explanation->nearest.value);
        json_put_double(writer, "error", text_rounded(explanation->error_nearest, 6));
        json_end_object(writer);
    }
    json_end_object(writer);
}

void ana_explanation_write_text(const ana_explanation *explanation, text_buffer *out)
{
    if (explanation->count == 0) {
        text_format(out,
                    "\nNothing that the table leaves open explains its times much better (%d rows "
                    "played%s).\n",
                    explanation->row_count,
                    explanation->row_count < FEW_ROWS ? ", few to tell by" : "");
        if (explanation->nearest.column == NULL) return;
        text_format(out,
                    "Alone %s=%s would bring the mean error from %.1f to %.1f %%, but the times do "
                    "not tell it from another machine.\n",
                    explanation->nearest.column, explanation->nearest.value,
                    100 * explanation->error_before, 100 * explanation->error_nearest);
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
    if (explanation->row_count < FEW_ROWS) {
        text_append(out, "So few rows may be explained as well by what is not so.\n");
    }
}

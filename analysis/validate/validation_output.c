/// What `dynmo validate` prints.
#include "analysis/calibration/real_runs.h"
#include "analysis/validate/validate.h"
#include "base/json.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

static void put_ns(json_writer *writer, const char *key, double ns)
{
    json_put_int64(writer, key, (int64_t)llround(ns));
}

static void write_row(const ana_validation *validation, int row, json_writer *writer)
{
    const ana_validated_run *run = &validation->rows[row];
    json_begin_object(writer);
    json_put_int64(writer, "row", row + 1);
    json_put_int64(writer, "line", validation->runs->source.lines[row]);
    json_put_string(writer, "name", validation->names[row]);
    put_ns(writer, "measured_ns", run->measured_ns);
    if (run->is_refused) {
        json_put_string(writer, "refused", run->message);
        json_end_object(writer);
        return;
    }
    json_put_string(writer, "recompute", run->recompute);
    put_ns(writer, "predicted_ns", run->predicted_ns);
    json_put_double(writer, "ratio", text_rounded(run->predicted_ns / run->measured_ns, 6));
    if (run->has_bar) {
        put_ns(writer, "low_ns", run->low_ns);
        put_ns(writer, "high_ns", run->high_ns);
        json_put_bool(writer, "is_within",
                      run->low_ns <= run->measured_ns && run->measured_ns <= run->high_ns);
    }
    put_ns(writer, "peak_bytes", run->peak_bytes);
    if (run->measured_peak_bytes > 0) {
        put_ns(writer, "measured_peak_bytes", run->measured_peak_bytes);
        json_put_double(writer, "memory_ratio",
                        text_rounded(run->peak_bytes / run->measured_peak_bytes, 6));
    }
    json_put_double(writer, "tokens_per_s_per_gpu",
                    text_rounded(run->tokens / run->predicted_ns * 1e9, 6));
    if (run->is_learned) json_put_bool(writer, "is_learned", true);
    json_end_object(writer);
}

#define SUMMARY(member) offsetof(ana_validation_summary, member)

/// The figures of a summary in the order in which they are shown.
static const struct {
    const char *key;
    const char *words;
    size_t offset;
    bool is_share;
} figures[] = {
    {"error_mean", "error of time, mean", SUMMARY(error.mean), true},
    {"error_median", "median", SUMMARY(error.median), true},
    {"error_p90", "90th percentile", SUMMARY(error.p90), true},
    {"error_max", "worst", SUMMARY(error.max), true},
    {"signed_mean", "signed mean", SUMMARY(error.signed_mean), true},
    {"coverage", "90 % bars that hold", SUMMARY(coverage), true},
    {"regret_mean", "regret, mean over groups", SUMMARY(regret_mean), true},
    {"regret_max", "worst", SUMMARY(regret_max), true},
    {"random_regret_mean", "of a choice at random", SUMMARY(random_regret_mean), true},
    {"rank_correlation", "rank correlation within groups", SUMMARY(rank_correlation), false},
    {"memory_error_mean", "error of peak memory, mean", SUMMARY(memory_error.mean), true},
    {"memory_error_median", "median", SUMMARY(memory_error.median), true},
    {"memory_signed_mean", "signed mean", SUMMARY(memory_error.signed_mean), true},
};

enum { FIGURES = sizeof figures / sizeof figures[0] };

static const double large_error = 0.15; // the mean that asks for an explanation

static double value_of(const ana_validation_summary *summary, int figure)
{
    return *(const double *)((const char *)summary + figures[figure].offset);
}

/// Runs that the predicted ones were learned from.
static int learned_count(const ana_validation *validation)
{
    const ana_correction *other = validation->settings.calibration;
    return other != NULL ? other->run_count : validation->summary.learned_count;
}

void ana_validation_write_json(const ana_validation *validation, text_buffer *out)
{
    const ana_validation_summary *summary = &validation->summary;
    json_writer writer = json_line_begin(out);
    json_put_string(&writer, "runs", validation->runs->source.path);
    json_put_string(&writer, "source", validation->runs->source.source);
    json_put_string(&writer, "defaults", ana_real_defaults);
    json_put_string(&writer, "ignored_columns", validation->runs->ignored);
    json_put_array(&writer, "rows");
    for (int row = 0; row < validation->runs->source.row_count; row++) {
        write_row(validation, row, &writer);
    }
    json_end_array(&writer);
    json_put_object(&writer, "summary");
    json_put_int64(&writer, "rows", summary->row_count);
    json_put_int64(&writer, "refused", summary->refused_count);
    json_put_int64(&writer, "groups", summary->group_count);
    for (int figure = 0; figure < FIGURES; figure++) {
        json_put_double(&writer, figures[figure].key, text_rounded(value_of(summary, figure), 6));
    }
    json_put_int64(&writer, "ambiguous", summary->ambiguous_count);
    if (!isnan(summary->plain_error_mean)) {
        json_put_int64(&writer, "learned", learned_count(validation));
        json_put_double(&writer, "plain_error_mean", text_rounded(summary->plain_error_mean, 6));
    }
    json_end_object(&writer);
    if (validation->explanation != NULL) {
        ana_explanation_write_json(validation->explanation, &writer);
    }
    json_line_end(&writer);
}

/// Columns of the table that a table of runs needs.
typedef struct columns {
    int name_width;
    bool has_bars;
    bool has_peaks; // measured ones
} columns;

static columns columns_of(const ana_validation *validation)
{
    columns found = {.name_width = 0};
    for (int row = 0; row < validation->runs->source.row_count; row++) {
        const ana_validated_run *run = &validation->rows[row];
        const int width = (int)strlen(validation->names[row]);
        if (width > found.name_width) found.name_width = width;
        found.has_bars = found.has_bars || run->has_bar || run->is_learned;
        found.has_peaks = found.has_peaks || run->measured_peak_bytes > 0;
    }
    return found;
}

static void print_bar(const ana_validated_run *run, text_buffer *out)
{
    if (!run->has_bar) {
        text_format(out, " %11s %11s %5s", "-", "-", run->is_learned ? "fit" : "-");
        return;
    }
    text_format(out, " %11.2f %11.2f %5s", run->low_ns / 1e6, run->high_ns / 1e6,
                run->low_ns <= run->measured_ns && run->measured_ns <= run->high_ns ? "holds"
                                                                                    : "no");
}

static void print_row(const ana_validation *validation, int row, const columns *shown,
                      text_buffer *out)
{
    const ana_validated_run *run = &validation->rows[row];
    text_format(out, "%5d %-*s %11.2f", validation->runs->source.lines[row], shown->name_width,
                validation->names[row], run->measured_ns / 1e6);
    if (run->is_refused) {
        text_format(out, " refused: %s\n", run->message);
        return;
    }
    text_format(out, " %12.2f %6.3f", run->predicted_ns / 1e6,
                run->predicted_ns / run->measured_ns);
    if (shown->has_bars) print_bar(run, out);
    if (run->measured_peak_bytes > 0) {
        text_format(out, " %12.2f %8.2f %6.3f", run->measured_peak_bytes / 1073741824,
                    run->peak_bytes / 1073741824, run->peak_bytes / run->measured_peak_bytes);
    }
    text_append(out, "\n");
}

static void print_rows(const ana_validation *validation, text_buffer *out)
{
    const columns shown = columns_of(validation);
    text_format(out, "%5s %-*s %11s %12s %6s", "line", shown.name_width, "", "measured ms",
                "predicted ms", "ratio");
    if (shown.has_bars) text_format(out, " %11s %11s %5s", "low ms", "high ms", "bar");
    if (shown.has_peaks) text_format(out, " %12s %8s %6s", "measured GiB", "peak GiB", "ratio");
    text_append(out, "\n");
    for (int row = 0; row < validation->runs->source.row_count; row++) {
        print_row(validation, row, &shown, out);
    }
    text_append(out, "\n");
}

/// What few rows learned or showed elsewhere: README.md's table of random rows, from 5.
static void print_few(const ana_validation *validation, text_buffer *out)
{
    enum { FEW = 5 };
    const ana_validation_summary *summary = &validation->summary;
    if (isnan(summary->plain_error_mean)) return;
    if (learned_count(validation) >= FEW && summary->row_count >= FEW) return;
    text_format(out,
                "fewer than %d rows hardly tell anything, and there are %d to learn from and %d to "
                "predict: from %d rows of other\ntables bars of 90 %% held 49 to 99 %% of the "
                "others, 92 %% in the middle, and errors shrank by half or grew by a third\n\n",
                FEW, learned_count(validation), summary->row_count, FEW);
}

/// What decides most is said first where every row takes the default.
static void print_unsaid(const ana_real_runs *runs, text_buffer *out)
{
    const bool hardware = ana_real_says(runs, ANA_REAL_HARDWARE);
    const bool sequence = ana_real_says(runs, ANA_REAL_SEQUENCE);
    if (hardware && sequence) return;
    text_format(out,
                "nothing says the %s (--set): all rows are predicted for the default, which may be "
                "off by factors\n\n",
                hardware   ? "sequence"
                : sequence ? "hardware"
                           : "hardware and the sequence");
}

/// The first row that is off by more than a machine is.
static void print_units(const ana_validation *validation, text_buffer *out)
{
    for (int row = 0; row < validation->runs->source.row_count; row++) {
        const ana_validated_run *run = &validation->rows[row];
        error_message why = {0};
        if (run->is_refused || run->plain_ns > 0) continue;
        if (ana_real_check_units(validation->runs, row, run->measured_ns, run->predicted_ns,
                                 &why) != STATUS_OK) {
            text_format(out, "%s\n\n", why.message);
            return;
        }
    }
}

/// Whether a row was played with a recomputation that nothing says, as less of it does not fit.
static bool is_chosen(const ana_validation *validation, int row)
{
    const ana_validated_run *run = &validation->rows[row];
    return !run->is_refused && strcmp(run->recompute, "none") != 0 &&
           ana_real_text(validation->runs, row, ANA_REAL_RECOMPUTE)[0] == '\0';
}

/// How many of the first rows were played with such a recomputation.
static int count_chosen(const ana_validation *validation, int row_count, const char *recompute)
{
    int count = 0;
    for (int row = 0; row < row_count; row++) {
        count +=
            is_chosen(validation, row) && strcmp(validation->rows[row].recompute, recompute) == 0;
    }
    return count;
}

/// Rows that differ in this alone look as if something else slowed them.
static void print_chosen(const ana_validation *validation, text_buffer *out)
{
    const int row_count = validation->runs->source.row_count;
    const char *before = "\nRows that say no recomputation, played with the least that fits:";
    for (int row = 0; row < row_count; row++) {
        const char *recompute = validation->rows[row].recompute;
        if (!is_chosen(validation, row) || count_chosen(validation, row, recompute) > 0) continue;
        text_format(out, "%s %s %d (line %d)", before, recompute,
                    count_chosen(validation, row_count, recompute),
                    validation->runs->source.lines[row]);
        before = ",";
    }
    if (before[0] == ',') text_append(out, "\n");
}

void ana_validation_write_text(const ana_validation *validation, bool with_rows, text_buffer *out)
{
    const ana_validation_summary *summary = &validation->summary;
    print_few(validation, out);
    if (summary->ambiguous_count > 0) {
        text_format(out,
                    "%d rows say fp32, which is multiplied as such or as TF32: times are predicted "
                    "between, the bars hold both\n\n",
                    summary->ambiguous_count);
    }
    print_unsaid(validation->runs, out);
    print_units(validation, out);
    if (with_rows) print_rows(validation, out);
    text_format(out, "%s: %d %s predicted", validation->runs->source.path, summary->row_count,
                summary->row_count == 1 ? "run" : "runs");
    if (summary->refused_count > 0) text_format(out, ", %d refused", summary->refused_count);
    if (!isnan(summary->plain_error_mean)) {
        text_format(out, ", from %d that were measured: without them the mean error is %.1f %%",
                    learned_count(validation), 100 * summary->plain_error_mean);
    }
    const ana_correction *other = validation->settings.calibration;
    if (other != NULL && summary->learned_count > 0) {
        text_format(out, "\n%d left out: the calibration has the same runs",
                    summary->learned_count);
    }
    if (other != NULL && other->refused_count > 0) {
        text_format(out, "\n%d of the calibration could not be modelled: %s", other->refused_count,
                    other->refusal);
    }
    text_append(out, "\n");
    for (int figure = 0; figure < FIGURES && summary->row_count > 0; figure++) {
        const bool is_share = figures[figure].is_share;
        const double value = value_of(summary, figure);
        if (isnan(value)) continue;
        text_format(out, "  %-32s %8.*f%s\n", figures[figure].words, is_share ? 1 : 3,
                    value * (is_share ? 100 : 1), is_share ? " %" : "");
    }
    if (validation->explanation != NULL) {
        ana_explanation_write_text(validation->explanation, out);
    } else if (summary->row_count > 0 && summary->error.mean > large_error &&
               ana_real_says(validation->runs, ANA_REAL_HARDWARE)) {
        text_append(out,
                    "\n--explain looks for settings that the table leaves open and that explain "
                    "its times better.\n");
    }
    print_chosen(validation, out);
    text_append(out, "\nWhere a row says nothing:\n");
    text_append_wrapped(out, ana_real_defaults, 2, 100);
    if (validation->runs->ignored[0] != '\0') {
        text_format(out, "Columns that are not read: %s\n", validation->runs->ignored);
    }
}

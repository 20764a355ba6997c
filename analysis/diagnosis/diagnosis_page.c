/// The diagnosis for people: a page that says what to do, and the numbers that it rests on.
#include "analysis/diagnosis/diagnosis.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

enum { COLUMNS = 100, LABEL_WIDTH = 30 };

/// In percent, for two digits: what rounds to zero is zero, without a sign of its own.
static double percent_of(double ratio)
{
    const double percent = 100 * ratio;
    return fabs(percent) < 0.005 ? 0 : percent;
}

static void print_percent(double ratio, text_buffer *out)
{
    text_format(out, "%+.2f %%", percent_of(ratio));
}

static void print_interval(const ana_gain_interval *interval, text_buffer *out)
{
    print_percent(interval->gain, out);
    if (interval->is_short) return;
    text_format(out, " [%+.2f, %+.2f]", percent_of(interval->low), percent_of(interval->high));
}

static const ana_row_gain *best_row(const ana_diagnosis *of)
{
    return of->best >= 0 ? &of->rows[of->best] : NULL;
}

static const char *baseline_label(const ana_diagnosis *of)
{
    return of->rows[of->baseline].row->balancing->label;
}

/// What moving one layer may cost at the most for the best row still to gain the threshold.
static void print_break_even(const ana_diagnosis *of, text_buffer *out)
{
    const ana_row_gain *best = best_row(of);
    const int64_t moved = best->row->result.moved_layer_count;
    const double baseline_ns = (1 + best->interval.gain) * (double)best->total_ns;
    const double spare_ns =
        baseline_ns / (1 + of->options.threshold_ratio) - (double)best->total_ns;
    char each[32];
    if (moved == 0) return;
    text_duration((int64_t)(spare_ns * of->spacing / (double)moved), each);
    text_format(out, " It pays as long as moving one layer costs less than %s.", each);
}

static void explain_short(const ana_diagnosis *of, text_buffer *out)
{
    text_format(
        out,
        "%d sampled iterations cannot tell drift from noise; at least %d are needed. Record "
        "more of them, each one rather than every n-th.",
        of->series->count, ANA_BOOTSTRAP_COUNT_MIN);
}

static void explain_interval(const ana_diagnosis *of, text_buffer *out)
{
    const int64_t needed = ana_iterations_to_decide(&of->evidence, of->series->count);
    text_format(out, "The interval of '%s' includes the threshold of %.2f %%.",
                best_row(of) != NULL ? best_row(of)->row->balancing->label : "no row",
                100 * of->options.threshold_ratio);
    if (needed < INT32_MAX) {
        text_format(out, " About %" PRId64 " iterations like these would decide; there are %d.",
                    needed, of->series->count);
    }
}

static void explain_one_split(const ana_diagnosis *of, text_buffer *out)
{
    text_format(out,
                "One split that is kept gains %.2f %% over `%s`, and neither a policy nor plans "
                "that follow the drift gain %.2f %% over it. Split by the mean of many iterations, "
                "not by the first, and leave it: stages from layer",
                100 * of->kept.gain, baseline_label(of), 100 * of->options.threshold_ratio);
    for (int stage = 0; stage < of->setup->stage_count; stage++) {
        text_format(out, "%s %d", stage > 0 ? "," : "", of->split.static_first_layer[stage]);
    }
    text_append(out, ".");
}

/// Why the verdict is what it is, and what to do.
static void explain(const ana_diagnosis *of, text_buffer *out)
{
    const double threshold = 100 * of->options.threshold_ratio;
    const ana_row_gain *best = best_row(of);
    const char *label = best != NULL ? best->row->balancing->label : "no row";
    switch (of->judgement.ground) {
    case ANA_GROUND_UNIFORM:
        text_append(out, "In every iteration all layers take the same time to the nanosecond: "
                         "times that were measured for a stage and divided among its layers, or "
                         "that were not measured, cannot show imbalance. Record layer by layer.");
        break;
    case ANA_GROUND_SHORT:
        explain_short(of, out);
        break;
    case ANA_GROUND_PROVEN:
        text_format(out,
                    "No contiguous plan, known beforehand and free to move, can gain %.2f %% over "
                    "`%s`: proven for every iteration.",
                    threshold, baseline_label(of));
        break;
    case ANA_GROUND_CLAIRVOYANT:
        text_format(out,
                    "Even plans made for every iteration with hindsight, moved for nothing, gain "
                    "less than %.2f %% over `%s`. Set that split and leave it.",
                    threshold, baseline_label(of));
        break;
    case ANA_GROUND_ONE_SPLIT:
        explain_one_split(of, out);
        break;
    case ANA_GROUND_STATE_UNKNOWN:
        text_format(out,
                    "'%s' would gain more than %.2f %%, but the trace does not say how many bytes "
                    "a layer moves with.",
                    label, threshold);
        print_break_even(of, out);
        text_append(out, " Record parameters, or give --layer-state.");
        break;
    case ANA_GROUND_GAIN:
        text_format(out, "Run '%s': its gain over `%s` is above %.2f %% with migration paid.",
                    label, baseline_label(of), threshold);
        break;
    case ANA_GROUND_NOISE:
        text_format(
            out,
            "No policy gains %.2f %% over `%s`, nor would plans that follow the drift as if "
            "it were known beforehand. What is left of the imbalance is noise, which "
            "nobody foresees.",
            threshold, baseline_label(of));
        break;
    case ANA_GROUND_INTERVAL:
        explain_interval(of, out);
        break;
    case ANA_GROUND_FORECAST:
        text_format(out,
                    "No policy here gains %.2f %%, but plans that follow the drift as if it were "
                    "known beforehand may. Longer stretches of the run would tell; so may other "
                    "policies in `dynmo simulate`.",
                    threshold);
        break;
    default:
        break;
    }
}

static void print_head(const ana_diagnosis *of, text_buffer *out)
{
    const ana_series *series = of->series;
    const ana_study *study = of->setup->study;
    text_format(out, "%s: %d layers in %d stages, %s, %d microbatches\n", study->name,
                series->layer_count, of->setup->stage_count, study->schedule,
                of->setup->microbatch_count);
    text_format(out, "%d iterations sampled, of %d to %d", series->sample_count,
                series->first + of->setup->first_iteration,
                series->last + of->setup->first_iteration);
    if (series->stride > 1) {
        text_format(out, "; every %d-th of the samples is looked at, %d in all", series->stride,
                    series->count);
    }
    text_append(out, "\n\n");
}

static void print_verdict(const ana_diagnosis *of, text_buffer *out)
{
    text_buffer why = {0};
    text_format(out, "Dynamic balancing: %s\n", ana_verdict_name(of->judgement.verdict));
    explain(of, &why);
    text_append_wrapped(out, why.bytes != NULL ? why.bytes : "", 2, COLUMNS);
    out->failed = out->failed || why.failed;
    text_free(&why);
}

/// Ends a line whose last column may be empty.
static void end_line(text_buffer *out)
{
    while (out->length > 0 && out->bytes[out->length - 1] == ' ') {
        out->bytes[--out->length] = '\0';
    }
    text_append(out, "\n");
}

static void print_gain(const char *label, const ana_gain_interval *interval, const char *remark,
                       text_buffer *out)
{
    text_buffer value = {0};
    print_interval(interval, &value);
    text_format(out, "  %-*s  %-26s  %s", LABEL_WIDTH, label,
                value.bytes != NULL ? value.bytes : "", remark);
    end_line(out);
    text_free(&value);
}

static void print_rows(const ana_diagnosis *of, text_buffer *out)
{
    const int rows = of->setup->study->balancing_count;
    text_format(out,
                "\nGain in throughput over `%s`, the better of `even` and `tuned`\n"
                "[%g %% interval, of the rows together]\n",
                baseline_label(of), 100 - 200 * of->options.tail_probability);
    for (int row = 0; row < rows; row++) {
        const ana_row_gain *gain = &of->rows[row];
        const ana_balancing *balancing = gain->row->balancing;
        char remark[96];
        char overhead[32];
        if (gain->row->outcome != STATUS_OK) {
            text_format(out, "  %-*s  infeasible: %s\n", LABEL_WIDTH, balancing->label,
                        gain->row->message);
            continue;
        }
        text_duration(gain->overhead_ns / of->series->count, overhead);
        snprintf(remark, sizeof remark, "%d moves, %s per iteration",
                 gain->row->result.rebalance_count, overhead);
        print_gain(balancing->label, &gain->interval,
                   ana_balancing_is_dynamic(balancing) ? remark : "", out);
    }
    print_gain("best kept split of the run", &of->kept, "known beforehand", out);
    print_gain("following the drift", &of->evidence.drift, "known beforehand, moves for nothing",
               out);
    print_gain("hindsight", &of->evidence.clairvoyant,
               of->clairvoyant_count < of->series->count
                   ? "every iteration known, moves for nothing; part of them"
                   : "every iteration known, moves for nothing",
               out);
    print_gain("any contiguous plan, at most", &of->evidence.bound, "proven", out);
    print_gain("any owner per layer, at most", &of->any_owner, "proven", out);
}

static void print_part(const ana_diagnosis *of, ana_part part, const char *label,
                       const char *remark, text_buffer *out)
{
    const double even_ns = (double)of->split.level_ns[ANA_LEVEL_EVEN];
    const int64_t part_ns = ana_imbalance_part_ns(&of->split, part);
    char mean[32];
    text_duration(part_ns / of->series->count, mean);
    text_format(out, "  %-*s  %10s  %6.2f %%  %s", LABEL_WIDTH, label, mean,
                even_ns > 0 ? percent_of((double)part_ns / even_ns) : 0, remark);
    end_line(out);
}

static void print_split(const ana_diagnosis *of, text_buffer *out)
{
    const ana_imbalance_split *split = &of->split;
    const int count = of->series->count;
    char whole[32];
    char best[32];
    char remark[96];
    text_duration(split->level_ns[ANA_LEVEL_EVEN] / count, whole);
    text_duration(split->level_ns[ANA_LEVEL_DIVISIBLE] / count, best);
    text_append(out, "\nWhere the slowest stage's time goes, per microbatch, mean of the run\n");
    text_format(out, "  %-*s  %10s  100.00 %%\n", LABEL_WIDTH, "slowest stage under `even`", whole);
    print_part(of, ANA_PART_STATIC, "static: `tuned` saves", "", out);
    print_part(of, ANA_PART_FIRST, "another split, kept, saves",
               split->static_is_optimal ? "the best there is" : "the best that was found", out);
    snprintf(remark, sizeof remark, "averages of %d sample%s on each side", split->drift_width,
             split->drift_width == 1 ? "" : "s");
    print_part(of, ANA_PART_DRIFT, "drift: following it saves",
               split->drift_width > 0 ? remark : "", out);
    print_part(of, ANA_PART_NOISE, "noise: only hindsight saves", "", out);
    print_part(of, ANA_PART_CONTIGUITY, "stages are contiguous", "", out);
    print_part(of, ANA_PART_GRANULARITY, "a layer is not divided", "", out);
    text_format(out, "  %-*s  %10s  %6.2f %%\n", LABEL_WIDTH, "mean over the stages", best,
                split->level_ns[ANA_LEVEL_EVEN] > 0
                    ? 100 * (double)split->level_ns[ANA_LEVEL_DIVISIBLE] /
                          (double)split->level_ns[ANA_LEVEL_EVEN]
                    : 100.0);
}

static void print_number(const char *format, double value, text_buffer *out)
{
    char text[32] = "-";
    if (!isnan(value)) snprintf(text, sizeof text, format, value);
    text_format(out, "%s", text);
}

static void print_half_life(const ana_predictability *of, text_buffer *out)
{
    if (of->half_life == 0) {
        text_append(out, "none");
    } else if (of->half_life < 0) {
        text_append(out, "beyond half of the run");
    } else {
        text_format(out, "%d samples", of->half_life);
    }
}

static void print_lags(const ana_diagnosis *of, text_buffer *out)
{
    const ana_forecastability *forecast = &of->forecast;
    text_append(out, "  samples ahead      ");
    for (int number = 0; number < forecast->lag_count; number++) {
        if (forecast->lags[number].lag & (forecast->lags[number].lag - 1)) continue;
        text_format(out, " %6d", forecast->lags[number].lag);
    }
    text_append(out, "\n  correlation        ");
    for (int number = 0; number < forecast->lag_count; number++) {
        if (forecast->lags[number].lag & (forecast->lags[number].lag - 1)) continue;
        text_format(out, " %6.2f", forecast->lags[number].correlation);
    }
    text_append(out, "\n  R^2 of 'as it is'  ");
    for (int number = 0; number < forecast->lag_count; number++) {
        if (forecast->lags[number].lag & (forecast->lags[number].lag - 1)) continue;
        text_format(out, " %6.2f", forecast->lags[number].persistence_r2);
    }
    text_append(out, "\n");
}

static void print_forecast(const ana_diagnosis *of, text_buffer *out)
{
    const ana_forecastability *forecast = &of->forecast;
    text_append(out, "\nHow well an iteration tells the next ones, of the layers' shares\n");
    text_append(out, "  variation ");
    print_number("%.4f", forecast->overall.variation_ratio, out);
    text_append(out, " of the mean, of its variance noise ");
    print_number("%.2f", forecast->overall.noise_ratio, out);
    text_format(out, "; %s%d jumps; half-life ", forecast->change_points_capped ? "over " : "",
                forecast->change_point_count);
    print_half_life(&forecast->overall, out);
    text_append(out, "\n");
    if (forecast->lag_count > 0 && !isnan(forecast->lags[0].correlation)) print_lags(of, out);
}

static void print_caveat(const char *words, text_buffer *out)
{
    text_buffer line = {0};
    text_append_wrapped(&line, words, 4, COLUMNS);
    if (line.length > 2) line.bytes[2] = '-';
    text_append(out, line.bytes != NULL ? line.bytes : "");
    text_free(&line);
}

static void print_sampling(const ana_diagnosis *of, text_buffer *out)
{
    char words[320];
    if (of->spacing > 1) {
        snprintf(words, sizeof words,
                 "An iteration looked at stands for %.4g of the run: what changes in between is "
                 "not seen, policies decide once per sample, and a migration is paid once in "
                 "that many iterations.",
                 of->spacing);
        print_caveat(words, out);
    }
    if (of->series->drops_columns) {
        print_caveat("Microbatches did not fit into memory: their mean stands for each.", out);
    } else if (!of->has_columns) {
        print_caveat("Microbatches are not told apart: waiting for slow ones is not in it, which "
                     "no balancer saves either.",
                     out);
    }
}

static void print_caveats(const ana_diagnosis *of, text_buffer *out)
{
    char words[320];
    const ana_series *series = of->series;
    text_append(out, "\nTo know\n");
    print_sampling(of, out);
    if (!of->knows_state) {
        print_caveat("Bytes of state are not known: moving a layer costs no more than latency "
                     "here.",
                     out);
    }
    if (of->first_over_next > 1.25 || of->first_over_next < 0.8) {
        snprintf(
            words, sizeof words,
            "Iteration %d, for which `tuned` was set, took %.2f times the next ones: if it was a "
            "warm-up, leave it out with --first.",
            series->first + of->setup->first_iteration, of->first_over_next);
        print_caveat(words, out);
    }
    if (ana_imbalance_part_ns(&of->split, ANA_PART_FIRST) >
        ana_imbalance_part_ns(&of->split, ANA_PART_DRIFT)) {
        print_caveat("Most of what `tuned` misses without noise one other split would save, kept "
                     "over the run; what the run is like must then be known when it begins.",
                     out);
    }
    snprintf(words, sizeof words,
             "Intervals come from redrawing blocks of %d iterations (seed %" PRIu64
             "): they hold for runs that go on like this one.",
             of->evidence.best.block, of->options.seed);
    if (!of->evidence.best.is_short) print_caveat(words, out);
}

void ana_diagnosis_print(const ana_diagnosis *diagnosis, text_buffer *out)
{
    print_head(diagnosis, out);
    print_verdict(diagnosis, out);
    print_rows(diagnosis, out);
    print_split(diagnosis, out);
    print_forecast(diagnosis, out);
    print_caveats(diagnosis, out);
    text_append(out, "\n");
    ana_inputs_print(&diagnosis->setup->study->inputs, out);
}

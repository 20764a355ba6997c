/// The diagnosis for people, a page that says what to do and the numbers that it rests on, and for
/// programs: "dynmo-diagnosis/1".
#include "analysis/diagnosis/diagnosis.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { COLUMNS = 100, LABEL_WIDTH = 30, DIGITS = 9 };

/// In percent, for two digits: what rounds to zero is zero, without a sign of its own.
static double percent_of(double ratio)
{
    const double percent = 100 * ratio;
    return fabs(percent) < 0.005 ? 0 : percent;
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
    case ANA_GROUND_STAGES:
        text_append(out, "Every stage was recorded as one layer: no other split can be tried. "
                         "Record layer by layer; of a run of which every op was recorded, "
                         "`dynmo stragglers` says what slowed it and which split would mend it.");
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
    text_append_wrapped(out, why.bytes, 2, COLUMNS);
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

/// Gains of plans that no row has, over the baseline or over the best kept split; without a label
/// they are for programs only.
typedef struct known_gain {
    const char *key;
    const char *label;
    const char *remark;
    const ana_gain_interval *interval;
} known_gain;

enum { KNOWN_GAINS = 7, HINDSIGHT_GAIN = 4 };

static void list_gains(const ana_diagnosis *of, known_gain out[KNOWN_GAINS])
{
    const ana_evidence *evidence = &of->evidence;
    const char *hindsight = of->clairvoyant_count < of->series->count
                                ? "every iteration known, moves for nothing; part of them"
                                : "every iteration known, moves for nothing";
    const known_gain gains[KNOWN_GAINS] = {
        {"kept_split", "best kept split of the run", "known beforehand", &of->kept},
        {"drift_followed", "following the drift", "known beforehand, moves for nothing",
         &evidence->drift},
        {"best_over_kept_split", NULL, NULL, &evidence->best_over_kept},
        {"drift_followed_over_kept_split", NULL, NULL, &evidence->drift_over_kept},
        [HINDSIGHT_GAIN] = {"hindsight", "hindsight", hindsight, &evidence->clairvoyant},
        {"contiguous_bound", "any contiguous plan, at most", "proven", &evidence->bound},
        {"any_owner_bound", "any owner per layer, at most", "proven", &of->any_owner},
    };
    memcpy(out, gains, sizeof gains);
}

static void print_gain(const char *label, const ana_gain_interval *interval, const char *remark,
                       text_buffer *out)
{
    char value[96];
    int used = snprintf(value, sizeof value, "%+.2f %%", percent_of(interval->gain));
    if (!interval->is_short) {
        snprintf(value + used, sizeof value - (size_t)used, " [%+.2f, %+.2f]",
                 percent_of(interval->low), percent_of(interval->high));
    }
    text_format(out, "  %-*s  %-26s  %s", LABEL_WIDTH, label, value, remark);
    end_line(out);
}

static void print_row(const ana_diagnosis *of, const ana_row_gain *gain, text_buffer *out)
{
    const ana_balancing *balancing = gain->row->balancing;
    char remark[96] = "";
    char overhead[32];
    if (gain->row->outcome != STATUS_OK) {
        text_format(out, "  %-*s  infeasible: %s\n", LABEL_WIDTH, balancing->label,
                    gain->row->message);
        return;
    }
    text_duration(gain->overhead_ns / of->series->count, overhead);
    if (ana_balancing_is_dynamic(balancing)) {
        snprintf(remark, sizeof remark, "%d move%s, %s per iteration",
                 gain->row->result.rebalance_count,
                 gain->row->result.rebalance_count == 1 ? "" : "s", overhead);
    }
    print_gain(balancing->label, &gain->interval, remark, out);
}

static void print_gains(const ana_diagnosis *of, text_buffer *out)
{
    known_gain gains[KNOWN_GAINS];
    list_gains(of, gains);
    text_format(out,
                "\nGain in throughput over `%s`, the better of `even` and `tuned`\n"
                "[%g %% interval, of the rows together]\n",
                baseline_label(of), 100 - 200 * of->options.tail_probability);
    for (int row = 0; row < of->setup->study->balancing_count; row++) {
        print_row(of, &of->rows[row], out);
    }
    for (int gain = 0; gain < KNOWN_GAINS; gain++) {
        if (gains[gain].label == NULL) continue;
        print_gain(gains[gain].label, gains[gain].interval, gains[gain].remark, out);
    }
}

static const char *const level_names[ANA_LEVEL_COUNT] = {
    "even", "tuned", "static", "drift", "clairvoyant", "any_owner", "divisible"};

static const struct {
    const char *key;
    const char *label;
} parts[ANA_SPLIT_COUNT] = {
    [ANA_SPLIT_STATIC] = {"static", "static: `tuned` saves"},
    [ANA_SPLIT_FIRST] = {"first_iteration", "another split, kept, saves"},
    [ANA_SPLIT_DRIFT] = {"drift", "drift: following it saves"},
    [ANA_SPLIT_NOISE] = {"noise", "noise: only hindsight saves"},
    [ANA_SPLIT_CONTIGUITY] = {"contiguity", "stages are contiguous"},
    [ANA_SPLIT_GRANULARITY] = {"granularity", "a layer is not divided"},
};

/// A time of the whole series, as the mean of an iteration and over that of `even`.
static void print_share(const ana_diagnosis *of, const char *label, int64_t ns, const char *remark,
                        text_buffer *out)
{
    const double even_ns = (double)of->split.level_ns[ANA_LEVEL_EVEN];
    char mean[32];
    text_duration(ns / of->series->count, mean);
    text_format(out, "  %-*s  %10s  %6.2f %%  %s", LABEL_WIDTH, label, mean,
                even_ns > 0 ? percent_of((double)ns / even_ns) : 0, remark);
    end_line(out);
}

static void print_split(const ana_diagnosis *of, text_buffer *out)
{
    const ana_imbalance_split *split = &of->split;
    char remarks[ANA_SPLIT_COUNT][96] = {""};
    snprintf(remarks[ANA_SPLIT_FIRST], sizeof remarks[0], "%s",
             split->static_is_optimal ? "the best there is" : "the best that was found");
    if (split->drift_width > 0) {
        snprintf(remarks[ANA_SPLIT_DRIFT], sizeof remarks[0],
                 "averages of %d sample%s on each side", split->drift_width,
                 split->drift_width == 1 ? "" : "s");
    }
    text_append(out, "\nWhere the slowest stage's time goes, per microbatch, mean of the run\n");
    print_share(of, "slowest stage under `even`", split->level_ns[ANA_LEVEL_EVEN], "", out);
    for (int part = 0; part < ANA_SPLIT_COUNT; part++) {
        print_share(of, parts[part].label, ana_imbalance_part_ns(split, (ana_imbalance_part)part),
                    remarks[part], out);
    }
    print_share(of, "mean over the stages", split->level_ns[ANA_LEVEL_DIVISIBLE], "", out);
}

static void print_data(const ana_diagnosis *of, text_buffer *out)
{
    static const char *const advice[ANA_MEND_COUNT] = {
        [ANA_MEND_NOTHING] = "nothing: neither is seen to gain the threshold",
        [ANA_MEND_DATA] =
            "the data: microbatches of like cost (`lengths` of a study plays packings)",
        [ANA_MEND_LAYERS] = "the layers: the split, or when it changes",
    };
    char remark[96];
    if (!of->data.is_known) return;
    text_append(out, "\nData or layers\n");
    if (of->options.lengths.is_known) {
        snprintf(remark, sizeof remark, "of all replicas, as `dynmo stragglers` replays them");
    } else {
        snprintf(remark, sizeof remark,
                 "microbatches scatter by %.0f %%, the longest %.2f times the mean",
                 100 * of->data.scatter_ratio, of->data.largest_over_mean);
    }
    print_gain("microbatches alike, at most", &of->alike, remark, out);
    text_format(out, "  %-*s  %-26.2f  %s\n", LABEL_WIDTH, "F and backward of a microbatch",
                of->data.correlation,
                of->data.correlation >= ana_data_correlation_min
                    ? "correlate: what differs is length"
                    : "hardly correlate: noise of ops, not length");
    if (of->evidence.is_of_stages && of->options.lengths.is_known) {
        text_format(out, "  %-*s  %+.2f %%\n", LABEL_WIDTH, "stages equally long, at most",
                    percent_of(of->options.lengths.stages_gain));
    }
    text_format(out, "  %-*s  %s\n", LABEL_WIDTH, "mend first", advice[of->mend]);
}

/// Iterations as the trace calls them.
static ana_iteration_names names_of(const ana_diagnosis *of)
{
    return (ana_iteration_names){.number = of->series->iteration,
                                 .offset = of->setup->first_iteration};
}

/// The splits behind the gains: what is set now, what is to be set, and when.
static void print_splits(const ana_diagnosis *of, const char *trace_path, text_buffer *out)
{
    ana_split_step kept = {.stage_count = of->split.stage_count,
                           .first_layer = (int *)of->split.static_first_layer};
    const ana_splits best_kept = {.steps = &kept, .step_count = 1};
    text_append(out, "\nSplits: layers per stage, from the iteration on that is named\n");
    for (int row = 0; row < of->setup->study->balancing_count; row++) {
        const ana_row *each = of->rows[row].row;
        const bool is_kept = !ana_balancing_is_dynamic(each->balancing);
        if (each->outcome != STATUS_OK || (!is_kept && row != of->best)) continue;
        ana_splits_print(&each->splits, "  ", each->balancing->label, LABEL_WIDTH, names_of(of),
                         out);
    }
    ana_splits_print(&best_kept, "  ", "best kept split of the run", LABEL_WIDTH, names_of(of),
                     out);
    if (trace_path == NULL) return;
    text_format(out,
                "  Decided from what was recorded, and into a framework:\n"
                "  dynmo plan --trace %s --iterations %d:%d --stages %d --balancer partition "
                "--schedule %s --microbatches %d -o plan.json\n"
                "  dynmo export megatron plan.json\n",
                trace_path, of->series->first + of->setup->first_iteration,
                of->series->last + of->setup->first_iteration, of->split.stage_count,
                of->setup->study->schedule, of->setup->microbatch_count);
}

static void print_caveat(const char *words, text_buffer *out)
{
    text_buffer line = {0};
    text_append_wrapped(&line, words, 4, COLUMNS);
    if (line.length > 2) line.bytes[2] = '-';
    text_append(out, line.bytes);
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
    if (ana_imbalance_part_ns(&of->split, ANA_SPLIT_FIRST) >
        ana_imbalance_part_ns(&of->split, ANA_SPLIT_DRIFT)) {
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

void ana_diagnosis_print(const ana_diagnosis *diagnosis, const char *trace_path, text_buffer *out)
{
    print_head(diagnosis, out);
    print_verdict(diagnosis, out);
    print_gains(diagnosis, out);
    print_split(diagnosis, out);
    print_data(diagnosis, out);
    ana_expert_imbalance_print(&diagnosis->experts, out);
    print_splits(diagnosis, trace_path, out);
    print_caveats(diagnosis, out);
    text_append(out, "\n");
    ana_inputs_print(&diagnosis->setup->study->inputs, out);
}

static void put_ratio(json_writer *writer, const char *key, double value)
{
    json_put_rounded(writer, key, value, DIGITS);
}

static void write_interval(json_writer *writer, const char *key, const ana_gain_interval *interval)
{
    json_put_object(writer, key);
    put_ratio(writer, "gain", interval->gain);
    put_ratio(writer, "low", interval->is_short ? (double)NAN : interval->low);
    put_ratio(writer, "high", interval->is_short ? (double)NAN : interval->high);
    json_put_int64(writer, "block", interval->block);
    json_end_object(writer);
}

static void write_run(json_writer *writer, const ana_diagnosis *of)
{
    const ana_series *series = of->series;
    const ana_setup *setup = of->setup;
    json_put_string(writer, "name", setup->study->name);
    json_put_int64(writer, "layers", series->layer_count);
    json_put_int64(writer, "stages", setup->stage_count);
    json_put_string(writer, "schedule", setup->study->schedule);
    json_put_int64(writer, "microbatches", setup->microbatch_count);
    json_put_int64(writer, "samples", series->sample_count);
    json_put_int64(writer, "iterations", series->count);
    json_put_int64(writer, "first_iteration", series->first + setup->first_iteration);
    json_put_int64(writer, "last_iteration", series->last + setup->first_iteration);
    json_put_int64(writer, "stride", series->stride);
    put_ratio(writer, "spacing", of->spacing);
    json_put_bool(writer, "microbatches_known", of->has_columns);
    json_put_bool(writer, "state_known", of->knows_state);
    put_ratio(writer, "first_over_next", of->first_over_next);
}

static void write_plan(json_writer *writer, const char *key, const int *first_layer, int entries)
{
    json_write_key(writer, key);
    json_write_int_array(writer, first_layer, entries);
}

static void write_split(json_writer *writer, const ana_diagnosis *of)
{
    const ana_imbalance_split *split = &of->split;
    const int entries = split->stage_count + 1;
    json_put_object(writer, "imbalance");
    json_put_object(writer, "bottleneck_ns");
    for (int level = 0; level < ANA_LEVEL_COUNT; level++) {
        json_put_int64(writer, level_names[level], split->level_ns[level]);
    }
    json_end_object(writer);
    json_put_object(writer, "parts_ns");
    for (int part = 0; part < ANA_SPLIT_COUNT; part++) {
        json_put_int64(writer, parts[part].key,
                       ana_imbalance_part_ns(split, (ana_imbalance_part)part));
    }
    json_end_object(writer);
    json_put_int64(writer, "static_lower_bound_ns", split->static_lower_bound_ns);
    json_put_bool(writer, "static_is_optimal", split->static_is_optimal);
    json_put_int64(writer, "drift_width", split->drift_width);
    write_plan(writer, "even_first_layer", split->even_first_layer, entries);
    write_plan(writer, "tuned_first_layer", split->tuned_first_layer, entries);
    write_plan(writer, "static_first_layer", split->static_first_layer, entries);
    json_end_object(writer);
}

static void write_row(json_writer *writer, const ana_row_gain *gain, ana_iteration_names names)
{
    json_begin_object(writer);
    json_put_string(writer, "label", gain->row->balancing->label);
    if (gain->row->outcome != STATUS_OK) {
        json_put_string(writer, "infeasible", gain->row->message);
    } else {
        json_put_int64(writer, "total_ns", gain->total_ns);
        json_put_int64(writer, "overhead_ns", gain->overhead_ns);
        json_put_int64(writer, "rebalances", gain->row->result.rebalance_count);
        json_put_int64(writer, "moved_layers", gain->row->result.moved_layer_count);
        json_put_int64(writer, "moved_bytes", gain->row->result.moved_bytes);
        write_interval(writer, "over_baseline", &gain->interval);
        ana_splits_write(&gain->row->splits, names, writer);
    }
    json_end_object(writer);
}

static void write_gains(json_writer *writer, const ana_diagnosis *of)
{
    known_gain gains[KNOWN_GAINS];
    list_gains(of, gains);
    json_put_array(writer, "rows");
    for (int row = 0; row < of->setup->study->balancing_count; row++) {
        write_row(writer, &of->rows[row], names_of(of));
    }
    json_end_array(writer);
    json_put_string(writer, "baseline", of->rows[of->baseline].row->balancing->label);
    json_put_string(writer, "best",
                    of->best >= 0 ? of->rows[of->best].row->balancing->label : NULL);
    for (int gain = 0; gain < KNOWN_GAINS; gain++) {
        write_interval(writer, gains[gain].key, gains[gain].interval);
        if (gain != HINDSIGHT_GAIN) continue;
        json_put_int64(writer, "hindsight_iterations", of->clairvoyant_count);
    }
}

static void write_data(json_writer *writer, const ana_diagnosis *of)
{
    if (!of->data.is_known) return;
    json_put_object(writer, "data");
    put_ratio(writer, "correlation", of->data.correlation);
    const bool of_ops = of->options.lengths.is_known;
    put_ratio(writer, "scatter_ratio", of_ops ? (double)NAN : of->data.scatter_ratio);
    put_ratio(writer, "largest_over_mean", of_ops ? (double)NAN : of->data.largest_over_mean);
    write_interval(writer, "microbatches_alike", &of->alike);
    json_put_string(writer, "mend_first", ana_mend_names[of->mend]);
    json_end_object(writer);
}

void ana_diagnosis_write(const ana_diagnosis *diagnosis, text_buffer *out)
{
    json_writer writer = json_writer_init(out);
    json_begin_object(&writer);
    json_put_string(&writer, "schema", "dynmo-diagnosis/1");
    json_put_string(&writer, "verdict", ana_verdict_name(diagnosis->judgement.verdict));
    json_put_string(&writer, "ground", ana_ground_name(diagnosis->judgement.ground));
    put_ratio(&writer, "worthwhile_from", diagnosis->options.threshold_ratio);
    write_run(&writer, diagnosis);
    write_gains(&writer, diagnosis);
    write_split(&writer, diagnosis);
    write_data(&writer, diagnosis);
    ana_expert_imbalance_write(&diagnosis->experts, &writer);
    json_write_key(&writer, "inputs");
    ana_inputs_write(&diagnosis->setup->study->inputs, &writer);
    json_end_object(&writer);
    text_append(out, "\n");
}

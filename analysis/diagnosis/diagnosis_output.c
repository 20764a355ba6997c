/// The diagnosis for people, a page that says what to do and the numbers that it rests on, and for
/// programs: "dynmo-diagnosis/1".
#include "analysis/diagnosis/diagnosis.h"

#include "balance/plan.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

enum { COLUMNS = 100, LABEL_WIDTH = 30, DIGITS = 9 };

/// In percent, for two digits: what rounds to zero is zero, without a sign of its own.
static double percent_of(double ratio)
{
    const double percent = 100 * ratio;
    return fabs(percent) < 0.005 ? 0 : percent;
}

static const char *label_of(const ana_diagnosis *of, int row)
{
    return row >= 0 ? of->rows[row].row->balancing->label : "no row";
}

/// Why the verdict is what it is, and what to do.
static void print_verdict(const ana_diagnosis *of, text_buffer *out)
{
    const ana_ground ground = of->ground;
    text_buffer why = {0};
    text_format(out, "Dynamic balancing: %s\n", ana_verdict_names[ana_grounds[ground].verdict]);
    text_format(&why, "Worth it from %.2f %% on. ", 100 * of->options.threshold_ratio);
    if (ground == ANA_GROUND_GAIN) text_format(&why, "Run '%s'. ", label_of(of, of->best));
    text_append(&why, ana_grounds[ground].advice);
    if (ground == ANA_GROUND_INTERVAL) {
        const int64_t needed = ana_iterations_to_decide(&of->evidence, of->series->count);
        if (needed < INT32_MAX) {
            text_format(&why, " About %" PRId64 " iterations like these would decide.", needed);
        }
    }
    text_append_wrapped(out, why.bytes, 2, COLUMNS);
    text_free(&why);
}

static void print_head(const ana_diagnosis *of, text_buffer *out)
{
    const ana_series *series = of->series;
    const ana_setup *setup = of->setup;
    text_format(out, "%s: %s in %s, %s, %s\n", setup->study->name,
                text_count(series->layer_count, "layer").text,
                text_count(setup->stage_count, "stage").text, setup->study->run.schedule,
                text_count(setup->microbatch_count, "microbatch").text);
    text_format(out, "%s sampled, of %d to %d", text_count(series->sample_count, "iteration").text,
                setup->first_iteration, series->last + setup->first_iteration);
    if (of->spacing > 1) {
        text_format(out, "; each of %d stands for %.4g", series->count, of->spacing);
    }
    text_append(out, "\n");
    if (of->cold_factor > 0) {
        text_format(
            out,
            "note: most layers of iteration %d take %.2f times as long as in the next: it is "
            "left out as warm-up (--first %d keeps it)\n",
            setup->first_iteration, of->cold_factor, setup->first_iteration);
    }
    text_append(out, "\n");
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
    text_format(out, "  %-*s  %-*s%s%s\n", LABEL_WIDTH, label, remark[0] != '\0' ? 26 : 0, value,
                remark[0] != '\0' ? "  " : "", remark);
}

static void print_row(const ana_diagnosis *of, const ana_row_gain *gain, text_buffer *out)
{
    const ana_row *row = gain->row;
    const int moves = row->result.rebalance_count;
    char remark[96] = "";
    if (row->outcome != STATUS_OK) {
        text_format(out, "  %-*s  infeasible: %s\n", LABEL_WIDTH, row->balancing->label,
                    row->message);
        return;
    }
    if (ana_balancing_is_dynamic(row->balancing)) {
        snprintf(remark, sizeof remark, "%d move%s, %s per iteration", moves, moves == 1 ? "" : "s",
                 text_duration(gain->overhead_ns / of->series->count).text);
    }
    print_gain(row->balancing->label, &gain->interval, remark, out);
}

static void print_gains(const ana_diagnosis *of, text_buffer *out)
{
    text_format(out,
                "\nGain in throughput over `%s`, the better of `even` and `tuned`\n"
                "[%g %% interval, of the rows together]\n",
                label_of(of, of->baseline), 100 - 200 * of->options.tail_probability);
    for (int row = 0; row < of->setup->study->balancing_count; row++) {
        print_row(of, &of->rows[row], out);
    }
    print_gain("best kept split found", &of->kept, "known beforehand", out);
    print_gain("any contiguous plan, at most", &of->evidence.bound, "proven", out);
}

/// What slowed the run beside data and layers, as its ops tell: the causes that are named.
///
/// @return how many; causes in order
static int other_causes(const ana_diagnosis *of, const ana_cause *causes[ANA_CAUSE_COUNT])
{
    const ana_stragglers *known = of->options.stragglers;
    int count = 0;
    for (int each = 0; known != NULL && each < known->causes.named_count; each++) {
        const ana_cause *cause = &known->causes.all[each];
        if (cause->kind == ANA_CAUSE_STAGE || cause->kind == ANA_CAUSE_LENGTHS) continue;
        causes[count++] = cause;
    }
    return count;
}

/// What the correlation means: microbatches that are of unlike length may still cost nothing.
static const char *correlation_words(const ana_diagnosis *of)
{
    if (of->data.correlation < ANA_LENGTHS_CORRELATION_MIN) {
        return "hardly correlate: noise of ops, not length";
    }
    return of->alike.gain < ANA_CAUSE_GAIN_MIN ? "correlate, but lengths that differ cost little"
                                               : "correlate: what differs is length";
}

static void print_data(const ana_diagnosis *of, text_buffer *out)
{
    const bool of_ops = ana_ops_tell_lengths(of);
    char remark[96] = "of all replicas, as `dynmo stragglers` replays them";
    if (!of->data.is_known) return;
    if (!of_ops) {
        snprintf(remark, sizeof remark,
                 "microbatches scatter by %.0f %%, the longest %.2f times the mean",
                 100 * of->data.scatter_ratio, of->data.largest_over_mean);
    }
    print_gain("microbatches alike, at most", &of->alike, remark, out);
    text_format(out, "  %-*s  %-26.2f  %s\n", LABEL_WIDTH, "F and backward of a microbatch",
                of->data.correlation, correlation_words(of));
    if (of->evidence.is_of_stages && of_ops) {
        const ana_causes *causes = &of->options.stragglers->causes;
        text_format(out, "  %-*s  %+.2f %%\n", LABEL_WIDTH, "stages equally long, at most",
                    percent_of(ana_cause_of(causes, ANA_CAUSE_STAGE)->gain.gain));
    }
}

/// What else than when layers move slowed the run, and what to mend first.
static void print_mend(const ana_diagnosis *of, text_buffer *out)
{
    static const char *const first[ANA_MEND_COUNT] = {
        [ANA_MEND_NOTHING] = "nothing: none is seen to gain the threshold",
        [ANA_MEND_DATA] =
            "the data: microbatches of like cost (`lengths` of a study plays packings)",
        [ANA_MEND_LAYERS] = "the layers: the split, or when it changes",
        [ANA_MEND_WORKER] = "the slow worker",
        [ANA_MEND_HOST] = "the pauses of the host",
        [ANA_MEND_LINK] = "the slow link",
    };
    const ana_cause *causes[ANA_CAUSE_COUNT];
    const int cause_count = other_causes(of, causes);
    if (!of->data.is_known && cause_count == 0) return;
    text_append(out, "\nData, layers or machines\n");
    print_data(of, out);
    for (int each = 0; each < cause_count; each++) {
        print_gain(causes[each]->name, &causes[each]->gain, "", out);
        text_append_wrapped(out, causes[each]->evidence, 4, COLUMNS);
    }
    text_format(out, "  %-*s  %s\n", LABEL_WIDTH, "mend first", first[of->mend]);
}

/// Iterations as the trace calls them.
static ana_iteration_names names_of(const ana_diagnosis *of)
{
    return (ana_iteration_names){.number = of->series->iteration,
                                 .offset = of->setup->first_iteration};
}

/// The best kept split as a plan file.
static void print_kept_plan(const ana_diagnosis *of, text_buffer *out)
{
    const ana_setup *setup = of->setup;
    const bal_plan plan = {.first_layer = of->kept_first_layer,
                           .rank_count = setup->stage_count,
                           .chunk_count = 1,
                           .schedule = setup->study->run.schedule,
                           .microbatch_count = setup->microbatch_count,
                           .data_parallel = 1,
                           .embedding = setup->embedding,
                           .head = setup->head};
    json_writer writer = json_writer_init(out);
    bal_plan_write(&plan, &writer);
}

/// The splits behind the gains: what is set now, what is to be set, and when.
static void print_splits(const ana_diagnosis *of, bool is_recorded, text_buffer *out)
{
    ana_split_step kept = {.stage_count = of->setup->stage_count,
                           .first_layer = (int *)of->kept_first_layer};
    const ana_splits best_kept = {.steps = &kept, .step_count = 1};
    text_append(out, "\nSplits: layers per stage, from the iteration on that is named\n");
    for (int row = 0; row < of->setup->study->balancing_count; row++) {
        const ana_row *each = of->rows[row].row;
        const bool is_kept = !ana_balancing_is_dynamic(each->balancing);
        if (each->outcome != STATUS_OK || (!is_kept && row != of->best)) continue;
        ana_splits_print(&each->splits, "  ", each->balancing->label, LABEL_WIDTH, names_of(of),
                         out);
    }
    ana_splits_print(&best_kept, "  ", "best kept split found", LABEL_WIDTH, names_of(of), out);
    if (!is_recorded || of->evidence.is_of_stages) return;
    text_append(out, "  The best kept split, into a framework:\n  echo '");
    print_kept_plan(of, out);
    text_append(out, "' >plan.json\n  ");
    ana_splits_print_export(of->setup->study->run.schedule, "plan.json", out);
    text_append(out, "\n");
}

void ana_diagnosis_print(const ana_diagnosis *diagnosis, bool is_recorded, text_buffer *out)
{
    print_head(diagnosis, out);
    print_verdict(diagnosis, out);
    print_gains(diagnosis, out);
    print_mend(diagnosis, out);
    ana_expert_imbalance_print(&diagnosis->experts, out);
    print_splits(diagnosis, is_recorded, out);
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
    json_end_object(writer);
}

static void write_run(json_writer *writer, const ana_diagnosis *of)
{
    const ana_series *series = of->series;
    const ana_setup *setup = of->setup;
    json_put_string(writer, "name", setup->study->name);
    json_put_int64(writer, "layers", series->layer_count);
    json_put_int64(writer, "stages", setup->stage_count);
    json_put_string(writer, "schedule", setup->study->run.schedule);
    json_put_int64(writer, "microbatches", setup->microbatch_count);
    json_put_int64(writer, "samples", series->sample_count);
    json_put_int64(writer, "iterations", series->count);
    json_put_int64(writer, "first_iteration", setup->first_iteration);
    json_put_int64(writer, "last_iteration", series->last + setup->first_iteration);
    put_ratio(writer, "spacing", of->spacing);
    if (of->cold_factor > 0) {
        json_put_int64(writer, "cold_iteration", setup->first_iteration);
        put_ratio(writer, "cold_factor", of->cold_factor);
    }
    json_put_bool(writer, "microbatches_known", series->costs[0].microbatch_count > 1);
    json_put_bool(writer, "state_known", of->evidence.knows_state);
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
    json_put_array(writer, "rows");
    for (int row = 0; row < of->setup->study->balancing_count; row++) {
        write_row(writer, &of->rows[row], names_of(of));
    }
    json_end_array(writer);
    json_put_string(writer, "baseline", label_of(of, of->baseline));
    json_put_string(writer, "best", of->best >= 0 ? label_of(of, of->best) : NULL);
    write_interval(writer, "kept_split", &of->kept);
    write_interval(writer, "best_over_kept_split", &of->evidence.best_over_kept);
    write_interval(writer, "contiguous_bound", &of->evidence.bound);
    json_put_int_array(writer, "kept_first_layer", of->kept_first_layer,
                       of->setup->stage_count + 1);
}

static void write_data(json_writer *writer, const ana_diagnosis *of)
{
    static const ana_gain_interval unknown = {.gain = (double)NAN, .is_short = true};
    const ana_stragglers *known = of->options.stragglers;
    const ana_cause *causes[ANA_CAUSE_COUNT];
    const int cause_count = other_causes(of, causes);
    if (!of->data.is_known && known == NULL) return;
    json_put_object(writer, "data");
    put_ratio(writer, "correlation", of->data.is_known ? of->data.correlation : (double)NAN);
    write_interval(writer, "microbatches_alike", of->data.is_known ? &of->alike : &unknown);
    if (known != NULL) {
        json_put_array(writer, "causes");
        for (int each = 0; each < cause_count; each++) {
            ana_cause_write(causes[each], writer);
        }
        json_end_array(writer);
    }
    json_put_string(writer, "mend_first", ana_mend_names[of->mend]);
    json_end_object(writer);
}

void ana_diagnosis_write(const ana_diagnosis *diagnosis, text_buffer *out)
{
    json_writer writer = json_line_begin(out);
    json_put_string(&writer, "schema", "dynmo-diagnosis/1");
    json_put_string(&writer, "verdict", ana_verdict_names[ana_grounds[diagnosis->ground].verdict]);
    json_put_string(&writer, "ground", ana_grounds[diagnosis->ground].name);
    put_ratio(&writer, "worthwhile_from", diagnosis->options.threshold_ratio);
    write_run(&writer, diagnosis);
    write_gains(&writer, diagnosis);
    write_data(&writer, diagnosis);
    ana_expert_imbalance_write(&diagnosis->experts, &writer);
    json_write_key(&writer, "inputs");
    ana_inputs_write(&diagnosis->setup->study->inputs, &writer);
    json_line_end(&writer);
}

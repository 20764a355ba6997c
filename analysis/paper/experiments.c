/// Plays the experiments of experiments.json: each row says what it is made of.
#include "analysis/paper/rows.h"
#include "models/dynamism/pruning.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { RANGES_MAX = 16, CHANGE_BYTES = 128 };

/// A ratio over the ranges of a row.
typedef struct ranged {
    double of_range[RANGES_MAX];
    ana_interval total;
    ana_interval bound; // the largest that any plan could reach
} ranged;

/// A speed-up over its ranges.
typedef struct speed_up {
    ana_interval total;
    ana_interval bound;       // what no plan and no schedule exceeds
    ana_interval before;      // bubble_ratio under the static split that is the baseline, or under
                              // `even`
    ana_interval after;       // bubble_ratio of the fastest dynamic row
    ana_interval after_bound; // no contiguous plan has a smaller bubble_ratio
    char still[ANA_TRIAL_LABEL_BYTES];   // label of the static split, of the first trial
    char dynamic[ANA_TRIAL_LABEL_BYTES]; // label of the fastest dynamic row
} speed_up;

/// An experiment while it is played.
typedef struct playing {
    ana_rows *rows;
    json_value row; // to be made
    const char *study;
    bool is_static;                 // speed-ups are over the best static split of the paper, the
                                    // dynamism alike; else over the even split without it
    const char *common;             // changes of every row, or NULL
    const char *change;             // of the row, for every trial, or NULL
    const char *ranges[RANGES_MAX]; // [range_count] further ones; the first: the stated inputs
    int range_count;
    speed_up speed_up; // played last
    ranged first;      // of the rows before: the first number, the last and the largest
    ranged last;
    ranged most;
} playing;

/// A member of the row; what it has not the experiment says for all of its rows.
static json_value member_of(const playing *at, const char *key)
{
    const json_value own = json_member(at->row, key);
    return json_is_missing(own) ? json_member(at->rows->experiment, key) : own;
}

static const char *text_of(const playing *at, const char *key)
{
    return ana_paper_text(member_of(at, key));
}

/// A change as ana_trial_play takes it; NULL: nothing.
static const char *change_of(ana_rows *rows, json_value object)
{
    text_buffer text = {.memory = rows->memory};
    if (json_is_missing(object)) return NULL;
    json_writer writer = json_writer_init(&text);
    json_put_value(&writer, NULL, object);
    return text.bytes;
}

/// Adds the number of the row.
static ana_reproduced *add_number(playing *at, const ana_interval *number)
{
    return ana_rows_add(at->rows, text_of(at, "quantity"), number, text_of(at, "baseline"),
                        text_of(at, "note"));
}

/// Plays the row's study in a range, with further changes.
static status play(const playing *at, int range, const char *further, ana_trial *trial,
                   error_message *err)
{
    const char *const changes[] = {at->common, at->change, at->ranges[range], further};
    return ana_trial_play(at->study, changes, 4, trial, err);
}

static status find_row(const playing *at, const ana_trial *trial, const char *label,
                       const ana_trial_row **row, error_message *err)
{
    *row = ana_trial_find(trial, label);
    if (*row != NULL) return STATUS_OK;
    return error_set(err, STATUS_INFEASIBLE, "%s: '%s': no plan fits", at->study, label);
}

/// A "measure" of a row. "bare" is without overheads, as the paper's scaling excludes them.
static double measure_of(const char *measure, const ana_trial_row *row)
{
    const bal_training_result *result = &row->result;
    if (strcmp(measure, "time") == 0) return (double)result->total_ns;
    if (strcmp(measure, "bare") == 0)
        return (double)(result->total_ns - ana_trial_overhead_ns(row));
    if (strcmp(measure, "last time") == 0) return (double)result->last.makespan_ns;
    if (strcmp(measure, "first bubble") == 0) return result->first.bubble_ratio;
    if (strcmp(measure, "last bubble") == 0) return result->last.bubble_ratio;
    assert(strcmp(measure, "bubble") == 0);
    return result->bubble_ratio;
}

/// A "measure" of one "row", or its ratio to another's, which may have a further "change".
static status make_number(playing *at, error_message *err)
{
    const json_value over = member_of(at, "over");
    const json_value scale = json_member(at->row, "scale");
    const char *further = change_of(at->rows, json_member(over, "change"));
    bool fits = true;
    ranged number = {.total = {.count = 0}};
    for (int range = 0; range < at->range_count; range++) {
        const ana_trial_row *row = NULL;
        ana_trial trial;
        TRY(play(at, range, NULL, &trial, err));
        TRY(find_row(at, &trial, text_of(at, "row"), &row, err));
        double value = measure_of(text_of(at, "measure"), row);
        ana_interval_add(&number.bound, value / (double)trial.bound_ns);
        if (!json_is_missing(over)) {
            if (further != NULL) TRY(play(at, range, further, &trial, err));
            TRY(find_row(at, &trial, ana_paper_text(json_member(over, "row")), &row, err));
            value /= measure_of(ana_paper_text(json_member(over, "measure")), row);
            if (range == 0) fits = row->result.fits;
        }
        if (!json_is_missing(scale)) {
            value = value * ana_paper_number(json_element(scale, 0)) /
                    ana_paper_number(json_element(scale, 1));
        }
        number.of_range[range] = value;
        ana_interval_add(&number.total, value);
    }
    ana_reproduced *made = add_number(at, &number.total);
    if (!json_is_missing(json_member(at->row, "bounded"))) made->bound = number.bound.high;
    if (!fits && text_of(at, "unfit")[0] != '\0') made->note = text_of(at, "unfit");
    if (at->first.total.count == 0) at->first = number;
    if (number.total.value > at->most.total.value) at->most = number;
    at->last = number;
    return STATUS_OK;
}

/// The largest number so far.
static status make_most(playing *at, error_message *err)
{
    (void)err;
    ana_reproduced *row = add_number(at, &at->most.total);
    row->bound = at->most.bound.high;
    if (row->bound < row->published) row->agreement = ANA_AGREEMENT_UNREACHABLE;
    return STATUS_OK;
}

/// The last number over the first.
static status make_change(playing *at, error_message *err)
{
    (void)err;
    ana_interval change = {0};
    for (int range = 0; range < at->range_count; range++) {
        ana_interval_add(&change, at->last.of_range[range] / at->first.of_range[range]);
    }
    add_number(at, &change);
    return STATUS_OK;
}

/// A trial of the speed-up. One that re-packs is of the row "replicated" instead of the fastest
/// that does not; its bound is that of all GPUs computing all the time, in pipelines of any length.
static status add_trial(playing *at, const ana_trial *trial, error_message *err)
{
    speed_up *out = &at->speed_up;
    const bool repacks = !json_is_missing(json_member(at->row, "repacks"));
    const ana_trial_row *still = ana_trial_find(trial, at->is_static ? "static" : "even");
    const ana_trial_row *dynamic =
        repacks ? ana_trial_find(trial, "replicated") : ana_trial_best_dynamic(trial);
    if (still == NULL || dynamic == NULL || (!at->is_static && trial->still_even_ns == 0)) {
        return error_set(err, STATUS_INFEASIBLE,
                         "%s: needs 'even' and a dynamic row whose plans fit", at->study);
    }
    const double start_ns = (double)(at->is_static ? still->result.total_ns : trial->still_even_ns);
    const int64_t bound_ns = repacks ? trial->work_ns : trial->bound_ns + trial->reduction_bound_ns;
    if (out->total.count == 0) {
        memcpy(out->still, still->label, sizeof out->still);
        memcpy(out->dynamic, dynamic->label, sizeof out->dynamic);
    }
    ana_interval_add(&out->total, start_ns / (double)dynamic->result.total_ns);
    ana_interval_add(&out->bound, start_ns / (double)bound_ns);
    ana_interval_add(&out->before, still->result.bubble_ratio);
    ana_interval_add(&out->after, dynamic->result.bubble_ratio);
    ana_interval_add(&out->after_bound, 1 - (double)trial->work_ns / (double)trial->bound_ns);
    return STATUS_OK;
}

static status play_speed_up(playing *at, error_message *err)
{
    at->speed_up = (speed_up){.still = ""};
    for (int range = 0; range < at->range_count; range++) {
        ana_trial trial;
        TRY(play(at, range, NULL, &trial, err));
        TRY(add_trial(at, &trial, err));
    }
    return STATUS_OK;
}

/// Adds the row of the speed-up: unreachable where the largest bound is short of what is published.
static ana_reproduced *add_speed_up(playing *at, const char *quantity)
{
    const char *against =
        at->is_static ? arena_format(at->rows->memory, "%s, the same model", at->speed_up.still)
                      : "even, without the dynamism";
    ana_reproduced *row =
        ana_rows_add(at->rows, quantity, &at->speed_up.total, against, text_of(at, "note"));
    row->bound = at->speed_up.bound.high;
    if (row->bound < row->published) row->agreement = ANA_AGREEMENT_UNREACHABLE;
    return row;
}

static status make_speed_up(playing *at, error_message *err)
{
    TRY(play_speed_up(at, err));
    add_speed_up(at, text_of(at, "quantity"));
    return STATUS_OK;
}

static const char *idle_of(playing *at, const char *label)
{
    return arena_format(at->rows->memory, "%s, idle over total", label);
}

/// Under the split that the speed-up played last is over.
static status make_bubble_before(playing *at, error_message *err)
{
    (void)err;
    ana_rows_add(at->rows, text_of(at, "quantity"), &at->speed_up.before,
                 idle_of(at, at->speed_up.still), "");
    return STATUS_OK;
}

static status make_bubble_after(playing *at, error_message *err)
{
    (void)err;
    ana_reproduced *row = ana_rows_add(at->rows, text_of(at, "quantity"), &at->speed_up.after,
                                       idle_of(at, at->speed_up.dynamic), "");
    row->bound = at->speed_up.after_bound.low;
    return STATUS_OK;
}

/// What follows from published numbers alone; without a value, what was not played.
static status make_identity(playing *at, error_message *err)
{
    (void)err;
    const ana_interval value = ana_interval_of(ana_paper_number(json_member(at->row, "value")));
    ana_reproduced *row = add_number(at, &value);
    row->bound = ana_paper_number(json_member(at->row, "bound"));
    row->agreement = isnan(value.value) ? ANA_AGREEMENT_PREDICTED : ANA_AGREEMENT_CONSISTENT;
    return STATUS_OK;
}

/// A number of the study set so that the bubble of the best static split comes out as published.
typedef struct calibrated {
    double value;              // of the number
    double reached;            // the bubble with it; NAN where no plan fits
    char change[CHANGE_BYTES]; // {path: value}
} calibrated;

static status try_value(const playing *at, int range, double value, calibrated *tried,
                        error_message *err)
{
    static const char *const rows =
        "{\"balancing\":[{\"balancer\":\"even\"},{\"balancer\":\"parameters\"},"
        "{\"balancer\":\"parameters-legacy\"}]}";
    *tried = (calibrated){.value = value, .reached = NAN};
    snprintf(tried->change, sizeof tried->change, "{\"%s\":%.6g}", text_of(at, "path"), value);
    const char *const changes[] = {at->ranges[range], tried->change, rows};
    ana_trial trial;
    error_message infeasible = {0};
    const status played = ana_trial_play(at->study, changes, 3, &trial, &infeasible);
    const ana_trial_row *row = played == STATUS_OK ? ana_trial_find(&trial, "static") : NULL;
    if (row != NULL) tried->reached = row->result.bubble_ratio;
    if (played == STATUS_OK || played == STATUS_INFEASIBLE) return STATUS_OK;
    return error_set(err, played, "%s", infeasible.message);
}

/// Bisects; the high end is drawn in until a plan fits. Where wanted is outside of what the range
/// reaches, the end that comes nearer is the answer.
static status calibrate(const playing *at, int range, double wanted, calibrated *found,
                        error_message *err)
{
    enum { STEPS = 10, ENDS = 8 };
    calibrated low;
    calibrated high;
    TRY(try_value(at, range, ana_paper_number(json_member(at->row, "low")), &low, err));
    TRY(try_value(at, range, ana_paper_number(json_member(at->row, "high")), &high, err));
    for (int step = 0; step < ENDS && isnan(high.reached); step++) {
        TRY(try_value(at, range, (low.value + high.value) / 2, &high, err));
    }
    if (isnan(low.reached) || isnan(high.reached)) {
        return error_set(err, STATUS_INFEASIBLE, "%s: no plan fits with any %s", at->study,
                         text_of(at, "path"));
    }
    const bool rises = low.reached <= high.reached;
    *found = fabs(low.reached - wanted) < fabs(high.reached - wanted) ? low : high;
    if (wanted < fmin(low.reached, high.reached) || wanted > fmax(low.reached, high.reached)) {
        return STATUS_OK;
    }
    for (int step = 0; step < STEPS; step++) {
        TRY(try_value(at, range, (low.value + high.value) / 2, found, err));
        if ((found->reached < wanted) == rises) {
            low = *found;
        } else {
            high = *found;
        }
    }
    return STATUS_OK;
}

/// The ranges, each joined with the calibration that belongs to it.
static status calibrate_ranges(playing *at, double wanted, ana_interval *value, error_message *err)
{
    for (int range = 0; range < at->range_count; range++) {
        const char *own = at->ranges[range];
        calibrated found;
        TRY(calibrate(at, range, wanted, &found, err));
        ana_interval_add(value, found.value);
        at->ranges[range] = own == NULL ? arena_format(at->rows->memory, "%s", found.change)
                                        : arena_format(at->rows->memory, "%.*s,%s",
                                                       (int)strlen(own) - 1, own, found.change + 1);
    }
    return STATUS_OK;
}

/// Whether the experiment has chosen loads that give what is published: then the bound of the drawn
/// ones excludes nothing.
static bool is_chosen(const playing *at)
{
    return !json_is_missing(json_member(at->row, "chosen"));
}

/// The bubbles before, which is the calibration, and after.
static void add_bubbles(playing *at, const char *before, const char *after, double wanted,
                        const ana_interval *value)
{
    ana_rows *rows = at->rows;
    const speed_up *result = &at->speed_up;
    const bool is_reached = fabs(result->before.value - wanted) < 0.005;
    ana_rows_add(rows, before, &result->before, idle_of(at, result->still),
                 arena_format(rows->memory, "By %s %.3g (%.3g to %.3g)%s.%s", text_of(at, "what"),
                              value->value, value->low, value->high,
                              is_reached ? "" : ": the nearest that it reaches",
                              text_of(at, "calibration")))
        ->agreement = ANA_AGREEMENT_CALIBRATED;
    ana_reproduced *row =
        ana_rows_add(rows, after, &result->after, idle_of(at, result->dynamic), "");
    row->bound = result->after_bound.low;
    if (row->bound > row->published && !is_chosen(at)) row->agreement = ANA_AGREEMENT_UNREACHABLE;
    row->note = arena_format(rows->memory,
                             "%.3f above the published number; no contiguous plan leaves less "
                             "than %.3f with these skews, were it chosen anew in every iteration "
                             "for nothing.%s",
                             row->simulated - row->published, result->after_bound.value,
                             is_chosen(at) ? " Other loads would: see the chosen ones." : "");
}

/// One input is set so that the bubble under the best static split is the published one; what
/// balancing leaves of it is predicted; and what the two published bubbles are as a speed-up.
static status make_calibrated_bubbles(playing *at, error_message *err)
{
    ana_rows *rows = at->rows;
    const char *prefix = text_of(at, "prefix");
    const char *before = arena_format(rows->memory, "%sbubble before", prefix);
    const char *after = arena_format(rows->memory, "%sbubble after", prefix);
    const double wanted = ana_rows_published(rows, before);
    const double left = ana_rows_published(rows, after);
    ana_interval value = {0};
    TRY(calibrate_ranges(at, wanted, &value, err));
    TRY(play_speed_up(at, err));
    add_bubbles(at, before, after, wanted, &value);
    ana_reproduced *row =
        add_speed_up(at, arena_format(rows->memory, "%sspeed-up over static", prefix));
    if (is_chosen(at)) row->agreement = ANA_AGREEMENT_PREDICTED;
    const ana_interval identity = ana_interval_of((1 - left) / (1 - wanted));
    ana_rows_add(
        rows,
        arena_format(rows->memory, "%sspeed-up over static, of the published bubbles", prefix),
        &identity, "the published bubble before", "(1 - after) / (1 - before).")
        ->agreement = ANA_AGREEMENT_CONSISTENT;
    return STATUS_OK;
}

/// Pruning on pipelines of eight GPUs, of which those that are no longer needed are released, or
/// make further replicas.
static status make_repacking(playing *at, error_message *err)
{
    ana_rows *rows = at->rows;
    ana_interval ranks = {0};
    ana_interval kept = {0};  // throughput with over that without, GPUs released
    ana_interval share = {0}; // of the gain, released GPUs making further replicas
    const char *which = text_of(at, "quantity");
    for (int range = 0; range < at->range_count; range++) {
        const ana_trial_row *packed = NULL;
        const ana_trial_row *replicated = NULL;
        const ana_trial_row *even = NULL;
        ana_trial trial;
        TRY(play(at, range, NULL, &trial, err));
        TRY(find_row(at, &trial, "re-packed", &packed, err));
        TRY(find_row(at, &trial, "replicated", &replicated, err));
        TRY(find_row(at, &trial, "even", &even, err));
        const double all_ns = (double)replicated->result.total_ns;
        const double replicas = (double)replicated->unpacked_ns / all_ns;
        const double total = (double)even->result.total_ns / all_ns;
        ana_interval_add(&ranks, packed->result.rank_count_mean);
        ana_interval_add(&kept, (double)packed->unpacked_ns / (double)packed->result.total_ns);
        ana_interval_add(&share, total > 1 ? log(replicas) / log(total) : 0);
    }
    ana_rows_add(rows, arena_format(rows->memory, "mean GPUs of 8%s", which), &ranks,
                 "8 GPUs a pipeline, mean over time", text_of(at, "note"));
    ana_rows_add(rows, arena_format(rows->memory, "throughput kept%s", which), &kept,
                 "the same without re-packing", "");
    ana_rows_add(rows, arena_format(rows->memory, "share of the gain, least%s", which), &share,
                 "the gain over even (Megatron)", "As the next row.");
    ana_rows_add(rows, arena_format(rows->memory, "share of the gain, most%s", which), &share,
                 "the gain over even (Megatron)",
                 "Released GPUs make further replicas, the global batch held: log of the factor of "
                 "re-packing over log of the whole speed-up. The paper says 0.04 to 0.11.");
    return STATUS_OK;
}

/// The overhead in its three parts, as the paper's Figure 4 has it, and in all.
static status make_overhead(playing *at, error_message *err)
{
    enum { PARTS = 4 };
    static const char *const parts[PARTS] = {"profiling", "algorithm", "migration", "overhead"};
    const char *label = text_of(at, "row");
    ana_interval share[PARTS] = {{0}};
    for (int range = 0; range < at->range_count; range++) {
        const ana_trial_row *row = NULL;
        ana_trial trial;
        TRY(play(at, range, NULL, &trial, err));
        TRY(find_row(at, &trial, label, &row, err));
        const bal_training_result *result = &row->result;
        const int64_t spent_ns[PARTS] = {result->profile_ns, result->decision_ns,
                                         result->migration_ns, ana_trial_overhead_ns(row)};
        for (int part = 0; part < PARTS; part++) {
            ana_interval_add(&share[part], (double)spent_ns[part] / (double)result->total_ns);
        }
    }
    for (int part = 0; part < PARTS; part++) {
        ana_rows_add(at->rows,
                     arena_format(at->rows->memory, "%s, %s", text_of(at, "quantity"), parts[part]),
                     &share[part], arena_format(at->rows->memory, "%s, share of the time", label),
                     "");
    }
    return STATUS_OK;
}

/// The measured curve of a sparse kernel: its time over the dense one's at a sparsity; or without
/// one the sparsity from which it is faster, between the two points that were measured around it.
static status make_kernel(playing *at, error_message *err)
{
    (void)err;
    const model_kernel_speed *speeds = &model_kernel_speed_sputnik_a100;
    const double sparsity = ana_paper_number(json_member(at->row, "sparsity"));
    ana_interval value = ana_interval_of(model_kernel_speed_at(speeds, 1 - sparsity));
    if (isnan(sparsity)) {
        int above = 1;
        while (above < speeds->count - 1 && speeds->ratio[above] < 1) {
            above++;
        }
        const double below = speeds->ratio[above - 1];
        const double share = (1 - below) / (speeds->ratio[above] - below);
        const double step = speeds->density[above] - speeds->density[above - 1];
        value = (ana_interval){.value = 1 - speeds->density[above - 1] - share * step,
                               .low = 1 - speeds->density[above],
                               .high = 1 - speeds->density[above - 1]};
    }
    add_number(at, &value);
    return STATUS_OK;
}

/// The speed-up played last over another system, which is a factor on the static split.
static status make_over_factor(playing *at, error_message *err)
{
    (void)err;
    const double factor = ana_paper_number(json_member(at->row, "factor"));
    const ana_interval *total = &at->speed_up.total;
    const ana_interval over = {
        .value = total->value / factor, .low = total->low / factor, .high = total->high / factor};
    add_number(at, &over);
    return STATUS_OK;
}

static status make_chosen_loads(playing *at, error_message *err)
{
    return ana_play_chosen_loads(at->rows, at->row, err);
}

static status make_table1(playing *at, error_message *err)
{
    return ana_play_table1(at->rows, json_member(at->row, "table"), err);
}

/// What "make" of a row may be.
static const struct {
    const char *name;
    status (*make)(playing *at, error_message *err);
} makers[] = {
    {"number", make_number},
    {"most", make_most},
    {"change", make_change},
    {"speed-up", make_speed_up},
    {"bubble-before", make_bubble_before},
    {"bubble-after", make_bubble_after},
    {"identity", make_identity},
    {"calibrated-bubbles", make_calibrated_bubbles},
    {"repacking", make_repacking},
    {"overhead", make_overhead},
    {"kernel", make_kernel},
    {"over-factor", make_over_factor},
    {"chosen-loads", make_chosen_loads},
    {"table1", make_table1},
};

/// Whether a range sets a path that the row sets itself.
static bool is_settled(json_value range, json_value change)
{
    json_value member = json_element(range, 0);
    while (member.node != NULL && json_is_missing(json_member(change, json_key(member)))) {
        member = json_next(member);
    }
    return member.node != NULL;
}

static void choose_ranges(playing *at, json_value ranges)
{
    const json_value change = json_member(at->row, "change");
    at->range_count = 0;
    json_value list[RANGES_MAX];
    const int count = ana_paper_list(ranges, RANGES_MAX, list);
    for (int index = 0; index < count; index++) {
        if (index > 0 && is_settled(list[index], change)) continue;
        at->ranges[at->range_count++] = change_of(at->rows, list[index]);
    }
}

static status make_row(playing *at, error_message *err)
{
    at->study = text_of(at, "study");
    at->change = change_of(at->rows, json_member(at->row, "change"));
    choose_ranges(at, member_of(at, "ranges"));
    for (size_t maker = 0; maker < sizeof makers / sizeof makers[0]; maker++) {
        if (strcmp(makers[maker].name, text_of(at, "make")) == 0)
            return makers[maker].make(at, err);
    }
    return json_error(at->row, STATUS_FORMAT, err, "nothing makes '%.40s'", text_of(at, "make"));
}

status ana_experiment_play(json_value experiment, ana_rows *rows, error_message *err)
{
    rows->experiment = experiment;
    playing at = {.rows = rows,
                  .is_static =
                      strcmp(ana_paper_text(json_member(experiment, "against")), "static") == 0,
                  .common = change_of(rows, json_member(experiment, "change")),
                  .row = json_element(json_member(experiment, "rows"), 0)};
    for (; at.row.node != NULL; at.row = json_next(at.row)) {
        TRY(make_row(&at, err));
    }
    return STATUS_OK;
}

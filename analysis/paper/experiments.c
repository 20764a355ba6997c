/// Plays the experiments of experiments.json: each row says which numbers it is made of.
#include "analysis/paper/published.h"
#include "analysis/paper/rows.h"
#include "models/dynamism/pruning.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { RANGES_MAX = 16, CHANGES_MAX = 4, LAYERS_MAX = 256, NS_OF_LOAD = 1000000 };

/// A speed-up without what decisions and migrations cost, over the ranges of a setting.
typedef struct bare_speed_up {
    double of_range[RANGES_MAX];
    ana_interval total;
    ana_interval bound; // the largest that any plan could reach
} bare_speed_up;

/// An experiment while it is played.
typedef struct playing {
    ana_rows *rows;
    json_value row; // to be made
    const char *study;
    ana_baseline baseline;
    const char *change; // of the row, for every trial, or NULL
    const char
        *ranges[RANGES_MAX]; // [range_count] further changes; the first are the stated inputs
    int range_count;
    ana_speed_up speed_up; // played last
    bare_speed_up first;   // bare speed-ups of the rows before
    bare_speed_up last;
    bare_speed_up most;
} playing;

static const char *const even_only = "{\"balancing\":[{\"balancer\":\"even\"}]}";

/// A text of the row, or of its experiment; the file is part of the program, and complete.
static const char *text_of(json_value object, const char *key)
{
    const char *text = "";
    (void)json_string(json_member(object, key), &text, NULL);
    return text;
}

static double number_of(json_value object, const char *key)
{
    double number = NAN;
    (void)json_double(json_member(object, key), -1e300, 1e300, &number, NULL);
    return number;
}

static double number_of_element(json_value array, int index)
{
    double number = NAN;
    (void)json_double(json_element(array, index), -1e300, 1e300, &number, NULL);
    return number;
}

/// A change as ana_trial_play takes it; NULL: nothing.
static const char *change_of(ana_rows *rows, json_value object)
{
    text_buffer text = {0};
    if (json_is_missing(object)) return NULL;
    json_writer writer = json_writer_init(&text);
    json_write_value(&writer, object);
    const char *kept = arena_string(rows->memory, text.bytes);
    text_free(&text);
    return kept;
}

/// Plays the row's study in a range, with further changes.
static status play(const playing *at, int range, const char *further, ana_trial *trial,
                   error_message *err)
{
    const char *const changes[] = {at->change, at->ranges[range], further};
    return ana_trial_play(at->study, changes, 3, trial, err);
}

static void add_number(playing *at, const ana_interval *number, double bound)
{
    ana_rows_add_number(at->rows, text_of(at->row, "quantity"), number, bound,
                        ANA_AGREEMENT_PREDICTED, text_of(at->row, "baseline"),
                        text_of(at->row, "note"));
}

static status make_speed_up(playing *at, error_message *err)
{
    const ana_speed_up_case what = {
        .study = at->study,
        .baseline = at->baseline,
        .common = at->change,
        .ranges = at->ranges,
        .range_count = at->range_count,
        .repacks = !json_is_missing(json_member(at->row, "repacks")),
    };
    TRY(ana_speed_up_play(&what, &at->speed_up, err));
    ana_rows_add_speed_up(at->rows, text_of(at->row, "quantity"), at->baseline, &at->speed_up,
                          text_of(at->row, "note"));
    return STATUS_OK;
}

static const char *idle_of(playing *at, const char *label)
{
    return ana_rows_text(at->rows, "%s, idle over total", label);
}

static status make_bubble_before(playing *at, error_message *err)
{
    (void)err;
    ana_rows_add_number(at->rows, text_of(at->row, "quantity"), &at->speed_up.before, NAN,
                        ANA_AGREEMENT_PREDICTED, idle_of(at, at->speed_up.still), "");
    return STATUS_OK;
}

static status make_bubble_after(playing *at, error_message *err)
{
    (void)err;
    ana_rows_add_number(at->rows, text_of(at->row, "quantity"), &at->speed_up.after,
                        at->speed_up.after_bound.low, ANA_AGREEMENT_PREDICTED,
                        idle_of(at, at->speed_up.dynamic), "");
    return STATUS_OK;
}

/// What follows from published numbers alone; without a value, what was not played.
static status make_identity(playing *at, error_message *err)
{
    (void)err;
    const ana_interval value = ana_interval_of(number_of(at->row, "value"));
    ana_rows_add_number(at->rows, text_of(at->row, "quantity"), &value, number_of(at->row, "bound"),
                        isnan(value.value) ? ANA_AGREEMENT_PREDICTED : ANA_AGREEMENT_CONSISTENT,
                        text_of(at->row, "baseline"), text_of(at->row, "note"));
    return STATUS_OK;
}

/// Of the first iteration, or with "last" of the last, under the even split.
static status make_even_bubble(playing *at, error_message *err)
{
    ana_trial trial;
    TRY(play(at, 0, even_only, &trial, err));
    const bool is_last = !json_is_missing(json_member(at->row, "last"));
    const ana_interval bubble = ana_interval_of(is_last ? trial.rows[0].last_bubble_ratio
                                                        : trial.rows[0].first_bubble_ratio);
    add_number(at, &bubble, NAN);
    return STATUS_OK;
}

/// Idle share at the end over that at the start, under the even split.
static status make_bubble_growth(playing *at, error_message *err)
{
    ana_interval ratio = {0};
    for (int range = 0; range < at->range_count; range++) {
        ana_trial trial;
        TRY(play(at, range, even_only, &trial, err));
        ana_interval_add(&ratio,
                         trial.rows[0].last_bubble_ratio / trial.rows[0].first_bubble_ratio);
    }
    add_number(at, &ratio, NAN);
    return STATUS_OK;
}

/// Idle share over that of the study with the changes of "over", both under the even split.
static status make_bubble_over(playing *at, error_message *err)
{
    ana_interval ratio = {0};
    const char *over = change_of(at->rows, json_member(at->row, "over"));
    for (int range = 0; range < at->range_count; range++) {
        const char *const changes[] = {at->change, at->ranges[range], over, even_only};
        ana_trial trial;
        ana_trial other;
        TRY(play(at, range, even_only, &trial, err));
        TRY(ana_trial_play(at->study, changes, CHANGES_MAX, &other, err));
        ana_interval_add(&ratio, trial.rows[0].bubble_ratio / other.rows[0].bubble_ratio);
    }
    add_number(at, &ratio, NAN);
    return STATUS_OK;
}

static status make_static_bubble(playing *at, error_message *err)
{
    ana_trial trial;
    TRY(ana_trial_play(at->study, &at->change, 1, &trial, err));
    const ana_interval bubble = ana_interval_of(ana_measure_static_bubble(&trial));
    add_number(at, &bubble, NAN);
    return STATUS_OK;
}

/// The ranges, each joined with the calibration that belongs to it.
static status calibrate_ranges(const playing *at, double wanted, const char **ranges,
                               ana_interval *value, error_message *err)
{
    for (int range = 0; range < at->range_count; range++) {
        const ana_calibration calibration = {
            .study = at->study,
            .common = at->ranges[range],
            .rows = ANA_STATIC_ROWS,
            .path = text_of(at->row, "path"),
            .low = number_of(at->row, "low"),
            .high = number_of(at->row, "high"),
            .wanted = wanted,
            .measure = ana_measure_static_bubble,
        };
        ana_calibrated calibrated;
        TRY(ana_calibrate(&calibration, &calibrated, err));
        ana_interval_add(value, calibrated.value);
        ranges[range] = ana_rows_join(at->rows, calibration.common,
                                      ana_rows_text(at->rows, "%s", calibrated.change));
    }
    return STATUS_OK;
}

/// Whether the experiment has chosen loads that give what is published.
static bool is_chosen(const playing *at)
{
    return !json_is_missing(json_member(at->row, "chosen"));
}

/// Where chosen loads reach what is published, the bound of the drawn ones excludes nothing.
static void doubt_bound(playing *at)
{
    if (is_chosen(at)) at->rows->rows[at->rows->count - 1].agreement = ANA_AGREEMENT_PREDICTED;
}

/// The bubbles before and after, of which the first is the calibration.
static void add_bubbles(playing *at, const char *before, const char *after, double wanted,
                        const ana_interval *value)
{
    ana_rows *rows = at->rows;
    const ana_speed_up *result = &at->speed_up;
    const bool is_reached = fabs(result->before.value - wanted) < 0.005;
    ana_rows_add_number(
        rows, before, &result->before, NAN, ANA_AGREEMENT_CALIBRATED, idle_of(at, result->still),
        ana_rows_text(rows, "By %s %.3g (%.3g to %.3g)%s.%s", text_of(at->row, "what"),
                      value->value, value->low, value->high,
                      is_reached ? "" : ": the nearest that it reaches",
                      text_of(at->row, "calibration")));
    ana_rows_add_number(rows, after, &result->after, result->after_bound.low,
                        ANA_AGREEMENT_PREDICTED, idle_of(at, result->dynamic), "");
    ana_reproduced *row = &rows->rows[rows->count - 1];
    if (result->after_bound.low > row->published) row->agreement = ANA_AGREEMENT_UNREACHABLE;
    doubt_bound(at);
    row->note = ana_rows_text(rows,
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
    const char *prefix = text_of(at->row, "prefix");
    const char *before = ana_rows_text(rows, "%sbubble before", prefix);
    const char *after = ana_rows_text(rows, "%sbubble after", prefix);
    const double wanted = ana_published_find(rows->experiment, before)->value;
    const double left = ana_published_find(rows->experiment, after)->value;
    const char *ranges[RANGES_MAX];
    ana_interval value = {0};
    TRY(calibrate_ranges(at, wanted, ranges, &value, err));
    const ana_speed_up_case calibrated = {.study = at->study,
                                          .baseline = at->baseline,
                                          .ranges = ranges,
                                          .range_count = at->range_count};
    TRY(ana_speed_up_play(&calibrated, &at->speed_up, err));
    add_bubbles(at, before, after, wanted, &value);
    ana_rows_add_speed_up(rows, ana_rows_text(rows, "%sspeed-up over static", prefix), at->baseline,
                          &at->speed_up, text_of(at->row, "note"));
    doubt_bound(at);
    const ana_interval identity = ana_interval_of((1 - left) / (1 - wanted));
    ana_rows_add_number(
        rows, ana_rows_text(rows, "%sspeed-up over static, of the published bubbles", prefix),
        &identity, NAN, ANA_AGREEMENT_CONSISTENT, "the published bubble before",
        "(1 - after) / (1 - before).");
    return STATUS_OK;
}

static double speed(int64_t before_ns, int64_t after_ns)
{
    return (double)before_ns / (double)after_ns;
}

/// Pruning on pipelines of eight GPUs, of which those that are no longer needed are released, or
/// make further replicas: three rows.
static status make_repacking(playing *at, error_message *err)
{
    ana_rows *rows = at->rows;
    ana_interval ranks = {0};
    ana_interval kept = {0};  // throughput with over that without, GPUs released
    ana_interval share = {0}; // of the gain, released GPUs making further replicas
    const char *which = text_of(at->row, "quantity");
    for (int range = 0; range < at->range_count; range++) {
        ana_trial trial;
        TRY(play(at, range, NULL, &trial, err));
        const ana_trial_row *packed = ana_trial_find(&trial, "re-packed");
        const ana_trial_row *replicated = ana_trial_find(&trial, "replicated");
        const ana_trial_row *even = ana_trial_find(&trial, "even");
        if (packed == NULL || replicated == NULL || even == NULL) {
            return error_set(err, STATUS_INFEASIBLE, "repack: no plan fits");
        }
        const double replicas = speed(replicated->unpacked_ns, replicated->total_ns);
        const double total = speed(even->total_ns, replicated->total_ns);
        ana_interval_add(&ranks, packed->rank_count_mean);
        ana_interval_add(&kept, speed(packed->unpacked_ns, packed->total_ns));
        ana_interval_add(&share, total > 1 ? log(replicas) / log(total) : 0);
    }
    ana_rows_add_number(rows, ana_rows_text(rows, "mean GPUs of 8%s", which), &ranks, NAN,
                        ANA_AGREEMENT_PREDICTED, "8 GPUs a pipeline, mean over time",
                        text_of(at->row, "note"));
    ana_rows_add_number(rows, ana_rows_text(rows, "throughput kept%s", which), &kept, NAN,
                        ANA_AGREEMENT_PREDICTED, "the same without re-packing", "");
    ana_rows_add_number(rows, ana_rows_text(rows, "share of the gain, least%s", which), &share, NAN,
                        ANA_AGREEMENT_PREDICTED, "the gain over even (Megatron)",
                        "As the next row.");
    ana_rows_add_number(
        rows, ana_rows_text(rows, "share of the gain, most%s", which), &share, NAN,
        ANA_AGREEMENT_PREDICTED, "the gain over even (Megatron)",
        "Released GPUs make further replicas, the global batch held: log of the factor of "
        "re-packing over log of the whole speed-up. The paper says 0.04 to 0.11.");
    return STATUS_OK;
}

static int64_t overhead_ns(const ana_trial_row *row)
{
    return row->profile_ns + row->decision_ns + row->migration_ns;
}

/// Time of a row without its overheads, as the paper's scaling excludes them.
static double bare_ns(const ana_trial_row *row)
{
    return (double)(row->total_ns - overhead_ns(row));
}

/// Partition by time over `even`.
static status make_bare_speed_up(playing *at, error_message *err)
{
    bare_speed_up *last = &at->last;
    *last = (bare_speed_up){.total = {.count = 0}};
    for (int range = 0; range < at->range_count; range++) {
        ana_trial trial;
        TRY(play(at, range, NULL, &trial, err));
        const ana_trial_row *even = ana_trial_find(&trial, "even");
        const ana_trial_row *partition = ana_trial_find(&trial, "partition on-change");
        if (even == NULL || partition == NULL) {
            return error_set(err, STATUS_INFEASIBLE, "%s: no plan fits with %s", at->study,
                             at->change);
        }
        last->of_range[range] = bare_ns(even) / bare_ns(partition);
        ana_interval_add(&last->total, last->of_range[range]);
        ana_interval_add(&last->bound, bare_ns(even) / (double)trial.bound_ns);
    }
    if (at->first.total.count == 0) at->first = *last;
    if (last->total.value > at->most.total.value) at->most = *last;
    ana_rows_add_number(at->rows, text_of(at->row, "quantity"), &last->total, last->bound.high,
                        ANA_AGREEMENT_PREDICTED, "even (Megatron), the same model",
                        text_of(at->row, "note"));
    return STATUS_OK;
}

/// The largest of the bare speed-ups.
static status make_most(playing *at, error_message *err)
{
    (void)err;
    ana_rows *rows = at->rows;
    ana_rows_add_number(rows, text_of(at->row, "quantity"), &at->most.total, at->most.bound.high,
                        ANA_AGREEMENT_PREDICTED, "even (Megatron), the same model",
                        text_of(at->row, "note"));
    ana_reproduced *row = &rows->rows[rows->count - 1];
    if (row->bound < row->published) row->agreement = ANA_AGREEMENT_UNREACHABLE;
    return STATUS_OK;
}

/// The last of the bare speed-ups over the first.
static status make_change(playing *at, error_message *err)
{
    (void)err;
    ana_interval change = {0};
    for (int range = 0; range < at->range_count; range++) {
        ana_interval_add(&change, at->last.of_range[range] / at->first.of_range[range]);
    }
    add_number(at, &change, NAN);
    return STATUS_OK;
}

/// The overhead in its three parts, as the paper's Figure 4 has it, and in all.
static status make_overhead(playing *at, error_message *err)
{
    enum { PARTS = 4 };
    static const char *const parts[PARTS] = {"profiling", "algorithm", "migration", "overhead"};
    const char *label = text_of(at->row, "row");
    ana_interval share[PARTS] = {{0}};
    for (int range = 0; range < at->range_count; range++) {
        ana_trial trial;
        TRY(play(at, range, NULL, &trial, err));
        const ana_trial_row *row = ana_trial_find(&trial, label);
        if (row == NULL) return error_set(err, STATUS_INFEASIBLE, "%s: no plan fits", at->study);
        const int64_t spent_ns[PARTS] = {row->profile_ns, row->decision_ns, row->migration_ns,
                                         overhead_ns(row)};
        for (int part = 0; part < PARTS; part++) {
            ana_interval_add(&share[part], (double)spent_ns[part] / (double)row->total_ns);
        }
    }
    for (int part = 0; part < PARTS; part++) {
        ana_rows_add_number(
            at->rows, ana_rows_text(at->rows, "%s, %s", text_of(at->row, "quantity"), parts[part]),
            &share[part], NAN, ANA_AGREEMENT_PREDICTED,
            ana_rows_text(at->rows, "%s, share of the time", label), "");
    }
    return STATUS_OK;
}

/// Throughput per GPU of the model as it is at the end, on fewer stages over that on all.
static status make_per_gpu(playing *at, error_message *err)
{
    const double gpus = number_of(at->row, "gpus");
    const double of = number_of(at->row, "of");
    const char *label = text_of(at->row, "row");
    const char *fewer = ana_rows_text(at->rows, "{\"pipeline.stages\":%.0f}", gpus);
    ana_interval ratio = {0};
    bool fits = true;
    for (int range = 0; range < at->range_count; range++) {
        ana_trial all;
        ana_trial few;
        TRY(play(at, range, NULL, &all, err));
        TRY(play(at, range, fewer, &few, err));
        const ana_trial_row *before = ana_trial_find(&all, label);
        const ana_trial_row *after = ana_trial_find(&few, label);
        if (before == NULL || after == NULL) {
            return error_set(err, STATUS_INFEASIBLE, "%s: no plan fits", at->study);
        }
        if (range == 0) fits = after->fits;
        ana_interval_add(&ratio, speed(before->last_ns, after->last_ns) * of / gpus);
    }
    add_number(at, &ratio, NAN);
    if (!fits) {
        at->rows->rows[at->rows->count - 1].note =
            "Out of memory before it is pruned: reached only by re-packing.";
    }
    return STATUS_OK;
}

/// The measured curve of a sparse kernel: its time over the dense one's at a sparsity; or without
/// one the sparsity from which it is faster, between the two points that were measured around it.
static status make_kernel(playing *at, error_message *err)
{
    (void)err;
    const model_kernel_speed *speeds = &model_kernel_speed_sputnik_a100;
    ana_interval value =
        ana_interval_of(model_kernel_speed_at(speeds, 1 - number_of(at->row, "sparsity")));
    if (json_is_missing(json_member(at->row, "sparsity"))) {
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
    add_number(at, &value, NAN);
    return STATUS_OK;
}

/// The speed-up played last over another system, which is a factor on the static split.
static status make_over_factor(playing *at, error_message *err)
{
    (void)err;
    const double factor = number_of(at->row, "factor");
    const ana_interval *total = &at->speed_up.total;
    const ana_interval over = {.value = total->value / factor,
                               .low = total->low / factor,
                               .high = total->high / factor,
                               .count = total->count};
    add_number(at, &over, NAN);
    return STATUS_OK;
}

/// Loads that would give what is published; "layers" are pairs of how many and their load.
static status make_chosen_loads(playing *at, error_message *err)
{
    int64_t load_ns[LAYERS_MAX];
    int layer_count = 0;
    json_value run = json_element(json_member(at->row, "layers"), 0);
    for (; run.node != NULL; run = json_next(run)) {
        const int end = layer_count + (int)number_of_element(run, 0);
        while (layer_count < end && layer_count < LAYERS_MAX) {
            load_ns[layer_count++] = llround(number_of_element(run, 1) * NS_OF_LOAD);
        }
    }
    const ana_chosen_loads chosen = {text_of(at->row, "schedule"),
                                     (int)number_of(at->row, "stages"),
                                     (int)number_of(at->row, "microbatches"), layer_count, load_ns};
    ana_chosen_result result;
    TRY(ana_chosen_loads_play(&chosen, &result, err));
    static const char *const quantities[] = {"bubble before", "bubble after",
                                             "speed-up over static"};
    const double numbers[] = {result.idle_even, result.idle_balanced, result.speed_up};
    for (int number = 0; number < 3; number++) {
        const ana_interval interval = ana_interval_of(numbers[number]);
        ana_rows_add_number(at->rows,
                            ana_rows_text(at->rows, "%s%s, of chosen loads",
                                          text_of(at->row, "prefix"), quantities[number]),
                            &interval, NAN, ANA_AGREEMENT_CONSISTENT, text_of(at->row, "baseline"),
                            number == 0 ? text_of(at->row, "note") : "");
    }
    return STATUS_OK;
}

/// The length of one row's run over that of another.
static status make_row_over(playing *at, error_message *err)
{
    ana_interval ratio = {0};
    for (int range = 0; range < at->range_count; range++) {
        ana_trial trial;
        TRY(play(at, range, NULL, &trial, err));
        const ana_trial_row *row = ana_trial_find(&trial, text_of(at->row, "row"));
        const ana_trial_row *over = ana_trial_find(&trial, text_of(at->row, "over"));
        if (row == NULL || over == NULL) {
            return error_set(err, STATUS_INFEASIBLE, "%s: no plan fits", at->study);
        }
        ana_interval_add(&ratio, speed(over->total_ns, row->total_ns));
    }
    add_number(at, &ratio, NAN);
    return STATUS_OK;
}

static status make_table1(playing *at, error_message *err)
{
    return ana_play_table1(at->rows, err);
}

/// What "make" of a row may be.
static const struct {
    const char *name;
    status (*make)(playing *at, error_message *err);
} makers[] = {
    {"speed-up", make_speed_up},
    {"bubble-before", make_bubble_before},
    {"bubble-after", make_bubble_after},
    {"identity", make_identity},
    {"even-bubble", make_even_bubble},
    {"bubble-growth", make_bubble_growth},
    {"bubble-over", make_bubble_over},
    {"static-bubble", make_static_bubble},
    {"calibrated-bubbles", make_calibrated_bubbles},
    {"repacking", make_repacking},
    {"bare-speed-up", make_bare_speed_up},
    {"most", make_most},
    {"change", make_change},
    {"overhead", make_overhead},
    {"per-gpu", make_per_gpu},
    {"kernel", make_kernel},
    {"over-factor", make_over_factor},
    {"chosen-loads", make_chosen_loads},
    {"row-over", make_row_over},
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
    const int count = json_count(ranges);
    at->range_count = 0;
    for (int index = 0; index < count; index++) {
        const json_value range = json_element(ranges, index);
        assert(at->range_count < RANGES_MAX);
        if (index > 0 && is_settled(range, change)) continue;
        at->ranges[at->range_count++] = change_of(at->rows, range);
    }
}

static status make_row(playing *at, json_value experiment, error_message *err)
{
    const char *made = text_of(at->row, "make");
    const char *study = text_of(at->row, "study");
    at->study = study[0] != '\0' ? study : text_of(experiment, "study");
    at->change = change_of(at->rows, json_member(at->row, "change"));
    const json_value own = json_member(at->row, "ranges");
    choose_ranges(at, json_is_missing(own) ? json_member(experiment, "ranges") : own);
    for (size_t maker = 0; maker < sizeof makers / sizeof makers[0]; maker++) {
        if (strcmp(makers[maker].name, made) == 0) return makers[maker].make(at, err);
    }
    return json_error(at->row, STATUS_FORMAT, err, "nothing makes '%.40s'", made);
}

status ana_experiment_play(json_value experiment, ana_rows *rows, error_message *err)
{
    playing at = {.rows = rows};
    const bool is_static = strcmp(text_of(experiment, "baseline"), "static") == 0;
    at.baseline = is_static ? ANA_BASELINE_STATIC : ANA_BASELINE_STILL;
    rows->experiment = text_of(experiment, "name");
    at.row = json_element(json_member(experiment, "rows"), 0);
    for (; at.row.node != NULL; at.row = json_next(at.row)) {
        TRY(make_row(&at, experiment, err));
    }
    return STATUS_OK;
}

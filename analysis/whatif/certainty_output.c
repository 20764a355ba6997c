#include "analysis/whatif/certainty.h"

#include "analysis/whatif/assumed_ranges.h"
#include "analysis/whatif/result_words.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { TEXT_COLUMNS = 100, DAYS_BYTES = 32, DATE_BYTES = 16 };

#define NS_PER_S 1e9
#define S_PER_DAY 86400.0
#define LAST_DAY_S INT64_C(253402300800) // the year 10000 begins
#define WORTH_TELLING 0.01

/// The error bar of what is ranked by.
static ana_error_bar bar_of(const ana_certainty *certainty, const ana_sure_point *point)
{
    switch (certainty->study->objective) {
    case ANA_OBJECTIVE_GPU_HOURS:
        return point->gpu_hours;
    case ANA_OBJECTIVE_COST:
        return point->cost;
    case ANA_OBJECTIVE_MEMORY:
        return point->peak_memory_bytes;
    default:
        return point->train_ns.middle > 0 ? point->train_ns : point->per_second;
    }
}

/// A time of training, in the unit that the best point's has.
static void write_time(double ns, double best_ns, char out[ANA_CELL_BYTES])
{
    static const double day_ns = 86400e9;
    if (best_ns < 2 * day_ns) {
        ana_long_time(ns, out);
    } else {
        snprintf(out, ANA_CELL_BYTES, "%.2f d", ns / day_ns);
    }
}

static void write_value(const ana_certainty *certainty, const ana_sure_point *point, double value,
                        char out[ANA_CELL_BYTES])
{
    const ana_objective objective = certainty->study->objective;
    if (isinf(value)) {
        snprintf(out, ANA_CELL_BYTES, "never");
    } else if (objective == ANA_OBJECTIVE_GPU_HOURS || objective == ANA_OBJECTIVE_COST) {
        ana_grouped_number(value, out);
    } else if (objective == ANA_OBJECTIVE_MEMORY) {
        text_size((int64_t)value, out);
    } else if (point->train_ns.middle > 0) {
        write_time(value, certainty->points[0].train_ns.middle, out);
    } else {
        ana_short_number(value, out);
    }
}

static void put_percent(ana_table *filled, int row, int *column, double ratio)
{
    char cell[ANA_CELL_BYTES];
    snprintf(cell, sizeof cell, "%.1f %%", 100 * ratio);
    ana_table_put(filled, row, column, isfinite(ratio) ? cell : "-");
}

static void put_difference(ana_table *filled, int row, int *column, double ratio)
{
    char cell[ANA_CELL_BYTES];
    snprintf(cell, sizeof cell, "%+.1f %%", 100 * ratio);
    ana_table_put(filled, row, column, isfinite(ratio) ? cell : "never");
}

static bool has_delivery(const ana_certainty *certainty)
{
    return certainty->points[0].delivery.is_known;
}

static void put_head(const ana_certainty *certainty, ana_table *filled)
{
    static const char *const objectives[ANA_OBJECTIVE_COUNT] = {"train", "GPU-hours", "cost",
                                                                "peak"};
    static const char *const rest[] = {"low",  "high",    "behind", "low",
                                       "high", "best in", "regret", ""};
    const ana_matrix *matrix = &certainty->study->matrix;
    int column = 0;
    ana_table_put(filled, 0, &column, "group");
    ana_table_put(filled, 0, &column, "point");
    for (int axis = 0; axis < matrix->axis_count; axis++) {
        const char *name = strrchr(matrix->axes[axis].name, '.');
        filled->is_left[column] = true;
        ana_table_put(filled, 0, &column, name != NULL ? name + 1 : matrix->axes[axis].name);
    }
    const bool is_rate = certainty->study->objective == ANA_OBJECTIVE_TIME &&
                         !(certainty->points[0].train_ns.middle > 0);
    ana_table_put(filled, 0, &column,
                  is_rate ? "microbatches/s" : objectives[certainty->study->objective]);
    for (size_t word = 0; word < sizeof rest / sizeof rest[0]; word++) {
        filled->is_left[column] = rest[word][0] == '\0';
        ana_table_put(filled, 0, &column, rest[word]);
    }
    filled->column_count = column;
    filled->row_count = 1;
}

/// "* as written, fits in 88 %": of the Pareto set, the reference, and in how many draws it fits.
static void remark(const ana_sure_point *point, char out[ANA_CELL_BYTES])
{
    const double fits = 1 - point->ranked.infeasible_ratio;
    const char *blank = point->is_pareto && point->is_reference ? " " : "";
    const int length = snprintf(out, ANA_CELL_BYTES, "%s%s%s", point->is_pareto ? "*" : "", blank,
                                point->is_reference ? "as written" : "");
    if (!(fits < 1)) return;
    snprintf(out + length, ANA_CELL_BYTES - (size_t)length, "%sfits in %.0f %%",
             length > 0 ? ", " : "", 100 * fits);
}

static void put_row(const ana_certainty *certainty, int place, ana_table *filled)
{
    const ana_sure_point *point = &certainty->points[place];
    const ana_whatif *study = certainty->study;
    const int64_t number = ana_whatif_number(study, point->item);
    const ana_error_bar bar = bar_of(certainty, point);
    const double values[] = {bar.middle, bar.low, bar.high};
    const ana_error_bar behind = point->ranked.behind;
    const int row = filled->row_count++;
    int value[ANA_AXES_MAX];
    int column = 0;
    char cell[ANA_CELL_BYTES];
    snprintf(cell, sizeof cell, "%d", point->ranked.group);
    ana_table_put(filled, row, &column, cell);
    snprintf(cell, sizeof cell, "%" PRId64, number);
    ana_table_put(filled, row, &column, number >= 0 ? cell : "written");
    ana_whatif_values(study, point->item, value);
    for (int axis = 0; axis < study->matrix.axis_count; axis++) {
        const ana_axis *named = &study->matrix.axes[axis];
        ana_table_put(filled, row, &column,
                      value[axis] >= 0 ? named->values[value[axis]].label : "");
    }
    for (int end = 0; end < 3; end++) {
        write_value(certainty, point, values[end], cell);
        ana_table_put(filled, row, &column, cell);
    }
    const double differences[] = {behind.middle, behind.low, behind.high};
    for (int end = 0; end < 3; end++) {
        if (place == 0) {
            ana_table_put(filled, row, &column, "");
        } else {
            put_difference(filled, row, &column, differences[end]);
        }
    }
    put_percent(filled, row, &column, point->ranked.best_probability);
    put_percent(filled, row, &column, point->ranked.regret_ratio);
    remark(point, cell);
    ana_table_put(filled, row, &column, cell);
}

/// The first points, and the reference.
static bool is_shown(const ana_certainty *certainty, int place, int row_count)
{
    return place < row_count || certainty->points[place].is_reference;
}

static void print_points(const ana_certainty *certainty, int row_count, text_buffer *out)
{
    arena *memory = arena_create(1 << 16);
    const size_t rows = (size_t)certainty->point_count + 1;
    ana_table filled = {.cells = arena_array(memory, rows, sizeof *filled.cells)};
    put_head(certainty, &filled);
    for (int place = 0; place < certainty->point_count; place++) {
        if (is_shown(certainty, place, row_count)) put_row(certainty, place, &filled);
    }
    ana_table_print(&filled, out);
    arena_destroy(memory);
}

static void say_what_was_drawn(const ana_certainty *certainty, text_buffer *words)
{
    const ana_uncertainty *uncertainty = certainty->uncertainty;
    text_format(words, "%d draws of %d uncertain inputs (seed %" PRIu64 ")",
                uncertainty->draw_count, certainty->draws.input_count, uncertainty->seed);
    if (certainty->drawn.is_recorded) text_append(words, ", of recorded variation");
    if (certainty->drawn.is_fitted) text_append(words, ", of the calibration");
    text_format(words, ", at %d of %" PRId64 " points", certainty->point_count,
                certainty->candidate_count);
    if (isinf(certainty->next_ratio)) {
        text_append(words, " that differ: all of the training of the study as written. ");
        return;
    }
    text_format(
        words,
        " that differ: the best %d with the inputs as they are, as many others of the Pareto "
        "set, and the study as written. The next one is %.1f %% behind the best and was not "
        "drawn. ",
        uncertainty->detail_count, 100 * certainty->next_ratio);
}

/// What a calibration does to the times.
static void say_calibration(const ana_certainty *certainty, text_buffer *words)
{
    const ana_calibrated *calibrated = &certainty->calibrated;
    if (!certainty->drawn.is_fitted) return;
    text_format(words,
                "Times are at the level of the calibration, %.3g to %.3g times those of the cost "
                "model; %d of %d drawn points are beyond what was measured. ",
                calibrated->level_min, calibrated->level_max, calibrated->beyond_count,
                certainty->point_count);
}

/// The sentences that say what the numbers of the table mean.
static void say_how_to_read(const ana_certainty *certainty, text_buffer *words)
{
    int group = 0;
    int set = 0;
    for (int place = 0; place < certainty->point_count; place++) {
        group += certainty->points[place].ranked.group == 1;
        set += certainty->points[place].ranked.may_be_best;
    }
    text_append(words,
                "A value lies between low and high in 9 of 10 draws. `behind` is the difference to "
                "the first point in the same draw, with the same inputs at both; where 9 of 10 "
                "draws of it hold 0");
    if (certainty->uncertainty->equivalence > 0) {
        text_format(words, ", or lie within %.3g %%", 100 * certainty->uncertainty->equivalence);
    }
    text_append(words, ", the points are indistinguishable and share a group. ");
    if (group == 1) {
        text_append(words, "No point is indistinguishable from the first. ");
    } else {
        text_format(words, "%d points are indistinguishable from each other as the best. ", group);
    }
    text_format(words,
                "`best in` counts all points at once, whatever their number: in 9 of 10 draws the "
                "best is %s%d of them. `regret` is what choosing the point costs on average beyond "
                "the best of each draw.",
                set == 1 ? "the same " : "one of ", set);
}

static void print_inputs_without_range(const ana_certainty *certainty, text_buffer *out)
{
    if (certainty->draws.input_count > 0) return;
    text_append_wrapped(out,
                        "No input is uncertain: none is assumed that has a range here, and the "
                        "study declares none under \"uncertainty\".",
                        0, TEXT_COLUMNS);
}

static void print_range(const ana_uncertain *input, text_buffer *out)
{
    const ana_range *range = &input->range;
    const bool is_known = !isnan(input->nominal_min);
    text_append(out, "        ");
    if (is_known) {
        text_format(out, "%.6g", input->nominal_min);
        if (input->nominal_max > input->nominal_min)
            text_format(out, " .. %.6g", input->nominal_max);
        if (input->unit[0] != '\0') text_format(out, " %s", input->unit);
        text_append(out, range->is_factor ? " x " : "; ");
    }
    text_format(out, "%.4g .. %.4g", range->low, range->high);
    if (!range->is_factor && input->unit[0] != '\0') text_format(out, " %s", input->unit);
    text_format(out, ", %s", ana_distribution_names[range->distribution]);
    if (input->reason == NULL) {
        text_append(out, "; declared\n");
    } else {
        text_format(out, "; %s: %s\n", input->is_fitted ? "fitted" : "assumed", input->reason);
    }
}

static bool is_source(const ana_certainty *certainty, int source)
{
    const int inputs = certainty->draws.input_count;
    if (source < inputs)
        return certainty->draws.points[certainty->points[0].ranked.point].has[source];
    return source == inputs ? certainty->drawn.is_recorded : certainty->drawn.is_fitted;
}

/// The sources that the recommended point has.
static void print_sources(const ana_certainty *certainty, text_buffer *out)
{
    for (int source = 0; source < certainty->source_count; source++) {
        char name[ANA_SOURCE_NAME_BYTES];
        if (!is_source(certainty, source)) continue;
        ana_certainty_source_name(certainty, source, name);
        text_format(out, "  %s\n", name);
        if (source < certainty->draws.input_count) {
            print_range(&certainty->draws.inputs[source], out);
        }
    }
}

/// What nobody has given and nobody varies.
static void print_unranged(const ana_certainty *certainty, text_buffer *out)
{
    const int point = certainty->points[0].ranked.point;
    text_buffer words = {0};
    text_format(&words, "Not in the error bars, though assumed: %s",
                certainty->draws.points[point].unranged);
    text_append(&words, certainty->draws.points[point].unranged[0] == '\0' ? "nothing." : ".");
    text_append(out, "\n");
    text_append_wrapped(out, words.bytes, 0, TEXT_COLUMNS);
    text_free(&words);
}

static void write_days(double seconds, char out[DAYS_BYTES])
{
    if (isinf(seconds)) {
        snprintf(out, DAYS_BYTES, "never");
    } else {
        snprintf(out, DAYS_BYTES, "%.1f d", seconds / S_PER_DAY);
    }
}

/// The day on which so many seconds after the start are over; "" if no start is given.
static void write_date(const ana_certainty *certainty, double seconds, char out[DATE_BYTES])
{
    struct tm date = {0};
    char rest = 0;
    out[0] = '\0';
    if (certainty->start_date == NULL || isinf(seconds)) return;
    if (sscanf(certainty->start_date, "%4d-%2d-%2d%c", &date.tm_year, &date.tm_mon, &date.tm_mday,
               &rest) != 3) {
        return;
    }
    date.tm_year -= 1900;
    date.tm_mon -= 1;
    const time_t end = timegm(&date) + (time_t)fmin(ceil(seconds / S_PER_DAY), 4e6) * 86400;
    if (end >= LAST_DAY_S) {
        snprintf(out, DATE_BYTES, "after 9999");
    } else if (gmtime_r(&end, &date) != NULL) {
        strftime(out, DATE_BYTES, "%Y-%m-%d", &date);
    }
}

static void print_delivery_row(const ana_certainty *certainty, const ana_sure_point *point,
                               text_buffer *out)
{
    const ana_delivery_range *range = &point->delivery;
    const double quantiles[] = {range->middle_s, range->late_s};
    char label[32];
    const int64_t number = ana_whatif_number(certainty->study, point->item);
    snprintf(label, sizeof label, "%" PRId64, number);
    text_format(out, "%7s  %5.1f %%", number >= 0 ? label : "written", 100 * range->goodput_ratio);
    for (int end = 0; end < 2; end++) {
        char days[DAYS_BYTES];
        char date[DATE_BYTES];
        write_days(quantiles[end], days);
        write_date(certainty, quantiles[end], date);
        text_format(out, "  %9s%s%s", days, date[0] != '\0' ? "  " : "", date);
    }
    text_format(out, "  %8.1f h  %8.0f s  %8.1f\n", range->mtbf_s / 3600, range->interval_s,
                range->failure_count);
}

static void print_delivery(const ana_certainty *certainty, int row_count, text_buffer *out)
{
    const bool has_date = certainty->start_date != NULL;
    text_append(out, "\nGoodput and delivery\n\n");
    if (!has_delivery(certainty)) {
        text_append(out, "Failure-free: no cluster.mtbf_hours is given.\n");
        return;
    }
    text_append_wrapped(
        out,
        "GPUs fail independently of each other, at a constant rate: all together as much oftener "
        "as there are more of them. A failure costs the work since the last checkpoint and a "
        "restart. The interval between checkpoints is training.checkpoint_interval_s or, if that "
        "is not given, the best one (Daly 2006). P50 and P95 are over failures and over the draws.",
        0, TEXT_COLUMNS);
    if (has_date) {
        text_append_wrapped(
            out, "Days are the latest: as if training began at the end of training.start.", 0,
            TEXT_COLUMNS);
    }
    text_format(out, "\n  point  goodput  %9s%s  %9s%s        MTBF    interval  failures\n", "P50",
                has_date ? "            " : "", "P95", has_date ? "            " : "");
    for (int place = 0; place < certainty->point_count; place++) {
        if (certainty->points[place].delivery.is_known && is_shown(certainty, place, row_count)) {
            print_delivery_row(certainty, &certainty->points[place], out);
        }
    }
}

void ana_certainty_print(const ana_certainty *certainty, int row_count, text_buffer *out)
{
    text_buffer words = {0};
    text_append(out, "\nHow sure\n\n");
    if (certainty->point_count == 0) {
        text_append(out, "No point could be drawn.\n");
        return;
    }
    say_what_was_drawn(certainty, &words);
    say_calibration(certainty, &words);
    say_how_to_read(certainty, &words);
    text_append_wrapped(out, words.bytes, 0, TEXT_COLUMNS);
    text_append(out, "\n");
    text_free(&words);
    print_points(certainty, row_count, out);
    text_append(out, "\nWhat the error bars of the first point are made of\n\n");
    print_inputs_without_range(certainty, out);
    print_sources(certainty, out);
    print_unranged(certainty, out);
    print_delivery(certainty, row_count, out);
}

/// Money of a share of the recommended point's bill, where it has one.
static void print_money(const ana_certainty *certainty, double ratio, text_buffer *out)
{
    char money[ANA_CELL_BYTES];
    const double cost = certainty->points[0].cost.middle;
    if (!(cost > 0) || isinf(cost)) return;
    ana_grouped_number(ratio * cost, money);
    text_format(out, " (%s %s)", money, certainty->study->currency);
}

static void print_worth_row(const ana_certainty *certainty, const ana_source_worth *worth,
                            text_buffer *out)
{
    const double saved = certainty->now.regret_ratio - worth->knowing.regret_ratio;
    char name[ANA_SOURCE_NAME_BYTES];
    ana_certainty_source_name(certainty, worth->source, name);
    text_format(out, "  %5.1f %%  %6.2f %%  %6.2f %%", 100 * worth->knowing.wrong_probability,
                100 * worth->knowing.regret_ratio, 100 * saved);
    print_money(certainty, saved, out);
    text_format(out, "  %s\n%31s%s\n", name, "", ana_measurement_of(name));
}

/// Whether knowing it would change the choice by more than the draws' own coarseness.
static bool is_worth_telling(const ana_certainty *certainty, const ana_choice_quality *knowing)
{
    const ana_choice_quality *now = &certainty->now;
    return now->regret_ratio - knowing->regret_ratio > WORTH_TELLING * now->regret_ratio ||
           now->wrong_probability - knowing->wrong_probability > WORTH_TELLING;
}

void ana_certainty_print_worth(const ana_certainty *certainty, text_buffer *out)
{
    text_append(out, "\nWhat to measure first\n\n");
    if (certainty->point_count == 0 || !(certainty->now.wrong_probability > 0)) {
        text_append(out,
                    "Nothing: no draw has a better point than the one that would be chosen.\n");
        return;
    }
    text_buffer words = {0};
    text_format(
        &words,
        "Of the points that fit in every draw the one that would be chosen is not the best in "
        "%.1f %% of the draws. Choosing it costs %.2f %% "
        "beyond the best on average",
        100 * certainty->now.wrong_probability, 100 * certainty->now.regret_ratio);
    print_money(certainty, certainty->now.regret_ratio, &words);
    text_append(&words, ". If one input were known before choosing, that would be left:");
    text_append_wrapped(out, words.bytes, 0, TEXT_COLUMNS);
    text_append(out, "\n    wrong    regret     saves  input, and what measures it\n");
    text_free(&words);
    for (int line = 0; line < certainty->source_count; line++) {
        const ana_source_worth *worth = &certainty->worth[line];
        if (!is_worth_telling(certainty, &worth->knowing)) continue;
        print_worth_row(certainty, worth, out);
    }
}

enum { DIGITS = 9 };

static void put_rounded(json_writer *writer, const char *key, double value)
{
    json_put_rounded(writer, key, value, DIGITS);
}

static void put_bar(json_writer *writer, const char *key, ana_error_bar bar)
{
    json_put_object(writer, key);
    put_rounded(writer, "p5", bar.low);
    put_rounded(writer, "p50", bar.middle);
    put_rounded(writer, "p95", bar.high);
    json_end_object(writer);
}

static ana_error_bar in_seconds(ana_error_bar bar)
{
    return (ana_error_bar){bar.low / 1e9, bar.middle / 1e9, bar.high / 1e9};
}

static void write_delivery_json(const ana_delivery_range *range, json_writer *writer)
{
    if (!range->is_known) return;
    json_put_object(writer, "delivery");
    put_rounded(writer, "goodput_ratio", range->goodput_ratio);
    put_rounded(writer, "goodput_ratio_expected", range->expected_ratio);
    put_rounded(writer, "p50_s", range->middle_s);
    put_rounded(writer, "p95_s", range->late_s);
    put_rounded(writer, "mtbf_s", range->mtbf_s);
    put_rounded(writer, "checkpoint_interval_s", range->interval_s);
    put_rounded(writer, "failures", range->failure_count);
    json_end_object(writer);
}

static void write_point_json(const ana_certainty *certainty, const ana_sure_point *point,
                             json_writer *writer)
{
    const int64_t number = ana_whatif_number(certainty->study, point->item);
    json_begin_object(writer);
    if (number >= 0) json_put_int64(writer, "point", number);
    json_put_int64(writer, "group", point->ranked.group);
    json_put_bool(writer, "may_be_best", point->ranked.may_be_best);
    put_rounded(writer, "best_probability", point->ranked.best_probability);
    put_rounded(writer, "regret_ratio", point->ranked.regret_ratio);
    put_rounded(writer, "infeasible_ratio", point->ranked.infeasible_ratio);
    put_bar(writer, "behind_ratio", point->ranked.behind);
    put_bar(writer, "iteration_ns", point->iteration_ns);
    put_bar(writer, "per_second", point->per_second);
    if (point->train_ns.middle > 0) {
        put_bar(writer, "train_s", in_seconds(point->train_ns));
        put_bar(writer, "gpu_hours", point->gpu_hours);
        if (point->cost.middle >= 0) put_bar(writer, "cost", point->cost);
    }
    put_bar(writer, "peak_memory_bytes", point->peak_memory_bytes);
    write_delivery_json(&point->delivery, writer);
    json_end_object(writer);
}

static void write_input(const ana_certainty *certainty, int source, json_writer *writer)
{
    const ana_uncertain *input = &certainty->draws.inputs[source];
    char name[ANA_SOURCE_NAME_BYTES];
    ana_certainty_source_name(certainty, source, name);
    json_begin_object(writer);
    json_put_string(writer, "name", name);
    json_put_string(writer, "path", input->path);
    json_put_string(writer, "origin",
                    input->reason == NULL ? "declared"
                    : input->is_fitted    ? "fitted"
                                          : "assumed");
    if (input->reason != NULL) json_put_string(writer, "reason", input->reason);
    json_put_string(writer, "distribution", ana_distribution_names[input->range.distribution]);
    json_put_bool(writer, "factor", input->range.is_factor);
    put_rounded(writer, "low", input->range.low);
    put_rounded(writer, "high", input->range.high);
    put_rounded(writer, "nominal_min", input->nominal_min);
    put_rounded(writer, "nominal_max", input->nominal_max);
    json_put_string(writer, "unit", input->unit);
    json_end_object(writer);
}

static void write_worth(const ana_certainty *certainty, json_writer *writer)
{
    char name[ANA_SOURCE_NAME_BYTES];
    json_put_array(writer, "what_to_measure");
    for (int line = 0; line < certainty->source_count; line++) {
        const ana_source_worth *worth = &certainty->worth[line];
        ana_certainty_source_name(certainty, worth->source, name);
        json_begin_object(writer);
        json_put_string(writer, "name", name);
        put_rounded(writer, "wrong_probability", worth->knowing.wrong_probability);
        put_rounded(writer, "regret_ratio", worth->knowing.regret_ratio);
        json_put_string(writer, "command", ana_measurement_of(name));
        json_end_object(writer);
    }
    json_end_array(writer);
}

static void write_judged(const ana_certainty *certainty, json_writer *writer)
{
    put_rounded(writer, "wrong_probability", certainty->now.wrong_probability);
    put_rounded(writer, "regret_ratio", certainty->now.regret_ratio);
    json_put_array(writer, "inputs");
    for (int input = 0; input < certainty->draws.input_count; input++) {
        write_input(certainty, input, writer);
    }
    json_end_array(writer);
    json_put_array(writer, "points");
    for (int place = 0; place < certainty->point_count; place++) {
        write_point_json(certainty, &certainty->points[place], writer);
    }
    json_end_array(writer);
    write_worth(certainty, writer);
}

void ana_certainty_write(const ana_certainty *certainty, json_writer *writer)
{
    json_begin_object(writer);
    json_put_int64(writer, "draws", certainty->uncertainty->draw_count);
    json_put_int64(writer, "seed", (int64_t)certainty->uncertainty->seed);
    put_rounded(writer, "equivalence", certainty->uncertainty->equivalence);
    json_put_int64(writer, "drawn_points", certainty->point_count);
    json_put_int64(writer, "candidate_points", certainty->candidate_count);
    put_rounded(writer, "next_point_behind_ratio", certainty->next_ratio);
    json_put_bool(writer, "recorded_variation", certainty->drawn.is_recorded);
    json_put_bool(writer, "calibration", certainty->drawn.is_fitted);
    if (certainty->drawn.is_fitted) {
        put_rounded(writer, "calibration_level_min", certainty->calibrated.level_min);
        put_rounded(writer, "calibration_level_max", certainty->calibrated.level_max);
        json_put_int64(writer, "points_beyond_calibration", certainty->calibrated.beyond_count);
    }
    if (certainty->point_count > 0) write_judged(certainty, writer);
    json_end_object(writer);
}

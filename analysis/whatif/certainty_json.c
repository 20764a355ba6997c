#include "analysis/whatif/assumed_ranges.h"
#include "analysis/whatif/certainty.h"

#include <math.h>
#include <string.h>

enum { DIGITS = 9 };

static void put(json_writer *writer, const char *key, double value)
{
    json_put_rounded(writer, key, value, DIGITS);
}

static void put_bar(json_writer *writer, const char *key, ana_error_bar bar)
{
    json_write_key(writer, key);
    json_begin_object(writer);
    put(writer, "p5", bar.low);
    put(writer, "p50", bar.middle);
    put(writer, "p95", bar.high);
    json_end_object(writer);
}

static ana_error_bar in_seconds(ana_error_bar bar)
{
    return (ana_error_bar){bar.low / 1e9, bar.middle / 1e9, bar.high / 1e9};
}

static void write_delivery(const ana_delivery_range *range, json_writer *writer)
{
    if (!range->is_known) return;
    json_write_key(writer, "delivery");
    json_begin_object(writer);
    put(writer, "goodput_ratio", range->goodput_ratio);
    put(writer, "goodput_ratio_expected", range->expected_ratio);
    put(writer, "p50_s", range->middle_s);
    put(writer, "p95_s", range->late_s);
    put(writer, "mtbf_s", range->mtbf_s);
    put(writer, "checkpoint_interval_s", range->interval_s);
    put(writer, "failures", range->failure_count);
    json_end_object(writer);
}

static void write_point(const ana_certainty *certainty, const ana_sure_point *point,
                        json_writer *writer)
{
    const int64_t number = ana_whatif_number(certainty->study, point->item);
    json_begin_object(writer);
    if (number >= 0) json_put_int64(writer, "point", number);
    json_put_int64(writer, "group", point->ranked.group);
    json_put_bool(writer, "may_be_best", point->ranked.may_be_best);
    put(writer, "best_probability", point->ranked.best_probability);
    put(writer, "regret_ratio", point->ranked.regret_ratio);
    put(writer, "infeasible_ratio", point->ranked.infeasible_ratio);
    put_bar(writer, "behind_ratio", point->ranked.behind);
    put_bar(writer, "iteration_ns", point->iteration_ns);
    put_bar(writer, "per_second", point->per_second);
    if (point->train_ns.middle > 0) {
        put_bar(writer, "train_s", in_seconds(point->train_ns));
        put_bar(writer, "gpu_hours", point->gpu_hours);
        if (point->cost.middle >= 0) put_bar(writer, "cost", point->cost);
    }
    put_bar(writer, "peak_memory_bytes", point->peak_memory_bytes);
    write_delivery(&point->delivery, writer);
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
    put(writer, "low", input->range.low);
    put(writer, "high", input->range.high);
    put(writer, "nominal_min", input->nominal_min);
    put(writer, "nominal_max", input->nominal_max);
    json_put_string(writer, "unit", input->unit);
    json_end_object(writer);
}

static void write_worth(const ana_certainty *certainty, json_writer *writer)
{
    char name[ANA_SOURCE_NAME_BYTES];
    json_write_key(writer, "what_to_measure");
    json_begin_array(writer);
    for (int line = 0; line < certainty->source_count; line++) {
        const ana_source_worth *worth = &certainty->worth[line];
        ana_certainty_source_name(certainty, worth->source, name);
        json_begin_object(writer);
        json_put_string(writer, "name", name);
        put(writer, "wrong_probability", worth->knowing.wrong_probability);
        put(writer, "regret_ratio", worth->knowing.regret_ratio);
        json_put_string(writer, "command", ana_measurement_of(name));
        json_end_object(writer);
    }
    json_end_array(writer);
}

static void write_judged(const ana_certainty *certainty, json_writer *writer)
{
    put(writer, "wrong_probability", certainty->now.wrong_probability);
    put(writer, "regret_ratio", certainty->now.regret_ratio);
    json_write_key(writer, "inputs");
    json_begin_array(writer);
    for (int input = 0; input < certainty->draws.input_count; input++) {
        write_input(certainty, input, writer);
    }
    json_end_array(writer);
    json_write_key(writer, "points");
    json_begin_array(writer);
    for (int place = 0; place < certainty->point_count; place++) {
        write_point(certainty, &certainty->points[place], writer);
    }
    json_end_array(writer);
    write_worth(certainty, writer);
}

void ana_certainty_write(const ana_certainty *certainty, json_writer *writer)
{
    json_begin_object(writer);
    json_put_int64(writer, "draws", certainty->uncertainty->draw_count);
    json_put_int64(writer, "seed", (int64_t)certainty->uncertainty->seed);
    put(writer, "equivalence", certainty->uncertainty->equivalence);
    json_put_int64(writer, "drawn_points", certainty->point_count);
    json_put_int64(writer, "candidate_points", certainty->candidate_count);
    put(writer, "next_point_behind_ratio", certainty->next_ratio);
    json_put_bool(writer, "recorded_variation", certainty->drawn.is_recorded);
    json_put_bool(writer, "calibration", certainty->drawn.is_fitted);
    if (certainty->drawn.is_fitted) {
        put(writer, "calibration_level_min", certainty->calibrated.level_min);
        put(writer, "calibration_level_max", certainty->calibrated.level_max);
        json_put_int64(writer, "points_beyond_calibration", certainty->calibrated.beyond_count);
    }
    if (certainty->point_count > 0) write_judged(certainty, writer);
    json_end_object(writer);
}

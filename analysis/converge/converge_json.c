/// A sweep for programs.
#include "analysis/converge/converge_output.h"

#include "base/json.h"

#include <math.h>

enum { DIGITS = 9 }; // what is left of numbers that came through libm

static void put(json_writer *writer, const char *key, double value)
{
    json_put_rounded(writer, key, value, DIGITS);
}

static void write_rounds(const ana_point_summary *summary, json_writer *writer)
{
    json_write_key(writer, "rounds");
    json_begin_object(writer);
    json_put_int64(writer, "median", summary->rounds_median);
    json_put_int64(writer, "p95", summary->rounds_p95);
    put(writer, "mean", summary->rounds_mean);
    put(writer, "mean_low", summary->rounds_low);
    put(writer, "mean_high", summary->rounds_high);
    json_put_int64(writer, "min", summary->rounds_min);
    json_put_int64(writer, "max", summary->rounds_max);
    json_end_object(writer);
}

static void write_question(const ana_sweep *sweep, const ana_sweep_point *point,
                           json_writer *writer)
{
    json_put_string(writer, "graph", ana_graph_names[sweep->graph]);
    json_put_string(writer, "scheme", sweep->scheme->name);
    const bool has_variant = sweep->scheme == &ana_scheme_max_neighbor;
    json_put_string(writer, "variant",
                    has_variant ? ana_variant_names[sweep->options.variant] : NULL);
    json_put_string(writer, "initial", ana_initial_names[sweep->instance.initial]);
    json_put_string(writer, "stop", ana_stop_names[sweep->instance.stop]);
    json_put_int64(writer, "nodes", point->graph.node_count);
    put(writer, "gamma", point->gamma);
    json_put_int64(writer, "instances", sweep->instance_count);
    json_put_bool(writer, "instances_are_equal", ana_sweep_is_certain(sweep));
}

static void write_point(const ana_sweep *sweep, const ana_sweep_point *point,
                        const ana_point_summary *summary, json_writer *writer)
{
    const double bound = (double)summary->bound_paper;
    json_begin_object(writer);
    write_question(sweep, point, writer);
    write_rounds(summary, writer);
    put(writer, "good_round_ratio", summary->good_round_ratio);
    put(writer, "good_round_ratio_min", summary->good_round_ratio_min);
    put(writer, "sixteenth_round_ratio", summary->sixteenth_round_ratio);
    json_put_int64(writer, "good_rounds_max", summary->good_rounds_max);
    put(writer, "good_rounds_over_bound_paper",
        bound > 0 ? (double)summary->good_rounds_max / bound : (double)NAN);
    put(writer, "potential_first", summary->potential_first);
    put(writer, "constant", summary->constant);
    json_put_int64(writer, "bound_paper", summary->bound_paper);
    json_put_int64(writer, "bound_repaired", summary->bound_repaired);
    put(writer, "delta", sweep->delta);
    put(writer, "within_repaired_ratio", summary->within_repaired_ratio);
    put(writer, "spectral_rounds", summary->rounds_spectral);
    put(writer, "mean_drop_ratio", summary->mean_drop_ratio);
    put(writer, "smallest_drop_over_spread", summary->smallest_drop_share);
    json_put_int64(writer, "drop_checks", summary->drop_check_count);
    json_put_int64(writer, "drop_violations", summary->drop_violation_count);
    json_end_object(writer);
}

static void write_estimate(const char *key, const ana_estimate *estimate, json_writer *writer)
{
    json_write_key(writer, key);
    json_begin_object(writer);
    put(writer, "value", estimate->value);
    put(writer, "low", estimate->low);
    put(writer, "high", estimate->high);
    json_end_object(writer);
}

static void write_fit(const ana_sweep_fit *fit, json_writer *writer)
{
    json_begin_object(writer);
    if (fit->has_nodes) {
        write_estimate("exponent", &fit->exponent, writer);
        write_estimate("log_corrected_exponent", &fit->log_corrected, writer);
        write_estimate("constant", &fit->constant, writer);
    }
    if (fit->has_gammas) write_estimate("rounds_per_decade", &fit->per_decade, writer);
    json_end_object(writer);
}

void ana_sweep_write_json(const ana_sweep_answer *answer, text_buffer *out)
{
    const int count = ana_sweep_point_count(answer->sweep);
    json_writer writer = json_writer_init(out);
    if (count == 1) {
        write_point(answer->sweep, answer->points, answer->summaries, &writer);
        text_append(out, "\n");
        return;
    }
    json_begin_object(&writer);
    json_write_key(&writer, "points");
    json_begin_array(&writer);
    for (int point = 0; point < count; point++) {
        write_point(answer->sweep, &answer->points[point], &answer->summaries[point], &writer);
    }
    json_end_array(&writer);
    json_write_key(&writer, "fit");
    write_fit(answer->fit, &writer);
    json_end_object(&writer);
    text_append(out, "\n");
}

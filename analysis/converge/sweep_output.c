/// A sweep for programs and for people.
#include "analysis/converge/converge_sweep.h"
#include "base/json.h"

#include <inttypes.h>
#include <math.h>

enum { DIGITS = 9 }; // what is left of numbers that came through libm

static void put(json_writer *writer, const char *key, double value)
{
    json_put_rounded(writer, key, value, DIGITS);
}

static void write_rounds(const ana_point_summary *summary, json_writer *writer)
{
    json_put_object(writer, "rounds");
    json_put_int64(writer, "median", summary->rounds_median);
    json_put_int64(writer, "p95", summary->rounds_p95);
    json_put_int64(writer, "max", summary->rounds_max);
    json_end_object(writer);
}

static void write_question(const ana_sweep *sweep, const ana_sweep_point *point,
                           json_writer *writer)
{
    json_put_string(writer, "graph", ana_graph_names[sweep->graph]);
    json_put_string(writer, "scheme", sweep->scheme->name);
    json_put_string(writer, "initial", ana_initial_names[sweep->instance.initial]);
    json_put_string(writer, "stop", ana_stop_names[sweep->instance.stop]);
    json_put_int64(writer, "nodes", point->graph.node_count);
    put(writer, "gamma", point->gamma);
    json_put_int64(writer, "instances", sweep->instance_count);
}

static void write_json_point(const ana_sweep *sweep, const ana_sweep_point *point,
                             const ana_point_summary *summary, json_writer *writer)
{
    json_begin_object(writer);
    write_question(sweep, point, writer);
    write_rounds(summary, writer);
    put(writer, "good_round_ratio", summary->good_round_ratio);
    put(writer, "potential_first", summary->potential_first);
    put(writer, "constant", summary->constant);
    json_put_int64(writer, "bound_paper", summary->bound_paper);
    json_put_int64(writer, "bound_repaired", summary->bound_repaired);
    put(writer, "delta", sweep->delta);
    put(writer, "within_repaired_ratio", summary->within_repaired_ratio);
    put(writer, "spectral_rounds", summary->rounds_spectral);
    json_end_object(writer);
}

static void write_estimate(const char *key, const ana_estimate *estimate, json_writer *writer)
{
    json_put_object(writer, key);
    put(writer, "value", estimate->value);
    put(writer, "low", estimate->low);
    put(writer, "high", estimate->high);
    json_end_object(writer);
}

static void write_json_fit(const ana_sweep_fit *fit, json_writer *writer)
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
        write_json_point(answer->sweep, answer->points, answer->summaries, &writer);
        text_append(out, "\n");
        return;
    }
    json_begin_object(&writer);
    json_put_array(&writer, "points");
    for (int point = 0; point < count; point++) {
        write_json_point(answer->sweep, &answer->points[point], &answer->summaries[point], &writer);
    }
    json_end_array(&writer);
    json_write_key(&writer, "fit");
    write_json_fit(&answer->fit, &writer);
    json_end_object(&writer);
    text_append(out, "\n");
}

static text_words count_of(double value)
{
    return isnan(value) ? (text_words){"-"} : text_grouped(value);
}

static void write_heading(const ana_sweep_answer *answer, text_buffer *out)
{
    const ana_sweep *sweep = answer->sweep;
    text_format(out, "%s on %s, from %s to %s at most gamma; total load N; ", sweep->scheme->name,
                ana_graph_names[sweep->graph], ana_initial_names[sweep->instance.initial],
                ana_stop_names[sweep->instance.stop]);
    if (ana_sweep_is_certain(sweep)) {
        text_append(out, "all instances are the same\n\n");
    } else {
        text_format(out, "%d instance%s, seed %" PRIu64 "\n\n", sweep->instance_count,
                    sweep->instance_count == 1 ? "" : "s", sweep->instance.seed);
    }
}

/// What the logarithm of the rounds is of: the first potential over that of the stop.
static const char *folds_of(const ana_sweep *sweep)
{
    return sweep->instance.stop == ANA_STOP_GAP ? "ln(phi0 / ((N - 1) gamma))" : "ln(phi0 / gamma)";
}

static void write_points(const ana_sweep_answer *answer, text_buffer *out)
{
    const bool is_proven = answer->sweep->scheme == &ana_scheme_max_neighbor;
    text_format(out, "%6s %9s %11s %11s %9s %16s %13s %13s\n", "nodes", "gamma", "rounds", "95 %",
                "constant", "paper's bound", "repaired", "spectral");
    for (int point = 0; point < ana_sweep_point_count(answer->sweep); point++) {
        const ana_point_summary *at = &answer->summaries[point];
        text_format(out, "%6d %9.3g %11s %11s %9s %16s %13s %13s\n",
                    answer->points[point].graph.node_count, answer->points[point].gamma,
                    count_of((double)at->rounds_median).text, count_of((double)at->rounds_p95).text,
                    isnan(at->constant) ? "-" : text_wording("%.4f", at->constant).text,
                    count_of((double)at->bound_paper).text,
                    is_proven ? count_of((double)at->bound_repaired).text : "-",
                    count_of(at->rounds_spectral).text);
    }
    text_format(out,
                "\nrounds: median; constant: rounds / (N^2 %s); the paper's bound counts good "
                "rounds;\n%sspectral: ",
                folds_of(answer->sweep),
                is_proven ? "" : "repaired is proven of max-neighbor alone; ");
    text_append(out, answer->sweep->scheme == &ana_scheme_max_neighbor ||
                             answer->sweep->scheme == &ana_scheme_odd_even
                         ? "what first-order diffusion needs on this graph, from its spectrum\n"
                         : "from the eigenvalues of this scheme on this graph\n");
}

static void write_line(text_buffer *out, const char *what, const ana_estimate *estimate,
                       const char *unit)
{
    text_format(out, "%-44s %11.5g   [%.5g, %.5g]%s\n", what, estimate->value, estimate->low,
                estimate->high, unit);
}

static void write_text_fit(const ana_sweep *sweep, const ana_sweep_fit *fit, text_buffer *out)
{
    if (!fit->has_nodes && !fit->has_gammas) return;
    text_append(out, "\nleast squares, with the interval that holds 95 %\n");
    if (fit->has_nodes) {
        write_line(out, "rounds grow as N to the", &fit->exponent, "");
        if (sweep->instance.stop != ANA_STOP_GAP) { // a gap's own start is not in phi0
            write_line(out, "rounds / ln(phi0 / gamma) as N to the", &fit->log_corrected, "");
        }
        write_line(out, "constant", &fit->constant, "");
    }
    if (fit->has_gammas) {
        write_line(out, "per decade of gamma", &fit->per_decade, " rounds");
    }
}

void ana_sweep_write_text(const ana_sweep_answer *answer, text_buffer *out)
{
    write_heading(answer, out);
    write_points(answer, out);
    write_text_fit(answer->sweep, &answer->fit, out);
}

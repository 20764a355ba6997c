/// Quantiles of a sweep, and how its rounds grow: least-squares fits with intervals.
#include "analysis/converge/converge_sweep.h"
#include "base/json.h"

#include <gsl/gsl_cdf.h>
#include <gsl/gsl_fit.h>
#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>
#include <inttypes.h>
#include <math.h>

enum { FIT_POINTS_MIN = 3 };

/// Nearest rank of sorted values.
static double quantile(const double *sorted, int count, double share)
{
    const int rank = (int)ceil(share * count);
    return sorted[rank < 1 ? 0 : rank - 1];
}

static ana_estimate interval(double value, double deviation, int freedom)
{
    const double half = gsl_cdf_tdist_Pinv(0.975, freedom) * deviation;
    return (ana_estimate){.value = value, .low = value - half, .high = value + half};
}

static ana_estimate mean_of(const double *values, int count)
{
    const double mean = gsl_stats_mean(values, 1, (size_t)count);
    return interval(mean, gsl_stats_sd(values, 1, (size_t)count) / sqrt(count), count - 1);
}

static void add_rounds(const ana_sweep *sweep, const ana_sweep_point *point, double *rounds,
                       ana_point_summary *summary)
{
    const int count = sweep->instance_count;
    for (int index = 0; index < count; index++) {
        rounds[index] = (double)point->instances[index].round_count;
    }
    gsl_sort(rounds, 1, (size_t)count);
    summary->rounds_median = (int64_t)quantile(rounds, count, 0.5);
    summary->rounds_p95 = (int64_t)quantile(rounds, count, 0.95);
    summary->rounds_max = (int64_t)rounds[count - 1];
}

static void add_good_rounds(const ana_sweep *sweep, const ana_sweep_point *point,
                            ana_point_summary *summary)
{
    int64_t rounds = 0;
    int64_t good = 0;
    for (int index = 0; index < sweep->instance_count; index++) {
        const ana_instance *at = &point->instances[index];
        rounds += at->round_count;
        good += at->good_round_count;
        summary->potential_first = fmax(summary->potential_first, at->potential_first);
    }
    summary->good_round_ratio = (double)good / (double)rounds; // NaN without a round
}

static void compare_with_bounds(const ana_sweep *sweep, const ana_sweep_point *point,
                                double *constants, ana_point_summary *summary)
{
    const ana_bound_question largest = {.node_count = point->graph.node_count,
                                        .potential = summary->potential_first,
                                        .stop = sweep->instance.stop,
                                        .gamma = point->gamma,
                                        .delta = sweep->delta};
    int within = 0;
    int count = 0;
    for (int index = 0; index < sweep->instance_count; index++) {
        const ana_instance *at = &point->instances[index];
        ana_bound_question own = largest;
        own.potential = at->potential_first;
        within += at->round_count <= ana_bound_repaired(&own);
        const double constant = ana_convergence_constant(&own, (double)at->round_count);
        if (!isnan(constant)) constants[count++] = constant;
    }
    gsl_sort(constants, 1, (size_t)count);
    summary->constant = count > 0 ? quantile(constants, count, 0.5) : (double)NAN;
    summary->within_repaired_ratio = (double)within / sweep->instance_count;
    summary->bound_paper = ana_bound_paper(&largest);
    summary->bound_repaired = ana_bound_repaired(&largest);
    summary->rounds_spectral =
        ana_rounds_predicted(&largest, ana_scheme_contraction(sweep->scheme, &point->graph));
}

/// Slope of y over x by least squares.
static ana_estimate slope_of(const double *x, const double *y, int count)
{
    double intercept = 0;
    double slope = 0;
    double cov00 = 0;
    double cov01 = 0;
    double cov11 = 0;
    double residual = 0;
    gsl_fit_linear(x, 1, y, 1, (size_t)count, &intercept, &slope, &cov00, &cov01, &cov11,
                   &residual);
    return interval(slope, sqrt(cov11), count - 2);
}

static void fit_nodes(const ana_sweep *sweep, const ana_point_summary *summaries,
                      ana_sweep_fit *fit)
{
    double nodes[ANA_SWEEP_POINTS_MAX];
    double rounds[ANA_SWEEP_POINTS_MAX];
    double corrected[ANA_SWEEP_POINTS_MAX];
    double constants[ANA_SWEEP_POINTS_MAX];
    int count = 0;
    for (int point = 0; point < sweep->nodes_count; point++) {
        const ana_point_summary *at = &summaries[point];
        if (at->rounds_median < 1 || isnan(at->constant)) continue;
        nodes[count] = log(sweep->nodes[point]);
        rounds[count] = log((double)at->rounds_median);
        corrected[count] = log(at->constant) + 2 * nodes[count];
        constants[count++] = at->constant;
    }
    if (count < FIT_POINTS_MIN) return;
    fit->has_nodes = true;
    fit->exponent = slope_of(nodes, rounds, count);
    fit->log_corrected = slope_of(nodes, corrected, count);
    fit->constant = mean_of(constants, count);
}

static void fit_gammas(const ana_sweep *sweep, const ana_point_summary *summaries,
                       ana_sweep_fit *fit)
{
    double decades[ANA_SWEEP_POINTS_MAX];
    double rounds[ANA_SWEEP_POINTS_MAX];
    int count = 0;
    for (int point = 0; point < sweep->gamma_count; point++) {
        if (summaries[point].rounds_median < 1) continue;
        decades[count] = -log10(sweep->gammas[point]);
        rounds[count++] = (double)summaries[point].rounds_median;
    }
    if (count < FIT_POINTS_MIN) return;
    fit->has_gammas = true;
    fit->per_decade = slope_of(decades, rounds, count);
}

void ana_sweep_summarise(ana_sweep_answer *answer, double *scratch)
{
    const ana_sweep *sweep = answer->sweep;
    for (int point = 0; point < ana_sweep_point_count(sweep); point++) {
        ana_point_summary *summary = &answer->summaries[point];
        *summary = (ana_point_summary){.rounds_median = 0};
        add_rounds(sweep, &answer->points[point], scratch, summary);
        add_good_rounds(sweep, &answer->points[point], summary);
        compare_with_bounds(sweep, &answer->points[point], scratch, summary);
    }
    if (sweep->gamma_count == 1) fit_nodes(sweep, answer->summaries, &answer->fit);
    if (sweep->nodes_count == 1) fit_gammas(sweep, answer->summaries, &answer->fit);
}

// A sweep for programs and for people.

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

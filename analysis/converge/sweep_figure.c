/// Pictures of a sweep.
#include "analysis/converge/sweep_output.h"

#include "analysis/report/plot.h"

#include <inttypes.h>
#include <math.h>

enum { NODE_MARKS_MAX = 12 };

/// @param nodes of the one point that is drawn; 0: there are several
static void set_title(const ana_sweep *sweep, int nodes, text_buffer *settings)
{
    text_buffer title = {0};
    text_format(&title, "%s on %s, from %s", sweep->scheme->name, ana_graph_names[sweep->graph],
                ana_initial_names[sweep->instance.initial]);
    if (nodes > 0) text_format(&title, ", %d nodes", nodes);
    text_append(settings, "title = ");
    ana_plot_quote(settings, title.bytes);
    text_append(settings, "\n");
    text_free(&title);
}

/// gnuplot's word for a number that is none; a logarithmic axis knows no 0 either.
static void append_number(text_buffer *out, double value)
{
    if (isnan(value) || value <= 0) {
        text_append(out, " NaN");
    } else {
        text_format(out, " %.9g", value);
    }
}

static void append_points(const ana_sweep_answer *answer, bool over_nodes, text_buffer *settings)
{
    text_append(settings, "$points << EOD\n");
    for (int point = 0; point < ana_sweep_point_count(answer->sweep); point++) {
        const ana_sweep_point *at = &answer->points[point];
        const ana_point_summary *summary = &answer->summaries[point];
        append_number(settings, over_nodes ? at->graph.node_count : at->gamma);
        append_number(settings, (double)summary->rounds_median);
        append_number(settings, (double)summary->rounds_min);
        append_number(settings, (double)summary->rounds_max);
        append_number(settings, (double)summary->bound_paper);
        append_number(settings, (double)summary->bound_repaired);
        append_number(settings, summary->rounds_spectral);
        text_append(settings, "\n");
    }
    text_append(settings, "EOD\n");
}

/// A logarithmic axis has marks at powers of ten alone; the numbers of nodes are better ones, as
/// long as they have room.
static void mark_nodes(const ana_sweep *sweep, text_buffer *settings)
{
    if (sweep->nodes_count > NODE_MARKS_MAX) return;
    text_append(settings, "set xtics (");
    for (int index = 0; index < sweep->nodes_count; index++) {
        text_format(settings, "%s%d", index > 0 ? ", " : "", sweep->nodes[index]);
    }
    text_append(settings, ")\n");
    // A little more than the last, or rounding leaves its mark out.
    const int last = sweep->nodes[sweep->nodes_count - 1];
    if (sweep->nodes_count > 1) text_format(settings, "x_most = %.9g\n", last * 1.0001);
}

status ana_sweep_draw_rounds(const ana_sweep_answer *answer, text_buffer *svg, error_message *err)
{
    const bool over_nodes = answer->sweep->nodes_count > 1 || answer->sweep->gamma_count == 1;
    text_buffer settings = {0};
    set_title(answer->sweep, 0, &settings);
    text_format(&settings, "x_title = '%s'\nhas_spectral = %d\n", over_nodes ? "nodes" : "gamma",
                !isnan(answer->summaries[0].rounds_spectral));
    if (over_nodes) mark_nodes(answer->sweep, &settings);
    append_points(answer, over_nodes, &settings);
    const status drawn = ana_plot("rounds", &settings, svg, err);
    text_free(&settings);
    return drawn;
}

static void append_trail(const ana_sweep *sweep, const ana_sweep_point *point,
                         const ana_trail *trail, text_buffer *settings)
{
    const double nodes = point->graph.node_count;
    const double contraction =
        ana_scheme_contraction(sweep->scheme, &point->graph, &sweep->options);
    const int last = trail->count - 1;
    text_format(settings, "gamma = %.9g\n",
                sweep->instance.stop == ANA_STOP_PHI ? point->gamma : 0.0);
    text_format(settings, "potential_first = %.9g\nguaranteed = %.17g\npredicted = %.17g\n",
                trail->potential[0], 1 - 1 / (4 * nodes * nodes),
                isnan(contraction) ? 0 : contraction);
    text_format(settings, "round_last = %" PRId64 "\nlowest = %.9g\n$trail << EOD\n",
                trail->round[last] > 0 ? trail->round[last] : 1,
                trail->potential[last] > 0 ? trail->potential[last] / 2 : point->gamma / 2);
    for (int entry = 0; entry <= last; entry++) {
        text_format(settings, "%" PRId64, trail->round[entry]);
        append_number(settings, trail->potential[entry]);
        text_append(settings, "\n");
    }
    text_append(settings, "EOD\n");
}

status ana_sweep_draw_potential(const ana_sweep_answer *answer, text_buffer *svg,
                                error_message *err)
{
    const ana_sweep *sweep = answer->sweep;
    const ana_sweep_point *point = &answer->points[ana_sweep_point_count(sweep) - 1];
    ana_trail trail = {0};
    text_buffer settings = {0};
    TRY(ana_sweep_trail(sweep, point, &trail, err));
    set_title(sweep, point->graph.node_count, &settings);
    append_trail(sweep, point, &trail, &settings);
    const status drawn = ana_plot("potential", &settings, svg, err);
    text_free(&settings);
    return drawn;
}

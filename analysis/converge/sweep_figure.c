/// The picture of a sweep.
#include "analysis/converge/sweep_output.h"

#include "analysis/report/plot.h"

#include <math.h>

enum { NODE_MARKS_MAX = 12 };

static void set_title(const ana_sweep *sweep, text_buffer *settings)
{
    text_buffer title = {0};
    text_format(&title, "%s on %s, from %s", sweep->scheme->name, ana_graph_names[sweep->graph],
                ana_initial_names[sweep->instance.initial]);
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
    set_title(answer->sweep, &settings);
    text_format(&settings, "x_title = '%s'\nhas_spectral = %d\n", over_nodes ? "nodes" : "gamma",
                !isnan(answer->summaries[0].rounds_spectral));
    if (over_nodes) mark_nodes(answer->sweep, &settings);
    append_points(answer, over_nodes, &settings);
    const status drawn = ana_plot("rounds", &settings, svg, err);
    text_free(&settings);
    return drawn;
}

/// Dimension exchange: in every round all pairs of one colour exchange; the colours take turns.
/// Source: Cybenko 1989 (hypercubes), Hosseini et al. 1990 (colourings); see the header for the
/// exchange parameter.
#include "analysis/converge/converge_dimension_exchange.h"

#include "analysis/converge/converge_first_order.h"

#include <math.h>
#include <string.h>

typedef struct dimension_exchange {
    double share;
    double *before; // [node_count] loads before the last round
} dimension_exchange;

double ana_exchange_parameter(const ana_graph *graph, ana_exchange exchange)
{
    const double pi = 3.14159265358979323846;
    if (exchange == ANA_EXCHANGE_HALF) return 0.5;
    switch (graph->kind) {
    case ANA_GRAPH_PATH:
        return 1 / (1 + sin(pi / graph->node_count));
    case ANA_GRAPH_RING:
        return graph->node_count % 2 == 0 ? 1 / (1 + sin(2 * pi / graph->node_count)) : (double)NAN;
    case ANA_GRAPH_TORUS:
        if (graph->columns % 2 != 0 || graph->rows % 2 != 0) return (double)NAN;
        return 1 / (1 + sin(2 * pi / graph->columns));
    case ANA_GRAPH_HYPERCUBE:
        return 0.5;
    default:
        return (double)NAN;
    }
}

static status check(const ana_graph *graph, const ana_scheme_options *options, error_message *err)
{
    if (!isnan(ana_exchange_parameter(graph, options->exchange))) return STATUS_OK;
    return error_set(err, STATUS_UNSUPPORTED,
                     "the optimal exchange on this %s of %d nodes is not known; it is on path, "
                     "hypercube, and ring and torus of even sides",
                     ana_graph_names[graph->kind], graph->node_count);
}

static status prepare(ana_scheme_run *run, arena *memory, error_message *err)
{
    (void)err;
    dimension_exchange *state = arena_array(memory, 1, sizeof *state);
    state->share =
        ana_diffusion_parameter(ana_exchange_parameter(run->graph, run->options.exchange));
    state->before = arena_array(memory, (size_t)run->graph->node_count, sizeof *state->before);
    run->state = state;
    return STATUS_OK;
}

/// Both partners compute their half with the same products, so that what one gives the other gets.
static double exchange(double *load, int left, int right, double share)
{
    const double a = load[left];
    const double b = load[right];
    if (share == 0.5) {
        load[left] = load[right] = (a + b) * 0.5;
    } else {
        load[left] = (1 - share) * a + share * b;
        load[right] = share * a + (1 - share) * b;
    }
    return fabs(a - b);
}

static double play(ana_scheme_run *run)
{
    const dimension_exchange *state = run->state;
    const ana_graph *graph = run->graph;
    const int colour = (int)(run->round % ana_graph_colour_count(graph));
    double gaps = 0;
    memcpy(state->before, run->load, (size_t)graph->node_count * sizeof *run->load);
    if (graph->kind == ANA_GRAPH_STAR) return exchange(run->load, 0, colour + 1, state->share);
    for (int node = 0; node < graph->node_count; node++) {
        const int other = ana_graph_partner(graph, colour, node);
        if (other > node) gaps += exchange(run->load, node, other, state->share);
    }
    return gaps;
}

const ana_scheme ana_scheme_dimension_exchange = {
    .name = "dimension-exchange",
    .is_monotone = true,
    .check = check,
    .prepare = prepare,
    .play = play,
};

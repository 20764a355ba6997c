#include "analysis/converge/converge_scheme.h"

#include "analysis/converge/converge_graph.h"

#include <gsl/gsl_sort_double.h>
#include <math.h>
#include <string.h>

const ana_scheme *const ana_schemes[] = {
    &ana_scheme_max_neighbor, &ana_scheme_odd_even,
    &ana_scheme_first_order,  &ana_scheme_second_order,
    &ana_scheme_chebyshev,    &ana_scheme_dimension_exchange,
    &ana_scheme_scan,         NULL,
};

status ana_scheme_check(const ana_scheme *scheme, const ana_graph *graph, error_message *err)
{
    return scheme->check == NULL ? STATUS_OK : scheme->check(graph, err);
}

status ana_scheme_open(const ana_scheme *scheme, const ana_graph *graph, arena *memory,
                       ana_scheme_run *run, error_message *err)
{
    ana_scheme_run made = {.scheme = scheme, .graph = graph};
    TRY(ana_scheme_check(scheme, graph, err));
    if (scheme->has_links) TRY(ana_graph_link(graph, memory, &made.links, err));
    made.load = arena_array(memory, (size_t)graph->node_count, sizeof *made.load);
    made.sorted = arena_array(memory, (size_t)graph->node_count, sizeof *made.sorted);
    if (scheme->prepare != NULL) made.state = scheme->prepare(&made, memory);
    *run = made;
    return STATUS_OK;
}

/// The path through the nodes in order of load stays the same path: an exchange between neighbours
/// in the order leaves their loads between those of the others. So it is enough to sort once.
void ana_scheme_begin(ana_scheme_run *run, const double *load, const ana_coins *coins)
{
    const int nodes = run->graph->node_count;
    run->coins = *coins;
    run->round = 0;
    memmove(run->load, load, (size_t)nodes * sizeof *load);
    if (run->graph->kind == ANA_GRAPH_DYNAMIC) gsl_sort(run->load, 1, (size_t)nodes);
    if (run->scheme->begin != NULL) run->scheme->begin(run);
}

void ana_scheme_play(ana_scheme_run *run)
{
    run->scheme->play(run);
    run->round++;
}

ana_first_order ana_first_order_best(const ana_graph *graph)
{
    const ana_graph_spectrum spectrum = ana_graph_eigenvalues(graph);
    const double alpha = 2 / (spectrum.smallest + spectrum.largest);
    const double slow = fabs(1 - alpha * spectrum.smallest);
    const double fast = fabs(1 - alpha * spectrum.largest);
    const double largest = slow > fast ? slow : fast;
    return (ana_first_order){alpha, largest < 0x1p-40 ? 0 : largest};
}

double ana_scheme_contraction(const ana_scheme *scheme, const ana_graph *graph)
{
    const double diffusion = ana_first_order_best(graph).contraction;
    const bool is_chain = graph->kind == ANA_GRAPH_PATH || graph->kind == ANA_GRAPH_DYNAMIC;
    if (scheme == &ana_scheme_scan) return 0;
    if (scheme == &ana_scheme_second_order || scheme == &ana_scheme_chebyshev) {
        return diffusion / (1 + sqrt(1 - diffusion * diffusion)); // sqrt(beta - 1)
    }
    if (scheme != &ana_scheme_dimension_exchange || is_chain) return diffusion;
    return graph->kind == ANA_GRAPH_HYPERCUBE ? 0 : (double)NAN;
}

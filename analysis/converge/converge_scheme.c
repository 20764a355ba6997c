#include "analysis/converge/converge_scheme.h"

#include "analysis/converge/converge_loads.h"

#include <math.h>
#include <string.h>

const char *const ana_variant_names[ANA_VARIANT_COUNT] = {"Q", "P", "Qr"};
const char *const ana_exchange_names[ANA_EXCHANGE_COUNT] = {"half", "optimal"};

const ana_scheme *const ana_schemes[] = {
    &ana_scheme_max_neighbor, &ana_scheme_odd_even,
    &ana_scheme_first_order,  &ana_scheme_second_order,
    &ana_scheme_chebyshev,    &ana_scheme_dimension_exchange,
    &ana_scheme_scan,         NULL,
};

status ana_scheme_check(const ana_scheme *scheme, const ana_graph *graph,
                        const ana_scheme_options *options, error_message *err)
{
    return scheme->check == NULL ? STATUS_OK : scheme->check(graph, options, err);
}

status ana_scheme_open(const ana_scheme *scheme, const ana_graph *graph,
                       const ana_scheme_options *options, arena *memory, ana_scheme_run *run,
                       error_message *err)
{
    TRY(ana_scheme_check(scheme, graph, options, err));
    ana_scheme_run made = {.scheme = scheme, .graph = graph, .options = *options};
    made.load = arena_array(memory, (size_t)graph->node_count, sizeof *made.load);
    TRY(scheme->prepare(&made, memory, err));
    *run = made;
    return STATUS_OK;
}

/// The path through the nodes in order of load stays the same path: an exchange between neighbours
/// in the order leaves their loads between those of the others. So it is enough to sort once.
void ana_scheme_begin(ana_scheme_run *run, const double *load, const ana_coins *coins,
                      int64_t round)
{
    const int nodes = run->graph->node_count;
    run->coins = *coins;
    run->round = round;
    memmove(run->load, load, (size_t)nodes * sizeof *load);
    if (run->graph->kind == ANA_GRAPH_DYNAMIC) ana_loads_sort(run->load, nodes);
    if (run->scheme->begin != NULL) run->scheme->begin(run);
}

double ana_scheme_play(ana_scheme_run *run)
{
    const double gaps = run->scheme->play(run);
    run->round++;
    return gaps;
}

int ana_scheme_compare(const double *load, int node, int a, int b)
{
    const double gap_a = fabs(load[a] - load[node]);
    const double gap_b = fabs(load[b] - load[node]);
    if (gap_a != gap_b) return gap_a > gap_b ? 1 : -1;
    if (load[a] == load[b]) return 0;
    const bool a_is_below = load[a] < load[node];
    const bool b_is_below = load[b] < load[node];
    if (a_is_below != b_is_below) return a_is_below ? 1 : -1;
    return a_is_below == (load[a] < load[b]) ? 1 : -1;
}

double ana_scheme_parameter(double value)
{
    return nearbyint(value * 0x1p40) * 0x1p-40;
}

double ana_scheme_contraction(const ana_scheme *scheme, const ana_graph *graph,
                              const ana_scheme_options *options)
{
    if (scheme == &ana_scheme_scan) return 0;
    const double diffusion = ana_first_order_contraction(graph, ana_first_order_alpha(graph, 0));
    if (scheme == &ana_scheme_first_order) {
        return ana_first_order_contraction(graph, ana_first_order_alpha(graph, options->alpha));
    }
    if (scheme == &ana_scheme_second_order || scheme == &ana_scheme_chebyshev) {
        return diffusion / (1 + sqrt(1 - diffusion * diffusion)); // sqrt(beta - 1)
    }
    if (scheme != &ana_scheme_dimension_exchange) return diffusion;
    const double share = ana_exchange_parameter(graph, options->exchange);
    const bool is_chain = graph->kind == ANA_GRAPH_PATH || graph->kind == ANA_GRAPH_DYNAMIC;
    if (graph->kind == ANA_GRAPH_HYPERCUBE) return 0;
    if (is_chain && options->exchange == ANA_EXCHANGE_HALF) return diffusion;
    if (is_chain) return 2 * share - 1 > 0 ? sqrt(2 * share - 1) : 0;
    return (double)NAN;
}

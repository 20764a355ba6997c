/// First-order diffusion: load moves along every edge in proportion to its difference.
/// Source: Cybenko, J. Parallel Distrib. Comput. 7 (1989); the best proportion: Xu and Lau, ibid.
/// 16 (1992).
#include "analysis/converge/converge_first_order.h"

#include "analysis/converge/converge_scheme.h"

#include <math.h>
#include <string.h>

typedef struct first_order {
    ana_diffusion diffusion;
    double *next; // [node_count]
} first_order;

double ana_diffusion_parameter(double value)
{
    return nearbyint(value * 0x1p40) * 0x1p-40;
}

double ana_first_order_alpha(const ana_graph *graph, double given)
{
    if (given > 0) return given;
    const ana_graph_spectrum spectrum = ana_graph_eigenvalues(graph);
    return 2 / (spectrum.smallest + spectrum.largest);
}

double ana_first_order_contraction(const ana_graph *graph, double alpha)
{
    const ana_graph_spectrum spectrum = ana_graph_eigenvalues(graph);
    const double slow = fabs(1 - alpha * spectrum.smallest);
    const double fast = fabs(1 - alpha * spectrum.largest);
    const double largest = slow > fast ? slow : fast;
    return largest < 0x1p-40 ? 0 : largest;
}

static bool is_chain(const ana_graph *graph)
{
    return graph->kind == ANA_GRAPH_PATH || graph->kind == ANA_GRAPH_DYNAMIC;
}

status ana_diffusion_make(const ana_graph *graph, double alpha, arena *memory,
                          ana_diffusion *diffusion, error_message *err)
{
    ana_diffusion made = {.graph = graph, .alpha = ana_diffusion_parameter(alpha)};
    if (graph->kind == ANA_GRAPH_COMPLETE) made.alpha = alpha; // 1 / node_count, which is exact
    if (!is_chain(graph) && graph->kind != ANA_GRAPH_COMPLETE) {
        TRY(ana_graph_link(graph, memory, &made.links, err));
    }
    *diffusion = made;
    return STATUS_OK;
}

static void step_chain(double alpha, int nodes, const double *load, double *next)
{
    next[0] = load[0] + alpha * (load[1] - load[0]);
    for (int node = 1; node < nodes - 1; node++) {
        next[node] =
            load[node] + alpha * ((load[node - 1] - load[node]) + (load[node + 1] - load[node]));
    }
    next[nodes - 1] = load[nodes - 1] + alpha * (load[nodes - 2] - load[nodes - 1]);
}

static void step_complete(double alpha, int nodes, const double *load, double *next)
{
    double sum = 0;
    for (int node = 0; node < nodes; node++) {
        sum += load[node];
    }
    for (int node = 0; node < nodes; node++) {
        next[node] = load[node] + alpha * (sum - nodes * load[node]);
    }
}

void ana_diffusion_step(const ana_diffusion *diffusion, const double *load, double *next)
{
    const int nodes = diffusion->graph->node_count;
    if (is_chain(diffusion->graph)) {
        step_chain(diffusion->alpha, nodes, load, next);
        return;
    }
    if (diffusion->graph->kind == ANA_GRAPH_COMPLETE) {
        step_complete(diffusion->alpha, nodes, load, next);
        return;
    }
    const int *neighbour = diffusion->links.neighbour;
    for (int node = 0; node < nodes; node++) {
        const int begin = diffusion->links.first[node];
        const int end = diffusion->links.first[node + 1];
        double inflow = 0;
        for (int link = begin; link < end; link++) {
            inflow += load[neighbour[link]] - load[node];
        }
        next[node] = load[node] + diffusion->alpha * inflow;
    }
}

static status check(const ana_graph *graph, const ana_scheme_options *options, error_message *err)
{
    const double largest = ana_graph_eigenvalues(graph).largest;
    if (options->alpha * largest >= 2) {
        return error_set(err, STATUS_INVALID,
                         "alpha %g: first-order diverges on this %s of %d nodes from %.6g on",
                         options->alpha, ana_graph_names[graph->kind], graph->node_count,
                         2 / largest);
    }
    return STATUS_OK;
}

static status prepare(ana_scheme_run *run, arena *memory, error_message *err)
{
    first_order *state = arena_array(memory, 1, sizeof *state);
    state->next = arena_array(memory, (size_t)run->graph->node_count, sizeof *state->next);
    run->state = state;
    return ana_diffusion_make(run->graph, ana_first_order_alpha(run->graph, run->options.alpha),
                              memory, &state->diffusion, err);
}

static double play(ana_scheme_run *run)
{
    first_order *state = run->state;
    ana_diffusion_step(&state->diffusion, run->load, state->next);
    double *const full = state->next;
    state->next = run->load;
    run->load = full;
    return 0;
}

const ana_scheme ana_scheme_first_order = {
    .name = "first-order",
    .is_monotone = true,
    .check = check,
    .prepare = prepare,
    .play = play,
};

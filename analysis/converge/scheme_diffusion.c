/// Diffusion: first-order, second-order and chebyshev.
///
/// First-order: load moves along every edge in proportion to its difference. Source: Cybenko, J.
/// Parallel Distrib. Comput. 7 (1989); the best proportion: Xu and Lau, ibid. 16 (1992).
/// The other two overrelax it: next = weight * (first-order step) + (1 - weight) * loads of the
/// round before. Second-order keeps the best weight: Muthukrishnan, Ghosh and Schultz, Theory
/// Comput. Syst. 31 (1998). Chebyshev takes in every round the one that leaves the least in the
/// worst case: Golub and Varga, Numer. Math. 3 (1961).
#include "analysis/converge/converge_scheme.h"

#include <math.h>
#include <string.h>

typedef struct diffusion {
    ana_graph_links links; // empty for paths and the complete graph, which need none
    double alpha;
    double contraction; // of the first-order step
    double weight;      // of the last round; 0 before the first
    double *previous;   // [node_count] loads before the last round
    double *next;       // [node_count]
} diffusion;

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

static status prepare(ana_scheme_run *run, arena *memory, error_message *err)
{
    const ana_graph *graph = run->graph;
    const double given = run->scheme == &ana_scheme_first_order ? run->options.alpha : 0;
    const double alpha = ana_first_order_alpha(graph, given);
    diffusion *state = arena_array(memory, 1, sizeof *state);
    // 1 / node_count of the complete graph is exact.
    state->alpha = graph->kind == ANA_GRAPH_COMPLETE ? alpha : ana_scheme_parameter(alpha);
    state->contraction = ana_scheme_parameter(ana_first_order_contraction(graph, alpha));
    state->previous = arena_array(memory, (size_t)graph->node_count, sizeof *state->previous);
    state->next = arena_array(memory, (size_t)graph->node_count, sizeof *state->next);
    run->state = state;
    if (is_chain(graph) || graph->kind == ANA_GRAPH_COMPLETE) return STATUS_OK;
    return ana_graph_link(graph, memory, &state->links, err);
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

/// One first-order step of the loads into state->next.
static void step(const ana_scheme_run *run, const diffusion *state)
{
    const int nodes = run->graph->node_count;
    const double *load = run->load;
    if (is_chain(run->graph)) {
        step_chain(state->alpha, nodes, load, state->next);
        return;
    }
    if (run->graph->kind == ANA_GRAPH_COMPLETE) {
        step_complete(state->alpha, nodes, load, state->next);
        return;
    }
    for (int node = 0; node < nodes; node++) {
        double inflow = 0;
        for (int link = state->links.first[node]; link < state->links.first[node + 1]; link++) {
            inflow += load[state->links.neighbour[link]] - load[node];
        }
        state->next[node] = load[node] + state->alpha * inflow;
    }
}

static status check_alpha(const ana_graph *graph, const ana_scheme_options *options,
                          error_message *err)
{
    const double largest = ana_graph_eigenvalues(graph).largest;
    if (options->alpha * largest < 2) return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "alpha %g: first-order diverges on this %s of %d nodes from %.6g on",
                     options->alpha, ana_graph_names[graph->kind], graph->node_count, 2 / largest);
}

static double play_first_order(ana_scheme_run *run)
{
    diffusion *state = run->state;
    step(run, state);
    double *const full = state->next;
    state->next = run->load;
    run->load = full;
    return 0;
}

static status check_graph(const ana_graph *graph, const ana_scheme_options *options,
                          error_message *err)
{
    (void)options;
    if (graph->kind != ANA_GRAPH_DYNAMIC) return STATUS_OK;
    return error_set(
        err, STATUS_INVALID,
        "second-order and chebyshev take their weights from the spectrum of one graph; "
        "dynamic is another one in every round");
}

static void begin(ana_scheme_run *run)
{
    diffusion *state = run->state;
    state->weight = 0;
    memcpy(state->previous, run->load, (size_t)run->graph->node_count * sizeof *run->load);
}

/// A round of weight state->weight.
static double play_weighted(ana_scheme_run *run)
{
    diffusion *state = run->state;
    step(run, state);
    for (int node = 0; node < run->graph->node_count; node++) {
        state->next[node] =
            state->weight * state->next[node] + (1 - state->weight) * state->previous[node];
    }
    double *const spare = state->previous;
    state->previous = run->load;
    run->load = state->next;
    state->next = spare;
    return 0;
}

/// beta = 2 / (1 + sqrt(1 - contraction^2)) from the second round on.
static double play_second_order(ana_scheme_run *run)
{
    diffusion *state = run->state;
    const double square = state->contraction * state->contraction;
    state->weight = state->weight == 0 ? 1 : 2 / (1 + sqrt(1 - square));
    return play_weighted(run);
}

/// w_1 = 1, w_2 = 2 / (2 - c^2), w_{k + 1} = 4 / (4 - c^2 w_k) with c the contraction.
static double play_chebyshev(ana_scheme_run *run)
{
    diffusion *state = run->state;
    const double square = state->contraction * state->contraction;
    const double last = state->weight;
    state->weight = last == 0 ? 1 : last == 1 ? 2 / (2 - square) : 4 / (4 - square * last);
    return play_weighted(run);
}

const ana_scheme ana_scheme_first_order = {
    .name = "first-order",
    .check = check_alpha,
    .prepare = prepare,
    .play = play_first_order,
};

const ana_scheme ana_scheme_second_order = {
    .name = "second-order",
    .check = check_graph,
    .prepare = prepare,
    .begin = begin,
    .play = play_second_order,
};

const ana_scheme ana_scheme_chebyshev = {
    .name = "chebyshev",
    .check = check_graph,
    .prepare = prepare,
    .begin = begin,
    .play = play_chebyshev,
};

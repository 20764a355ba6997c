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
    double alpha;
    double contraction; // of the first-order step
    double weight;      // of the last round; 0 before the first
    double *previous;   // [node_count] loads before the last round
    double *next;       // [node_count]
} diffusion;

/// A parameter that came through libm, with the last digits that differ between systems cut off.
static double portable(double value)
{
    return nearbyint(value * 0x1p40) * 0x1p-40;
}

static void *prepare(const ana_scheme_run *run, arena *memory)
{
    const ana_first_order best = ana_first_order_best(run->graph);
    const size_t nodes = (size_t)run->graph->node_count;
    diffusion *state = arena_array(memory, 1, sizeof *state);
    // 1 / node_count of the complete graph is exact.
    state->alpha = run->graph->kind == ANA_GRAPH_COMPLETE ? best.alpha : portable(best.alpha);
    state->contraction = portable(best.contraction);
    state->previous = arena_array(memory, nodes, sizeof *state->previous);
    state->next = arena_array(memory, nodes, sizeof *state->next);
    return state;
}

static void begin(ana_scheme_run *run)
{
    diffusion *state = run->state;
    state->weight = 0;
    memcpy(state->previous, run->load, (size_t)run->graph->node_count * sizeof *run->load);
}

/// A round of some weight; 1 is a first-order step.
static void play_weighted(ana_scheme_run *run, double weight)
{
    diffusion *state = run->state;
    const double *load = run->load;
    for (int node = 0; node < run->graph->node_count; node++) {
        double inflow = 0;
        for (int link = run->links.first[node]; link < run->links.first[node + 1]; link++) {
            inflow += load[run->links.neighbour[link]] - load[node];
        }
        const double next = load[node] + state->alpha * inflow;
        state->next[node] = weight * next + (1 - weight) * state->previous[node];
    }
    double *const spare = state->previous;
    state->weight = weight;
    state->previous = run->load;
    run->load = state->next;
    state->next = spare;
}

static void play_first_order(ana_scheme_run *run)
{
    play_weighted(run, 1);
}

/// beta = 2 / (1 + sqrt(1 - contraction^2)) from the second round on.
static void play_second_order(ana_scheme_run *run)
{
    const diffusion *state = run->state;
    const double square = state->contraction * state->contraction;
    play_weighted(run, state->weight == 0 ? 1 : 2 / (1 + sqrt(1 - square)));
}

/// w_1 = 1, w_2 = 2 / (2 - c^2), w_{k + 1} = 4 / (4 - c^2 w_k) with c the contraction.
static void play_chebyshev(ana_scheme_run *run)
{
    const diffusion *state = run->state;
    const double square = state->contraction * state->contraction;
    const double last = state->weight;
    play_weighted(run, last == 0 ? 1 : last == 1 ? 2 / (2 - square) : 4 / (4 - square * last));
}

static status check_graph(const ana_graph *graph, error_message *err)
{
    if (graph->kind != ANA_GRAPH_DYNAMIC) return STATUS_OK;
    return error_set(
        err, STATUS_INVALID,
        "second-order and chebyshev take their weights from the spectrum of one graph; "
        "dynamic is another one in every round");
}

const ana_scheme ana_scheme_first_order = {
    .name = "first-order",
    .has_links = true,
    .prepare = prepare,
    .begin = begin,
    .play = play_first_order,
};

const ana_scheme ana_scheme_second_order = {
    .name = "second-order",
    .has_links = true,
    .check = check_graph,
    .prepare = prepare,
    .begin = begin,
    .play = play_second_order,
};

const ana_scheme ana_scheme_chebyshev = {
    .name = "chebyshev",
    .has_links = true,
    .check = check_graph,
    .prepare = prepare,
    .begin = begin,
    .play = play_chebyshev,
};

/// Prefix scan on a chain: the flow over every edge of a chain is fixed by the prefix sums, so a
/// scan finds it exactly. A round is one round of messages: ceil(log2 N) of the scan by recursive
/// doubling, as many to tell everybody the mean; with the last one all flows are known, and loads
/// move. Source: Hillis and Steele, CACM 29 (1986); the flow: Diekmann, Frommer and Monien 1999.
#include "analysis/converge/converge_scheme.h"

#include <string.h>

typedef struct scan {
    double *prefix;  // [node_count] sum of the loads up to 2^round nodes before this one
    double *next;    // [node_count]
    double *total;   // [node_count] known to nodes that were told; 0 before
    int round_count; // of the scan
} scan;

static status check(const ana_graph *graph, const ana_scheme_options *options, error_message *err)
{
    (void)options;
    if (graph->kind == ANA_GRAPH_PATH) return STATUS_OK;
    return error_set(err, STATUS_INVALID, "scan sums along a chain; graph %s has none: use path",
                     ana_graph_names[graph->kind]);
}

static status prepare(ana_scheme_run *run, arena *memory, error_message *err)
{
    const size_t nodes = (size_t)run->graph->node_count;
    scan *state = arena_array(memory, 1, sizeof *state);
    (void)err;
    state->prefix = arena_array(memory, nodes, sizeof *state->prefix);
    state->next = arena_array(memory, nodes, sizeof *state->next);
    state->total = arena_array(memory, nodes, sizeof *state->total);
    while (INT64_C(1) << state->round_count < run->graph->node_count) {
        state->round_count++;
    }
    run->state = state;
    return STATUS_OK;
}

static void begin(ana_scheme_run *run)
{
    scan *state = run->state;
    memcpy(state->prefix, run->load, (size_t)run->graph->node_count * sizeof *run->load);
    run->round = 0;
}

/// Every node sends its sum to the one 2^round further.
static void double_reach(scan *state, int nodes, int round)
{
    const int reach = 1 << round;
    for (int node = 0; node < nodes; node++) {
        const double from = node >= reach ? state->prefix[node - reach] : 0;
        state->next[node] = from + state->prefix[node];
    }
    double *const full = state->next;
    state->next = state->prefix;
    state->prefix = full;
}

/// Who knows the total tells the one 2^round before it: the last node began.
static void tell_total(scan *state, int nodes, int round)
{
    const int reach = 1 << round;
    if (round == 0) state->total[nodes - 1] = state->prefix[nodes - 1];
    const int first_told = nodes - 1 - reach;
    for (int node = nodes - 1; node > first_told; node--) {
        if (node - reach >= 0) state->total[node - reach] = state->total[node];
    }
}

/// Edge (i, i + 1) carries prefix_i - (i + 1) * mean to the right.
static void move(ana_scheme_run *run, const scan *state)
{
    const int nodes = run->graph->node_count;
    double inflow = 0;
    for (int node = 0; node < nodes; node++) {
        const double mean = state->total[node] / nodes;
        const double outflow = node < nodes - 1 ? state->prefix[node] - (node + 1) * mean : 0;
        run->load[node] += inflow - outflow;
        inflow = outflow;
    }
}

static double play(ana_scheme_run *run)
{
    scan *state = run->state;
    const int nodes = run->graph->node_count;
    if (run->round < state->round_count) {
        double_reach(state, nodes, (int)run->round);
    } else if (run->round < 2 * state->round_count) {
        tell_total(state, nodes, (int)run->round - state->round_count);
        if (run->round == 2 * state->round_count - 1) move(run, state);
    }
    return 0;
}

const ana_scheme ana_scheme_scan = {
    .name = "scan",
    .is_monotone = true,
    .check = check,
    .prepare = prepare,
    .begin = begin,
    .play = play,
};

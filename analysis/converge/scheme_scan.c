/// Prefix scan on a chain: the flow over every edge of a chain is fixed by the prefix sums, so a
/// scan finds it exactly. A round is one round of messages: ceil(log2 N) of the scan by recursive
/// doubling, as many to tell everybody the mean; with the last one all flows are known, and loads
/// move. Source: Hillis and Steele, CACM 29 (1986); the flow: Diekmann, Frommer and Monien 1999.
#include "analysis/converge/converge_scheme.h"

#include <string.h>

typedef struct scan {
    double *prefix;  // [node_count] sum of the loads up to this node, added as the scan adds
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
    (void)err;
    scan *state = arena_array(memory, 1, sizeof *state);
    state->prefix = arena_array(memory, (size_t)run->graph->node_count, sizeof *state->prefix);
    while (INT64_C(1) << state->round_count < run->graph->node_count) {
        state->round_count++;
    }
    run->state = state;
    return STATUS_OK;
}

/// Messages move no load, so what they will carry is computed at once: in round k every node adds
/// the sum of the one 2^k before it.
static void begin(ana_scheme_run *run)
{
    const scan *state = run->state;
    const int nodes = run->graph->node_count;
    memcpy(state->prefix, run->load, (size_t)nodes * sizeof *run->load);
    run->round = 0;
    for (int reach = 1; reach < nodes; reach *= 2) {
        for (int node = nodes - 1; node >= reach; node--) {
            state->prefix[node] = state->prefix[node - reach] + state->prefix[node];
        }
    }
}

/// Edge (i, i + 1) carries prefix_i - (i + 1) * mean to the right.
static double play(ana_scheme_run *run)
{
    const scan *state = run->state;
    const int nodes = run->graph->node_count;
    if (run->round != 2 * state->round_count - 1) return 0;
    const double mean = state->prefix[nodes - 1] / nodes;
    double inflow = 0;
    for (int node = 0; node < nodes; node++) {
        const double outflow = node < nodes - 1 ? state->prefix[node] - (node + 1) * mean : 0;
        run->load[node] += inflow - outflow;
        inflow = outflow;
    }
    return 0;
}

const ana_scheme ana_scheme_scan = {
    .name = "scan",
    .check = check,
    .prepare = prepare,
    .begin = begin,
    .play = play,
};

/// Prefix scan on a chain: the flow over every edge of a chain is fixed by the prefix sums, so a
/// scan finds it exactly. A round is one round of messages: ceil(log2 N) of the scan by recursive
/// doubling, as many to tell everybody the mean; with the last one all flows are known, and loads
/// move. Source: Hillis and Steele, CACM 29 (1986); the flow: Diekmann, Frommer and Monien 1999.
#include "analysis/converge/converge_scheme.h"

#include <string.h>

static status check(const ana_graph *graph, error_message *err)
{
    if (graph->kind == ANA_GRAPH_PATH) return STATUS_OK;
    return error_set(err, STATUS_INVALID, "scan sums along a chain; graph %s has none: use path",
                     ana_graph_names[graph->kind]);
}

static void *prepare(const ana_scheme_run *run, arena *memory)
{
    return arena_array(memory, (size_t)run->graph->node_count, sizeof(double));
}

/// Messages move no load, so all sums that they carry are computed in the last round. Sum k is that
/// of the loads up to node k, added as the scan adds: in turn k every node adds the sum of the one
/// 2^k before it. Edge (i, i + 1) carries sum_i - (i + 1) * mean to the right.
static void play(ana_scheme_run *run)
{
    double *sum = run->state;
    const int nodes = run->graph->node_count;
    int turns = 0;
    while (INT64_C(1) << turns < nodes) {
        turns++;
    }
    if (run->round != 2 * turns - 1) return;
    memcpy(sum, run->load, (size_t)nodes * sizeof *run->load);
    for (int reach = 1; reach < nodes; reach *= 2) {
        for (int node = nodes - 1; node >= reach; node--) {
            sum[node] = sum[node - reach] + sum[node];
        }
    }
    const double mean = sum[nodes - 1] / nodes;
    double inflow = 0;
    for (int node = 0; node < nodes; node++) {
        const double outflow = node < nodes - 1 ? sum[node] - (node + 1) * mean : 0;
        run->load[node] += inflow - outflow;
        inflow = outflow;
    }
}

const ana_scheme ana_scheme_scan = {
    .name = "scan",
    .check = check,
    .prepare = prepare,
    .play = play,
};

#include "analysis/converge/converge_graph.h"

#include <gsl/gsl_sort_double.h>

#include <string.h>

const char *const ana_initial_names[ANA_INITIAL_COUNT] = {"step", "point", "ramp", "random"};

static double initial_load(ana_initial initial, int node, int node_count, rng *random)
{
    switch (initial) {
    case ANA_INITIAL_STEP:
        return node < (node_count + 1) / 2 ? 1 : 0;
    case ANA_INITIAL_POINT:
        return node == 0 ? 1 : 0;
    case ANA_INITIAL_RAMP:
        return node;
    default:
        return rng_unit(random);
    }
}

void ana_loads_fill(ana_initial initial, int node_count, rng *random, double *load)
{
    double sum = 0;
    for (int node = 0; node < node_count; node++) {
        load[node] = initial_load(initial, node, node_count, random);
        sum += load[node];
    }
    for (int node = 0; node < node_count; node++) {
        load[node] = load[node] * node_count / sum;
    }
}

double ana_loads_spread(const double *load, int node_count)
{
    double low = load[0];
    double high = load[0];
    for (int node = 1; node < node_count; node++) {
        low = load[node] < low ? load[node] : low;
        high = load[node] > high ? load[node] : high;
    }
    return high - low;
}

/// The pair sum of ascending values: the k-th smallest is subtracted node_count - 1 - k times and
/// added k times. Values are taken relative to the smallest, so that nothing cancels but what must.
/// @param step 1; -1 for descending values
static double pair_sum(const double *sorted, int node_count, int step)
{
    const double *at = step > 0 ? sorted : sorted + node_count - 1;
    double sum = 0;
    for (int k = 0; k < node_count; k++) {
        sum += (2 * k + 1 - node_count) * (at[k * step] - at[0]);
    }
    return sum;
}

double ana_loads_potential(const double *load, int node_count, double *scratch)
{
    int rises = 0;
    int falls = 0;
    for (int node = 1; node < node_count; node++) {
        rises += load[node - 1] < load[node];
        falls += load[node - 1] > load[node];
    }
    if (falls == 0) return pair_sum(load, node_count, 1);
    if (rises == 0) return pair_sum(load, node_count, -1);
    memcpy(scratch, load, (size_t)node_count * sizeof *load);
    gsl_sort(scratch, 1, (size_t)node_count);
    return pair_sum(scratch, node_count, 1);
}

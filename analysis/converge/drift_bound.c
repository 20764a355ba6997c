#include "analysis/converge/drift_bound.h"

#include <math.h>

/// What k rounds leave of a deviation at the most, of schemes that begin anew in every iteration:
/// their map is symmetric, so its norm is its largest eigenvalue's.
/// Source of second-order and Chebyshev: Golub & Varga, Numer. Math. 3 (1961).
static double left_of(const ana_scheme *scheme, const ana_graph *graph,
                      const ana_scheme_options *options, int64_t round_count)
{
    const double rounds = (double)round_count;
    const double contraction = ana_scheme_contraction(scheme, graph, options);
    if (scheme == &ana_scheme_scan) {
        int reach = 0;
        while (INT64_C(1) << reach < graph->node_count) {
            reach++;
        }
        return round_count >= 2 * reach ? 0 : 1;
    }
    const double power = contraction > 0 ? pow(contraction, rounds) : 0;
    if (scheme == &ana_scheme_first_order) return power;
    if (scheme == &ana_scheme_chebyshev) return 2 * power / (1 + power * power);
    if (scheme == &ana_scheme_second_order) {
        const double squared = contraction * contraction;
        return power * (1 + rounds * (1 - squared) / (1 + squared));
    }
    return (double)NAN;
}

static double geometric(double left)
{
    return left >= 1 ? (double)INFINITY : left / (1 - left);
}

double ana_drift_sum(const ana_scheme *scheme, const ana_graph *graph,
                     const ana_scheme_options *options, int64_t round_count)
{
    const double nodes = graph->node_count;
    if (round_count < 1) return (double)INFINITY;
    if (scheme == &ana_scheme_max_neighbor) {
        if (options->variant != ANA_VARIANT_Q) return (double)NAN;
        // log1p keeps the digits that 1 - 1 / (4 n^2) loses.
        const double rate = (double)round_count * log1p(-1 / (4 * nodes * nodes));
        return exp(rate) / -expm1(rate);
    }
    if (scheme == &ana_scheme_odd_even) {
        // Alternating projections: m of them in a row leave contraction^(m - 1).
        if (graph->node_count == 2) return 0;
        const double contraction = ana_scheme_contraction(scheme, graph, options);
        return pow(contraction, (double)(round_count - 1)) /
               (1 - pow(contraction, (double)round_count));
    }
    return geometric(left_of(scheme, graph, options, round_count));
}

double ana_drift_gap(const ana_scheme *scheme, int node_count, double deviation)
{
    if (scheme == &ana_scheme_max_neighbor) return deviation / (node_count - 1);
    return sqrt(2) * deviation;
}

/// Loads of nodes: where they start, and how far from even they are.
#pragma once

#include "base/rng.h"

typedef enum ana_initial {
    ANA_INITIAL_STEP, ///< all load evenly on the first half of the nodes (of odd counts the larger)
    ANA_INITIAL_POINT,  ///< all load on node 0
    ANA_INITIAL_RAMP,   ///< proportional to the node's number
    ANA_INITIAL_RANDOM, ///< uniform in [0, 1), then scaled
    ANA_INITIAL_COUNT
} ana_initial;

extern const char *const ana_initial_names[ANA_INITIAL_COUNT];

/// Loads whose sum is node_count, up to rounding.
/// @param load [node_count] out
/// @param random used by ANA_INITIAL_RANDOM alone
void ana_loads_fill(ana_initial initial, int node_count, rng *random, double *load);

/// Largest load minus smallest.
/// @param load [node_count], node_count >= 1
double ana_loads_spread(const double *load, int node_count);

/// The potential: sum over all pairs of nodes of the difference of their loads.
/// @param load    [node_count] finite, not changed
/// @param scratch [node_count]
///
/// A function of the sorted loads alone, to the last bit. Time O(node_count) if they are sorted
/// either way, else that of sorting them.
double ana_loads_potential(const double *load, int node_count, double *scratch);

/// Sorts loads ascending, in place.
void ana_loads_sort(double *load, int node_count);

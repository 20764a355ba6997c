/// Nodes in order of (load, node), with cheap removal and insertion: runs of about the square root
/// of their number.
#pragma once

#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>

enum { ANA_ORDER_RUN_MAX = 128 };

typedef struct ana_order_run {
    int count;
    int node[ANA_ORDER_RUN_MAX];
    double load[ANA_ORDER_RUN_MAX];
} ana_order_run;

typedef struct ana_order {
    ana_order_run **run; // [run_count] in order, none empty; behind them spare ones
    int run_count;
    int run_capacity;
} ana_order;

/// A place in the order, from either end.
typedef struct ana_order_place {
    int run;
    int index;
} ana_order_place;

/// @param node_count most nodes that it will hold
/// @return STATUS_NO_MEMORY
void ana_order_make(int node_count, arena *memory, ana_order *order);

/// Holds nodes [first, node_count) from now on, and nothing else.
/// @param load    [node_count]
/// @param scratch [2 * node_count]
void ana_order_fill(ana_order *order, const double *load, int first, int node_count, int *scratch);

/// Time O(sqrt(nodes)). The node must be there under that load (asserted), or not be there.
void ana_order_remove(ana_order *order, double load, int node);
void ana_order_insert(ana_order *order, double load, int node);

/// The first place that is not before (load, node); behind the end if there is none.
ana_order_place ana_order_find(const ana_order *order, double load, int node);

ana_order_place ana_order_lightest(const ana_order *order);
ana_order_place ana_order_heaviest(const ana_order *order);
bool ana_order_is_end(const ana_order *order, ana_order_place place); ///< behind either end
ana_order_place ana_order_heavier(const ana_order *order, ana_order_place place);
ana_order_place ana_order_lighter(const ana_order *order, ana_order_place place);

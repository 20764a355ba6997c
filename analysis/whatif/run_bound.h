/// What no contiguous plan, no balancer and no order of ops makes a run shorter than: summed up
/// while the run is played, from the costs that the player asks for.
#pragma once

#include "analysis/study/setup.h"
#include "balance/costs/layer_costs.h"
#include "balance/ports.h"
#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/// Filled by ana_run_bound_begin; must stay where it is until it is freed.
typedef struct ana_run_bound {
    const ana_setup *setup;
    const ana_balancing *balancing;
    bal_cost_source inner;
    bal_cost_source *sources; // [setup->source_count] for the player; the first notes what it gives
    arena *memory;            // scratch
    bal_costs_copy seen;      // costs that iteration_ns belongs to
    int next_iteration;       // that has not been noted
    int64_t iteration_ns;     // of the costs last noted
    int64_t total_ns;         // of the iterations noted; -1: does not fit, or nothing is proven
} ana_run_bound;

/// Per iteration the bound is, without the step of the optimizer, which is added:
/// - one chunk per rank, a global barrier: ana_bound_contiguous
/// - else: the larger of a rank's even share of all work and of the longest layer's work, as one
///   rank does all of it
/// and, where nothing hides the reduction of gradients, a rank's even share of it. Of replicas with
/// loads of their own the first is looked at, which the slowest is no shorter than.
///
/// Nothing is proven where re-packing may choose other microbatches or make further replicas, nor
/// where a rank is faster than its costs say.
///
/// @param memory of the sources
status ana_run_bound_begin(const ana_setup *setup, const ana_balancing *balancing, arena *memory,
                           ana_run_bound *bound);

/// Notes the iterations that nobody has asked for.
///
/// @param total_ns out: of the whole run; 0: nothing is proven
status ana_run_bound_finish(ana_run_bound *bound, int64_t *total_ns, error_message *err);

void ana_run_bound_free(ana_run_bound *bound);

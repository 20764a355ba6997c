/// What no contiguous plan, no balancer and no order of ops makes a run shorter than.
#pragma once

#include "analysis/study/setup.h"
#include "base/status.h"

#include <stdint.h>

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
/// @param total_ns out: of the whole run; 0: nothing is proven
/// @return what the source of costs returns
status ana_run_bound(const ana_setup *setup, const ana_balancing *balancing, int64_t *total_ns,
                     error_message *err);

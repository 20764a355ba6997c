/// Proven lower bounds of the largest load: what no plan beats.
#pragma once

#include "balance/partition/chain.h"

#include <stdint.h>

/// The largest load of a rank, all its chunks together, is never below this, whichever rank owns
/// which layer, in any order and with empty ranks: the smallest load at which the ranks together
/// could take all weights if layers were divisible, and at which every layer alone fits the load of
/// some rank. With equal ranks that is max(ceil(total / ranks), largest layer). Memory caps and
/// transfers are not counted.
///
/// Time O(log(largest load) * stage_count + layer_count * stage_count).
int64_t bal_assignment_lower_bound(const bal_chain *chain);

/// Its two parts. The load of a layer alone on the rank where that is least, in O(stage_count); and
/// the smallest load, not below least, at which the ranks could take all weights if layers were
/// divisible, of which only the total is read. Time O(log(largest load) * stage_count).
int64_t bal_layer_load_min(const bal_chain *chain, int layer);
int64_t bal_divisible_lower_bound(const bal_chain *chain, int64_t least);

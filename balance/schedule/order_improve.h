/// Improves an order by moving single ops.
#pragma once

#include "balance/schedule/order_search.h"

/// The largest orders that are improved, and what that may cost in ops played.
enum { BAL_IMPROVED_OPS_MAX = 512, BAL_IMPROVING_OPS_MAX = 100000 };

/// Moves one op of one rank earlier or later, by one to three places, as long as that makes the
/// best order of a search better; stops where no such move does, where the span is proven least, or
/// when the work is spent. Deterministic.
///
/// @param find holds a best order
///
/// Orders of more than BAL_IMPROVED_OPS_MAX ops are left as they are: too few moves could be tried.
/// Time: about BAL_IMPROVING_OPS_MAX ops played, 0.4 ms.
void bal_order_search_improve(bal_order_search *find);

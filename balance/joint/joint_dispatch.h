/// Writes orders by dispatching: whenever a rank is idle, a rule chooses what it runs next.
#pragma once

#include "balance/joint/joint_order.h"

#include <stdbool.h>

/// How a rank chooses among ops that may begin. Ops that could begin earliest come first.
typedef struct bal_joint_rule {
    int warmup_quarters; // rank r of P runs at most this many quarters of P - r forwards of its
                         // first chunk ahead of their B; 0: as many as memory allows
    bool forward_first;  // of an F and a B that may begin together
    bool outer_first;    // of two chunks, the first (in model order) before the second
    int gap_quarters;    // a W starts in a gap of at least so many quarters of its time
    const bal_joint_code *given; // [rank_count][line_op_count] or NULL: F and B in the order of
                                 // these lines, only W are placed anew
} bal_joint_rule;

/// Dispatches all ops for the costs on the board, within its memory.
///
/// @param lines [rank_count][line_op_count] out: of lines that fit; worthless on failure
/// @return false where memory stops every rank: not with caps that every rank's one microbatch at a
///         time fits, unless given asks for more
/// Time O(ops * rank_count). Uses the board's scratch.
bool bal_joint_dispatch(bal_joint_board *board, const bal_joint_rule *rule, bal_joint_code *lines);

/// The balancers behind the table of balancer.h, one per file balancer_<name>.c. Only balancer.c
/// and they include this.
#pragma once

#include "balance/balancer.h"

typedef status bal_balance_function(const bal_problem *problem, const bal_chain *chain,
                                    arena *memory, bal_answer *answer, error_message *err);

bal_balance_function bal_balance_even;
bal_balance_function bal_balance_tuned;
bal_balance_function bal_balance_partition;

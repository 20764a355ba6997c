/// The balancers behind the table of balancer.h, one per file balancer_<name>.c. Only balancer.c
/// and they include this.
#pragma once

#include "balance/balancer.h"

typedef status bal_balance_function(const bal_problem *problem, const bal_chain *chain,
                                    arena *memory, bal_answer *answer, error_message *err);

bal_balance_function bal_balance_even;
bal_balance_function bal_balance_parameters;
bal_balance_function bal_balance_parameters_legacy;
bal_balance_function bal_balance_tuned;
bal_balance_function bal_balance_partition;
bal_balance_function bal_balance_diffusion_published;
bal_balance_function bal_balance_diffusion_coded;
bal_balance_function bal_balance_diffusion;
bal_balance_function bal_balance_makespan;

/// The cuts of `even`.
///
/// @param first_layer [stage_count + 1] out
void bal_even_cuts(const bal_chain *chain, int *first_layer);

/// DeepSpeed's answer where there are at most as many layers as stages: one each, then none.
///
/// @param first_layer [stage_count + 1] out
void bal_one_layer_each(const bal_chain *chain, int *first_layer);

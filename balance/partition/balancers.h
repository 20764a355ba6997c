/// The balancers behind the table of balancer.h, one per file balancer_<name>.c. Only balancer.c
/// and they include this.
#pragma once

#include "balance/partition/balancer.h"

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
bal_balance_function bal_balance_v_partition;
bal_balance_function bal_balance_interleaved_partition;

/// The cuts of `even`.
///
/// @param first_layer [stage_count + 1] out
void bal_even_cuts(const bal_chain *chain, int *first_layer);

/// DeepSpeed's answer where there are at most as many layers as stages: one each, then none.
///
/// @param first_layer [stage_count + 1] out
void bal_one_layer_each(const bal_chain *chain, int *first_layer);

/// The rank that holds each layer under the plan in force, which has the problem's chunks and
/// placement, and the rank at each place of the new plan; both carved from memory.
///
/// @param owner      out: [layer_count]
/// @param place_rank out: [stage_count / chunk_count]
status bal_current_owners(const bal_problem *problem, const bal_chain *chain, arena *memory,
                          int **owner, int **place_rank, error_message *err);

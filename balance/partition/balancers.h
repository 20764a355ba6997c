/// The functions of the table in balancer.c, which only it and they
/// include.
#pragma once

#include "balance/partition/balancer.h"

typedef status bal_balance_function(const bal_problem *problem, const bal_chain *chain,
                                    arena *memory, bal_answer *answer, error_message *err);

bal_balance_function bal_balance_even;
bal_balance_function bal_balance_tuned;
bal_balance_function bal_balance_parameters;
bal_balance_function bal_balance_parameters_legacy;
bal_balance_function bal_balance_partition;
bal_balance_function bal_balance_diffusion_published;
bal_balance_function bal_balance_diffusion_coded;
bal_balance_function bal_balance_diffusion;
bal_balance_function bal_balance_makespan;

/// The cuts of `even`: as many transformer layers on every stage.
///
/// @param first_layer [stage_count + 1] out
void bal_even_cuts(const bal_chain *chain, int *first_layer);

/// Stages of the plan in force, which may be another number than the problem's.
int bal_current_stages(const bal_problem *problem);

/// The rank that holds each layer under the plan in force, which has the problem's chunks and
/// placement, and the rank at each place of the new plan; both carved from memory.
///
/// @param owner      out: [layer_count]
/// @param place_rank out: [stage_count / chunk_count]
void bal_current_owners(const bal_problem *problem, const bal_chain *chain, arena *memory,
                        int **owner, int **place_rank);

/// The functions of the table in balancer.c, which only it and they
/// include.
#pragma once

#include "balance/partition/balancer.h"

typedef status bal_balance_function(const bal_problem *problem, const bal_chain *chain,
                                    arena *memory, bal_answer *answer, error_message *err);

bal_balance_function bal_balance_even;
bal_balance_function bal_balance_given;
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

/// The plan that moves the fewest bytes from the one in force within load_cap_ns, as
/// bal_partition_chunks_moved_bytes.
///
/// @param first_layer [stage_count + 1] out
status bal_fewest_moved_bytes(const bal_problem *problem, const bal_chain *chain, arena *memory,
                              int *first_layer, int64_t *moved_bytes, error_message *err);

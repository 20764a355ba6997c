/// The balancer `diffusion` without a leader: every rank knows the costs of its own layers, and
/// speaks to its neighbours in the pipeline only. Costs go in two waves along the chain of ranks,
/// to the last and to the first; then each takes the core's steps and keeps the cuts of its stage.
/// So a rank sends two messages, and the result is that of the core's balancer.
#pragma once

#include "base/arena.h"
#include "base/status.h"
#include "exec/transport/group.h"

#include <stdbool.h>
#include <stdint.h>

/// What all ranks know of the chain. Stage s belongs to rank s of the group. The arrays are those
/// of bal_problem.
typedef struct exec_diffusion_rules {
    int layer_count;
    bool allow_empty_stages;
    bool embedding;
    bool head;
    bool by_transfer;                     // loads count transfers, as BAL_WEIGHT_TIME_TRANSFER
    const int64_t *stage_memory_bytes;    // [rank_count] or NULL
    const int64_t *stage_inflight;        // [rank_count] or NULL
    const int64_t *stage_time_factor_ppb; // [rank_count] or NULL
    const int64_t *stage_fixed_ns;        // [rank_count] or NULL
} exec_diffusion_rules;

/// What a rank knows of its own layers.
typedef struct exec_diffusion_layers {
    int first_layer; // in the plan in force; end_layer is the first_layer of the next rank
    int end_layer;
    const int64_t *weight;           // [end_layer - first_layer] >= 0
    const int64_t *state_bytes;      // [end_layer - first_layer] or NULL: 0
    const int64_t *activation_bytes; // [end_layer - first_layer] or NULL: 0
    const int64_t *transfer_ns;      // [end_layer - first_layer] or NULL: 0
} exec_diffusion_layers;

typedef struct exec_diffusion_answer {
    int first_layer; // of the caller's stage
    int end_layer;
} exec_diffusion_answer;

/// Collective over the group.
///
/// @param memory for the arrays of the call, of the size of the chain
/// @return on all ranks alike: STATUS_INFEASIBLE, where the core's balancer returns it;
///         STATUS_INVALID for weights that are negative or do not fit 64 bits
status exec_distributed_diffusion(const exec_group *group, const exec_diffusion_rules *rules,
                                  const exec_diffusion_layers *own, arena *memory,
                                  exec_diffusion_answer *answer, error_message *err);

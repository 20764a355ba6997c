/// The balancer `diffusion` as it is meant to run: every rank knows the costs of its own layers,
/// and speaks to its neighbours in the pipeline only. The result is that of the core's balancer.
///
/// Messages go in waves along the chain of ranks, from the first to the last and back:
///
///   ->  sums of weights in front of each rank            <-  the total, and the level of the flow
///   ->  costs of layers whose stage is further back    <-  of those in front, and the cuts
///   ->  costs that the rules have left to a later stage  (<- whether all fits, if there are caps)
///   ->  <-  the local search, once per sweep until nothing moves
///
/// So a rank sends at most two messages per pair of waves, of sizes that follow how many layers
/// change their stage. Where memory caps forbid the rounded cuts, the costs of all layers go along
/// the chain to the first rank, which takes the core's way, and the cuts come back.
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
    int sweep_count;       // of the local search
    int64_t message_count; // sent by the caller
    int64_t message_bytes; // of their payloads
    bool was_gathered;     // caps have forbidden the rounded cuts
} exec_diffusion_answer;

/// Collective over the group.
///
/// @param memory for the arrays of the call, of the size of the chain
/// @return STATUS_INFEASIBLE on the first rank, where the core's balancer returns it;
///         STATUS_INVALID for weights that are negative or do not fit 64 bits
///
/// Time O(rank_count) messages one after the other per wave.
status exec_distributed_diffusion(const exec_group *group, const exec_diffusion_rules *rules,
                                  const exec_diffusion_layers *own, arena *memory,
                                  exec_diffusion_answer *answer, error_message *err);

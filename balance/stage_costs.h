/// What the stages of a plan cost: what a schedule is compiled from and what a player plays.
#pragma once

#include "balance/layer_costs.h"
#include "balance/machine.h"
#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/// Where the chunks of a rank stand in model order, with P ranks and V chunks per rank.
typedef enum bal_placement {
    BAL_PLACEMENT_LOOP, ///< rank r owns stages r, P + r, 2P + r, ...
    BAL_PLACEMENT_V,    ///< V = 2: rank r owns stages r and 2P - 1 - r
} bal_placement;

/// "interleaved" or "v", as files spell it. Static storage.
const char *bal_placement_name(bal_placement placement);

/// The placement that files spell so. False, and placement untouched, for any other name.
bool bal_placement_find(const char *name, bal_placement *placement);

/// Stages are in model order; stage_count = rank_count * chunk_count. The arrays are borrowed.
typedef struct bal_stage_costs {
    int stage_count;
    int microbatch_count; // columns of the times: M, or 1 where one cost holds for every microbatch
    const int64_t *forward_ns;         // [stage_count][microbatch_count], >= 0
    const int64_t *backward_input_ns;  // [stage_count][microbatch_count], >= 0
    const int64_t *backward_weight_ns; // [stage_count][microbatch_count], >= 0
    const int64_t *send_forward_ns;    // [stage_count] end of F at s until its output is at s + 1;
                                       // not used for the last stage, and not where s + 1 is on
                                       // the same rank
    const int64_t *send_backward_ns;   // [stage_count] end of B (BW) at s until it is at s - 1
    const int64_t *memory_forward;     // [stage_count] change of memory when F begins
    const int64_t *memory_backward_input;  // [stage_count] change when B ends (both when BW ends)
    const int64_t *memory_backward_weight; // [stage_count] change when W ends
} bal_stage_costs;

/// The stage, in model order, of a chunk of a rank.
int bal_stage_of(bal_placement placement, int rank_count, int chunk_count, int rank, int chunk);

/// The rank that owns a stage, and with chunk != NULL which of its chunks it is.
int bal_rank_of_stage(bal_placement placement, int rank_count, int chunk_count, int stage,
                      int *chunk);

/// Sums layer costs over the stages of a partition.
///
/// @param first_layer      [stage_count + 1] model order; empty stages cost 0
/// @param rank_time_factor [machine->rank_count] or NULL: times of a rank's stages are multiplied
///                         by it (1.25 = a rank at 0.8x speed), rounded to the nearest ns
/// @param out arrays are carved from memory; sends are those of machine between the ranks of
///            neighbouring stages, 0 on the same rank; memory is activation_bytes at F,
///            gradient_bytes - activation_bytes at B, -gradient_bytes at W (0 where not known)
/// @return STATUS_INVALID if a sum does not fit int64 / 4.
status bal_stage_costs_from_layers(const bal_layer_costs *layers, const int *first_layer,
                                   int chunk_count, bal_placement placement,
                                   const bal_machine *machine, const double *rank_time_factor,
                                   arena *memory, bal_stage_costs *out, error_message *err);

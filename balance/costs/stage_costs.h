/// What the stages of a plan cost: what a schedule is compiled from and what a player plays.
#pragma once

#include "balance/costs/layer_costs.h"
#include "balance/costs/machine.h"
#include "balance/costs/placement.h"
#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/// Stages are in model order; stage_count = rank_count * chunk_count. The arrays are borrowed.
/// times_ns and memory_changes are F, B and W, sends_ns what they send: the same arrays, for code
/// that treats them alike.
typedef struct bal_stage_costs {
    int stage_count;
    int microbatch_count; // columns of the times: M, or 1 where one cost holds for every microbatch
    union {
        struct {
            const int64_t *forward_ns;         // [stage_count][microbatch_count], >= 0
            const int64_t *backward_input_ns;  // [stage_count][microbatch_count], >= 0
            const int64_t *backward_weight_ns; // [stage_count][microbatch_count], >= 0
        };
        const int64_t *times_ns[BAL_COST_TIMES_COUNT];
    };
    union {
        struct {
            const int64_t *send_forward_ns;  // [stage_count] end of F at s until its output is at
                                             // s + 1; not used for the last stage, and not where
                                             // s + 1 is on the same rank
            const int64_t *send_backward_ns; // [stage_count] end of B (BW) at s until it is at
                                             // s - 1
        };
        const int64_t *sends_ns[2];
    };
    const int64_t *message_delay_ns; // [2][stage_count][microbatch_count], >= 0, or NULL: added to
                                     // the way of each message: [0] outputs of F, [1] gradients of
                                     // B (BW) of the stage that sends; not used where
                                     // send_forward_ns and send_backward_ns are not
    union {
        struct {
            const int64_t *memory_forward;         // [stage_count] change when F begins
            const int64_t *memory_backward_input;  // [stage_count] change when B ends (both when BW
                                                   // ends)
            const int64_t *memory_backward_weight; // [stage_count] change when W ends
        };
        const int64_t *memory_changes[BAL_COST_TIMES_COUNT];
    };
} bal_stage_costs;

/// How the first stage goes backward, as files and options spell it: "split" or "whole".
extern const char *const bal_first_stage_backward_names[2];

/// Makes the backward of every first stage whole: its B takes B + W and releases what both release,
/// its W takes nothing. Nobody waits for a first stage's gradient, and PyTorch's pipelining
/// therefore does all of its backward at once: in W, or in B where the order has no W
/// (backward_one_chunk and backward_weight_one_chunk of torch.distributed.pipelining.stage).
///
/// @param costs the changed arrays are carved from memory
void bal_stage_costs_join_first(bal_placement placement, int rank_count, arena *memory,
                                bal_stage_costs *costs);

/// Sums layer costs over the stages of a partition.
///
/// @param plan             empty stages cost 0; its machine ranks are ranks of machine
/// @param machine          at least as many ranks as the plan has
/// @param rank_time_factor [machine->rank_count] or NULL: times of a rank's stages are multiplied
///                         by it (1.25 = a rank at 0.8x speed), rounded to the nearest ns
/// @param out arrays are carved from memory; sends are those of machine between the ranks of
///            neighbouring stages, 0 on the same rank; memory is activation_bytes at F,
///            gradient_bytes - activation_bytes at B, -gradient_bytes at W (0 where not known);
///            the first stage as layers->first_stage_whole says
/// @return STATUS_INVALID if a sum does not fit int64 / 4.
status bal_stage_costs_from_layers(const bal_layer_costs *layers, const bal_placed_partition *plan,
                                   const bal_machine *machine, const double *rank_time_factor,
                                   arena *memory, bal_stage_costs *out, error_message *err);

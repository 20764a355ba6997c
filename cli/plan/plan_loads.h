/// The file of `dynmo plan --loads`: what the layers and stages of one decision cost.
#pragma once

#include "balance/plan.h"
#include "balance/problem.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/status.h"
#include "base/text.h"
#include "cli/command.h"

/// The ranks that a plan is for.
typedef struct cli_plan_shape {
    int rank_count;
    int chunk_count;
    bal_placement placement;
} cli_plan_shape;

/// A problem of this shape, without layers, of which nothing is known.
bal_problem cli_plan_problem_of(cli_plan_shape shape);

/// Reads the object that `dynmo plan --help` shows. Every key but forward_ns may be missing;
/// missing times are 0, anything else missing is not known.
///
/// With several chunks per rank P is the number of ranks: stage_memory_bytes caps all chunks of a
/// rank together, stage_time_factor is of its speed, and stage_inflight and stage_fixed_ns hold for
/// each of its chunks, or have an entry for each of the P * V stages in model order.
///
/// @param path  "-" is standard input
/// @param shape what the stages are: rank_count ranks of chunk_count chunks
/// @param problem layers, and what the file says of stages and ranks; arrays are carved from
/// memory.
///                load_cap_ns is -1 where it is not given
/// @return STATUS_IO; STATUS_FORMAT naming file and key. problem is then untouched.
status cli_plan_loads_read(const char *path, cli_plan_shape shape, arena *memory,
                           bal_problem *problem, error_message *err);

/// The same of a recorded trace: what its layers were charged, as replays take it, means over the
/// samples of a range of iterations; memory as in the last of them. Nothing is known of stages.
///
/// @param path        a run store; its only complete trace, or the one that was begun last
/// @param first, last iterations as recorded, both included
/// @param sample_count out
/// @return as the store's readers; STATUS_INVALID where no iteration of the range was sampled
status cli_plan_loads_of_trace(const char *path, int first, int last, cli_plan_shape shape,
                               arena *memory, bal_problem *problem, int *sample_count,
                               error_message *err);

/// Opens the file for cli_plan_loads_of, which may then read it for several shapes.
///
/// @param loads out: the object, which closes with memory
/// @return as json_open
status cli_plan_loads_open(const char *path, arena *memory, json_value *loads, error_message *err);

/// As cli_plan_loads_read, from an object that is open already.
status cli_plan_loads_of(json_value object, cli_plan_shape shape, arena *memory,
                         bal_problem *problem, error_message *err);

// `dynmo plan --balancer makespan --schedule any`: partition, placement, schedule and order
// together.

/// Searches, has the static engine play what was found, and prints it.
///
/// @param problem layers and ranks; microbatch_count as given
/// @param chunks  0: whichever number is better
/// @param plan    out: what was found, in memory, without stage_ranks
/// @return STATUS_INVALID naming an option that does not go with it; what bal_joint_search refuses
status cli_plan_joint(const cli_arguments *arguments, const bal_problem *problem, int chunks,
                      arena *memory, text_buffer *out, bal_plan *plan, error_message *err);

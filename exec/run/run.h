/// What a rank of an execution has, and the commands that all ranks carry out together.
///
/// The leader makes a command, shares it with the crew, and carries it out like everybody else;
/// what the ranks answer is gathered at it. The others do what they are told until the end.
/// Sleeping ranks are only told what concerns them: a change of who is active, and the end.
#pragma once

#include "balance/machine.h"
#include "base/arena.h"
#include "base/status.h"
#include "exec/device.h"
#include "exec/run/execution.h"
#include "exec/run/run_costs.h"
#include "exec/run/run_migration.h"
#include "exec/run/run_plan.h"
#include "exec/run/run_ranks.h"
#include "exec/run/run_reports.h"
#include "exec/transport/parcel.h"

#include <stdbool.h>
#include <stdint.h>

/// What all ranks know of the run from the start.
typedef struct exec_run_terms {
    bal_machine machine;
    int replica_count;
    int layer_count;
    int64_t time_scale_ppb; // by which a modelled device and its transfers are stretched
} exec_run_terms;

typedef enum exec_command_kind {
    EXEC_COMMAND_MOVE,    ///< take a plan into force; the answers are exec_move_answer
    EXEC_COMMAND_ITERATE, ///< play an iteration; the answers are reports (run_reports.h)
    EXEC_COMMAND_DIFFUSE, ///< decide among each other; the answers are exec_diffused_answer
    EXEC_COMMAND_PACK,    ///< tell the state of the layers; the answers are exec_packed_answer
    EXEC_COMMAND_END,     ///< no answers
} exec_command_kind;

/// Where the layers of a plan come from.
typedef enum exec_layer_origin {
    EXEC_ORIGIN_PEERS,  ///< other ranks, or they are here already
    EXEC_ORIGIN_SEED,   ///< a device that learns makes them
    EXEC_ORIGIN_LEADER, ///< a checkpoint that the leader has read
} exec_layer_origin;

/// The head of a command; what it needs follows in the parcel.
typedef struct exec_command {
    exec_command_kind kind;
    int iteration;
    exec_layer_origin origin; // MOVE; the plan, the legs and the release of each rank follow
    int leg_count;            // MOVE
    bool paces;               // MOVE: transfers last
    bool changes_ranks;       // MOVE: others are active behind it, so that it concerns all
    bool has_costs;           // ITERATE: costs are shared next; the factors of each rank follow
    bool is_profiled;         // ITERATE
    bool wants_bytes;         // PACK: state, not only its hash
} exec_command;

typedef struct exec_move_answer {
    int64_t free_ns; // clock behind the last transfer, 0 without one
    int64_t bytes;   // packed state that came
} exec_move_answer;

/// What all ranks know of the problem; behind it in the command those of the arrays of stages that
/// the flags name, in their order.
typedef struct exec_diffuse_terms {
    bool allow_empty_stages;
    bool embedding;
    bool head;
    bool by_parameters; // layers are weighed by them; else by time
    bool has_array[4];  // stage_memory_bytes, stage_inflight, stage_time_factor_ppb,
                        // stage_fixed_ns: [places] each
} exec_diffuse_terms;

/// What a place has decided; place -1 of a leader whose rank has been released.
typedef struct exec_diffused_answer {
    int64_t place;
    int64_t first_layer;
    int64_t end_layer;
} exec_diffused_answer;

/// One layer of the first replica; with wants_bytes byte_count bytes follow.
typedef struct exec_packed_answer {
    int64_t layer;
    int64_t byte_count;
    uint64_t hash; // file_hash of the bytes
} exec_packed_answer;

/// A rank. Must stay where it is.
typedef struct exec_run {
    exec_endpoint *endpoint;
    const exec_training *training;
    exec_run_terms terms;
    exec_device *device;
    exec_run_ranks ranks;
    exec_run_costs costs; // of a modelled device
    exec_run_plan plans[2];
    int plan_index;         // the one in force; the other is the one before
    bool has_sends;         // costs know how long messages travel under the plan in force
    exec_parcel command;    // at hand
    exec_parcel answer;     // of this rank
    exec_gathered gathered; // leader: all answers; in scratch
    int *order_count;       // [world] commands sent to each sleeping rank; elsewhere the own entry
    arena *memory;          // for as long as the run
    arena *scratch;         // of a command
} exec_run;

/// Makes the rank ready for its first command. Collective.
///
/// @param terms read at the leader only
status exec_run_open(exec_run *run, exec_endpoint *endpoint, const exec_training *training,
                     const exec_run_terms *terms, error_message *err);
void exec_run_close(exec_run *run);

const exec_run_plan *exec_run_plan_in_force(const exec_run *run);

/// Leader: begins a command in run->command. What follows it is put there before it is given.
status exec_run_begin_command(exec_run *run, const exec_command *command);

/// Leader: shares the command with whom it concerns, carries it out, and gathers the answers.
status exec_run_give_command(exec_run *run, error_message *err);

/// All others: carry out commands until the end.
status exec_run_follow(exec_run *run, error_message *err);

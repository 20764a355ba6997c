/// The rank that leads an execution: it knows the costs, asks the controller, gives the commands
/// (run.h) and keeps the record.
#pragma once

#include "balance/control/controller.h"
#include "balance/run/iteration_times.h"
#include "balance/run/training.h"
#include "balance/run/training_costs.h"
#include "balance/run/training_ledger.h"
#include "base/arena.h"
#include "base/status.h"
#include "exec/run/checkpoint_file.h"
#include "exec/run/execution.h"
#include "exec/run/run.h"

#include <stdbool.h>
#include <stdint.h>

/// A plan that is to be taken into force.
typedef struct exec_next_plan {
    bal_placed_partition placed;
    const bal_schedule *order;      // or NULL: what the run's schedule makes of it
    const bal_layer_costs *layers;  // what a searched order goes by; NULL: not known
    const bal_migration *migration; // or NULL: nothing moves
    const bal_layer_costs *moving;  // with migration: whose state_bytes are on their way
    int microbatch_count;
    exec_layer_origin origin;
    const exec_checkpoint *checkpoint; // with EXEC_ORIGIN_LEADER
} exec_next_plan;

/// What taking it into force took.
typedef struct exec_move_times {
    int64_t elapsed_ns; // on the leader's clock
    int64_t finish_ns;  // of the last transfer, by the clocks of the ranks
    int64_t bytes;      // packed state that travelled, of all replicas
} exec_move_times;

/// Must stay where it is.
typedef struct exec_leader {
    exec_run run; // the leader is a rank, too
    const exec_training *execution;
    bal_training training; // as given; of a device that learns with a source that has no costs
    bal_cost_source stand_in;
    bool learns;
    bool is_nominal;            // nothing is measured: modelled device, nominal clock
    int first_iteration;        // that is executed: behind the checkpoint's
    bal_controller *controller; // NULL: the plan stays, or forced ones come
    bool is_controlled;         // the controller has started
    int microbatch_count;       // in force: re-packing may choose another

    arena *memory; // the caller's, of the result
    arena *iteration_memory;
    arena *layer_memory; // of layers that were measured
    arena *profile_memory;
    arena *plan_memory[2]; // of what follows from each of the run's two plans
    arena *next_memory;    // of the one to come

    bal_training_costs costs; // of a modelled device
    bool costs_told;          // the crew has those that were told last
    bool is_changed;          // costs of the iteration at hand are others than before; of sources
                              // that announce it and of mechanisms: the model has changed before it
    bool is_announced;        // the latter
    double *rank_time_factor; // [machine ranks]
    bal_layer_costs *replicas; // [data_parallel] of the iteration, as given or measured
    bal_layer_costs profile;   // of all replicas, as the controller sees them
    bal_layer_costs ahead;     // of the iteration that follows, for foresight
    const int *last_backward;  // [stage_count] of the plan in force
    const int *rank_of_layer;  // [layer_count] of the plan in force

    exec_run_reports reports;
    bal_played_plan played;
    bal_iteration_times times;
    exec_move_times moved; // behind the iteration
    int64_t *rank_end_ns;  // [machine ranks]
    int64_t *peak_memory;  // [machine ranks]
    bal_decision decision; // the last
    bal_diffuser diffuser; // with distributes_decisions: the leader's part of it
    bool has_profile;      // the ranks have measured their layers in the iteration at hand
    int iteration;         // at hand
    bal_training_ledger ledger;
    uint64_t state_hash;
} exec_leader;

/// Leads the run from its start to its end.
status exec_lead(exec_endpoint *endpoint, const exec_training *execution, arena *memory,
                 bal_training_result *result, error_message *err);

// The parts of it.

/// The partition of a plan that came in a file.
bal_placed_partition exec_placed_of(const bal_plan *plan);

/// Takes a plan into force on all ranks.
///
/// @param iteration behind which it comes, for the activity of the ranks
status exec_leader_move(exec_leader *leader, const exec_next_plan *next, int iteration,
                        exec_move_times *times, error_message *err);

/// Takes the plan of the start into force.
status exec_leader_start(exec_leader *leader, error_message *err);

/// Has an iteration played, and measures it: replicas, profile, played and times are then its own.
status exec_leader_iterate(exec_leader *leader, int iteration, error_message *err);

/// Asks the controller behind an iteration and has layers moved; fills what the record says of it.
status exec_leader_decide(exec_leader *leader, bal_training_iteration *record, error_message *err);

/// Checks whether ranks can decide among themselves, and has the controller ask them.
///
/// @return STATUS_UNSUPPORTED naming what stands against it
status exec_leader_distribute(exec_leader *leader, error_message *err);

/// What the record says of an iteration before anything is decided.
status exec_leader_describe(exec_leader *leader, bal_training_iteration *record,
                            error_message *err);

/// Closes the record of an iteration and hands it to sink and listener.
status exec_leader_put(exec_leader *leader, bal_training_iteration *record, error_message *err);

/// Reads the checkpoint that the run goes on from, and sets first_iteration.
status exec_leader_read_checkpoint(exec_leader *leader, exec_checkpoint *checkpoint,
                                   error_message *err);

/// Sends the state of every layer to the ranks that shall hold it, in all replicas. They receive it
/// when they take the plan of the start.
status exec_leader_hand_out(exec_leader *leader, const exec_checkpoint *checkpoint,
                            const bal_placed_partition *placed, error_message *err);

/// Behind an iteration: writes the checkpoint if one is due, and of a device that learns notes the
/// hash of the state behind the last.
status exec_leader_save(exec_leader *leader, int iteration, error_message *err);

/// An execution from inside: what every rank has, the commands that all carry out together, and the
/// rank that leads (README.md).
#pragma once

#include "balance/control/controller.h"
#include "balance/costs/layer_costs.h"
#include "balance/costs/machine.h"
#include "balance/costs/placement.h"
#include "balance/migration/migration.h"
#include "balance/run/iteration_times.h"
#include "balance/run/training.h"
#include "balance/run/training_costs.h"
#include "balance/run/training_ledger.h"
#include "balance/schedule/schedule.h"
#include "base/arena.h"
#include "base/status.h"
#include "exec/device/device.h"
#include "exec/run/execution.h"
#include "exec/run/rank.h"
#include "exec/transport/group.h"
#include "exec/transport/transport.h"

#include <stdbool.h>
#include <stdint.h>

enum { EXEC_LEADER = 0 };

// Who takes part

/// Which ranks of the world take part, and the groups in which they speak. The world are
/// replica_count machines of rank_count ranks each. A rank of the machine is active where the plan
/// gives it a place of the pipeline, in every replica.
typedef struct exec_run_ranks {
    exec_endpoint *endpoint;
    int replica_count;
    int rank_count;      // of the machine
    int replica;         // of this rank
    int machine_rank;    // of this rank
    int *place;          // [endpoint->rank_count] in the pipeline of its replica, before the first
                         // plan in the world; -1: released
    exec_group world;    // all ranks
    exec_group awake;    // the active ones of all replicas and the leader: who hears every command
    exec_group pipeline; // the active ones of this rank's replica; of a released rank empty
    exec_group replicas; // this rank of the machine in all replicas
} exec_run_ranks;

/// The rank of the world that a rank of the machine is in a replica.
int exec_run_world_rank(const exec_run_ranks *ranks, int replica, int machine_rank);

/// The place of a rank of the machine under a plan; -1: none.
int exec_run_place_of(const bal_placed_partition *plan, int machine_rank);

/// Whether a plan has ranks at other places than they are at.
bool exec_run_ranks_differ(const exec_run_ranks *ranks, const bal_placed_partition *plan);

/// Makes the ranks of a plan the active ones. All ranks of the world must be awake.
void exec_run_ranks_activate(exec_run_ranks *ranks, const bal_placed_partition *plan);

// What all know: the plan and the costs

/// The plan as every rank has it. Zero-initialise; its arrays are in memory, which is its own.
typedef struct exec_run_plan {
    arena *memory;
    bal_placed_partition placed; // with machine_rank
    bal_schedule schedule;       // one order for all replicas
    int place;                   // of this rank; -1: none
    exec_program program;        // of the place; no steps without one
    const int *rank_of_layer;    // [layers of the model] rank of the machine
    const int *layer;            // [layer_count] that this rank holds, in model order
    int layer_count;
} exec_run_plan;

/// What the layers cost, as the leader tells the ranks of a modelled device: once, and again only
/// when a number is another. Zero-initialise; packet and memory are its own.
typedef struct exec_run_costs {
    exec_packet packet;             // what the leader told last
    bal_layer_costs layers;         // of this rank's replica; its arrays are in the packet
    arena *memory;                  // of the sends
    const int64_t *send_forward_ns; // [stage_count] as bal_stage_costs, or NULL: take no time
    const int64_t *send_backward_ns;
} exec_run_costs;

// Commands and answers

typedef enum exec_command_kind {
    EXEC_COMMAND_MOVE,    ///< take a plan into force (run_move.c)
    EXEC_COMMAND_ITERATE, ///< play an iteration (run_iterate.c); the answers are reports
    EXEC_COMMAND_DIFFUSE, ///< decide among each other (run_diffuse.c)
    EXEC_COMMAND_HASH,    ///< tell the state of the layers as numbers (run.c)
    EXEC_COMMAND_END,     ///< no answers
} exec_command_kind;

/// The head of a command; what it needs follows in the packet.
typedef struct exec_command {
    exec_command_kind kind;
    int iteration;
    int leg_count;      // MOVE; the plan, the legs and the release of each rank follow
    bool is_start;      // MOVE: a device that learns makes its layers; else they come from others
    bool paces;         // MOVE: transfers last
    bool changes_ranks; // MOVE: others are active after it, so that it concerns all
    bool has_costs;     // ITERATE: costs are shared next; the factors of each rank follow
} exec_command;

/// In front of the packed state of a layer in its packet.
typedef struct exec_layer_head {
    int64_t end_ns; // of the transfer
    int64_t byte_count;
    int64_t shipped_bytes; // that follow from device to device
} exec_layer_head;

/// Packs a layer of the device into a packet, after what is in it.
status exec_packet_pack(exec_packet *packet, exec_device *device, int layer, error_message *err);

/// A clock beside the leader's.
typedef struct exec_clock_offset {
    bool is_known;
    int64_t offset_ns;   // this clock less the leader's; 0: it may be the same
    int64_t residual_ns; // by which that may be wrong, at
    int64_t heard_ns;    // the leader's last answer, by this clock
} exec_clock_offset;

/// What one rank tells of an iteration.
typedef struct exec_rank_report {
    exec_rank_times times;
    int step_count;     // 0 without a place
    int64_t reduced_ns; // of the gradients, from when all ranks had played their ops, in the last
                        // iteration that reduced then
    int64_t reduced_end_ns; // where ops hide it: since the iteration's begin; else 0
    int64_t stepped_ns;     // until after step and adapt, from when all ranks had played
    bool has_loss;          // the head is on this rank
    bool has_changed;       // the mechanism's loads may be others from now on
    double loss;
    double gradient_norm;
    exec_clock_offset clock;
    exec_layer_report layers; // layer_count 0: not told
} exec_rank_report;

/// Puts the report of this rank into a packet for the leader.
void exec_rank_report_put(exec_packet *packet, const exec_rank_report *report);

/// What all ranks that are awake have told, as the leader reads it.
typedef struct exec_run_reports {
    exec_measured measured;  // timelines to clocks; the rest is the leader's to fill
    bal_layer_costs *layers; // [replica_count] where they were measured, one column per
                             // microbatch; else NULL
    bool has_changed;
    int64_t reduced_ns;                 // largest over the ranks
    int64_t reduced_end_ns, stepped_ns; // likewise
} exec_run_reports;

/// Reads the reports of an iteration.
///
/// @param answers      of the ranks that are awake
/// @param plan         in force during it
/// @param memory  of all arrays
/// @param reports out
void exec_run_reports_read(exec_packet *answers, const exec_run_ranks *ranks,
                           const exec_run_plan *plan, int layer_count, arena *memory,
                           exec_run_reports *reports);

// A rank

/// What all ranks know of the run from the start.
typedef struct exec_run_terms {
    bal_machine machine;
    int replica_count;
    int layer_count;
    bal_reduction_overlap reduction_overlap; // of a device that learns
} exec_run_terms;

typedef struct exec_run {
    exec_endpoint *endpoint;
    const exec_training *training;
    exec_run_terms terms;
    exec_device *device;
    exec_run_ranks ranks;
    exec_clock_offset clock; // of this rank
    exec_run_costs costs;    // of a modelled device
    exec_run_plan plans[2];
    int plan_index;          // the one in force; the other is the one before
    int64_t reduced_ns;      // of a device that learns, after the ops; what it takes by itself
    bool is_reduction_timed; // of the plan in force
    bool has_sends;          // costs know how long messages travel under the plan in force
    exec_packet command;     // at hand
    exec_packet answer;      // of this rank
    exec_packet answers;     // leader: of all ranks, in their order; in scratch
    int *order_count;        // [world] commands sent to each sleeping rank; elsewhere the own entry
    arena *memory;           // for as long as the run
    arena *scratch;          // of a command
} exec_run;

/// Makes the rank ready for its first command. Collective.
///
/// @param terms read at the leader only
/// @return STATUS_INVALID if the world has another number of ranks
status exec_run_open(exec_run *run, exec_endpoint *endpoint, const exec_training *training,
                     const exec_run_terms *terms, error_message *err);
void exec_run_close(exec_run *run);

const exec_run_plan *exec_run_plan_in_force(const exec_run *run);

/// Every rank asks the leader for its time, again in each iteration: clocks drift. Collective among
/// those that are awake; where ranks are threads of one process nothing needs to be asked.
status exec_run_compare_clocks(exec_run *run, int iteration, error_message *err);

/// Leader: begins a command in run->command. What follows it is put there before it is given.
void exec_run_begin_command(exec_run *run, const exec_command *command);

/// Leader: shares the command with whom it concerns, carries it out, and gathers the answers.
status exec_run_give_command(exec_run *run, error_message *err);

/// All others: carry out commands until the end.
status exec_run_follow(exec_run *run, error_message *err);

/// Each reads what follows the head in run->command and fills run->answer.
status exec_run_move(exec_run *run, const exec_command *command, error_message *err);
status exec_run_iterate(exec_run *run, const exec_command *command, error_message *err);
status exec_run_diffuse(exec_run *run, const exec_command *command, error_message *err);

// The leader

/// A plan that is to be taken into force.
typedef struct exec_next_plan {
    bal_placed_partition placed;
    const bal_schedule *order;      // or NULL: what the run's schedule makes of it
    const bal_layer_costs *layers;  // what a searched order goes by
    const bal_migration *migration; // or NULL: nothing moves
    const bal_layer_costs *moving;  // with migration: whose state_bytes are on their way
    int microbatch_count;
    bool is_start; // nothing is held yet: layers come from the seed
} exec_next_plan;

/// What taking it into force took.
typedef struct exec_move_times {
    int64_t elapsed_ns;  // on the leader's clock, from the command to the last answer
    int64_t finish_ns;   // of the last transfer, by the clocks of the ranks
    int64_t bytes;       // packed state that travelled, of all replicas
    int64_t forecast_ns; // what it takes by the machine's links
} exec_move_times;

/// Must stay where it is.
typedef struct exec_leader {
    exec_run run; // the leader is a rank, too
    const exec_training *execution;
    bal_training training; // as given; of a device that learns with stand_in, which has no costs
    bal_cost_source stand_in;
    bool learns;
    bool is_nominal;            // nothing is measured: modelled device, nominal clock
    bal_controller *controller; // NULL: the plan stays, or forced ones come
    bool is_controlled;         // the controller has started
    int microbatch_count;       // in force: re-packing may choose another

    arena *memory; // the caller's, of the result
    arena *iteration_memory;
    arena *profile_memory;
    arena *next_memory; // of the plan to come

    bal_training_costs costs; // of a modelled device
    bool costs_told;          // the others have those that were told last
    bool is_changed;          // costs of the iteration at hand are others than before; of sources
                              // that announce it and of mechanisms: the model has changed before it
    bool is_announced;        // the latter
    double *rank_time_factor; // [machine ranks]
    bal_layer_costs *replicas; // [data_parallel] of the iteration, as given or measured
    bal_layer_costs profile;   // of all replicas, as the controller sees them
    bal_layer_costs ahead;     // of the iteration that follows, for foresight
    const int *last_backward;  // [stage_count] of the plan in force

    exec_run_reports reports;
    bal_played_plan played;
    bal_iteration_times times;
    exec_move_times moved; // after the iteration
    int64_t *rank_end_ns;  // [machine ranks]
    int64_t *peak_memory;  // [machine ranks]
    bal_decision decision; // the last
    bal_diffuser diffuser; // with distributes_decisions: the leader's part of it
    int iteration;         // at hand
    bal_training_ledger ledger;
} exec_leader;

/// Takes a plan into force on all ranks.
///
/// @param iteration after which it comes, for the activity of the ranks
status exec_leader_move(exec_leader *leader, const exec_next_plan *next, int iteration,
                        exec_move_times *times, error_message *err);

/// Has an iteration played, and measures it: replicas, profile, played and times are then its own.
status exec_leader_iterate(exec_leader *leader, int iteration, error_message *err);

/// Checks whether ranks can decide among themselves, and has the controller ask them.
///
/// @return STATUS_UNSUPPORTED naming what stands against it
status exec_leader_distribute(exec_leader *leader, error_message *err);

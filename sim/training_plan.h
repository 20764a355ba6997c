/// The plans of a training run as it plays them: the one in force, and those that a decision tries
/// out; what becomes of the ranks that a re-packed pipeline releases; and predictions for a player
/// that is not the simulator.
#pragma once

#include "balance/control/controller.h"
#include "balance/costs/layer_costs.h"
#include "balance/costs/machine.h"
#include "balance/costs/placement.h"
#include "balance/ports.h"
#include "balance/repack/repack.h"
#include "balance/run/training.h"
#include "balance/run/training_costs.h"
#include "balance/schedule/schedule.h"
#include "base/arena.h"
#include "base/status.h"
#include "sim/order_book.h"

#include <stdint.h>

/// The GPUs of a run under one plan.
typedef struct sim_gpu_use {
    bal_gpu_account account;
    int replica_count; // D, and the further ones that released ranks make
    int played_count;  // microbatches of the replica with the most
} sim_gpu_use;

/// Counts them. Under `replicate` what is left over counts as idle, and no node as free: the ranks
/// of further replicas may be anywhere.
///
/// @param layout           of the start
/// @param microbatch_count of each of the layout's replicas
sim_gpu_use sim_gpu_use_of(const bal_gpu_layout *layout, bal_released_use use,
                           const bal_placed_partition *plan, int microbatch_count, arena *scratch);

/// Time to make `further` replicas of `replica_count`: each sends all state of its layers, place by
/// place and layer by layer, over links between nodes to one new replica at a time. Saturates at
/// INT64_MAX / 4.
int64_t sim_replication_ns(const bal_machine *machine, const bal_layer_costs *layers,
                           const bal_placed_partition *plan, int replica_count, int further);

/// Filled by sim_training_plan_init.
typedef struct sim_training_plan {
    const bal_training *training;
    const bal_schedule_family *family;
    bal_placed_partition placed; // in force; meaningless with owner
    int *first_layer;            // [machine.rank_count * chunks + 1] of placed
    int *machine_rank;           // [machine.rank_count] of placed
    const int *owner;            // [layer_count] of a balancer without stages, else NULL
    int *rank_of_layer;          // [layer_count] of the machine, under either
    bal_batch batch;
    sim_gpu_use gpus;
    sim_order_book *orders;       // the caller's, or one of its own
    sim_compiled_order *searched; // the order in force of a searched schedule
    arena *trial_memory;
    bal_evaluator evaluator; // plays one replica of D, as if there were no further ones: the
                             // pipeline and the exposed reduction
} sim_training_plan;

/// @param plan   must stay where it is
/// @param orders borrowed for the life of the plan and used by nobody else meanwhile; what it has
///               compiled stays there for the next. NULL: the plan has its own
/// @param memory that the plan lives and ends with
void sim_training_plan_init(sim_training_plan *plan, const bal_training *training,
                            sim_order_book *orders, arena *memory);

/// Takes a decision's plan into force; a searched schedule is searched for these costs.
///
/// @param layers what the layers take on the ranks of the plan, as far as is known
/// @return what bal_schedule_build refuses
status sim_training_plan_enact(sim_training_plan *plan, const bal_decision *decision,
                               const bal_layer_costs *layers, error_message *err);

/// What a decision's plan would make of the GPUs. Where the schedule has no order for what further
/// replicas leave to each, the next number that it has one for is played.
sim_gpu_use sim_training_plan_gpus(sim_training_plan *plan, const bal_decision *decision);

/// The order of the plan in force.
///
/// @param order borrowed until an order is asked for again
status sim_training_plan_order(sim_training_plan *plan, sim_compiled_order **order,
                               error_message *err);

/// Makes the evaluator of a plan for bal_training_controller of a player that is not the simulator.
/// It keeps the orders that it has compiled, and serves one question at a time.
///
/// @param training  borrowed as long as the predictor is used; schedule, chunks, machine, barrier
///                  and overlap count, and of the sources layer_count alone: costs come with the
///                  question
/// @param memory    that the predictor lives and ends with
/// @param predictor out; untouched on failure
/// @return what bal_training_check refuses
status sim_predictor_create(const bal_training *training, arena *memory,
                            const bal_evaluator **predictor, error_message *err);

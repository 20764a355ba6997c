/// The plans of a training run as it plays them: the one in force, and those that a decision tries
/// out.
#pragma once

#include "balance/control/controller.h"
#include "balance/layer_costs.h"
#include "balance/partition/placed_partition.h"
#include "balance/ports.h"
#include "balance/run/training.h"
#include "balance/run/training_costs.h"
#include "balance/schedule/schedule.h"
#include "base/arena.h"
#include "base/status.h"
#include "sim/order_book.h"
#include "sim/released_ranks.h"

#include <stdint.h>

/// Filled by sim_training_plan_init; release with sim_training_plan_free.
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
    sim_order_book *orders; // of fixed schedules: the caller's, or own_orders
    sim_order_book own_orders;
    sim_compiled_order searched; // the order in force of a searched one
    arena *searched_memory;
    arena *trial_memory;
} sim_training_plan;

/// @param plan   must stay where it is
/// @param orders borrowed for the life of the plan and used by nobody else meanwhile; what it has
///               compiled stays there for the next. NULL: the plan has its own
/// @param memory for arrays that live as long as the run
status sim_training_plan_init(sim_training_plan *plan, const bal_training *training,
                              sim_order_book *orders, arena *memory);
void sim_training_plan_free(sim_training_plan *plan);

/// Takes a decision's plan into force; a searched schedule is searched for these costs.
///
/// @param layers what the layers take on the ranks of the plan, as far as is known
/// @return what bal_schedule_build and sim_gpu_use_of refuse
status sim_training_plan_enact(sim_training_plan *plan, const bal_decision *decision,
                               const bal_layer_costs *layers, error_message *err);

/// What a decision's plan would make of the GPUs. Where the schedule has no order for what further
/// replicas leave to each, the next number that it has one for is played.
status sim_training_plan_gpus(sim_training_plan *plan, const bal_decision *decision,
                              sim_gpu_use *gpus, error_message *err);

/// The order of the plan in force.
///
/// @param order borrowed until an order is asked for again
status sim_training_plan_order(sim_training_plan *plan, sim_compiled_order **order,
                               error_message *err);

/// Predicts an iteration by playing one replica of D, as if there were no further ones: the
/// pipeline and the exposed reduction. Costs have as many columns as the batch in force has
/// microbatches, or one.
///
/// @param plan must stay where it is
bal_evaluator sim_training_plan_evaluator(sim_training_plan *plan);

/// Decides after every iteration whether to keep the plan, to rebalance it or to re-pack it:
/// Algorithm 1 of the DynMo paper, the same object for every player.
///
/// The model changes at the end of an iteration; the first iteration with the new loads is
/// profiled; the decision falls, and layers migrate, at its end; the new plan is in force from the
/// iteration after it.
#pragma once

#include "balance/control/policy.h"
#include "balance/costs/machine.h"
#include "balance/costs/placement.h"
#include "balance/migration/migration.h"
#include "balance/migration/migration_plan.h"
#include "balance/partition/balancer.h"
#include "balance/rank_peaks.h"
#include "balance/repack/repack.h"
#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/// Zero-initialise, then fill by name. Pointers are borrowed as long as the controller is used.
typedef struct bal_controller_options {
    const bal_balancer *balancer; // a static one is asked for the plan of the start only
    bal_weight weight;
    bal_policy policy;
    bal_information information; // what a decision looks at
    bool announces_changes;      // of the cost source; else a detector tells (policy.h)
    double change_ratio;         // of the detector
    bal_machine machine;         // rank_count: ranks of one replica when none is released
    const char *schedule;
    int chunk_count; // 0: the schedule's own
    int microbatch_count;
    int replica_count; // D, where released ranks make further ones; 0: 1
    int layer_count;
    int64_t decision_ns;            // of every decision; policies that weigh count it
    const bal_evaluator *evaluator; // `makespan` and re-packing need it; NULL: none
    const bal_diffuser *diffuser;   // of `diffusion`; NULL: the core decides
    const int *given_first_layer;   // [ranks x chunks + 1] of `given`
    bal_migration_options migration;
    bal_repack_options repack;
    bal_peak_book *peak_book;        // of several controllers, one after the other; NULL: none
    struct bal_plan_book *plan_book; // likewise
    bool skips_bound;                // of its problems
} bal_controller_options;

/// What a player measured of an iteration. Borrowed for the call.
typedef struct bal_profile {
    int iteration;
    const bal_layer_costs *layers; // as measured: each layer on the rank that held it; with several
                                   // replicas the largest over them
    const bal_layer_costs *next;   // of the iteration that follows, for BAL_INFORMATION_FORESIGHT;
                                   // NULL: there is none, and the profile counts
    bool changed; // what the source says of this iteration's costs: the model has changed, or where
                  // it does not announce changes, numbers have
    const int64_t *rank_end_ns; // [machine.rank_count] end of the last op of each rank, within the
                                // makespan, 0 for released ranks; NULL: not known. For migration
                                // that overlaps the backward sweep
    int64_t makespan_ns;        // with rank_end_ns
} bal_profile;

typedef enum bal_action {
    BAL_ACTION_KEEP,
    BAL_ACTION_REBALANCE, ///< other layers on the same ranks
    BAL_ACTION_REPACK,    ///< another number of ranks, or of microbatches
    BAL_ACTION_COUNT
} bal_action;

/// Why the balancer was asked, and why the answer was taken or not.
typedef enum bal_reason {
    BAL_REASON_NONE,      ///< not asked
    BAL_REASON_START,     ///< the plan of the start
    BAL_REASON_PERIOD,    ///< every:N
    BAL_REASON_CHANGE,    ///< the model changed
    BAL_REASON_THRESHOLD, ///< the gain exceeds threshold:x
    BAL_REASON_REGRET,    ///< shadow: waiting has cost what moving costs
    BAL_REASON_SHRINK,    ///< re-packing: fewer ranks do
    BAL_REASON_GROW,      ///< re-packing: load has returned
    BAL_REASON_SAME,      ///< asked; the plan in force is (nearly) as good
    BAL_REASON_NO_ROOM,   ///< asked; no order of the moves keeps every rank within its memory
    BAL_REASON_COUNT
} bal_reason;

/// "keep", "rebalance", "repack" and "none", "start", "period", "change", "threshold", "regret",
/// "shrink", "grow", "same", "no-room", as files and tables spell them. Static storage.
extern const char *const bal_action_names[BAL_ACTION_COUNT];
extern const char *const bal_reason_names[BAL_REASON_COUNT];

typedef struct bal_decision {
    bal_action action;
    bal_reason reason;
    bool changed;              // the model changed before the iteration, announced or detected
    bool was_asked;            // a decision was made and is charged, whether or not layers move;
                               // false for the plan of the start
    bal_placed_partition plan; // in force from the next iteration, with machine_rank set; its
                               // arrays live until the next call. All 0 where owner is set
    const int *owner;          // [layer_count] rank, of a balancer without stages; else NULL; lives
                               // until the next call
    bal_migration migration;   // layer_count 0 where nothing moves; of owners without the list
    int64_t migration_ns;  // exposed: beyond the end of the iteration. migration.time_ns, or with
                           // memory caps or overlap until the last of the ordered moves ends
    int64_t bottleneck_ns; // of the balancer's last answer, in the unit of the weight
    int64_t bottleneck_lower_bound_ns;
    int microbatch_count; // of one replica from the next iteration on; re-packing may change it
} bal_decision;

/// Invariants span calls: the plan in force is the last decision's.
typedef struct bal_controller bal_controller;

/// @param memory that the controller lives and ends with
/// @param out    NULL on failure
/// @return STATUS_INVALID: re-packing that does not fit the machine, or options that the balancer
///         does not allow; what the schedule refuses
status bal_controller_create(const bal_controller_options *options, arena *memory,
                             bal_controller **out, error_message *err);

/// Takes the plan of the start: the balancer's own for these costs. Call once, first.
///
/// @return what bal_balance refuses
status bal_controller_start(bal_controller *controller, const bal_layer_costs *layers,
                            bal_decision *decision, error_message *err);

/// Decides at the end of an iteration. Call once after every iteration, in order.
///
/// @param decision untouched on failure
/// @return STATUS_INVALID, STATUS_INFEASIBLE: what the balancer or the evaluator refuses, naming
///         the iteration; the plan in force then stays.
///
/// Time: that of the balancer where it is asked; else O(layers x microbatches).
status bal_controller_observe(bal_controller *controller, const bal_profile *profile,
                              bal_decision *decision, error_message *err);

/// Executes a training run on real ranks: the second player. Description, controller and records
/// are those of the simulator's replay; the ops are played by devices, the messages travel.
///
///   iteration_ns = pipeline + exposed gradient reduction + optimizer step + profiling
///                + decision + migration
///
/// Which of these are measured is in ../README.md, who leads and who sleeps in README.md.
///
/// Of a device that learns (`cpu`, `cuda`) layers' times, bytes and loads as measured are what the
/// controller sees, and what its mechanism changes is announced to it. Nothing is known before
/// iteration 0, so that this is played under the even partition (or the plan that was given) and
/// profiled; after it the controller starts with what was measured, and its plan of the start is
/// moved to. Profiling is in the ops.
///
/// Not executed: balancers without stages, released ranks that make further replicas. Who asks for
/// a run refuses them.
#pragma once

#include "balance/plan.h"
#include "balance/ports.h"
#include "balance/run/iteration_times.h"
#include "balance/run/training.h"
#include "balance/schedule/schedule.h"
#include "base/arena.h"
#include "base/status.h"
#include "exec/clock.h"
#include "exec/device/device.h"
#include "exec/transport/transport.h"

#include <stdbool.h>
#include <stdint.h>

/// Makes the device of a rank; called on that rank's thread or process.
typedef struct exec_device_maker {
    void *context;
    status (*create)(void *context, int world_rank, exec_device **device, error_message *err);
} exec_device_maker;

/// Everything measured of an iteration, beside its record. Borrowed for the call.
typedef struct exec_measured {
    const bal_training_iteration *record;
    const bal_played_plan *played; // plan, schedule and costs of the iteration: as given, or of a
                                   // device that learns as measured, one column per microbatch
    const bal_timeline *timelines; // [played->replica_count] op by op
    const int64_t *load_count;     // [layer_count][microbatch_count][load_columns] of replica 0,
                                   // or NULL
    int load_columns;
    const int64_t *const *exchange_ns; // [played->replica_count] -> [layer_count][microbatch_count]
                                       // of F (device.h); NULL: timed
    double loss;                       // of a device that learns: mean over the replicas
    double gradient_norm;              // before clipping; of replica 0
    uint64_t state_hash; // of the packed state of all layers of all replicas after the last
                         // iteration; else 0
    int64_t overhead_ns; // sums over the ranks: what was neither op nor waiting for a message
    int64_t wake_ns;     // how late they woke
    int64_t latency_ns;  // how late awaited messages came
    int64_t op_count;
    int64_t message_count;       // received by ops
    int64_t clock_offset_ns;     // of the rank whose clock is furthest from the leader's, less the
                                 // leader's; 0: all may have one clock
    int64_t clock_residual_ns;   // by which that may be wrong
    int64_t migration_finish_ns; // nominal clock: end of the last transfer, met by sender and
                                 // receiver with their clocks, all free at 0 or at their last ops
    int64_t migrated_bytes;      // packed state that travelled, of all replicas
    int64_t forecast_migration_ns; // what the record's migration and decision take by the machine's
    int64_t forecast_decision_ns;  // links and the training's decision_ns, whatever the clock
} exec_measured;

typedef struct exec_training_listener {
    void *context;
    status (*put)(void *context, const exec_measured *iteration, error_message *err);
} exec_training_listener;

/// A plan that is moved to after an iteration, whatever any controller would say.
typedef struct exec_forced_plan {
    int after_iteration;
    bal_placed_partition plan; // any number of places up to the machine's ranks
} exec_forced_plan;

/// Zero-initialise, then fill by name. Everything is borrowed for the call.
typedef struct exec_training {
    const bal_training *training;   // read by the leader only. Of a device that learns sources are
                                    // NULL
    const bal_evaluator *evaluator; // leader only; NULL: none
    const bal_plan *plan;           // leader only: the plan of the start, kept unless the policy
                                    // asks (after the first warm iteration the
                                    // controller then starts); NULL:
                                    // the balancer's own
    int layer_count;                // leader only: of a device that learns; else the sources'
    const exec_forced_plan *forced; // leader only, [forced_count]: if there are any, nobody asks
    int forced_count;               // the controller
    exec_device_maker devices;
    exec_clock clock;
    int warmup_count;           // leader only: of a device that learns, first iterations that no
                                // decision is made from: they are slower than any later one
    bool distributes_decisions; // leader only: the balancer `diffusion` runs on the ranks, each
                                // with what it measured; the leader hears the cuts
    const exec_training_listener *listener; // leader only; NULL: none
} exec_training;

/// What every rank does: to be called by the body of exec_transport_run. Collective.
///
/// @param memory leader only, else not touched: of the arrays of result
/// @param result leader only: as of the replay
/// @return STATUS_INVALID for a world that is not data_parallel x machine.rank_count ranks, what
///         bal_training_check refuses, a plan of other ranks, layers or microbatches than the run;
///         STATUS_UNSUPPORTED for what is not executed, see above; what the balancer, the sink, the
///         listener, the device and the transport return. Every rank that fails returns its own
///         failure; the transport ends the others.
status exec_training_rank(exec_endpoint *endpoint, const exec_training *training, arena *memory,
                          bal_training_result *result, error_message *err);

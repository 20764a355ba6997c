/// Iterations back to back: what stands between the last op of one and the first of the next, op by
/// op and rank by rank, where the step of the optimizer needs no global barrier.
///
/// With the barrier all ranks wait for the slowest, as clipping needs the norm of all gradients:
///
///     begin(r) = max over ranks of ready + update
///
/// With post-validation the norm travels as partial sums from rank 0 to rank P - 1, each rank steps
/// on what it has seen, and the full value travels back while the next iteration has begun:
///
///     partial(r)  = max(ready(r) + norm, partial(r - 1) + hop(r))
///     begin(r)    = partial(r) + update
///     full(P - 1) = partial(P - 1)
///     seen(r)     = max(time at which r is at its first op that is not an F of chunk 0,
///                       full value at P - 1 or seen(r + 1) + hop(r + 1))
///
/// and that op begins after seen(r). ready(r) is the end of the rank's last op plus what its
/// reduction of gradients exposes. The chain adds nothing where ranks end in the order of their
/// numbers; under 1F1B rank 0 ends last, and it is a barrier.
///
/// If the full norm is above the limit, a rank that sees it drops the forwards that it has begun
/// with, undoes its step and steps again; the last rank, which knows the full norm before it steps,
/// only steps late. Then the iteration begins anew.
/// Source: Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024, section 4 and appendix C, and
/// how its released optimizer orders the messages.
#pragma once

#include "balance/costs/machine.h"
#include "balance/costs/stage_costs.h"
#include "balance/run/iteration_times.h"
#include "balance/run/training.h"
#include "balance/schedule/schedule.h"
#include "balance/timeline.h"
#include "base/arena.h"
#include "base/status.h"
#include "sim/order_book.h"

#include <stdbool.h>
#include <stdint.h>

/// Times up to which iterations are played back to back.
#define SIM_ITERATIONS_NS_MAX (INT64_MAX / 64)

/// Iterations after which a period is taken as it is.
enum { SIM_SETTLING_MAX = 24 };

/// What a step takes, each at most SIM_ITERATIONS_NS_MAX. Zero-initialise, then fill by name.
typedef struct sim_update {
    bool post_validation;
    int64_t norm_ns;       // norm of a rank's own gradients, before it takes part in the chain
    int64_t optimizer_ns;  // the step itself
    int64_t rollback_ns;   // undoing it
    const int64_t *hop_ns; // [rank_count] one number from rank r - 1 to r, or back; NULL: 0
} sim_update;

/// Where the ranks stand between two iterations. Zero-initialised: all may begin at 0. Times grow
/// from iteration to iteration.
typedef struct sim_iteration_state {
    int64_t *begin_ns;    // [rank_count] earliest begin of the next iteration
    bool is_unvalidated;  // ranks have stepped on partial norms
    bool has_failed;      // and the full norm is above the limit
    int64_t validated_ns; // when the last rank knows the full norm
} sim_iteration_state;

/// What an iteration was. The arrays are the caller's.
typedef struct sim_iteration {
    int64_t *first_begin_ns; // [rank_count] of the ops
    int64_t *last_end_ns;    // [rank_count]
    int64_t *stage_end_ns;   // [stage_count] end of the stage's last W or BW
    int64_t *busy_ns;        // [rank_count]
    bal_timeline *timeline;  // every op; NULL: not wanted
    int64_t lost_ns;         // by a failed validation: how much later the last rank could begin
} sim_iteration;

typedef struct sim_iterations sim_iterations;

/// Prepares a schedule for iterations.
///
/// @param schedule one that bal_schedule_check accepts, borrowed for the life of iterations
/// @param out      carved from memory; serves one play at a time
///
/// Time O(ranks + stages * microbatches).
void sim_iterations_prepare(const bal_schedule *schedule, arena *memory, sim_iterations **out);

/// Proves that the schedule can be played with post-validation, which plays assume.
///
/// @param memory scratch
/// @return STATUS_INVALID where the full norm could never travel back, as a rank waits for it
///         before a forward that the next rank needs before passing it on, naming the rank and its
///         op. Time O(ops).
status sim_iterations_check_validation(sim_iterations *iterations, arena *memory,
                                       error_message *err);

/// Carves the arrays of an iteration, and of the state between iterations, from memory.
///
void sim_iteration_init(const bal_schedule *schedule, arena *memory, sim_iteration *iteration,
                        sim_iteration_state *state);

/// Plays one iteration from where the ranks stand.
///
/// @param costs ones that sim_costs_check accepts; messages are asynchronous
/// @param state in: of sim_iterations_end, or of the start; begin_ns out where a validation fails
///
/// Time O(ops), no allocation. The times are those of sim_order_play from state->begin_ns where no
/// op waits for a full norm.
void sim_iterations_play(sim_iterations *iterations, const bal_stage_costs *costs,
                         const sim_update *update, sim_iteration_state *state,
                         sim_iteration *iteration);

/// Ends an iteration: when each rank may begin the next one.
///
/// @param ready_ns [rank_count] when the rank's own gradients are there, reduced
/// @param fails    the full norm of this iteration is above the limit. With a barrier it is known
///                 before the step and changes no time.
/// @param state    out
///
/// Time O(ranks).
void sim_iterations_end(const sim_update *update, const int64_t *ready_ns, int rank_count,
                        bool fails, sim_iteration_state *state);

/// Whether all ranks may begin equally later than before, so that the iterations repeat.
///
/// @param begin_ns  [rank_count] as in sim_iteration_state
/// @param before_ns [rank_count] the same, one iteration before
bool sim_iterations_have_settled(const int64_t *begin_ns, const int64_t *before_ns, int rank_count);

/// How much later the last rank may begin than before: the period, once it has settled.
int64_t sim_iterations_period_ns(const int64_t *begin_ns, const int64_t *before_ns, int rank_count);

/// Plays the same iteration back to back until it repeats, or SIM_SETTLING_MAX times; ranks are
/// ready when their last op has ended.
///
/// @param costs     as in sim_iterations_play
/// @param memory    scratch
/// @param period_ns out: how much later an iteration begins than the one before
/// @return STATUS_INVALID if that takes longer than SIM_ITERATIONS_NS_MAX
status sim_iterations_find_period(sim_iterations *iterations, const bal_stage_costs *costs,
                                  const sim_update *update, arena *memory, int64_t *period_ns,
                                  error_message *err);

typedef struct sim_period_request {
    const bal_machine *machine;    // norms travel over its links
    const bal_played_plan *played; // its replicas
    const bal_stage_costs *stages; // [round_count][played->replica_count]
    int round_count;               // >= 1
    const int64_t *reduction_ns;   // [layer_count] of bal_reduction_merge; NULL: none
    const bal_validation *validation;
    int64_t optimizer_step_ns;
    bool fails; // the validation of the iteration
} sim_period_request;

typedef struct sim_period {
    int64_t period_ns; // the step and the norm among it
    int64_t lost_ns;   // if it fails: how much later the next iteration begins
} sim_period;

/// @param memory scratch
/// @return STATUS_INVALID as sim_iterations_check_validation
///
/// Time O(ops * rounds * replicas), times the iterations until the period has settled: 2 or 3 for
/// most plans.
status sim_validated_period(const sim_period_request *request, arena *memory, sim_period *period,
                            error_message *err);

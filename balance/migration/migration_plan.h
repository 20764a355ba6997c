/// Which plan to move to: of the cuts that are nearly as good as those decided on, and of the ranks
/// that the places of the pipeline could be on, those that cost least to get to.
#pragma once

#include "balance/costs/machine.h"
#include "balance/costs/placement.h"
#include "balance/migration/migration.h"
#include "balance/problem.h"
#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct bal_migration_options {
    double slack_ratio; // >= 0: of the plans whose largest load is within (1 + this) of the decided
                        // one, the cheapest to get to; 0: the balancer's cuts as they are
    bool relabels;      // places may be on any ranks, in any order, so that layers stay where they
                        // are; false: on ranks in rising order
    bool overlaps;      // a transfer begins as soon as both of its ranks have ended their last op
                        // (bal_migration_finish_ns); false: after the iteration
    double hysteresis_ratio;  // in [0, 1): > 0 keeps the plan in force unless the new one shortens
                              // the predicted iteration by more than this share; 0: no such rule
    int neighbour_iterations; // iterations for which the messages between neighbours of the
                              // pipeline are counted against the transfers, >= 0
} bal_migration_options;

/// slack_ratio 0, no relabelling, blocking, no hysteresis, 100 neighbour_iterations.
bal_migration_options bal_migration_options_default(void);

typedef struct bal_migration_question {
    const bal_problem *problem; // what the balancer was asked: stage_count stages on stage_count /
                                // chunk_count places, with their caps. The ranks that it names are
                                // always a candidate, with the balancer's cuts. With
                                // an evaluator plans are held to it, else to their largest load
    const int *first_layer;     // [stage_count + 1] the balancer's answer
    const bal_placed_partition *before; // in force; any number of places of the machine's ranks
    const bal_machine *machine;         // any of its ranks may be used
    int rank_unit; // ranks are used in groups of this many consecutive ones, whole or not at all;
                   // 0: 1
} bal_migration_question;

/// Arrays are carved from the arena of the call.
typedef struct bal_migration_choice {
    bal_placed_partition plan; // with machine_rank
    bal_migration migration;   // from the plan in force to it
    int64_t bottleneck_ns;     // largest load of the plan, in the unit of the weight
    int64_t cost_ns; // migration.time_ns + neighbour_iterations * a message each way over every
                     // cut, on the links of the plan's ranks, saturating
} bal_migration_choice;

/// Picks cuts and ranks.
///
/// Candidates: the balancer's cuts on the ranks that it had in mind; on the ranks, in order, that
/// keep the most bytes; the cuts within the slack that move the fewest bytes there; and, with
/// relabels, from both cuts ranks and cuts in turn, the ranks by an assignment problem over the
/// time of the transfers. The one with the smallest cost_ns wins; of equal ones the one with fewer
/// bytes, then the first. Without links that take time cost_ns is the same for all, and the fewest
/// bytes decide. Where cuts differ from the balancer's, the evaluator must predict an iteration
/// within the slack of that with the balancer's.
///
/// The plan in force is never kept by the hysteresis if it breaks a cap, or has another number of
/// places.
///
/// Counts, options, cuts and the plan in force fit together: controller.h has checked them.
///
/// @return STATUS_INVALID if a time or a sum does not fit int64; what the evaluator returns. choice
///         is then untouched.
///
/// Time O(stages * places that the slack leaves to a cut * layers of a stage + groups of ranks *
/// layers). Relabelling adds a few times O(layers * ranks + places^2 * ranks).
status bal_migration_plan(const bal_migration_question *question,
                          const bal_migration_options *options, arena *memory,
                          bal_migration_choice *choice, error_message *err);

/// The plans that a migration could go to: migration_plan.h is the entrance.
#pragma once

#include "balance/migration/migration_plan.h"
#include "balance/migration/move_table.h"
#include "balance/partition/chain.h"

/// Rounds of ranks and cuts in turn, and what they and the rest can find.
enum {
    BAL_MIGRATION_ROUNDS_MAX = 4,
    BAL_MIGRATION_CANDIDATES_MAX = 1 + 3 * (1 + 2 * BAL_MIGRATION_ROUNDS_MAX)
};

/// One plan that could be moved to.
typedef struct bal_migration_candidate {
    int *first_layer;        // [stage_count + 1]
    int *machine_rank;       // [place_count]
    bal_migration migration; // from the plan in force
    bal_migration_method method;
    int64_t bottleneck_ns;
    int64_t neighbour_ns;
    int64_t cost_ns;
    int neighbour_node_count;
    bool is_decided; // its cuts are the balancer's: beyond the evaluator's doubt
    bool is_rejected;
} bal_migration_candidate;

/// The search. The first four are the caller's, who zeroes the rest; arrays are carved from memory.
typedef struct bal_migration_search {
    const bal_migration_question *question;
    const bal_migration_options *options;
    arena *memory;
    error_message *err;
    bal_chain chain;
    int stage_count;
    int chunk_count;
    int place_count;
    int group_size;      // ranks used together
    int group_count;     // groups of which every rank is available
    int *group_rank;     // [group_count * group_size] in the order in which places try them
    int *owner;          // [layer_count] rank that holds it now
    int64_t *intra_cost; // [layer_count] of a transfer inside a node: ns, or bytes where no link
    int64_t *inter_cost; // takes time
    int64_t load_max;
    bal_move_table table; // cuts within load_max, or the balancer's alone
    bool is_pinned;       // the latter
    int *stage_rank;      // [stage_count] scratch
    bal_migration_candidate candidates[BAL_MIGRATION_CANDIDATES_MAX];
    int candidate_count;
} bal_migration_search;

/// Checks the question and fills candidates.
///
/// @return as bal_migration_plan
status bal_migration_search_all(bal_migration_search *at);

/// The cheapest candidate that is not rejected, or NULL: the smallest cost, then the fewest bytes,
/// then the first.
bal_migration_candidate *bal_migration_cheapest(bal_migration_search *at, bool is_decided_only);

/// Fills what a plan's cuts and ranks cost, from them and its migration. False if a load exceeds
/// load_max.
bool bal_migration_measure(bal_migration_search *at, bal_migration_candidate *plan);

/// Whether the ranks are available and make up whole groups.
///
/// @param machine_rank [place_count]
bool bal_migration_may_use(const bal_migration_search *at, const int *machine_rank);

/// Carves the arrays of a candidate.
status bal_migration_carve(bal_migration_search *at, bal_migration_candidate *plan);

bal_placed_partition bal_migration_placed(const bal_migration_search *at,
                                          const bal_migration_candidate *plan);

/// The largest value that the slack allows: value * (1 + slack_ratio), at most INT64_MAX.
int64_t bal_migration_within(int64_t value, double slack_ratio);

/// Which ranks of the world take part in a run, and the groups in which they speak.
///
/// The world are replica_count machines of rank_count ranks each. A rank of the machine is active
/// where the plan gives it a place of the pipeline, in every replica; the others are released and
/// sleep. The leader, rank 0 of the world, is in the crew even while its own rank is released.
#pragma once

#include "balance/placement.h"
#include "base/arena.h"
#include "base/status.h"
#include "exec/transport/group.h"
#include "exec/transport/transport.h"

#include <stdbool.h>

enum { EXEC_LEADER = 0 };

/// Must stay where it is: the groups point into it.
typedef struct exec_run_ranks {
    exec_endpoint *endpoint;
    int replica_count;
    int rank_count;      // of the machine
    int replica;         // of this rank
    int machine_rank;    // of this rank
    bool *is_active;     // [endpoint->rank_count]
    exec_group world;    // all ranks
    exec_group crew;     // the active ones of all replicas and the leader: who hears every command
    exec_group pipeline; // the active ones of this rank's replica; of a released rank empty
    exec_group replicas; // this rank of the machine in all replicas
    int *crew_rank;      // [crew.rank_count]
    int *pipeline_rank;  // [pipeline.rank_count]
    int world_sequence;
    int crew_sequence;
    int pipeline_sequence;
    int replicas_sequence;
} exec_run_ranks;

/// All ranks active.
///
/// @param ranks arrays are carved from memory
/// @return STATUS_INVALID if the world has another number of ranks; STATUS_NO_MEMORY
status exec_run_ranks_init(exec_run_ranks *ranks, exec_endpoint *endpoint, int replica_count,
                           int rank_count, arena *memory, error_message *err);

/// The rank of the world that a rank of the machine is in a replica.
int exec_run_world_rank(const exec_run_ranks *ranks, int replica, int machine_rank);

/// The place of a rank of the machine under a plan; -1: none.
int exec_run_place_of(const bal_placed_partition *plan, int machine_rank);

/// Whether a plan needs other ranks than are active.
bool exec_run_ranks_differ(const exec_run_ranks *ranks, const bal_placed_partition *plan);

/// Makes the ranks of a plan the active ones. All ranks of the world must be awake.
void exec_run_ranks_activate(exec_run_ranks *ranks, const bal_placed_partition *plan);

/// Whether this rank is in the crew; otherwise it sleeps.
bool exec_run_ranks_is_awake(const exec_run_ranks *ranks);

#include "exec/run/run_ranks.h"

/// What tells the messages of the groups apart: two ranks may be in all of them.
enum { CHANNEL_WORLD, CHANNEL_CREW, CHANNEL_PIPELINE, CHANNEL_REPLICAS };

static status no_memory(int rank_count, error_message *err)
{
    return error_set(err, STATUS_NO_MEMORY, "out of memory for %d ranks", rank_count);
}

/// A group without ranks, and room for them.
static status group_init(exec_run_ranks *ranks, int channel, int *sequence, arena *memory,
                         exec_group *group, int **rank, error_message *err)
{
    *rank = arena_array(memory, (size_t)ranks->endpoint->rank_count, sizeof **rank);
    if (*rank == NULL) return no_memory(ranks->endpoint->rank_count, err);
    *group = (exec_group){.endpoint = ranks->endpoint,
                          .rank = *rank,
                          .self = -1,
                          .sequence = sequence,
                          .channel = channel};
    return STATUS_OK;
}

static void group_clear(exec_group *group)
{
    group->rank_count = 0;
    group->self = -1;
}

/// Ranks are added in rising order, to the array of the group.
static void group_add(exec_group *group, int *array, int rank)
{
    if (rank == group->endpoint->rank) group->self = group->rank_count;
    array[group->rank_count++] = rank;
}

static bool is_in_replica(const exec_run_ranks *ranks, int rank)
{
    return rank / ranks->rank_count == ranks->replica;
}

static void fill_groups(exec_run_ranks *ranks)
{
    group_clear(&ranks->crew);
    group_clear(&ranks->pipeline);
    for (int rank = 0; rank < ranks->endpoint->rank_count; rank++) {
        if (ranks->is_active[rank] || rank == EXEC_LEADER) {
            group_add(&ranks->crew, ranks->crew_rank, rank);
        }
        if (ranks->is_active[rank] && is_in_replica(ranks, rank)) {
            group_add(&ranks->pipeline, ranks->pipeline_rank, rank);
        }
    }
    ranks->crew_sequence = 0;
    ranks->pipeline_sequence = 0;
    ranks->replicas_sequence = 0;
}

status exec_run_ranks_init(exec_run_ranks *ranks, exec_endpoint *endpoint, int replica_count,
                           int rank_count, arena *memory, error_message *err)
{
    const int world = endpoint->rank_count;
    if ((int64_t)replica_count * rank_count != world) {
        return error_set(err, STATUS_INVALID,
                         "%d replicas of %d ranks need %lld ranks, and the world has %d",
                         replica_count, rank_count, (long long)replica_count * rank_count, world);
    }
    *ranks = (exec_run_ranks){
        .endpoint = endpoint,
        .replica_count = replica_count,
        .rank_count = rank_count,
        .replica = endpoint->rank / rank_count,
        .machine_rank = endpoint->rank % rank_count,
        .is_active = arena_array(memory, (size_t)world, sizeof *ranks->is_active),
    };
    int *all = NULL;
    int *same = NULL;
    TRY(group_init(ranks, CHANNEL_WORLD, &ranks->world_sequence, memory, &ranks->world, &all, err));
    TRY(group_init(ranks, CHANNEL_CREW, &ranks->crew_sequence, memory, &ranks->crew,
                   &ranks->crew_rank, err));
    TRY(group_init(ranks, CHANNEL_PIPELINE, &ranks->pipeline_sequence, memory, &ranks->pipeline,
                   &ranks->pipeline_rank, err));
    TRY(group_init(ranks, CHANNEL_REPLICAS, &ranks->replicas_sequence, memory, &ranks->replicas,
                   &same, err));
    for (int rank = 0; rank < world; rank++) {
        ranks->is_active[rank] = true;
        group_add(&ranks->world, all, rank);
    }
    for (int replica = 0; replica < replica_count; replica++) {
        group_add(&ranks->replicas, same, exec_run_world_rank(ranks, replica, ranks->machine_rank));
    }
    fill_groups(ranks);
    return STATUS_OK;
}

int exec_run_world_rank(const exec_run_ranks *ranks, int replica, int machine_rank)
{
    return replica * ranks->rank_count + machine_rank;
}

int exec_run_place_of(const bal_placed_partition *plan, int machine_rank)
{
    for (int place = 0; place < plan->rank_count; place++) {
        const int rank = plan->machine_rank != NULL ? plan->machine_rank[place] : place;
        if (rank == machine_rank) return place;
    }
    return -1;
}

bool exec_run_ranks_differ(const exec_run_ranks *ranks, const bal_placed_partition *plan)
{
    for (int rank = 0; rank < ranks->rank_count; rank++) {
        if (ranks->is_active[rank] != (exec_run_place_of(plan, rank) >= 0)) return true;
    }
    return false;
}

void exec_run_ranks_activate(exec_run_ranks *ranks, const bal_placed_partition *plan)
{
    for (int rank = 0; rank < ranks->endpoint->rank_count; rank++) {
        ranks->is_active[rank] = exec_run_place_of(plan, rank % ranks->rank_count) >= 0;
    }
    // All earlier collectives are over on all ranks, so that their numbers may come again.
    fill_groups(ranks);
}

bool exec_run_ranks_is_awake(const exec_run_ranks *ranks)
{
    return ranks->crew.self >= 0;
}

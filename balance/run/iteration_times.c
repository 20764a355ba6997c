#include "balance/run/iteration_times.h"

#include "balance/run/gradient_reduction.h"

status bal_iteration_begin(const bal_played_plan *played, arena *memory, bal_iteration_times *times,
                           error_message *err)
{
    const size_t ranks = (size_t)played->plan->rank_count;
    const size_t layers = (size_t)played->replicas[0].layer_count;
    bal_iteration_times made = {
        .rank_work_ns = arena_array(memory, ranks, sizeof *made.rank_work_ns),
        .rank_begin_ns = arena_array(memory, ranks, sizeof *made.rank_begin_ns),
        .rank_end_ns = arena_array(memory, ranks, sizeof *made.rank_end_ns),
        .layer_ready_ns = arena_array(memory, layers, sizeof *made.layer_ready_ns),
    };
    TRY(bal_reduction_merge(played->replicas, played->replica_count, played->reduction_from,
                            played->reduction_to, memory, &made.layer_ns, err));
    *times = made;
    return STATUS_OK;
}

bool bal_iteration_needs_stage_ends(const bal_played_plan *played, const bal_iteration_times *times)
{
    return times->layer_ns != NULL && played->reduction_overlap != BAL_REDUCTION_EXPOSED;
}

/// Takes the lengths of a replica.
static void take_replica(const bal_played_plan *played, int replica,
                         const bal_replica_times *replica_times, bal_iteration_times *times)
{
    const int ranks = played->plan->rank_count;
    const bal_metrics metrics = bal_metrics_of_ranks(
        replica_times->first_begin_ns, replica_times->last_end_ns, replica_times->busy_ns, ranks);
    const bool is_slower = played->post_validation
                               ? metrics.span_ns > times->metrics.span_ns
                               : metrics.makespan_ns > times->metrics.makespan_ns;
    for (int rank = 0; rank < ranks; rank++) {
        const int64_t begin = replica_times->first_begin_ns[rank];
        const int64_t end = replica_times->last_end_ns[rank];
        if (replica == 0 || begin < times->rank_begin_ns[rank]) times->rank_begin_ns[rank] = begin;
        if (end > times->rank_end_ns[rank]) times->rank_end_ns[rank] = end;
        if (replica == 0 || is_slower) times->rank_work_ns[rank] = replica_times->busy_ns[rank];
    }
    if (metrics.makespan_ns > times->makespan_ns) times->makespan_ns = metrics.makespan_ns;
    times->busy_ns += metrics.busy_ns;
    if (replica > 0 && !is_slower) return;
    times->metrics = metrics;
    times->slowest = replica;
}

status bal_iteration_add(const bal_played_plan *played, int replica,
                         const bal_replica_times *replica_times, bal_iteration_times *times,
                         error_message *err)
{
    take_replica(played, replica, replica_times, times);
    if (times->busy_ns > INT64_MAX / 2) {
        return error_set(err, STATUS_INVALID, "the ns of all ops of %d replicas do not fit 64 bits",
                         played->replica_count);
    }
    if (bal_iteration_needs_stage_ends(played, times)) {
        bal_reduction_note_ready(played->reduction_overlap, played->schedule, played->last_backward,
                                 played->plan, &played->replicas[replica],
                                 replica_times->stage_end_ns, played->rank_time_factor,
                                 times->layer_ready_ns);
    }
    return STATUS_OK;
}

status bal_iteration_add_timeline(const bal_played_plan *played, int replica,
                                  const bal_timeline *timeline, arena *memory,
                                  bal_iteration_times *times, error_message *err)
{
    const int ranks = played->plan->rank_count;
    const int stages = bal_placed_stage_count(played->plan);
    const int *first_op = played->schedule->first_op;
    int64_t *first_begin_ns = arena_array(memory, (size_t)ranks, sizeof *first_begin_ns);
    int64_t *last_end_ns = arena_array(memory, (size_t)ranks, sizeof *last_end_ns);
    int64_t *busy_ns = arena_array(memory, (size_t)ranks, sizeof *busy_ns);
    int64_t *stage_end_ns = arena_array(memory, (size_t)stages, sizeof *stage_end_ns);
    for (int rank = 0; rank < ranks; rank++) {
        first_begin_ns[rank] = timeline->begin_ns[first_op[rank]];
        last_end_ns[rank] = timeline->end_ns[first_op[rank + 1] - 1];
        for (int op = first_op[rank]; op < first_op[rank + 1]; op++) {
            busy_ns[rank] += timeline->end_ns[op] - timeline->begin_ns[op];
        }
    }
    for (int stage = 0; stage < stages; stage++) {
        stage_end_ns[stage] = timeline->end_ns[played->last_backward[stage]];
    }
    const bal_replica_times replica_times = {first_begin_ns, last_end_ns, busy_ns, stage_end_ns};
    return bal_iteration_add(played, replica, &replica_times, times, err);
}

static int64_t pipeline_ns(const bal_played_plan *played, const bal_iteration_times *times)
{
    if (!played->post_validation) return times->makespan_ns;
    int64_t longest = 0;
    for (int place = 0; place < played->plan->rank_count; place++) {
        const int64_t ns = times->rank_end_ns[place] - times->rank_begin_ns[place];
        if (ns > longest) longest = ns;
    }
    return longest;
}

/// Length of the iteration, with the gradients reduced but without the step.
static int64_t reduced_ns(const bal_played_plan *played, const bal_iteration_times *times)
{
    const bool is_exposed = played->reduction_overlap == BAL_REDUCTION_EXPOSED;
    int64_t longest = 0;
    for (int place = 0; place < played->plan->rank_count; place++) {
        int64_t ns =
            bal_reduction_end_ns(played->last_backward, played->plan, place, times->layer_ns,
                                 is_exposed ? NULL : times->layer_ready_ns);
        if (is_exposed) {
            ns += times->pipeline_ns;
        } else if (played->post_validation) {
            ns -= times->rank_begin_ns[place];
        }
        if (ns > longest) longest = ns;
    }
    return longest;
}

void bal_iteration_finish(const bal_played_plan *played, bal_iteration_times *times)
{
    times->pipeline_ns = pipeline_ns(played, times);
    times->reduction_ns = 0;
    if (times->layer_ns == NULL) return;
    const int64_t reduced = reduced_ns(played, times);
    if (reduced > times->pipeline_ns) times->reduction_ns = reduced - times->pipeline_ns;
}

#include "balance/run/iteration_times.h"

#include "balance/repack/repack.h"
#include "balance/schedule/closed_form.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

void bal_last_backwards(const bal_schedule *schedule, arena *memory, const int **last_backward)
{
    const int stages = schedule->rank_count * schedule->chunk_count;
    int *last = arena_array(memory, (size_t)stages, sizeof *last);
    for (int rank = 0; rank < schedule->rank_count; rank++) {
        for (int op = schedule->first_op[rank]; op < schedule->first_op[rank + 1]; op++) {
            const bal_op_kind kind = (bal_op_kind)schedule->ops[op].kind;
            if (kind != OP_BACKWARD_WEIGHT && kind != OP_BACKWARD) continue;
            last[bal_schedule_stage(schedule, rank, schedule->ops[op].chunk)] = op;
        }
    }
    *last_backward = last;
}

/// How long every layer's gradients take to be reduced: the largest over the replicas, which reduce
/// together, and further ones with them.
///
/// @param reduction_ns out: [layer_count] carved from memory; NULL where no replica has any
static status merge_reductions(const bal_played_plan *played, arena *memory,
                               const int64_t **reduction_ns, error_message *err)
{
    const int layer_count = played->replicas[0].layer_count;
    int64_t *largest = NULL;
    for (int replica = 0; replica < played->replica_count; replica++) {
        const int64_t *own = played->replicas[replica].reduction_ns;
        if (own == NULL) continue;
        if (largest == NULL) largest = arena_array(memory, (size_t)layer_count, sizeof *largest);
        for (int layer = 0; layer < layer_count; layer++) {
            if (own[layer] > largest[layer]) largest[layer] = own[layer];
        }
    }
    int64_t sum = 0;
    for (int layer = 0; largest != NULL && layer < layer_count; layer++) {
        largest[layer] =
            bal_repack_reduction_ns(largest[layer], played->reduction_from, played->reduction_to);
        if (largest[layer] > INT64_MAX / 4 - sum) {
            return error_set(err, STATUS_INVALID, "the reduction of gradients takes too long");
        }
        sum += largest[layer];
    }
    *reduction_ns = largest;
    return STATUS_OK;
}

/// The last op of a stage that makes gradients, as its layers share it.
typedef struct last_op {
    const int64_t *weight_ns; // [layer_count][columns]
    const int64_t *input_ns;  // [layer_count][columns] if the op does both, else NULL
    int columns;
    int column;
} last_op;

static last_op last_op_of(bal_op op, bool is_whole, const bal_layer_costs *layers)
{
    return (last_op){
        .weight_ns = layers->backward_weight_ns,
        .input_ns = is_whole || op.kind == OP_BACKWARD ? layers->backward_input_ns : NULL,
        .columns = layers->microbatch_count,
        .column = layers->microbatch_count > 1 ? op.microbatch : 0,
    };
}

static int64_t layer_share_ns(const last_op *op, int layer)
{
    const int64_t at = (int64_t)layer * op->columns + op->column;
    return op->weight_ns[at] + (op->input_ns != NULL ? op->input_ns[at] : 0);
}

/// Raises the times at which the gradients of layers are ready to those of one more replica.
///
/// @param stage_end_ns [stage_count] end of the op with the stage's last gradients
/// @param ready_ns     [layer_count] in and out
static void note_ready(const bal_played_plan *played, const bal_layer_costs *layers,
                       const int64_t *stage_end_ns, int64_t *ready_ns)
{
    const bal_placed_partition *plan = played->plan;
    const double *rank_time_factor = played->rank_time_factor;
    for (int stage = 0; stage < bal_placed_stage_count(plan); stage++) {
        const double factor =
            rank_time_factor != NULL ? rank_time_factor[bal_placed_machine_rank(plan, stage)] : 1.0;
        const bool is_whole = layers->first_stage_whole &&
                              bal_stage_before(plan->placement, plan->rank_count, stage) < 0;
        const last_op op =
            last_op_of(played->schedule->ops[played->last_backward[stage]], is_whole, layers);
        int64_t before_ns = 0; // what the op still has to do for the layers before
        for (int layer = plan->first_layer[stage]; layer < plan->first_layer[stage + 1]; layer++) {
            const int64_t left_ns =
                factor == 1.0 ? before_ns : (int64_t)round((double)before_ns * factor);
            const int64_t ready = stage_end_ns[stage] - left_ns;
            if (ready > ready_ns[layer]) ready_ns[layer] = ready;
            if (played->reduction_overlap == BAL_REDUCTION_BACKWARD)
                before_ns += layer_share_ns(&op, layer);
        }
    }
}

/// The chunk of a place whose last gradients come next after those of the op `behind`; -1: none.
static int next_chunk(const int *last_backward, const bal_placed_partition *plan, int place,
                      int behind)
{
    int found = -1;
    int found_op = 0;
    for (int chunk = 0; chunk < plan->chunk_count; chunk++) {
        const int stage = bal_placed_stage(plan, place, chunk);
        const int op = last_backward[stage];
        if (op <= behind || (found >= 0 && op > found_op)) continue;
        found = chunk;
        found_op = op;
    }
    return found;
}

/// When a place has reduced the gradients of its layers: chunk by chunk as they end, the last layer
/// of each first, none before it is ready.
///
/// @param ready_ns [layer_count] or NULL: all at 0
/// @return 0 for a place without layers
static int64_t reduction_end_ns(const int *last_backward, const bal_placed_partition *plan,
                                int place, const int64_t *reduction_ns, const int64_t *ready_ns)
{
    int64_t end_ns = 0;
    int behind = -1;
    for (int count = 0; count < plan->chunk_count; count++) {
        const int chunk = next_chunk(last_backward, plan, place, behind);
        const int stage = bal_placed_stage(plan, place, chunk);
        behind = last_backward[stage];
        for (int layer = plan->first_layer[stage + 1] - 1; layer >= plan->first_layer[stage];
             layer--) {
            if (ready_ns != NULL && ready_ns[layer] > end_ns) end_ns = ready_ns[layer];
            end_ns += reduction_ns[layer];
        }
    }
    return end_ns;
}

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
    TRY(merge_reductions(played, memory, &made.layer_ns, err));
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
        note_ready(played, &played->replicas[replica], replica_times->stage_end_ns,
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
    int64_t *first_begin_ns = arena_array(memory, (size_t)ranks, sizeof *first_begin_ns);
    int64_t *last_end_ns = arena_array(memory, (size_t)ranks, sizeof *last_end_ns);
    int64_t *busy_ns = arena_array(memory, (size_t)ranks, sizeof *busy_ns);
    int64_t *stage_end_ns = arena_array(memory, (size_t)stages, sizeof *stage_end_ns);
    bal_timeline_sum(timeline, first_begin_ns, last_end_ns, busy_ns);
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
        int64_t ns = reduction_end_ns(played->last_backward, played->plan, place, times->layer_ns,
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

static double mean_of(const int64_t *layer_ns, int column_count)
{
    double sum = 0;
    for (int column = 0; column < column_count; column++) {
        sum += (double)layer_ns[column];
    }
    return sum / column_count;
}

/// Equation 1 knows a rank's forward and its backward only.
static void note_published_eq1(const bal_played_plan *played, arena *memory,
                               bal_iteration_times *times)
{
    const bal_placed_partition *plan = played->plan;
    const bal_layer_costs *costs = &played->replicas[times->slowest];
    const int columns = costs->microbatch_count;
    double *forward_ns = arena_array(memory, (size_t)plan->rank_count, sizeof *forward_ns);
    double *backward_ns = arena_array(memory, (size_t)plan->rank_count, sizeof *backward_ns);
    for (int stage = 0; stage < bal_placed_stage_count(plan); stage++) {
        const int place = bal_placed_place(plan, stage);
        const double factor = played->rank_time_factor == NULL
                                  ? 1
                                  : played->rank_time_factor[bal_placed_machine_rank(plan, stage)];
        for (int layer = plan->first_layer[stage]; layer < plan->first_layer[stage + 1]; layer++) {
            const int64_t at = (int64_t)layer * columns;
            forward_ns[place] += factor * mean_of(costs->forward_ns + at, columns);
            backward_ns[place] += factor * (mean_of(costs->backward_input_ns + at, columns) +
                                            mean_of(costs->backward_weight_ns + at, columns));
        }
    }
    const bal_published_eq1 ratios =
        bal_published_eq1_of(forward_ns, backward_ns, plan->rank_count);
    times->metrics.published_eq1_ratio = ratios.printed_ratio;
    times->metrics.published_eq1_unequal_ratio = ratios.unequal_ratio;
}

void bal_iteration_finish(const bal_played_plan *played, arena *memory, bal_iteration_times *times)
{
    note_published_eq1(played, memory, times);
    times->pipeline_ns = pipeline_ns(played, times);
    times->reduction_ns = 0;
    if (times->layer_ns == NULL) return;
    const int64_t reduced = reduced_ns(played, times);
    if (reduced > times->pipeline_ns) times->reduction_ns = reduced - times->pipeline_ns;
}

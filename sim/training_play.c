#include "sim/training_play.h"

#include "sim/costs.h"
#include "sim/gradient_reduction.h"
#include "sim/pipeline.h"

/// What is only needed while the replicas are played.
typedef struct play_scratch {
    sim_summary summary;
    bal_timeline timeline; // only where chunks end before their rank does
    int64_t *stage_end_ns; // [stage_count]
    int64_t *ready_ns;     // [layer_count]
    int64_t *reduction_ns; // [layer_count], or NULL: nothing is reduced
} play_scratch;

static status no_memory(const sim_play_request *request, error_message *err)
{
    return error_set(err, STATUS_NO_MEMORY, "out of memory for %d replicas of %d ranks",
                     request->replica_count, request->plan->rank_count);
}

/// Times of the reduction, the largest over the replicas; they reduce together, further ones with
/// them.
static status merge_reductions(const sim_play_request *request, int64_t *reduction_ns,
                               error_message *err)
{
    for (int replica = 0; replica < request->replica_count; replica++) {
        const bal_layer_costs *layers = &request->replicas[replica];
        for (int layer = 0; layers->reduction_ns != NULL && layer < layers->layer_count; layer++) {
            if (layers->reduction_ns[layer] > reduction_ns[layer]) {
                reduction_ns[layer] = layers->reduction_ns[layer];
            }
        }
    }
    int64_t sum = 0;
    for (int layer = 0; layer < request->replicas[0].layer_count; layer++) {
        reduction_ns[layer] = bal_repack_reduction_ns(reduction_ns[layer], request->reduction_from,
                                                      request->reduction_to);
        if (reduction_ns[layer] > INT64_MAX / 4 - sum) {
            return error_set(err, STATUS_INVALID, "the reduction of gradients takes too long");
        }
        sum += reduction_ns[layer];
    }
    return STATUS_OK;
}

static bool has_reduction(const sim_play_request *request)
{
    for (int replica = 0; replica < request->replica_count; replica++) {
        if (request->replicas[replica].reduction_ns != NULL) return true;
    }
    return false;
}

static bool needs_timeline(const sim_play_request *request)
{
    return has_reduction(request) && request->plan->chunk_count > 1 &&
           request->reduction_overlap != BAL_REDUCTION_EXPOSED;
}

static status allocate(const sim_play_request *request, arena *memory, sim_play *play,
                       play_scratch *scratch, error_message *err)
{
    const size_t ranks = (size_t)request->plan->rank_count;
    const size_t stages = (size_t)bal_placed_stage_count(request->plan);
    const size_t layers = (size_t)request->replicas[0].layer_count;
    play->rank_work_ns = arena_array(memory, ranks, sizeof *play->rank_work_ns);
    play->rank_begin_ns = arena_array(memory, ranks, sizeof *play->rank_begin_ns);
    play->rank_end_ns = arena_array(memory, ranks, sizeof *play->rank_end_ns);
    scratch->stage_end_ns = arena_array(memory, stages, sizeof *scratch->stage_end_ns);
    scratch->ready_ns = arena_array(memory, layers, sizeof *scratch->ready_ns);
    if (play->rank_work_ns == NULL || play->rank_begin_ns == NULL || play->rank_end_ns == NULL ||
        scratch->stage_end_ns == NULL || scratch->ready_ns == NULL) {
        return no_memory(request, err);
    }
    TRY(sim_summary_init(&request->order->order, memory, &scratch->summary, err));
    if (has_reduction(request)) {
        scratch->reduction_ns = arena_array(memory, layers, sizeof *scratch->reduction_ns);
        if (scratch->reduction_ns == NULL) return no_memory(request, err);
        TRY(merge_reductions(request, scratch->reduction_ns, err));
    }
    if (!needs_timeline(request)) return STATUS_OK;
    return sim_timeline_init(&request->order->schedule, memory, &scratch->timeline, err);
}

/// When the last gradients of every stage are there.
static void find_stage_ends(const sim_play_request *request, const bal_stage_costs *stages,
                            play_scratch *scratch)
{
    sim_compiled_order *order = request->order;
    if (request->plan->chunk_count > 1) {
        sim_order_play(&order->order, stages, NULL, &scratch->timeline);
    }
    for (int stage = 0; stage < stages->stage_count; stage++) {
        scratch->stage_end_ns[stage] =
            request->plan->chunk_count > 1
                ? scratch->timeline.end_ns[order->last_backward[stage]]
                : scratch->summary.last_end_ns[stage]; // the last op of a rank makes gradients
    }
}

/// Takes the summary of a replica into the play.
static void take_replica(const sim_play_request *request, int replica, const sim_summary *summary,
                         sim_play *play)
{
    const int ranks = request->plan->rank_count;
    const bal_metrics metrics = bal_metrics_of_ranks(summary->first_begin_ns, summary->last_end_ns,
                                                     summary->busy_ns, ranks);
    const bool is_slower = request->post_validation
                               ? metrics.span_ns > play->metrics.span_ns
                               : metrics.makespan_ns > play->metrics.makespan_ns;
    for (int rank = 0; rank < ranks; rank++) {
        const int64_t begin = summary->first_begin_ns[rank];
        const int64_t end = summary->last_end_ns[rank];
        if (replica == 0 || begin < play->rank_begin_ns[rank]) play->rank_begin_ns[rank] = begin;
        if (end > play->rank_end_ns[rank]) play->rank_end_ns[rank] = end;
        if (replica == 0 || is_slower) play->rank_work_ns[rank] = summary->busy_ns[rank];
    }
    if (metrics.makespan_ns > play->makespan_ns) play->makespan_ns = metrics.makespan_ns;
    play->busy_ns += metrics.busy_ns;
    if (replica > 0 && !is_slower) return;
    play->metrics = metrics;
    play->slowest = replica;
}

static status play_replica(const sim_play_request *request, int replica, arena *memory,
                           bal_stage_costs *stages, play_scratch *scratch, sim_play *play,
                           error_message *err)
{
    sim_compiled_order *order = request->order;
    const bal_layer_costs *layers = &request->replicas[replica];
    TRY(bal_stage_costs_from_layers(layers, request->plan, request->machine,
                                    request->rank_time_factor, memory, stages, err));
    TRY(sim_costs_check(&order->schedule, stages, err));
    sim_order_summarise(&order->order, stages, NULL, &scratch->summary);
    take_replica(request, replica, &scratch->summary, play);
    if (play->busy_ns > INT64_MAX / 2) {
        return error_set(err, STATUS_INVALID, "the ns of all ops of %d replicas do not fit 64 bits",
                         request->replica_count);
    }
    if (scratch->reduction_ns == NULL || request->reduction_overlap == BAL_REDUCTION_EXPOSED) {
        return STATUS_OK;
    }
    find_stage_ends(request, stages, scratch);
    sim_reduction_note_ready(request->reduction_overlap, order, request->plan, layers,
                             scratch->stage_end_ns, request->rank_time_factor, scratch->ready_ns);
    return STATUS_OK;
}

/// Length of the iteration, with the gradients reduced but without the step.
static int64_t reduced_ns(const sim_play_request *request, const play_scratch *scratch,
                          const sim_play *play)
{
    const bool is_exposed = request->reduction_overlap == BAL_REDUCTION_EXPOSED;
    int64_t longest = 0;
    for (int place = 0; place < request->plan->rank_count; place++) {
        int64_t ns =
            sim_reduction_end_ns(request->order, request->plan, place, scratch->reduction_ns,
                                 is_exposed ? NULL : scratch->ready_ns);
        if (is_exposed) {
            ns += play->pipeline_ns;
        } else if (request->post_validation) {
            ns -= play->rank_begin_ns[place];
        }
        if (ns > longest) longest = ns;
    }
    return longest;
}

static int64_t pipeline_ns(const sim_play_request *request, const sim_play *play)
{
    if (!request->post_validation) return play->makespan_ns;
    int64_t longest = 0;
    for (int place = 0; place < request->plan->rank_count; place++) {
        const int64_t ns = play->rank_end_ns[place] - play->rank_begin_ns[place];
        if (ns > longest) longest = ns;
    }
    return longest;
}

status sim_play_replicas(const sim_play_request *request, arena *memory, sim_play *play,
                         error_message *err)
{
    sim_play made = {0};
    play_scratch scratch = {0};
    bal_stage_costs *stages = arena_array(memory, (size_t)request->replica_count, sizeof *stages);
    if (stages == NULL) return no_memory(request, err);
    made.stages = stages;
    TRY(allocate(request, memory, &made, &scratch, err));
    for (int replica = 0; replica < request->replica_count; replica++) {
        TRY(play_replica(request, replica, memory, &stages[replica], &scratch, &made, err));
    }
    made.pipeline_ns = pipeline_ns(request, &made);
    if (scratch.reduction_ns != NULL) {
        const int64_t reduced = reduced_ns(request, &scratch, &made);
        if (reduced > made.pipeline_ns) made.reduction_ns = reduced - made.pipeline_ns;
    }
    *play = made;
    return STATUS_OK;
}

#include "balance/schedule/makespan_bounds.h"

#include <stdbool.h>
#include <string.h>

static int64_t add(int64_t a, int64_t b)
{
    return b > INT64_MAX - a ? INT64_MAX : a + b;
}

static int64_t max_of(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t min_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/// Whether a message from a stage to the next one crosses ranks; else it costs nothing.
static bool crosses(int stage, int rank_count, int chunk_count, bal_placement placement)
{
    return bal_rank_of_stage(placement, rank_count, chunk_count, stage, NULL) !=
           bal_rank_of_stage(placement, rank_count, chunk_count, stage + 1, NULL);
}

/// Time of the messages both ways between a stage and the next one.
static int64_t both_sends(const bal_stage_costs *costs, int stage, int rank_count, int chunk_count,
                          bal_placement placement)
{
    if (!crosses(stage, rank_count, chunk_count, placement)) return 0;
    return add(costs->send_forward_ns[stage], costs->send_backward_ns[stage + 1]);
}

/// The time of a stage's microbatch, where one column may stand for all.
static int64_t at(const bal_stage_costs *costs, const int64_t *times, int stage, int microbatch)
{
    const int columns = costs->microbatch_count;
    return times[(int64_t)stage * columns + (columns == 1 ? 0 : microbatch)];
}

/// Sum over a stage's microbatches.
static int64_t sum_of(const bal_stage_costs *costs, const int64_t *times, int stage,
                      int microbatch_count)
{
    if (costs->microbatch_count == 1) {
        const bal_wide sum = (bal_wide)times[stage] * microbatch_count;
        return sum > INT64_MAX ? INT64_MAX : (int64_t)sum;
    }
    int64_t sum = 0;
    for (int microbatch = 0; microbatch < microbatch_count; microbatch++) {
        sum = add(sum, at(costs, times, stage, microbatch));
    }
    return sum;
}

/// The least over a stage's microbatches.
static int64_t least_of(const bal_stage_costs *costs, const int64_t *times, int stage)
{
    const int columns = costs->microbatch_count;
    int64_t least = INT64_MAX;
    for (int column = 0; column < columns; column++) {
        least = min_of(least, times[(int64_t)stage * columns + column]);
    }
    return least;
}

/// The longest microbatch's way from stage 0 to the last, back to a stage, and W there.
static int64_t longest_way(const bal_stage_costs *costs, int rank_count, int chunk_count,
                           bal_placement placement)
{
    const int last = costs->stage_count - 1;
    int64_t longest = 0;
    for (int column = 0; column < costs->microbatch_count; column++) {
        int64_t way = 0;
        for (int stage = 0; stage <= last; stage++) {
            way = add(way, at(costs, costs->forward_ns, stage, column));
            if (stage == last || !crosses(stage, rank_count, chunk_count, placement)) continue;
            way = add(way, costs->send_forward_ns[stage]);
        }
        for (int stage = last; stage >= 0; stage--) {
            if (stage < last && crosses(stage, rank_count, chunk_count, placement)) {
                way = add(way, costs->send_backward_ns[stage + 1]);
            }
            way = add(way, at(costs, costs->backward_input_ns, stage, column));
            longest =
                max_of(longest, add(way, at(costs, costs->backward_weight_ns, stage, column)));
        }
    }
    return longest;
}

typedef struct rank_work {
    int64_t forward_input; // F + B of all stages and microbatches of a rank
    int64_t weight;        // W of them
} rank_work;

static rank_work work_of(const bal_stage_costs *costs, int rank, int rank_count, int chunk_count,
                         bal_placement placement, int microbatch_count)
{
    rank_work work = {0};
    for (int chunk = 0; chunk < chunk_count; chunk++) {
        const int stage = bal_stage_of(placement, rank_count, chunk_count, rank, chunk);
        const int64_t forward = sum_of(costs, costs->forward_ns, stage, microbatch_count);
        const int64_t input = sum_of(costs, costs->backward_input_ns, stage, microbatch_count);
        const int64_t weight = sum_of(costs, costs->backward_weight_ns, stage, microbatch_count);
        work.forward_input = add(work.forward_input, add(forward, input));
        work.weight = add(work.weight, weight);
    }
    return work;
}

/// One of the two pipelines of a bidirectional placement: its stages, as those of one chunk per
/// rank on ranks that are numbered along it.
static bal_stage_costs pipeline_of(const bal_stage_costs *costs, int rank_count, int chunk)
{
    const int64_t first = (int64_t)chunk * rank_count;
    const int64_t cell = first * costs->microbatch_count;
    return (bal_stage_costs){.stage_count = rank_count,
                             .microbatch_count = costs->microbatch_count,
                             .forward_ns = costs->forward_ns + cell,
                             .backward_input_ns = costs->backward_input_ns + cell,
                             .backward_weight_ns = costs->backward_weight_ns + cell,
                             .send_forward_ns = costs->send_forward_ns + first,
                             .send_backward_ns = costs->send_backward_ns + first};
}

/// The larger bound of the two pipelines alone, and each rank's work.
static int64_t bidirectional_bound(const bal_stage_costs *costs, int rank_count,
                                   int microbatch_count, bool is_span)
{
    int64_t bound = 0;
    for (int chunk = 0; chunk < 2; chunk++) {
        const bal_stage_costs alone = pipeline_of(costs, rank_count, chunk);
        const int64_t own = is_span
                                ? bal_span_lower_bound_ns(&alone, rank_count, 1, BAL_PLACEMENT_LOOP,
                                                          microbatch_count)
                                : bal_makespan_lower_bound_ns(&alone, rank_count, 1,
                                                              BAL_PLACEMENT_LOOP, microbatch_count);
        bound = max_of(bound, own);
    }
    for (int rank = 0; rank < rank_count; rank++) {
        const rank_work work =
            work_of(costs, rank, rank_count, 2, BAL_PLACEMENT_BIDIRECTIONAL, microbatch_count);
        bound = max_of(bound, add(work.forward_input, work.weight));
    }
    return bound;
}

int64_t bal_makespan_lower_bound_ns(const bal_stage_costs *costs, int rank_count, int chunk_count,
                                    bal_placement placement, int microbatch_count)
{
    if (placement == BAL_PLACEMENT_BIDIRECTIONAL) {
        return bidirectional_bound(costs, rank_count, microbatch_count, false);
    }
    int64_t bound = longest_way(costs, rank_count, chunk_count, placement);
    int64_t head = 0; // until the first F reaches the rank
    int64_t tail = 0; // from the end of the rank's last B until stage 0 has ended its own
    for (int rank = 0; rank < rank_count; rank++) {
        const rank_work work =
            work_of(costs, rank, rank_count, chunk_count, placement, microbatch_count);
        bound = max_of(bound, add(head, add(work.forward_input, work.weight)));
        bound = max_of(bound, add(head, add(work.forward_input, tail)));
        if (rank + 1 == rank_count) break;
        // Stage `rank` is the rank's first in model order, under both placements.
        head = add(head, least_of(costs, costs->forward_ns, rank));
        head = add(head, costs->send_forward_ns[rank]);
        tail = add(tail, least_of(costs, costs->backward_input_ns, rank));
        tail = add(tail, costs->send_backward_ns[rank + 1]); // stages of two ranks
    }
    return bound;
}

int64_t bal_span_lower_bound_ns(const bal_stage_costs *costs, int rank_count, int chunk_count,
                                bal_placement placement, int microbatch_count)
{
    if (placement == BAL_PLACEMENT_BIDIRECTIONAL) {
        return bidirectional_bound(costs, rank_count, microbatch_count, true);
    }
    int64_t bound = 0;
    int64_t trip = 0; // F from a stage to the last and B back to it
    for (int stage = costs->stage_count - 1; stage >= 0; stage--) {
        trip = add(trip, least_of(costs, costs->forward_ns, stage));
        trip = add(trip, least_of(costs, costs->backward_input_ns, stage));
        if (stage < costs->stage_count - 1) {
            trip = add(trip, both_sends(costs, stage, rank_count, chunk_count, placement));
        }
        if (stage >= rank_count) continue;
        const rank_work work =
            work_of(costs, stage, rank_count, chunk_count, placement, microbatch_count);
        bound = max_of(bound, max_of(trip, add(work.forward_input, work.weight)));
    }
    return bound;
}

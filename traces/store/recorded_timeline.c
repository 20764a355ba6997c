#include "traces/store/recorded_timeline.h"

#include "balance/metrics.h"
#include "base/arena.h"
#include "traces/store/op_index.h"

#include <stdbool.h>
#include <stdlib.h>

/// The ops of one rank in one iteration, and what they are looked at against.
typedef struct rank_ops {
    const trace_op_index *index;
    const trace_op *ops; // [count] by begin
    int64_t count;
    int64_t next_message; // the first that may not yet be over
} rank_ops;

static bool is_work(const trace_op *op)
{
    return op->kind <= TRACE_OP_RECOMPUTE;
}

static bool is_message(const trace_op *op)
{
    return op->kind >= TRACE_OP_SEND_FORWARD && op->kind <= TRACE_OP_RECV_BACKWARD;
}

/// How long messages of the rank last within [begin_ns, end_ns). Gaps come in order; a message that
/// reaches beyond a gap is looked at again for the next.
static int64_t messages_within(rank_ops *rank, int64_t begin_ns, int64_t end_ns)
{
    int64_t sum_ns = 0;
    int64_t covered_ns = begin_ns;
    bool is_leading = true;
    for (int64_t each = rank->next_message; each < rank->count; each++) {
        const trace_op *op = &rank->ops[each];
        if (op->begin_ns >= end_ns) break;
        const bool is_over = !is_message(op) || op->end_ns <= begin_ns;
        if (is_over && is_leading) rank->next_message = each + 1;
        if (is_over) continue;
        is_leading = false;
        const int64_t from_ns = op->begin_ns > covered_ns ? op->begin_ns : covered_ns;
        const int64_t to_ns = op->end_ns < end_ns ? op->end_ns : end_ns;
        if (to_ns > from_ns) {
            sum_ns += to_ns - from_ns;
            covered_ns = to_ns;
        }
    }
    return sum_ns;
}

/// The gap [begin_ns, next->begin_ns) by its causes.
static void explain_gap(rank_ops *rank, const trace_op *next, int64_t begin_ns,
                        trace_rank_time *time)
{
    const int64_t gap_ns = next->begin_ns - begin_ns;
    const trace_op *producer = trace_op_producer(rank->index, next);
    if (producer != NULL && producer->rank != next->rank && producer->end_ns > begin_ns) {
        const int64_t computed_ns =
            producer->end_ns < next->begin_ns ? producer->end_ns : next->begin_ns;
        int64_t *wait_ns =
            next->kind == TRACE_OP_FORWARD ? &time->wait_forward_ns : &time->wait_gradient_ns;
        *wait_ns += computed_ns - begin_ns;
        time->communication_ns += next->begin_ns - computed_ns;
        return;
    }
    const int64_t message_ns = messages_within(rank, begin_ns, next->begin_ns);
    time->communication_ns += message_ns;
    time->other_ns += gap_ns - message_ns;
}

static void explain_rank(rank_ops *rank, int64_t first_ns, int64_t last_ns, trace_rank_time *time)
{
    int64_t covered_ns = first_ns;
    bool is_first = true;
    for (int64_t each = 0; each < rank->count; each++) {
        const trace_op *op = &rank->ops[each];
        if (!is_work(op)) continue;
        if (op->begin_ns > covered_ns && is_first) {
            time->warmup_ns += op->begin_ns - covered_ns;
        } else if (op->begin_ns > covered_ns) {
            explain_gap(rank, op, covered_ns, time);
        }
        is_first = false;
        if (op->begin_ns > covered_ns) covered_ns = op->begin_ns;
        if (op->end_ns > covered_ns) {
            time->op_ns += op->end_ns - covered_ns;
            covered_ns = op->end_ns;
        }
        if (op->busy_ns < 0) time->device_ns = -1;
        if (time->device_ns >= 0) time->device_ns += op->busy_ns;
    }
    time->cooldown_ns += last_ns - covered_ns;
}

static double bubble_ratio(const trace_recorded_timeline *timeline)
{
    double busy_ns = 0;
    const double total_ns = (double)timeline->makespan_ns * timeline->rank_count;
    for (int rank = 0; rank < timeline->rank_count; rank++) {
        busy_ns += (double)timeline->ranks[rank].op_ns;
    }
    return bal_bubble_ratio(busy_ns, total_ns);
}

/// First begin and last end of the work among ops. @return false if there is none
static bool extent(const trace_op *ops, int64_t count, int64_t *first_ns, int64_t *last_ns)
{
    *first_ns = INT64_MAX;
    *last_ns = INT64_MIN;
    for (int64_t op = 0; op < count; op++) {
        if (!is_work(&ops[op])) continue;
        if (ops[op].begin_ns < *first_ns) *first_ns = ops[op].begin_ns;
        if (ops[op].end_ns > *last_ns) *last_ns = ops[op].end_ns;
    }
    return *first_ns <= *last_ns;
}

static int64_t run_of_rank(const trace_op *ops, int64_t count)
{
    int64_t end = 1;
    while (end < count && ops[end].rank == ops[0].rank) {
        end++;
    }
    return end;
}

static int64_t run_of_iteration(const trace_op *ops, int64_t count)
{
    int64_t end = 1;
    while (end < count && ops[end].iteration == ops[0].iteration) {
        end++;
    }
    return end;
}

/// The timeline of one iteration. A rank without work in it was idle: all of it is cool-down.
static void explain_iteration(const trace_op_index *index, const trace_op *ops, int64_t count,
                              trace_recorded_timeline *timeline)
{
    int64_t first_ns = 0;
    int64_t last_ns = 0;
    int rank_count = 0;
    *timeline = (trace_recorded_timeline){0};
    if (!extent(ops, count, &first_ns, &last_ns)) return;
    for (int64_t begin = 0; begin < count; begin += run_of_rank(ops + begin, count - begin)) {
        rank_count++;
    }
    trace_rank_time *ranks = memory_array((size_t)rank_count, sizeof *ranks);
    int rank = 0;
    for (int64_t begin = 0; begin < count; rank++) {
        const int64_t length = run_of_rank(ops + begin, count - begin);
        rank_ops each = {.index = index, .ops = ops + begin, .count = length};
        ranks[rank].rank = ops[begin].rank;
        explain_rank(&each, first_ns, last_ns, &ranks[rank]);
        begin += length;
    }
    *timeline = (trace_recorded_timeline){.rank_count = rank_count,
                                          .iteration_count = 1,
                                          .makespan_ns = last_ns - first_ns,
                                          .ranks = ranks};
    timeline->bubble_ratio = bubble_ratio(timeline);
}

void trace_recorded_timeline_add(trace_recorded_timeline *sum, const trace_recorded_timeline *more)
{
    const size_t most = (size_t)sum->rank_count + (size_t)more->rank_count;
    trace_rank_time *ranks = memory_array(most + 1, sizeof *ranks);
    int left = 0;
    int right = 0;
    int count = 0;
    while (left < sum->rank_count || right < more->rank_count) {
        const trace_rank_time idle_left = {.cooldown_ns = sum->makespan_ns};
        const trace_rank_time idle_right = {.cooldown_ns = more->makespan_ns};
        const bool has_left =
            left < sum->rank_count &&
            (right == more->rank_count || sum->ranks[left].rank <= more->ranks[right].rank);
        const bool has_right =
            right < more->rank_count &&
            (left == sum->rank_count || more->ranks[right].rank <= sum->ranks[left].rank);
        const trace_rank_time *a = has_left ? &sum->ranks[left] : &idle_left;
        const trace_rank_time *b = has_right ? &more->ranks[right] : &idle_right;
        ranks[count++] = (trace_rank_time){
            .rank = has_left ? a->rank : b->rank,
            .op_ns = a->op_ns + b->op_ns,
            .warmup_ns = a->warmup_ns + b->warmup_ns,
            .cooldown_ns = a->cooldown_ns + b->cooldown_ns,
            .wait_forward_ns = a->wait_forward_ns + b->wait_forward_ns,
            .wait_gradient_ns = a->wait_gradient_ns + b->wait_gradient_ns,
            .communication_ns = a->communication_ns + b->communication_ns,
            .other_ns = a->other_ns + b->other_ns,
            .device_ns = a->device_ns < 0 || b->device_ns < 0 ? -1 : a->device_ns + b->device_ns,
        };
        left += has_left;
        right += has_right;
    }
    free(sum->ranks);
    sum->ranks = ranks;
    sum->rank_count = count;
    sum->iteration_count += more->iteration_count;
    sum->makespan_ns += more->makespan_ns;
    sum->bubble_ratio = bubble_ratio(sum);
}

trace_recorded_timeline trace_recorded_timeline_of(const trace_op *ops, int64_t op_count)
{
    trace_op_index index;
    trace_recorded_timeline sum = {0};
    trace_op_index_create(ops, op_count, &index);
    for (int64_t begin = 0; begin < op_count;) {
        const int64_t length = run_of_iteration(ops + begin, op_count - begin);
        trace_recorded_timeline one;
        explain_iteration(&index, ops + begin, length, &one);
        trace_recorded_timeline_add(&sum, &one);
        trace_recorded_timeline_free(&one);
        begin += length;
    }
    trace_op_index_free(&index);
    return sum;
}

void trace_recorded_timeline_free(trace_recorded_timeline *timeline)
{
    free(timeline->ranks);
    *timeline = (trace_recorded_timeline){0};
}

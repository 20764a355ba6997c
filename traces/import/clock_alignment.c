#include "traces/import/clock_alignment.h"

#include "base/arena.h"
#include "traces/store/op_table.h"

#include <inttypes.h>
#include <stdlib.h>

#define UNBOUNDED (INT64_MAX / 4)

/// When the result of producer left its rank: its message cannot have been sent before the SEND.
static int64_t departure_ns(const trace_op_index *index, const trace_op *producer)
{
    const trace_op_kind kind =
        producer->kind == TRACE_OP_FORWARD ? TRACE_OP_SEND_FORWARD : TRACE_OP_SEND_BACKWARD;
    const trace_op *send = trace_op_find(index, producer->iteration, producer->replica, kind,
                                         producer->layer, producer->microbatch);
    const bool is_later =
        send != NULL && send->rank == producer->rank && send->begin_ns > producer->end_ns;
    return is_later ? send->begin_ns : producer->end_ns;
}

static int compare_bounds(const void *a, const void *b)
{
    const trace_message_bound *left = a;
    const trace_message_bound *right = b;
    if (left->from != right->from) return left->from < right->from ? -1 : 1;
    return (left->to > right->to) - (left->to < right->to);
}

/// Notes a message: of those between the same ranks the fastest counts. Those of one op after the
/// other are mostly between the same ranks, so that the bound is looked for from the last on.
///
/// @param last place of the bound that was noted last
static void note_message(trace_alignment *alignment, trace_message_bound message, int *last,
                         arena *memory)
{
    const int count = alignment->bound_count;
    for (int looked = 0; looked < count; looked++) {
        trace_message_bound *bound = &alignment->bounds[(*last + looked) % count];
        if (compare_bounds(bound, &message) != 0) continue;
        *last = (*last + looked) % count;
        if (message.least_ns < bound->least_ns) bound->least_ns = message.least_ns;
        return;
    }
    alignment->bounds =
        arena_grow(memory, alignment->bounds, (size_t)count, sizeof *alignment->bounds);
    alignment->bounds[count] = message;
    *last = alignment->bound_count++;
}

/// Sums along any chain of ranks must fit.
static status check_bounds(const trace_alignment *alignment, error_message *err)
{
    const int64_t limit_ns = UNBOUNDED / (alignment->rank_count + 1) - TRACE_CONTRADICTION_MAX_NS;
    for (int bound = 0; bound < alignment->bound_count; bound++) {
        const int64_t least_ns = alignment->bounds[bound].least_ns;
        if (least_ns > limit_ns || least_ns < -limit_ns) {
            return error_set(err, STATUS_INVALID,
                             "two ranks' clocks are %" PRId64 " ns apart, more than %" PRId64,
                             least_ns, limit_ns);
        }
    }
    return STATUS_OK;
}

static status collect_bounds(const trace_op_index *index, arena *memory, trace_alignment *alignment,
                             error_message *err)
{
    int last = 0;
    for (int64_t each = 0; each < index->count; each++) {
        const trace_op *op = &index->ops[each];
        const trace_op *producer = trace_op_producer(index, op);
        if (producer == NULL || producer->rank == op->rank) continue;
        const trace_message_bound message = {producer->rank, op->rank,
                                             op->begin_ns - departure_ns(index, producer)};
        note_message(alignment, message, &last, memory);
    }
    if (alignment->bound_count == 0) return STATUS_OK;
    qsort(alignment->bounds, (size_t)alignment->bound_count, sizeof *alignment->bounds,
          compare_bounds);
    return check_bounds(alignment, err);
}

/// Which of the offsets that the bounds allow.
typedef enum extreme { SMALLEST, LARGEST } extreme;

/// Finds the largest offsets that the bounds allow, or the smallest, negated, each message taken
/// for slack_ns slower. offset[to] >= offset[from] - least.
///
/// @return false if they contradict each other
static bool relax(const trace_alignment *alignment, int64_t slack_ns, extreme wanted,
                  int64_t *offset_ns)
{
    for (int rank = 0; rank < alignment->rank_count; rank++) {
        offset_ns[rank] = rank == 0 ? 0 : UNBOUNDED;
    }
    for (int round = 0; round <= alignment->rank_count; round++) {
        bool changed = false;
        for (int bound = 0; bound < alignment->bound_count; bound++) {
            const trace_message_bound *each = &alignment->bounds[bound];
            int64_t *least = &offset_ns[wanted == LARGEST ? each->from : each->to];
            const int64_t other_ns = offset_ns[wanted == LARGEST ? each->to : each->from];
            const int64_t max_ns = other_ns + each->least_ns + slack_ns;
            if (other_ns == UNBOUNDED || *least <= max_ns) continue;
            *least = max_ns;
            changed = true;
        }
        if (!changed) return true;
    }
    return false;
}

/// The smallest slack under which the bounds agree: bisection.
static status find_slack(trace_alignment *alignment, int64_t *scratch_ns, error_message *err)
{
    int64_t low_ns = 0; // contradicts
    int64_t high_ns = TRACE_CONTRADICTION_MAX_NS;
    if (relax(alignment, 0, LARGEST, scratch_ns)) return STATUS_OK;
    if (!relax(alignment, high_ns, LARGEST, scratch_ns)) {
        return error_set(err, STATUS_INVALID,
                         "messages between the ranks contradict each other by more than %" PRId64
                         " ms, whatever their clocks: these are not traces of one run",
                         TRACE_CONTRADICTION_MAX_NS / 1000000);
    }
    while (high_ns - low_ns > 1) {
        const int64_t middle_ns = low_ns + (high_ns - low_ns) / 2;
        if (relax(alignment, middle_ns, LARGEST, scratch_ns)) {
            high_ns = middle_ns;
        } else {
            low_ns = middle_ns;
        }
    }
    alignment->contradiction_ns = high_ns;
    return STATUS_OK;
}

/// The middle of [lower, upper]; where one side is open, the nearest to 0.
static void choose_offset(int64_t lower_ns, int64_t upper_ns, int64_t *offset_ns,
                          int64_t *residual_ns)
{
    const bool is_bounded = lower_ns > -UNBOUNDED && upper_ns < UNBOUNDED;
    *residual_ns = is_bounded ? (upper_ns - lower_ns + 1) / 2 : -1;
    if (is_bounded) {
        const int64_t sum_ns = lower_ns + upper_ns;
        *offset_ns = sum_ns >= 0 ? sum_ns / 2 : -((1 - sum_ns) / 2); // rounded down
    } else {
        *offset_ns = lower_ns > 0 ? lower_ns : upper_ns < 0 ? upper_ns : 0;
    }
}

status trace_alignment_find(const trace_op *ops, int64_t op_count, int rank_count, arena *memory,
                            trace_alignment *alignment, error_message *err)
{
    const size_t ranks = (size_t)rank_count;
    const trace_op_index index = trace_op_index_of(ops, op_count, memory);
    int64_t *upper_ns = arena_array(memory, ranks, sizeof *upper_ns);
    int64_t *lower_ns = arena_array(memory, ranks, sizeof *lower_ns); // negated
    trace_alignment made = {.rank_count = rank_count,
                            .offset_ns = arena_array(memory, ranks, sizeof(int64_t)),
                            .residual_ns = arena_array(memory, ranks, sizeof(int64_t))};
    TRY(collect_bounds(&index, memory, &made, err));
    TRY(find_slack(&made, upper_ns, err));
    relax(&made, made.contradiction_ns, LARGEST, upper_ns);
    relax(&made, made.contradiction_ns, SMALLEST, lower_ns);
    for (int rank = 0; rank < rank_count; rank++) {
        choose_offset(-lower_ns[rank], upper_ns[rank], &made.offset_ns[rank],
                      &made.residual_ns[rank]);
    }
    *alignment = made;
    return STATUS_OK;
}

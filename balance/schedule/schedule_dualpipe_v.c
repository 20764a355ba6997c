#include "balance/schedule/schedule_families.h"

#include <stdbool.h>

/// An order of a rank under way.
typedef struct dual {
    bal_op *next;
    int forwards[2];  // of either chunk
    int backwards[2]; // B and BW
    bal_op *pending;  // the first B whose W is still to come, or where it will be
} dual;

status bal_schedule_rule_dualpipe_v(int rank_count, int microbatch_count, error_message *err)
{
    if (microbatch_count >= 2 * rank_count) return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "microbatch_count %d: schedule dualpipe-v needs at least one for each of the "
                     "%d stages",
                     microbatch_count, 2 * rank_count);
}

static void put_forward(dual *at, int chunk)
{
    at->next = bal_op_put(at->next, OP_FORWARD, chunk, at->forwards[chunk]++);
}

static void put_backward(dual *at, bal_op_kind kind, int chunk)
{
    at->next = bal_op_put(at->next, kind, chunk, at->backwards[chunk]++);
}

static void put_pair(dual *at, int forward_chunk)
{
    put_forward(at, forward_chunk);
    at->next[-1].overlaps_next = 1;
    put_backward(at, OP_BACKWARD, 1 - forward_chunk);
}

/// The W of the oldest B that has none yet, if there is one.
static void put_weight(dual *at)
{
    while (at->pending < at->next && at->pending->kind != OP_BACKWARD_INPUT) {
        at->pending++;
    }
    if (at->pending == at->next) return;
    const bal_op input = *at->pending++;
    at->next = bal_op_put(at->next, OP_BACKWARD_WEIGHT, input.chunk, input.microbatch);
}

static void put_warmup(dual *at, int rank_count, int rank)
{
    for (int op = 0; op < 2 * (rank_count - 1 - rank); op++) {
        put_forward(at, 0);
    }
    for (int op = 0; op <= rank; op++) {
        put_forward(at, 0);
        put_forward(at, 1);
    }
    for (int op = 0; op < rank_count - 1 - rank; op++) {
        put_backward(at, OP_BACKWARD_INPUT, 1);
        put_weight(at);
        put_forward(at, 1);
    }
}

/// Every forward overlaps a backward of the other chunk. On the last rank the first two do not:
/// together they would keep the rank before waiting.
static void put_steady(dual *at, int rank_count, int microbatch_count, int rank)
{
    for (int step = 0; step < microbatch_count - 2 * rank_count + rank + 1; step++) {
        if (step == 0 && rank == rank_count - 1) {
            put_forward(at, 0);
            put_backward(at, OP_BACKWARD, 1);
        } else {
            put_pair(at, 0);
        }
        put_pair(at, 1);
    }
    for (int step = 0; step < rank_count - 1 - rank; step++) {
        put_backward(at, OP_BACKWARD, 1);
        put_pair(at, 1);
    }
}

/// Of the last 2 (rank + 1) gradients the first rank + 1 or so are full ones; then B alone, so that
/// the ranks before get theirs, and the W fill what is left.
static void put_cooldown(dual *at, int rank_count, int rank)
{
    const int full = rank + 1; // backwards of both chunks in turn that are full ones
    for (int op = 0; op < 2 * (rank + 1); op++) {
        put_backward(at, op < full ? OP_BACKWARD : OP_BACKWARD_INPUT, op % 2 == 0 ? 1 : 0);
    }
    for (int op = 0; op < rank_count - 1 - rank; op++) {
        put_weight(at);
        put_backward(at, OP_BACKWARD_INPUT, 0);
    }
    for (int op = 0; op <= rank; op++) {
        put_weight(at);
    }
}

/// Source: DeepSeek-AI, DualPipe (github.com/deepseek-ai/DualPipe), DualPipeV; as PyTorch's
/// ScheduleDualPipeV writes it.
bal_op *bal_schedule_fill_dualpipe_v(int rank_count, int chunk_count, int microbatch_count,
                                     int rank, bal_op *ops)
{
    (void)chunk_count;
    dual at = {.next = ops, .pending = ops};
    put_warmup(&at, rank_count, rank);
    put_steady(&at, rank_count, microbatch_count, rank);
    put_cooldown(&at, rank_count, rank);
    return at.next;
}

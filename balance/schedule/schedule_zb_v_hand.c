#include "balance/schedule/schedule_families.h"

/// An order of a rank under way. Ops of microbatches beyond the last are counted and left out: with
/// fewer than 2P - 1 microbatches the order is that of 2P - 1 with holes.
typedef struct hand {
    bal_op *next;
    int microbatch_count;
    int count[OP_KIND_COUNT][2]; // ops so far, of either chunk
} hand;

static void put(hand *at, bal_op_kind kind, int chunk)
{
    const int microbatch = at->count[kind][chunk]++;
    if (microbatch < at->microbatch_count) at->next = bal_op_put(at->next, kind, chunk, microbatch);
}

static void put_backward(hand *at, int chunk)
{
    put(at, OP_BACKWARD_INPUT, chunk);
    put(at, OP_BACKWARD_WEIGHT, chunk);
}

static void put_warmup(hand *at, int rank_count, int rank)
{
    for (int op = 0; op < 2 * (rank_count - rank) - 1; op++) {
        put(at, OP_FORWARD, 0);
    }
    for (int op = 0; op < rank; op++) {
        put(at, OP_FORWARD, 1);
        put(at, OP_FORWARD, 0);
    }
    for (int op = 0; op < rank_count - rank; op++) {
        put(at, OP_FORWARD, 1);
        put_backward(at, 1);
    }
}

/// Every forward has a backward behind it, the two chunks in turn.
static void put_steady(hand *at, int forward_count)
{
    int *const forwards = at->count[OP_FORWARD];
    while (forwards[1] < forward_count) {
        if (forwards[0] < forward_count) put(at, OP_FORWARD, 0);
        put_backward(at, 0);
        put(at, OP_FORWARD, 1);
        put_backward(at, 1);
    }
}

/// The last gradients of rank microbatches go first: the ranks before wait for them.
static void put_cooldown(hand *at, int rank_count, int rank)
{
    for (int op = 0; op < rank; op++) {
        put(at, OP_BACKWARD_INPUT, 0);
        put(at, OP_BACKWARD_INPUT, 1);
    }
    for (int op = 0; op < rank_count - rank; op++) {
        put_backward(at, 0);
    }
    for (int chunk = 1; chunk >= 0; chunk--) {
        while (at->count[OP_BACKWARD_WEIGHT][chunk] < at->count[OP_BACKWARD_INPUT][chunk]) {
            put(at, OP_BACKWARD_WEIGHT, chunk);
        }
    }
}

/// Source: Qi et al., Zero bubble pipeline parallelism, arXiv 2401.10241, ZB-V; made by hand for
/// F = B = W, as in their release and in PyTorch's ScheduleZBVZeroBubble.
bal_op *bal_schedule_fill_zb_v_hand(int rank_count, int chunk_count, int microbatch_count, int rank,
                                    bal_op *ops)
{
    (void)chunk_count;
    hand at = {.next = ops, .microbatch_count = microbatch_count};
    const int least = 2 * rank_count - 1;
    put_warmup(&at, rank_count, rank);
    put_steady(&at, microbatch_count > least ? microbatch_count : least);
    put_cooldown(&at, rank_count, rank);
    return at.next;
}

/// The schedules written down by hand: an op of each rank after the other, whatever the costs.
#include "balance/schedule/schedule_families.h"

#include <stdbool.h>

/// An order in which a rank runs some forwards ahead, then a forward and a backward in turn, and a
/// W some backwards after its B. Chunks take turns, round microbatches each: forwards from the
/// first to the last, the others from the last to the first.
typedef struct alternation {
    int64_t ahead; // forwards before the first backward
    int delay;     // backwards between B and its W; -1: BW
    int round;
} alternation;

static bal_op *put_index(bal_op *next, bal_op_kind kind, bal_schedule_counts counts, int round,
                         int index)
{
    const int row = index / round % counts.chunk_count;
    const int chunk = kind == OP_FORWARD ? row : counts.chunk_count - 1 - row;
    const int rounds = index / (round * counts.chunk_count);
    return bal_op_put(next, kind, chunk, rounds * round + index % round);
}

static bal_op *alternate(bal_schedule_counts counts, alternation by, bal_op *ops)
{
    const int total = counts.microbatch_count * counts.chunk_count;
    const int warmup = by.ahead < total ? (int)by.ahead : total;
    const bool is_split = by.delay >= 0;
    for (int index = 0; index < warmup; index++) {
        ops = put_index(ops, OP_FORWARD, counts, by.round, index);
    }
    for (int index = 0; index < total; index++) {
        if (warmup + index < total) {
            ops = put_index(ops, OP_FORWARD, counts, by.round, warmup + index);
        }
        ops = put_index(ops, is_split ? OP_BACKWARD_INPUT : OP_BACKWARD, counts, by.round, index);
        if (is_split && index >= by.delay) {
            ops = put_index(ops, OP_BACKWARD_WEIGHT, counts, by.round, index - by.delay);
        }
    }
    for (int index = total > by.delay ? total - by.delay : 0; is_split && index < total; index++) {
        ops = put_index(ops, OP_BACKWARD_WEIGHT, counts, by.round, index);
    }
    return ops;
}

/// All forwards, then all backwards. Source: Huang et al., GPipe, NeurIPS 2019.
bal_op *bal_schedule_fill_gpipe(bal_schedule_counts counts, int rank, bal_op *ops)
{
    (void)rank;
    const int count = counts.microbatch_count;
    return alternate(counts, (alternation){.ahead = count, .delay = -1, .round = count}, ops);
}

/// Warmup with one forward fewer on each later rank.
/// Source: Narayanan et al., PipeDream-flush, ICML 2021.
bal_op *bal_schedule_fill_1f1b(bal_schedule_counts counts, int rank, bal_op *ops)
{
    const alternation by = {
        .ahead = counts.rank_count - 1 - rank, .delay = -1, .round = counts.microbatch_count};
    return alternate(counts, by, ops);
}

status bal_schedule_rule_interleaved_1f1b(int rank_count, int microbatch_count, error_message *err)
{
    if (microbatch_count % rank_count == 0) return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "microbatch_count %d: schedule interleaved-1f1b needs a multiple of "
                     "rank_count %d",
                     microbatch_count, rank_count);
}

/// Source: Narayanan et al., Efficient large-scale language model training, SC 2021, section 2.2;
/// warmup as Megatron-LM counts it.
bal_op *bal_schedule_fill_interleaved_1f1b(bal_schedule_counts counts, int rank, bal_op *ops)
{
    const int64_t ranks = counts.rank_count;
    const alternation by = {.ahead = 2 * (ranks - 1 - rank) + (counts.chunk_count - 1) * ranks,
                            .delay = -1,
                            .round = counts.rank_count};
    return alternate(counts, by, ops);
}

/// Rank s runs depth * (P - 1 - s) forwards ahead and holds back the W of depth * s microbatches,
/// so that every rank keeps about depth * P activations. Depth 1 fills the memory of 1F1B, depth 2
/// hides the whole bubble where F, B and W are equal.
static bal_op *fill_zb(int depth, bal_schedule_counts counts, int rank, bal_op *ops)
{
    const alternation by = {.ahead = depth * (counts.rank_count - 1 - rank),
                            .delay = depth * rank,
                            .round = counts.microbatch_count};
    return alternate(counts, by, ops);
}

/// Source: Qi et al., Zero bubble pipeline parallelism, ICLR 2024, section 2, ZB-H1.
bal_op *bal_schedule_fill_zb_h1(bal_schedule_counts counts, int rank, bal_op *ops)
{
    return fill_zb(1, counts, rank, ops);
}

/// Source: as ZB-H1; ZB-H2.
bal_op *bal_schedule_fill_zb_h2(bal_schedule_counts counts, int rank, bal_op *ops)
{
    return fill_zb(2, counts, rank, ops);
}

/// Microbatches that go through one chunk before the next chunk takes them: P, or somewhat more
/// where P does not divide M.
static int round_size(int rank_count, int microbatch_count)
{
    const int rounds = microbatch_count / rank_count;
    return rounds > 1 ? microbatch_count / rounds : microbatch_count;
}

status bal_schedule_rule_interleaved_zb(int rank_count, int microbatch_count, error_message *err)
{
    if (microbatch_count % round_size(rank_count, microbatch_count) == 0) return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "microbatch_count %d: schedule interleaved-zb makes %d rounds on %d ranks, "
                     "and needs a multiple of them",
                     microbatch_count, microbatch_count / rank_count, rank_count);
}

/// Source: ScheduleInterleavedZeroBubble of PyTorch, after ZB1P of Qi et al., Zero bubble pipeline
/// parallelism, ICLR 2024.
bal_op *bal_schedule_fill_interleaved_zb(bal_schedule_counts counts, int rank, bal_op *ops)
{
    const int round = round_size(counts.rank_count, counts.microbatch_count);
    const int64_t ahead = (int64_t)(counts.chunk_count - 1) * round + counts.rank_count - 1 - rank;
    return alternate(counts, (alternation){.ahead = ahead, .delay = rank, .round = round}, ops);
}

/// An order of a rank of two chunks under way. Ops of microbatches beyond the last are counted and
/// left out.
typedef struct writing {
    bal_op *next;
    int microbatch_count;
    int count[OP_KIND_COUNT][2]; // ops so far, of either chunk; BW counts as B
    bal_op *pending;             // the first B whose W is still to come, or where it will be
} writing;

static void put(writing *at, bal_op_kind kind, int chunk)
{
    const int microbatch = at->count[kind == OP_BACKWARD ? OP_BACKWARD_INPUT : kind][chunk]++;
    if (microbatch < at->microbatch_count) at->next = bal_op_put(at->next, kind, chunk, microbatch);
}

static void put_both(writing *at, int chunk)
{
    put(at, OP_BACKWARD_INPUT, chunk);
    put(at, OP_BACKWARD_WEIGHT, chunk);
}

static void put_zb_v_warmup(writing *at, int rank_count, int rank)
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
        put_both(at, 1);
    }
}

/// Every forward has a backward after it, the two chunks in turn.
static void put_zb_v_steady(writing *at, int forward_count)
{
    int *const forwards = at->count[OP_FORWARD];
    while (forwards[1] < forward_count) {
        if (forwards[0] < forward_count) put(at, OP_FORWARD, 0);
        put_both(at, 0);
        put(at, OP_FORWARD, 1);
        put_both(at, 1);
    }
}

/// The last gradients of rank microbatches go first: the ranks before wait for them.
static void put_zb_v_cooldown(writing *at, int rank_count, int rank)
{
    for (int op = 0; op < rank; op++) {
        put(at, OP_BACKWARD_INPUT, 0);
        put(at, OP_BACKWARD_INPUT, 1);
    }
    for (int op = 0; op < rank_count - rank; op++) {
        put_both(at, 0);
    }
    for (int chunk = 1; chunk >= 0; chunk--) {
        while (at->count[OP_BACKWARD_WEIGHT][chunk] < at->count[OP_BACKWARD_INPUT][chunk]) {
            put(at, OP_BACKWARD_WEIGHT, chunk);
        }
    }
}

/// With fewer than 2P - 1 microbatches the order is that of 2P - 1 with holes.
/// Source: Qi et al., Zero bubble pipeline parallelism, arXiv 2401.10241, ZB-V; made by hand for
/// F = B = W, as in their release and in PyTorch's ScheduleZBVZeroBubble.
bal_op *bal_schedule_fill_zb_v_hand(bal_schedule_counts counts, int rank, bal_op *ops)
{
    const int rank_count = counts.rank_count;
    const int microbatch_count = counts.microbatch_count;
    writing at = {.next = ops, .microbatch_count = microbatch_count};
    const int least = 2 * rank_count - 1;
    put_zb_v_warmup(&at, rank_count, rank);
    put_zb_v_steady(&at, microbatch_count > least ? microbatch_count : least);
    put_zb_v_cooldown(&at, rank_count, rank);
    return at.next;
}

status bal_schedule_rule_dualpipe_v(int rank_count, int microbatch_count, error_message *err)
{
    if (microbatch_count >= 2 * rank_count) return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "microbatch_count %d: schedule dualpipe-v needs at least one for each of the "
                     "%d stages",
                     microbatch_count, 2 * rank_count);
}

static void put_pair(writing *at, int forward_chunk)
{
    put(at, OP_FORWARD, forward_chunk);
    at->next[-1].overlaps_next = 1;
    put(at, OP_BACKWARD, 1 - forward_chunk);
}

/// The W of the oldest B that has none yet, if there is one.
static void put_weight(writing *at)
{
    while (at->pending < at->next && at->pending->kind != OP_BACKWARD_INPUT) {
        at->pending++;
    }
    if (at->pending == at->next) return;
    const bal_op input = *at->pending++;
    at->next = bal_op_put(at->next, OP_BACKWARD_WEIGHT, input.chunk, input.microbatch);
}

static void put_dual_warmup(writing *at, int rank_count, int rank)
{
    for (int op = 0; op < 2 * (rank_count - 1 - rank); op++) {
        put(at, OP_FORWARD, 0);
    }
    for (int op = 0; op <= rank; op++) {
        put(at, OP_FORWARD, 0);
        put(at, OP_FORWARD, 1);
    }
    for (int op = 0; op < rank_count - 1 - rank; op++) {
        put(at, OP_BACKWARD_INPUT, 1);
        put_weight(at);
        put(at, OP_FORWARD, 1);
    }
}

/// Every forward overlaps a backward of the other chunk. On the last rank the first two do not:
/// together they would keep the rank before waiting.
static void put_dual_steady(writing *at, int rank_count, int rank)
{
    for (int step = 0; step < at->microbatch_count - 2 * rank_count + rank + 1; step++) {
        if (step == 0 && rank == rank_count - 1) {
            put(at, OP_FORWARD, 0);
            put(at, OP_BACKWARD, 1);
        } else {
            put_pair(at, 0);
        }
        put_pair(at, 1);
    }
    for (int step = 0; step < rank_count - 1 - rank; step++) {
        put(at, OP_BACKWARD, 1);
        put_pair(at, 1);
    }
}

/// Of the last 2 (rank + 1) gradients the first rank + 1 or so are full ones; then B alone, so that
/// the ranks before get theirs, and the W fill what is left.
static void put_dual_cooldown(writing *at, int rank_count, int rank)
{
    const int full = rank + 1; // backwards of both chunks in turn that are full ones
    for (int op = 0; op < 2 * (rank + 1); op++) {
        put(at, op < full ? OP_BACKWARD : OP_BACKWARD_INPUT, op % 2 == 0 ? 1 : 0);
    }
    for (int op = 0; op < rank_count - 1 - rank; op++) {
        put_weight(at);
        put(at, OP_BACKWARD_INPUT, 0);
    }
    for (int op = 0; op <= rank; op++) {
        put_weight(at);
    }
}

/// Source: DeepSeek-AI, DualPipe (github.com/deepseek-ai/DualPipe), DualPipeV; as PyTorch's
/// ScheduleDualPipeV writes it.
bal_op *bal_schedule_fill_dualpipe_v(bal_schedule_counts counts, int rank, bal_op *ops)
{
    const int ranks = counts.rank_count;
    writing at = {.next = ops, .microbatch_count = counts.microbatch_count, .pending = ops};
    put_dual_warmup(&at, ranks, rank);
    put_dual_steady(&at, ranks, rank);
    put_dual_cooldown(&at, ranks, rank);
    return at.next;
}

enum { PIPELINES = 2, STREAMS = 2 * PIPELINES };

/// The slot of the op `index` of a stream whose first is in slot `first`.
static int64_t slot_of(int rank_count, int first, int index)
{
    const int half = rank_count / 2;
    return first + 2 * (index + (int64_t)(index / half) * half);
}

status bal_schedule_rule_chimera(int rank_count, int microbatch_count, error_message *err)
{
    if (rank_count % 2 != 0) {
        return error_set(err, STATUS_INVALID,
                         "rank_count %d: schedule chimera needs an even number of ranks",
                         rank_count);
    }
    if (microbatch_count % 2 != 0) {
        return error_set(err, STATUS_INVALID,
                         "microbatch_count %d: schedule chimera needs an even number, half for "
                         "each direction",
                         microbatch_count);
    }
    return STATUS_OK;
}

/// chimera: two pipelines in opposite directions over the same ranks, each with a copy of the model
/// and half of the microbatches, merged so that neither waits for the other.
///
/// With F and BW of one slot, microbatch j of a pipeline begins 2j slots after its first, and P
/// slots of pause follow every P / 2 microbatches: the pipelines then never want a rank in the same
/// slot. A unit is the P microbatches of both pipelines between two pauses; the next begins where
/// the cool-down of the one before leaves slots (direct concatenation). With other times, the order
/// stays.
///
/// Source: Li & Hoefler, Chimera, SC'21, sections 3.1 and 3.5.
bal_op *bal_schedule_fill_chimera(bal_schedule_counts counts, int rank, bal_op *ops)
{
    const int rank_count = counts.rank_count;
    const int microbatch_count = counts.microbatch_count;
    const struct {
        bal_op_kind kind;
        int chunk;
        int first;
    } streams[STREAMS] = {
        {OP_FORWARD, 0, rank},
        {OP_FORWARD, 1, rank_count - 1 - rank},
        {OP_BACKWARD, 0, 2 * rank_count - 1 - rank},
        {OP_BACKWARD, 1, rank_count + rank},
    };
    int next[STREAMS] = {0};
    for (int64_t left = (int64_t)STREAMS * microbatch_count; left > 0; left--) {
        int earliest = -1;
        int64_t slot = INT64_MAX;
        for (int stream = 0; stream < STREAMS; stream++) {
            if (next[stream] == microbatch_count) continue;
            const int64_t own = slot_of(rank_count, streams[stream].first, next[stream]);
            if (own >= slot) continue;
            slot = own;
            earliest = stream;
        }
        ops = bal_op_put(ops, streams[earliest].kind, streams[earliest].chunk, next[earliest]++);
    }
    return ops;
}

/// lane: the orders of all schedules, played over streams on which a message waits for its receiver
/// (nothing is buffered) and everything after it waits too, with a host that waits for no op, for
/// those of the last stage, for every forward or for every op. No order gets stuck on the lanes
/// that there are; on one lane for each direction, orders in a V do.
#include "balance/schedule/schedule.h"
#include "exec/transport/lane.h"
#include "tests/balance/reference_player.h"
#include "tests/test.h"
#include "tests/test_memory.h"

#include <string.h>

enum { RANKS_MAX = 8, MICROBATCHES_MAX = 32, STAGES_MAX = 32, OPS_MAX = 256, MESSAGES_MAX = 256 };

typedef enum host_wait { WAIT_NEVER, WAIT_HEAD, WAIT_FORWARD, WAIT_ALL, WAIT_COUNT } host_wait;

typedef int lane_rule(int from, int to, int active_count);

static int lane_now(int from, int to, int active_count)
{
    return (int)exec_lane_between(from, to, active_count);
}

/// One lane up and one down, shared by what a rank sends and receives.
static int lane_shared(int from, int to, int active_count)
{
    return to > from ? 0 : 1;
}

typedef struct played_op {
    bal_op op;
    int stage;
    int from; // rank of the message that it needs; -1: none
    int to;   // rank that needs its message; -1: none
    bool is_done;
} played_op;

typedef struct waiting {
    bool is_send;
    int peer;
    int number; // of the messages from the one to the other
    const played_op *sender;
} waiting;

typedef struct queue {
    waiting entries[MESSAGES_MAX];
    int first, end;
} queue;

typedef struct world {
    const bal_schedule *schedule;
    lane_rule *rule;
    host_wait wait;
    int stage_count;
    played_op ops[RANKS_MAX][OPS_MAX];
    int op_count[RANKS_MAX];
    int at[RANKS_MAX];         // op that the host is at
    bool is_queued[RANKS_MAX]; // and whether it is on the device's queue
    int computed[RANKS_MAX];   // ops that the device has done
    queue lanes[RANKS_MAX][EXEC_LANE_COUNT];
    int sent[RANKS_MAX][RANKS_MAX];
    int posted[RANKS_MAX][RANKS_MAX];            // at the receiver, of a sender
    int number[2][STAGES_MAX][MICROBATCHES_MAX]; // of a message by what needs it, + 1; 0: not sent
    bool has_come[RANKS_MAX][RANKS_MAX][MESSAGES_MAX];
} world;

static bool is_backward(const played_op *op)
{
    return op->op.kind == OP_BACKWARD_INPUT || op->op.kind == OP_BACKWARD;
}

static int neighbour(const world *at, int rank, int stage)
{
    if (stage < 0 || stage >= at->stage_count) return -1;
    const int other = bal_schedule_rank(at->schedule, stage);
    return other != rank ? other : -1;
}

static void set_ops(world *at)
{
    const bal_schedule *schedule = at->schedule;
    for (int rank = 0; rank < schedule->rank_count; rank++) {
        const int first = schedule->first_op[rank];
        at->op_count[rank] = schedule->first_op[rank + 1] - first;
        assert_true(at->op_count[rank] <= OPS_MAX);
        for (int index = 0; index < at->op_count[rank]; index++) {
            played_op *op = &at->ops[rank][index];
            op->op = schedule->ops[first + index];
            op->stage = bal_schedule_stage(schedule, rank, op->op.chunk);
            const int step = op->op.kind == OP_FORWARD ? 1 : is_backward(op) ? -1 : 0;
            op->from = step != 0 ? neighbour(at, rank, op->stage - step) : -1;
            op->to = step != 0 ? neighbour(at, rank, op->stage + step) : -1;
        }
    }
}

static int *number_of(world *at, const played_op *op, int stage)
{
    return &at->number[op->op.kind != OP_FORWARD][stage][op->op.microbatch];
}

static void append(world *at, int rank, int from, int to, waiting entry)
{
    queue *lane = &at->lanes[rank][at->rule(from, to, at->schedule->rank_count)];
    assert_true(lane->end < MESSAGES_MAX);
    lane->entries[lane->end++] = entry;
}

/// Posts what has been announced up to the message of an op; false: it has not been announced.
static bool take(world *at, int rank, const played_op *op)
{
    if (op->from < 0) return true;
    const int number = *number_of(at, op, op->stage) - 1;
    if (number < 0) return false;
    while (at->posted[rank][op->from] <= number) {
        append(at, rank, op->from, rank,
               (waiting){false, op->from, at->posted[rank][op->from]++, NULL});
    }
    return true;
}

static void send(world *at, int rank, const played_op *op)
{
    if (op->to < 0) return;
    const int number = at->sent[rank][op->to]++;
    *number_of(at, op, op->op.kind == OP_FORWARD ? op->stage + 1 : op->stage - 1) = number + 1;
    append(at, rank, rank, op->to, (waiting){true, op->to, number, op});
}

static bool host_waits(const world *at, const played_op *op)
{
    const bool is_forward = op->op.kind == OP_FORWARD;
    if (at->wait == WAIT_ALL && op->op.kind != OP_BACKWARD_WEIGHT) return true;
    if (at->wait == WAIT_FORWARD && is_forward) return true;
    return at->wait != WAIT_NEVER && is_forward && op->stage == at->stage_count - 1;
}

/// The host of a rank goes as far as it can; false: nowhere.
static bool advance_host(world *at, int rank)
{
    bool moved = false;
    for (; at->at[rank] < at->op_count[rank]; at->at[rank]++) {
        played_op *op = &at->ops[rank][at->at[rank]];
        const bool is_second = at->at[rank] > 0 && op[-1].op.overlaps_next;
        if (!at->is_queued[rank]) {
            if (!is_second && !take(at, rank, op)) return moved;
            if (op->op.overlaps_next && !take(at, rank, op + 1)) return moved;
            at->is_queued[rank] = moved = true;
        }
        if (host_waits(at, op) && !op->is_done) return moved;
        if (!op->op.overlaps_next) {
            if (is_second) send(at, rank, op - 1);
            send(at, rank, op);
        }
        at->is_queued[rank] = false;
        moved = true;
    }
    return moved;
}

static bool advance_device(world *at, int rank)
{
    bool moved = false;
    while (at->computed[rank] < at->at[rank] + at->is_queued[rank]) {
        played_op *op = &at->ops[rank][at->computed[rank]];
        if (op->from >= 0 && !at->has_come[op->from][rank][*number_of(at, op, op->stage) - 1])
            break;
        op->is_done = moved = true;
        at->computed[rank]++;
    }
    return moved;
}

/// Messages whose sender and receiver are both first on their streams.
static bool advance_lanes(world *at, int rank)
{
    bool moved = false;
    for (int index = 0; index < EXEC_LANE_COUNT; index++) {
        queue *from = &at->lanes[rank][index];
        while (from->first < from->end) {
            const waiting *sending = &from->entries[from->first];
            if (!sending->is_send || !sending->sender->is_done) break;
            queue *to = &at->lanes[sending->peer][index];
            const waiting *receiving = &to->entries[to->first];
            if (to->first == to->end || receiving->is_send || receiving->peer != rank) break;
            assert_int_equal(receiving->number, sending->number);
            at->has_come[rank][sending->peer][sending->number] = moved = true;
            from->first++;
            to->first++;
        }
    }
    return moved;
}

/// Whether all ops are done in the end.
static bool ends(const bal_schedule *schedule, lane_rule *rule, host_wait wait)
{
    static world at;
    memset(&at, 0, sizeof at);
    at.schedule = schedule;
    at.rule = rule;
    at.wait = wait;
    at.stage_count = schedule->rank_count * schedule->chunk_count;
    set_ops(&at);
    bool moved = true;
    while (moved) {
        moved = false;
        for (int rank = 0; rank < schedule->rank_count; rank++) {
            moved = advance_host(&at, rank) || moved;
            moved = advance_device(&at, rank) || moved;
            moved = advance_lanes(&at, rank) || moved;
        }
    }
    for (int rank = 0; rank < schedule->rank_count; rank++) {
        if (at.computed[rank] < at.op_count[rank]) return false;
    }
    return true;
}

static const char *const names[] = {
    "gpipe",     "1f1b", "interleaved-1f1b", "zb-h1",  "zb-h2",  "zb-auto", "interleaved-zb",
    "zb-v-hand", "zb-v", "dualpipe-v",       "1f1b-v", "v-half", "v-min",   "v-adaptive"};

enum { NAME_COUNT = sizeof names / sizeof names[0] };

/// Builds an order of equal stages; false: the schedule's rules exclude the counts.
static bool build(const char *name, int ranks, int microbatches, bal_schedule *out)
{
    const bool is_loop = strncmp(name, "interleaved", 11) == 0;
    const bal_schedule_family *family = bal_schedule_family_find(name);
    const int chunks = bal_schedule_chunk_count(family, is_loop ? 2 : 0);
    const bal_stage_costs costs =
        reference_uniform_costs(ranks * chunks, 1, 1, 1, 0, (int64_t[]){1, 0, -1});
    const bal_schedule_request request = {.name = name,
                                          .rank_count = ranks,
                                          .microbatch_count = microbatches,
                                          .chunk_count = is_loop ? 2 : 0,
                                          .costs = &costs};
    return bal_schedule_build(&request, memory, out, NULL) == STATUS_OK;
}

TEST(no_order_gets_stuck_on_lanes_of_their_own)
{
    int played = 0;
    for (int name = 0; name < NAME_COUNT; name++) {
        for (int ranks = 2; ranks <= RANKS_MAX; ranks++) {
            for (int rounds = 1; rounds <= 4; rounds *= 2) {
                bal_schedule schedule;
                arena_reset(memory);
                if (!build(names[name], ranks, rounds * ranks, &schedule)) continue;
                for (int wait = 0; wait < WAIT_COUNT; wait++) {
                    if (!ends(&schedule, lane_now, (host_wait)wait)) {
                        fail_msg("%s, %d ranks, %d microbatches, wait %d", names[name], ranks,
                                 rounds * ranks, wait);
                    }
                    played++;
                }
            }
        }
    }
    assert_true(played > 1000);
}

/// What the lanes are for: the same play finds circles where directions share one.
TEST(orders_in_a_v_get_stuck_on_shared_lanes)
{
    static const char *const stuck[] = {"zb-v", "zb-v-hand", "1f1b-v"};
    for (int name = 0; name < 3; name++) {
        bal_schedule schedule;
        assert_true(build(stuck[name], 4, 8, &schedule));
        assert_false(ends(&schedule, lane_shared, WAIT_ALL));
    }
    bal_schedule one;
    assert_true(build("1f1b", 4, 8, &one));
    assert_true(ends(&one, lane_shared, WAIT_ALL));
}

int main(void)
{
    return run_all_tests(open_memory, close_memory);
}

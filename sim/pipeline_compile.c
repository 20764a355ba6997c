/// Turns the orders of the ranks into one order of steps, in one pass over the ops.
#include "sim/network.h"
#include "sim/pipeline.h"

#include <assert.h>
#include <inttypes.h>

/// Neighbours in the order of steps are ops of different ranks that do not wait for each other, so
/// that the processor overlaps them; and ranks take turns only within groups of this size, so that
/// what a group reads and writes stays in cache.
enum { GROUP_RANKS_MAX = 32, GROUP_RANKS = 16, GROUP_TURNS_MAX = 256 };

enum { HALF_BITS = 32 - SIM_SLOT_BITS }; // of a microbatch
_Static_assert(BAL_MICROBATCHES_MAX <= 1 << 2 * HALF_BITS, "a microbatch fits its bits");
_Static_assert(BAL_RANKS_MAX <= 1 << SIM_RANK_BITS, "a rank fits its bits");
_Static_assert(OP_KIND_COUNT *BAL_RANKS_MAX *BAL_CHUNKS_MAX <= 1 << SIM_ROW_BITS,
               "a row fits its bits");

enum { SLOT_FIRST = 2, SLOT_MASK = (1 << SIM_SLOT_BITS) - 1 };

#define NO_CELL INT64_MAX      // an op waits for no other stage
#define NOT_SENT UINT32_MAX    // what it waits for has not been sent
#define WEIGHT_DONE (1u << 31) // in message_cell.backward

/// What a stage has sent of one microbatch: the slot, SIM_SLOT_WASTE where no other rank waits for
/// it, 0 before the op has run.
typedef struct message_cell {
    uint32_t forward;
    uint32_t backward;
} message_cell;

/// A chunk of a rank: where its messages come from and go to.
typedef struct chunk_ways {
    int stage;
    int64_t own;           // first cell of its stage
    int64_t forward_from;  // first cell of the stage whose F it waits for, or NO_CELL
    int64_t backward_from; // same for B
    bool forward_is_near;  // that stage is on the same rank
    bool backward_is_near;
    int forward_to; // rank that waits for its messages, or -1: none, or the same rank
    int backward_to;
} chunk_ways;

/// A message that others see at the end of the turn.
typedef struct sent_message {
    uint32_t *cell;
    uint32_t value;
    int receiver; // rank, or -1
} sent_message;

typedef struct compiler {
    const bal_schedule *schedule;
    sim_step *step;       // the next to be written
    message_cell *cells;  // [stage_count][microbatch_count]
    chunk_ways *ways;     // [rank_count][chunk_count]
    int *next_op;         // [rank_count]
    uint32_t *awake;      // [group_count] ranks of the group whose next op may be ready
    uint32_t *free_slots; // stack
    int64_t free_count;
    int64_t slot_count;
    int *first_wait; // [rank_count]
    int group_ranks;
    int group_count;
    int64_t done_count; // of microbatches on stages
    sent_message sent[2 * GROUP_RANKS_MAX];
    int sent_count;
} compiler;

/// The first cell of the stage that an op waits for.
static int64_t way_in(const bal_schedule *schedule, int rank, bal_op op, bool *is_near)
{
    bal_op_kind kind = OP_FORWARD;
    const int from = bal_op_waits_for(schedule, rank, op, &kind);
    *is_near = from >= 0 && bal_schedule_rank(schedule, from) == rank;
    return from < 0 ? NO_CELL : (int64_t)from * schedule->microbatch_count;
}

static int way_out(const bal_schedule *schedule, int stage, bal_op_kind kind)
{
    const int receiver = sim_network_receiver(schedule, kind, stage);
    return receiver < 0 ? -1 : bal_schedule_rank(schedule, receiver);
}

static void find_ways(const compiler *work)
{
    const bal_schedule *schedule = work->schedule;
    const bal_op_kind backward = schedule->has_split ? OP_BACKWARD_INPUT : OP_BACKWARD;
    for (int rank = 0; rank < schedule->rank_count; rank++) {
        for (int chunk = 0; chunk < schedule->chunk_count; chunk++) {
            chunk_ways *ways = &work->ways[rank * schedule->chunk_count + chunk];
            const int stage = bal_schedule_stage(schedule, rank, chunk);
            const bal_op forth = {.kind = OP_FORWARD, .chunk = (uint16_t)chunk};
            const bal_op back = {.kind = (uint8_t)backward, .chunk = (uint16_t)chunk};
            ways->stage = stage;
            ways->own = (int64_t)stage * schedule->microbatch_count;
            ways->forward_from = way_in(schedule, rank, forth, &ways->forward_is_near);
            ways->backward_from = way_in(schedule, rank, back, &ways->backward_is_near);
            ways->forward_to = way_out(schedule, stage, OP_FORWARD);
            ways->backward_to = way_out(schedule, stage, backward);
        }
    }
}

static inline bool is_unsplit(bal_op op)
{
    return op.kind == OP_FORWARD || op.kind == OP_BACKWARD;
}

/// Whether an op names what there is; whether it comes in time is seen when it runs.
static inline bool is_known(const compiler *work, bal_op op)
{
    return op.kind < OP_KIND_COUNT && (work->schedule->has_split || is_unsplit(op)) &&
           op.chunk < work->schedule->chunk_count &&
           (uint32_t)op.microbatch < (uint32_t)work->schedule->microbatch_count;
}

static inline const chunk_ways *ways_of(const compiler *work, int rank, bal_op op)
{
    return &work->ways[rank * work->schedule->chunk_count + op.chunk];
}

/// The slot of the message that an op waits for, SIM_SLOT_NONE, or NOT_SENT.
static inline uint32_t awaited_slot(const compiler *work, const chunk_ways *ways, bal_op op)
{
    if (op.kind == OP_BACKWARD_WEIGHT) return SIM_SLOT_NONE;
    const bool is_forward = op.kind == OP_FORWARD;
    const int64_t from = is_forward ? ways->forward_from : ways->backward_from;
    const bool is_near = is_forward ? ways->forward_is_near : ways->backward_is_near;
    if (from == NO_CELL) return SIM_SLOT_NONE;
    const message_cell *cell = &work->cells[from + op.microbatch];
    const uint32_t slot = (is_forward ? cell->forward : cell->backward) & SLOT_MASK;
    if (slot == 0) return NOT_SENT;
    return is_near ? SIM_SLOT_NONE : slot;
}

/// The slot for the message of an op, seen by others from the next turn on. False: the op is
/// repeated or too early.
static inline bool send(compiler *work, const chunk_ways *ways, bal_op op, uint32_t *slot)
{
    message_cell *own = &work->cells[ways->own + op.microbatch];
    *slot = SIM_SLOT_WASTE;
    if (op.kind == OP_BACKWARD_WEIGHT) {
        if (own->backward == 0 || (own->backward & WEIGHT_DONE)) return false;
        own->backward |= WEIGHT_DONE;
        work->done_count++;
        return true;
    }
    const bool is_forward = op.kind == OP_FORWARD;
    const int receiver = is_forward ? ways->forward_to : ways->backward_to;
    if (is_forward ? own->forward != 0 : own->forward == 0 || own->backward != 0) return false;
    if (receiver >= 0) {
        *slot = (uint32_t)(work->free_count > 0 ? work->free_slots[--work->free_count]
                                                : work->slot_count++);
    }
    work->sent[work->sent_count++] = (sent_message){
        .cell = is_forward ? &own->forward : &own->backward,
        .value = *slot | (op.kind == OP_BACKWARD ? WEIGHT_DONE : 0),
        .receiver = receiver,
    };
    work->done_count += op.kind == OP_BACKWARD;
    return true;
}

static inline void put_step(compiler *work, int rank, bal_op op, bool is_joint, uint32_t wait,
                            uint32_t slot)
{
    const int stages = work->schedule->rank_count * work->schedule->chunk_count;
    const int kind = op.kind + (is_joint ? OP_KIND_COUNT : 0);
    const uint32_t row = (uint32_t)(kind * stages + ways_of(work, rank, op)->stage);
    const uint32_t microbatch = (uint32_t)op.microbatch;
    *work->step++ = (sim_step){
        .row_and_rank = row << SIM_RANK_BITS | (uint32_t)rank,
        .wait = wait | microbatch >> HALF_BITS << SIM_SLOT_BITS,
        .send = slot | microbatch << SIM_SLOT_BITS,
    };
}

/// The slot of a rank's first op is never used again: after a play it still tells when the rank
/// could begin.
static inline void release(compiler *work, int rank, bool is_first, uint32_t slot)
{
    if (is_first) {
        work->first_wait[rank] = (int)slot;
    } else if (slot >= SLOT_FIRST) {
        work->free_slots[work->free_count++] = slot;
    }
}

typedef enum turn { TURN_WAITS, TURN_RAN, TURN_REFUSED } turn;

/// Runs the next op of a rank if what it waits for has been sent.
static inline turn run_op(compiler *work, int rank, int index)
{
    const bal_schedule *schedule = work->schedule;
    const bal_op op = schedule->ops[index];
    if (!is_known(work, op)) return TURN_REFUSED;
    const chunk_ways *ways = ways_of(work, rank, op);
    const uint32_t wait = awaited_slot(work, ways, op);
    if (wait == NOT_SENT) return TURN_WAITS;
    uint32_t slot = SIM_SLOT_WASTE;
    release(work, rank, index == schedule->first_op[rank], wait);
    if (!send(work, ways, op, &slot)) return TURN_REFUSED;
    put_step(work, rank, op, false, wait, slot);
    return TURN_RAN;
}

/// Whether two ops may be one piece of work: see bal_op.
static bool can_pair(bal_op first, bal_op second)
{
    const bool has_weight = first.kind == OP_BACKWARD_WEIGHT || second.kind == OP_BACKWARD_WEIGHT;
    return first.overlaps_next == 1 && second.overlaps_next == 0 && !has_weight &&
           (first.kind == OP_FORWARD) != (second.kind == OP_FORWARD) &&
           first.microbatch != second.microbatch;
}

/// Runs a pair: a joint waits for the first message and the first op for the second; after the
/// second op two joints send what both have made, in their order. No pair is the first of its rank.
static turn run_pair(compiler *work, int rank, int index)
{
    const bal_schedule *schedule = work->schedule;
    const bool is_last = index + 1 == schedule->first_op[rank + 1];
    if (is_last || !can_pair(schedule->ops[index], schedule->ops[index + 1])) return TURN_REFUSED;
    uint32_t wait[2];
    uint32_t slot[2];
    for (int place = 0; place < 2; place++) {
        const bal_op op = schedule->ops[index + place];
        if (!is_known(work, op)) return TURN_REFUSED;
        wait[place] = awaited_slot(work, ways_of(work, rank, op), op);
        if (wait[place] == NOT_SENT) return TURN_WAITS;
    }
    for (int place = 0; place < 2; place++) {
        const bal_op op = schedule->ops[index + place];
        release(work, rank, false, wait[place]);
        if (!send(work, ways_of(work, rank, op), op, &slot[place])) return TURN_REFUSED;
    }
    put_step(work, rank, schedule->ops[index], true, wait[0], SIM_SLOT_WASTE);
    put_step(work, rank, schedule->ops[index], false, wait[1], SIM_SLOT_WASTE);
    put_step(work, rank, schedule->ops[index + 1], false, SIM_SLOT_NONE, SIM_SLOT_WASTE);
    put_step(work, rank, schedule->ops[index], true, SIM_SLOT_NONE, slot[0]);
    put_step(work, rank, schedule->ops[index + 1], true, SIM_SLOT_NONE, slot[1]);
    return TURN_RAN;
}

/// Ranks take turns until all of the group wait, and see what was sent in a turn from the next on.
static bool run_group(compiler *work, int group)
{
    const bal_schedule *schedule = work->schedule;
    for (int turns = 0; turns < GROUP_TURNS_MAX && work->awake[group] != 0; turns++) {
        uint32_t left = work->awake[group];
        uint32_t goes_on = 0;
        for (; left != 0; left &= left - 1) {
            const int place = __builtin_ctz(left);
            const int rank = group * work->group_ranks + place;
            const int index = work->next_op[rank];
            if (index == schedule->first_op[rank + 1]) continue;
            const bool is_pair = schedule->ops[index].overlaps_next != 0;
            const turn taken = is_pair ? run_pair(work, rank, index) : run_op(work, rank, index);
            if (taken == TURN_REFUSED) return false;
            if (taken == TURN_WAITS) continue;
            work->next_op[rank] += is_pair ? 2 : 1;
            goes_on |= 1u << place;
        }
        work->awake[group] = goes_on;
        for (int message = 0; message < work->sent_count; message++) {
            const sent_message *sent = &work->sent[message];
            *sent->cell = sent->value;
            if (sent->receiver < 0) continue;
            work->awake[sent->receiver / work->group_ranks] |=
                1u << sent->receiver % work->group_ranks;
        }
        work->sent_count = 0;
    }
    return true;
}

/// Goes down and up the groups, as outputs and gradients do, until nobody can go on. False where an
/// op is repeated, too early or unknown.
static bool run_groups(compiler *work)
{
    const int groups = work->group_count;
    bool is_awake = true;
    while (is_awake) {
        is_awake = false;
        for (int visit = 0; visit < 2 * groups; visit++) {
            const int group = visit < groups ? visit : 2 * groups - 1 - visit;
            if (work->awake[group] == 0) continue;
            is_awake = true;
            if (!run_group(work, group)) return false;
        }
    }
    return true;
}

enum { JOINTS_PER_PAIR = 3 };

static int count_pairs(const bal_schedule *schedule)
{
    int count = 0;
    for (int op = 0; op < schedule->first_op[schedule->rank_count]; op++) {
        count += schedule->ops[op].overlaps_next != 0;
    }
    return count;
}

/// Whether the pass took every op, and every microbatch on every stage is complete.
static bool is_complete(const compiler *work)
{
    const bal_schedule *schedule = work->schedule;
    const int64_t stages = (int64_t)schedule->rank_count * schedule->chunk_count;
    for (int rank = 0; rank < schedule->rank_count; rank++) {
        if (work->next_op[rank] != schedule->first_op[rank + 1]) return false;
    }
    return work->done_count == stages * schedule->microbatch_count;
}

static void prepare(compiler *work, arena *scratch)
{
    const bal_schedule *schedule = work->schedule;
    const size_t ranks = (size_t)schedule->rank_count;
    const size_t chunks = ranks * (size_t)schedule->chunk_count;
    const size_t cells = chunks * (size_t)schedule->microbatch_count;
    const int op_count = schedule->first_op[ranks];
    work->group_ranks = schedule->rank_count <= GROUP_RANKS_MAX ? GROUP_RANKS_MAX : GROUP_RANKS;
    work->group_count = (schedule->rank_count + work->group_ranks - 1) / work->group_ranks;
    work->cells = arena_array(scratch, cells, sizeof *work->cells);
    work->ways = arena_array(scratch, chunks, sizeof *work->ways);
    work->next_op = arena_array(scratch, ranks, sizeof *work->next_op);
    work->awake = arena_array(scratch, (size_t)work->group_count, sizeof *work->awake);
    work->free_slots = arena_array(scratch, (size_t)op_count, sizeof *work->free_slots);
    find_ways(work);
    for (int rank = 0; rank < schedule->rank_count; rank++) {
        work->next_op[rank] = schedule->first_op[rank];
        work->awake[rank / work->group_ranks] |= 1u << rank % work->group_ranks;
    }
}

/// Runs the pass over an order whose counts make sense.
///
/// @return STATUS_OK if it took every op; else why not
static status run_pass(compiler *work, error_message *err)
{
    const bool is_whole = run_groups(work) && is_complete(work);
    if (work->slot_count > SLOT_MASK) { // looks like a message that was not sent: not whole either
        return error_set(err, STATUS_UNSUPPORTED,
                         "%" PRId64 " messages are on their way at once; the limit is %d",
                         work->slot_count - SLOT_FIRST, SLOT_MASK - SLOT_FIRST);
    }
    if (!is_whole) {
        TRY(bal_schedule_check(work->schedule, err)); // it has the words
        return error_set(err, STATUS_INVALID, "an op overlaps one that it waits for");
    }
    return STATUS_OK;
}

static status compile(const bal_schedule *schedule, arena *memory, arena *scratch, sim_order *order,
                      error_message *err)
{
    const size_t ranks = (size_t)schedule->rank_count;
    const int pairs = count_pairs(schedule);
    const size_t steps = (size_t)schedule->first_op[ranks] + JOINTS_PER_PAIR * (size_t)pairs;
    sim_step *written = arena_array(memory, steps, sizeof *written);
    compiler work = {
        .schedule = schedule,
        .step = written,
        .slot_count = SLOT_FIRST,
        .first_wait = arena_array(memory, ranks, sizeof *work.first_wait),
    };
    const int64_t rows = (int64_t)OP_KIND_COUNT * schedule->rank_count * schedule->chunk_count;
    if (pairs > 0 && rows > 1 << (SIM_ROW_BITS - 1)) {
        return error_set(err, STATUS_UNSUPPORTED, "overlapping ops on %d ranks of %d chunks",
                         schedule->rank_count, schedule->chunk_count);
    }
    prepare(&work, scratch);
    TRY(run_pass(&work, err));
    *order = (sim_order){
        .schedule = schedule,
        .step_count = (int)steps,
        .slot_count = (int)work.slot_count,
        .steps = written,
        .first_wait = work.first_wait,
        .clocks = arena_array(memory, ranks, sizeof *order->clocks),
        .arrival_ns = arena_array(memory, (size_t)work.slot_count, sizeof *order->arrival_ns),
    };
    sim_cost_table_init(schedule, memory, &order->costs);
    return STATUS_OK;
}

/// Whether there are as many ops as the counts ask for, and the counts are possible.
static bool is_sane(const bal_schedule *schedule)
{
    if (schedule->rank_count < 1 || schedule->rank_count > BAL_RANKS_MAX ||
        schedule->chunk_count < 1 || schedule->chunk_count > BAL_CHUNKS_MAX ||
        schedule->microbatch_count < 1 || schedule->microbatch_count > BAL_MICROBATCHES_MAX ||
        !bal_placement_takes(schedule->placement, schedule->chunk_count)) {
        return false;
    }
    const int64_t cells =
        (int64_t)schedule->rank_count * schedule->chunk_count * schedule->microbatch_count;
    const int64_t op_count = schedule->first_op[schedule->rank_count];
    return op_count >= 2 * cells && op_count <= 3 * cells;
}

status sim_order_compile(const bal_schedule *schedule, arena *memory, sim_order *order,
                         error_message *err)
{
    if (!is_sane(schedule)) {
        TRY(bal_schedule_check(schedule, err));
        return error_set(err, STATUS_UNSUPPORTED, "%d ops for %d microbatches",
                         schedule->first_op[schedule->rank_count], schedule->microbatch_count);
    }
    arena *scratch = arena_create(1 << 16);
    sim_order compiled;
    const status result = compile(schedule, memory, scratch, &compiled, err);
    arena_destroy(scratch);
    if (result == STATUS_OK) *order = compiled;
    return result;
}

/// Proves that an order can be played: each op once, in order on its rank, no cycle between ranks.
#include "balance/schedule/schedule.h"
#include "base/arena.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/// Where an op stands in the order, per stage and microbatch. BW stands in the row of B.
typedef enum place_row { ROW_FORWARD, ROW_BACKWARD, ROW_WEIGHT, ROW_COUNT } place_row;

enum { NOWHERE = -1 };

typedef struct check_state {
    const bal_schedule *schedule;
    int op_count;
    int *place;    // [stage][microbatch][ROW_COUNT] index into ops, or NOWHERE
    int *next_op;  // [rank_count] the first op of the rank that has not been placed yet
    bool *is_done; // [op_count] it has run
} check_state;

static place_row row_of(uint8_t kind)
{
    if (kind == OP_FORWARD) return ROW_FORWARD;
    return kind == OP_BACKWARD_WEIGHT ? ROW_WEIGHT : ROW_BACKWARD;
}

static int *place_of(const check_state *state, int stage, int microbatch, place_row row)
{
    const int64_t cell = (int64_t)stage * state->schedule->microbatch_count + microbatch;
    return &state->place[cell * ROW_COUNT + row];
}

/// Names the op only where it is refused: this is asked of every op of every order.
///
/// @param limit stands behind reason, where it is not negative
static status misfit(int rank, int position, bal_op op, const char *reason, int limit,
                     error_message *err)
{
    char range[32] = "";
    if (limit >= 0) snprintf(range, sizeof range, " [0, %d]", limit);
    return error_set(err, STATUS_INVALID, "rank %d op %d: %s: %s%s", rank, position,
                     bal_op_name(op).text, reason, range);
}

/// The ops of one microbatch wait for each other: two of them cannot be one piece of work.
static status check_pair(const bal_schedule *schedule, int rank, int index, error_message *err)
{
    const bal_op op = schedule->ops[index];
    const int position = index - schedule->first_op[rank];
    if (op.overlaps_next == 0) return STATUS_OK;
    if (index + 1 == schedule->first_op[rank + 1]) {
        return misfit(rank, position, op, "it overlaps the next op, and there is none", -1, err);
    }
    const bal_op next = schedule->ops[index + 1];
    if (op.overlaps_next > 1 || next.overlaps_next != 0) {
        return misfit(rank, position, op, "more than two ops overlap", -1, err);
    }
    const bool is_forward = op.kind == OP_FORWARD;
    const bool is_weight = op.kind == OP_BACKWARD_WEIGHT || next.kind == OP_BACKWARD_WEIGHT;
    if (is_weight || is_forward == (next.kind == OP_FORWARD)) {
        return misfit(rank, position, op, "what overlaps is an F and a B or BW", -1, err);
    }
    if (next.microbatch == op.microbatch) {
        return misfit(rank, position, op, "it overlaps an op of its own microbatch", -1, err);
    }
    return STATUS_OK;
}

static status check_op(const bal_schedule *schedule, int rank, int index, error_message *err)
{
    const bal_op op = schedule->ops[index];
    const int position = index - schedule->first_op[rank];
    if (op.kind >= OP_KIND_COUNT) {
        return error_set(err, STATUS_INVALID, "rank %d op %d: kind %d is outside [0, %d]", rank,
                         position, op.kind, OP_KIND_COUNT - 1);
    }
    if (op.chunk >= schedule->chunk_count) {
        return misfit(rank, position, op, "chunk is outside", schedule->chunk_count - 1, err);
    }
    if (op.microbatch < 0 || op.microbatch >= schedule->microbatch_count) {
        return misfit(rank, position, op, "microbatch is outside", schedule->microbatch_count - 1,
                      err);
    }
    if (!schedule->has_split && (op.kind == OP_BACKWARD_INPUT || op.kind == OP_BACKWARD_WEIGHT)) {
        return misfit(rank, position, op, "the schedule has no split", -1, err);
    }
    return check_pair(schedule, rank, index, err);
}

static status too_early(int rank, bal_op op, bal_op_kind missing, error_message *err)
{
    const text_words name = bal_op_name(op);
    op.kind = (uint8_t)missing;
    return error_set(err, STATUS_INVALID, "rank %d: %s is too early: %s is not before it", rank,
                     name.text, bal_op_name(op).text);
}

/// Every op at most once, and F before B before W on the rank.
static status place_ops(const check_state *state, error_message *err)
{
    const bal_schedule *schedule = state->schedule;
    for (int rank = 0; rank < schedule->rank_count; rank++) {
        for (int index = schedule->first_op[rank]; index < schedule->first_op[rank + 1]; index++) {
            TRY(check_op(schedule, rank, index, err));
            const bal_op op = schedule->ops[index];
            int *places =
                place_of(state, bal_schedule_stage(schedule, rank, op.chunk), op.microbatch, 0);
            const place_row row = row_of(op.kind);
            if (places[row] != NOWHERE) {
                return error_set(err, STATUS_INVALID, "rank %d: %s is repeated", rank,
                                 bal_op_name(op).text);
            }
            if (row != ROW_FORWARD && places[ROW_FORWARD] == NOWHERE) {
                return too_early(rank, op, OP_FORWARD, err);
            }
            if (row == ROW_WEIGHT && places[ROW_BACKWARD] == NOWHERE) {
                return too_early(rank, op, OP_BACKWARD_INPUT, err);
            }
            if (row == ROW_WEIGHT && schedule->ops[places[ROW_BACKWARD]].kind == OP_BACKWARD) {
                return error_set(err, STATUS_INVALID, "rank %d: %s is repeated: BW%d holds it",
                                 rank, bal_op_name(op).text, op.microbatch);
            }
            places[row] = index;
        }
    }
    return STATUS_OK;
}

static status missing(const bal_schedule *schedule, int stage, int microbatch, place_row row,
                      error_message *err)
{
    static const bal_op_kind split[] = {OP_FORWARD, OP_BACKWARD_INPUT, OP_BACKWARD_WEIGHT};
    int chunk = 0;
    const int rank = bal_rank_of_stage(schedule->placement, schedule->rank_count,
                                       schedule->chunk_count, stage, &chunk);
    const bal_op_kind kind = row == ROW_BACKWARD && !schedule->has_split ? OP_BACKWARD : split[row];
    const bal_op op = {.kind = (uint8_t)kind, .chunk = (uint16_t)chunk, .microbatch = microbatch};
    return error_set(err, STATUS_INVALID, "rank %d: %s is missing", rank, bal_op_name(op).text);
}

static status check_complete(const check_state *state, error_message *err)
{
    const bal_schedule *schedule = state->schedule;
    const int stage_count = schedule->rank_count * schedule->chunk_count;
    for (int stage = 0; stage < stage_count; stage++) {
        for (int microbatch = 0; microbatch < schedule->microbatch_count; microbatch++) {
            const int *places = place_of(state, stage, microbatch, 0);
            for (int row = 0; row < ROW_COUNT; row++) {
                if (places[row] != NOWHERE) continue;
                const bool in_full_backward =
                    row == ROW_WEIGHT && schedule->ops[places[ROW_BACKWARD]].kind == OP_BACKWARD;
                if (!in_full_backward) {
                    return missing(schedule, stage, microbatch, (place_row)row, err);
                }
            }
        }
    }
    return STATUS_OK;
}

/// Index of the op whose message the op waits for, or NOWHERE.
static int awaited_op(const check_state *state, int rank, bal_op op)
{
    bal_op_kind kind = OP_FORWARD;
    const int stage = bal_op_waits_for(state->schedule, rank, op, &kind);
    if (stage < 0) return NOWHERE;
    return *place_of(state, stage, op.microbatch, row_of((uint8_t)kind));
}

/// Whether the message that an op waits for is there; that of the first op of an overlapped pair
/// leaves when the second is done.
static bool has_message(const check_state *state, int rank, int index)
{
    const int awaited = awaited_op(state, rank, state->schedule->ops[index]);
    if (awaited == NOWHERE) return true;
    return state->is_done[awaited + state->schedule->ops[awaited].overlaps_next];
}

/// The op whose message keeps a rank from going on: its next op, or the one that this overlaps; or
/// NOWHERE.
static int blocked_op(const check_state *state, int rank)
{
    const int index = state->next_op[rank];
    if (index == state->schedule->first_op[rank + 1]) return NOWHERE;
    if (!has_message(state, rank, index)) return index;
    const int second = index + state->schedule->ops[index].overlaps_next;
    return has_message(state, rank, second) ? NOWHERE : second;
}

static bool can_run(const check_state *state, int rank)
{
    return state->next_op[rank] < state->schedule->first_op[rank + 1] &&
           blocked_op(state, rank) == NOWHERE;
}

/// Runs the ranks, down as outputs go and up as gradients do, each as far as it gets, until none
/// can go on.
///
/// @return ops that have run
static int run_ranks(const check_state *state)
{
    const bal_schedule *schedule = state->schedule;
    const int rank_count = schedule->rank_count;
    int done = 0;
    int before = -1;
    memcpy(state->next_op, schedule->first_op, (size_t)rank_count * sizeof *state->next_op);
    for (bool is_down = true; done > before; is_down = !is_down) {
        before = done;
        for (int step = 0; step < rank_count; step++) {
            const int rank = is_down ? step : rank_count - 1 - step;
            while (can_run(state, rank)) {
                const int first = state->next_op[rank];
                const int count = 1 + schedule->ops[first].overlaps_next;
                memset(&state->is_done[first], true, (size_t)count * sizeof *state->is_done);
                state->next_op[rank] += count;
                done += count;
            }
        }
    }
    return done;
}

/// The rank whose op the next op of a blocked rank waits for.
static int blocking_rank(const check_state *state, int rank)
{
    bal_op_kind kind;
    const bal_op op = state->schedule->ops[blocked_op(state, rank)];
    return bal_schedule_rank(state->schedule, bal_op_waits_for(state->schedule, rank, op, &kind));
}

/// Writes "rank 1 B0 waits for ", and where the op it waits for is not the next of its own rank
/// also "rank 2 B0 waits for ", because that one stands behind the next.
static int wait_text(const check_state *state, int rank, char out[160])
{
    const int index = blocked_op(state, rank);
    const int awaited = awaited_op(state, rank, state->schedule->ops[index]);
    const int other = blocking_rank(state, rank);
    const bal_op *ops = state->schedule->ops;
    const int length =
        snprintf(out, 160, "rank %d %s waits for ", rank, bal_op_name(ops[index]).text);
    if (awaited == blocked_op(state, other)) return length;
    return length + snprintf(out + length, 160 - (size_t)length, "rank %d %s waits for ", other,
                             bal_op_name(ops[awaited]).text);
}

/// Blocked ranks wait for blocked ranks, so that following the waits for rank_count steps ends on
/// a ring.
static status cycle(const check_state *state, error_message *err)
{
    const bal_schedule *schedule = state->schedule;
    int rank = 0;
    while (state->next_op[rank] == schedule->first_op[rank + 1]) {
        rank++;
    }
    for (int step = 0; step < schedule->rank_count; step++) {
        rank = blocking_rank(state, rank);
    }
    const int first = rank;
    char text[400] = "";
    size_t length = 0;
    int left_out = 0;
    do {
        char step[160];
        const size_t bytes = (size_t)wait_text(state, rank, step);
        if (left_out == 0 && length + bytes < sizeof text) {
            memcpy(text + length, step, bytes + 1);
            length += bytes;
        } else {
            left_out++;
        }
        rank = blocking_rank(state, rank);
    } while (rank != first);
    char more[40] = "";
    if (left_out > 0) snprintf(more, sizeof more, "... (%d more ranks) ... ", left_out);
    return error_set(err, STATUS_INVALID, "cycle: %s%srank %d %s", text, more, first,
                     bal_op_name(schedule->ops[blocked_op(state, first)]).text);
}

static status check_shape(const bal_schedule *schedule, error_message *err)
{
    if (schedule->rank_count < 1 || schedule->rank_count > BAL_RANKS_MAX ||
        schedule->chunk_count < 1 || schedule->chunk_count > BAL_CHUNKS_MAX ||
        schedule->microbatch_count < 1 || schedule->microbatch_count > BAL_MICROBATCHES_MAX) {
        return error_set(err, STATUS_INVALID,
                         "%d ranks, %d chunks, %d microbatches are outside [1, %d], [1, %d], "
                         "[1, %d]",
                         schedule->rank_count, schedule->chunk_count, schedule->microbatch_count,
                         BAL_RANKS_MAX, BAL_CHUNKS_MAX, BAL_MICROBATCHES_MAX);
    }
    if (!bal_placement_takes(schedule->placement, schedule->chunk_count)) {
        return error_set(err, STATUS_INVALID, "%s placement has 2 chunks per rank, not %d",
                         schedule->placement == BAL_PLACEMENT_V ? "V" : "bidirectional",
                         schedule->chunk_count);
    }
    // A short order that names one far microbatch must not cost the memory of all before it.
    const int64_t cells =
        (int64_t)schedule->rank_count * schedule->chunk_count * schedule->microbatch_count;
    const int op_count = schedule->first_op[schedule->rank_count];
    if (cells > (1 << 20) && 2 * cells > op_count) {
        return error_set(err, STATUS_INVALID,
                         "%d ops are too few: %d microbatches on %d stages need at least %" PRId64,
                         op_count, schedule->microbatch_count,
                         schedule->rank_count * schedule->chunk_count, 2 * cells);
    }
    if (cells * ROW_COUNT > 2 * (int64_t)BAL_OPS_MAX) {
        return error_set(err, STATUS_INVALID,
                         "%" PRId64 " microbatches on all stages; the limit is %d", cells,
                         2 * BAL_OPS_MAX / ROW_COUNT);
    }
    return STATUS_OK;
}

static status check_in(const check_state *state, error_message *err)
{
    TRY(place_ops(state, err));
    TRY(check_complete(state, err));
    if (run_ranks(state) < state->op_count) return cycle(state, err);
    return STATUS_OK;
}

status bal_schedule_check(const bal_schedule *schedule, error_message *err)
{
    TRY(check_shape(schedule, err));
    const size_t rank_count = (size_t)schedule->rank_count;
    const size_t places =
        rank_count * (size_t)schedule->chunk_count * (size_t)schedule->microbatch_count * ROW_COUNT;
    const int op_count = schedule->first_op[rank_count];
    arena *scratch = arena_create(1 << 16);
    check_state state = {
        .schedule = schedule,
        .op_count = op_count,
        .place = arena_array(scratch, places, sizeof *state.place),
        .next_op = arena_array(scratch, rank_count, sizeof *state.next_op),
        .is_done = arena_array(scratch, (size_t)op_count + 1, sizeof *state.is_done),
    };
    memset(state.place, 0xff, places * sizeof *state.place); // NOWHERE in every byte
    const status result = check_in(&state, err);
    arena_destroy(scratch);
    return result;
}

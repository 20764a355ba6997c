/// Messages whose way depends on others: those that wait for a shared link, and those that wait for
/// their receiver. And what to say where ranks wait for each other.
#include "sim/dispatch_state.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/// Lets a message begin now, after those that its link still holds.
///
/// @return when it arrives
static int64_t travel(sim_dispatch *dispatch, const sim_dispatch_row *row, int microbatch)
{
    int64_t begin_ns = dispatch->now_ns;
    if (row->link >= 0) {
        int64_t *free_ns = &dispatch->link_free_ns[row->link];
        begin_ns = bal_larger(begin_ns, *free_ns);
        *free_ns = begin_ns + row->occupancy_ns;
    }
    return begin_ns + sim_dispatch_way_ns(dispatch, row, microbatch);
}

static void send(sim_dispatch *dispatch, sim_dispatch_op op)
{
    const sim_dispatch_row *row = &dispatch->rows[op.row];
    sim_dispatch_rank *sender = &dispatch->ranks[row->rank];
    if (row->inbox < 0) return;
    if (row->receiver == row->rank) {
        sim_dispatch_deliver(dispatch, row, op.microbatch, dispatch->now_ns);
        return;
    }
    if (dispatch->network.send == BAL_SEND_RENDEZVOUS) {
        sender->offers[sender->offer_count++] = op;
        return;
    }
    const int64_t arrival_ns = travel(dispatch, row, op.microbatch);
    sim_dispatch_deliver(dispatch, row, op.microbatch, arrival_ns);
    if (dispatch->network.send == BAL_SEND_BLOCKING) {
        sender->free_ns = bal_larger(sender->free_ns, arrival_ns);
    }
}

void sim_dispatch_end(sim_dispatch *dispatch, sim_dispatch_rank *state, sim_dispatch_op op,
                      bool is_first)
{
    if (is_first) {
        state->first = op;
    } else {
        if (state->has_first) send(dispatch, state->first);
        send(dispatch, op);
    }
    state->has_first = is_first;
}

static int cell_of(const sim_dispatch *dispatch, sim_dispatch_op op)
{
    return dispatch->rows[op.row].inbox * dispatch->microbatch_count + op.microbatch;
}

/// The step that a rank runs next, or NULL where it has none left, or no order.
static const sim_dispatch_step *next_step(const sim_dispatch *dispatch,
                                          const sim_dispatch_rank *rank)
{
    if (dispatch->policy == SIM_GREEDY || rank->next_step == rank->step_end) return NULL;
    return &dispatch->steps[rank->next_step];
}

/// Whether a rank receives a message now: it runs nothing, and what it runs next waits for it.
static bool receives(const sim_dispatch *dispatch, int rank, sim_dispatch_op op)
{
    const sim_dispatch_rank *state = &dispatch->ranks[rank];
    if (state->is_running) return false;
    if (dispatch->policy == SIM_GREEDY) return true;
    const sim_dispatch_step *step = next_step(dispatch, state);
    if (step == NULL) return false;
    const int cell = cell_of(dispatch, op);
    return step->wait == cell || (sim_step_is_pair(step) && step[1].wait == cell);
}

/// Both ranks are busy until the message is there, and decide then.
static void begin_message(sim_dispatch *dispatch, sim_dispatch_op op)
{
    const sim_dispatch_row *row = &dispatch->rows[op.row];
    sim_dispatch_rank *sender = &dispatch->ranks[row->rank];
    sim_dispatch_rank *receiver = &dispatch->ranks[row->receiver];
    const int64_t arrival_ns = travel(dispatch, row, op.microbatch);
    sender->free_ns = bal_larger(sender->free_ns, arrival_ns);
    receiver->free_ns = bal_larger(receiver->free_ns, arrival_ns);
    sim_dispatch_deliver(dispatch, row, op.microbatch, arrival_ns);
    sim_dispatch_list(dispatch, row->rank);
    sim_dispatch_list(dispatch, row->receiver);
}

/// Begins the offers of a rank that are received now and keeps the others.
static void meet_offers(sim_dispatch *dispatch, int rank)
{
    sim_dispatch_rank *state = &dispatch->ranks[rank];
    const int offered = state->offer_count;
    state->offer_count = 0;
    for (int offer = 0; offer < offered; offer++) {
        const sim_dispatch_op op = state->offers[offer];
        if (receives(dispatch, dispatch->rows[op.row].receiver, op)) {
            begin_message(dispatch, op);
        } else {
            state->offers[state->offer_count++] = op;
        }
    }
}

/// Adds a rank that offers something to count others in the order of their numbers.
static void add_sender(const sim_dispatch *dispatch, int rank, int *count)
{
    int *senders = dispatch->senders;
    if (dispatch->ranks[rank].offer_count == 0) return;
    int place = *count;
    while (place > 0 && senders[place - 1] >= rank) {
        place--;
    }
    if (place < *count && senders[place] == rank) return;
    memmove(&senders[place + 1], &senders[place], (size_t)(*count - place) * sizeof *senders);
    senders[place] = rank;
    ++*count;
}

/// Adds the ranks whose messages a rank could receive now.
static void add_senders_to(const sim_dispatch *dispatch, int rank, int *count)
{
    const int chunks = dispatch->schedule->chunk_count;
    const sim_dispatch_step *step = next_step(dispatch, &dispatch->ranks[rank]);
    if (step != NULL) {
        add_sender(dispatch, dispatch->rows[sim_step_sender(step)].rank, count);
        if (sim_step_is_pair(step)) {
            add_sender(dispatch, dispatch->rows[sim_step_sender(&step[1])].rank, count);
        }
    }
    if (dispatch->policy != SIM_GREEDY) return;
    for (int chunk = 0; chunk < chunks; chunk++) {
        for (int way = 0; way < SIM_DIRECTION_COUNT; way++) {
            const int stage = dispatch->stages[rank * chunks + chunk];
            const int sender = dispatch->inboxes[stage * SIM_DIRECTION_COUNT + way].sender;
            if (sender >= 0) add_sender(dispatch, dispatch->rows[sender].rank, count);
        }
    }
}

void sim_dispatch_meet(sim_dispatch *dispatch)
{
    int count = 0;
    for (int index = 0; index < dispatch->round_count; index++) {
        const int rank = dispatch->round[index];
        if (dispatch->ranks[rank].is_running) continue;
        add_sender(dispatch, rank, &count);
        add_senders_to(dispatch, rank, &count);
    }
    for (int index = 0; index < count; index++) {
        meet_offers(dispatch, dispatch->senders[index]);
    }
}

/// An op and the rank that runs it.
typedef struct place {
    int rank;
    bal_op op;
} place;

static place place_of(const sim_dispatch *dispatch, int row, int microbatch)
{
    place found = {dispatch->rows[row].rank, dispatch->rows[row].op};
    found.op.microbatch = microbatch;
    return found;
}

/// The op that waits for the message of another.
static place receiver_of(const sim_dispatch *dispatch, sim_dispatch_op op)
{
    const sim_dispatch_row *row = &dispatch->rows[op.row];
    const int cell = cell_of(dispatch, op);
    const sim_dispatch_rank *state = &dispatch->ranks[row->receiver];
    int step = state->next_step;
    while (dispatch->steps[step].wait != cell) {
        step++;
    }
    return place_of(dispatch, dispatch->steps[step].row, op.microbatch);
}

/// Where a rank stands: at the op whose message it cannot get rid of, else at its next one.
static place stands_at(const sim_dispatch *dispatch, int rank)
{
    const sim_dispatch_rank *state = &dispatch->ranks[rank];
    if (state->offer_count > 0) {
        return place_of(dispatch, state->offers[0].row, state->offers[0].microbatch);
    }
    const sim_dispatch_step *step = &dispatch->steps[state->next_step];
    return place_of(dispatch, step->row, step->microbatch);
}

/// The op that sends the message of a cell.
static place sender_of(const sim_dispatch *dispatch, int rank, int cell)
{
    const int first = dispatch->schedule->first_op[rank];
    int step = first;
    while (cell_of(dispatch, (sim_dispatch_op){dispatch->steps[step].row,
                                               dispatch->steps[step].microbatch}) != cell) {
        step++;
    }
    return place_of(dispatch, dispatch->steps[step].row, dispatch->steps[step].microbatch);
}

/// What a rank that stands waits for: the op that would receive its message, or the one that sends
/// what its next op lacks.
static place waits_for(const sim_dispatch *dispatch, int rank)
{
    const sim_dispatch_rank *state = &dispatch->ranks[rank];
    if (state->offer_count > 0) return receiver_of(dispatch, state->offers[0]);
    const sim_dispatch_step *step = &dispatch->steps[state->next_step];
    step +=
        dispatch->arrival_ns[step->wait] != SIM_UNKNOWN_NS; // then the second of a pair lacks it
    return sender_of(dispatch, dispatch->rows[sim_step_sender(step)].rank, step->wait);
}

static bool is_same(bal_op a, bal_op b)
{
    return a.kind == b.kind && a.chunk == b.chunk && a.microbatch == b.microbatch;
}

/// Writes "rank 0 BW0 waits for rank 1 BW0, behind rank 1 BW1", or without what stands after the
/// comma where the other rank stands right there.
static int wait_text(const sim_dispatch *dispatch, int rank, char out[200])
{
    const place at = stands_at(dispatch, rank);
    const place other = waits_for(dispatch, rank);
    const place before = stands_at(dispatch, other.rank);
    const bool is_offered = dispatch->ranks[rank].offer_count > 0;
    const int length = snprintf(out, 200, "rank %d %s %s rank %d %s", rank, bal_op_name(at.op).text,
                                is_offered ? "waits to be received by" : "waits for", other.rank,
                                bal_op_name(other.op).text);
    if (is_same(other.op, before.op)) return length;
    return length + snprintf(out + length, 200 - (size_t)length, ", behind rank %d %s", other.rank,
                             bal_op_name(before.op).text);
}

/// Ranks that wait wait for ranks that wait, so that following them for rank_count steps ends on a
/// ring.
static status deadlock(const sim_dispatch *dispatch, int rank, error_message *err)
{
    for (int step = 0; step < dispatch->schedule->rank_count; step++) {
        rank = waits_for(dispatch, rank).rank;
    }
    const int first = rank;
    char text[400] = "";
    size_t length = 0;
    int left_out = 0;
    do {
        char step[202] = "; ";
        const size_t bytes = (size_t)wait_text(dispatch, rank, step + 2) + 2;
        if (left_out == 0 && length + bytes < sizeof text) {
            memcpy(text + length, step, bytes + 1);
            length += bytes;
        } else {
            left_out++;
        }
        rank = waits_for(dispatch, rank).rank;
    } while (rank != first);
    char more[40] = "";
    if (left_out > 0) snprintf(more, sizeof more, "; ... (%d more ranks)", left_out);
    return error_set(err, STATUS_INVALID, "rendezvous deadlock: %s%s", text + 2, more);
}

status sim_dispatch_check_end(const sim_dispatch *dispatch, error_message *err)
{
    const bal_schedule *schedule = dispatch->schedule;
    for (int rank = 0; rank < schedule->rank_count; rank++) {
        if (dispatch->ranks[rank].next_played == schedule->first_op[rank + 1]) continue;
        assert(dispatch->network.send == BAL_SEND_RENDEZVOUS && dispatch->policy != SIM_GREEDY);
        return deadlock(dispatch, rank, err);
    }
    return STATUS_OK;
}

/// How a rank decides what it runs next, and when it needs to know more first.
///
/// A rank goes on by itself, ahead of the others, for as long as nothing that is still to come
/// could change its decisions: a message that it asks for is known from the begin of the op that
/// sends it on, and a message whose sender is not free before a time cannot arrive by then. Where
/// that does not decide, the rank waits until it is the one with the least time: whatever begins
/// later than now ends later than now, but for ops of no time, which have rounds of their own.
#include "sim/dispatch_state.h"

#include <assert.h>

typedef enum verdict {
    RUNS,  ///< an op, at begin_ns, which may be later than the rank is free
    ASKS,  ///< to be asked again at begin_ns
    WAITS, ///< for a message, or is done
} verdict;

typedef struct choice {
    int64_t begin_ns;
    int row;
    int microbatch;
    enum { FROM_STEPS, FROM_WEIGHTS, FROM_INBOX } source;
    int inbox;
} choice;

/// Whether a message that has not been sent could be there at a time that is not over: an op that
/// has not begun begins no earlier than now, and no earlier than its rank is free.
static inline bool may_come_by(const sim_dispatch *dispatch, const sim_dispatch_row *sender,
                               int rank, int64_t time_ns)
{
    if (sender->rank == rank) return false; // the rank itself would have to run first
    const int64_t begin_ns =
        sim_dispatch_later(dispatch->ranks[sender->rank].free_ns, dispatch->now_ns);
    return begin_ns + sender->least_ns <= time_ns;
}

static bool has_room(const sim_dispatch_rank *state, const sim_dispatch_row *row)
{
    return state->claimed + row->need <= state->limit;
}

static verdict run_weight(const sim_dispatch *dispatch, const sim_dispatch_rank *state,
                          choice *chosen)
{
    const sim_dispatch_op weight = dispatch->weights[state->next_weight];
    *chosen = (choice){state->free_ns, weight.row, weight.microbatch, FROM_WEIGHTS, -1};
    return RUNS;
}

/// When all that a step waits for is there. That of a pair waits for what its second op waits for
/// too.
static int64_t step_arrival_ns(const sim_dispatch *dispatch, const sim_dispatch_step *step)
{
    const int64_t arrival_ns = dispatch->arrival_ns[step->wait];
    if (!sim_step_is_pair(step)) return arrival_ns;
    return sim_dispatch_later(arrival_ns, dispatch->arrival_ns[step[1].wait]);
}

/// The next step, if what it waits for is there and memory allows it; else the oldest pending W, of
/// which there is none under the static policy; else the step when its message comes.
static verdict choose_fixed(sim_dispatch *dispatch, int rank, bool is_now, choice *chosen)
{
    sim_dispatch_rank *state = &dispatch->ranks[rank];
    const bool has_weight = state->next_weight < state->weight_end;
    if (state->next_step == state->step_end) {
        return has_weight ? run_weight(dispatch, state, chosen) : WAITS;
    }
    const sim_dispatch_step *step = &dispatch->steps[state->next_step];
    const sim_dispatch_row *row = &dispatch->rows[step->row];
    const int64_t arrival_ns = step_arrival_ns(dispatch, step);
    const bool fits = has_room(state, row);
    if (fits && arrival_ns != SIM_UNKNOWN_NS && (!has_weight || arrival_ns <= state->free_ns)) {
        *chosen = (choice){sim_dispatch_later(arrival_ns, state->free_ns), step->row,
                           step->microbatch, FROM_STEPS, -1};
        return RUNS;
    }
    if (!has_weight) {
        assert(fits); // see sim/claims.h
        const bool is_second = dispatch->arrival_ns[step->wait] != SIM_UNKNOWN_NS;
        state->awaited = step[is_second].wait;
        return WAITS;
    }
    if (fits && !is_now && arrival_ns == SIM_UNKNOWN_NS &&
        may_come_by(dispatch, &dispatch->rows[sim_step_sender(step)], rank, state->free_ns)) {
        chosen->begin_ns = state->free_ns;
        return ASKS;
    }
    return run_weight(dispatch, state, chosen);
}

/// What the inboxes of a rank say at a time.
typedef struct inbox_view {
    int best;        // inbox whose first message is there and stands first in the schedule
    uint32_t place;  // of that
    int64_t next_ns; // when the first of those that are not there yet arrives
    bool may_miss;   // a message could be there that is not known
    bool knows_next; // no message could come before next_ns
} inbox_view;

/// Looks at one inbox.
static inline void look_at(const sim_dispatch *dispatch, int rank, int number, inbox_view *view)
{
    const sim_dispatch_rank *state = &dispatch->ranks[rank];
    const sim_dispatch_inbox *inbox = &dispatch->inboxes[number];
    if (inbox->head_ns <= state->free_ns) {
        const int64_t cell = (int64_t)number * dispatch->microbatch_count;
        const uint32_t place = dispatch->has_places
                                   ? dispatch->place[cell + dispatch->arrived[cell + inbox->first]]
                                   : dispatch->costs.has_full_backward;
        if (view->best >= 0 && view->place < place) return;
        view->best = number;
        view->place = place;
        return;
    }
    if (inbox->head_ns < view->next_ns) view->next_ns = inbox->head_ns;
    if (inbox->head_ns != SIM_UNKNOWN_NS) return;
    const sim_dispatch_row *sender = &dispatch->rows[inbox->sender];
    view->knows_next = view->knows_next && sender->rank == rank;
    view->may_miss = view->may_miss || may_come_by(dispatch, sender, rank, state->free_ns);
}

/// Looks at the inboxes of one direction; at those of F that memory has no room for not at all.
static inline void look(const sim_dispatch *dispatch, int rank, sim_direction way, inbox_view *view)
{
    const sim_dispatch_rank *state = &dispatch->ranks[rank];
    const int chunks = dispatch->schedule->chunk_count;
    for (int chunk = 0; chunk < chunks; chunk++) {
        const int stage = dispatch->stages[rank * chunks + chunk];
        if (way == SIM_FORWARD && !has_room(state, &dispatch->rows[stage])) continue;
        look_at(dispatch, rank, stage * SIM_DIRECTION_COUNT + (int)way, view);
    }
}

static verdict run_first(const sim_dispatch *dispatch, const sim_dispatch_rank *state,
                         const inbox_view *view, choice *chosen)
{
    const int64_t cell = (int64_t)view->best * dispatch->microbatch_count;
    const int stage = view->best / SIM_DIRECTION_COUNT;
    const int kind = view->best % SIM_DIRECTION_COUNT == SIM_FORWARD ? OP_FORWARD
                     : view->place % 2 == 1                          ? OP_BACKWARD
                                                                     : OP_BACKWARD_INPUT;
    *chosen = (choice){state->free_ns, kind * dispatch->stage_count + stage,
                       dispatch->arrived[cell + dispatch->inboxes[view->best].first], FROM_INBOX,
                       view->best};
    return RUNS;
}

/// B, else F if memory allows, else the oldest pending W; of several chunks the one that stands
/// first in the schedule.
static verdict choose_greedy(sim_dispatch *dispatch, int rank, bool is_now, choice *chosen)
{
    sim_dispatch_rank *state = &dispatch->ranks[rank];
    for (;; is_now = false) {
        inbox_view view = {.best = -1,
                           .next_ns = SIM_NO_MORE_NS,
                           .knows_next = true,
                           .may_miss = dispatch->may_overtake};
        chosen->begin_ns = state->free_ns;
        look(dispatch, rank, SIM_BACKWARD, &view);
        if (view.may_miss && !is_now) return ASKS;
        if (view.best >= 0) return run_first(dispatch, state, &view, chosen);
        look(dispatch, rank, SIM_FORWARD, &view);
        if (view.may_miss && !is_now) return ASKS;
        if (view.best >= 0) return run_first(dispatch, state, &view, chosen);
        if (state->next_weight < state->weight_end) return run_weight(dispatch, state, chosen);
        if (view.next_ns == SIM_NO_MORE_NS && view.knows_next) return WAITS;
        if (!view.knows_next || dispatch->may_overtake || dispatch->is_in_time) {
            state->is_idle = true;
            chosen->begin_ns = view.next_ns == SIM_NO_MORE_NS ? BAL_NEVER : view.next_ns;
            state->wake_ns = chosen->begin_ns;
            return ASKS;
        }
        state->free_ns = view.next_ns;
    }
}

/// The first message of an inbox is taken.
static void take(const sim_dispatch *dispatch, int number)
{
    sim_dispatch_inbox *inbox = &dispatch->inboxes[number];
    inbox->first++;
    inbox->left--;
    if (inbox->first < inbox->end) {
        const int64_t cell = (int64_t)number * dispatch->microbatch_count + inbox->first;
        inbox->head_ns = dispatch->arrival_ns[cell];
    } else {
        inbox->head_ns = inbox->left == 0 ? SIM_NO_MORE_NS : SIM_UNKNOWN_NS;
    }
}

/// Notes an op as played. What it frees at its end nobody asks for before, so that it is freed at
/// once.
static void record(sim_dispatch *dispatch, sim_dispatch_rank *state, const choice *chosen,
                   int64_t end_ns)
{
    const sim_dispatch_row *row = &dispatch->rows[chosen->row];
    const int played = state->next_played++;
    bal_op op = row->op;
    op.microbatch = chosen->microbatch;
    if (chosen->source == FROM_STEPS) {
        op.overlaps_next = sim_step_is_pair(&dispatch->steps[state->next_step++]);
    } else if (chosen->source == FROM_WEIGHTS) {
        state->next_weight++;
    } else {
        take(dispatch, chosen->inbox);
    }
    dispatch->played_ops[played] = op;
    dispatch->timeline.begin_ns[played] = chosen->begin_ns;
    dispatch->timeline.end_ns[played] = end_ns;
    state->claimed += row->claim_change;
    if (row->weight_row >= 0) {
        dispatch->weights[state->weight_end++] =
            (sim_dispatch_op){row->weight_row, chosen->microbatch};
    }
}

/// Makes the end of an op an event: of this moment's next round where it takes no time.
static void run_in_time(sim_dispatch *dispatch, int rank, const choice *chosen, int64_t end_ns)
{
    sim_dispatch_rank *state = &dispatch->ranks[rank];
    record(dispatch, state, chosen, end_ns);
    state->free_ns = end_ns;
    state->is_running = true;
    state->is_first =
        chosen->source == FROM_STEPS && sim_step_is_pair(&dispatch->steps[state->next_step - 1]);
    state->running = (sim_dispatch_op){chosen->row, chosen->microbatch};
    if (end_ns == dispatch->now_ns) {
        dispatch->again[dispatch->again_count++] = rank;
        end_ns = BAL_NEVER;
    }
    bal_event_tree_set(&dispatch->events, rank, end_ns);
}

/// Sends what a rank has run, ahead of time; the first of a pair sends when the second ends.
///
/// @return when the rank is free
static int64_t send_ahead(sim_dispatch *dispatch, sim_dispatch_rank *state, const choice *chosen,
                          int64_t end_ns)
{
    const sim_dispatch_op op = {chosen->row, chosen->microbatch};
    const sim_dispatch_op ops[SIM_PAIR] = {state->first, op};
    int64_t free_ns = end_ns;
    if (chosen->source == FROM_STEPS && sim_step_is_pair(&dispatch->steps[state->next_step - 1])) {
        state->has_first = true;
        state->first = op;
        return end_ns;
    }
    for (int sent = state->has_first ? 0 : 1; sent < SIM_PAIR; sent++) {
        const sim_dispatch_row *row = &dispatch->rows[ops[sent].row];
        if (row->inbox < 0) continue;
        const int64_t arrival_ns =
            end_ns + sim_dispatch_way_ns(dispatch, row, ops[sent].microbatch);
        sim_dispatch_deliver(dispatch, row, ops[sent].microbatch, arrival_ns);
        if (dispatch->network.send == BAL_SEND_BLOCKING) {
            free_ns = sim_dispatch_later(free_ns, arrival_ns);
        }
    }
    state->has_first = false;
    return free_ns;
}

void sim_dispatch_advance(sim_dispatch *dispatch, int rank, bool is_now)
{
    sim_dispatch_rank *state = &dispatch->ranks[rank];
    const bool is_static = dispatch->policy == SIM_STATIC;
    for (;; is_now = false) {
        choice chosen;
        const verdict found = dispatch->policy == SIM_GREEDY
                                  ? choose_greedy(dispatch, rank, is_now, &chosen)
                                  : choose_fixed(dispatch, rank, is_now, &chosen);
        if (found != RUNS) {
            bal_event_tree_set(&dispatch->events, rank,
                               found == ASKS ? chosen.begin_ns : BAL_NEVER);
            return;
        }
        const sim_dispatch_row *row = &dispatch->rows[chosen.row];
        const int64_t end_ns =
            chosen.begin_ns + row->op_ns[sim_dispatch_column(dispatch, chosen.microbatch)];
        if (dispatch->is_in_time || (end_ns == chosen.begin_ns && !is_static)) {
            if (chosen.begin_ns == dispatch->now_ns) {
                run_in_time(dispatch, rank, &chosen, end_ns);
            } else {
                bal_event_tree_set(&dispatch->events, rank, chosen.begin_ns);
            }
            return;
        }
        record(dispatch, state, &chosen, end_ns);
        state->free_ns = send_ahead(dispatch, state, &chosen, end_ns);
    }
}

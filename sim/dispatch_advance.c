/// How a rank decides what it runs next.
///
/// Where a rank only follows its order, and what messages find on their way does not decide when
/// they arrive, nothing that is still to come could change a decision: it runs as far ahead of the
/// others as the messages that were sent allow. Everywhere else it decides at the time itself, when
/// all messages that arrive by then are known.
#include "sim/dispatch_state.h"

#include <assert.h>

/// What a rank runs next. Where it runs nothing, begin_ns is when it asks again, or BAL_NEVER.
typedef struct choice {
    int64_t begin_ns; // may be later than the rank is free
    int row;
    int microbatch;
    enum { FROM_STEPS, FROM_WEIGHTS, FROM_INBOX } source;
    int inbox;
} choice;

static bool has_room(const sim_dispatch_rank *state, const sim_dispatch_row *row)
{
    return state->claimed + row->need <= state->limit;
}

static bool run_weight(const sim_dispatch *dispatch, const sim_dispatch_rank *state, choice *chosen)
{
    const sim_dispatch_op weight = dispatch->weights[state->next_weight];
    *chosen = (choice){state->free_ns, weight.row, weight.microbatch, FROM_WEIGHTS, -1};
    return true;
}

/// When all that a step waits for is there. That of a pair waits for what its second op waits for
/// too.
static int64_t step_arrival_ns(const sim_dispatch *dispatch, const sim_dispatch_step *step)
{
    const int64_t arrival_ns = dispatch->arrival_ns[step->wait];
    if (!sim_step_is_pair(step)) return arrival_ns;
    return bal_larger(arrival_ns, dispatch->arrival_ns[step[1].wait]);
}

/// The next step, if what it waits for is there and memory allows it; else the oldest pending W, of
/// which there is none under the static policy; else the step when its message comes.
static bool choose_fixed(const sim_dispatch *dispatch, sim_dispatch_rank *state, choice *chosen)
{
    const bool has_weight = state->next_weight < state->weight_end;
    chosen->begin_ns = BAL_NEVER;
    if (state->next_step == state->step_end) {
        return has_weight && run_weight(dispatch, state, chosen);
    }
    const sim_dispatch_step *step = &dispatch->steps[state->next_step];
    const sim_dispatch_row *row = &dispatch->rows[step->row];
    const int64_t arrival_ns = step_arrival_ns(dispatch, step);
    const bool fits = has_room(state, row);
    if (fits && arrival_ns != SIM_UNKNOWN_NS && (!has_weight || arrival_ns <= state->free_ns)) {
        *chosen = (choice){bal_larger(arrival_ns, state->free_ns), step->row, step->microbatch,
                           FROM_STEPS, -1};
        return true;
    }
    if (has_weight) return run_weight(dispatch, state, chosen);
    assert(fits); // see sim/policy.h
    const bool is_second = dispatch->arrival_ns[step->wait] != SIM_UNKNOWN_NS;
    state->awaited = step[is_second].wait;
    return false;
}

/// What the inboxes of a rank say at a time.
typedef struct inbox_view {
    int best;        // inbox whose first message is there and stands first in the schedule
    uint32_t place;  // of that
    int64_t next_ns; // when the first of those that are not there yet arrives, as far as is known
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

static bool run_first(const sim_dispatch *dispatch, const sim_dispatch_rank *state,
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
    return true;
}

/// B, else F if memory allows, else the oldest pending W; of several chunks the one that stands
/// first in the schedule.
static bool choose_greedy(const sim_dispatch *dispatch, int rank, choice *chosen)
{
    sim_dispatch_rank *state = &dispatch->ranks[rank];
    inbox_view view = {.best = -1, .next_ns = SIM_UNKNOWN_NS};
    look(dispatch, rank, SIM_BACKWARD, &view);
    if (view.best < 0) look(dispatch, rank, SIM_FORWARD, &view);
    if (view.best >= 0) return run_first(dispatch, state, &view, chosen);
    if (state->next_weight < state->weight_end) return run_weight(dispatch, state, chosen);
    state->is_idle = true;
    chosen->begin_ns = state->wake_ns = view.next_ns;
    return false;
}

/// The first message of an inbox is taken.
static void take(const sim_dispatch *dispatch, int number)
{
    sim_dispatch_inbox *inbox = &dispatch->inboxes[number];
    inbox->first++;
    if (inbox->first < inbox->end) {
        const int64_t cell = (int64_t)number * dispatch->microbatch_count + inbox->first;
        inbox->head_ns = dispatch->arrival_ns[cell];
    } else {
        inbox->head_ns = SIM_UNKNOWN_NS;
    }
}

/// Notes an op as played. What it frees at its end nobody asks for before, so that it is freed at
/// once.
///
/// @return whether it is the first of a pair
static bool record(sim_dispatch *dispatch, sim_dispatch_rank *state, const choice *chosen,
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
    return op.overlaps_next != 0;
}

/// Makes the end of an op an event: of this moment's next round where it takes no time.
static void run_in_time(sim_dispatch *dispatch, int rank, const choice *chosen, int64_t end_ns)
{
    sim_dispatch_rank *state = &dispatch->ranks[rank];
    state->is_first = record(dispatch, state, chosen, end_ns);
    state->free_ns = end_ns;
    state->is_running = true;
    state->running = (sim_dispatch_op){chosen->row, chosen->microbatch};
    if (end_ns == dispatch->now_ns) {
        dispatch->again[dispatch->again_count++] = rank;
        end_ns = BAL_NEVER;
    }
    bal_event_tree_set(&dispatch->events, rank, end_ns);
}

/// When an op ends that is chosen.
static int64_t end_of(const sim_dispatch *dispatch, const choice *chosen)
{
    return chosen->begin_ns +
           dispatch->rows[chosen->row].op_ns[sim_dispatch_column(dispatch, chosen->microbatch)];
}

void sim_dispatch_run_ahead(sim_dispatch *dispatch, int rank)
{
    sim_dispatch_rank *state = &dispatch->ranks[rank];
    choice chosen;
    while (choose_fixed(dispatch, state, &chosen)) {
        const int64_t end_ns = end_of(dispatch, &chosen);
        const bool is_first = record(dispatch, state, &chosen, end_ns);
        state->free_ns = dispatch->now_ns = end_ns;
        sim_dispatch_end(dispatch, state, (sim_dispatch_op){chosen.row, chosen.microbatch},
                         is_first);
    }
}

void sim_dispatch_run_now(sim_dispatch *dispatch, int rank)
{
    choice chosen;
    const bool runs = dispatch->policy == SIM_GREEDY
                          ? choose_greedy(dispatch, rank, &chosen)
                          : choose_fixed(dispatch, &dispatch->ranks[rank], &chosen);
    if (runs && chosen.begin_ns == dispatch->now_ns) {
        run_in_time(dispatch, rank, &chosen, end_of(dispatch, &chosen));
    } else {
        bal_event_tree_set(&dispatch->events, rank, chosen.begin_ns);
    }
}

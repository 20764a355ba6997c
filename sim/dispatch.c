#include "sim/dispatch.h"

#include "sim/dispatch_state.h"
#include "sim/pipeline.h"

#include <assert.h>
#include <string.h>

enum { NO_ROW = -1 };

static sim_direction direction_of(uint8_t kind)
{
    return kind == OP_FORWARD ? SIM_FORWARD : SIM_BACKWARD;
}

static int inbox_of(int stage, sim_direction way)
{
    return stage * SIM_DIRECTION_COUNT + (int)way;
}

/// The stage that the message of an op goes to, -1: none. The last stage's F sends to its own B.
static int receiver_of(const sim_dispatch *dispatch, bal_op_kind kind, int stage)
{
    if (kind == OP_BACKWARD_WEIGHT) return -1;
    const bal_schedule *schedule = dispatch->schedule;
    if (kind != OP_FORWARD) {
        return bal_stage_before(schedule->placement, schedule->rank_count, stage);
    }
    const int next =
        bal_stage_behind(schedule->placement, schedule->rank_count, schedule->chunk_count, stage);
    return next >= 0 ? next : stage;
}

/// Fills what the rows have whatever the costs are.
static void fill_rows(sim_dispatch *dispatch)
{
    const bal_schedule *schedule = dispatch->schedule;
    const int stages = dispatch->stage_count;
    for (int kind = 0; kind < OP_KIND_COUNT; kind++) {
        for (int stage = 0; stage < stages; stage++) {
            sim_dispatch_row *row = &dispatch->rows[kind * stages + stage];
            const int receiver = receiver_of(dispatch, (bal_op_kind)kind, stage);
            const bool is_loss = receiver == stage;
            int chunk = 0;
            row->rank = bal_rank_of_stage(schedule->placement, schedule->rank_count,
                                          schedule->chunk_count, stage, &chunk);
            row->op = (bal_op){.kind = (uint8_t)kind, .chunk = (uint16_t)chunk};
            row->inbox = -1;
            row->weight_row = kind == OP_BACKWARD_INPUT && dispatch->policy != SIM_STATIC
                                  ? OP_BACKWARD_WEIGHT * stages + stage
                                  : -1;
            if (receiver < 0) continue;
            row->inbox = inbox_of(receiver, is_loss ? SIM_BACKWARD : direction_of((uint8_t)kind));
            row->receiver = bal_schedule_rank(schedule, receiver);
            if (kind == OP_BACKWARD && schedule->has_split) continue; // B is never longer
            dispatch->inboxes[row->inbox].sender = kind * stages + stage;
        }
    }
    for (int stage = 0; stage < stages; stage++) {
        if (bal_stage_before(schedule->placement, schedule->rank_count, stage) < 0) {
            dispatch->inboxes[inbox_of(stage, SIM_FORWARD)].sender = -1;
        }
    }
}

static sim_dispatch_step step_of(const sim_dispatch *dispatch, int rank, bal_op op)
{
    const int stage = bal_schedule_stage(dispatch->schedule, rank, op.chunk);
    const int row = op.kind * dispatch->stage_count + stage;
    const int inbox = inbox_of(stage, direction_of(op.kind));
    const bool is_pair = dispatch->policy == SIM_STATIC && op.overlaps_next != 0;
    const bool waits = op.kind != OP_BACKWARD_WEIGHT && dispatch->inboxes[inbox].sender >= 0;
    return (sim_dispatch_step){
        .row = row,
        .microbatch = op.microbatch,
        .wait = waits ? inbox * dispatch->microbatch_count + op.microbatch : dispatch->no_wait,
        .sender_and_pair = (uint32_t)(waits ? dispatch->inboxes[inbox].sender : row) * 2 + is_pair,
    };
}

/// Notes which ops have a fixed order, and where F and B stand for those that have none.
static void read_schedule(sim_dispatch *dispatch)
{
    const bal_schedule *schedule = dispatch->schedule;
    for (int rank = 0; rank < schedule->rank_count; rank++) {
        int step = schedule->first_op[rank];
        for (int index = schedule->first_op[rank]; index < schedule->first_op[rank + 1]; index++) {
            const bal_op op = schedule->ops[index];
            const bool is_weight = op.kind == OP_BACKWARD_WEIGHT;
            if (dispatch->policy != SIM_GREEDY) {
                if (is_weight && dispatch->policy == SIM_FLOATING_W) continue;
                dispatch->steps[step++] = step_of(dispatch, rank, op);
            } else if (!is_weight) {
                const int stage = bal_schedule_stage(schedule, rank, op.chunk);
                const int inbox = inbox_of(stage, direction_of(op.kind));
                const int64_t cell = (int64_t)inbox * dispatch->microbatch_count;
                if (dispatch->inboxes[inbox].sender < 0) { // a first stage has its inputs
                    dispatch->arrived[cell + dispatch->inboxes[inbox].end++] = op.microbatch;
                }
                dispatch->place[cell + op.microbatch] =
                    2 * (uint32_t)index + (op.kind == OP_BACKWARD);
            }
        }
        dispatch->ranks[rank].step_end = step;
    }
}

static void take_arrays(sim_dispatch *dispatch, arena *memory)
{
    const bal_schedule *schedule = dispatch->schedule;
    const bool is_greedy = dispatch->policy == SIM_GREEDY;
    const size_t ranks = (size_t)schedule->rank_count;
    const size_t stages = (size_t)dispatch->stage_count;
    const size_t cells = SIM_DIRECTION_COUNT * stages * (size_t)dispatch->microbatch_count;
    const size_t ops = (size_t)schedule->first_op[ranks];
    dispatch->no_wait = (int)cells;
    dispatch->rows = arena_array(memory, OP_KIND_COUNT * stages, sizeof *dispatch->rows);
    dispatch->ranks = arena_array(memory, ranks, sizeof *dispatch->ranks);
    dispatch->steps = arena_array(memory, is_greedy ? 0 : ops, sizeof *dispatch->steps);
    dispatch->weights = arena_array(memory, cells / 2, sizeof *dispatch->weights);
    dispatch->arrival_ns = arena_array(memory, cells + 1, sizeof *dispatch->arrival_ns);
    dispatch->arrived = arena_array(memory, is_greedy ? cells : 0, sizeof *dispatch->arrived);
    dispatch->place = arena_array(memory, is_greedy ? cells : 0, sizeof *dispatch->place);
    dispatch->inboxes =
        arena_array(memory, SIM_DIRECTION_COUNT * stages, sizeof *dispatch->inboxes);
    dispatch->stages = arena_array(memory, stages, sizeof *dispatch->stages);
    dispatch->runnable = arena_array(memory, ranks, sizeof *dispatch->runnable);
    dispatch->round = arena_array(memory, ranks, sizeof *dispatch->round);
    dispatch->again = arena_array(memory, ranks, sizeof *dispatch->again);
    dispatch->senders = arena_array(memory, ranks, sizeof *dispatch->senders);
    dispatch->claims = arena_array(memory, stages, sizeof *dispatch->claims);
    dispatch->need = arena_array(memory, ranks, sizeof *dispatch->need);
    dispatch->played_ops = arena_array(memory, ops, sizeof *dispatch->played_ops);
}

void sim_dispatch_set_network(sim_dispatch *dispatch, const sim_network *network)
{
    const sim_network taken = network != NULL ? *network : (sim_network){0};
    if (taken.link_count > dispatch->link_room) {
        int64_t *link_free_ns =
            arena_array(dispatch->memory, (size_t)taken.link_count, sizeof *link_free_ns);
        dispatch->link_free_ns = link_free_ns;
        dispatch->link_room = taken.link_count;
    }
    dispatch->network = taken;
    dispatch->is_in_time =
        dispatch->policy != SIM_STATIC || taken.send == BAL_SEND_RENDEZVOUS || taken.link_count > 0;
}

status sim_dispatch_create(const bal_schedule *schedule, sim_policy policy,
                           const sim_network *network, arena *memory, sim_dispatch **dispatch,
                           error_message *err)
{
    assert(policy >= 0 && policy < SIM_POLICY_COUNT);
    TRY(bal_schedule_check(schedule, err));
    sim_dispatch *created = arena_array(memory, 1, sizeof *created);
    created->schedule = schedule;
    created->policy = policy;
    created->memory = memory;
    sim_dispatch_set_network(created, network);
    created->stage_count = schedule->rank_count * schedule->chunk_count;
    created->microbatch_count = schedule->microbatch_count;
    bal_event_tree_init(schedule->rank_count, memory, &created->events);
    sim_cost_table_init(schedule, memory, &created->costs);
    created->has_places =
        schedule->chunk_count > 1 || (schedule->has_split && created->costs.has_full_backward);
    take_arrays(created, memory);
    sim_timeline_init(schedule, memory, &created->timeline);
    for (int rank = 0; rank < schedule->rank_count; rank++) {
        for (int chunk = 0; chunk < schedule->chunk_count; chunk++) {
            created->stages[rank * schedule->chunk_count + chunk] =
                bal_schedule_stage(schedule, rank, chunk);
        }
    }
    fill_rows(created);
    read_schedule(created);
    created->played = *schedule;
    created->played.ops = created->played_ops;
    created->timeline.schedule = &created->played;
    *dispatch = created;
    return STATUS_OK;
}

/// The change of a rank's claim from before an op until it is over.
static int64_t claim_change(const sim_claim *claim, bal_op_kind kind)
{
    if (kind == OP_FORWARD) return claim->from_forward;
    const int64_t before = kind == OP_BACKWARD_WEIGHT ? claim->from_backward : claim->from_forward;
    return (kind == OP_BACKWARD_INPUT ? claim->from_backward : claim->from_weight) - before;
}

/// Puts the costs of a play into the rows.
static void price_rows(sim_dispatch *dispatch, const bal_stage_costs *costs)
{
    const int stages = dispatch->stage_count;
    const sim_network *network = &dispatch->network;
    const bool has_links = network->link_count > 0;
    sim_cost_table_fill(&dispatch->costs, costs);
    for (int number = 0; number < OP_KIND_COUNT * stages; number++) {
        sim_dispatch_row *row = &dispatch->rows[number];
        const int stage = number % stages;
        const sim_direction way = direction_of(row->op.kind);
        const bool crosses = row->inbox >= 0 && row->receiver != row->rank;
        const sim_claim *claim = &dispatch->claims[stage];
        row->op_ns = dispatch->costs.rows[number].op_ns;
        row->transfer_ns = dispatch->costs.rows[number].transfer_ns;
        row->delay_ns =
            crosses && dispatch->costs.has_delays ? dispatch->costs.delay_rows[number] : NULL;
        row->claim_change = claim_change(claim, (bal_op_kind)row->op.kind);
        // Only F needs room; the others may be asked whether there is some too.
        row->need = way == SIM_FORWARD && dispatch->policy != SIM_STATIC
                        ? claim->from_forward + claim->reserve
                        : -INT64_MAX / 2;
        row->link = -1;
        if (!has_links || !crosses) continue;
        row->link = network->link[way][stage];
        row->occupancy_ns = network->occupancy_ns[way][stage];
    }
}

/// No message has been sent but the inputs of first stages.
static void reset_messages(sim_dispatch *dispatch)
{
    const int cells = dispatch->no_wait;
    if (dispatch->policy != SIM_GREEDY) {
        for (int cell = 0; cell < cells; cell++) {
            dispatch->arrival_ns[cell] = SIM_UNKNOWN_NS;
        }
        return;
    }
    for (int number = 0; number < SIM_DIRECTION_COUNT * dispatch->stage_count; number++) {
        sim_dispatch_inbox *inbox = &dispatch->inboxes[number];
        inbox->head_ns = inbox->sender < 0 ? 0 : SIM_UNKNOWN_NS;
        inbox->first = 0;
        inbox->end = inbox->sender < 0 ? dispatch->microbatch_count : 0;
    }
}

/// Puts everything where it is before the iteration.
static void reset(sim_dispatch *dispatch, const int64_t *memory_limit, const int64_t *start_ns)
{
    const bal_schedule *schedule = dispatch->schedule;
    int first_weight = 0;
    dispatch->now_ns = 0;
    dispatch->runnable_count = dispatch->round_count = dispatch->again_count = 0;
    bal_event_tree_reset(&dispatch->events);
    reset_messages(dispatch);
    for (int link = 0; link < dispatch->network.link_count; link++) {
        dispatch->link_free_ns[link] = 0;
    }
    for (int rank = 0; rank < schedule->rank_count; rank++) {
        sim_dispatch_rank *state = &dispatch->ranks[rank];
        *state = (sim_dispatch_rank){
            .free_ns = start_ns != NULL ? start_ns[rank] : 0,
            .limit = memory_limit != NULL ? memory_limit[rank] : INT64_MAX,
            .next_step = schedule->first_op[rank],
            .step_end = state->step_end,
            .next_played = schedule->first_op[rank],
            .next_weight = first_weight,
            .weight_end = first_weight,
            .awaited = SIM_NO_CELL,
            .is_running = dispatch->is_in_time, // the iteration before, which sends nothing more
            .running = {.row = NO_ROW},
        };
        first_weight += schedule->chunk_count * schedule->microbatch_count;
        bal_event_tree_set(&dispatch->events, rank, state->free_ns);
    }
}

/// Lets a rank decide now, if it can and may.
static void decide(sim_dispatch *dispatch, int rank)
{
    sim_dispatch_rank *state = &dispatch->ranks[rank];
    state->awaited = SIM_NO_CELL;
    if (state->is_running) return;
    if (state->offer_count > 0) {
        bal_event_tree_set(&dispatch->events, rank, BAL_NEVER);
    } else if (state->free_ns > dispatch->now_ns) {
        bal_event_tree_set(&dispatch->events, rank, state->free_ns);
    } else {
        state->free_ns = dispatch->now_ns;
        state->is_idle = false;
        sim_dispatch_run_now(dispatch, rank);
    }
}

/// Ends the op of a rank, if it runs one.
static void end_op(sim_dispatch *dispatch, int rank)
{
    sim_dispatch_rank *state = &dispatch->ranks[rank];
    const bool has_run = state->is_running && state->running.row != NO_ROW;
    state->is_running = false;
    if (has_run) sim_dispatch_end(dispatch, state, state->running, state->is_first);
}

/// The ranks of a round in the order of their numbers, which decides who is first on a link.
static void sort_round(sim_dispatch *dispatch)
{
    int *round = dispatch->round;
    for (int index = 1; index < dispatch->round_count; index++) {
        const int rank = round[index];
        int place = index;
        for (; place > 0 && round[place - 1] > rank; place--) {
            round[place] = round[place - 1];
        }
        round[place] = rank;
    }
}

/// All that happens at this moment before anybody decides, then the decisions.
static void play_round(sim_dispatch *dispatch)
{
    int *const round = dispatch->again;
    dispatch->again = dispatch->round;
    dispatch->round = round;
    dispatch->round_count = dispatch->again_count;
    dispatch->again_count = 0;
    sort_round(dispatch);
    for (int index = 0; index < dispatch->round_count; index++) {
        end_op(dispatch, round[index]);
    }
    if (dispatch->network.send == BAL_SEND_RENDEZVOUS) sim_dispatch_meet(dispatch);
    for (int index = 0; index < dispatch->round_count; index++) {
        decide(dispatch, round[index]);
    }
    while (dispatch->runnable_count > 0) {
        const int rank = dispatch->runnable[--dispatch->runnable_count];
        dispatch->ranks[rank].is_listed = false;
        decide(dispatch, rank);
    }
}

/// Lets ranks go on ahead of time, all at first, then those whose message is known now.
static void run_ahead(sim_dispatch *dispatch)
{
    for (int rank = dispatch->schedule->rank_count - 1; rank >= 0; rank--) {
        sim_dispatch_list(dispatch, rank);
    }
    while (dispatch->runnable_count > 0) {
        const int rank = dispatch->runnable[--dispatch->runnable_count];
        sim_dispatch_rank *state = &dispatch->ranks[rank];
        state->is_listed = false;
        state->awaited = SIM_NO_CELL;
        sim_dispatch_run_ahead(dispatch, rank);
    }
}

/// Plays moment after moment until nothing is left to happen.
static void run_in_time(sim_dispatch *dispatch)
{
    bal_event_tree *events = &dispatch->events;
    for (;;) {
        const int64_t next_ns = bal_event_tree_next_ns(events);
        if (dispatch->again_count == 0 || next_ns <= dispatch->now_ns) {
            if (next_ns == BAL_NEVER) return;
            dispatch->now_ns = next_ns;
            while (bal_event_tree_next_ns(events) == next_ns) {
                const int rank = bal_event_tree_next(events);
                bal_event_tree_set(events, rank, BAL_NEVER);
                dispatch->again[dispatch->again_count++] = rank;
            }
        }
        play_round(dispatch);
    }
}

status sim_dispatch_play(sim_dispatch *dispatch, const bal_stage_costs *costs,
                         const int64_t *memory_limit, const int64_t *start_ns,
                         bal_timeline *timeline, error_message *err)
{
    if (memory_limit != NULL) {
        TRY(sim_claims_fill(dispatch->schedule, dispatch->policy, costs, memory_limit,
                            dispatch->claims, dispatch->need, err));
    } else {
        memset(dispatch->claims, 0, (size_t)dispatch->stage_count * sizeof *dispatch->claims);
    }
    price_rows(dispatch, costs);
    reset(dispatch, memory_limit, start_ns);
    if (dispatch->is_in_time) {
        run_in_time(dispatch);
    } else {
        run_ahead(dispatch);
    }
    TRY(sim_dispatch_check_end(dispatch, err));
    *timeline = dispatch->timeline;
    return STATUS_OK;
}

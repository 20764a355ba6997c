#include "sim/dispatch.h"

#include "sim/claims.h"
#include "sim/costs.h"
#include "sim/engine.h"
#include "sim/pipeline.h"

#include <assert.h>
#include <string.h>

typedef enum direction { FORWARD, BACKWARD, DIRECTION_COUNT } direction;

typedef enum event_kind {
    EVENT_START,            ///< subject: the rank that may begin
    EVENT_END,              ///< subject: the rank whose op ends
    EVENT_FORWARD_ARRIVAL,  ///< subject: the stage that receives; detail: the microbatch
    EVENT_BACKWARD_ARRIVAL, ///< the same
} event_kind;

/// Cells (stage * microbatch_count + microbatch) in the order in which they came.
typedef struct queue {
    int *cells; // as many as ever come
    int first;
    int end;
} queue;

typedef struct stage_state {
    int rank;
    int chunk;
    queue ready[DIRECTION_COUNT]; // greedy: what could run and did not yet
} stage_state;

typedef struct rank_state {
    bal_op running;
    int next_fixed;  // index into fixed of its next op whose order is fixed
    int fixed_end;   // index behind the last of them
    int next_played; // index into the timeline
    bool is_busy;    // runs an op, or may not begin yet
    bool is_touched; // something happened since it last decided
    int64_t claimed;
    int64_t limit;
    queue weights; // pending W
} rank_state;

struct sim_dispatch {
    const bal_schedule *schedule;
    sim_policy policy;
    int stage_count;
    int microbatch_count;
    sim_engine *engine;
    sim_cost_table costs;
    stage_state *stages; // [stage_count]
    rank_state *ranks;   // [rank_count]
    int *touched;        // [touched_count] ranks to ask next, in this order
    int touched_count;
    bal_op *fixed;      // [op_count] of each rank from first_op: the ops whose order is fixed
    bool *is_ready;     // [DIRECTION_COUNT][stage_count][microbatch_count] its message is there
    int *place;         // the same shape; greedy: index into the ops of the schedule
    sim_claim *claims;  // [stage_count] all 0 without limits
    int64_t *need;      // [rank_count] scratch of the claims
    bal_op *played_ops; // [op_count]
    bal_schedule played;
    bal_timeline timeline; // of played
};

static direction direction_of(uint8_t kind)
{
    return kind == OP_FORWARD ? FORWARD : BACKWARD;
}

static int cell_of(const sim_dispatch *dispatch, int stage, int microbatch)
{
    return stage * dispatch->microbatch_count + microbatch;
}

static int64_t row_of(const sim_dispatch *dispatch, direction way, int cell)
{
    return (int64_t)way * dispatch->stage_count * dispatch->microbatch_count + cell;
}

static int stage_of_op(const sim_dispatch *dispatch, int rank, bal_op op)
{
    const bal_schedule *schedule = dispatch->schedule;
    return bal_stage_of(schedule->placement, schedule->rank_count, schedule->chunk_count, rank,
                        op.chunk);
}

static void queue_push(queue *cells, int cell)
{
    cells->cells[cells->end++] = cell;
}

static bool queue_is_empty(const queue *cells)
{
    return cells->first == cells->end;
}

/// Sorts the ops of the schedule into those whose order is fixed, and notes where F and B stand.
static void read_schedule(sim_dispatch *dispatch)
{
    const bal_schedule *schedule = dispatch->schedule;
    for (int rank = 0; rank < schedule->rank_count; rank++) {
        int fixed_end = schedule->first_op[rank];
        for (int index = schedule->first_op[rank]; index < schedule->first_op[rank + 1]; index++) {
            const bal_op op = schedule->ops[index];
            const bool is_weight = op.kind == OP_BACKWARD_WEIGHT;
            if (dispatch->policy == SIM_STATIC ||
                (dispatch->policy == SIM_FLOATING_W && !is_weight)) {
                dispatch->fixed[fixed_end++] = op;
            }
            if (is_weight) continue;
            const int cell = cell_of(dispatch, stage_of_op(dispatch, rank, op), op.microbatch);
            dispatch->place[row_of(dispatch, direction_of(op.kind), cell)] = index;
        }
        dispatch->ranks[rank].fixed_end = fixed_end;
    }
}

static status take_arrays(sim_dispatch *dispatch, arena *memory, error_message *err)
{
    const bal_schedule *schedule = dispatch->schedule;
    const size_t ranks = (size_t)schedule->rank_count;
    const size_t stages = (size_t)dispatch->stage_count;
    const size_t microbatches = (size_t)dispatch->microbatch_count;
    const size_t cells = stages * microbatches;
    const size_t ops = (size_t)schedule->first_op[ranks];
    int *queued = arena_array(memory, (DIRECTION_COUNT + 1) * cells, sizeof *queued);
    dispatch->stages = arena_array(memory, stages, sizeof *dispatch->stages);
    dispatch->ranks = arena_array(memory, ranks, sizeof *dispatch->ranks);
    dispatch->touched = arena_array(memory, ranks, sizeof *dispatch->touched);
    dispatch->fixed = arena_array(memory, ops, sizeof *dispatch->fixed);
    dispatch->is_ready = arena_array(memory, DIRECTION_COUNT * cells, sizeof *dispatch->is_ready);
    dispatch->place = arena_array(memory, DIRECTION_COUNT * cells, sizeof *dispatch->place);
    dispatch->claims = arena_array(memory, stages, sizeof *dispatch->claims);
    dispatch->need = arena_array(memory, ranks, sizeof *dispatch->need);
    dispatch->played_ops = arena_array(memory, ops, sizeof *dispatch->played_ops);
    if (queued == NULL || dispatch->stages == NULL || dispatch->ranks == NULL ||
        dispatch->touched == NULL || dispatch->fixed == NULL || dispatch->is_ready == NULL ||
        dispatch->place == NULL || dispatch->claims == NULL || dispatch->need == NULL ||
        dispatch->played_ops == NULL) {
        return error_set(err, STATUS_NO_MEMORY, "out of memory for a play of %zu ops", ops);
    }
    for (size_t stage = 0; stage < stages; stage++) {
        stage_state *state = &dispatch->stages[stage];
        state->rank = bal_rank_of_stage(schedule->placement, schedule->rank_count,
                                        schedule->chunk_count, (int)stage, &state->chunk);
        for (int way = 0; way < DIRECTION_COUNT; way++) {
            state->ready[way].cells = queued;
            queued += microbatches;
        }
    }
    for (size_t rank = 0; rank < ranks; rank++) {
        dispatch->ranks[rank].weights.cells = queued;
        queued += (size_t)schedule->chunk_count * microbatches;
    }
    return STATUS_OK;
}

status sim_dispatch_create(const bal_schedule *schedule, sim_policy policy,
                           const sim_network *network, arena *memory, sim_dispatch **dispatch,
                           error_message *err)
{
    assert(policy >= 0 && policy < SIM_POLICY_COUNT);
    if (!sim_network_is_free(network)) {
        return error_set(err, STATUS_UNSUPPORTED, "%s messages on %d shared links are not played",
                         sim_send_name(network->send), network->link_count);
    }
    TRY(bal_schedule_check(schedule, NULL, err));
    sim_dispatch *created = arena_array(memory, 1, sizeof *created);
    if (created == NULL) return error_set(err, STATUS_NO_MEMORY, "out of memory for a play");
    created->schedule = schedule;
    created->policy = policy;
    created->stage_count = schedule->rank_count * schedule->chunk_count;
    created->microbatch_count = schedule->microbatch_count;
    // Every rank ends one op at a time, and every message is on its way once.
    const int64_t messages =
        (int64_t)DIRECTION_COUNT * created->stage_count * created->microbatch_count;
    TRY(sim_engine_create(schedule->rank_count + messages, memory, &created->engine, err));
    TRY(sim_cost_table_init(schedule, memory, &created->costs, err));
    TRY(take_arrays(created, memory, err));
    TRY(sim_timeline_init(schedule, memory, &created->timeline, err));
    read_schedule(created);
    created->played = *schedule;
    created->played.ops = created->played_ops;
    created->timeline.schedule = &created->played;
    *dispatch = created;
    return STATUS_OK;
}

static void touch(sim_dispatch *dispatch, int rank)
{
    if (dispatch->ranks[rank].is_touched) return;
    dispatch->ranks[rank].is_touched = true;
    dispatch->touched[dispatch->touched_count++] = rank;
}

/// Notes that what F or B of a stage waits for is there.
static void make_ready(sim_dispatch *dispatch, direction way, int stage, int microbatch)
{
    const int cell = cell_of(dispatch, stage, microbatch);
    if (dispatch->policy == SIM_GREEDY) {
        queue_push(&dispatch->stages[stage].ready[way], cell);
    } else {
        dispatch->is_ready[row_of(dispatch, way, cell)] = true;
    }
    touch(dispatch, dispatch->stages[stage].rank);
}

/// Puts everything where it is before the iteration.
static void reset(sim_dispatch *dispatch, const int64_t *memory_limit, const int64_t *start_ns)
{
    const bal_schedule *schedule = dispatch->schedule;
    const size_t cells = (size_t)dispatch->stage_count * (size_t)dispatch->microbatch_count;
    sim_engine_reset(dispatch->engine);
    memset(dispatch->is_ready, 0, DIRECTION_COUNT * cells * sizeof *dispatch->is_ready);
    dispatch->touched_count = 0;
    for (int stage = 0; stage < dispatch->stage_count; stage++) {
        for (int way = 0; way < DIRECTION_COUNT; way++) {
            queue *ready = &dispatch->stages[stage].ready[way];
            ready->first = ready->end = 0;
        }
    }
    for (int rank = 0; rank < schedule->rank_count; rank++) {
        rank_state *state = &dispatch->ranks[rank];
        state->next_fixed = state->next_played = schedule->first_op[rank];
        state->is_busy = start_ns != NULL;
        state->is_touched = false;
        state->claimed = 0;
        state->limit = memory_limit != NULL ? memory_limit[rank] : INT64_MAX;
        state->weights.first = state->weights.end = 0;
        if (start_ns != NULL) {
            sim_engine_push(dispatch->engine, start_ns[rank], EVENT_START, rank, 0);
        }
    }
}

/// The first stage has its inputs from the begin.
static void give_inputs(sim_dispatch *dispatch)
{
    const bal_schedule *schedule = dispatch->schedule;
    const stage_state *stage = &dispatch->stages[0];
    for (int index = schedule->first_op[stage->rank]; index < schedule->first_op[stage->rank + 1];
         index++) {
        const bal_op op = schedule->ops[index];
        if (op.kind != OP_FORWARD || op.chunk != stage->chunk) continue;
        make_ready(dispatch, FORWARD, 0, op.microbatch);
    }
}

static bool has_room(const sim_dispatch *dispatch, int rank, int stage)
{
    const rank_state *state = &dispatch->ranks[rank];
    const sim_claim *claim = &dispatch->claims[stage];
    return state->claimed + claim->from_forward + claim->reserve <= state->limit;
}

static bal_op op_at(const sim_dispatch *dispatch, bal_op_kind kind, int cell)
{
    const int stage = cell / dispatch->microbatch_count;
    return (bal_op){.kind = (uint8_t)kind,
                    .chunk = (uint16_t)dispatch->stages[stage].chunk,
                    .microbatch = cell % dispatch->microbatch_count};
}

static bool choose_weight(const sim_dispatch *dispatch, rank_state *state, bal_op *op)
{
    if (queue_is_empty(&state->weights)) return false;
    *op = op_at(dispatch, OP_BACKWARD_WEIGHT, state->weights.cells[state->weights.first++]);
    return true;
}

/// The next op whose order is fixed, if it can run; else the oldest pending W, of which there is
/// none under the static policy.
static bool choose_fixed(const sim_dispatch *dispatch, int rank, bal_op *op)
{
    rank_state *state = &dispatch->ranks[rank];
    if (state->next_fixed == state->fixed_end) return choose_weight(dispatch, state, op);
    const bal_op next = dispatch->fixed[state->next_fixed];
    const int stage = stage_of_op(dispatch, rank, next);
    const int64_t row =
        row_of(dispatch, direction_of(next.kind), cell_of(dispatch, stage, next.microbatch));
    const bool is_ready = next.kind == OP_BACKWARD_WEIGHT || dispatch->is_ready[row];
    const bool fits = next.kind != OP_FORWARD || dispatch->policy == SIM_STATIC ||
                      has_room(dispatch, rank, stage);
    if (!is_ready || !fits) return choose_weight(dispatch, state, op);
    state->next_fixed++;
    *op = next;
    return true;
}

/// Takes the longest waiting F or B of the chunk whose one stands first in the schedule.
static bool choose_ready(const sim_dispatch *dispatch, int rank, direction way, bal_op *op)
{
    const bal_schedule *schedule = dispatch->schedule;
    queue *best = NULL;
    int best_place = 0;
    for (int chunk = 0; chunk < schedule->chunk_count; chunk++) {
        const int stage = bal_stage_of(schedule->placement, schedule->rank_count,
                                       schedule->chunk_count, rank, chunk);
        queue *ready = &dispatch->stages[stage].ready[way];
        if (queue_is_empty(ready)) continue;
        if (way == FORWARD && !has_room(dispatch, rank, stage)) continue;
        const int place = dispatch->place[row_of(dispatch, way, ready->cells[ready->first])];
        if (best != NULL && best_place < place) continue;
        best = ready;
        best_place = place;
    }
    if (best == NULL) return false;
    best->first++;
    *op = schedule->ops[best_place];
    return true;
}

static bool choose(const sim_dispatch *dispatch, int rank, bal_op *op)
{
    if (dispatch->policy != SIM_GREEDY) return choose_fixed(dispatch, rank, op);
    return choose_ready(dispatch, rank, BACKWARD, op) ||
           choose_ready(dispatch, rank, FORWARD, op) ||
           choose_weight(dispatch, &dispatch->ranks[rank], op);
}

static const sim_row *row_of_op(const sim_dispatch *dispatch, bal_op op, int stage)
{
    return &dispatch->costs.rows[op.kind * dispatch->stage_count + stage];
}

static void begin_op(sim_dispatch *dispatch, int rank, bal_op op)
{
    rank_state *state = &dispatch->ranks[rank];
    const int stage = stage_of_op(dispatch, rank, op);
    const uint32_t column = (uint32_t)op.microbatch & dispatch->costs.column_mask;
    const int64_t begin_ns = sim_engine_now_ns(dispatch->engine);
    const int64_t end_ns = begin_ns + row_of_op(dispatch, op, stage)->op_ns[column];
    if (op.kind == OP_FORWARD) state->claimed += dispatch->claims[stage].from_forward;
    state->running = op;
    state->is_busy = true;
    dispatch->played_ops[state->next_played] = op;
    dispatch->timeline.begin_ns[state->next_played] = begin_ns;
    dispatch->timeline.end_ns[state->next_played] = end_ns;
    state->next_played++;
    sim_engine_push(dispatch->engine, end_ns, EVENT_END, rank, 0);
}

/// Sends the output of F or the gradient of B to the next stage in its direction, if there is one.
static void send_from(sim_dispatch *dispatch, bal_op op, int stage)
{
    const direction way = direction_of(op.kind);
    const int receiver = way == FORWARD ? stage + 1 : stage - 1;
    if (receiver < 0 || receiver == dispatch->stage_count) return;
    if (dispatch->stages[receiver].rank == dispatch->stages[stage].rank) {
        make_ready(dispatch, way, receiver, op.microbatch);
        return;
    }
    const int64_t arrival_ns =
        sim_engine_now_ns(dispatch->engine) + row_of_op(dispatch, op, stage)->transfer_ns;
    sim_engine_push(dispatch->engine, arrival_ns,
                    way == FORWARD ? EVENT_FORWARD_ARRIVAL : EVENT_BACKWARD_ARRIVAL, receiver,
                    op.microbatch);
}

static void end_op(sim_dispatch *dispatch, int rank)
{
    rank_state *state = &dispatch->ranks[rank];
    const bal_op op = state->running;
    const int stage = stage_of_op(dispatch, rank, op);
    const sim_claim held = dispatch->claims[stage];
    state->is_busy = false;
    touch(dispatch, rank);
    switch (op.kind) {
    case OP_FORWARD:
        if (stage == dispatch->stage_count - 1) {
            make_ready(dispatch, BACKWARD, stage, op.microbatch); // the loss needs nothing else
        }
        break;
    case OP_BACKWARD_INPUT:
        state->claimed += held.from_backward - held.from_forward;
        if (dispatch->policy != SIM_STATIC) {
            queue_push(&state->weights, cell_of(dispatch, stage, op.microbatch));
        }
        break;
    case OP_BACKWARD_WEIGHT:
        state->claimed += held.from_weight - held.from_backward;
        return;
    default:
        state->claimed += held.from_weight - held.from_forward;
        break;
    }
    send_from(dispatch, op, stage);
}

static void handle(sim_dispatch *dispatch, const sim_event *event)
{
    switch (event->kind) {
    case EVENT_START:
        dispatch->ranks[event->subject].is_busy = false;
        touch(dispatch, event->subject);
        break;
    case EVENT_END:
        end_op(dispatch, event->subject);
        break;
    case EVENT_FORWARD_ARRIVAL:
        make_ready(dispatch, FORWARD, event->subject, (int)event->detail);
        break;
    default:
        make_ready(dispatch, BACKWARD, event->subject, (int)event->detail);
        break;
    }
}

/// Lets every touched rank that is idle begin an op.
static void decide(sim_dispatch *dispatch)
{
    for (int index = 0; index < dispatch->touched_count; index++) {
        const int rank = dispatch->touched[index];
        bal_op op;
        dispatch->ranks[rank].is_touched = false;
        if (dispatch->ranks[rank].is_busy) continue;
        if (choose(dispatch, rank, &op)) begin_op(dispatch, rank, op);
    }
    dispatch->touched_count = 0;
}

status sim_dispatch_play(sim_dispatch *dispatch, const bal_stage_costs *costs,
                         const int64_t *memory_limit, const int64_t *start_ns,
                         bal_timeline *timeline, error_message *err)
{
    const bal_schedule *schedule = dispatch->schedule;
    sim_event event;
    if (memory_limit != NULL) {
        TRY(sim_claims_fill(schedule, dispatch->policy, costs, memory_limit, dispatch->claims,
                            dispatch->need, err));
    } else {
        memset(dispatch->claims, 0, (size_t)dispatch->stage_count * sizeof *dispatch->claims);
    }
    sim_cost_table_fill(&dispatch->costs, costs);
    reset(dispatch, memory_limit, start_ns);
    give_inputs(dispatch);
    decide(dispatch);
    while (sim_engine_pop(dispatch->engine, &event)) {
        handle(dispatch, &event);
        // A rank decides on all that happens at a time, not on what happens to be first.
        if (!sim_engine_has_more_now(dispatch->engine)) decide(dispatch);
    }
    for (int rank = 0; rank < schedule->rank_count; rank++) {
        assert(dispatch->ranks[rank].next_played == schedule->first_op[rank + 1]);
    }
    *timeline = dispatch->timeline;
    return STATUS_OK;
}

int64_t sim_dispatch_event_count(const sim_dispatch *dispatch)
{
    return sim_engine_event_count(dispatch->engine);
}

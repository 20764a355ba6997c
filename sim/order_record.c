#include "sim/order_record.h"

#include "balance/metrics.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

enum { NOWHERE = -1, DIRECTIONS = 2 };

/// What steps of a row do besides taking time.
typedef struct record_row {
    int64_t memory_change;
    int64_t occupancy_ns; // of its message on its link
    int32_t link;         // or NOWHERE: messages have their own way
    int32_t message;      // first of its stage's messages in its direction: index of waited
} record_row;

struct sim_recorder {
    const sim_order *order;
    sim_network network;
    sim_record record;
    const int64_t **op_rows;  // [row_count] costs of a step
    const int64_t **way_rows; // [row_count] delays of the messages; NULL where there are none
    int64_t *transfer_ns;     // [row_count]
    record_row *rows;         // [row_count]
    int64_t *no_ns;           // [microbatch_count] zeros
    int64_t *full_ns;         // [stage_count][microbatch_count] BW
    int64_t *held;            // [rank_count] memory
    int64_t *free_ns;         // [rank_count]
    int *next_op;             // [rank_count]
    int64_t *arrival_ns;      // [slot_count]
    int64_t *link_free_ns;    // [link_count]
    uint8_t *waited;          // [2][stage_count][microbatch_count] the message waited for its link
    int *sender;              // [2][stage_count][microbatch_count] op that sends the message
};

/// The link of a stage's messages in a direction, or NOWHERE.
static int link_of(const bal_schedule *schedule, const sim_network *network, int direction,
                   int stage)
{
    const bal_op_kind kind = direction == 0 ? OP_FORWARD : OP_BACKWARD_INPUT;
    if (network->link_count == 0 || sim_network_receiver(schedule, kind, stage) < 0) return NOWHERE;
    return direction == 0 ? network->forward_link[stage] : network->backward_link[stage];
}

/// The rank that sends over a link and is not the given one, or NOWHERE.
static int other_sender(const bal_schedule *schedule, const sim_network *network, int link,
                        int rank)
{
    const int stages = schedule->rank_count * schedule->chunk_count;
    for (int stage = 0; stage < stages; stage++) {
        const int sender = bal_schedule_rank(schedule, stage);
        for (int direction = 0; direction < DIRECTIONS; direction++) {
            if (sender != rank && link_of(schedule, network, direction, stage) == link) {
                return sender;
            }
        }
    }
    return NOWHERE;
}

status sim_network_check_serial(const bal_schedule *schedule, const sim_network *network,
                                error_message *err)
{
    const int stages = schedule->rank_count * schedule->chunk_count;
    if (network == NULL) return STATUS_OK;
    if (network->send != BAL_SEND_ASYNC) {
        return error_set(err, STATUS_UNSUPPORTED, "sends are %s; a fixed order is recorded %s",
                         bal_send_names[network->send], "with asynchronous ones only");
    }
    for (int stage = 0; stage < stages; stage++) {
        const int rank = bal_schedule_rank(schedule, stage);
        for (int direction = 0; direction < DIRECTIONS; direction++) {
            const int link = link_of(schedule, network, direction, stage);
            if (link < 0) continue;
            const int other = other_sender(schedule, network, link, rank);
            if (other < 0) continue;
            return error_set(err, STATUS_UNSUPPORTED,
                             "link %d carries messages of ranks %d and %d; a fixed order is "
                             "recorded with one rank per link only",
                             link, rank, other);
        }
    }
    return STATUS_OK;
}

static status carve(sim_recorder *made, arena *memory, error_message *err)
{
    const sim_order *order = made->order;
    const bal_schedule *schedule = order->schedule;
    const size_t ranks = (size_t)schedule->rank_count;
    const size_t stages = ranks * (size_t)schedule->chunk_count;
    const size_t microbatches = (size_t)schedule->microbatch_count;
    const size_t ops = (size_t)schedule->first_op[ranks];
    const size_t rows = (size_t)order->row_count;
    const size_t messages = DIRECTIONS * stages * microbatches;
    sim_record *record = &made->record;
    TRY(sim_timeline_init(schedule, memory, &record->timeline));
    record->memory = arena_array(memory, ops, sizeof *record->memory);
    record->peak_memory = arena_array(memory, ranks, sizeof *record->peak_memory);
    record->bound = arena_array(memory, ops, sizeof *record->bound);
    record->path.op_ns = arena_array(memory, ranks * OP_KIND_COUNT, sizeof(int64_t));
    record->path.forward_ns = arena_array(memory, stages, sizeof(int64_t));
    record->path.backward_ns = arena_array(memory, stages, sizeof(int64_t));
    made->op_rows = arena_array(memory, rows, sizeof *made->op_rows);
    made->way_rows = arena_array(memory, rows, sizeof *made->way_rows);
    made->transfer_ns = arena_array(memory, rows, sizeof *made->transfer_ns);
    made->rows = arena_array(memory, rows, sizeof *made->rows);
    made->no_ns = arena_array(memory, microbatches, sizeof *made->no_ns);
    made->full_ns = arena_array(memory, order->has_full_backward ? stages * microbatches : 0,
                                sizeof *made->full_ns);
    made->held = arena_array(memory, ranks, sizeof *made->held);
    made->free_ns = arena_array(memory, ranks, sizeof *made->free_ns);
    made->next_op = arena_array(memory, ranks, sizeof *made->next_op);
    made->arrival_ns = arena_array(memory, (size_t)order->slot_count, sizeof *made->arrival_ns);
    made->link_free_ns =
        arena_array(memory, (size_t)made->network.link_count, sizeof *made->link_free_ns);
    made->waited = arena_array(memory, messages, sizeof *made->waited);
    made->sender = arena_array(memory, messages, sizeof *made->sender);
    const void *const taken[] = {record->memory,
                                 record->peak_memory,
                                 record->bound,
                                 record->path.op_ns,
                                 record->path.forward_ns,
                                 record->path.backward_ns,
                                 made->op_rows,
                                 made->way_rows,
                                 made->transfer_ns,
                                 made->rows,
                                 made->no_ns,
                                 made->full_ns,
                                 made->held,
                                 made->free_ns,
                                 made->next_op,
                                 made->arrival_ns,
                                 made->link_free_ns,
                                 made->waited,
                                 made->sender};
    for (size_t array = 0; array < sizeof taken / sizeof taken[0]; array++) {
        if (taken[array] != NULL) continue;
        return error_set(err, STATUS_NO_MEMORY, "out of memory for a record of %zu ops", ops);
    }
    return STATUS_OK;
}

/// Index of the message that an op of a stage sends.
static int64_t message_of(const bal_schedule *schedule, bal_op_kind kind, int stage, int microbatch)
{
    const int64_t stages = (int64_t)schedule->rank_count * schedule->chunk_count;
    const int64_t row = (kind == OP_FORWARD ? 0 : stages) + stage;
    return row * schedule->microbatch_count + microbatch;
}

/// Notes which op sends what.
static void find_senders(const sim_recorder *made)
{
    const bal_schedule *schedule = made->order->schedule;
    for (int rank = 0; rank < schedule->rank_count; rank++) {
        for (int index = schedule->first_op[rank]; index < schedule->first_op[rank + 1]; index++) {
            const bal_op op = schedule->ops[index];
            const int stage = bal_schedule_stage(schedule, rank, op.chunk);
            if (op.kind == OP_BACKWARD_WEIGHT) continue;
            made->sender[message_of(schedule, (bal_op_kind)op.kind, stage, op.microbatch)] = index;
        }
    }
}

status sim_recorder_create(const sim_order *order, const sim_network *network, arena *memory,
                           sim_recorder **out, error_message *err)
{
    sim_recorder *made = arena_array(memory, 1, sizeof *made);
    made->order = order;
    if (network != NULL) made->network = *network;
    TRY(carve(made, memory, err));
    find_senders(made);
    for (int row = 0; row < order->row_count; row++) {
        const sim_row_source source = order->row_sources[row];
        const int direction = source.kind == OP_FORWARD ? 0 : 1;
        const bool sends = source.kind != OP_BACKWARD_WEIGHT;
        made->rows[row] = (record_row){
            .link =
                sends ? link_of(order->schedule, &made->network, direction, source.stage) : NOWHERE,
            .message =
                (int32_t)message_of(order->schedule, (bal_op_kind)source.kind, source.stage, 0),
        };
    }
    *out = made;
    return STATUS_OK;
}

/// Points the rows at the costs of a play.
static void fill_rows(sim_recorder *recorder, const bal_stage_costs *costs)
{
    const sim_order *order = recorder->order;
    const int64_t columns = costs->microbatch_count;
    const int64_t *const op_ns[OP_KIND_COUNT] = {
        [OP_FORWARD] = costs->forward_ns,
        [OP_BACKWARD_INPUT] = costs->backward_input_ns,
        [OP_BACKWARD_WEIGHT] = costs->backward_weight_ns,
        [OP_BACKWARD] = recorder->full_ns,
    };
    for (int64_t cell = 0; order->has_full_backward && cell < costs->stage_count * columns;
         cell++) {
        recorder->full_ns[cell] = costs->backward_input_ns[cell] + costs->backward_weight_ns[cell];
    }
    for (int index = 0; index < order->row_count; index++) {
        const sim_row_source source = order->row_sources[index];
        const bool is_forward = source.kind == OP_FORWARD;
        const int64_t *send_ns = is_forward ? costs->send_forward_ns : costs->send_backward_ns;
        const int64_t way = (is_forward ? 0 : costs->stage_count) + source.stage;
        record_row *row = &recorder->rows[index];
        recorder->op_rows[index] =
            source.is_joint ? recorder->no_ns : op_ns[source.kind] + source.stage * columns;
        recorder->way_rows[index] = costs->message_delay_ns != NULL && source.has_message
                                        ? costs->message_delay_ns + way * columns
                                        : recorder->no_ns;
        recorder->transfer_ns[index] = source.has_message ? send_ns[source.stage] : 0;
        row->memory_change = bal_memory_change(costs, source.stage, (bal_op_kind)source.kind);
        if (row->link < 0) continue;
        row->occupancy_ns = is_forward ? recorder->network.forward_occupancy_ns[source.stage]
                                       : recorder->network.backward_occupancy_ns[source.stage];
    }
}

/// When a message leaves that is ready at ready_ns: behind those that its link still holds.
static inline int64_t leave_ns(sim_recorder *recorder, const record_row *row, uint32_t microbatch,
                               int64_t ready_ns)
{
    int64_t *free_ns = &recorder->link_free_ns[row->link];
    const bool waits = *free_ns > ready_ns;
    const int64_t left_ns = waits ? *free_ns : ready_ns;
    recorder->waited[row->message + (int32_t)microbatch] = waits;
    *free_ns = left_ns + row->occupancy_ns;
    return left_ns;
}

/// The recurrence of sim_order_play, with links and memory. A joint waits in the place of the op
/// that it stands before.
static void play_steps(sim_recorder *recorder, uint32_t column_mask)
{
    const sim_order *order = recorder->order;
    const sim_record *record = &recorder->record;
    const uint32_t joint_first = (uint32_t)order->joint_first;
    int64_t *begin_ns = record->timeline.begin_ns;
    int64_t *end_ns = record->timeline.end_ns;
    uint8_t joint_bound = SIM_BOUND_RANK;
    for (int index = 0; index < order->step_count; index++) {
        const sim_step step = order->steps[index];
        const uint32_t rank = sim_step_rank(step);
        const uint32_t row = sim_step_row(step);
        const uint32_t microbatch = sim_step_microbatch(step);
        const uint32_t column = microbatch & column_mask;
        const int64_t arrived = recorder->arrival_ns[sim_step_wait(step)];
        const int64_t free_ns = recorder->free_ns[rank];
        const bool is_late = arrived > free_ns;
        const int64_t begin = is_late ? arrived : free_ns;
        const int64_t end = begin + recorder->op_rows[row][column];
        recorder->free_ns[rank] = end;
        if (sim_step_send(step) != SIM_SLOT_WASTE) {
            const record_row *at = &recorder->rows[row];
            const int64_t left_ns = at->link < 0 ? end : leave_ns(recorder, at, microbatch, end);
            recorder->arrival_ns[sim_step_send(step)] =
                left_ns + recorder->transfer_ns[row] + recorder->way_rows[row][column];
        }
        if (row >= joint_first) {
            joint_bound = is_late ? SIM_BOUND_MESSAGE : SIM_BOUND_RANK;
            continue;
        }
        const int op = recorder->next_op[rank]++;
        const bool is_pair = order->has_pairs && order->schedule->ops[op].overlaps_next != 0;
        begin_ns[op] = begin;
        end_ns[op] = end;
        record->bound[op] = is_late   ? (is_pair ? SIM_BOUND_PAIR_MESSAGE : SIM_BOUND_MESSAGE)
                            : is_pair ? joint_bound
                                      : SIM_BOUND_RANK;
        const int64_t held = recorder->held[rank] + recorder->rows[row].memory_change;
        recorder->held[rank] = held;
        record->memory[op] = held;
        if (held > record->peak_memory[rank]) record->peak_memory[rank] = held;
    }
}

/// An op on the path.
typedef struct place {
    int op; // NOWHERE: the begin of the iteration
    int rank;
} place;

static place last_op(const sim_recorder *recorder)
{
    const bal_schedule *schedule = recorder->order->schedule;
    place last = {.op = NOWHERE};
    int64_t last_ns = -1;
    for (int rank = 0; rank < schedule->rank_count; rank++) {
        if (recorder->free_ns[rank] <= last_ns) continue;
        last_ns = recorder->free_ns[rank];
        last = (place){.op = schedule->first_op[rank + 1] - 1, .rank = rank};
    }
    return last;
}

/// The op whose message was before that of an op on their link. There is one: the link was held.
static int before_on_link(const sim_recorder *recorder, int rank, int op)
{
    const bal_schedule *schedule = recorder->order->schedule;
    const bal_op *ops = schedule->ops;
    const int direction = ops[op].kind == OP_FORWARD ? 0 : 1;
    const int link = link_of(schedule, &recorder->network, direction,
                             bal_schedule_stage(schedule, rank, ops[op].chunk));
    for (op--; op >= schedule->first_op[rank]; op--) {
        if (ops[op].kind == OP_BACKWARD_WEIGHT) continue;
        const int way = ops[op].kind == OP_FORWARD ? 0 : 1;
        if (link_of(schedule, &recorder->network, way,
                    bal_schedule_stage(schedule, rank, ops[op].chunk)) == link) {
            return op;
        }
    }
    assert(false);
    return NOWHERE;
}

/// Goes back from a message on the path to the op behind whose end it left: its own sender, or
/// where it waited for its link the sender of the first of those that held it in a row.
static place step_back(sim_recorder *recorder, const bal_stage_costs *costs, int rank, bal_op op)
{
    const bal_schedule *schedule = recorder->order->schedule;
    sim_critical_path *path = &recorder->record.path;
    bal_op_kind kind = OP_FORWARD;
    const int stage = bal_op_waits_for(schedule, rank, op, &kind);
    int64_t message = message_of(schedule, kind, stage, op.microbatch);
    const int64_t ns = sim_network_transfer_ns(schedule, costs, kind, stage) +
                       sim_network_delay_ns(schedule, costs, kind, stage, op.microbatch);
    place from = {.op = recorder->sender[message], .rank = bal_schedule_rank(schedule, stage)};
    path->message_count++;
    *(kind == OP_FORWARD ? &path->forward_ns[stage] : &path->backward_ns[stage]) += ns;
    while (recorder->waited[message]) {
        from.op = before_on_link(recorder, from.rank, from.op);
        const bal_op held_by = schedule->ops[from.op];
        const int sender = bal_schedule_stage(schedule, from.rank, held_by.chunk);
        path->link_wait_ns += held_by.kind == OP_FORWARD
                                  ? recorder->network.forward_occupancy_ns[sender]
                                  : recorder->network.backward_occupancy_ns[sender];
        message = message_of(schedule, (bal_op_kind)held_by.kind, sender, held_by.microbatch);
    }
    from.op += schedule->ops[from.op].overlaps_next; // both messages of a pair leave at its end
    return from;
}

static void find_path(sim_recorder *recorder, const bal_stage_costs *costs)
{
    const bal_schedule *schedule = recorder->order->schedule;
    const sim_record *record = &recorder->record;
    sim_critical_path *path = &recorder->record.path;
    const size_t ranks = (size_t)schedule->rank_count;
    const size_t stages = ranks * (size_t)schedule->chunk_count;
    memset(path->op_ns, 0, ranks * OP_KIND_COUNT * sizeof *path->op_ns);
    memset(path->forward_ns, 0, stages * sizeof *path->forward_ns);
    memset(path->backward_ns, 0, stages * sizeof *path->backward_ns);
    path->op_count = 0;
    path->message_count = 0;
    path->link_wait_ns = 0;
    for (place at = last_op(recorder); at.op != NOWHERE;) {
        const bal_op op = schedule->ops[at.op];
        path->op_count++;
        path->op_ns[at.rank * OP_KIND_COUNT + op.kind] +=
            record->timeline.end_ns[at.op] - record->timeline.begin_ns[at.op];
        if (record->bound[at.op] == SIM_BOUND_MESSAGE) {
            at = step_back(recorder, costs, at.rank, op);
        } else if (record->bound[at.op] == SIM_BOUND_PAIR_MESSAGE) {
            at = step_back(recorder, costs, at.rank, schedule->ops[at.op + 1]);
        } else {
            at.op = at.op > schedule->first_op[at.rank] ? at.op - 1 : NOWHERE;
        }
    }
}

static int64_t makespan_ns(const sim_recorder *recorder)
{
    const bal_schedule *schedule = recorder->order->schedule;
    int64_t first_ns = INT64_MAX;
    int64_t last_ns = 0;
    for (int rank = 0; rank < schedule->rank_count; rank++) {
        const int64_t begin_ns = recorder->record.timeline.begin_ns[schedule->first_op[rank]];
        if (begin_ns < first_ns) first_ns = begin_ns;
        if (recorder->free_ns[rank] > last_ns) last_ns = recorder->free_ns[rank];
    }
    return last_ns - first_ns;
}

const sim_record *sim_recorder_play(sim_recorder *recorder, const bal_stage_costs *costs)
{
    const bal_schedule *schedule = recorder->order->schedule;
    const size_t ranks = (size_t)schedule->rank_count;
    fill_rows(recorder, costs);
    memset(recorder->held, 0, ranks * sizeof *recorder->held);
    memset(recorder->free_ns, 0, ranks * sizeof *recorder->free_ns);
    memset(recorder->record.peak_memory, 0, ranks * sizeof *recorder->record.peak_memory);
    memset(recorder->link_free_ns, 0,
           (size_t)recorder->network.link_count * sizeof *recorder->link_free_ns);
    memcpy(recorder->next_op, schedule->first_op, ranks * sizeof *recorder->next_op);
    recorder->arrival_ns[SIM_SLOT_NONE] = 0;
    play_steps(recorder, costs->microbatch_count > 1 ? UINT32_MAX : 0);
    recorder->record.makespan_ns = makespan_ns(recorder);
    find_path(recorder, costs);
    return &recorder->record;
}

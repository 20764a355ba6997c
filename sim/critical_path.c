#include "sim/critical_path.h"

enum { NONE = -1, DIRECTIONS = 2 };

/// A message on its way: of an op of a stage, in a direction.
typedef struct sent_message {
    int op;          // that sends it; NONE: no op does
    int rank;        // of that op
    int held_by;     // message that its link carried until it left; NONE: it did not wait
    int64_t left_ns; // end of the op, of an overlapped pair of the second, or of the wait
} sent_message;

typedef struct walk {
    const bal_timeline *timeline;
    const bal_stage_costs *costs;
    const sim_network *network; // or NULL
    sent_message *messages;     // [DIRECTIONS][stage_count][microbatch_count]
} walk;

/// An op with the rank that runs it.
typedef struct place {
    int op; // NONE: the begin of the iteration
    int rank;
} place;

static int stage_of(const bal_schedule *schedule, place at)
{
    return bal_schedule_stage(schedule, at.rank, schedule->ops[at.op].chunk);
}

/// The link of a stage's messages in a direction, or NONE.
static int link_of(const bal_schedule *schedule, const sim_network *network, bool is_forward,
                   int stage)
{
    const bal_op_kind kind = is_forward ? OP_FORWARD : OP_BACKWARD_INPUT;
    if (network == NULL || network->link_count == 0) return NONE;
    if (sim_network_receiver(schedule, kind, stage) < 0) return NONE;
    return is_forward ? network->forward_link[stage] : network->backward_link[stage];
}

/// The rank that sends over a link and is not the given one, or NONE.
static int other_sender(const bal_schedule *schedule, const sim_network *network, int link,
                        int rank)
{
    for (int stage = 0; stage < schedule->rank_count * schedule->chunk_count; stage++) {
        const int sender = bal_schedule_rank(schedule, stage);
        for (int direction = 0; direction < DIRECTIONS; direction++) {
            const bool is_on_it = link_of(schedule, network, direction == 0, stage) == link;
            if (sender != rank && is_on_it) return sender;
        }
    }
    return NONE;
}

status sim_network_check_serial(const bal_schedule *schedule, const sim_network *network,
                                error_message *err)
{
    if (network == NULL) return STATUS_OK;
    if (network->send != BAL_SEND_ASYNC) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "sends are %s; a fixed order is recorded with asynchronous ones only",
                         bal_send_names[network->send]);
    }
    for (int stage = 0; stage < schedule->rank_count * schedule->chunk_count; stage++) {
        const int rank = bal_schedule_rank(schedule, stage);
        for (int direction = 0; direction < DIRECTIONS; direction++) {
            const int link = link_of(schedule, network, direction == 0, stage);
            const int other = link < 0 ? NONE : other_sender(schedule, network, link, rank);
            if (other < 0) continue;
            return error_set(err, STATUS_UNSUPPORTED,
                             "link %d carries messages of ranks %d and %d; a fixed order is "
                             "recorded with one rank per link only",
                             link, rank, other);
        }
    }
    return STATUS_OK;
}

static int message_of(const walk *walking, bal_op_kind kind, int stage, int microbatch)
{
    const int row = (kind == OP_FORWARD ? 0 : walking->costs->stage_count) + stage;
    return row * walking->timeline->schedule->microbatch_count + microbatch;
}

static int64_t occupancy_ns(const walk *walking, const sent_message *message)
{
    const bal_schedule *schedule = walking->timeline->schedule;
    const int stage = stage_of(schedule, (place){.op = message->op, .rank = message->rank});
    return schedule->ops[message->op].kind == OP_FORWARD
               ? walking->network->forward_occupancy_ns[stage]
               : walking->network->backward_occupancy_ns[stage];
}

/// The op at whose end the message of an op leaves: of an overlapped pair the second.
static place departure_of(const walk *walking, place sender)
{
    return (place){.op = sender.op + walking->timeline->schedule->ops[sender.op].overlaps_next,
                   .rank = sender.rank};
}

/// Lets the message of an op leave when it is ready, after the one that its link still carries.
///
/// @param last_on_link [link_count] message that came to each link last, NONE
static void send_message(walk *walking, place from, int *last_on_link)
{
    const bal_schedule *schedule = walking->timeline->schedule;
    const bal_op op = schedule->ops[from.op];
    const int stage = stage_of(schedule, from);
    const int number = message_of(walking, (bal_op_kind)op.kind, stage, op.microbatch);
    const int link = link_of(schedule, walking->network, op.kind == OP_FORWARD, stage);
    sent_message sent = {.op = from.op,
                         .rank = from.rank,
                         .held_by = NONE,
                         .left_ns = walking->timeline->end_ns[departure_of(walking, from).op]};
    if (link >= 0 && last_on_link[link] >= 0) {
        const sent_message *before = &walking->messages[last_on_link[link]];
        const int64_t free_ns = before->left_ns + occupancy_ns(walking, before);
        if (free_ns > sent.left_ns) {
            sent.held_by = last_on_link[link];
            sent.left_ns = free_ns;
        }
    }
    if (link >= 0) last_on_link[link] = number;
    walking->messages[number] = sent;
}

/// Finds who sends every message, and when it leaves.
static void send_messages(walk *walking, arena *memory)
{
    const bal_schedule *schedule = walking->timeline->schedule;
    const int count = DIRECTIONS * walking->costs->stage_count * schedule->microbatch_count;
    const int links = walking->network != NULL ? walking->network->link_count : 0;
    int *last_on_link = arena_array(memory, (size_t)links, sizeof *last_on_link);
    walking->messages = arena_array(memory, (size_t)count, sizeof *walking->messages);
    for (int message = 0; message < count; message++) {
        walking->messages[message].op = NONE;
    }
    for (int link = 0; link < links; link++) {
        last_on_link[link] = NONE;
    }
    for (int rank = 0; rank < schedule->rank_count; rank++) {
        for (int op = schedule->first_op[rank]; op < schedule->first_op[rank + 1]; op++) {
            if (schedule->ops[op].kind == OP_BACKWARD_WEIGHT) continue;
            send_message(walking, (place){.op = op, .rank = rank}, last_on_link);
        }
    }
}

static place last_op(const bal_timeline *timeline)
{
    const bal_schedule *schedule = timeline->schedule;
    place last = {.op = NONE};
    for (int rank = 0; rank < schedule->rank_count; rank++) {
        if (schedule->first_op[rank] == schedule->first_op[rank + 1]) continue;
        const int op = schedule->first_op[rank + 1] - 1;
        if (last.op >= 0 && timeline->end_ns[op] <= timeline->end_ns[last.op]) continue;
        last = (place){.op = op, .rank = rank};
    }
    return last;
}

/// The message that an op waits for; NULL: it waits for no other stage.
static const sent_message *awaited_message(const walk *walking, place at)
{
    const bal_schedule *schedule = walking->timeline->schedule;
    const bal_op op = schedule->ops[at.op];
    bal_op_kind kind = OP_FORWARD;
    const int stage = bal_op_waits_for(schedule, at.rank, op, &kind);
    if (stage < 0) return NULL;
    const sent_message *message =
        &walking->messages[message_of(walking, kind, stage, op.microbatch)];
    return message->op >= 0 ? message : NULL;
}

/// How long a message is on its way once it has left; 0 on the same rank.
static int64_t message_ns(const walk *walking, const sent_message *message)
{
    const bal_schedule *schedule = walking->timeline->schedule;
    const bal_op op = schedule->ops[message->op];
    const int stage = stage_of(schedule, (place){.op = message->op, .rank = message->rank});
    const bal_op_kind kind = (bal_op_kind)op.kind;
    return sim_network_transfer_ns(schedule, walking->costs, kind, stage) +
           sim_network_delay_ns(schedule, walking->costs, kind, stage, op.microbatch);
}

static bool arrives_at(const walk *walking, const sent_message *message, int64_t time_ns)
{
    return message != NULL && message->left_ns + message_ns(walking, message) == time_ns;
}

/// Notes time of an op's message on the path, if it sends one to another rank.
static void note_message(const walk *walking, place from, int64_t ns, sim_critical_path *path)
{
    const bal_schedule *schedule = walking->timeline->schedule;
    const bal_op_kind kind = (bal_op_kind)schedule->ops[from.op].kind;
    const int stage = stage_of(schedule, from);
    if (sim_network_receiver(schedule, kind, stage) < 0) return;
    path->message_count++;
    *(kind == OP_FORWARD ? &path->forward_link_ns[stage] : &path->backward_link_ns[stage]) += ns;
}

/// Goes back from a message to the op at whose end it left: its sender, or where it waited for its
/// link the sender of the first of those that held it in a row.
static place step_along_link(const walk *walking, const sent_message *message,
                             sim_critical_path *path)
{
    place from = {.op = message->op, .rank = message->rank};
    note_message(walking, from, message_ns(walking, message), path);
    while (message->held_by >= 0) {
        message = &walking->messages[message->held_by];
        path->link_wait_ns += occupancy_ns(walking, message);
    }
    from.op = message->op;
    return departure_of(walking, from);
}

/// What an op began after where messages occupy ranks or wait for links that are not told: the op
/// that ended last of the one before it on its rank and the one whose message it waited for. What
/// lies between is the time of a message: its own, or the one that its rank could not get rid of.
static place step_through_network(const walk *walking, place at, const sent_message *message,
                                  sim_critical_path *path)
{
    const bal_timeline *timeline = walking->timeline;
    const bal_schedule *schedule = timeline->schedule;
    const int64_t begin_ns = timeline->begin_ns[at.op];
    const place before = {.op = at.op > schedule->first_op[at.rank] ? at.op - 1 : NONE,
                          .rank = at.rank};
    if (message == NULL && before.op < 0) return before;
    const place sender =
        message == NULL ? before : (place){.op = message->op, .rank = message->rank};
    const place departure = departure_of(walking, sender);
    if (before.op < 0 ||
        (sender.rank != at.rank && timeline->end_ns[departure.op] >= timeline->end_ns[before.op])) {
        note_message(walking, sender, begin_ns - timeline->end_ns[departure.op], path);
        return departure;
    }
    const bool before_sends =
        sim_network_receiver(schedule, (bal_op_kind)schedule->ops[before.op].kind,
                             stage_of(schedule, before)) >= 0;
    note_message(walking, before_sends ? before : sender, begin_ns - timeline->end_ns[before.op],
                 path);
    return before;
}

/// What the op at a place began after: the op before it on its rank, else the one whose message it
/// waited for, or the op that it overlaps.
static place step_back(const walk *walking, place at, sim_critical_path *path)
{
    const bal_timeline *timeline = walking->timeline;
    const bal_schedule *schedule = timeline->schedule;
    const int64_t begin_ns = timeline->begin_ns[at.op];
    if (at.op > schedule->first_op[at.rank] && timeline->end_ns[at.op - 1] == begin_ns) {
        return (place){.op = at.op - 1, .rank = at.rank};
    }
    if (begin_ns == 0) return (place){.op = NONE};
    const sent_message *message = awaited_message(walking, at);
    if (schedule->ops[at.op].overlaps_next != 0 && !arrives_at(walking, message, begin_ns)) {
        message = awaited_message(walking, (place){.op = at.op + 1, .rank = at.rank});
    }
    if (arrives_at(walking, message, begin_ns)) return step_along_link(walking, message, path);
    return step_through_network(walking, at, message, path);
}

void sim_critical_path_of(const bal_timeline *timeline, const bal_stage_costs *costs,
                          const sim_network *network, arena *memory, sim_critical_path *path)
{
    const size_t stages = (size_t)costs->stage_count;
    walk walking = {.timeline = timeline, .costs = costs, .network = network};
    sim_critical_path found = {
        .stage_count = costs->stage_count,
        .op_ns = arena_array(memory, stages, sizeof *found.op_ns),
        .forward_link_ns = arena_array(memory, stages, sizeof *found.forward_link_ns),
        .backward_link_ns = arena_array(memory, stages, sizeof *found.backward_link_ns),
    };
    send_messages(&walking, memory);
    place at = last_op(timeline);
    if (at.op >= 0) found.makespan_ns = timeline->end_ns[at.op];
    while (at.op >= 0) {
        const bal_op op = timeline->schedule->ops[at.op];
        found.op_ns[stage_of(timeline->schedule, at)][op.kind] +=
            timeline->end_ns[at.op] - timeline->begin_ns[at.op];
        found.op_count++;
        at = step_back(&walking, at, &found);
    }
    *path = found;
}

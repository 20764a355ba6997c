#include "sim/critical_path.h"

#include "sim/network.h"

#include <stdbool.h>

enum { NONE = -1, DIRECTIONS = 2 };

/// An op with the rank that runs it.
typedef struct place {
    int op; // NONE: the begin of the iteration, or no op
    int rank;
} place;

typedef struct walk {
    const bal_timeline *timeline;
    const bal_stage_costs *costs;
    place *senders; // [DIRECTIONS][stage_count][microbatch_count] ops that send the messages
} walk;

static int stage_of(const bal_schedule *schedule, place at)
{
    return bal_schedule_stage(schedule, at.rank, schedule->ops[at.op].chunk);
}

static int message_of(const walk *walking, bal_op_kind kind, int stage, int microbatch)
{
    const int row = (kind == OP_FORWARD ? 0 : walking->costs->stage_count) + stage;
    return row * walking->timeline->schedule->microbatch_count + microbatch;
}

/// The op at whose end the message of an op leaves: of an overlapped pair the second.
static place departure_of(const walk *walking, place sender)
{
    return (place){.op = sender.op + walking->timeline->schedule->ops[sender.op].overlaps_next,
                   .rank = sender.rank};
}

/// Finds who sends every message.
static void find_senders(walk *walking, arena *memory)
{
    const bal_schedule *schedule = walking->timeline->schedule;
    const int count = DIRECTIONS * walking->costs->stage_count * schedule->microbatch_count;
    walking->senders = arena_array(memory, (size_t)count, sizeof *walking->senders);
    for (int message = 0; message < count; message++) {
        walking->senders[message].op = NONE;
    }
    for (int rank = 0; rank < schedule->rank_count; rank++) {
        for (int op = schedule->first_op[rank]; op < schedule->first_op[rank + 1]; op++) {
            const place from = {.op = op, .rank = rank};
            const bal_op sent = schedule->ops[op];
            if (sent.kind == OP_BACKWARD_WEIGHT) continue;
            walking->senders[message_of(walking, (bal_op_kind)sent.kind, stage_of(schedule, from),
                                        sent.microbatch)] = from;
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

/// The op whose message an op waits for; NONE: it waits for no other stage.
static place awaited(const walk *walking, place at)
{
    const bal_schedule *schedule = walking->timeline->schedule;
    const bal_op op = schedule->ops[at.op];
    bal_op_kind kind = OP_FORWARD;
    const int stage = bal_op_waits_for(schedule, at.rank, op, &kind);
    if (stage < 0) return (place){.op = NONE};
    return walking->senders[message_of(walking, kind, stage, op.microbatch)];
}

/// How long the message of an op is on its way once it has left; 0 on the same rank.
static int64_t message_ns(const walk *walking, place sender)
{
    const bal_schedule *schedule = walking->timeline->schedule;
    const bal_op op = schedule->ops[sender.op];
    const int stage = stage_of(schedule, sender);
    const bal_op_kind kind = (bal_op_kind)op.kind;
    return sim_network_transfer_ns(schedule, walking->costs, kind, stage) +
           sim_network_delay_ns(schedule, walking->costs, kind, stage, op.microbatch);
}

static bool arrives_at(const walk *walking, place sender, int64_t time_ns)
{
    return sender.op >= 0 && walking->timeline->end_ns[departure_of(walking, sender).op] +
                                     message_ns(walking, sender) ==
                                 time_ns;
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

/// What an op began after where messages occupy ranks or wait for links: the op that ended last of
/// the one before it on its rank and the one whose message it waited for. What lies between is the
/// time of a message: its own, or the one that its rank could not get rid of.
static place step_through_network(const walk *walking, place at, place sender,
                                  sim_critical_path *path)
{
    const bal_timeline *timeline = walking->timeline;
    const bal_schedule *schedule = timeline->schedule;
    const int64_t begin_ns = timeline->begin_ns[at.op];
    const place before = {.op = at.op > schedule->first_op[at.rank] ? at.op - 1 : NONE,
                          .rank = at.rank};
    if (sender.op < 0 && before.op < 0) return before;
    if (sender.op < 0) sender = before;
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
    place sender = awaited(walking, at);
    if (schedule->ops[at.op].overlaps_next != 0 && !arrives_at(walking, sender, begin_ns)) {
        sender = awaited(walking, (place){.op = at.op + 1, .rank = at.rank});
    }
    if (!arrives_at(walking, sender, begin_ns)) {
        return step_through_network(walking, at, sender, path);
    }
    note_message(walking, sender, message_ns(walking, sender), path);
    return departure_of(walking, sender);
}

void sim_critical_path_of(const bal_timeline *timeline, const bal_stage_costs *costs, arena *memory,
                          sim_critical_path *path)
{
    const size_t stages = (size_t)costs->stage_count;
    walk walking = {.timeline = timeline, .costs = costs};
    sim_critical_path found = {
        .stage_count = costs->stage_count,
        .op_ns = arena_array(memory, stages, sizeof *found.op_ns),
        .forward_link_ns = arena_array(memory, stages, sizeof *found.forward_link_ns),
        .backward_link_ns = arena_array(memory, stages, sizeof *found.backward_link_ns),
    };
    find_senders(&walking, memory);
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

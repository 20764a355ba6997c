#include "analysis/whatif/critical_path.h"

#include "sim/network.h"

#include <assert.h>

/// The timeline with the op of every stage, kind and microbatch found at once.
typedef struct walk {
    const bal_timeline *timeline;
    const bal_stage_costs *costs;
    int *op_of; // [OP_KIND_COUNT][stage_count][microbatch_count] index of the op; -1: none
} walk;

/// An op with the rank that runs it.
typedef struct place {
    int op;
    int rank;
} place;

static int stage_of(const bal_schedule *schedule, place at)
{
    return bal_schedule_stage(schedule, at.rank, schedule->ops[at.op].chunk);
}

static int *slot_of(const walk *walking, int kind, int stage, int microbatch)
{
    const bal_schedule *schedule = walking->timeline->schedule;
    const int64_t row = (int64_t)kind * walking->costs->stage_count + stage;
    return &walking->op_of[row * schedule->microbatch_count + microbatch];
}

static void index_ops(walk *walking, arena *memory)
{
    const bal_schedule *schedule = walking->timeline->schedule;
    const size_t slots = (size_t)OP_KIND_COUNT * (size_t)walking->costs->stage_count *
                         (size_t)schedule->microbatch_count;
    walking->op_of = arena_array(memory, slots, sizeof *walking->op_of);
    for (size_t slot = 0; slot < slots; slot++) {
        walking->op_of[slot] = -1;
    }
    for (int rank = 0; rank < schedule->rank_count; rank++) {
        for (int op = schedule->first_op[rank]; op < schedule->first_op[rank + 1]; op++) {
            const int stage = stage_of(schedule, (place){.op = op, .rank = rank});
            *slot_of(walking, schedule->ops[op].kind, stage, schedule->ops[op].microbatch) = op;
        }
    }
}

static place last_op(const bal_timeline *timeline)
{
    const bal_schedule *schedule = timeline->schedule;
    place last = {.op = -1};
    for (int rank = 0; rank < schedule->rank_count; rank++) {
        if (schedule->first_op[rank] == schedule->first_op[rank + 1]) continue;
        const int op = schedule->first_op[rank + 1] - 1;
        if (last.op >= 0 && timeline->end_ns[op] <= timeline->end_ns[last.op]) continue;
        last = (place){.op = op, .rank = rank};
    }
    return last;
}

/// The op that sends what this one waits for; op -1: it waits for no other stage. Where B stands in
/// BW's place, or the reverse, that one sends.
static place sender_of(const walk *walking, place at)
{
    const bal_schedule *schedule = walking->timeline->schedule;
    const bal_op op = schedule->ops[at.op];
    bal_op_kind kind = OP_FORWARD;
    const int stage = bal_op_waits_for(schedule, at.rank, op, &kind);
    if (stage < 0) return (place){.op = -1};
    int sender = *slot_of(walking, (int)kind, stage, op.microbatch);
    if (sender < 0 && kind != OP_FORWARD) {
        const bal_op_kind other = kind == OP_BACKWARD ? OP_BACKWARD_INPUT : OP_BACKWARD;
        sender = *slot_of(walking, (int)other, stage, op.microbatch);
    }
    const int rank = bal_schedule_rank(schedule, stage);
    return (place){.op = sender, .rank = rank};
}

/// How long the message of an op is on its way; 0 on the same rank.
static int64_t message_ns(const walk *walking, place from)
{
    const bal_schedule *schedule = walking->timeline->schedule;
    const bal_op op = schedule->ops[from.op];
    const int stage = stage_of(schedule, from);
    const bal_op_kind kind = (bal_op_kind)op.kind;
    return sim_network_transfer_ns(schedule, walking->costs, kind, stage) +
           sim_network_delay_ns(schedule, walking->costs, kind, stage, op.microbatch);
}

/// The op at whose end the message of an op leaves: of an overlapped pair the second.
static place departure_of(const walk *walking, place sender)
{
    return (place){.op = sender.op + walking->timeline->schedule->ops[sender.op].overlaps_next,
                   .rank = sender.rank};
}

/// Notes time of a message on the path, if it is one between ranks.
static void note_message(const walk *walking, place from, int64_t ns, ana_critical_path *path)
{
    const bal_schedule *schedule = walking->timeline->schedule;
    const bal_op_kind kind = (bal_op_kind)schedule->ops[from.op].kind;
    const int stage = stage_of(schedule, from);
    if (sim_network_receiver(schedule, kind, stage) < 0) return;
    path->message_count++;
    if (kind == OP_FORWARD) {
        path->forward_link_ns[stage] += ns;
    } else {
        path->backward_link_ns[stage] += ns;
    }
}

static int64_t arrival_ns(const walk *walking, place sender)
{
    return walking->timeline->end_ns[departure_of(walking, sender).op] +
           message_ns(walking, sender);
}

/// What the op at a place began behind where messages occupy ranks or wait for links: the op that
/// ended last of the one before it on its rank and the one whose message it waited for. What lies
/// between is the time of a message: its own, or the one that its rank could not get rid of.
static place step_behind_network(const walk *walking, place at, place sender,
                                 ana_critical_path *path)
{
    const bal_timeline *timeline = walking->timeline;
    const bal_schedule *schedule = timeline->schedule;
    const int64_t begin_ns = timeline->begin_ns[at.op];
    const place before = {.op = at.op > schedule->first_op[at.rank] ? at.op - 1 : -1,
                          .rank = at.rank};
    const place departure = sender.op >= 0 ? departure_of(walking, sender) : sender;
    if (before.op < 0 && sender.op < 0) return before;
    if (before.op < 0 || (sender.op >= 0 && sender.rank != at.rank &&
                          timeline->end_ns[departure.op] >= timeline->end_ns[before.op])) {
        note_message(walking, sender, begin_ns - timeline->end_ns[departure.op], path);
        return departure;
    }
    const bool before_sends =
        sim_network_receiver(schedule, (bal_op_kind)schedule->ops[before.op].kind,
                             stage_of(schedule, before)) >= 0;
    const place message = before_sends || sender.op < 0 ? before : sender;
    note_message(walking, message, begin_ns - timeline->end_ns[before.op], path);
    return before;
}

/// What the op at a place began behind: the op before it on its rank, else the one whose message it
/// waited for, or the op that it overlaps; op -1 at the begin of the iteration.
static place step_back(const walk *walking, place at, ana_critical_path *path)
{
    const bal_timeline *timeline = walking->timeline;
    const int64_t begin_ns = timeline->begin_ns[at.op];
    if (at.op > timeline->schedule->first_op[at.rank] && timeline->end_ns[at.op - 1] == begin_ns) {
        return (place){.op = at.op - 1, .rank = at.rank};
    }
    place sender = sender_of(walking, at);
    if (timeline->schedule->ops[at.op].overlaps_next != 0) {
        const place second = sender_of(walking, (place){.op = at.op + 1, .rank = at.rank});
        if (sender.op < 0 || arrival_ns(walking, sender) != begin_ns) sender = second;
    }
    if (begin_ns == 0) return (place){.op = -1};
    if (sender.op < 0 || arrival_ns(walking, sender) != begin_ns) {
        return step_behind_network(walking, at, sender, path);
    }
    note_message(walking, sender, message_ns(walking, sender), path);
    return departure_of(walking, sender);
}

void ana_critical_path_of(const bal_timeline *timeline, const bal_stage_costs *costs, arena *memory,
                          ana_critical_path *path)
{
    const size_t stages = (size_t)costs->stage_count;
    walk walking = {.timeline = timeline, .costs = costs};
    ana_critical_path found = {
        .stage_count = costs->stage_count,
        .op_ns = arena_array(memory, stages, sizeof *found.op_ns),
        .forward_link_ns = arena_array(memory, stages, sizeof *found.forward_link_ns),
        .backward_link_ns = arena_array(memory, stages, sizeof *found.backward_link_ns),
    };
    index_ops(&walking, memory);
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

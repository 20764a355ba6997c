// Charges what was idle in front of ops, and plays what was recorded again.
#include "traces/import/import_kineto.h"

#include "base/arena.h"
#include "traces/store/catalog.h"
#include "traces/store/op_table.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>

/// An op of a layer as it is played.
typedef struct play {
    int64_t producer;   // place of the op that it waits for; -1: none
    int64_t before_ns;  // from what came before it on its rank
    int64_t message_ns; // from its producer
    int64_t charge_ns;
    int64_t busy_ns;
    int64_t end_ns;   // -1: not played yet
    int64_t shift_ns; // from the rank's own clock to that of the ops
} play;

/// What ops take, and whether time outside them passes.
typedef enum play_mode { PLAY_ALL, PLAY_CHARGES, PLAY_COMPUTE } play_mode;

/// What there is of one rank in one iteration.
typedef struct lane {
    int64_t first; // place of its first op
    int64_t end;
    int64_t next; // op to be played
    int64_t now_ns;
    int64_t start_ns;                 // where time outside ops passes
    const trace_iteration_time *time; // NULL: not known
} lane;

static trace_iteration_time *time_of(const trace_import *import, int rank, int iteration)
{
    const trace_recording *recording = &import->recordings[rank];
    const int place = trace_recording_place(recording, iteration);
    return place < 0 ? NULL : &recording->iterations[place];
}

/// Whether an op may have waited for one that is not in the files.
static bool lacks_producer(const trace_import *import, const trace_op *op)
{
    if (op->kind == TRACE_OP_FORWARD) return op->layer > 0;
    const bool has_all = import->recordings[0].world_size <= import->rank_count &&
                         import->layer_count > import->layer_last;
    return op->kind != TRACE_OP_BACKWARD_WEIGHT && !has_all;
}

/// Time in front of an op that was taken for waiting was its own host's.
static void charge_lead(const trace_import *import, const trace_op *op, trace_window *window)
{
    if (window->lead_ns == 0) return;
    trace_iteration_time *time = time_of(import, op->rank, op->iteration);
    if (time == NULL) return;
    time->outside_ns[TRACE_GAP_WAITING] -= window->lead_ns;
    time->charged_ns[TRACE_GAP_HOST] += window->lead_ns;
    import->recordings[op->rank].cells[window->cell].charge_ns += window->lead_ns;
    window->charge_ns += window->lead_ns;
    window->before_ns -= window->lead_ns;
    window->lead_ns = 0;
}

/// What an op waits for, and for how long after that.
static play prepare(const trace_import *import, const trace_op_index *index, const trace_op *op,
                    trace_window *window)
{
    const bool is_part = op->kind == TRACE_OP_COUNT; // of another op: it needs nothing
    const trace_op *producer = is_part ? NULL : trace_op_producer(index, op);
    const bool is_remote = producer != NULL && producer->rank != op->rank;
    const bool has_waited = is_remote && producer->end_ns > op->begin_ns - window->before_ns;
    play made = {.producer = is_remote ? producer - import->ops : -1, .end_ns = -1};
    if (has_waited) {
        made.message_ns = op->begin_ns > producer->end_ns ? op->begin_ns - producer->end_ns : 0;
    } else {
        made.producer = -1;
        if (is_part || producer != NULL || !lacks_producer(import, op))
            charge_lead(import, op, window);
        made.before_ns = window->before_ns;
    }
    made.charge_ns = window->charge_ns;
    made.busy_ns = window->busy_ns;
    return made;
}

/// Plays as many ops of a lane as can be played. @return whether it was any
static bool play_lane(lane *of, play *plays, play_mode mode, bool is_forced)
{
    const int64_t first = of->next;
    for (; of->next < of->end; of->next++) {
        play *each = &plays[of->next];
        int64_t begin_ns = of->now_ns + (mode == PLAY_ALL ? each->before_ns : 0);
        if (each->producer >= 0) {
            const play *producer = &plays[each->producer];
            if (producer->end_ns < 0 && !is_forced) break;
            const int64_t there_ns = producer->end_ns + (mode == PLAY_ALL ? each->message_ns : 0);
            if (there_ns > begin_ns) begin_ns = there_ns;
        }
        of->now_ns = begin_ns + (mode == PLAY_COMPUTE ? each->busy_ns : each->charge_ns);
        each->end_ns = of->now_ns;
        is_forced = false;
    }
    return of->next > first;
}

static void rewind_lane(lane *of, play *plays, play_mode mode)
{
    of->next = of->first;
    of->now_ns = mode == PLAY_ALL ? of->start_ns : 0;
    for (int64_t op = of->first; op < of->end; op++) {
        plays[op].end_ns = -1;
    }
}

/// Plays an iteration. Recorded orders can be played; where the files contradict that, as ops that
/// need each other, one goes on without.
static int64_t play_lanes(lane *lanes, int lane_count, play *plays, play_mode mode)
{
    int64_t most_ns = 0;
    for (int at = 0; at < lane_count; at++) {
        rewind_lane(&lanes[at], plays, mode);
    }
    for (bool is_forced = false, is_done = false; !is_done;) {
        bool any = false;
        is_done = true;
        for (int at = 0; at < lane_count; at++) {
            any = play_lane(&lanes[at], plays, mode, is_forced && !any) || any;
            is_done = is_done && lanes[at].next == lanes[at].end;
        }
        is_forced = !any;
    }
    for (int at = 0; at < lane_count; at++) {
        const trace_iteration_time *time = lanes[at].time;
        const int64_t tail_ns = time != NULL && mode == PLAY_ALL ? time->tail_ns : 0;
        if (lanes[at].now_ns + tail_ns > most_ns) most_ns = lanes[at].now_ns + tail_ns;
    }
    return most_ns;
}

/// The ops [first, end) of one iteration, a lane per rank. @return how many
static int lay_lanes(const trace_op *ops, int64_t first, int64_t end, lane *lanes)
{
    int count = 0;
    for (int64_t op = first; op < end; op++) {
        const bool is_first = op == first || ops[op].rank != ops[op - 1].rank;
        if (is_first) lanes[count++] = (lane){.first = op};
        lanes[count - 1].end = op + 1;
    }
    return count;
}

/// The ops of one iteration, [first, end). @param lanes [rank_count] scratch
static void replay_iteration(trace_import *import, play *plays, int64_t first, int64_t end,
                             lane *lanes)
{
    trace_replay *replay = &import->replay;
    const int count = lay_lanes(import->ops, first, end, lanes);
    int64_t first_ns = INT64_MAX;
    int64_t last_ns = INT64_MIN;
    for (int at = 0; at < count; at++) {
        const trace_op *op = &import->ops[lanes[at].first];
        const int64_t shift_ns = plays[lanes[at].first].shift_ns;
        lanes[at].time = time_of(import, op->rank, op->iteration);
        if (lanes[at].time == NULL) continue;
        lanes[at].start_ns = lanes[at].time->begin_ns + shift_ns;
        if (lanes[at].start_ns < first_ns) first_ns = lanes[at].start_ns;
        const int64_t end_ns = lanes[at].time->end_ns + shift_ns;
        if (end_ns > last_ns) last_ns = end_ns;
    }
    for (int at = 0; at < count; at++) {
        if (lanes[at].time != NULL) lanes[at].start_ns -= first_ns;
    }
    if (first_ns < last_ns) replay->recorded_ns += last_ns - first_ns;
    replay->replayed_ns += play_lanes(lanes, count, plays, PLAY_ALL);
    replay->charges_ns += play_lanes(lanes, count, plays, PLAY_CHARGES);
    replay->compute_ns += play_lanes(lanes, count, plays, PLAY_COMPUTE);
}

/// Iterations of a single rank in which no op ran.
static void add_empty_iterations(trace_import *import)
{
    const trace_recording *recording = &import->recordings[0];
    int64_t op = 0;
    for (int place = 0; place < recording->iteration_count && import->rank_count == 1; place++) {
        const trace_iteration_time *time = &recording->iterations[place];
        while (op < import->op_count && import->ops[op].iteration < time->iteration) {
            op++;
        }
        if (op < import->op_count && import->ops[op].iteration == time->iteration) continue;
        import->replay.recorded_ns += time->end_ns - time->begin_ns;
        import->replay.replayed_ns += time->tail_ns;
    }
}

static void sum_gaps(trace_import *import)
{
    for (int rank = 0; rank < import->rank_count; rank++) {
        const trace_recording *recording = &import->recordings[rank];
        for (int place = 0; place < recording->iteration_count; place++) {
            const trace_iteration_time *time = &recording->iterations[place];
            import->replay.rank_ns += time->end_ns - time->begin_ns;
            for (int gap = 0; gap < TRACE_GAP_COUNT; gap++) {
                import->replay.charged_ns[gap] += time->charged_ns[gap];
                import->replay.outside_ns[gap] += time->outside_ns[gap];
            }
        }
    }
}

void trace_import_replay(trace_import *import)
{
    arena *scratch = arena_create(1 << 16);
    const trace_op_index index = trace_op_index_of(import->ops, import->op_count, scratch);
    play *plays = arena_array(scratch, (size_t)import->op_count, sizeof *plays);
    lane *lanes = arena_array(scratch, (size_t)import->rank_count, sizeof *lanes);
    for (int64_t op = 0; op < import->op_count; op++) {
        const trace_op *each = &import->ops[op];
        trace_window *window = &import->recordings[each->rank].windows[each->name];
        const bool did_run = window->work_begin_ns <= window->work_end_ns;
        plays[op] = (play){.producer = -1};
        if (window->cell >= 0) plays[op] = prepare(import, &index, each, window);
        plays[op].shift_ns = each->begin_ns - (did_run ? window->work_begin_ns : window->begin_ns);
    }
    for (int64_t first = 0, end = 0; first < import->op_count; first = end) {
        while (end < import->op_count &&
               import->ops[end].iteration == import->ops[first].iteration) {
            end++;
        }
        replay_iteration(import, plays, first, end, lanes);
    }
    arena_destroy(scratch);
    import->replay.iteration_count = import->iteration_count;
    add_empty_iterations(import);
    sum_gaps(import);
}

/// A stored op: what lies in the time of the op before it on its rank is that one's.
static play stored_play(const trace_op_index *index, const trace_op *op, int64_t *covered_ns,
                        trace_replay *replay)
{
    const trace_op *producer = trace_op_producer(index, op);
    const bool is_remote = producer != NULL && producer->rank != op->rank;
    const bool is_first = *covered_ns == INT64_MIN;
    const int64_t free_ns = is_first ? op->begin_ns : *covered_ns;
    const int64_t begin_ns = op->begin_ns > free_ns ? op->begin_ns : free_ns;
    const int64_t wall_ns = op->end_ns > begin_ns ? op->end_ns - begin_ns : 0;
    play made = {.producer = -1, .end_ns = -1};
    if (op->kind > TRACE_OP_RECOMPUTE) return made;
    if (is_remote) made.producer = producer - index->ops;
    made.charge_ns = wall_ns;
    made.busy_ns = op->busy_ns >= 0 ? op->busy_ns : wall_ns;
    if (is_remote && (is_first || producer->end_ns > free_ns)) {
        const int64_t there_ns = producer->end_ns < begin_ns ? producer->end_ns : begin_ns;
        made.message_ns = begin_ns - there_ns;
        if (!is_first) replay->outside_ns[TRACE_GAP_WAITING] += there_ns - free_ns;
        if (!is_first) replay->outside_ns[TRACE_GAP_COMMUNICATION] += made.message_ns;
    } else {
        made.before_ns = begin_ns - free_ns;
        replay->outside_ns[TRACE_GAP_HOST] += made.before_ns;
    }
    if (wall_ns > made.busy_ns) replay->charged_ns[TRACE_GAP_HOST] += wall_ns - made.busy_ns;
    if (begin_ns + wall_ns > *covered_ns) *covered_ns = begin_ns + wall_ns;
    return made;
}

/// One iteration of stored ops, by rank and begin.
static void replay_stored(const trace_op *ops, int count, arena *scratch, trace_replay *replay)
{
    const trace_op_index index = trace_op_index_of(ops, count, scratch);
    play *plays = arena_array(scratch, (size_t)count, sizeof *plays);
    lane *lanes = arena_array(scratch, (size_t)count, sizeof *lanes);
    const int lane_count = lay_lanes(ops, 0, count, lanes);
    int64_t first_ns = INT64_MAX;
    int64_t last_ns = INT64_MIN;
    int64_t covered_ns = INT64_MIN;
    for (int op = 0; op < count; op++) {
        if (op == 0 || ops[op].rank != ops[op - 1].rank) covered_ns = INT64_MIN;
        plays[op] = stored_play(&index, &ops[op], &covered_ns, replay);
        if (ops[op].kind > TRACE_OP_RECOMPUTE) continue;
        if (ops[op].begin_ns < first_ns) first_ns = ops[op].begin_ns;
        if (ops[op].end_ns > last_ns) last_ns = ops[op].end_ns;
    }
    if (first_ns > last_ns) return;
    for (int at = 0; at < lane_count; at++) {
        const int64_t first = lanes[at].first;
        if (plays[first].producer < 0) lanes[at].start_ns = ops[first].begin_ns - first_ns;
    }
    replay->iteration_count++;
    replay->recorded_ns += last_ns - first_ns;
    replay->rank_ns += (last_ns - first_ns) * lane_count;
    replay->replayed_ns += play_lanes(lanes, lane_count, plays, PLAY_ALL);
    replay->charges_ns += play_lanes(lanes, lane_count, plays, PLAY_CHARGES);
    replay->compute_ns += play_lanes(lanes, lane_count, plays, PLAY_COMPUTE);
}

status trace_replay_of_store(trace_store *store, int64_t trace_id, trace_replay *replay,
                             error_message *err)
{
    int iteration = -1;
    *replay = (trace_replay){0};
    for (int played = 0; played < TRACE_REPLAYED_ITERATIONS_MAX; played++) {
        TRY(trace_next_sample(store, trace_id, iteration, &iteration, err));
        if (iteration < 0) break;
        arena *memory = arena_create(1 << 16);
        trace_op *ops = NULL;
        int count = 0;
        const status result = trace_ops(store, trace_id, iteration, memory, &ops, &count, err);
        if (result == STATUS_OK) replay_stored(ops, count, memory, replay);
        arena_destroy(memory);
        TRY(result);
    }
    return STATUS_OK;
}

status trace_replay_put_outside(const trace_replay *replay, trace_writer *writer,
                                error_message *err)
{
    if (replay->iteration_count == 0) return STATUS_OK;
    const int64_t outside_ns = replay->replayed_ns - replay->charges_ns;
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, outside_ns / replay->iteration_count);
    return trace_writer_put_note(writer, TRACE_NOTE_OUTSIDE, text, err);
}

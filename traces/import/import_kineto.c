#include "traces/import/import_kineto.h"

#include "base/arena.h"
#include "traces/import/kineto_collect.h"
#include "traces/store/op_table.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int compare_recordings(const void *a, const void *b)
{
    const trace_recording *left = a;
    const trace_recording *right = b;
    return (left->rank > right->rank) - (left->rank < right->rank);
}

/// How many iterations a recording has loads of, the first and the last of them.
static void iterations_of(const trace_recording *recording, int found[3])
{
    const int count = recording->iteration_count;
    found[0] = count;
    found[1] = count > 0 ? recording->iterations[0].iteration : 0;
    found[2] = count > 0 ? recording->iterations[count - 1].iteration : 0;
}

static status check_pair(const trace_recording *left, const trace_recording *right,
                         error_message *err)
{
    int of_left[3];
    int of_right[3];
    if (left->rank == right->rank) {
        return error_set(err, STATUS_INVALID, "%.150s and %.150s are both of rank %d%s",
                         left->input.path, right->input.path, left->rank,
                         left->rank_is_known && right->rank_is_known
                             ? ""
                             : " (a file that does not say its rank has that of its place)");
    }
    if (left->world_size != right->world_size && left->world_size >= 0 && right->world_size >= 0) {
        return error_set(err, STATUS_INVALID,
                         "%.150s is of a run with %d ranks, %.150s of one with %d",
                         left->input.path, left->world_size, right->input.path, right->world_size);
    }
    if (left->naming != right->naming) {
        return error_set(err, STATUS_INVALID,
                         "%.150s and %.150s name their annotations differently", left->input.path,
                         right->input.path);
    }
    iterations_of(left, of_left);
    iterations_of(right, of_right);
    if (memcmp(of_left, of_right, sizeof of_left) == 0) return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "%.150s has %d iterations from %d to %d, %.150s has %d from %d to %d: record "
                     "the same steps on all ranks",
                     left->input.path, of_left[0], of_left[1], of_left[2], right->input.path,
                     of_right[0], of_right[1], of_right[2]);
}

static status check_set(const trace_import *import, error_message *err)
{
    for (int rank = 1; rank < import->rank_count; rank++) {
        TRY(check_pair(&import->recordings[rank - 1], &import->recordings[rank], err));
    }
    for (int rank = 0; rank < import->rank_count; rank++) {
        const trace_recording *recording = &import->recordings[rank];
        if (recording->world_size >= 0 && recording->rank >= recording->world_size) {
            return error_set(err, STATUS_INVALID, "%.150s is of rank %d, but its run has %d ranks",
                             recording->input.path, recording->rank, recording->world_size);
        }
    }
    return STATUS_OK;
}

/// Counts layers and iterations of the sorted loads (by iteration, layer, microbatch and kind; the
/// order is their rank), and refuses one that is there twice.
///
/// @param is_there [TRACE_LAYERS_MAX] scratch, false
static status survey(trace_import *import, const kineto_key *loads, size_t count, bool *is_there,
                     error_message *err)
{
    for (size_t each = 0; each < count; each++) {
        const kineto_key *here = &loads[each];
        const int iteration = here->parts[0];
        const int layer = here->parts[1];
        const int microbatch = here->parts[2];
        if (each > 0 && kineto_is_same_group(here - 1, here)) {
            return error_set(err, STATUS_INVALID,
                             "rank %d and rank %d both ran %s of layer %d, microbatch %d in "
                             "iteration %d: import the ranks of one pipeline (of one data-parallel "
                             "replica)",
                             (int)here[-1].order, (int)here->order,
                             trace_op_kind_names[here->parts[3]], layer, microbatch, iteration);
        }
        import->layer_count += !is_there[layer];
        is_there[layer] = true;
        if (layer > import->layer_last) import->layer_last = layer;
        if (here->parts[3] == TRACE_OP_BACKWARD) import->has_full_backward = true;
        if (microbatch >= import->microbatch_count) import->microbatch_count = microbatch + 1;
        if (each == 0) import->first_iteration = iteration;
        import->iteration_count += each == 0 || iteration != import->last_iteration;
        import->last_iteration = iteration;
    }
    return STATUS_OK;
}

static status survey_loads(trace_import *import, error_message *err)
{
    size_t count = 0;
    kineto_key *loads = NULL;
    for (int rank = 0; rank < import->rank_count; rank++) {
        const trace_recording *recording = &import->recordings[rank];
        for (int cell = 0; cell < recording->cell_count; cell++) {
            const trace_cell *each = &recording->cells[cell];
            loads = memory_grow(loads, count, sizeof *loads);
            loads[count++] =
                (kineto_key){{each->iteration, each->layer, each->microbatch, (int32_t)each->kind},
                             (uint32_t)recording->rank};
        }
    }
    if (count > 0) qsort(loads, count, sizeof *loads, kineto_compare_keys);
    bool *is_there = memory_array(TRACE_LAYERS_MAX, sizeof *is_there);
    const status result = survey(import, loads, count, is_there, err);
    free(is_there);
    free(loads);
    return result;
}

/// An op lasts from the first begin to the last end of what ran for it. A message for which nothing
/// ran lasts as long as its annotation; a layer's phase for which nothing ran is none.
static bool op_of(const trace_recording *recording, const trace_window *window, trace_op *op)
{
    const bool did_run = window->work_begin_ns <= window->work_end_ns;
    const bool is_stage = trace_naming_is_pipeline(recording->naming) || !window->is_load;
    if (window->is_load && !did_run) return false;
    // A window of communication alone (a dispatch of experts) is part of another's layer.
    const bool is_part = window->is_load && window->busy_ns == 0 && window->communication_ns > 0;
    *op = (trace_op){
        .iteration = window->iteration,
        .kind = is_part ? TRACE_OP_COUNT : window->kind,
        .stage = is_stage ? window->layer : TRACE_NOT_RECORDED,
        .layer = window->layer,
        .microbatch = window->microbatch,
        .begin_ns = did_run ? window->work_begin_ns : window->begin_ns,
        .end_ns = did_run ? window->work_end_ns : window->end_ns,
        .busy_ns = window->is_load ? window->busy_ns : TRACE_NOT_RECORDED,
    };
    return true;
}

/// The ops of all ranks in order, each on its own clock but with one zero. Until they were replayed
/// their rank is the place in the list, and their name that of their window.
static void collect_ops(trace_import *import, arena *memory)
{
    size_t count = 0;
    bool has_base = true;
    int64_t zero_ns = INT64_MAX;
    for (int rank = 0; rank < import->rank_count; rank++) {
        const trace_recording *recording = &import->recordings[rank];
        count += (size_t)recording->window_count;
        has_base = has_base && recording->has_base;
        if (recording->base_ns < zero_ns) zero_ns = recording->base_ns;
    }
    import->ops = arena_array(memory, count, sizeof *import->ops);
    for (int rank = 0; rank < import->rank_count; rank++) {
        const trace_recording *recording = &import->recordings[rank];
        const int64_t shift_ns = has_base ? recording->base_ns - zero_ns : 0;
        for (int window = 0; window < recording->window_count; window++) {
            trace_op *op = &import->ops[import->op_count];
            if (!op_of(recording, &recording->windows[window], op)) continue;
            op->rank = rank;
            op->name = window;
            op->begin_ns += shift_ns;
            op->end_ns += shift_ns;
            import->op_count++;
        }
    }
    trace_ops_sort(import->ops, import->op_count);
}

/// Puts the ops on one clock, whose zero is the earliest begin.
static void apply_alignment(trace_import *import)
{
    int64_t first_ns = INT64_MAX;
    for (int64_t op = 0; op < import->op_count; op++) {
        trace_op *each = &import->ops[op];
        each->begin_ns += import->alignment.offset_ns[each->rank];
        each->end_ns += import->alignment.offset_ns[each->rank];
        if (each->kind == TRACE_OP_COUNT) continue; // no op
        if (each->begin_ns < first_ns) first_ns = each->begin_ns;
    }
    if (first_ns == INT64_MAX) first_ns = 0; // parts of ops alone
    for (int64_t op = 0; op < import->op_count; op++) {
        import->ops[op].begin_ns -= first_ns;
        import->ops[op].end_ns -= first_ns;
    }
}

/// Leaves out what is part of ops only, and gives the others their ranks: those ascend with the
/// places, so that the order stays.
static void keep_ops(trace_import *import)
{
    int64_t kept = 0;
    for (int64_t op = 0; op < import->op_count; op++) {
        trace_op each = import->ops[op];
        if (each.kind == TRACE_OP_COUNT) continue;
        each.rank = import->recordings[each.rank].rank;
        each.name = 0;
        import->ops[kept++] = each;
    }
    import->op_count = kept;
}

/// Brings recordings together that are read already.
static status gather(trace_import *import, arena *memory, error_message *err)
{
    qsort(import->recordings, (size_t)import->rank_count, sizeof *import->recordings,
          compare_recordings);
    TRY(check_set(import, err));
    TRY(survey_loads(import, err));
    collect_ops(import, memory);
    TRY(trace_alignment_find(import->ops, import->op_count, import->rank_count, memory,
                             &import->alignment, err));
    apply_alignment(import);
    trace_import_replay(import);
    keep_ops(import);
    return STATUS_OK;
}

static void take(trace_import *import, const trace_recording *recording, arena *memory)
{
    import->recordings = arena_grow(memory, import->recordings, (size_t)import->rank_count,
                                    sizeof *import->recordings);
    import->recordings[import->rank_count++] = *recording;
}

static status read_source(const trace_profile_source *source, trace_profiler profiler,
                          arena *memory, trace_import *import, error_message *err)
{
    trace_recording recording;
    trace_nsys_file file;
    if (profiler == TRACE_PROFILER_KINETO) {
        TRY(trace_kineto_read(source, memory, &recording, err));
        take(import, &recording, memory);
        return STATUS_OK;
    }
    TRY(trace_nsys_read(source, memory, &file, err));
    for (int each = 0; each < file.recording_count; each++) {
        file.recordings[each].rank = import->rank_count;
        take(import, &file.recordings[each], memory);
    }
    return STATUS_OK;
}

status trace_import_read(const trace_profile_source *sources, int count, trace_profiler profiler,
                         arena *memory, trace_import *import, error_message *err)
{
    static const char *const names[] = {"PyTorch profiler (Kineto)", "NVIDIA Nsight Systems"};
    trace_import made = {.recorded_by = names[profiler]};
    for (int source = 0; source < count; source++) {
        TRY(read_source(&sources[source], profiler, memory, &made, err));
    }
    TRY(gather(&made, memory, err));
    *import = made;
    return STATUS_OK;
}

static status write_loads(const trace_recording *recording, bool keeps_gaps, trace_writer *writer,
                          error_message *err)
{
    for (int cell = 0; cell < recording->cell_count; cell++) {
        const trace_cell *each = &recording->cells[cell];
        trace_load load = trace_load_init(each->iteration, each->layer, each->microbatch);
        // Nothing ran: as the input gradient of the first stage, which torch announces all the
        // same.
        if (each->busy_ns == 0 && each->communication_ns == 0 && each->span_ns == 0) continue;
        load.time_ns[each->kind] = each->busy_ns;
        if (keeps_gaps) load.charge_ns[each->kind] = each->charge_ns;
        if (recording->on_device || each->communication_ns > 0) {
            load.communication_ns = each->communication_ns;
        }
        load.span_ns = each->span_ns;
        TRY(trace_writer_put_load(writer, &load, err));
    }
    return STATUS_OK;
}

static status write_all(const trace_import *import, bool keeps_gaps, trace_writer *writer,
                        error_message *err)
{
    for (int rank = 0; rank < import->rank_count; rank++) {
        TRY(write_loads(&import->recordings[rank], keeps_gaps, writer, err));
        TRY(trace_writer_put_input(writer, &import->recordings[rank].input, err));
    }
    if (keeps_gaps) TRY(trace_replay_put_outside(&import->replay, writer, err));
    for (int64_t op = 0; op < import->op_count; op++) {
        TRY(trace_writer_put_op(writer, &import->ops[op], err));
    }
    return STATUS_OK;
}

status trace_import_write(const trace_import *import, const trace_info *info, trace_store *store,
                          int64_t *trace_id, error_message *err)
{
    const bool is_full = import->has_full_backward;
    trace_info made = trace_info_default();
    trace_writer *writer = NULL;
    made.name = info->name;
    made.tool_version = info->tool_version;
    made.embedding = info->embedding;
    made.head = info->head;
    made.backward_split = is_full ? info->backward_split : -1;
    made.source = TRACE_SOURCE_KINETO;
    made.device = import->recordings[0].on_device ? "cuda" : "cpu";
    made.times = TRACE_MEASURED;
    made.communication = import->recordings[0].on_device ? TRACE_MEASURED : TRACE_UNKNOWN;
    made.split = !is_full                   ? TRACE_MEASURED
                 : made.backward_split >= 0 ? TRACE_ASSUMED
                                            : TRACE_UNKNOWN;
    made.recorded_by = import->recorded_by;
    TRY(trace_writer_begin(store, &made, &writer, err));
    if (trace_id != NULL) *trace_id = trace_writer_id(writer);
    const status result = write_all(import, info->gaps != TRACE_GAPS_LEAVE, writer, err);
    if (result != STATUS_OK) {
        trace_writer_abort(writer);
        return result;
    }
    return trace_writer_finish(writer, err);
}

#define UNBOUNDED (INT64_MAX / 4)

/// When the result of producer left its rank: its message cannot have been sent before the SEND.
static int64_t departure_ns(const trace_op_index *index, const trace_op *producer)
{
    const trace_op_kind kind =
        producer->kind == TRACE_OP_FORWARD ? TRACE_OP_SEND_FORWARD : TRACE_OP_SEND_BACKWARD;
    const trace_op *send = trace_op_find(index, producer->iteration, producer->replica, kind,
                                         producer->layer, producer->microbatch);
    const bool is_later =
        send != NULL && send->rank == producer->rank && send->begin_ns > producer->end_ns;
    return is_later ? send->begin_ns : producer->end_ns;
}

static int compare_bounds(const void *a, const void *b)
{
    const trace_message_bound *left = a;
    const trace_message_bound *right = b;
    if (left->from != right->from) return left->from < right->from ? -1 : 1;
    return (left->to > right->to) - (left->to < right->to);
}

/// Notes a message: of those between the same ranks the fastest counts. Those of one op after the
/// other are mostly between the same ranks, so that the bound is looked for from the last on.
///
/// @param last place of the bound that was noted last
static void note_message(trace_alignment *alignment, trace_message_bound message, int *last,
                         arena *memory)
{
    const int count = alignment->bound_count;
    for (int looked = 0; looked < count; looked++) {
        trace_message_bound *bound = &alignment->bounds[(*last + looked) % count];
        if (compare_bounds(bound, &message) != 0) continue;
        *last = (*last + looked) % count;
        if (message.least_ns < bound->least_ns) bound->least_ns = message.least_ns;
        return;
    }
    alignment->bounds =
        arena_grow(memory, alignment->bounds, (size_t)count, sizeof *alignment->bounds);
    alignment->bounds[count] = message;
    *last = alignment->bound_count++;
}

/// Sums along any chain of ranks must fit.
static status check_bounds(const trace_alignment *alignment, error_message *err)
{
    const int64_t limit_ns = UNBOUNDED / (alignment->rank_count + 1) - TRACE_CONTRADICTION_MAX_NS;
    for (int bound = 0; bound < alignment->bound_count; bound++) {
        const int64_t least_ns = alignment->bounds[bound].least_ns;
        if (least_ns > limit_ns || least_ns < -limit_ns) {
            return error_set(err, STATUS_INVALID,
                             "two ranks' clocks are %" PRId64 " ns apart, more than %" PRId64,
                             least_ns, limit_ns);
        }
    }
    return STATUS_OK;
}

static status collect_bounds(const trace_op_index *index, arena *memory, trace_alignment *alignment,
                             error_message *err)
{
    int last = 0;
    for (int64_t each = 0; each < index->count; each++) {
        const trace_op *op = &index->ops[each];
        const trace_op *producer = trace_op_producer(index, op);
        if (producer == NULL || producer->rank == op->rank) continue;
        const trace_message_bound message = {producer->rank, op->rank,
                                             op->begin_ns - departure_ns(index, producer)};
        note_message(alignment, message, &last, memory);
    }
    if (alignment->bound_count == 0) return STATUS_OK;
    qsort(alignment->bounds, (size_t)alignment->bound_count, sizeof *alignment->bounds,
          compare_bounds);
    return check_bounds(alignment, err);
}

/// Which of the offsets that the bounds allow.
typedef enum extreme { SMALLEST, LARGEST } extreme;

/// Finds the largest offsets that the bounds allow, or the smallest, negated, each message taken
/// for slack_ns slower. offset[to] >= offset[from] - least.
///
/// @return false if they contradict each other
static bool relax(const trace_alignment *alignment, int64_t slack_ns, extreme wanted,
                  int64_t *offset_ns)
{
    for (int rank = 0; rank < alignment->rank_count; rank++) {
        offset_ns[rank] = rank == 0 ? 0 : UNBOUNDED;
    }
    for (int round = 0; round <= alignment->rank_count; round++) {
        bool changed = false;
        for (int bound = 0; bound < alignment->bound_count; bound++) {
            const trace_message_bound *each = &alignment->bounds[bound];
            int64_t *least = &offset_ns[wanted == LARGEST ? each->from : each->to];
            const int64_t other_ns = offset_ns[wanted == LARGEST ? each->to : each->from];
            const int64_t max_ns = other_ns + each->least_ns + slack_ns;
            if (other_ns == UNBOUNDED || *least <= max_ns) continue;
            *least = max_ns;
            changed = true;
        }
        if (!changed) return true;
    }
    return false;
}

/// The smallest slack under which the bounds agree: bisection.
static status find_slack(trace_alignment *alignment, int64_t *scratch_ns, error_message *err)
{
    int64_t low_ns = 0; // contradicts
    int64_t high_ns = TRACE_CONTRADICTION_MAX_NS;
    if (relax(alignment, 0, LARGEST, scratch_ns)) return STATUS_OK;
    if (!relax(alignment, high_ns, LARGEST, scratch_ns)) {
        return error_set(err, STATUS_INVALID,
                         "messages between the ranks contradict each other by more than %" PRId64
                         " ms, whatever their clocks: these are not traces of one run",
                         TRACE_CONTRADICTION_MAX_NS / 1000000);
    }
    while (high_ns - low_ns > 1) {
        const int64_t middle_ns = low_ns + (high_ns - low_ns) / 2;
        if (relax(alignment, middle_ns, LARGEST, scratch_ns)) {
            high_ns = middle_ns;
        } else {
            low_ns = middle_ns;
        }
    }
    alignment->contradiction_ns = high_ns;
    return STATUS_OK;
}

/// The middle of [lower, upper]; where one side is open, the nearest to 0.
static void choose_offset(int64_t lower_ns, int64_t upper_ns, int64_t *offset_ns,
                          int64_t *residual_ns)
{
    const bool is_bounded = lower_ns > -UNBOUNDED && upper_ns < UNBOUNDED;
    *residual_ns = is_bounded ? (upper_ns - lower_ns + 1) / 2 : -1;
    if (is_bounded) {
        const int64_t sum_ns = lower_ns + upper_ns;
        *offset_ns = sum_ns >= 0 ? sum_ns / 2 : -((1 - sum_ns) / 2); // rounded down
    } else {
        *offset_ns = lower_ns > 0 ? lower_ns : upper_ns < 0 ? upper_ns : 0;
    }
}

status trace_alignment_find(const trace_op *ops, int64_t op_count, int rank_count, arena *memory,
                            trace_alignment *alignment, error_message *err)
{
    const size_t ranks = (size_t)rank_count;
    const trace_op_index index = trace_op_index_of(ops, op_count, memory);
    int64_t *upper_ns = arena_array(memory, ranks, sizeof *upper_ns);
    int64_t *lower_ns = arena_array(memory, ranks, sizeof *lower_ns); // negated
    trace_alignment made = {.rank_count = rank_count,
                            .offset_ns = arena_array(memory, ranks, sizeof(int64_t)),
                            .residual_ns = arena_array(memory, ranks, sizeof(int64_t))};
    TRY(collect_bounds(&index, memory, &made, err));
    TRY(find_slack(&made, upper_ns, err));
    relax(&made, made.contradiction_ns, LARGEST, upper_ns);
    relax(&made, made.contradiction_ns, SMALLEST, lower_ns);
    for (int rank = 0; rank < rank_count; rank++) {
        choose_offset(-lower_ns[rank], upper_ns[rank], &made.offset_ns[rank],
                      &made.residual_ns[rank]);
    }
    *alignment = made;
    return STATUS_OK;
}

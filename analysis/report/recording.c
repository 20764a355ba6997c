/// Writes a run into the store while it is played.
#include "analysis/report/recording.h"

#include "analysis/compare/agreement.h"
#include "analysis/report/timeline_file.h"
#include "balance/plan.h"
#include "base/arena.h"
#include "base/file.h"
#include "traces/store/runs.h"

#include <gsl/gsl_sort_long.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

// Sums a timeline up by stage and kind of op.

/// A timeline in the midst of being summed up. Cells are [stage][kind].
typedef struct summing {
    const bal_timeline *timeline;
    int stage_count;
    const int *sender;  // [op] whose output it waits for
    int64_t *op_ns;     // [cell][microbatch]
    int64_t *travel_ns; // [cell][microbatch]
    int *op_count;      // [cell]
    int *awaited_count; // [cell]
} summing;

static void make(summing *at, const bal_timeline *timeline, arena *memory)
{
    const bal_schedule *schedule = timeline->schedule;
    const size_t microbatches = (size_t)schedule->microbatch_count;
    *at = (summing){.timeline = timeline,
                    .stage_count = schedule->rank_count * schedule->chunk_count};
    const size_t cells = (size_t)at->stage_count * OP_KIND_COUNT;
    at->sender = ana_senders(schedule, memory);
    at->op_ns = arena_array(memory, cells * microbatches, sizeof(int64_t));
    at->travel_ns = arena_array(memory, cells * microbatches, sizeof(int64_t));
    at->op_count = arena_array(memory, cells, sizeof(int));
    at->awaited_count = arena_array(memory, cells, sizeof(int));
}

/// Notes how long the message of an op travelled, if the rank waited for it.
static void add_travel(const summing *at, int op, int64_t free_ns, int cell)
{
    const bal_timeline *timeline = at->timeline;
    const int64_t begin_ns = timeline->begin_ns[op];
    if (at->sender[op] < 0) return;
    const int64_t travel_ns = begin_ns - timeline->end_ns[at->sender[op]];
    if (begin_ns <= free_ns || begin_ns - free_ns < travel_ns - (begin_ns - free_ns)) return;
    const int64_t first = (int64_t)cell * timeline->schedule->microbatch_count;
    at->travel_ns[first + at->awaited_count[cell]++] = travel_ns > 0 ? travel_ns : 0;
}

static void add_rank(const summing *at, int rank)
{
    const bal_schedule *schedule = at->timeline->schedule;
    int64_t free_ns = 0;
    for (int op = schedule->first_op[rank]; op < schedule->first_op[rank + 1]; op++) {
        const bal_op *played = &schedule->ops[op];
        const int cell =
            bal_schedule_stage(schedule, rank, played->chunk) * OP_KIND_COUNT + played->kind;
        const int64_t first = (int64_t)cell * schedule->microbatch_count;
        at->op_ns[first + at->op_count[cell]++] =
            at->timeline->end_ns[op] - at->timeline->begin_ns[op];
        add_travel(at, op, free_ns, cell);
        free_ns = at->timeline->end_ns[op];
    }
}

int64_t ana_op_median(int64_t *values, int count)
{
    if (count == 0) return -1;
    gsl_sort_long(values, 1, (size_t)count);
    return values[(count - 1) / 2];
}

void ana_op_times_of(const bal_timeline *timeline, int iteration, arena *memory,
                     trace_run_op_time **rows, int *count)
{
    const bal_schedule *schedule = timeline->schedule;
    summing at;
    make(&at, timeline, memory);
    const int cells = at.stage_count * OP_KIND_COUNT;
    trace_run_op_time *made = arena_array(memory, (size_t)cells, sizeof *made);
    for (int rank = 0; rank < schedule->rank_count; rank++) {
        add_rank(&at, rank);
    }
    int made_count = 0;
    for (int cell = 0; cell < cells; cell++) {
        const int64_t first = (int64_t)cell * schedule->microbatch_count;
        if (at.op_count[cell] == 0) continue;
        made[made_count++] = (trace_run_op_time){
            .iteration = iteration,
            .stage = cell / OP_KIND_COUNT,
            .kind = (bal_op_kind)(cell % OP_KIND_COUNT),
            .op_count = at.op_count[cell],
            .median_ns = ana_op_median(at.op_ns + first, at.op_count[cell]),
            .awaited_count = at.awaited_count[cell],
            .travel_ns = ana_op_median(at.travel_ns + first, at.awaited_count[cell]),
        };
    }
    *rows = made;
    *count = made_count;
}

enum { INPUT_FILES_MAX = 2 };

struct ana_recording {
    const ana_setup *setup;
    trace_run *run;
    const char *series; // label of the row that is played
    text_buffer plan;   // as JSON, recorded last; empty: this series has recorded none yet
    int64_t plan_id;
    text_buffer json; // scratch
    arena *scratch;
    trace_run_op_time *op_times; // [stage_count][OP_KIND_COUNT] recorded last; op_count 0: none
};

/// Lists the study and the trace, as far as they are files.
static status list_inputs(const ana_setup *setup, trace_input_file files[INPUT_FILES_MAX],
                          int *count, error_message *err)
{
    const char *const paths[INPUT_FILES_MAX] = {setup->study->path, setup->study->trace_path};
    *count = 0;
    for (int index = 0; index < INPUT_FILES_MAX; index++) {
        if (paths[index] == NULL || strcmp(paths[index], "-") == 0) continue;
        trace_input_file *file = &files[(*count)++];
        *file = (trace_input_file){.path = paths[index]};
        TRY(file_hash_path(paths[index], &file->bytes, &file->hash, err));
    }
    return STATUS_OK;
}

status ana_recording_begin(trace_store *store, trace_run_kind kind, const ana_setup *setup,
                           const char *command_line, const char *tool_version, arena *memory,
                           ana_recording **recording, error_message *err)
{
    trace_input_file files[INPUT_FILES_MAX];
    int file_count = 0;
    TRY(list_inputs(setup, files, &file_count, err));
    ana_recording *opened = arena_array(memory, 1, sizeof *opened);
    *opened = (ana_recording){.setup = setup,
                              .plan = {.memory = memory},
                              .json = {.memory = memory},
                              .scratch = arena_within(memory, 1 << 16)};
    opened->op_times =
        arena_array(memory, (size_t)setup->stage_count * OP_KIND_COUNT, sizeof *opened->op_times);
    const trace_run_info info = {
        .name = setup->study->name,
        .kind = kind,
        .command_line = command_line,
        .config_json = setup->study->text,
        .tool_version = tool_version,
    };
    TRY(trace_run_begin(store, &info, files, file_count, &opened->run, err));
    *recording = opened;
    return STATUS_OK;
}

static status begin_row(void *context, const ana_balancing *balancing, error_message *err)
{
    (void)err;
    ana_recording *recording = context;
    recording->series = balancing->label;
    text_clear(&recording->plan);
    recording->plan_id = 0;
    memset(recording->op_times, 0,
           (size_t)recording->setup->stage_count * OP_KIND_COUNT * sizeof *recording->op_times);
    return STATUS_OK;
}

/// Whether an iteration is one of as many as a picture can show.
static bool is_sampled(const ana_recording *recording, int iteration)
{
    const int count = recording->setup->iteration_count;
    const int step = (count + ANA_RECORDED_COLUMNS_MAX - 1) / ANA_RECORDED_COLUMNS_MAX;
    return iteration % step == 0;
}

static bool keeps_timeline(const ana_recording *recording, int iteration)
{
    return iteration == 0 || iteration == recording->setup->iteration_count - 1;
}

static bool wants_timeline(void *context, int iteration)
{
    const ana_recording *recording = context;
    const ana_setup *setup = recording->setup;
    const int64_t ops = (int64_t)setup->stage_count * setup->microbatch_count * 3; // F, B, W
    return ops <= ANA_RECORDED_OPS_MAX &&
           (keeps_timeline(recording, iteration) || is_sampled(recording, iteration));
}

/// Records the plan if it is not the one recorded last.
static status put_plan(ana_recording *recording, const bal_training_iteration *iteration,
                       error_message *err)
{
    const bal_plan plan = ana_setup_plan(recording->setup, iteration);
    text_buffer *last = &recording->plan;
    text_clear(&recording->json);
    json_writer writer = json_writer_init(&recording->json);
    bal_plan_write(&plan, &writer);
    if (last->length > 0 && strcmp(last->bytes, recording->json.bytes) == 0) return STATUS_OK;
    text_clear(last);
    text_append(last, recording->json.bytes);
    return trace_run_put_plan(recording->run, recording->series, iteration->iteration, last->bytes,
                              &recording->plan_id, err);
}

static status put_decision(ana_recording *recording, const bal_training_iteration *iteration,
                           error_message *err)
{
    const trace_run_decision decision = {
        .iteration = iteration->iteration,
        .action = bal_action_names[iteration->action],
        .reason = bal_reason_names[iteration->reason],
        .decision_ns = iteration->decision_ns,
        .moved_layer_count = iteration->moved_layer_count,
        .moved_bytes = iteration->moved_bytes,
        .migration_ns = iteration->migration_ns,
    };
    return trace_run_put(recording->run, TRACE_RUN_DECISIONS, recording->series, &decision, err);
}

static status put_work(ana_recording *recording, const bal_training_iteration *iteration,
                       error_message *err)
{
    if (iteration->rank_work_ns == NULL) return STATUS_OK;
    for (int place = 0; place < iteration->rank_count; place++) {
        const trace_run_work work = {
            .iteration = iteration->iteration,
            .place = place,
            .rank = iteration->machine_rank != NULL ? iteration->machine_rank[place] : place,
            .work_ns = iteration->rank_work_ns[place],
        };
        TRY(trace_run_put(recording->run, TRACE_RUN_WORK, recording->series, &work, err));
    }
    return STATUS_OK;
}

/// Takes over what ops of a stage and kind took. @return false if it is what was taken last
static bool take_op_time(ana_recording *recording, const trace_run_op_time *row)
{
    trace_run_op_time *last = &recording->op_times[row->stage * OP_KIND_COUNT + (int)row->kind];
    const bool is_same = last->op_count == row->op_count && last->median_ns == row->median_ns &&
                         last->awaited_count == row->awaited_count &&
                         last->travel_ns == row->travel_ns;
    *last = *row;
    return !is_same;
}

/// Records what the ops of the stages took, where that is something else than before.
static status put_op_times(ana_recording *recording, const bal_training_iteration *iteration,
                           error_message *err)
{
    trace_run_op_time *rows = NULL;
    int count = 0;
    arena_reset(recording->scratch);
    ana_op_times_of(iteration->timeline, iteration->iteration, recording->scratch, &rows, &count);
    for (int row = 0; row < count; row++) {
        if (!take_op_time(recording, &rows[row])) continue;
        TRY(trace_run_put(recording->run, TRACE_RUN_OP_TIMES, recording->series, &rows[row], err));
    }
    return STATUS_OK;
}

static status put_timeline(ana_recording *recording, const bal_training_iteration *iteration,
                           error_message *err)
{
    char label[256];
    const ana_timeline timeline = {
        .label = recording->series,
        .iteration = iteration->iteration,
        .schedule = *iteration->timeline->schedule,
        .timeline = *iteration->timeline,
        .first_layer = iteration->first_layer,
        .memory_forward = iteration->costs->memory_forward,
        .memory_backward_input = iteration->costs->memory_backward_input,
        .memory_backward_weight = iteration->costs->memory_backward_weight,
    };
    snprintf(label, sizeof label, "timeline/%d/%s", iteration->iteration, recording->series);
    text_clear(&recording->json);
    ana_timeline_write(&timeline, &recording->json);
    return trace_run_put_result(recording->run, label, recording->json.bytes, err);
}

/// Iterations are called as the trace calls them whose costs are played.
static status put_iteration(void *context, const bal_training_iteration *played, error_message *err)
{
    ana_recording *recording = context;
    bal_training_iteration called = *played;
    const bal_training_iteration *iteration = &called;
    called.iteration += recording->setup->first_iteration;
    if (iteration->first_layer != NULL) TRY(put_plan(recording, iteration, err));
    const trace_run_iteration row = {
        .iteration = iteration->iteration,
        .plan_id = recording->plan_id,
        .iteration_ns = iteration->iteration_ns,
        .makespan_ns = iteration->metrics.makespan_ns,
        .span_ns = iteration->metrics.span_ns,
        .busy_ns = iteration->metrics.busy_ns,
        .bubble_ratio = iteration->metrics.bubble_ratio,
        .imbalance_ratio = iteration->metrics.imbalance_ratio,
        .changed = iteration->changed,
        .rebalanced = iteration->rebalanced,
        .moved_layer_count = iteration->moved_layer_count,
        .moved_bytes = iteration->moved_bytes,
        .migration_ns = iteration->migration_ns,
    };
    TRY(trace_run_put(recording->run, TRACE_RUN_ITERATIONS, recording->series, &row, err));
    if (iteration->was_asked) TRY(put_decision(recording, iteration, err));
    if (is_sampled(recording, played->iteration)) {
        TRY(put_work(recording, iteration, err));
        if (iteration->timeline != NULL) TRY(put_op_times(recording, iteration, err));
    }
    if (iteration->timeline == NULL || !keeps_timeline(recording, played->iteration)) {
        return STATUS_OK;
    }
    return put_timeline(recording, iteration, err);
}

ana_listener ana_recording_listener(ana_recording *recording)
{
    return (ana_listener){
        .begin_row = begin_row,
        .sink = {.context = recording, .wants_timeline = wants_timeline, .put = put_iteration},
    };
}

/// What came out, for programs and as it is printed.
static status put_outcome(ana_recording *recording, const ana_comparison *comparison,
                          error_message *err)
{
    text_buffer words = {0};
    text_clear(&recording->json);
    ana_comparison_write(comparison, &recording->json);
    TRY(trace_run_put_result(recording->run, "comparison", recording->json.bytes, err));
    ana_comparison_print(comparison, &words);
    text_clear(&recording->json);
    json_writer writer = json_writer_init(&recording->json);
    json_begin_object(&writer);
    json_put_string(&writer, "text", words.bytes);
    json_end_object(&writer);
    text_free(&words);
    return trace_run_put_result(recording->run, "words", recording->json.bytes, err);
}

status ana_recording_finish(ana_recording *recording, const ana_comparison *comparison,
                            status outcome, error_message *err)
{
    error_message later = {0};
    if (outcome == STATUS_OK && comparison != NULL) {
        outcome = put_outcome(recording, comparison, err);
    }
    const error_message why = err != NULL ? *err : (error_message){.code = outcome};
    const status finished =
        trace_run_finish(recording->run, outcome == STATUS_OK ? NULL : &why, &later);
    if (outcome != STATUS_OK || finished == STATUS_OK) return outcome;
    return error_set(err, finished, "%s", later.message);
}

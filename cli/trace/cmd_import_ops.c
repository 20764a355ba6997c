/// `dynmo import ops`: a run of which every op was recorded, into a store.
#include "cli/commands.h"

#include "analysis/check/check.h"
#include "analysis/stragglers/op_graph.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/option_values.h"
#include "cli/version.h"
#include "traces/import/ops.h"

#include <inttypes.h>
#include <stdlib.h>

/// What was imported, and its replay.
typedef struct imported {
    const char *name;
    const char *path;
    int64_t trace_id;
    trace_op_table table;
    ana_op_run run;
    double recorded_ns; // a step, mean
    double delayed_ns;
    double replayed_ns;
    double error_median; // of delayed against recorded
    double error_max;
    int64_t negative_ns;
    int64_t negative_count;
} imported;

/// Replays a step beside its record. @param error out: how far the replay is off, of the record
static void replay_step(imported *all, const ana_op_step *step, double *error)
{
    const ana_replay with_delays = {.with_delays = true};
    const ana_replay without = {0};
    const int count = all->run.step_count;
    const int64_t delayed_ns = ana_op_step_length(step, &with_delays);
    const int64_t replayed_ns = ana_op_step_length(step, &without);
    const double off_ns = (double)(delayed_ns - step->recorded_ns);
    *error = step->recorded_ns > 0 ? off_ns / (double)step->recorded_ns : 0;
    if (*error < 0) *error = -*error;
    all->recorded_ns += (double)step->recorded_ns / count;
    all->delayed_ns += (double)delayed_ns / count;
    all->replayed_ns += (double)replayed_ns / count;
    all->negative_count += step->negative_count;
    if (step->negative_ns > all->negative_ns) all->negative_ns = step->negative_ns;
}

/// The replay of what was recorded beside the record, a step at a time.
static status replay(imported *all, arena *memory, error_message *err)
{
    TRY(ana_op_run_begin(&all->table, memory, &all->run, err));
    const int count = all->run.step_count;
    double *errors = arena_array(memory, (size_t)count, sizeof *errors);
    arena *scratch = arena_within(memory, 1 << 20);
    int64_t begin = 0;
    for (int step = 0; step < count; step++) {
        ana_op_step made;
        TRY(ana_op_step_make(&all->run, &begin, scratch, &made, err));
        replay_step(all, &made, &errors[step]);
        arena_reset(scratch);
    }
    all->error_median = ana_shift_median(errors, count); // which sorts them
    all->error_max = errors[count - 1];
    return STATUS_OK;
}

static int microbatch_count(const trace_op_table *table)
{
    int count = 0;
    for (int64_t op = 0; op < table->op_count; op++) {
        const bool is_more = table->ops[op].layer >= 0 && table->ops[op].microbatch >= count;
        if (is_more) count = table->ops[op].microbatch + 1;
    }
    return count;
}

static void write_json(const imported *all, text_buffer *out)
{
    json_writer to = json_line_begin(out);
    json_writer *writer = &to;
    json_put_string(writer, "trace", all->name);
    json_put_int64(writer, "trace_id", all->trace_id);
    json_put_int64(writer, "steps", all->run.step_count);
    json_put_int64(writer, "replicas", all->table.replica_count);
    json_put_int64(writer, "stages", all->table.stage_count);
    json_put_int64(writer, "chunks", all->table.chunk_count);
    json_put_int64(writer, "microbatches", microbatch_count(&all->table));
    json_put_int64(writer, "ops", all->table.op_count);
    json_put_array(writer, "kinds");
    for (int name = 0; name < all->table.name_count; name++) {
        bool is_known = false;
        trace_ops_kind(all->table.names[name], &is_known);
        json_begin_object(writer);
        json_put_string(writer, "name", all->table.names[name]);
        json_put_string(writer, "kind", trace_op_kind_names[all->table.kinds[name]]);
        json_put_bool(writer, "assumed", !is_known);
        json_end_object(writer);
    }
    json_end_array(writer);
    json_put_int64(writer, "recorded_ns", (int64_t)(all->recorded_ns + 0.5));
    json_put_int64(writer, "replayed_ns", (int64_t)(all->delayed_ns + 0.5));
    json_put_int64(writer, "without_delays_ns", (int64_t)(all->replayed_ns + 0.5));
    json_put_rounded(writer, "error_median", all->error_median, 6);
    json_put_rounded(writer, "error_max", all->error_max, 6);
    json_line_end(writer);
}

static void write_assumed(const imported *all, text_buffer *out)
{
    const char *lead = "names that are not known, taken for work of one worker alone: ";
    for (int name = 0; name < all->table.name_count; name++) {
        bool is_known = false;
        trace_ops_kind(all->table.names[name], &is_known);
        if (is_known) continue;
        text_format(out, "%s%s", lead, all->table.names[name]);
        lead = ", ";
    }
    if (lead[0] == ',') text_append(out, "\n");
}

static void write_words(const imported *all, const char *store_path, text_buffer *out)
{
    const ana_op_run *run = &all->run;
    text_format(
        out, "trace '%s' in %s: %s (%d to %d) of %s x %s, %s, %s of %s\n", all->name, store_path,
        text_count(run->step_count, "step").text, all->table.ops[0].iteration,
        all->table.ops[all->table.op_count - 1].iteration,
        text_count(run->replica_count, "replica").text, text_count(run->stage_count, "stage").text,
        text_count(microbatch_count(&all->table), "microbatch").text,
        text_count(all->table.op_count, "op").text, text_count(run->kind_count, "kind").text);
    write_assumed(all, out);
    text_format(out,
                "a step took %s; replayed as recorded %s, off by %.2f %% in the median, %.2f %% at "
                "most; without launch delays %s\n",
                text_duration((int64_t)all->recorded_ns).text,
                text_duration((int64_t)all->delayed_ns).text, 100 * all->error_median,
                100 * all->error_max, text_duration((int64_t)all->replayed_ns).text);
    if (all->negative_count > 0) {
        text_format(
            out,
            "warning: %" PRId64 " messages or collectives ended before all that take part had "
            "begun, by %s at most: sends are buffered, or the clocks of the workers apart\n",
            all->negative_count, text_duration(all->negative_ns).text);
    }
    if (all->error_median > 0.05) {
        text_append(out,
                    "warning: the replay is off by more than 5 %: ops began before what they are "
                    "taken to wait for had ended; see the names of ops and the order of chunks\n");
    }
}

static status read_file(imported *all, const char *columns, arena *memory, trace_input_file *file,
                        error_message *err)
{
    trace_stream *stream = NULL;
    TRY(trace_stream_open(all->path, &stream, err));
    status result = trace_ops_read(stream, all->path, columns, memory, &all->table, err);
    *file = trace_stream_input(stream);
    file->path = all->path;
    trace_stream_close(stream);
    arena_own(memory, all->table.ops, free);
    TRY(result);
    result = replay(all, memory, err);
    if (result == STATUS_OK) return STATUS_OK;
    return error_prefix(err, result, "%s", all->path);
}

static status store_table(trace_store *store, imported *all, const trace_input_file *file,
                          error_message *err)
{
    trace_writer *writer = NULL;
    trace_info info = trace_info_default();
    info.name = all->name;
    info.tool_version = DYNMO_VERSION;
    info.times = TRACE_MEASURED;
    info.layer_count = all->table.stage_count * all->table.chunk_count;
    TRY(trace_writer_begin(store, &info, &writer, err));
    all->trace_id = trace_writer_id(writer);
    status result = trace_writer_put_input(writer, file, err);
    if (result == STATUS_OK) {
        result = trace_writer_put_note(writer, "layers", "a layer here is a stage", err);
    }
    if (result == STATUS_OK) result = trace_op_table_put(writer, &all->table, err);
    if (result == STATUS_OK) return trace_writer_finish(writer, err);
    trace_writer_abort(writer);
    return result;
}

static status import(const cli_arguments *arguments, arena *memory, text_buffer *out,
                     error_message *err)
{
    static const char *const endings[] = {".gz", ".csv", ".json"};
    char name[CLI_TRACE_NAME_BYTES];
    trace_input_file file;
    trace_store *store = NULL;
    imported *all = arena_array(memory, 1, sizeof *all);
    TRY(cli_require(arguments, "--output", err));
    cli_trace_name(cli_operand(arguments, 0), endings, 3, name);
    all->path = cli_operand(arguments, 0);
    all->name = cli_value_or(arguments, "--name", name);
    TRY(read_file(all, cli_value(arguments, "--columns"), memory, &file, err));
    TRY(trace_store_open_within(cli_value(arguments, "--output"), TRACE_WRITE, memory, &store,
                                err));
    TRY(store_table(store, all, &file, err));
    if (cli_has(arguments, "--json")) {
        write_json(all, out);
    } else {
        write_words(all, trace_store_path(store), out);
    }
    return STATUS_OK;
}

const cli_command cli_command_import_ops = {
    .name = "import ops",
    .synopsis = "FILE.csv|FILE.json[.gz] -o RUN.db [--columns WHAT=COLUMN,...] [--name NAME] "
                "[--json]",
    .summary = "imports a run of which every op was recorded, all replicas and steps",
    .description =
        "Adds one trace, read from a file (plain or gzip, - is standard input) with a row per op, "
        "to a store, which is made where it does not exist. A file that is malformed, or whose ops "
        "cannot be matched with each other, leaves nothing in the store. It ends with the replay "
        "of what was recorded beside the record; dynmo stragglers asks what slowed the run."
        "\n\n"
        "CSV has a line that names the columns, then rows in any order. Needed are step, stage, "
        "kind, start_s and duration_s; replica, chunk and microbatch may be absent. By default "
        "they are called step, stage, optype, start_ts, duration, dp_rank, mc and mb_id, or as "
        "here; --columns says otherwise, also for other units (start_us=ts). Other columns are "
        "passed over. Chrome trace JSON has the same as args of complete events; ts, dur and name "
        "stand for start, duration and kind. All times are on one clock."
        "\n\n"
        "A kind is forward, backward, backward-input, backward-weight; forward-send, forward-recv, "
        "backward-send, backward-recv; a collective over the replicas of a stage (replicas), the "
        "first and last stage (ends), the stages of a replica (pipeline) or all workers (world); "
        "or local. Names of known tracers are known (forward-compute, params-all-gather, ...); any "
        "other is local.",
    .options =
        {
            {"--output", "RUN.db", .is_output = true, .letter = 'o', .help = "The store. Needed."},
            {"--columns", "WHAT=COLUMN,...",
             .help = "What the file calls step, replica, stage, chunk, microbatch, kind, start_s, "
                     "duration_s (or _ms, _us, _ns)."},
            {"--name", "NAME", .help = "Name of the trace. Default: the file's, without .csv.gz."},
            {"--json", .help = "Prints what was imported as one line of JSON."},
        },
    .operand_min = 1,
    .operand_max = 1,
    .run = import,
};

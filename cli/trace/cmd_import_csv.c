/// `dynmo import csv`: a load trace in the native format, into a store.
#include "cli/commands.h"

#include "base/arena.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/option_values.h"
#include "cli/output.h"
#include "cli/trace/replay_output.h"
#include "cli/version.h"
#include "traces/import/csv.h"
#include "traces/import/import_kineto.h"
#include "traces/store/catalog.h"

#include <inttypes.h>
#include <stdio.h>

static status read_file(trace_csv *csv, const char *path, error_message *err)
{
    trace_stream *stream = NULL;
    TRY(trace_stream_open(path, &stream, err));
    const status result = trace_csv_read(csv, stream, err);
    trace_stream_close(stream);
    return result;
}

static status import_files(trace_store *store, const cli_arguments *arguments,
                           const trace_info *info, int64_t *trace_id, error_message *err)
{
    trace_csv *csv = NULL;
    TRY(trace_csv_begin(store, info, &csv, err));
    for (int file = 0; file < cli_operand_count(arguments); file++) {
        const status result = read_file(csv, cli_operand(arguments, file), err);
        if (result != STATUS_OK) {
            trace_csv_abort(csv);
            return result;
        }
    }
    return trace_csv_finish(csv, trace_id, err);
}

static void write_json(const trace_info *info, const trace_replay *replay, bool charges,
                       text_buffer *out)
{
    json_writer writer = json_writer_init(out);
    json_begin_object(&writer);
    json_put_string(&writer, "trace", info->name);
    json_put_int64(&writer, "trace_id", info->trace_id);
    json_put_int64(&writer, "layers", info->layer_count);
    json_put_int64(&writer, "microbatches", info->microbatch_count);
    json_put_int64(&writer, "sampled_iterations", info->iteration_count);
    json_put_int64(&writer, "first_iteration", info->first_iteration);
    json_put_int64(&writer, "last_iteration", info->last_iteration);
    json_put_string(&writer, "backward_split",
                    info->has_split             ? "measured"
                    : info->backward_split >= 0 ? "assumed"
                                                : "none");
    if (replay->recorded_ns > 0) {
        json_write_key(&writer, "replay");
        cli_write_replay_json(&writer, replay, charges);
    }
    json_end_object(&writer);
    text_append(out, "\n");
}

static void write_words(const trace_info *info, const char *path, text_buffer *out)
{
    text_format(out, "trace '%s' in %s: %d layers", info->name, path, info->layer_count);
    if (info->microbatch_columns > 1) {
        text_format(out, " x %d microbatches", info->microbatch_columns);
    }
    text_format(out, ", %" PRId64 " sampled iterations from %" PRId64 " to %" PRId64 "\n",
                info->iteration_count, info->first_iteration, info->last_iteration);
    if (!info->has_split && info->backward_split < 0) {
        text_append(out, "B and W were not told apart; schedules that split the backward need "
                         "--backward-split\n");
    }
}

static status report(trace_store *store, const cli_arguments *arguments, int64_t trace_id,
                     bool charges, error_message *err)
{
    trace_replay replay = {0};
    arena *memory = arena_create(1 << 12);
    trace_info info;
    text_buffer out = {0};
    status result = trace_by_id(store, trace_id, memory, &info, err);
    if (result == STATUS_OK) result = trace_replay_of_store(store, &info, &replay, err);
    if (result == STATUS_OK && cli_has(arguments, "--json")) {
        write_json(&info, &replay, charges, &out);
    } else if (result == STATUS_OK) {
        write_words(&info, trace_store_path(store), &out);
        cli_write_replay(&replay, charges, &out);
    }
    if (result == STATUS_OK) {
        result = cli_print(&out, err);
    }
    text_free(&out);
    arena_destroy(memory);
    return result;
}

static status run(const cli_arguments *arguments, error_message *err)
{
    static const char *const endings[] = {".gz", ".csv"};
    char name[CLI_TRACE_NAME_BYTES];
    trace_store *store = NULL;
    int64_t trace_id = 0;
    trace_info info = trace_info_default();
    TRY(cli_require(arguments, "--output", err));
    cli_trace_name(cli_operand(arguments, 0), endings, 2, name);
    info.name = cli_has(arguments, "--name") ? cli_value(arguments, "--name") : name;
    info.tool_version = DYNMO_VERSION;
    if (cli_has(arguments, "--backward-split")) {
        TRY(text_parse_double(cli_value(arguments, "--backward-split"), "--backward-split", 0, 1,
                              &info.backward_split, err));
    }
    TRY(cli_read_gaps(arguments, &info.gaps, err));
    TRY(trace_store_open(cli_value(arguments, "--output"), TRACE_WRITE, &store, err));
    status result = import_files(store, arguments, &info, &trace_id, err);
    if (result == STATUS_OK)
        result = report(store, arguments, trace_id, info.gaps == TRACE_GAPS_CHARGE, err);
    trace_store_close(store);
    return result;
}

const cli_command cli_command_import_csv = {
    .name = "import csv",
    .synopsis = "FILE[.gz]... -o TRACE.db [--name NAME] [--backward-split X] "
                "[--gaps charge|leave] [--json]",
    .summary = "imports a load trace in the native CSV format",
    .description =
        "Adds one trace, read from one or more files in the format dynmo-trace/1 (plain or gzip, - "
        "is standard input), to a store, which is made where it does not exist. Several files are "
        "parts of one trace: of its ranks, or one after another in time. A file that is malformed "
        "leaves nothing in the store. Where rows say rank, start and span, the import ends with "
        "the replay "
        "of its first 64 iterations beside what was recorded."
        "\n\n"
        "The format: a line '# dynmo-trace/1'; lines '# key=value', of which source, device, "
        "embedding, head, tokens_per_microbatch and microbatches mean something; a row that names "
        "the columns, in any order; then a row per iteration, microbatch, layer and phase. Needed "
        "are the columns iteration, layer, phase (F; B, input gradient; W, weight gradient; BW, "
        "both; R, recompute) and busy_ns. Others are microbatch (without it a row is the mean over "
        "them), rank, start_ns, span_ns, communication_ns, activation_bytes, parameters and "
        "message_bytes. Cells are whole numbers, or empty: not recorded.",
    .options =
        {
            {.name = "--output",
             .is_output = true,
             .letter = 'o',
             .argument = "TRACE.db",
             .help = "The store. Needed."},
            {.name = "--name",
             .argument = "NAME",
             .help = "Name of the trace. Default: the first file's, without .csv.gz."},
            {.name = "--backward-split",
             .argument = "X",
             .help = "Share of a full backward (BW) that replays take for the input gradient, "
                     "between 0 and 1. Default: a full backward stays one."},
            CLI_GAPS_OPTION("leave, as busy_ns is what its writer measured"),
            {.name = "--json", .help = "Prints what was imported as one line of JSON."},
        },
    .operand_min = 1,
    .operand_max = CLI_OPERANDS_MAX,
    .run = run,
};

/// `dynmo import kineto` and `import nsys`: profiles, into a store.
#include "base/arena.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/option_values.h"
#include "cli/output.h"
#include "cli/trace/replay_output.h"
#include "cli/version.h"
#include "traces/import/import_kineto.h"
#include "traces/store/catalog.h"

#include <inttypes.h>
#include <stdlib.h>

/// Reads the profiles that the operands name.
///
/// @param map of --phase-map, or NULL
/// @param import out: the caller's, who frees it on success and on failure
typedef status (*profile_reader)(const cli_arguments *arguments, const trace_phase_map *map,
                                 trace_import *import, error_message *err);

static status read_split(const cli_arguments *arguments, trace_info *info, error_message *err)
{
    const char *text = cli_value(arguments, "--backward-split");
    if (text == NULL) return STATUS_OK;
    return text_parse_double(text, "--backward-split", 0, 1, &info->backward_split, err);
}

static const char *naming_words(trace_naming naming)
{
    switch (naming) {
    case TRACE_NAMED_BY_MAP:
        return "phase map";
    case TRACE_NAMED_BY_DYNMO:
        return "dynmo";
    case TRACE_NAMED_BY_PIPELINE:
        return "torch.distributed.pipelining";
    case TRACE_NAMED_BY_GPIPE:
        return "ScheduleGPipe";
    case TRACE_NAMED_BY_STRUCTURE:
        return "structure";
    case TRACE_NAMING_COUNT:
        break;
    }
    return "unknown";
}

static void write_rank_json(json_writer *writer, const trace_import *import, int rank)
{
    const trace_recording *recording = &import->recordings[rank];
    const trace_attribution *ops = &recording->ops;
    json_begin_object(writer);
    json_put_int64(writer, "rank", recording->rank);
    json_put_string(writer, "device", recording->on_device ? "cuda" : "cpu");
    json_put_int64(writer, "events", recording->event_count);
    json_put_int64(writer, "malformed_events", recording->malformed_count);
    json_put_int64(writer, "operations", ops->op_count);
    json_put_int64(writer, "operations_ns", ops->total_ns);
    json_put_int64(writer, "attributed", ops->loads + ops->others);
    json_put_int64(writer, "attributed_to_layers", ops->loads);
    json_put_int64(writer, "outside_windows", ops->outside);
    json_put_int64(writer, "outside_windows_ns", ops->outside_ns);
    json_put_int64(writer, "without_launch", ops->without_launch);
    json_put_int64(writer, "without_launch_ns", ops->without_launch_ns);
    json_put_int64(writer, "linked_backwards", recording->linked_count);
    json_put_bool(writer, "has_backward", recording->has_backward);
    if (recording->loss_count > 0) json_put_string(writer, "lost_events", recording->loss);
    json_put_int64(writer, "clock_offset_ns", import->alignment.offset_ns[rank]);
    json_write_key(writer, "clock_residual_ns");
    if (import->alignment.residual_ns[rank] < 0) {
        json_write_null(writer);
    } else {
        json_write_int64(writer, import->alignment.residual_ns[rank]);
    }
    json_end_object(writer);
}

static void write_json(const trace_import *import, const trace_info *info, bool keeps_gaps,
                       text_buffer *out)
{
    json_writer writer = json_writer_init(out);
    json_begin_object(&writer);
    json_put_string(&writer, "trace", info->name);
    json_put_string(&writer, "names", naming_words(import->recordings[0].naming));
    json_put_int64(&writer, "layers", import->layer_count);
    json_put_int64(&writer, "microbatches", import->microbatch_count);
    json_put_int64(&writer, "iterations", import->iteration_count);
    json_put_int64(&writer, "first_iteration", import->first_iteration);
    json_put_int64(&writer, "last_iteration", import->last_iteration);
    json_put_string(&writer, "backward_split",
                    info->split == TRACE_MEASURED  ? "measured"
                    : info->split == TRACE_ASSUMED ? "assumed"
                                                   : "none");
    json_put_int64(&writer, "clock_contradiction_ns", import->alignment.contradiction_ns);
    json_put_array(&writer, "ranks");
    for (int rank = 0; rank < import->rank_count; rank++) {
        write_rank_json(&writer, import, rank);
    }
    json_end_array(&writer);
    json_write_key(&writer, "replay");
    cli_write_replay_json(&writer, &import->replay, keeps_gaps);
    json_end_object(&writer);
    text_append(out, "\n");
}

static void write_rank_words(const trace_import *import, int rank, text_buffer *out)
{
    const trace_recording *recording = &import->recordings[rank];
    const trace_attribution *ops = &recording->ops;
    const char *what = recording->on_device ? "GPU operations" : "CPU operators";
    text_format(out, "rank %d%s: %" PRId64 " events, %" PRId64 " %s: %" PRId64 " attributed",
                recording->rank,
                recording->rank_is_known ? "" : " (by the order of the files: it does not say)",
                recording->event_count, ops->op_count, what, ops->loads + ops->others);
    if (ops->others > 0) {
        text_format(out, " (%" PRId64 " to messages, gradient reduction and optimizer)",
                    ops->others);
    }
    text_format(out, ", %" PRId64 " outside windows, %" PRId64 " without launch\n", ops->outside,
                ops->without_launch);
    if (recording->loss_count > 0) {
        text_format(out, "rank %d: the profiler lost events, it says: %s\n", recording->rank,
                    recording->loss);
    }
    if (recording->malformed_count > 0) {
        text_format(out,
                    "rank %d: %" PRId64 " malformed events were passed over, the first is event "
                    "%" PRId64 "\n",
                    recording->rank, recording->malformed_count, recording->malformed_first);
    }
    if (recording->stray_window_count > 0) {
        text_format(out,
                    "rank %d: %" PRId64 " annotations outside every iteration or scope were left "
                    "out\n",
                    recording->rank, recording->stray_window_count);
    }
}

static void write_assumptions(const trace_import *import, const trace_info *info, text_buffer *out)
{
    const trace_recording *first = &import->recordings[0];
    if (!first->on_device) {
        text_append(out, "device=cpu: no device activity; times are of CPU operators\n");
    }
    if (first->structure[0] != '\0') {
        text_format(out, "assumed: no annotation names a layer; layers are %s\n", first->structure);
    }
    if (!first->has_steps) {
        text_append(out, "assumed: no ProfilerStep#<n>; iterations are counted from 0 by repeated "
                         "names\n");
    }
    for (int rank = 0; rank < import->rank_count; rank++) {
        const trace_recording *each = &import->recordings[rank];
        if (each->linked_count > 0) {
            text_format(out,
                        "rank %d: %d backwards were found through the forwards that they are of\n",
                        each->rank, each->linked_count);
        } else if (!each->has_backward) {
            text_format(out,
                        "warning: rank %d: no annotation is of a backward, and nothing links the "
                        "forwards to theirs: the loads are of forwards alone\n",
                        each->rank);
        }
    }
    if (info->split == TRACE_ASSUMED) {
        text_format(out, "assumed: a full backward is %.12g B and %.12g W\n", info->backward_split,
                    1 - info->backward_split);
    } else if (info->split == TRACE_UNKNOWN) {
        text_append(out, "B and W were not told apart; schedules that split the backward need "
                         "--backward-split\n");
    }
    if (import->layer_count <= import->layer_last) {
        text_format(out, "only %d of layers 0 to %d: the other ranks' files have the rest\n",
                    import->layer_count, import->layer_last);
    }
}

static void write_clocks(const trace_import *import, text_buffer *out)
{
    const trace_alignment *alignment = &import->alignment;
    if (import->rank_count < 2) return;
    if (alignment->bound_count == 0) {
        text_append(out,
                    "clocks: no messages between the ranks; only their files' start times align "
                    "them\n");
        return;
    }
    for (int rank = 1; rank < import->rank_count; rank++) {
        char offset[32];
        char residual[32];
        text_duration(alignment->offset_ns[rank], offset);
        text_duration(alignment->residual_ns[rank], residual);
        text_format(out, "clock of rank %d: %s added, residual %s%s\n",
                    import->recordings[rank].rank, offset,
                    alignment->residual_ns[rank] < 0 ? "unknown: no messages both ways" : "+- ",
                    alignment->residual_ns[rank] < 0 ? "" : residual);
    }
    if (alignment->contradiction_ns > 0) {
        char drift[32];
        text_duration(alignment->contradiction_ns, drift);
        text_format(out, "clocks: messages contradict each other by %s (drift)\n", drift);
    }
}

static void write_words(const trace_import *import, const trace_info *info, const char *path,
                        bool keeps_gaps, text_buffer *out)
{
    text_format(out,
                "trace '%s' in %s: %d layers, %d microbatches, %d iterations (%d to %d), %d ranks; "
                "names of %s\n",
                info->name, path, import->layer_count, import->microbatch_count,
                import->iteration_count, import->first_iteration, import->last_iteration,
                import->rank_count, naming_words(import->recordings[0].naming));
    for (int rank = 0; rank < import->rank_count; rank++) {
        write_rank_words(import, rank, out);
    }
    write_assumptions(import, info, out);
    write_clocks(import, out);
    cli_write_replay(&import->replay, keeps_gaps, out);
}

static status print_report(const trace_import *import, const trace_info *info,
                           const cli_arguments *arguments, error_message *err)
{
    const bool keeps_gaps = info->gaps != TRACE_GAPS_LEAVE;
    text_buffer out = {0};
    if (cli_has(arguments, "--json")) {
        write_json(import, info, keeps_gaps, &out);
    } else {
        write_words(import, info, cli_value(arguments, "--output"), keeps_gaps, &out);
    }
    const status result = cli_print(&out, err);
    text_free(&out);
    return result;
}

/// Adds the import to the store that --output names, and prints what it is.
static status store_import(const cli_arguments *arguments, const trace_import *import,
                           const trace_info *info, error_message *err)
{
    const char *path = cli_value(arguments, "--output");
    trace_store *store = NULL;
    arena *memory = arena_create(1 << 12);
    trace_info stored;
    int64_t trace_id = 0;
    status result = trace_store_open(path, TRACE_WRITE, &store, err);
    if (result == STATUS_OK) result = trace_import_write(import, info, store, &trace_id, err);
    if (result == STATUS_OK) result = trace_by_id(store, trace_id, memory, &stored, err);
    stored.gaps = info->gaps;
    if (result == STATUS_OK) {
        result = print_report(import, &stored, arguments, err);
    }
    trace_store_close(store);
    arena_destroy(memory);
    return result;
}

/// Runs a command that imports profiles: reads its options and, by read, the operands, adds the
/// import to the store that --output names, and prints what it is, with --json as one line of JSON.
/// A failure leaves nothing in the store. Without --name the trace is called as the first file.
///
/// @param endings [ending_count] of file names that the name of a trace goes without
/// @return what read and the store say
static status run_importer(const cli_arguments *arguments, profile_reader read,
                           const char *const *endings, int ending_count, error_message *err)
{
    char name[CLI_TRACE_NAME_BYTES];
    trace_info info = trace_info_default();
    trace_phase_map *map = NULL;
    trace_import import = {0};
    TRY(cli_require(arguments, "--output", err));
    cli_trace_name(cli_operand(arguments, 0), endings, ending_count, name);
    info.name = cli_has(arguments, "--name") ? cli_value(arguments, "--name") : name;
    info.tool_version = DYNMO_VERSION;
    TRY(read_split(arguments, &info, err));
    TRY(cli_read_gaps(arguments, &info.gaps, err));
    if (cli_has(arguments, "--phase-map")) {
        TRY(trace_phase_map_open(cli_value(arguments, "--phase-map"), &map, err));
    }
    status result = read(arguments, map, &import, err);
    if (result == STATUS_OK) result = store_import(arguments, &import, &info, err);
    trace_import_free(&import);
    trace_phase_map_close(map);
    return result;
}

static status read_kineto(const cli_arguments *arguments, const trace_phase_map *map,
                          trace_import *import, error_message *err)
{
    const int count = cli_operand_count(arguments);
    trace_kineto_source *sources = memory_array((size_t)count, sizeof *sources);
    for (int file = 0; file < count; file++) {
        sources[file] =
            (trace_kineto_source){.path = cli_operand(arguments, file), .map = map, .rank = file};
    }
    const status result = trace_import_read(sources, count, import, err);
    free(sources);
    return result;
}

static status run_kineto(const cli_arguments *arguments, error_message *err)
{
    static const char *const endings[] = {".gz", ".json", ".trace", ".pt"};
    return run_importer(arguments, read_kineto, endings, 4, err);
}

const cli_command cli_command_import_kineto = {
    .name = "import kineto",
    .synopsis = "FILE[.gz]... -o TRACE.db [--phase-map FILE.json] [--backward-split X] "
                "[--gaps charge|leave] [--name NAME] [--json]",
    .summary = "imports traces of the PyTorch profiler",
    .description =
        "Reads Chrome traces as torch.profiler exports them (plain or gzip), one file per rank of "
        "one pipeline, of any size, and adds one trace with loads and timeline to a store. Kernels "
        "are counted for the annotation in which they were launched, by any thread.\n\n"
        "It knows the names of torch.distributed.pipelining (PP:<stage><F|I|W|B><microbatch>; "
        "Forward <microbatch>), for which a layer is a stage, those of dynmo's recorder, and "
        "ProfilerStep#<n> as iterations. Other names are said by a phase map. Backwards that no "
        "annotation names are found through the profiler's links to their forwards. Where no "
        "annotation names a layer, layers are modules (with_stack, with_modules), or repeated "
        "operators of the forward.\n\n"
        "Time in which the device stood still or only communicated is charged to the op in which "
        "it "
        "fell (--gaps), and the import ends with the replay of what was recorded beside the "
        "record.\n\n"
        "Clocks of several ranks are aligned by their messages. Without device activity, CPU "
        "operators are counted. Malformed input leaves nothing in the store.",
    .options =
        {
            {.name = "--output",
             .is_output = true,
             .letter = 'o',
             .argument = "TRACE.db",
             .help = "The store. Needed."},
            {.name = "--phase-map",
             .argument = "FILE.json",
             .help = "Which annotations are which layer and phase, and which kernels communicate."},
            {.name = "--backward-split",
             .argument = "X",
             .help = "Share of a full backward (BW) that replays take for the input gradient, "
                     "between 0 and 1. Default: a full backward stays one."},
            CLI_GAPS_OPTION("charge"),
            {.name = "--name",
             .argument = "NAME",
             .help = "Name of the trace. Default: the first file's, without its endings."},
            {.name = "--json", .help = "Prints what was imported as one line of JSON."},
        },
    .operand_min = 1,
    .operand_max = CLI_OPERANDS_MAX,
    .run = run_kineto,
};

static status read_nsys(const cli_arguments *arguments, const trace_phase_map *map,
                        trace_import *import, error_message *err)
{
    const int count = cli_operand_count(arguments);
    trace_nsys_source *sources = memory_array((size_t)count, sizeof *sources);
    for (int file = 0; file < count; file++) {
        sources[file] = (trace_nsys_source){.path = cli_operand(arguments, file), .map = map};
    }
    const status result = trace_import_read_nsys(sources, count, import, err);
    free(sources);
    return result;
}

static status run_nsys(const cli_arguments *arguments, error_message *err)
{
    static const char *const endings[] = {".sqlite", ".db", ".sqlite3", ".nsys-rep"};
    return run_importer(arguments, read_nsys, endings, 4, err);
}

const cli_command cli_command_import_nsys = {
    .name = "import nsys",
    .synopsis = "FILE.sqlite... -o TRACE.db [--phase-map FILE.json] [--backward-split X] "
                "[--gaps charge|leave] [--name NAME] [--json]",
    .summary = "imports profiles of Nsight Systems",
    .description =
        "Reads what `nsys export --type sqlite` makes of a profile (`nsys profile -t cuda,nvtx`), "
        "and adds one trace with loads and timeline to a store. A process with NVTX ranges that "
        "are known is a rank: in the order of the files, within one in the order of devices, then "
        "of process numbers. The files are only read.\n\n"
        "Kernels, copies, fills and CUDA graphs are counted for the innermost range in which they "
        "were launched, or, where the launching thread had none, for that of any thread of its "
        "process; NCCL's kernels apart. Names are those of `dynmo import kineto`: of dynmo's "
        "recorder, of torch.distributed.pipelining under torch.autograd.profiler.emit_nvtx, "
        "ProfilerStep#<n> as iterations; others are said by a phase map. To see the kernels of "
        "CUDA graphs, record with --cuda-graph-trace=node.\n\n"
        "Clocks of several ranks are aligned by their messages. Malformed input leaves nothing in "
        "the store.",
    .options =
        {
            {.name = "--output",
             .is_output = true,
             .letter = 'o',
             .argument = "TRACE.db",
             .help = "The store. Needed."},
            {.name = "--phase-map",
             .argument = "FILE.json",
             .help = "Which ranges are which layer and phase, and which kernels communicate."},
            {.name = "--backward-split",
             .argument = "X",
             .help = "Share of a full backward (BW) that replays take for the input gradient, "
                     "between 0 and 1. Default: a full backward stays one."},
            CLI_GAPS_OPTION("charge"),
            {.name = "--name",
             .argument = "NAME",
             .help = "Name of the trace. Default: the first file's, without its ending."},
            {.name = "--json", .help = "Prints what was imported as one line of JSON."},
        },
    .operand_min = 1,
    .operand_max = CLI_OPERANDS_MAX,
    .run = run_nsys,
};

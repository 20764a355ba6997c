/// `dynmo import kineto`, `import nsys` and `import csv`: profiles and load traces, into a store.
#include "base/arena.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/option_values.h"
#include "cli/version.h"
#include "traces/import/csv.h"
#include "traces/import/import_kineto.h"
#include "traces/store/catalog.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/// Above this, what replays say of the run is not what the run was.
static const double ERROR_RATIO_MAX = 0.05;

static int64_t replayed_ns(const trace_replay *replay, bool keeps_gaps)
{
    return keeps_gaps ? replay->replayed_ns : replay->compute_ns;
}

static double replay_error(const trace_replay *replay, bool keeps_gaps)
{
    if (replay->recorded_ns <= 0) return 0;
    return (double)replayed_ns(replay, keeps_gaps) / (double)replay->recorded_ns - 1;
}

/// What most of the time went to that the replay lacks, or that it has twice.
static const char *main_cause(const trace_replay *replay, bool keeps_gaps)
{
    int most = 0;
    int64_t most_ns = -1;
    for (int gap = 0; gap < TRACE_GAP_COUNT; gap++) {
        const int64_t ns = (keeps_gaps ? 0 : replay->charged_ns[gap]) + replay->outside_ns[gap];
        if (gap == TRACE_GAP_WAITING || ns <= most_ns) continue; // the replay waits as well
        most = gap;
        most_ns = ns;
    }
    return trace_gap_names[most];
}

/// Words as a key of JSON.
static void put_gap(json_writer *writer, trace_gap gap, int64_t ns)
{
    char key[48];
    snprintf(key, sizeof key, "%s", trace_gap_names[gap]);
    for (char *at = key; *at != '\0'; at++) {
        if (*at == ' ') *at = '_';
    }
    json_put_int64(writer, key, ns);
}

static void write_replay_json(json_writer *writer, const trace_replay *replay, bool keeps_gaps)
{
    json_begin_object(writer);
    json_put_int64(writer, "recorded_ns", replay->recorded_ns);
    json_put_int64(writer, "replayed_ns", replayed_ns(replay, keeps_gaps));
    json_put_double(writer, "error_ratio", replay_error(replay, keeps_gaps));
    json_put_int64(writer, "compute_ns", replay->compute_ns);
    json_put_int64(writer, "ranks_ns", replay->rank_ns);
    for (int part = 0; part < 2; part++) {
        const int64_t *gaps = part == 0 ? replay->charged_ns : replay->outside_ns;
        json_put_object(writer, part == 0 ? "charged_ns" : "outside_ops_ns");
        for (int gap = 0; gap < TRACE_GAP_COUNT; gap++) {
            if (gaps[gap] > 0) put_gap(writer, (trace_gap)gap, gaps[gap]);
        }
        json_end_object(writer);
    }
    json_end_object(writer);
}

static void write_gaps(const trace_replay *replay, const int64_t *gaps, const char *where,
                       text_buffer *out)
{
    bool is_first = true;
    for (int gap = 0; gap < TRACE_GAP_COUNT; gap++) {
        if (gaps[gap] == 0) continue;
        text_format(out, "%s %s %s (%.1f %%)", is_first ? where : ",", trace_gap_names[gap],
                    text_duration(gaps[gap]).text,
                    100.0 * (double)gaps[gap] / (double)replay->rank_ns);
        is_first = false;
    }
    if (!is_first) text_append(out, "\n");
}

/// What was recorded beside its replay, and where the time went that is no compute. Nothing where
/// nothing was recorded of a timeline.
static void write_replay(const trace_replay *replay, bool keeps_gaps, text_buffer *out)
{
    const double error_ratio = replay_error(replay, keeps_gaps);
    if (replay->recorded_ns == 0) return;
    text_format(out, "replay: %s, recorded %s: error %+.1f %%; compute alone %s\n",
                text_duration(replayed_ns(replay, keeps_gaps)).text,
                text_duration(replay->recorded_ns).text, 100 * error_ratio,
                text_duration(replay->compute_ns).text);
    write_gaps(replay, replay->charged_ns,
               keeps_gaps ? "charged to ops:" : "left out of ops:", out);
    write_gaps(replay, replay->outside_ns, keeps_gaps ? "outside ops:" : "left out:", out);
    if (error_ratio >= -ERROR_RATIO_MAX && error_ratio <= ERROR_RATIO_MAX) return;
    text_format(out, "warning: the replay is %+.1f %% off what was recorded, most by %s%s\n",
                100 * error_ratio, main_cause(replay, keeps_gaps),
                keeps_gaps ? "" : " (--gaps charge keeps it)");
}

static status read_gaps(const cli_arguments *arguments, trace_gaps *gaps, error_message *err)
{
    const char *text = cli_value(arguments, "--gaps");
    if (text == NULL) return STATUS_OK;
    *gaps = strcmp(text, "charge") == 0 ? TRACE_GAPS_CHARGE : TRACE_GAPS_LEAVE;
    if (*gaps == TRACE_GAPS_CHARGE || strcmp(text, "leave") == 0) return STATUS_OK;
    return error_set(err, STATUS_INVALID, "--gaps: '%.40s' is neither charge nor leave", text);
}

/// The options that all three commands have. Without --name the trace is called as the first file.
///
/// @param endings of file names that the name of a trace goes without; NULL ends them
static status read_options(const cli_arguments *arguments, const char *const *endings,
                           char name[CLI_TRACE_NAME_BYTES], trace_info *info, error_message *err)
{
    int ending_count = 0;
    while (endings[ending_count] != NULL) {
        ending_count++;
    }
    *info = trace_info_default();
    TRY(cli_require(arguments, "--output", err));
    cli_trace_name(cli_operand(arguments, 0), endings, ending_count, name);
    info->name = cli_value_or(arguments, "--name", name);
    info->tool_version = DYNMO_VERSION;
    TRY(cli_double(arguments, "--backward-split", 0, 1, &info->backward_split, err));
    return read_gaps(arguments, &info->gaps, err);
}

static const char unsplit[] =
    "B and W were not told apart; schedules that split the backward need --backward-split\n";

/// How B and W are known, as a word of JSON.
static const char *split_word(const trace_info *info)
{
    return info->split == TRACE_MEASURED  ? "measured"
           : info->split == TRACE_ASSUMED ? "assumed"
                                          : "none";
}

static const char *naming_words(trace_naming naming)
{
    static const char *const words[TRACE_NAMING_COUNT] = {[TRACE_NAMED_BY_MAP] = "phase map",
                                                          [TRACE_NAMED_BY_DYNMO] = "dynmo",
                                                          [TRACE_NAMED_BY_PIPELINE] =
                                                              "torch.distributed.pipelining",
                                                          [TRACE_NAMED_BY_GPIPE] = "ScheduleGPipe",
                                                          [TRACE_NAMED_BY_STRUCTURE] = "structure"};
    return words[naming];
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
    json_put_int64(writer, "attributed", ops->loads + ops->others);
    json_put_int64(writer, "attributed_to_layers", ops->loads);
    json_put_int64(writer, "outside_windows", ops->outside);
    json_put_int64(writer, "without_launch", ops->without_launch);
    json_put_int64(writer, "linked_backwards", recording->linked_count);
    json_put_bool(writer, "has_backward", recording->has_backward);
    if (recording->loss_count > 0) json_put_string(writer, "lost_events", recording->loss);
    json_put_int64(writer, "clock_offset_ns", import->alignment.offset_ns[rank]);
    json_put_optional(writer, "clock_residual_ns", import->alignment.residual_ns[rank]);
    json_end_object(writer);
}

static void write_json(const trace_import *import, const trace_info *info, bool keeps_gaps,
                       text_buffer *out)
{
    json_writer writer = json_line_begin(out);
    json_put_string(&writer, "trace", info->name);
    json_put_string(&writer, "names", naming_words(import->recordings[0].naming));
    json_put_int64(&writer, "layers", import->layer_count);
    json_put_int64(&writer, "microbatches", import->microbatch_count);
    json_put_int64(&writer, "iterations", import->iteration_count);
    json_put_int64(&writer, "first_iteration", import->first_iteration);
    json_put_int64(&writer, "last_iteration", import->last_iteration);
    json_put_string(&writer, "backward_split", split_word(info));
    json_put_int64(&writer, "clock_contradiction_ns", import->alignment.contradiction_ns);
    json_put_array(&writer, "ranks");
    for (int rank = 0; rank < import->rank_count; rank++) {
        write_rank_json(&writer, import, rank);
    }
    json_end_array(&writer);
    json_write_key(&writer, "replay");
    write_replay_json(&writer, &import->replay, keeps_gaps);
    json_line_end(&writer);
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
        text_format(out, "rank %d: %" PRId64 " malformed events were passed over\n",
                    recording->rank, recording->malformed_count);
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
    const bool has_ends = info->embedding || info->head;
    if (trace_naming_is_pipeline(first->naming) && import->layer_count > 2 && !has_ends) {
        text_append(out, "assumed: no stage is the embedding or the head alone (--embedding, "
                         "--head); exports count each as a block\n");
    }
    if (info->embedding) text_append(out, "layer 0 is the embedding, as given\n");
    if (info->head) {
        text_format(out, "layer %d is the head, as given\n", import->layer_count - 1);
    }
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
        text_append(out, unsplit);
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
        text_format(out, "clock of rank %d: %s added, residual %s%s\n",
                    import->recordings[rank].rank, text_duration(alignment->offset_ns[rank]).text,
                    alignment->residual_ns[rank] < 0 ? "unknown: no messages both ways" : "+- ",
                    alignment->residual_ns[rank] < 0
                        ? ""
                        : text_duration(alignment->residual_ns[rank]).text);
    }
    if (alignment->contradiction_ns > 0) {
        text_format(out, "clocks: messages contradict each other by %s (drift)\n",
                    text_duration(alignment->contradiction_ns).text);
    }
}

static void write_words(const trace_import *import, const trace_info *info, const char *path,
                        bool keeps_gaps, text_buffer *out)
{
    text_format(out, "trace '%s' in %s: %s, %s, %s (%d to %d), %s; names of %s\n", info->name, path,
                text_count(import->layer_count, "layer").text,
                text_count(import->microbatch_count, "microbatch").text,
                text_count(import->iteration_count, "iteration").text, import->first_iteration,
                import->last_iteration, text_count(import->rank_count, "rank").text,
                naming_words(import->recordings[0].naming));
    for (int rank = 0; rank < import->rank_count; rank++) {
        write_rank_words(import, rank, out);
    }
    write_assumptions(import, info, out);
    write_clocks(import, out);
    write_replay(&import->replay, keeps_gaps, out);
}

static status read_files(const cli_arguments *arguments, const trace_phase_map *map,
                         trace_profiler profiler, arena *memory, trace_import *import,
                         error_message *err)
{
    const int count = cli_operand_count(arguments);
    trace_profile_source *sources = arena_array(memory, (size_t)count, sizeof *sources);
    for (int file = 0; file < count; file++) {
        sources[file] =
            (trace_profile_source){.path = cli_operand(arguments, file), .map = map, .rank = file};
    }
    return trace_import_read(sources, count, profiler, memory, import, err);
}

/// What fails later leaves nothing in the store.
static status open_output(const cli_arguments *arguments, arena *memory, trace_store **store,
                          error_message *err)
{
    return trace_store_open_within(cli_value(arguments, "--output"), TRACE_WRITE, memory, store,
                                   err);
}

static status run_profile(const cli_arguments *arguments, const char *const *endings,
                          trace_profiler profiler, arena *memory, text_buffer *out,
                          error_message *err)
{
    char name[CLI_TRACE_NAME_BYTES];
    trace_info info;
    trace_phase_map *map = NULL;
    trace_import import;
    trace_store *store = NULL;
    int64_t trace_id = 0;
    TRY(read_options(arguments, endings, name, &info, err));
    const bool keeps_gaps = info.gaps != TRACE_GAPS_LEAVE;
    if (cli_has(arguments, "--phase-map")) {
        TRY(trace_phase_map_open(cli_value(arguments, "--phase-map"), memory, &map, err));
    }
    info.embedding = cli_has(arguments, "--embedding");
    info.head = cli_has(arguments, "--head");
    TRY(read_files(arguments, map, profiler, memory, &import, err));
    TRY(open_output(arguments, memory, &store, err));
    TRY(trace_import_write(&import, &info, store, &trace_id, err));
    TRY(trace_by_id(store, trace_id, memory, &info, err));
    if (cli_has(arguments, "--json")) {
        write_json(&import, &info, keeps_gaps, out);
    } else {
        write_words(&import, &info, trace_store_path(store), keeps_gaps, out);
    }
    return STATUS_OK;
}

static status run_kineto(const cli_arguments *arguments, arena *memory, text_buffer *out,
                         error_message *err)
{
    static const char *const endings[] = {".gz", ".json", ".trace", ".pt", NULL};
    return run_profile(arguments, endings, TRACE_PROFILER_KINETO, memory, out, err);
}

static status run_nsys(const cli_arguments *arguments, arena *memory, text_buffer *out,
                       error_message *err)
{
    static const char *const endings[] = {".sqlite", ".db", ".sqlite3", ".nsys-rep", NULL};
    return run_profile(arguments, endings, TRACE_PROFILER_NSYS, memory, out, err);
}

static status read_file(trace_csv *csv, const char *path, error_message *err)
{
    trace_stream *stream = NULL;
    TRY(trace_stream_open(path, &stream, err));
    const status result = trace_csv_read(csv, stream, err);
    trace_stream_close(stream);
    return result;
}

static status add_csv(const cli_arguments *arguments, trace_store *store, const trace_info *info,
                      int64_t *trace_id, trace_replay *replay, error_message *err)
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
    return trace_csv_finish(csv, trace_id, replay, err);
}

static void write_csv_json(const trace_info *info, const trace_replay *replay, bool charges,
                           text_buffer *out)
{
    json_writer writer = json_line_begin(out);
    json_put_string(&writer, "trace", info->name);
    json_put_int64(&writer, "trace_id", info->trace_id);
    json_put_int64(&writer, "layers", info->layer_count);
    json_put_int64(&writer, "microbatches", info->microbatch_count);
    json_put_int64(&writer, "sampled_iterations", info->iteration_count);
    json_put_int64(&writer, "first_iteration", info->first_iteration);
    json_put_int64(&writer, "last_iteration", info->last_iteration);
    json_put_string(&writer, "backward_split", split_word(info));
    if (replay->recorded_ns > 0) {
        json_write_key(&writer, "replay");
        write_replay_json(&writer, replay, charges);
    }
    json_line_end(&writer);
}

static void write_csv_words(const trace_info *info, const char *path, text_buffer *out)
{
    text_format(out, "trace '%s' in %s: %s", info->name, path,
                text_count(info->layer_count, "layer").text);
    if (info->microbatch_columns > 1) {
        text_format(out, " x %d microbatches", info->microbatch_columns);
    }
    text_format(out, ", %s from %" PRId64 " to %" PRId64 "\n",
                text_count(info->iteration_count, "sampled iteration").text, info->first_iteration,
                info->last_iteration);
    if (info->split == TRACE_UNKNOWN) text_append(out, unsplit);
}

static status run_csv(const cli_arguments *arguments, arena *memory, text_buffer *out,
                      error_message *err)
{
    static const char *const endings[] = {".gz", ".csv", NULL};
    char name[CLI_TRACE_NAME_BYTES];
    trace_info info;
    trace_store *store = NULL;
    int64_t trace_id = 0;
    trace_replay replay;
    TRY(read_options(arguments, endings, name, &info, err));
    const bool charges = info.gaps == TRACE_GAPS_CHARGE;
    TRY(open_output(arguments, memory, &store, err));
    TRY(add_csv(arguments, store, &info, &trace_id, &replay, err));
    TRY(trace_by_id(store, trace_id, memory, &info, err));
    if (cli_has(arguments, "--json")) {
        write_csv_json(&info, &replay, charges, out);
    } else {
        write_csv_words(&info, trace_store_path(store), out);
        write_replay(&replay, charges, out);
    }
    return STATUS_OK;
}

/// Options of all three commands. @param if_default of --gaps, as a help line names it
#define IMPORT_OPTIONS(if_default)                                                                 \
    {"--output", "TRACE.db", .is_output = true, .letter = 'o', .help = "The store. Needed."},      \
        {"--backward-split", "X",                                                                  \
         .help = "Share of a full backward (BW) that replays take for the input gradient, "        \
                 "between 0 and 1. Default: a full backward stays one."},                          \
        {"--gaps", "charge|leave",                                                                 \
         .help =                                                                                   \
             "What becomes of time in which the device stood still or only communicated: "         \
             "charged to the op in which it fell, or left out of all. Default: " if_default "."},  \
        {"--name", "NAME",                                                                         \
         .help = "Name of the trace. Default: the first file's, without its endings."},            \
    {                                                                                              \
        "--json", .help = "Prints what was imported as one line of JSON."                          \
    }

#define PROFILE_OPTIONS                                                                            \
    {"--phase-map", "FILE.json",                                                                   \
     .help = "Which annotations are which layer and phase, and which kernels communicate."},       \
        {"--embedding", .help = "The first layer, or stage of the pipeline, is the embedding."},   \
    {                                                                                              \
        "--head", .help = "The last layer, or stage of the pipeline, is the LM head."              \
    }

const cli_command cli_command_import_kineto = {
    .name = "import kineto",
    .synopsis = "FILE[.gz]... -o TRACE.db [--phase-map FILE.json] [--embedding] [--head] "
                "[--backward-split X] [--gaps charge|leave] [--name NAME] [--json]",
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
        "it fell (--gaps), and the import ends with the replay of what was recorded beside the "
        "record.\n\n"
        "Clocks of several ranks are aligned by their messages. Without device activity, CPU "
        "operators are counted. Malformed input leaves nothing in the store.",
    .options = {PROFILE_OPTIONS, IMPORT_OPTIONS("charge")},
    .operand_min = 1,
    .operand_max = CLI_OPERANDS_MAX,
    .run = run_kineto,
};

const cli_command cli_command_import_nsys = {
    .name = "import nsys",
    .synopsis = "FILE.sqlite... -o TRACE.db [--phase-map FILE.json] [--embedding] [--head] "
                "[--backward-split X] [--gaps charge|leave] [--name NAME] [--json]",
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
    .options = {PROFILE_OPTIONS, IMPORT_OPTIONS("charge")},
    .operand_min = 1,
    .operand_max = CLI_OPERANDS_MAX,
    .run = run_nsys,
};

const cli_command cli_command_import_csv = {
    .name = "import csv",
    .synopsis = "FILE[.gz]... -o TRACE.db [--name NAME] [--backward-split X] [--gaps charge|leave] "
                "[--json]",
    .summary = "imports a load trace in the native CSV format",
    .description =
        "Adds one trace, read from one or more files in the format dynmo-trace/1 (plain or gzip, - "
        "is standard input), to a store, which is made where it does not exist. Several files are "
        "parts of one trace: of its ranks, or one after another in time. A file that is malformed "
        "leaves nothing in the store. Where rows say rank, start and span, the import ends with "
        "the replay of its first 64 iterations beside what was recorded."
        "\n\n"
        "The format: a line '# dynmo-trace/1'; lines '# key=value', of which source, device, "
        "embedding, head, tokens_per_microbatch and microbatches mean something; a row that names "
        "the columns, in any order; then a row per iteration, microbatch, layer and phase. Needed "
        "are the columns iteration, layer, phase (F; B, input gradient; W, weight gradient; BW, "
        "both; R, recompute) and busy_ns. Others are microbatch (without it a row is the mean over "
        "them), rank, start_ns, span_ns, communication_ns, activation_bytes, parameters and "
        "message_bytes. Cells are whole numbers, or empty: not recorded.",
    .options = {IMPORT_OPTIONS("leave, as busy_ns is what its writer measured")},
    .operand_min = 1,
    .operand_max = CLI_OPERANDS_MAX,
    .run = run_csv,
};

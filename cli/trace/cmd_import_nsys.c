/// `dynmo import nsys`: exports of Nsight Systems, into a store.
#include "base/arena.h"
#include "cli/commands.h"
#include "cli/trace/import_report.h"

#include <stdlib.h>

static status read_files(const cli_arguments *arguments, const trace_phase_map *map,
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

static status run(const cli_arguments *arguments, error_message *err)
{
    static const char *const endings[] = {".sqlite", ".db", ".sqlite3", ".nsys-rep"};
    return cli_run_importer(arguments, read_files, endings, 4, err);
}

const cli_command cli_command_import_nsys = {
    .name = "import nsys",
    .synopsis = "FILE.sqlite... -o TRACE.db [--phase-map FILE.json] [--backward-split X] "
                "[--name NAME] [--json]",
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
            {.name = "--name",
             .argument = "NAME",
             .help = "Name of the trace. Default: the first file's, without its ending."},
            {.name = "--json", .help = "Prints what was imported as one line of JSON."},
        },
    .operand_min = 1,
    .operand_max = CLI_OPERANDS_MAX,
    .run = run,
};

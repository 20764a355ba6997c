/// `dynmo import kineto`: traces of the PyTorch profiler, into a store.
#include "base/arena.h"
#include "cli/commands.h"
#include "cli/trace/import_report.h"

#include <stdlib.h>

static status read_files(const cli_arguments *arguments, const trace_phase_map *map,
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

static status run(const cli_arguments *arguments, error_message *err)
{
    static const char *const endings[] = {".gz", ".json", ".trace", ".pt"};
    return cli_run_importer(arguments, read_files, endings, 4, err);
}

const cli_command cli_command_import_kineto = {
    .name = "import kineto",
    .synopsis = "FILE[.gz]... -o TRACE.db [--phase-map FILE.json] [--backward-split X] "
                "[--name NAME] [--json]",
    .summary = "imports traces of the PyTorch profiler",
    .description =
        "Reads Chrome traces as torch.profiler exports them (plain or gzip), one file per rank of "
        "one pipeline, of any size, and adds one trace with loads and timeline to a store. Kernels "
        "are counted for the annotation in which they were launched, by any thread.\n\n"
        "It knows the names of torch.distributed.pipelining (PP:<stage><F|I|W|B><microbatch>; "
        "Forward <microbatch>), for which a layer is a stage, those of dynmo's recorder, and "
        "ProfilerStep#<n> as iterations. Other names are said by a phase map.\n\n"
        "Clocks of several ranks are aligned by their messages. Without device activity, CPU "
        "operators are counted. Malformed input leaves nothing in the store.",
    .options =
        {
            {.name = "--output",
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
            {.name = "--name",
             .argument = "NAME",
             .help = "Name of the trace. Default: the first file's, without its endings."},
            {.name = "--json", .help = "Prints what was imported as one line of JSON."},
        },
    .operand_min = 1,
    .operand_max = CLI_OPERANDS_MAX,
    .run = run,
};

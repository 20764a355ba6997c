/// `dynmo export megatron`: the split of a plan as options of Megatron-LM.
#include "cli/commands.h"

#include "analysis/export/export_megatron.h"
#include "cli/export/exported_plan.h"

static status write(const cli_arguments *arguments, arena *memory, text_buffer *out,
                    error_message *err)
{
    const char *path = cli_operand(arguments, 0);
    bal_plan plan;
    ana_megatron_layout layout;
    TRY(cli_exported_plan_read(path, memory, &plan, err));
    const status made = ana_megatron_layout_of(&plan, memory, &layout, err);
    if (made != STATUS_OK) return error_prefix(err, made, "%s", path);
    if (!cli_has(arguments, "--json")) {
        ana_export_megatron(&plan, &layout, out);
        return STATUS_OK;
    }
    json_writer writer = json_writer_init(out);
    ana_export_megatron_json(&plan, &layout, &writer);
    text_append(out, "\n");
    return STATUS_OK;
}

static status run(const cli_arguments *arguments, error_message *err)
{
    return cli_run_exporter(arguments, write, err);
}

const cli_command cli_command_export_megatron = {
    .name = "export megatron",
    .synopsis = "PLAN.json [--json] [-o FILE]",
    .summary = "writes the split of a plan as options of Megatron-LM",
    .description =
        "Writes --num-layers, --pipeline-model-parallel-size and --pipeline-model-parallel-layout "
        "(Megatron core since 0.13) as an array of bash, ready to be sourced: E is the embedding, "
        "t*<n> are n transformer layers, L is the loss, | stands between stages, which are in "
        "model order. With several chunks per rank the number of parts tells Megatron how many.\n\n"
        "Megatron runs 1f1b, with chunks interleaved-1f1b, whatever the plan's schedule, and the "
        "file says so. It places chunks interleaved: a plan with placement v is refused. Where the "
        "stages between the first and the last are equal, the options of older releases stand in a "
        "comment.",
    .options =
        {
            {.name = "--json",
             .help = "Writes an object with the names of Megatron's configuration instead, for "
                     "Megatron Bridge and NeMo."},
            {.name = "--output",
             .letter = 'o',
             .argument = "FILE",
             .help = "Where to write. Default: standard output."},
        },
    .operand_min = 1,
    .operand_max = 1,
    .run = run,
};

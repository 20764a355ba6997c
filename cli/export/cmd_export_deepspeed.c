/// `dynmo export deepspeed`: the split of a plan as a PipelineModule of DeepSpeed.
#include "cli/commands.h"

#include "analysis/export/export_deepspeed.h"
#include "cli/export/exported_plan.h"

enum { SPECS_MAX = 1 << 20 };

static status write(const cli_arguments *arguments, arena *memory, text_buffer *out,
                    error_message *err)
{
    const char *path = cli_operand(arguments, 0);
    int before = 0;
    int behind = 0;
    bal_plan plan;
    ana_deepspeed_parts parts;
    TRY(cli_int(arguments, "--specs-before", 0, SPECS_MAX, 0, &before, err));
    TRY(cli_int(arguments, "--specs-behind", 0, SPECS_MAX, 0, &behind, err));
    TRY(cli_exported_plan_read(path, memory, &plan, err));
    const status made = ana_deepspeed_parts_of(&plan, before, behind, memory, &parts, err);
    if (made != STATUS_OK) return error_prefix(err, made, "%s", path);
    if (!cli_has(arguments, "--json")) {
        ana_export_deepspeed(&plan, &parts, out);
        return STATUS_OK;
    }
    json_writer writer = json_writer_init(out);
    ana_export_deepspeed_json(&parts, &writer);
    text_append(out, "\n");
    return STATUS_OK;
}

static status run(const cli_arguments *arguments, error_message *err)
{
    return cli_run_exporter(arguments, write, err);
}

const cli_command cli_command_export_deepspeed = {
    .name = "export deepspeed",
    .synopsis = "PLAN.json [--specs-before N] [--specs-behind N] [--json] [-o FILE.py]",
    .summary = "writes the split of a plan as a PipelineModule of DeepSpeed",
    .description =
        "Writes a subclass of deepspeed.pipe.PipelineModule with the plan's stages, since "
        "DeepSpeed "
        "has no option for given bounds: import it in place of PipelineModule. It refuses a list "
        "of other length than the plan's.\n\n"
        "DeepSpeed counts every LayerSpec, also those that are no transformer layer. If the list "
        "begins or ends with some that are no layer of the plan (an embedding that the plan does "
        "not count, a norm, a lambda), say how many.\n\n"
        "DeepSpeed runs 1f1b with one stage per rank: a plan with several chunks per rank, or with "
        "a stage that has nothing, is refused.",
    .options =
        {
            {.name = "--specs-before",
             .argument = "N",
             .help = "LayerSpecs in front of the plan's first layer; they go to stage 0. "
                     "Default: 0."},
            {.name = "--specs-behind",
             .argument = "N",
             .help = "LayerSpecs behind the plan's last layer; they go to the last stage. "
                     "Default: 0."},
            {.name = "--json", .help = "Writes {\"num_stages\":P,\"parts\":[P+1]} instead."},
            {.name = "--output",
             .letter = 'o',
             .argument = "FILE",
             .help = "Where to write. Default: standard output."},
        },
    .operand_min = 1,
    .operand_max = 1,
    .run = run,
};

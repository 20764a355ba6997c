/// `dynmo export pytorch`: the order of the ops, as torch.distributed.pipelining loads it.
#include "cli/commands.h"

#include "analysis/export/export_pytorch.h"
#include "cli/export/exported_plan.h"

static status write(const cli_arguments *arguments, arena *memory, text_buffer *out,
                    error_message *err)
{
    bal_schedule schedule;
    TRY(cli_exported_order_read(cli_operand(arguments, 0), cli_value(arguments, "--costs"), memory,
                                &schedule, err));
    return ana_export_pytorch(&schedule, out, err);
}

static status run(const cli_arguments *arguments, error_message *err)
{
    return cli_run_exporter(arguments, write, err);
}

const cli_command cli_command_export_pytorch = {
    .name = "export pytorch",
    .synopsis = "PLAN.json|ORDER [--costs FILE] [-o SCHEDULE.csv]",
    .summary = "writes the order of the ops as a schedule of PyTorch's pipelining",
    .description =
        "Writes the CSV that torch.distributed.pipelining loads into a _PipelineScheduleRuntime "
        "(format compute_only) and that torchtitan takes as pipeline_parallel_schedule_csv: a row "
        "per rank, a cell per op, as 0F3: the stage in model order, F, I (input gradient), W "
        "(weight gradient) or B (both), and the microbatch; overlapped pairs as "
        "(0F7;7B3)OVERLAP_F_B. The letters are those of current releases; old ones called I B, and "
        "B BW. Messages, sharding and the reduction of gradients are added by PyTorch.\n\n"
        "Reads a plan, or an order alone: what `dynmo schedule --json` prints, or anything else "
        "that `dynmo schedule --order` plays.",
    .options =
        {
            {.name = "--costs",
             .argument = "FILE",
             .help = "Costs as of `dynmo schedule`, for a plan with a searched schedule and no "
                     "order."},
            {.name = "--output",
             .letter = 'o',
             .argument = "FILE",
             .help = "Where to write. Default: standard output."},
        },
    .operand_min = 1,
    .operand_max = 1,
    .run = run,
};

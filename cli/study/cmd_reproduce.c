/// `dynmo reproduce`: the DynMo paper's experiments, published beside simulated.
#include "cli/commands.h"
#include "cli/progress.h"

#include "analysis/paper/reproduction.h"

static status reproduce(const cli_arguments *arguments, arena *memory, text_buffer *out,
                        error_message *err)
{
    ana_reproduction reproduction;
    TRY(ana_reproduction_open(cli_operands(arguments), cli_operand_count(arguments), memory,
                              &reproduction, err));
    cli_progress progress = cli_progress_begin("experiments", reproduction.experiment_count);
    const status played =
        ana_reproduction_play(&reproduction, cli_progress_step, &progress, memory, err);
    cli_progress_end(&progress);
    TRY(played);
    (cli_has(arguments, "--json") ? ana_reproduction_write : ana_reproduction_print)(&reproduction,
                                                                                     out);
    return STATUS_OK;
}

const cli_command cli_command_reproduce = {
    .name = "reproduce",
    .synopsis = "[EXPERIMENT...] [--json]",
    .summary = "plays the DynMo paper's experiments, published beside simulated",
    .description =
        "Plays the experiments of the DynMo paper (SC'25, arXiv 2505.14864) as studies, and prints "
        "every number that the paper publishes beside the simulated one. Without EXPERIMENT all of "
        "them: moe, mod, pruning, freezing, sparse-attention, early-exit, table1, repack, kernels, "
        "weak-scaling, network-delay, overhead, and lengths, which is of other papers. Each is one "
        "or more of the studies in models/studies/paper, which `dynmo simulate` plays as well; "
        "inputs and their sources stand below each table. Where loads change in every iteration, "
        "fewer iterations than the paper's are played."
        "\n\n"
        "agreement says what a number rests on. predicted: no input depends on the published "
        "number. consistent: it is an identity of the inputs, or of inputs that were chosen to "
        "show what is possible. calibrated: the row is the calibration. unreachable: no contiguous "
        "plan and no schedule gets there over the ranges that were played; the proven bound is "
        "shown. outcome says whether the published number lies between low and high, the extremes "
        "over seeds and over the ranges of inputs that the paper leaves open: agrees, disagrees, "
        "or open where nothing was published or played."
        "\n\n"
        "--json prints one array with an object per row: experiment, quantity, published, "
        "simulated, low, high, bound, agreement, outcome, baseline, note. A number that is not "
        "known is null.",
    .options =
        {
            {"--json", .help = "Prints one line of JSON."},
        },
    .operand_min = 0,
    .operand_max = CLI_OPERANDS_MAX,
    .run = reproduce,
};

/// `dynmo validate`: predictions beside runs that were measured.
#include "cli/commands.h"
#include "cli/shard_choice.h"

#include "analysis/calibration/measured_runs.h"
#include "analysis/validate/validate.h"
#include "analysis/whatif/draws.h"

enum { DRAWS_DEFAULT = 64 };

/// What predictions learn from, which gives the bars, too.
static status choose_learning(const cli_arguments *arguments, const table *from, arena *memory,
                              ana_validation_settings *settings, error_message *err)
{
    static const char *const excluded[] = {"--draws", "--calibration"};
    const bool is_fit = cli_has(arguments, "--fit");
    const char *option = is_fit ? "--fit" : "--calibration";
    const char *path = cli_value(arguments, "--calibration");
    const char *other = cli_first_given(arguments, excluded, is_fit ? 2 : 1);
    int *rows = NULL;
    if (!is_fit && path == NULL) return STATUS_OK;
    if (other != NULL) {
        return error_set(err, STATUS_INVALID,
                         "%s: bars are those of what the runs teach: without %s", option, other);
    }
    settings->draw_count = 0;
    if (is_fit) {
        TRY(ana_rows_matching("--fit", cli_value(arguments, "--fit"), from, memory, &rows,
                              &settings->fit_count, err));
        settings->fit_rows = rows;
        return STATUS_OK;
    }
    ana_correction *opened = arena_array(memory, 1, sizeof *opened);
    settings->calibration = opened;
    const char *constants = arena_format(memory, "hardware=" ANA_REAL_HARDWARE_DEFAULT ",%s",
                                         cli_value_or(arguments, "--set", ""));
    return ana_correction_open(path, cli_value_or(arguments, "--columns", ""), constants, memory,
                               opened, err);
}

/// @return STATUS_INVALID where no row could be modelled, with the reason of the first
static status check_predicted(const ana_validation *validation, error_message *err)
{
    const ana_validation_summary *summary = &validation->summary;
    const int count = validation->runs->source.row_count;
    for (int row = 0; summary->row_count == 0 && row < count; row++) {
        if (!validation->rows[row].is_refused) continue;
        return error_set(err, STATUS_INVALID, "%s: none of its runs could be modelled; line %d: %s",
                         validation->runs->source.path, validation->runs->source.lines[row],
                         validation->rows[row].message);
    }
    return STATUS_OK;
}

static status answer(const cli_arguments *arguments, arena *memory, text_buffer *out,
                     error_message *err)
{
    ana_validation_settings settings = {0};
    ana_validation validation;
    ana_explanation explanation;
    ana_real_runs runs;
    ana_spread spread = {.thread_count = ana_spread_core_count()};
    cli_progress progress;
    table from;
    TRY(cli_int(arguments, "--threads", 1, 1024, spread.thread_count, &spread.thread_count, err));
    TRY(cli_int(arguments, "--draws", 0, ANA_DRAWS_MAX, DRAWS_DEFAULT, &settings.draw_count, err));
    if (settings.draw_count > 0 && settings.draw_count < ANA_DRAWS_MIN) {
        return error_set(err, STATUS_INVALID, "--draws %d: fewer than %d have no 5 and 95 %%",
                         settings.draw_count, ANA_DRAWS_MIN);
    }
    TRY(ana_measured_table_open(cli_operand(arguments, 0), memory, &from, err));
    TRY(ana_real_runs_read(&from, cli_value_or(arguments, "--columns", ""),
                           cli_value_or(arguments, "--set", ""), memory, &runs, err));
    TRY(choose_learning(arguments, &from, memory, &settings, err));
    if (cli_has(arguments, "--explain")) TRY(ana_explain(&runs, &explanation, err));
    cli_spread_watch(&spread, "runs", &progress);
    const status result = ana_validate(&spread, &runs, &settings, memory, &validation, err);
    cli_spread_unwatch(&spread);
    TRY(result);
    TRY(check_predicted(&validation, err));
    if (cli_has(arguments, "--explain")) validation.explanation = &explanation;
    if (cli_has(arguments, "--json")) {
        ana_validation_write_json(&validation, out);
    } else {
        ana_validation_write_text(&validation, !cli_has(arguments, "--summary"), out);
    }
    return STATUS_OK;
}

const cli_command cli_command_validate = {
    .name = "validate",
    .synopsis =
        "RUNS.csv [--columns COLUMN=NAME,...] [--set COLUMN=VALUE,...] [--fit "
        "COLUMN=V,... | --calibration FILE] [--explain] [--draws N] [--summary] [--threads N] "
        "[--json]",
    .summary = "predictions beside runs that were measured: error, bars that hold, regret",
    .description =
        "Predicts every run of a table as `dynmo study` would have before it was rented, and says "
        "how far off that is: ratios of time and peak memory, whether the 90 % bar holds the "
        "measured time, and over the file errors, coverage, rank correlation and regret. Regret is "
        "what choosing the run that was predicted fastest costs, among runs of the same model, "
        "machine, precision, batch and sequence, or of the same `group`."
        "\n\n"
        "Columns, in any order, each of which may be absent or empty: model (shipped name or "
        "config.json), or layers, hidden_size, attention_heads, vocabulary, dropout of a GPT; "
        "hardware, gpus, gpus_per_node, precision, attention (fused, flash-2 or unfused), "
        "kernels (fused, eager or fused-norms), loss (fused or eager), blocking_launches, "
        "cuda_graphs, gradient_bytes, recompute (as in a study), "
        "global_batch or microbatches, microbatch, sequence, tp, pp, "
        "vp, cp, ep, etp, dp, fsdp, sharding, sequence_parallel, tensor_overlap, expert_overlap, "
        "expert_deduplication, schedule, layers_per_stage; measured_ms, measured_s or "
        "tokens_per_s_per_gpu; measured_peak_bytes; group; case, a name whose words give sizes "
        "(tp2_pp4_mbc8). Spellings of published tables are known, too. What a row leaves open "
        "takes the default that the answer states.",
    .details =
        "A GPU's name may be its first letters (GB200). Tables that are part of the program are "
        "opened by their names: automodel, bloom-2022, dgxc-2025, llm-foundry, megatron-2021, "
        "megatron-2022, megatron-bridge, mlperf, nanotron, nemo-2024, pytorch-2024, simumax-b200, "
        "torchtitan. A run that was measured did fit, so that memory refuses none; a run that "
        "cannot be modelled is refused with its reason and counted.",
    .options =
        {
            {"--columns", "COLUMN=NAME,...",
             .help = "Columns that the file calls otherwise: measured_ms=seen,tp=tensor."},
            {"--set", "COLUMN=VALUE,...",
             .help = "Values of rows that have none: hardware=a100-sxm-80gb,attention=unfused."},
            {"--fit", "COLUMN=V,...",
             .help = "Takes the rows that fulfil the conditions (as of `dynmo calibrate`) for runs "
                     "of one's own: the others are predicted with what they say of the cost "
                     "model's error, and scored."},
            {"--calibration", "FILE",
             .help = "The same with all runs of another table, which --columns, --set and the "
                     "defaults hold for, too. Runs that both have are not scored."},
            {"--draws", "N",
             .help = "Draws of what is uncertain, per run; 0: no bars. Default: 64."},
            {"--explain",
             .help = "Says which settings that the table leaves open explain its times better "
                     "than the defaults: hardware, attention, recompute, chunks, ..."},
            {"--summary", .help = "Without the rows."},
            {"--threads", "N", .help = "Threads; default: the cores that the process may use."},
            {"--json", .help = "Print JSON instead of tables; errors are fractions."},
        },
    .operand_min = 1,
    .operand_max = 1,
    .run = answer,
};

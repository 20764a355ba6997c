/// `dynmo calibrate`: the cost model fitted to measured runs.
#include "cli/commands.h"

#include "analysis/calibration/calibration.h"
#include "base/file.h"
#include "base/text.h"

enum { VOCABULARY_DEFAULT = 51200, GPUS_PER_NODE_DEFAULT = 8, COUNT_MAX = 10000000 };

/// What one call works with.
typedef struct calibrate_request {
    ana_measured_runs runs;
    int *fit_rows;
    int fit_count;
    int *predict_rows;
    int predict_count;
    double level;
    ana_calibration_settings settings;
} calibrate_request;

/// Rows that the conditions of an option choose; where it repeats, all that it says must hold.
static status choose(const cli_arguments *arguments, const char *name, const table *from,
                     arena *memory, int **rows, int *count, error_message *err)
{
    text_buffer text = {.memory = memory};
    for (int index = 0; cli_value_at(arguments, name, index) != NULL; index++) {
        text_format(&text, "%s%s", index > 0 ? "," : "", cli_value_at(arguments, name, index));
    }
    return ana_rows_matching(name, text.bytes, from, memory, rows, count, err);
}

static status read_settings(const cli_arguments *arguments, calibrate_request *request,
                            error_message *err)
{
    int vocabulary = 0;
    TRY(cli_int(arguments, "--vocabulary", 1, COUNT_MAX, VOCABULARY_DEFAULT, &vocabulary, err));
    TRY(cli_int(arguments, "--gpus-per-node", 1, COUNT_MAX, GPUS_PER_NODE_DEFAULT,
                &request->settings.gpus_per_node, err));
    request->settings.vocabulary_size = vocabulary;
    request->level = 0.9;
    return cli_double(arguments, "--level", 0.01, 0.999, &request->level, err);
}

/// What only a prediction shows needs one; so does a call that would write no file.
static status check_prediction(const cli_arguments *arguments, error_message *err)
{
    const bool is_fit_alone = cli_has(arguments, "--output") && !cli_has(arguments, "--rows") &&
                              !cli_has(arguments, "--level");
    return is_fit_alone ? STATUS_OK : cli_require(arguments, "--predict", err);
}

static status read_request(const cli_arguments *arguments, arena *memory,
                           calibrate_request *request, error_message *err)
{
    table from;
    TRY(cli_require(arguments, "--fit", err));
    TRY(check_prediction(arguments, err));
    TRY(read_settings(arguments, request, err));
    TRY(table_open(cli_operand(arguments, 0), memory, &from, err));
    TRY(ana_measured_runs_read(&from, request->settings.vocabulary_size, memory, &request->runs,
                               err));
    if (request->runs.vocabulary_is_given) request->settings.vocabulary_size = 0;
    TRY(choose(arguments, "--fit", &from, memory, &request->fit_rows, &request->fit_count, err));
    if (!cli_has(arguments, "--predict")) return STATUS_OK;
    return choose(arguments, "--predict", &from, memory, &request->predict_rows,
                  &request->predict_count, err);
}

static status answer(const cli_arguments *arguments, arena *memory, text_buffer *out,
                     error_message *err)
{
    calibrate_request request = {0};
    ana_calibration calibration;
    ana_calibration_score score;
    TRY(read_request(arguments, memory, &request, err));
    TRY(ana_calibration_try(&request.runs, request.fit_rows, request.fit_count,
                            request.predict_rows, request.predict_count, &request.settings,
                            request.level, memory, &calibration, &score, err));
    const bool with_runs = cli_has(arguments, "--rows");
    (cli_has(arguments, "--json") ? ana_calibration_write_json : ana_calibration_write_text)(
        &calibration, &score, with_runs, out);
    const char *path = cli_value(arguments, "--output");
    text_buffer file = {.memory = memory};
    if (path == NULL) return STATUS_OK;
    table_write(&request.runs.source, request.fit_rows, request.fit_count, &file);
    return file_write(path, file.bytes, file.length, err);
}

const cli_command cli_command_calibrate = {
    .name = "calibrate",
    .synopsis = "FILE.csv --fit COLUMN=V,... [--predict COLUMN=V,...] [-o FILE.csv] [OPTION]...",
    .summary = "fits the cost model to measured runs and predicts others",
    .description =
        "Fits what an iteration of a dense transformer is made of (layers, head, update, "
        "reduction, messages, and the pipeline's fill and drain) to measured iteration times, and "
        "predicts other rows with intervals. What choosing by a calibration costs `dynmo validate "
        "--calibration` says."
        "\n\n"
        "Columns, with the shorter names that may stand for them: # GPUs (gpus), global batch "
        "(gbs), micro batch (mbs), hidden size (hidden), attention heads (heads), # layers "
        "(layers), sequence length (seq), vocabulary (vocab), tensor parallelism (tp), data "
        "parallelism (dp), pipeline parallelism (pp), iteration time (ms) (time). # GPUs, "
        "attention heads and vocabulary may be absent; other columns serve for conditions only."
        "\n\n"
        "A condition is COLUMN=V; several with commas between them must all hold. Several values "
        "of one column mean either: \"pp=2,pp=4\", \"pp=2,4\" and \"pp=2|4\" are the same."
        "\n\n"
        "What no row tells is assumed in a range, which the intervals include. Where the hardware "
        "is known `dynmo validate --fit` and a study's calibration start from the cost model "
        "instead, and take any model; --output writes the fitted rows for them.",
    .options =
        {
            {"--fit", "COLUMN=V,...", .help = "Rows to fit.", .may_repeat = true},
            {"--predict", "COLUMN=V,...",
             .help = "Rows to predict. With --output it may be left out: then the fit alone is "
                     "shown and written.",
             .may_repeat = true},
            {"--level", "x", .help = "Level of the intervals, 0.01 to 0.999. Default: 0.9."},
            {"--vocabulary", "N",
             .help = "Tokens of the vocabulary where no column says it. Default: 51200."},
            {"--gpus-per-node", "N", .help = "GPUs whose links are inside a node. Default: 8."},
            {"--rows", .help = "List every predicted row with its interval."},
            {"--output", "FILE.csv", .is_output = true, .letter = 'o',
             .help = "Write the rows that were fitted, as a table."},
            {"--json", .help = "Print JSON instead of tables; errors are fractions."},
        },
    .operand_min = 1,
    .operand_max = 1,
    .run = answer,
};

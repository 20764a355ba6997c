/// `dynmo study`: plays the matrix of a what-if study and ranks its points.
#include "cli/commands.h"
#include "cli/progress.h"
#include "cli/shard_choice.h"

#include "analysis/shards/spread.h"
#include "analysis/study/study.h"
#include "analysis/whatif/certainty.h"
#include "analysis/whatif/matrix.h"
#include "analysis/whatif/result.h"
#include "analysis/whatif/whatif.h"
#include "base/file.h"
#include "base/json.h"
#include "models/cost/parallel.h"
#include "models/shipped.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    TOP_DEFAULT = 10,
    TOP_MAX = 400,
    ANSWER_POINTS_MAX = 200000,
    STUDY_BYTES_MAX = 16 << 20,
    NUMBER_BYTES = 40
};

/// A unit that may stand after a number.
typedef struct unit {
    const char *suffix;
    double factor;
} unit;

/// A number in [min, max] times the unit after it.
///
/// @param units the last is "", for numbers alone
static status read_with_unit(const char *text, const char *what, const unit *units, double min,
                             double max, double *value, error_message *err)
{
    char number[NUMBER_BYTES];
    const size_t length = strlen(text);
    size_t tail = strlen(units->suffix);
    while (length < tail || strcmp(text + length - tail, units->suffix) != 0) {
        tail = strlen((++units)->suffix);
    }
    snprintf(number, sizeof number, "%.*s", (int)(length - tail), text);
    TRY(text_parse_double(number, what, min, max, value, err));
    *value *= units->factor;
    return STATUS_OK;
}

// Where the study comes from

/// What only goes with --model: the keys of the study that is made.
static const char *const model_options[] = {
    "--gpu",          "--gpus",  "--gpus-max",        "--tokens",
    "--global-batch", "--price", "--sequence-length", "--price-date",
    "--currency"};
enum { MODEL_OPTION_COUNT = sizeof model_options / sizeof model_options[0] };

/// On which it depends what is played, beside the study.
static const char *const playing_options[] = {"--seed",     "--rank-by", "--draws",
                                              "--deadline", "--budget",  "--framework"};
enum { PLAYING_OPTION_COUNT = sizeof playing_options / sizeof playing_options[0] };

/// A study comes from one place only.
static status check_source(const cli_arguments *arguments, error_message *err)
{
    const bool has_model = cli_has(arguments, "--model");
    if (cli_operand_count(arguments) + has_model != 1) {
        return error_set(err, STATUS_INVALID,
                         "dynmo study: needs one of STUDY.json and --model CONFIG");
    }
    const char *of_model = cli_first_given(arguments, model_options, MODEL_OPTION_COUNT);
    if (!has_model && of_model != NULL) {
        return error_set(err, STATUS_INVALID,
                         "dynmo study: %s goes with --model; a study says it itself", of_model);
    }
    if (cli_operand_count(arguments) == 1 && cli_has(arguments, "--output")) {
        return error_set(err, STATUS_INVALID,
                         "dynmo study: -o is for a study that is made from --model");
    }
    return STATUS_OK;
}

/// A number of tokens, with k, M, B or T after it.
static status read_tokens(const char *text, int64_t *tokens, error_message *err)
{
    static const unit units[] = {{"k", 1e3}, {"M", 1e6}, {"B", 1e9}, {"T", 1e12}, {"", 1}};
    double number = 0;
    if (read_with_unit(text, "--tokens", units, 0, 1e18, &number, NULL) != STATUS_OK ||
        number < 1 || number > (double)JSON_INTEGER_MAX) {
        return error_set(err, STATUS_INVALID,
                         "--tokens: '%.40s' is no number of tokens from 1 to 2^53, as 300B or 1.5T",
                         text);
    }
    *tokens = (int64_t)round(number);
    return STATUS_OK;
}

/// A path that is written into a study is meant from the study's folder: it becomes absolute.
static const char *settled(const char *named, const embedded_file *shipped, arena *memory)
{
    char *absolute = embedded_find(shipped, named) == NULL ? realpath(named, NULL) : NULL;
    const char *path = absolute != NULL ? arena_string(memory, absolute) : named;
    free(absolute);
    return path; // whoever opens it says that it is not there
}

static status read_price(const cli_arguments *arguments, ana_draft_options *options,
                         error_message *err)
{
    options->price_per_gpu_hour = -1;
    options->price_date = cli_value(arguments, "--price-date");
    options->currency = cli_value_or(arguments, "--currency", "USD");
    TRY(cli_double(arguments, "--price", 0, 1e6, &options->price_per_gpu_hour, err));
    if (!cli_has(arguments, "--price") || options->price_date != NULL) return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "dynmo study: --price needs --price-date, the day on which it was asked for");
}

static status read_draft_options(const cli_arguments *arguments, arena *memory,
                                 ana_draft_options *options, error_message *err)
{
    const char *tokens = cli_value(arguments, "--tokens");
    TRY(cli_require(arguments, "--gpu", err));
    options->has_fewer = cli_has(arguments, "--gpus-max");
    if (options->has_fewer && cli_has(arguments, "--gpus")) {
        return error_set(err, STATUS_INVALID, "dynmo study: --gpus and --gpus-max: one of them");
    }
    const char *gpus = options->has_fewer ? "--gpus-max" : "--gpus";
    TRY(cli_require(arguments, gpus, err));
    options->model = settled(cli_value(arguments, "--model"), model_shipped_configs, memory);
    options->hardware = settled(cli_value(arguments, "--gpu"), model_shipped_hardware, memory);
    TRY(cli_int(arguments, gpus, 1, MODEL_STAGE_GPUS_MAX, 1, &options->gpu_count, err));
    TRY(cli_int(arguments, "--global-batch", 1, 1 << 30, 0, &options->global_batch, err));
    TRY(cli_int(arguments, "--sequence-length", 1, 1 << 24, 0, &options->sequence_length, err));
    if (tokens != NULL) TRY(read_tokens(tokens, &options->token_count, err));
    return read_price(arguments, options, err);
}

/// Reads a study that was made, so that nothing is written that cannot be played.
static status check_made(const char *path, const char *text, arena *memory, error_message *err)
{
    ana_matrix matrix;
    ana_study study;
    TRY(ana_matrix_open(path, text, memory, &matrix, err));
    return ana_study_open_text(path, matrix.base, "{}", memory, &study, err);
}

/// Says how to play it again: with the options that it does not hold.
static void tell_made(const cli_arguments *arguments, const char *path)
{
    fprintf(stderr, "dynmo: wrote %s; edit it and run `dynmo study %s", path, path);
    for (int index = 0; index < PLAYING_OPTION_COUNT; index++) {
        const char *value = cli_value(arguments, playing_options[index]);
        if (value != NULL) fprintf(stderr, " %s %s", playing_options[index], value);
    }
    fprintf(stderr, "`\n");
}

/// Writes a study that was made, for its user to edit.
static status write_made(const cli_arguments *arguments, const char *path, const text_buffer *text,
                         error_message *err)
{
    if (access(path, F_OK) == 0) {
        return error_set(err, STATUS_INVALID,
                         "%s: is there already; -o FILE writes the study elsewhere", path);
    }
    TRY(file_write(path, text->bytes, text->length, err));
    tell_made(arguments, path);
    return STATUS_OK;
}

static status make(const cli_arguments *arguments, arena *memory, const char **path,
                   const char **text, error_message *err)
{
    ana_draft_options options = {.model = NULL};
    text_buffer made = {.memory = memory};
    TRY(read_draft_options(arguments, memory, &options, err));
    TRY(ana_study_draft(&options, &made, err));
    *path = cli_value_or(arguments, "--output", "STUDY.json");
    *text = made.bytes;
    TRY(check_made(*path, *text, memory, err));
    return write_made(arguments, *path, &made, err);
}

/// The study that is named, or one that is made from --model and written.
///
/// @param path out: of the file; borrowed from arguments, or carved from memory
/// @param text out: what is in it, carved from memory
static status read_study(const cli_arguments *arguments, arena *memory, const char **path,
                         const char **text, error_message *err)
{
    char *read = NULL;
    size_t length = 0;
    TRY(check_source(arguments, err));
    *path = cli_operand(arguments, 0);
    if (*path == NULL) return make(arguments, memory, path, text, err);
    TRY(file_read(*path, STUDY_BYTES_MAX, &read, &length, err));
    arena_own(memory, read, free);
    *text = read;
    return STATUS_OK;
}

// What is asked of it

/// What there is to tell of a study.
typedef struct answered {
    ana_whatif study;
    ana_uncertainty uncertainty;
    ana_certainty certainty;
    const ana_certainty *drawn; // certainty; NULL: nothing was drawn
    int row_count;
} answered;

/// What a point may take; the question is then what it needs of the other.
static status read_limits(const cli_arguments *arguments, ana_whatif_options *options,
                          error_message *err)
{
    static const unit units[] = {
        {"min", 60e9}, {"h", 3.6e12}, {"d", 24 * 3.6e12}, {"", 24 * 3.6e12}};
    const char *deadline = cli_value(arguments, "--deadline");
    TRY(cli_double(arguments, "--budget", 0.01, 1e15, &options->budget, err));
    if (deadline == NULL) return STATUS_OK;
    if (!cli_has(arguments, "--budget")) options->objective = ANA_OBJECTIVE_GPU_HOURS;
    if (read_with_unit(deadline, "--deadline", units, 1e-6, 1e6, &options->deadline_ns, NULL) ==
        STATUS_OK) {
        return STATUS_OK;
    }
    return error_set(err, STATUS_INVALID,
                     "--deadline: '%.40s' is no time up to 10^6 days, as 90min, 20h or 3d",
                     deadline);
}

/// What study and command line say of draws.
static status read_uncertainty(const cli_arguments *arguments, const char *path, const char *text,
                               arena *memory, answered *found, error_message *err)
{
    ana_uncertainty *uncertainty = &found->uncertainty;
    json_value root;
    int64_t seed = 0;
    TRY(json_read_text(path, text, memory, &root, err));
    TRY(ana_uncertainty_read(json_member(root, "uncertainty"), uncertainty, err));
    if (cli_has(arguments, "--draws")) uncertainty->draws_are_given = true;
    TRY(cli_int(arguments, "--draws", 0, ANA_DRAWS_MAX, uncertainty->draw_count,
                &uncertainty->draw_count, err));
    TRY(cli_int64(arguments, "--seed", 0, INT64_MAX, &seed, err));
    if (cli_has(arguments, "--seed")) uncertainty->seed = (uint64_t)seed;
    const status checked = ana_uncertainty_check(uncertainty, err);
    return checked == STATUS_OK ? STATUS_OK : error_prefix(err, checked, "--draws");
}

/// Plays every point once, or those of a shard. context is the ana_whatif.
static status play_points(void *context, ana_spread *spread, error_message *err)
{
    ana_whatif *study = context;
    cli_progress progress;
    const ana_items points = {
        .count = study->item_count,
        .together = ANA_NEIGHBOURS,
        .context = study,
        .begin_worker = ana_point_worker_create,
        .run = ana_whatif_evaluate,
        .put = ana_whatif_put,
    };
    cli_spread_watch(spread, "points", &progress);
    const status result = ana_spread_run(spread, &points, err);
    cli_spread_unwatch(spread);
    return result;
}

/// Plays every point once, orders them, and draws the best.
static status find_answer(ana_spread *spread, arena *memory, answered *found, error_message *err)
{
    cli_progress progress;
    TRY(play_points(&found->study, spread, err));
    TRY(ana_whatif_finish(&found->study, err));
    if (found->uncertainty.draw_count == 0) return STATUS_OK;
    ana_uncertainty_limit(&found->uncertainty, found->study.iteration_count);
    cli_spread_watch(spread, "draws", &progress);
    const status result = ana_certainty_find(spread, &found->study, &found->uncertainty, memory,
                                             &found->certainty, err);
    cli_spread_unwatch(spread);
    found->drawn = &found->certainty;
    return result;
}

static status tell(const cli_arguments *arguments, const answered *found, text_buffer *out,
                   error_message *err)
{
    const char *path = cli_value(arguments, "--csv");
    text_buffer csv = {.memory = found->study.memory};
    if (path != NULL) {
        ana_result_write_csv(&found->study, &csv);
        TRY(file_write(path, csv.bytes, csv.length, err));
    }
    if (!cli_has(arguments, "--json")) {
        return ana_result_print(&found->study, found->drawn, found->row_count, out, err);
    }
    ana_result_write(&found->study, found->drawn, out);
    return STATUS_OK;
}

/// Keeps the answer for `dynmo report`, but of studies so large that it would be most of the store.
static status keep_answer(const answered *found, ana_kept_run *kept, error_message *err)
{
    arena *memory = found->study.memory;
    text_buffer answer = {.memory = memory};
    text_buffer printed = {.memory = memory};
    text_buffer words = {.memory = memory};
    if (kept == NULL || found->study.item_count > ANSWER_POINTS_MAX) return STATUS_OK;
    ana_result_write(&found->study, found->drawn, &answer);
    TRY(ana_result_print(&found->study, found->drawn, found->row_count, &printed, err));
    json_writer writer = json_writer_init(&words);
    json_begin_object(&writer);
    json_put_string(&writer, "text", printed.bytes);
    json_end_object(&writer);
    TRY(ana_kept_run_put_result(kept, "words", words.bytes, err));
    return ana_kept_run_put_result(kept, "study", answer.bytes, err);
}

/// Plays and answers the whole study, with results kept if a store is named.
static status answer_whole(const cli_arguments *arguments, ana_spread *spread,
                           const ana_kept_options *about, arena *memory, answered *found,
                           text_buffer *out, error_message *err)
{
    TRY(cli_keep_open(arguments, spread, about, err));
    status result = find_answer(spread, memory, found, err);
    if (result == STATUS_OK) result = keep_answer(found, spread->kept, err);
    result = cli_keep_close(spread, result, err);
    return result == STATUS_OK ? tell(arguments, found, out, err) : result;
}

/// Plays a study that is open: a shard, or the whole.
static status play_study(const cli_arguments *arguments, ana_spread *spread, arena *memory,
                         answered *found, text_buffer *out, error_message *err)
{
    text_buffer settings = {.memory = memory};
    bool is_part = false;
    text_format(&settings, "top=%d", found->row_count);
    for (int index = 0; index < PLAYING_OPTION_COUNT; index++) {
        const char *value = cli_value(arguments, playing_options[index]);
        if (value != NULL) text_format(&settings, " %s=%s", playing_options[index] + 2, value);
    }
    if (found->study.calibration != NULL) {
        text_format(&settings, " calibration=%016" PRIx64, found->study.calibration->hash);
    }
    const ana_kept_options about = {.name = found->study.title,
                                    .settings = settings.bytes,
                                    .config_json = found->study.text,
                                    .config_path = found->study.path};
    TRY(cli_shard_play(arguments, spread, &about, play_points, &found->study, memory, &is_part,
                       err));
    return is_part ? STATUS_OK : answer_whole(arguments, spread, &about, memory, found, out, err);
}

/// Options that do not go together.
static status check_options(const cli_arguments *arguments, const ana_spread *spread,
                            error_message *err)
{
    const bool has_csv = cli_has(arguments, "--csv") && cli_has(arguments, "--shard");
    const bool has_model = cli_has(arguments, "--model") && spread->shard.count > 0;
    if (!has_csv && !has_model) return STATUS_OK;
    return error_set(err, STATUS_INVALID, "a shard plays a part of a study: without %s",
                     has_csv ? "--csv" : "--model");
}

static status open_study(const cli_arguments *arguments, const char *path, const char *text,
                         arena *memory, answered *found, error_message *err)
{
    ana_whatif_options options = {.objective = ANA_OBJECTIVE_TIME};
    TRY(read_limits(arguments, &options, err));
    int objective = (int)options.objective;
    TRY(cli_choice(arguments, "--rank-by", ana_objective_names, ANA_OBJECTIVE_COUNT, objective,
                   &objective, err));
    options.objective = (ana_objective)objective;
    int framework = ANA_FRAMEWORK_ANY;
    TRY(cli_choice(arguments, "--framework", ana_framework_names, ANA_FRAMEWORK_COUNT, framework,
                   &framework, err));
    options.framework = (ana_framework)framework;
    TRY(cli_int(arguments, "--top", 1, TOP_MAX, TOP_DEFAULT, &found->row_count, err));
    TRY(read_uncertainty(arguments, path, text, memory, found, err));
    options.calibration = found->uncertainty.calibration;
    return ana_whatif_open(path, text, &options, memory, &found->study, err);
}

static status run(const cli_arguments *arguments, arena *memory, text_buffer *out,
                  error_message *err)
{
    ana_spread spread;
    answered found = {.row_count = 0};
    const char *path = NULL;
    const char *text = NULL;
    TRY(cli_spread_open(arguments, &spread, err));
    TRY(check_options(arguments, &spread, err));
    TRY(read_study(arguments, memory, &path, &text, err));
    TRY(open_study(arguments, path, text, memory, &found, err));
    return play_study(arguments, &spread, memory, &found, out, err);
}

const cli_command cli_command_study = {
    .name = "study",
    .synopsis = "STUDY.json | --model CONFIG --gpu NAME --gpus|--gpus-max N [--tokens N] "
                "[--deadline TIME] [--budget X] [--framework NAME] [--seed s] [--rank-by NAME] "
                "[--top N] [--csv FILE] "
                "[--draws N] [--threads N] [--store FILE.db [--shard i/N]] [--json]",
    .summary = "plays a matrix of what-ifs and ranks its points",
    .description =
        "Plays every point of the study's matrix and ranks them. Points of another training than "
        "the study as written are ranked apart; `*` marks the Pareto set over speed, GPU-hours, "
        "cost and memory. Points that cannot be are counted by their reason, and every input is "
        "listed with its origin."
        "\n\n"
        "The study file is that of `dynmo simulate` with axes: \"vary\":{PATH:[VALUE, ...], ...}, "
        "where PATH is that of any value of the study (\"pipeline.stages\") and a value is any "
        "JSON; \"alternatives\":{NAME:{VALUE NAME:{PATH:VALUE, ...}, ...}, ...}, an axis whose "
        "values set several paths at once, as a cluster with its GPUs, links and price. Several "
        "rows of \"balancing\" are an axis by themselves; without a row the balancer is `tuned`. "
        "\"model\" and \"hardware\" may be {\"base\":NAME, ...} with keys of the file that are "
        "then others, and so are paths: \"hardware.efficiency.gemm\". null takes a value away. "
        "Points are numbered with the last axis running fastest. `dynmo simulate --keys` lists the "
        "keys.",
    .details =
        "How sure the answer is: the best points are played again in draws of what is not known. "
        "\"uncertainty\":{\"draws\":n, \"seed\":n, \"ranges\":{PATH:[low, high], {\"log\":[low, "
        "high]} or {\"factor\":[low, high]}, ...}, \"assumed\":bool, \"model_error\":x, "
        "\"calibration\":FILE}; factor is of the value that a point has. What is assumed has a "
        "range by default unless assumed is false. model_error (0.1) is the relative standard "
        "deviation of what a cost model that is not calibrated says of a machine; shares of it are "
        "added for what a point has. A calibration is a table of measured runs, as `dynmo "
        "validate` reads it, of any model: times, ranking and bars follow from what they say of "
        "the cost model's error, in place of ranges of the hardware and of model_error. What to "
        "measure next is ranked by what it adds to the first point's error bar."
        "\n\n"
        "With --model a study is made of what somebody would try first, written to STUDY.json, "
        "which may be edited, and played.",
    .options =
        {{"--model", "CONFIG",
          .help = "Makes a study of this Hugging Face config.json or shipped model."},
         {"--gpu", "NAME",
          .help = "With --model: a hardware file or a shipped preset by its name."},
         {"--gpus", "N", .help = "With --model: GPUs that are rented."},
         {"--gpus-max", "N",
          .help = "Instead of --gpus: up to N are rented, by whole nodes; the global batch may "
                  "then differ by 5 % so that replicas divide it."},
         {"--tokens", "N", .help = "With --model: tokens of the whole training; 300B, 1.5T."},
         {"--global-batch", "N",
          .help = "With --model: sequences of an iteration; default: as many as replicas that fill "
                  "the GPUs divide, 2 to 4 million tokens."},
         {"--sequence-length", "N",
          .help = "With --model: tokens of a sequence; default what the model can take, at most "
                  "8192."},
         {"--price", "X", .help = "With --model: your price of a GPU-hour; needs --price-date."},
         {"--price-date", "DATE",
          .help = "With --price: the day on which it was asked for, 2026-11-22."},
         {"--currency", "NAME", .help = "With --price; default USD."},
         {"--output", "FILE", .is_output = true, .letter = 'o',
          .help = "Where a study that is made is written; default STUDY.json, or NAME.json of a "
                  "template. A file that is there is kept."},
         {"--draws", "N",
          .help = "Draws of what is uncertain, for error bars: 0 (none) or 20 and more; default: "
                  "the study's, else 128, and down to 64 where runs are long."},
         {"--seed", "s", .help = "Of the draws; default: the study's, else 1."},
         {"--rank-by", "NAME",
          .help = "time (default), gpu-hours or cost of the whole training, or memory of the "
                  "fullest rank."},
         {"--deadline", "TIME",
          .help = "Refuses points that train longer, failure-free: 20d, 36h, 90min. The order is "
                  "then by GPU-hours, unless --rank-by or --budget is given."},
         {"--budget", "X", .help = "Refuses points that cost more, in the study's currency."},
         {"--framework", "NAME",
          .help = "Refuses points that `dynmo export` does not write for it: megatron, "
                  "megatron-bridge, pytorch, torchtitan or deepspeed. Default: any; the answer "
                  "then says which take the best point, and the best that the others take."},
         {"--top", "N", .help = "Rows of the table; default 10."},
         {"--csv", "FILE", .is_output = true, .help = "Writes all points as CSV."},
         {"--json", .help = "Prints one line of JSON, with all points."},
         CLI_SHARD_OPTIONS},
    .operand_min = 0,
    .operand_max = 1,
    .run = run,
};

#include "cli/study/study_source.h"

#include "analysis/study/study.h"
#include "analysis/whatif/matrix.h"
#include "analysis/whatif/study_draft.h"
#include "base/file.h"
#include "base/json.h"
#include "models/cost/parallel.h"
#include "models/shipped.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STUDY_BYTES_MAX = 16 << 20 };

/// What only goes with --model: the keys of the study that is made.
static const char *const model_options[] = {
    "--gpu",          "--gpus",  "--gpus-max",        "--tokens",
    "--global-batch", "--price", "--sequence-length", "--price-date",
    "--currency"};
enum { MODEL_OPTION_COUNT = sizeof model_options / sizeof model_options[0] };

/// A study comes from one place only.
static status check_source(const cli_arguments *arguments, error_message *err)
{
    const bool has_model = cli_has(arguments, "--model");
    if (cli_operand_count(arguments) + has_model != 1) {
        return error_set(err, STATUS_INVALID,
                         "dynmo study: needs one of STUDY.json and --model CONFIG");
    }
    for (int option = 0; option < MODEL_OPTION_COUNT && !has_model; option++) {
        if (!cli_has(arguments, model_options[option])) continue;
        return error_set(err, STATUS_INVALID,
                         "dynmo study: %s goes with --model; a study says it itself",
                         model_options[option]);
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
    static const char suffixes[] = "kMBT";
    char digits[40];
    double factor = 1;
    double number = 0;
    const size_t length = strlen(text);
    const char *suffix = length > 0 ? strchr(suffixes, text[length - 1]) : NULL;
    for (int power = 0; suffix != NULL && power <= suffix - suffixes; power++) {
        factor *= 1000;
    }
    snprintf(digits, sizeof digits, "%.*s", (int)(suffix != NULL ? length - 1 : length), text);
    if (text_parse_double(digits, "--tokens", 0, 1e18, &number, NULL) != STATUS_OK ||
        number * factor < 1 || number * factor > (double)JSON_INTEGER_MAX) {
        return error_set(err, STATUS_INVALID,
                         "--tokens: '%.40s' is no number of tokens from 1 to 2^53, as 300B or 1.5T",
                         text);
    }
    *tokens = (int64_t)round(number * factor);
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
    const char *price = cli_value(arguments, "--price");
    options->price_per_gpu_hour = -1;
    options->price_date = cli_value(arguments, "--price-date");
    options->currency =
        cli_has(arguments, "--currency") ? cli_value(arguments, "--currency") : "USD";
    if (price == NULL) return STATUS_OK;
    TRY(text_parse_double(price, "--price", 0, 1e6, &options->price_per_gpu_hour, err));
    if (options->price_date != NULL) return STATUS_OK;
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
static status check_made(const char *path, const text_buffer *text, error_message *err)
{
    ana_matrix matrix;
    ana_study study;
    arena *memory = arena_create(1 << 16);
    status result = ana_matrix_open(path, text->bytes, memory, &matrix, err);
    if (result == STATUS_OK) {
        result = ana_study_open_text(path, matrix.base, memory, &study, err);
        if (result == STATUS_OK) ana_study_close(&study);
    }
    arena_destroy(memory);
    return result;
}

/// Writes a study that was made, for its user to edit.
static status write_made(const char *path, const text_buffer *text, error_message *err)
{
    if (access(path, F_OK) == 0) {
        return error_set(err, STATUS_INVALID,
                         "%s: is there already; -o FILE writes the study elsewhere", path);
    }
    TRY(file_write(path, text->bytes, text->length, err));
    fprintf(stderr, "dynmo: wrote %s; edit it and run `dynmo study %s`\n", path, path);
    return STATUS_OK;
}

static status make(const cli_arguments *arguments, arena *memory, const char **path,
                   text_buffer *text, error_message *err)
{
    ana_draft_options options = {.model = NULL};
    TRY(read_draft_options(arguments, memory, &options, err));
    TRY(ana_study_draft(&options, text, err));
    *path = cli_has(arguments, "--output") ? cli_value(arguments, "--output") : "STUDY.json";
    TRY(check_made(*path, text, err));
    return write_made(*path, text, err);
}

status cli_study_source(const cli_arguments *arguments, arena *memory, const char **path,
                        const char **text, error_message *err)
{
    text_buffer made = {0};
    char *read = NULL;
    size_t length = 0;
    TRY(check_source(arguments, err));
    *text = NULL;
    *path = cli_operand(arguments, 0);
    status result = *path != NULL ? file_read(*path, STUDY_BYTES_MAX, &read, &length, err)
                                  : make(arguments, memory, path, &made, err);
    if (result == STATUS_OK) {
        *text = arena_string(memory, read != NULL ? read : made.bytes);
    }
    free(read);
    text_free(&made);
    return result;
}

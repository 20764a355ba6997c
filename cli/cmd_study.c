/// `dynmo study`: plays the matrix of a what-if study and ranks its points.
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/study_explain.h"

#include "analysis/whatif/result.h"
#include "analysis/whatif/whatif.h"
#include "base/file.h"

#include <stdlib.h>
#include <string.h>

enum { STUDY_BYTES_MAX = 16 << 20, TOP_DEFAULT = 10, TOP_MAX = 10000 };

static status read_options(const cli_arguments *arguments, ana_whatif_options *options,
                           error_message *err)
{
    const char *by = cli_value(arguments, "--rank-by");
    const char *sample = cli_value(arguments, "--sample");
    const char *seed = cli_value(arguments, "--seed");
    int64_t seed_value = 1;
    char suggestion[TEXT_SUGGESTION_BYTES];
    *options = (ana_whatif_options){.objective = ANA_OBJECTIVE_TIME};
    if (sample != NULL) {
        TRY(text_parse_int64(sample, "--sample", 1, ANA_POINTS_MAX, &options->sampling.count, err));
    }
    if (seed != NULL) TRY(text_parse_int64(seed, "--seed", 0, INT64_MAX, &seed_value, err));
    options->sampling.seed = (uint64_t)seed_value;
    if (by == NULL) return STATUS_OK;
    for (int objective = 0; objective < ANA_OBJECTIVE_COUNT; objective++) {
        options->objective = (ana_objective)objective;
        if (strcmp(by, ana_objective_names[objective]) == 0) return STATUS_OK;
    }
    return error_set(err, STATUS_INVALID, "--rank-by: unknown objective '%.40s'%s", by,
                     text_suggestion(by, ana_objective_names, ANA_OBJECTIVE_COUNT, suggestion));
}

/// Plays every item, one after the other.
static status play(ana_whatif *study, error_message *err)
{
    void *worker = NULL;
    text_buffer result = {0};
    cli_progress progress = cli_progress_begin("points", study->item_count);
    status played = ana_whatif_begin_worker(study, &worker, err);
    for (int64_t item = 0; item < study->item_count && played == STATUS_OK; item++) {
        text_clear(&result);
        played = ana_whatif_evaluate(study, worker, item, &result, err);
        if (played == STATUS_OK) played = ana_whatif_put(study, item, &result, err);
        cli_progress_step(&progress);
    }
    cli_progress_end(&progress);
    ana_whatif_end_worker(study, worker);
    text_free(&result);
    return played;
}

static status explain(const cli_arguments *arguments, const ana_whatif *study, int64_t item,
                      error_message *err)
{
    text_buffer out = {0};
    status result = cli_study_explain(study, item, cli_has(arguments, "--json"), &out, err);
    if (result == STATUS_OK) result = cli_print(&out, err);
    text_free(&out);
    return result;
}

static status print(const cli_arguments *arguments, const ana_whatif *study, error_message *err)
{
    int top = TOP_DEFAULT;
    text_buffer out = {0};
    ana_point_worker *worker = NULL;
    TRY(cli_int(arguments, "--top", 1, TOP_MAX, TOP_DEFAULT, &top, err));
    TRY(ana_point_worker_create(&worker, err));
    status result = STATUS_OK;
    if (cli_has(arguments, "--json")) {
        ana_result_write(study, &out);
    } else {
        result = ana_result_print(study, top, worker, &out, err);
    }
    ana_point_worker_destroy(worker);
    if (result == STATUS_OK) result = cli_print(&out, err);
    text_free(&out);
    return result;
}

static status write_csv(const cli_arguments *arguments, const ana_whatif *study, error_message *err)
{
    const char *path = cli_value(arguments, "--csv");
    text_buffer out = {0};
    if (path == NULL) return STATUS_OK;
    ana_result_write_csv(study, &out);
    const status result = out.failed ? error_set(err, STATUS_NO_MEMORY, "out of memory")
                                     : file_write(path, out.bytes, out.length, err);
    text_free(&out);
    return result;
}

/// Whether --explain names a point that can be told from the others without playing them.
static status explain_first(const cli_arguments *arguments, const ana_whatif *study,
                            bool *is_explained, error_message *err)
{
    const char *word = cli_value(arguments, "--explain");
    bool needs_ranking = false;
    int64_t item = 0;
    *is_explained = false;
    if (word == NULL) return STATUS_OK;
    TRY(cli_study_explained_item(study, word, &needs_ranking, &item, err));
    if (needs_ranking) return STATUS_OK;
    *is_explained = true;
    return explain(arguments, study, item, err);
}

/// Opens, plays and answers a study whose text is there.
static status answer(const cli_arguments *arguments, const char *path, const char *text,
                     arena *memory, error_message *err)
{
    ana_whatif_options options;
    ana_whatif study;
    bool is_explained = false;
    TRY(read_options(arguments, &options, err));
    TRY(ana_whatif_open(path, text, &options, memory, &study, err));
    TRY(explain_first(arguments, &study, &is_explained, err));
    if (is_explained) return STATUS_OK;
    TRY(play(&study, err));
    TRY(ana_whatif_finish(&study, err));
    if (cli_has(arguments, "--explain")) {
        return explain(arguments, &study, study.standing.order[0], err);
    }
    TRY(write_csv(arguments, &study, err));
    return print(arguments, &study, err);
}

static status run(const cli_arguments *arguments, error_message *err)
{
    const char *path = cli_operand(arguments, 0);
    char *text = NULL;
    size_t length = 0;
    TRY(file_read(path, STUDY_BYTES_MAX, &text, &length, err));
    arena *memory = arena_create(1 << 20);
    const status result = memory != NULL ? answer(arguments, path, text, memory, err)
                                         : error_set(err, STATUS_NO_MEMORY, "out of memory");
    arena_destroy(memory);
    free(text);
    return result;
}

const cli_command cli_command_study = {
    .name = "study",
    .synopsis = "STUDY.json [--sample N] [--seed s] [--rank-by NAME] [--top N] [--csv FILE] "
                "[--explain POINT] [--json]",
    .summary = "plays a matrix of what-ifs and ranks its points",
    .description =
        "Plays every point of the study's matrix and ranks them: throughput, time and GPU-hours of "
        "the whole training, cost, peak memory, the bubble, how far the mean iteration is from a "
        "proven bound, and what the point does to learning beside the study as written. `*` marks "
        "the Pareto set. Points that cannot be are counted by their reason.",
    .options =
        {
            {.name = "--sample",
             .argument = "N",
             .help = "Plays N points of the matrix only, spread evenly over every axis."},
            {.name = "--seed", .argument = "s", .help = "Of the sample; default 1."},
            {.name = "--rank-by",
             .argument = "NAME",
             .help = "time (default), gpu-hours or cost of the whole training, or memory of the "
                     "fullest rank."},
            {.name = "--top", .argument = "N", .help = "Rows of the table; default 10."},
            {.name = "--csv", .argument = "FILE", .help = "Writes all points as CSV."},
            {.name = "--explain",
             .argument = "POINT",
             .help = "Explains one point instead: a number of the table, best, or reference (the "
                     "study as written): bounds, idle time by cause, the critical path, what 1 % "
                     "less on a stage, link or kind of op is worth, inputs."},
            {.name = "--json", .help = "Prints one line of JSON, with all points."},
        },
    .operand_min = 1,
    .operand_max = 1,
    .run = run,
};

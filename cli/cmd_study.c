/// `dynmo study`: plays the matrix of a what-if study and ranks its points.
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/study_explain.h"
#include "cli/study_source.h"

#include "analysis/spread.h"
#include "analysis/whatif/closer_look.h"
#include "analysis/whatif/result.h"
#include "analysis/whatif/whatif.h"
#include "base/file.h"

#include <string.h>

enum { TOP_DEFAULT = 10, TOP_MAX = 400 };

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

/// Does the items, one after the other.
static status do_items(const ana_items *items, const char *what, error_message *err)
{
    void *worker = NULL;
    text_buffer result = {0};
    if (items->count == 0) return STATUS_OK;
    cli_progress progress = cli_progress_begin(what, items->count);
    status done = items->begin_worker(items->context, &worker, err);
    for (int64_t item = 0; item < items->count && done == STATUS_OK; item++) {
        text_clear(&result);
        done = items->run(items->context, worker, item, &result, err);
        if (done == STATUS_OK) done = items->put(items->context, item, &result, err);
        cli_progress_step(&progress);
    }
    cli_progress_end(&progress);
    items->end_worker(items->context, worker);
    text_free(&result);
    return done;
}

/// Plays every point once.
static status play(ana_whatif *study, error_message *err)
{
    const ana_items points = {
        .count = study->item_count,
        .context = study,
        .begin_worker = ana_whatif_begin_worker,
        .end_worker = ana_whatif_end_worker,
        .run = ana_whatif_evaluate,
        .put = ana_whatif_put,
    };
    TRY(do_items(&points, "points", err));
    return ana_whatif_finish(study, err);
}

/// Plays the best points again, to see what their idle time is there for.
static status look_closer(ana_whatif *study, int best_count, ana_closer_look *look,
                          error_message *err)
{
    TRY(ana_closer_look_choose(study, best_count, look, err));
    const ana_items chosen = {
        .count = look->count,
        .context = look,
        .begin_worker = ana_closer_look_begin_worker,
        .end_worker = ana_closer_look_end_worker,
        .run = ana_closer_look_evaluate,
        .put = ana_closer_look_put,
    };
    return do_items(&chosen, "best points", err);
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

static status print(const cli_arguments *arguments, const ana_whatif *study,
                    const ana_closer_look *look, int row_count, error_message *err)
{
    text_buffer out = {0};
    ana_point_worker *worker = NULL;
    TRY(ana_point_worker_create(&worker, err));
    status result = STATUS_OK;
    if (cli_has(arguments, "--json")) {
        ana_result_write(study, look, &out);
    } else {
        result = ana_result_print(study, look, row_count, worker, &out, err);
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

/// Opens, plays and answers a study whose text is there.
static status answer(const cli_arguments *arguments, const char *path, const char *text,
                     arena *memory, error_message *err)
{
    ana_whatif_options options;
    ana_whatif study;
    ana_closer_look look = {.study = NULL};
    int row_count = TOP_DEFAULT;
    bool is_explained = false;
    TRY(read_options(arguments, &options, err));
    TRY(cli_int(arguments, "--top", 1, TOP_MAX, TOP_DEFAULT, &row_count, err));
    TRY(ana_whatif_open(path, text, &options, memory, &study, err));
    TRY(explain_first(arguments, &study, &is_explained, err));
    if (is_explained) return STATUS_OK;
    TRY(play(&study, err));
    if (cli_has(arguments, "--explain")) {
        return explain(arguments, &study, study.standing.order[0], err);
    }
    TRY(look_closer(&study, row_count, &look, err));
    TRY(write_csv(arguments, &study, err));
    return print(arguments, &study, &look, row_count, err);
}

static status run(const cli_arguments *arguments, error_message *err)
{
    const char *path = NULL;
    const char *text = NULL;
    arena *memory = arena_create(1 << 20);
    if (memory == NULL) return error_set(err, STATUS_NO_MEMORY, "out of memory");
    status result = cli_study_source(arguments, memory, &path, &text, err);
    if (result == STATUS_OK && text != NULL) result = answer(arguments, path, text, memory, err);
    arena_destroy(memory);
    return result;
}

const cli_command cli_command_study = {
    .name = "study",
    .synopsis = "STUDY.json | --model CONFIG --gpu NAME --gpus N [--tokens N] | --template NAME "
                "[--sample N] [--seed s] [--rank-by NAME] [--top N] [--csv FILE] "
                "[--explain POINT] [--json]",
    .summary = "plays a matrix of what-ifs and ranks its points",
    .description =
        "Plays every point of the study's matrix and ranks them. For each: tokens per second of "
        "all replicas and per GPU, the time, GPU-hours and cost of the whole training, the memory "
        "of the fullest rank, the idle share of the ranks and what it is there for, how far the "
        "mean iteration is from a bound that no contiguous plan and no order of ops beats, and "
        "what the point does to learning beside the study as written: bit-identical, other "
        "rounding, other training. Points of another training are ranked apart. `*` marks the "
        "Pareto set over all of these. Points that cannot be are counted by their reason. Every "
        "value that stands where the study gives none is listed with its origin."
        "\n\n"
        "The study file is that of `dynmo simulate` with axes: \"vary\":{PATH:[VALUE, ...], ...}, "
        "where PATH is that of any value of the study (\"pipeline.stages\", "
        "\"cluster.links.inter.bytes_per_s\") and a value is any JSON; "
        "\"alternatives\":{NAME:{VALUE NAME:{PATH:VALUE, ...}, ...}, ...}, an axis whose values "
        "set several paths at once, as a cluster with its GPUs, links and price. Several rows of "
        "\"balancing\" are an axis by themselves; with one row, \"balancing.policy\" and the "
        "like are paths. Without a row the balancer is `tuned`. \"model\" and \"hardware\" may be "
        "{\"base\":NAME, ...} with keys of the file that are then others, and so are paths: "
        "\"hardware.efficiency.gemm\". null takes a value away. Points are numbered with the last "
        "axis running fastest."
        "\n\n"
        "Further keys: cluster.gpus, the GPUs that are rented, and training.data_parallel "
        "\"fill\", "
        "as many replicas as they make; training.global_batch, sequences of an iteration, in place "
        "of microbatches; training.tokens, of the whole training (default: figures are of 10^9); "
        "cluster.price_per_gpu_hour with price_date, price_currency (USD) and price_source: the "
        "user's own, none is known here. cluster.mtbf_hours, training.checkpoint_s, "
        "training.restart_s and training.start say what stops training on the way.",
    .details =
        "A training's time is the mean iteration of the run that is played times its iterations, "
        "as if nothing failed. GPU-hours are of the GPUs that are rented: those of the cluster, if "
        "the study says how many, else those used; less what re-packing gives back. A point that "
        "is out of memory is played again without the limit, to say by how many bytes and on which "
        "rank the plan that the balancer would choose exceeds it."
        "\n\n"
        "With --model a study is made of what somebody would try first, written to STUDY.json, "
        "which may be edited, and played: tensor parallelism within a node, expert parallelism, "
        "stages, microbatch size, recomputation, schedule, even or tuned split; replicas fill the "
        "GPUs, optimizer state is sharded. --template without a name lists further studies; with "
        "a name it writes NAME.json and plays it.",
    .options =
        {
            {.name = "--model",
             .argument = "CONFIG",
             .help = "Makes a study of this Hugging Face config.json or shipped model."},
            {.name = "--gpu",
             .argument = "NAME",
             .help = "With --model: a hardware file or a shipped preset by its name."},
            {.name = "--gpus", .argument = "N", .help = "With --model: GPUs that are rented."},
            {.name = "--tokens",
             .argument = "N",
             .help = "With --model: tokens of the whole training; 300B, 1.5T."},
            {.name = "--global-batch",
             .argument = "N",
             .help = "With --model: sequences of an iteration; default about 4 million tokens."},
            {.name = "--sequence-length",
             .argument = "N",
             .help = "With --model: tokens of a sequence; default what the model can take, at most "
                     "8192."},
            {.name = "--price",
             .argument = "X",
             .help = "With --model: your price of a GPU-hour; needs --price-date."},
            {.name = "--price-date",
             .argument = "DATE",
             .help = "With --price: the day on which it was asked for, 2026-11-22."},
            {.name = "--currency", .argument = "NAME", .help = "With --price; default USD."},
            {.name = "--template",
             .argument = "NAME",
             .may_be_bare = true,
             .help = "Writes a study to start from and plays it; as the last word without a name, "
                     "lists them."},
            {.name = "--output",
             .letter = 'o',
             .argument = "FILE",
             .help = "Where a study that is made is written; default STUDY.json, or NAME.json of a "
                     "template. A file that is there is kept."},
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
    .operand_min = 0,
    .operand_max = 1,
    .run = run,
};

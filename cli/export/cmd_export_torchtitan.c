/// `dynmo export torchtitan`: the split of a plan as settings of torchtitan.
#include "cli/commands.h"

#include "analysis/export/export_torchtitan.h"
#include "cli/export/exported_plan.h"

enum { EMBEDDINGS_MAX = 16 };

static const char *value_or(const cli_arguments *arguments, const char *name, const char *fallback)
{
    return cli_has(arguments, name) ? cli_value(arguments, name) : fallback;
}

/// @param embeddings [EMBEDDINGS_MAX] what names->embeddings is to point to
static status read_names(const cli_arguments *arguments, const char **embeddings,
                         ana_torchtitan_names *names, error_message *err)
{
    const char *name = NULL;
    *names = (ana_torchtitan_names){
        .embeddings = embeddings,
        .block = value_or(arguments, "--fqn-block", "layers.{}"),
        .norm = value_or(arguments, "--fqn-norm", "norm"),
        .head = value_or(arguments, "--fqn-head", "lm_head"),
        .schedule_csv = value_or(arguments, "--csv", "schedule.csv"),
    };
    while ((name = cli_value_at(arguments, "--fqn-embedding", names->embedding_count)) != NULL) {
        if (names->embedding_count == EMBEDDINGS_MAX) {
            return error_set(err, STATUS_INVALID, "--fqn-embedding: more than %d", EMBEDDINGS_MAX);
        }
        embeddings[names->embedding_count++] = name;
    }
    if (names->embedding_count == 0) embeddings[names->embedding_count++] = "tok_embeddings";
    return STATUS_OK;
}

static status write(const cli_arguments *arguments, arena *memory, text_buffer *out,
                    error_message *err)
{
    const char *path = cli_operand(arguments, 0);
    const char *embeddings[EMBEDDINGS_MAX];
    int block_count = 0;
    ana_torchtitan_names names;
    ana_exported_stage *stages = NULL;
    bal_plan plan;
    TRY(read_names(arguments, embeddings, &names, err));
    TRY(cli_exported_plan_read(path, memory, &plan, err));
    status made = ana_exported_stages_of(&plan, memory, &stages, &block_count, err);
    if (made == STATUS_OK) made = ana_torchtitan_check(&plan, stages, &names, err);
    if (made != STATUS_OK) return error_prefix(err, made, "%s", path);
    if (!cli_has(arguments, "--json")) {
        ana_export_torchtitan(&plan, stages, &names, out);
        return STATUS_OK;
    }
    json_writer writer = json_writer_init(out);
    ana_export_torchtitan_json(&plan, stages, &names, &writer);
    text_append(out, "\n");
    return STATUS_OK;
}

static status run(const cli_arguments *arguments, error_message *err)
{
    return cli_run_exporter(arguments, write, err);
}

const cli_command cli_command_export_torchtitan = {
    .name = "export torchtitan",
    .synopsis = "PLAN.json [--csv PATH] [OPTION]... [-o FILE.py]",
    .summary = "writes the split of a plan as settings of torchtitan",
    .description =
        "Writes module_fqns_per_model_part and what belongs to it, in Python: a list of module "
        "names per stage, in model order, the name of a schedule that places the stages as the "
        "plan does, and the path of the CSV with the order of the ops, which `dynmo export "
        "pytorch` writes.",
    .options =
        {
            {.name = "--csv",
             .argument = "PATH",
             .help = "Where the training finds the CSV. Default: schedule.csv."},
            {.name = "--fqn-embedding",
             .argument = "NAME",
             .help = "Module of the embedding; several for more than one. Default: "
                     "tok_embeddings.",
             .may_repeat = true},
            {.name = "--fqn-block",
             .argument = "NAME",
             .help = "Modules of the blocks, {} in place of the number. Default: layers.{}."},
            {.name = "--fqn-norm",
             .argument = "NAME",
             .help = "Module of the last norm; '' where there is none. Default: norm."},
            {.name = "--fqn-head",
             .argument = "NAME",
             .help = "Module of the head; '' where there is none. Default: lm_head; output until "
                     "April 2026."},
            {.name = "--json", .help = "Writes the settings as an object instead."},
            {.name = "--output",
             .letter = 'o',
             .argument = "FILE",
             .help = "Where to write. Default: standard output."},
        },
    .operand_min = 1,
    .operand_max = 1,
    .run = run,
};

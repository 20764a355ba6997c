/// `dynmo converge --layers`: discrete balancers on layers drawn at random.
#include "cli/converge/converge_modes.h"

#include "analysis/converge/trials/discrete_trials.h"
#include "balance/schedule/schedule.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/option_values.h"
#include "cli/output.h"
#include "cli/spread_choice.h"

static status read_sizes(const cli_arguments *arguments, const char *option, int max,
                         int sizes[ANA_TRIAL_SIZES_MAX], int *count, error_message *err)
{
    int64_t values[ANA_TRIAL_SIZES_MAX];
    TRY(cli_list_int64(option, cli_value(arguments, option), 1, max, values, ANA_TRIAL_SIZES_MAX,
                       count, err));
    for (int index = 0; index < *count; index++) {
        sizes[index] = (int)values[index];
    }
    return STATUS_OK;
}

static status read_family(const cli_arguments *arguments, const ana_layer_family **family,
                          error_message *err)
{
    const char *name = cli_value(arguments, "--family");
    *family = NULL;
    if (name == NULL) return STATUS_OK;
    *family = ana_layer_family_find(name);
    if (*family != NULL) return STATUS_OK;
    enum { NAMES_MAX = 32 };
    const char *names[NAMES_MAX];
    int count = 0;
    const ana_layer_family *families = ana_layer_families(&count);
    for (int index = 0; index < count; index++) {
        names[index] = families[index].name;
    }
    char suggestion[TEXT_SUGGESTION_BYTES];
    return error_set(err, STATUS_INVALID, "--family: unknown '%.40s'%s", name,
                     text_suggestion(name, names, count, suggestion));
}

static status read_question(const cli_arguments *arguments, ana_trial_question *question,
                            error_message *err)
{
    enum { INSTANCES_DEFAULT = 100 };
    TRY(cli_require(arguments, "--stages", err));
    TRY(read_sizes(arguments, "--layers", ANA_TRIAL_LAYERS_MAX, question->layer_counts,
                   &question->layer_count_count, err));
    TRY(read_sizes(arguments, "--stages", ANA_TRIAL_STAGES_MAX, question->stage_counts,
                   &question->stage_count_count, err));
    TRY(cli_int(arguments, "--chunks", 2, BAL_CHUNKS_MAX, 0, &question->chunk_count, err));
    TRY(read_family(arguments, &question->family, err));
    TRY(cli_int(arguments, "--instances", 1, ANA_TRIAL_INSTANCES_MAX, INSTANCES_DEFAULT,
                &question->instance_count, err));
    return cli_converge_seed(arguments, &question->seed, err);
}

static status print_trials(const cli_arguments *arguments, const ana_trials *trials,
                           error_message *err)
{
    text_buffer out = {0};
    if (cli_has(arguments, "--json")) {
        json_writer writer = json_writer_init(&out);
        ana_trials_write(trials, &writer);
        text_append(&out, "\n");
    } else {
        ana_trials_append(trials, &out);
    }
    const status result = cli_print(&out, err);
    text_free(&out);
    return result;
}

status cli_converge_layers(const cli_arguments *arguments, ana_spread *spread, arena *memory,
                           error_message *err)
{
    ana_trial_question question = {0};
    ana_trials trials = {0};
    TRY(ana_spread_agree(spread, read_question(arguments, &question, err), err));
    cli_progress progress = {0};
    cli_spread_watch(spread, "batches of instances", &progress);
    status result = ana_trials_run(&question, spread, memory, &trials, err);
    if (result == STATUS_OK && ana_spread_is_leader(spread)) {
        result = print_trials(arguments, &trials, err);
    }
    return ana_spread_agree(spread, result, err);
}

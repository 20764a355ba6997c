/// `dynmo converge --verdict`, `--layers`, `--trace` and `--drift`.
#include "cli/converge/converge_modes.h"

#include "analysis/converge/drift/drift_study.h"
#include "analysis/converge/trials/discrete_trials.h"
#include "analysis/converge/verdict/load_verdict.h"
#include "analysis/converge/verdict/verdict.h"
#include "balance/schedule/schedule.h"
#include "base/file.h"
#include "base/json.h"
#include "cli/option_values.h"
#include "cli/plan/plan_loads.h"
#include "cli/shard_choice.h"
#include "traces/store/writer.h"

#include <string.h>

enum { DRAWN_MAX = 1000000, CLAIMS_MAX = 32 };

/// Whether a claim is asked for.
static bool is_asked(const cli_arguments *arguments, const char *name)
{
    if (!cli_has(arguments, "--claim")) return true;
    for (int index = 0;; index++) {
        const char *asked = cli_value_at(arguments, "--claim", index);
        if (asked == NULL) return false;
        if (strcmp(asked, name) == 0) return true;
    }
}

static status check_claims(const cli_arguments *arguments, error_message *err)
{
    const char *names[CLAIMS_MAX];
    int count = 0;
    while (ana_claim_at(count) != NULL) {
        names[count] = ana_claim_at(count)->name;
        count++;
    }
    for (int index = 0;; index++) {
        const char *asked = cli_value_at(arguments, "--claim", index);
        if (asked == NULL) return STATUS_OK;
        int claim = 0;
        while (claim < count && strcmp(asked, names[claim]) != 0) {
            claim++;
        }
        char suggestion[TEXT_SUGGESTION_BYTES];
        if (claim < count) continue;
        return error_set(err, STATUS_INVALID, "--claim: unknown '%.40s'%s", asked,
                         text_suggestion(asked, names, count, suggestion));
    }
}

static status judge_claims(const cli_arguments *arguments, const ana_verdict_options *options,
                           arena *memory, text_buffer *out, error_message *err)
{
    const bool is_json = cli_has(arguments, "--json");
    json_writer writer = json_writer_init(out);
    TRY(check_claims(arguments, err));
    if (is_json) json_begin_array(&writer);
    for (int index = 0; ana_claim_at(index) != NULL; index++) {
        if (!is_asked(arguments, ana_claim_at(index)->name)) continue;
        ana_verdict verdict;
        TRY(ana_claim_try(ana_claim_at(index), options, memory, &verdict, err));
        if (is_json) {
            ana_verdict_write(&verdict, &writer);
        } else {
            if (out->length > 0) text_append(out, "\n");
            ana_verdict_append(&verdict, out);
        }
    }
    if (is_json) {
        json_end_array(&writer);
        text_append(out, "\n");
    }
    return STATUS_OK;
}

static status judge_loads(const cli_arguments *arguments, arena *memory, text_buffer *out,
                          error_message *err)
{
    int stages = 0;
    double gamma_ns = 0;
    cli_plan_loads loads;
    ana_load_verdict verdict;
    TRY(cli_require(arguments, "--stages", err));
    TRY(cli_int(arguments, "--stages", 1, BAL_RANKS_MAX, 0, &stages, err));
    TRY(cli_converge_number(arguments, "--gamma", 1, 1e18, &gamma_ns, err));
    TRY(cli_plan_loads_read(cli_value(arguments, "--loads"),
                            (cli_plan_shape){stages, 1, BAL_PLACEMENT_LOOP}, memory, &loads, err));
    TRY(ana_load_verdict_of(&loads.problem, gamma_ns, memory, &verdict, err));
    if (!cli_has(arguments, "--json")) {
        ana_load_verdict_append(&verdict, out);
        return STATUS_OK;
    }
    json_writer writer = json_writer_init(out);
    ana_load_verdict_write(&verdict, &writer);
    text_append(out, "\n");
    return STATUS_OK;
}

/// Options of one of the two that the other does not know.
static status check_pairs(const cli_arguments *arguments, error_message *err)
{
    const bool has_loads = cli_has(arguments, "--loads");
    static const char *const of_loads[] = {"--stages", "--gamma"};
    static const char *const of_claims[] = {"--claim", "--instances", "--seed"};
    for (int index = 0; index < 2 && !has_loads; index++) {
        if (!cli_has(arguments, of_loads[index])) continue;
        return error_set(err, STATUS_INVALID, "--verdict: %s needs --loads", of_loads[index]);
    }
    for (int index = 0; index < 3 && has_loads; index++) {
        if (!cli_has(arguments, of_claims[index])) continue;
        return error_set(err, STATUS_INVALID, "--verdict --loads draws nothing: %s does not belong",
                         of_claims[index]);
    }
    return STATUS_OK;
}

status cli_converge_verdict(const cli_arguments *arguments, ana_spread *spread, arena *memory,
                            text_buffer *out, error_message *err)
{
    ana_verdict_options options = ana_verdict_options_default();
    (void)spread;
    TRY(check_pairs(arguments, err));
    if (cli_has(arguments, "--loads")) return judge_loads(arguments, memory, out, err);
    TRY(cli_int(arguments, "--instances", 1, DRAWN_MAX, options.instance_count,
                &options.instance_count, err));
    TRY(cli_converge_seed(arguments, &options.seed, err));
    return judge_claims(arguments, &options, memory, out, err);
}

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
    enum { NAMES_MAX = 32 };
    const char *names[NAMES_MAX];
    int count = 0;
    int chosen = 0;
    const ana_layer_family *families = ana_layer_families(&count);
    for (int index = 0; index < count; index++) {
        names[index] = families[index].name;
    }
    TRY(cli_choice(arguments, "--family", names, count, 0, &chosen, err));
    *family = cli_has(arguments, "--family") ? &families[chosen] : NULL;
    return STATUS_OK;
}

static status read_trials(const cli_arguments *arguments, ana_trial_question *question,
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

status cli_converge_layers(const cli_arguments *arguments, ana_spread *spread, arena *memory,
                           text_buffer *out, error_message *err)
{
    ana_trial_question question = {0};
    ana_trials trials = {0};
    TRY(read_trials(arguments, &question, err));
    cli_progress progress = {0};
    cli_spread_watch(spread, "batches of instances", &progress);
    TRY(ana_trials_run(&question, spread, memory, &trials, err));
    if (!cli_has(arguments, "--json")) {
        ana_trials_append(&trials, out);
        return STATUS_OK;
    }
    json_writer writer = json_writer_init(out);
    ana_trials_write(&trials, &writer);
    text_append(out, "\n");
    return STATUS_OK;
}

static status read_rounds(const cli_arguments *arguments, ana_drift_study *study,
                          error_message *err)
{
    static const char option[] = "--rounds-per-iteration";
    const char *list = cli_value(arguments, option);
    return cli_list_int64(option, list != NULL ? list : "1,2,4,8,16,32,64", 1, ANA_DRIFT_ROUNDS_MAX,
                          study->rounds, ANA_DRIFT_POINTS_MAX, &study->round_option_count, err);
}

/// What belongs to a trace, and what to drifts without one.
static status read_source(const cli_arguments *arguments, ana_drift_study *study,
                          error_message *err)
{
    static const char *const of_traces[] = {"--trace-name", "--iterations", "--tolerance"};
    const bool has_trace = cli_has(arguments, "--trace");
    if (has_trace && cli_has(arguments, "--drift")) {
        return error_set(err, STATUS_INVALID, "--drift does not belong to --trace, which drifts");
    }
    for (int index = 0; index < 3 && !has_trace; index++) {
        if (!cli_has(arguments, of_traces[index])) continue;
        return error_set(err, STATUS_INVALID, "%s needs --trace", of_traces[index]);
    }
    study->tolerance = 0.05;
    TRY(cli_converge_number(arguments, "--tolerance", 0, 1e3, &study->tolerance, err));
    if (has_trace) return STATUS_OK;
    return cli_list_double("--drift", cli_value(arguments, "--drift"), 0, 1e6, study->drifts,
                           ANA_DRIFT_POINTS_MAX, &study->drift_count, err);
}

static status read_study(const cli_arguments *arguments, ana_drift_study *study, error_message *err)
{
    enum { INSTANCES_DEFAULT = 20, INSTANCES_MAX = 10000 };
    ana_drift_question *question = &study->question;
    TRY(cli_require(arguments, "--stages", err));
    TRY(cli_int(arguments, "--stages", 2, ANA_DRIFT_STAGES_MAX, 0, &question->stage_count, err));
    TRY(cli_converge_scheme(arguments, &ana_scheme_first_order, &question->scheme, err));
    TRY(cli_int(arguments, "--instances", 1, INSTANCES_MAX, INSTANCES_DEFAULT,
                &question->instance_count, err));
    TRY(cli_converge_seed(arguments, &question->seed, err));
    TRY(read_rounds(arguments, study, err));
    TRY(read_source(arguments, study, err));
    if ((int64_t)study->drift_count * study->round_option_count > ANA_DRIFT_POINTS_MAX) {
        return error_set(err, STATUS_INVALID,
                         "--drift and --rounds-per-iteration make %d points; %d are possible",
                         study->drift_count * study->round_option_count, ANA_DRIFT_POINTS_MAX);
    }
    return STATUS_OK;
}

/// Every rank reads the trace: the store is opened for reading only.
static status read_course(const cli_arguments *arguments, arena *memory, ana_drift_study *study,
                          ana_layer_course *course, error_message *err)
{
    int first = 0;
    int last = TRACE_ITERATIONS_MAX;
    trace_store *store = NULL;
    const char *range = cli_value(arguments, "--iterations");
    const char *path = cli_value(arguments, "--trace");
    if (path == NULL) return STATUS_OK;
    if (range != NULL) TRY(cli_iteration_range(range, &first, &last, err));
    TRY(trace_store_open(path, TRACE_READ, &store, err));
    const status result = ana_layer_course_read(store, cli_value(arguments, "--trace-name"), first,
                                                last, memory, course, err);
    trace_store_close(store);
    study->question.course = course;
    study->trace = path;
    return result;
}

static status write_figure(const char *path, const ana_drift_study *study,
                           const ana_drift_result *result, error_message *err)
{
    text_buffer svg = {0};
    status drawn = ana_drift_draw(study, result, &svg, err);
    if (drawn == STATUS_OK) drawn = file_write(path, svg.bytes, svg.length, err);
    text_free(&svg);
    return drawn;
}

status cli_converge_drift(const cli_arguments *arguments, ana_spread *spread, arena *memory,
                          text_buffer *out, error_message *err)
{
    ana_drift_study study = {0};
    ana_layer_course course = {0};
    ana_drift_result result = {0};
    const char *figure = cli_value(arguments, "--figure");
    TRY(read_study(arguments, &study, err));
    TRY(read_course(arguments, memory, &study, &course, err));
    TRY(cli_converge_check_figures(arguments, err));
    TRY(ana_drift_study_run(&study, spread, memory, &result, err));
    if (figure != NULL) TRY(write_figure(figure, &study, &result, err));
    if (!cli_has(arguments, "--json")) {
        ana_drift_append(&study, &result, out);
        return STATUS_OK;
    }
    json_writer writer = json_writer_init(out);
    ana_drift_write(&study, &result, &writer);
    text_append(out, "\n");
    return STATUS_OK;
}

/// `dynmo converge --trace` and `--drift`: loads that drift while a scheme balances them.
#include "cli/converge/converge_modes.h"

#include "analysis/converge/drift/drift_study.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/option_values.h"
#include "cli/output.h"
#include "traces/store/writer.h"

static const double drift_max = 1e6;
static const double tolerance_max = 1e3;

static status find_scheme(const cli_arguments *arguments, const ana_scheme **scheme,
                          error_message *err)
{
    enum { NAMES_MAX = 32 };
    const char *name = cli_value(arguments, "--scheme");
    const char *names[NAMES_MAX];
    int count = 0;
    *scheme = name != NULL ? ana_scheme_find(name) : &ana_scheme_first_order;
    if (*scheme != NULL) return STATUS_OK;
    while (ana_schemes[count] != NULL) {
        names[count] = ana_schemes[count]->name;
        count++;
    }
    char suggestion[TEXT_SUGGESTION_BYTES];
    return error_set(err, STATUS_INVALID, "--scheme: unknown '%.40s'%s", name,
                     text_suggestion(name, names, count, suggestion));
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
    if (cli_has(arguments, "--tolerance")) {
        TRY(text_parse_double(cli_value(arguments, "--tolerance"), "--tolerance", 0, tolerance_max,
                              &study->tolerance, err));
    }
    if (has_trace) return STATUS_OK;
    return cli_list_double("--drift", cli_value(arguments, "--drift"), 0, drift_max, study->drifts,
                           ANA_DRIFT_POINTS_MAX, &study->drift_count, err);
}

static status read_study(const cli_arguments *arguments, ana_drift_study *study, error_message *err)
{
    enum { INSTANCES_DEFAULT = 20, INSTANCES_MAX = 10000 };
    ana_drift_question *question = &study->question;
    TRY(cli_require(arguments, "--stages", err));
    TRY(cli_int(arguments, "--stages", 2, ANA_DRIFT_STAGES_MAX, 0, &question->stage_count, err));
    TRY(find_scheme(arguments, &question->scheme, err));
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

static status print_result(const cli_arguments *arguments, const ana_drift_study *study,
                           const ana_drift_result *result, error_message *err)
{
    text_buffer out = {0};
    const char *figure = cli_value(arguments, "--figure");
    if (figure != NULL) TRY(write_figure(figure, study, result, err));
    if (cli_has(arguments, "--json")) {
        json_writer writer = json_writer_init(&out);
        ana_drift_write(study, result, &writer);
        text_append(&out, "\n");
    } else {
        ana_drift_append(study, result, &out);
    }
    const status printed = cli_print(&out, err);
    text_free(&out);
    return printed;
}

status cli_converge_drift(const cli_arguments *arguments, ana_spread *spread, arena *memory,
                          error_message *err)
{
    ana_drift_study study = {0};
    ana_layer_course course = {0};
    ana_drift_result result = {0};
    status code = read_study(arguments, &study, err);
    if (code == STATUS_OK) code = read_course(arguments, memory, &study, &course, err);
    if (code == STATUS_OK && ana_spread_is_leader(spread)) {
        code = cli_converge_check_figures(arguments, err);
    }
    TRY(ana_spread_agree(spread, code, err));
    code = ana_drift_study_run(&study, spread, memory, &result, err);
    if (code == STATUS_OK && ana_spread_is_leader(spread)) {
        code = print_result(arguments, &study, &result, err);
    }
    return ana_spread_agree(spread, code, err);
}

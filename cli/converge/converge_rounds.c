/// `dynmo converge --nodes`: rounds that schemes take over a graph; `--paper`: the table.
#include "cli/converge/converge_rounds.h"

#include "analysis/converge/paper_table.h"
#include "analysis/converge/sweep_summary.h"
#include "base/json.h"
#include "cli/interrupt.h"
#include "cli/option_values.h"
#include "cli/shard_choice.h"

#include <string.h>

status cli_converge_seed(const cli_arguments *arguments, uint64_t *seed, error_message *err)
{
    int64_t value = 1;
    if (cli_has(arguments, "--seed")) {
        TRY(text_parse_int64(cli_value(arguments, "--seed"), "--seed", 0, INT64_C(1) << 53, &value,
                             err));
    }
    *seed = (uint64_t)value;
    return STATUS_OK;
}

static const double gamma_max = 1e12;

/// A range FIRST:LAST doubles until LAST is passed.
static status read_range(const char *range, const char *colon, ana_sweep *sweep, error_message *err)
{
    int64_t first = 0;
    int64_t last = 0;
    char begin[32] = "";
    if (colon - range < (int)sizeof begin) memcpy(begin, range, (size_t)(colon - range));
    TRY(text_parse_int64(begin, "--nodes", 2, ANA_NODES_MAX, &first, err));
    TRY(text_parse_int64(colon + 1, "--nodes", first, ANA_NODES_MAX, &last, err));
    for (int64_t nodes = first; nodes <= last; nodes *= 2) {
        sweep->nodes[sweep->nodes_count++] = (int)nodes;
    }
    return STATUS_OK;
}

static status read_nodes(const cli_arguments *arguments, ana_sweep *sweep, error_message *err)
{
    int64_t nodes[ANA_SWEEP_POINTS_MAX];
    const char *list = cli_value(arguments, "--nodes");
    const char *colon = strchr(list, ':');
    if (colon != NULL && strchr(list, ',') == NULL) return read_range(list, colon, sweep, err);
    TRY(cli_list_int64("--nodes", list, 2, ANA_NODES_MAX, nodes, ANA_SWEEP_POINTS_MAX,
                       &sweep->nodes_count, err));
    for (int item = 0; item < sweep->nodes_count; item++) {
        sweep->nodes[item] = (int)nodes[item];
        if (item == 0 || nodes[item] > nodes[item - 1]) continue;
        return error_set(err, STATUS_INVALID, "--nodes: %lld does not exceed %lld before it",
                         (long long)nodes[item], (long long)nodes[item - 1]);
    }
    return STATUS_OK;
}

static status read_gammas(const cli_arguments *arguments, ana_sweep *sweep, error_message *err)
{
    const char *list = cli_has(arguments, "--gamma") ? cli_value(arguments, "--gamma") : "1";
    const double *gammas = sweep->gammas;
    TRY(cli_list_double("--gamma", list, 0, gamma_max, sweep->gammas, ANA_SWEEP_POINTS_MAX,
                        &sweep->gamma_count, err));
    for (int item = 1; item < sweep->gamma_count; item++) {
        if (gammas[item] < gammas[item - 1]) continue;
        return error_set(err, STATUS_INVALID, "--gamma: %g is not below %g before it", gammas[item],
                         gammas[item - 1]);
    }
    return STATUS_OK;
}

static status read_scheme(const cli_arguments *arguments, ana_sweep *sweep, error_message *err)
{
    enum { NAMES_MAX = 32 };
    const char *names[NAMES_MAX];
    int count = 0;
    int chosen = 0;
    for (; ana_schemes[count] != NULL; count++) {
        names[count] = ana_schemes[count]->name;
    }
    TRY(cli_choice(arguments, "--scheme", names, count, 0, &chosen, err));
    sweep->scheme = ana_schemes[chosen];
    return STATUS_OK;
}

static status read_instances(const cli_arguments *arguments, ana_sweep *sweep, error_message *err)
{
    uint64_t seed = 0;
    int initial = 0;
    int stop = 0;
    sweep->delta = 0.01;
    TRY(cli_converge_seed(arguments, &seed, err));
    TRY(cli_choice(arguments, "--initial", ana_initial_names, ANA_INITIAL_COUNT, ANA_INITIAL_STEP,
                   &initial, err));
    TRY(cli_choice(arguments, "--stop", ana_stop_names, ANA_STOP_COUNT, ANA_STOP_PHI, &stop, err));
    TRY(cli_int(arguments, "--instances", 1, ANA_INSTANCES_MAX, 20, &sweep->instance_count, err));
    if (cli_has(arguments, "--delta")) {
        TRY(text_parse_double(cli_value(arguments, "--delta"), "--delta", 1e-12, 0.5, &sweep->delta,
                              err));
    }
    sweep->instance = (ana_instance_question){.initial = (ana_initial)initial,
                                              .stop = (ana_stop)stop,
                                              .seed = seed,
                                              .interrupt = cli_interrupt_catch()};
    return STATUS_OK;
}

static status read_question(const cli_arguments *arguments, ana_sweep *sweep, error_message *err)
{
    int graph = 0;
    TRY(cli_require(arguments, "--nodes", err));
    TRY(cli_choice(arguments, "--graph", ana_graph_names, ANA_GRAPH_COUNT, ANA_GRAPH_PATH, &graph,
                   err));
    sweep->graph = (ana_graph_kind)graph;
    TRY(read_scheme(arguments, sweep, err));
    TRY(read_instances(arguments, sweep, err));
    TRY(read_nodes(arguments, sweep, err));
    TRY(read_gammas(arguments, sweep, err));
    const int points = ana_sweep_point_count(sweep);
    if (points <= ANA_SWEEP_POINTS_MAX) return STATUS_OK;
    return error_set(err, STATUS_INVALID, "--nodes and --gamma make %d points; %d are possible",
                     points, ANA_SWEEP_POINTS_MAX);
}

/// Once all instances are there.
static void write_answer(const cli_arguments *arguments, const ana_sweep *sweep,
                         const ana_sweep_point *points, arena *memory, text_buffer *out)
{
    ana_sweep_answer *answer = arena_array(memory, 1, sizeof *answer);
    answer->sweep = sweep;
    answer->points = points;
    ana_sweep_summarise(answer, arena_array(memory, (size_t)sweep->instance_count, sizeof(double)));
    if (cli_has(arguments, "--json")) {
        ana_sweep_write_json(answer, out);
    } else {
        ana_sweep_write_text(answer, out);
    }
}

/// All that the instances depend on, as JSON, by which kept results are found again.
static void describe(const ana_sweep *sweep, text_buffer *out)
{
    json_writer writer = json_writer_init(out);
    json_begin_object(&writer);
    json_put_string(&writer, "graph", ana_graph_names[sweep->graph]);
    json_put_string(&writer, "scheme", sweep->scheme->name);
    json_put_string(&writer, "initial", ana_initial_names[sweep->instance.initial]);
    json_put_string(&writer, "stop", ana_stop_names[sweep->instance.stop]);
    json_put_int64(&writer, "instances", sweep->instance_count);
    json_write_key(&writer, "nodes");
    json_write_int_array(&writer, sweep->nodes, sweep->nodes_count);
    json_put_array(&writer, "gammas");
    for (int gamma = 0; gamma < sweep->gamma_count; gamma++) {
        json_write_double(&writer, sweep->gammas[gamma]);
    }
    json_end_array(&writer);
    json_end_object(&writer);
}

/// A sweep and where its answer goes; context of play_sweep.
typedef struct sweep_play {
    const ana_sweep *sweep;
    ana_sweep_point *points;
} sweep_play;

static status play_sweep(void *context, ana_spread *spread, ana_spread_report *report,
                         error_message *err)
{
    const sweep_play *all = context;
    cli_progress progress = {0};
    cli_spread_watch(spread, "instances", &progress);
    const status code = ana_sweep_play(all->sweep, spread, all->points, report, err);
    spread->watcher = (ana_watcher){0};
    return code;
}

/// Plays the sweep or a shard of it, with its results kept if --store says so.
static status play_kept(const cli_arguments *arguments, ana_spread *spread, const ana_sweep *sweep,
                        ana_sweep_point *points, bool *is_part, error_message *err)
{
    text_buffer question = {0};
    sweep_play all = {sweep, points};
    describe(sweep, &question);
    const ana_kept_options about = {
        .name = "converge", .config_json = question.bytes, .seed = sweep->instance.seed};
    status code = cli_shard_play(arguments, spread, &about, play_sweep, &all, is_part, err);
    if (code == STATUS_OK && !*is_part) {
        code = cli_keep_open(arguments, spread, &about, err);
        if (code == STATUS_OK) code = play_sweep(&all, spread, NULL, err);
        code = cli_keep_close(spread, code, err);
    }
    text_free(&question);
    return code;
}

status cli_converge_rounds(const cli_arguments *arguments, ana_spread *spread, arena *memory,
                           text_buffer *out, error_message *err)
{
    ana_sweep sweep = {0};
    ana_sweep_point points[ANA_SWEEP_POINTS_MAX];
    bool is_part = false;
    TRY(read_question(arguments, &sweep, err));
    TRY(ana_sweep_prepare(&sweep, memory, points, err));
    TRY(play_kept(arguments, spread, &sweep, points, &is_part, err));
    if (!is_part) write_answer(arguments, &sweep, points, memory, out);
    return STATUS_OK;
}

/// Numbers of nodes of the table, where none are given.
static const int paper_nodes[] = {8, 16, 32, 64};

status cli_converge_paper(const cli_arguments *arguments, ana_spread *spread, arena *memory,
                          text_buffer *out, error_message *err)
{
    ana_sweep question = {.nodes_count = (int)(sizeof paper_nodes / sizeof paper_nodes[0])};
    memcpy(question.nodes, paper_nodes, sizeof paper_nodes);
    TRY(read_instances(arguments, &question, err));
    if (cli_has(arguments, "--nodes")) {
        question.nodes_count = 0;
        TRY(read_nodes(arguments, &question, err));
    }
    return ana_paper_append(&question, spread, cli_has(arguments, "--csv"), memory, out, err);
}

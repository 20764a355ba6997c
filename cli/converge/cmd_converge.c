/// `dynmo converge`: rounds that schemes of load balancing take, beside what is promised of them.
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/option_values.h"
#include "cli/shard_choice.h"

#include "analysis/converge/converge_sweep.h"
#include "analysis/converge/verdict/verdict.h"
#include "base/json.h"

#include <string.h>

static status read_seed(const cli_arguments *arguments, uint64_t *seed, error_message *err)
{
    int64_t value = 1;
    TRY(cli_int64(arguments, "--seed", 0, INT64_C(1) << 53, &value, err));
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
    const char *list = cli_value_or(arguments, "--gamma", "1");
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
    TRY(read_seed(arguments, &seed, err));
    TRY(cli_choice(arguments, "--initial", ana_initial_names, ANA_INITIAL_COUNT, ANA_INITIAL_STEP,
                   &initial, err));
    TRY(cli_choice(arguments, "--stop", ana_stop_names, ANA_STOP_COUNT, ANA_STOP_PHI, &stop, err));
    TRY(cli_int(arguments, "--instances", 1, ANA_INSTANCES_MAX, 20, &sweep->instance_count, err));
    TRY(cli_double(arguments, "--delta", 1e-12, 0.5, &sweep->delta, err));
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
    (cli_has(arguments, "--json") ? ana_sweep_write_json : ana_sweep_write_text)(answer, out);
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
    json_put_int_array(&writer, "nodes", sweep->nodes, sweep->nodes_count);
    json_put_double_array(&writer, "gammas", sweep->gammas, sweep->gamma_count, 17);
    json_end_object(&writer);
}

/// A sweep and where its answer goes; context of play_sweep.
typedef struct sweep_play {
    const ana_sweep *sweep;
    ana_sweep_point *points;
} sweep_play;

static status play_sweep(void *context, ana_spread *spread, error_message *err)
{
    const sweep_play *all = context;
    cli_progress progress = {0};
    cli_spread_watch(spread, "instances", &progress);
    const status code = ana_sweep_play(all->sweep, spread, all->points, err);
    cli_spread_unwatch(spread);
    return code;
}

/// Plays the sweep or a shard of it, with its results kept if --store says so.
static status play_kept(const cli_arguments *arguments, ana_spread *spread, const ana_sweep *sweep,
                        ana_sweep_point *points, arena *memory, bool *is_part, error_message *err)
{
    text_buffer question = {.memory = memory};
    sweep_play all = {sweep, points};
    describe(sweep, &question);
    const ana_kept_options about = {
        .name = "converge", .config_json = question.bytes, .seed = sweep->instance.seed};
    TRY(cli_shard_play(arguments, spread, &about, play_sweep, &all, memory, is_part, err));
    if (*is_part) return STATUS_OK;
    TRY(cli_keep_open(arguments, spread, &about, err));
    return cli_keep_close(spread, play_sweep(&all, spread, err), err);
}

static status answer_rounds(const cli_arguments *arguments, ana_spread *spread, arena *memory,
                            text_buffer *out, error_message *err)
{
    ana_sweep sweep = {0};
    ana_sweep_point points[ANA_SWEEP_POINTS_MAX];
    bool is_part = false;
    TRY(read_question(arguments, &sweep, err));
    TRY(ana_sweep_prepare(&sweep, memory, points, err));
    TRY(play_kept(arguments, spread, &sweep, points, memory, &is_part, err));
    if (!is_part) write_answer(arguments, &sweep, points, memory, out);
    return STATUS_OK;
}

/// Numbers of nodes of the table, where none are given.
static const int paper_nodes[] = {8, 16, 32, 64};

static status answer_paper(const cli_arguments *arguments, ana_spread *spread, arena *memory,
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

enum { CLAIMS_MAX = 32 };

/// Options that not all of the questions have, and which do.
static const struct {
    const char *option;
    bool of_rounds;
    bool of_paper;
    bool of_verdict;
} owned[] = {{"--graph", true, false, false}, {"--scheme", true, false, false},
             {"--nodes", true, true, false},  {"--initial", true, false, false},
             {"--stop", true, false, false},  {"--gamma", true, false, false},
             {"--delta", true, true, false},  {"--store", true, false, false},
             {"--shard", true, false, false}, {"--csv", false, true, false},
             {"--claim", false, false, true}, {"--json", true, false, true}};

static status check_question(const cli_arguments *arguments, error_message *err)
{
    const bool is_verdict = cli_has(arguments, "--verdict");
    const bool is_paper = cli_has(arguments, "--paper");
    if (is_verdict && is_paper) {
        return error_set(err, STATUS_INVALID, "--paper does not belong to --verdict");
    }
    for (size_t index = 0; index < sizeof owned / sizeof owned[0]; index++) {
        const char *option = owned[index].option;
        const bool belongs = is_verdict ? owned[index].of_verdict
                             : is_paper ? owned[index].of_paper
                                        : owned[index].of_rounds;
        if (belongs || !cli_has(arguments, option)) continue;
        if (is_verdict || is_paper) {
            return error_set(err, STATUS_INVALID, "%s does not belong to %s", option,
                             is_verdict ? "--verdict" : "--paper");
        }
        return error_set(err, STATUS_INVALID, "%s needs %s", option,
                         owned[index].of_paper ? "--paper" : "--verdict");
    }
    return STATUS_OK;
}

static status judge(const cli_arguments *arguments, arena *memory, text_buffer *out,
                    error_message *err)
{
    const char *names[CLAIMS_MAX];
    const bool is_json = cli_has(arguments, "--json");
    ana_verdict_options options = ana_verdict_options_default();
    options.interrupt = cli_interrupt_catch();
    json_writer writer = json_writer_init(out);
    int count = 0;
    int chosen = -1;
    for (; ana_claim_at(count) != NULL; count++) {
        names[count] = ana_claim_at(count)->name;
    }
    TRY(cli_choice(arguments, "--claim", names, count, -1, &chosen, err));
    TRY(cli_int(arguments, "--instances", 1, ANA_INSTANCES_MAX, options.run_count,
                &options.run_count, err));
    TRY(read_seed(arguments, &options.seed, err));
    if (is_json) json_begin_array(&writer);
    for (int index = 0; index < count; index++) {
        ana_verdict verdict;
        if (chosen >= 0 && index != chosen) continue;
        TRY(ana_claim_try(ana_claim_at(index), &options, memory, &verdict, err));
        if (is_json) {
            ana_verdict_write(&verdict, &writer);
        } else {
            if (out->length > 0) text_append(out, "\n");
            ana_verdict_append(&verdict, out);
        }
    }
    if (is_json) json_end_array(&writer);
    if (is_json) text_append(out, "\n");
    return STATUS_OK;
}

static status answer(const cli_arguments *arguments, arena *memory, text_buffer *out,
                     error_message *err)
{
    ana_spread spread;
    TRY(cli_spread_open(arguments, &spread, err));
    TRY(check_question(arguments, err));
    if (cli_has(arguments, "--verdict")) return judge(arguments, memory, out, err);
    return cli_has(arguments, "--paper") ? answer_paper(arguments, &spread, memory, out, err)
                                         : answer_rounds(arguments, &spread, memory, out, err);
}

const cli_command cli_command_converge = {
    .name = "converge",
    .synopsis = "--nodes N[,N]... | --verdict | --paper [OPTION]...",
    .summary = "measures how fast load balancing converges, and says what holds of it",
    .description =
        "Loads that can be divided are evened out over a graph, round by round, until gamma is "
        "reached, in many instances. Printed are the rounds beside the DynMo paper's bound, the "
        "repaired bound (README of analysis/converge) and what the graph's spectrum predicts; how "
        "often a round is good (the potential phi, the sum over all pairs of nodes of the "
        "difference of their loads, drops by the largest difference / (60 ln 2N)) stands in the "
        "JSON. The total load is N.\n\n"
        "Schemes: max-neighbor (the paper's model: a coin makes each node sender or receiver, a "
        "sender proposes to the neighbour that differs most, a receiver accepts the proposal that "
        "differs most, both average), odd-even (pairs in turns on path, even ring and dynamic; "
        "heaviest with lightest on complete; greedily by gap elsewhere), first-order, second-order "
        "and chebyshev diffusion, dimension-exchange (the colours of a proper edge colouring take "
        "turns), scan (prefix sums on a path: exact; a round is one of messages).\n\n"
        "Graphs: path, ring, torus (as square as N allows), star (node 0 is the hub), complete, "
        "hypercube, dynamic (in every round the path through the nodes in order of load). With "
        "several N or gammas, exponents, constant and rounds per decade are fitted by least "
        "squares, with intervals that hold 95 %. Quantiles are nearest ranks. Instance i of a seed "
        "is the same whatever else is asked.",
    .details =
        "With --verdict claims about balancing by diffusion are put to a search that is made then "
        "and there, exhaustive over small instances in a fixed order: Lemma 1 and 2 of the DynMo "
        "paper, that its Algorithm 3 ends and how good what it ends with is, what its released "
        "code does, the repaired bound. Printed are the smallest counterexamples and how much was "
        "searched.\n\n"
        "With --paper rounds on five graphs and all claims stand in one table: the bound as "
        "printed (good rounds, and rounds where one in N is good, as the paper has it), as "
        "repaired, and as measured, with the smallest counterexamples; as LaTeX, or with --csv.",
    .options =
        {
            {"--graph", "GRAPH", .help = "Who can exchange. Default: path."},
            {"--scheme", "SCHEME", .help = "Default: max-neighbor."},
            {"--nodes", "LIST",
             .help = "Nodes, as 64 or 8,16,32 (ascending) or 8:128 (doubling); 2 to 262144. "
                     "Default of --paper: 8:64."},
            {"--initial", "LOADS",
             .help = "step (all load on the first half), point (on node 0), ramp (in proportion to "
                     "the node's number) or random (uniform). Default: step."},
            {"--stop", "RULE",
             .help = "phi: the potential is at most gamma; gap: no two loads differ by more. "
                     "Default: phi."},
            {"--gamma", "LIST",
             .help = "Where to stop, in load, absolute; a list (descending) fits rounds per "
                     "decade. Default: 1."},
            {"--instances", "K",
             .help = "Runs per point, default 20; with --verdict of theorem-r on each graph, "
                     "default 40."},
            {"--seed", "S", .help = "Seed of coins and loads. Default: 1."},
            {"--delta", "D",
             .help = "Chance with which the repaired bound may fail. Default: 0.01."},
            {"--verdict", .help = "Say what holds of what is claimed, and what does not."},
            {"--claim", "NAME", .help = "Of --verdict: this claim alone."},
            {"--paper", .help = "Print the table of bounds and claims, as LaTeX."},
            {"--csv", .help = "Of --paper: print CSV."},
            CLI_SHARD_OPTIONS{"--json", .help = "Print one line of JSON."},
        },
    .operand_max = 0,
    .run = answer,
};

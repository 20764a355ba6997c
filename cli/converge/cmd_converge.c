/// `dynmo converge`: rounds that schemes of load balancing take, beside what is promised of them.
#include "cli/commands.h"
#include "cli/converge/converge_modes.h"
#include "cli/interrupt.h"
#include "cli/keep_choice.h"
#include "cli/option_values.h"
#include "cli/output.h"
#include "cli/spread_choice.h"

#include "analysis/converge/sweep_output.h"
#include "analysis/report/plot.h"
#include "base/file.h"
#include "base/json.h"

#include <string.h>

enum { ARENA_BLOCK_BYTES = 1 << 20 };

static const double gamma_max = 1e12;

static status find_scheme(const cli_arguments *arguments, const ana_scheme **scheme,
                          error_message *err)
{
    const char *names[32];
    int count = 0;
    for (const ana_scheme *const *at = ana_schemes; *at != NULL; at++) {
        names[count++] = (*at)->name;
    }
    int chosen = 0;
    TRY(cli_choice(arguments, "--scheme", names, count, 0, &chosen, err));
    *scheme = ana_schemes[chosen];
    return STATUS_OK;
}

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

static status read_number(const cli_arguments *arguments, const char *option, double min,
                          double max, double *value, error_message *err)
{
    if (!cli_has(arguments, option)) return STATUS_OK;
    return text_parse_double(cli_value(arguments, option), option, min, max, value, err);
}

/// Options that only one scheme has.
static status check_scheme_options(const cli_arguments *arguments, const ana_scheme *scheme,
                                   error_message *err)
{
    static const struct {
        const char *option;
        const ana_scheme *scheme;
    } owners[] = {{"--variant", &ana_scheme_max_neighbor},
                  {"--exchange", &ana_scheme_dimension_exchange},
                  {"--alpha", &ana_scheme_first_order}};
    for (size_t index = 0; index < sizeof owners / sizeof owners[0]; index++) {
        if (!cli_has(arguments, owners[index].option) || scheme == owners[index].scheme) continue;
        return error_set(err, STATUS_INVALID, "%s belongs to --scheme %s, not to %s",
                         owners[index].option, owners[index].scheme->name, scheme->name);
    }
    return STATUS_OK;
}

static status read_scheme(const cli_arguments *arguments, ana_sweep *sweep, error_message *err)
{
    int variant = 0;
    int exchange = 0;
    TRY(find_scheme(arguments, &sweep->scheme, err));
    TRY(check_scheme_options(arguments, sweep->scheme, err));
    TRY(cli_choice(arguments, "--variant", ana_variant_names, ANA_VARIANT_COUNT, ANA_VARIANT_Q,
                   &variant, err));
    TRY(cli_choice(arguments, "--exchange", ana_exchange_names, ANA_EXCHANGE_COUNT,
                   ANA_EXCHANGE_HALF, &exchange, err));
    sweep->options.variant = (ana_variant)variant;
    sweep->options.exchange = (ana_exchange)exchange;
    return read_number(arguments, "--alpha", 1e-9, 1, &sweep->options.alpha, err);
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
    TRY(read_number(arguments, "--delta", 1e-12, 0.5, &sweep->delta, err));
    sweep->instance = (ana_instance_question){.initial = (ana_initial)initial,
                                              .stop = (ana_stop)stop,
                                              .seed = seed,
                                              .every_round = cli_has(arguments, "--every-round"),
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

static status draw(const char *path, const ana_sweep_answer *answer,
                   status (*drawing)(const ana_sweep_answer *answer, text_buffer *svg,
                                     error_message *err),
                   error_message *err)
{
    text_buffer svg = {0};
    if (path == NULL) return STATUS_OK;
    status code = drawing(answer, &svg, err);
    if (code == STATUS_OK) code = file_write(path, svg.bytes, svg.length, err);
    text_free(&svg);
    return code;
}

status cli_converge_check_figures(const cli_arguments *arguments, error_message *err)
{
    static const char *const options[] = {"--figure", "--potential"};
    for (size_t index = 0; index < sizeof options / sizeof options[0]; index++) {
        const char *path = cli_value(arguments, options[index]);
        if (path == NULL) continue;
        if (strcmp(path, "-") == 0) {
            return error_set(err, STATUS_INVALID, "%s -: standard output has the answer already",
                             options[index]);
        }
        TRY(file_check_writable(path, err));
        const status drawable = ana_plot_check(err);
        if (drawable != STATUS_OK) return error_prefix(err, drawable, "%s", options[index]);
    }
    return STATUS_OK;
}

/// On the leader, once all instances are there.
static status print_answer(const cli_arguments *arguments, const ana_sweep *sweep,
                           const ana_sweep_point *points, arena *memory, error_message *err)
{
    text_buffer out = {0};
    ana_sweep_answer *answer = arena_array(memory, 1, sizeof *answer);
    answer->sweep = sweep;
    answer->points = points;
    ana_sweep_summarise(answer, arena_array(memory, (size_t)sweep->instance_count, sizeof(double)));
    TRY(draw(cli_value(arguments, "--figure"), answer, ana_sweep_draw_rounds, err));
    TRY(draw(cli_value(arguments, "--potential"), answer, ana_sweep_draw_potential, err));
    if (cli_has(arguments, "--json")) {
        ana_sweep_write_json(answer, &out);
    } else {
        ana_sweep_write_text(answer, &out);
    }
    const status printed = cli_print(&out, err);
    text_free(&out);
    return printed;
}

/// All that the instances depend on, as JSON, by which kept results are found again.
static void describe(const ana_sweep *sweep, text_buffer *out)
{
    json_writer writer = json_writer_init(out);
    json_begin_object(&writer);
    json_put_string(&writer, "graph", ana_graph_names[sweep->graph]);
    json_put_string(&writer, "scheme", sweep->scheme->name);
    json_put_string(&writer, "variant", ana_variant_names[sweep->options.variant]);
    json_put_string(&writer, "exchange", ana_exchange_names[sweep->options.exchange]);
    json_put_double(&writer, "alpha", sweep->options.alpha);
    json_put_string(&writer, "initial", ana_initial_names[sweep->instance.initial]);
    json_put_string(&writer, "stop", ana_stop_names[sweep->instance.stop]);
    json_put_bool(&writer, "every_round", sweep->instance.every_round);
    json_put_int64(&writer, "instances", sweep->instance_count);
    json_write_key(&writer, "nodes");
    json_write_int_array(&writer, sweep->nodes, sweep->nodes_count);
    json_write_key(&writer, "gammas");
    json_begin_array(&writer);
    for (int gamma = 0; gamma < sweep->gamma_count; gamma++) {
        json_write_double(&writer, sweep->gammas[gamma]);
    }
    json_end_array(&writer);
    json_end_object(&writer);
}

/// Plays the sweep, with its results kept if --store says so. Collective.
static status play_kept(const cli_arguments *arguments, ana_spread *spread, const ana_sweep *sweep,
                        ana_sweep_point *points, error_message *err)
{
    ana_kept_run *kept = NULL;
    text_buffer question = {0};
    describe(sweep, &question);
    const ana_kept_options about = {
        .name = "converge", .config_json = question.bytes, .seed = sweep->instance.seed};
    status code = cli_keep_open(arguments, spread, &about, &kept, err);
    cli_progress progress = {0};
    cli_spread_watch(spread, "batches of instances", &progress);
    if (code == STATUS_OK) code = ana_sweep_play(sweep, spread, points, err);
    text_free(&question);
    return cli_keep_close(kept, code, err);
}

static status answer_rounds(const cli_arguments *arguments, ana_spread *spread, arena *memory,
                            error_message *err)
{
    ana_sweep sweep = {0};
    ana_sweep_point points[ANA_SWEEP_POINTS_MAX];
    status code = read_question(arguments, &sweep, err);
    if (code == STATUS_OK && ana_spread_is_leader(spread)) {
        code = cli_converge_check_figures(arguments, err);
    }
    if (code == STATUS_OK) code = ana_sweep_prepare(&sweep, memory, points, err);
    TRY(ana_spread_agree(spread, code, err));
    TRY(play_kept(arguments, spread, &sweep, points, err));
    if (!ana_spread_is_leader(spread)) return STATUS_OK;
    return print_answer(arguments, &sweep, points, memory, err);
}

static status answer(const cli_arguments *arguments, ana_spread *spread, arena *memory,
                     error_message *err)
{
    cli_converge_mode mode = CLI_CONVERGE_ROUNDS;
    TRY(ana_spread_agree(spread, cli_converge_mode_of(arguments, &mode, err), err));
    switch (mode) {
    case CLI_CONVERGE_VERDICT:
        return cli_converge_verdict(arguments, spread, memory, err);
    case CLI_CONVERGE_LAYERS:
        return cli_converge_layers(arguments, spread, memory, err);
    case CLI_CONVERGE_DRIFT:
        return cli_converge_drift(arguments, spread, memory, err);
    default:
        return answer_rounds(arguments, spread, memory, err);
    }
}

static status run_command(const cli_arguments *arguments, error_message *err)
{
    ana_spread *spread = NULL;
    TRY(cli_spread_open(arguments, &spread, err));
    arena *memory = arena_create(ARENA_BLOCK_BYTES);
    const status code = answer(arguments, spread, memory, err);
    arena_destroy(memory);
    cli_spread_close(spread, err);
    return code;
}

const cli_command cli_command_converge = {
    .name = "converge",
    .synopsis = "--nodes N[,N]... | --verdict | --layers L --stages P | --trace FILE --stages P "
                "[OPTION]...",
    .summary = "measures how fast load balancing converges, and says what holds of it",
    .description =
        "Loads that can be divided are evened out over a graph, round by round, until gamma is "
        "reached, in many instances. Printed are the rounds beside the DynMo paper's bound, the "
        "repaired bound (README of analysis/converge) and what the graph's spectrum predicts; how "
        "often a round is good (the potential phi, the sum over all pairs of nodes of the "
        "difference of their loads, drops by the largest difference / (60 ln 2N)); whether phi "
        "dropped by at least the gaps that were averaged. The total load is N.\n\n"
        "Schemes: max-neighbor (the paper's model: a coin makes each node sender or receiver, a "
        "sender proposes to the neighbour that differs most, a receiver accepts the proposal that "
        "differs most, both average), odd-even (pairs in turns on path, even ring and dynamic; "
        "heaviest with lightest on complete; greedily by gap elsewhere), first-order, second-order "
        "and chebyshev diffusion, dimension-exchange (the colours of a proper edge colouring take "
        "turns), scan (prefix sums on a path: exact; a round is one of messages).\n\n"
        "Graphs: path, ring, torus (as square as N allows), star (node 0 is the hub), complete, "
        "hypercube, dumbbell (two complete halves and one edge), dynamic (in every round the path "
        "through the nodes in order of load). With several N or gammas, exponents, constant and "
        "rounds per decade are fitted by least squares, with intervals that hold 95 %. Quantiles "
        "are nearest ranks. Instance i of a seed is the same whatever else is asked.",
    .details =
        "With --verdict claims about balancing by diffusion are put to a search that is made then "
        "and there, exhaustive over small instances in a fixed order: Lemma 1 and 2 of the DynMo "
        "paper, that its Algorithm 3 ends and how good what it ends with is, what its released "
        "code does, the repaired bound. Printed are the smallest counterexamples, how much was "
        "searched, and how families of instances grow. With --loads the same is said of given "
        "layers, under every balancer of dynmo plan.\n\n"
        "With --layers and --stages the discrete balancers split layers drawn from families; "
        "printed is how far from the contiguous optimum and from the lower bound of any "
        "assignment they end, with intervals that hold 95 %.\n\n"
        "With --trace or --drift loads drift while a scheme (default: first-order) balances "
        "divisible layers on a chain of stages, some rounds in every iteration: the gap (max - "
        "min) that is left, the bound beside it, the fewest rounds that keep it within the "
        "tolerance, and what whole layers leave. Derivations: VERDICTS.md of analysis/converge.",
    .options =
        {
            {.name = "--graph", .argument = "GRAPH", .help = "Who can exchange. Default: path."},
            {.name = "--scheme", .argument = "SCHEME", .help = "Default: max-neighbor."},
            {.name = "--nodes",
             .argument = "LIST",
             .help = "Nodes, as 64 or 8,16,32 (ascending) or 8:128 (doubling); 2 to 65536."},
            {.name = "--initial",
             .argument = "LOADS",
             .help = "step (all load on the first half), point (on node 0), ramp (in proportion to "
                     "the node's number) or random (uniform). Default: step."},
            {.name = "--stop",
             .argument = "RULE",
             .help = "phi: the potential is at most gamma; gap: no two loads differ by more. "
                     "Default: phi."},
            {.name = "--gamma",
             .argument = "LIST",
             .help = "Where to stop, in load, absolute; a list (descending) fits rounds per "
                     "decade. Default: 1. With --loads in ns; default: the mean load of a stage."},
            {.name = "--instances",
             .argument = "K",
             .help = "Runs per point, default 20; with --verdict random instances per claim, "
                     "default 2000; with --layers instances per family and size, default 100."},
            {.name = "--seed", .argument = "S", .help = "Seed of coins and loads. Default: 1."},
            {.name = "--variant",
             .argument = "V",
             .help = "Of max-neighbor: Q, P (senders do not see roles) or Qr (receivers accept at "
                     "random). Default: Q."},
            {.name = "--exchange",
             .argument = "X",
             .help = "Of dimension-exchange: half (pairs average) or optimal. Default: half."},
            {.name = "--alpha",
             .argument = "A",
             .help = "Of first-order: share of a difference that flows. Default: the best for the "
                     "graph's spectrum."},
            {.name = "--delta",
             .argument = "D",
             .help = "Chance with which the repaired bound may fail. Default: 0.01."},
            {.name = "--every-round",
             .help = "Look at phi in every round also above 128 nodes, where else blocks of rounds "
                     "are checked."},
            {.name = "--verdict", .help = "Say what holds of what is claimed, and what does not."},
            {.name = "--claim",
             .argument = "NAME",
             .help = "Of --verdict: this claim alone. May be given several times.",
             .may_repeat = true},
            {.name = "--loads",
             .argument = "FILE",
             .help = "Of --verdict: judge these layers, written as for dynmo plan --loads."},
            {.name = "--stages",
             .argument = "P",
             .help = "Stages, with --layers a list. Needed by --loads, --layers, --trace and "
                     "--drift."},
            {.name = "--layers",
             .argument = "LIST",
             .help = "Have so many layers, as 24,48, split by the discrete balancers."},
            {.name = "--chunks",
             .argument = "V",
             .help = "Of --layers: also give each rank so many chunks, in order and, of two, "
                     "folded as a V; loads are of ranks. Default: one chunk only."},
            {.name = "--family",
             .argument = "NAME",
             .help = "Of --layers: draw from this family alone. Default: all."},
            {.name = "--trace",
             .argument = "FILE",
             .help = "Let loads drift as the layers of a trace in this store do."},
            {.name = "--trace-name",
             .argument = "NAME",
             .help = "Of --trace: which one. Default: the only one, or the latest."},
            {.name = "--iterations", .argument = "A:B", .help = "Of --trace. Default: all."},
            {.name = "--drift",
             .argument = "LIST",
             .help = "Let loads drift by so much per iteration: l2 norm, in units of the mean "
                     "load of a stage."},
            {.name = "--rounds-per-iteration",
             .argument = "LIST",
             .help = "Of drifting loads. Default: 1,2,4,8,16,32,64."},
            {.name = "--tolerance",
             .argument = "X",
             .help = "Of --trace: (max - min) / mean that the rounds must keep. Default: 0.05."},
            {.name = "--figure",
             .argument = "FILE.svg",
             .help = "Draw the rounds beside bounds and prediction, or what drifting loads "
                     "did (gnuplot)."},
            {.name = "--potential",
             .argument = "FILE.svg",
             .help = "Draw phi over the rounds of the last point's first instance (gnuplot)."},
            CLI_SPREAD_OPTIONS CLI_KEEP_OPTIONS{.name = "--json",
                                                .help = "Print one line of JSON."},
        },
    .operand_max = 0,
    .run = run_command,
};

/// `dynmo converge`: rounds that schemes of load balancing take, beside what is promised of them.
#include "cli/commands.h"
#include "cli/converge/converge_modes.h"
#include "cli/output.h"
#include "cli/shard_choice.h"

#include "analysis/report/plot.h"
#include "base/file.h"

#include <string.h>

enum { ARENA_BLOCK_BYTES = 1 << 20 };

/// Options that belong to one of the two questions only.
static const char *const of_rounds[] = {
    "--graph", "--scheme", "--nodes",       "--initial", "--stop",  "--variant", "--exchange",
    "--alpha", "--delta",  "--every-round", "--figure",  "--store", "--again",   "--shard"};
static const char *const of_verdict[] = {"--claim", "--loads", "--stages"};

static status check_question(const cli_arguments *arguments, error_message *err)
{
    const bool is_verdict = cli_has(arguments, "--verdict");
    for (size_t index = 0; is_verdict && index < sizeof of_rounds / sizeof of_rounds[0]; index++) {
        if (!cli_has(arguments, of_rounds[index])) continue;
        return error_set(err, STATUS_INVALID, "%s does not belong to --verdict", of_rounds[index]);
    }
    for (size_t index = 0; !is_verdict && index < sizeof of_verdict / sizeof of_verdict[0];
         index++) {
        if (!cli_has(arguments, of_verdict[index])) continue;
        return error_set(err, STATUS_INVALID, "%s needs --verdict", of_verdict[index]);
    }
    return STATUS_OK;
}

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

status cli_converge_scheme(const cli_arguments *arguments, const ana_scheme *fallback,
                           const ana_scheme **scheme, error_message *err)
{
    enum { NAMES_MAX = 32 };
    const char *names[NAMES_MAX];
    int count = 0;
    int chosen = 0;
    while (ana_schemes[count] != NULL) {
        names[count] = ana_schemes[count]->name;
        count++;
    }
    TRY(cli_choice(arguments, "--scheme", names, count, 0, &chosen, err));
    *scheme = cli_has(arguments, "--scheme") ? ana_schemes[chosen] : fallback;
    return STATUS_OK;
}

status cli_converge_number(const cli_arguments *arguments, const char *option, double min,
                           double max, double *value, error_message *err)
{
    if (!cli_has(arguments, option)) return STATUS_OK;
    return text_parse_double(cli_value(arguments, option), option, min, max, value, err);
}

status cli_converge_check_figure(const cli_arguments *arguments, error_message *err)
{
    const char *path = cli_value(arguments, "--figure");
    if (path == NULL) return STATUS_OK;
    if (strcmp(path, "-") == 0) {
        return error_set(err, STATUS_INVALID, "--figure -: standard output has the answer already");
    }
    TRY(file_check_writable(path, err));
    const status drawable = ana_plot_check(err);
    return drawable == STATUS_OK ? STATUS_OK : error_prefix(err, drawable, "--figure");
}

static status answer(const cli_arguments *arguments, ana_spread *spread, arena *memory,
                     error_message *err)
{
    text_buffer out = {0};
    TRY(check_question(arguments, err));
    status code = cli_has(arguments, "--verdict")
                      ? cli_converge_verdict(arguments, memory, &out, err)
                      : cli_converge_rounds(arguments, spread, memory, &out, err);
    if (code == STATUS_OK && out.length > 0) code = cli_print(&out, err);
    text_free(&out);
    return code;
}

static status run_command(const cli_arguments *arguments, error_message *err)
{
    ana_spread spread;
    TRY(cli_spread_open(arguments, &spread, err));
    arena *memory = arena_create(ARENA_BLOCK_BYTES);
    const status code = answer(arguments, &spread, memory, err);
    arena_destroy(memory);
    return code;
}

const cli_command cli_command_converge = {
    .name = "converge",
    .synopsis = "--nodes N[,N]... | --verdict [OPTION]...",
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
        "layers, under every balancer of dynmo plan.",
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
                     "default 2000."},
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
            {.name = "--stages", .argument = "P", .help = "Of --loads: stages of the pipeline."},
            {.name = "--figure",
             .is_output = true,
             .argument = "FILE.svg",
             .help = "Draw the rounds beside bounds and prediction (gnuplot)."},
            CLI_SHARD_OPTIONS{.name = "--json", .help = "Print one line of JSON."},
        },
    .operand_max = 0,
    .run = run_command,
};

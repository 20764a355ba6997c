/// `dynmo converge`: rounds that schemes of load balancing take, beside what is promised of them.
#include "cli/commands.h"
#include "cli/converge/converge_rounds.h"
#include "cli/output.h"
#include "cli/shard_choice.h"

#include "analysis/converge/converge_sweep.h"
#include "analysis/converge/verdict/verdict.h"
#include "base/json.h"

enum { ARENA_BLOCK_BYTES = 1 << 20, CLAIMS_MAX = 32 };

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
             {"--again", true, false, false}, {"--shard", true, false, false},
             {"--csv", false, true, false},   {"--claim", false, false, true},
             {"--json", true, false, true}};

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
    json_writer writer = json_writer_init(out);
    int count = 0;
    int chosen = -1;
    for (; ana_claim_at(count) != NULL; count++) {
        names[count] = ana_claim_at(count)->name;
    }
    TRY(cli_choice(arguments, "--claim", names, count, -1, &chosen, err));
    TRY(cli_int(arguments, "--instances", 1, ANA_INSTANCES_MAX, options.run_count,
                &options.run_count, err));
    TRY(cli_converge_seed(arguments, &options.seed, err));
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

static status answer(const cli_arguments *arguments, ana_spread *spread, arena *memory,
                     error_message *err)
{
    text_buffer out = {0};
    TRY(check_question(arguments, err));
    status code = cli_has(arguments, "--verdict") ? judge(arguments, memory, &out, err)
                  : cli_has(arguments, "--paper")
                      ? cli_converge_paper(arguments, spread, memory, &out, err)
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
        "hypercube, dynamic (in every round the path "
        "through the nodes in order of load). With several N or gammas, exponents, constant and "
        "rounds per decade are fitted by least squares, with intervals that hold 95 %. Quantiles "
        "are nearest ranks. Instance i of a seed is the same whatever else is asked.",
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
            {.name = "--graph", .argument = "GRAPH", .help = "Who can exchange. Default: path."},
            {.name = "--scheme", .argument = "SCHEME", .help = "Default: max-neighbor."},
            {.name = "--nodes",
             .argument = "LIST",
             .help = "Nodes, as 64 or 8,16,32 (ascending) or 8:128 (doubling); 2 to 65536. "
                     "Default of --paper: 8:64."},
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
                     "decade. Default: 1."},
            {.name = "--instances",
             .argument = "K",
             .help = "Runs per point, default 20; with --verdict of theorem-r on each graph, "
                     "default 40."},
            {.name = "--seed", .argument = "S", .help = "Seed of coins and loads. Default: 1."},
            {.name = "--delta",
             .argument = "D",
             .help = "Chance with which the repaired bound may fail. Default: 0.01."},
            {.name = "--verdict", .help = "Say what holds of what is claimed, and what does not."},
            {.name = "--claim", .argument = "NAME", .help = "Of --verdict: this claim alone."},
            {.name = "--paper", .help = "Print the table of bounds and claims, as LaTeX."},
            {.name = "--csv", .help = "Of --paper: print CSV."},
            CLI_SHARD_OPTIONS{.name = "--json", .help = "Print one line of JSON."},
        },
    .operand_max = 0,
    .run = run_command,
};

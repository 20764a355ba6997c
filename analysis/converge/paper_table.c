/// The table of `dynmo converge --paper`: bounds as printed, repaired and measured; every claim.
#include "analysis/converge/converge_sweep.h"

#include "analysis/converge/verdict/verdict.h"

#include <math.h>
#include <string.h>

enum { COLUMN_COUNT = 11 };

static const struct {
    const char *key;     // in CSV
    const char *heading; // in LaTeX
} columns[COLUMN_COUNT] = {
    {"claim", "claim"},
    {"condition", "condition"},
    {"size", "$N$ or $n$"},
    {"bound_printed", "as printed"},
    {"bound_printed_rounds", "rounds, $P=1/N$"},
    {"bound_repaired", "as repaired"},
    {"measured_median", "median"},
    {"measured_max", "largest"},
    {"tried", "tried"},
    {"violations", "broken by"},
    {"counterexample", "smallest counterexample"},
};

typedef struct cell {
    const char *text; // NULL: none
    double number;    // NaN: none
} cell;

/// Where rows go.
typedef struct table {
    arena *memory;
    bool is_csv;
    text_buffer *out;
} table;

/// A row with nothing but its claim and condition.
static void begin_row(const char *claim, const char *condition, cell row[COLUMN_COUNT])
{
    for (int column = 0; column < COLUMN_COUNT; column++) {
        row[column] = (cell){.number = (double)NAN};
    }
    row[0].text = claim;
    row[1].text = condition;
}

/// Characters that mean something in the format; of LaTeX also comparisons and bars, which are
/// mathematics in every font encoding.
static void append_escaped(const char *text, bool is_csv, text_buffer *out)
{
    for (; *text != '\0'; text++) {
        const bool is_relation = !is_csv && strchr("<>|", *text) != NULL;
        if (strchr(is_csv ? "\"" : "&%$#_{}", *text) != NULL)
            text_append(out, is_csv ? "\"" : "\\");
        text_format(out, is_relation ? "$%c$" : "%c", *text);
    }
}

static void append_row(const table *made, const cell row[COLUMN_COUNT])
{
    const char *quote = made->is_csv ? "\"" : "";
    for (int column = 0; column < COLUMN_COUNT; column++) {
        if (column > 0) text_append(made->out, made->is_csv ? "," : " & ");
        if (!isnan(row[column].number)) text_format(made->out, "%.0f", row[column].number);
        if (row[column].text == NULL) continue;
        text_append(made->out, quote);
        append_escaped(row[column].text, made->is_csv, made->out);
        text_append(made->out, quote);
    }
    text_append(made->out, made->is_csv ? "\n" : " \\\\\n");
}

/// Rounds of one graph at every number of nodes. Gamma is S/N = 1.
static status add_graph(const ana_sweep *question, ana_graph_kind graph, ana_spread *spread,
                        const table *made, error_message *err)
{
    ana_sweep sweep = *question;
    ana_sweep_point points[ANA_SWEEP_POINTS_MAX];
    sweep.scheme = &ana_scheme_max_neighbor;
    sweep.graph = graph;
    sweep.gammas[0] = 1;
    sweep.gamma_count = 1;
    TRY(ana_sweep_prepare(&sweep, made->memory, points, err));
    TRY(ana_sweep_play(&sweep, spread, points, err));
    ana_sweep_answer *answer = arena_array(made->memory, 1, sizeof *answer);
    answer->sweep = &sweep;
    answer->points = points;
    ana_sweep_summarise(answer,
                        arena_array(made->memory, (size_t)sweep.instance_count, sizeof(double)));
    for (int point = 0; point < sweep.nodes_count; point++) {
        const ana_point_summary *at = &answer->summaries[point];
        cell row[COLUMN_COUNT];
        begin_row("rounds of averaging", ana_graph_names[graph], row);
        row[2].number = sweep.nodes[point];
        row[3].number = (double)at->bound_paper;
        row[4].number = (double)at->bound_paper * sweep.nodes[point];
        row[5].number = (double)at->bound_repaired;
        row[6].number = (double)at->rounds_median;
        row[7].number = (double)at->rounds_max;
        row[8].number = sweep.instance_count;
        row[9].number = round((1 - at->within_repaired_ratio) * sweep.instance_count);
        append_row(made, row);
    }
    return STATUS_OK;
}

static const char *counterexample_of(const ana_verdict_case *tried, arena *memory)
{
    if (tried->first_violation == NULL || tried->example.layer_count == 0) {
        return tried->first_violation;
    }
    text_buffer words = {.memory = memory};
    ana_instance_append(&tried->example, &words);
    text_format(&words, ": %s", tried->first_violation);
    return words.bytes;
}

static status add_claims(const ana_sweep *question, const table *made, error_message *err)
{
    ana_verdict_options options = ana_verdict_options_default();
    options.seed = question->instance.seed;
    options.interrupt = question->instance.interrupt;
    for (int index = 0; ana_claim_at(index) != NULL; index++) {
        const ana_claim *claim = ana_claim_at(index);
        ana_verdict verdict;
        TRY(ana_claim_try(claim, &options, made->memory, &verdict, err));
        for (int at = 0; at < verdict.case_count; at++) {
            const ana_verdict_case *tried = &verdict.cases[at];
            cell row[COLUMN_COUNT];
            begin_row(claim->name, claim->cases[at].condition, row);
            row[8].number = (double)tried->examined;
            row[9].number = (double)tried->violation_count;
            row[COLUMN_COUNT - 1].text = counterexample_of(tried, made->memory);
            append_row(made, row);
        }
    }
    return STATUS_OK;
}

static void append_head(bool is_csv, text_buffer *out)
{
    if (!is_csv) text_append(out, "\\begin{longtable}{llrrrrrrrrp{6cm}}\n\\hline\n");
    for (int column = 0; column < COLUMN_COUNT; column++) {
        if (column > 0) text_append(out, is_csv ? "," : " & ");
        text_append(out, is_csv ? columns[column].key : columns[column].heading);
    }
    text_append(out, is_csv ? "\n" : " \\\\\n\\hline\n\\endhead\n");
}

status ana_paper_append(const ana_sweep *question, ana_spread *spread, bool is_csv, arena *memory,
                        text_buffer *out, error_message *err)
{
    static const ana_graph_kind graphs[] = {ANA_GRAPH_PATH, ANA_GRAPH_RING, ANA_GRAPH_STAR,
                                            ANA_GRAPH_COMPLETE, ANA_GRAPH_DYNAMIC};
    const table made = {.memory = memory, .is_csv = is_csv, .out = out};
    append_head(is_csv, out);
    for (size_t graph = 0; graph < sizeof graphs / sizeof graphs[0]; graph++) {
        TRY(add_graph(question, graphs[graph], spread, &made, err));
    }
    TRY(add_claims(question, &made, err));
    if (!is_csv) text_append(out, "\\hline\n\\end{longtable}\n");
    return STATUS_OK;
}

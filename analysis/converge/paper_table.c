/// The table of `dynmo converge --paper`: bounds as printed, repaired and measured; every claim.
#include "analysis/converge/converge_sweep.h"

#include "analysis/converge/verdict/verdict.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { COLUMN_COUNT = 11, ROWS_MAX = 1024 };

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

typedef struct table {
    arena *memory;
    cell rows[ROWS_MAX][COLUMN_COUNT];
    int row_count;
} table;

/// A row with nothing but its claim and condition.
static cell *add_row(table *made, const char *claim, const char *condition)
{
    assert(made->row_count < ROWS_MAX); // five graphs at 64 points, and the claims
    cell *row = made->rows[made->row_count++];
    for (int column = 0; column < COLUMN_COUNT; column++) {
        row[column] = (cell){.number = (double)NAN};
    }
    row[0].text = claim;
    row[1].text = condition;
    return row;
}

/// Rounds of one graph at every number of nodes. Gamma is S/N = 1.
static status add_graph(const ana_sweep *question, ana_graph_kind graph, ana_spread *spread,
                        table *made, error_message *err)
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
        cell *row = add_row(made, "rounds of averaging", ana_graph_names[graph]);
        row[2].number = sweep.nodes[point];
        row[3].number = (double)at->bound_paper;
        row[4].number = (double)at->bound_paper * sweep.nodes[point];
        row[5].number = (double)at->bound_repaired;
        row[6].number = (double)at->rounds_median;
        row[7].number = (double)at->rounds_max;
        row[8].number = sweep.instance_count;
        row[9].number = round((1 - at->within_repaired_ratio) * sweep.instance_count);
    }
    return STATUS_OK;
}

static const char *counterexample_of(const ana_verdict_case *tried, arena *memory)
{
    if (tried->first_violation == NULL || tried->example.layer_count == 0) {
        return tried->first_violation;
    }
    text_buffer words = {0};
    ana_instance_append(&tried->example, &words);
    text_format(&words, ": %s", tried->first_violation);
    const char *kept = arena_string(memory, words.bytes);
    text_free(&words);
    return kept;
}

static status add_claims(const ana_sweep *question, table *made, error_message *err)
{
    ana_verdict_options options = ana_verdict_options_default();
    options.seed = question->instance.seed;
    for (int index = 0; ana_claim_at(index) != NULL; index++) {
        const ana_claim *claim = ana_claim_at(index);
        ana_verdict verdict;
        TRY(ana_claim_try(claim, &options, made->memory, &verdict, err));
        for (int at = 0; at < verdict.case_count; at++) {
            const ana_verdict_case *tried = &verdict.cases[at];
            cell *row = add_row(made, claim->name, claim->cases[at].condition);
            row[8].number = (double)tried->examined;
            row[9].number = (double)tried->violation_count;
            row[COLUMN_COUNT - 1].text = counterexample_of(tried, made->memory);
        }
    }
    return STATUS_OK;
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

static void append_cell(const cell *at, int column, bool is_csv, text_buffer *out)
{
    if (column > 0) text_append(out, is_csv ? "," : " & ");
    if (!isnan(at->number)) text_format(out, "%.0f", at->number);
    if (at->text == NULL) return;
    if (is_csv) text_append(out, "\"");
    append_escaped(at->text, is_csv, out);
    if (is_csv) text_append(out, "\"");
}

static void append_table(const table *made, bool is_csv, text_buffer *out)
{
    if (!is_csv) text_append(out, "\\begin{longtable}{llrrrrrrrrp{6cm}}\n\\hline\n");
    for (int column = 0; column < COLUMN_COUNT; column++) {
        text_format(out, "%s%s",
                    column == 0 ? ""
                    : is_csv    ? ","
                                : " & ",
                    is_csv ? columns[column].key : columns[column].heading);
    }
    text_append(out, is_csv ? "\n" : " \\\\\n\\hline\n\\endhead\n");
    for (int row = 0; row < made->row_count; row++) {
        for (int column = 0; column < COLUMN_COUNT; column++) {
            append_cell(&made->rows[row][column], column, is_csv, out);
        }
        text_append(out, is_csv ? "\n" : " \\\\\n");
    }
    if (!is_csv) text_append(out, "\\hline\n\\end{longtable}\n");
}

status ana_paper_append(const ana_sweep *question, ana_spread *spread, bool is_csv, arena *memory,
                        text_buffer *out, error_message *err)
{
    static const ana_graph_kind graphs[] = {ANA_GRAPH_PATH, ANA_GRAPH_RING, ANA_GRAPH_STAR,
                                            ANA_GRAPH_COMPLETE, ANA_GRAPH_DYNAMIC};
    table *made = arena_array(memory, 1, sizeof *made);
    made->memory = memory;
    for (size_t graph = 0; graph < sizeof graphs / sizeof graphs[0]; graph++) {
        TRY(add_graph(question, graphs[graph], spread, made, err));
    }
    TRY(add_claims(question, made, err));
    append_table(made, is_csv, out);
    return STATUS_OK;
}

/// Names of measured runs, by what tells them apart.
#include "analysis/validate/validate.h"

#include <stdlib.h>
#include <string.h>

/// What may tell runs apart, and what stands before it; in this order as much as it takes.
static const struct {
    ana_real_column column;
    const char *prefix; // as a `case` spells it
} parts[] = {
    {ANA_REAL_CASE, ""},
    {ANA_REAL_MODEL, ""},
    {ANA_REAL_LAYERS, "l"},
    {ANA_REAL_HIDDEN, "hidden"},
    {ANA_REAL_HARDWARE, ""},
    {ANA_REAL_GPUS, "gpus"},
    {ANA_REAL_TP, "tp"},
    {ANA_REAL_PP, "pp"},
    {ANA_REAL_VP, "vp"},
    {ANA_REAL_CP, "cp"},
    {ANA_REAL_EP, "ep"},
    {ANA_REAL_ETP, "etp"},
    {ANA_REAL_DP, "dp"},
    {ANA_REAL_FSDP, "fsdp"},
    {ANA_REAL_PRECISION, ""},
    {ANA_REAL_GLOBAL_BATCH, "gbs"},
    {ANA_REAL_MICROBATCHES, "mbc"},
    {ANA_REAL_MICROBATCH, "mbs"},
    {ANA_REAL_SEQUENCE, "seq"},
    {ANA_REAL_RECOMPUTE, ""},
    {ANA_REAL_SHARDING, ""},
    {ANA_REAL_SCHEDULE, ""},
    {ANA_REAL_ATTENTION, ""},
};

enum { PARTS = sizeof parts / sizeof parts[0] };

typedef struct named_row {
    const char *name; // as far as it is made
    const char *value;
} named_row;

static int by_name_and_value(const void *one, const void *other)
{
    const named_row *left = one;
    const named_row *right = other;
    const int order = strcmp(left->name, right->name);
    return order != 0 ? order : strcmp(left->value, right->value);
}

/// Whether a column tells rows apart that have the same name so far.
///
/// @param rows [row_count] scratch
static bool tells_apart(const ana_real_runs *runs, ana_real_column column, const char *const *names,
                        named_row *rows)
{
    const int count = runs->source.row_count;
    for (int row = 0; row < count; row++) {
        rows[row] = (named_row){names[row], ana_real_text(runs, row, column)};
    }
    qsort(rows, (size_t)count, sizeof *rows, by_name_and_value);
    for (int row = 1; row < count; row++) {
        if (strcmp(rows[row].name, rows[row - 1].name) != 0) continue;
        if (strcmp(rows[row].value, rows[row - 1].value) != 0) return true;
    }
    return false;
}

/// A degree of 1 goes without saying.
static bool is_silent(ana_real_column column, const char *value)
{
    const bool is_degree = column >= ANA_REAL_TP && column <= ANA_REAL_FSDP;
    return value[0] == '\0' || (is_degree && (strcmp(value, "1") == 0 || strcmp(value, "0") == 0));
}

static void add_part(const ana_real_runs *runs, int part, arena *memory, const char **names)
{
    for (int row = 0; row < runs->source.row_count; row++) {
        const char *value = ana_real_text(runs, row, parts[part].column);
        if (is_silent(parts[part].column, value)) continue;
        names[row] = arena_format(memory, "%s%s%s%s", names[row], names[row][0] != '\0' ? " " : "",
                                  parts[part].prefix, value);
    }
}

const char *const *ana_real_run_names(const ana_real_runs *runs, arena *memory)
{
    const size_t count = (size_t)runs->source.row_count;
    const char **names = arena_array(memory, count, sizeof *names);
    named_row *rows = arena_array(memory, count, sizeof *rows);
    for (size_t row = 0; row < count; row++) {
        names[row] = "";
    }
    int said = PARTS; // first part that any row says
    bool is_told = false;
    for (int part = 0; part < PARTS; part++) {
        if (said == PARTS && ana_real_says(runs, parts[part].column)) said = part;
        if (!tells_apart(runs, parts[part].column, names, rows)) continue;
        add_part(runs, part, memory, names);
        is_told = true;
    }
    if (!is_told && said < PARTS) add_part(runs, said, memory, names);
    return names;
}

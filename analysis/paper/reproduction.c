#include "analysis/paper/reproduction.h"

#include "analysis/paper/rows.h"

#include <math.h>
#include <string.h>

extern const embedded_file ana_paper_experiments[];

static const char *const agreement_names[ANA_AGREEMENT_COUNT] = {"predicted", "consistent",
                                                                 "calibrated", "unreachable"};

/// "agrees" where the published number, printed to two decimals, lies within low and high,
/// "disagrees" where not, "open" where none is published or none was played.
static const char *outcome_of(const ana_reproduced *row)
{
    const double rounding = 0.005;
    if (isnan(row->published) || isnan(row->simulated)) return "open";
    return row->published >= row->low - rounding && row->published <= row->high + rounding
               ? "agrees"
               : "disagrees";
}

status ana_reproduction_open(const char *const *names, int name_count, arena *memory,
                             ana_reproduction *reproduction, error_message *err)
{
    const char *file = embedded_find(ana_paper_experiments, "experiments");
    const char *known[ANA_EXPERIMENTS_MAX];
    bool is_wanted[ANA_EXPERIMENTS_MAX] = {false};
    json_value root;
    *reproduction = (ana_reproduction){.row_count = 0};
    TRY(json_read_text("experiments", file, memory, &root, err));
    const json_value all = json_member(root, "experiments");
    const int count = json_count(all);
    for (int index = 0; index < count; index++) {
        known[index] = ana_paper_text(json_member(json_element(all, index), "name"));
    }
    for (int name = 0; name < name_count; name++) {
        const int found = text_find(names[name], known, count);
        if (found == count) {
            char suggestion[TEXT_SUGGESTION_BYTES];
            return error_set(err, STATUS_INVALID, "unknown experiment '%.40s'%s", names[name],
                             text_suggestion(names[name], known, count, suggestion));
        }
        is_wanted[found] = true;
    }
    for (int index = 0; index < count; index++) {
        if (name_count > 0 && !is_wanted[index]) continue;
        reproduction->experiments[reproduction->experiment_count++] = json_element(all, index);
    }
    return STATUS_OK;
}

/// Why a row disagrees, in a sentence: the experiment's own, or of its pairs of [part of a
/// quantity, sentence] the first whose part is in the row's. "" if it does not disagree.
static const char *reason_of(json_value experiment, const ana_reproduced *row)
{
    const json_value because = json_member(experiment, "because");
    if (strcmp(outcome_of(row), "disagrees") != 0) return "";
    if (!json_is_array(because)) return ana_paper_text(json_member(experiment, "because"));
    json_value pair = json_element(because, 0);
    while (pair.node != NULL &&
           strstr(row->quantity, ana_paper_text(json_element(pair, 0))) == NULL) {
        pair = json_next(pair);
    }
    return pair.node != NULL ? ana_paper_text(json_element(pair, 1)) : "";
}

status ana_reproduction_play(ana_reproduction *reproduction, void (*begin)(void *context),
                             void *context, arena *memory, error_message *err)
{
    ana_rows *rows = arena_array(memory, 1, sizeof *rows);
    rows->memory = memory;
    for (int index = 0; index < reproduction->experiment_count; index++) {
        const json_value experiment = reproduction->experiments[index];
        const int first = rows->count;
        begin(context);
        TRY(ana_experiment_play(experiment, rows, err));
        for (int row = first; row < rows->count; row++) {
            rows->rows[row].reason = reason_of(experiment, &rows->rows[row]);
        }
    }
    reproduction->rows = rows->rows;
    reproduction->row_count = rows->count;
    return STATUS_OK;
}

enum { LINE_COLUMNS = 118, INPUTS_MAX = 32 };

/// "-" where a number is not known.
static text_words number_text(double number)
{
    return text_wording(isnan(number) ? "-" : "%.3f", number);
}

static void print_row(const ana_reproduced *row, int width, text_buffer *out)
{
    text_format(out, "  %-*s %10s %10s %9s %9s %9s  %-11s  %-9s  %s\n", width, row->quantity,
                number_text(row->published).text, number_text(row->simulated).text,
                number_text(row->low).text, number_text(row->high).text,
                number_text(row->bound).text, agreement_names[row->agreement], outcome_of(row),
                row->baseline);
    if (row->note[0] != '\0') text_append_wrapped(out, row->note, 6, LINE_COLUMNS);
}

static void print_inputs(json_value experiment, text_buffer *out)
{
    json_value inputs[INPUTS_MAX];
    const int count = ana_paper_list(json_member(experiment, "inputs"), INPUTS_MAX, inputs);
    int width = 0;
    for (int input = 0; input < count; input++) {
        const int length = (int)strlen(ana_paper_text(json_element(inputs[input], 0)));
        if (length > width) width = length;
    }
    text_append(out, "  inputs\n");
    for (int input = 0; input < count; input++) {
        text_format(out, "    %-*s  %s [%s]\n", width,
                    ana_paper_text(json_element(inputs[input], 0)),
                    ana_paper_text(json_element(inputs[input], 1)),
                    ana_paper_text(json_element(inputs[input], 2)));
    }
}

/// The widest quantity of all rows.
static int quantity_width(const ana_reproduction *reproduction)
{
    int width = (int)strlen("quantity");
    for (int row = 0; row < reproduction->row_count; row++) {
        const int length = (int)strlen(reproduction->rows[row].quantity);
        if (length > width) width = length;
    }
    return width;
}

/// Every reason once, in the order of the rows.
static void print_reasons(const ana_reproduction *reproduction, const char *name, text_buffer *out)
{
    text_buffer printed = {0};
    for (int row = 0; row < reproduction->row_count; row++) {
        const ana_reproduced *entry = &reproduction->rows[row];
        if (strcmp(entry->experiment, name) != 0 || entry->reason[0] == '\0') continue;
        if (printed.length > 0 && strstr(printed.bytes, entry->reason) != NULL) continue;
        if (printed.length == 0) text_append(out, "  where it disagrees\n");
        text_append(&printed, entry->reason);
        text_append_wrapped(out, entry->reason, 4, LINE_COLUMNS);
    }
    text_free(&printed);
}

static void print_experiment(const ana_reproduction *reproduction, json_value experiment,
                             text_buffer *out)
{
    const char *name = ana_paper_text(json_member(experiment, "name"));
    const int width = quantity_width(reproduction);
    text_format(out, "%s: %s\n", name, ana_paper_text(json_member(experiment, "summary")));
    text_format(out, "  %-*s %10s %10s %9s %9s %9s  %-11s  %-9s  %s\n", width, "quantity",
                "published", "simulated", "low", "high", "bound", "agreement", "outcome",
                "against");
    for (int row = 0; row < reproduction->row_count; row++) {
        const ana_reproduced *entry = &reproduction->rows[row];
        if (strcmp(entry->experiment, name) == 0) print_row(entry, width, out);
    }
    print_reasons(reproduction, name, out);
    print_inputs(experiment, out);
    text_append(out, "\n");
}

void ana_reproduction_print(const ana_reproduction *reproduction, text_buffer *out)
{
    for (int index = 0; index < reproduction->experiment_count; index++) {
        print_experiment(reproduction, reproduction->experiments[index], out);
    }
    text_append(out,
                "low, high: the least and most over seeds and over the ranges of inputs that the "
                "paper leaves open.\nbound: no contiguous plan and no schedule gets further with "
                "the costs of these ranges.\npredicted: no input depends on the published number. "
                "consistent: an identity of the inputs, or of chosen ones. calibrated: the row\nis "
                "the calibration. unreachable: the bound is short of the\npublished number over "
                "these ranges, not beyond them.\noutcome: agrees if the published number lies "
                "between low and high; open if none is published or none was played.\n");
}

static void write_row(json_writer *writer, const ana_reproduced *row)
{
    text_buffer note = {0};
    const bool has_both = row->note[0] != '\0' && row->reason[0] != '\0';
    text_format(&note, "%s%s%s", row->note, has_both ? " " : "", row->reason);
    json_begin_object(writer);
    json_put_string(writer, "experiment", row->experiment);
    json_put_string(writer, "quantity", row->quantity);
    json_put_double(writer, "published", row->published);
    json_put_double(writer, "simulated", row->simulated);
    json_put_double(writer, "low", row->low);
    json_put_double(writer, "high", row->high);
    json_put_double(writer, "bound", row->bound);
    json_put_string(writer, "agreement", agreement_names[row->agreement]);
    json_put_string(writer, "outcome", outcome_of(row));
    json_put_string(writer, "baseline", row->baseline);
    json_put_string(writer, "note", note.bytes);
    json_end_object(writer);
    text_free(&note);
}

void ana_reproduction_write(const ana_reproduction *reproduction, text_buffer *out)
{
    json_writer writer = json_writer_init(out);
    json_begin_array(&writer);
    for (int row = 0; row < reproduction->row_count; row++) {
        write_row(&writer, &reproduction->rows[row]);
    }
    json_end_array(&writer);
    text_append(out, "\n");
}

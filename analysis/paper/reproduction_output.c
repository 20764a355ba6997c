#include "analysis/paper/reproduction.h"

#include "base/json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LINE_COLUMNS = 118 };

/// "-" where a number is not known.
static const char *number_text(double number, char out[24])
{
    if (isnan(number)) {
        snprintf(out, 24, "-");
    } else {
        snprintf(out, 24, "%.3f", number);
    }
    return out;
}

/// "1.2345", or "-" where a factor does not apply.
static const char *factor_text(int64_t factor_e4, char out[24])
{
    if (factor_e4 == 0) {
        snprintf(out, 24, "-");
    } else {
        snprintf(out, 24, "%.4f", (double)factor_e4 / 1e4);
    }
    return out;
}

static void print_factors(const ana_reproduced *row, text_buffer *out)
{
    const ana_printed_factors printed = ana_factors_print(&row->factors);
    char factor[ANA_FACTOR_COUNT][24];
    char over[4][24];
    for (int index = 0; index < ANA_FACTOR_COUNT; index++) {
        factor_text(printed.factor_e4[index], factor[index]);
    }
    text_format(out,
                "      = algorithm %s x static tuning %s x dynamic balancing %s x re-packing %s\n",
                factor[ANA_FACTOR_ALGORITHM], factor[ANA_FACTOR_STATIC], factor[ANA_FACTOR_DYNAMIC],
                factor[ANA_FACTOR_REPACK]);
    text_format(out, "      over even %s, parameters %s, parameters-legacy %s, tuned %s\n",
                number_text(row->over.even, over[0]), number_text(row->over.parameters, over[1]),
                number_text(row->over.parameters_legacy, over[2]),
                number_text(row->over.tuned, over[3]));
}

static void print_row(const ana_reproduced *row, int width, text_buffer *out)
{
    char published[24];
    char simulated[24];
    char low[24];
    char high[24];
    char bound[24];
    text_format(out, "  %-*s %10s %10s %9s %9s %9s  %-11s  %s\n", width, row->quantity,
                number_text(row->published, published), number_text(row->simulated, simulated),
                number_text(row->low, low), number_text(row->high, high),
                number_text(row->bound, bound), ana_agreement_name(row->agreement), row->baseline);
    if (row->factors.total > 0) print_factors(row, out);
    if (row->note[0] != '\0') text_append_wrapped(out, row->note, 6, LINE_COLUMNS);
}

static void print_inputs(const ana_experiment *experiment, text_buffer *out)
{
    int width = 0;
    for (const ana_experiment_input *input = experiment->inputs; input->name != NULL; input++) {
        const int length = (int)strlen(input->name);
        if (length > width) width = length;
    }
    text_append(out, "  inputs\n");
    for (const ana_experiment_input *input = experiment->inputs; input->name != NULL; input++) {
        text_format(out, "    %-*s  %s [%s]\n", width, input->name, input->value, input->source);
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

static void print_experiment(const ana_reproduction *reproduction, const ana_experiment *experiment,
                             text_buffer *out)
{
    const int width = quantity_width(reproduction);
    text_format(out, "%s: %s\n", experiment->name, experiment->summary);
    text_format(out, "  %-*s %10s %10s %9s %9s %9s  %-11s  %s\n", width, "quantity", "published",
                "simulated", "low", "high", "bound", "agreement", "against");
    for (int row = 0; row < reproduction->row_count; row++) {
        const ana_reproduced *entry = &reproduction->rows[row];
        if (strcmp(entry->experiment, experiment->name) == 0) print_row(entry, width, out);
    }
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
                "these costs.\npredicted: no input depends on the published number. consistent: an "
                "identity of the inputs. calibrated: the row\nis the calibration. unreachable: the "
                "bound is short of the published number.\n");
}

static void put_number(json_writer *writer, const char *key, double number)
{
    json_write_key(writer, key);
    if (isnan(number)) {
        json_write_null(writer);
    } else {
        json_write_double(writer, number);
    }
}

/// A factor that does not apply is null.
static void write_factors(json_writer *writer, const ana_reproduced *row)
{
    json_write_key(writer, "factors");
    json_begin_object(writer);
    for (int factor = 0; factor < ANA_FACTOR_COUNT; factor++) {
        const double value = row->factors.factor[factor];
        put_number(writer, ana_factor_names[factor], value > 0 ? value : NAN);
    }
    json_end_object(writer);
    json_write_key(writer, "over");
    json_begin_object(writer);
    put_number(writer, "even", row->over.even);
    put_number(writer, "parameters", row->over.parameters);
    put_number(writer, "parameters-legacy", row->over.parameters_legacy);
    put_number(writer, "tuned", row->over.tuned);
    json_end_object(writer);
}

static void write_row(json_writer *writer, const ana_reproduced *row)
{
    json_begin_object(writer);
    json_put_string(writer, "experiment", row->experiment);
    json_put_string(writer, "quantity", row->quantity);
    put_number(writer, "published", row->published);
    put_number(writer, "simulated", row->simulated);
    put_number(writer, "low", row->low);
    put_number(writer, "high", row->high);
    put_number(writer, "bound", row->bound);
    json_put_string(writer, "agreement", ana_agreement_name(row->agreement));
    if (row->factors.total > 0) write_factors(writer, row);
    json_put_string(writer, "baseline", row->baseline);
    json_put_string(writer, "note", row->note);
    json_end_object(writer);
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

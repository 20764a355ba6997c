/// What a check says: words and JSON.
#include "analysis/check/check_parts.h"
#include "base/json.h"

#include <math.h>

static text_words value_of(const ana_check_quantity *quantity, double value)
{
    return quantity->is_bytes ? text_size(llround(value)) : text_duration(llround(value));
}

static text_words interval_of(const ana_check_quantity *quantity)
{
    if (!quantity->is_number) return (text_words){""};
    if (quantity->change.is_bounded) {
        return text_wording("[%s, %s]", ana_check_percent(quantity->change.low).text,
                            ana_check_percent(quantity->change.high).text);
    }
    return text_wording("%d of %d iterations", quantity->count, quantity->change.needed_count);
}

static void print_row(const ana_check_quantity *quantity, text_buffer *out)
{
    const bool has_values = quantity->is_number && quantity->count > 0;
    text_format(out, "  %-36s %10s %10s %10s  %-20s %s\n", quantity->name,
                has_values ? value_of(quantity, quantity->planned).text : "",
                has_values ? value_of(quantity, quantity->measured).text : "",
                has_values ? ana_check_percent(quantity->change.estimate).text : "",
                interval_of(quantity).text, ana_check_verdict_names[quantity->verdict]);
}

/// Whether a quantity is the worst of its group.
static bool is_worst(const ana_check *check, const ana_check_quantity *quantity)
{
    for (int index = 0; index < check->quantity_count; index++) {
        const ana_check_quantity *other = &check->quantities[index];
        if (other == quantity || other->group != quantity->group) continue;
        if (fabs(other->change.estimate) > fabs(quantity->change.estimate)) return false;
        if (other < quantity && !(fabs(other->change.estimate) < fabs(quantity->change.estimate)))
            return false;
    }
    return true;
}

static void print_table(const ana_check *check, text_buffer *out)
{
    int hidden = 0;
    text_format(out, "  %-36s %10s %10s %10s  %s\n", "quantity", "plan", "measured", "change",
                "interval");
    for (int index = 0; index < check->quantity_count; index++) {
        const ana_check_quantity *quantity = &check->quantities[index];
        const bool is_telling = quantity->verdict != ANA_CHECK_AGREES &&
                                (quantity->change.is_bounded || !quantity->is_number);
        if (is_telling || is_worst(check, quantity)) {
            print_row(quantity, out);
        } else {
            hidden++;
        }
    }
    text_append(out, "  (plan and measured: medians of either side; change: median of the pairs' "
                     "changes, of idle time and of\n  what is outside the pipeline in parts of the "
                     "iteration, of messages of a microbatch's share of it, of ops and\n  work of "
                     "the planned, or of a twentieth of that share or of the iteration where that "
                     "is longer)\n");
    if (hidden > 0) {
        text_format(out, "  and %d that differ less than the one shown of their kind\n", hidden);
    }
}

/// What a change is relative to, where that is not the planned value.
static const char *base_of(const ana_check_quantity *quantity)
{
    switch (quantity->group) {
    case ANA_CHECK_MESSAGE:
        return " of a microbatch's share of the iteration";
    case ANA_CHECK_OUTSIDE:
    case ANA_CHECK_IDLE:
        return " of the iteration";
    default:
        return "";
    }
}

/// The change is a median of the pairs' changes, the values are medians of either side: where these
/// differ by something else it is said whose the change is.
static const char *pairs_of(const ana_check_quantity *quantity)
{
    const double between = quantity->measured / quantity->planned - 1;
    if (base_of(quantity)[0] != '\0' || quantity->count < 2) return "";
    if (fabs(between - quantity->change.estimate) < 0.0005) return "";
    return quantity->is_of_means ? " in the mean of the pairs" : " in the median of the pairs";
}

/// A line of evidence, wrapped after its dash.
static void print_evidence(const char *words, text_buffer *out)
{
    enum { INDENT = 4, COLUMNS = 110 };
    const size_t begin = out->length;
    text_append_wrapped(out, words, INDENT, COLUMNS);
    out->bytes[begin + INDENT - 2] = '-';
}

static void print_first(const ana_check *check, text_buffer *out)
{
    const ana_check_quantity *first = &check->quantities[check->first];
    text_format(out, "DEPARTS, first the %s from iteration %d on: ", first->name, first->since);
    if (first->is_number) {
        text_format(out, "%s instead of %s, %s%s%s %s%s", value_of(first, first->measured).text,
                    value_of(first, first->planned).text,
                    ana_check_percent(first->change.estimate).text, base_of(first), pairs_of(first),
                    interval_of(first).text, first->detail[0] != '\0' ? "; " : "");
    }
    text_append(out, first->detail);
    text_format(out, "\nmost likely cause (%s): %s\n", ana_check_cause_names[check->cause.kind],
                check->cause.summary);
    for (int line = 0; line < check->cause.evidence.count; line++) {
        print_evidence(check->cause.evidence.line[line], out);
    }
}

static void print_verdict(const ana_check *check, text_buffer *out)
{
    const ana_check_quantity *length = &check->quantities[check->length];
    int undecided = 0;
    for (int index = 0; index < check->quantity_count; index++) {
        undecided += check->quantities[index].verdict == ANA_CHECK_UNDECIDED;
    }
    if (check->verdict == ANA_CHECK_DEPARTS) {
        print_first(check, out);
    } else if (check->verdict == ANA_CHECK_UNDECIDED && length->verdict != ANA_CHECK_UNDECIDED) {
        text_format(out, "UNDECIDED: nothing departs in what there is of a run that is %s\n",
                    trace_status_names[check->measured->info.status]);
    } else if (check->verdict == ANA_CHECK_UNDECIDED && !length->change.is_bounded) {
        text_format(out,
                    "UNDECIDED: %d iterations are too few; %d are needed to tell anything with "
                    "this confidence about %d quantities\n",
                    length->count, length->change.needed_count, check->quantity_count);
    } else if (check->verdict == ANA_CHECK_UNDECIDED) {
        text_append(out, "UNDECIDED: the iterations vary so much that the interval of their length "
                         "lies across the tolerance; more of them narrow it\n");
    } else {
        text_format(out, "AGREES: none of %d quantities departs", check->quantity_count);
        if (undecided > 0) text_format(out, "; %d are undecided", undecided);
        text_append(out, "\n");
    }
}

void ana_check_print(const ana_check *check, text_buffer *out)
{
    const ana_check_options *options = &check->options;
    text_format(out, "plan      %s\nmeasured  %s\n", check->plan->source, check->measured->source);
    text_format(out, "%d iterations compared %s, %d dropped as warm-up (%s)\n",
                check->pair_count - check->warmup,
                check->is_paired ? "pair by pair" : "in their order", check->warmup,
                options->warmup >= 0 ? "as told" : "found");
    text_format(out, "tolerance %g %%; intervals hold together with %g %% confidence%s\n",
                options->tolerance * 100, options->confidence * 100,
                options->only_slower ? "; what is faster or smaller agrees" : "");
    for (int note = 0; note < check->notes.count; note++) {
        text_format(out, "note: %s\n", check->notes.line[note]);
    }
    text_append(out, "\n");
    print_table(check, out);
    text_append(out, "\n");
    print_verdict(check, out);
}

/// Ratios leave with nine significant digits, so that the last digits of a quotient do not.
enum { RATIO_DIGITS = 9 };

static void write_source(const ana_observed *observed, const char *key, json_writer *writer)
{
    json_put_object(writer, key);
    json_put_string(writer, "source", observed->source);
    json_put_string(writer, "name", observed->info.name);
    json_put_int64(writer, "run", observed->info.run_id);
    json_put_string(writer, "kind", trace_run_kind_names[observed->info.kind]);
    json_put_string(writer, "status", trace_status_names[observed->info.status]);
    json_put_string(writer, "row", observed->label);
    json_put_int64(writer, "iterations", observed->iteration_count);
    json_end_object(writer);
}

static void write_index(json_writer *writer, const char *key, int value)
{
    if (value >= 0) json_put_int64(writer, key, value);
}

static void write_number(const ana_check_quantity *quantity, json_writer *writer)
{
    json_put_string(writer, "unit", quantity->is_bytes ? "bytes" : "ns");
    json_put_int64(writer, "planned", llround(quantity->planned));
    json_put_int64(writer, "measured", llround(quantity->measured));
    json_put_rounded(writer, "change", quantity->change.estimate, RATIO_DIGITS);
    if (quantity->change.is_bounded) {
        const double ends[] = {quantity->change.low, quantity->change.high};
        json_put_double_array(writer, "interval", ends, 2, RATIO_DIGITS);
    } else {
        json_put_null(writer, "interval");
    }
    json_put_int64(writer, "needed", quantity->change.needed_count);
}

static void write_quantity(const ana_check_quantity *quantity, json_writer *writer)
{
    json_begin_object(writer);
    json_put_string(writer, "group", ana_check_group_names[quantity->group]);
    json_put_string(writer, "name", quantity->name);
    write_index(writer, "rank", quantity->rank);
    write_index(writer, "stage", quantity->stage);
    if (quantity->stage >= 0) json_put_string(writer, "op", bal_op_kind_names[quantity->op]);
    json_put_string(writer, "verdict", ana_check_verdict_names[quantity->verdict]);
    write_index(writer, "since", quantity->since);
    json_put_int64(writer, "iterations", quantity->count);
    if (quantity->is_number) write_number(quantity, writer);
    if (quantity->is_of_means) json_put_bool(writer, "of_means", true);
    if (quantity->detail[0] != '\0') json_put_string(writer, "detail", quantity->detail);
    json_end_object(writer);
}

static void write_lines(json_writer *writer, const char *key, const ana_check_lines *lines)
{
    json_put_array(writer, key);
    for (int line = 0; line < lines->count; line++) {
        json_put_string(writer, NULL, lines->line[line]);
    }
    json_end_array(writer);
}

static void write_cause(const ana_check_cause *cause, json_writer *writer)
{
    json_put_object(writer, "cause");
    json_put_string(writer, "kind", ana_check_cause_names[cause->kind]);
    write_index(writer, "rank", cause->rank);
    if (cause->factor > 0) json_put_rounded(writer, "factor", cause->factor, RATIO_DIGITS);
    json_put_string(writer, "summary", cause->summary);
    write_lines(writer, "evidence", &cause->evidence);
    json_end_object(writer);
}

void ana_check_write(const ana_check *check, text_buffer *out)
{
    json_writer writer = json_line_begin(out);
    json_put_string(&writer, "schema", "dynmo-check/1");
    json_put_string(&writer, "verdict", ana_check_verdict_names[check->verdict]);
    json_put_double(&writer, "tolerance", check->options.tolerance);
    json_put_double(&writer, "confidence", check->options.confidence);
    write_source(check->plan, "plan", &writer);
    write_source(check->measured, "measured", &writer);
    json_put_bool(&writer, "paired", check->is_paired);
    json_put_int64(&writer, "iterations", check->pair_count - check->warmup);
    json_put_int64(&writer, "warmup", check->warmup);
    json_write_key(&writer, "first");
    if (check->first >= 0) {
        write_quantity(&check->quantities[check->first], &writer);
    } else {
        json_put_null(&writer, NULL);
    }
    write_cause(&check->cause, &writer);
    write_lines(&writer, "notes", &check->notes);
    json_put_array(&writer, "quantities");
    for (int index = 0; index < check->quantity_count; index++) {
        write_quantity(&check->quantities[index], &writer);
    }
    json_end_array(&writer);
    json_line_end(&writer);
}

/// The verdict about the user's own layers as a table and as JSON.
#include "analysis/converge/load_verdict.h"

#include <inttypes.h>

enum { DIGITS = 9 };

const char *ana_load_answer_name(ana_load_answer answer)
{
    switch (answer) {
    case ANA_LOAD_HOLDS:
        return "holds";
    case ANA_LOAD_FAILS:
        return "fails";
    case ANA_LOAD_NOT_PROMISED:
        return "fails, and is not promised";
    case ANA_LOAD_UNDECIDED:
        return "undecided";
    }
    return "";
}

static void append_row(const ana_load_row *row, double gamma_ns, text_buffer *out)
{
    char load[32];
    text_format(out, "  %-20s", row->balancer);
    if (row->refusal != NULL) {
        text_format(out, "  %s\n", row->refusal);
        return;
    }
    text_duration(row->load_max_ns, load);
    text_format(out, "  %10s  %12.4f  %11.4f", load, row->contiguous_ratio, row->assignment_ratio);
    if (row->transfer_count >= 0) {
        text_format(out, "  %9d  %10d", row->transfer_count, row->iteration_count);
    } else {
        text_format(out, "  %9s  %10s", "-", "-");
    }
    text_format(out, "  %11.4g%s\n", row->phi / gamma_ns,
                row->is_executable ? "" : "  out of order: loads only");
}

void ana_load_verdict_append(const ana_load_verdict *verdict, text_buffer *out)
{
    char total[32];
    char gamma[32];
    char optimum[32];
    char low[32];
    text_duration(verdict->total_ns, total);
    text_duration((int64_t)(verdict->gamma_ns + 0.5), gamma);
    text_duration(verdict->contiguous_optimum_ns, optimum);
    text_duration(verdict->assignment_low_ns, low);
    text_format(out, "%d layers of together %s on %d stages, from %s\n", verdict->layer_count,
                total, verdict->stage_count,
                verdict->starts_even ? "the even split" : "the plan in force");
    text_format(
        out, "contiguous optimum %s; no assignment in any order is below %s%s; gamma %s\n\n",
        optimum, low,
        verdict->assignment_high_ns == verdict->assignment_low_ns ? " (attained)" : "", gamma);
    text_format(out, "  %-20s  %10s  %12s  %11s  %9s  %10s  %11s\n", "balancer", "largest",
                "/ contiguous", "/ any order", "transfers", "iterations", "phi / gamma");
    for (int row = 0; row < verdict->row_count; row++) {
        append_row(&verdict->rows[row], verdict->gamma_ns, out);
    }
    text_append(out, "\n");
    for (int claim = 0; claim < ANA_LOAD_CLAIMS; claim++) {
        text_format(out, "%s: %s\n", verdict->claims[claim].name,
                    ana_load_answer_name(verdict->claims[claim].answer));
        text_append_wrapped(out, verdict->claims[claim].text, 2, 100);
    }
}

static void write_row(const ana_load_row *row, double gamma_ns, json_writer *writer)
{
    json_begin_object(writer);
    json_put_string(writer, "balancer", row->balancer);
    json_put_string(writer, "refusal", row->refusal);
    if (row->refusal == NULL) {
        json_put_bool(writer, "executable", row->is_executable);
        json_put_int64(writer, "load_max_ns", row->load_max_ns);
        json_put_rounded(writer, "contiguous_ratio", row->contiguous_ratio, DIGITS);
        json_put_rounded(writer, "assignment_ratio", row->assignment_ratio, DIGITS);
        json_write_key(writer, "transfers");
        if (row->transfer_count >= 0) {
            json_write_int64(writer, row->transfer_count);
        } else {
            json_write_null(writer);
        }
        json_write_key(writer, "iterations");
        if (row->iteration_count >= 0) {
            json_write_int64(writer, row->iteration_count);
        } else {
            json_write_null(writer);
        }
        json_put_rounded(writer, "phi_ns", row->phi, DIGITS);
        json_put_bool(writer, "within_gamma", row->phi <= gamma_ns);
    }
    json_end_object(writer);
}

void ana_load_verdict_write(const ana_load_verdict *verdict, json_writer *writer)
{
    json_begin_object(writer);
    json_put_int64(writer, "layers", verdict->layer_count);
    json_put_int64(writer, "stages", verdict->stage_count);
    json_put_int64(writer, "total_ns", verdict->total_ns);
    json_put_string(writer, "start", verdict->starts_even ? "even" : "current");
    json_put_int64(writer, "zero_layers", verdict->zero_layer_count);
    json_put_bool(writer, "memory_caps", verdict->has_caps);
    json_put_bool(writer, "equal_ranks", verdict->has_equal_ranks);
    json_put_int64(writer, "contiguous_optimum_ns", verdict->contiguous_optimum_ns);
    json_put_int64(writer, "assignment_lower_bound_ns", verdict->assignment_low_ns);
    json_write_key(writer, "assignment_best_found_ns");
    if (verdict->assignment_high_ns >= 0) {
        json_write_int64(writer, verdict->assignment_high_ns);
    } else {
        json_write_null(writer);
    }
    json_put_rounded(writer, "gamma_ns", verdict->gamma_ns, DIGITS);
    json_put_rounded(writer, "bound_paper_rounds", verdict->round_bound, DIGITS);
    json_write_key(writer, "balancers");
    json_begin_array(writer);
    for (int row = 0; row < verdict->row_count; row++) {
        write_row(&verdict->rows[row], verdict->gamma_ns, writer);
    }
    json_end_array(writer);
    json_write_key(writer, "claims");
    json_begin_array(writer);
    for (int claim = 0; claim < ANA_LOAD_CLAIMS; claim++) {
        json_begin_object(writer);
        json_put_string(writer, "name", verdict->claims[claim].name);
        json_put_string(writer, "answer", ana_load_answer_name(verdict->claims[claim].answer));
        json_put_string(writer, "text", verdict->claims[claim].text);
        json_end_object(writer);
    }
    json_end_array(writer);
    json_end_object(writer);
}

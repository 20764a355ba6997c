/// Trials of the discrete balancers as a table and as JSON.
#include "analysis/converge/discrete_trials.h"

#include <inttypes.h>

enum { DIGITS = 9, NAME_WIDTH = 20, WIDE_NAME_WIDTH = 22 };

static void append_row(const ana_trial_row *row, int name_width, text_buffer *out)
{
    const ana_sample *any = &row->assignment_ratio;
    const ana_sample *cut = &row->contiguous_ratio;
    const double worse = (double)row->worse_count / (double)any->count;
    text_format(out, "  %-*s  %7.4f  %6.4f  %6.4f", name_width, row->balancer, any->mean, any->p95,
                any->max);
    text_format(out, "  %7.4f  %6.4f  %6.4f", cut->mean, cut->p95, cut->max);
    text_format(out, "  %6.1f %% (%5.1f - %5.1f)  %6.3f  %6.3f\n", 100 * worse,
                100 * row->worse_low, 100 * row->worse_high, row->transfers.mean,
                row->transfers.max);
}

static void append_head(const char *title, int name_width, text_buffer *out)
{
    text_format(out, "\n%s\n  %-*s  %23s  %23s  %24s  %14s\n", title, name_width, "",
                "load / any assignment", "load / contiguous", "worse than contiguous",
                "transfers/layer");
    text_format(out, "  %-*s  %7s  %6s  %6s  %7s  %6s  %6s  %24s  %6s  %6s\n", name_width,
                "balancer", "mean", "p95", "max", "mean", "p95", "max", "share (95 % interval)",
                "mean", "max");
}

void ana_trials_append(const ana_trials *trials, text_buffer *out)
{
    const int balancers = trials->row_count / (trials->cell_count + 1);
    const int chunks = trials->question.chunk_count;
    const int name_width = chunks > 1 ? WIDE_NAME_WIDTH : NAME_WIDTH;
    text_format(out,
                "%d instances each of %d families and sizes, seed %" PRIu64
                ", from the even split; any assignment: its lower bound\n",
                trials->question.instance_count, trials->cell_count, trials->question.seed);
    if (chunks > 1) {
        text_format(out, "ranks of %d chunks: %s; all others: of one\n", chunks,
                    chunks == 2 ? "interleaved-partition and v-partition"
                                : "interleaved-partition");
    }
    for (int index = 0; index < trials->row_count; index++) {
        const ana_trial_row *row = &trials->rows[index];
        if (index == 0) append_head("all", name_width, out);
        if (index > 0 && index % balancers == 0) {
            text_buffer title = {0};
            text_format(&title, "%s, %d layers on %d stages: %s", row->family->name,
                        row->layer_count, row->stage_count, row->family->rule);
            append_head(title.bytes != NULL ? title.bytes : "", name_width, out);
            out->failed = out->failed || title.failed;
            text_free(&title);
        }
        append_row(row, name_width, out);
    }
}

static void write_sample(const char *key, const ana_sample *sample, json_writer *writer)
{
    json_write_key(writer, key);
    json_begin_object(writer);
    json_put_rounded(writer, "mean", sample->mean, DIGITS);
    json_put_rounded(writer, "mean_low", sample->mean_low, DIGITS);
    json_put_rounded(writer, "mean_high", sample->mean_high, DIGITS);
    json_put_rounded(writer, "median", sample->median, DIGITS);
    json_put_rounded(writer, "p95", sample->p95, DIGITS);
    json_put_rounded(writer, "p95_low", sample->p95_low, DIGITS);
    json_put_rounded(writer, "p95_high", sample->p95_high, DIGITS);
    json_put_rounded(writer, "max", sample->max, DIGITS);
    json_end_object(writer);
}

static void write_row(const ana_trial_row *row, json_writer *writer)
{
    json_begin_object(writer);
    json_put_string(writer, "family", row->family != NULL ? row->family->name : "all");
    if (row->family != NULL) {
        json_put_int64(writer, "layers", row->layer_count);
        json_put_int64(writer, "stages", row->stage_count);
    }
    json_put_string(writer, "balancer", row->balancer);
    json_put_int64(writer, "instances", row->assignment_ratio.count);
    write_sample("assignment_ratio", &row->assignment_ratio, writer);
    write_sample("contiguous_ratio", &row->contiguous_ratio, writer);
    write_sample("transfers_per_layer", &row->transfers, writer);
    json_put_int64(writer, "worse_than_contiguous", row->worse_count);
    json_put_rounded(writer, "worse_share_low", row->worse_low, DIGITS);
    json_put_rounded(writer, "worse_share_high", row->worse_high, DIGITS);
    json_put_int64(writer, "above_guarantee_of_lower_bound", row->above_guarantee_count);
    json_end_object(writer);
}

void ana_trials_write(const ana_trials *trials, json_writer *writer)
{
    json_begin_object(writer);
    json_put_int64(writer, "instances_per_cell", trials->question.instance_count);
    json_put_int64(writer, "cells", trials->cell_count);
    if (trials->question.chunk_count > 1) {
        json_put_int64(writer, "chunks", trials->question.chunk_count);
    }
    json_write_key(writer, "rows");
    json_begin_array(writer);
    for (int row = 0; row < trials->row_count; row++) {
        write_row(&trials->rows[row], writer);
    }
    json_end_array(writer);
    json_end_object(writer);
}

#include "analysis/compare/comparison.h"
#include "analysis/compare/comparison_sections.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { SECTION_WIDTH = 29 }; // of the longest title of a section

int64_t ana_row_peak_bytes(const ana_row *row, const ana_setup *setup)
{
    int64_t peak = 0;
    for (int rank = 0; rank < setup->machine.rank_count; rank++) {
        const int64_t bytes = row->result.peak_memory_bytes[rank];
        if (bytes > peak) peak = bytes;
    }
    return peak;
}

/// "1.23x", or "-" where there is no baseline.
static const char *ratio_text(double ratio, char out[16])
{
    if (ratio > 0) {
        snprintf(out, 16, "%.3fx", ratio);
    } else {
        snprintf(out, 16, "-");
    }
    return out;
}

static const char *rate_text(double per_second, char out[24])
{
    const int decimals = per_second >= 1000 ? 0 : per_second >= 10 ? 1 : 3;
    snprintf(out, 24, "%.*f", decimals, per_second);
    return out;
}

/// The columns that every row has: how uneven it was, what moved, and a last word.
static void print_moves(const bal_training_result *result, const char *memory, const char *fits,
                        text_buffer *out)
{
    char moved[32];
    text_size(result->moved_bytes, moved);
    text_format(out, " %9.3f %6d %7" PRId64 " %9s %9s  %s\n", result->imbalance_ratio,
                result->rebalance_count, result->moved_layer_count, moved, memory, fits);
}

static const char *fits_text(const bal_training_result *result, int64_t rank_memory_bytes)
{
    if (rank_memory_bytes == 0) return "no limit";
    if (!result->fits) return "NO";
    return result->is_memory_known ? "yes" : "unknown";
}

static void print_row(const ana_setup *setup, const ana_row *row, int label_width, text_buffer *out)
{
    const bal_training_result *result = &row->result;
    text_format(out, "%-*s", label_width, row->balancing->label);
    if (row->outcome != STATUS_OK) {
        text_format(out, "  infeasible: %s\n", row->message);
        return;
    }
    if (!result->executable) {
        text_format(out, " %12s %8s %8s %9s %6s %6s %6s", "-", "-", "-", "-", "-", "-", "-");
        print_moves(result, "-", "loads only, not executable", out);
        return;
    }
    char iteration[32];
    char memory[32];
    char throughput[24];
    char even[16];
    char tuned[16];
    const int64_t peak = ana_row_peak_bytes(row, setup);
    text_duration(row->iteration_mean_ns, iteration);
    text_size(peak, memory);
    text_format(out, " %12s %8s %8s %9s %6.3f %6.3f %6.3f", rate_text(row->per_second, throughput),
                ratio_text(row->relative_to_even, even), ratio_text(row->relative_to_tuned, tuned),
                iteration, result->first.bubble_ratio, result->last.bubble_ratio,
                result->bubble_ratio);
    print_moves(result, peak > 0 ? memory : "-",
                fits_text(result, setup->machine.rank_memory_bytes), out);
}

static void print_header(int label_width, bool tokens, text_buffer *out)
{
    text_format(out, "%*s %20s %9s %15s\n", label_width + 41, "mean", "bubble_ratio    ", "mean",
                "moved");
    text_format(out, "%-*s %12s %8s %8s %9s %6s %6s %6s %9s %6s %7s %9s %9s  %s\n", label_width,
                "balancer", tokens ? "tokens/s" : "microbatch/s", "vs even", "vs tuned",
                "iteration", "first", "last", "mean", "imbalance", "rebal.", "layers", "bytes",
                "peak mem", "fits");
}

/// A case that begins behind the end of a short run makes every row alike: better said.
static void print_stillness(const ana_comparison *comparison, text_buffer *out)
{
    const ana_setup *setup = comparison->setup;
    if (setup->dynamism == NULL) return;
    for (int row = 0; row < setup->study->balancing_count; row++) {
        if (comparison->rows[row].result.change_count > 0) return;
    }
    text_format(out, "The case %s did not change the model in these %d iterations.\n",
                model_dynamism_name(setup->dynamism), setup->iteration_count);
}

void ana_comparison_print(const ana_comparison *comparison, text_buffer *out)
{
    const ana_setup *setup = comparison->setup;
    const ana_study *study = setup->study;
    const bool tokens = setup->tokens_per_microbatch > 0;
    int label_width = 8;
    for (int row = 0; row < study->balancing_count; row++) {
        const int length = (int)strlen(study->balancings[row].label);
        if (length > label_width) label_width = length;
    }
    char passes[32] = "";
    if (study->round_count > 1) snprintf(passes, sizeof passes, " x %d passes", study->round_count);
    text_format(out, "%s: %d iterations, %d layers on %d stages, %d microbatches%s, %s%s\n\n",
                study->name, setup->iteration_count, setup->source.layer_count,
                setup->machine.rank_count, setup->microbatch_count, passes, study->schedule,
                study->post_validation ? ", post-validation" : "");
    print_header(label_width, tokens, out);
    for (int row = 0; row < study->balancing_count; row++) {
        print_row(setup, &comparison->rows[row], label_width, out);
    }
    text_append(out,
                "\niteration: decisions and migration included. bubble_ratio: idle / total, in "
                "the first and last iteration and over the run.\nimbalance: max / mean load of "
                "the ranks. rebal.: decisions that moved layers. peak mem: of the fullest "
                "rank.\n");
    print_stillness(comparison, out);
    const int section_width = label_width > SECTION_WIDTH ? label_width : SECTION_WIDTH;
    ana_print_spread(comparison, section_width, out);
    ana_print_decisions(comparison, section_width, out);
    ana_print_knowing_ahead(comparison, section_width, out);
    ana_print_gpus(comparison, section_width, out);
    ana_print_factors(comparison, section_width, out);
    text_append(out, "\n");
    ana_inputs_print(&study->inputs, out);
}

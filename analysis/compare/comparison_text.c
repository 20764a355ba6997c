/// The comparison as a table for people, and below it what the table cannot show: each section is
/// left out where nothing of it happened.
#include "analysis/compare/columns.h"

#include <stdio.h>
#include <string.h>

enum { SECTION_WIDTH = 29 }; // of the longest title of a section

/// The paper's formula beside what was played, in the first iteration and in the last.
static void print_equation_1(const ana_comparison *comparison, int label_width, text_buffer *out)
{
    const ana_study *study = comparison->setup->study;
    text_format(out, "\n%-*s %30s %32s\n%-*s", label_width, "", "first iteration", "last iteration",
                label_width, "Bubble beside Equation 1");
    ana_columns_title(ANA_COLUMNS_EQ1, out);
    text_append(out, "\n");
    for (int index = 0; index < study->balancing_count; index++) {
        const ana_row *row = &comparison->rows[index];
        if (row->outcome != STATUS_OK || !row->result.executable) continue;
        text_format(out, "%-*s", label_width, row->balancing->label);
        ana_columns_print(ANA_COLUMNS_EQ1, row, out);
        text_append(out, "\n");
    }
    text_append(out, "Equation 1 of the DynMo paper is Chimera's bubble at as many microbatches as "
                     "ranks, messages free.\nas printed: from mean loads of the ranks; unequal: "
                     "its path at the largest F and B, its work as it is.\n");
}

static bool was_played(const ana_row *row)
{
    return row->outcome == STATUS_OK && ana_balancing_is_dynamic(row->balancing);
}

/// True if any row has decided anything.
static bool has_decisions(const ana_comparison *comparison)
{
    for (int row = 0; row < comparison->setup->study->balancing_count; row++) {
        if (comparison->rows[row].course.asked_count > 0) return true;
    }
    return false;
}

static void print_decision_row(const ana_row *row, int label_width, text_buffer *out)
{
    const ana_course *course = &row->course;
    const bal_training_result *result = &row->result;
    const int64_t spent_ns[] = {result->profile_ns, course->decision_ns, course->migration_ns};
    double overhead = 0;
    text_format(out, "%-*s %6d %6d", label_width, row->balancing->label, course->asked_count,
                course->acted_count);
    for (int part = 0; part < 3; part++) {
        char duration[32];
        text_duration(spent_ns[part], duration);
        text_format(out, " %10s", duration);
        overhead += (double)spent_ns[part];
    }
    if (result->executable) {
        text_format(out, " %6.2f%%", 100 * overhead / (double)result->total_ns);
    } else {
        text_format(out, " %7s", "-");
    }
    const char *between = "  ";
    for (int reason = 0; reason < BAL_REASON_COUNT; reason++) {
        if (course->reason_counts[reason] == 0) continue;
        text_format(out, "%s%d %s", between, course->reason_counts[reason],
                    bal_reason_names[reason]);
        between = ", ";
    }
    text_append(out, "\n");
}

/// How many decisions, why, at what cost.
static void print_decisions(const ana_comparison *comparison, int label_width, text_buffer *out)
{
    if (!has_decisions(comparison)) return;
    text_format(out, "\n%-*s %6s %6s %10s %10s %10s %7s  %s\n", label_width, "Decisions", "asked",
                "moved", "profiling", "deciding", "migrating", "of run", "why");
    for (int index = 0; index < comparison->setup->study->balancing_count; index++) {
        const ana_row *row = &comparison->rows[index];
        if (was_played(row)) print_decision_row(row, label_width, out);
    }
}

/// How many GPUs are in use, and what the others are released as.
static void print_gpus(const ana_comparison *comparison, int label_width, text_buffer *out)
{
    bool has_header = false;
    if (!has_decisions(comparison)) return;
    for (int index = 0; index < comparison->setup->study->balancing_count; index++) {
        const ana_row *row = &comparison->rows[index];
        const bal_repack_options *repack = &row->balancing->repack.options;
        if (!was_played(row) || repack->kind == BAL_REPACK_NONE) continue;
        if (!has_header) {
            text_format(out, "\n%*s %6s %10s %10s %10s %10s\n%-*s", label_width, "", "mean", "GPU",
                        "idle GPU", "released", "whole", label_width, "GPUs");
            ana_columns_title(ANA_COLUMNS_GPUS, out);
            text_append(out, "  use\n");
        }
        has_header = true;
        text_format(out, "%-*s", label_width, row->balancing->label);
        ana_columns_print(ANA_COLUMNS_GPUS, row, out);
        text_format(out, "  %s\n", bal_released_names[repack->use]);
    }
}

/// "1.0284 x", or dashes where a factor does not apply.
static void print_factor(const double *factors, ana_factor factor, int width, const char *after,
                         text_buffer *out)
{
    char text[32] = "-";
    if (factors[factor] > 0) snprintf(text, sizeof text, "%.4f", factors[factor]);
    text_format(out, " %*s %s", width, text, after);
}

/// The factors of each dynamic row.
static void print_factors(const ana_comparison *comparison, int label_width, text_buffer *out)
{
    bool has_header = false;
    if (!has_decisions(comparison) && comparison->still_even_ns == 0) return;
    for (int index = 0; index < comparison->setup->study->balancing_count; index++) {
        const ana_row *row = &comparison->rows[index];
        if (row->speed_up == 0) continue;
        if (!has_header) {
            text_format(out, "\n%-*s %9s   %8s   %8s   %10s   %8s  over %s\n", label_width,
                        "Where the speed-up comes from", "algorithm", "static", "dynamic",
                        "re-packing", "total",
                        comparison->still_even_ns > 0 ? "even without dynamism" : "even");
        }
        has_header = true;
        text_format(out, "%-*s", label_width, row->balancing->label);
        print_factor(row->factors, ANA_FACTOR_ALGORITHM, 9, "x", out);
        print_factor(row->factors, ANA_FACTOR_STATIC, 8, "x", out);
        print_factor(row->factors, ANA_FACTOR_DYNAMIC, 8, "x", out);
        print_factor(row->factors, ANA_FACTOR_REPACK, 10, "=", out);
        text_format(out, " %8.3fx\n", row->speed_up);
    }
}

int64_t ana_row_peak_bytes(const ana_row *row, const ana_setup *setup)
{
    int64_t peak = 0;
    for (int rank = 0; rank < setup->machine.rank_count; rank++) {
        const int64_t bytes = row->result.peak_memory_bytes[rank];
        if (bytes > peak) peak = bytes;
    }
    return peak;
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
    const ana_row *timed = result->executable ? row : NULL;
    char memory[32] = "-";
    text_format(out, "%-*s", label_width, row->balancing->label);
    if (row->outcome != STATUS_OK) {
        text_format(out, "  infeasible: %s\n", row->message);
        return;
    }
    ana_columns_print(ANA_COLUMNS_RATE, timed, out);
    ana_columns_print(ANA_COLUMNS_TIMES, timed, out);
    ana_columns_print(ANA_COLUMNS_BUBBLE, timed, out);
    ana_columns_print(ANA_COLUMNS_LOADS, row, out);
    if (timed != NULL && ana_row_peak_bytes(row, setup) > 0) {
        text_size(ana_row_peak_bytes(row, setup), memory);
    }
    text_format(out, " %9s  %s\n", memory,
                timed != NULL ? fits_text(result, setup->machine.rank_memory_bytes)
                              : "loads only, not executable");
}

static void print_header(int label_width, bool tokens, text_buffer *out)
{
    text_format(out, "%*s %20s %9s %15s\n", label_width + 41, "mean", "bubble_ratio    ", "mean",
                "moved");
    text_format(out, "%-*s %12s", label_width, "balancer", tokens ? "tokens/s" : "microbatch/s");
    ana_columns_title(ANA_COLUMNS_TIMES, out);
    ana_columns_title(ANA_COLUMNS_BUBBLE, out);
    ana_columns_title(ANA_COLUMNS_LOADS, out);
    text_format(out, " %9s  %s\n", "peak mem", "fits");
}

/// A case that begins after the end of a short run makes every row alike: better said.
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

/// What is to be set, and when.
static void print_splits(const ana_comparison *comparison, int label_width, text_buffer *out)
{
    const ana_setup *setup = comparison->setup;
    const ana_iteration_names names = {.offset = setup->first_iteration};
    text_append(out, "\nSplits: layers per stage, from the iteration on that is named\n");
    for (int row = 0; row < setup->study->balancing_count; row++) {
        const ana_row *each = &comparison->rows[row];
        if (each->outcome != STATUS_OK) continue;
        ana_splits_print(&each->splits, "", each->balancing->label, label_width, names, out);
    }
    text_append(out, "Recorded with --store RUN.db: dynmo export megatron RUN.db --row LABEL");
    if (setup->first_iteration > 0) {
        text_format(out, " --iteration (N - %d)\n", setup->first_iteration);
    } else {
        text_append(out, " --iteration N\n");
    }
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
    print_equation_1(comparison, section_width, out);
    print_decisions(comparison, section_width, out);
    print_gpus(comparison, section_width, out);
    print_factors(comparison, section_width, out);
    print_splits(comparison, section_width, out);
    text_append(out, "\n");
    ana_inputs_print(&study->inputs, out);
}

/// The comparison as a table for people, and below it what the table cannot show: each section is
/// left out where nothing of it happened.
#include "analysis/compare/columns.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    SHOWN_FIRST = 3,
    SHOWN_LAST = 2,
    SECTION_WIDTH = 29, // of the longest title of a section
};

/// A group of columns of every row that has times, under its title.
static void print_section(const ana_comparison *comparison, const char *title,
                          ana_column_group group, int label_width, text_buffer *out)
{
    const ana_study *study = comparison->setup->study;
    text_format(out, "\n%-*s", label_width, title);
    ana_columns_title(group, out);
    text_append(out, "\n");
    for (int index = 0; index < study->balancing_count; index++) {
        const ana_row *row = &comparison->rows[index];
        if (row->outcome != STATUS_OK || !row->result.executable) continue;
        text_format(out, "%-*s", label_width, row->balancing->label);
        ana_columns_print(group, row, out);
        text_append(out, "\n");
    }
}

/// The paper's formula beside what was played, in the first iteration and in the last.
static void print_equation_1(const ana_comparison *comparison, int label_width, text_buffer *out)
{
    text_format(out, "\n%-*s %30s %32s", label_width, "", "first iteration", "last iteration");
    print_section(comparison, "Bubble beside Equation 1", ANA_COLUMNS_EQ1, label_width, out);
    text_append(out, "Equation 1 of the DynMo paper is Chimera's bubble at as many microbatches as "
                     "ranks, messages free.\nas printed: from mean loads of the ranks; unequal: "
                     "its path at the largest F and B, its work as it is.\n");
}

static int asked_count(const ana_row *row)
{
    int asked = 0;
    for (int reason = 0; reason < BAL_REASON_COUNT; reason++) {
        asked += row->course.reason_counts[reason];
    }
    return asked;
}

static bool was_played(const ana_row *row)
{
    return row->outcome == STATUS_OK && ana_balancing_is_dynamic(row->balancing);
}

/// True if any row has decided anything.
static bool has_decisions(const ana_comparison *comparison)
{
    for (int row = 0; row < comparison->setup->study->balancing_count; row++) {
        if (asked_count(&comparison->rows[row]) > 0) return true;
    }
    return false;
}

/// "18 change, 10 same".
static void reasons_text(const ana_course *course, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (int reason = 0; reason < BAL_REASON_COUNT; reason++) {
        if (course->reason_counts[reason] == 0 || used >= size) continue;
        used += (size_t)snprintf(text + used, size - used, "%s%d %s", used > 0 ? ", " : "",
                                 course->reason_counts[reason], bal_reason_names[reason]);
    }
}

/// "13, 27, 41 .. 201, 214": after which iterations the plan changed, the first and the last few.
static void moves_text(const ana_course *course, char *text, size_t size)
{
    size_t used = 0;
    int acted = 0;
    text[0] = '\0';
    for (int index = 0; index < course->decision_count && used < size; index++) {
        const ana_decision *decision = &course->decisions[index];
        if (decision->action == BAL_ACTION_KEEP) continue;
        acted++;
        const bool is_last = acted > course->acted_count - SHOWN_LAST;
        if (acted > SHOWN_FIRST && !is_last) continue;
        const bool follows_gap =
            is_last && acted > SHOWN_FIRST + 1 && acted == course->acted_count - SHOWN_LAST + 1;
        used += (size_t)snprintf(text + used, size - used, "%s%d",
                                 acted == 1    ? ""
                                 : follows_gap ? " .. "
                                               : ", ",
                                 decision->iteration);
    }
}

static void print_decision_row(const ana_row *row, int label_width, int reasons_width,
                               text_buffer *out)
{
    const ana_course *course = &row->course;
    char reasons[160];
    char moves[96];
    char profiling[32];
    char decisions[32];
    char migration[32];
    const bal_training_result *result = &row->result;
    const double overhead =
        (double)(result->profile_ns + course->decision_ns + course->migration_ns);
    reasons_text(course, reasons, sizeof reasons);
    moves_text(course, moves, sizeof moves);
    text_duration(course->decision_ns, decisions);
    text_duration(course->migration_ns, migration);
    text_duration(result->profile_ns, profiling);
    char share[16] = "-";
    if (result->executable) {
        snprintf(share, sizeof share, "%.2f%%", 100 * overhead / (double)result->total_ns);
    }
    text_format(out, "%-*s %6d %6d %10s %10s %10s %7s  %-*s  %s\n", label_width,
                row->balancing->label, asked_count(row), course->acted_count, profiling, decisions,
                migration, share, reasons_width, reasons, moves[0] != '\0' ? moves : "-");
}

/// Columns that the longest text of reasons takes.
static int reasons_width_of(const ana_comparison *comparison)
{
    int width = 3;
    for (int index = 0; index < comparison->setup->study->balancing_count; index++) {
        char reasons[160];
        reasons_text(&comparison->rows[index].course, reasons, sizeof reasons);
        const int length = (int)strlen(reasons);
        if (length > width) width = length;
    }
    return width;
}

/// How many decisions, why, after which iterations, at what cost.
static void print_decisions(const ana_comparison *comparison, int label_width, text_buffer *out)
{
    const int row_count = comparison->setup->study->balancing_count;
    const int reasons_width = reasons_width_of(comparison);
    if (!has_decisions(comparison)) return;
    text_format(out, "\n%-*s %6s %6s %10s %10s %10s %7s  %-*s  %s\n", label_width, "Decisions",
                "asked", "moved", "profiling", "deciding", "migrating", "of run", reasons_width,
                "why", "moved after iterations");
    for (int index = 0; index < row_count; index++) {
        const ana_row *row = &comparison->rows[index];
        if (was_played(row)) print_decision_row(row, label_width, reasons_width, out);
    }
}

static void print_course(const ana_row *row, text_buffer *out)
{
    const ana_course *course = &row->course;
    text_format(out, "\nDecisions of '%s'\n", row->balancing->label);
    if (course->decision_count == 0) {
        text_append(out, "  none\n");
        return;
    }
    text_format(out, "  %9s  %-9s  %-9s %7s %10s %10s %10s\n", "iteration", "action", "why",
                "layers", "bytes", "deciding", "migrating");
    for (int index = 0; index < course->decision_count; index++) {
        const ana_decision *decision = &course->decisions[index];
        char bytes[32];
        char deciding[32];
        char migrating[32];
        text_size(decision->moved_bytes, bytes);
        text_duration(decision->decision_ns, deciding);
        text_duration(decision->migration_ns, migrating);
        text_format(out, "  %9d  %-9s  %-9s %7d %10s %10s %10s\n", decision->iteration,
                    bal_action_names[decision->action], bal_reason_names[decision->reason],
                    decision->moved_layer_count, bytes, deciding, migrating);
    }
    if (course->is_cut)
        text_format(out, "  and more: only the first %d are kept\n", ANA_COURSE_MAX);
}

void ana_comparison_print_decisions(const ana_comparison *comparison, const char *label,
                                    text_buffer *out)
{
    const bool all = strcmp(label, "all") == 0;
    for (int index = 0; index < comparison->setup->study->balancing_count; index++) {
        const ana_row *row = &comparison->rows[index];
        const bool wanted = all || strcmp(label, row->balancing->label) == 0;
        if (wanted && was_played(row)) print_course(row, out);
    }
}

/// "1.141x", or "-" where it was not played.
static void gain_text(int64_t baseline_ns, int64_t total_ns, char out[16])
{
    if (baseline_ns > 0 && total_ns > 0) {
        snprintf(out, 16, "%.3fx", (double)baseline_ns / (double)total_ns);
    } else {
        snprintf(out, 16, "-");
    }
}

/// The same policy with perfect foresight.
static void print_knowing_ahead(const ana_comparison *comparison, int label_width, text_buffer *out)
{
    const int row_count = comparison->setup->study->balancing_count;
    bool has_header = false;
    if (!has_decisions(comparison)) return;
    for (int index = 0; index < row_count; index++) {
        const ana_row *row = &comparison->rows[index];
        const int64_t foresight_ns = row->informed_ns[BAL_INFORMATION_FORESIGHT];
        const int64_t profile_ns = row->informed_ns[BAL_INFORMATION_PROFILE];
        if (!was_played(row) || foresight_ns == 0 || profile_ns == 0) continue;
        if (!has_header) {
            text_format(out, "\n%-*s %9s %9s  %s\n", label_width, "What knowing ahead is worth",
                        "profile", "foresight", "gap (speed-ups: vs tuned)");
        }
        has_header = true;
        char gains[BAL_INFORMATION_COUNT][16];
        for (int information = 0; information < BAL_INFORMATION_COUNT; information++) {
            gain_text(comparison->tuned_ns, row->informed_ns[information], gains[information]);
        }
        const double gap = 100 * ((double)profile_ns / (double)foresight_ns - 1);
        text_format(out, "%-*s %9s %9s  %+.2f%%\n", label_width, row->balancing->label,
                    gains[BAL_INFORMATION_PROFILE], gains[BAL_INFORMATION_FORESIGHT],
                    gap > -0.005 && gap < 0 ? 0 : gap);
    }
}

/// "8, from 4001: 6, from 5001: 4": ranks of the pipeline, the first few steps and the last.
static void steps_text(const ana_course *course, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (int index = 0; index < course->step_count && used < size; index++) {
        const ana_rank_step *step = &course->steps[index];
        const bool is_last = index == course->step_count - 1;
        if (index > SHOWN_FIRST && !is_last) continue;
        if (index > SHOWN_FIRST + 1 && used < size) {
            used += (size_t)snprintf(text + used, size - used, " ..");
        }
        if (used >= size) return;
        if (index == 0) {
            used += (size_t)snprintf(text, size, "%d", step->rank_count);
        } else {
            used += (size_t)snprintf(text + used, size - used, ", from %d: %d",
                                     step->from_iteration, step->rank_count);
        }
        if (step->replica_count == course->steps[0].replica_count || used >= size) continue;
        used += (size_t)snprintf(text + used, size - used, " x %d", step->replica_count);
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
        char steps[160];
        if (!was_played(row) || repack->kind == BAL_REPACK_NONE) continue;
        if (!has_header) {
            text_format(out, "\n%*s %6s %10s %10s %10s %10s\n%-*s", label_width, "", "mean", "GPU",
                        "idle GPU", "released", "whole", label_width, "GPUs");
            ana_columns_title(ANA_COLUMNS_GPUS, out);
            text_format(out, "  %-9s  %s\n", "use", "ranks of the pipeline over the iterations");
        }
        has_header = true;
        steps_text(&row->course, steps, sizeof steps);
        text_format(out, "%-*s", label_width, row->balancing->label);
        ana_columns_print(ANA_COLUMNS_GPUS, row, out);
        text_format(out, "  %-9s  %s\n", bal_released_names[repack->use], steps);
    }
}

/// "1.0284", or "-" where the factor does not apply.
static void factor_text(int64_t factor_e4, char out[32])
{
    if (factor_e4 == 0) {
        snprintf(out, 32, "-");
    } else {
        snprintf(out, 32, "%" PRId64 ".%04d", factor_e4 / 10000, (int)(factor_e4 % 10000));
    }
}

/// The factors of each dynamic row.
static void print_factors(const ana_comparison *comparison, int label_width, text_buffer *out)
{
    const int row_count = comparison->setup->study->balancing_count;
    bool has_header = false;
    if (!has_decisions(comparison) && comparison->still_even_ns == 0) return;
    for (int index = 0; index < row_count; index++) {
        const ana_row *row = &comparison->rows[index];
        if (row->factors.total == 0) continue;
        if (!has_header) {
            text_format(out, "\n%-*s %9s   %8s   %8s   %10s   %8s  over %s\n", label_width,
                        "Where the speed-up comes from", "algorithm", "static", "dynamic",
                        "re-packing", "total",
                        comparison->still_even_ns > 0 ? "even without dynamism" : "even");
        }
        has_header = true;
        const ana_printed_factors printed = ana_factors_print(&row->factors);
        char factors[ANA_FACTOR_COUNT][32];
        for (int factor = 0; factor < ANA_FACTOR_COUNT; factor++) {
            factor_text(printed.factor_e4[factor], factors[factor]);
        }
        text_format(out, "%-*s %9s x %8s x %8s x %10s = %4" PRId64 ".%03dx\n", label_width,
                    row->balancing->label, factors[ANA_FACTOR_ALGORITHM],
                    factors[ANA_FACTOR_STATIC], factors[ANA_FACTOR_DYNAMIC],
                    factors[ANA_FACTOR_REPACK], printed.total_e3 / 1000,
                    (int)(printed.total_e3 % 1000));
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
    if (ana_study_is_disturbed(study)) {
        print_section(comparison, "Spread of iterations", ANA_COLUMNS_SPREAD, section_width, out);
    }
    print_equation_1(comparison, section_width, out);
    print_decisions(comparison, section_width, out);
    print_knowing_ahead(comparison, section_width, out);
    print_gpus(comparison, section_width, out);
    print_factors(comparison, section_width, out);
    print_splits(comparison, section_width, out);
    text_append(out, "\n");
    ana_inputs_print(&study->inputs, out);
}

#include "analysis/whatif/result.h"

#include "base/json.h"

#include <assert.h>
#include <gsl/gsl_cdf.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

/// How a figure is shown to people.
typedef enum form { HIDDEN, SHORT, PERCENT, TIME, COUNT, GROUPED, SIZE } form;

/// Every figure of a point that was played: its key in JSON and CSV, and its column in the table.
static const struct {
    const char *key;
    const char *head;
    form form;
} figures[] = {
    {"iteration_ns", NULL, HIDDEN},
    {"per_s", "tokens/s", SHORT}, // in JSON its key says of what
    {"per_s_per_gpu", "/GPU", SHORT},
    {"mfu", "MFU", PERCENT},
    {"train_s", "train", TIME},
    {"gpu_count", "GPUs", COUNT},
    {"gpu_hours", "GPU-hours", GROUPED},
    {"cost", "cost", GROUPED},
    {"peak_memory_bytes", "peak", SIZE},
    {"free_memory_bytes", "free", SIZE},
    {"bubble_ratio", "bubble_ratio", PERCENT},
    {"above_bound_ratio", "> bound", PERCENT},
    {"bound_ns", NULL, HIDDEN},
    {"imbalance_ratio", NULL, HIDDEN},
    {"flop_per_s_per_gpu", NULL, HIDDEN},
};

enum { RATE = 1, FIGURE_COUNT = sizeof figures / sizeof figures[0] };

/// In the order of the table; NAN stands for what is not known.
static void figures_of(const ana_point *point, double out[FIGURE_COUNT])
{
    const bool has_train = point->train_ns > 0;
    const bool has_bound = point->bound_ns > 0;
    const double values[] = {
        point->iteration_ns,
        point->per_second,
        point->per_second / point->gpu_count,
        point->flop_share > 0 ? point->flop_share : NAN,
        has_train ? point->train_ns / 1e9 : NAN,
        point->gpu_count,
        has_train ? point->gpu_hours : NAN,
        has_train && point->cost >= 0 ? point->cost : NAN,
        (double)point->peak_memory_bytes,
        point->free_bytes >= 0 ? (double)point->free_bytes : NAN,
        point->bubble_ratio,
        has_bound ? point->iteration_ns / point->bound_ns - 1 : NAN,
        has_bound ? point->bound_ns : NAN,
        point->imbalance_ratio,
        point->flop_per_s > 0 ? point->flop_per_s : NAN,
    };
    static_assert(sizeof values / sizeof values[0] == FIGURE_COUNT, "a figure without a value");
    memcpy(out, values, sizeof values);
}

// For people

/// A mean over iterations need not be whole.
static text_words show_gpus(double count)
{
    return count < 1000 ? text_wording("%.4g", count) : text_wording("%.0f", count);
}

static text_words show(form shown, double value)
{
    if (isnan(value)) return (text_words){"-"};
    switch (shown) {
    case SHORT:
        return ana_short_number(value);
    case PERCENT:
        return text_wording("%.1f %%", 100 * value);
    case TIME:
        return ana_long_time(value * 1e9);
    case GROUPED:
        return ana_grouped_number(value);
    case SIZE:
        return text_size((int64_t)value);
    default:
        return show_gpus(value);
    }
}

static void put_row(const ana_whatif *study, int64_t rank, int64_t item, ana_table *rows)
{
    const ana_point *point = &study->points[item];
    double values[FIGURE_COUNT];
    figures_of(point, values);
    ana_table_row(rows);
    ana_table_cell(rows, "%" PRId64, rank + 1);
    ana_table_cell(rows, "%s", ana_point_number(study, item).text);
    ana_table_values(rows, study, item);
    for (int each = 0; each < FIGURE_COUNT; each++) {
        if (figures[each].form == HIDDEN) continue;
        ana_table_cell(rows, "%s", show(figures[each].form, values[each]).text);
    }
    ana_table_cell(rows, "%s", study->standing.is_pareto[item] ? "*" : "");
}

static bool holds(const ana_whatif *study, int64_t from, int64_t to, int64_t item)
{
    while (from < to && study->standing.order[from] != item) {
        from++;
    }
    return from < to;
}

/// The best of the ranks [from, to), and the reference where it is among them and not one of the
/// best; of points that are alike the first.
static void print_ranks(const ana_whatif *study, int64_t from, int64_t to, int row_count,
                        text_buffer *out)
{
    arena *memory = arena_create(1 << 16);
    ana_table rows = ana_table_begin(row_count + 1, memory);
    ana_table_column(&rows, "rank", false);
    ana_table_column(&rows, "point", false);
    ana_table_axes(&rows, study);
    for (int each = 0; each < FIGURE_COUNT; each++) {
        if (figures[each].form != HIDDEN) ana_table_column(&rows, figures[each].head, false);
    }
    ana_table_column(&rows, "", true);
    bool leaves_out = false;
    for (int64_t rank = from, end = from; rank < to; rank = end) {
        end = ana_standing_alike_end(&study->standing, study->points, rank, to);
        if (rows.row_count <= row_count) {
            put_row(study, rank - from, study->standing.order[rank], &rows);
            leaves_out = leaves_out || (end > rank + 1 && rows.row_count <= row_count);
        } else if (holds(study, rank, end, study->reference)) {
            put_row(study, rank - from, study->reference, &rows);
        }
    }
    ana_table_print(&rows, out);
    if (leaves_out && from == 0) {
        text_append(out,
                    "Ranks left out have the figures of the row before; *: nothing is better in "
                    "every figure.\n");
    }
    arena_destroy(memory);
}

static const char *plural(double count)
{
    return count == 1 ? "" : "s";
}

/// " trains 500B tokens in 3.68 d on 256 GPUs: ..."
static void say_figures(const ana_whatif *study, const ana_point *point, text_buffer *out)
{
    const int64_t wanted = study->token_count > 0 ? study->token_count : ANA_TOKENS_DEFAULT;
    const text_words rate = ana_short_number(point->per_second);
    if (point->train_ns <= 0) {
        text_format(out, " makes %s microbatches/s on %s GPU%s", rate.text,
                    show_gpus(point->gpu_count).text, plural(point->gpu_count));
        return;
    }
    text_format(out, " trains %s tokens in %s on %s GPU%s", ana_short_number((double)wanted).text,
                ana_long_time(point->train_ns).text, show_gpus(point->gpu_count).text,
                plural(point->gpu_count));
    if (point->used_gpu_count < point->gpu_count) {
        text_format(out, ", of which %s have work", show_gpus(point->used_gpu_count).text);
    }
    text_format(out, ": %s tokens/s, ", rate.text);
    if (point->flop_share > 0) {
        text_format(out, "%.0f TFLOP/s of the model a GPU (MFU %.1f %%), ",
                    point->flop_per_s / 1e12, 100 * point->flop_share);
    }
    text_format(out, "%s GPU-hours", ana_grouped_number(point->gpu_hours).text);
    if (point->cost < 0) return;
    text_format(out, ", %s %s", ana_grouped_number(point->cost).text, study->currency);
}

/// The best point as it was drawn, or NULL.
static const ana_sure_point *drawn_best(const ana_whatif *study, const ana_certainty *certainty)
{
    for (int point = 0; certainty != NULL && point < certainty->point_count; point++) {
        const ana_sure_point *drawn = &certainty->points[point];
        if (drawn->item == study->standing.order[0]) return drawn;
    }
    return NULL;
}

/// Points that draws cannot tell from the best one, where it was drawn.
static int tied_count(const ana_whatif *study, const ana_certainty *certainty)
{
    const ana_sure_point *best = drawn_best(study, certainty);
    int tied = -1;
    for (int point = 0; best != NULL && point < certainty->point_count; point++) {
        tied += certainty->points[point].ranked.group == best->ranked.group;
    }
    return tied > 0 ? tied : 0;
}

/// Of measured times to predicted ones, what 95 % of runs by PyTorch FSDP of 2023 stayed below, and
/// the first ones of DeepSeek-V3 by NeMo (analysis/validate/README.md, llm-foundry and dgxc-2025).
/// No bar holds it: a study does not know the software.
#define OLD_SOFTWARE_RATIO 2.2
#define NEW_MODEL_RATIO 2.8

static void say_calibration(const ana_correction *calibration, text_buffer *words)
{
    text_format(words, "Times are corrected by %d measured run%s", calibration->run_count,
                plural(calibration->run_count));
    if (calibration->refused_count > 0) {
        text_format(words, "; %d could not be modelled: %s", calibration->refused_count,
                    calibration->refusal);
    }
    if (calibration->ignored[0] != '\0') {
        text_format(words, "; columns of them that are not read: %s", calibration->ignored);
    }
    text_append(words, ".");
}

/// By how much the best point's time may be off.
static void say_error(const ana_whatif *study, const ana_certainty *certainty, text_buffer *out)
{
    const ana_sure_point *drawn = drawn_best(study, certainty);
    const ana_point *best = &study->points[study->standing.order[0]];
    if (drawn == NULL) return;
    const ana_error_bar *bar = &drawn->bars[ANA_BAR_ITERATION_NS];
    text_format(out,
                study->is_modelled ? "; times may be off by %+.0f to %+.0f %%"
                                   : "; recorded times as they are, the rest by %+.1f to %+.1f %%",
                100 * (bar->low / best->iteration_ns - 1),
                100 * (bar->high / best->iteration_ns - 1));
    if (study->is_modelled && (study->calibration == NULL || study->is_beyond_calibration)) {
        text_format(out, " (older or uncompiled software: up to %.1f times as long",
                    OLD_SOFTWARE_RATIO);
        if (study->has_experts) {
            text_format(out, "; experts that a framework has just begun with: %.1f",
                        NEW_MODEL_RATIO);
        }
        text_append(out, ")");
    }
}

/// How likely the best point keeps what was asked for, where it was drawn: its bar is taken to be
/// log-normal.
static void say_limit(const ana_sure_point *drawn, ana_bar bar, double limit, const char *what,
                      text_buffer *out)
{
    const double five_to_95 = 3.29; // standard deviations
    if (drawn == NULL || limit <= 0) return;
    const ana_error_bar *of = &drawn->bars[bar];
    const double deviation = log(of->high / of->low) / five_to_95;
    if (!(of->low > 0) || !isfinite(of->high) || deviation <= 0) return;
    text_format(out, "By its error bar it keeps the %s with a probability of %.0f %%. ", what,
                100 * gsl_cdf_gaussian_P(log(limit / of->middle), deviation));
}

/// The ranks among which the answer is sought: those of the reference's training, if any of it can
/// be played.
static int64_t answer_end(const ana_whatif *study)
{
    const ana_standing *standing = &study->standing;
    return standing->comparable_count > 0 ? standing->comparable_count : standing->feasible_count;
}

/// How far a rank is behind the first, by what they are ranked by; NAN where that takes nothing.
static double behind(const ana_whatif *study, int64_t rank)
{
    const int64_t *order = study->standing.order;
    const double least = ana_point_loss(&study->points[order[0]], study->objective);
    return least > 0 ? ana_point_loss(&study->points[order[rank]], study->objective) / least - 1
                     : NAN;
}

/// " rank 3 (+0.1 %), point 301 (...)".
static void say_rank(const ana_whatif *study, int64_t rank, text_buffer *out)
{
    const int64_t *order = study->standing.order;
    const double loss = behind(study, rank);
    text_format(out, "rank %" PRId64, rank + 1);
    if (!isnan(loss)) text_format(out, " (%+.1f %%)", 100 * loss);
    text_append(out, ", ");
    ana_name_other(study, order[rank], order[0], out);
}

/// What one would launch: it fits with this probability.
#define SURE_TO_FIT 0.9

/// How likely the best point fits, and the first one that does.
static void say_memory(const ana_whatif *study, text_buffer *out)
{
    const int64_t *order = study->standing.order;
    const ana_point *best = &study->points[order[0]];
    const double fits = ana_whatif_fits(study, order[0]);
    int64_t rank = 0;
    if (fits >= SURE_TO_FIT) return;
    text_format(out,
                "It leaves %s beside %s of memory: by how far off predicted peaks of published "
                "runs were, it fits with a probability of %.0f %%",
                text_size(best->free_bytes).text, text_size(best->peak_memory_bytes).text,
                100 * fits);
    while (rank < answer_end(study) && ana_whatif_fits(study, order[rank]) < SURE_TO_FIT) {
        rank++;
    }
    if (rank == answer_end(study)) {
        text_append(out, "; none of this training has 90 %");
    } else {
        text_append(out, "; the first with 90 % is at ");
        say_rank(study, rank, out);
    }
    text_append(out, ". ");
}

/// The first rank of the answer's whose plan can be exported; answer_end: none.
static int64_t first_exported(const ana_whatif *study, int framework)
{
    const int64_t *order = study->standing.order;
    int64_t rank = 0;
    while (rank < answer_end(study) &&
           (study->points[order[rank]].frameworks & 1u << framework) == 0) {
        rank++;
    }
    return rank;
}

/// The names of the frameworks whose first point has this rank, after what is appended before them.
///
/// @return whether there is any
static bool name_frameworks(const int64_t *first, int64_t rank, const char *before,
                            text_buffer *out)
{
    bool is_named = false;
    for (int framework = ANA_FRAMEWORK_ANY + 1; framework < ANA_FRAMEWORK_COUNT; framework++) {
        if (first[framework] != rank) continue;
        text_format(out, "%s%s", is_named ? ", " : before, ana_framework_names[framework]);
        is_named = true;
    }
    return is_named;
}

/// Who can play the best point, and what the others can.
static void say_frameworks(const ana_whatif *study, text_buffer *out)
{
    const int64_t none = answer_end(study);
    int64_t first[ANA_FRAMEWORK_COUNT] = {-1};
    if (study->framework != ANA_FRAMEWORK_ANY) return;
    for (int framework = ANA_FRAMEWORK_ANY + 1; framework < ANA_FRAMEWORK_COUNT; framework++) {
        first[framework] = first_exported(study, framework);
    }
    if (!name_frameworks(first, 0, "`dynmo export` takes it to ", out)) {
        text_append(out, "`dynmo export` takes it to no framework");
    }
    for (int framework = ANA_FRAMEWORK_ANY + 1; framework < ANA_FRAMEWORK_COUNT; framework++) {
        const int64_t rank = first[framework];
        if (rank <= 0 || rank == none) continue;
        name_frameworks(first, rank, "; the first for ", out);
        text_append(out, " is at ");
        say_rank(study, rank, out);
        for (int same = framework; same < ANA_FRAMEWORK_COUNT; same++) {
            if (first[same] == rank) first[same] = -1;
        }
    }
    name_frameworks(first, none, "; none goes to ", out);
    text_append(out, ". ");
}

static void print_answer(const ana_whatif *study, const ana_certainty *certainty, text_buffer *out)
{
    static const char *const bests[ANA_OBJECTIVE_COUNT] = {"Fastest", "Fewest GPU-hours",
                                                           "Cheapest", "Least memory"};
    const int64_t best = study->standing.order[0];
    const ana_point *point = &study->points[best];
    const int tied = tied_count(study, certainty);
    text_buffer words = {0};
    text_format(&words, "%s: ", bests[study->objective]);
    ana_name_point(study, best, &words);
    say_figures(study, point, &words);
    if (point->bound_ns > 0) {
        text_format(&words,
                    "; no split of its layers and no order of ops is more than %.1f %% faster",
                    100 * (point->iteration_ns / point->bound_ns - 1));
    }
    text_append(&words, ". ");
    if (tied > 0) {
        text_format(&words,
                    "%d other%s cannot be told from it: its group below is the answer, not it "
                    "alone. ",
                    tied, plural(tied));
    }
    const ana_sure_point *drawn = drawn_best(study, certainty);
    say_limit(drawn, ANA_BAR_TRAIN_S, study->deadline_ns / 1e9, "deadline", &words);
    say_limit(drawn, ANA_BAR_COST, study->budget, "budget", &words);
    say_memory(study, &words);
    say_frameworks(study, &words);
    if (study->calibration != NULL) {
        say_calibration(study->calibration, &words);
    }
    text_append_wrapped(out, words.bytes, 0, ANA_TEXT_COLUMNS);
    text_free(&words);
}

/// What a study of a model holds as it is: further layouts are in no axis.
static void print_unsearched(const ana_whatif *study, text_buffer *out)
{
    static const char *const paths[] = {
        "training.tensor_parallel",  "training.expert_parallel", "training.expert_tensor_parallel",
        "training.context_parallel", "training.microbatch_size", "training.recompute",
        "training.sharding",         "training.dtype",           "pipeline.stages",
        "pipeline.chunks",           "pipeline.schedule",        "balancing.balancer",
    };
    text_buffer words = {0};
    for (size_t path = 0; path < sizeof paths / sizeof paths[0] && study->is_modelled; path++) {
        const bool is_of_experts = strstr(paths[path], ".expert_") != NULL;
        if (is_of_experts && !study->has_experts) continue;
        if (ana_matrix_axis(&study->matrix, paths[path]) != NULL) continue;
        text_format(&words, "%s%s", words.length > 0 ? ", " : "Held as written, not searched: ",
                    strchr(paths[path], '.') + 1);
    }
    if (words.length > 0) {
        text_append(&words, ".");
        text_append_wrapped(out, words.bytes, 0, ANA_TEXT_COLUMNS);
    }
    text_free(&words);
}

static void print_refusals(const ana_whatif *study, text_buffer *out)
{
    const ana_point *reference = &study->points[study->reference];
    const int64_t *counts = study->refusal_counts;
    const int64_t *first = study->first_refused;
    const int64_t refused = study->matrix.point_count - counts[ANA_REFUSAL_NONE];
    text_append(out, "\n");
    if (!study->is_written) {
        text_append(out, "The study as written is not complete; point 0 stands for it.\n");
    } else if (reference->refusal != ANA_REFUSAL_NONE) {
        text_format(out, "The study as written cannot be %s: %s\n",
                    reference->refusal == ANA_REFUSAL_FRAMEWORK ? "exported" : "played",
                    reference->message);
    }
    if (refused == 0) return;
    text_format(out, "Infeasible: %" PRId64 " of %" PRId64 " points\n", refused,
                study->matrix.point_count);
    for (int refusal = 1; refusal < ANA_REFUSAL_COUNT; refusal++) {
        if (counts[refusal] == 0) continue;
        text_format(out, "  %8" PRId64 "  %s; point %" PRId64 ": %s\n", counts[refusal],
                    ana_refusal_names[refusal], ana_whatif_number(study, first[refusal]),
                    study->points[first[refusal]].message);
    }
}

/// The inputs of the best point, which is opened again for them.
static status print_inputs(const ana_whatif *study, text_buffer *out, error_message *err)
{
    arena *scratch = arena_within(study->memory, 1 << 16);
    ana_point_worker *worker = ana_point_worker_create(scratch);
    text_buffer changes = {.memory = scratch};
    ana_whatif_changes(study, study->standing.order[0], &changes);
    TRY(ana_point_check(worker, study->path, study->matrix.base, changes.bytes, err));
    model_assumption_list inputs = ana_point_worker_study(worker)->inputs;
    if (study->token_count == 0 && study->points[study->standing.order[0]].train_ns > 0) {
        model_assume(&inputs, "training.tokens", MODEL_ORIGIN_ASSUMED, NULL, "%s",
                     ana_short_number(ANA_TOKENS_DEFAULT).text);
    }
    text_append(out, "\n");
    ana_inputs_print(&inputs, out);
    arena_reset(scratch);
    return STATUS_OK;
}

status ana_result_print(const ana_whatif *study, const ana_certainty *certainty, int row_count,
                        text_buffer *out, error_message *err)
{
    const ana_standing *standing = &study->standing;
    text_format(out,
                "%s: %" PRId64 " points on %d axes, %" PRId64 " feasible, ranked by %s, "
                "failure-free",
                study->title, study->matrix.point_count, study->matrix.axis_count,
                study->refusal_counts[ANA_REFUSAL_NONE], ana_objective_names[study->objective]);
    say_error(study, certainty, out);
    if (study->beyond[0] != '\0' && study->calibration == NULL) {
        text_format(out, "; beyond what was validated: %s", study->beyond);
    }
    text_append(out, "\n\n");
    print_answer(study, certainty, out);
    print_unsearched(study, out);
    text_append(out, "\n");
    print_ranks(study, 0, standing->comparable_count, row_count, out);
    if (standing->feasible_count > standing->comparable_count) {
        text_append(out, "\nOther training: another global batch, sequence length, token count, "
                         "dtype, model, data or case\n");
        print_ranks(study, standing->comparable_count, standing->feasible_count, row_count, out);
    }
    print_refusals(study, out);
    if (certainty != NULL) ana_certainty_print(certainty, row_count, out);
    return print_inputs(study, out, err);
}

// For programs

static void write_axes(const ana_whatif *study, json_writer *writer)
{
    json_put_array(writer, "axes");
    for (int axis = 0; axis < study->matrix.axis_count; axis++) {
        const ana_axis *written = &study->matrix.axes[axis];
        json_begin_object(writer);
        json_put_string(writer, "name", written->name);
        json_put_array(writer, "values");
        for (int value = 0; value < written->value_count; value++) {
            json_put_string(writer, NULL, written->values[value].label);
        }
        json_end_array(writer);
        json_end_object(writer);
    }
    json_end_array(writer);
}

static void write_value(int each, double value, json_writer *writer)
{
    if (isnan(value)) {
        json_put_null(writer, NULL);
    } else if (figures[each].form == SIZE) {
        json_put_int64(writer, NULL, (int64_t)value);
    } else {
        json_put_double(writer, NULL, value);
    }
}

static void write_figures(const ana_whatif *study, int64_t item, json_writer *writer)
{
    const ana_point *point = &study->points[item];
    double values[FIGURE_COUNT];
    figures_of(point, values);
    for (int each = 0; each < FIGURE_COUNT; each++) {
        const char *rate = point->train_ns > 0 ? "tokens_per_s" : "microbatches_per_s";
        json_write_key(writer, each == RATE ? rate : figures[each].key);
        write_value(each, values[each], writer);
    }
    json_put_int64(writer, "peak_rank", point->rank);
    json_put_bool(writer, "pareto", study->standing.is_pareto[item]);
}

static void write_point(const ana_whatif *study, int64_t item, json_writer *writer)
{
    const ana_point *point = &study->points[item];
    const int64_t number = ana_whatif_number(study, item);
    int value[ANA_AXES_MAX];
    json_begin_object(writer);
    if (number >= 0) {
        ana_whatif_values(study, item, value);
        json_put_int64(writer, "point", number);
        json_put_int_array(writer, "values", value, study->matrix.axis_count);
    }
    if (point->refusal == ANA_REFUSAL_NONE) {
        write_figures(study, item, writer);
    } else {
        json_put_string(writer, "infeasible", ana_refusal_names[point->refusal]);
        json_put_string(writer, "message", point->message);
    }
    if (point->missing_bytes > 0) {
        json_put_int64(writer, "rank", point->rank);
        json_put_int64(writer, "missing_bytes", point->missing_bytes);
    }
    json_end_object(writer);
}

static void write_numbers(const ana_whatif *study, const char *key, int64_t from, int64_t to,
                          json_writer *writer)
{
    json_put_array(writer, key);
    for (int64_t rank = from; rank < to; rank++) {
        json_put_int64(writer, NULL, ana_whatif_number(study, study->standing.order[rank]));
    }
    json_end_array(writer);
}

/// Of each framework the best point of the answer's that can be exported to it.
static void write_frameworks(const ana_whatif *study, json_writer *writer)
{
    json_put_object(writer, "frameworks");
    for (int framework = ANA_FRAMEWORK_ANY + 1; framework < ANA_FRAMEWORK_COUNT; framework++) {
        const int64_t rank = first_exported(study, framework);
        if (rank == answer_end(study)) {
            json_put_null(writer, ana_framework_names[framework]);
            continue;
        }
        json_put_object(writer, ana_framework_names[framework]);
        json_put_int64(writer, "best_point", ana_whatif_number(study, study->standing.order[rank]));
        json_put_int64(writer, "rank", rank + 1);
        const double loss = behind(study, rank);
        if (!isnan(loss)) json_put_double(writer, "behind_ratio", loss);
        json_end_object(writer);
    }
    json_end_object(writer);
}

static void write_refusals(const ana_whatif *study, json_writer *writer)
{
    const int64_t *counts = study->refusal_counts;
    json_put_object(writer, "infeasible");
    for (int refusal = 1; refusal < ANA_REFUSAL_COUNT; refusal++) {
        if (counts[refusal] > 0) {
            json_put_int64(writer, ana_refusal_names[refusal], counts[refusal]);
        }
    }
    json_end_object(writer);
}

void ana_result_write(const ana_whatif *study, const ana_certainty *certainty, text_buffer *out)
{
    const ana_standing *standing = &study->standing;
    json_writer writer = json_line_begin(out);
    json_put_string(&writer, "schema", "dynmo-study-result/1");
    json_put_string(&writer, "name", study->title);
    json_put_int64(&writer, "tokens",
                   study->token_count > 0 ? study->token_count : ANA_TOKENS_DEFAULT);
    json_put_string(&writer, "currency", study->currency);
    json_put_string(&writer, "beyond_validated", study->calibration == NULL ? study->beyond : "");
    json_put_string(&writer, "ranked_by", ana_objective_names[study->objective]);
    write_axes(study, &writer);
    json_put_int64(&writer, "points_played", study->matrix.point_count);
    write_refusals(study, &writer);
    json_put_int64(&writer, "reference", ana_whatif_number(study, study->reference));
    write_numbers(study, "ranking", 0, standing->comparable_count, &writer);
    write_numbers(study, "other_training", standing->comparable_count, standing->feasible_count,
                  &writer);
    json_put_string(&writer, "framework", ana_framework_names[study->framework]);
    write_frameworks(study, &writer);
    json_put_array(&writer, "points");
    for (int64_t item = 0; item < study->item_count; item++) {
        write_point(study, item, &writer);
    }
    json_end_array(&writer);
    json_write_key(&writer, "certainty");
    if (certainty != NULL) {
        ana_certainty_write(certainty, &writer);
    } else {
        json_put_null(&writer, NULL);
    }
    json_line_end(&writer);
}

// For spreadsheets

/// A field of CSV: in quotes where it holds a comma, a quote or a line end (RFC 4180).
static void put_field(text_buffer *out, const char *text)
{
    const char *quote = strpbrk(text, ",\"\r\n") != NULL ? "\"" : "";
    text_format(out, ",%s", quote);
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '"') text_append(out, "\"");
        text_append_bytes(out, c, 1);
    }
    text_append(out, quote);
}

static void write_csv_row(const ana_whatif *study, int64_t item, text_buffer *out)
{
    const ana_point *point = &study->points[item];
    const int64_t number = ana_whatif_number(study, item);
    const bool is_played = point->refusal == ANA_REFUSAL_NONE;
    int value[ANA_AXES_MAX];
    double values[FIGURE_COUNT];
    if (number >= 0) text_format(out, "%" PRId64, number);
    ana_whatif_values(study, item, value);
    for (int axis = 0; axis < study->matrix.axis_count; axis++) {
        put_field(out, number >= 0 ? study->matrix.axes[axis].values[value[axis]].label : "");
    }
    put_field(out, is_played ? "" : ana_refusal_names[point->refusal]);
    figures_of(point, values);
    for (int each = 0; each < FIGURE_COUNT; each++) {
        json_writer writer = json_writer_init(out);
        text_append(out, ",");
        if (is_played && !isnan(values[each])) write_value(each, values[each], &writer);
    }
    text_append(out, is_played && study->standing.is_pareto[item] ? ",yes\n" : ",no\n");
}

void ana_result_write_csv(const ana_whatif *study, text_buffer *out)
{
    text_append(out, "point");
    for (int axis = 0; axis < study->matrix.axis_count; axis++) {
        put_field(out, study->matrix.axes[axis].name);
    }
    text_append(out, ",infeasible");
    for (int each = 0; each < FIGURE_COUNT; each++) {
        put_field(out, figures[each].key);
    }
    text_append(out, ",pareto\n");
    for (int64_t item = 0; item < study->item_count; item++) {
        write_csv_row(study, item, out);
    }
}

#include "analysis/whatif/result.h"

#include "analysis/whatif/result_words.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static bool has_price(const ana_whatif *study)
{
    for (int64_t item = 0; item < study->item_count; item++) {
        if (study->points[item].refusal == ANA_REFUSAL_NONE && study->points[item].cost >= 0) {
            return true;
        }
    }
    return false;
}

static void put_head(const ana_whatif *study, ana_table *filled)
{
    static const char *const figures[] = {"tokens/s",  "/GPU",     "MFU",  "train", "GPUs",
                                          "GPU-hours", "cost",     "peak", "free",  "idle",
                                          "> bound",   "learning", ""};
    enum { IDLE = 9, LEARNING = 11 };
    int column = 0;
    ana_table_put(filled, 0, &column, "rank");
    ana_table_put(filled, 0, &column, "point");
    ana_table_put(filled, 0, &column, "alike");
    for (int axis = 0; axis < study->matrix.axis_count; axis++) {
        const char *name = strrchr(study->matrix.axes[axis].name, '.');
        filled->is_left[column] = true;
        ana_table_put(filled, 0, &column, name != NULL ? name + 1 : study->matrix.axes[axis].name);
    }
    for (size_t figure = 0; figure < sizeof figures / sizeof figures[0]; figure++) {
        filled->is_left[column] = figure == IDLE || figure >= LEARNING;
        ana_table_put(filled, 0, &column, figures[figure]);
    }
    filled->column_count = column;
    filled->row_count = 1;
}

/// "36.7 % fill 30, messages 6": all idle time, and the largest of its causes above half a percent.
static void idle_cell(const ana_bubble_causes *causes, char out[ANA_CELL_BYTES])
{
    static const char *const words[ANA_BUBBLE_CAUSE_COUNT] = {
        [ANA_BUBBLE_FILL] = "fill",
        [ANA_BUBBLE_IMBALANCE] = "imbalance",
        [ANA_BUBBLE_COMMUNICATION] = "messages",
        [ANA_BUBBLE_BARRIER] = "barrier",
        [ANA_BUBBLE_REDUCTION] = "reduction",
        [ANA_BUBBLE_MIGRATION] = "migration",
    };
    bool is_said[ANA_BUBBLE_CAUSE_COUNT] = {false};
    int length =
        snprintf(out, ANA_CELL_BYTES, "%.1f %%", 100 * ana_bubble_causes_idle_ratio(causes));
    for (int place = 0; place < 2; place++) {
        int largest = -1;
        for (int cause = 0; cause < ANA_BUBBLE_CAUSE_COUNT; cause++) {
            if (is_said[cause]) continue;
            if (largest < 0 || causes->cause_ns[cause] > causes->cause_ns[largest]) largest = cause;
        }
        const double share = ana_bubble_causes_share(causes, (ana_bubble_cause)largest);
        is_said[largest] = true;
        if (share < 0.005) return;
        length += snprintf(out + length, (size_t)(ANA_CELL_BYTES - length), "%s %s %.0f",
                           place > 0 ? "," : "", words[largest], 100 * share);
    }
}

static void put_figures(const ana_whatif *study, const ana_closer_look *look, int64_t item,
                        ana_table *filled, int row, int *column)
{
    const ana_bubble_causes *causes = ana_closer_look_find(look, item);
    const ana_point *point = &study->points[item];
    const ana_learning learning = ana_learning_beside(&study->learning, &point->learning);
    char cell[ANA_CELL_BYTES] = "-";
    ana_short_number(point->per_second, cell);
    ana_table_put(filled, row, column, cell);
    ana_short_number(point->per_second / point->gpu_count, cell);
    ana_table_put(filled, row, column, cell);
    snprintf(cell, sizeof cell, "%.1f %%", 100 * point->flop_share);
    ana_table_put(filled, row, column, point->flop_share > 0 ? cell : "-");
    if (point->train_ns > 0) ana_long_time(point->train_ns, cell);
    ana_table_put(filled, row, column, point->train_ns > 0 ? cell : "-");
    snprintf(cell, sizeof cell, "%.4g", point->gpu_count);
    ana_table_put(filled, row, column, cell);
    ana_grouped_number(point->gpu_hours, cell);
    ana_table_put(filled, row, column, point->train_ns > 0 ? cell : "-");
    ana_grouped_number(point->cost, cell);
    ana_table_put(filled, row, column, point->cost >= 0 && point->train_ns > 0 ? cell : "-");
    text_size(point->peak_memory_bytes, cell);
    ana_table_put(filled, row, column, cell);
    if (point->free_bytes >= 0) text_size(point->free_bytes, cell);
    ana_table_put(filled, row, column, point->free_bytes >= 0 ? cell : "-");
    if (causes != NULL) idle_cell(causes, cell);
    ana_table_put(filled, row, column, causes != NULL ? cell : "-");
    snprintf(cell, sizeof cell, "%.1f %%", 100 * (point->iteration_ns / point->bound_ns - 1));
    ana_table_put(filled, row, column, point->bound_ns > 0 ? cell : "-");
    ana_table_put(filled, row, column, ana_learning_names[learning]);
    ana_table_put(filled, row, column, study->standing.is_pareto[item] ? "*" : "");
}

static void put_row(const ana_whatif *study, const ana_closer_look *look, int64_t rank,
                    int64_t alike_count, int64_t item, ana_table *filled)
{
    const int row = filled->row_count++;
    const int64_t number = ana_whatif_number(study, item);
    int value[ANA_AXES_MAX];
    int column = 0;
    char cell[ANA_CELL_BYTES];
    snprintf(cell, sizeof cell, "%" PRId64, rank + 1);
    ana_table_put(filled, row, &column, cell);
    snprintf(cell, sizeof cell, "%" PRId64, number);
    ana_table_put(filled, row, &column, number >= 0 ? cell : "written");
    snprintf(cell, sizeof cell, "+%" PRId64, alike_count);
    ana_table_put(filled, row, &column, alike_count > 0 ? cell : "");
    ana_whatif_values(study, item, value);
    for (int axis = 0; axis < study->matrix.axis_count; axis++) {
        const ana_axis *named = &study->matrix.axes[axis];
        ana_table_put(filled, row, &column,
                      value[axis] >= 0 ? named->values[value[axis]].label : "");
    }
    put_figures(study, look, item, filled, row, &column);
}

static bool holds(const ana_whatif *study, int64_t from, int64_t to, int64_t item)
{
    for (int64_t rank = from; rank < to; rank++) {
        if (study->standing.order[rank] == item) return true;
    }
    return false;
}

/// The best of the ranks [from, to), and the reference where it is among them and not one of the
/// best; of points that are alike the first.
static void print_ranks(const ana_whatif *study, const ana_closer_look *look, int64_t from,
                        int64_t to, int row_count, text_buffer *out)
{
    arena *memory = arena_create(1 << 16);
    ana_table filled = {.cells = arena_array(memory, (size_t)row_count + 2, sizeof *filled.cells)};
    put_head(study, &filled);
    for (int64_t rank = from, end = from; rank < to; rank = end) {
        end = ana_standing_alike_end(&study->standing, study->points, rank, to);
        if (filled.row_count <= row_count) {
            put_row(study, look, rank - from, end - rank - 1, study->standing.order[rank], &filled);
        } else if (holds(study, rank, end, study->reference)) {
            put_row(study, look, rank - from, end - rank - 1, study->reference, &filled);
        }
    }
    ana_table_print(&filled, out);
    arena_destroy(memory);
}

static const char *plural(double count)
{
    return count == 1 ? "" : "s";
}

static void say_figures(const ana_whatif *study, const ana_point *point, text_buffer *out)
{
    char tokens[ANA_CELL_BYTES];
    char time[ANA_CELL_BYTES];
    char hours[ANA_CELL_BYTES];
    char cost[ANA_CELL_BYTES];
    char rate[ANA_CELL_BYTES];
    const int64_t wanted = study->token_count > 0 ? study->token_count : ANA_TOKENS_DEFAULT;
    ana_short_number(point->per_second, rate);
    if (point->train_ns <= 0) {
        text_format(out, " makes %s microbatches/s on %.4g GPU%s", rate, point->gpu_count,
                    plural(point->gpu_count));
        return;
    }
    ana_short_number((double)wanted, tokens);
    ana_long_time(point->train_ns, time);
    ana_grouped_number(point->gpu_hours, hours);
    ana_grouped_number(point->cost, cost);
    text_format(out, " trains %s tokens in %s on %.4g GPU%s", tokens, time, point->gpu_count,
                plural(point->gpu_count));
    if (point->used_gpu_count < point->gpu_count) {
        text_format(out, ", of which %.4g have work", point->used_gpu_count);
    }
    text_format(out, ": %s tokens/s, ", rate);
    if (point->flop_share > 0) {
        text_format(out, "%.0f TFLOP/s of the model a GPU (MFU %.1f %%), ",
                    point->flop_per_s / 1e12, 100 * point->flop_share);
    }
    text_format(out, "%s GPU-hours", hours);
    if (point->cost >= 0) text_format(out, ", %s %s", cost, study->currency);
}

/// By cost, where it is known; of two without a price by GPU-hours.
static bool needs_less(const ana_point *one, const ana_point *other)
{
    if (one->cost < 0 && other->cost < 0) return one->gpu_hours < other->gpu_hours;
    if (one->cost < 0 || other->cost < 0) return one->cost >= 0;
    return one->cost < other->cost;
}

/// The point of least GPU-hours (or cost) of the training that is compared.
static int64_t cheapest(const ana_whatif *study)
{
    const ana_standing *standing = &study->standing;
    int64_t best = standing->order[0];
    for (int64_t rank = 1; rank < standing->comparable_count; rank++) {
        const ana_point *point = &study->points[standing->order[rank]];
        const ana_point *least = &study->points[best];
        if (needs_less(point, least)) best = standing->order[rank];
    }
    return best;
}

/// Points that draws cannot tell from the best one, where it leads them.
static int tied_count(const ana_whatif *study, const ana_certainty *certainty)
{
    int best = 0;
    int tied = 0;
    if (certainty == NULL) return 0;
    while (best < certainty->point_count &&
           certainty->points[best].item != study->standing.order[0]) {
        best++;
    }
    for (int point = 0; best < certainty->point_count && point < certainty->point_count; point++) {
        tied += point != best &&
                certainty->points[point].ranked.group == certainty->points[best].ranked.group;
    }
    return tied;
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
        if (ana_matrix_varies(&study->matrix, paths[path])) continue;
        text_format(&words, "%s%s", words.length > 0 ? ", " : "Held as written, not searched: ",
                    strchr(paths[path], '.') + 1);
    }
    if (words.length > 0) {
        text_append(&words, ".");
        text_append_wrapped(out, words.bytes, 0, 100);
    }
    text_free(&words);
}

static void print_answer(const ana_whatif *study, const ana_certainty *certainty, text_buffer *out)
{
    static const char *const bests[ANA_OBJECTIVE_COUNT] = {"Fastest", "Fewest GPU-hours",
                                                           "Cheapest", "Least memory"};
    const int64_t best = study->standing.order[0];
    const ana_point *point = &study->points[best];
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
    const int tied = tied_count(study, certainty);
    if (tied > 0) {
        text_format(&words,
                    "%d other%s cannot be told from it: its group below is the answer, not it "
                    "alone. ",
                    tied, plural(tied));
    }
    const int64_t least = cheapest(study);
    if (study->points[best].train_ns > 0 && least == best) {
        text_format(&words, "None of the points played needs %s.",
                    has_price(study) ? "less money" : "fewer GPU-hours");
    } else if (study->points[best].train_ns > 0) {
        text_format(&words, "%s: ", has_price(study) ? "Cheapest" : "Fewest GPU-hours");
        ana_name_point(study, least, &words);
        say_figures(study, &study->points[least], &words);
        text_append(&words, ".");
    }
    if (study->calibration != NULL)
        text_append(&words, " Times are at the level of the calibration.");
    text_append_wrapped(out, words.bytes, 0, 100);
    text_free(&words);
}

/// Points of the matrix that could be played.
static int64_t feasible_count(const ana_whatif *study)
{
    int64_t count = 0;
    for (int64_t item = 0; item < study->matrix.point_count; item++) {
        count += study->points[item].refusal == ANA_REFUSAL_NONE;
    }
    return count;
}

/// The study as written, where it is no row of the table.
static void say_reference(const ana_whatif *study, text_buffer *out)
{
    const ana_point *point = &study->points[study->reference];
    if (!study->is_written) {
        text_append(out, "The study as written is not complete; point 0 stands for it.\n");
    } else if (point->refusal != ANA_REFUSAL_NONE) {
        text_format(out, "The study as written cannot be played: %s\n", point->message);
    }
}

static void print_refusals(const ana_whatif *study, text_buffer *out)
{
    int64_t counts[ANA_REFUSAL_COUNT] = {0};
    int64_t example[ANA_REFUSAL_COUNT] = {0};
    int64_t refused = 0;
    for (int64_t item = study->matrix.point_count - 1; item >= 0; item--) {
        counts[study->points[item].refusal]++;
        example[study->points[item].refusal] = item;
    }
    refused = study->matrix.point_count - counts[ANA_REFUSAL_NONE];
    if (refused == 0) return;
    text_format(out, "Infeasible: %" PRId64 " of %" PRId64 " points\n", refused,
                study->matrix.point_count);
    for (int refusal = 1; refusal < ANA_REFUSAL_COUNT; refusal++) {
        if (counts[refusal] == 0) continue;
        text_format(out, "  %8" PRId64 "  %s; point %" PRId64 ": %s\n", counts[refusal],
                    ana_refusal_names[refusal], ana_whatif_number(study, example[refusal]),
                    study->points[example[refusal]].message);
    }
}

/// The inputs of the best point; without draws also what they would have been needed for.
static status print_inputs(const ana_whatif *study, const ana_certainty *certainty,
                           ana_point_worker *worker, text_buffer *out, error_message *err)
{
    text_buffer text = {0};
    status result = ana_whatif_text(study, study->standing.order[0], NULL, &text, err);
    if (result == STATUS_OK) result = ana_point_check(worker, study->path, text.bytes, err);
    text_free(&text);
    if (result != STATUS_OK) return result;
    if (certainty == NULL && ana_point_worker_study(worker)->mtbf_hours > 0) {
        text_append(out, "\nGoodput and delivery are found from draws, and --draws is 0.\n");
    }
    text_append(out, "\n");
    ana_inputs_print(&ana_point_worker_study(worker)->inputs, out);
    return STATUS_OK;
}

status ana_result_print(const ana_whatif *study, const ana_closer_look *look,
                        const ana_certainty *certainty, int row_count, ana_point_worker *worker,
                        text_buffer *out, error_message *err)
{
    const ana_standing *standing = &study->standing;
    text_format(out, "%s: %" PRId64, study->title, study->matrix.point_count);
    if (study->matrix.sampled != NULL) text_format(out, " of %" PRId64, study->matrix.full_count);
    text_format(out, " points on %d axes, %" PRId64 " feasible, ranked by %s, failure-free",
                study->matrix.axis_count, feasible_count(study),
                ana_objective_names[study->objective]);
    if (study->beyond[0] != '\0' && study->calibration == NULL) {
        text_format(out, "; beyond what was validated: %s", study->beyond);
    }
    text_append(out, "\n\n");
    print_answer(study, certainty, out);
    print_unsearched(study, out);
    text_append(out, "\n");
    print_ranks(study, look, 0, standing->comparable_count, row_count, out);
    if (standing->feasible_count > standing->comparable_count) {
        text_append(out, "\nOther training: another global batch, sequence length, token count, "
                         "dtype, model, data or case\n");
        print_ranks(study, look, standing->comparable_count, standing->feasible_count, row_count,
                    out);
    }
    text_append(out, "\n");
    say_reference(study, out);
    print_refusals(study, out);
    if (certainty != NULL) ana_certainty_print(certainty, row_count, out);
    TRY(print_inputs(study, certainty, worker, out, err));
    return STATUS_OK;
}

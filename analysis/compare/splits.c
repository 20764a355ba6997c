#include "analysis/compare/compare.h"

#include "balance/schedule/schedule.h"

#include <string.h>

/// Splits of a row that a page shows, beside the last.
enum { SHOWN_FIRST = 4 };

void ana_splits_add(ana_splits *splits, const bal_training_iteration *iteration)
{
    if (iteration->first_layer == NULL) return;
    const int stage_count = iteration->rank_count * splits->chunk_count;
    const size_t bytes = ((size_t)stage_count + 1) * sizeof *iteration->first_layer;
    const int last = splits->step_count - 1;
    if (last >= 0 && splits->steps[last].stage_count == stage_count &&
        memcmp(splits->steps[last].first_layer, iteration->first_layer, bytes) == 0) {
        return;
    }
    if (splits->steps == NULL) {
        splits->steps = arena_array(splits->memory, ANA_SPLITS_MAX, sizeof *splits->steps);
    } else {
        splits->change_count++;
    }
    if (splits->step_count < ANA_SPLITS_MAX) splits->step_count++;
    ana_split_step *step = &splits->steps[splits->step_count - 1];
    if (step->stage_count < stage_count) { // room of the one that it stands in for, else its own
        step->first_layer = arena_array(splits->memory, (size_t)stage_count + 1, sizeof(int));
    }
    step->from_iteration = iteration->iteration;
    step->stage_count = stage_count;
    memcpy(step->first_layer, iteration->first_layer, bytes);
}

int ana_iteration_number(ana_iteration_names names, int iteration)
{
    return (names.number != NULL ? names.number[iteration] : iteration) + names.offset;
}

void ana_splits_print(const ana_splits *splits, const char *indent, const char *label,
                      int label_width, ana_iteration_names names, text_buffer *out)
{
    for (int index = 0; index < splits->step_count; index++) {
        const ana_split_step *step = &splits->steps[index];
        if (index >= SHOWN_FIRST && index < splits->step_count - 1) continue;
        if (index > SHOWN_FIRST) {
            text_format(out, "%s%-*s  .. %d more, %s in `splits` of --json\n", indent, label_width,
                        "", splits->change_count - SHOWN_FIRST,
                        splits->step_count == splits->change_count + 1 ? "all" : "the first");
        }
        text_format(out, "%s%-*s  from %d:", indent, label_width, index == 0 ? label : "",
                    ana_iteration_number(names, step->from_iteration));
        for (int stage = 0; stage < step->stage_count; stage++) {
            text_format(out, " %d", step->first_layer[stage + 1] - step->first_layer[stage]);
        }
        text_append(out, "\n");
    }
}

void ana_splits_print_export(const char *schedule, const char *file, text_buffer *out)
{
    const bal_schedule_family *family = bal_schedule_family_find(schedule);
    const bool is_loop = family != NULL && family->placement == BAL_PLACEMENT_LOOP;
    const bool is_its_own =
        strcmp(schedule, "1f1b") == 0 || strcmp(schedule, "interleaved-1f1b") == 0;
    text_format(out, "dynmo export %s %s%s", is_loop ? "megatron" : "pytorch", file,
                is_loop && !is_its_own ? " --split-only" : "");
}

void ana_splits_write(const ana_splits *splits, ana_iteration_names names, json_writer *writer)
{
    json_put_int64(writer, "split_changes", splits->change_count);
    json_put_array(writer, "splits");
    for (int index = 0; index < splits->step_count; index++) {
        const ana_split_step *step = &splits->steps[index];
        json_begin_object(writer);
        json_put_int64(writer, "from_iteration", ana_iteration_number(names, step->from_iteration));
        json_put_int_array(writer, "first_layer", step->first_layer, step->stage_count + 1);
        json_end_object(writer);
    }
    json_end_array(writer);
}

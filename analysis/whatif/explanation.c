#include "analysis/whatif/explanation.h"

#include "base/json.h"

#include <stdio.h>
#include <string.h>

/// Told of the iterations of a run: some of them, evenly spaced, stand for all.
typedef struct observer {
    ana_explanation *explanation;
    int iteration_count;
    arena *memory;
    arena *scratch;
} observer;

/// The k-th that is looked at stands at k * count / ANA_EXPLAINED_ITERATIONS.
static bool is_looked_at(void *context, int iteration)
{
    const observer *seen = context;
    const int64_t count = seen->iteration_count;
    const int64_t next = (iteration * (int64_t)ANA_EXPLAINED_ITERATIONS + count - 1) / count;
    return count <= ANA_EXPLAINED_ITERATIONS ||
           next * count / ANA_EXPLAINED_ITERATIONS == iteration;
}

static int64_t stage_work_ns(const bal_stage_costs *costs, int stage, int microbatch_count)
{
    int64_t sum = 0;
    for (int microbatch = 0; microbatch < microbatch_count; microbatch++) {
        const int at = stage * costs->microbatch_count + microbatch % costs->microbatch_count;
        sum += costs->forward_ns[at] + costs->backward_input_ns[at] + costs->backward_weight_ns[at];
    }
    return sum;
}

static status look_at(void *context, const bal_training_iteration *iteration, error_message *err)
{
    observer *seen = context;
    ana_explanation *explanation = seen->explanation;
    const bal_stage_costs *costs = iteration->costs;
    if (iteration->timeline == NULL) return STATUS_OK;
    arena_reset(seen->scratch);
    TRY(ana_bubble_causes_add(&explanation->causes, iteration, seen->scratch, err));
    const size_t stages = (size_t)costs->stage_count;
    const int microbatches = iteration->timeline->schedule->microbatch_count;
    explanation->iteration = iteration->iteration;
    explanation->stage_count = costs->stage_count;
    explanation->first_layer = arena_array(seen->memory, stages + 1, sizeof(int));
    explanation->stage_ns = arena_array(seen->memory, stages, sizeof(int64_t));
    memcpy(explanation->first_layer, iteration->first_layer, (stages + 1) * sizeof(int));
    for (int stage = 0; stage < costs->stage_count; stage++) {
        explanation->stage_ns[stage] = stage_work_ns(costs, stage, microbatches);
    }
    return STATUS_OK;
}

status ana_explain(ana_point_worker *worker, const char *name, const char *text, arena *memory,
                   ana_explanation *explanation, error_message *err)
{
    observer seen = {.explanation = explanation, .iteration_count = 1, .memory = memory};
    const bal_record_sink sink = {.context = &seen, .wants_timeline = is_looked_at, .put = look_at};
    *explanation = (ana_explanation){0};
    TRY(ana_point_check(worker, name, text, err));
    const ana_setup *setup = ana_point_worker_setup(worker);
    if (setup != NULL) seen.iteration_count = setup->iteration_count;
    seen.scratch = arena_create(1 << 16);
    const status played = ana_point_evaluate(worker, name, text, &sink, &explanation->point, err);
    arena_destroy(seen.scratch);
    TRY(played);
    if (explanation->point.refusal != ANA_REFUSAL_NONE) {
        return error_set(err, STATUS_INFEASIBLE, "%.400s", explanation->point.message);
    }
    explanation->study = ana_point_worker_study(worker);
    return STATUS_OK;
}

static void print_share(const char *what, double share, text_buffer *out)
{
    if (share > 0) text_format(out, "  %-24s %5.1f %%\n", what, 100 * share);
}

void ana_explanation_print(const ana_explanation *explanation, text_buffer *out)
{
    const ana_point *point = &explanation->point;
    const ana_bubble_causes *causes = &explanation->causes;
    char time[32];
    text_duration((int64_t)point->iteration_ns, time);
    text_format(out, "iteration %s", time);
    text_duration((int64_t)point->bound_ns, time);
    if (point->bound_ns > 0) {
        text_format(out, ", %.1f %% above %s, which no split and no order of ops beats",
                    100 * (point->iteration_ns / point->bound_ns - 1), time);
    }
    text_append(out, "\n\nthe ranks' time\n");
    print_share("work", 1 - ana_bubble_causes_idle_ratio(causes), out);
    for (int cause = 0; cause < ANA_BUBBLE_CAUSE_COUNT; cause++) {
        print_share(ana_bubble_cause_names[cause],
                    ana_bubble_causes_share(causes, (ana_bubble_cause)cause), out);
    }
    text_format(out, "\nstage  layers       work of iteration %d\n", explanation->iteration);
    for (int stage = 0; stage < explanation->stage_count; stage++) {
        const int first = explanation->first_layer[stage];
        const int end = explanation->first_layer[stage + 1];
        char layers[32];
        snprintf(layers, sizeof layers, first < end ? "%d-%d" : "none", first, end - 1);
        text_duration(explanation->stage_ns[stage], time);
        text_format(out, "%5d  %-9s %10s\n", stage, layers, time);
    }
    text_append(out, "\n");
    ana_inputs_print(&explanation->study->inputs, out);
}

static void write_stages(const ana_explanation *explanation, json_writer *writer)
{
    json_put_array(writer, "stages");
    for (int stage = 0; stage < explanation->stage_count; stage++) {
        json_begin_object(writer);
        json_put_int64(writer, "first_layer", explanation->first_layer[stage]);
        json_put_int64(writer, "end_layer", explanation->first_layer[stage + 1]);
        json_put_int64(writer, "work_ns", explanation->stage_ns[stage]);
        json_end_object(writer);
    }
    json_end_array(writer);
}

void ana_explanation_write(const ana_explanation *explanation, text_buffer *out)
{
    const ana_bubble_causes *causes = &explanation->causes;
    json_writer writer = json_writer_init(out);
    json_begin_object(&writer);
    json_put_string(&writer, "schema", "dynmo-explanation/2");
    json_put_double(&writer, "iteration_ns", explanation->point.iteration_ns);
    json_write_key(&writer, "bound_ns");
    if (explanation->point.bound_ns > 0) json_write_double(&writer, explanation->point.bound_ns);
    if (!(explanation->point.bound_ns > 0)) json_write_null(&writer); // nothing is proven
    json_put_double(&writer, "idle_ratio", ana_bubble_causes_idle_ratio(causes));
    json_put_object(&writer, "idle_share");
    for (int cause = 0; cause < ANA_BUBBLE_CAUSE_COUNT; cause++) {
        json_put_double(&writer, ana_bubble_cause_names[cause],
                        ana_bubble_causes_share(causes, (ana_bubble_cause)cause));
    }
    json_end_object(&writer);
    json_put_int64(&writer, "iteration", explanation->iteration);
    write_stages(explanation, &writer);
    json_write_key(&writer, "inputs");
    ana_inputs_write(&explanation->study->inputs, &writer);
    json_end_object(&writer);
    text_append(out, "\n");
}

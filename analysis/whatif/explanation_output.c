#include "analysis/whatif/explanation.h"

#include <inttypes.h>
#include <stdio.h>

static double percent(int64_t part, int64_t whole)
{
    return whole > 0 ? 100.0 * (double)part / (double)whole : 0;
}

/// "2.31 ms  8.1 %"
static void print_part(int64_t ns, int64_t whole_ns, text_buffer *out)
{
    char time[32];
    text_duration(ns, time);
    text_format(out, " %10s %5.1f %%", time, percent(ns, whole_ns));
}

static void print_head(const ana_explanation *explanation, text_buffer *out)
{
    char length[32];
    char least[32];
    char most[32];
    text_duration(explanation->iteration_ns, length);
    text_duration(explanation->iteration_min_ns, least);
    text_duration(explanation->iteration_max_ns, most);
    text_format(out, "%s: iteration %d of %d, the one of median length, takes %s",
                explanation->label, explanation->iteration, explanation->iteration_count, length);
    if (explanation->iteration_min_ns < explanation->iteration_max_ns) {
        text_format(out, " (others %s to %s)", least, most);
    }
    text_append(out, "\n");
}

static void print_bound(const char *what, int64_t bound_ns, const ana_explanation *explanation,
                        text_buffer *out)
{
    char time[32];
    if (bound_ns <= 0) return;
    text_duration(bound_ns, time);
    text_format(out, "  %-54s %10s   the pipeline takes %.1f %% longer\n", what, time,
                percent(explanation->pipeline_ns - bound_ns, bound_ns));
}

static void print_bounds(const ana_explanation *explanation, text_buffer *out)
{
    char time[32];
    text_duration(explanation->pipeline_ns, time);
    text_format(out, "\nHow far from what cannot be beaten   pipeline %s\n", time);
    print_bound("this plan, whatever the order of its ops", explanation->plan_bound_ns, explanation,
                out);
    print_bound("any contiguous plan on as many ranks, free messages", explanation->any_bound_ns,
                explanation, out);
}

static void print_causes(const ana_explanation *explanation, text_buffer *out)
{
    const ana_bubble_causes *causes = &explanation->causes;
    text_format(out,
                "\nIdle time                 %5.1f %% of the ranks' time, iterations sampled "
                "over the run\n",
                100 * ana_bubble_causes_idle_ratio(causes));
    for (int cause = 0; cause < ANA_BUBBLE_CAUSE_COUNT; cause++) {
        if (causes->cause_ns[cause] == 0) continue;
        text_format(out, "  %-22s  %5.1f %%\n", ana_bubble_cause_names[cause],
                    100 * ana_bubble_causes_share(causes, (ana_bubble_cause)cause));
    }
}

static int64_t path_stage_ns(const sim_critical_path *path, int stage)
{
    int64_t sum = 0;
    for (int kind = 0; kind < OP_KIND_COUNT; kind++) {
        sum += path->op_ns[stage][kind];
    }
    return sum;
}

static int64_t path_kind_ns(const sim_critical_path *path, int kind)
{
    int64_t sum = 0;
    for (int stage = 0; stage < path->stage_count; stage++) {
        sum += path->op_ns[stage][kind];
    }
    return sum;
}

static int64_t path_link_ns(const sim_critical_path *path)
{
    int64_t sum = 0;
    for (int stage = 0; stage < path->stage_count; stage++) {
        sum += path->forward_link_ns[stage] + path->backward_link_ns[stage];
    }
    return sum;
}

/// Hours of the whole training that ns of an iteration are.
static double hours_of(const ana_worth *worth, int64_t ns)
{
    return worth->iteration_count * (double)ns / 3.6e12;
}

/// What 1 % is worth: of the iteration, in hours of the training and in money.
static void print_worth(const ana_explanation *explanation, int64_t gained_ns, text_buffer *out)
{
    const ana_worth *worth = &explanation->worth;
    text_format(out, "   %6.3f %%", percent(gained_ns, explanation->iteration_ns));
    if (worth->iteration_count <= 0) return;
    const double hours = hours_of(worth, gained_ns);
    text_format(out, " %9.2f h %9.0f GPU h", hours, hours * worth->gpu_count);
    if (worth->price_per_gpu_hour > 0) {
        text_format(out, " %10.0f %s", hours * worth->gpu_count * worth->price_per_gpu_hour,
                    worth->currency);
    }
}

static void print_stages(const ana_explanation *explanation, text_buffer *out)
{
    const sim_critical_path *path = &explanation->path;
    text_format(out, "\nstage  layers      load on the critical path   1 %% faster saves\n");
    for (int stage = 0; stage < explanation->stage_count; stage++) {
        char load[32];
        char layers[32];
        const int first = explanation->first_layer[stage];
        const int end = explanation->first_layer[stage + 1];
        snprintf(layers, sizeof layers, first < end ? "%d-%d" : "none", first, end - 1);
        text_duration(explanation->stage_ns[stage], load);
        text_format(out, "%5d %7s %9s", stage, layers, load);
        print_part(path_stage_ns(path, stage), path->makespan_ns, out);
        print_worth(explanation, explanation->sensitivity.stage_ns[stage], out);
        text_append(out, "\n");
    }
}

static void print_links(const ana_explanation *explanation, text_buffer *out)
{
    const sim_critical_path *path = &explanation->path;
    if (path_link_ns(path) == 0 && explanation->sensitivity.all_links_ns == 0) return;
    text_format(out, "\nlink between stages     on the critical path   1 %% faster saves\n");
    for (int stage = 0; stage + 1 < explanation->stage_count; stage++) {
        const int64_t ns = path->forward_link_ns[stage] + path->backward_link_ns[stage + 1];
        if (ns == 0 && explanation->sensitivity.link_ns[stage] == 0) continue;
        char name[32];
        snprintf(name, sizeof name, "%d and %d", stage, stage + 1);
        text_format(out, "%23s", name);
        print_part(ns, path->makespan_ns, out);
        print_worth(explanation, explanation->sensitivity.link_ns[stage], out);
        text_append(out, "\n");
    }
}

static void print_kind(const ana_explanation *explanation, const char *name, int64_t path_ns,
                       int64_t gained_ns, text_buffer *out)
{
    if (path_ns == 0 && gained_ns == 0) return;
    text_format(out, "%23s", name);
    print_part(path_ns, explanation->path.makespan_ns, out);
    print_worth(explanation, gained_ns, out);
    text_append(out, "\n");
}

static void print_kinds(const ana_explanation *explanation, text_buffer *out)
{
    static const char *const names[OP_KIND_COUNT] = {[OP_FORWARD] = "F",
                                                     [OP_BACKWARD_INPUT] = "B",
                                                     [OP_BACKWARD_WEIGHT] = "W",
                                                     [OP_BACKWARD] = "BW"};
    const ana_sensitivity *sensitivity = &explanation->sensitivity;
    const bool has_split = path_kind_ns(&explanation->path, OP_BACKWARD) == 0;
    text_format(out, "\nall of a kind           on the critical path   1 %% faster saves\n");
    for (int kind = 0; kind < OP_KIND_COUNT; kind++) {
        if (kind != OP_FORWARD && has_split == (kind == OP_BACKWARD)) continue;
        print_kind(explanation, names[kind], path_kind_ns(&explanation->path, kind),
                   sensitivity->kind_ns[kind], out);
    }
    print_kind(explanation, "messages", path_link_ns(&explanation->path), sensitivity->all_links_ns,
               out);
}

/// The inputs, those that nobody has measured or given first.
static void print_inputs(const ana_explanation *explanation, text_buffer *out)
{
    const ana_inputs *inputs = &explanation->setup->study->inputs;
    ana_inputs sorted = {.count = 0};
    for (int wanted = 1; wanted >= 0; wanted--) {
        for (int entry = 0; entry < inputs->count; entry++) {
            const bool is_assumed = inputs->entries[entry].origin == MODEL_ORIGIN_ASSUMED;
            if (is_assumed == (wanted == 1))
                sorted.entries[sorted.count++] = inputs->entries[entry];
        }
    }
    text_append(out, "\n");
    ana_inputs_print(&sorted, out);
}

void ana_explanation_print(const ana_explanation *explanation, text_buffer *out)
{
    print_head(explanation, out);
    print_bounds(explanation, out);
    print_causes(explanation, out);
    print_stages(explanation, out);
    print_links(explanation, out);
    print_kinds(explanation, out);
    print_inputs(explanation, out);
}

static void write_stages(const ana_explanation *explanation, json_writer *writer)
{
    const sim_critical_path *path = &explanation->path;
    json_put_array(writer, "stages");
    for (int stage = 0; stage < explanation->stage_count; stage++) {
        json_begin_object(writer);
        json_put_int64(writer, "first_layer", explanation->first_layer[stage]);
        json_put_int64(writer, "end_layer", explanation->first_layer[stage + 1]);
        json_put_int64(writer, "load_ns", explanation->stage_ns[stage]);
        json_put_int64(writer, "critical_forward_ns", path->op_ns[stage][OP_FORWARD]);
        json_put_int64(writer, "critical_backward_input_ns", path->op_ns[stage][OP_BACKWARD_INPUT]);
        json_put_int64(writer, "critical_backward_weight_ns",
                       path->op_ns[stage][OP_BACKWARD_WEIGHT]);
        json_put_int64(writer, "critical_backward_ns", path->op_ns[stage][OP_BACKWARD]);
        json_put_int64(writer, "critical_send_forward_ns", path->forward_link_ns[stage]);
        json_put_int64(writer, "critical_send_backward_ns", path->backward_link_ns[stage]);
        json_put_int64(writer, "one_percent_saves_ns", explanation->sensitivity.stage_ns[stage]);
        json_put_int64(writer, "link_one_percent_saves_ns",
                       explanation->sensitivity.link_ns[stage]);
        json_end_object(writer);
    }
    json_end_array(writer);
}

static void write_kinds(const ana_explanation *explanation, json_writer *writer)
{
    const ana_sensitivity *sensitivity = &explanation->sensitivity;
    json_put_object(writer, "one_percent_saves_ns");
    json_put_int64(writer, "F", sensitivity->kind_ns[OP_FORWARD]);
    json_put_int64(writer, "B", sensitivity->kind_ns[OP_BACKWARD_INPUT]);
    json_put_int64(writer, "W", sensitivity->kind_ns[OP_BACKWARD_WEIGHT]);
    json_put_int64(writer, "BW", sensitivity->kind_ns[OP_BACKWARD]);
    json_put_int64(writer, "ops", sensitivity->all_ops_ns);
    json_put_int64(writer, "messages", sensitivity->all_links_ns);
    json_end_object(writer);
}

static void write_causes(const ana_explanation *explanation, json_writer *writer)
{
    json_put_object(writer, "idle_share");
    for (int cause = 0; cause < ANA_BUBBLE_CAUSE_COUNT; cause++) {
        json_put_double(writer, ana_bubble_cause_names[cause],
                        ana_bubble_causes_share(&explanation->causes, (ana_bubble_cause)cause));
    }
    json_end_object(writer);
}

void ana_explanation_write(const ana_explanation *explanation, text_buffer *out)
{
    json_writer writer = json_writer_init(out);
    json_begin_object(&writer);
    json_put_string(&writer, "schema", "dynmo-explanation/1");
    json_put_string(&writer, "row", explanation->label);
    json_put_int64(&writer, "iterations", explanation->iteration_count);
    json_put_int64(&writer, "iteration", explanation->iteration);
    json_put_int64(&writer, "iteration_ns", explanation->iteration_ns);
    json_put_int64(&writer, "pipeline_ns", explanation->pipeline_ns);
    json_put_int64(&writer, "makespan_ns", explanation->path.makespan_ns);
    json_put_int64(&writer, "plan_lower_bound_ns", explanation->plan_bound_ns);
    json_write_key(&writer, "any_plan_lower_bound_ns");
    if (explanation->any_bound_ns > 0) {
        json_write_int64(&writer, explanation->any_bound_ns);
    } else {
        json_write_null(&writer);
    }
    json_put_double(&writer, "idle_ratio", ana_bubble_causes_idle_ratio(&explanation->causes));
    write_causes(explanation, &writer);
    write_stages(explanation, &writer);
    write_kinds(explanation, &writer);
    json_write_key(&writer, "inputs");
    ana_inputs_write(&explanation->setup->study->inputs, &writer);
    json_end_object(&writer);
    text_append(out, "\n");
}

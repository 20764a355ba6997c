/// `dynmo show`: what is in a store.
#include "cli/commands.h"
#include "cli/option_values.h"

#include "analysis/study/setup.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/text.h"
#include "traces/store/catalog.h"
#include "traces/store/reader.h"
#include "traces/store/runs.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/// What one call of `dynmo show` works with.
typedef struct shown {
    trace_store *store;
    arena *memory;
    text_buffer *out;
    bool json;
} shown;

/// "cuda, 24 layers x 8 microbatches" and the like.
static void write_trace_line(text_buffer *out, const trace_info *trace, int name_width)
{
    text_format(out, "  %4" PRId64 "  %-*s  %-11s  %-6s  %6d layers", trace->trace_id, name_width,
                trace->name, trace_status_names[trace->status], trace_source_names[trace->source],
                trace->layer_count);
    char microbatches[16] = "-"; // not known where all rows are means
    if (trace->microbatch_count > 0) {
        snprintf(microbatches, sizeof microbatches, "%d", trace->microbatch_count);
    }
    text_format(out, "  %7s microbatches  %8" PRId64 " samples", microbatches,
                trace->iteration_count);
    if (trace->iteration_count > 0) {
        text_format(out, " of %" PRId64 ":%" PRId64, trace->first_iteration, trace->last_iteration);
    }
    text_append(out, "\n");
}

static int width_of(int width, const char *name)
{
    const int length = (int)strlen(name);
    return length > width ? length : width;
}

static void write_traces(text_buffer *out, const trace_info *traces, int count)
{
    int width = 4;
    for (int trace = 0; trace < count; trace++) {
        width = width_of(width, traces[trace].name);
    }
    text_format(out, "traces: %d\n", count);
    for (int trace = 0; trace < count; trace++) {
        write_trace_line(out, &traces[trace], width);
    }
}

static void write_runs(text_buffer *out, const trace_run_info *runs, int count)
{
    int width = 4;
    for (int run = 0; run < count; run++) {
        width = width_of(width, runs[run].name);
    }
    text_format(out, "runs: %d\n", count);
    for (int run = 0; run < count; run++) {
        const trace_run_info *each = &runs[run];
        text_format(out,
                    "  %4" PRId64 "  %-*s  %-11s  %-6s  %3" PRId64 " series  %8" PRId64
                    " iterations  %5" PRId64 " plans  %4" PRId64 " results\n",
                    each->run_id, width, each->name, trace_status_names[each->status],
                    trace_run_kind_names[each->kind], each->series_count, each->iteration_count,
                    each->plan_count, each->result_count);
        if (each->message != NULL) text_format(out, "        %s\n", each->message);
    }
}

static void write_trace_json(json_writer *writer, const trace_info *trace)
{
    json_begin_object(writer);
    json_put_int64(writer, "trace_id", trace->trace_id);
    json_put_string(writer, "name", trace->name);
    json_put_string(writer, "status", trace_status_names[trace->status]);
    json_put_string(writer, "source", trace_source_names[trace->source]);
    json_put_string(writer, "device", trace->device);
    json_put_int64(writer, "layers", trace->layer_count);
    json_put_int64(writer, "microbatches", trace->microbatch_count);
    json_put_optional(writer, "tokens_per_microbatch", trace->tokens_per_microbatch);
    json_put_bool(writer, "embedding", trace->embedding);
    json_put_bool(writer, "head", trace->head);
    json_put_int64(writer, "sampled_iterations", trace->iteration_count);
    json_put_optional(writer, "first_iteration", trace->first_iteration);
    json_put_optional(writer, "last_iteration", trace->last_iteration);
    json_put_object(writer, "known");
    const struct {
        const char *key;
        trace_known known;
    } quantities[] = {
        {"times", trace->times},
        {"split", trace->split},
        {"communication", trace->communication},
        {"activations", trace->activations},
        {"parameters", trace->parameters},
        {"messages", trace->messages},
    };
    for (size_t quantity = 0; quantity < sizeof quantities / sizeof quantities[0]; quantity++) {
        json_put_string(writer, quantities[quantity].key,
                        trace_known_names[quantities[quantity].known]);
    }
    json_end_object(writer);
    json_end_object(writer);
}

static void write_run_json(json_writer *writer, const trace_run_info *run)
{
    json_begin_object(writer);
    json_put_int64(writer, "run_id", run->run_id);
    json_put_string(writer, "name", run->name);
    json_put_string(writer, "status", trace_status_names[run->status]);
    json_put_string(writer, "kind", trace_run_kind_names[run->kind]);
    json_put_string(writer, "message", run->message);
    json_put_int64(writer, "series", run->series_count);
    json_put_int64(writer, "iterations", run->iteration_count);
    json_put_int64(writer, "plans", run->plan_count);
    json_put_int64(writer, "results", run->result_count);
    json_end_object(writer);
}

static status show_contents(shown *show, error_message *err)
{
    trace_info *traces = NULL;
    trace_run_info *runs = NULL;
    int trace_count = 0;
    int run_count = 0;
    TRY(trace_list(show->store, show->memory, &traces, &trace_count, err));
    TRY(trace_run_list(show->store, show->memory, &runs, &run_count, err));
    if (!show->json) {
        write_traces(show->out, traces, trace_count);
        write_runs(show->out, runs, run_count);
        return STATUS_OK;
    }
    json_writer writer = json_writer_init(show->out);
    json_begin_object(&writer);
    json_put_array(&writer, "traces");
    for (int trace = 0; trace < trace_count; trace++) {
        write_trace_json(&writer, &traces[trace]);
    }
    json_end_array(&writer);
    json_put_array(&writer, "runs");
    for (int run = 0; run < run_count; run++) {
        write_run_json(&writer, &runs[run]);
    }
    json_end_array(&writer);
    json_end_object(&writer);
    text_append(show->out, "\n");
    return STATUS_OK;
}

static void write_loads_json(text_buffer *out, const trace_loads *loads)
{
    json_writer writer = json_line_begin(out);
    json_put_int_array(&writer, "iterations", loads->iterations, loads->iteration_count);
    json_put_array(&writer, "layers");
    for (int layer = 0; layer < loads->layer_count; layer++) {
        const bool is_full = loads->is_full[layer];
        json_begin_object(&writer);
        json_put_int64(&writer, "layer", layer);
        json_put_int64(&writer, "forward_ns", loads->forward_ns[layer]);
        json_put_optional(&writer, "backward_input_ns",
                          is_full ? -1 : loads->backward_input_ns[layer]);
        json_put_optional(&writer, "backward_weight_ns",
                          is_full ? -1 : loads->backward_weight_ns[layer]);
        if (is_full) {
            json_put_int64(&writer, "backward_ns", loads->backward_input_ns[layer]);
        }
        json_put_int64(&writer, "communication_ns", loads->communication_ns[layer]);
        json_end_object(&writer);
    }
    json_end_array(&writer);
    json_line_end(&writer);
}

static const char *kind_of(const trace_info *info, int layer)
{
    if (info->embedding && layer == 0) return "embedding";
    return info->head && layer == info->layer_count - 1 ? "head" : "";
}

static void write_layer_line(text_buffer *out, const trace_info *info, const trace_loads *loads,
                             int layer)
{
    const char *kind = kind_of(info, layer);
    text_format(
        out, "  %5d  %10s  %10s  %10s  %13s%s%s\n", layer,
        text_duration(loads->forward_ns[layer]).text,
        text_duration(loads->backward_input_ns[layer]).text,
        loads->is_full[layer] ? "in B" : text_duration(loads->backward_weight_ns[layer]).text,
        text_duration(loads->communication_ns[layer]).text, kind[0] != '\0' ? "  " : "", kind);
}

static void write_loads_table(text_buffer *out, const trace_info *info, const trace_loads *loads)
{
    const int first = loads->iterations[0];
    const int last = loads->iterations[loads->iteration_count - 1];
    text_format(out, "trace '%s', %d samples of iterations %d:%d; busy time of one microbatch\n",
                info->name, loads->iteration_count, first, last);
    if (!info->has_split && info->backward_split >= 0) {
        text_format(out, "a full backward is taken as %g B and %g W (assumed)\n",
                    info->backward_split, 1 - info->backward_split);
    }
    text_format(out, "  %5s  %10s  %10s  %10s  %13s\n", "layer", "F", "B", "W", "communication");
    for (int layer = 0; layer < loads->layer_count; layer++) {
        write_layer_line(out, info, loads, layer);
    }
}

/// The loads of the trace and the iterations that the options name.
static status show_loads(shown *show, const cli_arguments *arguments, error_message *err)
{
    trace_info info;
    trace_loads loads;
    int first = 0;
    int last = TRACE_ITERATIONS_MAX;
    const char *range = cli_value(arguments, "--iterations");
    if (range != NULL) TRY(cli_iteration_range(range, &first, &last, err));
    TRY(trace_find(show->store, cli_value(arguments, "--trace"), show->memory, &info, err));
    TRY(trace_loads_mean(show->store, &info, first, last, show->memory, &loads, err));
    if (show->json) {
        write_loads_json(show->out, &loads);
    } else {
        write_loads_table(show->out, &info, &loads);
    }
    return STATUS_OK;
}

/// F + B + W of a layer, the mean over its microbatches.
static int64_t mean_ns(const bal_layer_costs *costs, int layer)
{
    const int columns = costs->microbatch_count;
    int64_t sum = 0;
    for (int column = 0; column < columns; column++) {
        const int64_t at = (int64_t)layer * columns + column;
        sum +=
            (costs->forward_ns[at] + costs->backward_input_ns[at] + costs->backward_weight_ns[at]) /
            columns;
    }
    return sum;
}

/// What the case multiplies a static c_l by; 1 of a layer that takes no time anyway.
static double factor_of(int64_t still_ns, int64_t load_ns)
{
    return still_ns > 0 ? (double)load_ns / (double)still_ns : 1;
}

static void write_c_l_json(const int64_t *still_ns, const int64_t *load_ns, int layer_count,
                           int iteration, text_buffer *out)
{
    json_writer writer = json_line_begin(out);
    json_put_int64(&writer, "iteration", iteration);
    json_put_int64_array(&writer, "c_l_ns", load_ns, layer_count);
    json_put_array(&writer, "factor");
    for (int layer = 0; layer < layer_count; layer++) {
        json_put_double(&writer, NULL, factor_of(still_ns[layer], load_ns[layer]));
    }
    json_end_array(&writer);
    json_line_end(&writer);
}

static void write_c_l_table(const int64_t *still_ns, const int64_t *load_ns, int layer_count,
                            text_buffer *out)
{
    text_append(out, "   layer      static         c_l  factor\n");
    for (int layer = 0; layer < layer_count; layer++) {
        text_format(out, "  %6d  %10s  %10s  %6.3f\n", layer, text_duration(still_ns[layer]).text,
                    text_duration(load_ns[layer]).text, factor_of(still_ns[layer], load_ns[layer]));
    }
}

static status show_c_l(const cli_arguments *arguments, const ana_setup *setup, arena *memory,
                       text_buffer *out, error_message *err)
{
    int iteration = 0;
    bal_layer_costs costs;
    bool changed = false;
    const int layers = setup->still.layer_count;
    int64_t *still_ns = arena_array(memory, (size_t)layers, sizeof *still_ns);
    int64_t *load_ns = arena_array(memory, (size_t)layers, sizeof *load_ns);
    if (setup->dynamism == NULL) {
        return error_set(err, STATUS_INVALID, "%s: has no case of dynamism, whose c_l is shown",
                         setup->study->path);
    }
    TRY(cli_int(arguments, "--iterations", 0, setup->iteration_count - 1, 0, &iteration, err));
    TRY(setup->still.costs_at(setup->still.context, iteration, &costs, &changed, err));
    for (int layer = 0; layer < layers; layer++) {
        still_ns[layer] = mean_ns(&costs, layer);
    }
    TRY(model_dynamism_published_load(setup->dynamism, iteration, 0, load_ns, err));
    if (cli_has(arguments, "--json")) {
        write_c_l_json(still_ns, load_ns, layers, iteration, out);
        return STATUS_OK;
    }
    text_format(out, "%s, iteration %d: c_l of the DynMo paper for the case %s\n",
                setup->study->name, iteration, model_dynamism_name(setup->dynamism));
    write_c_l_table(still_ns, load_ns, layers, out);
    return STATUS_OK;
}

/// What the case of dynamism of a study makes of its c_l.
static status show_study(const cli_arguments *arguments, arena *memory, text_buffer *out,
                         error_message *err)
{
    ana_study study;
    ana_setup setup;
    static const char *const of_stores[] = {"--loads", "--trace"};
    const char *of_store = cli_first_given(arguments, of_stores, 2);
    if (of_store != NULL) {
        return error_set(err, STATUS_INVALID, "dynmo show: %s needs a store, not a study",
                         of_store);
    }
    TRY(ana_study_open(cli_operand(arguments, 0), NULL, memory, &study, err));
    TRY(ana_setup_open(&study, NULL, memory, &setup, err));
    return show_c_l(arguments, &setup, memory, out, err);
}

static status check_options(const cli_arguments *arguments, error_message *err)
{
    static const char *const of_loads[] = {"--trace", "--iterations"};
    const char *given = cli_first_given(arguments, of_loads, 2);
    if (given == NULL || cli_has(arguments, "--loads")) return STATUS_OK;
    return error_set(err, STATUS_INVALID, "dynmo show: %s needs --loads", given);
}

static bool is_study(const char *path)
{
    const size_t length = strlen(path);
    return length > 5 && strcmp(path + length - 5, ".json") == 0;
}

static status run(const cli_arguments *arguments, arena *memory, text_buffer *out,
                  error_message *err)
{
    if (is_study(cli_operand(arguments, 0))) return show_study(arguments, memory, out, err);
    shown show = {.json = cli_has(arguments, "--json"), .memory = memory, .out = out};
    TRY(check_options(arguments, err));
    TRY(trace_store_open_within(cli_operand(arguments, 0), TRACE_READ, memory, &show.store, err));
    return cli_has(arguments, "--loads") ? show_loads(&show, arguments, err)
                                         : show_contents(&show, err);
}

const cli_command cli_command_show = {
    .name = "show",
    .synopsis = "FILE [--loads [--trace NAME] [--iterations A:B]] [--json]",
    .summary = "shows what is in a store",
    .description =
        "Lists the traces and runs of a store with their status, or, with --loads, what the layers "
        "of a trace cost: busy time of one microbatch, mean over the samples.\n\n"
        "Of a study (a name that ends in .json) the paper's c_l is shown: F + B + W of every layer "
        "at an iteration (--iterations N, 0 if it is not given) as its case of dynamism makes it, "
        "what it would be without, and the factor between them.\n\n"
        "A trace or run that is marked running although its process is gone shows as interrupted.",
    .options =
        {
            {"--loads", .help = "Shows the loads of a trace's layers."},
            {"--trace", "NAME",
             .help = "The trace by its name or number. Default: the newest complete one."},
            {"--iterations", "A:B",
             .help = "Only samples of these iterations, both included; one number is one "
                     "iteration. Default: all."},
            {"--json", .help = "Prints one line of JSON."},
        },
    .operand_min = 1,
    .operand_max = 1,
    .run = run,
};

#include "cli/trace/show_study.h"

#include "analysis/study/setup.h"
#include "base/json.h"
#include "cli/option_values.h"

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

static void write_json(const int64_t *still_ns, const int64_t *load_ns, int layer_count,
                       int iteration, text_buffer *out)
{
    json_writer writer = json_writer_init(out);
    json_begin_object(&writer);
    json_put_int64(&writer, "iteration", iteration);
    json_write_key(&writer, "c_l_ns");
    json_write_int64_array(&writer, load_ns, layer_count);
    json_put_array(&writer, "factor");
    for (int layer = 0; layer < layer_count; layer++) {
        json_write_double(&writer, factor_of(still_ns[layer], load_ns[layer]));
    }
    json_end_array(&writer);
    json_end_object(&writer);
    text_append(out, "\n");
}

static void write_table(const int64_t *still_ns, const int64_t *load_ns, int layer_count,
                        text_buffer *out)
{
    char still[32];
    char load[32];
    text_append(out, "   layer      static         c_l  factor\n");
    for (int layer = 0; layer < layer_count; layer++) {
        text_duration(still_ns[layer], still);
        text_duration(load_ns[layer], load);
        text_format(out, "  %6d  %10s  %10s  %6.3f\n", layer, still, load,
                    factor_of(still_ns[layer], load_ns[layer]));
    }
}

static status show(const cli_arguments *arguments, const ana_setup *setup, arena *memory,
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
        write_json(still_ns, load_ns, layers, iteration, out);
        return STATUS_OK;
    }
    text_format(out, "%s, iteration %d: c_l of the DynMo paper for the case %s\n",
                setup->study->name, iteration, model_dynamism_name(setup->dynamism));
    write_table(still_ns, load_ns, layers, out);
    return STATUS_OK;
}

status cli_show_study(const cli_arguments *arguments, arena *memory, text_buffer *out,
                      error_message *err)
{
    ana_study study;
    ana_setup setup;
    static const char *const of_stores[] = {"--loads", "--trace"};
    for (int option = 0; option < 2; option++) {
        if (!cli_has(arguments, of_stores[option])) continue;
        return error_set(err, STATUS_INVALID, "dynmo show: %s needs a store, not a study",
                         of_stores[option]);
    }
    TRY(ana_study_open(cli_operand(arguments, 0), NULL, NULL, NULL, memory, &study, err));
    status result = ana_setup_open(&study, memory, &setup, err);
    if (result == STATUS_OK) {
        result = show(arguments, &setup, memory, out, err);
        ana_setup_close(&setup);
    }
    ana_study_close(&study);
    return result;
}

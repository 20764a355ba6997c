/// `dynmo model`: what a model's layers cost where there is no trace.
#include "cli/commands.h"

#include "base/json.h"
#include "base/text.h"
#include "models/cost/cost_model.h"
#include "models/cost/saturating.h"

#include <inttypes.h>
#include <stdio.h>

static status read_parallel(const cli_arguments *arguments, model_parallel *parallel,
                            error_message *err)
{
    const int max = MODEL_DEGREE_MAX;
    TRY(cli_int(arguments, "--data", 1, max, 1, &parallel->data, err));
    TRY(cli_int(arguments, "--tensor", 1, max, 1, &parallel->tensor, err));
    TRY(cli_int(arguments, "--expert", 1, max, 1, &parallel->expert, err));
    TRY(cli_int(arguments, "--expert-tensor", 1, max, 0, &parallel->expert_tensor, err));
    TRY(cli_int(arguments, "--context", 1, max, 1, &parallel->context, err));
    parallel->sequence = cli_has(arguments, "--sequence-parallel");
    parallel->tensor_overlap = MODEL_TENSOR_OVERLAP_DEFAULT;
    parallel->expert_deduplication = -1;
    int recompute = 0;
    int sharding = 0;
    int order = 0;
    TRY(cli_choice(arguments, "--recompute", model_recompute_names, MODEL_RECOMPUTE_COUNT, 0,
                   &recompute, err));
    TRY(cli_choice(arguments, "--sharding", model_sharding_names, MODEL_SHARDING_COUNT, 0,
                   &sharding, err));
    TRY(cli_choice(arguments, "--rank-order", model_rank_order_names, MODEL_RANK_ORDER_COUNT, 0,
                   &order, err));
    parallel->recompute = (model_recompute)recompute;
    parallel->sharding = (model_sharding)sharding;
    parallel->order = (model_rank_order)order;
    return STATUS_OK;
}

static status read_training(const cli_arguments *arguments, model_training *training,
                            error_message *err)
{
    const int max = INT32_MAX; // the cost model has the limits
    TRY(cli_int(arguments, "--sequence-length", 1, max, 0, &training->sequence_length, err));
    TRY(cli_int(arguments, "--microbatch-size", 1, max, 0, &training->microbatch_size, err));
    TRY(cli_int(arguments, "--state-bytes-per-parameter", 1, max, 0,
                &training->state_bytes_per_parameter, err));
    TRY(cli_int(arguments, "--gradient-bytes-per-parameter", 1, max, 0,
                &training->gradient_bytes_per_parameter, err));
    TRY(cli_int(arguments, "--layers", 1, max, 0, &training->layer_count, err));
    training->attention = cli_value(arguments, "--attention");
    TRY(read_parallel(arguments, &training->parallel, err));
    const char *dtype = cli_value(arguments, "--dtype");
    if (dtype == NULL) return STATUS_OK;
    training->dtype = model_dtype_find(dtype);
    if (training->dtype != MODEL_DTYPE_UNKNOWN) return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "--dtype '%.60s' is not bfloat16, float16, float32, float8, tfloat32, "
                     "mxfloat8 or nvfloat4",
                     dtype);
}

static int64_t sum_of(const int64_t *values, int count)
{
    int64_t sum = 0;
    for (int index = 0; index < count; index++) {
        sum = saturating_add(sum, values[index]);
    }
    return sum;
}

/// Layers with the same costs stand in one row.
static bool is_same_row(const bal_layer_costs *layers, int a, int b)
{
    const int64_t *const columns[] = {layers->forward_ns,         layers->backward_input_ns,
                                      layers->backward_weight_ns, layers->parameters,
                                      layers->activation_bytes,   layers->gradient_bytes,
                                      layers->reduction_ns};
    for (size_t column = 0; column < sizeof columns / sizeof columns[0]; column++) {
        if (columns[column][a] != columns[column][b]) return false;
    }
    return true;
}

/// The columns of the table: three times, parameters, and sizes, of which a total has no message.
enum { TIME_COLUMNS = 3, TABLE_COLUMNS = 8 };

static void write_row(const char *layer, const char *what, const int64_t *values, int count,
                      text_buffer *out)
{
    text_format(out, "%-9s %-11s", layer, what);
    for (int column = 0; column < count; column++) {
        if (column == TIME_COLUMNS) {
            text_format(out, " %15" PRId64, values[column]);
            continue;
        }
        text_format(out, " %9s",
                    column < TIME_COLUMNS ? text_duration(values[column]).text
                                          : text_size(values[column]).text);
    }
    text_append(out, "\n");
}

/// Rows [first, end) of the table have the same costs.
static int end_of_range(const bal_layer_costs *layers, int first)
{
    const int last = layers->layer_count - 1;
    int end = first + 1;
    while (first > 0 && end < last && is_same_row(layers, first, end)) {
        end++;
    }
    return end;
}

/// "1-12", or "13".
static void name_range(int first, int end, char range[32])
{
    if (end - first > 1) {
        snprintf(range, 32, "%d-%d", first, end - 1);
    } else {
        snprintf(range, 32, "%d", first);
    }
}

static const char *kind_of_row(const model_costs *costs, int row)
{
    const int last = costs->layers.layer_count - 1;
    if (row == 0) return "embedding";
    if (row == last) return "head";
    return costs->config.is_moe[row - 1] ? "experts" : "transformer";
}

static void write_layers(const model_costs *costs, text_buffer *out)
{
    const bal_layer_costs *layers = &costs->layers;
    const int last = layers->layer_count - 1;
    text_format(out, "%-9s %-11s %9s %9s %9s %15s %9s %9s %9s %9s\n", "layer", "", "F", "B", "W",
                "parameters", "state", "F to B", "B to W", "message");
    const int64_t *const columns[TABLE_COLUMNS] = {
        layers->forward_ns,     layers->backward_input_ns, layers->backward_weight_ns,
        layers->parameters,     layers->state_bytes,       layers->activation_bytes,
        layers->gradient_bytes, layers->message_bytes};
    int64_t values[TABLE_COLUMNS];
    for (int first = 0; first <= last; first = end_of_range(layers, first)) {
        char range[32];
        name_range(first, end_of_range(layers, first), range);
        for (int column = 0; column < TABLE_COLUMNS; column++) {
            values[column] = columns[column][first];
        }
        write_row(range, kind_of_row(costs, first), values, TABLE_COLUMNS - (first == last), out);
    }
    for (int column = 0; column < TABLE_COLUMNS; column++) {
        values[column] = sum_of(columns[column], layers->layer_count);
    }
    write_row("total", "", values, TABLE_COLUMNS - 1, out);
}

static void write_assumptions(const model_costs *costs, text_buffer *out)
{
    text_append(out, "Inputs\n");
    for (int row = 0; row < costs->assumption_count; row++) {
        const model_assumption *input = &costs->assumptions[row];
        const bool has_source = input->origin.text[0] != '\0';
        text_format(out, "%-9s %-30s %s%s%s%s\n", model_origin_kind_name(input->origin.kind),
                    input->name, input->value, has_source ? " (" : "", input->origin.text,
                    has_source ? ")" : "");
    }
}

static void write_text(const model_costs *costs, const char *model, text_buffer *out)
{
    text_format(out, "%s on %s: sequence length %d, microbatch size %d, %s, %s attention\n", model,
                costs->hardware.name, costs->shape.sequence_length, costs->shape.microbatch_size,
                model_dtype_name(costs->shape.dtype),
                model_attention_names[costs->shape.attention]);
    text_format(out, "%" PRId64 " parameters, %" PRId64 " of them met by a token\n\n",
                costs->total_parameters, costs->active_parameters);
    write_layers(costs, out);
    if (costs->config.has_tied_embeddings) {
        text_append(out, "The head counts its copy of the tied embedding as parameters of its "
                         "own.\n");
    }
    if (costs->working_bytes > 0) {
        text_format(
            out,
            "Beside state and what is kept, recomputation and sharding hold up to %s at a time.\n",
            text_size(costs->working_bytes).text);
    }
    text_append(out, "\n");
    write_assumptions(costs, out);
}

/// The part that `dynmo plan --loads` reads.
static void write_loads(json_writer *writer, const bal_layer_costs *layers)
{
    const int count = layers->layer_count;
    json_put_object(writer, "loads");
    json_put_int64_array(writer, "forward_ns", layers->forward_ns, count);
    json_put_int64_array(writer, "backward_input_ns", layers->backward_input_ns, count);
    json_put_int64_array(writer, "backward_weight_ns", layers->backward_weight_ns, count);
    json_put_int64_array(writer, "parameters", layers->parameters, count);
    json_put_int64_array(writer, "state_bytes", layers->state_bytes, count);
    json_put_int64_array(writer, "activation_bytes", layers->activation_bytes, count);
    json_put_bool(writer, "embedding", layers->embedding);
    json_put_bool(writer, "head", layers->head);
    json_end_object(writer);
}

/// {"forward":{"projection":[...],...},...}
static void write_part_arrays(json_writer *writer, const model_costs *costs)
{
    static const char *const passes[MODEL_PASS_COUNT] = {"forward", "backward_input",
                                                         "backward_weight"};
    json_put_object(writer, "part_ns");
    for (int pass = 0; pass < MODEL_PASS_COUNT; pass++) {
        json_put_object(writer, passes[pass]);
        for (int part = 0; part < MODEL_COST_PART_COUNT; part++) {
            json_put_int64_array(writer, model_cost_part_name((model_cost_part)part),
                                 costs->part_ns[pass][part], costs->layers.layer_count);
        }
        json_end_object(writer);
    }
    json_end_object(writer);
}

static void write_json(const model_costs *costs, const char *model, text_buffer *out)
{
    const int count = costs->layers.layer_count;
    json_writer writer = json_line_begin(out);
    json_put_string(&writer, "model", model);
    json_put_string(&writer, "hardware", costs->hardware.name);
    json_put_int64(&writer, "sequence_length", costs->shape.sequence_length);
    json_put_int64(&writer, "microbatch_size", costs->shape.microbatch_size);
    json_put_string(&writer, "dtype", model_dtype_name(costs->shape.dtype));
    json_put_string(&writer, "attention", model_attention_names[costs->shape.attention]);
    json_put_int64(&writer, "total_parameters", costs->total_parameters);
    json_put_int64(&writer, "active_parameters", costs->active_parameters);
    write_loads(&writer, &costs->layers);
    json_put_int64_array(&writer, "gradient_bytes", costs->layers.gradient_bytes, count);
    json_put_int64_array(&writer, "message_bytes", costs->layers.message_bytes, count);
    json_put_int64_array(&writer, "reduction_ns", costs->layers.reduction_ns, count);
    json_put_int64(&writer, "working_bytes", costs->working_bytes);
    write_part_arrays(&writer, costs);
    json_put_int64_array(&writer, "forward_flop", costs->flop[MODEL_PASS_FORWARD], count);
    json_put_int64_array(&writer, "backward_input_flop", costs->flop[MODEL_PASS_BACKWARD_INPUT],
                         count);
    json_put_int64_array(&writer, "backward_weight_flop", costs->flop[MODEL_PASS_BACKWARD_WEIGHT],
                         count);
    json_put_array(&writer, "assumptions");
    for (int row = 0; row < costs->assumption_count; row++) {
        json_begin_object(&writer);
        json_put_string(&writer, "name", costs->assumptions[row].name);
        json_put_string(&writer, "value", costs->assumptions[row].value);
        json_put_string(&writer, "kind",
                        model_origin_kind_name(costs->assumptions[row].origin.kind));
        json_put_string(&writer, "source", costs->assumptions[row].origin.text);
        json_end_object(&writer);
    }
    json_end_array(&writer);
    json_line_end(&writer);
}

static status answer(const cli_arguments *arguments, arena *memory, text_buffer *out,
                     error_message *err)
{
    model_training training = {0};
    model_costs costs;
    TRY(cli_require(arguments, "--model", err));
    TRY(cli_require(arguments, "--hardware", err));
    TRY(read_training(arguments, &training, err));
    const char *model = cli_value(arguments, "--model");
    TRY(model_costs_from_files(model, cli_value(arguments, "--hardware"), &training, memory, &costs,
                               err));
    (cli_has(arguments, "--json") ? write_json : write_text)(&costs, model, out);
    return STATUS_OK;
}

const cli_command cli_command_model = {
    .name = "model",
    .synopsis = "--model NAME|FILE --hardware NAME|FILE [OPTION]...",
    .summary = "computes what layers cost where there is no trace",
    .description =
        "Computes what every layer of a model costs for one microbatch: times of F, B and W from "
        "floating-point operations and bytes against the rates of a GPU, parameters, bytes of "
        "state, bytes kept from F to B and from B to W, and bytes sent to the next layer. "
        "Embedding and head are the first and the last layer. Where several GPUs share a stage, "
        "all of it is of one of them, collectives included.\n\n"
        "Every input is listed with its origin: given (by the user), measured, fitted, preset (a "
        "published figure) or assumed. What is assumed stands in for a measurement; a recorded "
        "trace is better than all of it.\n\n"
        "With --json, \"loads\" is what dynmo plan --loads reads.\n\n"
        "Models by name: deepseek-v2, deepseek-v3, gpt-bytes (a small one), gpt-dynmo (of the "
        "DynMo paper), gpt-dynmo-body (the same without a head to speak of), gpt-megatron, "
        "gpt-oss-20b, gpt-oss-120b, gpt2, gpt2-medium, gpt2-xl, grok-1, kimi-k2, llama-1.1b, "
        "llama-2-7b, llama-2-13b, llama-2-70b, llama-3-8b, llama-3-70b, llama-3.1-8b, "
        "llama-3.1-405b, llama-moe-3.5b, mixtral-8x22b, mixtral-8x7b, nemotron-3-nano, "
        "nemotron-3-super, nemotron-4-15b, nemotron-4-340b, qwen3-30b-a3b, qwen3-235b-a22b. "
        "Hardware by name: "
        "a100-omnipath, a100-sxm-80gb, b200, b300, cpu-core, gb200-nvl72, gb300-nvl72, gh200, "
        "h100-dynmo (of the DynMo paper, without overheads of kernels), h100-sxm, h100-sxm-500w "
        "(one at 500 W), h100-sxm-800g (behind 800 Gb/s a node), h200-sxm, h800-sxm.",
    .options =
        {
            {"--model", "NAME|FILE",
             .help = "A shipped model, or a config.json of Hugging Face: gpt2, llama, mistral, "
                     "mixtral, llama_moe, qwen2, qwen3, qwen2_moe, qwen3_moe, deepseek_v2, "
                     "deepseek_v3, gpt_oss, nemotron, nemotron_h."},
            {"--hardware", "NAME|FILE", .help = "A shipped preset, or a hardware file."},
            {"--sequence-length", "S",
             .help = "Tokens per sample. Default: 2048, or what the model can take if less."},
            {"--microbatch-size", "B", .help = "Samples per microbatch. Default: 1."},
            {"--dtype", "NAME",
             .help = "Of weights and activations: bfloat16 (default), float16, float32 or "
                     "tfloat32; float8, mxfloat8, nvfloat4: products of layers in 8 or 4 bits, all "
                     "else in bfloat16."},
            {"--attention", "NAME",
             .help = "flash (default); flash-2, by FlashAttention-2; or unfused: scores in memory, "
                     "masked pairs computed too."},
            {"--state-bytes-per-parameter", "N",
             .help =
                 "Weights, gradients and optimizer. Default: 18, Adam in mixed precision; 16 for "
                 "float32."},
            {"--gradient-bytes-per-parameter", "N",
             .help = "Of them the gradient, as replicas reduce it. Default: 4."},
            {"--layers", "N", .help = "Transformer layers, instead of the model's own number."},
            {"--data", "D",
             .help = "Replicas of the pipeline, which reduce their gradients. Default: 1."},
            {"--tensor", "T", .help = "GPUs that share the matrices of a layer. Default: 1."},
            {"--sequence-parallel", .help = "These GPUs share norms and residuals too, by tokens."},
            {"--context", "C",
             .help = "GPUs that share the tokens of a sequence, as a ring. Default: 1."},
            {"--expert", "E",
             .help = "GPUs that divide the experts of a layer among them. Default: 1."},
            {"--expert-tensor", "T",
             .help = "GPUs that share the matrices of an expert; E times this divides the GPUs of "
                     "a stage. Default: as --tensor."},
            {"--recompute", "NAME",
             .help =
                 "What B computes again instead of keeping it: none (default), selective (the "
                 "attention core), norms, activation (and activation functions), latent (and "
                 "queries, keys and values of latent attention), mlp (and MLP or experts), "
                 "full (the layer); early-stop: full but for what follows the last that B needs, "
                 "as PyTorch; operators: every second product, and what is no product; offload: "
                 "nothing, what is kept waits on the host."},
            {"--sharding", "NAME",
             .help = "What replicas share instead of copying: none (default), optimizer (ZeRO-1), "
                     "gradients (ZeRO-2), parameters (ZeRO-3)."},
            {"--rank-order", "NAME",
             .help = "What fills a node around tensor, context and expert groups: data-first, as "
                     "launchers do (default), or pipeline-first."},
            {"--json", .help = "Prints one line of JSON."},
            {0},
        },
    .run = answer,
};

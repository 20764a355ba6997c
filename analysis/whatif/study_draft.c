#include "analysis/whatif/whatif.h"

#include "base/json.h"
#include "models/cost/config.h"
#include "models/cost/hardware.h"
#include "models/cost/parallel.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

enum {
    STAGES_MOST = 64,
    DEGREE_MOST = 8,
    EXPERTS_MOST = 1024,
    CONTEXT_MOST = 8,
    SEQUENCE_PART = 4096, // tokens that are left on a GPU where a sequence is divided among several
    SEQUENCE_MOST = 8192,
    SEQUENCE_UNKNOWN = 4096,
    BATCH_TOKENS = 1 << 22,
    GPU_COUNTS = 8
};

/// What the draft is made from.
typedef struct draft {
    const ana_draft_options *options;
    model_config config;
    model_hardware hardware;
    text_buffer *out;
} draft;

static void put_quoted(text_buffer *out, const char *text)
{
    json_writer writer = json_writer_init(out);
    json_put_string(&writer, NULL, text);
}

static bool divides_model(const draft *drafted, int tensor)
{
    const model_parallel parallel = {.tensor = tensor, .expert_tensor = tensor};
    return tensor <= drafted->hardware.gpus_per_node && tensor <= drafted->options->gpu_count &&
           model_parallel_check(&parallel, &drafted->config, NULL) == STATUS_OK;
}

static bool divides_experts(const draft *drafted, int expert)
{
    return drafted->config.expert_count % expert == 0 && expert <= drafted->options->gpu_count;
}

static int sequence_length(const draft *drafted)
{
    const int longest = drafted->config.position_count;
    if (drafted->options->sequence_length > 0) return drafted->options->sequence_length;
    if (longest == 0) return SEQUENCE_UNKNOWN;
    return longest < SEQUENCE_MOST ? longest : SEQUENCE_MOST;
}

static bool divides_sequence(const draft *drafted, int context)
{
    const int sequence = sequence_length(drafted);
    return context == 1 || (sequence % (2 * context) == 0 && sequence / context >= SEQUENCE_PART &&
                            context <= drafted->options->gpu_count);
}

static bool is_stage_count(const draft *drafted, int stages)
{
    return stages <= drafted->config.layer_count + 2 && stages <= drafted->options->gpu_count;
}

/// An axis over those of the powers of two up to most that the model takes.
static void put_powers(const draft *drafted, const char *path, int most,
                       bool (*takes)(const draft *, int))
{
    bool is_first = true;
    text_format(drafted->out, "    \"%s\": [", path);
    for (int power = 1; power <= most; power *= 2) {
        if (!takes(drafted, power)) continue;
        text_format(drafted->out, "%s%d", is_first ? "" : ", ", power);
        is_first = false;
    }
    text_append(drafted->out, "],\n");
}

/// The odd part of the GPUs times the largest power of two with which the sequences are no more
/// than BATCH_TOKENS: replicas that fill the GPUs then divide them. A power of two alone where the
/// odd part is too many.
static int global_batch(const draft *drafted)
{
    const int64_t most = BATCH_TOKENS / sequence_length(drafted);
    int odd = drafted->options->has_fewer ? 1 : drafted->options->gpu_count;
    int64_t sequences = 1;
    if (drafted->options->global_batch > 0) return drafted->options->global_batch;
    assert(odd > 0);
    while (odd % 2 == 0) {
        odd /= 2;
    }
    if (odd <= most) sequences = odd;
    while (2 * sequences <= most) {
        sequences *= 2;
    }
    return (int)sequences;
}

static void put_cluster(const draft *drafted)
{
    const ana_draft_options *options = drafted->options;
    text_format(drafted->out, "  \"cluster\": {\"gpus\": %d", options->gpu_count);
    if (options->price_per_gpu_hour >= 0) {
        text_append(drafted->out, ", \"price_per_gpu_hour\": ");
        json_writer writer = json_writer_init(drafted->out);
        json_put_double(&writer, NULL, options->price_per_gpu_hour);
        text_append(drafted->out, ", \"price_currency\": ");
        put_quoted(drafted->out, options->currency);
        text_append(drafted->out, ", \"price_date\": ");
        put_quoted(drafted->out, options->price_date);
    }
    text_append(drafted->out, "},\n");
}

/// The study as written is what needs the least memory of the first things to try.
static int largest_tensor(const draft *drafted)
{
    int largest = 1;
    for (int power = 2; power <= DEGREE_MOST; power *= 2) {
        if (divides_model(drafted, power)) largest = power;
    }
    return largest;
}

/// Numbers that the GPU multiplies faster than those of training's usual 16 bits.
static bool has_float8(const draft *drafted)
{
    return drafted->hardware.flop_per_s[MODEL_DTYPE_FLOAT8] >
           drafted->hardware.flop_per_s[MODEL_DTYPE_BFLOAT16];
}

static void put_training(const draft *drafted)
{
    text_buffer *out = drafted->out;
    text_append(out, "  \"training\": {\n");
    if (drafted->options->token_count > 0) {
        text_format(out, "    \"tokens\": %" PRId64 ",\n", drafted->options->token_count);
    }
    text_format(out, "    \"sequence_length\": %d,\n", sequence_length(drafted));
    text_format(out, "    \"global_batch\": %d,\n", global_batch(drafted));
    if (drafted->options->has_fewer) text_append(out, "    \"batch_tolerance\": 0.05,\n");
    if (has_float8(drafted)) text_append(out, "    \"dtype\": \"bfloat16\",\n");
    text_format(out, "    \"tensor_parallel\": %d,\n", largest_tensor(drafted));
    if (drafted->config.expert_count > 0) text_append(out, "    \"expert_parallel\": 1,\n");
    text_append(out, "    \"microbatch_size\": 1,\n"
                     "    \"recompute\": \"none\",\n"
                     "    \"data_parallel\": \"fill\",\n"
                     "    \"sequence_parallel\": true,\n"
                     "    \"sharding\": \"optimizer\",\n"
                     "    \"rank_order\": \"data-first\",\n"
                     "    \"reduction_overlap\": \"backward\"\n"
                     "  },\n");
}

/// Schedules, those that take any number of chunks with several; matrices of experts whole, or
/// divided as those of attention are.
static void put_alternatives(const draft *drafted)
{
    static const int chunks[] = {2, 3, 4, 6, 8};
    text_buffer *out = drafted->out;
    text_append(out, "  \"alternatives\": {\n");
    if (drafted->config.expert_count > 0) {
        text_append(out,
                    "    \"expert_tensor\": {\n"
                    "      \"1\": {\"training.expert_tensor_parallel\": 1},\n"
                    "      \"as tensor\": {\"training.expert_tensor_parallel\": null}\n    },\n");
    }
    text_append(out, "    \"schedule\": {\n"
                     "      \"1f1b\": {\"pipeline.schedule\": \"1f1b\"},\n"
                     "      \"zb-h1\": {\"pipeline.schedule\": \"zb-h1\"},\n"
                     "      \"zb-v\": {\"pipeline.schedule\": \"zb-v\"}");
    for (size_t each = 0; each < sizeof chunks / sizeof chunks[0]; each++) {
        text_format(out,
                    ",\n      \"interleaved x%d\": {\"pipeline.schedule\": \"interleaved-1f1b\", "
                    "\"pipeline.chunks\": %d}",
                    chunks[each], chunks[each]);
    }
    text_append(out, "\n    }\n  }\n");
}

/// Whole nodes, evenly from an eighth of the most to the most; then the most itself.
static void put_gpu_counts(const draft *drafted)
{
    const int node = drafted->hardware.gpus_per_node;
    const int most = drafted->options->gpu_count;
    const int nodes = most / node;
    const int steps = nodes < GPU_COUNTS ? nodes : GPU_COUNTS;
    text_append(drafted->out, "    \"cluster.gpus\": [");
    for (int step = 1; step <= steps; step++) {
        const int count = (int)((int64_t)nodes * step / steps) * node;
        text_format(drafted->out, "%d%s", count, count < most ? ", " : "");
    }
    if (nodes * node < most) text_format(drafted->out, "%d", most);
    text_append(drafted->out, "],\n");
}

static void put_axes(const draft *drafted)
{
    text_buffer *out = drafted->out;
    text_append(out, "  \"vary\": {\n");
    if (drafted->options->has_fewer) put_gpu_counts(drafted);
    if (has_float8(drafted)) {
        text_append(out, "    \"training.dtype\": [\"bfloat16\", \"float8\"],\n");
    }
    put_powers(drafted, "training.tensor_parallel", DEGREE_MOST, divides_model);
    if (drafted->config.expert_count > 0) {
        put_powers(drafted, "training.expert_parallel", EXPERTS_MOST, divides_experts);
    }
    if (divides_sequence(drafted, 2)) {
        put_powers(drafted, "training.context_parallel", CONTEXT_MOST, divides_sequence);
    }
    put_powers(drafted, "pipeline.stages", STAGES_MOST, is_stage_count);
    text_append(out, "    \"training.microbatch_size\": [1, 2, 4],\n"
                     "    \"training.recompute\": [\"none\", \"selective\", \"full\"],\n"
                     "    \"training.sharding\": [\"optimizer\", \"parameters\"]\n"
                     "  },\n");
    put_alternatives(drafted);
}

static void put_study(const draft *drafted)
{
    const ana_draft_options *options = drafted->options;
    text_buffer *out = drafted->out;
    text_buffer name = {0};
    text_format(&name, "%s on %d %s", options->model, options->gpu_count, options->hardware);
    text_append(out, "{\n  \"schema\": \"dynmo-study/1\",\n  \"name\": ");
    // A path may be longer than a name.
    put_quoted(out, name.length <= 100 ? name.bytes : "a model on a cluster");
    text_append(out, ",\n  \"model\": ");
    put_quoted(out, options->model);
    text_append(out, ",\n  \"hardware\": ");
    put_quoted(out, options->hardware);
    text_append(out, ",\n");
    put_cluster(drafted);
    put_training(drafted);
    text_append(out, "  \"pipeline\": {\"stages\": 1, \"schedule\": \"1f1b\"},\n"
                     "  \"balancing\": [{\"balancer\": \"even\"}, {\"balancer\": \"tuned\"}],\n");
    put_axes(drafted);
    text_append(out, "}\n");
    text_free(&name);
}

status ana_study_draft(const ana_draft_options *options, text_buffer *out, error_message *err)
{
    draft drafted = {.options = options, .out = out};
    arena *memory = arena_create(1 << 14);
    status result = model_config_open(options->model, NULL, memory, &drafted.config, err);
    if (result == STATUS_OK) {
        result = model_hardware_open(options->hardware, NULL, memory, &drafted.hardware, err);
    }
    if (result == STATUS_OK) put_study(&drafted);
    arena_destroy(memory);
    return result;
}

/// What a probe measures of a device.
#include "cli/probe/probe.h"

#include "models/cost/layer_work.h"

enum { MATRICES_MAX = 5, PASSES = 3, OTHERS = 4 };

/// A weight matrix as a layer has it: [inner][columns], met by so many rows.
typedef struct matrix {
    const char *names[PASSES]; // of its products in F, B and W
    int64_t rows, columns, inner;
    int64_t repeat;
} matrix;

static int list_matrices(const model_config *config, int64_t tokens, matrix *matrices)
{
    const bool is_moe = config->expert_count > 0;
    const int64_t layers = config->layer_count;
    const int64_t hidden = config->hidden_size;
    const int64_t heads = config->head_count * config->value_dim;
    const int64_t qkv =
        (int64_t)config->head_count * config->query_key_dim +
        (int64_t)config->kv_head_count * (config->query_key_dim + config->value_dim);
    const int64_t width = is_moe ? config->expert_ffn_size : config->ffn_size;
    const int64_t inner = config->has_gated_mlp ? 2 * width : width;
    const int64_t met = is_moe ? tokens * config->expert_top_k / config->expert_count : tokens;
    const int64_t rows = met > 0 ? met : 1;
    const int64_t mlps = is_moe ? layers * config->expert_count : layers;
    int count = 0;
    matrices[count++] =
        (matrix){{"query, key, value, F", "query, key, value, B", "query, key, value, W"},
                 tokens,
                 qkv,
                 hidden,
                 layers};
    matrices[count++] = (matrix){{"attention out, F", "attention out, B", "attention out, W"},
                                 tokens,
                                 hidden,
                                 heads,
                                 layers};
    if (width > 0) {
        matrices[count++] =
            (matrix){{"MLP in, F", "MLP in, B", "MLP in, W"}, rows, inner, hidden, mlps};
        matrices[count++] =
            (matrix){{"MLP out, F", "MLP out, B", "MLP out, W"}, rows, hidden, width, mlps};
    }
    matrices[count++] =
        (matrix){{"head, F", "head, B", "head, W"}, tokens, config->vocabulary_size, hidden, 1};
    return count;
}

static void add_product(cli_probe_list *list, const char *name, exec_matmul shape, int repeat)
{
    list->rows[list->count++] =
        (exec_measurement){.name = name,
                           .kind = EXEC_PROBE_PRODUCT,
                           .shape = shape,
                           .repeat = repeat,
                           .amount = 2 * (int64_t)shape.rows * shape.columns * shape.inner};
}

static status add_products(const matrix *of, cli_probe_list *list, error_message *err)
{
    if (of->rows > INT32_MAX || of->columns > INT32_MAX || of->repeat > INT32_MAX) {
        return error_set(err, STATUS_INVALID, "%s: %lld x %lld are more than 2^31 - 1",
                         of->names[0], (long long)of->rows, (long long)of->columns);
    }
    const int rows = (int)of->rows, columns = (int)of->columns, inner = (int)of->inner;
    const exec_matmul passes[PASSES] = {
        {.rows = rows, .columns = columns, .inner = inner},
        {.rows = rows, .columns = inner, .inner = columns, .transposes_b = true},
        {.rows = inner,
         .columns = columns,
         .inner = rows,
         .transposes_a = true,
         .accumulates = true,
         .is_float = true},
    };
    for (int pass = 0; pass < PASSES; pass++) {
        add_product(list, of->names[pass], passes[pass], (int)of->repeat);
    }
    return STATUS_OK;
}

static void add_attention(const model_config *config, int tokens, model_dtype dtype,
                          cli_probe_list *list)
{
    const model_shape shape = {.sequence_length = tokens,
                               .microbatch_size = 1,
                               .dtype = dtype,
                               .attention = MODEL_ATTENTION_FLASH,
                               .parallel = model_parallel_filled((model_parallel){0})};
    const exec_matmul sizes = {
        .rows = tokens, .columns = config->value_dim, .inner = config->head_count};
    const model_layer_work forward = model_layer_work_of(config, &shape, 0, MODEL_PASS_FORWARD);
    const model_layer_work backward =
        model_layer_work_of(config, &shape, 0, MODEL_PASS_BACKWARD_INPUT);
    list->rows[list->count++] = (exec_measurement){.name = "attention, F",
                                                   .kind = EXEC_PROBE_ATTENTION,
                                                   .shape = sizes,
                                                   .amount = forward.attention.flop};
    list->rows[list->count++] = (exec_measurement){.name = "attention, B",
                                                   .kind = EXEC_PROBE_ATTENTION_BACKWARD,
                                                   .shape = sizes,
                                                   .amount = backward.attention.flop};
}

status cli_probe_list_of(const model_config *config, int tokens, model_dtype dtype,
                         int64_t stream_bytes, int value_bytes, const int *sides, int side_count,
                         arena *memory, cli_probe_list *list, error_message *err)
{
    matrix matrices[MATRICES_MAX];
    const int count = list_matrices(config, tokens, matrices);
    const size_t row_max = (size_t)(side_count + MATRICES_MAX * PASSES + OTHERS);
    const int inside = config->ffn_size > 0 ? config->ffn_size : 4 * config->hidden_size;
    cli_probe_list made = {.rows = arena_array(memory, row_max, sizeof *made.rows)};
    for (int side = 0; side < side_count; side++) {
        const exec_matmul square = {
            .rows = sides[side], .columns = sides[side], .inner = sides[side]};
        add_product(&made, "square", square, 0);
    }
    for (int index = 0; index < count; index++) {
        TRY(add_products(&matrices[index], &made, err));
    }
    add_attention(config, tokens, dtype, &made);
    made.rows[made.count++] =
        (exec_measurement){.name = "copy", .kind = EXEC_PROBE_COPY, .amount = 2 * stream_bytes};
    made.rows[made.count++] = // reads two arrays and writes one, then one and one
        (exec_measurement){.name = "addition and GELU",
                           .kind = EXEC_PROBE_ELEMENTS,
                           .shape = {.rows = tokens, .columns = inside},
                           .amount = (3 + 2) * (int64_t)tokens * inside * value_bytes};
    *list = made;
    return STATUS_OK;
}

/// The products of matrices that training a model is made of.
#include "cli/probe/probe.h"

enum { MATRICES_MAX = 5, PASSES = 3 };

/// A weight matrix as a layer has it: [inner][columns], met by so many rows.
typedef struct matrix {
    const char *names[PASSES]; // of its products in F, B and W
    int64_t rows, columns, inner;
    int64_t repeat;
} matrix;

static int64_t gates(const model_config *config)
{
    return config->has_gated_mlp ? 2 : 1;
}

/// The MLP, or the experts that tokens meet.
static void add_mlp(const model_config *config, int64_t tokens, matrix *matrices, int *count)
{
    const bool is_moe = config->expert_count > 0;
    const int64_t width = is_moe ? config->expert_ffn_size : config->ffn_size;
    const int64_t met = tokens * config->expert_top_k / (is_moe ? config->expert_count : 1);
    const int64_t rows = is_moe ? (met > 0 ? met : 1) : tokens;
    const int64_t repeat = (int64_t)config->layer_count * (is_moe ? config->expert_count : 1);
    if (width == 0) return;
    matrices[(*count)++] = (matrix){{"MLP in, F", "MLP in, B", "MLP in, W"},
                                    rows,
                                    width * gates(config),
                                    config->hidden_size,
                                    repeat};
    matrices[(*count)++] = (matrix){
        {"MLP out, F", "MLP out, B", "MLP out, W"}, rows, config->hidden_size, width, repeat};
}

static int list_matrices(const model_config *config, int64_t tokens, matrix *matrices)
{
    const int64_t heads = config->head_count;
    const int64_t shared = config->kv_head_count;
    int count = 0;
    matrices[count++] = (matrix){
        {"query, key, value, F", "query, key, value, B", "query, key, value, W"},
        tokens,
        heads * config->query_key_dim + shared * (config->query_key_dim + config->value_dim),
        config->hidden_size,
        config->layer_count};
    matrices[count++] = (matrix){{"attention out, F", "attention out, B", "attention out, W"},
                                 tokens,
                                 config->hidden_size,
                                 heads * config->value_dim,
                                 config->layer_count};
    add_mlp(config, tokens, matrices, &count);
    matrices[count++] = (matrix){
        {"head, F", "head, B", "head, W"}, tokens, config->vocabulary_size, config->hidden_size, 1};
    return count;
}

static exec_matmul forward_of(const matrix *of)
{
    return (exec_matmul){
        .rows = (int)of->rows, .columns = (int)of->columns, .inner = (int)of->inner};
}

static exec_matmul backward_of(const matrix *of)
{
    return (exec_matmul){.rows = (int)of->rows,
                         .columns = (int)of->inner,
                         .inner = (int)of->columns,
                         .transposes_b = true};
}

static exec_matmul weight_of(const matrix *of)
{
    return (exec_matmul){.rows = (int)of->inner,
                         .columns = (int)of->columns,
                         .inner = (int)of->rows,
                         .transposes_a = true,
                         .accumulates = true,
                         .is_float = true};
}

static status add_products(const matrix *of, cli_probe_shapes *into, error_message *err)
{
    const exec_matmul passes[PASSES] = {forward_of(of), backward_of(of), weight_of(of)};
    if (of->rows > INT32_MAX || of->columns > INT32_MAX || of->repeat > INT32_MAX) {
        return error_set(err, STATUS_INVALID, "%s: %lld x %lld are more than 2^31 - 1",
                         of->names[0], (long long)of->rows, (long long)of->columns);
    }
    for (int pass = 0; pass < PASSES; pass++) {
        into->products[into->count] =
            (exec_probe_product){.name = of->names[pass], .shape = passes[pass]};
        into->repeats[into->count++] = (int)of->repeat;
    }
    return STATUS_OK;
}

status cli_probe_shapes_of(const model_config *config, int tokens, arena *memory,
                           cli_probe_shapes *shapes, error_message *err)
{
    matrix matrices[MATRICES_MAX];
    const int count = list_matrices(config, tokens, matrices);
    cli_probe_shapes made = {
        .products = arena_array(memory, MATRICES_MAX * PASSES, sizeof *made.products),
        .repeats = arena_array(memory, MATRICES_MAX * PASSES, sizeof *made.repeats),
        .attention = {.sequence_length = tokens,
                      .head_count = config->head_count,
                      .head_width = config->value_dim}};
    for (int index = 0; index < count; index++) {
        TRY(add_products(&matrices[index], &made, err));
    }
    const int64_t inside = config->ffn_size > 0 ? config->ffn_size : 4 * config->hidden_size;
    made.value_count = tokens * inside;
    *shapes = made;
    return STATUS_OK;
}

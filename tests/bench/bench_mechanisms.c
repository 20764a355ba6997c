/// Predicted against measured: what the load of a mechanism does to F, B, W and memory of a block
/// that is really trained. The simulator's physical case stands over costs measured at full load
/// alone, its shares of the parts too; every other level is predicted, then measured.
///
/// A mechanism is a row of the table `mechanisms`.
#include "base/arena.h"
#include "base/rng.h"
#include "exec/model/compression.h"
#include "models/cost/hardware.h"
#include "models/dynamism/dynamism.h"
#include "tests/bench/bench.h"
#include "tests/bench/measured_block.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    MECHANISM_LEVELS_MAX = 8,
    MECHANISM_LAYERS = 6, // blocks; the head follows where the case needs it
    MECHANISM_TEXT_MAX = 512,
    EXIT_VOCABULARY = 2048 // a head that takes about half as long as its block
};

/// How a block is brought to a load, and what the simulator's case is for that load.
typedef struct mechanism_row {
    const char *name;
    const char *load; // what a level is
    int level_count;  // the first is full load
    double level[MECHANISM_LEVELS_MAX];
    int expert_rank_count; // that share the experts in the prediction; 0: no experts
    bool has_exit;         // predicted from a block without an exit, and the head
    bool needs_csr;        // products in compressed rows, which not every backend has
    /// What the case needs beside full load. NULL: nothing.
    /// The model whose block 0 has this level.
    void (*set_model)(exec_model *model, double level);
    /// Brings the block to the level where the model alone does not. NULL: it does.
    void (*set_block)(measured_block *block, double level);
    /// Makes of the block layer `layer` of MECHANISM_LAYERS where these differ: figures are then
    /// the mean over all. NULL: one block stands for all.
    void (*set_layer)(measured_block *block, double level, int layer);
    /// Load that was measured, where that is not the level itself. NULL: it is.
    double (*load_of)(const block_figures *figures);
    /// Writes the case of the simulator for a load.
    /// @param path file that it may write and name
    void (*write_case)(char *text, double load, const char *path);
} mechanism_row;

enum { ROUNDS = 15, QUANTITY_COUNT = 4 };

static const char *const quantity_names[QUANTITY_COUNT] = {"forward", "backward_input",
                                                           "backward_weight", "memory"};

// Mixture of depths: rows chosen of each sequence.

static void set_mod(exec_model *model, double level)
{
    model->mechanism = EXEC_MOD;
    model->mod = (exec_mod_options){.capacity_ratio = level, .every = 1};
}

static void write_mod(char *text, double load, const char *path)
{
    (void)path;
    snprintf(text, MECHANISM_TEXT_MAX,
             "{\"case\":\"mod\",\"capacity_ratio\":%.17g,\"every\":1,\"first_routed\":0}", load);
}

// Early exit: tokens that have not left.

static void set_early_exit(exec_model *model, double level)
{
    (void)level;
    model->mechanism = EXEC_EARLY_EXIT;
    model->early_exit = (exec_early_exit_options){.threshold = 1};
}

/// Has evenly spread rows of every sequence leave in front of the block.
static void let_tokens_leave(measured_block *block, double level)
{
    const int length = block->model.sequence_length;
    for (int row = 0; row < block->flow.row_count; row++) {
        const int position = row % length;
        block->has_left[row] =
            (int)((position + 1) * level + 1e-9) == (int)(position * level + 1e-9);
    }
}

static void write_early_exit(char *text, double load, const char *path)
{
    (void)path;
    snprintf(text, MECHANISM_TEXT_MAX,
             "{\"case\":\"early-exit\",\"exits\":[0],\"keep_initial\":%.17g,\"keep_final\":%.17g,"
             "\"attention_keys\":\"survivors\",\"classifier\":\"none\"}",
             load, load);
}

/// Behind a block of which nobody leaves, so that levels are those in front of it.
static void set_exit(exec_model *model, exec_exit_measure measure)
{
    model->mechanism = EXEC_EARLY_EXIT;
    model->early_exit = exec_early_exit_options_default(measure);
    model->early_exit.threshold = 1;
    model->vocabulary = EXIT_VOCABULARY;
}

static void set_softmax(exec_model *model, double level)
{
    (void)level;
    set_exit(model, EXEC_EXIT_SOFTMAX);
}

static void set_classifier(exec_model *model, double level)
{
    (void)level;
    set_exit(model, EXEC_EXIT_CLASSIFIER);
}

/// Tokens leave after the last block but one; the last has an exit too.
static void write_exit(char *text, double load, const char *classifier)
{
    snprintf(text, MECHANISM_TEXT_MAX,
             "{\"case\":\"early-exit\",\"exits\":[%d,%d],\"keep_initial\":%.17g,"
             "\"keep_final\":%.17g,\"attention_keys\":\"survivors\",\"classifier\":\"%s\"}",
             MECHANISM_LAYERS - 2, MECHANISM_LAYERS - 1, load, load, classifier);
}

static void write_softmax(char *text, double load, const char *path)
{
    (void)path;
    write_exit(text, load, "head");
}

static void write_classifier(char *text, double load, const char *path)
{
    (void)path;
    write_exit(text, load, "linear");
}

// Mixture of experts.

/// As Mixtral's: 8 experts, of which a token meets 2.
static void set_moe(exec_model *model, double level)
{
    (void)level;
    model->mechanism = EXEC_MOE;
    model->moe = exec_model_default().moe;
    model->moe.expert_width = exec_model_hidden_width(model) / model->moe.top_k;
}

/// The level is how much all tokens have in common, and so how much routers prefer the same
/// experts.
static void skew_tokens(measured_block *block, double level)
{
    const int width = block->model.width;
    const size_t count = (size_t)block->flow.row_count * (size_t)width;
    for (size_t at = 0; at < count; at++) {
        const size_t column = at % (size_t)width;
        block->host_input[at] += (float)(level * cos((double)(column * column)));
    }
}

/// Tokens of the busiest expert over the mean.
static double busiest_expert(const block_figures *figures)
{
    int64_t largest = 0;
    int64_t sum = 0;
    for (int expert = 0; expert < figures->load_columns; expert++) {
        if (figures->load[expert] > largest) largest = figures->load[expert];
        sum += figures->load[expert];
    }
    return (double)largest * figures->load_columns / (double)sum;
}

/// A rank of a group that shares the experts: it has level times the tokens that it would have if
/// they were shared out evenly, which are as many as its own tokens meet.
static void set_moe_group(exec_model *model, double level)
{
    set_moe(model, level);
    model->moe.top_k = (int)(2 * level + 0.5);
}

static void write_moe(char *text, double load, const char *path)
{
    const int experts = 8;
    const int even = 70000;
    const int busiest = (int)(load * even + 0.5);
    FILE *file = fopen(path, "w");
    if (file == NULL) bench_require(STATUS_IO, &(error_message){.message = "no temporary file"});
    fprintf(file, "iteration,layer,microbatch");
    for (int expert = 0; expert < experts; expert++) {
        fprintf(file, ",expert_%d", expert);
    }
    for (int layer = 0; layer < MECHANISM_LAYERS; layer++) {
        int left = experts * even - busiest;
        fprintf(file, "\n0,%d,0,%d", layer, busiest);
        for (int expert = 1; expert < experts; expert++) {
            const int tokens = left / (experts - expert);
            fprintf(file, ",%d", tokens);
            left -= tokens;
        }
    }
    fprintf(file, "\n");
    if (fclose(file) != 0) {
        bench_require(STATUS_IO, &(error_message){.message = "temporary file is not written"});
    }
    snprintf(text, MECHANISM_TEXT_MAX, "{\"case\":\"moe\",\"counts\":\"%s\"}", path);
}

// Sparse attention: live blocks over those of dense causal attention.

static void set_sparse_attention(exec_model *model, double level)
{
    model->mechanism = EXEC_SPARSE_ATTENTION;
    model->sparse_attention = exec_model_default().sparse_attention;
    model->sparse_attention.order = EXEC_ROWS_AS_TEXT; // any share can be had
    model->sparse_attention.affinity = level;
}

static double live_share(const block_figures *figures)
{
    return (double)figures->load[0] / (double)figures->load[1];
}

static void write_sparse_attention(char *text, double load, const char *path)
{
    (void)path;
    snprintf(text, MECHANISM_TEXT_MAX, "{\"case\":\"sparse-attention\",\"kept\":[%.17g]}", load);
}

// Freezing: layers that learn.

static void set_freezing(exec_model *model, double level)
{
    (void)level;
    model->mechanism = EXEC_FREEZING;
}

/// The first layers are frozen, as after an embedding that is.
static void freeze_layer(measured_block *block, double level, int layer)
{
    error_message err = {0};
    const int frozen_count = MECHANISM_LAYERS - (int)level;
    bench_require(exec_layer_set_frozen(block->layer, layer < frozen_count, &err), &err);
    block->layer->passes_no_gradient = frozen_count > 0 && layer <= frozen_count;
}

static void write_freezing(char *text, double load, const char *path)
{
    (void)path;
    const int frozen_count = MECHANISM_LAYERS - (int)load;
    int at = snprintf(text, MECHANISM_TEXT_MAX,
                      "{\"case\":\"freezing\",\"schedule\":\"list\",\"freeze_at\":[");
    for (int layer = 0; layer < MECHANISM_LAYERS; layer++) {
        at += snprintf(text + at, (size_t)(MECHANISM_TEXT_MAX - at), "%s%d", layer > 0 ? "," : "",
                       layer < frozen_count ? 0 : 1000);
    }
    snprintf(text + at, (size_t)(MECHANISM_TEXT_MAX - at), "]}");
}

// Pruning: weights that are left, in compressed rows.

static void set_pruning(exec_model *model, double level)
{
    (void)level;
    model->mechanism = EXEC_PRUNING;
}

/// Prunes weights at random: at full load the block stays dense.
static void prune_block(measured_block *block, double level)
{
    if (level >= 1) return;
    const size_t count = (size_t)exec_layer_weight_count(block->layer);
    uint8_t *keep = memory_array(count, 1);
    rng random = rng_init(1, 4);
    for (size_t at = 0; at < count; at++) {
        keep[at] = rng_unit(&random) < level;
    }
    exec_layer_compress(block->layer, keep);
    free(keep);
}

static void write_pruning(char *text, double load, const char *path)
{
    (void)path;
    snprintf(text, MECHANISM_TEXT_MAX,
             "{\"case\":\"pruning\",\"start_iteration\":0,\"end_iteration\":1,\"interval\":1,"
             "\"initial_sparsity\":%.17g,\"final_sparsity\":%.17g,\"sigma_spread\":0,"
             "\"kernels\":\"sparse\"}",
             1 - load, 1 - load);
}

static const mechanism_row mechanisms[] = {
    {.name = "moe",
     .load = "tokens of the busiest expert over the mean, all experts on one rank",
     .level_count = 6,
     .level = {0, 0.1, 0.2, 0.4, 0.8, 4},
     .expert_rank_count = 1,
     .set_model = set_moe,
     .set_block = skew_tokens,
     .load_of = busiest_expert,
     .write_case = write_moe},
    {.name = "moe-group",
     .load = "tokens of the busiest rank over the mean, experts shared by ranks",
     .level_count = 6,
     .level = {1, 1.5, 2, 2.5, 3, 4},
     .expert_rank_count = 8,
     .set_model = set_moe_group,
     .write_case = write_moe},
    {.name = "mod",
     .load = "rows that take part",
     .level_count = 6,
     .level = {1, 0.75, 0.5, 0.375, 0.25, 0.125},
     .set_model = set_mod,
     .write_case = write_mod},
    {.name = "early-exit",
     .load = "tokens that are left",
     .level_count = 6,
     .level = {1, 0.8, 0.6, 0.4, 0.2, 0.1},
     .set_model = set_early_exit,
     .set_block = let_tokens_leave,
     .write_case = write_early_exit},
    {.name = "early-exit-softmax",
     .load = "tokens that reach the exit, a head of 2048 classes",
     .level_count = 6,
     .level = {1, 0.8, 0.6, 0.4, 0.2, 0.1},
     .has_exit = true,
     .set_model = set_softmax,
     .set_block = let_tokens_leave,
     .write_case = write_softmax},
    {.name = "early-exit-classifier",
     .load = "tokens that reach the exit, a linear classifier",
     .level_count = 6,
     .level = {1, 0.8, 0.6, 0.4, 0.2, 0.1},
     .has_exit = true,
     .set_model = set_classifier,
     .set_block = let_tokens_leave,
     .write_case = write_classifier},
    {.name = "freezing",
     .load = "layers of 6 that learn, mean over all",
     .level_count = 6,
     .level = {6, 5, 4, 3, 2, 1},
     .set_model = set_freezing,
     .set_layer = freeze_layer,
     .write_case = write_freezing},
    {.name = "sparse-attention",
     .load = "blocks of keys met, of those of dense causal attention",
     .level_count = 7,
     .level = {0, 0.8, 0.9, 1, 1.1, 1.2, 2},
     .set_model = set_sparse_attention,
     .load_of = live_share,
     .write_case = write_sparse_attention},
    {.name = "pruning",
     .load = "weights that are left, in compressed rows",
     .level_count = 7,
     .level = {1, 0.5, 0.25, 0.2, 0.1, 0.05, 0.02},
     .needs_csr = true,
     .set_model = set_pruning,
     .set_block = prune_block,
     .write_case = write_pruning},
};

/// Costs of equal blocks, the last of which is looked at: others are there to leave from, and to
/// freeze. With exits the head is the one after them.
typedef struct fitted_base {
    int64_t pass_ns[BLOCK_PASS_COUNT][MECHANISM_LAYERS + 1];
    int64_t activation_bytes[MECHANISM_LAYERS + 1], gradient_bytes[MECHANISM_LAYERS + 1];
    double share[BLOCK_PASS_COUNT][BLOCK_PART_COUNT][MECHANISM_LAYERS + 1];
    double weight_of_backward[MECHANISM_LAYERS + 1];
    bool is_moe[MECHANISM_LAYERS + 1];
    model_layer_shares shares;
    int64_t message_bytes[MECHANISM_LAYERS + 1]; // has_exit only, as what follows
    model_hardware hardware;                     // whose bandwidth reads the states
    model_config config;
    model_shape shape;
    bal_layer_costs costs;
    model_dynamism_base base;
} fitted_base;

static status fitted_costs_at(void *context, int iteration, bal_layer_costs *costs, bool *changed,
                              error_message *err)
{
    (void)err;
    *costs = ((const fitted_base *)context)->costs;
    *changed = iteration == 0;
    return STATUS_OK;
}

/// The block as models/ describes one.
static void describe_model(const exec_model *model, fitted_base *fitted)
{
    const int hidden_width = exec_model_hidden_width(model);
    const bool has_experts = model->mechanism == EXEC_MOE;
    fitted->config = (model_config){
        .model_type = "gpt2",
        .layer_count = MECHANISM_LAYERS,
        .hidden_size = model->width,
        .head_count = model->head_count,
        .kv_head_count = model->head_count,
        .query_key_dim = model->width / model->head_count,
        .value_dim = model->width / model->head_count,
        .ffn_size = hidden_width,
        .vocabulary_size = model->vocabulary,
        .has_learned_positions = true,
        .has_query_key_value_bias = true,
        .has_attention_output_bias = true,
        .has_mlp_bias = true,
        .norm = MODEL_NORM_LAYER,
        .dtype = MODEL_DTYPE_FLOAT32,
        .is_moe = fitted->is_moe,
    };
    fitted->shape = (model_shape){.sequence_length = model->sequence_length,
                                  .microbatch_size = model->microbatch_size,
                                  .dtype = MODEL_DTYPE_FLOAT32,
                                  .attention = MODEL_ATTENTION_FLASH};
    for (int layer = 0; layer < MECHANISM_LAYERS; layer++) {
        fitted->is_moe[layer] = has_experts;
    }
    if (!has_experts) return;
    fitted->config.expert_count = model->moe.expert_count;
    fitted->config.expert_top_k = model->moe.top_k;
    fitted->config.expert_ffn_size = exec_model_expert_width(model);
    fitted->config.router_weight_count = (int64_t)model->width * model->moe.expert_count;
}

/// Takes costs and shares of a layer from what was measured at full load.
static void fit_layer(const block_figures *full, int layer, fitted_base *fitted)
{
    for (int pass = 0; pass < BLOCK_PASS_COUNT; pass++) {
        double sum = 0;
        fitted->pass_ns[pass][layer] = (int64_t)full->pass_ns[pass];
        for (int part = 0; part < BLOCK_PART_COUNT; part++) {
            sum += full->part_ns[pass][part];
        }
        for (int part = 0; part < BLOCK_PART_COUNT; part++) {
            fitted->share[pass][part][layer] = full->part_ns[pass][part] / sum;
            fitted->shares.share[pass][part] = fitted->share[pass][part];
        }
    }
    fitted->activation_bytes[layer] = full->activation_bytes;
    fitted->gradient_bytes[layer] = full->gradient_bytes;
    fitted->weight_of_backward[layer] = 0.5;
}

/// @param head NULL: the case needs none
static void fit(const mechanism_row *row, const exec_model *model, const block_figures *full,
                const block_figures *head, fitted_base *fitted)
{
    const int layer_count = MECHANISM_LAYERS + (head != NULL);
    *fitted = (fitted_base){0};
    describe_model(model, fitted);
    for (int layer = 0; layer < layer_count; layer++) {
        fit_layer(layer < MECHANISM_LAYERS ? full : head, layer, fitted);
    }
    fitted->shares.layer_count = layer_count;
    fitted->shares.weight_of_backward = fitted->weight_of_backward;
    fitted->costs = (bal_layer_costs){.layer_count = layer_count,
                                      .microbatch_count = 1,
                                      .has_split = true,
                                      .head = head != NULL,
                                      .forward_ns = fitted->pass_ns[BLOCK_FORWARD],
                                      .backward_input_ns = fitted->pass_ns[BLOCK_BACKWARD_INPUT],
                                      .backward_weight_ns = fitted->pass_ns[BLOCK_BACKWARD_WEIGHT],
                                      .activation_bytes = fitted->activation_bytes,
                                      .gradient_bytes = fitted->gradient_bytes};
    const int ranks = row->expert_rank_count > 0 ? row->expert_rank_count : 1;
    fitted->base = (model_dynamism_base){.source = {.context = fitted,
                                                    .layer_count = layer_count,
                                                    .iteration_count = 1,
                                                    .costs_at = fitted_costs_at},
                                         .shares = &fitted->shares,
                                         .config = &fitted->config,
                                         .shape = &fitted->shape,
                                         .parallel = {.data = ranks, .expert = ranks},
                                         .iteration_count = 1,
                                         .microbatch_count = 1,
                                         .transformer_first = 0,
                                         .transformer_end = MECHANISM_LAYERS};
}

/// F, B, W in ns, and bytes held from F to B and from B to W together: of the last layer, or the
/// mean over the layers where they differ.
static void predict(const mechanism_row *row, const fitted_base *fitted, double load,
                    const char *path, double quantity[QUANTITY_COUNT])
{
    arena *memory = arena_create(1 << 16);
    json_document *document = NULL;
    model_dynamism *dynamism = NULL;
    bal_layer_costs costs;
    bool changed = false;
    char text[MECHANISM_TEXT_MAX];
    error_message err = {0};
    row->write_case(text, load, path);
    bench_require(json_open_bytes(row->name, text, strlen(text), &document, &err), &err);
    bench_require(model_dynamism_open(json_root(document), &fitted->base, memory, &dynamism, &err),
                  &err);
    const bal_cost_source source = model_dynamism_source(dynamism, 0);
    bench_require(source.costs_at(source.context, 0, &costs, &changed, &err), &err);
    const int first = row->set_layer != NULL ? 0 : MECHANISM_LAYERS - 1;
    const int64_t *const of_layers[QUANTITY_COUNT + 1] = {
        costs.forward_ns, costs.backward_input_ns, costs.backward_weight_ns, costs.activation_bytes,
        costs.gradient_bytes};
    for (int array = 0; array <= QUANTITY_COUNT; array++) {
        const int to = array < QUANTITY_COUNT ? array : QUANTITY_COUNT - 1; // memory is two arrays
        if (array == to) quantity[to] = 0;
        for (int layer = first; layer < MECHANISM_LAYERS; layer++) {
            quantity[to] += (double)of_layers[array][layer] / (MECHANISM_LAYERS - first);
        }
    }
    json_close(document);
    arena_destroy(memory);
}

static void print_level(const mechanism_row *row, const char *backend, double load,
                        const double predicted[QUANTITY_COUNT],
                        const double measured[QUANTITY_COUNT], double error[QUANTITY_COUNT])
{
    for (int quantity = 0; quantity < QUANTITY_COUNT; quantity++) {
        const bool is_time = quantity < BLOCK_PASS_COUNT;
        const double unit = is_time ? 1e6 : 1048576;
        char name[64];
        error[quantity] = 100 * (predicted[quantity] / measured[quantity] - 1);
        snprintf(name, sizeof name, "mechanism_%s_error_percent", quantity_names[quantity]);
        bench_print(name, error[quantity], "%", "%s %.3g, predicted %.3f measured %.3f %s, %s",
                    row->name, load, predicted[quantity] / unit, measured[quantity] / unit,
                    is_time ? "ms" : "MiB", backend);
    }
}

/// Adds a layer's share of the mean.
static void add_figures(const block_figures *figures, block_figures *mean)
{
    for (int pass = 0; pass < BLOCK_PASS_COUNT; pass++) {
        mean->pass_ns[pass] += figures->pass_ns[pass] / MECHANISM_LAYERS;
        for (int part = 0; part < BLOCK_PART_COUNT; part++) {
            mean->part_ns[pass][part] += figures->part_ns[pass][part] / MECHANISM_LAYERS;
        }
    }
    mean->activation_bytes += figures->activation_bytes;
    mean->gradient_bytes += figures->gradient_bytes;
}

/// One block at a level, or the mean over the layers where these differ.
static block_figures measure_level(const mechanism_row *row, exec_kernels *kernels,
                                   const exec_model *model, double level, int round_count)
{
    measured_block block;
    block_figures figures = {0};
    block_figures mean = {0};
    const int count = row->set_layer != NULL ? MECHANISM_LAYERS : 1;
    for (int layer = 0; layer < count; layer++) {
        measured_block_open(&block, kernels, model, 1);
        if (row->set_block != NULL) row->set_block(&block, level);
        if (row->set_layer != NULL) row->set_layer(&block, level, layer);
        figures = measured_block_measure(&block, round_count);
        measured_block_close(&block);
        add_figures(&figures, &mean);
    }
    if (row->set_layer == NULL) return figures;
    mean.activation_bytes /= MECHANISM_LAYERS;
    mean.gradient_bytes /= MECHANISM_LAYERS;
    return mean;
}

/// A layer of the model without its mechanism.
static block_figures measure_plain(exec_kernels *kernels, exec_model model, int layer,
                                   int round_count)
{
    measured_block block;
    model.mechanism = EXEC_DENSE;
    measured_block_open(&block, kernels, &model, layer);
    const block_figures figures = measured_block_measure(&block, round_count);
    measured_block_close(&block);
    return figures;
}

/// Has exits predicted from what they follow and what they are made of.
///
/// @param memory of the hardware's texts
static void fit_exit(const mechanism_row *row, exec_kernels *kernels, const exec_model *model,
                     int round_count, arena *memory, fitted_base *fitted)
{
    error_message err = {0};
    const bool is_gpu = !kernels->table->has_host_memory;
    const block_figures plain = measure_plain(kernels, *model, 1, round_count);
    const block_figures head = measure_plain(kernels, *model, model->block_count + 1, round_count);
    fit(row, model, &plain, &head, fitted);
    bench_require(model_hardware_open(is_gpu ? "h100-sxm" : "cpu-core", NULL, memory,
                                      &fitted->hardware, &err),
                  &err);
    for (int layer = 0; layer < MECHANISM_LAYERS; layer++) {
        fitted->message_bytes[layer] =
            (int64_t)exec_model_row_count(model) * model->width * kernels->table->value_bytes;
    }
    fitted->base.hardware = &fitted->hardware;
    fitted->costs.message_bytes = fitted->message_bytes;
}

/// All levels of a mechanism, and the mean of the errors' amounts over those that were predicted.
static void compare_levels(const mechanism_row *row, exec_kernels *kernels, exec_model model,
                           int round_count, const char *path)
{
    fitted_base fitted;
    double sum[QUANTITY_COUNT] = {0};
    arena *memory = arena_create(1 << 12);
    const int first = row->has_exit ? 0 : 1; // that is predicted
    row->set_model(&model, row->level[0]);
    if (row->has_exit) fit_exit(row, kernels, &model, round_count, memory, &fitted);
    for (int level = 0; level < row->level_count; level++) {
        double predicted[QUANTITY_COUNT];
        double error[QUANTITY_COUNT];
        row->set_model(&model, row->level[level]);
        const block_figures figures =
            measure_level(row, kernels, &model, row->level[level], round_count);
        const double load = row->load_of != NULL ? row->load_of(&figures) : row->level[level];
        const double measured[QUANTITY_COUNT] = {
            figures.pass_ns[BLOCK_FORWARD], figures.pass_ns[BLOCK_BACKWARD_INPUT],
            figures.pass_ns[BLOCK_BACKWARD_WEIGHT],
            (double)(figures.activation_bytes + figures.gradient_bytes)};
        if (level < first) fit(row, &model, &figures, NULL, &fitted);
        predict(row, &fitted, load, path, predicted);
        print_level(row, kernels->table->name, load, predicted, measured, error);
        for (int quantity = 0; level >= first && quantity < QUANTITY_COUNT; quantity++) {
            sum[quantity] += fabs(error[quantity]);
        }
    }
    for (int quantity = 0; quantity < QUANTITY_COUNT; quantity++) {
        char name[64];
        snprintf(name, sizeof name, "mechanism_%s_mean_error_percent", quantity_names[quantity]);
        bench_print(name, sum[quantity] / (row->level_count - first), "%",
                    "%s, %d levels by %s, %s", row->name, row->level_count - first, row->load,
                    kernels->table->name);
    }
    arena_destroy(memory);
}

/// Sizes at which products take most of the time, but a run takes a minute.
static exec_model model_for(const exec_kernels *kernels, bool smoke)
{
    exec_model model = exec_model_default();
    const bool is_gpu = !kernels->table->has_host_memory;
    model.block_count = MECHANISM_LAYERS;
    model.width = smoke ? 32 : is_gpu ? 2048 : 256;
    model.head_count = is_gpu && !smoke ? 16 : 4;
    model.sequence_length = smoke ? 24 : is_gpu ? 1536 : 192;
    model.microbatch_size = smoke ? 2 : 4;
    return model;
}

static void measure_backend(exec_kernels *kernels, bool smoke)
{
    const exec_model model = model_for(kernels, smoke);
    char path[] = P_tmpdir "/dynmo-counts-XXXXXX";
    const int file = mkstemp(path);
    if (file < 0) bench_require(STATUS_IO, &(error_message){.message = "no temporary file"});
    close(file);
    for (size_t row = 0; row < sizeof mechanisms / sizeof mechanisms[0]; row++) {
        if (mechanisms[row].needs_csr && kernels->table->csr_matmul == NULL) continue;
        compare_levels(&mechanisms[row], kernels, model, smoke ? 1 : ROUNDS, path);
    }
    kernels->table->close(kernels);
    unlink(path);
}

int main(int argc, char **argv)
{
    const bool smoke = bench_is_smoke(argc, argv);
    exec_kernels *kernels = NULL;
    error_message err = {0};
    bench_require(exec_kernels_cpu_open(&kernels), &err);
    measure_backend(kernels, smoke);
    if (exec_kernels_cuda_open(EXEC_CUDA_BF16, 0, 1, &kernels, &err) == STATUS_OK) {
        measure_backend(kernels, smoke);
    }
    return 0;
}

// Pruning, freezing and sparse attention of bench_mechanisms.
#include "base/rng.h"
#include "exec/model/pruned_layer.h"
#include "tests/bench/bench.h"
#include "tests/bench/mechanism_row.h"

#include <stdio.h>
#include <string.h>

// Sparse attention: live blocks over those of dense causal attention.

static void set_sparse_attention(exec_model *model, double level)
{
    model->mechanism = EXEC_SPARSE_ATTENTION;
    model->sparse_attention = exec_sparse_attention_options_default();
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

// Pruning: weights that are left.

static void set_pruning(exec_model *model, double level)
{
    (void)level;
    model->mechanism = EXEC_PRUNING;
}

/// Weights chosen by chance: how many are left in a row varies as little as it does by magnitude.
static void prune_block(measured_block *block, double level)
{
    if (level >= 1) return;
    error_message err = {0};
    exec_pruned_layer *pruned = exec_pruned_layer_of(block->layer);
    rng random = rng_init(9, 0);
    for (int64_t at = 0; at < pruned->weight_count; at++) {
        pruned->host_keep[at] = rng_unit(&random) < level;
    }
    bench_require(exec_pruned_layer_apply(block->layer, &err), &err);
}

static int write_pruned(char *text, double load)
{
    int at =
        snprintf(text, MECHANISM_TEXT_MAX,
                 "{\"case\":\"pruning\",\"start_iteration\":0,\"end_iteration\":1,\"interval\":1,"
                 "\"initial_sparsity\":%.17g,\"final_sparsity\":%.17g,\"sigma\":[",
                 1 - load, 1 - load);
    for (int layer = 0; layer < MECHANISM_LAYERS; layer++) {
        at += snprintf(text + at, (size_t)(MECHANISM_TEXT_MAX - at), "%s1", layer > 0 ? "," : "");
    }
    return at;
}

/// With the simulator's own curve of sparse kernels, which is another machine's.
static void write_pruning(char *text, double load, const char *path)
{
    (void)path;
    const int at = write_pruned(text, load);
    snprintf(text + at, (size_t)(MECHANISM_TEXT_MAX - at), "]}");
}

/// Time of products in compressed rows over that of dense ones, at two densities.
static struct {
    double density[2];
    double product[2]; // of F and B together
    double gradient[2];
} curve = {.density = {0.05, 0.5}};

static block_figures measure_density(exec_kernels *kernels, const exec_model *model, double density,
                                     int round_count)
{
    measured_block block;
    exec_model pruned = *model;
    set_pruning(&pruned, density);
    pruned.pruning.compress_density = 1;
    measured_block_open(&block, kernels, &pruned);
    prune_block(&block, density);
    const block_figures figures = measured_block_measure(&block, round_count);
    measured_block_close(&block);
    return figures;
}

static double matrix_ns(const block_figures *figures, int pass)
{
    return figures->part_ns[pass][BLOCK_PROJECTION] + figures->part_ns[pass][BLOCK_MLP];
}

/// What is not a product with a matrix takes as long as at full load.
static double pruned_ns(const block_figures *pruned, const block_figures *full, int pass)
{
    const double other_ns = full->pass_ns[pass] - matrix_ns(full, pass);
    const double left_ns = pruned->pass_ns[pass] - other_ns;
    return left_ns > 1 ? left_ns : 1;
}

static void measure_curve(exec_kernels *kernels, const exec_model *model, int round_count)
{
    const block_figures full = measure_density(kernels, model, 1, round_count);
    for (int point = 0; point < 2; point++) {
        const block_figures pruned =
            measure_density(kernels, model, curve.density[point], round_count);
        double product_ns = 0;
        double dense_ns = 0;
        for (int pass = 0; pass < BLOCK_BACKWARD_WEIGHT; pass++) {
            product_ns += pruned_ns(&pruned, &full, pass);
            dense_ns += matrix_ns(&full, pass);
        }
        curve.product[point] = product_ns / dense_ns;
        curve.gradient[point] = pruned_ns(&pruned, &full, BLOCK_BACKWARD_WEIGHT) /
                                matrix_ns(&full, BLOCK_BACKWARD_WEIGHT);
    }
    // A curve does not fall; a single round of a smoke test may say that it does.
    if (curve.product[1] < curve.product[0]) curve.product[1] = curve.product[0];
    if (curve.gradient[1] < curve.gradient[0]) curve.gradient[1] = curve.gradient[0];
}

static void write_fitted_pruning(char *text, double load, const char *path)
{
    (void)path;
    const int at = write_pruned(text, load);
    snprintf(text + at, (size_t)(MECHANISM_TEXT_MAX - at),
             "],\"kernel_density\":[%g,%g],\"kernel_time_ratio\":[%g,%g],"
             "\"weight_kernel_time_ratio\":[%g,%g]}",
             curve.density[0], curve.density[1], curve.product[0], curve.product[1],
             curve.gradient[0], curve.gradient[1]);
}

const mechanism_row weight_rows[] = {
    {.name = "pruning",
     .load = "weights left, the time of sparse products as published for another machine",
     .level_count = 7,
     .level = {1, 0.5, 0.3, 0.2, 0.15, 0.1, 0.05},
     .set_model = set_pruning,
     .set_block = prune_block,
     .write_case = write_pruning},
    {.name = "pruning-fitted",
     .load = "weights left, the time of sparse products from 0.05 and 0.5",
     .level_count = 7,
     .level = {1, 0.4, 0.3, 0.2, 0.15, 0.1, 0.07},
     .prepare = measure_curve,
     .set_model = set_pruning,
     .set_block = prune_block,
     .write_case = write_fitted_pruning},
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
};
const int weight_row_count = sizeof weight_rows / sizeof weight_rows[0];

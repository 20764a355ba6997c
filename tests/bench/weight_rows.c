// Freezing and sparse attention of bench_mechanisms.
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

const mechanism_row weight_rows[] = {
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

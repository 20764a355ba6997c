#include "analysis/paper/reproduction.h"

#include "analysis/paper/experiments.h"

#include <string.h>

#define CLUSTER_INPUTS                                                                             \
    {"GPUs and links", "H100 SXM5 80 GB, 4 per node; NVLink 450 GB/s, NDR200 25 GB/s per GPU",     \
     "paper, appendix A (the text also says 8 per node)"},                                         \
    {                                                                                              \
        "efficiency", "0.65 of dense bf16, 0.45 in attention, 0.85 of bandwidth",                  \
            "assumed: preset h100-sxm"                                                             \
    }

#define GPT_INPUTS                                                                                 \
    {                                                                                              \
        "model", "GPT, h 1024, 32 heads, s 2048, microbatches of 2",                               \
            "paper, appendix A; vocabulary 50257 assumed, as GPT-2's"                              \
    }

static const ana_experiment experiments[] = {
    {.name = "moe",
     .summary = "mixture of experts, rebalanced every iteration, 60 iterations",
     .inputs = {CLUSTER_INPUTS,
                {"models", "Mixtral 8x7B, LLaMA-MoE-3.5B: 32 layers", "paper; their configs"},
                {"pipeline", "PP 16, DP 8, 64 microbatches of 2 x 2048 tokens, zb-h1",
                 "paper; length and schedule assumed"},
                {"expert parallelism", "over the 8 replicas",
                 "assumed: without it every layer has the same tokens"},
                {"spread of experts", "set by the bubble before", "calibrated; paper: up to 40 %"},
                {"decision", "from the routing of the very iteration, as it begins",
                 "paper, section 3.5; 1 ms assumed"},
                {"Tutel", "not played", "missing: what of its kernels is not in Megatron's"}},
     .play = ana_play_moe},
    {.name = "mod",
     .summary = "mixture of depths, rebalanced every iteration, 60 iterations",
     .inputs = {CLUSTER_INPUTS,
                {"model", "GPT, h 1024, 48 layers, without head",
                 "paper, appendix A; layers of this case not said; see the row with the head"},
                {"pipeline",
                 "PP 16, DP 8, 64 microbatches of 2 x 2048 tokens, zb-h1; zb-h2 in the interval",
                 "paper; schedule assumed"},
                {"routed blocks", "every other one", "Raposo et al., Mixture-of-Depths"},
                {"capacity", "set by the bubble before", "calibrated; Raposo et al.: 12.5 %"},
                {"predictor", "exact; off by 10 and 20 % in the interval", "assumed"}},
     .play = ana_play_mod},
    {.name = "pruning",
     .summary = "gradual pruning to 90 % of the weights, 10,000 iterations",
     .inputs = {CLUSTER_INPUTS,
                GPT_INPUTS,
                {"layers", "48; 24 in the interval",
                 "paper: 24 to 48; Megatron needs a multiple of the 24 stages"},
                {"pipeline", "PP 24, DP 30, 96 microbatches, zb-h1",
                 "paper; which zero-bubble schedule is not said"},
                {"pruning", "Zhu-Gupta from iteration 3000 to 7000 every 1000",
                 "paper; as in the released code in the interval"},
                {"sparsity of layers", "magnitude, deviations within 0.2 of their mean; 0.05, 0.5",
                 "assumed: none published"},
                {"sparse kernels", "Sputnik, where faster than dense ones",
                 "Torch-Sputnik's README: A100, float32"},
                {"decision", "1 ms", "assumed"}},
     .play = ana_play_pruning},
    {.name = "freezing",
     .summary = "layer freezing, front to back, 10,000 iterations",
     .inputs = {CLUSTER_INPUTS,
                GPT_INPUTS,
                {"layers", "48; 24 in the interval", "paper: 24 to 48"},
                {"pipeline", "PP 24, DP 30, 96 microbatches, zb-h1, bfloat16",
                 "paper; precision assumed"},
                {"freezing",
                 "from iteration 1000 to 10000, decided every 50; to 5000, and with a cached "
                 "prefix, in the interval",
                 "assumed: no trace published; every 50: paper"},
                {"AutoFreeze", "as Egeria: a static split", "unvalidated"},
                {"PipeTransformer", "not played", "missing: its epochs at this setting"},
                {"decision", "1 ms", "assumed"}},
     .play = ana_play_freezing},
    {.name = "sparse-attention",
     .summary = "dynamic sparse attention, rebalanced every iteration, 60 iterations",
     .inputs = {CLUSTER_INPUTS,
                GPT_INPUTS,
                {"layers", "48; 24 in the interval", "paper: 24 to 48"},
                {"pipeline", "PP 24, DP 30, 96 microbatches, zb-h1, bfloat16",
                 "paper; precision assumed"},
                {"attention", "HashSparse, 16 buckets; popularity log-normal, 0.5; 0 and 1.5",
                 "Pagliardini et al.; skew assumed"},
                {"decision", "1 ms", "assumed"}},
     .play = ana_play_sparse_attention},
    {.name = "early-exit",
     .summary = "early exit of tokens, 10,000 iterations",
     .inputs = {CLUSTER_INPUTS,
                GPT_INPUTS,
                {"layers", "48; 24 in the interval", "paper: 24 to 48"},
                {"pipeline", "PP 24, DP 30, 96 microbatches, zb-h1, bfloat16",
                 "paper; precision assumed"},
                {"tokens", "0.9 go on from layer to layer in the end; 0.8 and 0.95",
                 "assumed: no rates published"},
                {"keys and values", "of all tokens in every layer, as CALM; of those left",
                 "CALM; assumed"},
                {"decision", "1 ms", "assumed"}},
     .play = ana_play_early_exit},
    {.name = "table1",
     .summary = "Table 1: sparse attention on one pipeline of 2, 4 and 8 GPUs, balancing only",
     .inputs =
         {CLUSTER_INPUTS,
          {"model", "GPT, h 1024, s 2048, microbatches of 2, 24 to 56 layers, without head",
           "paper, Table 1; its c_l are those of layers; see the row of the head"},
          {"pipeline", "1f1b, 32 microbatches",
           "batch 64: paper; 1f1b: how its columns scale from 2 to 8 GPUs (x 1.885, x 1.795)"},
          {"load model", "published: the layer times the share of attention kept",
           "paper; no physical one spreads layers so far at s 2048"},
          {"share kept",
           "0.5 in the mean, falling linearly with depth; rising, and random, in the interval",
           "assumed; its spread is calibrated"},
          {"speed of a GPU", "one factor on all times", "calibrated"}},
     .play = ana_play_table1},
    {.name = "repack",
     .summary = "re-packing onto fewer GPUs while the model is pruned, 10,000 iterations",
     .inputs = {CLUSTER_INPUTS,
                GPT_INPUTS,
                {"layers", "24; 40 in the interval", "paper: 24 to 48"},
                {"pipeline", "PP 8, DP 45, 32 microbatches, zb-h1, float32",
                 "paper: 90 nodes, 8 GPUs a pipeline"},
                {"pruning",
                 "as in the experiment pruning; kernels sparse from the start, and the published "
                 "load model, in the interval",
                 "paper, Torch-Sputnik"},
                {"trigger", "fewest GPUs within 2 % (50 %) of the throughput",
                 "assumed: the paper packs to given numbers by memory alone"}},
     .play = ana_play_repack},
    {.name = "weak-scaling",
     .summary = "pruning on 24 to 960 GPUs, overheads excluded, 100 iterations",
     .inputs = {CLUSTER_INPUTS,
                GPT_INPUTS,
                {"layers", "48; 24 in the interval", "paper: 24 to 48"},
                {"pipeline", "PP 24, DP 1 to 40, 96 microbatches, zb-h1, float32",
                 "paper: up to 240 nodes, microbatches 4 x GPUs of a pipeline"},
                {"pruning", "iterations 30 to 70 every 10", "paper"}},
     .play = ana_play_weak_scaling},
    {.name = "network-delay",
     .summary = "early exit with slower messages, 10,000 iterations",
     .inputs = {CLUSTER_INPUTS,
                GPT_INPUTS,
                {"pipeline", "PP 24, one replica, 96 microbatches, zb-h1",
                 "paper; one replica, so that only messages of the pipeline slow down"},
                {"delay", "bytes per second over 1, 2, 3, 4",
                 "paper: inflated messages, up to 4x, normally distributed; here all alike"}},
     .play = ana_play_network_delay},
    {.name = "overhead",
     .summary = "decisions and migration in each case, under the paper's policies",
     .inputs = {CLUSTER_INPUTS,
                {"what moves", "weights, gradients and optimizer state, 18 bytes per parameter",
                 "the whole state of mixed-precision Adam"},
                {"decision", "1 ms; 10 ms in the interval", "assumed"},
                {"published", "a few single digits of per cent", "text"}},
     .play = ana_play_overhead},
};

enum { EXPERIMENT_COUNT = (int)(sizeof experiments / sizeof experiments[0]) };

const char *ana_agreement_name(ana_agreement agreement)
{
    static const char *const names[] = {"predicted", "consistent", "calibrated", "unreachable"};
    return names[agreement];
}

const ana_experiment *ana_experiments(int *count)
{
    *count = EXPERIMENT_COUNT;
    return experiments;
}

status ana_experiment_find(const char *name, const ana_experiment **experiment, error_message *err)
{
    const char *names[EXPERIMENT_COUNT];
    for (int index = 0; index < EXPERIMENT_COUNT; index++) {
        names[index] = experiments[index].name;
        if (strcmp(name, names[index]) == 0) {
            *experiment = &experiments[index];
            return STATUS_OK;
        }
    }
    char suggestion[TEXT_SUGGESTION_BYTES];
    return error_set(err, STATUS_INVALID, "unknown experiment '%.40s'%s", name,
                     text_suggestion(name, names, EXPERIMENT_COUNT, suggestion));
}

/// The experiments of the names in the order of the table, each once; all where there are no names.
static status choose(const char *const *names, int name_count, const ana_experiment **chosen,
                     int *count, error_message *err)
{
    bool is_wanted[EXPERIMENT_COUNT] = {false};
    for (int name = 0; name < name_count; name++) {
        const ana_experiment *experiment = NULL;
        TRY(ana_experiment_find(names[name], &experiment, err));
        is_wanted[experiment - experiments] = true;
    }
    *count = 0;
    for (int index = 0; index < EXPERIMENT_COUNT; index++) {
        if (name_count == 0 || is_wanted[index]) chosen[(*count)++] = &experiments[index];
    }
    return STATUS_OK;
}

status ana_reproduce(const char *const *names, int name_count,
                     const ana_reproduction_listener *listener, arena *memory,
                     ana_reproduction *reproduction, error_message *err)
{
    const ana_experiment **chosen = arena_array(memory, EXPERIMENT_COUNT, sizeof(ana_experiment *));
    ana_rows *rows = arena_array(memory, 1, sizeof *rows);
    int count = 0;
    TRY(choose(names, name_count, chosen, &count, err));
    rows->memory = memory;
    for (int index = 0; index < count; index++) {
        rows->experiment = chosen[index]->name;
        if (listener != NULL) listener->begin(listener->context, rows->experiment);
        TRY(chosen[index]->play(rows, err));
    }
    *reproduction = (ana_reproduction){.experiments = chosen,
                                       .experiment_count = count,
                                       .rows = rows->rows,
                                       .row_count = rows->count};
    return STATUS_OK;
}

/// One mechanism of bench_mechanisms: how a block is brought to a load, and what the simulator's
/// case is for that load.
#pragma once

#include "tests/bench/measured_block.h"

enum { MECHANISM_LEVELS_MAX = 8, MECHANISM_LAYERS = 6, MECHANISM_TEXT_MAX = 512 };

typedef struct mechanism_row {
    const char *name;
    const char *load; // what a level is
    int level_count;  // the first is full load
    double level[MECHANISM_LEVELS_MAX];
    int expert_rank_count; // that share the experts in the prediction; 0: no experts
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

/// Pruning, freezing and sparse attention (weight_rows.c).
extern const mechanism_row weight_rows[];
extern const int weight_row_count;

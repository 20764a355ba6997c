/// The layers of the stages of a row, and when they change: what is to be set.
#pragma once

#include "balance/run/training.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/text.h"

/// Of more splits the first ones and the last are kept.
enum { ANA_SPLITS_MAX = 256 };

/// The split from an iteration on, until the next one.
typedef struct ana_split_step {
    int from_iteration;
    int stage_count;
    int *first_layer; // [stage_count + 1]
} ana_split_step;

/// Arrays grow in memory while the row is played.
typedef struct ana_splits {
    arena *memory;
    int chunk_count;
    ana_split_step *steps; // [step_count] in order; none for a balancer without stages
    int step_count;
    int change_count; // changes, also those that are not kept
} ana_splits;

/// How the iterations of a row are called.
typedef struct ana_iteration_names {
    const int *number; // [iteration] or NULL: as they are
    int offset;        // that is added
} ana_iteration_names;

/// @param memory borrowed as long as the splits are used
void ana_splits_init(ana_splits *splits, int chunk_count, arena *memory);

/// Adds the split of an iteration, if it is another. Call in order.
void ana_splits_add(ana_splits *splits, const bal_training_iteration *iteration);

/// Appends lines for people: "LABEL  from 12:  4 4 3 3", layers per stage in model order; of many
/// the first few and the last.
void ana_splits_print(const ana_splits *splits, const char *indent, const char *label,
                      int label_width, ana_iteration_names names, text_buffer *out);

/// Appends "dynmo export FORMAT FILE", with what else it takes for plans of a schedule: Megatron
/// has no V placement, and runs 1F1B alone.
void ana_splits_print_export(const char *schedule, const char *file, text_buffer *out);

/// Appends what is kept: "splits": [{"from_iteration", "first_layer"}], and "split_changes".
void ana_splits_write(const ana_splits *splits, ana_iteration_names names, json_writer *writer);

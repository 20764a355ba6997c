/// What a dynamic mechanism keeps beside a layer's parameters, counts, and does between two
/// iterations. How it changes the computation of a block is the block's matter.
///
/// A mechanism is one table, `exec_mechanism_<name>` in mechanism_<name>.c; mechanism.c lists them.
/// A function that is NULL has nothing to do, to keep or to count. All are called for every layer,
/// embedding and head too; those that the mechanism does not touch keep nothing and count 0.
#pragma once

#include "base/status.h"
#include "exec/model/layer.h"
#include "exec/transport/group.h"

#include <stdbool.h>
#include <stdint.h>

/// The layers of one rank between two iterations.
typedef struct exec_layer_set {
    const exec_model *model;
    exec_layer *const *layers; // [layer_count] in model order
    int layer_count;           // may be 0
    int model_layer_count;     // length of vectors over layers that a group sums
} exec_layer_set;

typedef struct exec_mechanism_table {
    /// Makes layer->mechanism in the state that a fresh layer has. exec_layer_create calls it last,
    /// exec_layer_destroy calls destroy first.
    void (*create)(exec_layer *layer);
    void (*destroy)(exec_layer *layer);

    /// After exec_layer_initialise: what a fresh layer keeps of its parameters.
    void (*initialise)(exec_layer *layer);

    /// After the update of an iteration. Collective over the pipeline: all of its ranks call, also
    /// one without layers. What it decides must not depend on how layers lie on ranks: vectors over
    /// layers with one contributor per entry, counts as int64, draws keyed by seed, iteration and
    /// layer. May set is_frozen and passes_no_gradient, masks and parameters; a pruned parameter
    /// and its moments become 0.
    ///
    /// @param iteration the one that has ended
    /// @param changed   in: false; out: true where loads may be others from the next iteration on,
    ///                  the same on all ranks
    status (*adapt)(const exec_layer_set *set, int iteration, const exec_group *pipeline,
                    bool *changed, error_message *err);

    /// State that travels beside parameters, moments and flags, which every layer has: masks,
    /// references of a criterion. pack fills exactly packed_bytes.
    int64_t (*packed_bytes)(const exec_layer *layer);
    void (*pack)(const exec_layer *layer, void *bytes);

    /// Flags are there already, parameters and moments are not. STATUS_FORMAT if the bytes are not
    /// its own.
    status (*unpack)(exec_layer *layer, const void *bytes, int64_t byte_count, error_message *err);

    /// Bytes held for the layer beside parameters, gradients and moments.
    int64_t (*state_bytes)(const exec_layer *layer);

    /// [parameter_count] device memory, 0 where a parameter is pruned; or NULL.
    const uint8_t *(*keep)(const exec_layer *layer);

    /// The same on the host, where keep is not NULL. @return how many parameters are left
    ///
    /// @param keep [parameter_count] out; NULL: only counted
    int64_t (*read_keep)(const exec_layer *layer, uint8_t *keep);

    /// Loads of a layer in one microbatch, for records: tokens per expert, rows computed, entries
    /// kept, live blocks. Every layer of a model has as many columns; -1: one for each expert.
    int load_columns;

    /// After F, where the host knows them; NULL: they are counted on the device (exec_flow.load).
    ///
    /// @param count [load_columns] host memory; in: 0
    void (*load)(const exec_layer *layer, const exec_slot *slot, int64_t *count);
} exec_mechanism_table;

/// The table of a mechanism; of EXEC_DENSE one that is all NULL.
const exec_mechanism_table *exec_mechanism_find(exec_mechanism mechanism);

/// Loads of a layer in one microbatch; 0: none.
int exec_mechanism_load_columns(const exec_model *model);

/// The rows of the list.
extern const exec_mechanism_table exec_mechanism_moe;
extern const exec_mechanism_table exec_mechanism_mod;
extern const exec_mechanism_table exec_mechanism_early_exit;
extern const exec_mechanism_table exec_mechanism_pruning;
extern const exec_mechanism_table exec_mechanism_freezing;
extern const exec_mechanism_table exec_mechanism_sparse_attention;

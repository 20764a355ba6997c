/// A study with everything decided: what the trace or the model, the hardware and the defaults fill
/// in, and the origin of each.
#pragma once

#include "analysis/study/cache.h"
#include "analysis/study/study.h"
#include "balance/costs/machine.h"
#include "balance/plan.h"
#include "balance/ports.h"
#include "balance/run/training.h"
#include "base/arena.h"
#include "base/status.h"
#include "models/cost/cost_model.h"
#include "models/dynamism/dynamism.h"
#include "traces/store/reader.h"
#include "traces/store/store.h"

#include <stdbool.h>
#include <stdint.h>

/// Weights, gradients and Adam's moments in fp32.
enum { ANA_STATE_BYTES_DEFAULT = 16, ANA_GRADIENT_BYTES_DEFAULT = 4 };

/// What is decided, in this order: where opening has failed, the step that did.
typedef enum ana_setup_step {
    ANA_SETUP_REPLICAS, ///< of the pipeline on the cluster's GPUs
    ANA_SETUP_BATCH,    ///< microbatches of the global batch
    ANA_SETUP_COSTS,    ///< hardware, and the trace or the model
    ANA_SETUP_MEMORY,   ///< machine
    ANA_SETUP_CLUSTER,  ///< its nodes
    ANA_SETUP_ROWS,     ///< re-packing of the rows
    ANA_SETUP_STAGES,   ///< against the layers that there are
    ANA_SETUP_DYNAMISM,
    ANA_SETUP_OPEN ///< nothing is left
} ana_setup_step;

/// Costs with what their source does not know completed: bytes of state from parameters, reductions
/// from parameters and replicas, and all of the activations as held from B to W.
typedef struct ana_completion {
    bal_cost_source inner;
    int first_iteration;               // of inner: what the completed source calls iteration 0
    int64_t state_bytes_per_parameter; // where inner has parameters and no bytes of state
    int gradient_bytes_per_parameter;  // where it has parameters and no reductions
    bool first_stage_whole;            // of the study
    bal_group replicas;                // that reduce gradients; 1 rank: nobody does
    int64_t *state_bytes;              // [layer_count]
    int64_t *reduction_ns;             // [layer_count]
} ana_completion;

/// What setups one after the other need not find again. Each thread has its own.
typedef struct ana_setup_cache {
    ana_trace_cache *traces;
    ana_memo *hardware; // files as they are changed, which last
    ana_memo *models;
    ana_memo *costs;  // of models on hardware, which point into both of these
    ana_memo *bounds; // of costs, see run_bound.h
} ana_setup_cache;

/// A GPU and what a model costs on it.
typedef struct ana_model_inputs {
    model_hardware hardware; // with the study's links and GPUs per node
    model_costs costs;       // where there is a model
    bool has_costs;
} ana_model_inputs;

typedef struct ana_setup {
    ana_study *study;
    ana_setup_step step;
    int64_t gpu_count; // rented: those of the cluster, if the study says how many; else those used
    const bal_cost_source *sources; // [source_count] replica r has the loads of r % source_count
    int source_count;
    const bal_cost_source **row_sources; // [study->balancing_count] of rows with a packing of their
                                         // own, else NULL; NULL: no row has
    model_dynamism **row_dynamism;       // likewise: the case that these come from
    bal_cost_source source;              // of replica 0
    bal_cost_source still;               // the same without the study's case of dynamism
    bal_machine machine;                 // of one pipeline: rank_count is the number of stages
    int first_iteration;                 // of the trace: what the replay calls iteration 0
    int iteration_count;
    int microbatch_count;
    int stage_count;               // ranks x chunks
    const int *given_first_layer;  // [stage_count + 1] of the study's layers_per_stage, or NULL
    bool embedding;                // layer 0 is the embedding
    bool head;                     // the last layer is the LM head
    int64_t tokens_per_microbatch; // 0: not known; throughput is then in microbatches

    model_hardware hardware; // with the study's links and GPUs per node
    bool hardware_is_named;  // by the study; false: h100-sxm stands in, for its links
    bal_cost_source base;    // what the trace or the model says
    ana_completion completion;
    trace_store *store; // of the trace; NULL: from a model, or from the cache
    trace_reader *reader;
    const ana_setup_cache *cache; // NULL: nothing is kept
    ana_model_inputs *inputs;
    arena *inputs_memory;      // of what it points to
    model_costs model_costs;   // of the study's model, or of the one that was traced
    model_source model;        // from a model
    model_layer_shares shares; // with model_costs and a case
    model_dynamism *dynamism;  // NULL: the study names no case
} ana_setup;

/// Finds what an earlier setup has read of a file with the same changes, or an entry without a
/// value to read it into.
///
/// @param memo of the cache; NULL: `own` is filled and returned
ana_memo_entry *ana_setup_find_file(ana_memo *memo, const char *name, const char *changes,
                                    arena *memory, ana_memo_entry *own);

/// Opens the costs of a study and decides what it leaves open. Every decision is added to
/// study->inputs.
///
/// - iterations, microbatches, tokens: the trace's own unless the study says otherwise
/// - iteration 0 of the replay: the trace's first sample, or the iteration that the study names
/// - replicas that fill the cluster: its GPUs over those of one replica, rounded down; microbatches
///   of a global batch: it over replicas and sequences of a microbatch. Both are put into study
/// - links, memory, GPUs per node: study, else its hardware, else the preset h100-sxm's links, no
///   memory limit and 8 GPUs per node
/// - bytes of state that the trace does not hold: parameters x state_bytes_per_parameter (16)
/// - bytes held from B to W that the trace does not hold: all of the activations
/// - a case of dynamism over a trace: the parts of a layer are those of trace.model, where it is
///   given
/// - with data_parallel > 1 the gradients are reduced in 4 bytes per parameter; parameters unknown:
///   STATUS_INVALID
///
/// @param setup must stay where it is; release with ana_setup_close
/// @return what the store, the model or the hardware file refuse; STATUS_INVALID if the trace has
///         fewer layers than there are stages; STATUS_INFEASIBLE if GPUs are too few, the global
///         batch is not divisible, or memory cannot be enough. setup->step then says where.
status ana_setup_open(ana_study *study, arena *memory, ana_setup *setup, error_message *err);

/// The same for who opens many setups, one after the other: traces and costs stay in the cache.
///
/// @param cache borrowed until setup is closed; NULL: as ana_setup_open
status ana_setup_open_cached(ana_study *study, const ana_setup_cache *cache, arena *memory,
                             ana_setup *setup, error_message *err);

void ana_setup_close(ana_setup *setup);

/// The loads of the replicas under a row of the study.
///
/// @param balancing a row, or a copy with the packing of one
/// @return [source_count]
const bal_cost_source *ana_setup_sources(const ana_setup *setup, const ana_balancing *balancing);

/// The case of dynamism under a row of the study; NULL: none.
model_dynamism *ana_setup_dynamism(const ana_setup *setup, const ana_balancing *balancing);

/// The run that a row of the study describes, as both players take it. Borrows from setup.
bal_training ana_setup_training(const ana_setup *setup, const ana_balancing *balancing,
                                bal_record_sink sink);

/// The plan that an iteration of such a run was played with, which has stages. Borrows from both.
bal_plan ana_setup_plan(const ana_setup *setup, const bal_training_iteration *iteration);

// Steps of opening, in setup_costs.c.

/// Makes setup->completion, which is filled by name up to replicas, the source of the replay.
void ana_setup_complete(ana_setup *setup, arena *memory);

/// Opens the trace, or the model, as setup->base.
status ana_setup_open_base(ana_setup *setup, arena *memory, error_message *err);

/// Puts the study's case over the base; without one the sources are the base.
status ana_setup_open_dynamism(ana_setup *setup, arena *memory, error_message *err);

/// A study with everything decided: what the trace or the model, the hardware and the defaults fill
/// in, and the origin of each.
#pragma once

#include "analysis/study/study.h"
#include "balance/costs/machine.h"
#include "balance/plan.h"
#include "balance/ports.h"
#include "balance/run/training.h"
#include "base/arena.h"
#include "base/status.h"
#include "models/cost/cost_model.h"
#include "models/dynamism/dynamism.h"
#include "traces/store/catalog.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/// Why a study cannot be played. Its message says more.
typedef enum ana_refusal {
    ANA_REFUSAL_NONE,
    ANA_REFUSAL_MEMORY,    ///< no plan fits
    ANA_REFUSAL_STAGES,    ///< more stages than layers
    ANA_REFUSAL_BATCH,     ///< the global batch is not divisible
    ANA_REFUSAL_GPUS,      ///< the cluster has too few
    ANA_REFUSAL_SCHEDULE,  ///< a rule of the schedule: a multiple of the stages, chunks
    ANA_REFUSAL_MODEL,     ///< degrees that do not divide the model, rates that are not known
    ANA_REFUSAL_LOADS,     ///< a balancer without stages has no times
    ANA_REFUSAL_VALUES,    ///< values of several axes that do not go together
    ANA_REFUSAL_LIMIT,     ///< beyond the deadline or the budget
    ANA_REFUSAL_FRAMEWORK, ///< `dynmo export` does not write it for the framework that is asked for
    ANA_REFUSAL_COUNT
} ana_refusal;

/// A GPU and what a model costs on it.
typedef struct ana_model_inputs {
    arena *memory; // of what it points to
    model_hardware
        hardware;      // with the study's links and GPUs per node; without a name: not read yet
    model_costs costs; // where there is a model
    bool has_costs;
} ana_model_inputs;

/// What setups that are opened one after the other need not find again (cache.c). Each thread has
/// its own.
typedef struct ana_setup_cache ana_setup_cache;

/// @param memory          with which it ends
/// @param trace_bytes_max costs of a trace beyond this are read again whenever they are asked for
ana_setup_cache *ana_setup_cache_create(arena *memory, int64_t trace_bytes_max);

enum { ANA_CACHED_INPUTS = 64 };

/// The inputs by the bytes of all that they depend on; empty ones where there are none, for the
/// caller to fill. Where there is no room those go that were asked for longest ago.
///
/// @return borrowed until ANA_CACHED_INPUTS - 1 others have been asked for
ana_model_inputs *ana_setup_cache_inputs(ana_setup_cache *cache, const char *key, size_t length);

/// Finds the trace, which stays open from one setup to the next, its costs kept in memory as they
/// are read; or opens it in place of another: what was found of that is then no more. What has been
/// opened is taken to stay as it is in its store.
///
/// @param name   as trace_find takes it
/// @param info   out: borrowed until the trace goes
/// @param memory of the source's own state
/// @param source out: as trace_reader_source; borrowed until the trace goes
/// @return what trace_store_open, trace_find and trace_reader_open return
status ana_setup_cache_trace(ana_setup_cache *cache, const char *path, const char *name,
                             arena *memory, const trace_info **info, bal_cost_source *source,
                             error_message *err);

typedef struct ana_setup {
    ana_study *study;
    ana_refusal refusal; // where opening has failed
    int64_t gpu_count; // rented: those of the cluster, if the study says how many; else those used
    const bal_cost_source *sources; // [source_count] replica r has the loads of r % source_count
    int source_count;
    bal_cost_source source; // of replica 0
    bal_cost_source still;  // the same without the study's case of dynamism
    bal_machine machine;    // of one pipeline: rank_count is the number of stages
    int first_iteration;    // of the trace: what the replay calls iteration 0
    int first_recorded;     // of the trace
    int iteration_count;
    int microbatch_count;
    int stage_count;               // ranks x chunks
    const int *given_first_layer;  // [stage_count + 1] of the study's layers_per_stage, or NULL
    bool layers_are_whole;         // of a model, or recorded by `dynmo run`: none may be several
    bool embedding;                // layer 0 is the embedding
    bool head;                     // the last layer is the LM head
    int64_t tokens_per_microbatch; // 0: not known; throughput is then in microbatches

    model_hardware hardware; // with the study's links and GPUs per node
    bool hardware_is_named;  // by the study; false: h100-sxm stands in, for its links
    bal_cost_source base;    // what the trace or the model says
    bal_group replicas;      // that reduce gradients; 1 rank: nobody does
    int64_t *state_bytes;    // [layer_count] where the base has none
    int64_t *reduction_ns;   // [layer_count] likewise
    ana_setup_cache *cache;
    ana_model_inputs *inputs;
    model_costs model_costs;   // of the study's model, or of the one that was traced
    model_source model;        // from a model
    model_layer_shares shares; // with model_costs and a case
    model_dynamism *dynamism;  // NULL: the study names no case
} ana_setup;

/// Opens the costs of a study and decides what it leaves open. Every decision is added to
/// study->inputs.
///
/// - iterations, microbatches, tokens: the trace's own unless the study says otherwise
/// - iteration 0 of the replay: the trace's first sample, or the iteration that the study names
/// - replicas that fill the cluster: its GPUs over those of one replica, rounded down, or the most
///   below that the global batch divides among and experts can be spread over; microbatches of a
///   global batch: it over replicas and sequences of a microbatch. Both are put into study
/// - schedule: zb-h1; of a trace of full backwards, which nothing splits, 1f1b
/// - links, memory, GPUs per node: study, else its hardware, else the preset h100-sxm's links, no
///   memory limit and 8 GPUs per node
/// - bytes of state that the trace does not hold: parameters x state_bytes_per_parameter (16)
/// - bytes held from B to W that the trace does not hold: all of the activations
/// - a case of dynamism over a trace: the parts of a layer are those of trace.model, where it is
///   given
/// - with data_parallel > 1 the gradients are reduced in 4 bytes per parameter; parameters unknown:
///   STATUS_INVALID
///
/// @param cache borrowed as long as setup is used: traces and costs stay there for the next setup;
///              NULL: the setup has one of its own, in memory
/// @param setup must stay where it is
/// @return what the store, the model or the hardware file refuse; STATUS_INVALID if the trace has
///         fewer layers than there are stages, or layers without any time; STATUS_INFEASIBLE if
///         GPUs are too few, the global batch is not divisible, or memory cannot be enough.
///         setup->refusal then says which.
status ana_setup_open(ana_study *study, ana_setup_cache *cache, arena *memory, ana_setup *setup,
                      error_message *err);

/// The loads of the replicas under a row of the study, or a copy of one.
///
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

/// Makes the base the source of the replay, with what it does not know completed: bytes of state
/// from parameters, reductions from parameters and replicas, and all of the activations as held
/// from B to W.
void ana_setup_complete(ana_setup *setup, arena *memory);

/// Opens the trace, or the model, as setup->base.
status ana_setup_open_base(ana_setup *setup, arena *memory, error_message *err);

/// Puts the study's case over the base; without one the sources are the base.
status ana_setup_open_dynamism(ana_setup *setup, arena *memory, error_message *err);

/// Takes the times of the base from a fit to what the trace recorded, in length_costs.c: the case
/// `lengths` says which sequences each microbatch had, if they were packed as trace.packing says,
/// from the trace's first iteration on. Shares of attention are the fit's, constant over the run.
///
/// @param base of the case; its source and packing are changed
/// @return what opening the case returns; STATUS_INVALID: times of single microbatches were not
///         recorded, or do not tell what attention takes, with how far they do
status ana_setup_fit_lengths(ana_setup *setup, model_dynamism_base *base, arena *memory,
                             error_message *err);

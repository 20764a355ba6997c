/// The study file: what is to be simulated, read once, checked completely, with the source of every
/// input.
#pragma once

#include "balance/control/policy.h"
#include "balance/costs/machine.h"
#include "balance/migration/migration_plan.h"
#include "balance/partition/balancer.h"
#include "balance/repack/repack.h"
#include "balance/run/training.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/status.h"
#include "base/text.h"
#include "models/assumption.h"
#include "models/cost/dtype.h"
#include "models/cost/parallel.h"
#include "models/dynamism/dynamism.h"

#include <stdbool.h>
#include <stdint.h>

// The inputs of a result, each with its value and where it comes from, in the order in which they
// were added (inputs.c). Names are paths in the study, "cluster.links.intra.latency_ns".

/// NULL: no input has this name. Whoever gave one comes before a default.
const model_assumption *ana_inputs_find(const model_assumption_list *inputs, const char *name);

/// Appends the list for people; ends with the inputs counted by origin.
void ana_inputs_print(const model_assumption_list *inputs, text_buffer *out);

/// Appends the list as a JSON array.
void ana_inputs_write(const model_assumption_list *inputs, json_writer *writer);

enum {
    ANA_BALANCINGS_MAX = 64,
    ANA_SLOW_RANKS_MAX = 64,
    ANA_DISTURBED_LINKS_MAX = 64,
};

/// How a row re-packs: options.rank_unit is 1, or decided with the machine where whole nodes are
/// released.
typedef struct ana_repack {
    bal_repack_options options;
    bool by_node; // only whole nodes are released
} ana_repack;

/// One row of a comparison.
typedef struct ana_balancing {
    const bal_balancer *balancer;
    bal_policy policy;
    bal_weight weight;
    bal_information information;
    bal_migration_options migration;
    ana_repack repack;
    const char *packing; // of sequences, in place of the study's "dynamism"; NULL: as there
    const char *label;   // unique; "partition on-change" unless the study names it

    // With a packing, from ana_setup_open on: the study's case with it, and the loads of replicas.
    model_dynamism *dynamism;
    const bal_cost_source *sources;
} ana_balancing;

/// A row that keeps its plan and has the default of everything else; labelled by its balancer.
///
/// @param balancer its name; "": to be filled
ana_balancing ana_balancing_default(const char *balancer);

typedef struct ana_study {
    const char *path;
    const char *name;
    const char *text; // the file as it was read

    // Where costs come from: a trace in a store, or a model on a hardware.
    const char *trace_path; // NULL: model and hardware
    const char *trace_name; // NULL: the store's only or newest
    int first_iteration;    // of the trace; those before it are left out, as warm-up; -1: not given
    const char *trace_model;   // path or shipped name of the model that was traced; NULL: not given
    const char *trace_packing; // of the recorded sequences; NULL: not given, costs are as recorded
    const char *model;         // path or shipped name
    const char *hardware; // path or shipped name; also gives links and memory to a trace's study
    const char *model_changes;    // other values at some places of these files, as json_change
    const char *hardware_changes; // takes them; NULL: none

    // cluster; 0 or negative: not given, the hardware or a stated default decides
    int node_count;
    int gpus_per_node;
    int gpu_count;
    int64_t memory_bytes; // -1: not given; 0: not limited
    bal_link intra_node;  // latency_ns -1: not given
    bal_link inter_node;  // latency_ns -1: not given
    bal_send send;
    bool shares_node_links;
    bal_slow_rank slow_ranks[ANA_SLOW_RANKS_MAX];
    double price_per_gpu_hour;  // -1: not given
    const char *price_currency; // "USD" unless given
    const char *price_date;     // "2026-11-22"; given with every price
    const char *price_source;   // NULL: not said

    // What a player is told as it stands: the schedule and its chunks, passes per step, what hides
    // reductions, the barrier, times of steps, decisions and profiling, what counts as a change,
    // what disturbs the run and which ranks are slow. The rest of it is from the setup.
    bal_training run;
    bool schedule_is_given; // else 1f1b takes its place for a trace of full backwards

    // training; 0: not given, the trace decides
    int iteration_count;
    int sequence_length;
    int microbatch_size;
    int microbatch_count;
    int global_batch;                 // sequences, in place of microbatches
    double batch_tolerance;           // share of them by which they may differ to be divisible
    int64_t token_count;              // of the whole training
    bool fills_cluster;               // data is what the cluster's GPUs give; see setup.h
    model_parallel parallel;          // degrees are 1 or more
    model_dtype dtype;                // with a model; MODEL_DTYPE_UNKNOWN: not given
    const char *attention;            // with a model; NULL: not given
    int transformer_layer_count;      // with a model, instead of its own number; 0: not given
    int64_t relaunch_ns;              // of the machine
    int state_bytes_per_parameter;    // weights, gradients, optimizer; where the trace does not say
    int gradient_bytes_per_parameter; // in the reduction between replicas; 0: not given

    bal_disturbed_link disturbed_links[ANA_DISTURBED_LINKS_MAX];

    // pipeline
    int stage_count;
    bool first_stage_whole;          // see bal_stage_costs_join_first
    const int64_t *layers_per_stage; // [layers_per_stage_count] in model order; NULL: not given
    int layers_per_stage_count;

    json_value dynamism;  // the object with a "case"; missing: costs change as the trace's do
    json_value execution; // what `dynmo run` trains; missing: a plain transformer

    ana_repack repack; // of rows with a policy that do not say otherwise
    ana_balancing balancings[ANA_BALANCINGS_MAX];
    int balancing_count;

    json_value uncertainty; // of a what-if study; missing: none

    model_assumption_list inputs; // every value above that was given or defaulted
    json_value root;              // of the document, from which names above are borrowed
} ana_study;

/// Reads a study file.
///
/// @param memory     of the study and of what it borrows
/// @param trace_path in place of what the file says of costs; NULL: as it says. A path in the file
///                   that is not absolute is relative to the file's folder.
/// @return STATUS_IO; STATUS_FORMAT naming file, key and limit: unknown keys, balancers,
///         schedules or policies (with the nearest known name), counts outside their limits;
///         STATUS_UNSUPPORTED for a part of the format that `dynmo simulate` cannot play.
status ana_study_open(const char *path, const char *trace_path, arena *memory, ana_study *study,
                      error_message *err);

/// As ana_study_open, of a study that is in memory; name stands for its path.
///
/// @param changes of the text, as json_open_changed takes them; "{}": none
status ana_study_open_text(const char *name, const char *text, const char *changes, arena *memory,
                           ana_study *study, error_message *err);

/// As ana_study_open, of a document that was read, for who plays many studies and lists the inputs
/// of none: of those that the study gives only names are kept, and defaults are left out.
///
/// @param document borrowed as long as the study is used, whose text stays ""
status ana_study_open_document(const char *name, json_document *document, arena *memory,
                               ana_study *study, error_message *err);

/// A case of dynamism over the costs of a model or of a recorded trace: how the load of every layer
/// changes from iteration to iteration. DYNAMISM.md says what each case models.
#pragma once

#include "balance/ports.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/status.h"
#include "models/assumption.h"
#include "models/cost/config.h"
#include "models/cost/cost_model.h"
#include "models/cost/hardware.h"
#include "models/cost/layer_work.h"
#include "models/cost/parallel.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum model_load_model {
    MODEL_LOAD_PHYSICAL,  ///< what happens to F, B, W, memory and traffic
    MODEL_LOAD_PUBLISHED, ///< the DynMo paper's factor on the whole layer
    MODEL_LOAD_COUNT
} model_load_model;

/// What a case is put over. Borrowed as long as the case is used.
typedef struct model_dynamism_base {
    bal_cost_source source;           // costs without the dynamism
    const model_layer_shares *shares; // NULL: not known; cases that need them are then refused
    const model_config *config;       // NULL: a trace without a model beside it
    const model_shape *shape;         // with config
    const model_hardware *hardware;   // rates and links; NULL: a trace without hardware
    model_parallel parallel;
    const char *path;      // of the file that the object is in: paths in it are meant from there;
                           // NULL: from the working directory
    const char *packing;   // of case lengths, in place of the object's; NULL: the object's
    int iteration_count;   // of the training, >= 1
    int microbatch_count;  // M, >= 1
    int transformer_first; // layers that are neither embedding nor head are
    int transformer_end;   // [transformer_first, transformer_end)
} model_dynamism_base;

/// Opaque: what a case draws must not depend on the order in which iterations are asked.
typedef struct model_dynamism model_dynamism;

/// Reads a case and its parameters: {"case":NAME,"load_model":"physical"|"published","seed":n,
/// ...}. Parameters that are missing take their published value, or one that is
/// listed as assumed. "change_ratio", which belongs to whoever detects changes, is passed over.
///
/// @param memory where everything is carved, strings of the object included
/// @return STATUS_FORMAT naming the key: unknown (with the nearest), missing, of the wrong type or
///         outside its limits; STATUS_INVALID: the case does not fit the model, the parallelism or
///         the number of layers; what reading a file that the object names returns. out is then
///         untouched.
status model_dynamism_open(json_value object, const model_dynamism_base *base, arena *memory,
                           model_dynamism **out, error_message *err);

const char *model_dynamism_name(const model_dynamism *dynamism); ///< of the case

/// Whether loads differ between iterations in which the model stays the same.
bool model_dynamism_varies(const model_dynamism *dynamism);

/// Replicas whose loads differ; 1: all replicas are alike. It divides the data-parallel degree:
/// replica r of the training has the loads of r % count, or, where replicas share experts, those of
/// the group that it is in.
int model_dynamism_source_count(const model_dynamism *dynamism);

/// Costs of one of them, with the iterations of the training. Its columns are the microbatches, or
/// one where the case and the base make no difference between them.
///
/// Announces changes: *changed says that the model changed at this iteration, whatever iteration
/// was asked before. Iterations may be asked in any order and give the same bytes. A time is the
/// base's times its factor, rounded to the nearest ns (halves up), plus what the case adds; a
/// factor of 1 leaves the base's number as it is (below 2^52 ns, 52 days). Costs are borrowed until
/// the next call of this source.
///
/// @return of costs_at: what the base returns; STATUS_INVALID naming layer and iteration: a cost
///         exceeds INT64_MAX / 4, or the base has other microbatches than the training
bal_cost_source model_dynamism_source(model_dynamism *dynamism, int replica);

/// Every parameter with its value and origin, names beginning with "dynamism.".
const model_assumption *model_dynamism_assumptions(const model_dynamism *dynamism, int *count);

/// The DynMo paper's c_l: F + B + W of the base times the published factor, mean over microbatches,
/// whatever the load model of the study.
///
/// @param load_ns [layer_count of the base's source] out
status model_dynamism_published_load(model_dynamism *dynamism, int iteration, int replica,
                                     int64_t *load_ns, error_message *err);

/// Tokens per expert, summed over the microbatches of an iteration.
typedef struct model_expert_tokens {
    int layer_count;       // of the base's source
    int expert_count;      // 0: the case has no experts
    const int64_t *tokens; // [layer_count][expert_count], 0 in layers without experts; borrowed
                           // until the next call with this dynamism
} model_expert_tokens;

/// Sequences of a microbatch as they are packed. Borrowed until the next call with this dynamism.
typedef struct model_documents {
    int count;
    const int32_t *tokens; // [count]
    const int64_t *number; // [count] of each in the order of arrival, pieces of those that are cut
                           // counted one by one
} model_documents;

/// @return STATUS_UNSUPPORTED naming the case: it has no sequences that attend to themselves alone
status model_dynamism_documents(model_dynamism *dynamism, int iteration, int replica,
                                int microbatch, model_documents *documents, error_message *err);

status model_dynamism_expert_tokens(model_dynamism *dynamism, int iteration, int replica,
                                    model_expert_tokens *tokens, error_message *err);

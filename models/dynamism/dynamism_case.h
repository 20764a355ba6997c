/// What a case of dynamism is made of: one file dynamism_<case>.c each, one row in the table of
/// dynamism.c.
#pragma once

#include "base/rng.h"
#include "models/dynamism/case_parameters.h"
#include "models/dynamism/dynamism.h"

/// What an iteration does to the layers of the base. A NULL array changes nothing, so cases fill
/// only what they touch. Arrays are the case's, borrowed until its next call; several members may
/// share one.
typedef struct model_load {
    int column_count;    // of the arrays of times: microbatches, or 1 where all are alike
    const double *whole; // [layer_count][column_count] factor on F, B and W as they are, >= 0
    const double *pass[MODEL_PASS_COUNT]; // [layer_count][column_count] the same for one of them
    const double *part[MODEL_PASS_COUNT][MODEL_PART_COUNT]; // [layer_count][column_count] factor on
                                                            // the part's time, >= 0
    const int64_t *added_ns[MODEL_PASS_COUNT]; // [layer_count][column_count] on top: all-to-all,
                                               // router, exit classifier; may be negative where it
                                               // corrects what the base holds
    const double *parameters;                  // [layer_count] factors on the base's arrays, >= 0
    const double *state;                       // [layer_count]
    const double *activation;                  // [layer_count]
    const double *gradient;                    // [layer_count]
    const double *message;                     // [layer_count]
    const double *reduction;                   // [layer_count]
} model_load;

/// What a case is opened with.
typedef struct model_case_setup {
    const model_dynamism_base *base; // its shares are those of "shares" where that is given
    int layer_count;                 // of the base
    model_load_model load_model;
    uint64_t seed;
    arena *memory;
    model_case_parameters *parameters; // of the object; lists what is read
} model_case_setup;

/// A case that is open.
typedef struct model_case_instance {
    void *state;      // carved from the setup's memory
    int source_count; // as model_dynamism_source_count; 1 where open leaves it 0
    bool varies;      // loads differ between iterations in which the model stays the same
} model_case_instance;

typedef struct model_dynamism_case {
    const char *name;
    const char *const *keys; // [key_count] that its object may have beside the common ones
    int key_count;
    bool needs_shares; // its physical loads touch parts

    /// Reads its parameters and allocates its state.
    ///
    /// @param instance zeroed
    status (*open)(const model_case_setup *setup, model_case_instance *instance,
                   error_message *err);

    /// The load of an iteration, in either load model.
    ///
    /// @param load    in: zeroed but for column_count 1
    /// @param changed out: the model changed between iteration - 1 and iteration; where it did not,
    ///                the load is the same unless the case varies. True for iteration 0
    status (*load_at)(void *state, model_load_model load_model, int iteration, int replica,
                      model_load *load, bool *changed, error_message *err);

    /// NULL: the case has no experts. tokens->layer_count is set.
    status (*expert_tokens)(void *state, int iteration, int replica, model_expert_tokens *tokens,
                            error_message *err);
} model_dynamism_case;

/// A stream of random numbers for one purpose of a case, layer, iteration and replica (0 where one
/// of them does not matter): whatever is drawn elsewhere, these stay the same.
rng model_case_stream(uint64_t seed, int purpose, int layer, int iteration, int replica);

/// The rows of the table.
extern const model_dynamism_case model_dynamism_pruning;
extern const model_dynamism_case model_dynamism_freezing;
extern const model_dynamism_case model_dynamism_sparse_attention;
extern const model_dynamism_case model_dynamism_early_exit;
extern const model_dynamism_case model_dynamism_mod;
extern const model_dynamism_case model_dynamism_moe;

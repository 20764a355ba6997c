/// What a case of dynamism is made of: one file dynamism_<case>.c each, one row in the table of
/// dynamism.c.
#pragma once

#include "base/arena.h"
#include "base/json.h"
#include "base/rng.h"
#include "base/status.h"
#include "models/assumption.h"
#include "models/dynamism/dynamism.h"

/// What an iteration does to the layers of the base. A NULL array changes nothing, so cases carve
/// only what they touch; several members may share one.
typedef struct model_load {
    int column_count; // of the arrays of times: microbatches, or 1 where all are alike
    double *whole;    // [layer_count][column_count] factor on F, B and W as they are, >= 0
    double *pass[MODEL_PASS_COUNT]; // [layer_count][column_count] the same for one of them
    double *part[MODEL_PASS_COUNT][MODEL_PART_COUNT]; // [layer_count][column_count] factor on the
                                                      // part's time, >= 0
    int64_t *added_ns[MODEL_PASS_COUNT]; // [layer_count][column_count] on top: all-to-all, router,
                                         // exit classifier; may be negative where it corrects what
                                         // the base holds
    double *parameters;                  // [layer_count] factors on the base's arrays, >= 0
    double *state;                       // [layer_count]
    double *activation;                  // [layer_count]
    double *gradient;                    // [layer_count]
    double *message;                     // [layer_count]
    double *reduction;                   // [layer_count]
} model_load;

enum { MODEL_CASE_KEYS_MAX = 64 };

/// Parameters of a case: each is given by the user or takes a default whose origin is said; either
/// way it is listed. Zero-initialise all but object and list.memory.
typedef struct model_case_parameters {
    json_value object;
    model_assumption_list list;
    const char *asked[MODEL_CASE_KEYS_MAX]; // [asked_count] keys, whether they were there or not
    int asked_count;
} model_case_parameters;

/// A member of the object, missing or not. Whoever reads a key asks for it: what nobody has asked
/// for is refused by model_parameters_check.
json_value model_parameter_ask(model_case_parameters *parameters, const char *key);

/// What reading a file of the member came to: one that cannot be opened is said with its key.
///
/// @param why the reader's message
/// @return result
status model_parameter_read(json_value member, status result, const error_message *why,
                            error_message *err);

/// @return STATUS_FORMAT: a key that nobody has asked for, as no case has it or as other choices
///         exclude it
status model_parameters_check(const model_case_parameters *parameters, error_message *err);

/// Where a default comes from: a published figure of the case, or nobody has said it.
#define MODEL_PUBLISHED(text) ((model_origin){MODEL_ORIGIN_PRESET, (text)})
#define MODEL_ASSUMED(text) ((model_origin){MODEL_ORIGIN_ASSUMED, (text)})

/// What all cases have: the first member of the state of each.
typedef struct model_case {
    const model_dynamism_base *base; // with its shares
    int layer_count;                 // of the base
    int first;                       // of the transformer layers
    int block_count;                 // of them
    model_load_model load_model;
    uint64_t seed;
    arena *memory;
    model_case_parameters *parameters; // of the object; lists what is read
    // of the case, once it is open
    int source_count; // as model_dynamism_source_count; 1 where open leaves it 0
    bool varies;      // loads differ between iterations in which the model stays the same
    model_load load[MODEL_LOAD_COUNT]; // their arrays; columns 1 where open leaves them 0
} model_case;

typedef struct model_dynamism_case {
    const char *name;
    bool needs_shares;  // its physical loads touch parts
    size_t state_bytes; // of the case's state

    /// Reads its parameters, allocates what its state holds and the arrays of its loads.
    ///
    /// @param state zeroed but for its model_case; stays where it is
    status (*open)(void *state, error_message *err);

    /// Fills the load of an iteration, in either load model. The other's may be lost.
    ///
    /// @param changed out: the model changed between iteration - 1 and iteration; where it did not,
    ///                the load is the same unless the case varies. True for iteration 0
    status (*load_at)(void *state, model_load_model load_model, int iteration, int replica,
                      bool *changed, error_message *err);

    /// NULL: the case has no experts. tokens->layer_count is set.
    status (*expert_tokens)(void *state, int iteration, int replica, model_expert_tokens *tokens,
                            error_message *err);

    /// NULL: the case packs no sequences.
    status (*documents)(void *state, int iteration, int replica, int microbatch,
                        model_documents *documents, error_message *err);
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
extern const model_dynamism_case model_dynamism_lengths;

/// Costs of the base's iteration 0, borrowed until it is asked again: while a case opens only, as
/// later the costs that its load is put on would be gone.
status model_case_first_costs(const model_case *of, bal_layer_costs *costs, error_message *err);

/// Carves count factors of 1.
double *model_case_ones(arena *memory, size_t count);

/// Time to read and write so many bytes of device memory, in ns, at most INT64_MAX / 4; 0 without
/// hardware.
int64_t model_case_bytes_ns(const model_hardware *hardware, int64_t bytes);

/// Bytes per parameter of a base's weights: of its model's dtype, or 2, which is then noted among
/// the parameters as assumed.
int model_case_weight_bytes(const model_case *of);

/// A parameter that is one number, a name or a yes or no: key, limits and default, each said once.
typedef struct model_parameter {
    const char *key;
    double *real; // where it goes; one of these three
    int *whole;
    bool *flag;
    const char *const *names; // [name_count] of which whole becomes the index; NULL: a number
    int name_count;
    double fallback; // of a flag: 0 or 1; of names their index
    double min;
    double max;
    model_origin from; // origin of fallback; its text has static storage
} model_parameter;

/// Reads parameters in their order, and lists each as "dynamism.<key>".
///
/// @return STATUS_FORMAT naming the key: of the wrong type, outside its limits, or none of its
///         names, with the nearest
status model_parameters_read(model_case_parameters *parameters, const model_parameter *rows,
                             size_t count, error_message *err);

/// Reads an array of numbers, each in [min, max].
///
/// @param values out: carved from the parameters' memory; NULL where the key is missing
/// @return STATUS_FORMAT if it is empty, no array or longer than count_max
status model_parameter_doubles(model_case_parameters *parameters, const char *key, double min,
                               double max, int count_max, const double **values, int *count,
                               error_message *err);

/// Lists something that is no member of the object, as a number taken from the model.
void model_parameter_note(model_case_parameters *parameters, const char *name, model_origin origin,
                          const char *format, ...) __attribute__((format(printf, 4, 5)));

/// The same for what the user gave.
extern const model_origin model_given;

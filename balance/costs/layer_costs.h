/// What the layers of a model cost in one iteration: the input of every decision and every replay.
/// Also their means over the microbatches, which the controller keeps, and a copy that tells
/// whether they still cost the same.
#pragma once

#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/// Products of two int64 that are compared before they are divided back.
__extension__ typedef __int128 bal_wide;

static inline int64_t bal_larger(int64_t one, int64_t other)
{
    return one > other ? one : other;
}

static inline int64_t bal_smaller(int64_t one, int64_t other)
{
    return one < other ? one : other;
}

/// A time that takes factor times as long, to the nearest ns. Saturates at a quarter of int64, as
/// what is played may not exceed it.
int64_t bal_scaled_ns(int64_t ns, double factor);

/// Arrays of layer costs; the times stand first.
enum { BAL_COST_ARRAY_COUNT = 9, BAL_COST_TIMES_COUNT = 3 };

/// Their names as files and messages spell them, in the order of the struct.
extern const char *const bal_cost_names[BAL_COST_ARRAY_COUNT];

/// Times are of one microbatch. The arrays are borrowed: whoever fills the struct says for how
/// long.
typedef struct bal_layer_costs {
    int layer_count;
    int microbatch_count; // columns of the times: M, or 1 where one cost holds for every microbatch
    bool has_split;       // false: backward_input_ns is the full backward, backward_weight_ns all 0
    bool embedding;       // layer 0 is the embedding, pinned to the first stage
    bool head;            // the last layer is the LM head, pinned to the last stage
    bool first_stage_whole; // see bal_stage_costs_join_first
    union {
        struct {
            const int64_t *forward_ns;         // [layer_count][microbatch_count], >= 0
            const int64_t *backward_input_ns;  // [layer_count][microbatch_count], >= 0
            const int64_t *backward_weight_ns; // [layer_count][microbatch_count], >= 0
            const int64_t *parameters;         // [layer_count] or NULL: not known
            const int64_t *state_bytes;        // [layer_count] or NULL: weights, gradients,
                                               // optimizer
            const int64_t *activation_bytes;   // [layer_count] or NULL: held from F to B, one
                                               // microbatch
            const int64_t *gradient_bytes;     // [layer_count] or NULL: of them and of the output
                                               // gradients, held from B to W, one microbatch
            const int64_t *message_bytes;      // [layer_count] or NULL: output sent to the next
                                               // layer
            const int64_t *reduction_ns;       // [layer_count] or NULL: to reduce the layer's
                                               // gradients between replicas, once per iteration
        };
        const int64_t *arrays[BAL_COST_ARRAY_COUNT]; // all of them, for code that names none
    };
} bal_layer_costs;

/// Bytes of the array with this number, whether it is there or not.
size_t bal_layer_costs_array_bytes(const bal_layer_costs *costs, int array);

/// F, B and W of each layer, means over the microbatches of one iteration.
typedef struct bal_layer_times {
    int layer_count;
    union {
        struct {
            int64_t *forward_ns;         // [layer_count]
            int64_t *backward_input_ns;  // [layer_count]
            int64_t *backward_weight_ns; // [layer_count]
        };
        int64_t *passes[BAL_COST_TIMES_COUNT]; // all of them
    };
} bal_layer_times;

/// Carves the arrays from memory, all 0.
void bal_layer_times_init(bal_layer_times *times, int layer_count, arena *memory);

/// Fills the means of costs, each rounded half up.
///
/// @param layers layer_count as at init
/// @return STATUS_INVALID if a time is negative or all of them together do not fit int64 / 4,
///         naming the layer; times are then unspecified.
/// Time O(layers x microbatches).
status bal_layer_times_fill(bal_layer_times *times, const bal_layer_costs *layers,
                            error_message *err);

/// F + B + W of a layer.
int64_t bal_layer_time_ns(const bal_layer_times *times, int layer);

/// Fills out with F, B and W in the proportions of like, so that each layer takes whole_ns. All of
/// a layer is forward where like has none of it.
///
/// @param whole_ns [layer_count], >= 0, rounded to the nearest ns; together within int64
/// @param out      like itself is allowed
void bal_layer_times_split(const double *whole_ns, const bal_layer_times *like,
                           bal_layer_times *out);

/// The costs of like with these times, the same for every microbatch. Bytes and parameters are
/// borrowed from like, times from times.
bal_layer_costs bal_layer_times_costs(const bal_layer_times *times, const bal_layer_costs *like);

/// The costs with one column of times: their means over the microbatches.
///
/// @return what bal_layer_times_fill refuses
status bal_layer_costs_mean(const bal_layer_costs *costs, arena *memory, bal_layer_costs *mean,
                            error_message *err);

/// Marks the layers that take time in any pass of any microbatch.
///
/// @param has_time [layer_count] layers that are marked stay so
void bal_layer_costs_mark(const bal_layer_costs *costs, bool *has_time);

/// Refuses a recording some of whose layers took no time at all: the files of their ranks are
/// missing.
///
/// @param has_time [layer_count] of all that was recorded
/// @return STATUS_INVALID: how many, and the first
status bal_layers_check_recorded(const bool *has_time, int layer_count, error_message *err);

/// Copies all arrays into memory.
bal_layer_costs bal_layer_costs_kept(const bal_layer_costs *costs, arena *memory);

/// Zero-initialise all but memory.
typedef struct bal_costs_copy {
    arena *memory; // of the copy alone
    bool is_taken;
    bal_layer_costs layers; // its arrays are the copy's own
} bal_costs_copy;

/// Copies all arrays.
void bal_costs_copy_take(bal_costs_copy *copy, const bal_layer_costs *layers);

/// Whether a copy is taken and all its numbers are those of layers.
bool bal_costs_copy_equals(const bal_costs_copy *copy, const bal_layer_costs *layers);

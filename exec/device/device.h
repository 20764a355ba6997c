/// What an op does on a rank: waits for its recorded duration, or computes.
///
/// A device holds the layers of its rank. The engine (rank.h) plays the program over it; the run
/// (execution.h) hands it new layers and asks it between iterations. A device sends nothing but the
/// outputs of its ops, and what it says in a group that it is given.
#pragma once

#include "balance/costs/layer_costs.h"
#include "balance/costs/placement.h"
#include "balance/run/training.h"
#include "balance/schedule/schedule.h"
#include "base/arena.h"
#include "base/status.h"
#include "exec/transport/group.h"

#include <stdbool.h>
#include <stdint.h>

/// One op of a rank. Places are those of the pipeline, not ranks of the machine or of the world.
typedef struct exec_step {
    bal_op op;
    int stage;
    int wait_place; // place that sends its input; its own: handed over in memory; -1: no input
    int wait_stage; // with wait_place: the stage whose output it is
    int send_place; // place that its output goes to; its own: in memory; -1: no output
    int send_stage; // with send_place: the stage that it goes to
} exec_step;

typedef struct exec_program {
    int place;
    int step_count;
    const exec_step *steps; // [step_count]
} exec_program;

/// Compiles the program of a place. The order must have passed bal_schedule_check: whoever leads
/// checks it once, so that no run begins that would get stuck.
///
/// @param place   in [0, schedule->rank_count)
/// @param program carved from memory. Time O(ops of the place).
void exec_program_compile(const bal_schedule *schedule, int place, arena *memory,
                          exec_program *program);

/// Checks that a schedule adds up the gradients of the weights in one order: W (or BW) of every
/// stage runs in ascending microbatches. Sums of floats depend on their order; with this one the
/// gradients have the same bits under every schedule. All families of balance/schedule/schedule.h
/// keep to it; an order written by hand may not.
///
/// @return STATUS_INVALID naming stage and ops. Time O(ops).
status exec_weight_order_check(const bal_schedule *schedule, error_message *err);

/// The output of an op on its way to the next stage, or to the stage before.
typedef struct exec_payload {
    void *bytes; // memory of the host, borrowed from the device
    int64_t byte_count;
} exec_payload;

/// An iteration as all ranks know it when it begins.
typedef struct exec_iteration {
    int iteration;                // of the run, from 0
    const bal_layer_costs *costs; // of this rank's replica, for a modelled device; else NULL
    double rank_time_factor;      // of this rank; 1: not slow
    const exec_group *replicas; // ranks of the same place, which ops may exchange with; NULL: none
    bal_reduction_overlap reduction_overlap; // how gradients are reduced while ops still run
} exec_iteration;

/// What a device knows of its layers after an iteration. Rows are its layers in model order; the
/// memory is the device's until its next begin or hold.
typedef struct exec_layer_report {
    int layer_count;
    int *layer;           // [layer_count] numbers in the model, ascending
    int microbatch_count; // columns of the times
    int64_t *forward_ns;  // [layer_count][microbatch_count]
    int64_t *backward_input_ns;
    int64_t *backward_weight_ns; // all 0 where the program has no split
    int64_t *exchange_ns;        // of forward_ns: exchanging rows with ranks that share experts,
                                 // most of it waiting for the busiest
    int64_t *parameters;         // [layer_count] that an update changes
    int64_t *state_bytes;        // [layer_count]
    int64_t *activation_bytes;   // [layer_count] held from F to B by the largest microbatch
    int64_t *gradient_bytes;     // [layer_count] held from B to W by the largest microbatch
    int64_t *message_bytes;      // [layer_count] of its output
    int64_t *load_count; // [layer_count][microbatch_count][load_columns] of the mechanism: tokens
                         // per expert, rows, kept entries, live blocks; zeros of layers without
    int load_columns;    // 0: none
} exec_layer_report;

enum { EXEC_REPORT_TIMES = 4, EXEC_REPORT_ARRAYS = 10 };

/// Lists the arrays as they stand in the struct, the times first and the loads last.
///
/// @param columns out: numbers of each per layer
void exec_layer_report_list(exec_layer_report *report, int64_t **arrays[EXEC_REPORT_ARRAYS],
                            int columns[EXEC_REPORT_ARRAYS]);

/// Makes room for all arrays, zeros, given the counts.
void exec_layer_report_carve(exec_layer_report *report, arena *memory);

typedef struct exec_device exec_device;

/// The functions of a device, which live as long as it.
typedef struct exec_device_table {
    const char *name;     // "timed", "cpu", "cuda"
    bool is_modelled;     // ops take the duration they are said to: the engine sleeps for it
    bool is_asynchronous; // play only starts an op; begin and end are known at finish
    bool learns;          // has parameters: initialise to loss below, and costs are measured

    /// The layers of this rank from now on: those of its chunks under the plan, whose place it is.
    /// Layers that it held before and does not hold now have been dropped; new ones are empty until
    /// unpack or initialise.
    ///
    /// @param plan             copied where it is needed
    /// @param place            -1: none, all memory is freed
    /// @param microbatch_count of every iteration until the next hold
    status (*hold)(exec_device *device, const bal_placed_partition *plan, int place,
                   int microbatch_count, error_message *err);

    /// @param iteration costs are borrowed until the next begin or hold
    status (*begin)(exec_device *device, const exec_iteration *iteration, error_message *err);

    /// Where the input of a step is to be put before it is played.
    ///
    /// @param step  one with wait_place >= 0 that is not its own
    /// @param bytes out: memory of the device until the step has been played; that of an F is apart
    ///              from that of a B: both of an overlapped pair are received before it is played
    /// @return its size: an input that is longer is a failure
    int64_t (*input_place)(exec_device *device, const exec_step *step, void **bytes);

    /// Plays one op.
    ///
    /// @param input       what was received at input_place; NULL where the step has no input or it
    ///                    is handed over in memory
    /// @param output      out where the step has an output that goes to another place: its bytes
    ///                    are borrowed until the next play of an F, or of a B
    /// @param duration_ns out: what it took, or of a modelled device takes; unspecified of an
    ///                    asynchronous one
    status (*play)(exec_device *device, const exec_step *step, const exec_payload *input,
                   exec_payload *output, int64_t *duration_ns, error_message *err);

    /// Ends the iteration.
    ///
    /// @param begin_ns [steps played] out of an asynchronous device, in their order, ns since begin
    ///                 returned; otherwise neither read nor written
    /// @param end_ns   likewise
    status (*finish)(exec_device *device, int64_t *begin_ns, int64_t *end_ns, error_message *err);

    void (*report)(const exec_device *device, exec_layer_report *report);

    /// The state of a layer as it migrates: parameters, moments, what the mechanism keeps. Of a
    /// modelled device a few bytes that tell which layer it is, so that real messages travel.
    int64_t (*packed_bytes)(const exec_device *device, int layer);
    status (*pack)(exec_device *device, int layer, void *bytes, error_message *err);

    /// Begins to fill a layer that is held. STATUS_FORMAT if the bytes are not those of this layer.
    status (*unpack)(exec_device *device, int layer, const void *bytes, int64_t byte_count,
                     error_message *err);

    /// Where the transport carries device memory: sends the arrays of a layer's state to another
    /// rank, or receives them for a later unpack, while leaves_out_arrays. NULL: packed state
    /// is all there is.
    ///
    /// @param byte_count what shipped_bytes is at the sender
    status (*ship)(exec_device *device, exec_endpoint *endpoint, int layer, int rank, bool is_send,
                   int64_t byte_count, error_message *err);
    int64_t (*shipped_bytes)(const exec_device *device, int layer);

    void (*destroy)(exec_device *device);

    // The rest only where the device learns; else NULL.

    /// The clock that its work is timed by, from any origin: that of the host, or where ops count
    /// the time that their thread computes, that time.
    int64_t (*now_ns)(const exec_device *device);

    /// Begins to fill a layer that is held with fresh parameters, which depend on the seed and the
    /// layer.
    status (*initialise)(exec_device *device, int layer, error_message *err);

    /// Waits until the layers are there that unpack and initialise have begun to fill.
    status (*settle)(exec_device *device, error_message *err);

    /// Sums the gradients of this rank's layers over the replicas, in their order, or ends what
    /// ops have begun of that.
    ///
    /// @param replicas the ranks of the same place
    status (*reduce)(exec_device *device, const exec_group *replicas, error_message *err);

    /// Clips the gradients by their norm and updates all layers of this rank.
    ///
    /// @param pipeline all active ranks of this replica; the norm is summed in the order of layers
    /// @param norm     out: the same bits on every rank
    status (*step)(exec_device *device, const exec_group *pipeline, double *norm,
                   error_message *err);

    /// What the mechanism does between two iterations: prunes, freezes. Collective over pipeline.
    ///
    /// @param changed out: loads may be others from the next iteration on; the same on all ranks
    status (*adapt)(exec_device *device, int iteration, const exec_group *pipeline, bool *changed,
                    error_message *err);

    /// The mean over the microbatches of the losses of the iteration, added in their order.
    ///
    /// @return false, and loss untouched, where the head is not on this rank
    bool (*loss)(const exec_device *device, double *loss);
} exec_device_table;

/// The first member of every device.
struct exec_device {
    const exec_device_table *table;
    bool leaves_out_arrays; // packed state is without what ship carries; set by the run
    int64_t op_begin_ns;    // nominal clock: of the op to be played, by its deadlines; set by the
                            // engine
};

/// Makes the device that only takes time: every op what its layers cost.
///
/// @param layer_count of the model
/// @return released with its table's destroy
exec_device *exec_device_timed_create(int layer_count);

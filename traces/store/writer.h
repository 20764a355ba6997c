/// Writing a load trace: what every layer cost in every sampled iteration.
#pragma once

#include "base/status.h"
#include "traces/store/store.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    TRACE_NOT_RECORDED = -1, ///< in any number below: stored as NULL
    TRACE_MEAN = -1,         ///< as a microbatch: the mean over the iteration's microbatches
    TRACE_LAYERS_MAX = 1 << 16,
    TRACE_MICROBATCHES_MAX = 1 << 20,
    TRACE_CELLS_MAX = 1 << 26, ///< layers x microbatches
    TRACE_RANKS_MAX = 1 << 16,
    TRACE_NAME_BYTES_MAX = 255, ///< of a trace's name; no control characters in it
    TRACE_ITERATIONS_MAX = 2000000000
};
/// The largest time or size: 2^53, beyond which JSON readers round.
#define TRACE_VALUE_MAX (INT64_C(1) << 53)
/// The latest time of a clock, which may begin anywhere: differences of two still fit.
#define TRACE_CLOCK_MAX (INT64_C(1) << 61)

typedef enum trace_source_kind {
    TRACE_SOURCE_CSV,
    TRACE_SOURCE_KINETO,
    TRACE_SOURCE_MODEL,
    TRACE_SOURCE_EXEC,
    TRACE_SOURCE_COUNT
} trace_source_kind;

/// How a quantity of a trace came to be known.
typedef enum trace_known {
    TRACE_UNKNOWN,
    TRACE_MEASURED,
    TRACE_FITTED,
    TRACE_PRESET,
    TRACE_ASSUMED,
    TRACE_KNOWN_COUNT
} trace_known;

extern const char *const trace_source_names[TRACE_SOURCE_COUNT]; ///< "csv", "kineto", ...
extern const char *const trace_known_names[TRACE_KNOWN_COUNT];   ///< "unknown", "measured", ...

/// What an import does with time in which the device stood still or only communicated.
typedef enum trace_gaps {
    TRACE_GAPS_DEFAULT, ///< profiles: charge; a CSV, whose busy_ns is what its writer measured:
                        ///< leave
    TRACE_GAPS_CHARGE,  ///< ops are charged for what fell in them
    TRACE_GAPS_LEAVE    ///< ops cost their compute alone
} trace_gaps;

/// A trace as a whole. Start from trace_info_default and fill by name. Strings are borrowed for the
/// call by trace_writer_begin, and from the arena where the store answers with one.
typedef struct trace_info {
    int64_t trace_id;         // out
    trace_status status;      // out
    const char *name;         // unique among the traces of a store
    trace_source_kind source; // what kind of input it came from
    const char *device;       // "cuda", "cpu", or NULL: not known
    int layer_count;          // 0 at begin: the largest layer put + 1
    int microbatch_count;     // M; 0 at begin: the largest microbatch put + 1, or 0 if none was
    int64_t tokens_per_microbatch; // or TRACE_NOT_RECORDED
    bool embedding;                // layer 0 is the embedding
    bool head;                     // the last layer is the LM head
    double backward_split; // in [0, 1]: the share of a full backward that readers take for B; the
                           // embedding has no B, all of it is W. Negative: no assumption, a full
                           // backward stays one
    trace_gaps gaps;       // of an import
    bool has_split;        // out: no full backward was put
    trace_known times;     // how the quantities are known
    trace_known split;
    trace_known communication;
    trace_known activations;
    trace_known parameters;
    trace_known messages;
    const char *recorded_by;  // free text: how and where it was recorded; or NULL
    const char *tool_version; // of the program that writes it, or NULL
    const char *imported_at;  // out: UTC, ISO 8601
    const char *host;         // out: where it was written
    int64_t first_iteration;  // out: of the samples; -1 if there is none
    int64_t last_iteration;   // out
    int64_t iteration_count;  // out: sampled ones
    int microbatch_columns;   // out: 1 if all rows are means, else microbatch_count
    bool has_gaps;            // out: ops are charged for gaps
    int64_t outside_ns; // out: that an iteration lasts longer than its ops: TRACE_NOTE_OUTSIDE
} trace_info;

trace_info trace_info_default(void);

/// What does not change from iteration to iteration.
typedef struct trace_layer {
    int layer;
    int64_t parameters;    // count, or TRACE_NOT_RECORDED
    int64_t state_bytes;   // weights, gradients, optimizer; or TRACE_NOT_RECORDED
    int64_t message_bytes; // output of one microbatch to the next layer; or TRACE_NOT_RECORDED
} trace_layer;

/// Where the time of a rank went that is no compute of an op. The first ones are gaps, in which the
/// device (the CPU, where there is no other) stood still or only communicated.
typedef enum trace_gap {
    TRACE_GAP_HOST,          ///< the host was not ready to launch
    TRACE_GAP_LAUNCH,        ///< from a launch until it began to run
    TRACE_GAP_LOADING,       ///< the data loader was awaited
    TRACE_GAP_COLLECTION,    ///< garbage collection of Python
    TRACE_GAP_COMMUNICATION, ///< communication that nothing hid
    TRACE_GAP_WAITING,       ///< for other ranks: the schedule's own
    TRACE_GAP_OPTIMIZER,     ///< what an annotation of the optimizer launched
    TRACE_GAP_REDUCTION,     ///< of gradients
    TRACE_GAP_OUTSIDE,       ///< work that no annotation launched
    TRACE_GAP_COUNT
} trace_gap;

/// "host", "launch", "data loading", "garbage collection", "exposed communication", "waiting",
/// "optimizer", "gradient reduction", "work outside annotations".
extern const char *const trace_gap_names[TRACE_GAP_COUNT];

/// Ops of a recorded timeline; the first are the phases of a layer.
typedef enum trace_op_kind {
    TRACE_OP_FORWARD,
    TRACE_OP_BACKWARD_INPUT,
    TRACE_OP_BACKWARD_WEIGHT,
    TRACE_OP_BACKWARD,
    TRACE_OP_RECOMPUTE,
    TRACE_OP_SEND_FORWARD,
    TRACE_OP_RECV_FORWARD,
    TRACE_OP_SEND_BACKWARD,
    TRACE_OP_RECV_BACKWARD,
    TRACE_OP_REDUCE_GRADIENTS,
    TRACE_OP_OPTIMIZER_STEP,
    TRACE_OP_LOCAL,    ///< anything else that a rank does by itself
    TRACE_OP_REPLICAS, ///< a collective of one stage over all replicas
    TRACE_OP_ENDS,     ///< a collective of the first and the last stage of a replica
    TRACE_OP_PIPELINE, ///< a collective of all stages of a replica
    TRACE_OP_WORLD,    ///< a collective of all ranks
    TRACE_OP_COUNT,
    TRACE_PHASE_COUNT = TRACE_OP_RECOMPUTE + 1
} trace_op_kind;

/// "F", "B", "W", "BW", "R", "SEND_F", "RECV_F", "SEND_B", "RECV_B", "REDUCE_GRAD", "STEP",
/// "LOCAL", "REPLICAS", "ENDS", "PIPELINE", "WORLD".
extern const char *const trace_op_kind_names[TRACE_OP_COUNT];

/// One row: a layer in one iteration and microbatch. Times are of one microbatch; the phases do
/// not overlap (recompute is not part of the backward's time). What did not run was not recorded.
typedef struct trace_load {
    int iteration;
    int layer;
    int microbatch;                     // or TRACE_MEAN, then in all rows of the trace
    int64_t time_ns[TRACE_PHASE_COUNT]; // by phase; a full backward where B and W are not told
                                        // apart; recompute: the forward again, inside the backward
    int64_t charge_ns[TRACE_PHASE_COUNT]; // what replays take instead, where it is recorded: wall
                                          // time that was the phase's alone, with the gaps that
                                          // fell in it and without what ran beside other phases
    int64_t communication_ns;             // communication kernels inside the windows of all phases
    int64_t span_ns;                      // wall time of the windows of all phases
    int64_t activation_bytes;             // kept from F to its B
} trace_load;

/// The note that holds how much longer an iteration lasts, on average, than a replay of what its
/// ops are charged, in ns: what is outside ops and on the critical path.
#define TRACE_NOTE_OUTSIDE "outside ops, ns per iteration"

/// A row in which nothing is recorded yet.
trace_load trace_load_init(int iteration, int layer, int microbatch);

/// One op of one rank. Ranks' clocks are already aligned.
typedef struct trace_op {
    int rank;
    int iteration;
    trace_op_kind kind;
    int stage;      // or TRACE_NOT_RECORDED
    int layer;      // or TRACE_NOT_RECORDED
    int microbatch; // or TRACE_NOT_RECORDED
    int64_t begin_ns;
    int64_t end_ns;  // >= begin_ns
    int64_t busy_ns; // of it the device computed; or TRACE_NOT_RECORDED
    int replica;
    int chunk; // of the rank's model parts
    int name;  // as trace_writer_put_op_name numbered it; 0: its kind says it all
} trace_op;

/// A trace that is being written. Several may be written to one store.
typedef struct trace_writer trace_writer;

/// Begins a trace. It is committed as running at once, so that a writer that dies leaves a sign.
/// An interrupted trace of the same name is replaced.
///
/// @param writer owned by the caller; ends with trace_writer_finish or trace_writer_abort, before
///               the store is closed
/// @return STATUS_INVALID: the name is empty, too long, taken or holds control characters, a count
/// is outside its limits; STATUS_IO,
///         STATUS_FORMAT as trace_store_open
status trace_writer_begin(trace_store *store, const trace_info *info, trace_writer **writer,
                          error_message *err);

/// The trace's number in its store.
int64_t trace_writer_id(const trace_writer *writer);

/// Puts what is recorded in load. Puts for the same (iteration, layer, microbatch), in any order,
/// complete one row: communication and span add up, anything else must not be there yet.
///
/// @return STATUS_INVALID naming the place: outside the limits (so are sums), recorded twice,
///         a full backward beside B or W, means beside microbatches. The trace can go on after it.
status trace_writer_put_load(trace_writer *writer, const trace_load *load, error_message *err);

/// Puts properties of a layer; once per layer. Layers without one have none recorded.
status trace_writer_put_layer(trace_writer *writer, const trace_layer *layer, error_message *err);

/// Puts an op of a timeline; its times within TRACE_CLOCK_MAX, the end not before the begin.
status trace_writer_put_op(trace_writer *writer, const trace_op *op, error_message *err);

/// What a recorder called some of the ops. @param name from 1; each is put once
status trace_writer_put_op_name(trace_writer *writer, int name, const char *text,
                                error_message *err);

/// Names an input file; in order.
status trace_writer_put_input(trace_writer *writer, const trace_input_file *file,
                              error_message *err);

/// Makes all that was put readable through the store of the writer, before the trace is complete.
status trace_writer_flush(trace_writer *writer, error_message *err);

/// Keeps a key and a text beside the trace. A key that is there already gets the new text.
status trace_writer_put_note(trace_writer *writer, const char *key, const char *text,
                             error_message *err);

/// What is known only after reading: how quantities are known, embedding, head, tokens, device,
/// M and backward_split are taken from info; its name and out fields are ignored.
status trace_writer_set_info(trace_writer *writer, const trace_info *info, error_message *err);

/// Commits the trace as complete. The writer is gone afterwards, also on failure; a trace that
/// fails here is aborted.
///
/// @return STATUS_INVALID: no load was put, or a row is outside the counts given at begin
status trace_writer_finish(trace_writer *writer, error_message *err);

/// Takes the trace out of the store again. NULL is allowed.
void trace_writer_abort(trace_writer *writer);

/// Commits the trace as complete, as trace_writer_finish, but takes nothing out of the store where
/// that fails: what was committed before stays, as an interrupted trace. For a recording that
/// ended early, perhaps on a full disk: whole iterations of all layers were put, and the last is
/// taken out again if only part of it was committed. The writer is gone afterwards.
///
/// @return STATUS_INVALID: no whole iteration was committed; the trace is then aborted
status trace_writer_keep(trace_writer *writer, error_message *err);

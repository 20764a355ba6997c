#include "sim/lanes.h"

#include <assert.h>
#include <string.h>

enum { LINE_BYTES = 64 };

/// Eight lanes, for processors with vectors so wide; and four for all others. A compiler takes sums
/// of wider vectors apart into what there is, but comparisons only number by number.
typedef int64_t wide_vector __attribute__((vector_size(LINE_BYTES), may_alias));
typedef int64_t narrow_vector __attribute__((vector_size(LINE_BYTES / 2), may_alias));
_Static_assert(sizeof(wide_vector) == SIM_LANES_STEP * sizeof(int64_t), "a line is one step");

int sim_lanes_suited(int64_t scenario_count, int64_t lane_bytes)
{
    enum { BEST = 32 }; // with 64 the rows of 24 ranks leave first-level cache
    const int64_t bytes_max = INT64_C(256) << 20;
    int lanes = SIM_LANES_STEP;
    while (lanes < BEST && lanes < scenario_count && 2 * lanes * lane_bytes <= bytes_max) {
        lanes *= 2;
    }
    return lanes;
}

int64_t sim_lanes_lane_bytes(const sim_order *order, bool has_columns, bool has_delays)
{
    const int64_t microbatches = order->schedule->microbatch_count;
    const int64_t columns = (has_columns ? microbatches : 1) + (has_delays ? microbatches : 1);
    const int64_t rows =
        order->row_count * columns + order->slot_count + 2 * (int64_t)order->schedule->rank_count;
    return rows * (int64_t)sizeof(int64_t);
}

/// Rows that begin at a cache line. NULL if out of memory.
static int64_t *carve_rows(arena *memory, int64_t row_count, int lane_count)
{
    const size_t bytes = (size_t)row_count * (size_t)lane_count * sizeof(int64_t);
    unsigned char *taken = arena_array(memory, bytes + LINE_BYTES, 1);
    if (taken == NULL) return NULL;
    const size_t behind = (uintptr_t)taken % LINE_BYTES;
    return (int64_t *)(void *)(taken + (behind > 0 ? LINE_BYTES - behind : 0));
}

status sim_lanes_init(const sim_order *order, int lane_count, bool has_columns, bool has_delays,
                      arena *memory, sim_lanes *lanes)
{
    const int ranks = order->schedule->rank_count;
    const int microbatches = order->schedule->microbatch_count;
    assert(lane_count == 8 || lane_count == 16 || lane_count == 32 || lane_count == SIM_LANES_MAX);
    sim_lanes filled = {
        .order = order,
        .lane_count = lane_count,
        .column_count = has_columns ? microbatches : 1,
        .message_columns = has_delays ? microbatches : 1,
        .start_ns = carve_rows(memory, ranks, lane_count),
        .end_ns = carve_rows(memory, ranks, lane_count),
        .arrival_ns = carve_rows(memory, order->slot_count, lane_count),
    };
    const int64_t rows = order->row_count;
    filled.op_ns = carve_rows(memory, rows * filled.column_count, lane_count);
    filled.message_ns = carve_rows(memory, rows * filled.message_columns, lane_count);
    *lanes = filled;
    return STATUS_OK;
}

static int64_t op_ns_of(const bal_stage_costs *costs, bal_op_kind kind, int64_t cell)
{
    switch (kind) {
    case OP_FORWARD:
        return costs->forward_ns[cell];
    case OP_BACKWARD_INPUT:
        return costs->backward_input_ns[cell];
    case OP_BACKWARD_WEIGHT:
        return costs->backward_weight_ns[cell];
    default:
        return costs->backward_input_ns[cell] + costs->backward_weight_ns[cell];
    }
}

/// Sets what the messages of a row take.
static void set_messages(const sim_lanes *lanes, int lane, const bal_stage_costs *costs, int row)
{
    const sim_row_source source = lanes->order->row_sources[row];
    const bool is_forward = source.kind == OP_FORWARD;
    const int64_t *send_ns = is_forward ? costs->send_forward_ns : costs->send_backward_ns;
    const int64_t first = (is_forward ? 0 : costs->stage_count) + source.stage;
    int64_t *out = lanes->message_ns + (int64_t)row * lanes->message_columns * lanes->lane_count;
    for (int column = 0; column < lanes->message_columns; column++) {
        const int64_t cell =
            first * costs->microbatch_count + (costs->microbatch_count > 1 ? column : 0);
        const int64_t delay_ns =
            costs->message_delay_ns != NULL ? costs->message_delay_ns[cell] : 0;
        out[(int64_t)column * lanes->lane_count + lane] =
            source.has_message ? send_ns[source.stage] + delay_ns : 0;
    }
}

void sim_lanes_set(sim_lanes *lanes, int lane, const bal_stage_costs *costs)
{
    const int columns = costs->microbatch_count;
    assert(lane >= 0 && lane < lanes->lane_count);
    assert(columns == 1 || columns == lanes->column_count);
    assert(costs->message_delay_ns == NULL || columns == 1 || columns == lanes->message_columns);
    for (int row = 0; row < lanes->order->row_count; row++) {
        const sim_row_source source = lanes->order->row_sources[row];
        int64_t *out = lanes->op_ns + (int64_t)row * lanes->column_count * lanes->lane_count + lane;
        for (int column = 0; column < lanes->column_count; column++) {
            const int64_t cell = (int64_t)source.stage * columns + (columns > 1 ? column : 0);
            out[(int64_t)column * lanes->lane_count] =
                source.is_joint ? 0 : op_ns_of(costs, (bal_op_kind)source.kind, cell);
        }
        set_messages(lanes, lane, costs, row);
    }
}

/// What an op does to a row of lanes.
typedef struct lane_op {
    int64_t *clock_ns;         // end of the op before it, then its own
    const int64_t *arrival_ns; // of the message it waits for
    int64_t *sent_ns;          // arrival of its own; may be the same row
    const int64_t *op_ns;
    const int64_t *message_ns;
} lane_op;

static inline __attribute__((always_inline)) void run_wide(lane_op op, int lane_count)
{
    for (int lane = 0; lane < lane_count; lane += SIM_LANES_STEP) {
        const wide_vector free_ns = *(const wide_vector *)(const void *)(op.clock_ns + lane);
        const wide_vector arrival_ns = *(const wide_vector *)(const void *)(op.arrival_ns + lane);
        const wide_vector is_later = arrival_ns > free_ns;
        const wide_vector end_ns = ((arrival_ns & is_later) | (free_ns & ~is_later)) +
                                   *(const wide_vector *)(const void *)(op.op_ns + lane);
        *(wide_vector *)(void *)(op.clock_ns + lane) = end_ns;
        *(wide_vector *)(void *)(op.sent_ns + lane) =
            end_ns + *(const wide_vector *)(const void *)(op.message_ns + lane);
    }
}

static inline __attribute__((always_inline)) void run_narrow(lane_op op, int lane_count)
{
    for (int lane = 0; lane < lane_count; lane += SIM_LANES_STEP / 2) {
        const narrow_vector free_ns = *(const narrow_vector *)(const void *)(op.clock_ns + lane);
        const narrow_vector arrival_ns =
            *(const narrow_vector *)(const void *)(op.arrival_ns + lane);
        const narrow_vector is_later = arrival_ns > free_ns;
        const narrow_vector end_ns = ((arrival_ns & is_later) | (free_ns & ~is_later)) +
                                     *(const narrow_vector *)(const void *)(op.op_ns + lane);
        *(narrow_vector *)(void *)(op.clock_ns + lane) = end_ns;
        *(narrow_vector *)(void *)(op.sent_ns + lane) =
            end_ns + *(const narrow_vector *)(const void *)(op.message_ns + lane);
    }
}

/// The recurrence. The callers pass constants for all but the lanes, so that each gets its own
/// loop, and are compiled for different processors.
static inline __attribute__((always_inline)) void
play_rows(const sim_lanes *lanes, int lane_count, bool is_wide, bool has_columns, bool has_delays)
{
    const sim_step *restrict next = lanes->order->steps;
    const sim_step *const stop = next + lanes->order->step_count;
    const size_t columns = (size_t)lanes->column_count;
    const size_t message_columns = (size_t)lanes->message_columns;
    const size_t width = (size_t)lane_count;
    for (; next < stop; next++) {
        const sim_step step = *next;
        const size_t row = sim_step_row(step);
        const size_t microbatch = sim_step_microbatch(step);
        const size_t op_row = has_columns ? row * columns + microbatch : row;
        const size_t message_row = has_delays ? row * message_columns + microbatch : row;
        const lane_op op = {
            .clock_ns = lanes->end_ns + sim_step_rank(step) * width,
            .arrival_ns = lanes->arrival_ns + sim_step_wait(step) * width,
            .sent_ns = lanes->arrival_ns + sim_step_send(step) * width,
            .op_ns = lanes->op_ns + op_row * width,
            .message_ns = lanes->message_ns + message_row * width,
        };
        if (is_wide) {
            run_wide(op, lane_count);
        } else {
            run_narrow(op, lane_count);
        }
    }
}

static inline __attribute__((always_inline)) void play_lanes(const sim_lanes *lanes, int lane_count,
                                                             bool is_wide)
{
    if (lanes->message_columns > 1) {
        play_rows(lanes, lane_count, is_wide, lanes->column_count > 1, true);
    } else if (lanes->column_count > 1) {
        play_rows(lanes, lane_count, is_wide, true, false);
    } else {
        play_rows(lanes, lane_count, is_wide, false, false);
    }
}

static inline __attribute__((always_inline)) void play_width(const sim_lanes *lanes, bool is_wide)
{
    switch (lanes->lane_count) {
    case 8:
        play_lanes(lanes, 8, is_wide);
        break;
    case 16:
        play_lanes(lanes, 16, is_wide);
        break;
    case 32:
        play_lanes(lanes, 32, is_wide);
        break;
    default:
        play_lanes(lanes, SIM_LANES_MAX, is_wide);
        break;
    }
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static void play_avx2(const sim_lanes *lanes)
{
    play_width(lanes, false);
}

__attribute__((target("avx512f"))) static void play_avx512(const sim_lanes *lanes)
{
    play_width(lanes, true);
}

sim_vectors sim_vectors_here(void)
{
    if (__builtin_cpu_supports("avx512f")) return SIM_VECTORS_AVX512;
    return __builtin_cpu_supports("avx2") ? SIM_VECTORS_AVX2 : SIM_VECTORS_ANY;
}
#else
static void play_avx2(const sim_lanes *lanes)
{
    play_width(lanes, false);
}

static void play_avx512(const sim_lanes *lanes)
{
    play_width(lanes, true);
}

sim_vectors sim_vectors_here(void)
{
    return SIM_VECTORS_ANY;
}
#endif

void sim_lanes_play_with(sim_lanes *lanes, sim_vectors vectors)
{
    const size_t lane_bytes = (size_t)lanes->lane_count * sizeof *lanes->end_ns;
    const size_t ranks = (size_t)lanes->order->schedule->rank_count;
    assert(vectors <= sim_vectors_here());
    memcpy(lanes->end_ns, lanes->start_ns, ranks * lane_bytes);
    memset(lanes->arrival_ns + (int64_t)SIM_SLOT_NONE * lanes->lane_count, 0, lane_bytes);
    switch (vectors) {
    case SIM_VECTORS_AVX512:
        play_avx512(lanes);
        break;
    case SIM_VECTORS_AVX2:
        play_avx2(lanes);
        break;
    default:
        play_width(lanes, false);
        break;
    }
}

void sim_lanes_play(sim_lanes *lanes)
{
    sim_lanes_play_with(lanes, sim_vectors_here());
}

void sim_lanes_go_on(sim_lanes *lanes)
{
    const size_t ranks = (size_t)lanes->order->schedule->rank_count;
    memcpy(lanes->start_ns, lanes->end_ns,
           ranks * (size_t)lanes->lane_count * sizeof *lanes->end_ns);
}

void sim_lanes_rewind(sim_lanes *lanes)
{
    const size_t ranks = (size_t)lanes->order->schedule->rank_count;
    memset(lanes->start_ns, 0, ranks * (size_t)lanes->lane_count * sizeof *lanes->start_ns);
}

void sim_lanes_summarise(const sim_lanes *lanes, int lane, const bal_stage_costs *costs,
                         sim_summary *summary)
{
    const sim_order *order = lanes->order;
    int64_t first_ns = INT64_MAX;
    int64_t last_ns = 0;
    summary->span_ns = 0;
    for (int rank = 0; rank < order->schedule->rank_count; rank++) {
        const int64_t cell = (int64_t)rank * lanes->lane_count + lane;
        const int64_t wait = (int64_t)order->first_wait[rank] * lanes->lane_count + lane;
        const int64_t arrived_ns = lanes->arrival_ns[wait];
        const int64_t start_ns = lanes->start_ns[cell];
        const int64_t begin_ns = arrived_ns > start_ns ? arrived_ns : start_ns;
        const int64_t end_ns = lanes->end_ns[cell];
        summary->busy_ns[rank] = sim_rank_busy_ns(order->schedule, costs, rank);
        summary->first_begin_ns[rank] = begin_ns;
        summary->last_end_ns[rank] = end_ns;
        if (begin_ns < first_ns) first_ns = begin_ns;
        if (end_ns > last_ns) last_ns = end_ns;
        if (end_ns - begin_ns > summary->span_ns) summary->span_ns = end_ns - begin_ns;
    }
    summary->makespan_ns = last_ns - first_ns;
}

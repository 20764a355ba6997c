#include "sim/lanes.h"

#include <assert.h>
#include <string.h>

enum { LINE_BYTES = 64 };

int sim_lanes_suited(int64_t scenario_count, int64_t lane_bytes)
{
    const int64_t bytes_max = INT64_C(256) << 20;
    return scenario_count > SIM_LANES_MIN && SIM_LANES_MAX * lane_bytes <= bytes_max
               ? SIM_LANES_MAX
               : SIM_LANES_MIN;
}

int64_t sim_lanes_lane_bytes(const sim_order *order, bool has_columns, bool has_delays)
{
    const int64_t microbatches = order->schedule->microbatch_count;
    const int64_t columns = (has_columns ? microbatches : 1) + (has_delays ? microbatches : 1);
    const int64_t rows =
        order->row_count * columns + order->slot_count + 2 * (int64_t)order->schedule->rank_count;
    return rows * (int64_t)sizeof(int64_t);
}

/// Rows that begin at a cache line.
static int64_t *carve_rows(arena *memory, int64_t row_count, int lane_count)
{
    const size_t bytes = (size_t)row_count * (size_t)lane_count * sizeof(int64_t);
    unsigned char *taken = arena_array(memory, bytes + LINE_BYTES, 1);
    return (int64_t *)(void *)(taken + (LINE_BYTES - (uintptr_t)taken % LINE_BYTES) % LINE_BYTES);
}

void sim_lanes_init(const sim_order *order, int lane_count, bool has_columns, bool has_delays,
                    arena *memory, sim_lanes *lanes)
{
    const int ranks = order->schedule->rank_count;
    const int microbatches = order->schedule->microbatch_count;
    assert(lane_count == SIM_LANES_MIN || lane_count == SIM_LANES_MAX);
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

/// The recurrence. The callers pass constants for all but the lanes, so that each gets its own
/// loop.
static inline __attribute__((always_inline)) void play_rows(const sim_lanes *lanes, int lane_count,
                                                            bool has_columns, bool has_delays)
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
        int64_t *restrict clock_ns = lanes->end_ns + sim_step_rank(step) * width;
        const int64_t *restrict op_ns = lanes->op_ns + op_row * width;
        const int64_t *restrict message_ns = lanes->message_ns + message_row * width;
        const int64_t *arrival_ns = lanes->arrival_ns + sim_step_wait(step) * width;
        int64_t *sent_ns = lanes->arrival_ns + sim_step_send(step) * width;
        // arrival_ns and sent_ns are different rows, or the same one: lanes do not meet.
#if defined(__clang__)
#pragma clang loop vectorize(assume_safety)
#else
#pragma GCC ivdep
#endif
        for (size_t lane = 0; lane < width; lane++) {
            const bool is_late = arrival_ns[lane] > clock_ns[lane];
            clock_ns[lane] = (is_late ? arrival_ns[lane] : clock_ns[lane]) + op_ns[lane];
            sent_ns[lane] = clock_ns[lane] + message_ns[lane];
        }
    }
}

static inline __attribute__((always_inline)) void play_width(const sim_lanes *lanes, int lane_count)
{
    if (lanes->message_columns > 1) {
        play_rows(lanes, lane_count, lanes->column_count > 1, true);
    } else if (lanes->column_count > 1) {
        play_rows(lanes, lane_count, true, false);
    } else {
        play_rows(lanes, lane_count, false, false);
    }
}

#if defined(__x86_64__)
__attribute__((target_clones("avx512f", "avx2", "default")))
#endif
static void
play_lanes(const sim_lanes *lanes)
{
    if (lanes->lane_count == SIM_LANES_MIN) {
        play_width(lanes, SIM_LANES_MIN);
    } else {
        play_width(lanes, SIM_LANES_MAX);
    }
}

void sim_lanes_play(sim_lanes *lanes)
{
    const size_t lane_bytes = (size_t)lanes->lane_count * sizeof *lanes->end_ns;
    memcpy(lanes->end_ns, lanes->start_ns, (size_t)lanes->order->schedule->rank_count * lane_bytes);
    memset(lanes->arrival_ns + (int64_t)SIM_SLOT_NONE * lanes->lane_count, 0, lane_bytes);
    play_lanes(lanes);
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

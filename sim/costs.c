#include "sim/costs.h"

#include "sim/network.h"

#include <assert.h>
#include <inttypes.h>

/// Adds a time, counted times, to a total that may not pass INT64_MAX / 4.
static status add_time(int64_t *total, int64_t ns, int64_t times, const char *what, int stage,
                       error_message *err)
{
    const int64_t limit = INT64_MAX / 4;
    if (ns < 0) {
        return error_set(err, STATUS_INVALID, "%s of stage %d is negative: %" PRId64 " ns", what,
                         stage, ns);
    }
    if (ns > (limit - *total) / times) {
        return error_set(err, STATUS_INVALID,
                         "%s of stage %d: with %" PRId64 " ns all ops and messages of the "
                         "iteration together take longer than %" PRId64 " ns",
                         what, stage, ns, limit);
    }
    *total += ns * times;
    return STATUS_OK;
}

/// Adds what the ops of one kind and stage take, or their messages: a time for each column.
static status add_row(int64_t *total, const int64_t *row, int columns, int microbatch_count,
                      const char *what, int stage, error_message *err)
{
    for (int column = 0; column < columns; column++) {
        TRY(add_time(total, row[column], columns == 1 ? microbatch_count : 1, what, stage, err));
    }
    return STATUS_OK;
}

/// All bits that are set in some time of an array: at least the largest, less than twice it, and
/// negative if one is.
static int64_t bits_of(const int64_t *ns, int64_t count)
{
    int64_t bits = 0;
    for (int64_t index = 0; index < count; index++) {
        bits |= ns[index];
    }
    return bits;
}

/// Whether every time is so small that their sum cannot come near the limit, whatever they are. One
/// cheap pass that spares nearly all costs the exact sum, which takes longer than the play.
static bool are_small(const bal_schedule *schedule, const bal_stage_costs *costs)
{
    enum { TIMES_PER_CELL = 7 }; // F, B, W, two messages and their delays
    const int64_t cells = (int64_t)costs->stage_count * costs->microbatch_count;
    const int64_t all = (int64_t)costs->stage_count * schedule->microbatch_count * TIMES_PER_CELL;
    const int64_t *delay_ns = costs->message_delay_ns;
    int64_t bits = delay_ns != NULL ? bits_of(delay_ns, 2 * cells) : 0;
    for (int kind = 0; kind < BAL_COST_TIMES_COUNT; kind++) {
        bits |= bits_of(costs->times_ns[kind], cells);
    }
    for (int way = 0; way < 2; way++) {
        bits |= bits_of(costs->sends_ns[way], costs->stage_count);
    }
    return bits >= 0 && bits <= INT64_MAX / 4 / all;
}

/// Adds the messages of one direction that a stage sends to another rank, and their delays.
static status add_messages(int64_t *total, const bal_schedule *schedule,
                           const bal_stage_costs *costs, int way, int stage, error_message *err)
{
    const bool is_forward = way == 0;
    const int columns = costs->microbatch_count;
    const int64_t row = (int64_t)way * costs->stage_count + stage;
    if (sim_network_receiver(schedule, is_forward ? OP_FORWARD : OP_BACKWARD_INPUT, stage) < 0) {
        return STATUS_OK;
    }
    TRY(add_time(total, costs->sends_ns[way][stage], schedule->microbatch_count,
                 is_forward ? "send_forward_ns" : "send_backward_ns", stage, err));
    if (costs->message_delay_ns == NULL) return STATUS_OK;
    return add_row(total, costs->message_delay_ns + row * columns, columns,
                   schedule->microbatch_count,
                   is_forward ? "message_delay_ns of F" : "message_delay_ns of B", stage, err);
}

static status check_times(const bal_schedule *schedule, const bal_stage_costs *costs,
                          error_message *err)
{
    const int columns = costs->microbatch_count;
    int64_t total = 0;
    if (are_small(schedule, costs)) return STATUS_OK;
    for (int kind = 0; kind < BAL_COST_TIMES_COUNT; kind++) {
        for (int stage = 0; stage < costs->stage_count; stage++) {
            TRY(add_row(&total, costs->times_ns[kind] + (int64_t)stage * columns, columns,
                        schedule->microbatch_count, bal_cost_names[kind], stage, err));
        }
    }
    for (int stage = 0; stage < costs->stage_count; stage++) {
        TRY(add_messages(&total, schedule, costs, 0, stage, err));
        TRY(add_messages(&total, schedule, costs, 1, stage, err));
    }
    return STATUS_OK;
}

/// Adds what an op of every microbatch could add to or take from memory.
static status add_memory(int64_t *total, int64_t change, int microbatch_count, const char *what,
                         int stage, error_message *err)
{
    const int64_t limit = INT64_MAX / 4;
    const int64_t room = (limit - *total) / microbatch_count;
    if (change > room || change < -room) {
        return error_set(err, STATUS_INVALID,
                         "%s of stage %d: with %" PRId64 " the memory of %d microbatches adds up "
                         "to more than %" PRId64,
                         what, stage, change, microbatch_count, limit);
    }
    *total += (change < 0 ? -change : change) * microbatch_count;
    return STATUS_OK;
}

static status check_memory(const bal_stage_costs *costs, int microbatch_count, error_message *err)
{
    static const char *const names[] = {"memory_forward", "memory_backward_input",
                                        "memory_backward_weight"};
    int64_t total = 0;
    for (int stage = 0; stage < costs->stage_count; stage++) {
        for (int kind = 0; kind < BAL_COST_TIMES_COUNT; kind++) {
            TRY(add_memory(&total, costs->memory_changes[kind][stage], microbatch_count,
                           names[kind], stage, err));
        }
    }
    return STATUS_OK;
}

status sim_costs_check(const bal_schedule *schedule, const bal_stage_costs *costs,
                       error_message *err)
{
    const int microbatches = schedule->microbatch_count;
    const int stages = schedule->rank_count * schedule->chunk_count;
    if (costs->stage_count != stages) {
        return error_set(err, STATUS_INVALID, "costs of %d stages for a schedule of %d stages",
                         costs->stage_count, stages);
    }
    if (costs->microbatch_count != 1 && costs->microbatch_count != microbatches) {
        return error_set(err, STATUS_INVALID,
                         "costs of %d microbatches for a schedule of %d microbatches",
                         costs->microbatch_count, microbatches);
    }
    TRY(check_times(schedule, costs, err));
    return check_memory(costs, microbatches, err);
}

static bool has_full_backward(const bal_schedule *schedule)
{
    const int ops = schedule->first_op[schedule->rank_count];
    for (int op = 0; op < ops; op++) {
        if (schedule->ops[op].kind == OP_BACKWARD) return true;
    }
    return false;
}

void sim_cost_table_init(const bal_schedule *schedule, arena *memory, sim_cost_table *table)
{
    const int stages = schedule->rank_count * schedule->chunk_count;
    const bool sums = has_full_backward(schedule);
    const size_t microbatches = (size_t)schedule->microbatch_count;
    const size_t rows = (size_t)stages * OP_KIND_COUNT;
    bool *has_message = arena_array(memory, rows, sizeof *has_message);
    for (size_t row = 0; row < rows; row++) {
        has_message[row] = sim_network_receiver(schedule, (bal_op_kind)(row / (size_t)stages),
                                                (int)(row % (size_t)stages)) >= 0;
    }
    *table = (sim_cost_table){
        .schedule = schedule,
        .stage_count = stages,
        .rows = arena_array(memory, 2 * rows, sizeof *table->rows),
        .has_message = has_message,
        .delay_rows = arena_array(memory, 2 * rows, sizeof(int64_t *)),
        .has_full_backward = sums,
        .full_backward_ns =
            arena_array(memory, sums ? (size_t)stages * microbatches : 0, sizeof(int64_t)),
        .no_ns = arena_array(memory, microbatches, sizeof(int64_t)),
    };
}

static void add_full_backward(const sim_cost_table *table, const bal_stage_costs *costs)
{
    const int64_t count = (int64_t)table->stage_count * costs->microbatch_count;
    int64_t *restrict sum = table->full_backward_ns;
    const int64_t *input = costs->backward_input_ns;
    const int64_t *weight = costs->backward_weight_ns;
    for (int64_t cell = 0; cell < count; cell++) {
        sum[cell] = input[cell] + weight[cell];
    }
}

/// Points every row at the delays of its messages. What sends none has a row too, which is added to
/// what nobody reads.
static void point_at_delays(const sim_cost_table *table, const bal_stage_costs *costs)
{
    const int stages = table->stage_count;
    for (int row = 0; row < 2 * OP_KIND_COUNT * stages; row++) {
        const int64_t direction = row / stages % OP_KIND_COUNT == OP_FORWARD ? 0 : 1;
        table->delay_rows[row] = costs->message_delay_ns + (direction * stages + row % stages) *
                                                               (int64_t)costs->microbatch_count;
    }
}

void sim_cost_table_fill(sim_cost_table *table, const bal_stage_costs *costs)
{
    const int stages = table->stage_count;
    const int64_t columns = costs->microbatch_count;
    assert(costs->stage_count == stages);
    assert(columns == 1 || columns == table->schedule->microbatch_count);
    if (table->has_full_backward) add_full_backward(table, costs);
    for (int kind = 0; kind < OP_KIND_COUNT; kind++) {
        if (kind == OP_BACKWARD && !table->has_full_backward) continue;
        const int64_t *op_ns =
            kind == OP_BACKWARD ? table->full_backward_ns : costs->times_ns[kind];
        const int64_t *send_ns = costs->sends_ns[kind == OP_FORWARD ? 0 : 1];
        for (int stage = 0; stage < stages; stage++) {
            const int row = kind * stages + stage;
            const int64_t transfer_ns = table->has_message[row] ? send_ns[stage] : 0;
            table->rows[row] = (sim_row){op_ns + stage * columns, transfer_ns};
            table->rows[OP_KIND_COUNT * stages + row] = (sim_row){table->no_ns, transfer_ns};
        }
    }
    table->has_delays = costs->message_delay_ns != NULL;
    if (table->has_delays) point_at_delays(table, costs);
    table->column_mask = columns > 1 ? UINT32_MAX : 0;
}

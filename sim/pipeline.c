#include "sim/pipeline.h"

#include "sim/network.h"

#include <assert.h>

enum {
    RANK_BITS = 12,
    RANK_MASK = (1 << RANK_BITS) - 1,
    SLOT_NONE = 0,  // read by ops that wait for no message: always 0
    SLOT_WASTE = 1, // written by ops that send no message: never read
    SLOT_FIRST = 2,
};
_Static_assert(BAL_RANKS_MAX <= 1 << RANK_BITS, "a rank fits its bits");
_Static_assert((int64_t)BAL_RANKS_MAX *BAL_CHUNKS_MAX *OP_KIND_COUNT <= 1 << (32 - RANK_BITS),
               "a row fits its bits");

/// Gives every message a slot from the step that sends it to the step that waits for it. Slots are
/// used again, so that those of a play stay in cache.
typedef struct slot_table {
    const bal_schedule *schedule;
    uint32_t *slot_of;    // [2][stage_count][microbatch_count] by direction and sender
    uint32_t *free_slots; // [free_count] stack
    int64_t free_count;
    uint32_t slot_count;
} slot_table;

static uint32_t *slot_of_message(const slot_table *table, bal_op_kind kind, int sender,
                                 int microbatch)
{
    const bal_schedule *schedule = table->schedule;
    const int64_t stages = (int64_t)schedule->rank_count * schedule->chunk_count;
    const int64_t row = (kind == OP_FORWARD ? 0 : stages) + sender;
    return &table->slot_of[row * schedule->microbatch_count + microbatch];
}

static uint32_t take_slot(slot_table *table, bal_op op, int stage)
{
    const bal_op_kind kind = (bal_op_kind)op.kind;
    if (sim_network_receiver(table->schedule, kind, stage) < 0) return SLOT_WASTE;
    const uint32_t slot =
        table->free_count > 0 ? table->free_slots[--table->free_count] : table->slot_count++;
    *slot_of_message(table, kind, stage, op.microbatch) = slot;
    return slot;
}

/// The slot of the message from another rank that an op waits for. That of a rank's first op is
/// never used again: behind a play it still tells when the rank could begin.
static uint32_t return_slot(slot_table *table, bal_op op, int rank, bool is_first)
{
    const bal_schedule *schedule = table->schedule;
    bal_op_kind kind = OP_FORWARD;
    const int sender = bal_op_waits_for(schedule, rank, op, &kind);
    if (sender < 0) return SLOT_NONE;
    const int from = bal_rank_of_stage(schedule->placement, schedule->rank_count,
                                       schedule->chunk_count, sender, NULL);
    if (from == rank) return SLOT_NONE;
    const uint32_t slot = *slot_of_message(table, kind, sender, op.microbatch);
    if (!is_first) table->free_slots[table->free_count++] = slot;
    return slot;
}

/// Translates ops in topological order into steps.
///
/// @param topological [op_count] as bal_schedule_check fills it: level by level, so that neighbours
///                    do not wait for each other and the processor overlaps them
static void write_steps(slot_table *table, const int *topological, const uint16_t *rank_of_op,
                        sim_step *steps, int *first_wait)
{
    const bal_schedule *schedule = table->schedule;
    const int stages = schedule->rank_count * schedule->chunk_count;
    const int op_count = schedule->first_op[schedule->rank_count];
    for (int step = 0; step < op_count; step++) {
        const int index = topological[step];
        const int rank = rank_of_op[index];
        const bal_op op = schedule->ops[index];
        const int stage = bal_stage_of(schedule->placement, schedule->rank_count,
                                       schedule->chunk_count, rank, op.chunk);
        const bool is_first = index == schedule->first_op[rank];
        const uint32_t wait = return_slot(table, op, rank, is_first);
        const uint32_t row = (uint32_t)(op.kind * stages + stage);
        if (is_first) first_wait[rank] = (int)wait;
        steps[step] = (sim_step){
            .row_and_rank = row << RANK_BITS | (uint32_t)rank,
            .microbatch = (uint32_t)op.microbatch,
            .wait = wait,
            .send = take_slot(table, op, stage),
        };
    }
}

static status no_memory(int op_count, error_message *err)
{
    return error_set(err, STATUS_NO_MEMORY, "out of memory for an order of %d ops", op_count);
}

/// @param slot_count out: slots that the steps name
static status compile_steps(const bal_schedule *schedule, arena *scratch, sim_step *steps,
                            int *first_wait, int *slot_count, error_message *err)
{
    const size_t op_count = (size_t)schedule->first_op[schedule->rank_count];
    const size_t messages = 2 * (size_t)schedule->rank_count * (size_t)schedule->chunk_count *
                            (size_t)schedule->microbatch_count;
    int *topological = arena_array(scratch, op_count, sizeof *topological);
    uint16_t *rank_of_op = arena_array(scratch, op_count, sizeof *rank_of_op);
    slot_table table = {
        .schedule = schedule,
        .slot_of = arena_array(scratch, messages, sizeof *table.slot_of),
        .free_slots = arena_array(scratch, messages, sizeof *table.free_slots),
        .slot_count = SLOT_FIRST,
    };
    if (topological == NULL || rank_of_op == NULL || table.slot_of == NULL ||
        table.free_slots == NULL) {
        return no_memory((int)op_count, err);
    }
    TRY(bal_schedule_check(schedule, topological, err));
    for (int rank = 0; rank < schedule->rank_count; rank++) {
        for (int op = schedule->first_op[rank]; op < schedule->first_op[rank + 1]; op++) {
            rank_of_op[op] = (uint16_t)rank;
        }
    }
    write_steps(&table, topological, rank_of_op, steps, first_wait);
    *slot_count = (int)table.slot_count;
    return STATUS_OK;
}

status sim_order_compile(const bal_schedule *schedule, arena *memory, sim_order *order,
                         error_message *err)
{
    const size_t ranks = (size_t)schedule->rank_count;
    const int op_count = schedule->first_op[schedule->rank_count];
    sim_step *steps = arena_array(memory, (size_t)op_count, sizeof *steps);
    int *first_wait = arena_array(memory, ranks, sizeof *first_wait);
    arena *scratch = arena_create(1 << 16);
    if (steps == NULL || first_wait == NULL || scratch == NULL) {
        arena_destroy(scratch);
        return no_memory(op_count, err);
    }
    int slot_count = 0;
    const status compiled = compile_steps(schedule, scratch, steps, first_wait, &slot_count, err);
    arena_destroy(scratch);
    if (compiled != STATUS_OK) return compiled;

    sim_order filled = {
        .step_count = op_count,
        .slot_count = slot_count,
        .steps = steps,
        .first_wait = first_wait,
        .clocks = arena_array(memory, ranks, sizeof *filled.clocks),
        .arrival_ns = arena_array(memory, (size_t)slot_count, sizeof *filled.arrival_ns),
    };
    if (filled.clocks == NULL || filled.arrival_ns == NULL) return no_memory(op_count, err);
    TRY(sim_cost_table_init(schedule, memory, &filled.costs, err));
    *order = filled;
    return STATUS_OK;
}

status sim_summary_init(const sim_order *order, arena *memory, sim_summary *summary,
                        error_message *err)
{
    const size_t ranks = (size_t)order->costs.schedule->rank_count;
    int64_t *times = arena_array(memory, 3 * ranks, sizeof *times);
    if (times == NULL) {
        return error_set(err, STATUS_NO_MEMORY, "out of memory for %zu ranks", ranks);
    }
    *summary = (sim_summary){
        .busy_ns = times,
        .first_begin_ns = times + ranks,
        .last_end_ns = times + 2 * ranks,
    };
    return STATUS_OK;
}

status sim_timeline_init(const bal_schedule *schedule, arena *memory, bal_timeline *timeline,
                         error_message *err)
{
    const size_t ops = (size_t)schedule->first_op[schedule->rank_count];
    int64_t *times = arena_array(memory, 2 * ops, sizeof *times);
    if (times == NULL) return error_set(err, STATUS_NO_MEMORY, "out of memory for %zu ops", ops);
    *timeline = (bal_timeline){.schedule = schedule, .begin_ns = times, .end_ns = times + ops};
    return STATUS_OK;
}

/// Prepares the scratch of an order: rows for these costs, clocks at the start, no message.
static void prepare(sim_order *order, const bal_stage_costs *costs, const int64_t *start_ns)
{
    const bal_schedule *schedule = order->costs.schedule;
    sim_cost_table_fill(&order->costs, costs);
    for (int rank = 0; rank < schedule->rank_count; rank++) {
        order->clocks[rank] = (sim_clock){
            .free_ns = start_ns != NULL ? start_ns[rank] : 0,
            .op = schedule->first_op[rank],
        };
    }
    order->arrival_ns[SLOT_NONE] = 0;
}

/// The recurrence. begin_ns and end_ns are both NULL if only clocks and messages are wanted; the
/// callers pass constants, so that each gets its own loop.
static inline void play_steps(sim_order *order, bool has_delays, int64_t *restrict begin_ns,
                              int64_t *restrict end_ns)
{
    const sim_step *restrict step = order->steps;
    const sim_step *const stop = step + order->step_count;
    const sim_row *restrict rows = order->costs.rows;
    const int64_t *const *delays = order->costs.delay_rows;
    const uint32_t column_mask = order->costs.column_mask;
    sim_clock *restrict clocks = order->clocks;
    int64_t *restrict arrival_ns = order->arrival_ns;
    for (; step < stop; step++) {
        const sim_row *row = rows + (step->row_and_rank >> RANK_BITS);
        sim_clock *clock = clocks + (step->row_and_rank & RANK_MASK);
        const int64_t arrived = arrival_ns[step->wait];
        const int64_t begin = clock->free_ns > arrived ? clock->free_ns : arrived;
        const int64_t end = begin + row->op_ns[step->microbatch & column_mask];
        clock->free_ns = end;
        const int64_t delay =
            has_delays ? delays[step->row_and_rank >> RANK_BITS][step->microbatch & column_mask]
                       : 0;
        arrival_ns[step->send] = end + row->transfer_ns + delay;
        if (begin_ns != NULL) {
            begin_ns[clock->op] = begin;
            end_ns[clock->op] = end;
            clock->op++;
        }
    }
}

void sim_order_play(sim_order *order, const bal_stage_costs *costs, const int64_t *start_ns,
                    bal_timeline *timeline)
{
    prepare(order, costs, start_ns);
    if (order->costs.has_delays) {
        play_steps(order, true, timeline->begin_ns, timeline->end_ns);
    } else {
        play_steps(order, false, timeline->begin_ns, timeline->end_ns);
    }
}

/// Sum of all ops of a stage; no order changes it.
static int64_t stage_busy_ns(const bal_stage_costs *costs, int stage, int microbatch_count)
{
    const int columns = costs->microbatch_count;
    const int64_t first = (int64_t)stage * columns;
    int64_t sum = 0;
    for (int64_t i = first; i < first + columns; i++) {
        sum += costs->forward_ns[i] + costs->backward_input_ns[i] + costs->backward_weight_ns[i];
    }
    return columns == 1 ? sum * microbatch_count : sum;
}

void sim_order_summarise(sim_order *order, const bal_stage_costs *costs, const int64_t *start_ns,
                         sim_summary *summary)
{
    const bal_schedule *schedule = order->costs.schedule;
    prepare(order, costs, start_ns);
    if (order->costs.has_delays) {
        play_steps(order, true, NULL, NULL);
    } else {
        play_steps(order, false, NULL, NULL);
    }

    int64_t first_ns = INT64_MAX;
    int64_t last_ns = 0;
    summary->span_ns = 0;
    for (int rank = 0; rank < schedule->rank_count; rank++) {
        const int64_t start = start_ns != NULL ? start_ns[rank] : 0;
        const int64_t arrived = order->arrival_ns[order->first_wait[rank]];
        const int64_t begin = arrived > start ? arrived : start;
        const int64_t end = order->clocks[rank].free_ns;
        summary->busy_ns[rank] = 0;
        for (int chunk = 0; chunk < schedule->chunk_count; chunk++) {
            const int stage = bal_stage_of(schedule->placement, schedule->rank_count,
                                           schedule->chunk_count, rank, chunk);
            summary->busy_ns[rank] += stage_busy_ns(costs, stage, schedule->microbatch_count);
        }
        summary->first_begin_ns[rank] = begin;
        summary->last_end_ns[rank] = end;
        if (begin < first_ns) first_ns = begin;
        if (end > last_ns) last_ns = end;
        if (end - begin > summary->span_ns) summary->span_ns = end - begin;
    }
    summary->makespan_ns = last_ns - first_ns;
}

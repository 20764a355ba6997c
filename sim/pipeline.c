#include "sim/pipeline.h"

void sim_summary_init(const sim_order *order, arena *memory, sim_summary *summary)
{
    const size_t ranks = (size_t)order->schedule->rank_count;
    int64_t *times = arena_array(memory, 3 * ranks, sizeof *times);
    *summary = (sim_summary){
        .busy_ns = times,
        .first_begin_ns = times + ranks,
        .last_end_ns = times + 2 * ranks,
    };
}

void sim_summary_ask_stage_ends(const sim_order *order, arena *memory, sim_summary *summary)
{
    const size_t stages = (size_t)order->costs.stage_count;
    int64_t *times = arena_array(memory, stages + 2 * OP_KIND_COUNT * stages, sizeof *times);
    summary->stage_end_ns = times;
    summary->row_end_ns = times + stages;
}

void sim_timeline_init(const bal_schedule *schedule, arena *memory, bal_timeline *timeline)
{
    const size_t ops = (size_t)schedule->first_op[schedule->rank_count];
    int64_t *times = arena_array(memory, 2 * ops, sizeof *times);
    *timeline = (bal_timeline){.schedule = schedule, .begin_ns = times, .end_ns = times + ops};
}

/// Prepares the scratch of an order: rows for these costs, clocks at the start, no message.
static void prepare(sim_order *order, const bal_stage_costs *costs, const int64_t *start_ns)
{
    const bal_schedule *schedule = order->schedule;
    sim_cost_table_fill(&order->costs, costs);
    for (int rank = 0; rank < schedule->rank_count; rank++) {
        order->clocks[rank] = (sim_clock){
            .free_ns = start_ns != NULL ? start_ns[rank] : 0,
            .op = schedule->first_op[rank],
        };
    }
    order->arrival_ns[SIM_SLOT_NONE] = 0;
}

/// Asks for the costs that a row is read for next. Rows are more than the processor follows by
/// itself.
static inline void fetch_ahead(const int64_t *op_ns)
{
    enum { LINE_BYTES = 64 };
    __builtin_prefetch((const void *)((uintptr_t)op_ns + LINE_BYTES));
}

/// What is kept of ops beside clocks and messages; NULL: nothing.
typedef struct op_times {
    int64_t *restrict begin_ns;   // [op_count] of all, with
    int64_t *restrict end_ns;     // [op_count]
    int64_t *restrict row_end_ns; // [row_count] of the last of each row
} op_times;

/// The recurrence. The callers pass constants, and times whose NULLs are, so that each gets its own
/// loop.
static inline void play_steps(sim_order *order, bool has_columns, bool has_delays, bool fetches,
                              op_times kept)
{
    const sim_step *restrict next = order->steps;
    const sim_step *const stop = next + order->step_count;
    const sim_row *restrict rows = order->costs.rows;
    const uint32_t joint_first = (uint32_t)(OP_KIND_COUNT * order->costs.stage_count);
    const int64_t *const *delays = order->costs.delay_rows;
    sim_clock *restrict clocks = order->clocks;
    int64_t *restrict arrival_ns = order->arrival_ns;
    for (; next < stop; next++) {
        const sim_step step = *next;
        const uint32_t rank = sim_step_rank(step);
        const uint32_t row = sim_step_row(step);
        const uint32_t column = has_columns ? sim_step_microbatch(step) : 0;
        sim_clock *clock = clocks + rank;
        const int64_t arrived = arrival_ns[sim_step_wait(step)];
        const int64_t begin = clock->free_ns > arrived ? clock->free_ns : arrived;
        const int64_t *op_ns = rows[row].op_ns + column;
        const int64_t end = begin + *op_ns;
        const int64_t delay = has_delays ? delays[row][column] : 0;
        if (fetches) fetch_ahead(op_ns);
        clock->free_ns = end;
        arrival_ns[sim_step_send(step)] = end + rows[row].transfer_ns + delay;
        if (kept.row_end_ns != NULL) kept.row_end_ns[row] = end;
        if (kept.begin_ns != NULL && row < joint_first) {
            kept.begin_ns[clock->op] = begin;
            kept.end_ns[clock->op] = end;
            clock->op++;
        }
    }
}

static inline void play(sim_order *order, const bal_stage_costs *costs, const int64_t *start_ns,
                        op_times kept)
{
    enum { CACHED_BYTES = 4 << 20 }; // costs that the processor keeps nearby
    const bool has_columns = costs->microbatch_count > 1;
    const int64_t bytes =
        (int64_t)3 * costs->stage_count * costs->microbatch_count * (int)sizeof *kept.end_ns;
    prepare(order, costs, start_ns);
    if (costs->message_delay_ns != NULL) {
        play_steps(order, has_columns, true, false, kept);
    } else if (!has_columns) {
        play_steps(order, false, false, false, kept);
    } else if (bytes <= CACHED_BYTES) {
        play_steps(order, true, false, false, kept);
    } else {
        play_steps(order, true, false, true, kept);
    }
}

void sim_order_play(sim_order *order, const bal_stage_costs *costs, const int64_t *start_ns,
                    bal_timeline *timeline)
{
    play(order, costs, start_ns,
         (op_times){.begin_ns = timeline->begin_ns, .end_ns = timeline->end_ns});
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

/// Of all ops of a rank.
static int64_t rank_busy_ns(const bal_schedule *schedule, const bal_stage_costs *costs, int rank)
{
    int64_t busy_ns = 0;
    for (int chunk = 0; chunk < schedule->chunk_count; chunk++) {
        const int stage = bal_schedule_stage(schedule, rank, chunk);
        busy_ns += stage_busy_ns(costs, stage, schedule->microbatch_count);
    }
    return busy_ns;
}

/// When the first op of a rank began, after a play.
static int64_t first_begin_ns(const sim_order *order, int rank, int64_t start_ns)
{
    const int64_t arrived_ns = order->arrival_ns[order->first_wait[rank]];
    return arrived_ns > start_ns ? arrived_ns : start_ns;
}

static void summarise(const sim_order *order, const bal_stage_costs *costs, const int64_t *start_ns,
                      sim_summary *summary)
{
    const bal_schedule *schedule = order->schedule;
    int64_t first_ns = INT64_MAX;
    int64_t last_ns = 0;
    summary->span_ns = 0;
    for (int rank = 0; rank < schedule->rank_count; rank++) {
        const int64_t begin = first_begin_ns(order, rank, start_ns != NULL ? start_ns[rank] : 0);
        const int64_t end = order->clocks[rank].free_ns;
        summary->busy_ns[rank] = rank_busy_ns(schedule, costs, rank);
        summary->first_begin_ns[rank] = begin;
        summary->last_end_ns[rank] = end;
        if (begin < first_ns) first_ns = begin;
        if (end > last_ns) last_ns = end;
        if (end - begin > summary->span_ns) summary->span_ns = end - begin;
    }
    summary->makespan_ns = last_ns - first_ns;
}

/// Of rows without ops the end is 0.
static void find_stage_ends(const sim_order *order, sim_summary *summary)
{
    const int stages = order->costs.stage_count;
    for (int stage = 0; stage < stages; stage++) {
        const int64_t weight_ns = summary->row_end_ns[OP_BACKWARD_WEIGHT * stages + stage];
        const int64_t whole_ns = summary->row_end_ns[OP_BACKWARD * stages + stage];
        summary->stage_end_ns[stage] = weight_ns > whole_ns ? weight_ns : whole_ns;
    }
}

void sim_order_summarise(sim_order *order, const bal_stage_costs *costs, const int64_t *start_ns,
                         sim_summary *summary)
{
    if (summary->stage_end_ns == NULL) {
        play(order, costs, start_ns, (op_times){.row_end_ns = NULL});
    } else {
        play(order, costs, start_ns, (op_times){.row_end_ns = summary->row_end_ns});
        find_stage_ends(order, summary);
    }
    summarise(order, costs, start_ns, summary);
}

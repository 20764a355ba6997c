#include "balance/schedule/order_search.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

enum { SHIFT_MAX = 3 }; // places that an op moves while an order is improved

/// The stage of a rank that a code belongs to.
static int stage_of(const bal_order_search *find, int rank, int code)
{
    return bal_stage_of(BAL_PLACEMENT_V, find->rank_count, find->chunk_count, rank,
                        bal_order_chunk(find->chunk_count, code));
}

/// Mean over the microbatches of one stage, rounded to the nearest ns.
static status mean_ns(const int64_t *stage_ns, int stage, int columns, const char *what,
                      int64_t *mean, error_message *err)
{
    const int64_t *row = stage_ns + (int64_t)stage * columns;
    int64_t sum = columns / 2;
    for (int column = 0; column < columns; column++) {
        if (row[column] < 0 || row[column] > INT64_MAX / 4 - sum) {
            return error_set(err, STATUS_INVALID,
                             "%s of stage %d: %" PRId64 " ns is negative or makes the sum over "
                             "the microbatches longer than %" PRId64 " ns",
                             what, stage, row[column], INT64_MAX / 4);
        }
        sum += row[column];
    }
    *mean = sum / columns;
    return STATUS_OK;
}

/// How long a stage's two messages take, with the mean of what delays them, stage_count apart.
static status read_sends(const bal_stage_costs *costs, int stage, int64_t *send_ns,
                         error_message *err)
{
    const int stages = costs->stage_count;
    const int64_t *const delay_ns = costs->message_delay_ns;
    for (int way = 0; way < 2; way++) {
        int64_t delay = 0;
        if (delay_ns != NULL) {
            TRY(mean_ns(delay_ns + (int64_t)way * stages * costs->microbatch_count, stage,
                        costs->microbatch_count, "message_delay_ns", &delay, err));
        }
        // A send that is negative or longer is refused with the sum.
        const int64_t ns = costs->sends_ns[way][stage];
        send_ns[way * stages] = ns >= 0 && ns <= INT64_MAX / 4 ? ns + delay : ns;
    }
    return STATUS_OK;
}

/// The times of every stage, [5][stage_count]: F, B, W and the two sends. No order is longer than
/// all work and messages in turn, which is what the limit on their sum keeps within int64.
static status read_times(const bal_schedule_request *request, int64_t *times, error_message *err)
{
    const bal_stage_costs *costs = request->costs;
    const int columns = costs->microbatch_count;
    const int stages = costs->stage_count;
    const int64_t most = INT64_MAX / 4 / request->microbatch_count / stages;
    for (int stage = 0; stage < stages; stage++) {
        int64_t *const time = times + stage;
        for (int kind = 0; kind < BAL_COST_TIMES_COUNT; kind++) {
            TRY(mean_ns(costs->times_ns[kind], stage, columns, bal_cost_names[kind],
                        time + kind * stages, err));
        }
        TRY(read_sends(costs, stage, time + 3 * stages, err));
        int64_t left = most;
        for (int part = 0; part < 5; part++) {
            if (time[part * stages] < 0 || time[part * stages] > left) {
                return error_set(err, STATUS_INVALID,
                                 "stage %d: its times are negative or sum to more than %" PRId64
                                 " ns for one microbatch",
                                 stage, most);
            }
            left -= time[part * stages];
        }
    }
    return STATUS_OK;
}

/// What one stage's memory does, into the codes of its rank.
static status read_stage_memory(const bal_schedule_request *request, const bal_order_search *find,
                                int rank, int chunk, error_message *err)
{
    const bal_stage_costs *costs = request->costs;
    const int stage = stage_of(find, rank, chunk);
    const int64_t forward = costs->memory_forward[stage];
    const int64_t input = costs->memory_backward_input[stage];
    const int64_t weight = costs->memory_backward_weight[stage];
    const int64_t most = INT64_MAX / 4 / request->microbatch_count / find->chunk_count;
    const bool is_in_range = forward >= 0 && forward <= most && weight <= 0 && weight >= -most;
    if (!is_in_range || forward + weight != -input) {
        return error_set(err, STATUS_INVALID,
                         "memory of stage %d changes by %" PRId64 ", %" PRId64 ", %" PRId64
                         " at F, B, W: F must take, W must give, and the sum be 0",
                         stage, forward, input, weight);
    }
    int64_t *const memory = find->ranks[rank].memory;
    memory[chunk] = forward;
    memory[2 * find->chunk_count - 1 - chunk] = input;
    memory[3 * find->chunk_count - 1 - chunk] = weight;
    return STATUS_OK;
}

/// What one microbatch alone needs on a rank, and what ops need so that no rank is ever stuck.
///
/// With two chunks, B of chunk 0 finds chunk 1 gone: it adds to chunk 0 only.
static void count_needs(const bal_order_search *find, bal_order_rank *rank)
{
    const int64_t *memory = rank->memory;
    if (find->chunk_count == 1) {
        rank->need[0] = memory[0] + bal_larger(0, memory[1]);
        rank->need[1] = memory[1];
        return;
    }
    rank->need[1] = memory[1] + bal_larger(0, memory[2]);
    rank->need[0] = memory[0] + bal_larger(rank->need[1], memory[3]);
    rank->need[2] = memory[2];
    rank->need[3] = memory[3];
}

static status read_memory(const bal_schedule_request *request, const bal_order_search *find,
                          int rank, int64_t chunks_held_max, error_message *err)
{
    bal_order_rank *const of = &find->ranks[rank];
    if (request->memory_limit == NULL) {
        for (int chunk = 0; chunk < find->chunk_count; chunk++) {
            of->memory[chunk] = 1;
            of->memory[3 * find->chunk_count - 1 - chunk] = -1;
        }
        of->memory_limit = chunks_held_max > 0 ? chunks_held_max : INT64_MAX / 4;
        count_needs(find, of);
        return STATUS_OK;
    }
    for (int chunk = 0; chunk < find->chunk_count; chunk++) {
        TRY(read_stage_memory(request, find, rank, chunk, err));
    }
    of->memory_limit = request->memory_limit[rank];
    count_needs(find, of);
    if (of->memory_limit < of->need[0]) {
        return error_set(err, STATUS_INFEASIBLE,
                         "rank %d needs memory %" PRId64
                         " for one microbatch; its limit is %" PRId64,
                         rank, of->need[0], of->memory_limit);
    }
    return STATUS_OK;
}

/// Where a sweep goes on after a rank.
static void connect(const bal_order_search *find, int rank, int sweep)
{
    bal_order_rank *const of = &find->ranks[rank];
    const bool is_down = sweep % 2 == 0;
    const bool ends = rank == (is_down ? find->rank_count - 1 : 0);
    of->next_rank[sweep] = ends ? rank : rank + (is_down ? 1 : -1);
    of->next_sweep[sweep] = ends ? sweep + 1 : sweep;
    if (of->next_sweep[sweep] == find->sweep_count) of->next_rank[sweep] = -1;
    of->message_ns[sweep] =
        of->next_rank[sweep] < 0
            ? find->lost_ns
            : find->ranks[of->next_rank[sweep]].arrival_ns[of->next_sweep[sweep]];
}

static void copy_times(const bal_order_search *find, const int64_t *times, int rank)
{
    const int stages = find->rank_count * find->chunk_count;
    bal_order_rank *const of = &find->ranks[rank];
    for (int code = 0; code < 3 * find->chunk_count; code++) {
        const int stage = stage_of(find, rank, code);
        const bal_op_kind kind = bal_order_kind(find->chunk_count, code);
        of->op_ns[code] = times[(int)kind * stages + stage];
        of->work_ns += of->op_ns[code] * find->microbatch_count;
        if (kind == OP_BACKWARD_WEIGHT) continue;
        connect(find, rank, code);
        const bool is_sent = of->next_rank[code] != rank && of->next_rank[code] >= 0;
        of->send_ns[code] = is_sent ? times[(kind == OP_FORWARD ? 3 : 4) * stages + stage] : 0;
    }
}

static void carve(const bal_schedule_request *request, int chunk_count, arena *memory,
                  bal_order_search *find)
{
    const size_t rank_count = (size_t)request->rank_count;
    const size_t microbatch_count = (size_t)request->microbatch_count;
    const size_t rank_ops = 3 * (size_t)chunk_count * microbatch_count;
    *find = (bal_order_search){
        .rank_count = request->rank_count,
        .chunk_count = chunk_count,
        .sweep_count = 2 * chunk_count,
        .microbatch_count = request->microbatch_count,
        .ranks = arena_array(memory, rank_count, sizeof *find->ranks),
        .codes = arena_array(memory, rank_count * rank_ops, sizeof *find->codes),
        .best_codes = arena_array(memory, rank_count * rank_ops, sizeof *find->best_codes),
        .lost_ns = arena_array(memory, microbatch_count, sizeof *find->lost_ns),
        .placed_op_count = request->placed_op_count,
        .cursors = arena_array(memory, rank_count, sizeof *find->cursors),
        .best_span_ns = INT64_MAX,
        .best_makespan_ns = INT64_MAX,
        .best_held = INT64_MAX,
    };
    const size_t sweeps = (size_t)find->sweep_count;
    int64_t *arrival_ns =
        arena_array(memory, rank_count * sweeps * microbatch_count, sizeof *arrival_ns);
    for (size_t row = 0; row < rank_count * sweeps; row++) {
        find->ranks[row / sweeps].arrival_ns[row % sweeps] = arrival_ns + row * microbatch_count;
    }
}

/// No rank is done, counted from its own first op, before its work is done, nor before one
/// microbatch has gone from the rank's first stage to the last and back.
///
/// @param times [5][stages] as read_times fills them
static int64_t span_lower_bound_ns(const bal_order_search *find, const int64_t *times)
{
    const int stages = find->rank_count * find->chunk_count;
    int64_t bound = 0;
    int64_t trip = 0; // F from a stage to the last and B back to it
    for (int stage = stages - 1; stage >= 0; stage--) {
        trip += times[stage] + times[stages + stage];
        const bool turns = find->chunk_count == 2 && stage == find->rank_count - 1;
        if (stage < stages - 1 && !turns) {
            trip += times[3 * stages + stage] + times[4 * stages + stage + 1];
        }
        if (stage >= find->rank_count) continue;
        bound = bal_larger(bound, bal_larger(trip, find->ranks[stage].work_ns));
    }
    return bound;
}

status bal_order_search_begin(const bal_schedule_request *request, int chunk_count,
                              int64_t chunks_held_max, arena *memory, bal_order_search *find,
                              error_message *err)
{
    assert(chunk_count == 1 || chunk_count == 2);
    carve(request, chunk_count, memory, find);
    const int stages = request->rank_count * chunk_count;
    int64_t *times = arena_array(memory, 5 * (size_t)stages, sizeof *times);
    TRY(read_times(request, times, err));
    for (int rank = 0; rank < request->rank_count; rank++) {
        copy_times(find, times, rank);
        TRY(read_memory(request, find, rank, chunks_held_max, err));
    }
    find->least_span_ns = span_lower_bound_ns(find, times);
    return STATUS_OK;
}

void bal_order_search_offer(bal_order_search *find, int64_t span_ns, int64_t makespan_ns,
                            int64_t held)
{
    if (bal_order_search_is_beaten(find, span_ns, makespan_ns, held)) return;
    find->best_span_ns = span_ns;
    find->best_makespan_ns = makespan_ns;
    find->best_held = held;
    uint8_t *const written = find->codes;
    find->codes = find->best_codes;
    find->best_codes = written;
}

/// Plays a rank's codes until it waits for a message, or stands before an op that cannot be. The
/// number of ops played.
static int advance(const bal_order_search *find, int rank, bal_order_cursor *at)
{
    const bal_order_rank *of = &find->ranks[rank];
    const int rank_ops = 3 * find->chunk_count * find->microbatch_count;
    const uint8_t *codes = find->codes + (size_t)rank * (size_t)rank_ops;
    const int first = at->op;
    for (; at->op < rank_ops; at->op++) {
        const int code = codes[at->op];
        if (at->held + of->memory[code] > of->memory_limit) break;
        int64_t begin_ns = at->free_ns;
        if (code < find->sweep_count) {
            const int microbatch = at->done[code];
            if (microbatch == at->known[code]) break;
            begin_ns = bal_larger(begin_ns, of->arrival_ns[code][microbatch]);
            const int64_t end_ns = begin_ns + of->op_ns[code];
            of->message_ns[code][microbatch] = end_ns + of->send_ns[code];
            if (of->next_rank[code] >= 0) {
                find->cursors[of->next_rank[code]].known[of->next_sweep[code]]++;
            }
        } else if (at->done[code] == at->done[code - find->chunk_count]) {
            break; // W before its B
        }
        at->done[code]++;
        if (at->op == 0) at->begin_ns = begin_ns;
        at->free_ns = begin_ns + of->op_ns[code];
        at->held += of->memory[code];
        at->chunks += code < find->chunk_count ? 1 : code < find->sweep_count ? 0 : -1;
        if (at->chunks > at->chunks_max) at->chunks_max = at->chunks;
    }
    return at->op - first;
}

void bal_order_search_play(bal_order_search *find)
{
    const int64_t op_count =
        (int64_t)3 * find->chunk_count * find->microbatch_count * find->rank_count;
    memset(find->cursors, 0, (size_t)find->rank_count * sizeof *find->cursors);
    find->cursors[0].known[0] = find->microbatch_count;
    int64_t played = 0;
    for (int64_t before = -1; before != played;) {
        before = played;
        for (int rank = 0; rank < find->rank_count; rank++) {
            played += advance(find, rank, &find->cursors[rank]);
        }
        for (int rank = find->rank_count - 1; rank >= 0; rank--) {
            played += advance(find, rank, &find->cursors[rank]);
        }
    }
    bal_order_search_count(find, played);
    if (played < op_count) return;
    int64_t span_ns = 0;
    int64_t makespan_ns = 0;
    int64_t held = 0;
    for (int rank = 0; rank < find->rank_count; rank++) {
        const bal_order_cursor *at = &find->cursors[rank];
        span_ns = bal_larger(span_ns, at->free_ns - at->begin_ns);
        makespan_ns = bal_larger(makespan_ns, at->free_ns);
        held += at->chunks_max;
    }
    bal_order_search_offer(find, span_ns, makespan_ns, held);
}

static uint8_t code_of(int chunk_count, bal_op op)
{
    const int sweep = op.kind == OP_FORWARD ? op.chunk : 2 * chunk_count - 1 - op.chunk;
    return (uint8_t)(op.kind == OP_BACKWARD_WEIGHT ? sweep + chunk_count : sweep);
}

void bal_order_search_offer_ops(bal_order_search *find, const bal_op *ops)
{
    const size_t op_count =
        3 * (size_t)find->chunk_count * (size_t)find->microbatch_count * (size_t)find->rank_count;
    for (size_t op = 0; op < op_count; op++) {
        find->codes[op] = code_of(find->chunk_count, ops[op]);
    }
    bal_order_search_play(find);
}

void bal_order_search_offer_serial(bal_order_search *find)
{
    static const uint8_t words[2][BAL_CODES_MAX] = {{0, 1, 2}, {0, 1, 2, 4, 3, 5}};
    const size_t length = 3 * (size_t)find->chunk_count;
    const size_t count = (size_t)find->rank_count * (size_t)find->microbatch_count;
    for (size_t word = 0; word < count; word++) {
        memcpy(find->codes + word * length, words[find->chunk_count - 1], length);
    }
    bal_order_search_play(find);
}

/// Moves the op at from to to within a rank's codes.
static void move(uint8_t *codes, int from, int to)
{
    const uint8_t code = codes[from];
    if (from < to) {
        memmove(codes + from, codes + from + 1, (size_t)(to - from));
    } else {
        memmove(codes + to + 1, codes + to, (size_t)(from - to));
    }
    codes[to] = code;
}

/// Tries all moves of one rank. Whether one was better.
static bool improve_rank(bal_order_search *find, int rank, int64_t *left)
{
    const int rank_ops = 3 * find->chunk_count * find->microbatch_count;
    const size_t bytes = (size_t)rank_ops;
    const size_t all_bytes = (size_t)find->rank_count * bytes;
    const size_t row = (size_t)rank * bytes;
    bool has_improved = false;
    for (int from = 0; from < rank_ops; from++) {
        for (int shift = -SHIFT_MAX; shift <= SHIFT_MAX; shift++) {
            const int to = from + shift;
            if (to < 0 || to >= rank_ops) continue;
            const uint8_t *const best = find->best_codes;
            if (best[row + (size_t)from] == best[row + (size_t)to]) continue;
            if (*left <= 0) return has_improved;
            *left -= (int64_t)all_bytes;
            move(find->codes + row, from, to);
            bal_order_search_play(find);
            if (find->best_codes == best) {
                memcpy(find->codes + row, best + row, bytes);
            } else {
                memcpy(find->codes, find->best_codes, all_bytes);
                has_improved = true;
            }
        }
    }
    return has_improved;
}

void bal_order_search_improve(bal_order_search *find)
{
    const size_t op_count =
        3 * (size_t)find->chunk_count * (size_t)find->microbatch_count * (size_t)find->rank_count;
    int64_t left = BAL_IMPROVING_OPS_MAX;
    if (op_count > BAL_IMPROVED_OPS_MAX) return;
    memcpy(find->codes, find->best_codes, op_count);
    for (bool has_improved = true; has_improved && left > 0;) {
        has_improved = false;
        for (int rank = 0; rank < find->rank_count; rank++) {
            if (find->best_span_ns == find->least_span_ns) return;
            has_improved = improve_rank(find, rank, &left) || has_improved;
        }
    }
}

void bal_order_search_write(const bal_order_search *find, bal_op *ops)
{
    const uint8_t *code = find->best_codes;
    assert(find->best_span_ns < INT64_MAX); // whoever searches offers one that always fits
    for (int rank = 0; rank < find->rank_count; rank++) {
        int next_microbatch[BAL_CODES_MAX] = {0};
        for (int op = 0; op < 3 * find->chunk_count * find->microbatch_count; op++, code++) {
            ops = bal_op_put(ops, bal_order_kind(find->chunk_count, *code),
                             bal_order_chunk(find->chunk_count, *code), next_microbatch[*code]++);
        }
    }
}

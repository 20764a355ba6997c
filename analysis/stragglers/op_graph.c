#include "analysis/stragglers/op_graph.h"

#include <gsl/gsl_sort_long.h>
#include <inttypes.h>
#include <stdlib.h>

/// An op that begins this much before the one ahead of it has ended ran beside it; less is within
/// what events of a device are apart.
static const int64_t overlap_ns = 100000;

/// Workers and chunks per op of a step, above which workers that did nothing would take most of the
/// time.
enum { SPARSE_MAX = 16 };

typedef struct edge {
    int op;
    int before;   // that it waits for
    bool is_post; // a receive that was posted after it: waits only where delays are replayed
} edge;

/// What one step is made with. Indices are places in ops until the order is known.
typedef struct making {
    const ana_op_run *run;
    const trace_op *ops; // [count] by worker, begin
    int count;
    int *first;  // [worker_count + 1] of a worker's ops
    int *unit;   // [count] the op by which the unit is known: its first member
    int *next;   // [count] next member of the unit, or -1
    int *last;   // [count] of a unit's first member: its last
    edge *edges; // [edge_count]
    int edge_count;
    arena *scratch; // of everything but edges
} making;

bool ana_op_is_shared(trace_op_kind kind)
{
    return (kind >= TRACE_OP_SEND_FORWARD && kind <= TRACE_OP_RECV_BACKWARD) ||
           kind >= TRACE_OP_REPLICAS;
}

static bool is_message(trace_op_kind kind)
{
    return kind >= TRACE_OP_SEND_FORWARD && kind <= TRACE_OP_RECV_BACKWARD;
}

static void add_edge(making *step, edge one)
{
    step->edges = memory_grow(step->edges, (size_t)step->edge_count, sizeof *step->edges);
    step->edges[step->edge_count++] = one;
}

static void wait_for(making *step, int op, int before)
{
    add_edge(step, (edge){op, before, false});
}

/// Joins the unit of an op to that of another.
static void join(making *step, int first, int op)
{
    step->next[step->last[first]] = op;
    step->last[first] = op;
    step->unit[op] = first;
}

/// The chain of one worker while it is made.
typedef struct chain {
    int begin;                      // of the worker's ops
    int ahead;                      // the last op of the chain; -1: none yet
    int beside[TRACE_OP_NAMES_MAX]; // ops that run beside it and are not waited for yet
    int beside_count;
} chain;

static bool is_over(const making *step, int before, int op)
{
    return step->ops[before].end_ns <= step->ops[op].begin_ns + overlap_ns;
}

/// An op that ran beside the chain begins after the last op that was over by then.
static void put_beside(making *step, chain *of, int op)
{
    int before = op - 1;
    while (before >= of->begin &&
           (is_message(step->ops[before].kind) || !is_over(step, before, op))) {
        before--;
    }
    if (before >= of->begin) wait_for(step, op, before);
    if (of->beside_count < TRACE_OP_NAMES_MAX) of->beside[of->beside_count++] = op;
}

static void put_next(making *step, chain *of, int op)
{
    int kept = 0;
    if (of->ahead >= 0) wait_for(step, op, of->ahead);
    for (int each = 0; each < of->beside_count; each++) {
        if (is_over(step, of->beside[each], op)) {
            wait_for(step, op, of->beside[each]);
        } else {
            of->beside[kept++] = of->beside[each];
        }
    }
    of->beside_count = kept;
    of->ahead = op;
}

/// The chain of a worker: ops[begin, end). Sends and receives are streams beside it.
static void chain_worker(making *step, int begin, int end)
{
    chain of = {.begin = begin, .ahead = -1};
    for (int op = begin; op < end; op++) {
        const trace_op_kind kind = step->ops[op].kind;
        const bool is_receive = kind == TRACE_OP_RECV_FORWARD || kind == TRACE_OP_RECV_BACKWARD;
        const bool is_posted = is_receive && of.ahead >= 0 && is_over(step, of.ahead, op);
        if (is_posted) add_edge(step, (edge){op, of.ahead, true});
        if (is_message(kind)) continue;
        if (of.ahead >= 0 && kind > TRACE_OP_BACKWARD && !is_over(step, of.ahead, op)) {
            put_beside(step, &of, op);
        } else {
            put_next(step, &of, op);
        }
    }
}

/// Which ops of a worker: those of a name, or of a direction what it sends, what it receives, the F
/// or backwards that make a message for another stage, and those that need one.
typedef struct selector {
    enum { NAMED, SENDS, RECEIVES, MAKERS, TAKERS } what;
    int of; // the name; of a direction 1: backward
} selector;

static bool meets(const making *step, const trace_op *op, selector which)
{
    const bool backward = which.of != 0;
    const int last = step->run->table->chunk_count * step->run->stage_count - 1;
    const bool is_backward = op->kind == TRACE_OP_BACKWARD || op->kind == TRACE_OP_BACKWARD_INPUT;
    const bool works = backward ? is_backward : op->kind == TRACE_OP_FORWARD;
    switch (which.what) {
    case NAMED:
        return op->name == which.of;
    case SENDS:
        return op->kind == (backward ? TRACE_OP_SEND_BACKWARD : TRACE_OP_SEND_FORWARD);
    case RECEIVES:
        return op->kind == (backward ? TRACE_OP_RECV_BACKWARD : TRACE_OP_RECV_FORWARD);
    case MAKERS:
        return works && op->layer != (backward ? 0 : last);
    default: // TAKERS
        return works && op->layer != (backward ? last : 0);
    }
}

/// Ops of a worker in the order in which they ran, from scratch.
typedef struct chosen {
    int count;
    int *ops; // [count]
} chosen;

static chosen choose(const making *step, int worker, selector which)
{
    const int begin = step->first[worker];
    const int end = step->first[worker + 1];
    size_t count = 0;
    for (int op = begin; op < end; op++) {
        count += meets(step, &step->ops[op], which);
    }
    chosen found = {.ops = arena_array(step->scratch, count, sizeof(int))};
    for (int op = begin; op < end; op++) {
        if (meets(step, &step->ops[op], which)) found.ops[found.count++] = op;
    }
    return found;
}

/// Ops that go together, one by one.
static status check_matched(const making *step, int worker, const char *what, int count,
                            const char *other, int other_count, error_message *err)
{
    if (count == other_count) return STATUS_OK;
    return error_set(err, STATUS_FORMAT,
                     "step %d, replica %d, stage %d: %d %s beside %d %s: they cannot be matched",
                     step->ops[0].iteration, worker / step->run->stage_count,
                     worker % step->run->stage_count, count, what, other_count, other);
}

/// What a worker makes is sent, in order, and joined to where it arrives; without messages work
/// waits for the work whose result it needs.
static status send_messages(making *step, int worker, int peer, bool backward, bool has_messages,
                            error_message *err)
{
    const chosen makers = choose(step, worker, (selector){MAKERS, backward});
    const chosen takers = choose(step, peer, (selector){TAKERS, backward});
    const chosen sends = choose(step, worker, (selector){SENDS, backward});
    const chosen receives = choose(step, peer, (selector){RECEIVES, backward});
    TRY(check_matched(step, worker, "ops that make a message", makers.count,
                      "ops of the next stage that need one", takers.count, err));
    if (has_messages) {
        TRY(check_matched(step, worker, "sends", sends.count, "ops that make a message",
                          makers.count, err));
        TRY(check_matched(step, worker, "sends", sends.count, "receives of the stage they go to",
                          receives.count, err));
    }
    for (int each = 0; each < makers.count; each++) {
        if (!has_messages) {
            wait_for(step, takers.ops[each], makers.ops[each]);
            continue;
        }
        if (each > 0) wait_for(step, sends.ops[each], sends.ops[each - 1]);
        wait_for(step, sends.ops[each], makers.ops[each]);
        join(step, sends.ops[each], receives.ops[each]);
    }
    return STATUS_OK;
}

/// A receive comes after the one before it and, unless it was recorded to be posted earlier, after
/// what that one was for.
static status receive_messages(making *step, int worker, bool backward, error_message *err)
{
    const chosen receives = choose(step, worker, (selector){RECEIVES, backward});
    const chosen takers = choose(step, worker, (selector){TAKERS, backward});
    TRY(check_matched(step, worker, "receives", receives.count, "ops that need a message",
                      takers.count, err));
    for (int each = 0; each < receives.count; each++) {
        const int receive = receives.ops[each];
        wait_for(step, takers.ops[each], receive);
        if (each == 0) continue;
        wait_for(step, receive, receives.ops[each - 1]);
        if (is_over(step, takers.ops[each - 1], receive))
            wait_for(step, receive, takers.ops[each - 1]);
    }
    return STATUS_OK;
}

/// Links what workers make and take with the stages that their messages go to.
static status link_direction(making *step, bool backward, error_message *err)
{
    const int stages = step->run->stage_count;
    bool has_messages = false;
    for (int op = 0; op < step->count && !has_messages; op++) {
        has_messages = meets(step, &step->ops[op], (selector){SENDS, backward}) ||
                       meets(step, &step->ops[op], (selector){RECEIVES, backward});
    }
    for (int worker = 0; worker < step->run->worker_count; worker++) {
        const int stage = worker % stages;
        const int peer = worker - stage + (stage + (backward ? stages - 1 : 1)) % stages;
        TRY(send_messages(step, worker, peer, backward, has_messages, err));
        if (has_messages) TRY(receive_messages(step, worker, backward, err));
    }
    return STATUS_OK;
}

/// The worker that a group of a collective is known by.
static int group_of(const ana_op_run *run, trace_op_kind kind, int worker)
{
    const int stage = worker % run->stage_count;
    switch (kind) {
    case TRACE_OP_REPLICAS:
        return stage;
    case TRACE_OP_ENDS:
        return stage == 0 || stage == run->stage_count - 1 ? worker - stage : worker;
    case TRACE_OP_PIPELINE:
        return worker - stage;
    default:
        return 0;
    }
}

/// Joins the k-th op of a name on every worker of a group. A worker that has none takes no part.
static status join_collective(making *step, int name, error_message *err)
{
    const ana_op_run *run = step->run;
    chosen *leaders = arena_array(step->scratch, (size_t)run->worker_count, sizeof *leaders);
    for (int worker = 0; worker < run->worker_count; worker++) {
        const chosen own = choose(step, worker, (selector){NAMED, name});
        chosen *leader = &leaders[group_of(run, run->table->kinds[name - 1], worker)];
        if (own.count == 0) continue;
        if (leader->count == 0) {
            *leader = own;
            continue;
        }
        TRY(check_matched(step, worker, run->table->names[name - 1], own.count,
                          "of another worker that takes part", leader->count, err));
        for (int each = 0; each < own.count; each++) {
            join(step, leader->ops[each], own.ops[each]);
        }
    }
    return STATUS_OK;
}

static status link_step(making *step, error_message *err)
{
    int worker = 0;
    for (int op = 0; op < step->count; op++) {
        step->unit[op] = step->last[op] = op;
        step->next[op] = -1;
        for (; worker <= step->ops[op].rank; worker++) {
            step->first[worker] = op;
        }
    }
    for (; worker <= step->run->worker_count; worker++) {
        step->first[worker] = step->count;
    }
    for (worker = 0; worker < step->run->worker_count; worker++) {
        chain_worker(step, step->first[worker], step->first[worker + 1]);
    }
    TRY(link_direction(step, false, err));
    TRY(link_direction(step, true, err));
    for (int name = 1; name <= step->run->table->name_count; name++) {
        if (step->run->table->kinds[name - 1] < TRACE_OP_REPLICAS) continue;
        TRY(join_collective(step, name, err));
    }
    return STATUS_OK;
}

/// Kahn's algorithm over units.
///
/// @param order [count] out: ops as they can be played
/// @return how many ops have a place; fewer than count: the others wait in a circle
static int order_units(const making *step, int *order, int *first_op, int *unit_count)
{
    int *waits = arena_array(step->scratch, (size_t)step->count + 1,
                             sizeof *waits); // of a unit, for how many
    int *first = arena_array(step->scratch, (size_t)step->count + 2, sizeof *first);
    int *after = arena_array(step->scratch, (size_t)step->edge_count + 1, sizeof *after);
    int *ready = arena_array(step->scratch, (size_t)step->count + 1, sizeof *ready);
    int placed = 0;
    int head = 0;
    int tail = 0;
    for (int each = 0; each < step->edge_count; each++) {
        first[step->edges[each].before + 2]++;
        waits[step->unit[step->edges[each].op]]++;
    }
    for (int op = 2; op <= step->count; op++) {
        first[op] += first[op - 1];
    }
    for (int each = 0; each < step->edge_count; each++) {
        after[first[step->edges[each].before + 1]++] = step->unit[step->edges[each].op];
    }
    for (int op = 0; op < step->count; op++) {
        if (step->unit[op] == op && waits[op] == 0) ready[tail++] = op;
    }
    for (; head < tail; head++) {
        first_op[head] = placed;
        for (int op = ready[head]; op >= 0; op = step->next[op]) {
            order[placed++] = op;
            for (int each = first[op]; each < first[op + 1]; each++) {
                if (--waits[after[each]] == 0) ready[tail++] = after[each];
            }
        }
    }
    first_op[head] = placed;
    *unit_count = head;
    return placed;
}

/// Lays ops and edges down in playing order.
static void lay_down(const making *step, const int *order, arena *memory, ana_op_step *made)
{
    int *place = arena_array(step->scratch, (size_t)step->count, sizeof *place);
    made->op_count = step->count;
    made->ops = arena_array(memory, (size_t)step->count, sizeof *made->ops);
    made->first_before = arena_array(memory, (size_t)step->count + 2, sizeof(int));
    made->before = arena_array(memory, (size_t)step->edge_count + 1, sizeof(int));
    made->posted = arena_array(memory, (size_t)step->count, sizeof(int));
    for (int op = 0; op < step->count; op++) {
        place[order[op]] = op;
        made->ops[op] = step->ops[order[op]];
        made->posted[op] = -1;
    }
    for (int each = 0; each < step->edge_count; each++) {
        if (!step->edges[each].is_post) made->first_before[place[step->edges[each].op] + 2]++;
    }
    for (int op = 2; op <= step->count; op++) {
        made->first_before[op] += made->first_before[op - 1];
    }
    for (int each = 0; each < step->edge_count; each++) {
        const int op = place[step->edges[each].op];
        const int before = place[step->edges[each].before];
        if (step->edges[each].is_post) {
            made->posted[op] = before;
        } else {
            made->before[made->first_before[op + 1]++] = before;
        }
    }
}

/// When all that an op waits for has ended, by the ends given; the begin of the step if nothing.
static int64_t ready_ns(const ana_op_step *step, int op, bool with_delays, const int64_t *end_ns)
{
    int64_t ready = 0;
    if (with_delays && step->posted[op] >= 0) ready = end_ns[step->posted[op]];
    for (int each = step->first_before[op]; each < step->first_before[op + 1]; each++) {
        if (end_ns[step->before[each]] > ready) ready = end_ns[step->before[each]];
    }
    return ready;
}

/// First begin and last end.
static void measure_step(ana_op_step *made)
{
    int64_t last_ns = 0;
    made->begin_ns = INT64_MAX;
    for (int op = 0; op < made->op_count; op++) {
        if (made->ops[op].begin_ns < made->begin_ns) made->begin_ns = made->ops[op].begin_ns;
        if (made->ops[op].end_ns > last_ns) last_ns = made->ops[op].end_ns;
    }
    made->recorded_ns = last_ns - made->begin_ns;
}

/// Durations and delays as recorded.
static void measure_ops(arena *memory, arena *scratch, ana_op_step *made)
{
    int64_t *end_ns = arena_array(scratch, (size_t)made->op_count, sizeof *end_ns);
    made->own_ns = arena_array(memory, (size_t)made->op_count, sizeof *made->own_ns);
    made->delay_ns = arena_array(memory, (size_t)made->op_count, sizeof *made->delay_ns);
    for (int unit = 0; unit < made->unit_count; unit++) {
        int64_t together_ns = 0;
        for (int op = made->first_op[unit]; op < made->first_op[unit + 1]; op++) {
            const int64_t begin_ns = made->ops[op].begin_ns - made->begin_ns;
            const int64_t ready = ready_ns(made, op, true, end_ns);
            if (begin_ns > together_ns) together_ns = begin_ns;
            if (begin_ns > ready) made->delay_ns[op] = begin_ns - ready;
        }
        for (int op = made->first_op[unit]; op < made->first_op[unit + 1]; op++) {
            end_ns[op] = made->ops[op].end_ns - made->begin_ns;
            const int64_t own_ns = end_ns[op] - together_ns;
            made->own_ns[op] = own_ns > 0 ? own_ns : 0;
            if (own_ns >= 0) continue;
            made->negative_count++;
            if (-own_ns > made->negative_ns) made->negative_ns = -own_ns;
        }
    }
}

static status order_step(making *step, arena *memory, ana_op_step *made, error_message *err)
{
    int *order = arena_array(step->scratch, (size_t)step->count, sizeof *order);
    made->step = step->ops[0].iteration;
    made->first_op = arena_array(memory, (size_t)step->count + 1, sizeof(int));
    const int placed = order_units(step, order, made->first_op, &made->unit_count);
    if (placed < step->count) {
        return error_set(err, STATUS_FORMAT,
                         "step %d: %d ops wait for each other in a circle: the order of messages "
                         "or collectives differs between workers",
                         made->step, step->count - placed);
    }
    lay_down(step, order, memory, made);
    measure_step(made);
    measure_ops(memory, step->scratch, made);
    const int64_t limit_ns = (INT64_C(1) << 61) / step->count;
    if (made->recorded_ns > limit_ns) {
        return error_set(err, STATUS_FORMAT,
                         "step %d: lasts %" PRId64 " ns, with %d ops at most %" PRId64
                         " can be replayed",
                         made->step, made->recorded_ns, step->count, limit_ns);
    }
    return STATUS_OK;
}

static int64_t end_of_step(const trace_op_table *table, int64_t begin)
{
    int64_t end = begin;
    while (end < table->op_count && table->ops[end].iteration == table->ops[begin].iteration) {
        end++;
    }
    return end;
}

status ana_op_step_make(const ana_op_run *run, int64_t *begin, arena *memory, ana_op_step *made,
                        error_message *err)
{
    const trace_op_table *table = run->table;
    const int64_t first = *begin;
    const int64_t end = end_of_step(table, first);
    if (end - first > INT32_MAX / 8) {
        return error_set(err, STATUS_FORMAT, "step %d: %" PRId64 " ops, at most %d",
                         table->ops[first].iteration, end - first, INT32_MAX / 8);
    }
    const size_t places = (size_t)(end - first);
    making step = {.run = run, .count = (int)places, .scratch = arena_create(1 << 16)};
    trace_op *ops = arena_array(step.scratch, places, sizeof *ops);
    for (size_t op = 0; op < places; op++) {
        ops[op] = trace_op_table_at(table, first + (int64_t)op);
    }
    step.ops = ops;
    step.first = arena_array(step.scratch, (size_t)run->worker_count + 1, sizeof(int));
    step.unit = arena_array(step.scratch, places, sizeof(int));
    step.next = arena_array(step.scratch, places, sizeof(int));
    step.last = arena_array(step.scratch, places, sizeof(int));
    *made = (ana_op_step){.negative_count = 0};
    status result = link_step(&step, err);
    if (result == STATUS_OK) result = order_step(&step, memory, made, err);
    arena_destroy(step.scratch);
    free(step.edges);
    if (result == STATUS_OK) *begin = end;
    return result;
}

/// Names become kinds: the two ends of a message are one.
static void name_kinds(ana_op_run *run, arena *memory)
{
    static const char *const messages[] = {"forward-pp-comm", "backward-pp-comm"};
    const trace_op_table *table = run->table;
    int of_message[2] = {-1, -1};
    run->kinds = arena_array(memory, (size_t)table->name_count + 2, sizeof *run->kinds);
    run->kind_of_name = arena_array(memory, (size_t)table->name_count + 1, sizeof(int));
    for (int name = 0; name < table->name_count; name++) {
        const trace_op_kind kind = table->kinds[name];
        const bool backward = kind >= TRACE_OP_SEND_BACKWARD;
        if (!is_message(kind)) {
            run->kind_of_name[name] = run->kind_count;
            run->kinds[run->kind_count++] = table->names[name];
            continue;
        }
        if (of_message[backward] < 0) {
            of_message[backward] = run->kind_count;
            run->kinds[run->kind_count++] = messages[backward];
        }
        run->kind_of_name[name] = of_message[backward];
    }
}

/// The ideal time of a kind from those of all its ops. @param values [count], reordered
static int64_t ideal_of(bool is_shared, int64_t *values, int64_t count)
{
    double sum = 0;
    if (count == 0) return 0;
    if (is_shared) {
        gsl_sort_long(values, 1, (size_t)count);
        return values[(count - 1) / 2] + (values[count / 2] - values[(count - 1) / 2]) / 2;
    }
    for (int64_t value = 0; value < count; value++) {
        sum += (double)values[value];
    }
    return (int64_t)(sum / (double)count + 0.5);
}

static void idealize(ana_op_run *run, arena *memory)
{
    int64_t *values = memory_array((size_t)run->table->op_count, sizeof *values);
    run->ideal_ns = arena_array(memory, (size_t)run->table->name_count, sizeof *run->ideal_ns);
    for (int name = 0; name < run->table->name_count; name++) {
        int64_t count = 0;
        for (int step = 0; step < run->step_count; step++) {
            const ana_op_step *each = &run->steps[step];
            for (int op = 0; op < each->op_count; op++) {
                if (each->ops[op].name == name + 1) values[count++] = each->own_ns[op];
            }
        }
        run->ideal_ns[name] = ideal_of(ana_op_is_shared(run->table->kinds[name]), values, count);
    }
    free(values);
}

status ana_op_run_begin(const trace_op_table *table, arena *memory, ana_op_run *run,
                        error_message *err)
{
    ana_op_run made = {.table = table,
                       .stage_count = table->stage_count,
                       .replica_count = table->replica_count,
                       .worker_count = table->stage_count * table->replica_count};
    for (int64_t begin = 0; begin < table->op_count; begin = end_of_step(table, begin)) {
        made.step_count++;
    }
    if ((int64_t)made.worker_count * table->chunk_count * made.step_count >
        SPARSE_MAX * table->op_count) {
        return error_set(err, STATUS_FORMAT,
                         "%d replicas x %d stages x %d chunks in %d steps, but only %" PRId64
                         " ops: is a column taken for another?",
                         made.replica_count, made.stage_count, table->chunk_count, made.step_count,
                         table->op_count);
    }
    name_kinds(&made, memory);
    *run = made;
    return STATUS_OK;
}

status ana_op_run_make(const trace_op_table *table, arena *memory, ana_op_run *run,
                       error_message *err)
{
    ana_op_run made;
    int64_t begin = 0;
    TRY(ana_op_run_begin(table, memory, &made, err));
    made.steps = arena_array(memory, (size_t)made.step_count + 1, sizeof *made.steps);
    for (int step = 0; step < made.step_count; step++) {
        TRY(ana_op_step_make(&made, &begin, memory, &made.steps[step], err));
    }
    idealize(&made, memory);
    *run = made;
    return STATUS_OK;
}

int64_t ana_op_step_replay(const ana_op_step *step, const ana_replay *replay, int64_t *begin_ns,
                           int64_t *end_ns)
{
    const int64_t *duration_ns = replay->duration_ns != NULL ? replay->duration_ns : step->own_ns;
    int64_t length_ns = 0;
    for (int unit = 0; unit < step->unit_count; unit++) {
        int64_t together_ns = 0;
        for (int op = step->first_op[unit]; op < step->first_op[unit + 1]; op++) {
            begin_ns[op] = ready_ns(step, op, replay->with_delays, end_ns);
            if (replay->with_delays) begin_ns[op] += step->delay_ns[op];
            if (begin_ns[op] > together_ns) together_ns = begin_ns[op];
        }
        for (int op = step->first_op[unit]; op < step->first_op[unit + 1]; op++) {
            end_ns[op] = together_ns + duration_ns[op];
            if (end_ns[op] > length_ns) length_ns = end_ns[op];
        }
    }
    return length_ns;
}

int64_t ana_op_step_length(const ana_op_step *step, const ana_replay *replay)
{
    int64_t *begin_ns = memory_array((size_t)step->op_count * 2, sizeof *begin_ns);
    const int64_t length_ns = ana_op_step_replay(step, replay, begin_ns, begin_ns + step->op_count);
    free(begin_ns);
    return length_ns;
}

#include "analysis/stragglers/op_graph.h"

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
    int *unit;   // [count] the op by which the unit is known: its first member
    int *next;   // [count] next member of the unit, or -1
    int *last;   // [count] of a unit's first member: its last
    edge *edges; // [edge_count]
    int edge_count;
    int edge_capacity;
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

static bool is_receive(trace_op_kind kind)
{
    return kind == TRACE_OP_RECV_FORWARD || kind == TRACE_OP_RECV_BACKWARD;
}

static bool is_backward(trace_op_kind kind)
{
    return kind == TRACE_OP_BACKWARD || kind == TRACE_OP_BACKWARD_INPUT;
}

static void add_edge(making *step, edge one)
{
    if (step->edge_count == step->edge_capacity) {
        step->edge_capacity = step->edge_capacity == 0 ? 1024 : 2 * step->edge_capacity;
        step->edges = memory_resize(step->edges, (size_t)step->edge_capacity, sizeof *step->edges);
    }
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
        const bool is_posted = is_receive(kind) && of.ahead >= 0 && is_over(step, of.ahead, op);
        if (is_posted) add_edge(step, (edge){op, of.ahead, true});
        if (is_message(kind)) continue;
        if (of.ahead >= 0 && kind > TRACE_OP_BACKWARD && !is_over(step, of.ahead, op)) {
            put_beside(step, &of, op);
        } else {
            put_next(step, &of, op);
        }
    }
}

/// The ops of a step, by worker, that meet a test; each list is in the order in which they ran.
typedef struct op_lists {
    int *first; // [worker_count + 1]
    int *ops;
} op_lists;

typedef bool op_test(const making *step, const trace_op *op, int what);

static op_lists list_ops(const making *step, op_test *meets, int what)
{
    const int workers = step->run->worker_count;
    op_lists lists = {arena_array(step->scratch, (size_t)workers + 1, sizeof(int)),
                      arena_array(step->scratch, (size_t)step->count + 1, sizeof(int))};
    int count = 0;
    int worker = 0;
    for (int op = 0; op < step->count; op++) {
        for (; worker <= step->ops[op].rank; worker++) {
            lists.first[worker] = count;
        }
        if (meets(step, &step->ops[op], what)) lists.ops[count++] = op;
    }
    for (; worker <= workers; worker++) {
        lists.first[worker] = count;
    }
    return lists;
}

static int list_length(const op_lists *lists, int worker)
{
    return lists->first[worker + 1] - lists->first[worker];
}

static bool is_of_kind(const making *step, const trace_op *op, int kind)
{
    (void)step;
    return (int)op->kind == kind;
}

static bool is_of_name(const making *step, const trace_op *op, int name)
{
    (void)step;
    return op->name == name;
}

/// F or backward whose result another stage needs (1), or that needs one (0); backward: 2 more.
static bool is_linked(const making *step, const trace_op *op, int what)
{
    const int last = step->run->table->chunk_count * step->run->stage_count - 1;
    const bool backward = what >= 2;
    if (backward ? !is_backward(op->kind) : op->kind != TRACE_OP_FORWARD) return false;
    const bool makes = what % 2 == 1;
    return op->layer != (makes == backward ? 0 : last);
}

/// Two lists that go together, op by op.
typedef struct matched {
    const char *what;
    int count;
    const char *other;
    int other_count;
} matched;

static status check_matched(const making *step, int worker, const matched *lists, int list_count,
                            error_message *err)
{
    for (int list = 0; list < list_count; list++) {
        const matched *each = &lists[list];
        if (each->count == each->other_count) continue;
        return error_set(
            err, STATUS_FORMAT,
            "step %d, replica %d, stage %d: %d %s beside %d %s: they cannot be matched",
            step->ops[0].iteration, worker / step->run->stage_count,
            worker % step->run->stage_count, each->count, each->what, each->other_count,
            each->other);
    }
    return STATUS_OK;
}

static const int *list_of(const op_lists *lists, int worker)
{
    return lists->ops + lists->first[worker];
}

/// @param sends, makers, receives [count] what a worker sends, what makes it, and where it arrives
static void send_messages(making *step, const int *sends, const int *makers, const int *receives,
                          int count)
{
    for (int each = 0; each < count; each++) {
        if (each > 0) wait_for(step, sends[each], sends[each - 1]);
        wait_for(step, sends[each], makers[each]);
        join(step, sends[each], receives[each]);
    }
}

/// A receive comes after the one before it and, unless it was recorded to be posted earlier, after
/// what that one was for.
static void receive_messages(making *step, const int *receives, const int *takers, int count)
{
    for (int each = 0; each < count; each++) {
        wait_for(step, takers[each], receives[each]);
        if (each == 0) continue;
        wait_for(step, receives[each], receives[each - 1]);
        if (is_over(step, takers[each - 1], receives[each])) {
            wait_for(step, receives[each], takers[each - 1]);
        }
    }
}

/// The lists of one direction.
typedef struct direction {
    op_lists sends;
    op_lists receives;
    op_lists makers; // F or backwards that make a message for another stage
    op_lists takers; // that need one
    bool has_messages;
} direction;

/// Links what a worker makes and takes with the stage that its messages go to.
static status link_worker(making *step, const direction *of, int worker, int peer,
                          error_message *err)
{
    const int made = list_length(&of->makers, worker);
    const int sent = list_length(&of->sends, worker);
    const int received = list_length(&of->receives, worker);
    const matched lists[] = {
        {"ops that make a message", made, "ops of the next stage that need one",
         list_length(&of->takers, peer)},
        {"sends", sent, "ops that make a message", made},
        {"receives", received, "ops that need a message", list_length(&of->takers, worker)},
        {"sends", sent, "receives of the stage they go to", list_length(&of->receives, peer)}};
    TRY(check_matched(step, worker, lists, of->has_messages ? 4 : 1, err));
    if (!of->has_messages) { // work waits for the work whose result it needs
        for (int each = 0; each < made; each++) {
            wait_for(step, list_of(&of->takers, peer)[each], list_of(&of->makers, worker)[each]);
        }
        return STATUS_OK;
    }
    send_messages(step, list_of(&of->sends, worker), list_of(&of->makers, worker),
                  list_of(&of->receives, peer), sent);
    receive_messages(step, list_of(&of->receives, worker), list_of(&of->takers, worker), received);
    return STATUS_OK;
}

static status link_direction(making *step, bool backward, error_message *err)
{
    const int stages = step->run->stage_count;
    const int workers = step->run->worker_count;
    direction of = {.sends = list_ops(step, is_of_kind,
                                      backward ? TRACE_OP_SEND_BACKWARD : TRACE_OP_SEND_FORWARD),
                    .receives = list_ops(step, is_of_kind,
                                         backward ? TRACE_OP_RECV_BACKWARD : TRACE_OP_RECV_FORWARD),
                    .makers = list_ops(step, is_linked, backward ? 3 : 1),
                    .takers = list_ops(step, is_linked, backward ? 2 : 0)};
    of.has_messages = of.sends.first[workers] + of.receives.first[workers] > 0;
    for (int worker = 0; worker < workers; worker++) {
        const int stage = worker % stages;
        const int peer = worker - stage + (stage + (backward ? stages - 1 : 1)) % stages;
        TRY(link_worker(step, &of, worker, peer, err));
    }
    return STATUS_OK;
}

/// The worker that a group of a collective is known by; -1: the worker takes no part.
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
    const trace_op_kind kind = run->table->kinds[name - 1];
    const op_lists lists = list_ops(step, is_of_name, name);
    int *leaders = arena_array(step->scratch, (size_t)run->worker_count, sizeof *leaders);
    for (int worker = 0; worker < run->worker_count; worker++) {
        const int count = list_length(&lists, worker);
        const int group = group_of(run, kind, worker);
        if (count == 0) continue;
        if (leaders[group] == 0) {
            leaders[group] = worker + 1; // 0: none yet
            continue;
        }
        const int leader = leaders[group] - 1;
        const matched all = {run->table->names[name - 1], count,
                             "of another worker that takes part", list_length(&lists, leader)};
        TRY(check_matched(step, worker, &all, 1, err));
        for (int each = 0; each < count; each++) {
            join(step, list_of(&lists, leader)[each], list_of(&lists, worker)[each]);
        }
    }
    return STATUS_OK;
}

static status link_step(making *step, error_message *err)
{
    for (int op = 0; op < step->count; op++) {
        step->unit[op] = step->last[op] = op;
        step->next[op] = -1;
    }
    for (int begin = 0; begin < step->count;) {
        int end = begin;
        while (end < step->count && step->ops[end].rank == step->ops[begin].rank) {
            end++;
        }
        chain_worker(step, begin, end);
        begin = end;
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

/// @param ops [count] of one step
static status make_step(const ana_op_run *run, const trace_op *ops, int count, arena *memory,
                        ana_op_step *made, error_message *err)
{
    const size_t places = (size_t)count;
    making step = {.run = run, .ops = ops, .count = count, .scratch = arena_create(1 << 16)};
    step.unit = arena_array(step.scratch, places, sizeof(int));
    step.next = arena_array(step.scratch, places, sizeof(int));
    step.last = arena_array(step.scratch, places, sizeof(int));
    status result = link_step(&step, err);
    if (result == STATUS_OK) result = order_step(&step, memory, made, err);
    arena_destroy(step.scratch);
    free(step.edges);
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

static int compare_int64(const void *a, const void *b)
{
    const int64_t left = *(const int64_t *)a;
    const int64_t right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

/// The ideal time of a kind from those of all its ops. @param values [count], reordered
static int64_t ideal_of(bool is_shared, int64_t *values, int64_t count)
{
    double sum = 0;
    if (count == 0) return 0;
    if (is_shared) {
        qsort(values, (size_t)count, sizeof *values, compare_int64);
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

static int64_t end_of_step(const trace_op_table *table, int64_t begin)
{
    int64_t end = begin;
    while (end < table->op_count && table->ops[end].iteration == table->ops[begin].iteration) {
        end++;
    }
    return end;
}

status ana_op_run_make(const trace_op_table *table, arena *memory, ana_op_run *run,
                       error_message *err)
{
    ana_op_run made = {.table = table,
                       .stage_count = table->stage_count,
                       .replica_count = table->replica_count,
                       .worker_count = table->stage_count * table->replica_count};
    int capacity = 0;
    for (int64_t begin = 0; begin < table->op_count; begin = end_of_step(table, begin)) {
        capacity++;
    }
    if ((int64_t)made.worker_count * table->chunk_count * capacity > SPARSE_MAX * table->op_count) {
        return error_set(err, STATUS_FORMAT,
                         "%d replicas x %d stages x %d chunks in %d steps, but only %" PRId64
                         " ops: is a column taken for another?",
                         made.replica_count, made.stage_count, table->chunk_count, capacity,
                         table->op_count);
    }
    name_kinds(&made, memory);
    made.steps = arena_array(memory, (size_t)capacity + 1, sizeof *made.steps);
    for (int64_t begin = 0; begin < table->op_count;) {
        const int64_t end = end_of_step(table, begin);
        if (end - begin > INT32_MAX / 8) {
            return error_set(err, STATUS_FORMAT, "step %d: %" PRId64 " ops, at most %d",
                             table->ops[begin].iteration, end - begin, INT32_MAX / 8);
        }
        TRY(make_step(&made, table->ops + begin, (int)(end - begin), memory,
                      &made.steps[made.step_count], err));
        made.step_count++;
        begin = end;
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

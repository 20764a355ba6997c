#include "traces/store/op_table.h"

#include "traces/store/sql.h"

#include <inttypes.h>
#include <stdlib.h>

/// An op and where it stood, since qsort does not keep the order of equals.
typedef struct placed {
    trace_op op;
    int64_t place;
} placed;

static int compare_placed(const void *a, const void *b)
{
    const placed *left = a;
    const placed *right = b;
    if (left->op.iteration != right->op.iteration) {
        return left->op.iteration < right->op.iteration ? -1 : 1;
    }
    if (left->op.rank != right->op.rank) return left->op.rank < right->op.rank ? -1 : 1;
    if (left->op.begin_ns != right->op.begin_ns) {
        return left->op.begin_ns < right->op.begin_ns ? -1 : 1;
    }
    if (left->op.end_ns != right->op.end_ns) return left->op.end_ns < right->op.end_ns ? -1 : 1;
    return (left->place > right->place) - (left->place < right->place);
}

static bool is_sorted(const trace_op *ops, int64_t op_count)
{
    for (int64_t op = 1; op < op_count; op++) {
        const placed before = {ops[op - 1], 0};
        const placed after = {ops[op], 1};
        if (compare_placed(&before, &after) > 0) return false;
    }
    return true;
}

void trace_op_table_sort(trace_op *ops, int64_t op_count)
{
    if (is_sorted(ops, op_count)) return;
    placed *sorted = memory_array((size_t)op_count + 1, sizeof *sorted);
    for (int64_t op = 0; op < op_count; op++) {
        sorted[op] = (placed){ops[op], op};
    }
    qsort(sorted, (size_t)op_count, sizeof *sorted, compare_placed);
    for (int64_t op = 0; op < op_count; op++) {
        ops[op] = sorted[op].op;
    }
    free(sorted);
}

static int compare_by_layer(const void *a, const void *b)
{
    const trace_op *left = *(const trace_op *const *)a;
    const trace_op *right = *(const trace_op *const *)b;
    if (left->layer != right->layer) return left->layer < right->layer ? -1 : 1;
    if (left->microbatch != right->microbatch) {
        return left->microbatch < right->microbatch ? -1 : 1;
    }
    return (left->kind > right->kind) - (left->kind < right->kind);
}

/// The load of one cell: ops[count] of one layer and microbatch, by kind, of all replicas.
static trace_load load_of(const trace_op *const *ops, int64_t count)
{
    trace_load load = trace_load_init(ops[0]->iteration, ops[0]->layer, ops[0]->microbatch);
    int64_t *const targets[] = {&load.forward_ns, &load.backward_input_ns, &load.backward_weight_ns,
                                &load.backward_ns};
    for (int64_t begin = 0; begin < count;) {
        const trace_op_kind kind = ops[begin]->kind;
        int64_t end = begin;
        int64_t sum_ns = 0;
        for (; end < count && ops[end]->kind == kind; end++) {
            sum_ns += ops[end]->end_ns - ops[end]->begin_ns;
        }
        *targets[kind] = (sum_ns + (end - begin) / 2) / (end - begin);
        begin = end;
    }
    return load;
}

/// @param ops [count] of one iteration
static status put_loads(trace_writer *writer, const trace_op *ops, int64_t count,
                        const trace_op **work, error_message *err)
{
    int64_t work_count = 0;
    for (int64_t op = 0; op < count; op++) {
        if (ops[op].kind <= TRACE_OP_BACKWARD) work[work_count++] = &ops[op];
    }
    qsort(work, (size_t)work_count, sizeof(const trace_op *), compare_by_layer);
    for (int64_t begin = 0; begin < work_count;) {
        int64_t end = begin + 1;
        while (end < work_count && work[end]->layer == work[begin]->layer &&
               work[end]->microbatch == work[begin]->microbatch) {
            end++;
        }
        const trace_load load = load_of(work + begin, end - begin);
        TRY(trace_writer_put_load(writer, &load, err));
        begin = end;
    }
    return STATUS_OK;
}

static status put_iterations(trace_writer *writer, const trace_op_table *table,
                             const trace_op **work, error_message *err)
{
    for (int64_t begin = 0; begin < table->op_count;) {
        int64_t end = begin;
        for (; end < table->op_count && table->ops[end].iteration == table->ops[begin].iteration;
             end++) {
            TRY(trace_writer_put_op(writer, &table->ops[end], err));
        }
        TRY(put_loads(writer, table->ops + begin, end - begin, work, err));
        begin = end;
    }
    return STATUS_OK;
}

status trace_op_table_put(trace_writer *writer, const trace_op_table *table, error_message *err)
{
    for (int name = 0; name < table->name_count; name++) {
        TRY(trace_writer_put_op_name(writer, name + 1, table->names[name], err));
    }
    const trace_op **work = memory_array((size_t)table->op_count + 1, sizeof(const trace_op *));
    const status result = put_iterations(writer, table, work, err);
    free(work);
    return result;
}

static void read_name(sqlite3_stmt *row, arena *memory, void *item)
{
    *(const char **)item = sql_text(row, 0, memory);
}

/// Names the ops that an execution recorded by their kinds. Their stages are parts of the model in
/// order; a rank that holds several holds every rank_count-th.
///
/// @return false if other ops are among them, or none
static bool name_by_kind(trace_op_table *table, arena *memory)
{
    int rank_count = 0; // of a replica
    table->name_count = table->op_count > 0 ? TRACE_OP_BACKWARD + 1 : 0;
    table->names = arena_array(memory, TRACE_OP_BACKWARD + 1, sizeof *table->names);
    for (int kind = 0; kind <= TRACE_OP_BACKWARD; kind++) {
        table->names[kind] = trace_op_kind_name((trace_op_kind)kind);
    }
    for (int64_t each = 0; each < table->op_count; each++) {
        const trace_op *op = &table->ops[each];
        if (op->replica == 0 && op->rank >= rank_count) rank_count = op->rank + 1;
    }
    for (int64_t each = 0; each < table->op_count; each++) {
        trace_op *op = &table->ops[each];
        const bool is_placed = op->layer == TRACE_NOT_RECORDED && op->stage >= 0 &&
                               rank_count > 0 && op->kind <= TRACE_OP_BACKWARD &&
                               op->stage % rank_count == op->rank - op->replica * rank_count;
        if (!is_placed) return false;
        op->name = (int)op->kind + 1;
        op->chunk = op->stage / rank_count;
        op->stage %= rank_count;
    }
    return table->op_count > 0;
}

/// Checks an op and widens the counts to hold it.
static status take_op(const trace_store *store, trace_op_table *table, const trace_op *op,
                      error_message *err)
{
    const bool is_known =
        op->stage >= 0 && op->stage < TRACE_RANKS_MAX && op->replica >= 0 &&
        op->replica < TRACE_RANKS_MAX && op->chunk >= 0 && op->chunk < TRACE_CHUNKS_MAX &&
        op->name > 0 && op->name <= table->name_count && op->begin_ns >= 0 &&
        op->end_ns >= op->begin_ns && (op->kind > TRACE_OP_BACKWARD || op->microbatch >= 0);
    if (!is_known) {
        return error_set(err, STATUS_FORMAT,
                         "%s: table op: iteration %d rank %d holds an op that no import put there",
                         store->path, op->iteration, op->rank);
    }
    table->kinds[op->name - 1] = op->kind;
    if (op->stage >= table->stage_count) table->stage_count = op->stage + 1;
    if (op->replica >= table->replica_count) table->replica_count = op->replica + 1;
    if (op->chunk >= table->chunk_count) table->chunk_count = op->chunk + 1;
    return STATUS_OK;
}

status trace_op_table_get(trace_store *store, const trace_info *info, arena *memory,
                          trace_op_table *table, error_message *err)
{
    static const sql_select names = {"SELECT text FROM op_name WHERE trace_id=? ORDER BY name",
                                     read_name, sizeof(const char *)};
    trace_op_table got = {0};
    int count = 0;
    TRY(sql_rows(store, &names, memory, &got.names, &got.name_count, err, "i", info->trace_id));
    TRY(trace_ops(store, info->trace_id, TRACE_NOT_RECORDED, memory, &got.ops, &count, err));
    got.op_count = count;
    if (count == 0 || (got.name_count == 0 && !name_by_kind(&got, memory))) {
        return error_set(err, STATUS_INVALID,
                         "%s: trace '%.80s' does not hold every op of a run by rank, stage and "
                         "microbatch: dynmo import ops and dynmo run --record make such traces",
                         store->path, info->name);
    }
    got.kinds = arena_array(memory, (size_t)got.name_count, sizeof *got.kinds);
    for (int64_t op = 0; op < got.op_count; op++) {
        TRY(take_op(store, &got, &got.ops[op], err));
    }
    if ((int64_t)got.stage_count * got.replica_count > TRACE_RANKS_MAX) {
        return error_set(err, STATUS_FORMAT, "%s: table op: %d stages x %d replicas exceed %d",
                         store->path, got.stage_count, got.replica_count, TRACE_RANKS_MAX);
    }
    for (int64_t each = 0; each < got.op_count; each++) {
        trace_op *op = &got.ops[each];
        op->kind = got.kinds[op->name - 1];
        op->rank = op->replica * got.stage_count + op->stage;
        if (op->kind <= TRACE_OP_BACKWARD) op->layer = op->chunk * got.stage_count + op->stage;
    }
    trace_op_table_sort(got.ops, got.op_count);
    *table = got;
    return STATUS_OK;
}

static int compare_parts(const trace_op *op, int iteration, int replica, trace_op_kind kind,
                         int layer, int microbatch)
{
    if (op->iteration != iteration) return op->iteration < iteration ? -1 : 1;
    if (op->replica != replica) return op->replica < replica ? -1 : 1;
    if (op->kind != kind) return op->kind < kind ? -1 : 1;
    if (op->layer != layer) return op->layer < layer ? -1 : 1;
    return (op->microbatch > microbatch) - (op->microbatch < microbatch);
}

static int compare_indexed(const void *a, const void *b)
{
    const trace_op *left = *(const trace_op *const *)a;
    const trace_op *right = *(const trace_op *const *)b;
    const int order = compare_parts(left, right->iteration, right->replica, right->kind,
                                    right->layer, right->microbatch);
    if (order != 0) return order;
    if (left->begin_ns != right->begin_ns) return left->begin_ns < right->begin_ns ? -1 : 1;
    return (left > right) - (left < right);
}

void trace_op_index_create(const trace_op *ops, int64_t count, trace_op_index *index)
{
    const trace_op **order = memory_array((size_t)count + 1, sizeof(const trace_op *));
    for (int64_t op = 0; op < count; op++) {
        order[op] = &ops[op];
    }
    qsort(order, (size_t)count, sizeof(const trace_op *), compare_indexed);
    *index = (trace_op_index){ops, count, order};
}

void trace_op_index_free(trace_op_index *index)
{
    free((void *)index->order);
    *index = (trace_op_index){0};
}

const trace_op *trace_op_find(const trace_op_index *index, int iteration, int replica,
                              trace_op_kind kind, int layer, int microbatch)
{
    int64_t low = 0;
    int64_t high = index->count;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (compare_parts(index->order[middle], iteration, replica, kind, layer, microbatch) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == index->count) return NULL;
    const trace_op *op = index->order[low];
    return compare_parts(op, iteration, replica, kind, layer, microbatch) == 0 ? op : NULL;
}

/// The B of a layer, or where it has none its BW.
static const trace_op *find_backward(const trace_op_index *index, const trace_op *of, int layer)
{
    const trace_op *input = trace_op_find(index, of->iteration, of->replica,
                                          TRACE_OP_BACKWARD_INPUT, layer, of->microbatch);
    if (input != NULL) return input;
    return trace_op_find(index, of->iteration, of->replica, TRACE_OP_BACKWARD, layer,
                         of->microbatch);
}

const trace_op *trace_op_producer(const trace_op_index *index, const trace_op *op)
{
    if (op->layer < 0 || op->microbatch < 0) return NULL;
    switch (op->kind) {
    case TRACE_OP_FORWARD:
        return trace_op_find(index, op->iteration, op->replica, TRACE_OP_FORWARD, op->layer - 1,
                             op->microbatch);
    case TRACE_OP_BACKWARD_WEIGHT:
        if (find_backward(index, op, op->layer) != NULL) return NULL;
        return find_backward(index, op, op->layer + 1);
    case TRACE_OP_BACKWARD_INPUT:
    case TRACE_OP_BACKWARD:
        return find_backward(index, op, op->layer + 1);
    default:
        return NULL;
    }
}

#include "traces/store/op_table.h"

#include "base/sorter.h"
#include "traces/store/sql.h"

#include <stdlib.h>
#include <string.h>

trace_op trace_op_table_at(const trace_op_table *table, int64_t op)
{
    const trace_table_op *at = &table->ops[op];
    return (trace_op){.rank = at->rank,
                      .iteration = at->iteration,
                      .kind = table->kinds[at->name - 1],
                      .stage = at->stage,
                      .layer = at->layer,
                      .microbatch = at->microbatch,
                      .begin_ns = at->begin_ns,
                      .end_ns = at->end_ns,
                      .busy_ns = TRACE_NOT_RECORDED,
                      .replica = at->replica,
                      .chunk = at->chunk,
                      .name = at->name};
}

void trace_op_table_add(trace_op_table *table, const trace_op *op)
{
    table->ops[table->op_count++] = (trace_table_op){.begin_ns = op->begin_ns,
                                                     .end_ns = op->end_ns,
                                                     .iteration = op->iteration,
                                                     .microbatch = op->microbatch,
                                                     .rank = op->rank,
                                                     .layer = op->layer,
                                                     .replica = (uint16_t)op->replica,
                                                     .stage = (uint16_t)op->stage,
                                                     .chunk = (uint16_t)op->chunk,
                                                     .name = (uint16_t)op->name};
    if (op->stage >= table->stage_count) table->stage_count = op->stage + 1;
    if (op->replica >= table->replica_count) table->replica_count = op->replica + 1;
    if (op->chunk >= table->chunk_count) table->chunk_count = op->chunk + 1;
}

/// The order of ops that are sorted.
typedef int (*compare)(const void *a, const void *b);

static int compare_ops(const void *a, const void *b)
{
    const trace_op *left = a;
    const trace_op *right = b;
    if (left->iteration != right->iteration) return left->iteration < right->iteration ? -1 : 1;
    if (left->rank != right->rank) return left->rank < right->rank ? -1 : 1;
    if (left->begin_ns != right->begin_ns) return left->begin_ns < right->begin_ns ? -1 : 1;
    return (left->end_ns > right->end_ns) - (left->end_ns < right->end_ns);
}

static int compare_table_ops(const void *a, const void *b)
{
    const trace_table_op *left = a;
    const trace_table_op *right = b;
    if (left->iteration != right->iteration) return left->iteration < right->iteration ? -1 : 1;
    if (left->replica != right->replica) return left->replica < right->replica ? -1 : 1;
    if (left->stage != right->stage) return left->stage < right->stage ? -1 : 1;
    if (left->begin_ns != right->begin_ns) return left->begin_ns < right->begin_ns ? -1 : 1;
    return (left->end_ns > right->end_ns) - (left->end_ns < right->end_ns);
}

/// Merges [items, middle) and [middle, end), each in order. What need not move stays where it is.
///
/// @param room for a copy of what is left of the first
static void merge(char *items, char *middle, const char *end, size_t bytes, compare order,
                  char *room)
{
    if (order(middle - bytes, middle) <= 0) return;
    while (order(items, middle) <= 0) {
        items += bytes;
    }
    const char *left = room;
    const char *left_end = room + (middle - items);
    const char *right = middle;
    memcpy(room, items, (size_t)(middle - items));
    for (; left < left_end; items += bytes) {
        const char **from = right < end && order(left, right) > 0 ? &right : &left;
        memcpy(items, *from, bytes);
        *from += bytes;
    }
}

// qsort asks for a copy of all, and does not keep the order of equals.
static void sort_part(char *items, size_t count, size_t bytes, compare order, char *room)
{
    const size_t middle = count / 2;
    if (middle == 0) return;
    sort_part(items, middle, bytes, order, room);
    sort_part(items + middle * bytes, count - middle, bytes, order, room);
    merge(items, items + middle * bytes, items + count * bytes, bytes, order, room);
}

static void sort(void *items, int64_t count, size_t bytes, compare order)
{
    char *room = memory_array((size_t)count / 2, bytes); // used as far as needed
    sort_part(items, (size_t)count, bytes, order, room);
    free(room);
}

void trace_ops_sort(trace_op *ops, int64_t op_count)
{
    sort(ops, op_count, sizeof *ops, compare_ops);
}

void trace_op_table_sort(trace_table_op *ops, int64_t op_count)
{
    sort(ops, op_count, sizeof *ops, compare_table_ops);
}

static int compare_by_layer(const void *a, const void *b)
{
    const trace_table_op *left = *(const trace_table_op *const *)a;
    const trace_table_op *right = *(const trace_table_op *const *)b;
    if (left->layer != right->layer) return left->layer < right->layer ? -1 : 1;
    return (left->microbatch > right->microbatch) - (left->microbatch < right->microbatch);
}

/// The load of one cell: ops[count] of one layer and microbatch of all replicas.
static trace_load load_of(const trace_op_table *table, const trace_table_op *const *ops,
                          int64_t count)
{
    trace_load load = trace_load_init(ops[0]->iteration, ops[0]->layer, ops[0]->microbatch);
    int64_t sums_ns[TRACE_OP_BACKWARD + 1] = {0};
    int64_t counts[TRACE_OP_BACKWARD + 1] = {0};
    for (int64_t op = 0; op < count; op++) {
        const trace_op_kind kind = table->kinds[ops[op]->name - 1];
        sums_ns[kind] += ops[op]->end_ns - ops[op]->begin_ns;
        counts[kind]++;
    }
    for (int kind = 0; kind <= TRACE_OP_BACKWARD; kind++) {
        if (counts[kind] == 0) continue;
        load.time_ns[kind] = (sums_ns[kind] + counts[kind] / 2) / counts[kind];
    }
    return load;
}

/// @param ops [count] of one iteration
/// @param work [count]
static status put_loads(trace_writer *writer, const trace_op_table *table,
                        const trace_table_op *ops, int64_t count, const trace_table_op **work,
                        error_message *err)
{
    int64_t work_count = 0;
    for (int64_t op = 0; op < count; op++) {
        if (table->kinds[ops[op].name - 1] <= TRACE_OP_BACKWARD) work[work_count++] = &ops[op];
    }
    qsort(work, (size_t)work_count, sizeof(const trace_table_op *), compare_by_layer);
    for (int64_t begin = 0; begin < work_count;) {
        int64_t end = begin + 1;
        while (end < work_count && compare_by_layer(&work[begin], &work[end]) == 0) {
            end++;
        }
        const trace_load load = load_of(table, work + begin, end - begin);
        TRY(trace_writer_put_load(writer, &load, err));
        begin = end;
    }
    return STATUS_OK;
}

static status put_iterations(trace_writer *writer, const trace_op_table *table,
                             const trace_table_op **work, error_message *err)
{
    for (int64_t begin = 0; begin < table->op_count;) {
        int64_t end = begin;
        for (; end < table->op_count && table->ops[end].iteration == table->ops[begin].iteration;
             end++) {
            const trace_op op = trace_op_table_at(table, end);
            TRY(trace_writer_put_op(writer, &op, err));
        }
        TRY(put_loads(writer, table, table->ops + begin, end - begin, work, err));
        begin = end;
    }
    return STATUS_OK;
}

status trace_op_table_put(trace_writer *writer, const trace_op_table *table, error_message *err)
{
    for (int name = 0; name < table->name_count; name++) {
        TRY(trace_writer_put_op_name(writer, name + 1, table->names[name], err));
    }
    // As many as an iteration has are used.
    const trace_table_op **work =
        memory_array((size_t)table->op_count + 1, sizeof(const trace_table_op *));
    const status result = put_iterations(writer, table, work, err);
    free(work);
    return result;
}

/// Names the ops that an execution recorded by their kinds. Their stages are parts of the model in
/// order; a rank that holds several holds every rank_count-th.
///
/// @param ops [count]
/// @return false if other ops are among them
static bool name_by_kind(trace_op_table *table, trace_op *ops, int count, arena *memory)
{
    int rank_count = 0; // of a replica
    table->name_count = TRACE_OP_BACKWARD + 1;
    table->names = arena_array(memory, TRACE_OP_BACKWARD + 1, sizeof *table->names);
    for (int kind = 0; kind <= TRACE_OP_BACKWARD; kind++) {
        table->names[kind] = trace_op_kind_names[kind];
    }
    for (int op = 0; op < count; op++) {
        if (ops[op].replica == 0 && ops[op].rank >= rank_count) rank_count = ops[op].rank + 1;
    }
    for (int each = 0; each < count; each++) {
        trace_op *op = &ops[each];
        const bool is_placed =
            op->layer == TRACE_NOT_RECORDED && op->stage >= 0 && rank_count > 0 &&
            op->kind <= TRACE_OP_BACKWARD &&
            op->stage % rank_count == op->rank - (int64_t)op->replica * rank_count;
        if (!is_placed) return false;
        op->name = (int)op->kind + 1;
        op->chunk = op->stage / rank_count;
        op->stage %= rank_count;
    }
    return true;
}

/// Checks and adds an op.
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
    trace_op_table_add(table, op);
    return STATUS_OK;
}

void trace_op_table_place(trace_op_table *table)
{
    for (int64_t each = 0; each < table->op_count; each++) {
        trace_table_op *op = &table->ops[each];
        const bool is_work = table->kinds[op->name - 1] <= TRACE_OP_BACKWARD;
        op->rank = op->replica * table->stage_count + op->stage;
        op->layer = is_work ? op->chunk * table->stage_count + op->stage : TRACE_NOT_RECORDED;
    }
}

/// @param ops [count]
static status take_ops(const trace_store *store, const trace_info *info, trace_op *ops, int count,
                       arena *memory, trace_op_table *got, error_message *err)
{
    if (count == 0 || (got->name_count == 0 && !name_by_kind(got, ops, count, memory))) {
        return error_set(err, STATUS_INVALID,
                         "%s: trace '%.80s' does not hold every op of a run by rank, stage and "
                         "microbatch: dynmo import ops and dynmo run --record make such traces",
                         store->path, info->name);
    }
    got->kinds = arena_array(memory, (size_t)got->name_count, sizeof *got->kinds);
    got->ops = arena_array(memory, (size_t)count, sizeof *got->ops);
    for (int op = 0; op < count; op++) {
        TRY(take_op(store, got, &ops[op], err));
    }
    if ((int64_t)got->stage_count * got->replica_count > TRACE_RANKS_MAX) {
        return error_set(err, STATUS_FORMAT, "%s: table op: %d stages x %d replicas exceed %d",
                         store->path, got->stage_count, got->replica_count, TRACE_RANKS_MAX);
    }
    trace_op_table_place(got);
    trace_op_table_sort(got->ops, got->op_count);
    return STATUS_OK;
}

status trace_op_table_get(trace_store *store, const trace_info *info, arena *memory,
                          trace_op_table *table, error_message *err)
{
    trace_op_table got = {0};
    trace_op *ops = NULL;
    int count = 0;
    // Ops have the numbers of their names: where one is missing, its text is nothing, and refused.
    TRY(sql_rows(store, &sql_text_record,
                 " FROM (SELECT CASE name WHEN row_number() OVER (ORDER BY name) THEN text END"
                 " AS text, name FROM op_name WHERE trace_id=?) ORDER BY name",
                 memory, &got.names, &got.name_count, err, "i", info->trace_id));
    if (got.name_count > TRACE_OP_NAMES_MAX) {
        return error_set(err, STATUS_FORMAT, "%s: table op_name: %d names, of at most %d",
                         store->path, got.name_count, TRACE_OP_NAMES_MAX);
    }
    arena *scratch = arena_create(1 << 16);
    status result =
        trace_ops(store, info->trace_id, TRACE_NOT_RECORDED, scratch, &ops, &count, err);
    if (result == STATUS_OK) result = take_ops(store, info, ops, count, memory, &got, err);
    arena_destroy(scratch);
    if (result == STATUS_OK) *table = got;
    return result;
}

status trace_op_table_read(const char *path, const char *name, arena *memory, trace_op_table *table,
                           error_message *err)
{
    trace_store *store = NULL;
    trace_info info;
    TRY(trace_store_open(path, TRACE_READ, &store, err));
    status result = trace_find(store, name, memory, &info, err);
    if (result == STATUS_OK) result = trace_op_table_get(store, &info, memory, table, err);
    trace_store_close(store);
    return result;
}

/// By iteration, replica, kind, layer and microbatch.
static int compare_parts(const trace_op *left, const trace_op *right)
{
    if (left->iteration != right->iteration) return left->iteration < right->iteration ? -1 : 1;
    if (left->replica != right->replica) return left->replica < right->replica ? -1 : 1;
    if (left->kind != right->kind) return left->kind < right->kind ? -1 : 1;
    if (left->layer != right->layer) return left->layer < right->layer ? -1 : 1;
    return (left->microbatch > right->microbatch) - (left->microbatch < right->microbatch);
}

static int compare_indexed(const void *a, const void *b)
{
    const trace_op *left = *(const trace_op *const *)a;
    const trace_op *right = *(const trace_op *const *)b;
    const int order = compare_parts(left, right);
    if (order != 0) return order;
    if (left->begin_ns != right->begin_ns) return left->begin_ns < right->begin_ns ? -1 : 1;
    return (left > right) - (left < right);
}

static int compare_found(const void *item, const void *key)
{
    return compare_parts(*(const trace_op *const *)item, key);
}

trace_op_index trace_op_index_of(const trace_op *ops, int64_t count, arena *memory)
{
    const trace_op **order = arena_array(memory, (size_t)count, sizeof(const trace_op *));
    for (int64_t op = 0; op < count; op++) {
        order[op] = &ops[op];
    }
    qsort(order, (size_t)count, sizeof(const trace_op *), compare_indexed);
    return (trace_op_index){ops, count, order};
}

const trace_op *trace_op_find(const trace_op_index *index, int iteration, int replica,
                              trace_op_kind kind, int layer, int microbatch)
{
    const trace_op key = {.iteration = iteration,
                          .replica = replica,
                          .kind = kind,
                          .layer = layer,
                          .microbatch = microbatch};
    const size_t count = (size_t)index->count;
    const size_t place =
        sorted_place(index->order, count, sizeof(const trace_op *), &key, compare_found);
    if (place == count || compare_parts(index->order[place], &key) != 0) return NULL;
    return index->order[place];
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

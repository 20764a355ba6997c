#include "traces/store/op_index.h"
#include "base/arena.h"

#include <stdlib.h>

/// What an op is sorted by, and where it stands.
typedef struct entry {
    int32_t iteration;
    int32_t replica;
    int32_t kind;
    int32_t layer;
    int32_t microbatch;
    int64_t begin_ns;
    int64_t place;
} entry;

static int compare_parts(const trace_op *op, int iteration, int replica, trace_op_kind kind,
                         int layer, int microbatch)
{
    if (op->iteration != iteration) return op->iteration < iteration ? -1 : 1;
    if (op->replica != replica) return op->replica < replica ? -1 : 1;
    if (op->kind != kind) return op->kind < kind ? -1 : 1;
    if (op->layer != layer) return op->layer < layer ? -1 : 1;
    return (op->microbatch > microbatch) - (op->microbatch < microbatch);
}

static int compare_entries(const void *a, const void *b)
{
    const entry *left = a;
    const entry *right = b;
    if (left->iteration != right->iteration) return left->iteration < right->iteration ? -1 : 1;
    if (left->replica != right->replica) return left->replica < right->replica ? -1 : 1;
    if (left->kind != right->kind) return left->kind < right->kind ? -1 : 1;
    if (left->layer != right->layer) return left->layer < right->layer ? -1 : 1;
    if (left->microbatch != right->microbatch) {
        return left->microbatch < right->microbatch ? -1 : 1;
    }
    if (left->begin_ns != right->begin_ns) return left->begin_ns < right->begin_ns ? -1 : 1;
    return (left->place > right->place) - (left->place < right->place);
}

void trace_op_index_create(const trace_op *ops, int64_t count, trace_op_index *index)
{
    entry *entries = memory_array((size_t)count + 1, sizeof *entries);
    int64_t *order = memory_array((size_t)count + 1, sizeof *order);
    for (int64_t op = 0; op < count; op++) {
        entries[op] = (entry){ops[op].iteration,
                              ops[op].replica,
                              (int32_t)ops[op].kind,
                              ops[op].layer,
                              ops[op].microbatch,
                              ops[op].begin_ns,
                              op};
    }
    qsort(entries, (size_t)count, sizeof *entries, compare_entries);
    for (int64_t op = 0; op < count; op++) {
        order[op] = entries[op].place;
    }
    free(entries);
    *index = (trace_op_index){ops, count, order};
}

void trace_op_index_free(trace_op_index *index)
{
    free(index->order);
    *index = (trace_op_index){0};
}

const trace_op *trace_op_find(const trace_op_index *index, int iteration, int replica,
                              trace_op_kind kind, int layer, int microbatch)
{
    int64_t low = 0;
    int64_t high = index->count;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        const trace_op *op = &index->ops[index->order[middle]];
        if (compare_parts(op, iteration, replica, kind, layer, microbatch) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == index->count) return NULL;
    const trace_op *op = &index->ops[index->order[low]];
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

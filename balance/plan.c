#include "balance/plan.h"

#include <stdlib.h>
#include <string.h>

static const char *const schema = "dynmo-plan/1";
enum { DATA_PARALLEL_MAX = 1 << 20, CLUSTER_RANKS_MAX = 1 << 24 };

static status read_schema(json_value object, error_message *err)
{
    const char *found = NULL;
    const json_value value = json_member(object, "schema");
    TRY(json_string(value, &found, err));
    if (strcmp(found, schema) == 0) return STATUS_OK;
    const bool other_version = strncmp(found, schema, strlen(schema) - 1) == 0;
    return json_error(value, other_version ? STATUS_UNSUPPORTED : STATUS_FORMAT, err,
                      "'%.40s' is not %s", found, schema);
}

static status read_ints(json_value value, int count, int max, arena *memory, const int **out,
                        error_message *err)
{
    int64_t *wide = arena_array(memory, (size_t)count, sizeof *wide);
    int *narrow = arena_array(memory, (size_t)count, sizeof *narrow);
    TRY(json_int64_array(value, count, 0, max, wide, err));
    for (int index = 0; index < count; index++) {
        narrow[index] = (int)wide[index];
    }
    *out = narrow;
    return STATUS_OK;
}

/// The cuts, and from their number the ranks.
static status read_cuts(json_value object, arena *memory, bal_plan *plan, error_message *err)
{
    const json_value value = json_member(object, "first_layer");
    const int count = json_count(value);
    TRY(json_int(json_member(object, "chunks"), 1, BAL_CHUNKS_MAX, &plan->chunk_count, err));
    if (!json_is_array(value) || count < 2 || (count - 1) % plan->chunk_count != 0 ||
        (count - 1) / plan->chunk_count > BAL_RANKS_MAX) {
        return json_error(value, STATUS_FORMAT, err,
                          "needs ranks * %d + 1 entries with 1 to %d ranks, has %d",
                          plan->chunk_count, BAL_RANKS_MAX, count);
    }
    plan->rank_count = (count - 1) / plan->chunk_count;
    TRY(read_ints(value, count, INT32_MAX, memory, &plan->first_layer, err));
    if (plan->first_layer[0] != 0) {
        return json_error(json_element(value, 0), STATUS_FORMAT, err, "%d is not 0",
                          plan->first_layer[0]);
    }
    for (int stage = 1; stage < count; stage++) {
        if (plan->first_layer[stage] >= plan->first_layer[stage - 1]) continue;
        return json_error(json_element(value, stage), STATUS_FORMAT, err,
                          "%d is below the entry before it, %d", plan->first_layer[stage],
                          plan->first_layer[stage - 1]);
    }
    return STATUS_OK;
}

static status read_placement(json_value object, bal_plan *plan, error_message *err)
{
    const char *name = NULL;
    const json_value value = json_member(object, "placement");
    TRY(json_string(value, &name, err));
    if (!bal_placement_find(name, &plan->placement)) {
        return json_error(value, STATUS_FORMAT, err, "'%.40s' is neither v nor interleaved", name);
    }
    if (plan->placement == BAL_PLACEMENT_BIDIRECTIONAL) {
        return json_error(value, STATUS_FORMAT, err,
                          "a plan has one copy of every layer, bidirectional two");
    }
    if (plan->placement == BAL_PLACEMENT_V && plan->chunk_count != 2) {
        return json_error(value, STATUS_FORMAT, err, "v needs 2 chunks per rank, not %d",
                          plan->chunk_count);
    }
    return STATUS_OK;
}

static status read_schedule(json_value object, bal_plan *plan, error_message *err)
{
    const char *name = NULL;
    const json_value value = json_member(object, "schedule");
    TRY(json_string(value, &name, err));
    const bal_schedule_family *family = bal_schedule_family_find(name);
    if (family == NULL) {
        return json_error(value, STATUS_FORMAT, err, "unknown schedule '%.40s'", name);
    }
    plan->schedule = family->name;
    const bool fits = bal_schedule_takes_chunks(family, plan->chunk_count);
    if (!fits || (plan->chunk_count > 1 && family->placement != plan->placement)) {
        return json_error(value, STATUS_FORMAT, err,
                          "%s does not play %d chunks per rank in this placement", family->name,
                          plan->chunk_count);
    }
    return STATUS_OK;
}

static int compare_ints(const void *a, const void *b)
{
    const int left = *(const int *)a;
    const int right = *(const int *)b;
    return (left > right) - (left < right);
}

static status read_stage_ranks(json_value object, arena *memory, bal_plan *plan, error_message *err)
{
    const json_value value = json_member(object, "stage_ranks");
    const size_t count = (size_t)plan->rank_count;
    TRY(read_ints(value, plan->rank_count, CLUSTER_RANKS_MAX, memory, &plan->stage_ranks, err));
    int *sorted = arena_array(memory, count, sizeof *sorted);
    memcpy(sorted, plan->stage_ranks, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, compare_ints);
    for (size_t index = 1; index < count; index++) {
        if (sorted[index] != sorted[index - 1]) continue;
        return json_error(value, STATUS_FORMAT, err, "names rank %d twice", sorted[index]);
    }
    return STATUS_OK;
}

/// @param ops [2] out
static status read_cell(json_value value, bal_op *ops, int *count, error_message *err)
{
    const char *name = NULL;
    TRY(json_string(value, &name, err));
    if (bal_op_pair_parse(name, ops, count, NULL) != STATUS_OK) {
        return json_error(value, STATUS_FORMAT, err, "'%.40s' is not an op", name);
    }
    return STATUS_OK;
}

/// How many ops the cells of all ranks hold at most: an overlapped pair is a cell of two.
static status count_ops(json_value order, int rank_count, size_t *op_count, error_message *err)
{
    *op_count = 0;
    json_value row = json_element(order, 0);
    for (int rank = 0; rank < rank_count; rank++, row = json_next(row)) {
        if (!json_is_array(row)) return json_error(row, STATUS_FORMAT, err, "is not an array");
        *op_count += 2 * (size_t)json_count(row);
        if (*op_count > 2 * (size_t)BAL_OPS_MAX) {
            return json_error(order, STATUS_FORMAT, err, "has more than %d ops", BAL_OPS_MAX);
        }
    }
    return STATUS_OK;
}

static status read_ops(json_value order, int rank_count, int *first_op, bal_op *ops,
                       error_message *err)
{
    int read = 0;
    json_value row = json_element(order, 0);
    for (int rank = 0; rank < rank_count; rank++, row = json_next(row)) {
        for (json_value cell = json_element(row, 0); cell.node != NULL; cell = json_next(cell)) {
            int count = 0;
            TRY(read_cell(cell, ops + read, &count, err));
            read += count;
        }
        first_op[rank + 1] = read;
    }
    return STATUS_OK;
}

static status read_order(json_value object, arena *memory, bal_plan *plan, error_message *err)
{
    const json_value value = json_member(object, "order");
    if (json_is_missing(value)) return STATUS_OK;
    if (!json_is_array(value) || json_count(value) != plan->rank_count) {
        return json_error(value, STATUS_FORMAT, err, "needs one array of ops for each of %d ranks",
                          plan->rank_count);
    }
    int *first_op = arena_array(memory, (size_t)plan->rank_count + 1, sizeof *first_op);
    bal_schedule *order = arena_array(memory, 1, sizeof *order);
    size_t op_count = 0;
    TRY(count_ops(value, plan->rank_count, &op_count, err));
    bal_op *ops = arena_array(memory, op_count, sizeof *ops);
    TRY(read_ops(value, plan->rank_count, first_op, ops, err));
    *order = (bal_schedule){.name = plan->schedule,
                            .rank_count = plan->rank_count,
                            .chunk_count = plan->chunk_count,
                            .microbatch_count = plan->microbatch_count,
                            .placement = plan->placement,
                            .first_op = first_op,
                            .ops = ops};
    for (int op = 0; op < first_op[plan->rank_count]; op++) {
        order->has_split |= ops[op].kind != OP_FORWARD && ops[op].kind != OP_BACKWARD;
    }
    error_message reason = {0};
    if (bal_schedule_check(order, &reason) != STATUS_OK) {
        return json_error(value, STATUS_FORMAT, err, "%.200s", reason.message);
    }
    plan->order = order;
    return STATUS_OK;
}

static status read_first_stage(json_value object, bal_plan *plan, error_message *err)
{
    const char *name = NULL;
    const json_value value = json_member(object, "first_stage_backward");
    if (json_is_missing(value)) return STATUS_OK;
    TRY(json_string(value, &name, err));
    plan->first_stage_whole = strcmp(name, bal_first_stage_backward_names[1]) == 0;
    if (plan->first_stage_whole || strcmp(name, bal_first_stage_backward_names[0]) == 0) {
        return STATUS_OK;
    }
    return json_error(value, STATUS_FORMAT, err, "'%.40s' is neither split nor whole", name);
}

status bal_plan_read(json_value object, arena *memory, bal_plan *plan, error_message *err)
{
    static const char *const keys[] = {"schema",       "first_layer", "chunks",
                                       "placement",    "schedule",    "order",
                                       "microbatches", "stage_ranks", "data_parallel",
                                       "embedding",    "head",        "first_stage_backward"};
    bal_plan made = {0};
    TRY(json_check_keys(object, keys, (int)(sizeof keys / sizeof keys[0]), err));
    TRY(read_schema(object, err));
    TRY(read_cuts(object, memory, &made, err));
    TRY(read_placement(object, &made, err));
    TRY(read_schedule(object, &made, err));
    TRY(json_int(json_member(object, "microbatches"), 1, BAL_MICROBATCHES_MAX,
                 &made.microbatch_count, err));
    TRY(read_stage_ranks(object, memory, &made, err));
    TRY(json_int(json_member(object, "data_parallel"), 1, DATA_PARALLEL_MAX, &made.data_parallel,
                 err));
    TRY(json_bool(json_member(object, "embedding"), &made.embedding, err));
    TRY(json_bool(json_member(object, "head"), &made.head, err));
    TRY(read_first_stage(object, &made, err));
    TRY(read_order(object, memory, &made, err));
    *plan = made;
    return STATUS_OK;
}

void bal_order_write(const bal_schedule *order, json_writer *writer)
{
    json_begin_array(writer);
    for (int rank = 0; rank < order->rank_count; rank++) {
        json_begin_array(writer);
        for (int op = order->first_op[rank]; op < order->first_op[rank + 1]; op++) {
            json_put_string(writer, NULL, bal_op_pair_name(&order->ops[op]).text);
            op += order->ops[op].overlaps_next;
        }
        json_end_array(writer);
    }
    json_end_array(writer);
}

void bal_plan_write(const bal_plan *plan, json_writer *writer)
{
    json_begin_object(writer);
    json_put_string(writer, "schema", schema);
    json_put_int_array(writer, "first_layer", plan->first_layer,
                       plan->rank_count * plan->chunk_count + 1);
    json_put_int64(writer, "chunks", plan->chunk_count);
    json_put_string(writer, "placement", bal_placement_name(plan->placement));
    json_put_string(writer, "schedule", plan->schedule);
    if (plan->order != NULL) {
        json_write_key(writer, "order");
        bal_order_write(plan->order, writer);
    }
    json_put_int64(writer, "microbatches", plan->microbatch_count);
    json_put_array(writer, "stage_ranks");
    for (int place = 0; place < plan->rank_count; place++) {
        json_put_int64(writer, NULL, plan->stage_ranks != NULL ? plan->stage_ranks[place] : place);
    }
    json_end_array(writer);
    json_put_int64(writer, "data_parallel", plan->data_parallel);
    json_put_bool(writer, "embedding", plan->embedding);
    json_put_bool(writer, "head", plan->head);
    if (plan->first_stage_whole) json_put_string(writer, "first_stage_backward", "whole");
    json_end_object(writer);
}

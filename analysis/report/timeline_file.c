#include "analysis/report/timeline_file.h"

#include <string.h>

enum { PASSES = 3 };
static const char *const memory_keys[PASSES] = {"memory_forward", "memory_backward_input",
                                                "memory_backward_weight"};

static void write_ops(const ana_timeline *timeline, json_writer *writer)
{
    const bal_schedule *schedule = &timeline->schedule;
    json_begin_array(writer);
    for (int rank = 0; rank < schedule->rank_count; rank++) {
        json_begin_array(writer);
        for (int op = schedule->first_op[rank]; op < schedule->first_op[rank + 1]; op++) {
            json_begin_array(writer);
            json_put_string(writer, NULL, bal_op_name(schedule->ops[op]).text);
            json_put_int64(writer, NULL, timeline->timeline.begin_ns[op]);
            json_put_int64(writer, NULL, timeline->timeline.end_ns[op]);
            json_end_array(writer);
        }
        json_end_array(writer);
    }
    json_end_array(writer);
}

void ana_timeline_write(const ana_timeline *timeline, text_buffer *out)
{
    const bal_schedule *schedule = &timeline->schedule;
    const int stages = schedule->rank_count * schedule->chunk_count;
    json_writer writer = json_writer_init(out);
    json_begin_object(&writer);
    json_put_string(&writer, "schema", "dynmo-timeline/1");
    json_put_string(&writer, "label", timeline->label);
    json_put_int64(&writer, "iteration", timeline->iteration);
    json_put_string(&writer, "schedule", schedule->name);
    json_put_int64(&writer, "ranks", schedule->rank_count);
    json_put_int64(&writer, "chunks", schedule->chunk_count);
    json_put_string(&writer, "placement", bal_placement_name(schedule->placement));
    json_put_int64(&writer, "microbatches", schedule->microbatch_count);
    json_put_int_array(&writer, "first_layer", timeline->first_layer, stages + 1);
    const int64_t *const changes[] = {timeline->memory_forward, timeline->memory_backward_input,
                                      timeline->memory_backward_weight};
    for (int pass = 0; pass < PASSES; pass++) {
        json_put_int64_array(&writer, memory_keys[pass], changes[pass], stages);
    }
    json_write_key(&writer, "ops");
    write_ops(timeline, &writer);
    json_end_object(&writer);
}

static status read_op(json_value entry, bal_op *op, int64_t *begin_ns, int64_t *end_ns,
                      error_message *err)
{
    const char *name = NULL;
    const json_value begin = json_element(entry, 1);
    TRY(json_string(json_element(entry, 0), &name, err));
    TRY(bal_op_parse(name, op, err));
    TRY(json_int64(begin, 0, JSON_INTEGER_MAX, begin_ns, err));
    return json_int64(json_next(begin), *begin_ns, JSON_INTEGER_MAX, end_ns, err);
}

static status read_ops(json_value ranks, arena *memory, ana_timeline *timeline, error_message *err)
{
    bal_schedule *schedule = &timeline->schedule;
    int *first_op = arena_array(memory, (size_t)schedule->rank_count + 1, sizeof *first_op);
    if (json_count(ranks) != schedule->rank_count) {
        return json_error(ranks, STATUS_FORMAT, err, "has %d ranks, needs %d", json_count(ranks),
                          schedule->rank_count);
    }
    json_value row = json_element(ranks, 0);
    for (int rank = 0; rank < schedule->rank_count; rank++, row = json_next(row)) {
        const int count = json_count(row);
        if (count > BAL_OPS_MAX - first_op[rank]) {
            return json_error(row, STATUS_FORMAT, err, "more than %d ops", BAL_OPS_MAX);
        }
        first_op[rank + 1] = first_op[rank] + count;
    }
    const size_t op_count = (size_t)first_op[schedule->rank_count];
    bal_op *ops = arena_array(memory, op_count, sizeof *ops);
    timeline->timeline.begin_ns = arena_array(memory, op_count, sizeof(int64_t));
    timeline->timeline.end_ns = arena_array(memory, op_count, sizeof(int64_t));
    int op = 0;
    for (row = json_element(ranks, 0); !json_is_missing(row); row = json_next(row)) {
        for (json_value entry = json_element(row, 0); !json_is_missing(entry);
             entry = json_next(entry), op++) {
            TRY(read_op(entry, &ops[op], &timeline->timeline.begin_ns[op],
                        &timeline->timeline.end_ns[op], err));
            schedule->has_split = schedule->has_split || ops[op].kind == OP_BACKWARD_INPUT;
        }
    }
    schedule->first_op = first_op;
    schedule->ops = ops;
    timeline->timeline.schedule = schedule;
    return STATUS_OK;
}

status ana_timeline_read(json_value root, arena *memory, ana_timeline *timeline, error_message *err)
{
    const char *schema = NULL;
    const char *placement = NULL;
    *timeline = (ana_timeline){0};
    bal_schedule *schedule = &timeline->schedule;
    TRY(json_string(json_member(root, "schema"), &schema, err));
    if (strcmp(schema, "dynmo-timeline/1") != 0) {
        return json_error(json_member(root, "schema"), STATUS_FORMAT, err,
                          "'%.40s' is not 'dynmo-timeline/1'", schema);
    }
    TRY(json_string(json_member(root, "label"), &timeline->label, err));
    TRY(json_string(json_member(root, "schedule"), &schedule->name, err));
    TRY(json_string(json_member(root, "placement"), &placement, err));
    TRY(json_int(json_member(root, "iteration"), 0, INT32_MAX, &timeline->iteration, err));
    TRY(json_int(json_member(root, "ranks"), 1, BAL_RANKS_MAX, &schedule->rank_count, err));
    TRY(json_int(json_member(root, "chunks"), 1, BAL_CHUNKS_MAX, &schedule->chunk_count, err));
    TRY(json_int(json_member(root, "microbatches"), 1, BAL_MICROBATCHES_MAX,
                 &schedule->microbatch_count, err));
    if (!bal_placement_find(placement, &schedule->placement)) {
        return json_error(json_member(root, "placement"), STATUS_FORMAT, err,
                          "'%.40s' is neither v nor interleaved", placement);
    }
    const int stages = schedule->rank_count * schedule->chunk_count;
    int64_t *wide = arena_array(memory, (size_t)stages + 1, sizeof *wide);
    int *first_layer = arena_array(memory, (size_t)stages + 1, sizeof *first_layer);
    TRY(json_int64_array(json_member(root, "first_layer"), stages + 1, 0, INT32_MAX, wide, err));
    for (int stage = 0; stage <= stages; stage++) {
        first_layer[stage] = (int)wide[stage];
    }
    timeline->first_layer = first_layer;
    const int64_t **const changes[] = {&timeline->memory_forward, &timeline->memory_backward_input,
                                       &timeline->memory_backward_weight};
    for (int pass = 0; pass < PASSES; pass++) {
        int64_t *values = arena_array(memory, (size_t)stages, sizeof *values);
        *changes[pass] = values;
        TRY(json_int64_array(json_member(root, memory_keys[pass]), stages, -JSON_INTEGER_MAX,
                             JSON_INTEGER_MAX, values, err));
    }
    TRY(read_ops(json_member(root, "ops"), memory, timeline, err));
    return bal_schedule_check(schedule, err);
}

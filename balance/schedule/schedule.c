#include "balance/schedule/schedule.h"

#include "balance/schedule/schedule_families.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static const bal_schedule_family families[] = {
    {.name = "gpipe",
     .chunk_count = 1,
     .fill = bal_schedule_fill_gpipe,
     .length = bal_schedule_length_gpipe},
    {.name = "1f1b",
     .chunk_count = 1,
     .fill = bal_schedule_fill_1f1b,
     .length = bal_schedule_length_1f1b},
    {.name = "interleaved-1f1b",
     .chunk_count_min = 2,
     .fill = bal_schedule_fill_interleaved_1f1b,
     .rule = bal_schedule_rule_interleaved_1f1b,
     .length = bal_schedule_length_interleaved_1f1b},
    {.name = "zb-h1",
     .has_split = true,
     .chunk_count = 1,
     .fill = bal_schedule_fill_zb_h1,
     .length = bal_schedule_length_zb_h1},
    {.name = "zb-h2",
     .has_split = true,
     .chunk_count = 1,
     .fill = bal_schedule_fill_zb_h2,
     .length = bal_schedule_length_zb_h2},
    {.name = "zb-auto",
     .has_split = true,
     .is_searched = true,
     .counted_as = "1f1b",
     .chunk_count = 1,
     .write = bal_schedule_search_zb_auto},
    {.name = "zb-v",
     .has_split = true,
     .is_searched = true,
     .counted_as = "zb-v-hand",
     .chunk_count = 2,
     .placement = BAL_PLACEMENT_V,
     .write = bal_schedule_search_zb_v},
    {.name = "interleaved-zb",
     .has_split = true,
     .chunk_count_min = 1,
     .fill = bal_schedule_fill_interleaved_zb,
     .rule = bal_schedule_rule_interleaved_zb,
     .length = bal_schedule_length_interleaved_zb},
    {.name = "zb-v-hand",
     .has_split = true,
     .chunk_count = 2,
     .placement = BAL_PLACEMENT_V,
     .fill = bal_schedule_fill_zb_v_hand,
     .length = bal_schedule_length_zb_v_hand},
    {.name = "1f1b-v",
     .chunk_count = 2,
     .placement = BAL_PLACEMENT_V,
     .write = bal_schedule_order_1f1b_v,
     .length = bal_schedule_length_1f1b_v},
    {.name = "v-half",
     .has_split = true,
     .chunk_count = 2,
     .placement = BAL_PLACEMENT_V,
     .write = bal_schedule_order_v_half,
     .length = bal_schedule_length_v_half},
    {.name = "v-min",
     .has_split = true,
     .chunk_count = 2,
     .placement = BAL_PLACEMENT_V,
     .write = bal_schedule_order_v_min,
     .length = bal_schedule_length_v_min},
    {.name = "dualpipe-v",
     .has_split = true,
     .chunk_count = 2,
     .placement = BAL_PLACEMENT_V,
     .fill = bal_schedule_fill_dualpipe_v,
     .rule = bal_schedule_rule_dualpipe_v,
     .length = bal_schedule_length_dualpipe_v},
    {.name = "v-adaptive",
     .has_split = true,
     .is_searched = true,
     .counted_as = "v-min",
     .chunk_count = 2,
     .placement = BAL_PLACEMENT_V,
     .write = bal_schedule_search_v_adaptive},
    {.name = "chimera",
     .chunk_count = 2,
     .placement = BAL_PLACEMENT_BIDIRECTIONAL,
     .fill = bal_schedule_fill_chimera,
     .rule = bal_schedule_rule_chimera,
     .length = bal_schedule_length_chimera},
};
enum { FAMILY_COUNT = sizeof families / sizeof families[0] };

const bal_schedule_family *bal_schedule_families(int *count)
{
    *count = FAMILY_COUNT;
    return families;
}

const bal_schedule_family *bal_schedule_family_find(const char *name)
{
    for (int family = 0; family < FAMILY_COUNT; family++) {
        if (strcmp(families[family].name, name) == 0) return &families[family];
    }
    return NULL;
}

const char *bal_schedule_suggestion(const char *name, char out[TEXT_SUGGESTION_BYTES])
{
    const char *names[FAMILY_COUNT];
    for (int family = 0; family < FAMILY_COUNT; family++) {
        names[family] = families[family].name;
    }
    return text_suggestion(name, names, FAMILY_COUNT, out);
}

int bal_schedule_chunk_count(const bal_schedule_family *family, int requested)
{
    if (requested != 0) return requested;
    return family->chunk_count != 0 ? family->chunk_count : 2;
}

bool bal_schedule_takes_chunks(const bal_schedule_family *family, int chunk_count)
{
    if (family->chunk_count != 0) return chunk_count == family->chunk_count;
    return chunk_count >= family->chunk_count_min && chunk_count <= BAL_CHUNKS_MAX;
}

/// Whether the costs of a searched schedule are there and have its shape.
static status check_costs(const bal_schedule_request *request, const bal_schedule_family *family,
                          int chunk_count, error_message *err)
{
    const bal_stage_costs *costs = request->costs;
    if (costs == NULL) {
        return error_set(err, STATUS_INVALID, "schedule %s is searched and needs costs",
                         family->name);
    }
    if (costs->stage_count != request->rank_count * chunk_count) {
        return error_set(err, STATUS_INVALID, "costs of %d stages for %d ranks of %d chunks",
                         costs->stage_count, request->rank_count, chunk_count);
    }
    if (costs->microbatch_count != 1 && costs->microbatch_count != request->microbatch_count) {
        return error_set(err, STATUS_INVALID, "costs of %d microbatches for microbatch_count %d",
                         costs->microbatch_count, request->microbatch_count);
    }
    return STATUS_OK;
}

int bal_schedule_microbatch_count(const bal_schedule_family *family, int rank_count,
                                  int microbatch_count)
{
    // A rule that no count keeps is one of the ranks; the rules of all families repeat within 2P.
    const int64_t last = (int64_t)microbatch_count + 2 * (int64_t)rank_count;
    for (int64_t count = microbatch_count; count <= last && count <= BAL_MICROBATCHES_MAX;
         count++) {
        if (bal_schedule_takes(family, rank_count, (int)count)) return (int)count;
    }
    return -1;
}

bool bal_schedule_takes(const bal_schedule_family *family, int rank_count, int microbatch_count)
{
    return family->rule == NULL || family->rule(rank_count, microbatch_count, NULL) == STATUS_OK;
}

/// @param chunk_count out: the family's own where the request leaves it open
static status check_request(const bal_schedule_request *request, const bal_schedule_family *family,
                            int *chunk_count, error_message *err)
{
    TRY(check_int_range("rank_count", request->rank_count, 1, BAL_RANKS_MAX, err));
    TRY(check_int_range("microbatch_count", request->microbatch_count, 1, BAL_MICROBATCHES_MAX,
                        err));
    const int own = family->chunk_count;
    const int chunks = bal_schedule_chunk_count(family, request->chunk_count);
    if (own != 0 && chunks != own) {
        return error_set(err, STATUS_INVALID, "chunk_count %d: schedule %s has %d per rank", chunks,
                         family->name, own);
    }
    if (own == 0) {
        TRY(check_int_range("chunk_count", chunks, family->chunk_count_min, BAL_CHUNKS_MAX, err));
    }
    const int64_t ops = (int64_t)request->rank_count * request->microbatch_count * chunks *
                        (family->has_split ? 3 : 2);
    if (ops > BAL_OPS_MAX) {
        return error_set(err, STATUS_INVALID,
                         "%d ranks of %d microbatches and %d chunks are %lld ops; the limit is %d",
                         request->rank_count, request->microbatch_count, chunks, (long long)ops,
                         BAL_OPS_MAX);
    }
    if (family->rule != NULL)
        TRY(family->rule(request->rank_count, request->microbatch_count, err));
    *chunk_count = chunks;
    return family->is_searched ? check_costs(request, family, chunks, err) : STATUS_OK;
}

int bal_iteration_microbatch_count(const bal_schedule *schedule)
{
    const bool is_halved = schedule->placement == BAL_PLACEMENT_BIDIRECTIONAL;
    return schedule->microbatch_count * (is_halved ? 2 : 1);
}

status bal_schedule_build(const bal_schedule_request *request, arena *memory,
                          bal_schedule *schedule, error_message *err)
{
    const bal_schedule_family *family = bal_schedule_family_find(request->name);
    if (family == NULL) {
        char suggestion[TEXT_SUGGESTION_BYTES];
        return error_set(err, STATUS_INVALID, "unknown schedule '%.60s'%s", request->name,
                         bal_schedule_suggestion(request->name, suggestion));
    }
    int chunk_count = 0;
    TRY(check_request(request, family, &chunk_count, err));
    const int rank_count = request->rank_count;
    const bool is_halved = family->placement == BAL_PLACEMENT_BIDIRECTIONAL;
    const int microbatch_count = request->microbatch_count / (is_halved ? 2 : 1);
    const int rank_op_count = microbatch_count * chunk_count * (family->has_split ? 3 : 2);
    const size_t op_count = (size_t)rank_op_count * (size_t)rank_count;
    int *first_op = arena_array(memory, (size_t)rank_count + 1, sizeof *first_op);
    bal_op *ops = arena_array(memory, op_count, sizeof *ops);
    for (int rank = 0; rank <= rank_count; rank++) {
        first_op[rank] = rank * rank_op_count;
    }
    const bal_schedule_counts counts = {rank_count, chunk_count, microbatch_count};
    if (family->fill == NULL) TRY(family->write(request, memory, ops, err));
    for (int rank = 0; family->fill != NULL && rank < rank_count; rank++) {
        const bal_op *end = family->fill(counts, rank, ops + first_op[rank]);
        first_op[rank + 1] = (int)(end - ops);
    }
    *schedule = (bal_schedule){
        .name = family->name,
        .rank_count = rank_count,
        .chunk_count = chunk_count,
        .microbatch_count = microbatch_count,
        .placement = family->placement,
        .has_split = family->has_split,
        .first_op = first_op,
        .ops = ops,
    };
    return STATUS_OK;
}

int bal_op_waits_for(const bal_schedule *schedule, int rank, bal_op op, bal_op_kind *kind)
{
    const int ranks = schedule->rank_count;
    const int chunks = schedule->chunk_count;
    const int stage = bal_stage_of(schedule->placement, ranks, chunks, rank, op.chunk);
    int sender = -1;
    switch (op.kind) {
    case OP_FORWARD:
        sender = bal_stage_before(schedule->placement, ranks, stage);
        if (sender >= 0) *kind = OP_FORWARD;
        return sender;
    case OP_BACKWARD_INPUT:
    case OP_BACKWARD:
        sender = bal_stage_behind(schedule->placement, ranks, chunks, stage);
        if (sender >= 0) *kind = schedule->has_split ? OP_BACKWARD_INPUT : OP_BACKWARD;
        return sender;
    default:
        return -1;
    }
}

const char *const bal_op_kind_names[OP_KIND_COUNT] = {[OP_FORWARD] = "F",
                                                      [OP_BACKWARD_INPUT] = "B",
                                                      [OP_BACKWARD_WEIGHT] = "W",
                                                      [OP_BACKWARD] = "BW"};

text_words bal_op_name(bal_op op)
{
    assert(op.kind < OP_KIND_COUNT);
    const char *kind = bal_op_kind_names[op.kind];
    return op.chunk == 0 ? text_wording("%s%d", kind, op.microbatch)
                         : text_wording("%d:%s%d", op.chunk, kind, op.microbatch);
}

/// Reads the digits of a number in [0, max]. NULL if there is none or it is larger.
static const char *parse_count(const char *text, int max, int *value)
{
    if (text[0] < '0' || text[0] > '9') return NULL;
    int parsed = 0;
    for (; text[0] >= '0' && text[0] <= '9'; text++) {
        parsed = parsed * 10 + (text[0] - '0');
        if (parsed > max) return NULL;
    }
    *value = parsed;
    return text;
}

status bal_op_parse(const char *name, bal_op *op, error_message *err)
{
    const char *at = name;
    int chunk = 0;
    int microbatch = 0;
    if (strchr(name, ':') != NULL) {
        at = parse_count(name, BAL_CHUNKS_MAX - 1, &chunk);
        at = at != NULL && at[0] == ':' ? at + 1 : NULL;
    }
    // The two letters of BW come before the one of B.
    for (int kind = OP_KIND_COUNT - 1; at != NULL && kind >= 0; kind--) {
        const size_t length = strlen(bal_op_kind_names[kind]);
        if (strncmp(at, bal_op_kind_names[kind], length) != 0) continue;
        const char *end = parse_count(at + length, BAL_MICROBATCHES_MAX - 1, &microbatch);
        if (end == NULL || end[0] != '\0') break;
        bal_op_put(op, (bal_op_kind)kind, chunk, microbatch);
        return STATUS_OK;
    }
    return error_set(err, STATUS_FORMAT,
                     "'%.60s' is no op: F, B, W or BW and the microbatch, \"1:\" in front for "
                     "chunk 1",
                     name);
}

text_words bal_op_pair_name(const bal_op *ops)
{
    const text_words first = bal_op_name(ops[0]);
    if (ops[0].overlaps_next == 0) return first;
    return text_wording("%.31s&%.31s", first.text, bal_op_name(ops[1]).text);
}

status bal_op_pair_parse(const char *name, bal_op *ops, int *count, error_message *err)
{
    bal_op read[2];
    char first[32] = "";
    const char *second = strchr(name, '&');
    if (second == NULL) {
        TRY(bal_op_parse(name, &read[0], err));
    } else {
        const size_t length = (size_t)(second - name);
        if (length >= sizeof first) return bal_op_parse(name, &read[0], err);
        memcpy(first, name, length);
        TRY(bal_op_parse(first, &read[0], err));
        TRY(bal_op_parse(second + 1, &read[1], err));
        read[0].overlaps_next = 1;
    }
    *count = second != NULL ? 2 : 1;
    memcpy(ops, read, (size_t)*count * sizeof *ops);
    return STATUS_OK;
}

#include "cli/schedule/schedule_costs.h"

#include "base/arena.h"
#include "base/file.h"
#include "base/json.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ORDER_BYTES_MAX = 256 << 20, CELL_BYTES = 64 };

/// What grows while an order is read. PyTorch's stages wait in `stages` until the number of ranks
/// is known.
typedef struct reading {
    const char *path;
    arena *memory;
    bal_op *ops;   // [capacity]
    int *stages;   // [capacity] stage in model order, or -1 where the op has its chunk
    int *cells;    // [capacity] of its row in a CSV, from 1
    int *first_op; // [BAL_RANKS_MAX + 1]
    size_t capacity;
    int op_count;
    int rank_count;
    int cell; // of a CSV, that is being read; 0 in JSON
} reading;

static status append(reading *order, bal_op op, int stage, error_message *err)
{
    if ((size_t)order->op_count == order->capacity) {
        if (order->op_count >= BAL_OPS_MAX) {
            return error_set(err, STATUS_FORMAT, "%s: more than %d ops", order->path, BAL_OPS_MAX);
        }
        const size_t larger = order->capacity * 2 + 1024;
        order->ops = memory_resize(order->ops, larger, sizeof *order->ops);
        order->stages = memory_resize(order->stages, larger, sizeof *order->stages);
        order->cells = memory_resize(order->cells, larger, sizeof *order->cells);
        order->capacity = larger;
    }
    order->ops[order->op_count] = op;
    order->cells[order->op_count] = order->cell;
    order->stages[order->op_count++] = stage;
    return STATUS_OK;
}

/// Puts file, rank, and in a CSV row and cell in front of a message.
static status at_cell(const reading *order, int rank, int cell, status code, error_message *err)
{
    if (cell == 0) return error_prefix(err, code, "%s: rank %d", order->path, rank);
    return error_prefix(err, code, "%s: row %d (rank %d), cell %d", order->path, rank + 1, rank,
                        cell);
}

static status begin_rank(reading *order, error_message *err)
{
    if (order->rank_count == BAL_RANKS_MAX) {
        return error_set(err, STATUS_FORMAT, "%s: more than %d ranks", order->path, BAL_RANKS_MAX);
    }
    order->first_op[order->rank_count++] = order->op_count;
    return STATUS_OK;
}

/// Whether a PyTorch name is one of these, with or without a microbatch.
static bool is_one_of(const char *letters, const char *const *names, size_t name_count)
{
    for (size_t name = 0; name < name_count; name++) {
        const size_t length = strlen(names[name]);
        if (strncmp(letters, names[name], length) != 0) continue;
        if (letters[length + strspn(letters + length, "0123456789")] == '\0') return true;
    }
    return false;
}

/// Reads "0I3": stage 0, B of microbatch 3.
static status append_pytorch_op(reading *order, const char *name, error_message *err)
{
    static const struct {
        char letter;
        char ours[3];
    } kinds[] = {{'F', "F"}, {'I', "B"}, {'W', "W"}, {'B', "BW"}};
    static const char *const sharding[] = {"UNSHARD", "RESHARD", "REDUCE_GRAD", "WAIT_REDUCE_GRAD"};
    static const char *const messages[] = {"SEND_F", "RECV_F",      "SEND_B",
                                           "RECV_B", "WAIT_SEND_F", "WAIT_SEND_B"};
    char *letters = NULL;
    const unsigned long stage = strtoul(name, &letters, 10);
    if (is_one_of(letters, sharding, sizeof sharding / sizeof sharding[0])) return STATUS_OK;
    if (is_one_of(letters, messages, sizeof messages / sizeof messages[0])) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "'%s' is a message, whose place PyTorch keeps to and no player here does: "
                         "write the order as compute_only",
                         name);
    }
    for (size_t kind = 0; kind < sizeof kinds / sizeof kinds[0]; kind++) {
        if (letters[0] != kinds[kind].letter || !isdigit((unsigned char)letters[1])) continue;
        if (stage >= (unsigned long)BAL_RANKS_MAX * BAL_CHUNKS_MAX) break;
        char ours[CELL_BYTES + 4];
        snprintf(ours, sizeof ours, "%s%s", kinds[kind].ours, letters + 1);
        bal_op op;
        TRY(bal_op_parse(ours, &op, err));
        return append(order, op, (int)stage, err);
    }
    return error_set(
        err, STATUS_FORMAT, "'%s' is no op: stage, one of F, I, W, B, and the microbatch%s", name,
        strncmp(letters, "BW", 2) == 0 ? "; B was I and BW was B in old releases of PyTorch" : "");
}

/// @param name [length] one op, no blanks
static status append_op(reading *order, const char *name, size_t length, error_message *err)
{
    char copy[CELL_BYTES];
    if (length == 0) return STATUS_OK;
    if (length >= sizeof copy) {
        return error_set(err, STATUS_FORMAT, "'%.40s...' is no op", name);
    }
    memcpy(copy, name, length);
    copy[length] = '\0';
    if (isdigit((unsigned char)copy[0]) && strchr(copy, ':') == NULL) {
        return append_pytorch_op(order, copy, err);
    }
    bal_op op;
    TRY(bal_op_parse(copy, &op, err));
    return append(order, op, -1, err);
}

/// Marks the ops of one cell, if there are two, as an overlapped pair.
static status end_cell(reading *order, int first, error_message *err)
{
    const int count = order->op_count - first;
    if (count > 2) {
        error_set(err, STATUS_FORMAT, "%d ops overlap; the limit is 2", count);
        return at_cell(order, order->rank_count - 1, order->cell, STATUS_FORMAT, err);
    }
    if (count == 2) order->ops[first].overlaps_next = 1;
    return STATUS_OK;
}

/// @param cell [length] one op, two overlapped ones, or blanks
static status append_cell(reading *order, const char *cell, size_t length, error_message *err)
{
    static const char overlap[] = ")OVERLAP_F_B";
    const int first = order->op_count;
    const size_t tail = sizeof overlap - 1;
    if (length > tail + 1 && cell[0] == '(' && memcmp(cell + length - tail, overlap, tail) == 0) {
        cell += 1;
        length -= tail + 1;
    }
    while (length > 0) {
        size_t part = 0;
        while (part < length && cell[part] != '&' && cell[part] != ';') {
            part++;
        }
        const status read = append_op(order, cell, part, err);
        if (read != STATUS_OK) {
            return at_cell(order, order->rank_count - 1, order->cell, read, err);
        }
        const size_t skip = part < length ? part + 1 : part;
        cell += skip;
        length -= skip;
    }
    return end_cell(order, first, err);
}

static status read_csv(reading *order, const char *bytes, size_t length, error_message *err)
{
    for (size_t line = 0; line < length;) {
        const char *newline = memchr(bytes + line, '\n', length - line);
        const size_t end = newline != NULL ? (size_t)(newline - bytes) : length;
        TRY(begin_rank(order, err));
        order->cell = 0;
        for (size_t at = line; at < end;) {
            size_t stop = at;
            order->cell++;
            while (stop < end && bytes[stop] != ',') {
                stop++;
            }
            size_t first = at;
            size_t last = stop;
            while (first < last && isspace((unsigned char)bytes[first])) {
                first++;
            }
            while (last > first && isspace((unsigned char)bytes[last - 1])) {
                last--;
            }
            TRY(append_cell(order, bytes + first, last - first, err));
            at = stop + 1;
        }
        line = end + 1;
    }
    return STATUS_OK;
}

static status read_placement(json_value value, bal_placement *placement, error_message *err)
{
    const char *name = NULL;
    *placement = BAL_PLACEMENT_LOOP;
    if (json_is_missing(value)) return STATUS_OK;
    TRY(json_string(value, &name, err));
    if (bal_placement_find(name, placement)) return STATUS_OK;
    return json_error(value, STATUS_FORMAT, err,
                      "'%.40s' is none of interleaved, v and bidirectional", name);
}

static status read_json_rows(reading *order, json_value root, bal_placement *placement,
                             error_message *err)
{
    // All that `dynmo schedule --json` prints beside the order says nothing of it.
    static const char *const keys[] = {
        "order",       "placement",           "makespan_ns",
        "span_ns",     "bubble_ratio",        "zb_bubble_rate",
        "peak_memory", "published_eq1_ratio", "published_eq1_unequal_ratio",
    };
    TRY(json_check_keys(root, keys, sizeof keys / sizeof keys[0], err));
    TRY(read_placement(json_member(root, "placement"), placement, err));
    const json_value rows = json_member(root, "order");
    if (!json_is_array(rows)) {
        return json_error(rows, STATUS_FORMAT, err, "needs an array of ranks");
    }
    for (json_value row = json_element(rows, 0); row.node != NULL; row = json_next(row)) {
        if (!json_is_array(row)) {
            return json_error(row, STATUS_FORMAT, err, "needs an array of ops");
        }
        TRY(begin_rank(order, err));
        for (json_value cell = json_element(row, 0); cell.node != NULL; cell = json_next(cell)) {
            const char *name = "";
            TRY(json_string(cell, &name, err));
            TRY(append_cell(order, name, strlen(name), err));
        }
    }
    return STATUS_OK;
}

static status read_json(reading *order, const char *bytes, size_t length, bal_placement *placement,
                        error_message *err)
{
    json_document *document = NULL;
    TRY(json_open_bytes(order->path, bytes, length, &document, err));
    return read_json_rows(order, json_keep(document, order->memory), placement, err);
}

/// The chunk of a stage under a placement, or -1 if the stage is not on the rank.
static int chunk_of_stage(bal_placement placement, int rank_count, int rank, int stage)
{
    const int row = stage / rank_count;
    if (placement != BAL_PLACEMENT_LOOP && row > 1) return -1;
    int chunk = 0;
    const int chunk_count = placement != BAL_PLACEMENT_LOOP ? 2 : row + 1;
    const int owner = bal_rank_of_stage(placement, rank_count, chunk_count, stage, &chunk);
    return owner == rank && chunk < BAL_CHUNKS_MAX ? chunk : -1;
}

/// The first op whose stage is not on its rank under a placement, or -1.
static int misplaced_op(const reading *order, bal_placement placement, int *misplaced_rank)
{
    for (int rank = 0; rank < order->rank_count; rank++) {
        for (int op = order->first_op[rank]; op < order->first_op[rank + 1]; op++) {
            if (order->stages[op] < 0) continue;
            *misplaced_rank = rank;
            if (chunk_of_stage(placement, order->rank_count, rank, order->stages[op]) < 0) {
                return op;
            }
        }
    }
    return -1;
}

/// Turns PyTorch's stages into chunks: interleaved if that fits, else V.
static status place_stages(reading *order, bal_placement *placement, error_message *err)
{
    int rank = 0;
    bal_placement found = *placement;
    const int wrong = misplaced_op(order, found, &rank);
    if (wrong >= 0) {
        int other_rank = 0;
        found = BAL_PLACEMENT_V;
        if (misplaced_op(order, found, &other_rank) >= 0) {
            error_set(err, STATUS_FORMAT,
                      "stage %d of %d ranks is not there, neither interleaved nor as V",
                      order->stages[wrong], order->rank_count);
            return at_cell(order, rank, order->cells[wrong], STATUS_FORMAT, err);
        }
    }
    for (rank = 0; rank < order->rank_count; rank++) {
        for (int op = order->first_op[rank]; op < order->first_op[rank + 1]; op++) {
            if (order->stages[op] < 0) continue;
            order->ops[op].chunk =
                (uint16_t)chunk_of_stage(found, order->rank_count, rank, order->stages[op]);
        }
    }
    *placement = found;
    return STATUS_OK;
}

/// Copies what was read into the arena; the counts are those that occur.
static status finish(const reading *order, bal_placement placement, bal_schedule *schedule,
                     error_message *err)
{
    if (order->op_count == 0) {
        return error_set(err, STATUS_FORMAT, "%s: holds no op", order->path);
    }
    const size_t rank_count = (size_t)order->rank_count;
    int *first_op = arena_array(order->memory, rank_count + 1, sizeof *first_op);
    bal_op *ops = arena_array(order->memory, (size_t)order->op_count, sizeof *ops);
    memcpy(first_op, order->first_op, (rank_count + 1) * sizeof *first_op);
    memcpy(ops, order->ops, (size_t)order->op_count * sizeof *ops);
    *schedule = (bal_schedule){.name = "imported",
                               .rank_count = order->rank_count,
                               .chunk_count = placement != BAL_PLACEMENT_LOOP ? 2 : 1,
                               .placement = placement,
                               .first_op = first_op,
                               .ops = ops};
    for (int op = 0; op < order->op_count; op++) {
        if (ops[op].chunk >= schedule->chunk_count) schedule->chunk_count = ops[op].chunk + 1;
        if (ops[op].microbatch >= schedule->microbatch_count) {
            schedule->microbatch_count = ops[op].microbatch + 1;
        }
        if (ops[op].kind == OP_BACKWARD_INPUT || ops[op].kind == OP_BACKWARD_WEIGHT) {
            schedule->has_split = true;
        }
    }
    return STATUS_OK;
}

bool cli_schedule_order_is_json(const char *bytes, size_t length)
{
    size_t at = 0;
    while (at < length && isspace((unsigned char)bytes[at])) {
        at++;
    }
    return at < length && bytes[at] == '{';
}

static status read_bytes(reading *order, const char *bytes, size_t length, bal_schedule *schedule,
                         error_message *err)
{
    bal_placement placement = BAL_PLACEMENT_LOOP;
    if (cli_schedule_order_is_json(bytes, length)) {
        TRY(read_json(order, bytes, length, &placement, err));
    } else {
        TRY(read_csv(order, bytes, length, err));
    }
    order->first_op[order->rank_count] = order->op_count;
    TRY(place_stages(order, &placement, err));
    return finish(order, placement, schedule, err);
}

status cli_schedule_order_parse(const char *name, const char *bytes, size_t length, arena *memory,
                                bal_schedule *schedule, error_message *err)
{
    reading order = {.path = name,
                     .memory = memory,
                     .first_op = arena_array(memory, BAL_RANKS_MAX + 1, sizeof *order.first_op)};
    const status result = read_bytes(&order, bytes, length, schedule, err);
    free(order.ops);
    free(order.stages);
    free(order.cells);
    return result;
}

status cli_schedule_order_read(const char *path, arena *memory, bal_schedule *schedule,
                               error_message *err)
{
    char *bytes = NULL;
    size_t length = 0;
    TRY(file_read(path, ORDER_BYTES_MAX, &bytes, &length, err));
    arena_own(memory, bytes, free);
    return cli_schedule_order_parse(path, bytes, length, memory, schedule, err);
}

#include "traces/store/writer.h"

#include "base/arena.h"
#include "base/sorter.h"
#include "base/text.h"
#include "traces/store/catalog.h"
#include "traces/store/sql.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/// Rows that a writer holds, which then go into the store at once. An iteration is one value there:
/// one that comes again is read, completed and replaced.
enum { HELD_ROWS_MAX = 1 << 14 };

/// The loads of an iteration.
typedef struct held_loads {
    int iteration;
    int count;
    bool is_new;       // the store lacks some of it
    trace_load *loads; // [count] by layer, then microbatch
} held_loads;

struct trace_writer {
    trace_store *store;
    trace_info info; // counts, flags and enums only; strings are in the store
    int64_t trace_id;
    int layer_last;      // largest put; -1: none
    int microbatch_last; // largest put; -1: none
    bool has_means;
    bool has_microbatches;
    bool has_full_backward;
    int64_t load_count;
    int input_count;
    held_loads *held; // [held_count] by iteration
    int held_count;
    int current;        // of held: what was put last
    int iteration_last; // largest in the store; -1: none
    trace_op *ops;      // [op_count] held
    int op_count;
    int64_t op_block_count; // in the store
    sqlite3_stmt *insert_loads;
};

const char *const trace_source_names[TRACE_SOURCE_COUNT] = {"csv", "kineto", "model", "exec"};
const char *const trace_known_names[TRACE_KNOWN_COUNT] = {"unknown", "measured", "fitted", "preset",
                                                          "assumed"};
const char *const trace_gap_names[TRACE_GAP_COUNT] = {"host",
                                                      "launch",
                                                      "data loading",
                                                      "garbage collection",
                                                      "exposed communication",
                                                      "waiting",
                                                      "optimizer",
                                                      "gradient reduction",
                                                      "work outside annotations"};
const char *const trace_op_kind_names[TRACE_OP_COUNT] = {
    "F",      "B",           "W",    "BW",    "R",        "SEND_F", "RECV_F",   "SEND_B",
    "RECV_B", "REDUCE_GRAD", "STEP", "LOCAL", "REPLICAS", "ENDS",   "PIPELINE", "WORLD",
};

trace_info trace_info_default(void)
{
    return (trace_info){.tokens_per_microbatch = TRACE_NOT_RECORDED,
                        .backward_split = -1,
                        .first_iteration = -1,
                        .last_iteration = -1};
}

/// A quantity of a load: those of block_load_record from BLOCK_QUANTITY on.
static int64_t *quantity_of(trace_load *load, int quantity)
{
    return (int64_t *)(void *)((char *)load + block_load_record.fields[quantity].offset);
}

trace_load trace_load_init(int iteration, int layer, int microbatch)
{
    trace_load load = {.iteration = iteration, .layer = layer, .microbatch = microbatch};
    for (int quantity = BLOCK_QUANTITY; quantity < block_load_record.field_count; quantity++) {
        *quantity_of(&load, quantity) = TRACE_NOT_RECORDED;
    }
    return load;
}

static status check_number(const char *what, int64_t value, int64_t min, int64_t max,
                           error_message *err)
{
    if (value >= min && value <= max) return STATUS_OK;
    return error_set(err, STATUS_INVALID, "%s %" PRId64 " is outside [%" PRId64 ", %" PRId64 "]",
                     what, value, min, max);
}

static status check_info(const trace_info *info, error_message *err)
{
    TRY(check_number("layer_count", info->layer_count, 0, TRACE_LAYERS_MAX, err));
    TRY(check_number("microbatch_count", info->microbatch_count, 0, TRACE_MICROBATCHES_MAX, err));
    if (!(info->backward_split <= 1)) {
        return error_set(err, STATUS_INVALID, "backward_split %g is outside [0, 1]",
                         info->backward_split);
    }
    return STATUS_OK;
}

/// Frees the name: an interrupted trace that has it goes, any other is an error.
static status claim_name(trace_store *store, const char *name, error_message *err)
{
    int64_t is_complete = -1;
    TRY(sql_get(store, &is_complete, err,
                "SELECT status='complete' FROM trace WHERE name=? AND status<>'interrupted'", "t",
                name));
    if (is_complete < 0) {
        return sql_write_once(store, err, "DELETE FROM trace WHERE name=?", "t", name);
    }
    return error_set(err, STATUS_INVALID, "%s: has a trace '%.80s' already (%s)", store->path, name,
                     trace_status_names[is_complete != 0 ? TRACE_COMPLETE : TRACE_RUNNING]);
}

static status insert_trace(trace_writer *writer, const trace_info *info, error_message *err)
{
    trace_store *store = writer->store;
    char now[32];
    sql_now(now);
    int64_t process_id = 0;
    TRY(claim_name(store, info->name, err));
    TRY(sql_process_id(store, &process_id, err));
    TRY(sql_write_once(
        store, err,
        "INSERT INTO trace(name, status, source, layer_count, microbatch_count, embedding, head,"
        " has_split, times, split, communication, activations, parameters, messages,"
        " tool_version, imported_at, process_id)"
        " VALUES(?,'running',?,?,?,0,0,0,'unknown','unknown','unknown','unknown','unknown',"
        "'unknown',?,?,?)",
        "ttiitti", info->name, trace_source_names[info->source], (int64_t)info->layer_count,
        (int64_t)info->microbatch_count, info->tool_version, now, process_id));
    writer->trace_id = sqlite3_last_insert_rowid(store->db);
    TRY(trace_writer_set_info(writer, info, err));
    return sql_batch_commit(store, err);
}

/// Names stand in tables and messages, on one line.
static status check_name(const char *name, error_message *err)
{
    const size_t length = strlen(name);
    if (length > TRACE_NAME_BYTES_MAX) {
        return error_set(err, STATUS_INVALID,
                         "trace name '%.40s...' has %zu bytes, the limit is %d", name, length,
                         TRACE_NAME_BYTES_MAX);
    }
    if (text_has_control(name, "")) {
        return error_set(err, STATUS_INVALID, "a trace name holds a control character");
    }
    return STATUS_OK;
}

status trace_writer_begin(trace_store *store, const trace_info *info, trace_writer **writer,
                          error_message *err)
{
    if (info->name == NULL || info->name[0] == '\0') {
        return error_set(err, STATUS_INVALID, "%s: a trace needs a name", store->path);
    }
    TRY(check_name(info->name, err));
    TRY(check_info(info, err));
    trace_writer *begun = memory_array(1, sizeof *begun);
    begun->store = store;
    begun->layer_last = -1;
    begun->microbatch_last = -1;
    begun->iteration_last = -1;
    status result = insert_trace(begun, info, err);
    if (result == STATUS_OK) {
        result = sql_prepare(store,
                             "INSERT INTO loads VALUES(?,?,?,?) ON CONFLICT DO UPDATE SET"
                             " row_count=excluded.row_count, loads=excluded.loads",
                             &begun->insert_loads, err);
    }
    if (result != STATUS_OK) {
        trace_writer_abort(begun);
        return result;
    }
    *writer = begun;
    return STATUS_OK;
}

int64_t trace_writer_id(const trace_writer *writer)
{
    return writer->trace_id;
}

static status check_layer(const trace_writer *writer, int layer, error_message *err)
{
    const int count = writer->info.layer_count > 0 ? writer->info.layer_count : TRACE_LAYERS_MAX;
    return check_number("layer", layer, 0, count - 1, err);
}

/// Numbers that may be missing.
static status check_value(const char *what, int64_t value, error_message *err)
{
    return value == TRACE_NOT_RECORDED ? STATUS_OK
                                       : check_number(what, value, 0, TRACE_VALUE_MAX, err);
}

/// Whether a row has a full backward, or B or W.
static bool is_full(const trace_load *load)
{
    return load->time_ns[TRACE_OP_BACKWARD] >= 0;
}

static bool is_split(const trace_load *load)
{
    return load->time_ns[TRACE_OP_BACKWARD_INPUT] >= 0 ||
           load->time_ns[TRACE_OP_BACKWARD_WEIGHT] >= 0;
}

static status check_load(const trace_writer *writer, const trace_load *load, error_message *err)
{
    const int microbatch_max = (writer->info.microbatch_count > 0 ? writer->info.microbatch_count
                                                                  : TRACE_MICROBATCHES_MAX) -
                               1;
    TRY(check_number("iteration", load->iteration, 0, TRACE_ITERATIONS_MAX, err));
    TRY(check_layer(writer, load->layer, err));
    if (load->microbatch != TRACE_MEAN) {
        TRY(check_number("microbatch", load->microbatch, 0, microbatch_max, err));
    }
    trace_load copy = *load;
    for (int quantity = BLOCK_QUANTITY; quantity < block_load_record.field_count; quantity++) {
        TRY(check_value(block_load_record.fields[quantity].column, *quantity_of(&copy, quantity),
                        err));
    }
    const bool is_mean = load->microbatch == TRACE_MEAN;
    if (is_mean ? writer->has_microbatches : writer->has_means) {
        return error_set(err, STATUS_INVALID,
                         "iteration %d layer %d: a mean over microbatches and single microbatches "
                         "cannot stand in one trace",
                         load->iteration, load->layer);
    }
    if (is_full(load) && is_split(load)) {
        return error_set(err, STATUS_INVALID,
                         "iteration %d layer %d: a full backward (BW) beside B or W",
                         load->iteration, load->layer);
    }
    return STATUS_OK;
}

/// Writes why load cannot complete the row that is there. Communication and span add up.
///
/// @return false if it can
static bool find_conflict(trace_load *there, trace_load *load, char reason[64])
{
    static const char *const words[] = {"F", "BW", "B", "W", "R", NULL, NULL, "activation_bytes",
                                        "F", "BW", "B", "W", "R"};
    for (int quantity = BLOCK_QUANTITY; quantity < block_load_record.field_count; quantity++) {
        const char *word = words[quantity - BLOCK_QUANTITY];
        const int64_t was = *quantity_of(there, quantity);
        const int64_t given = *quantity_of(load, quantity);
        if (was < 0 || given < 0 || (word == NULL && was + given <= TRACE_VALUE_MAX)) continue;
        snprintf(reason, 64, word != NULL ? "%s is given twice" : "the sum of %s exceeds 2^53",
                 word != NULL ? word : block_load_record.fields[quantity].column);
        return true;
    }
    const bool is_both = (is_full(there) || is_full(load)) && (is_split(there) || is_split(load));
    if (is_both) snprintf(reason, 64, "a full backward (BW) beside B or W");
    return is_both;
}

static status refuse_load(const trace_load *load, const char *reason, error_message *err)
{
    if (load->microbatch == TRACE_MEAN) {
        return error_set(err, STATUS_INVALID, "iteration %d layer %d: %s", load->iteration,
                         load->layer, reason);
    }
    return error_set(err, STATUS_INVALID, "iteration %d microbatch %d layer %d: %s",
                     load->iteration, load->microbatch, load->layer, reason);
}

/// Completes a row by another that does not contradict it.
static void complete_load(trace_load *there, trace_load *load)
{
    for (int quantity = BLOCK_QUANTITY; quantity < block_load_record.field_count; quantity++) {
        int64_t *was = quantity_of(there, quantity);
        const int64_t given = *quantity_of(load, quantity);
        if (given >= 0) *was = *was >= 0 ? *was + given : given;
    }
}

/// By their places in an iteration.
static int compare_loads(const void *a, const void *b)
{
    const trace_load *left = a;
    const trace_load *right = b;
    if (left->layer != right->layer) return left->layer < right->layer ? -1 : 1;
    return (left->microbatch > right->microbatch) - (left->microbatch < right->microbatch);
}

/// The place of the first held row that does not stand before load; mostly it is near the end.
static size_t find_row(const held_loads *held, const trace_load *load)
{
    const size_t count = (size_t)held->count;
    const int order = count > 0 ? compare_loads(&held->loads[count - 1], load) : -1;
    if (order <= 0) return order < 0 ? count : count - 1;
    return sorted_place(held->loads, count, sizeof *load, load, compare_loads);
}

static status put_row(held_loads *held, const trace_load *load, error_message *err)
{
    char reason[64];
    trace_load given = *load;
    const size_t place = find_row(held, load);
    if (place < (size_t)held->count && compare_loads(load, &held->loads[place]) == 0) {
        trace_load *there = &held->loads[place];
        if (find_conflict(there, &given, reason)) return refuse_load(load, reason, err);
        complete_load(there, &given);
    } else {
        held->loads = memory_grow(held->loads, (size_t)held->count, sizeof *held->loads);
        memmove(&held->loads[place + 1], &held->loads[place],
                ((size_t)held->count - place) * sizeof *held->loads);
        held->loads[place] = *load;
        held->count++;
    }
    held->is_new = true;
    return STATUS_OK;
}

/// What the store has of an iteration already.
static status read_held(trace_writer *writer, held_loads *held, error_message *err)
{
    size_t room = 4; // as memory_grow leaves it
    TRY(trace_loads_at(writer->store, writer->trace_id, held->iteration, &held->loads, &held->count,
                       err));
    while (room < (size_t)held->count) {
        room *= 2;
    }
    held->loads = memory_resize(held->loads, room, sizeof *held->loads);
    return STATUS_OK;
}

static int compare_held(const void *a, const void *b)
{
    const int left = ((const held_loads *)a)->iteration;
    const int right = ((const held_loads *)b)->iteration;
    return (left > right) - (left < right);
}

/// Makes an iteration the current one.
static status hold_iteration(trace_writer *writer, int iteration, error_message *err)
{
    held_loads fresh = {.iteration = iteration};
    const size_t count = (size_t)writer->held_count;
    const size_t place = sorted_place(writer->held, count, sizeof fresh, &fresh, compare_held);
    if (place == count || writer->held[place].iteration != iteration) {
        if (iteration <= writer->iteration_last) TRY(read_held(writer, &fresh, err));
        writer->held = memory_grow(writer->held, count, sizeof fresh);
        memmove(&writer->held[place + 1], &writer->held[place], (count - place) * sizeof fresh);
        writer->held[place] = fresh;
        writer->held_count++;
    }
    writer->current = (int)place;
    return STATUS_OK;
}

static status flush_iteration(trace_writer *writer, held_loads *held, error_message *err)
{
    size_t length = 0;
    unsigned char *block = block_of_loads(held->loads, held->count, &length);
    status result = sql_bind(writer->store, writer->insert_loads, err, "iiiv", writer->trace_id,
                             (int64_t)held->iteration, (int64_t)held->count, block, length);
    if (result == STATUS_OK) result = sql_batch_put(writer->store, writer->insert_loads, err);
    sqlite3_clear_bindings(writer->insert_loads);
    free(block);
    TRY(result);
    held->is_new = false;
    if (held->iteration > writer->iteration_last) writer->iteration_last = held->iteration;
    return STATUS_OK;
}

static status flush_ops(trace_writer *writer, error_message *err)
{
    size_t length = 0;
    int first = TRACE_ITERATIONS_MAX;
    int last = 0;
    if (writer->op_count == 0) return STATUS_OK;
    for (int op = 0; op < writer->op_count; op++) {
        if (writer->ops[op].iteration < first) first = writer->ops[op].iteration;
        if (writer->ops[op].iteration > last) last = writer->ops[op].iteration;
    }
    unsigned char *block = block_of_ops(writer->ops, writer->op_count, &length);
    const status result =
        sql_write_once(writer->store, err, "INSERT INTO ops VALUES(?,?,?,?,?,?)", "iiiiiv",
                       writer->trace_id, writer->op_block_count++, (int64_t)first, (int64_t)last,
                       (int64_t)writer->op_count, block, length);
    free(block);
    return result;
}

/// Forgets what is held, but for the current iteration where that is kept.
static void drop_held(trace_writer *writer, bool keeps_current)
{
    int kept = 0;
    for (int each = 0; each < writer->held_count; each++) {
        if (keeps_current && each == writer->current) {
            writer->held[kept++] = writer->held[each];
        } else {
            free(writer->held[each].loads);
        }
    }
    writer->held_count = kept;
    writer->op_count = 0;
    writer->current = 0;
}

status trace_writer_flush(trace_writer *writer, error_message *err)
{
    status result = STATUS_OK;
    for (int each = 0; each < writer->held_count && result == STATUS_OK; each++) {
        held_loads *held = &writer->held[each];
        if (held->is_new) result = flush_iteration(writer, held, err);
    }
    if (result == STATUS_OK) result = flush_ops(writer, err);
    drop_held(writer, result == STATUS_OK);
    return result;
}

/// After a row: all that is held is committed when it is due.
static status settle(trace_writer *writer, error_message *err)
{
    if (!sql_is_due(writer->store, HELD_ROWS_MAX)) return STATUS_OK;
    TRY(trace_writer_flush(writer, err));
    return sql_batch_commit(writer->store, err);
}

status trace_writer_put_load(trace_writer *writer, const trace_load *load, error_message *err)
{
    TRY(check_load(writer, load, err));
    TRY(sql_batch_begin(writer->store, err));
    if (writer->held_count == 0 || writer->held[writer->current].iteration != load->iteration) {
        TRY(hold_iteration(writer, load->iteration, err));
    }
    TRY(put_row(&writer->held[writer->current], load, err));
    if (load->layer > writer->layer_last) writer->layer_last = load->layer;
    if (load->microbatch > writer->microbatch_last) writer->microbatch_last = load->microbatch;
    if (load->microbatch == TRACE_MEAN) writer->has_means = true;
    if (load->microbatch != TRACE_MEAN) writer->has_microbatches = true;
    if (is_full(load)) writer->has_full_backward = true;
    writer->load_count++;
    return settle(writer, err);
}

status trace_writer_put_layer(trace_writer *writer, const trace_layer *layer, error_message *err)
{
    TRY(check_layer(writer, layer->layer, err));
    TRY(check_value("parameters", layer->parameters, err));
    TRY(check_value("state_bytes", layer->state_bytes, err));
    TRY(check_value("message_bytes", layer->message_bytes, err));
    const int64_t before = sqlite3_total_changes64(writer->store->db);
    TRY(sql_write_once(writer->store, err,
                       "INSERT INTO layer VALUES(?,?,'layer',?,?,?) ON CONFLICT DO NOTHING",
                       "iinnn", writer->trace_id, (int64_t)layer->layer, layer->parameters,
                       layer->state_bytes, layer->message_bytes));
    if (sqlite3_total_changes64(writer->store->db) == before) {
        return error_set(err, STATUS_INVALID, "layer %d: its properties are given twice",
                         layer->layer);
    }
    if (layer->layer > writer->layer_last) writer->layer_last = layer->layer;
    return STATUS_OK;
}

status trace_writer_put_op(trace_writer *writer, const trace_op *op, error_message *err)
{
    TRY(check_number("rank", op->rank, 0, TRACE_RANKS_MAX - 1, err));
    TRY(check_number("iteration", op->iteration, 0, TRACE_ITERATIONS_MAX, err));
    TRY(check_number("begin_ns", op->begin_ns, -TRACE_CLOCK_MAX, TRACE_CLOCK_MAX, err));
    TRY(check_number("end_ns", op->end_ns, -TRACE_CLOCK_MAX, TRACE_CLOCK_MAX, err));
    if (op->end_ns < op->begin_ns) {
        return error_set(
            err, STATUS_INVALID,
            "rank %d iteration %d %s: ends at %" PRId64 " before it begins at %" PRId64, op->rank,
            op->iteration, trace_op_kind_names[op->kind], op->end_ns, op->begin_ns);
    }
    TRY(sql_batch_begin(writer->store, err));
    writer->ops = memory_grow(writer->ops, (size_t)writer->op_count, sizeof *writer->ops);
    writer->ops[writer->op_count++] = *op;
    return settle(writer, err);
}

status trace_writer_put_op_name(trace_writer *writer, int name, const char *text,
                                error_message *err)
{
    return sql_write_once(writer->store, err, "INSERT INTO op_name VALUES(?,?,?)", "iit",
                          writer->trace_id, (int64_t)name, text);
}

status trace_writer_put_input(trace_writer *writer, const trace_input_file *file,
                              error_message *err)
{
    return sql_put_input(writer->store, "INSERT INTO trace_input VALUES(?,?,?,?,?)",
                         writer->trace_id, writer->input_count++, file, err);
}

status trace_writer_put_note(trace_writer *writer, const char *key, const char *text,
                             error_message *err)
{
    return sql_write_once(writer->store, err, "INSERT OR REPLACE INTO trace_note VALUES(?,?,?)",
                          "itt", writer->trace_id, key, text);
}

status trace_writer_set_info(trace_writer *writer, const trace_info *info, error_message *err)
{
    TRY(check_info(info, err));
    TRY(check_value("tokens_per_microbatch", info->tokens_per_microbatch, err));
    TRY(sql_write_once(
        writer->store, err,
        "UPDATE trace SET device=?, tokens_per_microbatch=?, embedding=?, head=?,"
        " backward_split=CASE WHEN ?5<0 THEN NULL ELSE ?5 END, times=?, split=?, communication=?,"
        " activations=?, parameters=?, messages=?, recorded_by=? WHERE trace_id=?",
        "tnbbdttttttti", info->device, info->tokens_per_microbatch, info->embedding, info->head,
        info->backward_split, trace_known_names[info->times], trace_known_names[info->split],
        trace_known_names[info->communication], trace_known_names[info->activations],
        trace_known_names[info->parameters], trace_known_names[info->messages], info->recorded_by,
        writer->trace_id));
    writer->info = *info;
    writer->info.name = writer->info.device = writer->info.recorded_by = NULL; // borrowed
    return STATUS_OK;
}

static status check_counts(const trace_writer *writer, int layer_count, int microbatch_count,
                           error_message *err)
{
    if (writer->load_count == 0) {
        return error_set(err, STATUS_INVALID, "no load of any layer was recorded");
    }
    TRY(check_number("layer", writer->layer_last, 0, layer_count - 1, err));
    if (writer->has_microbatches) {
        TRY(check_number("microbatch", writer->microbatch_last, 0, microbatch_count - 1, err));
    }
    if (writer->has_microbatches && (int64_t)layer_count * microbatch_count > TRACE_CELLS_MAX) {
        return error_set(err, STATUS_INVALID, "%d layers x %d microbatches exceed %d", layer_count,
                         microbatch_count, TRACE_CELLS_MAX);
    }
    return STATUS_OK;
}

/// Every layer has a row, with its kind, whether or not it has properties.
static status complete_layers(trace_writer *writer, int layer_count, error_message *err)
{
    return sql_write_once(
        writer->store, err,
        "WITH RECURSIVE number(layer) AS"
        " (SELECT 0 UNION ALL SELECT layer+1 FROM number WHERE layer+1<?2)"
        " INSERT INTO layer SELECT ?1, layer, CASE WHEN ?3 AND layer=0 THEN 'embedding'"
        " WHEN ?4 AND layer=?2-1 THEN 'head' ELSE 'layer' END, NULL, NULL, NULL FROM number"
        " WHERE true ON CONFLICT DO UPDATE SET kind=excluded.kind",
        "iibb", writer->trace_id, (int64_t)layer_count, writer->info.embedding, writer->info.head);
}

static int layer_count_of(const trace_writer *writer)
{
    return writer->info.layer_count > 0 ? writer->info.layer_count : writer->layer_last + 1;
}

static int microbatch_count_of(const trace_writer *writer)
{
    return writer->info.microbatch_count > 0 ? writer->info.microbatch_count
                                             : writer->microbatch_last + 1;
}

static status complete(trace_writer *writer, error_message *err)
{
    const int layer_count = layer_count_of(writer);
    const int microbatch_count = microbatch_count_of(writer);
    TRY(check_counts(writer, layer_count, microbatch_count, err));
    TRY(trace_writer_flush(writer, err));
    TRY(complete_layers(writer, layer_count, err));
    TRY(sql_write_once(writer->store, err,
                       "UPDATE trace SET status='complete', layer_count=?, microbatch_count=?,"
                       " has_split=? WHERE trace_id=?",
                       "iibi", (int64_t)layer_count, (int64_t)microbatch_count,
                       !writer->has_full_backward, writer->trace_id));
    return sql_batch_commit(writer->store, err);
}

static void release(trace_writer *writer)
{
    drop_held(writer, false);
    free(writer->held);
    free(writer->ops);
    sqlite3_finalize(writer->insert_loads);
    free(writer);
}

status trace_writer_finish(trace_writer *writer, error_message *err)
{
    const status result = complete(writer, err);
    if (result != STATUS_OK) {
        trace_writer_abort(writer);
        return result;
    }
    release(writer);
    return STATUS_OK;
}

void trace_writer_abort(trace_writer *writer)
{
    if (writer == NULL) return;
    trace_store *store = writer->store;
    // Where even this fails (a full disk), the trace stays running until the store is closed or
    // opened again, and is then interrupted.
    if (writer->trace_id != 0 && (sql_write_once(store, NULL, "DELETE FROM trace WHERE trace_id=?",
                                                 "i", writer->trace_id) != STATUS_OK ||
                                  sql_batch_commit(store, NULL) != STATUS_OK)) {
        store->leftover_trace_id = writer->trace_id;
    }
    release(writer);
}

/// A batch that could not be committed began anywhere: of the iteration that was committed last
/// layers may be missing, which readers would take for layers that cost nothing.
///
/// @param iteration_count out: that are left
static status drop_part_of_iteration(trace_writer *writer, int64_t *iteration_count,
                                     error_message *err)
{
    const int64_t columns = writer->has_microbatches ? microbatch_count_of(writer) : 1;
    TRY(sql_write_once(writer->store, err,
                       "DELETE FROM loads WHERE trace_id=?1 AND row_count<?2"
                       " AND iteration=(SELECT max(iteration) FROM loads WHERE trace_id=?1)",
                       "ii", writer->trace_id, layer_count_of(writer) * columns));
    return sql_get(writer->store, iteration_count, err,
                   "SELECT count(*) FROM loads WHERE trace_id=?", "i", writer->trace_id);
}

status trace_writer_keep(trace_writer *writer, error_message *err)
{
    int64_t iteration_count = 0;
    trace_writer_flush(writer, NULL); // a full disk may be why it ends
    status result = drop_part_of_iteration(writer, &iteration_count, err);
    if (result == STATUS_OK && iteration_count == 0) {
        trace_writer_abort(writer);
        return error_set(err, STATUS_INVALID, "no iteration was recorded");
    }
    if (result == STATUS_OK) result = complete(writer, err);
    release(writer);
    return result;
}

#include "traces/store/writer.h"

#include "base/arena.h"
#include "traces/store/sql.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    int64_t op_count;
    int input_count;
    sqlite3_stmt *insert_load;
    sqlite3_stmt *select_load;
    sqlite3_stmt *insert_op; // NULL until the first op
};

const char *trace_source_kind_name(trace_source_kind kind)
{
    static const char *const names[TRACE_SOURCE_COUNT] = {"csv", "kineto", "model", "exec"};
    assert(kind >= 0 && kind < TRACE_SOURCE_COUNT);
    return names[kind];
}

const char *trace_known_name(trace_known known)
{
    static const char *const names[TRACE_KNOWN_COUNT] = {"unknown", "measured", "fitted", "preset",
                                                         "assumed"};
    assert(known >= 0 && known < TRACE_KNOWN_COUNT);
    return names[known];
}

trace_info trace_info_default(void)
{
    return (trace_info){.tokens_per_microbatch = TRACE_NOT_RECORDED,
                        .backward_split = -1,
                        .first_iteration = -1,
                        .last_iteration = -1};
}

trace_load trace_load_init(int iteration, int layer, int microbatch)
{
    return (trace_load){.iteration = iteration,
                        .layer = layer,
                        .microbatch = microbatch,
                        .forward_ns = TRACE_NOT_RECORDED,
                        .backward_ns = TRACE_NOT_RECORDED,
                        .backward_input_ns = TRACE_NOT_RECORDED,
                        .backward_weight_ns = TRACE_NOT_RECORDED,
                        .recompute_ns = TRACE_NOT_RECORDED,
                        .communication_ns = TRACE_NOT_RECORDED,
                        .span_ns = TRACE_NOT_RECORDED,
                        .activation_bytes = TRACE_NOT_RECORDED,
                        .forward_charge_ns = TRACE_NOT_RECORDED,
                        .backward_charge_ns = TRACE_NOT_RECORDED,
                        .backward_input_charge_ns = TRACE_NOT_RECORDED,
                        .backward_weight_charge_ns = TRACE_NOT_RECORDED,
                        .recompute_charge_ns = TRACE_NOT_RECORDED};
}

int64_t *trace_load_time(trace_load *load, int phase)
{
    int64_t *const times[] = {&load->forward_ns, &load->backward_input_ns,
                              &load->backward_weight_ns, &load->backward_ns, &load->recompute_ns};
    assert(phase >= TRACE_OP_FORWARD && phase <= TRACE_OP_RECOMPUTE);
    return times[phase];
}

int64_t *trace_load_charge(trace_load *load, int phase)
{
    int64_t *const charges[] = {&load->forward_charge_ns, &load->backward_input_charge_ns,
                                &load->backward_weight_charge_ns, &load->backward_charge_ns,
                                &load->recompute_charge_ns};
    assert(phase >= TRACE_OP_FORWARD && phase <= TRACE_OP_RECOMPUTE);
    return charges[phase];
}

const char *trace_gap_name(trace_gap gap)
{
    static const char *const names[TRACE_GAP_COUNT] = {"host",
                                                       "launch",
                                                       "data loading",
                                                       "garbage collection",
                                                       "exposed communication",
                                                       "waiting",
                                                       "optimizer",
                                                       "gradient reduction",
                                                       "work outside annotations"};
    return names[gap];
}

const char *trace_op_kind_name(trace_op_kind kind)
{
    static const char *const names[TRACE_OP_COUNT] = {
        "F",      "B",           "W",    "BW",    "R",        "SEND_F", "RECV_F",   "SEND_B",
        "RECV_B", "REDUCE_GRAD", "STEP", "LOCAL", "REPLICAS", "ENDS",   "PIPELINE", "WORLD",
    };
    assert(kind >= 0 && kind < TRACE_OP_COUNT);
    return names[kind];
}

static status check_info(const trace_info *info, error_message *err)
{
    if (info->layer_count < 0 || info->layer_count > TRACE_LAYERS_MAX) {
        return error_set(err, STATUS_INVALID, "layer_count %d is outside [0, %d]",
                         info->layer_count, TRACE_LAYERS_MAX);
    }
    if (info->microbatch_count < 0 || info->microbatch_count > TRACE_MICROBATCHES_MAX) {
        return error_set(err, STATUS_INVALID, "microbatch_count %d is outside [0, %d]",
                         info->microbatch_count, TRACE_MICROBATCHES_MAX);
    }
    if (!(info->backward_split <= 1)) {
        return error_set(err, STATUS_INVALID, "backward_split %g is outside [0, 1]",
                         info->backward_split);
    }
    return STATUS_OK;
}

/// Frees the name: an interrupted trace that has it goes, any other is an error.
static status claim_name(trace_store *store, const char *name, error_message *err)
{
    sqlite3_stmt *statement = NULL;
    bool has_row = false;
    char standing[16] = "";
    TRY(sql_prepare(store, "SELECT status FROM trace WHERE name=?", &statement, err));
    status result = sql_bind(store, statement, err, "t", name);
    if (result == STATUS_OK) result = sql_step(store, statement, &has_row, err);
    if (has_row) {
        snprintf(standing, sizeof standing, "%s", (const char *)sqlite3_column_text(statement, 0));
    }
    sqlite3_finalize(statement);
    TRY(result);
    if (!has_row) return STATUS_OK;
    if (strcmp(standing, "interrupted") != 0) {
        return error_set(err, STATUS_INVALID, "%s: has a trace '%.80s' already (%s)", store->path,
                         name, standing);
    }
    return sql_write_once(store, err, "DELETE FROM trace WHERE name=?", "t", name);
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
        "ttiitti", info->name, trace_source_kind_name(info->source), (int64_t)info->layer_count,
        (int64_t)info->microbatch_count, info->tool_version, now, process_id));
    writer->trace_id = sqlite3_last_insert_rowid(store->db);
    TRY(trace_writer_set_info(writer, info, err));
    return sql_batch_commit(store, err);
}

/// A row that is there already is completed, unless both have what may be there only once. Then
/// nothing changes, which put_load sees.
static const char insert_load[] =
    "INSERT INTO load VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
    " ON CONFLICT DO UPDATE SET"
    " forward_ns=coalesce(forward_ns, excluded.forward_ns),"
    " backward_ns=coalesce(backward_ns, excluded.backward_ns),"
    " backward_input_ns=coalesce(backward_input_ns, excluded.backward_input_ns),"
    " backward_weight_ns=coalesce(backward_weight_ns, excluded.backward_weight_ns),"
    " recompute_ns=coalesce(recompute_ns, excluded.recompute_ns),"
    " communication_ns=coalesce(communication_ns+excluded.communication_ns,"
    "communication_ns, excluded.communication_ns),"
    " span_ns=coalesce(span_ns+excluded.span_ns, span_ns, excluded.span_ns),"
    " activation_bytes=coalesce(activation_bytes, excluded.activation_bytes),"
    " forward_charge_ns=coalesce(forward_charge_ns, excluded.forward_charge_ns),"
    " backward_charge_ns=coalesce(backward_charge_ns, excluded.backward_charge_ns),"
    " backward_input_charge_ns="
    "coalesce(backward_input_charge_ns, excluded.backward_input_charge_ns),"
    " backward_weight_charge_ns="
    "coalesce(backward_weight_charge_ns, excluded.backward_weight_charge_ns),"
    " recompute_charge_ns=coalesce(recompute_charge_ns, excluded.recompute_charge_ns)"
    " WHERE (forward_ns IS NULL OR excluded.forward_ns IS NULL)"
    " AND (backward_ns IS NULL OR coalesce(excluded.backward_ns, excluded.backward_input_ns,"
    " excluded.backward_weight_ns) IS NULL)"
    " AND (backward_input_ns IS NULL OR coalesce(excluded.backward_input_ns,"
    " excluded.backward_ns) IS NULL)"
    " AND (backward_weight_ns IS NULL OR coalesce(excluded.backward_weight_ns,"
    " excluded.backward_ns) IS NULL)"
    " AND (recompute_ns IS NULL OR excluded.recompute_ns IS NULL)"
    " AND (activation_bytes IS NULL OR excluded.activation_bytes IS NULL)"
    " AND coalesce(communication_ns, 0)+coalesce(excluded.communication_ns, 0)<=1<<53"
    " AND coalesce(span_ns, 0)+coalesce(excluded.span_ns, 0)<=1<<53";
_Static_assert(TRACE_VALUE_MAX == INT64_C(1) << 53, "the limit of the sums in insert_load");

/// Names stand in tables and messages, on one line.
static status check_name(const char *name, error_message *err)
{
    const size_t length = strlen(name);
    if (length > TRACE_NAME_BYTES_MAX) {
        return error_set(err, STATUS_INVALID,
                         "trace name '%.40s...' has %zu bytes, the limit is %d", name, length,
                         TRACE_NAME_BYTES_MAX);
    }
    for (const char *c = name; *c != '\0'; c++) {
        if ((unsigned char)*c < ' ') {
            return error_set(err, STATUS_INVALID, "a trace name holds control character %d", *c);
        }
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
    status result = insert_trace(begun, info, err);
    if (result == STATUS_OK) result = sql_prepare(store, insert_load, &begun->insert_load, err);
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

static status check_number(const char *what, int64_t value, int64_t min, int64_t max,
                           error_message *err)
{
    if (value >= min && value <= max) return STATUS_OK;
    return error_set(err, STATUS_INVALID, "%s %" PRId64 " is outside [%" PRId64 ", %" PRId64 "]",
                     what, value, min, max);
}

/// Numbers that may be missing.
static status check_value(const char *what, int64_t value, error_message *err)
{
    return value == TRACE_NOT_RECORDED ? STATUS_OK
                                       : check_number(what, value, 0, TRACE_VALUE_MAX, err);
}

static status check_load(const trace_writer *writer, const trace_load *load, error_message *err)
{
    const int layer_max =
        (writer->info.layer_count > 0 ? writer->info.layer_count : TRACE_LAYERS_MAX) - 1;
    const int microbatch_max = (writer->info.microbatch_count > 0 ? writer->info.microbatch_count
                                                                  : TRACE_MICROBATCHES_MAX) -
                               1;
    TRY(check_number("iteration", load->iteration, 0, TRACE_ITERATIONS_MAX, err));
    TRY(check_number("layer", load->layer, 0, layer_max, err));
    if (load->microbatch != TRACE_MEAN) {
        TRY(check_number("microbatch", load->microbatch, 0, microbatch_max, err));
    }
    TRY(check_value("forward_ns", load->forward_ns, err));
    TRY(check_value("backward_ns", load->backward_ns, err));
    TRY(check_value("backward_input_ns", load->backward_input_ns, err));
    TRY(check_value("backward_weight_ns", load->backward_weight_ns, err));
    TRY(check_value("recompute_ns", load->recompute_ns, err));
    TRY(check_value("communication_ns", load->communication_ns, err));
    TRY(check_value("span_ns", load->span_ns, err));
    TRY(check_value("activation_bytes", load->activation_bytes, err));
    trace_load copy = *load;
    for (int phase = TRACE_OP_FORWARD; phase <= TRACE_OP_RECOMPUTE; phase++) {
        TRY(check_value("charge_ns", *trace_load_charge(&copy, phase), err));
    }
    const bool is_mean = load->microbatch == TRACE_MEAN;
    if (is_mean ? writer->has_microbatches : writer->has_means) {
        return error_set(err, STATUS_INVALID,
                         "iteration %d layer %d: a mean over microbatches and single microbatches "
                         "cannot stand in one trace",
                         load->iteration, load->layer);
    }
    if (load->backward_ns >= 0 && (load->backward_input_ns >= 0 || load->backward_weight_ns >= 0)) {
        return error_set(err, STATUS_INVALID,
                         "iteration %d layer %d: a full backward (BW) beside B or W",
                         load->iteration, load->layer);
    }
    return STATUS_OK;
}

/// Writes why load cannot complete the row that is there.
static void write_conflict(const trace_load *there, const trace_load *load, char reason[64])
{
    const struct {
        const char *name;
        int64_t there;
        int64_t given;
    } singles[] = {
        {"F", there->forward_ns, load->forward_ns},
        {"BW", there->backward_ns, load->backward_ns},
        {"B", there->backward_input_ns, load->backward_input_ns},
        {"W", there->backward_weight_ns, load->backward_weight_ns},
        {"R", there->recompute_ns, load->recompute_ns},
        {"activation_bytes", there->activation_bytes, load->activation_bytes},
    };
    for (size_t single = 0; single < sizeof singles / sizeof singles[0]; single++) {
        if (singles[single].there < 0 || singles[single].given < 0) continue;
        snprintf(reason, 64, "%s is given twice", singles[single].name);
        return;
    }
    const bool is_full = there->backward_ns >= 0 || load->backward_ns >= 0;
    const bool is_split = there->backward_input_ns >= 0 || there->backward_weight_ns >= 0 ||
                          load->backward_input_ns >= 0 || load->backward_weight_ns >= 0;
    snprintf(reason, 64, "%s",
             is_full && is_split ? "a full backward (BW) beside B or W"
                                 : "the sum of communication_ns or span_ns exceeds 2^53");
}

/// Says why a row could not be completed.
static status refuse_load(trace_writer *writer, const trace_load *load, error_message *err)
{
    trace_store *store = writer->store;
    bool has_row = false;
    if (writer->select_load == NULL) {
        TRY(sql_prepare(store,
                        "SELECT forward_ns, backward_ns, backward_input_ns, backward_weight_ns,"
                        " recompute_ns, activation_bytes FROM load"
                        " WHERE trace_id=? AND iteration=? AND layer=? AND microbatch=?",
                        &writer->select_load, err));
    }
    TRY(sql_bind(store, writer->select_load, err, "iiii", writer->trace_id,
                 (int64_t)load->iteration, (int64_t)load->layer, (int64_t)load->microbatch));
    TRY(sql_step(store, writer->select_load, &has_row, err));
    if (!has_row) {
        return error_set(err, STATUS_FORMAT, "%s: corrupt: a load is there and is not found",
                         store->path);
    }
    const trace_load there = {
        .forward_ns = sql_int64(writer->select_load, 0),
        .backward_ns = sql_int64(writer->select_load, 1),
        .backward_input_ns = sql_int64(writer->select_load, 2),
        .backward_weight_ns = sql_int64(writer->select_load, 3),
        .recompute_ns = sql_int64(writer->select_load, 4),
        .activation_bytes = sql_int64(writer->select_load, 5),
    };
    sqlite3_reset(writer->select_load);
    char reason[64];
    write_conflict(&there, load, reason);
    if (load->microbatch == TRACE_MEAN) {
        return error_set(err, STATUS_INVALID, "iteration %d layer %d: %s", load->iteration,
                         load->layer, reason);
    }
    return error_set(err, STATUS_INVALID, "iteration %d microbatch %d layer %d: %s",
                     load->iteration, load->microbatch, load->layer, reason);
}

status trace_writer_put_load(trace_writer *writer, const trace_load *load, error_message *err)
{
    TRY(check_load(writer, load, err));
    trace_store *store = writer->store;
    TRY(sql_bind(store, writer->insert_load, err, "iiiinnnnnnnnnnnnn", writer->trace_id,
                 (int64_t)load->iteration, (int64_t)load->layer, (int64_t)load->microbatch,
                 load->forward_ns, load->backward_ns, load->backward_input_ns,
                 load->backward_weight_ns, load->recompute_ns, load->communication_ns,
                 load->span_ns, load->activation_bytes, load->forward_charge_ns,
                 load->backward_charge_ns, load->backward_input_charge_ns,
                 load->backward_weight_charge_ns, load->recompute_charge_ns));
    TRY(sql_batch_begin(store, err));
    const int64_t before = sqlite3_total_changes64(store->db);
    TRY(sql_write(store, writer->insert_load, err));
    if (sqlite3_total_changes64(store->db) == before) return refuse_load(writer, load, err);
    if (load->layer > writer->layer_last) writer->layer_last = load->layer;
    if (load->microbatch > writer->microbatch_last) writer->microbatch_last = load->microbatch;
    if (load->microbatch == TRACE_MEAN) writer->has_means = true;
    if (load->microbatch != TRACE_MEAN) writer->has_microbatches = true;
    if (load->backward_ns >= 0) writer->has_full_backward = true;
    writer->load_count++;
    return STATUS_OK;
}

status trace_writer_put_layer(trace_writer *writer, const trace_layer *layer, error_message *err)
{
    const int layer_max =
        (writer->info.layer_count > 0 ? writer->info.layer_count : TRACE_LAYERS_MAX) - 1;
    TRY(check_number("layer", layer->layer, 0, layer_max, err));
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
    trace_store *store = writer->store;
    TRY(check_number("rank", op->rank, 0, TRACE_RANKS_MAX - 1, err));
    TRY(check_number("iteration", op->iteration, 0, TRACE_ITERATIONS_MAX, err));
    if (op->end_ns < op->begin_ns) {
        return error_set(
            err, STATUS_INVALID,
            "rank %d iteration %d %s: ends at %" PRId64 " before it begins at %" PRId64, op->rank,
            op->iteration, trace_op_kind_name(op->kind), op->end_ns, op->begin_ns);
    }
    if (writer->insert_op == NULL) {
        TRY(sql_prepare(store, "INSERT INTO op VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
                        &writer->insert_op, err));
    }
    TRY(sql_bind(store, writer->insert_op, err, "iiiitnnniiniii", writer->trace_id,
                 (int64_t)op->iteration, writer->op_count, (int64_t)op->rank,
                 trace_op_kind_name(op->kind), (int64_t)op->stage, (int64_t)op->layer,
                 (int64_t)op->microbatch, op->begin_ns, op->end_ns, op->busy_ns,
                 (int64_t)op->replica, (int64_t)op->chunk, (int64_t)op->name));
    writer->op_count++;
    return sql_write(store, writer->insert_op, err);
}

status trace_writer_put_gap(trace_writer *writer, const trace_gap_time *time, error_message *err)
{
    TRY(check_number("rank", time->rank, 0, TRACE_RANKS_MAX - 1, err));
    TRY(check_number("iteration", time->iteration, 0, TRACE_ITERATIONS_MAX, err));
    TRY(check_number("charged_ns", time->charged_ns, 0, TRACE_VALUE_MAX, err));
    TRY(check_number("outside_ns", time->outside_ns, 0, TRACE_VALUE_MAX, err));
    return sql_write_once(writer->store, err, "INSERT INTO gap VALUES(?,?,?,?,?,?)", "iiitii",
                          writer->trace_id, (int64_t)time->iteration, (int64_t)time->rank,
                          trace_gap_name(time->cause), time->charged_ns, time->outside_ns);
}

status trace_writer_put_op_name(trace_writer *writer, int name, const char *text,
                                error_message *err)
{
    return sql_write_once(writer->store, err, "INSERT INTO op_name VALUES(?,?,?)", "iit",
                          writer->trace_id, (int64_t)name, text);
}

status trace_writer_put_clock(trace_writer *writer, const trace_clock *clock, error_message *err)
{
    TRY(check_number("rank", clock->rank, 0, TRACE_RANKS_MAX - 1, err));
    return sql_write_once(writer->store, err, "INSERT OR REPLACE INTO clock VALUES(?,?,?,?)",
                          "iiin", writer->trace_id, (int64_t)clock->rank, clock->offset_ns,
                          clock->residual_ns);
}

status trace_writer_put_input(trace_writer *writer, const trace_input_file *file,
                              error_message *err)
{
    char hash[17];
    snprintf(hash, sizeof hash, "%016" PRIx64, file->hash);
    return sql_write_once(writer->store, err, "INSERT INTO trace_input VALUES(?,?,?,?,?)", "iitit",
                          writer->trace_id, (int64_t)writer->input_count++, file->path, file->bytes,
                          hash);
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
        info->backward_split, trace_known_name(info->times), trace_known_name(info->split),
        trace_known_name(info->communication), trace_known_name(info->activations),
        trace_known_name(info->parameters), trace_known_name(info->messages), info->recorded_by,
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
    if (writer->layer_last >= layer_count) {
        return error_set(err, STATUS_INVALID, "layer %d is outside [0, %d]", writer->layer_last,
                         layer_count - 1);
    }
    if (writer->microbatch_last >= microbatch_count && writer->has_microbatches) {
        return error_set(err, STATUS_INVALID, "microbatch %d is outside [0, %d]",
                         writer->microbatch_last, microbatch_count - 1);
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
    sqlite3_finalize(writer->insert_load);
    sqlite3_finalize(writer->select_load);
    sqlite3_finalize(writer->insert_op);
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
static status drop_part_of_iteration(trace_writer *writer, bool *has_rows, error_message *err)
{
    const int64_t columns = writer->has_microbatches ? microbatch_count_of(writer) : 1;
    TRY(sql_write_once(writer->store, err,
                       "DELETE FROM load WHERE trace_id=?1"
                       " AND iteration=(SELECT max(iteration) FROM load WHERE trace_id=?1)"
                       " AND ?2>(SELECT count(*) FROM load WHERE trace_id=?1"
                       " AND iteration=(SELECT max(iteration) FROM load WHERE trace_id=?1))",
                       "ii", writer->trace_id, layer_count_of(writer) * columns));
    sqlite3_stmt *statement = NULL;
    TRY(sql_query(writer->store, "SELECT 1 FROM load WHERE trace_id=? LIMIT 1", writer->trace_id,
                  &statement, err));
    const status result = sql_step(writer->store, statement, has_rows, err);
    sqlite3_finalize(statement);
    return result;
}

status trace_writer_keep(trace_writer *writer, error_message *err)
{
    bool has_rows = true;
    status result = drop_part_of_iteration(writer, &has_rows, err);
    if (result == STATUS_OK && !has_rows) {
        trace_writer_abort(writer);
        return error_set(err, STATUS_INVALID, "no iteration was recorded");
    }
    if (result == STATUS_OK) result = complete(writer, err);
    release(writer);
    return result;
}

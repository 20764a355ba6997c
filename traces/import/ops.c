#include "traces/import/ops.h"

#include "base/text.h"
#include "traces/import/json_stream.h"
#include "traces/store/stream.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { CELLS_MAX = 256, CELL_BYTES_MAX = 1 << 12 };

/// The longest op and the latest begin, ns: a day, and what leaves its end within a clock's.
static const int64_t duration_max_ns = INT64_C(86400) * 1000000000;
static const int64_t begin_max_ns = TRACE_CLOCK_MAX - TRACE_VALUE_MAX;

typedef enum column {
    COLUMN_STEP,
    COLUMN_STAGE,
    COLUMN_KIND,
    COLUMN_START,
    COLUMN_DURATION,
    COLUMN_REPLICA,
    COLUMN_CHUNK,
    COLUMN_MICROBATCH,
    COLUMN_COUNT,
    COLUMN_OPTIONAL = COLUMN_REPLICA // the first that may be absent
} column;

static const char *const column_words[COLUMN_COUNT] = {
    "step", "stage", "kind", "start_s", "duration_s", "replica", "chunk", "microbatch",
};
/// As the tracer of the published production jobs names them.
static const char *const column_defaults[COLUMN_COUNT] = {
    "step", "stage", "optype", "start_ts", "duration", "dp_rank", "mc", "mb_id",
};

static const struct {
    const char *suffix;
    int64_t unit_ns;
} units[] = {{"_s", 1000000000}, {"_ms", 1000000}, {"_us", 1000}, {"_ns", 1}};
enum { UNIT_COUNT = sizeof units / sizeof units[0] };

/// What plain words and the names of tracers mean.
static const struct {
    const char *name;
    trace_op_kind kind;
} known_kinds[] = {
    {"forward", TRACE_OP_FORWARD},
    {"backward", TRACE_OP_BACKWARD},
    {"backward-input", TRACE_OP_BACKWARD_INPUT},
    {"backward-weight", TRACE_OP_BACKWARD_WEIGHT},
    {"forward-send", TRACE_OP_SEND_FORWARD},
    {"forward-recv", TRACE_OP_RECV_FORWARD},
    {"backward-send", TRACE_OP_SEND_BACKWARD},
    {"backward-recv", TRACE_OP_RECV_BACKWARD},
    {"local", TRACE_OP_LOCAL},
    {"replicas", TRACE_OP_REPLICAS},
    {"ends", TRACE_OP_ENDS},
    {"pipeline", TRACE_OP_PIPELINE},
    {"world", TRACE_OP_WORLD},
    {"forward-compute", TRACE_OP_FORWARD},
    {"backward-compute", TRACE_OP_BACKWARD},
    {"params-all-gather", TRACE_OP_REPLICAS},
    {"params-sync", TRACE_OP_REPLICAS},
    {"grads-reduce-scatter", TRACE_OP_REPLICAS},
    {"grads-all-reduce", TRACE_OP_REPLICAS},
    {"grads-sync", TRACE_OP_REPLICAS},
    {"embedding-grads-all-reduce", TRACE_OP_ENDS},
    {"optimizer-clip-main-grad", TRACE_OP_WORLD},
    {"layernorm-grads-all-reduce", TRACE_OP_LOCAL}, // within a stage's tensor-parallel group
    {"optimizer", TRACE_OP_LOCAL},
    {"gc", TRACE_OP_LOCAL},
};
enum { KNOWN_KINDS = sizeof known_kinds / sizeof known_kinds[0] };

/// What is read from and into.
typedef struct reading {
    const char *path;
    arena *memory;
    trace_op_table table;
    const char *columns[COLUMN_COUNT]; // what the file calls them; NULL: by default
    int64_t start_unit_ns;
    int64_t duration_unit_ns;
    bool is_json;
    int64_t row; // that is being read
    trace_stream *stream;
} reading;

trace_op_kind trace_ops_kind(const char *name, bool *is_known)
{
    *is_known = true;
    for (int known = 0; known < KNOWN_KINDS; known++) {
        if (strcmp(name, known_kinds[known].name) == 0) return known_kinds[known].kind;
    }
    *is_known = false;
    return TRACE_OP_LOCAL;
}

/// "start_us" and the like: the column, and the unit of its numbers.
static bool is_timed(const char *word, column index, int64_t *unit_ns)
{
    const size_t stem = strlen(column_words[index]) - 2; // without "_s"
    if (strncmp(word, column_words[index], stem) != 0) return false;
    for (int unit = 0; unit < UNIT_COUNT; unit++) {
        if (strcmp(word + stem, units[unit].suffix) != 0) continue;
        *unit_ns = units[unit].unit_ns;
        return true;
    }
    return false;
}

static status map_column(reading *to, const char *word, const char *name, error_message *err)
{
    for (int index = 0; index < COLUMN_COUNT; index++) {
        const bool matches =
            index == COLUMN_START      ? is_timed(word, COLUMN_START, &to->start_unit_ns)
            : index == COLUMN_DURATION ? is_timed(word, COLUMN_DURATION, &to->duration_unit_ns)
                                       : strcmp(word, column_words[index]) == 0;
        if (!matches) continue;
        to->columns[index] = name;
        return STATUS_OK;
    }
    char suggestion[TEXT_SUGGESTION_BYTES];
    return error_set(err, STATUS_INVALID, "columns: unknown '%s'%s", word,
                     text_suggestion(word, column_words, COLUMN_COUNT, suggestion));
}

/// @param mapping of columns, as the option spells it; NULL: none
static status read_mapping(reading *to, const char *mapping, error_message *err)
{
    char *pairs[CELLS_MAX];
    if (mapping == NULL || mapping[0] == '\0') return STATUS_OK;
    const int count = trace_lines_cut(arena_string(to->memory, mapping), pairs, CELLS_MAX);
    for (int pair = 0; pair < count; pair++) {
        char *equals = pair < CELLS_MAX ? strchr(pairs[pair], '=') : NULL;
        if (equals == NULL || equals == pairs[pair] || equals[1] == '\0') {
            return error_set(err, STATUS_INVALID, "columns: not 'name=column,...'");
        }
        *equals = '\0';
        TRY(map_column(to, pairs[pair], equals + 1, err));
    }
    return STATUS_OK;
}

/// Whether the file's name for a column is name: as it was mapped, else by default or by its word.
static bool is_called(const reading *from, column index, const char *name)
{
    if (from->columns[index] != NULL) return strcmp(name, from->columns[index]) == 0;
    return strcmp(name, column_defaults[index]) == 0 || strcmp(name, column_words[index]) == 0;
}

static const char *name_of(const reading *from, column index)
{
    return from->columns[index] != NULL ? from->columns[index] : column_defaults[index];
}

/// An integer in [min, max]; "-1" and the like count as absent where the column may be.
static status take_int(const reading *from, column index, const char *cell, int max, int absent,
                       int *value, error_message *err)
{
    int64_t number = 0;
    if (cell == NULL || (cell[0] == '\0' && index >= COLUMN_OPTIONAL)) {
        *value = absent;
        return STATUS_OK;
    }
    const int64_t min = index == COLUMN_CHUNK || index == COLUMN_MICROBATCH ? -1 : 0;
    TRY(text_parse_int64(cell, name_of(from, index), min, max, &number, err));
    *value = number < 0 ? absent : (int)number;
    return STATUS_OK;
}

static status take_time(const reading *from, column index, const char *cell, int64_t unit_ns,
                        int64_t max_ns, int64_t *value, error_message *err)
{
    int64_t ns = 0;
    if (text_parse_decimal_ns(cell, strlen(cell), unit_ns, &ns, NULL) != STATUS_OK) {
        return error_set(err, STATUS_INVALID, "%s: '%.60s' is no number or too large",
                         name_of(from, index), cell);
    }
    if (ns < 0 || ns > max_ns) {
        return error_set(err, STATUS_INVALID, "%s: %.60s is outside [0, %" PRId64 " ns]",
                         name_of(from, index), cell, max_ns);
    }
    *value = ns;
    return STATUS_OK;
}

/// The number of a kind's name, from 1; a new one is added.
static status take_name(reading *to, const char *text, int *name, error_message *err)
{
    trace_op_table *table = &to->table;
    for (*name = 1; *name <= table->name_count; ++*name) {
        if (strcmp(table->names[*name - 1], text) == 0) return STATUS_OK;
    }
    if (text_has_control(text, "")) {
        return error_set(err, STATUS_INVALID, "kind: holds a control character");
    }
    if (text[0] == '\0') return error_set(err, STATUS_INVALID, "kind is empty");
    if (table->name_count == TRACE_OP_NAMES_MAX) {
        return error_set(err, STATUS_INVALID, "kind: '%.60s' is one more than %d names", text,
                         TRACE_OP_NAMES_MAX);
    }
    bool is_known = false;
    table->names[table->name_count] = arena_string(to->memory, text);
    table->kinds[table->name_count++] = trace_ops_kind(text, &is_known);
    return STATUS_OK;
}

/// Adds an op. @param cells [COLUMN_COUNT] texts; NULL: the file has none
static status take_op(reading *to, const char *const *cells, error_message *err)
{
    trace_op op;
    int64_t duration_ns = 0;
    trace_op_table *table = &to->table;
    for (int index = 0; index < COLUMN_OPTIONAL; index++) {
        if (cells[index] == NULL || cells[index][0] == '\0') {
            return error_set(err, STATUS_INVALID, "%s is empty", name_of(to, (column)index));
        }
    }
    TRY(take_int(to, COLUMN_STEP, cells[COLUMN_STEP], TRACE_ITERATIONS_MAX, 0, &op.iteration, err));
    TRY(take_int(to, COLUMN_STAGE, cells[COLUMN_STAGE], TRACE_RANKS_MAX - 1, 0, &op.stage, err));
    TRY(take_int(to, COLUMN_REPLICA, cells[COLUMN_REPLICA], TRACE_RANKS_MAX - 1, 0, &op.replica,
                 err));
    TRY(take_int(to, COLUMN_CHUNK, cells[COLUMN_CHUNK], TRACE_CHUNKS_MAX - 1, 0, &op.chunk, err));
    TRY(take_int(to, COLUMN_MICROBATCH, cells[COLUMN_MICROBATCH], TRACE_MICROBATCHES_MAX - 1,
                 TRACE_NOT_RECORDED, &op.microbatch, err));
    TRY(take_name(to, cells[COLUMN_KIND], &op.name, err));
    TRY(take_time(to, COLUMN_START, cells[COLUMN_START], to->start_unit_ns, begin_max_ns,
                  &op.begin_ns, err));
    TRY(take_time(to, COLUMN_DURATION, cells[COLUMN_DURATION], to->duration_unit_ns,
                  duration_max_ns, &duration_ns, err));
    op.end_ns = op.begin_ns + duration_ns;
    table->ops = memory_grow(table->ops, (size_t)table->op_count, sizeof *table->ops);
    // Until all are read: the row, and the kind.
    op.rank = (int)(to->row <= INT32_MAX ? to->row : INT32_MAX);
    op.layer = (int)table->kinds[op.name - 1];
    trace_op_table_add(table, &op);
    return STATUS_OK;
}

/// Finds the columns among the names of a header. @param places [COLUMN_COUNT] out; -1: absent
static status find_columns(reading *to, char *const *names, int count, int *places,
                           error_message *err)
{
    for (int index = 0; index < COLUMN_COUNT; index++) {
        places[index] = -1;
        for (int cell = 0; cell < count; cell++) {
            if (!is_called(to, (column)index, names[cell])) continue;
            if (places[index] >= 0) {
                return error_set(err, STATUS_INVALID, "column %s is named twice", names[cell]);
            }
            places[index] = cell;
        }
        const bool is_needed = index < COLUMN_OPTIONAL || to->columns[index] != NULL;
        if (places[index] >= 0 || !is_needed) continue;
        return error_set(err, STATUS_INVALID, "column %s (%s) is missing",
                         name_of(to, (column)index), column_words[index]);
    }
    return STATUS_OK;
}

static status read_csv(reading *to, trace_lines *lines, error_message *err)
{
    char *names[CELLS_MAX];
    char *cells[CELLS_MAX];
    int places[COLUMN_COUNT];
    char *line = NULL;
    to->row = 1;
    TRY(trace_lines_next(lines, &line, err));
    if (line == NULL) return error_set(err, STATUS_INVALID, "is empty");
    const int count = trace_lines_cut(line, names, CELLS_MAX);
    if (count > CELLS_MAX)
        return error_set(err, STATUS_INVALID, "names more than %d columns", CELLS_MAX);
    TRY(find_columns(to, names, count, places, err));
    for (to->row = 2;; to->row++) {
        const char *wanted[COLUMN_COUNT];
        TRY(trace_lines_next(lines, &line, err));
        if (line == NULL) return STATUS_OK;
        if (line[0] == '\0') continue;
        const int found = trace_lines_cut(line, cells, CELLS_MAX);
        if (found != count) {
            return error_set(err, STATUS_INVALID, "has %d cells, the header names %d columns",
                             found, count);
        }
        for (int index = 0; index < COLUMN_COUNT; index++) {
            wanted[index] = places[index] >= 0 ? cells[places[index]] : NULL;
        }
        TRY(take_op(to, wanted, err));
    }
}

/// The cells of an event. @return false if it is none of an op: not complete, or without a step
static bool cells_of(const reading *from, const trace_json_event *event,
                     char texts[COLUMN_COUNT][CELL_BYTES_MAX], const char **cells)
{
    if (!trace_json_equals(event->phase, "X")) return false;
    for (int index = 0; index < COLUMN_COUNT; index++) {
        trace_json_slice value = {0};
        if (from->columns[index] != NULL) {
            value = trace_json_find(event->args, from->columns[index]);
        } else {
            value = trace_json_find(event->args, column_defaults[index]);
            if (value.bytes == NULL) value = trace_json_find(event->args, column_words[index]);
        }
        if (value.bytes == NULL && index == COLUMN_KIND) value = event->name;
        if (value.bytes == NULL && index == COLUMN_START) value = event->ts;
        if (value.bytes == NULL && index == COLUMN_DURATION) value = event->duration;
        cells[index] = value.bytes != NULL ? texts[index] : NULL;
        if (value.bytes != NULL) trace_json_text(value, texts[index], CELL_BYTES_MAX);
    }
    return cells[COLUMN_STEP] != NULL;
}

static status read_events(reading *to, trace_json_stream *json, error_message *err)
{
    char(*texts)[CELL_BYTES_MAX] = arena_array(to->memory, COLUMN_COUNT, CELL_BYTES_MAX);
    const char *cells[COLUMN_COUNT];
    for (;;) {
        const trace_json_item *item = NULL;
        TRY(trace_json_next(json, &item, err));
        if (item->kind == TRACE_JSON_END) return STATUS_OK;
        to->row = item->event.index;
        if (item->kind != TRACE_JSON_EVENT || !cells_of(to, &item->event, texts, cells)) continue;
        TRY(take_op(to, cells, err));
    }
}

/// @param bytes [count] what was read of it already
static status read_json(reading *to, const char *bytes, size_t count, error_message *err)
{
    to->is_json = true;
    // ts and dur are in us; a column that was mapped keeps the unit of its word.
    if (to->columns[COLUMN_START] == NULL) to->start_unit_ns = 1000;
    if (to->columns[COLUMN_DURATION] == NULL) to->duration_unit_ns = 1000;
    trace_json_stream *json = trace_json_open(to->stream, to->path, NULL, NULL);
    trace_json_give(json, bytes, count);
    const status result = read_events(to, json, err);
    trace_json_close(json);
    return result;
}

/// By chunk, kind, microbatch, then as they ran. Ops of a worker, of which rank is the row and
/// layer the kind.
static int compare_work(const void *a, const void *b)
{
    const trace_table_op *left = *(const trace_table_op *const *)a;
    const trace_table_op *right = *(const trace_table_op *const *)b;
    if (left->chunk != right->chunk) return left->chunk < right->chunk ? -1 : 1;
    if (left->layer != right->layer) return left->layer < right->layer ? -1 : 1;
    if (left->microbatch != right->microbatch) {
        return left->microbatch < right->microbatch ? -1 : 1;
    }
    if (left->begin_ns != right->begin_ns) return left->begin_ns < right->begin_ns ? -1 : 1;
    return (left->rank > right->rank) - (left->rank < right->rank);
}

/// Counts the microbatches of ops of a worker that do not say theirs, and refuses one that stands
/// twice.
static status number_work(reading *to, trace_table_op **work, int64_t count, error_message *err)
{
    qsort(work, (size_t)count, sizeof *work, compare_work);
    for (int64_t each = 0; each < count; each++) {
        trace_table_op *op = work[each];
        const trace_table_op *before = each > 0 ? work[each - 1] : NULL;
        const bool is_first =
            before == NULL || before->chunk != op->chunk || before->layer != op->layer;
        if (op->microbatch < 0) op->microbatch = is_first ? 0 : before->microbatch + 1;
        if (is_first || before->microbatch < op->microbatch) continue;
        to->row = op->rank;
        return error_set(err, STATUS_INVALID,
                         "%s of step %d, replica %d, stage %d, chunk %d, microbatch %d stands "
                         "twice, first in %d: one row per worker and op is read",
                         to->table.names[op->name - 1], op->iteration, op->replica, op->stage,
                         op->chunk, op->microbatch, before->rank);
    }
    return STATUS_OK;
}

static bool is_same_worker(const trace_table_op *a, const trace_table_op *b)
{
    return a->iteration == b->iteration && a->replica == b->replica && a->stage == b->stage;
}

/// The same of all workers. @param work_count out: how many F and backwards there are
static status number_all(reading *to, int64_t *work_count, error_message *err)
{
    const trace_op_table *table = &to->table;
    // As many as a worker has in a step are used.
    trace_table_op **work = memory_array((size_t)table->op_count, sizeof *work);
    status result = STATUS_OK;
    for (int64_t begin = 0, end = 0; begin < table->op_count && result == STATUS_OK; begin = end) {
        int64_t count = 0;
        for (; end < table->op_count && is_same_worker(&table->ops[begin], &table->ops[end]);
             end++) {
            if (table->ops[end].layer <= TRACE_OP_BACKWARD) work[count++] = &table->ops[end];
        }
        *work_count += count;
        result = number_work(to, work, count, err);
    }
    free(work);
    return result;
}

/// Checks ops against each other and gives them ranks and layers.
static status complete(reading *to, error_message *err)
{
    trace_op_table *table = &to->table;
    const int64_t workers = (int64_t)table->replica_count * table->stage_count;
    const int64_t layers = (int64_t)table->chunk_count * table->stage_count;
    if (table->op_count == 0) return error_set(err, STATUS_FORMAT, "%s: holds no op", to->path);
    if (workers > TRACE_RANKS_MAX || layers > TRACE_LAYERS_MAX) {
        return error_set(err, STATUS_FORMAT,
                         "%s: %d replicas x %d stages x %d chunks: at most %d workers and %d parts "
                         "of the model are read",
                         to->path, table->replica_count, table->stage_count, table->chunk_count,
                         TRACE_RANKS_MAX, TRACE_LAYERS_MAX);
    }
    int64_t work_count = 0;
    trace_op_table_sort(table->ops, table->op_count);
    TRY(number_all(to, &work_count, err));
    if (work_count == 0) {
        return error_set(err, STATUS_FORMAT,
                         "%s: none of its %d kinds of ops is a forward or backward", to->path,
                         table->name_count);
    }
    trace_op_table_place(table);
    return STATUS_OK;
}

/// By the first byte that is no blank.
static status read_content(reading *to, trace_lines *lines, error_message *err)
{
    const char *bytes = NULL;
    size_t count = 0;
    size_t blanks = 0;
    TRY(trace_lines_peek(lines, &bytes, &count, err));
    while (blanks < count && memchr(" \t\r\n", bytes[blanks], 4) != NULL) {
        blanks++;
    }
    const bool is_json = blanks < count && (bytes[blanks] == '{' || bytes[blanks] == '[');
    TRY(is_json ? read_json(to, bytes, count, err) : read_csv(to, lines, err));
    return complete(to, err);
}

status trace_ops_read(trace_stream *stream, const char *path, const char *columns, arena *memory,
                      trace_op_table *table, error_message *err)
{
    reading to = {.path = path,
                  .memory = memory,
                  .start_unit_ns = units[0].unit_ns,
                  .duration_unit_ns = units[0].unit_ns,
                  .stream = stream};
    TRY(read_mapping(&to, columns, err));
    to.table.names = arena_array(memory, TRACE_OP_NAMES_MAX, sizeof *to.table.names);
    to.table.kinds = arena_array(memory, TRACE_OP_NAMES_MAX, sizeof *to.table.kinds);
    trace_lines *lines = trace_lines_open(stream);
    status result = read_content(&to, lines, err);
    if (result == STATUS_INVALID) {
        if (err != NULL) err->code = STATUS_FORMAT;
        result = error_prefix(err, STATUS_FORMAT, to.is_json ? "%s: event %" PRId64 : "%s:%" PRId64,
                              path, to.row);
    }
    trace_lines_close(lines);
    if (result == STATUS_OK) *table = to.table;
    if (result != STATUS_OK) free(to.table.ops);
    return result;
}

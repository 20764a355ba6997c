#include "traces/import/csv.h"

#include "base/arena.h"
#include "base/text.h"
#include "traces/import/annotation.h"
#include "traces/store/stream.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const char first_line[] = "# dynmo-trace/1";

typedef enum column {
    COLUMN_ITERATION,
    COLUMN_LAYER,
    COLUMN_PHASE,
    COLUMN_BUSY,
    COLUMN_MICROBATCH,
    COLUMN_RANK,
    COLUMN_START,
    COLUMN_SPAN,
    COLUMN_COMMUNICATION,
    COLUMN_ACTIVATION,
    COLUMN_PARAMETERS,
    COLUMN_MESSAGE,
    COLUMN_COUNT,
    COLUMN_OPTIONAL = COLUMN_MICROBATCH // the first that may be absent or empty
} column;

static const char *const column_names[COLUMN_COUNT] = {
    "iteration",  "layer",         "phase",   "busy_ns",          "microbatch",
    "rank",       "start_ns",      "span_ns", "communication_ns", "activation_bytes",
    "parameters", "message_bytes",
};

/// The largest number of each; a phase is none.
static const int64_t column_max[COLUMN_COUNT] = {
    [COLUMN_ITERATION] = TRACE_ITERATIONS_MAX,
    [COLUMN_LAYER] = TRACE_LAYERS_MAX - 1,
    [COLUMN_PHASE] = -1,
    [COLUMN_BUSY] = TRACE_VALUE_MAX,
    [COLUMN_MICROBATCH] = TRACE_MICROBATCHES_MAX - 1,
    [COLUMN_RANK] = TRACE_RANKS_MAX - 1,
    [COLUMN_START] = TRACE_CLOCK_MAX - TRACE_VALUE_MAX, // its end still fits
    [COLUMN_SPAN] = TRACE_VALUE_MAX,
    [COLUMN_COMMUNICATION] = TRACE_VALUE_MAX,
    [COLUMN_ACTIVATION] = TRACE_VALUE_MAX,
    [COLUMN_PARAMETERS] = TRACE_VALUE_MAX,
    [COLUMN_MESSAGE] = TRACE_VALUE_MAX,
};

/// The metadata that means something.
typedef enum key {
    KEY_DEVICE,
    KEY_EMBEDDING,
    KEY_HEAD,
    KEY_TOKENS,
    KEY_MICROBATCHES,
    KEY_SOURCE,
    KEY_COUNT
} key;
static const char *const key_names[KEY_COUNT] = {
    "device", "embedding", "head", "tokens_per_microbatch", "microbatches", "source",
};

enum { NOTES_MAX = 1000 };

struct trace_csv {
    arena *memory;
    trace_store *store;
    trace_writer *writer;
    trace_info info;
    int file_count;
    int note_count;
    const char *values[KEY_COUNT]; // as the files gave them; NULL: not yet
    bool has_full_backward;
    bool seen[COLUMN_COUNT]; // with a value in some row
    int layer_count;         // of layers
    trace_layer *layers;     // [layer_count] what their rows said of what never changes
};

/// A file that is being read.
typedef struct csv_file {
    trace_lines *lines;
    bool known[KEY_COUNT]; // given by this file
    int cell_count;
    int places[COLUMN_COUNT]; // of the columns among the cells; -1: not there
} csv_file;

/// A row taken apart. Numbers are -1 where the cell is empty or the column is not there.
typedef struct csv_row {
    int64_t numbers[COLUMN_COUNT];
    trace_op_kind phase;
} csv_row;

status trace_csv_begin(trace_store *store, const trace_info *info, trace_csv **csv,
                       error_message *err)
{
    arena *memory = arena_create(1 << 12);
    trace_csv *begun = arena_array(memory, 1, sizeof *begun);
    *begun = (trace_csv){.memory = memory, .store = store, .info = *info};
    begun->info.source = TRACE_SOURCE_CSV;
    begun->info.times = TRACE_MEASURED;
    const status result = trace_writer_begin(store, &begun->info, &begun->writer, err);
    if (result != STATUS_OK) {
        arena_destroy(memory);
        return result;
    }
    *csv = begun;
    return STATUS_OK;
}

/// The next line; NULL after the last.
static status next_line(csv_file *file, char **line, error_message *err)
{
    TRY(trace_lines_next(file->lines, line, err));
    if (*line == NULL || !trace_lines_is_cut(file->lines)) return STATUS_OK;
    return error_set(err, STATUS_INVALID, "ends without a line feed: the file is truncated");
}

static char *trim(char *text)
{
    while (*text == ' ') {
        text++;
    }
    size_t length = strlen(text);
    while (length > 0 && text[length - 1] == ' ') {
        text[--length] = '\0';
    }
    return text;
}

/// Checks a value that means something and keeps it in csv->info. The source is free text.
static status take_value(trace_info *info, key known, const char *value, error_message *err)
{
    static const int64_t max[KEY_COUNT] = {[KEY_EMBEDDING] = 1,
                                           [KEY_HEAD] = 1,
                                           [KEY_TOKENS] = TRACE_VALUE_MAX,
                                           [KEY_MICROBATCHES] = TRACE_MICROBATCHES_MAX};
    int64_t number = 0;
    if (known == KEY_DEVICE) {
        if (strcmp(value, "cpu") == 0 || strcmp(value, "cuda") == 0) return STATUS_OK;
        return error_set(err, STATUS_INVALID, "device: '%.60s' is neither cpu nor cuda", value);
    }
    if (known == KEY_SOURCE) return STATUS_OK;
    TRY(text_parse_int64(value, key_names[known], known == KEY_MICROBATCHES, max[known], &number,
                         err));
    if (known == KEY_EMBEDDING) info->embedding = number == 1;
    if (known == KEY_HEAD) info->head = number == 1;
    if (known == KEY_TOKENS) info->tokens_per_microbatch = number;
    if (known == KEY_MICROBATCHES) info->microbatch_count = (int)number;
    return STATUS_OK;
}

static status put_known(trace_csv *csv, csv_file *file, key known, const char *value,
                        error_message *err)
{
    if (file->known[known]) {
        return error_set(err, STATUS_INVALID, "%s is given twice", key_names[known]);
    }
    file->known[known] = true;
    if (csv->values[known] != NULL) {
        if (known == KEY_SOURCE || strcmp(csv->values[known], value) == 0) return STATUS_OK;
        return error_set(err, STATUS_INVALID, "%s=%.60s contradicts %s=%.60s of an earlier file",
                         key_names[known], value, key_names[known], csv->values[known]);
    }
    TRY(take_value(&csv->info, known, value, err));
    csv->values[known] = arena_string(csv->memory, value);
    if (known == KEY_DEVICE) csv->info.device = csv->values[known];
    if (known == KEY_SOURCE) csv->info.recorded_by = csv->values[known];
    return STATUS_OK;
}

/// A line "# key=value". What other programs say goes into the trace, as notes.
static status read_metadata(trace_csv *csv, csv_file *file, char *line, error_message *err)
{
    char *equals = strchr(line, '=');
    if (equals == NULL) return error_set(err, STATUS_INVALID, "'%.60s' is not '# key=value'", line);
    *equals = '\0';
    const char *name = trim(line + 1);
    const char *value = trim(equals + 1);
    if (name[0] == '\0') return error_set(err, STATUS_INVALID, "a key is missing before '='");
    const int known = text_find(name, key_names, KEY_COUNT);
    if (known < KEY_COUNT) return put_known(csv, file, (key)known, value, err);
    if (++csv->note_count > NOTES_MAX) {
        return error_set(err, STATUS_INVALID, "more than %d lines '# key=value' of other keys",
                         NOTES_MAX);
    }
    if (csv->file_count == 0) return trace_writer_put_note(csv->writer, name, value, err);
    char numbered[128];
    snprintf(numbered, sizeof numbered, "%.100s [%d]", name, csv->file_count + 1);
    return trace_writer_put_note(csv->writer, numbered, value, err);
}

static status read_header(csv_file *file, char *line, error_message *err)
{
    char *names[COLUMN_COUNT + 1]; // the last is unknown or named twice
    file->cell_count = trace_lines_cut(line, names, COLUMN_COUNT + 1);
    memset(file->places, -1, sizeof file->places);
    for (int cell = 0; cell < file->cell_count && cell <= COLUMN_COUNT; cell++) {
        char suggestion[TEXT_SUGGESTION_BYTES];
        const int index = text_find(names[cell], column_names, COLUMN_COUNT);
        if (index == COLUMN_COUNT) {
            text_suggestion(names[cell], column_names, COLUMN_COUNT, suggestion);
            return error_set(err, STATUS_INVALID, "unknown column '%.60s'%s", names[cell],
                             suggestion);
        }
        if (file->places[index] >= 0) {
            return error_set(err, STATUS_INVALID, "column %s is named twice", names[cell]);
        }
        file->places[index] = cell;
    }
    for (int needed = 0; needed < COLUMN_OPTIONAL; needed++) {
        if (file->places[needed] >= 0) continue;
        return error_set(err, STATUS_INVALID, "column %s is missing", column_names[needed]);
    }
    return STATUS_OK;
}

/// The lines before the rows: version, metadata, columns.
static status read_head(trace_csv *csv, csv_file *file, error_message *err)
{
    char *line = NULL;
    TRY(next_line(file, &line, err));
    if (line == NULL || strcmp(line, first_line) != 0) {
        return error_set(err, STATUS_INVALID, "the first line is not '%s'", first_line);
    }
    for (;;) {
        TRY(next_line(file, &line, err));
        if (line == NULL) {
            return error_set(err, STATUS_INVALID, "ends before the row that names the columns");
        }
        if (line[0] != '#') break;
        TRY(read_metadata(csv, file, line, err));
    }
    TRY(read_header(file, line, err));
    return trace_writer_set_info(csv->writer, &csv->info, err);
}

static status parse_cell(column index, const char *text, csv_row *row, error_message *err)
{
    if (text[0] == '\0') {
        if (index >= COLUMN_OPTIONAL) return STATUS_OK;
        return error_set(err, STATUS_INVALID, "%s is empty", column_names[index]);
    }
    if (index != COLUMN_PHASE) {
        return text_parse_int64(text, column_names[index], 0, column_max[index],
                                &row->numbers[index], err);
    }
    if (trace_phase_parse(text, &row->phase)) return STATUS_OK;
    return error_set(err, STATUS_INVALID, "phase: '%.60s' is none of F, B, W, BW, R", text);
}

static status parse_row(const csv_file *file, char *line, csv_row *row, error_message *err)
{
    char *cells[COLUMN_COUNT];
    const int count = trace_lines_cut(line, cells, COLUMN_COUNT);
    for (int index = 0; index < COLUMN_COUNT; index++) {
        const int place = file->places[index];
        row->numbers[index] = TRACE_NOT_RECORDED;
        if (place >= 0 && place < count) TRY(parse_cell((column)index, cells[place], row, err));
    }
    if (count == file->cell_count) return STATUS_OK;
    return error_set(err, STATUS_INVALID, "has %d cells, the header names %d columns", count,
                     file->cell_count);
}

/// Compares with what earlier rows said of the layer.
static status keep_property(int layer, column index, int64_t value, int64_t *kept,
                            error_message *err)
{
    if (value < 0 || *kept == value) return STATUS_OK;
    if (*kept >= 0) {
        return error_set(err, STATUS_INVALID,
                         "%s: %" PRId64 " contradicts %" PRId64 " of an earlier row of layer %d",
                         column_names[index], value, *kept, layer);
    }
    *kept = value;
    return STATUS_OK;
}

static status keep_layer(trace_csv *csv, const csv_row *row, error_message *err)
{
    const int layer = (int)row->numbers[COLUMN_LAYER];
    for (; csv->layer_count <= layer; csv->layer_count++) {
        const size_t count = (size_t)csv->layer_count;
        csv->layers = arena_grow(csv->memory, csv->layers, count, sizeof *csv->layers);
        csv->layers[count] = (trace_layer){csv->layer_count, TRACE_NOT_RECORDED, TRACE_NOT_RECORDED,
                                           TRACE_NOT_RECORDED};
    }
    TRY(keep_property(layer, COLUMN_PARAMETERS, row->numbers[COLUMN_PARAMETERS],
                      &csv->layers[layer].parameters, err));
    return keep_property(layer, COLUMN_MESSAGE, row->numbers[COLUMN_MESSAGE],
                         &csv->layers[layer].message_bytes, err);
}

static status put_load(trace_csv *csv, const csv_row *row, error_message *err)
{
    const int64_t *numbers = row->numbers;
    trace_load load = trace_load_init(
        (int)numbers[COLUMN_ITERATION], (int)numbers[COLUMN_LAYER],
        numbers[COLUMN_MICROBATCH] < 0 ? TRACE_MEAN : (int)numbers[COLUMN_MICROBATCH]);
    load.time_ns[row->phase] = numbers[COLUMN_BUSY];
    // A recompute runs inside the span of its backward.
    if (numbers[COLUMN_SPAN] >= 0 && csv->info.gaps == TRACE_GAPS_CHARGE) {
        const bool is_inside = row->phase == TRACE_OP_RECOMPUTE;
        load.charge_ns[row->phase] = is_inside ? 0 : numbers[COLUMN_SPAN];
    }
    if (row->phase == TRACE_OP_BACKWARD) csv->has_full_backward = true;
    load.communication_ns = numbers[COLUMN_COMMUNICATION];
    load.span_ns = numbers[COLUMN_SPAN];
    load.activation_bytes = numbers[COLUMN_ACTIVATION];
    return trace_writer_put_load(csv->writer, &load, err);
}

static status put_op(trace_csv *csv, const csv_row *row, error_message *err)
{
    const int64_t *numbers = row->numbers;
    if (numbers[COLUMN_RANK] < 0 || numbers[COLUMN_START] < 0 || numbers[COLUMN_SPAN] < 0) {
        return STATUS_OK;
    }
    const trace_op op = {
        .rank = (int)numbers[COLUMN_RANK],
        .iteration = (int)numbers[COLUMN_ITERATION],
        .kind = row->phase,
        .stage = TRACE_NOT_RECORDED,
        .layer = (int)numbers[COLUMN_LAYER],
        .microbatch = (int)numbers[COLUMN_MICROBATCH],
        .begin_ns = numbers[COLUMN_START],
        .end_ns = numbers[COLUMN_START] + numbers[COLUMN_SPAN],
        .busy_ns = numbers[COLUMN_BUSY],
    };
    return trace_writer_put_op(csv->writer, &op, err);
}

static status read_rows(trace_csv *csv, csv_file *file, error_message *err)
{
    for (;;) {
        char *line = NULL;
        csv_row row;
        TRY(next_line(file, &line, err));
        if (line == NULL) return STATUS_OK;
        TRY(parse_row(file, line, &row, err));
        TRY(keep_layer(csv, &row, err));
        TRY(put_load(csv, &row, err));
        TRY(put_op(csv, &row, err));
        for (int index = 0; index < COLUMN_COUNT; index++) {
            csv->seen[index] = csv->seen[index] || row.numbers[index] >= 0;
        }
    }
}

status trace_csv_read(trace_csv *csv, trace_stream *stream, error_message *err)
{
    csv_file file = {.lines = trace_lines_open(stream)};
    status result = read_head(csv, &file, err);
    if (result == STATUS_OK) result = read_rows(csv, &file, err);
    // What is refused as an argument is what the file holds here.
    if (result == STATUS_INVALID) {
        if (err != NULL) err->code = STATUS_FORMAT;
        result = error_prefix(err, STATUS_FORMAT, "%s", trace_lines_place(file.lines));
    }
    trace_lines_close(file.lines);
    TRY(result);
    const trace_input_file input = trace_stream_input(stream);
    TRY(trace_writer_put_input(csv->writer, &input, err));
    csv->file_count++;
    return STATUS_OK;
}

static status put_layers(trace_csv *csv, error_message *err)
{
    for (int layer = 0; layer < csv->layer_count; layer++) {
        const trace_layer *each = &csv->layers[layer];
        if (each->parameters < 0 && each->message_bytes < 0) continue;
        TRY(trace_writer_put_layer(csv->writer, each, err));
    }
    return STATUS_OK;
}

static status put_summary(trace_csv *csv, error_message *err)
{
    const bool *seen = csv->seen;
    trace_info *info = &csv->info;
    info->split = !csv->has_full_backward     ? TRACE_MEASURED
                  : info->backward_split >= 0 ? TRACE_ASSUMED
                                              : TRACE_UNKNOWN;
    info->communication = seen[COLUMN_COMMUNICATION] ? TRACE_MEASURED : TRACE_UNKNOWN;
    info->activations = seen[COLUMN_ACTIVATION] ? TRACE_MEASURED : TRACE_UNKNOWN;
    info->parameters = seen[COLUMN_PARAMETERS] ? TRACE_MEASURED : TRACE_UNKNOWN;
    info->messages = seen[COLUMN_MESSAGE] ? TRACE_MEASURED : TRACE_UNKNOWN;
    TRY(put_layers(csv, err));
    return trace_writer_set_info(csv->writer, info, err);
}

/// Plays what was recorded. Where gaps are charged, iterations last longer by what passes between
/// ops.
static status play_again(trace_csv *csv, trace_replay *replay, error_message *err)
{
    TRY(trace_writer_flush(csv->writer, err));
    TRY(trace_replay_of_store(csv->store, trace_writer_id(csv->writer), replay, err));
    if (csv->info.gaps != TRACE_GAPS_CHARGE) return STATUS_OK;
    return trace_replay_put_outside(replay, csv->writer, err);
}

status trace_csv_finish(trace_csv *csv, int64_t *trace_id, trace_replay *replay, error_message *err)
{
    trace_replay own;
    const int64_t finished_id = trace_writer_id(csv->writer);
    status summed = put_summary(csv, err);
    if (summed == STATUS_OK) summed = play_again(csv, replay != NULL ? replay : &own, err);
    if (summed != STATUS_OK) {
        trace_csv_abort(csv);
        return summed;
    }
    const status result = trace_writer_finish(csv->writer, err);
    arena_destroy(csv->memory);
    if (result == STATUS_OK && trace_id != NULL) *trace_id = finished_id;
    return result;
}

void trace_csv_abort(trace_csv *csv)
{
    if (csv == NULL) return;
    trace_writer_abort(csv->writer);
    arena_destroy(csv->memory);
}

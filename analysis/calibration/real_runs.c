#include "analysis/calibration/real_runs.h"

#include <string.h>
#include <strings.h>

enum { SPELLINGS_MAX = 5 };

/// The first spelling is the name. Letters large or small.
static const char *const spellings[ANA_REAL_COLUMN_COUNT][SPELLINGS_MAX] = {
    [ANA_REAL_MODEL] = {"model"},
    [ANA_REAL_LAYERS] = {"layers", "# layers", "l"},
    [ANA_REAL_HIDDEN] = {"hidden_size", "hidden size", "hidden"},
    [ANA_REAL_HEADS] = {"attention_heads", "attention heads", "heads"},
    [ANA_REAL_VOCABULARY] = {"vocabulary", "vocab"},
    [ANA_REAL_PARAMETERS] = {"parameters", "Parameters (billion)"},
    [ANA_REAL_HARDWARE] = {"hardware", "system", "gpu"},
    [ANA_REAL_GPUS] = {"gpus", "# GPUs"},
    [ANA_REAL_GPUS_PER_NODE] = {"gpus_per_node"},
    [ANA_REAL_PRECISION] = {"precision", "dtype"},
    [ANA_REAL_ATTENTION] = {"attention"},
    [ANA_REAL_KERNELS] = {"kernels"},
    [ANA_REAL_LOSS] = {"loss"},
    [ANA_REAL_BLOCKING_LAUNCHES] = {"blocking_launches"},
    [ANA_REAL_CUDA_GRAPHS] = {"cuda_graphs"},
    [ANA_REAL_GRADIENT_BYTES] = {"gradient_bytes"},
    [ANA_REAL_RECOMPUTE] = {"recompute"},
    [ANA_REAL_DROPOUT] = {"dropout"},
    [ANA_REAL_GLOBAL_BATCH] = {"global_batch", "global batch", "gbs"},
    [ANA_REAL_MICROBATCH] = {"microbatch", "micro batch", "mbs"},
    [ANA_REAL_MICROBATCHES] = {"microbatches", "mbc"},
    [ANA_REAL_SEQUENCE] = {"sequence", "sequence length", "seq"},
    [ANA_REAL_TP] = {"tp", "tensor_parallel", "tensor parallelism"},
    [ANA_REAL_PP] = {"pp", "stages", "pipeline_parallel", "pipeline parallelism"},
    [ANA_REAL_VP] = {"vp", "chunks"},
    [ANA_REAL_CP] = {"cp", "context_parallel"},
    [ANA_REAL_EP] = {"ep", "expert_parallel"},
    [ANA_REAL_ETP] = {"etp", "expert_tensor_parallel"},
    [ANA_REAL_DP] = {"dp", "data_parallel", "data parallelism"},
    [ANA_REAL_FSDP] = {"fsdp"},
    [ANA_REAL_SHARDING] = {"sharding"},
    [ANA_REAL_SEQUENCE_PARALLEL] = {"sequence_parallel"},
    [ANA_REAL_TENSOR_OVERLAP] = {"tensor_overlap"},
    [ANA_REAL_EXPERT_OVERLAP] = {"expert_overlap"},
    [ANA_REAL_EXPERT_DEDUPLICATION] = {"expert_deduplication"},
    [ANA_REAL_SCHEDULE] = {"schedule"},
    [ANA_REAL_LAYERS_PER_STAGE] = {"layers_per_stage"},
    [ANA_REAL_MEASURED_MS] = {"measured_ms", "iteration time (ms)", "time"},
    [ANA_REAL_MEASURED_S] = {"measured_s"},
    [ANA_REAL_TOKENS_PER_S] = {"tokens_per_s_per_gpu", "tokens_per_s_per_gpu_newest"},
    [ANA_REAL_MEASURED_BYTES] = {"measured_peak_bytes"},
    [ANA_REAL_ALLOCATED_GIB] = {"measured_allocated_gib", "measured_alloc_gib"},
    [ANA_REAL_GROUP] = {"group"},
    [ANA_REAL_CASE] = {"case"},
};

const char *ana_real_name(ana_real_column column)
{
    return spellings[column][0];
}

/// The column that a word names, or ANA_REAL_COLUMN_COUNT.
static int column_of(const char *word)
{
    for (int column = 0; column < ANA_REAL_COLUMN_COUNT; column++) {
        for (int s = 0; s < SPELLINGS_MAX && spellings[column][s] != NULL; s++) {
            if (strcasecmp(spellings[column][s], word) == 0) return column;
        }
    }
    return ANA_REAL_COLUMN_COUNT;
}

/// What a list of NAME=VALUE pairs does with each of them.
typedef status (*pair_taker)(ana_real_runs *runs, int column, const char *value,
                             error_message *err);

static status take_pairs(ana_real_runs *runs, const char *what, const char *list, arena *memory,
                         pair_taker take, error_message *err)
{
    char *rest = arena_string(memory, list);
    while (*rest != '\0') {
        char *piece = rest;
        rest += strcspn(rest, ",");
        if (*rest == ',') *rest++ = '\0';
        char *value = strchr(piece, '=');
        if (value == NULL) {
            return error_set(err, STATUS_INVALID, "%s: '%.60s' is no COLUMN=VALUE", what, piece);
        }
        *value++ = '\0';
        const int column = column_of(piece);
        if (column == ANA_REAL_COLUMN_COUNT) {
            const char *names[ANA_REAL_COLUMN_COUNT];
            char suggestion[TEXT_SUGGESTION_BYTES];
            for (int known = 0; known < ANA_REAL_COLUMN_COUNT; known++) {
                names[known] = spellings[known][0];
            }
            return error_set(err, STATUS_INVALID, "%s: no column is called '%.60s'%s", what, piece,
                             text_suggestion(piece, names, ANA_REAL_COLUMN_COUNT, suggestion));
        }
        TRY(take(runs, column, value, err));
    }
    return STATUS_OK;
}

static status rename_column(ana_real_runs *runs, int column, const char *value, error_message *err)
{
    char suggestion[TEXT_SUGGESTION_BYTES];
    runs->column[column] = table_column(&runs->source, value);
    if (runs->column[column] >= 0) return STATUS_OK;
    return error_set(
        err, STATUS_INVALID, "%s: no column '%.60s'%s", runs->source.path, value,
        text_suggestion(value, runs->source.columns, runs->source.column_count, suggestion));
}

static status set_constant(ana_real_runs *runs, int column, const char *value, error_message *err)
{
    (void)err;
    runs->constant[column] = value;
    return STATUS_OK;
}

/// Finds a column under any of its spellings, unless it was renamed.
static status find_column(ana_real_runs *runs, int column, error_message *err)
{
    int *const found = &runs->column[column];
    if (*found >= 0) return STATUS_OK;
    for (int s = 0; s < SPELLINGS_MAX && spellings[column][s] != NULL; s++) {
        const int at = table_column(&runs->source, spellings[column][s]);
        if (at < 0) continue;
        if (*found >= 0) {
            return error_set(err, STATUS_FORMAT, "%s: columns '%s' and '%s' are both %s",
                             runs->source.path, runs->source.columns[*found],
                             runs->source.columns[at], spellings[column][0]);
        }
        *found = at;
    }
    return STATUS_OK;
}

static char *slice(arena *memory, const char *text, size_t length)
{
    return memcpy(arena_array(memory, length + 1, 1), text, length);
}

/// Words of a run's name are a column's name and a whole number: "tp4", "mbc32".
static void read_name(const char *name, arena *memory, const char *sizes[ANA_REAL_COLUMN_COUNT])
{
    for (const char *word = name; *word != '\0'; word += strspn(word, "_- ")) {
        const size_t letters = strcspn(word, "0123456789_- ");
        const size_t digits = strspn(word + letters, "0123456789");
        const size_t length = strcspn(word, "_- ");
        if (digits > 0 && letters + digits == length) {
            const int column = column_of(slice(memory, word, letters));
            const bool is_size = column == ANA_REAL_LAYERS || column == ANA_REAL_GPUS ||
                                 (column >= ANA_REAL_GLOBAL_BATCH && column <= ANA_REAL_DP);
            if (is_size) sizes[column] = slice(memory, word + letters, digits);
        }
        word += length;
    }
}

static void read_names(ana_real_runs *runs, arena *memory)
{
    const int at = runs->column[ANA_REAL_CASE];
    if (at < 0) return;
    runs->named = arena_array(memory, (size_t)runs->source.row_count * ANA_REAL_COLUMN_COUNT,
                              sizeof *runs->named);
    for (int row = 0; row < runs->source.row_count; row++) {
        read_name(table_cell(&runs->source, row, at), memory,
                  &runs->named[(size_t)row * ANA_REAL_COLUMN_COUNT]);
    }
}

static const char *list_ignored(const ana_real_runs *runs, arena *memory)
{
    text_buffer names = {0};
    for (int at = 0; at < runs->source.column_count; at++) {
        bool is_known = false;
        for (int column = 0; column < ANA_REAL_COLUMN_COUNT; column++) {
            is_known = is_known || runs->column[column] == at;
        }
        if (is_known) continue;
        text_format(&names, "%s%s", names.length > 0 ? ", " : "", runs->source.columns[at]);
    }
    return text_keep(&names, memory);
}

status ana_real_runs_read(const table *from, const char *renamed, const char *constants,
                          arena *memory, ana_real_runs *out, error_message *err)
{
    ana_real_runs runs = {.source = *from};
    for (int column = 0; column < ANA_REAL_COLUMN_COUNT; column++) {
        runs.column[column] = -1;
    }
    TRY(take_pairs(&runs, "--columns", renamed, memory, rename_column, err));
    TRY(take_pairs(&runs, "--set", constants, memory, set_constant, err));
    for (int column = 0; column < ANA_REAL_COLUMN_COUNT; column++) {
        TRY(find_column(&runs, column, err));
    }
    runs.ignored = list_ignored(&runs, memory);
    if (runs.column[ANA_REAL_MEASURED_MS] < 0 && runs.column[ANA_REAL_MEASURED_S] < 0 &&
        runs.column[ANA_REAL_TOKENS_PER_S] < 0) {
        return error_set(err, STATUS_FORMAT,
                         "%s: no column says what was measured: measured_ms, measured_s or "
                         "tokens_per_s_per_gpu%s%.200s",
                         from->path, runs.ignored[0] != '\0' ? "; columns that are not read: " : "",
                         runs.ignored);
    }
    read_names(&runs, memory);
    *out = runs;
    return STATUS_OK;
}

const char *ana_real_text(const ana_real_runs *runs, int row, ana_real_column column)
{
    const int at = runs->column[column];
    const char *cell = at >= 0 ? table_cell(&runs->source, row, at) : "";
    if (cell[0] != '\0') return cell;
    if (runs->named != NULL) {
        const char *size = runs->named[(size_t)row * ANA_REAL_COLUMN_COUNT + column];
        if (size != NULL) return size;
    }
    return runs->constant[column] != NULL ? runs->constant[column] : "";
}

bool ana_real_says(const ana_real_runs *runs, ana_real_column column)
{
    int row = 0;
    while (row < runs->source.row_count && ana_real_text(runs, row, column)[0] == '\0') {
        row++;
    }
    return row < runs->source.row_count;
}

/// Puts path and line before what was wrong with a cell.
static status refuse_cell(const ana_real_runs *runs, int row, const error_message *inner,
                          error_message *err)
{
    return error_set(err, STATUS_FORMAT, "%s:%d: %.200s", runs->source.path,
                     runs->source.lines[row], inner->message);
}

status ana_real_number(const ana_real_runs *runs, int row, ana_real_column column, double min,
                       double max, double fallback, double *value, error_message *err)
{
    const char *text = ana_real_text(runs, row, column);
    error_message inner = {0};
    *value = fallback;
    if (text[0] == '\0') return STATUS_OK;
    if (text_parse_double(text, spellings[column][0], min, max, value, &inner) == STATUS_OK) {
        return STATUS_OK;
    }
    return refuse_cell(runs, row, &inner, err);
}

status ana_real_int(const ana_real_runs *runs, int row, ana_real_column column, int min, int max,
                    int fallback, int *value, error_message *err)
{
    const char *text = ana_real_text(runs, row, column);
    int64_t number = fallback;
    error_message inner = {0};
    if (text[0] != '\0' &&
        text_parse_int64(text, spellings[column][0], min, max, &number, &inner) != STATUS_OK) {
        return refuse_cell(runs, row, &inner, err);
    }
    *value = (int)number;
    return STATUS_OK;
}

#include "cli/trace/show_imbalance.h"

#include "analysis/report/imbalance.h"
#include "base/file.h"
#include "base/json.h"
#include "cli/option_values.h"
#include "cli/output.h"
#include "traces/store/catalog.h"
#include "traces/store/reader.h"
#include "traces/store/writer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STUDY_BYTES_MAX = 16 << 20 };

/// What one call works with: imbalances are added until the range ends.
typedef struct shown {
    const cli_arguments *arguments;
    arena *memory;
    int first;
    int last;
    const char *title; // what was looked at, for people
    ana_imbalance *rows;
    int count;
    int capacity;
} shown;

static void add(shown *show, const ana_imbalance *imbalance)
{
    if (show->count == show->capacity) {
        const int wanted = show->capacity == 0 ? 64 : 2 * show->capacity;
        ana_imbalance *larger = arena_array(show->memory, (size_t)wanted, sizeof *larger);
        if (show->count > 0) memcpy(larger, show->rows, (size_t)show->count * sizeof *larger);
        show->rows = larger;
        show->capacity = wanted;
    }
    show->rows[show->count++] = *imbalance;
}

static status make_title(shown *show, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static status make_title(shown *show, const char *format, ...)
{
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    show->title = arena_string(show->memory, text);
    return STATUS_OK;
}

static status add_samples(shown *show, trace_reader *reader, int stages, error_message *err)
{
    int sample = show->first - 1;
    TRY(trace_reader_next_sample(reader, sample, &sample, err));
    while (sample >= 0 && sample <= show->last) {
        bal_layer_costs costs;
        ana_imbalance imbalance;
        bool changed = false;
        TRY(trace_reader_costs_at(reader, sample, &costs, &changed, err));
        TRY(ana_imbalance_of_costs(&costs, stages, show->memory, &imbalance, err));
        imbalance.iteration = sample;
        add(show, &imbalance);
        TRY(trace_reader_next_sample(reader, sample, &sample, err));
    }
    return STATUS_OK;
}

static status add_trace(shown *show, trace_store *store, error_message *err)
{
    int stages = 0;
    trace_info info;
    trace_reader *reader = NULL;
    if (!cli_has(show->arguments, "--stages")) {
        return error_set(err, STATUS_INVALID,
                         "dynmo show: --imbalance of a store needs --stages (of a trace) or --row "
                         "(of a recorded run)");
    }
    TRY(cli_int(show->arguments, "--stages", 1, BAL_RANKS_MAX, 1, &stages, err));
    TRY(trace_find(store, cli_value(show->arguments, "--trace"), show->memory, &info, err));
    TRY(trace_reader_open(store, info.trace_id, TRACE_COLUMNS_MEAN, &reader, err));
    status result = add_samples(show, reader, stages, err);
    trace_reader_close(reader);
    TRY(result);
    if (show->count == 0) {
        return error_set(err, STATUS_INVALID,
                         "%s: trace '%s' has no sample in iterations %d:%d; it has them from "
                         "%" PRId64 " to %" PRId64,
                         trace_store_path(store), info.name, show->first, show->last,
                         info.first_iteration, info.last_iteration);
    }
    return make_title(show, "trace '%.80s', %d workers under the even split", info.name, stages);
}

static status add_store(shown *show, error_message *err)
{
    trace_store *store = NULL;
    const char *row = cli_value(show->arguments, "--row");
    TRY(trace_store_open(cli_operand(show->arguments, 0), TRACE_READ, &store, err));
    status result = STATUS_OK;
    if (row == NULL) {
        result = add_trace(show, store, err);
    } else {
        result = ana_imbalance_of_run(store, cli_value(show->arguments, "--run"), row, show->first,
                                      show->last, show->memory, &show->rows, &show->count, err);
        if (result == STATUS_OK) {
            result = make_title(show, "'%.80s', workers as they worked in an iteration", row);
        }
    }
    trace_store_close(store);
    return result;
}

static status add_setup(shown *show, const ana_setup *setup, error_message *err)
{
    int stages = 0;
    const int end = setup->iteration_count;
    TRY(cli_int(show->arguments, "--stages", 1, BAL_RANKS_MAX, setup->study->stage_count, &stages,
                err));
    if (show->first >= end) {
        return error_set(err, STATUS_INVALID, "%s: has iterations 0 to %d, not %d",
                         setup->study->path, end - 1, show->first);
    }
    for (int iteration = show->first; iteration <= show->last && iteration < end; iteration++) {
        ana_imbalance imbalance;
        TRY(ana_imbalance_of_study(setup, iteration, stages, show->memory, &imbalance, err));
        add(show, &imbalance);
    }
    return make_title(show, "%.80s, %d workers under the even split", setup->study->name, stages);
}

/// A file given on the command line, as a JSON text that does not depend on the study's folder.
static status append_path(const char *path, text_buffer *json, error_message *err)
{
    char *absolute = realpath(path, NULL);
    if (absolute == NULL) return error_set(err, STATUS_IO, "%s: %s", path, strerror(errno));
    json_writer writer = json_writer_init(json);
    json_write_string(&writer, absolute);
    free(absolute);
    return STATUS_OK;
}

/// Puts the files of --experts in the place of what the study's case draws: one CSV, or Megatron's
/// files of the expert ranks of one pipeline stage that has all layers.
static status append_counts(const shown *show, text_buffer *json, error_message *err)
{
    const char *path = cli_value(show->arguments, "--experts");
    const size_t length = strlen(path);
    const bool is_megatron = length > 6 && strcmp(path + length - 6, ".jsonl") == 0;
    text_append(json, "{\"dynamism.counts\":");
    if (is_megatron) text_append(json, "{\"megatron\":[{\"first_layer\":0,\"files\":[");
    for (int file = 0; path != NULL; file++) {
        if (file > 0 && !is_megatron) {
            return error_set(err, STATUS_INVALID, "--experts: one CSV file holds all experts");
        }
        if (file > 0) text_append(json, ",");
        TRY(append_path(path, json, err));
        path = cli_value_at(show->arguments, "--experts", file + 1);
    }
    text_append(json, is_megatron ? "]}]}}" : "}");
    return STATUS_OK;
}

/// Opens the study with other counts of tokens.
static status open_counted(const shown *show, ana_study *study, error_message *err)
{
    const char *path = cli_operand(show->arguments, 0);
    text_buffer changes = {0};
    text_buffer changed = {0};
    char *bytes = NULL;
    size_t length = 0;
    status result = append_counts(show, &changes, err);
    if (result == STATUS_OK) result = file_read(path, STUDY_BYTES_MAX, &bytes, &length, err);
    if (result == STATUS_OK) result = json_change(path, bytes, changes.bytes, &changed, err);
    if (result == STATUS_OK) {
        result = ana_study_open_text(path, changed.bytes, show->memory, study, err);
    }
    free(bytes);
    text_free(&changes);
    text_free(&changed);
    return result;
}

static status add_study(shown *show, error_message *err)
{
    ana_study study;
    ana_setup setup;
    if (cli_has(show->arguments, "--experts")) {
        TRY(open_counted(show, &study, err));
    } else {
        TRY(ana_study_open(cli_operand(show->arguments, 0), NULL, NULL, NULL, show->memory, &study,
                           err));
    }
    status result = ana_setup_open(&study, show->memory, &setup, err);
    if (result == STATUS_OK) {
        result = add_setup(show, &setup, err);
        ana_setup_close(&setup);
    }
    ana_study_close(&study);
    return result;
}

/// What one iteration looks like inside: only worth showing where it is the only one.
static void print_inside(const ana_imbalance *row, text_buffer *out)
{
    char load[32];
    text_append(out, "\n  worker         L_j  layers\n");
    for (int worker = 0; worker < row->worker_count; worker++) {
        text_duration(row->worker_ns[worker], load);
        text_format(out, "  %6d  %10s", worker, load);
        if (row->first_layer != NULL) {
            text_format(out, "  %d-%d", row->first_layer[worker], row->first_layer[worker + 1] - 1);
        }
        text_append(out, "\n");
    }
    if (row->layer_ns == NULL) return;
    text_format(out, "\n   layer         c_l%s\n",
                row->expert_spread != NULL ? "  dL of its experts" : "");
    for (int layer = 0; layer < row->layer_count; layer++) {
        text_duration(row->layer_ns[layer], load);
        text_format(out, "  %6d  %10s", layer, load);
        if (row->expert_spread != NULL && row->expert_spread[layer] >= 0) {
            text_format(out, "  %17.3f", row->expert_spread[layer]);
        }
        text_append(out, "\n");
    }
}

static void find_extremes(const ana_imbalance *row, int64_t *least_ns, int64_t *most_ns)
{
    *least_ns = row->worker_ns[0];
    *most_ns = row->worker_ns[0];
    for (int worker = 1; worker < row->worker_count; worker++) {
        const int64_t load_ns = row->worker_ns[worker];
        if (load_ns < *least_ns) *least_ns = load_ns;
        if (load_ns > *most_ns) *most_ns = load_ns;
    }
}

static void print(const shown *show, text_buffer *out)
{
    const bool experts = show->rows[0].expert_layer_count > 0;
    text_format(out, "imbalance of %s\n", show->title);
    text_format(out, "  %9s  %10s  %10s  %10s  %10s%s\n", "iteration", "C", "max L_j", "min L_j",
                "dL workers", experts ? "  dL experts: mean  largest" : "");
    for (int index = 0; index < show->count; index++) {
        const ana_imbalance *row = &show->rows[index];
        char total[32];
        char max[32];
        char min[32];
        int64_t least_ns = 0;
        int64_t most_ns = 0;
        find_extremes(row, &least_ns, &most_ns);
        text_duration(row->total_ns, total);
        text_duration(most_ns, max);
        text_duration(least_ns, min);
        text_format(out, "  %9d  %10s  %10s  %10s  %10.3f", row->iteration, total, max, min,
                    row->load_spread_ratio);
        if (experts) {
            text_format(out, "  %16.3f  %7.3f", row->expert_spread_mean, row->expert_spread_max);
        }
        text_append(out, "\n");
    }
    if (show->count == 1) print_inside(&show->rows[0], out);
    text_append(out,
                "C: sum of the layers' c_l. L_j: load of worker j. dL: (max - min) / mean, as the "
                "DynMo paper has it.\n");
}

static void write_experts(const ana_imbalance *row, json_writer *writer)
{
    json_write_key(writer, "experts");
    if (row->expert_spread == NULL) {
        json_write_null(writer);
        return;
    }
    json_begin_object(writer);
    json_put_double(writer, "load_spread_ratio_mean", row->expert_spread_mean);
    json_put_double(writer, "load_spread_ratio_max", row->expert_spread_max);
    json_put_array(writer, "load_spread_ratio");
    for (int layer = 0; layer < row->layer_count; layer++) {
        if (row->expert_spread[layer] >= 0) {
            json_write_double(writer, row->expert_spread[layer]);
        } else {
            json_write_null(writer);
        }
    }
    json_end_array(writer);
    json_end_object(writer);
}

static void write_json(const shown *show, text_buffer *out)
{
    json_writer writer = json_writer_init(out);
    json_begin_object(&writer);
    json_put_array(&writer, "iterations");
    for (int index = 0; index < show->count; index++) {
        const ana_imbalance *row = &show->rows[index];
        json_begin_object(&writer);
        json_put_int64(&writer, "iteration", row->iteration);
        json_write_key(&writer, "layer_ns");
        if (row->layer_ns != NULL) {
            json_write_int64_array(&writer, row->layer_ns, row->layer_count);
        } else {
            json_write_null(&writer);
        }
        json_put_int64(&writer, "total_ns", row->total_ns);
        json_write_key(&writer, "worker_ns");
        json_write_int64_array(&writer, row->worker_ns, row->worker_count);
        json_put_double(&writer, "load_spread_ratio", row->load_spread_ratio);
        write_experts(row, &writer);
        json_end_object(&writer);
    }
    json_end_array(&writer);
    json_end_object(&writer);
    text_append(out, "\n");
}

/// Refuses what only the other kind of file has.
static status check_kind(const cli_arguments *arguments, bool is_study, error_message *err)
{
    static const char *const of_stores[] = {"--trace", "--row", "--run"};
    if (!is_study && cli_has(arguments, "--experts")) {
        return error_set(
            err, STATUS_INVALID,
            "dynmo show: --experts needs a study, whose model says how many there are");
    }
    for (int option = 0; option < 3 && is_study; option++) {
        if (!cli_has(arguments, of_stores[option])) continue;
        return error_set(err, STATUS_INVALID, "dynmo show: %s needs a store, not a study",
                         of_stores[option]);
    }
    return STATUS_OK;
}

static status show_into(shown *show, text_buffer *out, error_message *err)
{
    const char *range = cli_value(show->arguments, "--iterations");
    const char *path = cli_operand(show->arguments, 0);
    const size_t length = strlen(path);
    if (range != NULL) TRY(cli_iteration_range(range, &show->first, &show->last, err));
    const bool is_study = length > 5 && strcmp(path + length - 5, ".json") == 0;
    TRY(check_kind(show->arguments, is_study, err));
    TRY(is_study ? add_study(show, err) : add_store(show, err));
    if (cli_has(show->arguments, "--json")) {
        write_json(show, out);
    } else {
        print(show, out);
    }
    return cli_print(out, err);
}

status cli_show_imbalance(const cli_arguments *arguments, error_message *err)
{
    text_buffer out = {0};
    shown show = {.arguments = arguments, .last = TRACE_ITERATIONS_MAX};
    show.memory = arena_create(1 << 16);
    const status result = show_into(&show, &out, err);
    text_free(&out);
    arena_destroy(show.memory);
    return result;
}

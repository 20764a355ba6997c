/// What a probe has found, told.
#include "cli/probe/probe.h"

#include "base/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

enum { DIGITS = 4 };

static const char *const source_keys[CLI_PROBE_SOURCES] = {"flop_per_s", "efficiency", "memory",
                                                           "links", "latency"};

static double rate_of(int64_t amount, int64_t ns)
{
    return ns > 0 ? (double)amount / ((double)ns / 1e9) : 0;
}

/// Sums of what the measurements of a device come to.
typedef struct device_sums {
    double fastest;                      // of all products
    double product_flop, product_ns;     // each as often as the model has it
    double attention_flop, attention_ns; // F and B
    double copied;                       // bytes per s, at the least
    double passed;                       // through elements, at the median
    int64_t copy_bytes;
    int product_count;
} device_sums;

static device_sums sum_up(const cli_probe_list *list)
{
    device_sums made = {0};
    for (int index = 0; index < list->count; index++) {
        const exec_measurement *row = &list->rows[index];
        const double amount = (double)row->amount, ns = (double)row->median_ns;
        switch (row->kind) {
        case EXEC_PROBE_PRODUCT:
            made.fastest = fmax(made.fastest, rate_of(row->amount, row->min_ns));
            made.product_flop += row->repeat * amount;
            made.product_ns += row->repeat * ns;
            made.product_count++;
            break;
        case EXEC_PROBE_ATTENTION:
        case EXEC_PROBE_ATTENTION_BACKWARD:
            made.attention_flop += amount;
            made.attention_ns += ns;
            break;
        case EXEC_PROBE_COPY:
            made.copied = rate_of(row->amount, row->min_ns);
            made.copy_bytes = row->amount / 2;
            break;
        default:
            made.passed = rate_of(row->amount, row->median_ns);
        }
    }
    return made;
}

static void describe_device(const cli_probe_report *report, const device_sums *sums,
                            cli_probe_result *result)
{
    char(*source)[CLI_PROBE_TEXT] = result->source;
    if (report->uses_preset_peak) {
        snprintf(source[CLI_PROBE_FLOP_PER_S], CLI_PROBE_TEXT, "of %s, not measured",
                 report->preset->name);
    } else {
        snprintf(source[CLI_PROBE_FLOP_PER_S], CLI_PROBE_TEXT,
                 "the fastest of %d products of matrices, %s; %.200s", sums->product_count,
                 report->backend, report->command);
    }
    result->is_measured[CLI_PROBE_FLOP_PER_S] = !report->uses_preset_peak;
    snprintf(source[CLI_PROBE_EFFICIENCY], CLI_PROBE_TEXT,
             "products of %.60s with %d tokens, attention, an addition and a GELU; medians",
             report->model, report->tokens);
    snprintf(source[CLI_PROBE_MEMORY], CLI_PROBE_TEXT,
             "size: %.200s; rate: the fastest copy of %" PRId64 " bytes", report->memory_text,
             sums->copy_bytes);
    result->is_measured[CLI_PROBE_EFFICIENCY] = result->is_measured[CLI_PROBE_MEMORY] = true;
}

static status find_device(const cli_probe_report *report, cli_probe_result *result,
                          error_message *err)
{
    const device_sums sums = sum_up(&report->device_list);
    double peak = sums.fastest;
    if (report->uses_preset_peak) peak = (double)report->preset->flop_per_s[report->dtype];
    if (!(peak > 0)) {
        return error_set(err, STATUS_INVALID, "--hardware: %s has no rate of %s",
                         report->preset->name, model_dtype_name(report->dtype));
    }
    const double attention = sums.attention_flop / (sums.attention_ns / 1e9);
    const double gemm = sums.product_flop / (sums.product_ns / 1e9);
    result->peak = text_rounded(peak, DIGITS);
    result->gemm = text_rounded(fmin(gemm / peak, 1), DIGITS);
    result->attention = text_rounded(fmin(attention / peak, 1), DIGITS);
    result->streams = text_rounded(fmin(sums.passed / sums.copied, 1), DIGITS);
    result->bytes_per_s = text_rounded(sums.copied, DIGITS);
    describe_device(report, &sums, result);
    return STATUS_OK;
}

/// Fits the messages between ranks of one machine, or of different ones.
///
/// @param line out: count 0 if there are none
static status fit_links(const exec_probe_links *links, bool is_intra, arena *memory,
                        exec_probe_line *line, error_message *err)
{
    int count = 0;
    exec_measurement *chosen = arena_array(memory, (size_t)links->count + 1, sizeof *chosen);
    for (int index = 0; index < links->count; index++) {
        if (links->messages[index].is_intra == is_intra) chosen[count++] = links->messages[index];
    }
    *line = (exec_probe_line){0};
    return count > 0 ? exec_probe_line_fit(chosen, count, line, err) : STATUS_OK;
}

/// Where a line comes from, in words; one that was not measured is the preset's, or else the other
/// one.
static void describe_line(const cli_probe_report *report, const exec_probe_line *line,
                          const char *other, char text[160])
{
    if (line->count == 0) {
        snprintf(text, 160, "as %.60s", report->preset != NULL ? report->preset->name : other);
        return;
    }
    snprintf(text, 160, "measured over %s, %d sizes and pairs, within %.0f %%", report->transport,
             line->count, 100 * line->deviation_ratio);
}

static bal_link link_of(const exec_probe_line *line, const exec_probe_line *other,
                        const bal_link *preset)
{
    if (line->count == 0 && preset != NULL) return *preset;
    if (line->count == 0) line = other;
    return (bal_link){.latency_ns = line->latency_ns, .bytes_per_s = line->bytes_per_s};
}

static status find_links(const cli_probe_report *report, arena *memory, cli_probe_result *result,
                         error_message *err)
{
    static const char *const what[] = {"its slope", "where it begins"};
    exec_probe_line intra, inter;
    char told[2][160];
    TRY(fit_links(&report->links, true, memory, &intra, err));
    TRY(fit_links(&report->links, false, memory, &inter, err));
    if (report->preset == NULL && intra.count + inter.count == 0) {
        return error_set(err, STATUS_INVALID,
                         "links are between ranks: name at least 2 (--ranks, mpirun -n), or "
                         "--hardware for links that are not measured");
    }
    const model_hardware *preset = report->preset;
    result->intra = link_of(&intra, &inter, preset != NULL ? &preset->intra_node : NULL);
    result->inter = link_of(&inter, &intra, preset != NULL ? &preset->inter_node : NULL);
    describe_line(report, &intra, "inter", told[0]);
    describe_line(report, &inter, "intra", told[1]);
    for (int way = 0; way < 2; way++) {
        const int source = CLI_PROBE_LINKS + way;
        snprintf(result->source[source], CLI_PROBE_TEXT,
                 "half of a round trip, %s: intra %s; inter %s", what[way], told[0], told[1]);
        result->is_measured[source] = intra.count + inter.count > 0;
    }
    return STATUS_OK;
}

status cli_probe_result_of(const cli_probe_report *report, arena *memory, cli_probe_result *result,
                           error_message *err)
{
    *result = (cli_probe_result){0};
    TRY(find_device(report, result, err));
    return find_links(report, memory, result, err);
}

static void write_link(json_writer *writer, const char *key, bal_link link)
{
    json_put_object(writer, key);
    json_put_int64(writer, "latency_ns", link.latency_ns);
    json_put_int64(writer, "bytes_per_s", link.bytes_per_s);
    json_end_object(writer);
}

static void write_hardware(json_writer *writer, const cli_probe_report *report,
                           const cli_probe_result *result)
{
    json_begin_object(writer);
    json_put_string(writer, "schema", "dynmo-hardware/1");
    json_put_string(writer, "name", report->name);
    json_put_object(writer, "flop_per_s");
    json_put_int64(writer, model_dtype_name(report->dtype), (int64_t)result->peak);
    json_end_object(writer);
    json_put_object(writer, "efficiency");
    json_put_double(writer, "gemm", result->gemm);
    json_put_double(writer, "attention", result->attention);
    json_put_double(writer, "memory", result->streams);
    json_end_object(writer);
    json_put_int64(writer, "memory_bytes", report->memory_bytes);
    json_put_int64(writer, "memory_bytes_per_s", (int64_t)result->bytes_per_s);
    json_put_int64(writer, "gpus_per_node", report->rank_capacity);
    json_put_object(writer, "links");
    write_link(writer, "intra", result->intra);
    write_link(writer, "inter", result->inter);
    json_end_object(writer);
    json_put_object(writer, "source");
    for (int source = 0; source < CLI_PROBE_SOURCES; source++) {
        json_put_object(writer, source_keys[source]);
        json_put_string(writer, "kind", result->is_measured[source] ? "measured" : "preset");
        json_put_string(writer, "text", result->source[source]);
        json_end_object(writer);
    }
    json_end_object(writer);
    json_end_object(writer);
}

void cli_probe_write_hardware(const cli_probe_report *report, const cli_probe_result *result,
                              text_buffer *out)
{
    json_writer writer = json_writer_init(out);
    write_hardware(&writer, report, result);
    text_append(out, "\n");
}

static bool is_flop(const exec_measurement *row)
{
    return row->kind <= EXEC_PROBE_ATTENTION_BACKWARD;
}

static void print_row(const exec_measurement *row, text_buffer *out)
{
    char shape[40] = "";
    if (row->kind == EXEC_PROBE_PRODUCT) {
        snprintf(shape, sizeof shape, "%d x %d x %d", row->shape.rows, row->shape.columns,
                 row->shape.inner);
    }
    text_format(out, "  %-22s %24s %10s %10s %6d %9.1f %s\n", row->name, shape,
                text_duration(row->median_ns).text, text_duration(row->min_ns).text, row->count,
                rate_of(row->amount, row->median_ns) / 1e9, is_flop(row) ? "GFLOP/s" : "GB/s");
}

void cli_probe_print(const cli_probe_report *report, const cli_probe_result *result,
                     text_buffer *out)
{
    text_format(out, "%s: %s, products of %s with %d tokens\n", report->device, report->backend,
                report->model, report->tokens);
    text_format(out, "  %-22s %24s %10s %10s %6s %9s\n", "measured", "rows x columns x inner",
                "median", "least", "count", "rate");
    for (int index = 0; index < report->device_list.count; index++) {
        print_row(&report->device_list.rows[index], out);
    }
    cli_probe_write_hardware(report, result, out);
}

static void write_row(json_writer *writer, const exec_measurement *row)
{
    json_begin_object(writer);
    json_put_string(writer, "name", row->name);
    if (row->kind == EXEC_PROBE_MESSAGE) {
        json_put_int64(writer, "from", row->shape.rows);
        json_put_int64(writer, "to", row->shape.columns);
        json_put_bool(writer, "intra", row->is_intra);
    }
    if (row->kind == EXEC_PROBE_PRODUCT) {
        json_put_int64(writer, "rows", row->shape.rows);
        json_put_int64(writer, "columns", row->shape.columns);
        json_put_int64(writer, "inner", row->shape.inner);
        json_put_int64(writer, "repeat", row->repeat);
    }
    json_put_int64(writer, is_flop(row) ? "flop" : "bytes", row->amount);
    json_put_int64(writer, "median_ns", row->median_ns);
    json_put_int64(writer, "min_ns", row->min_ns);
    json_put_int64(writer, "count", row->count);
    json_end_object(writer);
}

void cli_probe_write(const cli_probe_report *report, const cli_probe_result *result,
                     text_buffer *out)
{
    json_writer writer = json_line_begin(out);
    json_put_string(&writer, "schema", "dynmo-probe/1");
    json_put_string(&writer, "device", report->device);
    json_put_string(&writer, "backend", report->backend);
    json_put_string(&writer, "transport", report->transport);
    json_put_string(&writer, "model", report->model);
    json_put_int64(&writer, "tokens", report->tokens);
    json_put_array(&writer, "measurements");
    for (int index = 0; index < report->device_list.count; index++) {
        write_row(&writer, &report->device_list.rows[index]);
    }
    for (int index = 0; index < report->links.count; index++) {
        write_row(&writer, &report->links.messages[index]);
    }
    json_end_array(&writer);
    json_write_key(&writer, "hardware");
    write_hardware(&writer, report, result);
    json_line_end(&writer);
}

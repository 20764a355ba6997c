/// What a probe has found, told.
#include "cli/probe/probe.h"

#include "base/json.h"

#include <inttypes.h>
#include <stdio.h>

enum { DIGITS = 4, TEXT_BYTES = 512 };

static double at_most_one(double ratio)
{
    return ratio < 1 ? ratio : 1;
}

static double rate_of(const exec_probe_product *product, int64_t ns)
{
    return exec_probe_rate(exec_probe_product_flop(&product->shape), ns);
}

/// The fastest that any product has been.
static double fastest(const cli_probe_report *report)
{
    double best = 0;
    for (int index = 0; index < report->large_count; index++) {
        const double rate = rate_of(&report->large[index], report->large[index].times.min_ns);
        if (rate > best) best = rate;
    }
    for (int index = 0; index < report->shapes.count; index++) {
        const exec_probe_product *product = &report->shapes.products[index];
        const double rate = rate_of(product, product->times.min_ns);
        if (rate > best) best = rate;
    }
    return best;
}

/// All products of a microbatch, each as often as the model has it, over the time they take.
static double product_rate(const cli_probe_shapes *shapes)
{
    double flop = 0;
    double ns = 0;
    for (int index = 0; index < shapes->count; index++) {
        const exec_probe_product *product = &shapes->products[index];
        flop += (double)shapes->repeats[index] * (double)exec_probe_product_flop(&product->shape);
        ns += (double)shapes->repeats[index] * (double)product->times.median_ns;
    }
    return flop / (ns / 1e9);
}

static status find_peak(const cli_probe_report *report, cli_probe_result *result,
                        error_message *err)
{
    result->peak_flop_per_s = fastest(report);
    if (!report->uses_preset_peak) return STATUS_OK;
    result->peak_flop_per_s = (double)report->preset->flop_per_s[report->dtype];
    if (result->peak_flop_per_s > 0) return STATUS_OK;
    return error_set(err, STATUS_INVALID, "--hardware: %s has no rate of %s", report->preset->name,
                     model_dtype_name(report->dtype));
}

/// Fits the trips between ranks of one machine, or of different ones.
///
/// @param found out: false if there are none
static status fit_links(const exec_probe_links *links, bool is_intra, arena *memory, bool *found,
                        exec_probe_line *line, error_message *err)
{
    int count = 0;
    exec_probe_trip *trips = arena_array(memory, (size_t)links->trip_count + 1, sizeof *trips);
    for (int trip = 0; trip < links->trip_count; trip++) {
        const exec_probe_trip *each = &links->trips[trip];
        if (exec_probe_links_is_intra(links, each->from, each->to) != is_intra) continue;
        trips[count++] = *each;
    }
    *found = count > 0;
    return count > 0 ? exec_probe_line_fit(trips, count, line, err) : STATUS_OK;
}

static exec_probe_line line_of(bal_link link)
{
    return (exec_probe_line){.latency_ns = link.latency_ns, .bytes_per_s = link.bytes_per_s};
}

static status find_links(const cli_probe_report *report, arena *memory, cli_probe_result *result,
                         error_message *err)
{
    TRY(fit_links(&report->links, true, memory, &result->has_intra, &result->intra, err));
    TRY(fit_links(&report->links, false, memory, &result->has_inter, &result->inter, err));
    if (report->preset != NULL) {
        if (!result->has_intra) result->intra = line_of(report->preset->intra_node);
        if (!result->has_inter) result->inter = line_of(report->preset->inter_node);
        return STATUS_OK;
    }
    if (!result->has_intra && !result->has_inter) {
        return error_set(err, STATUS_INVALID,
                         "links are between ranks: name at least 2 (--ranks, mpirun -n), or "
                         "--hardware for links that are not measured");
    }
    if (!result->has_intra) result->intra = result->inter;
    if (!result->has_inter) result->inter = result->intra;
    return STATUS_OK;
}

status cli_probe_result_of(const cli_probe_report *report, arena *memory, cli_probe_result *result,
                           error_message *err)
{
    const exec_probe_attention *attention = &report->shapes.attention;
    const exec_probe_memory *streams = &report->memory;
    cli_probe_result made = {0};
    TRY(find_peak(report, &made, err));
    TRY(find_links(report, memory, &made, err));
    const double core =
        exec_probe_rate(report->attention_flop[0] + report->attention_flop[1],
                        attention->forward.median_ns + attention->backward.median_ns);
    const double copied = (double)streams->copy_bytes / ((double)streams->copy.min_ns / 1e9);
    const double passed =
        (double)streams->kernel_bytes / ((double)streams->kernels.median_ns / 1e9);
    made.gemm_efficiency =
        text_rounded(at_most_one(product_rate(&report->shapes) / made.peak_flop_per_s), DIGITS);
    made.attention_efficiency = text_rounded(at_most_one(core / made.peak_flop_per_s), DIGITS);
    made.memory_bytes_per_s = (int64_t)text_rounded(copied, DIGITS);
    made.memory_efficiency = text_rounded(at_most_one(passed / copied), DIGITS);
    *result = made;
    return STATUS_OK;
}

static void write_source(json_writer *writer, const char *key, const char *kind, const char *text)
{
    json_put_object(writer, key);
    json_put_string(writer, "kind", kind);
    json_put_string(writer, "text", text);
    json_end_object(writer);
}

/// "median 1.23 ms, least 1.20 ms of 50"
static const char *times_text(const exec_probe_times *times, char out[96])
{
    char median[32];
    char least[32];
    text_duration(times->median_ns, median);
    text_duration(times->min_ns, least);
    snprintf(out, 96, "median %s, least %s of %d", median, least, times->count);
    return out;
}

static void write_compute_sources(json_writer *writer, const cli_probe_report *report)
{
    char text[TEXT_BYTES];
    char forward[96];
    char backward[96];
    const exec_probe_attention *attention = &report->shapes.attention;
    if (report->uses_preset_peak) {
        snprintf(text, sizeof text, "of %s, not measured", report->preset->name);
        write_source(writer, "flop_per_s", "preset", text);
    } else {
        snprintf(text, sizeof text, "the fastest of %d products of matrices, %s; %.200s",
                 report->large_count + report->shapes.count, report->backend, report->command);
        write_source(writer, "flop_per_s", "measured", text);
    }
    snprintf(text, sizeof text,
             "gemm: %d products of %.60s with %d tokens, medians; attention: F %s, B %s; memory: "
             "an addition and a GELU",
             report->shapes.count, report->model, report->tokens,
             times_text(&attention->forward, forward), times_text(&attention->backward, backward));
    write_source(writer, "efficiency", "measured", text);
}

/// @param line that was measured; NULL: taken from the preset, or else from the other one
static void describe_line(const cli_probe_report *report, const exec_probe_line *line,
                          const char *other, char text[160])
{
    if (line == NULL) {
        snprintf(text, 160, "as %.60s", report->preset != NULL ? report->preset->name : other);
        return;
    }
    snprintf(text, 160, "measured over %s, %d sizes and pairs, within %.0f %%", report->transport,
             line->trip_count, 100 * line->deviation_ratio);
}

/// Where the two lines come from, in words.
static void describe_links(const cli_probe_report *report, const cli_probe_result *result,
                           const char *what, char text[TEXT_BYTES])
{
    char intra[160];
    char inter[160];
    describe_line(report, result->has_intra ? &result->intra : NULL, "inter", intra);
    describe_line(report, result->has_inter ? &result->inter : NULL, "intra", inter);
    snprintf(text, TEXT_BYTES, "%s: intra %s; inter %s", what, intra, inter);
}

static void write_sources(json_writer *writer, const cli_probe_report *report,
                          const cli_probe_result *result)
{
    char text[TEXT_BYTES];
    char copy[96];
    const char *links = result->has_intra || result->has_inter ? "measured" : "preset";
    write_compute_sources(writer, report);
    snprintf(text, sizeof text, "size: %.200s; rate: a copy of %" PRId64 " bytes, %s",
             report->memory_text, report->memory.copy_bytes / 2,
             times_text(&report->memory.copy, copy));
    write_source(writer, "memory", "measured", text);
    describe_links(report, result, "half of a round trip, its slope", text);
    write_source(writer, "links", links, text);
    describe_links(report, result, "half of a round trip, where it begins", text);
    write_source(writer, "latency", links, text);
}

static void write_link(json_writer *writer, const char *key, const exec_probe_line *line)
{
    json_put_object(writer, key);
    json_put_int64(writer, "latency_ns", line->latency_ns);
    json_put_int64(writer, "bytes_per_s", line->bytes_per_s);
    json_end_object(writer);
}

static void write_hardware(json_writer *writer, const cli_probe_report *report,
                           const cli_probe_result *result)
{
    json_begin_object(writer);
    json_put_string(writer, "schema", "dynmo-hardware/1");
    json_put_string(writer, "name", report->name);
    json_put_object(writer, "flop_per_s");
    json_put_int64(writer, model_dtype_name(report->dtype),
                   (int64_t)text_rounded(result->peak_flop_per_s, DIGITS));
    json_end_object(writer);
    json_put_object(writer, "efficiency");
    json_put_double(writer, "gemm", result->gemm_efficiency);
    json_put_double(writer, "attention", result->attention_efficiency);
    json_put_double(writer, "memory", result->memory_efficiency);
    json_end_object(writer);
    json_put_int64(writer, "memory_bytes", report->memory_bytes);
    json_put_int64(writer, "memory_bytes_per_s", result->memory_bytes_per_s);
    json_put_int64(writer, "gpus_per_node", report->rank_capacity);
    json_put_object(writer, "links");
    write_link(writer, "intra", &result->intra);
    write_link(writer, "inter", &result->inter);
    json_end_object(writer);
    json_put_object(writer, "source");
    write_sources(writer, report, result);
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

static void print_product(const exec_probe_product *product, double peak, text_buffer *out)
{
    char median[32];
    char least[32];
    const exec_matmul *shape = &product->shape;
    text_duration(product->times.median_ns, median);
    text_duration(product->times.min_ns, least);
    text_format(out, "  %-22s %6d x %6d x %6d %10s %10s %6d %9.1f %6.1f %%\n", product->name,
                shape->rows, shape->columns, shape->inner, median, least, product->times.count,
                rate_of(product, product->times.median_ns) / 1e9,
                100 * rate_of(product, product->times.median_ns) / peak);
}

static void print_products(const cli_probe_report *report, const cli_probe_result *result,
                           text_buffer *out)
{
    text_format(out, "  %-22s %24s %10s %10s %6s %9s %8s\n", "product", "rows x columns x inner",
                "median", "least", "count", "GFLOP/s", "of peak");
    for (int index = 0; index < report->large_count; index++) {
        print_product(&report->large[index], result->peak_flop_per_s, out);
    }
    for (int index = 0; index < report->shapes.count; index++) {
        print_product(&report->shapes.products[index], result->peak_flop_per_s, out);
    }
}

/// What is timed beside products: what it is called, and how much of what it does.
typedef struct timed_row {
    const char *key;
    const char *title;
    const char *unit;
    const char *rate_unit; // of 10^9 per second
    int64_t amount;
    const exec_probe_times *times;
} timed_row;
enum { TIMED_ROWS = 4 };

static void list_timed(const cli_probe_report *report, timed_row rows[TIMED_ROWS])
{
    const exec_probe_attention *attention = &report->shapes.attention;
    const exec_probe_memory *streams = &report->memory;
    rows[0] = (timed_row){"attention_forward",       "attention, F",     "flop", "GFLOP/s",
                          report->attention_flop[0], &attention->forward};
    rows[1] = (timed_row){"attention_backward",      "attention, B",      "flop", "GFLOP/s",
                          report->attention_flop[1], &attention->backward};
    rows[2] = (timed_row){"copy", "copy", "bytes", "GB/s", streams->copy_bytes, &streams->copy};
    rows[3] = (timed_row){"elementwise", "addition and GELU",   "bytes",
                          "GB/s",        streams->kernel_bytes, &streams->kernels};
}

static void print_timed(const cli_probe_report *report, text_buffer *out)
{
    timed_row rows[TIMED_ROWS];
    list_timed(report, rows);
    for (int row = 0; row < TIMED_ROWS; row++) {
        char text[96];
        text_format(out, "  %-22s %s  %.1f %s\n", rows[row].title,
                    times_text(rows[row].times, text),
                    exec_probe_rate(rows[row].amount, rows[row].times->median_ns) / 1e9,
                    rows[row].rate_unit);
    }
}

static void print_link(const char *name, const exec_probe_line *line, bool is_measured,
                       text_buffer *out)
{
    char latency[32];
    text_duration(line->latency_ns, latency);
    text_format(out, "  %-8s %10s %9.3f GB/s", name, latency, (double)line->bytes_per_s / 1e9);
    if (is_measured) {
        text_format(out, "  line through %d trips, all within %.0f %% of it\n", line->trip_count,
                    100 * line->deviation_ratio);
    } else {
        text_append(out, "  not measured\n");
    }
}

void cli_probe_print(const cli_probe_report *report, const cli_probe_result *result,
                     text_buffer *out)
{
    char size[32];
    text_size(report->memory_bytes, size);
    text_format(out, "%s: %s, products of %s with %d tokens\n", report->device, report->backend,
                report->model, report->tokens);
    print_products(report, result, out);
    print_timed(report, out);
    text_append(out, "links\n");
    print_link("intra", &result->intra, result->has_intra, out);
    print_link("inter", &result->inter, result->has_inter, out);
    text_format(out,
                "peak %.1f GFLOP/s%s; efficiency: gemm %.3f, attention %.3f, memory %.3f of "
                "%.1f GB/s; memory %s (%s)\n",
                result->peak_flop_per_s / 1e9, report->uses_preset_peak ? " (preset)" : "",
                result->gemm_efficiency, result->attention_efficiency, result->memory_efficiency,
                (double)result->memory_bytes_per_s / 1e9, size, report->memory_text);
}

static void write_times(json_writer *writer, const exec_probe_times *times)
{
    json_put_int64(writer, "median_ns", times->median_ns);
    json_put_int64(writer, "min_ns", times->min_ns);
    json_put_int64(writer, "count", times->count);
}

static void write_timed(json_writer *writer, const cli_probe_report *report)
{
    timed_row rows[TIMED_ROWS];
    list_timed(report, rows);
    for (int row = 0; row < TIMED_ROWS; row++) {
        json_put_object(writer, rows[row].key);
        json_put_int64(writer, rows[row].unit, rows[row].amount);
        write_times(writer, rows[row].times);
        json_end_object(writer);
    }
}

static void write_product(json_writer *writer, const exec_probe_product *product, int repeat)
{
    json_begin_object(writer);
    json_put_string(writer, "name", product->name);
    json_put_int64(writer, "rows", product->shape.rows);
    json_put_int64(writer, "columns", product->shape.columns);
    json_put_int64(writer, "inner", product->shape.inner);
    json_put_int64(writer, "repeat", repeat);
    json_put_int64(writer, "flop", exec_probe_product_flop(&product->shape));
    write_times(writer, &product->times);
    json_end_object(writer);
}

static void write_trips(json_writer *writer, const exec_probe_links *links)
{
    json_put_array(writer, "trips");
    for (int trip = 0; trip < links->trip_count; trip++) {
        const exec_probe_trip *each = &links->trips[trip];
        json_begin_object(writer);
        json_put_int64(writer, "from", each->from);
        json_put_int64(writer, "to", each->to);
        json_put_bool(writer, "intra", exec_probe_links_is_intra(links, each->from, each->to));
        json_put_int64(writer, "bytes", each->bytes);
        write_times(writer, &each->times);
        json_end_object(writer);
    }
    json_end_array(writer);
}

void cli_probe_write(const cli_probe_report *report, const cli_probe_result *result,
                     text_buffer *out)
{
    json_writer writer = json_writer_init(out);
    json_begin_object(&writer);
    json_put_string(&writer, "schema", "dynmo-probe/1");
    json_put_string(&writer, "device", report->device);
    json_put_string(&writer, "backend", report->backend);
    json_put_string(&writer, "transport", report->transport);
    json_put_string(&writer, "model", report->model);
    json_put_int64(&writer, "tokens", report->tokens);
    json_put_array(&writer, "products");
    for (int index = 0; index < report->large_count; index++) {
        write_product(&writer, &report->large[index], 0);
    }
    for (int index = 0; index < report->shapes.count; index++) {
        write_product(&writer, &report->shapes.products[index], report->shapes.repeats[index]);
    }
    json_end_array(&writer);
    write_timed(&writer, report);
    write_trips(&writer, &report->links);
    json_write_key(&writer, "hardware");
    write_hardware(&writer, report, result);
    json_end_object(&writer);
    text_append(out, "\n");
}

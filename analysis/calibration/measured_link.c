/// Latency and rate of a link out of the JSON of nccl-tests.
#include "analysis/calibration/measured_link.h"

#include "base/text.h"

#include <gsl/gsl_cdf.h>
#include <gsl/gsl_errno.h>
#include <gsl/gsl_fit.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { DIGITS = 9 };

static const char program[] = "sendrecv_perf";
static const double us_min = 1e-6; // nccl-tests writes six decimals
static const double us_max = 1e12;
static const double rate_max = 1e15; // bytes per second, as a study takes it
static const double level = 0.9;

/// In what other programs measure, a time is that of many messages.
static status check_program(json_value root, error_message *err)
{
    const json_value word = json_element(json_member(root, "args"), 0);
    const char *text = NULL;
    if (json_is_missing(word)) return STATUS_OK;
    TRY(json_string(word, &text, err));
    const char *slash = strrchr(text, '/');
    const char *name = slash != NULL ? slash + 1 : text;
    if (strncmp(name, program, strlen(program)) == 0) return STATUS_OK;
    return json_error(word, STATUS_FORMAT, err, "'%.40s' does not time single messages; %s does",
                      name, program);
}

static status read_time(json_value result, double *us, error_message *err)
{
    static const char way_key[] = "out_of_place";
    const json_value way = json_member(result, way_key);
    if (json_is_missing(way)) {
        return json_error(result, STATUS_FORMAT, err, "'%s' is missing", way_key);
    }
    if (!json_is_missing(json_member(way, "cpu_time"))) {
        return json_error(way, STATUS_FORMAT, err,
                          "has cpu_time, the time of a call and not of a message: measure without "
                          "-C");
    }
    const json_value wrong = json_member(way, "nwrong");
    double wrong_count = 0;
    if (json_is_number(wrong)) TRY(json_double(wrong, 0, 1e300, &wrong_count, err));
    if (wrong_count > 0) {
        return json_error(wrong, STATUS_FORMAT, err, "%.9g elements arrived wrong", wrong_count);
    }
    const json_value time = json_member(way, "time");
    if (json_is_missing(time)) return json_error(way, STATUS_FORMAT, err, "'time' is missing");
    return json_double(time, us_min, us_max, us, err);
}

/// Reads a row; one of a small message is checked and left out.
static status read_row(json_value result, int64_t *size, ana_message_times *times,
                       error_message *err)
{
    const json_value member = json_member(result, "size");
    const int64_t before = *size;
    double us = 0;
    if (json_is_missing(member)) {
        return json_error(result, STATUS_FORMAT, err, "'size' is missing");
    }
    TRY(json_int64(member, 0, JSON_INTEGER_MAX, size, err));
    if (*size <= before) {
        return json_error(member, STATUS_FORMAT, err,
                          "is not above that of the row before: sizes are to ascend, each once");
    }
    TRY(read_time(result, &us, err));
    if (*size < ANA_LINK_BYTES_MIN) return STATUS_OK;
    times->bytes[times->count] = (double)*size;
    times->us[times->count++] = us;
    return STATUS_OK;
}

status ana_message_times_read(json_value root, arena *memory, ana_message_times *times,
                              error_message *err)
{
    const json_value results = json_member(root, "results");
    const int count = json_count(results);
    int64_t size = -1;
    TRY(check_program(root, err));
    if (!json_is_array(results) || count == 0 || count > ANA_LINK_SIZES_MAX) {
        return json_error(json_is_missing(results) ? root : results, STATUS_FORMAT, err,
                          "needs 'results', an array of 1 to %d, as '%s -J FILE' writes it",
                          ANA_LINK_SIZES_MAX, program);
    }
    ana_message_times found = {
        .bytes = arena_array(memory, (size_t)count, sizeof *found.bytes),
        .us = arena_array(memory, (size_t)count, sizeof *found.us),
    };
    json_value result = json_element(results, 0);
    for (; result.node != NULL; result = json_next(result)) {
        TRY(read_row(result, &size, &found, err));
    }
    if (found.count < ANA_LINK_SIZES_MIN) {
        return json_error(results, STATUS_FORMAT, err,
                          "has %d size%s of %d bytes or more, needs %d to tell latency, rate and "
                          "error apart",
                          found.count, found.count == 1 ? "" : "s", ANA_LINK_BYTES_MIN,
                          ANA_LINK_SIZES_MIN);
    }
    *times = found;
    return STATUS_OK;
}

/// A line through the times, and its standard errors. Bytes are counted in units of the largest
/// size, so that all sums are of one size.
typedef struct line {
    double start_us;
    double start_error;
    double slope_us; // per unit of bytes
    double slope_error;
    double misfit; // sum of squares of relative errors
    int degrees;
} line;

/// Both numbers; or, where the start would be negative, the slope alone, with the start's error of
/// the line with both.
static void fit_line(const ana_message_times *times, const double *sizes, const double *weights,
                     line *out)
{
    const size_t count = (size_t)times->count;
    double start_variance = 0;
    double slope_variance = 0;
    double covariance = 0;
    gsl_set_error_handler_off();
    gsl_fit_wlinear(sizes, 1, weights, 1, times->us, 1, count, &out->start_us, &out->slope_us,
                    &start_variance, &covariance, &slope_variance, &out->misfit);
    out->degrees = times->count - 2;
    out->start_error = sqrt(start_variance * out->misfit / out->degrees);
    if (out->start_us < 0 && out->slope_us > 0) {
        gsl_fit_wmul(sizes, 1, weights, 1, times->us, 1, count, &out->slope_us, &slope_variance,
                     &out->misfit);
        out->start_us = 0;
        out->degrees = times->count - 1;
    }
    out->slope_error = sqrt(slope_variance * out->misfit / out->degrees);
}

static line line_of(const ana_message_times *times)
{
    const size_t count = (size_t)times->count;
    line found;
    arena *memory = arena_create(2 * count * sizeof(double));
    double *sizes = arena_array(memory, count, sizeof *sizes);
    double *weights = arena_array(memory, count, sizeof *weights);
    for (size_t row = 0; row < count; row++) {
        sizes[row] = times->bytes[row] / times->bytes[count - 1];
        weights[row] = 1 / (times->us[row] * times->us[row]);
    }
    fit_line(times, sizes, weights, &found);
    arena_destroy(memory);
    return found;
}

status ana_measured_link_fit(const ana_message_times *times, ana_measured_link *out,
                             error_message *err)
{
    const line found = line_of(times);
    if (!(found.slope_us > 0)) {
        return error_set(err, STATUS_FORMAT,
                         "times do not grow with sizes from %.0f to %.0f bytes: no rate",
                         times->bytes[0], times->bytes[times->count - 1]);
    }
    const double rate = 1e6 * times->bytes[times->count - 1] / found.slope_us;
    if (!(rate >= 1 && rate <= rate_max)) {
        return error_set(err, STATUS_FORMAT, "rate %.9g B/s is outside [1, %.9g]", rate, rate_max);
    }
    // Relative errors of a value and of its inverse are the same, as far as they are small.
    const double rate_error = rate * found.slope_error / found.slope_us;
    *out = (ana_measured_link){
        .link = {.latency_ns = (int64_t)round(1e3 * found.start_us),
                 .bytes_per_s = (int64_t)text_rounded(rate, DIGITS)},
        .latency_error_ns = text_rounded(1e3 * found.start_error, DIGITS),
        .rate_error_bytes_s = text_rounded(rate_error, DIGITS),
        .reach = text_rounded(gsl_cdf_tdist_Pinv((1 + level) / 2, found.degrees), DIGITS),
        .misfit_ratio = text_rounded(sqrt(found.misfit / found.degrees), DIGITS),
        .size_count = times->count,
    };
    return STATUS_OK;
}

status ana_measured_link_open(const char *path, ana_measured_link *out, error_message *err)
{
    json_document *document = NULL;
    error_message inner = {0};
    TRY(json_open(path, &document, err));
    ana_message_times times = {0};
    arena *memory = arena_create(4096);
    status result = ana_message_times_read(json_root(document), memory, &times, err);
    if (result == STATUS_OK) {
        result = ana_measured_link_fit(&times, out, &inner);
        if (result != STATUS_OK) error_set(err, result, "%s: %.180s", path, inner.message);
    }
    arena_destroy(memory);
    json_close(document);
    return result;
}

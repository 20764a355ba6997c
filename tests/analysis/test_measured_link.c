/// Links from nccl-tests' JSON: synthetic timings give back the numbers that made them, intervals
/// cover them, and what is no measurement of a link is refused with its place.
#include "analysis/calibration/measured_link.h"
#include "base/rng.h"
#include "base/text.h"
#include "tests/assert_close.h"

#include <stdio.h>
#include <string.h>

enum { SIZES = 19 }; // 4 KiB to 1 GiB

/// Times of messages of doubling sizes, each off by up to noise, relative.
static void make_times(double latency_us, double bytes_per_us, double noise, uint64_t seed,
                       ana_message_times *times)
{
    rng random = rng_init(seed, 1);
    for (int row = 0; row < SIZES; row++) {
        times->bytes[row] = (double)(INT64_C(4096) << row);
        const double off = 1 + noise * (2 * rng_unit(&random) - 1);
        times->us[row] = (latency_us + times->bytes[row] / bytes_per_us) * off;
    }
    times->count = SIZES;
}

static ana_measured_link fit(const ana_message_times *times)
{
    ana_measured_link found;
    error_message err = {0};
    if (ana_measured_link_fit(times, &found, &err) != STATUS_OK) fail_msg("%s", err.message);
    return found;
}

static void exact_times_give_the_link_back_without_an_error(void **state)
{
    (void)state;
    double bytes[SIZES];
    double us[SIZES];
    ana_message_times times = {.bytes = bytes, .us = us};
    make_times(12.345, 20000, 0, 1, &times);

    const ana_measured_link found = fit(&times);

    assert_int_equal(found.link.latency_ns, 12345);
    assert_close((double)found.link.bytes_per_s, 20e9, 1e-9);
    assert_int_equal(found.size_count, SIZES);
    assert_true(found.latency_error_ns < 1e-6);
    assert_true(found.rate_error_bytes_s < 20e9 * 1e-9);
    assert_close(found.reach, 1.73960673, 1e-8); // Student's t, 17 degrees, 95 %
}

/// Of 400 intervals of 90 %, 360 are to cover; 24 is four standard deviations of that number.
static void intervals_cover_what_they_say(void **state)
{
    (void)state;
    enum { SEEDS = 400 };
    double bytes[SIZES];
    double us[SIZES];
    ana_message_times times = {.bytes = bytes, .us = us};
    int latency_covered = 0;
    int rate_covered = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        make_times(15, 45000, 0.05, seed, &times);
        const ana_measured_link found = fit(&times);
        const double latency_off = fabs((double)found.link.latency_ns - 15000);
        const double rate_off = fabs((double)found.link.bytes_per_s - 45e9);
        latency_covered += latency_off <= found.reach * found.latency_error_ns;
        rate_covered += rate_off <= found.reach * found.rate_error_bytes_s;
        assert_in_range((int)(1000 * found.misfit_ratio), 12, 48); // uniform: 0.05 / sqrt(3)
    }
    assert_in_range(latency_covered, 336, 384);
    assert_in_range(rate_covered, 336, 384);
}

static void a_latency_below_zero_is_zero(void **state)
{
    (void)state;
    double bytes[] = {4096, 8192, 16384, 32768};
    double us[] = {0.5, 2, 4, 8};
    const ana_message_times times = {.bytes = bytes, .us = us, .count = 4};

    const ana_measured_link found = fit(&times);

    assert_int_equal(found.link.latency_ns, 0);
    assert_true(found.latency_error_ns > 0);
    // Weighted by 1 / us^2: the slope is sum(bytes / us) / sum((bytes / us)^2).
    const double sum = 8192 + 3 * 4096;
    const double squares = 8192. * 8192 + 3 * 4096. * 4096;
    assert_close((double)found.link.bytes_per_s, 1e6 * squares / sum, 1e-8);
}

/// One row of nccl-tests 2.18 as it writes it.
static void add_row(text_buffer *out, const char *size, const char *time)
{
    text_format(out,
                "{\"size\":%s,\"count\":1,\"type\":\"float\",\"redop\":\"\",\"root\":\"    -1\","
                "\"out_of_place\":{\"time\":%s,\"alg_bw\":1.0,\"bus_bw\":1.0,\"nwrong\":0.000000},"
                "\"in_place\":{\"time\":\"nan\"},\"actual_iterations\":20,"
                "\"experiment_name\":\"\"}",
                size, time);
}

static status read_text(const char *text, ana_measured_link *found, error_message *err)
{
    json_document *document = NULL;
    ana_message_times times;
    arena *memory = arena_create(4096);
    status result = json_open_bytes("link.json", text, strlen(text), &document, err);
    if (result == STATUS_OK) {
        result = ana_message_times_read(json_root(document), memory, &times, err);
    }
    if (result == STATUS_OK) result = ana_measured_link_fit(&times, found, err);
    json_close(document);
    arena_destroy(memory);
    return result;
}

static void a_file_of_nccl_tests_is_read_and_small_messages_left_out(void **state)
{
    (void)state;
    ana_measured_link found;
    error_message err = {0};
    text_buffer text = {0};
    text_append(&text, "{\"version\":3,\"args\":[\"./build/sendrecv_perf\",\"-J\"],\"results\":[");
    const char *const rows[][2] = {
        {"2048", "900"}, {"4096", "11.0"}, {"8192", "12.0"}, {"16384", "14.0"}};
    for (int row = 0; row < 4; row++) {
        if (row > 0) text_append(&text, ",");
        add_row(&text, rows[row][0], rows[row][1]);
    }
    text_append(&text, "],\"out_of_bounds\":{\"count\":0,\"okay\":\"true\"}}");

    assert_ok(read_text(text.bytes, &found, &err));

    assert_int_equal(found.size_count, 3);
    assert_int_equal(found.link.latency_ns, 10000);
    assert_int_equal(found.link.bytes_per_s, 4096000000);
    text_free(&text);
}

static void what_is_no_measured_link_is_refused_with_its_place(void **state)
{
    (void)state;
#define ROW(size, time) "{\"size\":" size ",\"out_of_place\":{\"time\":" time "}}"
#define ROWS(rows) "{\"results\":[" rows "]}"
    static const struct {
        const char *text;
        const char *message;
    } cases[] = {
        {"{}", "link.json: needs 'results', an array of 1 to 4096, as 'sendrecv_perf -J FILE' "
               "writes it"},
        {ROWS(""), "link.json: results: needs 'results', an array of 1 to 4096, as "
                   "'sendrecv_perf -J FILE' writes it"},
        {ROWS(ROW("4096", "9")), "link.json: results: has 1 size of 4096 bytes or more, needs 3 to "
                                 "tell latency, rate and error apart"},
        {ROWS(ROW("4096", "9") "," ROW("4096", "9")),
         "link.json: results[1].size: is not above that of the row before: sizes are to ascend, "
         "each once"},
        {ROWS(ROW("4096", "\"nan\"")), "link.json: results[0].out_of_place.time: is not a number"},
        {ROWS(ROW("4096", "0")),
         "link.json: results[0].out_of_place.time: 0 is outside [1e-06, 1e+12]"},
        {ROWS("{\"size\":4096,\"out_of_place\":null}"),
         "link.json: results[0]: 'out_of_place' is missing"},
        {ROWS("{\"size\":4096,\"out_of_place\":{}}"),
         "link.json: results[0].out_of_place: 'time' is missing"},
        {ROWS("{\"size\":4096,\"out_of_place\":{\"cpu_time\":3}}"),
         "link.json: results[0].out_of_place: has cpu_time, the time of a call and not of a "
         "message: measure without -C"},
        {ROWS("{\"size\":4096,\"out_of_place\":{\"time\":3,\"nwrong\":2.0}}"),
         "link.json: results[0].out_of_place.nwrong: 2 elements arrived wrong"},
        {ROWS("{\"out_of_place\":{\"time\":3}}"), "link.json: results[0]: 'size' is missing"},
        {"{\"args\":[\"/opt/all_reduce_perf\"],\"results\":[" ROW("4096", "9") "]}",
         "link.json: args[0]: 'all_reduce_perf' does not time single messages; sendrecv_perf "
         "does"},
        {ROWS(ROW("4096", "12") "," ROW("8192", "11") "," ROW("16384", "10")),
         "times do not grow with sizes from 4096 to 16384 bytes: no rate"},
    };
    for (size_t row = 0; row < sizeof cases / sizeof cases[0]; row++) {
        ana_measured_link found = {.size_count = -7};
        error_message err = {0};

        assert_int_equal(read_text(cases[row].text, &found, &err), STATUS_FORMAT);

        assert_string_equal(err.message, cases[row].message);
        assert_int_equal(found.size_count, -7);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_times_give_the_link_back_without_an_error),
        cmocka_unit_test(intervals_cover_what_they_say),
        cmocka_unit_test(a_latency_below_zero_is_zero),
        cmocka_unit_test(a_file_of_nccl_tests_is_read_and_small_messages_left_out),
        cmocka_unit_test(what_is_no_measured_link_is_refused_with_its_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

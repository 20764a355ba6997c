/// The probe, without asking how fast anything is: statistics and lines from given numbers, samples
/// on a clock and a backend of the test's own, and what it returns of the real ones.
#include "exec/probe/probe_compute.h"
#include "exec/probe/probe_link.h"
#include "tests/assert_close.h"

#include <stdlib.h>
#include <string.h>

static exec_probe_trip trip_of(int64_t bytes, int64_t ns)
{
    return (exec_probe_trip){
        .from = 0, .to = 1, .bytes = bytes, .times = {.median_ns = ns, .min_ns = ns, .count = 1}};
}

static void the_median_and_the_least_of_samples_are_told(void **state)
{
    (void)state;
    int64_t odd[] = {9, 1, 5};
    int64_t even[] = {4, 1, 3, 2};

    const exec_probe_times of_odd = exec_probe_times_of(odd, 3);
    const exec_probe_times of_even = exec_probe_times_of(even, 4);

    assert_int_equal(of_odd.median_ns, 5);
    assert_int_equal(of_odd.min_ns, 1);
    assert_int_equal(of_odd.count, 3);
    assert_int_equal(of_even.median_ns, 2); // the lower one of two in the middle
}

/// 3 us and 2 bytes per ns.
static void a_line_that_is_there_is_found(void **state)
{
    (void)state;
    exec_probe_trip trips[8];
    exec_probe_line line;
    for (int index = 0; index < 8; index++) {
        const int64_t bytes = INT64_C(64) << (2 * index);
        trips[index] = trip_of(bytes, 3000 + bytes / 2);
    }

    assert_int_equal(exec_probe_line_fit(trips, 8, &line, NULL), STATUS_OK);

    assert_int_equal(line.latency_ns, 3000);
    assert_close((double)line.bytes_per_s, 2e9, 1e-6);
    assert_true(line.deviation_ratio < 1e-6);
    assert_int_equal(line.trip_count, 8);
}

/// Errors count as shares: 10 % of a short message as much as 10 % of a long one. Two sizes, each
/// measured twice as 10 % too short and 10 % too long: weights 1 / t^2 lean to the shorter times.
static void errors_are_relative(void **state)
{
    (void)state;
    const exec_probe_trip trips[] = {trip_of(0, 900), trip_of(0, 1100), trip_of(1000000, 900000),
                                     trip_of(1000000, 1100000)};
    exec_probe_line line;

    assert_int_equal(exec_probe_line_fit(trips, 4, &line, NULL), STATUS_OK);

    // the weighted mean of 0.9 and 1.1: (1/0.9 + 1/1.1) / (1/0.81 + 1/1.21) = 0.98020
    assert_int_equal(line.latency_ns, 980);
    assert_close(1e15 / (double)line.bytes_per_s, 980198 - 980, 1e-5);
    assert_close(line.deviation_ratio, 0.10891, 1e-3);
}

static void a_latency_below_nothing_is_nothing(void **state)
{
    (void)state;
    const exec_probe_trip trips[] = {trip_of(100, 10), trip_of(1000, 200), trip_of(10000, 2200)};
    exec_probe_line line;

    assert_int_equal(exec_probe_line_fit(trips, 3, &line, NULL), STATUS_OK);

    assert_int_equal(line.latency_ns, 0);
    assert_true(line.bytes_per_s > 1000000000 && line.bytes_per_s < 10000000000);
}

static void trips_that_make_no_line_are_invalid(void **state)
{
    (void)state;
    const exec_probe_trip alike[] = {trip_of(64, 100), trip_of(64, 120)};
    const exec_probe_trip flat[] = {trip_of(64, 100), trip_of(4096, 100)};
    exec_probe_line line = {.latency_ns = -7};
    error_message err = {0};

    assert_int_equal(exec_probe_line_fit(alike, 2, &line, &err), STATUS_INVALID);
    assert_string_equal(err.message, "2 trips of one size make no line");
    assert_int_equal(exec_probe_line_fit(flat, 2, &line, &err), STATUS_INVALID);
    assert_string_equal(err.message, "messages of 4096 bytes take no longer than shorter ones: no "
                                     "bandwidth can be told");
    assert_int_equal(line.latency_ns, -7);
}

/// A backend whose work takes what the test says, on the test's clock; and that gives out memory
/// up to a limit.
typedef struct drawn_backend {
    exec_kernels kernels;
    exec_kernel_table table;
    int64_t now_ns;
    int work_count;
    int64_t limit_bytes;
    int held; // regions
} drawn_backend;

static int64_t drawn_now(void *context)
{
    return ((drawn_backend *)context)->now_ns;
}

static status drawn_finish(exec_kernels *kernels, error_message *err)
{
    (void)kernels;
    (void)err;
    return STATUS_OK;
}

static status drawn_allocate(exec_kernels *kernels, size_t bytes, void **memory, error_message *err)
{
    drawn_backend *of = (drawn_backend *)kernels;
    if ((int64_t)bytes > of->limit_bytes) return error_set(err, STATUS_NO_MEMORY, "no more");
    *memory = of;
    of->held++;
    return STATUS_OK;
}

static void drawn_release(exec_kernels *kernels, void *memory)
{
    if (memory != NULL) ((drawn_backend *)kernels)->held--;
}

static void drawn_init(drawn_backend *of)
{
    *of = (drawn_backend){
        .table = {.finish = drawn_finish, .allocate = drawn_allocate, .release = drawn_release}};
    of->kernels.table = &of->table;
}

/// The first call takes 1,000,000 ns, as warming up does, the others 100 and 300 in turn.
static void take_time(void *context, exec_kernels *kernels)
{
    (void)kernels;
    drawn_backend *of = context;
    of->now_ns += of->work_count == 0 ? 1000000 : of->work_count % 2 == 0 ? 300 : 100;
    of->work_count++;
}

static void samples_are_taken_until_the_time_is_over(void **state)
{
    (void)state;
    drawn_backend backend;
    drawn_init(&backend);
    const exec_probe_clock clock = {&backend, drawn_now};
    const exec_probe_work work = {&backend, take_time};
    exec_probe_times times;

    assert_int_equal(exec_probe_measure(&backend.kernels, clock, 2000, &work, &times, NULL),
                     STATUS_OK);

    assert_int_equal(times.count, 10); // 5 x (100 + 300)
    assert_int_equal(times.min_ns, 100);
    assert_int_equal(times.median_ns, 100);
    assert_int_equal(backend.work_count, 11); // one that does not count
}

static void there_are_enough_samples_however_short_the_time_and_not_too_many(void **state)
{
    (void)state;
    drawn_backend backend;
    drawn_init(&backend);
    const exec_probe_clock clock = {&backend, drawn_now};
    const exec_probe_work work = {&backend, take_time};
    exec_probe_times times;

    assert_int_equal(exec_probe_measure(&backend.kernels, clock, 0, &work, &times, NULL),
                     STATUS_OK);
    assert_int_equal(times.count, EXEC_PROBE_SAMPLES_MIN);
    assert_int_equal(
        exec_probe_measure(&backend.kernels, clock, INT64_MAX / 2, &work, &times, NULL), STATUS_OK);
    assert_int_equal(times.count, EXEC_PROBE_SAMPLES_MAX);
}

static void the_capacity_is_found_to_the_step(void **state)
{
    (void)state;
    const int64_t step = INT64_C(64) << 20;
    drawn_backend backend;
    drawn_init(&backend);
    for (int steps = 0; steps < 40; steps++) {
        backend.limit_bytes = steps * step + 12345;
        assert_int_equal(exec_probe_capacity(&backend.kernels, INT64_C(1) << 40), steps * step);
    }
    backend.limit_bytes = INT64_MAX;
    assert_int_equal(exec_probe_capacity(&backend.kernels, 10 * step), 10 * step);
    assert_int_equal(backend.held, 0);
}

static void a_real_backend_is_measured(void **state)
{
    (void)state;
    exec_kernels *kernels = NULL;
    exec_probe_options options = exec_probe_options_default();
    exec_probe_product products[] = {{.name = "F", .shape = {.rows = 5, .columns = 7, .inner = 3}},
                                     {.name = "W",
                                      .shape = {.rows = 3,
                                                .columns = 7,
                                                .inner = 5,
                                                .transposes_a = true,
                                                .accumulates = true,
                                                .is_float = true}}};
    exec_probe_attention attention = {.sequence_length = 70, .head_count = 2, .head_width = 8};
    exec_probe_memory memory = {.value_count = 1000};
    options.budget_ns = 0;
    options.stream_bytes = 4096;
    assert_int_equal(exec_kernels_cpu_open(&kernels), STATUS_OK);

    assert_int_equal(exec_probe_products(kernels, &options, products, 2, NULL), STATUS_OK);
    assert_int_equal(exec_probe_attention_measure(kernels, &options, &attention, NULL), STATUS_OK);
    assert_int_equal(exec_probe_memory_measure(kernels, &options, &memory, NULL), STATUS_OK);

    assert_int_equal(exec_probe_product_flop(&products[0].shape), 2 * 5 * 7 * 3);
    const exec_probe_times *all[] = {&products[0].times,  &products[1].times, &attention.forward,
                                     &attention.backward, &memory.copy,       &memory.kernels};
    for (size_t each = 0; each < sizeof all / sizeof all[0]; each++) {
        assert_int_equal(all[each]->count, EXEC_PROBE_SAMPLES_MIN);
        assert_true(all[each]->min_ns >= 1 && all[each]->median_ns >= all[each]->min_ns);
    }
    assert_int_equal(memory.copy_bytes, 2 * 4096);
    assert_int_equal(memory.kernel_bytes, 5 * 1000 * (int64_t)sizeof(float));
    kernels->table->close(kernels);
}

static void every_two_ranks_are_measured_at_every_size(void **state)
{
    (void)state;
    exec_probe_links_options options = exec_probe_links_options_default();
    exec_probe_links links;
    arena *memory = arena_create(1 << 12);
    int seen[3][3] = {{0}};
    options.rank_count = 3;
    options.round_count = 4;
    options.size_max = 5000;

    assert_int_equal(exec_probe_links_measure(&options, memory, &links, NULL), STATUS_OK);

    assert_true(links.is_leader);
    assert_int_equal(links.rank_count, 3);
    assert_int_equal(links.trip_count, 3 * 4); // 64, 256, 1024, 4096
    for (int trip = 0; trip < links.trip_count; trip++) {
        const exec_probe_trip *each = &links.trips[trip];
        assert_true(each->from < each->to && each->to < 3);
        assert_int_equal(each->times.count, 4);
        assert_true(each->times.min_ns >= 1);
        assert_true(exec_probe_links_is_intra(&links, each->from, each->to));
        seen[each->from][each->to] += (int)each->bytes;
    }
    assert_int_equal(seen[0][1], 64 + 256 + 1024 + 4096);
    assert_int_equal(seen[0][2], seen[0][1]);
    assert_int_equal(seen[1][2], seen[0][1]);
    arena_destroy(memory);
}

static void one_rank_has_no_links(void **state)
{
    (void)state;
    exec_probe_links_options options = exec_probe_links_options_default();
    exec_probe_links links = {.rank_count = -7};
    arena *memory = arena_create(1 << 12);
    error_message err = {0};
    options.rank_count = 1;

    assert_int_equal(exec_probe_links_measure(&options, memory, &links, &err), STATUS_INVALID);

    assert_non_null(
        strstr(err.message, "links are between ranks: there are 1, 2 to 64 are needed"));
    assert_int_equal(links.rank_count, -7);
    arena_destroy(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_median_and_the_least_of_samples_are_told),
        cmocka_unit_test(a_line_that_is_there_is_found),
        cmocka_unit_test(errors_are_relative),
        cmocka_unit_test(a_latency_below_nothing_is_nothing),
        cmocka_unit_test(trips_that_make_no_line_are_invalid),
        cmocka_unit_test(samples_are_taken_until_the_time_is_over),
        cmocka_unit_test(there_are_enough_samples_however_short_the_time_and_not_too_many),
        cmocka_unit_test(the_capacity_is_found_to_the_step),
        cmocka_unit_test(a_real_backend_is_measured),
        cmocka_unit_test(every_two_ranks_are_measured_at_every_size),
        cmocka_unit_test(one_rank_has_no_links),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

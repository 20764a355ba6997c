/// The probe, without asking how fast anything is: statistics and lines from given numbers, memory
/// of a backend of the test's own, and what it returns of the real ones.
#include "exec/probe/probe.h"
#include "tests/test.h"
#include "tests/test_memory.h"

#include <stdlib.h>
#include <string.h>

static exec_measurement message_of(int64_t bytes, int64_t ns)
{
    return (exec_measurement){.kind = EXEC_PROBE_MESSAGE,
                              .shape = {.rows = 0, .columns = 1},
                              .amount = bytes,
                              .median_ns = ns,
                              .min_ns = ns,
                              .count = 1};
}

TEST(the_median_and_the_least_of_samples_are_told)
{
    int64_t odd[] = {9, 1, 5};
    int64_t even[] = {4, 1, 3, 2};
    exec_measurement of_odd = {0};
    exec_measurement of_even = {0};

    exec_probe_tell(odd, 3, &of_odd);
    exec_probe_tell(even, 4, &of_even);

    assert_int_equal(of_odd.median_ns, 5);
    assert_int_equal(of_odd.min_ns, 1);
    assert_int_equal(of_odd.count, 3);
    assert_int_equal(of_even.median_ns, 2); // the lower one of two in the middle
}

/// 3 us and 2 bytes per ns.
TEST(a_line_that_is_there_is_found)
{
    exec_measurement messages[8];
    exec_probe_line line;
    for (int index = 0; index < 8; index++) {
        const int64_t bytes = INT64_C(64) << (2 * index);
        messages[index] = message_of(bytes, 3000 + bytes / 2);
    }

    assert_ok(exec_probe_line_fit(messages, 8, &line, NULL));

    assert_int_equal(line.latency_ns, 3000);
    assert_close((double)line.bytes_per_s, 2e9, 1e-6);
    assert_true(line.deviation_ratio < 1e-6);
    assert_int_equal(line.count, 8);
}

/// Errors count as shares: 10 % of a short message as much as 10 % of a long one. Two sizes, each
/// measured twice as 10 % too short and 10 % too long: weights 1 / t^2 lean to the shorter times.
TEST(errors_are_relative)
{
    const exec_measurement messages[] = {message_of(0, 900), message_of(0, 1100),
                                         message_of(1000000, 900000), message_of(1000000, 1100000)};
    exec_probe_line line;

    assert_ok(exec_probe_line_fit(messages, 4, &line, NULL));

    // the weighted mean of 0.9 and 1.1: (1/0.9 + 1/1.1) / (1/0.81 + 1/1.21) = 0.98020
    assert_int_equal(line.latency_ns, 980);
    assert_close(1e15 / (double)line.bytes_per_s, 980198 - 980, 1e-5);
    assert_close(line.deviation_ratio, 0.10891, 1e-3);
}

TEST(a_latency_below_nothing_is_nothing)
{
    const exec_measurement messages[] = {message_of(100, 10), message_of(1000, 200),
                                         message_of(10000, 2200)};
    exec_probe_line line;

    assert_ok(exec_probe_line_fit(messages, 3, &line, NULL));

    assert_int_equal(line.latency_ns, 0);
    assert_true(line.bytes_per_s > 1000000000 && line.bytes_per_s < 10000000000);
}

TEST(messages_that_make_no_line_are_invalid)
{
    const exec_measurement alike[] = {message_of(64, 100), message_of(64, 120)};
    const exec_measurement flat[] = {message_of(64, 100), message_of(4096, 100)};
    exec_probe_line line = {.latency_ns = -7};

    assert_fails(exec_probe_line_fit(alike, 2, &line, &why), STATUS_INVALID,
                 "2 trips of one size make no line");
    assert_fails(exec_probe_line_fit(flat, 2, &line, &why), STATUS_INVALID,
                 "messages of 4096 bytes take no longer than shorter ones: no "
                 "bandwidth can be told");
    assert_int_equal(line.latency_ns, -7);
}

/// A backend that gives out memory up to a limit.
typedef struct limited_backend {
    exec_kernels kernels;
    exec_kernel_table table;
    int64_t limit_bytes;
    int held; // regions
} limited_backend;

static status limited_finish(exec_kernels *kernels, error_message *err)
{
    return STATUS_OK;
}

static void *limited_allocate(exec_kernels *kernels, size_t bytes)
{
    limited_backend *of = (limited_backend *)kernels;
    if ((int64_t)bytes > of->limit_bytes) return NULL;
    of->held++;
    return of;
}

static void limited_release(exec_kernels *kernels, void *held)
{
    if (held != NULL) ((limited_backend *)kernels)->held--;
}

TEST(the_capacity_is_found_to_the_step)
{
    const int64_t step = INT64_C(64) << 20;
    limited_backend backend = {.table = {.finish = limited_finish,
                                         .allocate = limited_allocate,
                                         .release = limited_release}};
    backend.kernels.table = &backend.table;
    for (int steps = 0; steps < 40; steps++) {
        backend.limit_bytes = steps * step + 12345;
        assert_int_equal(exec_probe_capacity(&backend.kernels, INT64_C(1) << 40), steps * step);
    }
    backend.limit_bytes = INT64_MAX;
    assert_int_equal(exec_probe_capacity(&backend.kernels, 10 * step), 10 * step);
    assert_int_equal(backend.held, 0);
}

/// A backend with a clock of its own that notes what it is told: w for work, 0 and 1 for marks, a
/// point for the end.
typedef struct marking_backend {
    exec_kernels kernels;
    exec_kernel_table table;
    char told[64];
    size_t told_count;
} marking_backend;

static void note(exec_kernels *kernels, char what)
{
    marking_backend *of = (marking_backend *)kernels;
    assert_true(of->told_count < sizeof of->told - 1);
    of->told[of->told_count++] = what;
}

static status marking_finish(exec_kernels *kernels, error_message *err)
{
    note(kernels, '.');
    return STATUS_OK;
}

static void *marking_allocate(exec_kernels *kernels, size_t bytes)
{
    return kernels;
}

static void marking_release(exec_kernels *kernels, void *held)
{
}

static void marking_to_device(exec_kernels *kernels, void *to, const void *from, size_t bytes)
{
}

static void marking_to_values(exec_kernels *kernels, const float *from, void *to, size_t count)
{
}

static void marking_matmul(exec_kernels *kernels, const exec_matmul *shape, const void *a,
                           const void *b, void *c)
{
    note(kernels, 'w');
}

static void marking_mark(exec_kernels *kernels, int number)
{
    note(kernels, (char)('0' + number));
}

static int64_t marking_mark_ns(exec_kernels *kernels, int number)
{
    return 7;
}

/// Else what the host takes to enqueue it would count as the device's time.
TEST(the_same_work_keeps_a_device_busy_until_it_is_measured)
{
    marking_backend backend = {.table = {.finish = marking_finish,
                                         .allocate = marking_allocate,
                                         .release = marking_release,
                                         .to_device = marking_to_device,
                                         .to_values = marking_to_values,
                                         .matmul = marking_matmul,
                                         .mark = marking_mark,
                                         .mark_ns = marking_mark_ns}};
    exec_measurement product = {.kind = EXEC_PROBE_PRODUCT,
                                .shape = {.rows = 2, .columns = 2, .inner = 2}};
    backend.kernels.table = &backend.table;

    assert_ok(exec_probe_measure(&backend.kernels, 0, &product, NULL));

    assert_string_equal(backend.told, ".." // two operands
                                      "w0w1.w0w1.w0w1.w0w1.w0w1.w0w1.");
    assert_int_equal(product.median_ns, 7);
    assert_int_equal(product.count, EXEC_PROBE_SAMPLES_MIN);
}

TEST(a_real_backend_is_measured)
{
    exec_kernels *kernels = NULL;
    exec_measurement rows[] = {
        {.kind = EXEC_PROBE_PRODUCT, .shape = {.rows = 5, .columns = 7, .inner = 3}},
        {.kind = EXEC_PROBE_PRODUCT,
         .shape = {.rows = 3,
                   .columns = 7,
                   .inner = 5,
                   .transposes_a = true,
                   .accumulates = true,
                   .is_float = true}},
        {.kind = EXEC_PROBE_ATTENTION, .shape = {.rows = 70, .columns = 8, .inner = 2}},
        {.kind = EXEC_PROBE_ATTENTION_BACKWARD, .shape = {.rows = 70, .columns = 8, .inner = 2}},
        {.kind = EXEC_PROBE_COPY, .amount = 2 * 4096},
        {.kind = EXEC_PROBE_ELEMENTS, .shape = {.rows = 10, .columns = 100}},
    };
    assert_ok(exec_kernels_cpu_open(&kernels));

    for (size_t row = 0; row < sizeof rows / sizeof rows[0]; row++) {
        assert_ok(exec_probe_measure(kernels, 0, &rows[row], NULL));
        assert_int_equal(rows[row].count, EXEC_PROBE_SAMPLES_MIN);
        assert_true(rows[row].min_ns >= 1 && rows[row].median_ns >= rows[row].min_ns);
    }
    assert_ok(exec_probe_measure(kernels, 5000000, &rows[0], NULL));
    assert_true(rows[0].count > EXEC_PROBE_SAMPLES_MIN);
    assert_true(rows[0].count <= EXEC_PROBE_SAMPLES_MAX);
    kernels->table->close(kernels);
}

TEST(every_two_ranks_are_measured_at_every_size)
{
    exec_probe_links links;
    int seen[3][3] = {{0}};

    assert_ok(exec_probe_links_measure("local", 3, 5000, false, memory, &links, NULL));

    assert_true(links.is_leader);
    assert_int_equal(links.rank_count, 3);
    assert_int_equal(links.count, 3 * 4); // 64, 256, 1024, 4096
    for (int index = 0; index < links.count; index++) {
        const exec_measurement *each = &links.messages[index];
        assert_true(each->shape.rows < each->shape.columns && each->shape.columns < 3);
        assert_true(each->min_ns >= 1 && each->count > 1 && each->is_intra);
        seen[each->shape.rows][each->shape.columns] += (int)each->amount;
    }
    assert_int_equal(seen[0][1], 64 + 256 + 1024 + 4096);
    assert_int_equal(seen[0][2], seen[0][1]);
    assert_int_equal(seen[1][2], seen[0][1]);
}

TEST(one_rank_has_no_links)
{
    exec_probe_links links = {.rank_count = -7};

    assert_fails_naming(exec_probe_links_measure("local", 1, 5000, false, memory, &links, &why),
                        STATUS_INVALID, "links are between ranks: there are 1, 2 to 64 are needed");
    assert_int_equal(links.rank_count, -7);
}

int main(void)
{
    return run_all_tests(open_memory, close_memory);
}

/// What the store takes: writing wide rows in batches, reading them back, and importing a CSV, with
/// the peak memory of each.
#include "tests/bench/bench.h"
#include "traces/import/csv.h"
#include "traces/store/reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LAYER_COUNT = 32, MICROBATCH_COUNT = 32 };

static char folder[64];
static char store_path[96];
static char csv_path[96];

static trace_store *open_store(trace_mode mode)
{
    error_message err = {0};
    trace_store *store = NULL;
    bench_require(trace_store_open(store_path, mode, &store, &err), &err);
    return store;
}

static void write_rows(int iteration_count)
{
    error_message err = {0};
    trace_store *store = open_store(TRACE_WRITE);
    trace_writer *writer = NULL;
    trace_info info = trace_info_default();
    info.name = "bench";
    bench_require(trace_writer_begin(store, &info, &writer, &err), &err);
    for (int iteration = 0; iteration < iteration_count; iteration++) {
        for (int layer = 0; layer < LAYER_COUNT; layer++) {
            for (int microbatch = 0; microbatch < MICROBATCH_COUNT; microbatch++) {
                trace_load load = trace_load_init(iteration, layer, microbatch);
                load.forward_ns = 1000000 + 31 * layer + microbatch;
                load.backward_input_ns = 1100000 + 17 * iteration;
                load.backward_weight_ns = 900000 + 7 * layer;
                load.activation_bytes = 1 << 24;
                bench_require(trace_writer_put_load(writer, &load, &err), &err);
            }
        }
    }
    bench_require(trace_writer_finish(writer, &err), &err);
    trace_store_close(store);
}

static void read_costs(int iteration_count)
{
    error_message err = {0};
    trace_store *store = open_store(TRACE_READ);
    trace_reader *reader = NULL;
    int64_t sum_ns = 0;
    bench_require(trace_reader_open(store, 1, TRACE_COLUMNS_RECORDED, &reader, &err), &err);
    for (int iteration = 0; iteration < iteration_count; iteration++) {
        bal_layer_costs costs;
        bool changed = false;
        bench_require(trace_reader_costs_at(reader, iteration, &costs, &changed, &err), &err);
        sum_ns += costs.forward_ns[0];
    }
    if (sum_ns < iteration_count) exit(1); // every forward took 1 ms and more
    trace_reader_close(reader);
    trace_store_close(store);
}

static void write_csv(int iteration_count)
{
    static const char *const phases[] = {"F", "B", "W"};
    FILE *file = fopen(csv_path, "w");
    if (file == NULL) exit(1);
    fputs("# dynmo-trace/1\niteration,microbatch,layer,phase,busy_ns,activation_bytes\n", file);
    for (int iteration = 0; iteration < iteration_count; iteration++) {
        for (int row = 0; row < LAYER_COUNT * MICROBATCH_COUNT * 3; row++) {
            fprintf(file, "%d,%d,%d,%s,%d,%s\n", iteration, row / 3 % MICROBATCH_COUNT,
                    row / 3 / MICROBATCH_COUNT, phases[row % 3], 1000000 + row,
                    row % 3 == 0 ? "16777216" : "");
        }
    }
    if (fclose(file) != 0) exit(1);
}

static void import_csv(int iteration_count)
{
    (void)iteration_count;
    error_message err = {0};
    trace_store *store = open_store(TRACE_WRITE);
    trace_csv *csv = NULL;
    trace_stream *stream = NULL;
    trace_info info = trace_info_default();
    info.name = "csv";
    bench_require(trace_csv_begin(store, &info, &csv, &err), &err);
    bench_require(trace_stream_open(csv_path, &stream, &err), &err);
    bench_require(trace_csv_read(csv, stream, &err), &err);
    trace_stream_close(stream);
    bench_require(trace_csv_finish(csv, NULL, &err), &err);
    trace_store_close(store);
}

/// Runs body in a process of its own, whose peak memory is its own too.
///
/// @param peak_mib out
/// @return seconds
static double measure(void (*body)(int), int iteration_count, double *peak_mib)
{
    const int64_t begin_ns = bench_now_ns();
    const pid_t child = fork();
    if (child == 0) {
        body(iteration_count);
        _exit(0);
    }
    int ended = -1;
    struct rusage used;
    if (wait4(child, &ended, 0, &used) != child || ended != 0) exit(1);
    *peak_mib = (double)used.ru_maxrss / 1024;
    return (double)(bench_now_ns() - begin_ns) / 1e9;
}

static double mebibytes_of(const char *path)
{
    struct stat about;
    if (stat(path, &about) != 0) exit(1);
    return (double)about.st_size / (1 << 20);
}

int main(int argc, char **argv)
{
    const int iteration_count = bench_is_smoke(argc, argv) ? 2 : 500;
    const int csv_iteration_count = iteration_count / 2;
    const double rows = (double)iteration_count * LAYER_COUNT * MICROBATCH_COUNT;
    char setting[64];
    double peak_mib = 0;
    snprintf(folder, sizeof folder, "%s/dynmo-bench-XXXXXX", P_tmpdir);
    if (mkdtemp(folder) == NULL) exit(1);
    snprintf(store_path, sizeof store_path, "%s/s.db", folder);
    snprintf(csv_path, sizeof csv_path, "%s/t.csv", folder);
    snprintf(setting, sizeof setting, "L=%d M=%d iterations=%d", LAYER_COUNT, MICROBATCH_COUNT,
             iteration_count);

    double seconds = measure(write_rows, iteration_count, &peak_mib);
    bench_print("store_write_rows_per_s", rows / seconds, "1/s", "%s", setting);
    bench_print("store_write_peak_mib", peak_mib, "MiB", "%s", setting);
    bench_print("store_bytes_per_row", mebibytes_of(store_path) * (1 << 20) / rows, "B", "%s",
                setting);
    seconds = measure(read_costs, iteration_count, &peak_mib);
    bench_print("store_read_rows_per_s", rows / seconds, "1/s", "%s", setting);
    bench_print("store_read_peak_mib", peak_mib, "MiB", "%s", setting);

    unlink(store_path);
    write_csv(csv_iteration_count);
    const double csv_mib = mebibytes_of(csv_path);
    seconds = measure(import_csv, csv_iteration_count, &peak_mib);
    bench_print("csv_import_mib_per_s", csv_mib / seconds, "MiB/s", "%.1f MiB, L=%d M=%d", csv_mib,
                LAYER_COUNT, MICROBATCH_COUNT);
    bench_print("csv_import_peak_mib", peak_mib, "MiB", "%.1f MiB, L=%d M=%d", csv_mib, LAYER_COUNT,
                MICROBATCH_COUNT);

    unlink(store_path);
    unlink(csv_path);
    rmdir(folder);
    return 0;
}

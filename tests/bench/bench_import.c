/// Importing a trace of the PyTorch profiler: bytes of JSON per second, and the peak memory of a
/// process that does nothing else. The trace is made here, always the same: a pipeline rank with
/// four CPU operators, a launch and a kernel for each step of its forward and backward ops.
#include "tests/bench/bench.h"
#include "traces/import/import_kineto.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MICROBATCH_COUNT = 32, KERNELS_PER_OP = 200 };

static char folder[64];
static char trace_path[96];

static void write_event(FILE *file, const char *category, const char *name, int pid, int tid,
                        double ts, double duration, int correlation, const char *more)
{
    fprintf(file,
            ",\n  {\n    \"ph\": \"X\", \"cat\": \"%s\", \"name\": \"%s\", \"pid\": %d, \"tid\": "
            "%d,\n    \"ts\": %.3f, \"dur\": %.3f,\n    \"args\": {\n      \"External id\": %d"
            "%s, \"correlation\": %d\n    }\n  }",
            category, name, pid, tid, ts, duration, correlation, more, correlation);
}

static void write_kernel(FILE *file, double ts, int correlation)
{
    static const char kernel_args[] =
        ", \"queued\": 0, \"device\": 0, \"context\": 1, \"stream\": 7, \"registers per thread\": "
        "168, \"shared memory\": 229376, \"blocks per SM\": 1.0, \"warps per SM\": 12.0, \"grid\": "
        "[132, 1, 1], \"block\": [384, 1, 1], \"est. achieved occupancy %\": 19";
    for (int op = 0; op < 4; op++) {
        write_event(file, "cpu_op", "aten::addmm", 4242, 4242, ts + 0.2 * op, 1.5, correlation,
                    ", \"Record function id\": 0, \"Sequence number\": 1573, \"Fwd thread id\": 0");
    }
    write_event(file, "cuda_runtime", "cudaLaunchKernel", 4242, 4242, ts + 1, 0.5, correlation,
                ", \"cbid\": 211");
    write_event(file, "kernel",
                "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, "
                "int, int, int>, cutlass::gemm::collective::CollectiveMma<>>>(Params)",
                0, 7, ts + 40, 1.75, correlation, kernel_args);
}

static void write_trace(int iteration_count)
{
    FILE *file = fopen(trace_path, "w");
    int correlation = 0;
    double ts = 1000;
    if (file == NULL) {
        perror(trace_path);
        exit(1);
    }
    fputs("{\n  \"schemaVersion\": 1,\n  \"baseTimeNanoseconds\": 1700000000000000000,\n"
          "  \"traceEvents\": [\n  {\n    \"ph\": \"M\", \"name\": \"process_name\"\n  }",
          file);
    for (int iteration = 0; iteration < iteration_count; iteration++) {
        char name[64];
        const double first = ts;
        for (int op = 0; op < 2 * MICROBATCH_COUNT; op++) {
            const double begin = ts;
            for (int kernel = 0; kernel < KERNELS_PER_OP; kernel++, ts += 2) {
                write_kernel(file, ts, ++correlation);
            }
            snprintf(name, sizeof name, "PP:0%c%d", op < MICROBATCH_COUNT ? 'F' : 'B',
                     op % MICROBATCH_COUNT);
            write_event(file, "user_annotation", name, 4242, 4242, begin, ts - begin, 0, "");
            ts += 1;
        }
        snprintf(name, sizeof name, "ProfilerStep#%d", iteration);
        write_event(file, "user_annotation", name, 4242, 4242, first, ts - first, 0, "");
    }
    fputs("\n  ],\n  \"traceName\": \"bench\"\n}\n", file);
    if (fclose(file) != 0) {
        perror(trace_path);
        exit(1);
    }
}

static void import_trace(void)
{
    const trace_kineto_source source = {.path = trace_path};
    trace_import import;
    error_message err = {0};
    bench_require(trace_import_read(&source, 1, &import, &err), &err);
    trace_import_free(&import);
}

/// Peak memory of a child that only imports, in bytes.
static double peak_bytes(void)
{
    struct rusage usage;
    int outcome = 0;
    const pid_t child = fork();
    if (child == 0) {
        import_trace();
        _exit(0);
    }
    if (child < 0 || wait4(child, &outcome, 0, &usage) != child || outcome != 0) {
        fprintf(stderr, "bench_import: the child failed\n");
        exit(1);
    }
    return (double)usage.ru_maxrss * 1024;
}

int main(int argc, char **argv)
{
    const bool smoke = bench_is_smoke(argc, argv);
    const int sizes[] = {4, 16};
    snprintf(folder, sizeof folder, "%s/dynmo-bench-XXXXXX", P_tmpdir);
    if (mkdtemp(folder) == NULL) {
        perror(folder);
        return 1;
    }
    snprintf(trace_path, sizeof trace_path, "%s/rank0.json", folder);
    for (int size = 0; size < (smoke ? 1 : 2); size++) {
        struct stat file;
        int64_t best_ns = INT64_MAX;
        write_trace(smoke ? 1 : sizes[size]);
        if (stat(trace_path, &file) != 0) return 1;
        for (int repeat = 0; repeat < (smoke ? 1 : 3); repeat++) {
            const int64_t begin_ns = bench_now_ns();
            import_trace();
            const int64_t lasted_ns = bench_now_ns() - begin_ns;
            if (lasted_ns < best_ns) best_ns = lasted_ns;
        }
        const double mb = (double)file.st_size / 1e6;
        const long kernels =
            (long)(smoke ? 1 : sizes[size]) * 2 * MICROBATCH_COUNT * KERNELS_PER_OP;
        bench_print("kineto_import_mb_per_s", mb / ((double)best_ns / 1e9), "MB/s",
                    "%.0f MB of JSON, %ld kernels", mb, kernels);
        bench_print("kineto_import_peak_mib", peak_bytes() / (1 << 20), "MiB",
                    "%.0f MB of JSON, %ld kernels", mb, kernels);
    }
    unlink(trace_path);
    rmdir(folder);
    return 0;
}

#include "tests/bench/bench.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

bool bench_is_smoke(int argc, char **argv)
{
    if (argc < 2) return false;
    if (argc == 2 && strcmp(argv[1], "--smoke") == 0) return true;
    fprintf(stderr, "usage: %s [--smoke]\n", argv[0]);
    exit(2);
}

void bench_require(status code, const error_message *err)
{
    if (code == STATUS_OK) return;
    fprintf(stderr, "bench: %s\n", err->message);
    exit(1);
}

int64_t *bench_draw(rng *generator, int count, int64_t low, int64_t high, arena *memory)
{
    int64_t *drawn = arena_array(memory, (size_t)count, sizeof *drawn);
    for (int index = 0; index < count; index++) {
        drawn[index] = rng_between(generator, low, high);
    }
    return drawn;
}

int64_t bench_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int compare(const void *left, const void *right)
{
    const double a = *(const double *)left;
    const double b = *(const double *)right;
    return (a > b) - (a < b);
}

/// Mean nanoseconds of call_count calls in a row.
static double sample(void (*body)(void *context), void *context, int64_t call_count)
{
    const int64_t begin_ns = bench_now_ns();
    for (int64_t call = 0; call < call_count; call++) {
        body(context);
    }
    return (double)(bench_now_ns() - begin_ns) / (double)call_count;
}

bench_time bench_measure(bool smoke, void (*body)(void *context), void *context)
{
    enum { SAMPLES_MIN = 5, SAMPLES_MAX = 1000 };
    const double sample_ns = 1e5;
    const int64_t total_ns = 500000000;
    double samples[SAMPLES_MAX];
    int count = 0;

    samples[count++] = sample(body, context, 1);
    if (!smoke) {
        count = 0;
        int64_t call_count = 1;
        while (sample(body, context, call_count) * (double)call_count < sample_ns) {
            call_count *= 2;
        }
        const int64_t begin_ns = bench_now_ns();
        while (count < SAMPLES_MIN ||
               (count < SAMPLES_MAX && bench_now_ns() - begin_ns < total_ns)) {
            samples[count++] = sample(body, context, call_count);
        }
    }
    qsort(samples, (size_t)count, sizeof *samples, compare);
    const double median_ns = (samples[(count - 1) / 2] + samples[count / 2]) / 2;
    return (bench_time){.median_ns = median_ns, .min_ns = samples[0], .sample_count = count};
}

void bench_print(const char *bench, double value, const char *unit, const char *setting, ...)
{
    char words[256];
    va_list arguments;
    va_start(arguments, setting);
    const int length = vsnprintf(words, sizeof words, setting, arguments);
    va_end(arguments);
    assert(length >= 0 && length < (int)sizeof words && strpbrk(words, "\"\\") == NULL);
    assert(isfinite(value));
    printf("{\"bench\":\"%s\",\"value\":%.6g,\"unit\":\"%s\",\"setting\":\"%s\"}\n", bench, value,
           unit, words);
    fflush(stdout); // a figure that is measured is not lost if a later one fails
}

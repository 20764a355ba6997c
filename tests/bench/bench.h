/// What the programs in tests/bench share: a stopwatch, and the line in which a figure is printed.
#pragma once

#include "base/arena.h"
#include "base/rng.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/// Reads the one argument of a benchmark, --smoke: every setting once, as small as possible, to see
/// that the program works. Exits with 2 and a message on any other argument.
bool bench_is_smoke(int argc, char **argv);

/// Exits with 1 and the message unless code is STATUS_OK: preparing a benchmark must not fail.
void bench_require(status code, const error_message *err);

/// Carves count numbers uniform in [low, high].
int64_t *bench_draw(rng *generator, int count, int64_t low, int64_t high, arena *memory);

/// Nanoseconds of the monotonic clock since an unspecified moment.
int64_t bench_now_ns(void);

typedef struct bench_time {
    double median_ns; // of one call of body
    double min_ns;
    int sample_count;
} bench_time;

/// Times body(context). After one call that is not counted, takes samples for about half a second,
/// at least 5 and at most 1000. A sample is as many calls as last 0.1 ms, so that the clock's own
/// cost does not show in short bodies.
///
/// @param smoke calls body once; the times then say nothing
bench_time bench_measure(bool smoke, void (*body)(void *context), void *context);

/// Prints one figure as a line of JSON. `tests/bench/run` adds commit and machine to it.
///
/// @param bench   name with its unit last: "static_engine_ns_per_op"
/// @param value   finite (asserted)
/// @param setting format of the words that fix the problem: "P=%d M=%d"; no quotes, no backslashes
void bench_print(const char *bench, double value, const char *unit, const char *setting, ...)
    __attribute__((format(printf, 4, 5)));

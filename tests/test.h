/// What cmocka lacks: tests that need no list, assertions that a call succeeds, or fails with a
/// status and a message, and doubles compared as doubles (assert_float_equal casts to float).
#pragma once

#include "base/status.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/// What the last call that failed says; `require` and assertions of failures take calls that are
/// given it.
__attribute__((unused)) static _Thread_local error_message why;

/// A test: `TEST(what_is_true_when_it_passes) { ... }`. Those of a file run in the order in which
/// they stand.
#define TEST(name) TEST_BETWEEN(name, NULL, NULL)

/// A test between two functions of cmocka's form, either of which may be NULL.
#define TEST_BETWEEN(name, before, after)                                                          \
    static void name(void **state);                                                                \
    __attribute__((constructor)) static void add_##name(void)                                      \
    {                                                                                              \
        add_test((struct CMUnitTest){#name, name, before, after, NULL});                           \
    }                                                                                              \
    static void name(void **state)

enum { TEST_LIMIT = 100 };
static struct CMUnitTest all_tests[TEST_LIMIT];
static size_t test_count;

static inline void add_test(struct CMUnitTest test)
{
    if (test_count == TEST_LIMIT) abort();
    all_tests[test_count++] = test;
}

/// Runs the tests of this file between `before` and `after`, each of which may be NULL; a program's
/// exit code.
static inline int run_all_tests(CMFixtureFunction before, CMFixtureFunction after)
{
    return _cmocka_run_group_tests("tests", all_tests, test_count, before, after);
}

/// Random cases and repetitions are divided by it: sanitizers, which slow each down, still see
/// every kind.
#ifndef TEST_SHARE
#define TEST_SHARE 1
#endif

#define assert_ok(call) assert_int_equal(call, STATUS_OK)

#define require(call)                                                                              \
    do {                                                                                           \
        if ((call) != STATUS_OK) fail_msg("%s", why.message);                                      \
    } while (0)

#define assert_fails(call, code, text)                                                             \
    do {                                                                                           \
        why = (error_message){0};                                                                  \
        assert_int_equal(call, code);                                                              \
        assert_string_equal(why.message, text);                                                    \
    } while (0)

/// For messages of which a part, such as a path, is not the test's: `part` is in it.
#define assert_fails_naming(call, code, part)                                                      \
    do {                                                                                           \
        why = (error_message){0};                                                                  \
        assert_int_equal(call, code);                                                              \
        if (strstr(why.message, part) == NULL) fail_msg("'%s' lacks '%s'", why.message, part);     \
    } while (0)

#define assert_close(actual, expected, relative)                                                   \
    do {                                                                                           \
        const double close_a = (actual);                                                           \
        const double close_e = (expected);                                                         \
        if (!(fabs(close_a - close_e) <= (relative)*fabs(close_e))) {                              \
            fail_msg("%.17g is not within %g of %.17g", close_a, (double)(relative), close_e);     \
        }                                                                                          \
    } while (0)

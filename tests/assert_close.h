/// Assertions that cmocka lacks: that a call succeeds, or fails with a status and a message, and
/// doubles compared as doubles (assert_float_equal casts to float).
#pragma once

#include "base/status.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/// What the last call that failed says; `require` and assertions of failures take calls that are
/// given it.
__attribute__((unused)) static _Thread_local error_message why;

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

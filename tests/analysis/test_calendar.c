/// Days of the calendar.
#include "analysis/whatif/calendar.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static int64_t day_of(const char *text)
{
    int64_t day = -1;
    assert_int_equal(ana_date_read(text, &day, NULL), STATUS_OK);
    return day;
}

static void days_are_counted_from_1970(void **state)
{
    (void)state;

    assert_int_equal(day_of("1970-01-01"), 0);
    assert_int_equal(day_of("1970-12-31"), 364);
    assert_int_equal(day_of("2000-03-01"), 11017);
    assert_int_equal(day_of("2026-11-22"), 20779);
}

static void every_day_reads_back(void **state)
{
    (void)state;
    for (int64_t day = 0; day < 60000; day++) {
        char text[ANA_DATE_BYTES];
        ana_date_write(day, text);
        assert_int_equal(day_of(text), day);
    }
}

static void leap_years_are_those_of_gregory(void **state)
{
    (void)state;
    char text[ANA_DATE_BYTES];

    ana_date_write(day_of("2028-02-28") + 1, text);
    assert_string_equal(text, "2028-02-29");
    ana_date_write(day_of("2100-02-28") + 1, text);
    assert_string_equal(text, "2100-03-01");
}

static void what_is_no_day_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {"2026-13-01",  "2026-00-10", "2026-02-29", "2026-04-31",
                                        "26-01-01",    "2026/01/01", "1969-12-31", "",
                                        "2026-01-01x", "2026-1-1",   "2026-01-00"};
    for (size_t row = 0; row < sizeof texts / sizeof texts[0]; row++) {
        int64_t day = -7;
        assert_int_equal(ana_date_read(texts[row], &day, NULL), STATUS_FORMAT);
        assert_int_equal(day, -7);
    }
}

static void days_without_a_year_have_words(void **state)
{
    (void)state;
    char text[ANA_DATE_BYTES];

    ana_date_write(INT64_C(1) << 40, text);
    assert_string_equal(text, "after 9999");
    ana_date_write(-1, text);
    assert_string_equal(text, "before 1970");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(days_are_counted_from_1970),
        cmocka_unit_test(every_day_reads_back),
        cmocka_unit_test(leap_years_are_those_of_gregory),
        cmocka_unit_test(what_is_no_day_is_refused),
        cmocka_unit_test(days_without_a_year_have_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "analysis/whatif/calendar.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { FIRST_YEAR = 1970, LAST_YEAR = 9999, MONTHS = 12 };

static bool is_leap(int year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

static int days_of_year(int year)
{
    return is_leap(year) ? 366 : 365;
}

static int days_of_month(int year, int month)
{
    static const int days[MONTHS] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    return days[month - 1] + (month == 2 && is_leap(year));
}

static bool has_form(const char *text)
{
    static const char form[] = "dddd-dd-dd";
    if (strlen(text) != sizeof form - 1) return false;
    for (size_t place = 0; form[place] != '\0'; place++) {
        const bool is_digit = isdigit((unsigned char)text[place]) != 0;
        if (form[place] == 'd' ? !is_digit : text[place] != form[place]) return false;
    }
    return true;
}

status ana_date_read(const char *text, int64_t *day, error_message *err)
{
    int year = 0;
    int month = 0;
    int day_of_month = 0;
    if (!has_form(text) || sscanf(text, "%4d-%2d-%2d", &year, &month, &day_of_month) != 3 ||
        year < FIRST_YEAR || month < 1 || month > MONTHS || day_of_month < 1 ||
        day_of_month > days_of_month(year, month)) {
        return error_set(err, STATUS_FORMAT, "'%.40s' is no day as in 2026-11-22", text);
    }
    int64_t days = day_of_month - 1;
    for (int before = FIRST_YEAR; before < year; before++)
        days += days_of_year(before);
    for (int before = 1; before < month; before++)
        days += days_of_month(year, before);
    *day = days;
    return STATUS_OK;
}

void ana_date_write(int64_t day, char *out)
{
    int year = FIRST_YEAR;
    int month = 1;
    while (year <= LAST_YEAR && day >= days_of_year(year)) {
        day -= days_of_year(year++);
    }
    if (year > LAST_YEAR || day < 0) {
        snprintf(out, ANA_DATE_BYTES, "%s", day < 0 ? "before 1970" : "after 9999");
        return;
    }
    while (day >= days_of_month(year, month)) {
        day -= days_of_month(year, month++);
    }
    snprintf(out, ANA_DATE_BYTES, "%04d-%02d-%02d", year % 10000, month % 100,
             ((int)day + 1) % 100);
}

/// Days of the calendar, for delivery dates.
#pragma once

#include "base/status.h"

#include <stdint.h>

enum { ANA_DATE_BYTES = 16 };

/// Reads "2026-11-22" into days since 1970-01-01.
///
/// @return STATUS_FORMAT if it is no day from year 1970 to 9999
status ana_date_read(const char *text, int64_t *day, error_message *err);

/// Writes a day as "2026-11-22"; beyond year 9999 as "after 9999".
///
/// @param out [ANA_DATE_BYTES]
void ana_date_write(int64_t day, char *out);

/// Results in one message.
#pragma once

#include "analysis/spread/spread_window.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

/// What is still to be read of a message.
typedef struct ana_parcel {
    const char *bytes;
    int64_t byte_count;
} ana_parcel;

/// Appends a result. Numbers are in the order of bytes of the machine: ranks are of one kind.
void ana_parcel_append(text_buffer *out, const ana_result *result);

/// Takes the next result, whose text the caller owns (and which has `failed` if there was no
/// memory).
///
/// @return false at the end
bool ana_parcel_read(ana_parcel *parcel, ana_result *result);

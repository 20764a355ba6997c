/// The events of a profiler trace (Chrome trace JSON), one at a time from a file of any size.
///
/// It is no general JSON reader: it finds the array "traceEvents" and slices each event into the
/// members that traces use. Numbers stay text until somebody converts them, so that 64-bit
/// integers and decimals of nanoseconds lose nothing.
#pragma once

#include "base/status.h"
#include "traces/store/stream.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/// The largest event, and the largest member beside the events, that is held; larger members are
/// passed over, larger events count as malformed.
enum { TRACE_JSON_ITEM_BYTES_MAX = 1 << 20 };

/// A JSON value as it stands in the file: strings with quotes and escapes. Not terminated; bytes
/// is NULL where there is no such member.
typedef struct trace_json_slice {
    const char *bytes;
    size_t length;
} trace_json_slice;

/// Members of an event. Where one occurs twice, the last holds.
typedef struct trace_json_event {
    int64_t index; // in the file, from 0
    trace_json_slice phase;
    trace_json_slice category;
    trace_json_slice name;
    trace_json_slice id;
    trace_json_slice pid;
    trace_json_slice tid;
    trace_json_slice ts;
    trace_json_slice duration;
    trace_json_slice args;
    int kind; // as trace_json_is_wanted set it; 0
} trace_json_event;

typedef enum trace_json_kind {
    TRACE_JSON_EVENT,
    TRACE_JSON_MEMBER, ///< of the outermost object, beside "traceEvents"
    TRACE_JSON_END
} trace_json_kind;

/// What was found.
typedef struct trace_json_item {
    trace_json_kind kind;
    trace_json_event event;
    trace_json_slice key; // of a member
    trace_json_slice value;
    int64_t event_count;     // at the end: how many there were, also those passed over
    int64_t malformed_count; // at the end: how many of them were passed over as malformed
} trace_json_item;

typedef struct trace_json_stream trace_json_stream;

/// Which events are wanted, and of which kind they are; asked once the phase, category and name of
/// an event are known, or it has no more members. Asked ahead, from another thread.
typedef bool trace_json_is_wanted(void *context, trace_json_event *event);

/// Where the input is a file, a thread scans it some batches ahead of trace_json_next.
///
/// @param input     borrowed until close; not to be touched between the first item and the last
/// @param name      of the file, for messages; borrowed until close
/// @param is_wanted NULL: all events are. Others are passed over; of what stands in them after
///                  those three members only brackets and strings are looked at, which is several
///                  times as fast
/// @return release with trace_json_close
trace_json_stream *trace_json_open(trace_stream *input, const char *name,
                                   trace_json_is_wanted *is_wanted, void *context);

void trace_json_close(trace_json_stream *json); ///< NULL is allowed

/// Hands over what was read of the input before, at most TRACE_JSON_ITEM_BYTES_MAX; right after
/// opening.
void trace_json_give(trace_json_stream *json, const char *bytes, size_t length);

/// Finds the next event or member; not after the end or a failure. The outermost value is an object
/// with "traceEvents", or the array of events itself.
///
/// A malformed event, as one with a quote inside a name, is passed over and counted: reading goes
/// on at the next line that is indented like the first event and begins with '{', or that closes
/// the array. Where events are not one below the other, there is no such place.
///
/// @param item out: borrowed until the next call, as its slices are
/// @return STATUS_FORMAT naming file and byte: no JSON, empty, ends early (a truncated file), no
///         traceEvents, a malformed event without a place to go on at; what trace_stream_read says
status trace_json_next(trace_json_stream *json, const trace_json_item **item, error_message *err);

/// The member key of an object; bytes NULL if object is none or has no such member.
trace_json_slice trace_json_find(trace_json_slice object, const char *key);

static inline bool trace_json_is_string(trace_json_slice value)
{
    return value.bytes != NULL && value.length >= 2 && *value.bytes == '"';
}

/// Whether value is the string text, which needs no escapes.
static inline bool trace_json_equals(trace_json_slice value, const char *text)
{
    const size_t length = strlen(text);
    return trace_json_is_string(value) && value.length == length + 2 &&
           memcmp(value.bytes + 1, text, length) == 0;
}

/// Copies a string without quotes and escapes; what is none is copied as it stands. Characters
/// beyond ASCII become UTF-8; what cannot be shown on a terminal becomes '?'.
///
/// @param out [capacity], capacity >= 1; always terminated
/// @return false if it had to be cut
bool trace_json_text(trace_json_slice value, char *out, size_t capacity);

/// @return false if value is no integer or does not fit; out is then untouched
bool trace_json_int64(trace_json_slice value, int64_t *out);

#include "traces/import/json_stream.h"
#include "base/arena.h"
#include "base/text.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum { KEY_BYTES = 8 }; // that tell the members of an event apart

/// Batches are large, as waking a thread takes longer than scanning a few events.
enum { BATCH_COUNT = 3, BATCH_ITEMS = 1 << 12 };

/// Beside those of status.h: the batch has items, and no more of them fit into it.
static const status BATCH_IS_FULL = STATUS_COUNT;

/// Where a scan stands. MORE: the bytes end before the value does.
typedef enum scan_result { SCAN_OK, SCAN_MORE, SCAN_BAD } scan_result;

typedef struct scan {
    const char *at;
    const char *end;
} scan;

typedef enum part { PART_START, PART_MEMBERS, PART_EVENTS, PART_AFTER } part;

/// Items, and the bytes that they are slices of.
typedef struct batch {
    char *bytes;            // [TRACE_JSON_ITEM_BYTES_MAX + KEY_BYTES]; NULL: unused so far
    trace_json_item *items; // [BATCH_ITEMS]
    int count;
    status result; // of what comes after the items
    error_message err;
} batch;

struct trace_json_stream {
    trace_stream *input;
    const char *name;
    trace_json_is_wanted *is_wanted; // NULL: all are
    void *context;                   // of is_wanted

    // Of who scans:
    batch *to;
    char *buffer;   // that of to
    size_t begin;   // of what is not yet taken
    size_t filled;  // bytes in buffer
    int64_t before; // bytes of the file before buffer[0]
    bool at_end;    // the input has no more
    part part;
    bool is_array; // the events are the outermost value
    bool is_first; // no member, or no event, was taken yet
    bool has_events;
    bool has_indentation; // the first event begins a line, after that many blanks
    size_t indentation;
    bool is_lost; // after a malformed event, before the place to go on at
    bool is_over; // the end or a failure was found
    int64_t event_count;
    int64_t malformed_count;

    // Of who takes:
    const batch *now; // NULL: none yet
    int at;           // in now

    // Of both; a batch belongs to who takes it from scanned to taken.
    batch batches[BATCH_COUNT];
    bool is_ahead; // a thread scans
    pthread_t scanner;
    pthread_mutex_t lock; // of what follows
    pthread_cond_t moved;
    int64_t scanned;
    int64_t taken;
    bool is_closing;
};

static inline bool is_blank(char byte)
{
    return (unsigned char)byte <= ' ' &&
           (byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r');
}

#ifdef __SSE2__
/// One bit per byte of 16.
static uint64_t bits_of(__m128i bytes)
{
    return (uint64_t)(unsigned)_mm_movemask_epi8(bytes);
}

static __m128i equal_to(__m128i bytes, char byte)
{
    return _mm_cmpeq_epi8(bytes, _mm_set1_epi8(byte));
}

static __m128i control_in(__m128i bytes)
{
    const __m128i last = _mm_set1_epi8(0x1f);
    return _mm_cmpeq_epi8(_mm_max_epu8(bytes, last), last);
}
#endif

static inline scan_result skip_blanks(scan *text)
{
    const char *at = text->at;
#ifdef __SSE2__
    if (text->end - at > 16) { // none or one; an indentation at once
        text->at = at += *at == ' ';
        if ((unsigned char)*at > ' ') return SCAN_OK;
        const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)at);
        const __m128i inner = _mm_or_si128(equal_to(bytes, ' '), equal_to(bytes, '\t'));
        const __m128i breaks = _mm_or_si128(equal_to(bytes, '\n'), equal_to(bytes, '\r'));
        const int count = __builtin_ctzll(~bits_of(_mm_or_si128(inner, breaks)));
        text->at = at += count;
        if (count < 16) return SCAN_OK;
    }
#endif
    while (at < text->end && is_blank(*at)) {
        at++;
    }
    text->at = at;
    return at < text->end ? SCAN_OK : SCAN_MORE;
}

static bool ends_run_of_string(char byte)
{
    return byte == '"' || byte == '\\' || (unsigned char)byte < 0x20;
}

/// The first quote, backslash or control character; end: there is none.
static inline const char *find_in_string(const char *at, const char *end)
{
#ifdef __SSE2__
    for (; end - at >= 16; at += 16) {
        const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)at);
        const __m128i special = _mm_or_si128(equal_to(bytes, '"'), equal_to(bytes, '\\'));
        const uint64_t found = bits_of(_mm_or_si128(special, control_in(bytes)));
        if (found != 0) return at + __builtin_ctzll(found);
    }
#endif
    while (at < end && !ends_run_of_string(*at)) {
        at++;
    }
    return at;
}

/// From an opening quote to after the closing one. A line break inside is malformed; that is how
/// a name with an odd number of quotes is found out before it swallows its neighbours.
static inline scan_result skip_string(scan *text)
{
    const char *at = find_in_string(text->at + 1, text->end);
    while (at < text->end && *at == '\\') {
        if (++at == text->end) break;
        if ((unsigned char)*at < 0x20) return SCAN_BAD;
        at = find_in_string(at + 1, text->end);
    }
    if (at >= text->end) {
        text->at = text->end;
        return SCAN_MORE;
    }
    text->at = at + 1;
    return *at == '"' ? SCAN_OK : SCAN_BAD;
}

static inline bool is_of_word(unsigned char byte)
{
    // A bit per byte: + - . 0-9, then A-Z a-z.
    static const uint64_t words[4] = {UINT64_C(0x03ff680000000000), UINT64_C(0x07fffffe07fffffe)};
    return (words[byte >> 6] >> (byte & 63) & 1) != 0;
}

/// Numbers, true, false, null, and the NaN and Infinity that some writers put; whoever needs the
/// number judges it.
static inline scan_result skip_word(scan *text)
{
    const char *at = text->at;
#ifdef __SSE2__
    if (text->end - at >= 16) { // the digits, '-' and '.' in front, at once
        const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)at);
        const __m128i places = _mm_sub_epi8(bytes, _mm_set1_epi8('-'));
        const __m128i in_range =
            _mm_cmpeq_epi8(_mm_min_epu8(places, _mm_set1_epi8('9' - '-')), places);
        at += __builtin_ctzll(~bits_of(_mm_andnot_si128(equal_to(bytes, '/'), in_range)));
    }
#endif
    while (at < text->end && is_of_word((unsigned char)*at)) {
        at++;
    }
    const bool is_empty = at == text->at;
    text->at = at;
    if (at == text->end) return SCAN_MORE;
    return is_empty ? SCAN_BAD : SCAN_OK;
}

#ifdef __SSE2__
enum { BLOCK_BYTES = 64 };

/// Where bytes of a block are, one bit each.
typedef struct block_bits {
    uint64_t quotes;
    uint64_t escapes;
    uint64_t controls;
    uint64_t opening;
    uint64_t closing;
} block_bits;

static block_bits look_at_block(const char *at)
{
    block_bits bits = {0};
    for (int from = 0; from < BLOCK_BYTES; from += 16) {
        const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)(at + from));
        // With that bit set, '[' is '{' and ']' is '}'.
        const __m128i folded = _mm_or_si128(bytes, _mm_set1_epi8(0x20));
        bits.quotes |= bits_of(equal_to(bytes, '"')) << from;
        bits.escapes |= bits_of(equal_to(bytes, '\\')) << from;
        bits.controls |= bits_of(control_in(bytes)) << from;
        bits.opening |= bits_of(equal_to(folded, '{')) << from;
        bits.closing |= bits_of(equal_to(folded, '}')) << from;
    }
    return bits;
}

/// Passes over a block of a container, or as far as the container goes, if it has no escapes; it
/// begins outside of strings. A string that goes on after it is passed over as a whole.
///
/// @param passed out: whether it was
static scan_result skip_block(scan *text, int64_t *depth, bool *passed)
{
    const block_bits bits = look_at_block(text->at);
    uint64_t strings = bits.quotes; // from each opening quote to before the closing one
    for (int shift = 1; shift < BLOCK_BYTES; shift *= 2) {
        strings ^= strings << shift;
    }
    const bool is_cut = strings >> 63 != 0;
    int length = is_cut ? 63 - __builtin_clzll(bits.quotes) : BLOCK_BYTES;
    bool is_over = false;
    *passed = bits.escapes == 0;
    if (!*passed) return SCAN_OK;
    for (uint64_t left = (bits.opening | bits.closing) & ~strings; left != 0 && !is_over;
         left &= left - 1) {
        const int place = __builtin_ctzll(left);
        *depth += (bits.opening >> place & 1) != 0 ? 1 : -1;
        is_over = *depth == 0;
        if (is_over) length = place + 1;
    }
    const uint64_t seen = length < BLOCK_BYTES ? (UINT64_C(1) << length) - 1 : UINT64_MAX;
    if ((bits.controls & strings & seen) != 0) return SCAN_BAD;
    text->at += length;
    return is_cut && !is_over ? skip_string(text) : SCAN_OK;
}
#endif

/// An object or array as a whole, or with depth 1 what is left of it. Brackets are counted, not
/// paired: what an event needs of its args is looked at when it is needed.
static scan_result skip_container(scan *text, int64_t depth)
{
    do {
        bool passed = false;
        scan_result result = SCAN_OK;
        if (text->at == text->end) return SCAN_MORE;
#ifdef __SSE2__
        if (text->end - text->at >= BLOCK_BYTES) result = skip_block(text, &depth, &passed);
#endif
        if (!passed && *text->at == '"') {
            result = skip_string(text);
        } else if (!passed) {
            depth += *text->at == '{' || *text->at == '[';
            depth -= *text->at == '}' || *text->at == ']';
            text->at++;
        }
        if (result != SCAN_OK) return result;
    } while (depth > 0);
    return SCAN_OK;
}

static inline scan_result skip_value(scan *text)
{
    if (text->at >= text->end) return SCAN_MORE;
    if (*text->at == '"') return skip_string(text);
    if (*text->at != '{' && *text->at != '[') return skip_word(text);
    scan container = *text; // a copy: text can stay in registers
    const scan_result result = skip_container(&container, 0);
    text->at = container.at;
    return result;
}

/// Passes over a byte that has no blanks around it, as most writers put colons and commas. The byte
/// at the end of a scan is no such byte: a terminator, or what follows a container.
static inline bool skip_tight(scan *text, char byte)
{
    const bool is_tight = *text->at == byte && text->at[1] > ' ';
    text->at += is_tight;
    return is_tight;
}

/// From after a key to its value.
static inline scan_result scan_colon(scan *text)
{
    if (skip_tight(text, ':')) return SCAN_OK;
    const scan_result result = skip_blanks(text);
    if (result != SCAN_OK) return result;
    if (*text->at != ':') return SCAN_BAD;
    text->at++;
    return skip_blanks(text);
}

/// From a key to its value.
static inline scan_result scan_key(scan *text, trace_json_slice *key)
{
    key->bytes = text->at;
    if (*text->at != '"') return SCAN_BAD;
    const scan_result result = skip_string(text);
    key->length = (size_t)(text->at - key->bytes);
    return result == SCAN_OK ? scan_colon(text) : result;
}

static inline scan_result scan_value(scan *text, trace_json_slice *value)
{
    value->bytes = text->at;
    const scan_result result = skip_value(text);
    value->length = (size_t)(text->at - value->bytes);
    return result;
}

/// From a key to after its value.
static scan_result scan_member(scan *text, trace_json_slice *key, trace_json_slice *value)
{
    const scan_result result = scan_key(text, key);
    return result == SCAN_OK ? scan_value(text, value) : result;
}

/// After a value: to the next one (*is_last false), or after the closing bracket.
static inline scan_result scan_separator(scan *text, char close, bool *is_last)
{
    *is_last = false;
    if (skip_tight(text, ',')) return SCAN_OK;
    scan_result result = skip_blanks(text);
    if (result != SCAN_OK) return result;
    *is_last = *text->at == close;
    if (!*is_last && *text->at != ',') return SCAN_BAD;
    text->at++;
    return *is_last ? SCAN_OK : skip_blanks(text);
}

/// The member of an event whose key stands at text, NULL: none that is kept. Keys are known by
/// their first bytes, which is faster than to look for their ends.
///
/// @param length out: of the key; 0 without one
static inline trace_json_slice *member_at(scan text, trace_json_event *event, size_t *length)
{
    char key[KEY_BYTES];
    memcpy(key, text.at, sizeof key); // what is beyond the end is found out by who goes on there
    *length = 4;
    if (memcmp(key, "\"ph\"", 4) == 0) return &event->phase;
    if (memcmp(key, "\"ts\"", 4) == 0) return &event->ts;
    if (memcmp(key, "\"id\"", 4) == 0) return &event->id;
    *length = 5;
    if (memcmp(key, "\"cat\"", 5) == 0) return &event->category;
    if (memcmp(key, "\"pid\"", 5) == 0) return &event->pid;
    if (memcmp(key, "\"tid\"", 5) == 0) return &event->tid;
    if (memcmp(key, "\"dur\"", 5) == 0) return &event->duration;
    *length = 6;
    if (memcmp(key, "\"name\"", 6) == 0) return &event->name;
    if (memcmp(key, "\"args\"", 6) == 0) return &event->args;
    *length = 0;
    return NULL;
}

/// @param after     out: where it ends; untouched on failure
/// @param is_wanted out
static scan_result scan_event(const trace_json_stream *json, scan text, trace_json_event *event,
                              const char **after, bool *is_wanted)
{
    bool is_asked = json->is_wanted == NULL;
    *is_wanted = true;
    if (*text.at != '{') return SCAN_BAD;
    text.at++;
    scan_result result = skip_blanks(&text);
    if (result != SCAN_OK) return result;
    bool is_last = *text.at == '}';
    if (is_last) text.at++;
    while (!is_last) {
        trace_json_slice value;
        size_t length = 0;
        trace_json_slice *place = member_at(text, event, &length);
        text.at += length;
        result = place != NULL ? scan_colon(&text) : scan_key(&text, &value);
        if (result != SCAN_OK || (result = scan_value(&text, &value)) != SCAN_OK) return result;
        if ((result = scan_separator(&text, '}', &is_last)) != SCAN_OK) return result;
        if (place != NULL) *place = value;
        if (is_asked || event->name.bytes == NULL || event->category.bytes == NULL ||
            event->phase.bytes == NULL) {
            continue;
        }
        is_asked = true;
        *is_wanted = json->is_wanted(json->context, event);
        if (*is_wanted || is_last) continue;
        if ((result = skip_container(&text, 1)) != SCAN_OK) return result;
        break;
    }
    if (!is_asked) *is_wanted = json->is_wanted(json->context, event);
    *after = text.at;
    return SCAN_OK;
}

trace_json_stream *trace_json_open(trace_stream *input, const char *name,
                                   trace_json_is_wanted *is_wanted, void *context)
{
    trace_json_stream *opened = memory_array(1, sizeof *opened);
    *opened = (trace_json_stream){
        .input = input, .name = name, .is_wanted = is_wanted, .context = context, .is_first = true};
    pthread_mutex_init(&opened->lock, NULL);
    pthread_cond_init(&opened->moved, NULL);
    return opened;
}

void trace_json_close(trace_json_stream *json)
{
    if (json == NULL) return;
    pthread_mutex_lock(&json->lock);
    json->is_closing = true;
    pthread_cond_signal(&json->moved);
    pthread_mutex_unlock(&json->lock);
    if (json->is_ahead) pthread_join(json->scanner, NULL);
    pthread_cond_destroy(&json->moved);
    pthread_mutex_destroy(&json->lock);
    for (int each = 0; each < BATCH_COUNT; each++) {
        free(json->batches[each].bytes);
        free(json->batches[each].items);
    }
    free(json);
}

/// Makes to the batch that is scanned; it begins with what is not yet taken.
static void begin_batch(trace_json_stream *json, batch *to)
{
    const size_t left = json->filled - json->begin;
    if (to->bytes == NULL) {
        to->bytes = memory_array(1, TRACE_JSON_ITEM_BYTES_MAX + KEY_BYTES);
        to->items = memory_array(BATCH_ITEMS, sizeof *to->items);
    }
    if (left > 0) memcpy(to->bytes, json->buffer + json->begin, left);
    to->bytes[left] = '\0';
    to->count = 0;
    json->before += (int64_t)json->begin;
    json->to = to;
    json->buffer = to->bytes;
    json->begin = 0;
    json->filled = left;
}

void trace_json_give(trace_json_stream *json, const char *bytes, size_t length)
{
    assert(length <= TRACE_JSON_ITEM_BYTES_MAX);
    begin_batch(json, &json->batches[BATCH_COUNT - 1]); // before the first
    memcpy(json->buffer, bytes, length);
    json->filled = length;
}

static int64_t position(const trace_json_stream *json)
{
    return json->before + (int64_t)json->begin;
}

static status malformed(const trace_json_stream *json, error_message *err, const char *what)
{
    return error_set(err, STATUS_FORMAT, "%s: byte %" PRId64 ": %s", json->name, position(json),
                     what);
}

static status truncated(const trace_json_stream *json, error_message *err, const char *inside)
{
    return error_set(err, STATUS_FORMAT,
                     "%s: truncated: it ends at byte %" PRId64 " inside %s (was the profiler "
                     "stopped before it was done writing?)",
                     json->name, json->before + (int64_t)json->filled, inside);
}

/// Moves what is not yet taken to the front and reads after it, until the batch is full or the
/// input ends. The items of a batch stay where they are: it takes no more.
static status fill(trace_json_stream *json, error_message *err)
{
    if (json->to->count > 0) return BATCH_IS_FULL;
    memmove(json->buffer, json->buffer + json->begin, json->filled - json->begin);
    json->before += (int64_t)json->begin;
    json->filled -= json->begin;
    json->begin = 0;
    while (!json->at_end && json->filled < TRACE_JSON_ITEM_BYTES_MAX) {
        size_t count = 0;
        TRY(trace_stream_read(json->input, json->buffer + json->filled,
                              TRACE_JSON_ITEM_BYTES_MAX - json->filled, &count, err));
        json->filled += count;
        json->at_end = count == 0;
    }
    json->buffer[json->filled] = '\0';
    return STATUS_OK;
}

static bool is_full(const trace_json_stream *json)
{
    return json->begin == 0 && json->filled == TRACE_JSON_ITEM_BYTES_MAX;
}

static scan scan_here(const trace_json_stream *json)
{
    return (scan){json->buffer + json->begin, json->buffer + json->filled};
}

static void take(trace_json_stream *json, const scan *text)
{
    json->begin = (size_t)(text->at - json->buffer);
}

/// The next byte that is no blank; 0 at the end of the file.
static status peek(trace_json_stream *json, char *byte, error_message *err)
{
    for (;;) {
        scan text = scan_here(json);
        const scan_result result = skip_blanks(&text);
        take(json, &text);
        if (result == SCAN_OK) {
            *byte = *text.at;
            return STATUS_OK;
        }
        if (json->at_end) {
            *byte = 0;
            return STATUS_OK;
        }
        TRY(fill(json, err));
    }
}

static status begin_document(trace_json_stream *json, error_message *err)
{
    char byte = 0;
    TRY(peek(json, &byte, err));
    if (byte == 0) return error_set(err, STATUS_FORMAT, "%s: the file is empty", json->name);
    if (byte != '{' && byte != '[') {
        return error_set(err, STATUS_FORMAT,
                         "%s: not a profiler trace: JSON begins with '{', this file does not",
                         json->name);
    }
    json->is_array = byte == '[';
    json->has_events = json->is_array;
    json->part = json->is_array ? PART_EVENTS : PART_MEMBERS;
    json->begin++;
    return STATUS_OK;
}

/// Passes over a member that is larger than the buffer, a buffer at a time.
static status skip_large_container(trace_json_stream *json, error_message *err)
{
    int64_t depth = 0;
    bool in_string = false;
    bool escaped = false;
    do {
        while (json->begin < json->filled) {
            const char byte = json->buffer[json->begin++];
            if (in_string) {
                in_string = escaped || byte != '"';
                escaped = !escaped && byte == '\\';
            } else if (byte == '"') {
                in_string = true;
            } else if (byte == '{' || byte == '[') {
                depth++;
            } else if ((byte == '}' || byte == ']') && --depth == 0) {
                return STATUS_OK;
            }
        }
        if (json->at_end) return truncated(json, err, "a member");
        TRY(fill(json, err));
    } while (true);
}

/// Goes after the bracket of "traceEvents", whose value begins at value.
static status begin_events(trace_json_stream *json, const char *value, error_message *err)
{
    if (*value != '[') {
        return malformed(json, err, "not a profiler trace: traceEvents is not an array");
    }
    if (json->has_events) return malformed(json, err, "traceEvents is there twice");
    json->begin = (size_t)(value - json->buffer) + 1;
    json->part = PART_EVENTS;
    json->has_events = true;
    json->is_first = true;
    return STATUS_OK;
}

/// A member of the outermost object; where it is "traceEvents", only its key and bracket.
static status next_member(trace_json_stream *json, trace_json_item *item, bool *found,
                          error_message *err)
{
    char byte = 0;
    TRY(peek(json, &byte, err));
    if (byte == '}' || (byte == ',' && !json->is_first)) {
        json->begin++;
        json->is_first = true;
        if (byte == '}') json->part = PART_AFTER;
        return STATUS_OK;
    }
    if (byte == 0) return truncated(json, err, "the outermost object");
    if (!json->is_first) return malformed(json, err, "expected ',' or '}' after a member");
    for (;;) {
        scan text = scan_here(json);
        scan_result result = scan_key(&text, &item->key);
        const bool has_key = result == SCAN_OK;
        const char *value = text.at;
        if (has_key && trace_json_equals(item->key, "traceEvents")) {
            return begin_events(json, value, err);
        }
        if (has_key) result = scan_value(&text, &item->value);
        if (result == SCAN_BAD) return malformed(json, err, "not JSON: expected a member");
        if (result == SCAN_OK) {
            take(json, &text);
            json->is_first = false;
            item->kind = TRACE_JSON_MEMBER;
            *found = true;
            return STATUS_OK;
        }
        if (json->at_end) return truncated(json, err, "a member of the outermost object");
        if (is_full(json)) {
            if (!has_key || (*value != '{' && *value != '[')) {
                return malformed(json, err, "not a profiler trace: a member above 1 MiB");
            }
            json->begin = (size_t)(value - json->buffer);
            TRY(skip_large_container(json, err));
            json->is_first = false;
            return STATUS_OK;
        }
        TRY(fill(json, err));
    }
}

/// Remembers how the first event stands in its line.
static void note_indentation(trace_json_stream *json)
{
    size_t line = json->begin;
    while (line > 0 && json->buffer[line - 1] == ' ') {
        line--;
    }
    json->has_indentation = line > 0 && json->buffer[line - 1] == '\n';
    json->indentation = json->begin - line;
}

/// Whether an event may begin, or the array may end, at a line that begins at text.
static scan_result line_is_boundary(const trace_json_stream *json, scan text, bool *is_boundary)
{
    const char *line = text.at;
    while (text.at < text.end && *text.at == ' ') {
        text.at++;
    }
    if (text.at >= text.end) return SCAN_MORE;
    const size_t indentation = (size_t)(text.at - line);
    *is_boundary = (*text.at == '{' && indentation == json->indentation) ||
                   (*text.at == ']' && indentation <= json->indentation);
    return SCAN_OK;
}

/// At a malformed event, which is passed over.
static status begin_resynchronising(trace_json_stream *json, error_message *err)
{
    if (!json->has_indentation) {
        return error_set(err, STATUS_FORMAT,
                         "%s: byte %" PRId64 ": event %" PRId64 " is malformed, and events are "
                         "not one below the other, so that reading cannot go on after it",
                         json->name, position(json), json->event_count);
    }
    json->is_first = true;
    json->is_lost = true;
    json->malformed_count++;
    json->event_count++;
    json->begin++;
    return STATUS_OK;
}

/// Goes to the next line at which reading can go on.
static status resynchronise(trace_json_stream *json, error_message *err)
{
    while (json->is_lost) {
        scan text = scan_here(json);
        while (text.at < text.end &&
               (text.at = memchr(text.at, '\n', (size_t)(text.end - text.at))) != NULL) {
            bool is_boundary = false;
            const scan line = {text.at + 1, text.end};
            if (line_is_boundary(json, line, &is_boundary) == SCAN_MORE) break;
            if (is_boundary) {
                text.at++;
                take(json, &text);
                json->is_lost = false;
                return STATUS_OK;
            }
            text.at++;
        }
        json->begin = text.at != NULL ? (size_t)(text.at - json->buffer) : json->filled;
        if (json->at_end) return truncated(json, err, "a malformed event");
        if (is_full(json)) json->begin++; // a megabyte of blanks; no line of a trace
        TRY(fill(json, err));
    }
    return STATUS_OK;
}

static status next_event(trace_json_stream *json, trace_json_item *item, bool *found,
                         error_message *err)
{
    char byte = 0;
    TRY(resynchronise(json, err));
    TRY(peek(json, &byte, err));
    if (byte == ',' && !json->is_first) {
        json->begin++;
        json->is_first = true;
        TRY(peek(json, &byte, err));
    }
    if (byte == 0) return truncated(json, err, "traceEvents");
    if (byte == ']') {
        json->begin++;
        json->is_first = false;
        json->part = json->is_array ? PART_AFTER : PART_MEMBERS;
        return STATUS_OK;
    }
    if (json->event_count == 0) note_indentation(json);
    for (;;) {
        const scan text = scan_here(json);
        const char *after = text.at;
        static const trace_json_event none;
        item->event = none;
        item->event.index = json->event_count;
        scan_result result =
            json->is_first ? scan_event(json, text, &item->event, &after, found) : SCAN_BAD;
        if (result == SCAN_MORE && is_full(json)) result = SCAN_BAD;
        if (result == SCAN_BAD) {
            *found = false;
            return begin_resynchronising(json, err);
        }
        if (result == SCAN_OK) {
            json->begin = (size_t)(after - json->buffer);
            json->event_count++;
            json->is_first = false;
            item->kind = TRACE_JSON_EVENT;
            return STATUS_OK;
        }
        *found = false;
        if (json->at_end) return truncated(json, err, "an event");
        TRY(fill(json, err));
    }
}

static status end_document(trace_json_stream *json, trace_json_item *item, bool *found,
                           error_message *err)
{
    char byte = 0;
    TRY(peek(json, &byte, err));
    if (byte != 0) return malformed(json, err, "text after the end of the trace");
    if (!json->has_events) {
        return error_set(err, STATUS_FORMAT, "%s: not a profiler trace: it has no traceEvents",
                         json->name);
    }
    item->kind = TRACE_JSON_END;
    item->event_count = json->event_count;
    item->malformed_count = json->malformed_count;
    json->is_over = true;
    *found = true;
    return STATUS_OK;
}

static status scan_item(trace_json_stream *json, trace_json_item *item, error_message *err)
{
    bool found = false;
    while (!found) {
        switch (json->part) {
        case PART_START:
            TRY(begin_document(json, err));
            break;
        case PART_MEMBERS:
            TRY(next_member(json, item, &found, err));
            break;
        case PART_EVENTS:
            TRY(next_event(json, item, &found, err));
            break;
        case PART_AFTER:
            TRY(end_document(json, item, &found, err));
            break;
        }
    }
    return STATUS_OK;
}

/// Scans into the next batch of the ring, which begins with what the one before it left.
static void scan_batch(trace_json_stream *json)
{
    batch *to = &json->batches[json->scanned % BATCH_COUNT];
    begin_batch(json, to);
    do {
        to->result = scan_item(json, &to->items[to->count], &to->err);
        to->count += to->result == STATUS_OK;
    } while (to->result == STATUS_OK && !json->is_over && to->count < BATCH_ITEMS);
    if (to->result == BATCH_IS_FULL) to->result = STATUS_OK;
    json->is_over = json->is_over || to->result != STATUS_OK;
}

/// Waits until one of the batches is free; false: nobody wants it any more.
static bool wait_for_room(trace_json_stream *json)
{
    pthread_mutex_lock(&json->lock);
    while (!json->is_closing && json->scanned - json->taken == BATCH_COUNT) {
        pthread_cond_wait(&json->moved, &json->lock);
    }
    const bool goes_on = !json->is_closing;
    pthread_mutex_unlock(&json->lock);
    return goes_on;
}

static void *scan_ahead(void *context)
{
    trace_json_stream *json = context;
    while (!json->is_over && wait_for_room(json)) {
        scan_batch(json);
        pthread_mutex_lock(&json->lock);
        json->scanned++;
        pthread_cond_signal(&json->moved);
        pthread_mutex_unlock(&json->lock);
    }
    return NULL;
}

/// Goes to the next batch, which is scanned here where no thread can.
static void next_batch(trace_json_stream *json)
{
    pthread_mutex_lock(&json->lock);
    if (json->now != NULL) {
        json->taken++;
    } else if (trace_stream_is_file(json->input)) {
        json->is_ahead = pthread_create(&json->scanner, NULL, scan_ahead, json) == 0;
    }
    pthread_cond_signal(&json->moved);
    while (json->is_ahead && json->scanned == json->taken) {
        pthread_cond_wait(&json->moved, &json->lock);
    }
    if (!json->is_ahead) {
        scan_batch(json);
        json->scanned++;
    }
    json->now = &json->batches[json->taken % BATCH_COUNT];
    json->at = 0;
    pthread_mutex_unlock(&json->lock);
}

status trace_json_next(trace_json_stream *json, const trace_json_item **item, error_message *err)
{
    while (json->now == NULL || json->at == json->now->count) {
        if (json->now != NULL && json->now->result != STATUS_OK) {
            if (err != NULL) *err = json->now->err;
            return json->now->result;
        }
        next_batch(json);
    }
    *item = &json->now->items[json->at++];
    return STATUS_OK;
}

trace_json_slice trace_json_find(trace_json_slice object, const char *key)
{
    const trace_json_slice none = {0};
    const size_t length = strlen(key);
    if (object.bytes == NULL || object.length < 2 || *object.bytes != '{') return none;
    scan text = {object.bytes + 1, object.bytes + object.length};
    if (skip_blanks(&text) != SCAN_OK || *text.at == '}') return none;
    for (bool is_last = false; !is_last;) {
        trace_json_slice name;
        trace_json_slice value;
        if (scan_member(&text, &name, &value) != SCAN_OK) return none;
        if (name.length == length + 2 && name.bytes[1] == *key &&
            memcmp(name.bytes + 1, key, length) == 0) {
            return value;
        }
        if (scan_separator(&text, '}', &is_last) != SCAN_OK) return none;
    }
    return none;
}

/// Reads the four digits of \uXXXX; -1 if they are none.
static int32_t unicode_escape(const char *at, const char *end)
{
    static const char digits[] = "0123456789abcdefABCDEF";
    int32_t code = 0;
    if (end - at < 4) return -1;
    for (int digit = 0; digit < 4; digit++) {
        const char *found = memchr(digits, at[digit], sizeof digits - 1);
        if (found == NULL) return -1;
        const int32_t value = (int32_t)(found - digits);
        code = code * 16 + (value < 16 ? value : value - 6);
    }
    return code;
}

/// UTF-8 of a code point. @return its length
static size_t utf8(int32_t code, char out[4])
{
    static const unsigned char first[] = {0, 0xC0, 0xE0, 0xF0};
    const int more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    out[0] = (char)(first[more] | (code >> (6 * more)));
    for (int byte = 1; byte <= more; byte++) {
        out[byte] = (char)(0x80 | ((code >> (6 * (more - byte))) & 0x3F));
    }
    return (size_t)more + 1;
}

/// The character after a backslash at *at, which is moved after it.
static int32_t escaped_character(const char **at, const char *end)
{
    const char letter = *(*at)++;
    switch (letter) {
    case 'b':
    case 'f':
    case 'n':
    case 'r':
    case 't':
        return ' ';
    case 'u':
        break;
    default:
        return (unsigned char)letter;
    }
    int32_t code = unicode_escape(*at, end);
    if (code < 0) return '?';
    *at += 4;
    if (code >= 0xDC00 && code < 0xE000) return '?';
    if (code < 0xD800 || code >= 0xDC00) return code;
    const bool is_pair = end - *at >= 6 && (*at)[0] == '\\' && (*at)[1] == 'u';
    const int32_t low = is_pair ? unicode_escape(*at + 2, end) : -1;
    if (low < 0xDC00 || low >= 0xE000) return '?';
    *at += 6;
    return 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
}

bool trace_json_text(trace_json_slice value, char *out, size_t capacity)
{
    const bool is_string = trace_json_is_string(value);
    const char *at = value.bytes;
    const char *end = at != NULL ? at + value.length - (is_string ? 1 : 0) : at;
    size_t length = 0;
    bool fits = true;
    if (is_string) at++;
    while (at < end) {
        char bytes[4] = {*at++};
        size_t count = 1;
        if (bytes[0] == '\\' && is_string && at < end) {
            count = utf8(escaped_character(&at, end), bytes);
        }
        if (bytes[0] == '\0') bytes[0] = '?'; // or the text would end there
        fits = length + count < capacity;
        if (!fits) break;
        memcpy(out + length, bytes, count);
        length += count;
    }
    out[length] = '\0';
    text_mask_control(out, "");
    return fits;
}

bool trace_json_int64(trace_json_slice value, int64_t *out)
{
    const char *at = value.bytes;
    const char *end = at + value.length;
    const bool is_negative = value.length > 0 && *at == '-';
    int64_t number = 0; // not above 0, as there are more negative numbers
    at += is_negative;
    if (at == end) return false;
    for (; at < end; at++) {
        if (*at < '0' || *at > '9' || __builtin_mul_overflow(number, 10, &number) ||
            __builtin_sub_overflow(number, *at - '0', &number)) {
            return false;
        }
    }
    if (!is_negative && number == INT64_MIN) return false;
    *out = is_negative ? number : -number;
    return true;
}

#include "base/text.h"
#include "base/arena.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

status text_parse_int64(const char *text, const char *what, int64_t min, int64_t max,
                        int64_t *value, error_message *err)
{
    const char *digits = text + (text[0] == '-');
    char *end = NULL;
    errno = 0;
    const int64_t parsed = strtoll(text, &end, 10);
    if (!isdigit((unsigned char)digits[0]) || *end != '\0') {
        return error_set(err, STATUS_INVALID, "%s: '%.60s' is not an integer", what, text);
    }
    if (errno == ERANGE || parsed < min || parsed > max) {
        return error_set(err, STATUS_INVALID, "%s: %.60s is outside [%" PRId64 ", %" PRId64 "]",
                         what, text, min, max);
    }
    *value = parsed;
    return STATUS_OK;
}

status text_parse_double(const char *text, const char *what, double min, double max, double *value,
                         error_message *err)
{
    const char *digits = text + (text[0] == '-');
    if (!isdigit((unsigned char)digits[0]) && digits[0] != '.') {
        return error_set(err, STATUS_INVALID, "%s: '%.60s' is not a number", what, text);
    }
    char *end = NULL;
    const double parsed = strtod(text, &end);
    if (*end != '\0' || end == digits || strpbrk(text, "xX") != NULL) {
        return error_set(err, STATUS_INVALID, "%s: '%.60s' is not a number", what, text);
    }
    if (!(parsed >= min && parsed <= max)) {
        return error_set(err, STATUS_INVALID, "%s: %.60s is outside [%g, %g]", what, text, min,
                         max);
    }
    *value = parsed;
    return STATUS_OK;
}

/// The digits of a decimal number and the place of its point, as text_parse_decimal_ns reads them.
typedef struct decimal {
    bool negative;
    int digit_count;
    char digits[40]; // significant digits; further ones are dropped, which is below 1e-37 of it
    int point;       // the value is 0.d1d2d3... * 10^point
} decimal;

static bool decimal_read(const char *text, size_t length, decimal *number)
{
    *number = (decimal){0};
    size_t at = 0;
    if (at < length && text[at] == '-') {
        number->negative = true;
        at++;
    }
    bool any = false;
    bool fraction = false;
    int exponent_of_fraction = 0;
    int dropped = 0;
    for (; at < length && (isdigit((unsigned char)text[at]) || text[at] == '.'); at++) {
        if (text[at] == '.') {
            if (fraction) return false;
            fraction = true;
            continue;
        }
        any = true;
        if (fraction && exponent_of_fraction < INT_MAX / 4) exponent_of_fraction++;
        if (number->digit_count == 0 && text[at] == '0') continue;
        if (number->digit_count < (int)sizeof number->digits) {
            number->digits[number->digit_count++] = text[at];
        } else if (dropped < INT_MAX / 4) {
            dropped++;
        }
    }
    if (!any) return false;
    long exponent = 0;
    if (at < length && (text[at] == 'e' || text[at] == 'E')) {
        at++;
        bool negative = false;
        if (at < length && (text[at] == '-' || text[at] == '+')) negative = text[at++] == '-';
        if (at >= length) return false;
        for (; at < length && isdigit((unsigned char)text[at]); at++) {
            if (exponent < 100000) exponent = exponent * 10 + (text[at] - '0');
        }
        if (negative) exponent = -exponent;
    }
    if (at != length) return false;
    number->point = (int)(number->digit_count + dropped - exponent_of_fraction + exponent);
    return true;
}

/// Most numbers: up to 19 digits with at most one point after the first, none of them below a ns.
///
/// @return false for any other, which are read digit by digit
static bool short_decimal_ns(const char *text, size_t length, int64_t unit_ns, int64_t *value)
{
    uint64_t number = 0;
    size_t at = 0;
    if (length > 20 || (length == 20 && memchr(text, '.', length) == NULL)) return false;
    for (; at < length && text[at] >= '0' && text[at] <= '9'; at++) {
        number = number * 10 + (uint64_t)(text[at] - '0');
    }
    if (at == 0 || (at < length && text[at] != '.')) return false;
    for (at++; at < length && text[at] >= '0' && text[at] <= '9' && unit_ns > 1; at++) {
        number = number * 10 + (uint64_t)(text[at] - '0');
        unit_ns /= 10;
    }
    if (at < length || number > (uint64_t)(INT64_MAX - 10) / (uint64_t)unit_ns) return false;
    *value = (int64_t)number * unit_ns;
    return true;
}

status text_parse_decimal_ns(const char *text, size_t length, int64_t unit_ns, int64_t *value,
                             error_message *err)
{
    const int shown = length > 60 ? 60 : (int)length;
    decimal number;
    if (short_decimal_ns(text, length, unit_ns, value)) return STATUS_OK;
    if (!decimal_read(text, length, &number)) {
        return error_set(err, STATUS_INVALID, "'%.*s' is not a number", shown, text);
    }
    int unit_digits = 0;
    while (unit_ns > 1) {
        unit_ns /= 10;
        unit_digits++;
    }
    const int integer_digits = number.point + unit_digits;
    int64_t ns = 0;
    for (int place = 0; place < integer_digits && number.digit_count > 0; place++) {
        const int digit = place < number.digit_count ? number.digits[place] - '0' : 0;
        if (ns > (INT64_MAX - 10) / 10) {
            return error_set(err, STATUS_INVALID, "%.*s does not fit 64-bit nanoseconds", shown,
                             text);
        }
        ns = ns * 10 + digit;
    }
    const bool has_next = integer_digits >= 0 && integer_digits < number.digit_count;
    if (has_next && number.digits[integer_digits] >= '5') ns++;
    *value = number.negative ? -ns : ns;
    return STATUS_OK;
}

static void text_reserve(text_buffer *buffer, size_t extra)
{
    if (buffer->length + extra + 1 <= buffer->capacity) return;
    size_t capacity = buffer->capacity < 64 ? 64 : buffer->capacity * 2;
    while (capacity < buffer->length + extra + 1) {
        capacity *= 2;
    }
    if (buffer->memory == NULL) {
        buffer->bytes = memory_resize(buffer->bytes, capacity, 1);
    } else {
        char *larger = arena_array(buffer->memory, capacity, 1);
        if (buffer->length > 0) memcpy(larger, buffer->bytes, buffer->length);
        buffer->bytes = larger;
    }
    buffer->capacity = capacity;
}

double text_rounded(double value, int digits)
{
    char text[40];
    if (!isfinite(value)) return value;
    snprintf(text, sizeof text, "%.*e", digits - 1, value);
    return strtod(text, NULL);
}

void text_append(text_buffer *buffer, const char *piece)
{
    text_append_bytes(buffer, piece, strlen(piece));
}

void text_append_bytes(text_buffer *buffer, const char *bytes, size_t count)
{
    text_reserve(buffer, count);
    if (count > 0) memcpy(buffer->bytes + buffer->length, bytes, count);
    buffer->length += count;
    buffer->bytes[buffer->length] = '\0';
}

void text_format(text_buffer *buffer, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    va_list again;
    va_copy(again, arguments);
    const int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (length >= 0) {
        text_reserve(buffer, (size_t)length);
        vsnprintf(buffer->bytes + buffer->length, (size_t)length + 1, format, again);
        buffer->length += (size_t)length;
    }
    va_end(again);
}

void text_append_wrapped(text_buffer *buffer, const char *words, int indent, int columns)
{
    int column = 0;
    for (const char *at = words; *at != '\0';) {
        if (at[0] == '\n' && at[1] == '\n') {
            text_append(buffer, "\n\n");
            column = 0;
            at += 2;
            continue;
        }
        if (*at == ' ' || *at == '\n') {
            at++;
            continue;
        }
        const int length = (int)strcspn(at, " \n");
        if (column > 0 && column + 1 + length > columns) {
            text_append(buffer, "\n");
            column = 0;
        }
        if (column == 0) {
            text_format(buffer, "%*s", indent, "");
            column = indent;
        } else {
            text_append(buffer, " ");
            column++;
        }
        text_append_bytes(buffer, at, (size_t)length);
        column += length;
        at += length;
    }
    text_append(buffer, "\n");
}

void text_append_escaped(text_buffer *buffer, const char *text)
{
    for (const char *c = text; *c != '\0'; c++) {
        const char *escaped = *c == '<'   ? "&lt;"
                              : *c == '>' ? "&gt;"
                              : *c == '&' ? "&amp;"
                              : *c == '"' ? "&quot;"
                                          : NULL;
        if (escaped != NULL) {
            text_append(buffer, escaped);
        } else {
            text_append_bytes(buffer, c, 1);
        }
    }
}

/// The first control character; *bytes: how long it is.
static const char *find_control(const char *text, const char *kept, size_t *bytes)
{
    for (; *text != '\0'; text++) {
        const unsigned char first = (unsigned char)text[0];
        const unsigned char second = (unsigned char)text[1];
        const bool is_long = first == 0xc2 && second >= 0x80 && second < 0xa0;
        *bytes = is_long ? 2 : 1;
        if (is_long || ((first < ' ' || first == 0x7f) && strchr(kept, *text) == NULL)) return text;
    }
    return NULL;
}

bool text_has_control(const char *text, const char *kept)
{
    size_t bytes = 0;
    return find_control(text, kept, &bytes) != NULL;
}

void text_mask_control(char *text, const char *kept)
{
    size_t bytes = 0;
    for (const char *at = text; (at = find_control(at, kept, &bytes)) != NULL; at += bytes) {
        memset(text + (at - text), '?', bytes);
    }
}

void text_clear(text_buffer *buffer)
{
    buffer->length = 0;
    if (buffer->bytes != NULL) buffer->bytes[0] = '\0';
}

void text_free(text_buffer *buffer)
{
    if (buffer->memory == NULL) free(buffer->bytes);
    *buffer = (text_buffer){.memory = buffer->memory};
}

const char *text_keep(text_buffer *buffer, arena *memory)
{
    if (buffer->memory == memory && buffer->bytes != NULL) return buffer->bytes;
    const char *kept = arena_string(memory, buffer->bytes != NULL ? buffer->bytes : "");
    text_free(buffer);
    return kept;
}

text_words text_wording(const char *format, ...)
{
    text_words words;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(words.text, sizeof words.text, format, arguments);
    va_end(arguments);
    return words;
}

text_words text_count(int64_t count, const char *noun)
{
    const size_t length = strlen(noun);
    const bool is_hissed = length >= 2 && strcmp(noun + length - 2, "ch") == 0; // "batches"
    return text_wording("%" PRId64 " %s%s", count, noun, count == 1 ? "" : is_hissed ? "es" : "s");
}

text_words text_grouped(double value)
{
    const text_words digits = text_wording("%.0f", value);
    const size_t length = strlen(digits.text);
    text_words grouped = {""};
    for (size_t digit = 0, at = 0; digit < length && at + 2 < sizeof grouped.text; digit++) {
        if (digit > 0 && (length - digit) % 3 == 0) grouped.text[at++] = ',';
        grouped.text[at++] = digits.text[digit];
    }
    return grouped;
}

static text_words scaled(double value, const char *unit)
{
    const double magnitude = fabs(value);
    const int decimals = magnitude >= 99.95 ? 0 : magnitude >= 9.995 ? 1 : 2;
    return text_wording("%.*f %s", decimals, value, unit);
}

text_words text_duration(int64_t ns)
{
    const double magnitude = fabs((double)ns);
    if (magnitude < 1e3) return text_wording("%" PRId64 " ns", ns);
    if (magnitude < 999.5e3) return scaled((double)ns / 1e3, "us");
    if (magnitude < 999.5e6) return scaled((double)ns / 1e6, "ms");
    return scaled((double)ns / 1e9, "s");
}

text_words text_size(int64_t bytes)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    if (fabs(value) < 1024) return text_wording("%" PRId64 " B", bytes);
    int unit = -1;
    while (fabs(value) >= 1023.5 && unit < 5) {
        value /= 1024;
        unit++;
    }
    return scaled(value, units[unit]);
}

int text_find(const char *word, const char *const *names, int name_count)
{
    int found = 0;
    while (found < name_count && strcmp(word, names[found]) != 0) {
        found++;
    }
    return found;
}

static int edit_distance(const char *a, const char *b)
{
    enum { LIMIT = 40 };
    const int length_a = (int)strlen(a);
    const int length_b = (int)strlen(b);
    if (length_a > LIMIT || length_b > LIMIT) return LIMIT;
    int row[LIMIT + 1];
    for (int column = 0; column <= length_b; column++) {
        row[column] = column;
    }
    for (int line = 1; line <= length_a; line++) {
        int diagonal = row[0];
        row[0] = line;
        for (int column = 1; column <= length_b; column++) {
            const int replace = diagonal + (a[line - 1] != b[column - 1]);
            diagonal = row[column];
            const int insert = row[column - 1] + 1;
            const int erase = row[column] + 1;
            int best = replace < insert ? replace : insert;
            row[column] = best < erase ? best : erase;
        }
    }
    return row[length_b];
}

/// The shortest name that word begins, or NULL.
static const char *shortest_beginning(const char *word, const char *const *names, int name_count)
{
    const char *shortest = NULL;
    for (int name = 0; strlen(word) > 1 && name < name_count; name++) {
        const bool begins = strncmp(word, names[name], strlen(word)) == 0;
        const bool is_shorter = shortest == NULL || strlen(names[name]) < strlen(shortest);
        if (begins && is_shorter) shortest = names[name];
    }
    return shortest;
}

const char *text_nearest(const char *word, const char *const *names, int name_count)
{
    const char *begun = shortest_beginning(word, names, name_count);
    const char *nearest = NULL;
    int nearest_distance = (int)strlen(word) / 3 + 1;
    if (begun != NULL) return begun;
    for (int name = 0; name < name_count; name++) {
        const int distance = edit_distance(word, names[name]);
        if (distance < nearest_distance) {
            nearest = names[name];
            nearest_distance = distance;
        }
    }
    return nearest;
}

const char *text_suggestion(const char *word, const char *const *names, int name_count,
                            char out[TEXT_SUGGESTION_BYTES])
{
    const char *nearest = text_nearest(word, names, name_count);
    if (nearest != NULL) {
        snprintf(out, TEXT_SUGGESTION_BYTES, "; did you mean '%.120s'?", nearest);
        return out;
    }
    size_t used = 0;
    out[0] = '\0';
    for (int name = 0; name < name_count; name++) {
        const size_t room = TEXT_SUGGESTION_BYTES - used;
        const int length =
            snprintf(out + used, room, "%s%s", name == 0 ? "; known: " : ", ", names[name]);
        if (length < 0 || (size_t)length >= room) {
            out[0] = '\0';
            return out;
        }
        used += (size_t)length;
    }
    return out;
}

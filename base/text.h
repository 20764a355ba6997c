/// Text in and out: strict numbers, a growing buffer, words for people.
#pragma once

#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/// Parses a decimal integer. The whole text must be one: no blanks, no sign but '-', no fraction.
///
/// @param what names the number in the message, for example "--stages"
/// @return STATUS_INVALID naming what, the text and the limits if the text is no integer, is
///         outside [min, max], or does not fit int64. value is then untouched.
status text_parse_int64(const char *text, const char *what, int64_t min, int64_t max,
                        int64_t *value, error_message *err);

/// Parses a decimal number; infinity and NaN are refused. Otherwise as text_parse_int64.
status text_parse_double(const char *text, const char *what, double min, double max, double *value,
                         error_message *err);

/// Parses a time in microseconds or another decimal unit into integer nanoseconds, exactly:
/// "1002.345" with unit_ns 1000 is 1002345. Digits below 1 ns are rounded half up. An exponent
/// is allowed, as JSON writers use it.
///
/// @param text   [length], not terminated; a JSON number
/// @return STATUS_INVALID if it is no number or does not fit int64.
status text_parse_decimal_ns(const char *text, size_t length, int64_t unit_ns, int64_t *value,
                             error_message *err);

/// The number with this many significant digits that is nearest to value: what is left of a result
/// whose last digits depend on the machine's libm. Not finite: itself.
double text_rounded(double value, int digits);

/// A growing string. Zero-initialise; release with text_free. With memory it needs no release.
typedef struct text_buffer {
    char *bytes; // [length + 1], terminated; NULL while empty
    size_t length;
    size_t capacity;
    arena *memory; // from which bytes are carved; NULL: they are the buffer's own
} text_buffer;

void text_append(text_buffer *buffer, const char *piece);
void text_append_bytes(text_buffer *buffer, const char *bytes, size_t count);
void text_format(text_buffer *buffer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/// Appends words in lines of at most columns, every line after indent blanks; a longer word has a
/// line of its own. Two line ends in words begin a paragraph, one is a blank.
void text_append_wrapped(text_buffer *buffer, const char *words, int indent, int columns);

/// Appends text as HTML and XML want it: with & < > and " escaped.
void text_append_escaped(text_buffer *buffer, const char *text);

/// Whether a text of UTF-8 holds a control character, which can tell a terminal what to do: one
/// below a blank, U+007F or one of U+0080 to U+009F. kept: those that may stand there, or "".
bool text_has_control(const char *text, const char *kept);

/// Puts ? in place of each byte of them.
void text_mask_control(char *text, const char *kept);
void text_clear(text_buffer *buffer); ///< length 0, memory kept
void text_free(text_buffer *buffer);

/// Moves the text into memory: what an empty buffer held is "". A buffer without memory is free
/// then.
const char *text_keep(text_buffer *buffer, arena *memory);

/// A few words by value, so that they can stand among the arguments of a format.
typedef struct text_words {
    char text[64];
} text_words;

text_words text_wording(const char *format, ...) __attribute__((format(printf, 1, 2)));
text_words text_count(int64_t count, const char *noun); ///< "1 layer", "2 batches"
text_words text_grouped(double value);                  ///< a whole number with commas: "157,286"
text_words text_duration(int64_t ns);                   ///< three digits and a unit: "1.23 ms"
text_words text_size(int64_t bytes);                    ///< with a binary unit: "1.50 GiB"

/// The index of a word among names; name_count: it is none of them.
int text_find(const char *word, const char *const *names, int name_count);

/// The shortest name in names that begins with word, or the one that is closest to it; NULL if none
/// begins so or is close (more than a third of the letters differ).
const char *text_nearest(const char *word, const char *const *names, int name_count);

enum { TEXT_SUGGESTION_BYTES = 200 };

/// The end of a message about an unknown word: "; did you mean 'NAME'?" with the nearest name; if
/// none is close "; known: NAME, ..." with all of them, or "" if they are too many for out.
///
/// @param out where the text is written
/// @return out
const char *text_suggestion(const char *word, const char *const *names, int name_count,
                            char out[TEXT_SUGGESTION_BYTES]);

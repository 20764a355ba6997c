/// JSON in and out: the only place that knows cJSON.
///
/// Reading is strict: one document, no trailing text, no duplicate keys, integers up to 2^53 (a
/// larger one is refused by its key), and every getter names the path of what it refuses. Writing
/// is a stream into a text buffer: integers exact, doubles with the fewest digits that read back.
#pragma once

#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { JSON_INTEGER_BITS = 53, JSON_DEPTH_MAX = 64, JSON_VALUES_MAX = 1 << 23 };
#define JSON_INTEGER_MAX (INT64_C(1) << JSON_INTEGER_BITS)

typedef struct json_document json_document;

/// A value inside a document, or a missing one (is_missing). Borrowed until the document closes.
typedef struct json_value {
    const void *node; // NULL if missing
    const json_document *document;
    const char *key;    // last key or "" at the root; for messages
    const void *parent; // the container it was looked for in
} json_value;

/// Reads a whole file; "-" is standard input. Files above 256 MiB are refused.
///
/// @return STATUS_IO or STATUS_FORMAT with path and line. Release with json_close.
status json_open(const char *path, json_document **document, error_message *err);

/// As json_open, from bytes[length]; name stands for the path in messages.
status json_open_bytes(const char *name, const char *bytes, size_t length, json_document **document,
                       error_message *err);

void json_close(json_document *document);

/// Has a document close with memory. @return its root
json_value json_keep(json_document *document, arena *memory);

/// As json_open_bytes, of a text whose document closes with memory. @param root out
status json_read_text(const char *name, const char *text, arena *memory, json_value *root,
                      error_message *err);

json_value json_root(const json_document *document);
bool json_is_missing(json_value value); ///< absent, or null
bool json_is_object(json_value value);
bool json_is_array(json_value value);
bool json_is_string(json_value value);
bool json_is_number(json_value value);

/// The member of an object; missing if object is missing or has no such key.
json_value json_member(json_value object, const char *key);

/// The value at a path of keys with dots between them; missing where there is none.
json_value json_at(json_value object, const char *path);

int json_count(json_value container);                     ///< members or elements; 0 if neither
json_value json_element(json_value container, int index); ///< element, or member in file order
json_value json_next(json_value element); ///< the one after it in its container, or missing
const char *json_key(json_value value);   ///< its key in the object that holds it

/// Refuses an object with a key that is not in allowed, naming the nearest allowed one.
status json_check_keys(json_value object, const char *const *allowed, int allowed_count,
                       error_message *err);

/// Getters. Each returns STATUS_FORMAT with "file: path.to.key: ..." if the value is missing, has
/// another type, or is outside [min, max]. The out parameter is then untouched.
status json_int64(json_value value, int64_t min, int64_t max, int64_t *out, error_message *err);
status json_int(json_value value, int min, int max, int *out, error_message *err);
status json_double(json_value value, double min, double max, double *out, error_message *err);
status json_bool(json_value value, bool *out, error_message *err);
status json_string(json_value value, const char **out, error_message *err); ///< borrowed

/// Reads an array of exactly count integers into out [count], up to the first that it refuses.
status json_int64_array(json_value value, int count, int64_t min, int64_t max, int64_t *out,
                        error_message *err);

/// Fails with the place of value in front: "study.json: pipeline.stages: <message>".
status json_error(json_value value, status code, error_message *err, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/// A stream of JSON text on one line. Commas, quotes and nesting are the writer's; keys before
/// values are the caller's (asserted).
typedef struct json_writer {
    text_buffer *out;
    int depth;
    bool has_items[JSON_DEPTH_MAX + 1]; // per level; 0 is outside of all containers
    bool after_key;
} json_writer;

json_writer json_writer_init(text_buffer *out);

/// An object that is a line of its own: begun, ended with a line end after it.
json_writer json_line_begin(text_buffer *out);
void json_line_end(json_writer *writer);

void json_begin_object(json_writer *writer);
void json_end_object(json_writer *writer);
void json_begin_array(json_writer *writer);
void json_end_array(json_writer *writer);
void json_write_key(json_writer *writer, const char *key);

/// A member, its key and its value; with key NULL an element of an array, what follows a key, or
/// the root.
void json_put_object(json_writer *writer, const char *key); ///< begun; json_end_object ends it
void json_put_array(json_writer *writer, const char *key);
void json_put_int64(json_writer *writer, const char *key, int64_t value);
void json_put_optional(json_writer *writer, const char *key, int64_t value); ///< below 0: null
void json_put_double(json_writer *writer, const char *key, double value);
void json_put_rounded(json_writer *writer, const char *key, double value,
                      int digits); ///< text_rounded
void json_put_bool(json_writer *writer, const char *key, bool value);
void json_put_string(json_writer *writer, const char *key, const char *value);
void json_put_value(json_writer *writer, const char *key, json_value value);
void json_put_null(json_writer *writer, const char *key);

/// @param values [count]; NULL: null
void json_put_int64_array(json_writer *writer, const char *key, const int64_t *values, int count);
void json_put_int_array(json_writer *writer, const char *key, const int *values, int count);

/// @param digits significant ones that are kept; 17: all
void json_put_double_array(json_writer *writer, const char *key, const double *values, int count,
                           int digits);

/// Writes a value as changes for json_change: one member "path.key.key" for each value below path
/// that is no object. Of an object without members nothing is written.
void json_put_leaves(json_writer *writer, const char *path, json_value value);

/// Reads a document with other values at some of its places.
///
/// @param name    stands for the document's path in messages
/// @param changes a JSON object: each key is a path of keys with dots between them, its value what
///                then stands there; null removes. Objects on the way are made where there are
///                none: {"training.microbatches":96,"dynamism.seed":3}
/// @return STATUS_FORMAT if one of the texts is malformed, the document or changes is no object, or
///         a path leads through a value that is no object. Release with json_close.
status json_open_changed(const char *name, const char *text, const char *changes,
                         json_document **document, error_message *err);

/// Changes a document in place, for one that is read with many changes, one after the other.
///
/// @return as json_open_changed; what came before the refused change is then changed
status json_apply(json_document *document, const char *changes, error_message *err);

/// Makes a document as it was before all that json_apply did; values in it are no more.
void json_revert(json_document *document);

/// The same as text: the changed document is appended, on one line; out is untouched on failure.
status json_change(const char *name, const char *document, const char *changes, text_buffer *out,
                   error_message *err);

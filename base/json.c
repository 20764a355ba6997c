#include "base/json.h"

#include "base/arena.h"
#include "base/file.h"

#include <assert.h>
#include <cjson/cJSON.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { JSON_FILE_BYTES_MAX = 256 << 20, JSON_PATH_BYTES = 200 };

/// A member that was put into an object, in the place of another or of none.
typedef struct replacement {
    cJSON *object;
    cJSON *put;      // NULL: nothing, the other was only taken out
    cJSON *replaced; // NULL: there was none
    cJSON *follower; // of what was replaced; NULL: it was the last
} replacement;

struct json_document {
    cJSON *root;
    char *name;
    replacement *replacements; // [replacement_count] since the document was read, in turn
    size_t replacement_count;
};

static const cJSON *node_of(json_value value)
{
    return value.node;
}

static int line_of(const char *bytes, size_t offset)
{
    int line = 1;
    for (size_t at = 0; at < offset; at++) {
        line += bytes[at] == '\n';
    }
    return line;
}

/// What a text holds that cJSON would not keep is looked for before it reads: it keeps numbers as
/// double and nests without asking.
typedef struct text_check {
    const char *name;
    const char *bytes; // [length]
    size_t length;
    const char *last_string; // a key, in front of a number: for messages
    int last_string_length;
} text_check;

/// From an opening quote to the closing one, or the end.
static size_t string_end(text_check *text, size_t begin)
{
    enum { SHOWN_MAX = 60 };
    size_t at = begin + 1;
    while (at < text->length && text->bytes[at] != '"') {
        at += text->bytes[at] == '\\' ? 2 : 1;
    }
    if (at > text->length) at = text->length;
    const size_t shown = at - begin - 1;
    text->last_string = text->bytes + begin + 1;
    text->last_string_length = shown > SHOWN_MAX ? SHOWN_MAX : (int)shown;
    return at;
}

static bool is_digit_at(const text_check *text, size_t at)
{
    return at < text->length && text->bytes[at] >= '0' && text->bytes[at] <= '9';
}

static size_t digits_end(const text_check *text, size_t at)
{
    while (is_digit_at(text, at)) {
        at++;
    }
    return at;
}

static bool is_one_of(const text_check *text, size_t at, const char *characters)
{
    return at < text->length && text->bytes[at] != '\0' &&
           strchr(characters, text->bytes[at]) != NULL;
}

/// Where the number ends whose digits begin at `begin`, as JSON has it; 0 where it is none: cJSON
/// also takes 01, 1. and 1e.
static size_t number_end(const text_check *text, size_t begin)
{
    size_t at = digits_end(text, begin);
    if (text->bytes[begin] == '0' && at > begin + 1) return 0;
    if (is_one_of(text, at, ".")) {
        if (!is_digit_at(text, ++at)) return 0;
        at = digits_end(text, at);
    }
    if (is_one_of(text, at, "eE")) {
        at++;
        if (is_one_of(text, at, "+-")) at++;
        if (!is_digit_at(text, at)) return 0;
        at = digits_end(text, at);
    }
    return is_one_of(text, at, ".eE+-") ? 0 : at;
}

/// To the last byte of a number; an integer above 2^53 is refused.
static status check_number(const text_check *text, size_t begin, size_t *last, error_message *err)
{
    const size_t end = number_end(text, begin);
    uint64_t magnitude = 0;
    if (end == 0) {
        return error_set(err, STATUS_FORMAT, "%s:%d: not valid JSON", text->name,
                         line_of(text->bytes, begin));
    }
    *last = end - 1;
    if (digits_end(text, begin) < end) return STATUS_OK;
    for (size_t at = begin; at < end && magnitude <= (uint64_t)JSON_INTEGER_MAX; at++) {
        magnitude = magnitude * 10 + (uint64_t)(text->bytes[at] - '0');
    }
    if (magnitude <= (uint64_t)JSON_INTEGER_MAX) return STATUS_OK;
    const int digits = end - begin > 40 ? 40 : (int)(end - begin);
    return error_set(err, STATUS_FORMAT,
                     "%s:%d: %.*s: integer %.*s exceeds 2^53 = 9007199254740992", text->name,
                     line_of(text->bytes, begin), text->last_string_length, text->last_string,
                     digits, text->bytes + begin);
}

/// The bytes of the UTF-8 character at the front of text[room], room >= 1; 0 if there is none:
/// cut off, overlong, a surrogate, or above U+10FFFF.
static size_t utf8_length(const char *text, size_t room)
{
    const unsigned char *bytes = (const unsigned char *)text;
    const unsigned char lead = bytes[0];
    if (lead < 0x80) return 1;
    const size_t length = lead >= 0xc2 && lead <= 0xdf   ? 2
                          : lead >= 0xe0 && lead <= 0xef ? 3
                          : lead >= 0xf0 && lead <= 0xf4 ? 4
                                                         : 0;
    if (length > room) return 0;
    for (size_t at = 1; at < length; at++) {
        if ((bytes[at] & 0xc0) != 0x80) return 0;
    }
    const bool is_overlong = (lead == 0xe0 && bytes[1] < 0xa0) || (lead == 0xf0 && bytes[1] < 0x90);
    const bool is_none = (lead == 0xed && bytes[1] > 0x9f) || (lead == 0xf4 && bytes[1] > 0x8f);
    return is_overlong || is_none ? 0 : length;
}

/// Files of other kinds are told by how they begin.
static status check_kind(const char *name, const char *bytes, size_t length, error_message *err)
{
    static const char sqlite[] = "SQLite format 3";
    const bool is_sqlite = length >= strlen(sqlite) && memcmp(bytes, sqlite, strlen(sqlite)) == 0;
    const bool is_gzip = length >= 2 && memcmp(bytes, "\x1f\x8b", 2) == 0;
    if (!is_sqlite && !is_gzip) return STATUS_OK;
    return error_set(err, STATUS_FORMAT, "%s: is %s, not JSON", name,
                     is_sqlite ? "a SQLite file" : "compressed by gzip");
}

static status check_encoding(const char *name, const char *bytes, size_t length, error_message *err)
{
    for (size_t at = 0; at < length;) {
        const size_t step = utf8_length(bytes + at, length - at);
        if (step == 0) {
            return error_set(err, STATUS_FORMAT, "%s:%d: byte 0x%02x is not UTF-8", name,
                             line_of(bytes, at), (unsigned char)bytes[at]);
        }
        at += step;
    }
    return STATUS_OK;
}

static bool is_key(const text_check *text, size_t end)
{
    size_t at = end + 1;
    while (is_one_of(text, at, " \t\r\n")) {
        at++;
    }
    return is_one_of(text, at, ":");
}

/// Texts end at a zero byte: what stands after an escaped one would be lost.
static status check_string(const text_check *text, size_t begin, size_t end, error_message *err)
{
    for (size_t at = begin; at + 6 <= end; at++) {
        if (text->bytes[at] != '\\') continue;
        if (memcmp(text->bytes + at, "\\u0000", 6) == 0) {
            if (is_key(text, end)) {
                return error_set(err, STATUS_FORMAT, "%s:%d: a key holds \\u0000", text->name,
                                 line_of(text->bytes, at));
            }
            return error_set(err, STATUS_FORMAT, "%s:%d: %.*s: the text holds \\u0000", text->name,
                             line_of(text->bytes, at), text->last_string_length, text->last_string);
        }
        at++;
    }
    return STATUS_OK;
}

static status check_text(const char *name, const char *bytes, size_t length, error_message *err)
{
    text_check text = {.name = name, .bytes = bytes, .length = length, .last_string = bytes};
    int depth = 0;
    int value_count = 0;
    for (size_t at = 0; at < length; at++) {
        const char byte = bytes[at];
        value_count += byte == ',' || byte == '{' || byte == '[';
        if (value_count > JSON_VALUES_MAX) {
            return error_set(err, STATUS_FORMAT, "%s: more than %d values", name, JSON_VALUES_MAX);
        }
        if (byte == '"') {
            text_check inside = text;
            const size_t begin = at;
            at = string_end(&text, at);
            TRY(check_string(&inside, begin, at, err));
        } else if (byte == '{' || byte == '[') {
            if (++depth > JSON_DEPTH_MAX) {
                return error_set(err, STATUS_FORMAT, "%s:%d: nested deeper than %d levels", name,
                                 line_of(bytes, at), JSON_DEPTH_MAX);
            }
        } else if (byte == '}' || byte == ']') {
            depth--;
        } else if (byte >= '0' && byte <= '9') {
            TRY(check_number(&text, at, &at, err));
        }
    }
    return STATUS_OK;
}

static int compare_keys(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static status check_duplicates_of(const char *name, const cJSON *object, error_message *err)
{
    const int count = cJSON_GetArraySize(object);
    const char **keys = memory_array((size_t)(count > 0 ? count : 1), sizeof *keys);
    int filled = 0;
    for (const cJSON *child = object->child; child != NULL; child = child->next) {
        keys[filled++] = child->string;
    }
    qsort(keys, (size_t)filled, sizeof *keys, compare_keys);
    status result = STATUS_OK;
    for (int key = 1; key < filled && result == STATUS_OK; key++) {
        if (strcmp(keys[key - 1], keys[key]) == 0) {
            result = error_set(err, STATUS_FORMAT, "%s: key '%.80s' appears twice in one object",
                               name, keys[key]);
        }
    }
    free(keys);
    return result;
}

/// A walk over a document, depth first: the containers around the node that it is at. check_text
/// has bounded the depth.
typedef struct walk {
    const cJSON *around[JSON_DEPTH_MAX + 1]; // [depth]
    int depth;
} walk;

/// The node after node, or NULL after the last.
static const cJSON *walk_next(walk *path, const cJSON *node)
{
    if (node->child != NULL) {
        path->around[path->depth++] = node;
        return node->child;
    }
    while (path->depth > 0 && node->next == NULL) {
        node = path->around[--path->depth];
    }
    return path->depth > 0 ? node->next : NULL;
}

static status check_nodes(const char *name, const cJSON *root, error_message *err)
{
    walk path = {.depth = 0};
    for (const cJSON *node = root; node != NULL; node = walk_next(&path, node)) {
        if (cJSON_IsNumber(node) && !isfinite(node->valuedouble)) {
            return error_set(err, STATUS_FORMAT, "%s: %.80s: the number exceeds %g", name,
                             node->string != NULL ? node->string : "array", DBL_MAX);
        }
        if (cJSON_IsObject(node)) TRY(check_duplicates_of(name, node, err));
    }
    return STATUS_OK;
}

/// Memory for cJSON, which takes the want of it for bad JSON.
static void *take(size_t size)
{
    return memory_resize(NULL, size, 1);
}

static void set_up(void)
{
    cJSON_InitHooks(&(cJSON_Hooks){.malloc_fn = take, .free_fn = free});
}

static pthread_once_t is_set_up = PTHREAD_ONCE_INIT;

status json_open_bytes(const char *name, const char *bytes, size_t length, json_document **document,
                       error_message *err)
{
    TRY(check_kind(name, bytes, length, err));
    TRY(check_encoding(name, bytes, length, err));
    TRY(check_text(name, bytes, length, err));
    const char *end = NULL;
    pthread_once(&is_set_up, set_up);
    cJSON *root = cJSON_ParseWithLengthOpts(bytes, length, &end, 0);
    if (root == NULL) {
        const size_t offset = end != NULL ? (size_t)(end - bytes) : 0;
        return error_set(err, STATUS_FORMAT, "%s:%d: not valid JSON", name,
                         line_of(bytes, offset < length ? offset : length));
    }
    for (; end < bytes + length; end++) {
        if (strchr(" \t\r\n", *end) == NULL || *end == '\0') {
            const int line = line_of(bytes, (size_t)(end - bytes));
            cJSON_Delete(root);
            return error_set(err, STATUS_FORMAT, "%s:%d: text after the end of the document", name,
                             line);
        }
    }
    const status checked = check_nodes(name, root, err);
    if (checked != STATUS_OK) {
        cJSON_Delete(root);
        return checked;
    }
    json_document *opened = memory_array(1, sizeof *opened);
    char *copy = memory_array(strlen(name) + 1, 1);
    strcpy(copy, name);
    *opened = (json_document){.root = root, .name = copy};
    *document = opened;
    return STATUS_OK;
}

status json_open(const char *path, json_document **document, error_message *err)
{
    char *bytes = NULL;
    size_t length = 0;
    TRY(file_read(path, JSON_FILE_BYTES_MAX, &bytes, &length, err));
    const status result = json_open_bytes(path, bytes, length, document, err);
    free(bytes);
    return result;
}

void json_close(json_document *document)
{
    if (document == NULL) return;
    cJSON_Delete(document->root);
    for (size_t index = 0; index < document->replacement_count; index++) {
        cJSON_Delete(document->replacements[index].replaced);
    }
    free(document->replacements);
    free(document->name);
    free(document);
}

json_value json_root(const json_document *document)
{
    return (json_value){.node = document->root, .document = document, .key = ""};
}

static void close_kept(void *document)
{
    json_close(document);
}

json_value json_keep(json_document *document, arena *memory)
{
    arena_own(memory, document, close_kept);
    return json_root(document);
}

status json_read_text(const char *name, const char *text, arena *memory, json_value *root,
                      error_message *err)
{
    json_document *document = NULL;
    TRY(json_open_bytes(name, text, strlen(text), &document, err));
    *root = json_keep(document, memory);
    return STATUS_OK;
}

bool json_is_missing(json_value value)
{
    return value.node == NULL || cJSON_IsNull(node_of(value));
}

bool json_is_object(json_value value)
{
    return cJSON_IsObject(node_of(value));
}

bool json_is_array(json_value value)
{
    return cJSON_IsArray(node_of(value));
}

bool json_is_string(json_value value)
{
    return cJSON_IsString(node_of(value));
}

bool json_is_number(json_value value)
{
    return cJSON_IsNumber(node_of(value));
}

json_value json_member(json_value object, const char *key)
{
    json_value member = {.document = object.document, .key = key, .parent = node_of(object)};
    if (cJSON_IsObject(node_of(object))) {
        member.node = cJSON_GetObjectItemCaseSensitive(node_of(object), key);
    }
    return member;
}

json_value json_at(json_value object, const char *path)
{
    char key[128];
    for (const char *dot = strchr(path, '.'); dot != NULL; dot = strchr(path, '.')) {
        snprintf(key, sizeof key, "%.*s", (int)(dot - path), path);
        object = json_member(object, key);
        path = dot + 1;
    }
    return json_member(object, path);
}

int json_count(json_value container)
{
    const cJSON *node = node_of(container);
    return cJSON_IsArray(node) || cJSON_IsObject(node) ? cJSON_GetArraySize(node) : 0;
}

/// A member or an element of a container; missing where node is NULL.
static json_value value_in(const void *container, const cJSON *node, const json_document *document)
{
    return (json_value){.node = node,
                        .document = document,
                        .key = node != NULL && node->string != NULL ? node->string : "",
                        .parent = container};
}

json_value json_element(json_value container, int index)
{
    return value_in(container.node, cJSON_GetArrayItem(node_of(container), index),
                    container.document);
}

json_value json_next(json_value element)
{
    return value_in(element.parent, element.node != NULL ? node_of(element)->next : NULL,
                    element.document);
}

const char *json_key(json_value value)
{
    return value.key;
}

/// Appends one step of a path: ".key", or "[index]".
static void path_append(char path[JSON_PATH_BYTES], const cJSON *container, const cJSON *child)
{
    const size_t length = strlen(path);
    char *end = path + length;
    if (child->string != NULL) {
        snprintf(end, JSON_PATH_BYTES - length, "%s%s", length > 0 ? "." : "", child->string);
        return;
    }
    int index = 0;
    for (const cJSON *other = container->child; other != child; other = other->next) {
        index++;
    }
    snprintf(end, JSON_PATH_BYTES - length, "[%d]", index);
}

/// Writes the path of target, which is in the document: a search that only a failing read pays for.
static void path_of(const cJSON *root, const cJSON *target, char path[JSON_PATH_BYTES])
{
    walk around = {.depth = 0};
    const cJSON *node = root;
    while (node != target) {
        node = walk_next(&around, node);
        assert(node != NULL);
    }
    path[0] = '\0';
    for (int level = 0; level < around.depth; level++) {
        const bool is_last = level + 1 == around.depth;
        path_append(path, around.around[level], is_last ? node : around.around[level + 1]);
    }
}

status json_error(json_value value, status code, error_message *err, const char *format, ...)
{
    char message[256];
    va_list arguments;
    if (err == NULL) return code; // the path is searched for in the whole document
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    char path[JSON_PATH_BYTES] = "";
    const cJSON *target = value.node != NULL ? node_of(value) : value.parent;
    if (target != NULL) path_of(value.document->root, target, path);
    if (value.node == NULL && value.key != NULL) {
        const size_t length = strlen(path);
        snprintf(path + length, sizeof path - length, "%s%s", length > 0 ? "." : "", value.key);
    }
    const char *colon = path[0] != '\0' ? ": " : "";
    return error_set(err, code, "%s: %s%s%s", value.document->name, path, colon, message);
}

status json_check_keys(json_value object, const char *const *allowed, int allowed_count,
                       error_message *err)
{
    if (!json_is_object(object)) return json_error(object, STATUS_FORMAT, err, "not an object");
    for (const cJSON *child = node_of(object)->child; child != NULL; child = child->next) {
        if (text_find(child->string, allowed, allowed_count) < allowed_count) continue;
        char suggestion[TEXT_SUGGESTION_BYTES];
        return json_error(object, STATUS_FORMAT, err, "unknown key '%.60s'%s", child->string,
                          text_suggestion(child->string, allowed, allowed_count, suggestion));
    }
    return STATUS_OK;
}

static status refuse_missing(json_value value, const char *wanted, error_message *err)
{
    return json_error(value, STATUS_FORMAT, err,
                      value.node == NULL ? "missing; needs %s" : "is not %s", wanted);
}

status json_int64(json_value value, int64_t min, int64_t max, int64_t *out, error_message *err)
{
    if (!cJSON_IsNumber(node_of(value))) return refuse_missing(value, "an integer", err);
    const double number = node_of(value)->valuedouble;
    if (number != floor(number)) {
        return json_error(value, STATUS_FORMAT, err, "%g is not an integer", number);
    }
    if (fabs(number) > (double)JSON_INTEGER_MAX) {
        return json_error(value, STATUS_FORMAT, err, "integer %g exceeds 2^53", number);
    }
    const int64_t integer = (int64_t)number;
    if (integer < min || integer > max) {
        return json_error(value, STATUS_FORMAT, err,
                          "%" PRId64 " is outside [%" PRId64 ", %" PRId64 "]", integer, min, max);
    }
    *out = integer;
    return STATUS_OK;
}

status json_int(json_value value, int min, int max, int *out, error_message *err)
{
    int64_t wide = 0;
    TRY(json_int64(value, min, max, &wide, err));
    *out = (int)wide;
    return STATUS_OK;
}

status json_double(json_value value, double min, double max, double *out, error_message *err)
{
    if (!cJSON_IsNumber(node_of(value))) return refuse_missing(value, "a number", err);
    const double number = node_of(value)->valuedouble;
    if (!(number >= min && number <= max)) {
        return json_error(value, STATUS_FORMAT, err, "%g is outside [%g, %g]", number, min, max);
    }
    *out = number;
    return STATUS_OK;
}

status json_bool(json_value value, bool *out, error_message *err)
{
    if (!cJSON_IsBool(node_of(value))) return refuse_missing(value, "true or false", err);
    *out = cJSON_IsTrue(node_of(value));
    return STATUS_OK;
}

status json_string(json_value value, const char **out, error_message *err)
{
    if (!cJSON_IsString(node_of(value))) return refuse_missing(value, "a string", err);
    *out = node_of(value)->valuestring;
    return STATUS_OK;
}

status json_int64_array(json_value value, int count, int64_t min, int64_t max, int64_t *out,
                        error_message *err)
{
    if (!json_is_array(value)) return refuse_missing(value, "an array", err);
    if (json_count(value) != count) {
        return json_error(value, STATUS_FORMAT, err, "has %d entries, needs %d", json_count(value),
                          count);
    }
    json_value element = json_element(value, 0);
    for (int index = 0; index < count; index++, element = json_next(element)) {
        TRY(json_int64(element, min, max, &out[index], err));
    }
    return STATUS_OK;
}

json_writer json_writer_init(text_buffer *out)
{
    return (json_writer){.out = out};
}

json_writer json_line_begin(text_buffer *out)
{
    json_writer writer = json_writer_init(out);
    json_begin_object(&writer);
    return writer;
}

void json_line_end(json_writer *writer)
{
    json_end_object(writer);
    text_append(writer->out, "\n");
}

static void begin_value(json_writer *writer, const char *key)
{
    if (key != NULL) json_write_key(writer, key);
    if (writer->after_key) {
        writer->after_key = false;
        return;
    }
    if (writer->depth == 0) return;
    if (writer->has_items[writer->depth]) text_append(writer->out, ",");
    writer->has_items[writer->depth] = true;
}

static void open_container(json_writer *writer, const char *key, const char *bracket)
{
    begin_value(writer, key);
    text_append(writer->out, bracket);
    writer->depth++;
    assert(writer->depth <= JSON_DEPTH_MAX);
    writer->has_items[writer->depth] = false;
}

static void close_container(json_writer *writer, const char *bracket)
{
    assert(writer->depth > 0 && !writer->after_key);
    writer->depth--;
    text_append(writer->out, bracket);
}

void json_begin_object(json_writer *writer)
{
    open_container(writer, NULL, "{");
}

void json_end_object(json_writer *writer)
{
    close_container(writer, "}");
}

void json_begin_array(json_writer *writer)
{
    open_container(writer, NULL, "[");
}

void json_end_array(json_writer *writer)
{
    close_container(writer, "]");
}

/// Names and paths may hold any bytes, a JSON document only UTF-8.
static void write_quoted(text_buffer *out, const char *value)
{
    text_append(out, "\"");
    size_t length = 0;
    for (const char *c = value; *c != '\0'; c += length > 0 ? length : 1) {
        const unsigned char byte = (unsigned char)*c;
        length = utf8_length(c, strnlen(c, 4));
        if (byte == '"' || byte == '\\') {
            text_format(out, "\\%c", byte);
        } else if (byte == '\n') {
            text_append(out, "\\n");
        } else if (byte == '\t') {
            text_append(out, "\\t");
        } else if (byte < 0x20) {
            text_format(out, "\\u%04x", byte);
        } else if (length == 0) {
            text_append(out, "\\ufffd");
        } else {
            text_append_bytes(out, c, length);
        }
    }
    text_append(out, "\"");
}

void json_write_key(json_writer *writer, const char *key)
{
    assert(!writer->after_key);
    begin_value(writer, NULL);
    write_quoted(writer->out, key);
    text_append(writer->out, ":");
    writer->after_key = true;
}

/// How many digits say a number, if 15 do, as those of people; else 16. Most that are computed need
/// 16 or 17, and each try is dear.
static int digits_needed(double value)
{
    char digits[40];
    if (fabs(value) < DBL_MIN) return 1;
    snprintf(digits, sizeof digits, "%.14e", value);
    if (strtod(digits, NULL) != value) return 16;
    int count = 1; // the first, in front of the point
    for (const char *digit = strchr(digits, '.') + 1; *digit >= '0' && *digit <= '9'; digit++) {
        if (*digit != '0') count = 1 + (int)(digit - strchr(digits, '.'));
    }
    return count;
}

void json_put_double(json_writer *writer, const char *key, double value)
{
    begin_value(writer, key);
    if (!isfinite(value)) {
        text_append(writer->out, "null");
        return;
    }
    char digits[40];
    for (int precision = digits_needed(value); precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, value);
        if (strtod(digits, NULL) == value) break;
    }
    text_append(writer->out, digits);
    // Without a point it would be an integer, and one that readers refuse.
    const bool looks_integer = strspn(digits, "-0123456789") == strlen(digits);
    if (looks_integer && fabs(value) > (double)JSON_INTEGER_MAX) text_append(writer->out, ".0");
}

void json_put_object(json_writer *writer, const char *key)
{
    open_container(writer, key, "{");
}

void json_put_array(json_writer *writer, const char *key)
{
    open_container(writer, key, "[");
}

void json_put_int64(json_writer *writer, const char *key, int64_t value)
{
    begin_value(writer, key);
    text_format(writer->out, "%" PRId64, value);
}

void json_put_null(json_writer *writer, const char *key)
{
    begin_value(writer, key);
    text_append(writer->out, "null");
}

/// Whether there are numbers to write; null if not.
static bool begin_numbers(json_writer *writer, const char *key, const void *values)
{
    begin_value(writer, key);
    text_append(writer->out, values != NULL ? "[" : "null");
    return values != NULL;
}

void json_put_int64_array(json_writer *writer, const char *key, const int64_t *values, int count)
{
    if (!begin_numbers(writer, key, values)) return;
    for (int index = 0; index < count; index++) {
        text_format(writer->out, "%s%" PRId64, index > 0 ? "," : "", values[index]);
    }
    text_append(writer->out, "]");
}

void json_put_int_array(json_writer *writer, const char *key, const int *values, int count)
{
    if (!begin_numbers(writer, key, values)) return;
    for (int index = 0; index < count; index++) {
        text_format(writer->out, "%s%d", index > 0 ? "," : "", values[index]);
    }
    text_append(writer->out, "]");
}

void json_put_double_array(json_writer *writer, const char *key, const double *values, int count,
                           int digits)
{
    json_put_array(writer, key);
    for (int index = 0; index < count; index++) {
        json_put_rounded(writer, NULL, values[index], digits);
    }
    json_end_array(writer);
}

void json_put_optional(json_writer *writer, const char *key, int64_t value)
{
    if (value < 0) {
        json_put_null(writer, key);
    } else {
        json_put_int64(writer, key, value);
    }
}

void json_put_rounded(json_writer *writer, const char *key, double value, int digits)
{
    json_put_double(writer, key, text_rounded(value, digits));
}

void json_put_bool(json_writer *writer, const char *key, bool value)
{
    begin_value(writer, key);
    text_append(writer->out, value ? "true" : "false");
}

void json_put_string(json_writer *writer, const char *key, const char *value)
{
    begin_value(writer, key);
    if (value == NULL) {
        text_append(writer->out, "null");
    } else {
        write_quoted(writer->out, value);
    }
}

/// Puts a member, which is then the object's, at the end of it in place of another with its key.
///
/// @param put NULL: the other is only taken out
static void put_member(json_document *document, cJSON *object, const char *key, cJSON *put)
{
    cJSON *replaced = cJSON_GetObjectItemCaseSensitive(object, key);
    document->replacements = memory_grow(document->replacements, document->replacement_count,
                                         sizeof *document->replacements);
    document->replacements[document->replacement_count++] =
        (replacement){object, put, replaced, replaced != NULL ? replaced->next : NULL};
    if (replaced != NULL) cJSON_DetachItemViaPointer(object, replaced);
    if (put != NULL) cJSON_AddItemToObject(object, key, put);
}

/// The object that holds the last key of a path; key is set to that key.
static status object_of_path(json_document *document, const char *path, cJSON **object,
                             const char **key, error_message *err)
{
    cJSON *at = document->root;
    const char *dot = NULL;
    for (; (dot = strchr(path, '.')) != NULL; path = dot + 1) {
        char step[JSON_PATH_BYTES];
        snprintf(step, sizeof step, "%.*s", (int)(dot - path), path);
        cJSON *child = cJSON_GetObjectItemCaseSensitive(at, step);
        if (child == NULL) {
            child = cJSON_CreateObject();
            put_member(document, at, step, child);
        }
        if (!cJSON_IsObject(child)) {
            return error_set(err, STATUS_FORMAT, "%s: '%s' is no object to change '%s' in",
                             document->name, step, dot + 1);
        }
        at = child;
    }
    *object = at;
    *key = path;
    return STATUS_OK;
}

static status change_all(json_document *document, const cJSON *changes, error_message *err)
{
    if (!cJSON_IsObject(document->root) || !cJSON_IsObject(changes)) {
        return error_set(err, STATUS_FORMAT, "%s: only an object can be changed, by an object",
                         document->name);
    }
    for (const cJSON *change = changes->child; change != NULL; change = change->next) {
        cJSON *object = NULL;
        const char *key = NULL;
        TRY(object_of_path(document, change->string, &object, &key, err));
        put_member(document, object, key, cJSON_IsNull(change) ? NULL : cJSON_Duplicate(change, 1));
    }
    return STATUS_OK;
}

status json_apply(json_document *document, const char *changes, error_message *err)
{
    json_document *wanted = NULL;
    TRY(json_open_bytes("changes", changes, strlen(changes), &wanted, err));
    const status changed = change_all(document, wanted->root, err);
    json_close(wanted);
    return changed;
}

/// cJSON_InsertItemInArray refuses some places in some versions.
static void insert_before(cJSON *object, cJSON *follower, cJSON *member)
{
    if (follower == NULL) {
        cJSON_AddItemToArray(object, member); // keeps its key
        return;
    }
    member->next = follower;
    member->prev = follower->prev;
    if (follower == object->child) {
        object->child = member;
    } else {
        follower->prev->next = member;
    }
    follower->prev = member;
}

void json_revert(json_document *document)
{
    while (document->replacement_count > 0) {
        const replacement last = document->replacements[--document->replacement_count];
        if (last.put != NULL) cJSON_Delete(cJSON_DetachItemViaPointer(last.object, last.put));
        if (last.replaced != NULL) insert_before(last.object, last.follower, last.replaced);
    }
}

static void write_scalar(json_writer *writer, const cJSON *node)
{
    const double value = node->valuedouble;
    if (cJSON_IsString(node)) {
        json_put_string(writer, NULL, node->valuestring);
    } else if (cJSON_IsBool(node)) {
        json_put_bool(writer, NULL, cJSON_IsTrue(node));
    } else if (cJSON_IsNull(node)) {
        json_put_null(writer, NULL);
    } else if (value == trunc(value) && fabs(value) <= (double)JSON_INTEGER_MAX) {
        json_put_int64(writer, NULL, (int64_t)value);
    } else {
        json_put_double(writer, NULL, value);
    }
}

/// Writes a document as it stands. cJSON's own printer rounds integers to 15 digits.
static void write_document(json_writer *writer, const cJSON *root)
{
    walk path = {.depth = 0};
    for (const cJSON *node = root; node != NULL;) {
        if (path.depth > 0 && node->string != NULL) json_write_key(writer, node->string);
        const bool is_container = cJSON_IsObject(node) || cJSON_IsArray(node);
        if (is_container) open_container(writer, NULL, cJSON_IsObject(node) ? "{" : "[");
        if (!is_container) write_scalar(writer, node);
        if (is_container && node->child == NULL) {
            close_container(writer, cJSON_IsObject(node) ? "}" : "]");
        }
        const int depth = path.depth;
        node = walk_next(&path, node);
        for (int level = depth; level > path.depth; level--) {
            close_container(writer, cJSON_IsObject(path.around[level - 1]) ? "}" : "]");
        }
    }
}

void json_put_value(json_writer *writer, const char *key, json_value value)
{
    if (value.node == NULL) {
        json_put_null(writer, key);
        return;
    }
    if (key != NULL) json_write_key(writer, key);
    // A member is written without its key, which is the caller's.
    cJSON alone = *node_of(value);
    alone.next = NULL;
    alone.string = NULL;
    write_document(writer, &alone);
}

/// The keys from the root of a walk to a node, after the path of the root.
static void write_leaf_key(json_writer *writer, const char *path, const walk *around,
                           const cJSON *node)
{
    text_buffer key = {0};
    text_append(&key, path);
    for (int level = 1; level < around->depth; level++) {
        text_format(&key, ".%s", around->around[level]->string);
    }
    if (around->depth > 0) text_format(&key, ".%s", node->string);
    json_write_key(writer, key.bytes);
    text_free(&key);
}

void json_put_leaves(json_writer *writer, const char *path, json_value value)
{
    if (!json_is_object(value)) {
        json_put_value(writer, path, value);
        return;
    }
    cJSON root = *node_of(value);
    root.next = NULL;
    walk around = {.depth = 0};
    const cJSON *node = walk_next(&around, &root);
    while (node != NULL) {
        cJSON leaf = *node; // what an array holds is part of its value: the walk goes past it
        leaf.child = NULL;
        if (!cJSON_IsObject(node)) {
            write_leaf_key(writer, path, &around, node);
            json_put_value(writer, NULL, (json_value){.node = node});
        }
        node = walk_next(&around, cJSON_IsObject(node) ? node : &leaf);
    }
}

status json_open_changed(const char *name, const char *text, const char *changes,
                         json_document **document, error_message *err)
{
    json_document *opened = NULL;
    TRY(json_open_bytes(name, text, strlen(text), &opened, err));
    const status result = json_apply(opened, changes, err);
    if (result == STATUS_OK) {
        *document = opened;
    } else {
        json_close(opened);
    }
    return result;
}

status json_change(const char *name, const char *document, const char *changes, text_buffer *out,
                   error_message *err)
{
    json_document *changed = NULL;
    TRY(json_open_changed(name, document, changes, &changed, err));
    json_writer writer = json_writer_init(out);
    write_document(&writer, changed->root);
    json_close(changed);
    return STATUS_OK;
}

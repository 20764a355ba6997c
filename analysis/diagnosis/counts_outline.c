#include "analysis/diagnosis/counts_outline.h"

#include "base/json.h"
#include "base/text.h"
#include "models/experts/line_reader.h"

#include <stdint.h>
#include <string.h>

enum { ITERATION_MAX = 2000000000 };

/// Whether every row of the line has one that equals it, and no two neighbours of the first half
/// do: what recomputation leaves.
static bool rows_repeat(json_value tpe, int row_count, int local_count, arena *memory)
{
    int64_t *rows = arena_array(memory, (size_t)row_count * (size_t)local_count, sizeof *rows);
    json_value row = json_element(tpe, 0);
    int repeated = 0;
    if (rows == NULL || row_count % 2 != 0) return false;
    const size_t bytes = (size_t)local_count * sizeof *rows;
    int kept = 0;
    for (int at = 0; at < row_count; at++, row = json_next(row)) {
        int64_t *here = rows + (size_t)kept * (size_t)local_count;
        if (json_int64_array(row, local_count, 0, INT32_MAX, here, NULL) != STATUS_OK) return false;
        const int64_t *oldest = rows + (size_t)repeated * (size_t)local_count;
        if (repeated < kept && memcmp(oldest, here, bytes) == 0) {
            repeated++;
        } else {
            kept++;
        }
    }
    return kept == repeated;
}

static status outline_line(json_value line, ana_counts_outline *found, arena *memory,
                           error_message *err)
{
    const char *block = NULL;
    int iteration = 0;
    TRY(json_string(json_member(line, "block"), &block, err));
    if (strcmp(block, "decoder") != 0) return STATUS_OK;
    TRY(json_int(json_member(line, "iter"), 0, ITERATION_MAX, &iteration, err));
    if (iteration > found->last_iteration) found->last_iteration = iteration;
    if (found->row_count > 0) return STATUS_OK;
    const json_value tpe = json_member(line, "tpe");
    found->row_count = json_count(tpe);
    found->local_count = json_count(json_element(tpe, 0));
    if (!json_is_array(tpe) || found->row_count < 1 || found->local_count < 1) {
        return json_error(tpe, STATUS_FORMAT, err, "not an array of microbatches");
    }
    found->is_repeated = rows_repeat(tpe, found->row_count, found->local_count, memory);
    return STATUS_OK;
}

static status outline_text(const char *place, const char *text, ana_counts_outline *found,
                           arena *memory, error_message *err)
{
    json_document *document = NULL;
    TRY(json_open_bytes(place, text, strlen(text), &document, err));
    const json_value line = json_root(document);
    const status result = json_is_object(line)
                              ? outline_line(line, found, memory, err)
                              : json_error(line, STATUS_FORMAT, err, "not an object");
    json_close(document);
    return result;
}

static status outline_lines(model_line_reader *reader, ana_counts_outline *found, arena *memory,
                            error_message *err)
{
    for (;;) {
        char *text = NULL;
        TRY(model_lines_next(reader, &text, err));
        if (text == NULL) return STATUS_OK;
        if (text[strspn(text, " \t")] == '\0') continue;
        TRY(outline_text(model_lines_place(reader), text, found, memory, err));
    }
}

/// "iteration,layer,microbatch,...": the reader checks the rest of the line.
static status outline_csv_row(const char *place, char *text, ana_counts_outline *found,
                              error_message *err)
{
    int64_t numbers[3];
    char *rest = text;
    for (int column = 0; column < 3; column++) {
        char *cell = strsep(&rest, ",");
        TRY(text_parse_int64(cell != NULL ? cell : "", place, 0, ITERATION_MAX, &numbers[column],
                             err));
    }
    if (numbers[0] > found->last_iteration) found->last_iteration = (int)numbers[0];
    if (numbers[2] >= found->row_count) found->row_count = (int)numbers[2] + 1;
    return STATUS_OK;
}

static status outline_csv(model_line_reader *reader, ana_counts_outline *found, error_message *err)
{
    char *text = NULL;
    TRY(model_lines_next(reader, &text, err));
    for (;;) {
        TRY(model_lines_next(reader, &text, err));
        if (text == NULL) return STATUS_OK;
        if (text[0] == '\0') continue;
        TRY(outline_csv_row(model_lines_place(reader), text, found, err));
    }
}

static status outline_all(model_line_reader *reader, const char *name, ana_counts_format format,
                          arena *memory, ana_counts_outline *outline, error_message *err)
{
    ana_counts_outline found = {.last_iteration = -1};
    if (format == ANA_COUNTS_CSV) {
        TRY(outline_csv(reader, &found, err));
    } else {
        TRY(outline_lines(reader, &found, memory, err));
    }
    if (found.row_count == 0) {
        return error_set(err, STATUS_FORMAT, "%.200s: no counts of a decoder layer", name);
    }
    *outline = found;
    return STATUS_OK;
}

status ana_counts_outline_read(const char *path, ana_counts_format format, arena *memory,
                               ana_counts_outline *outline, error_message *err)
{
    model_line_reader *reader = NULL;
    TRY(model_lines_open(path, &reader, err));
    const status result = outline_all(reader, path, format, memory, outline, err);
    model_lines_close(reader);
    return result;
}

status ana_counts_outline_bytes(const char *name, const char *bytes, size_t length,
                                ana_counts_format format, arena *memory,
                                ana_counts_outline *outline, error_message *err)
{
    model_line_reader *reader = NULL;
    TRY(model_lines_open_bytes(name, bytes, length, &reader, err));
    const status result = outline_all(reader, name, format, memory, outline, err);
    model_lines_close(reader);
    return result;
}

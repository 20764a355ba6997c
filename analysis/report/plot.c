#include "analysis/report/plot.h"

#include <assert.h>
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/// One byte of a text. "]]>" would end the text in SVG.
static void append_byte(text_buffer *out, const char *c, char replaced, const char *by)
{
    text_append_bytes(out, (unsigned char)*c < ' ' ? " " : *c == replaced ? by : c, 1);
    if (strncmp(c, "]>", 2) == 0) text_append(out, " ");
}

void ana_plot_quote(text_buffer *out, const char *text)
{
    text_append(out, "'");
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '\'') text_append(out, "'");
        append_byte(out, c, '\'', "'");
    }
    text_append(out, "'");
}

void ana_plot_cell(text_buffer *out, const char *text)
{
    text_append(out, "\"");
    for (const char *c = text; *c != '\0'; c++) {
        append_byte(out, c, '"', "'");
    }
    text_append(out, "\"");
}

/// Starts gnuplot with three open files as its standard streams.
static status start_gnuplot(int input, int output, int errors, pid_t *child, error_message *err)
{
    char *const words[] = {"gnuplot", "-d", NULL}; // -d: no settings of the user
    posix_spawn_file_actions_t actions;
    if (posix_spawn_file_actions_init(&actions) != 0) {
        return error_set(err, STATUS_NO_MEMORY, "gnuplot: out of memory");
    }
    posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, errors, STDERR_FILENO);
    const int failed = posix_spawnp(child, words[0], &actions, NULL, words, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (failed == ENOENT) {
        return error_set(err, STATUS_UNSUPPORTED, "no gnuplot on PATH, so no pictures");
    }
    if (failed != 0) return error_set(err, STATUS_BACKEND, "gnuplot: %s", strerror(failed));
    return STATUS_OK;
}

static status read_all(FILE *stream, text_buffer *out, error_message *err)
{
    char block[1 << 16];
    rewind(stream);
    for (size_t count; (count = fread(block, 1, sizeof block, stream)) > 0;) {
        text_append_bytes(out, block, count);
    }
    if (ferror(stream)) return error_set(err, STATUS_IO, "gnuplot: %s", strerror(errno));
    return STATUS_OK;
}

static status wait_for(pid_t child, FILE *errors, error_message *err)
{
    int state = 0;
    while (waitpid(child, &state, 0) < 0) {
        if (errno != EINTR) return error_set(err, STATUS_BACKEND, "gnuplot: %s", strerror(errno));
    }
    if (WIFEXITED(state) && WEXITSTATUS(state) == 0) return STATUS_OK;
    char words[200] = "";
    rewind(errors);
    const size_t count = fread(words, 1, sizeof words - 1, errors);
    words[count] = '\0';
    return error_set(err, STATUS_BACKEND, "gnuplot failed: %s", words);
}

/// Input, output and errors are files without a name, so that nothing can block or stay behind.
static status run_gnuplot(FILE *input, FILE *output, FILE *errors, text_buffer *svg,
                          error_message *err)
{
    pid_t child = 0;
    rewind(input);
    TRY(start_gnuplot(fileno(input), fileno(output), fileno(errors), &child, err));
    TRY(wait_for(child, errors, err));
    return read_all(output, svg, err);
}

/// Appends lines without the blanks that gnuplot leaves at their ends.
static void append_trimmed(text_buffer *out, const char *lines)
{
    while (*lines != '\0') {
        const size_t length = strcspn(lines, "\n");
        size_t kept = length;
        while (kept > 0 && lines[kept - 1] == ' ') {
            kept--;
        }
        text_append_bytes(out, lines, kept);
        lines += length;
        if (*lines == '\n') {
            text_append(out, "\n");
            lines++;
        }
    }
}

/// Runs gnuplot on commands. @param out what it writes
static status run(const text_buffer *settings, const char *commands, text_buffer *out,
                  error_message *err)
{
    FILE *input = tmpfile();
    FILE *output = tmpfile();
    FILE *errors = tmpfile();
    status result = STATUS_OK;
    if (input == NULL || output == NULL || errors == NULL ||
        fwrite(settings->bytes, 1, settings->length, input) != settings->length ||
        fputs(commands, input) == EOF || fflush(input) != 0) {
        result = error_set(err, STATUS_IO, "temporary file for gnuplot: %s", strerror(errno));
    } else {
        result = run_gnuplot(input, output, errors, out, err);
    }
    if (input != NULL) fclose(input);
    if (output != NULL) fclose(output);
    if (errors != NULL) fclose(errors);
    return result;
}

status ana_plot(const char *script, const text_buffer *settings, text_buffer *svg,
                error_message *err)
{
    const char *commands = embedded_find(ana_plot_scripts, script);
    assert(commands != NULL);
    text_buffer whole = {0};
    status result = run(settings, commands, &whole, err);
    if (result == STATUS_OK) {
        const char *element = whole.bytes != NULL ? strstr(whole.bytes, "<svg") : NULL;
        if (element == NULL) {
            result = error_set(err, STATUS_BACKEND, "gnuplot drew nothing for '%s'", script);
        } else {
            append_trimmed(svg, element);
        }
    }
    text_free(&whole);
    return result;
}

#include "analysis/report/plot.h"

#include <assert.h>
#include <errno.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

void ana_plot_quote(text_buffer *out, const char *text)
{
    text_append(out, "'");
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '\'') text_append(out, "'");
        text_append_bytes(out, (unsigned char)*c < ' ' ? " " : c, 1);
        if (strncmp(c, "]>", 2) == 0) text_append(out, " "); // "]]>" would end the text in SVG
    }
    text_append(out, "'");
}

/// Runs gnuplot, which writes what it says and draws to one file.
///
/// @param is_drawn out: it did not fail
static status run_gnuplot(int input, int output, bool *is_drawn, error_message *err)
{
    char *const words[] = {"gnuplot", "-d", NULL}; // -d: no settings of the user
    posix_spawn_file_actions_t actions;
    pid_t child = 0;
    int state = 0;
    if (posix_spawn_file_actions_init(&actions) != 0) {
        return error_set(err, STATUS_NO_MEMORY, "gnuplot: out of memory");
    }
    posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
    const int failed = posix_spawnp(&child, words[0], &actions, NULL, words, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (failed == ENOENT) {
        return error_set(err, STATUS_UNSUPPORTED, "no gnuplot on PATH, so no pictures");
    }
    if (failed != 0) return error_set(err, STATUS_BACKEND, "gnuplot: %s", strerror(failed));
    while (waitpid(child, &state, 0) < 0) {
        if (errno != EINTR) return error_set(err, STATUS_BACKEND, "gnuplot: %s", strerror(errno));
    }
    *is_drawn = WIFEXITED(state) && WEXITSTATUS(state) == 0;
    return STATUS_OK;
}

/// Input and output are files without a name, so that nothing can block or stay behind.
static status run(FILE *input, FILE *output, const text_buffer *settings, const char *commands,
                  text_buffer *out, error_message *err)
{
    char block[1 << 16];
    bool is_drawn = false;
    if (input == NULL || output == NULL ||
        fwrite(settings->bytes, 1, settings->length, input) != settings->length ||
        fputs(commands, input) == EOF || fflush(input) != 0) {
        return error_set(err, STATUS_IO, "temporary file for gnuplot: %s", strerror(errno));
    }
    rewind(input);
    TRY(run_gnuplot(fileno(input), fileno(output), &is_drawn, err));
    rewind(output);
    for (size_t count; (count = fread(block, 1, sizeof block, output)) > 0;) {
        text_append_bytes(out, block, count);
    }
    if (ferror(output)) return error_set(err, STATUS_IO, "gnuplot: %s", strerror(errno));
    if (is_drawn && out->length > 0 && strstr(out->bytes, "<svg") != NULL) return STATUS_OK;
    return error_set(err, STATUS_BACKEND, "gnuplot failed: %.200s",
                     out->length > 0 ? out->bytes : "it drew nothing");
}

status ana_plot(const char *script, const text_buffer *settings, text_buffer *svg,
                error_message *err)
{
    const char *commands = embedded_find(ana_plot_scripts, script);
    text_buffer whole = {0};
    FILE *input = tmpfile();
    FILE *output = tmpfile();
    assert(commands != NULL);
    const status result = run(input, output, settings, commands, &whole, err);
    if (result == STATUS_OK) text_append(svg, strstr(whole.bytes, "<svg"));
    if (input != NULL) fclose(input);
    if (output != NULL) fclose(output);
    text_free(&whole);
    return result;
}

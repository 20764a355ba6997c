#include "analysis/report/report.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

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

/// Runs gnuplot on a file without a name, so that nothing stays behind, and reads what it says and
/// draws.
static status run_gnuplot(FILE *input, text_buffer *out, error_message *err)
{
    enum { NOT_FOUND = 127 }; // what a shell exits with
    char command[64];
    char block[1 << 16];
    snprintf(command, sizeof command,
             "exec gnuplot -d </dev/fd/%d 2>&1", // -d: no settings of the user
             fileno(input));
    FILE *output = popen(command, "r");
    if (output == NULL) return error_set(err, STATUS_BACKEND, "gnuplot: %s", strerror(errno));
    for (size_t count; (count = fread(block, 1, sizeof block, output)) > 0;) {
        text_append_bytes(out, block, count);
    }
    const int state = pclose(output);
    if (WIFEXITED(state) && WEXITSTATUS(state) == NOT_FOUND) {
        return error_set(err, STATUS_UNSUPPORTED, "no gnuplot on PATH, so no pictures");
    }
    const bool is_drawn = WIFEXITED(state) && WEXITSTATUS(state) == 0;
    if (is_drawn && out->length > 0 && strstr(out->bytes, "<svg") != NULL) return STATUS_OK;
    return error_set(err, STATUS_BACKEND, "gnuplot failed: %.200s",
                     out->length > 0 ? out->bytes : "it drew nothing");
}

status ana_plot(const char *script, const text_buffer *settings, text_buffer *svg,
                error_message *err)
{
    const char *commands = embedded_find(ana_plot_scripts, script);
    text_buffer whole = {0};
    status result = STATUS_IO;
    FILE *input = tmpfile();
    assert(commands != NULL);
    if (input == NULL || fwrite(settings->bytes, 1, settings->length, input) != settings->length ||
        fputs(commands, input) == EOF || fflush(input) != 0) {
        error_set(err, result, "temporary file for gnuplot: %s", strerror(errno));
    } else {
        result = run_gnuplot(input, &whole, err);
    }
    if (result == STATUS_OK) text_append(svg, strstr(whole.bytes, "<svg"));
    if (input != NULL) fclose(input);
    text_free(&whole);
    return result;
}

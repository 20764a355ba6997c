#include "analysis/report/html.h"

double ana_json_number_or(json_value value, double fallback)
{
    double number = fallback;
    if (json_is_number(value)) (void)json_double(value, -1e300, 1e300, &number, NULL);
    return number;
}

const char *ana_json_string_or(json_value value, const char *fallback)
{
    const char *text = fallback;
    if (json_is_string(value)) (void)json_string(value, &text, NULL);
    return text;
}

void ana_html_begin(const char *title, text_buffer *out)
{
    text_append(out, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<title>");
    text_append_escaped(out, title);
    text_append(out, "</title>\n<meta name=\"viewport\" content=\"width=device-width\">\n<style>\n"
                     ":root{color-scheme:light dark}\n"
                     "body{font:15px/1.5 system-ui,sans-serif;max-width:1040px;margin:2em auto;"
                     "padding:0 1em;color:#1a1a1a;background:#fff}\n"
                     "h1{font-size:1.5em;margin-bottom:.2em}h2{font-size:1.15em;margin-top:2em}\n"
                     ".lead{font-size:1.1em;margin-top:0}\n"
                     "table{border-collapse:collapse;font-size:.88em;width:100%;"
                     "font-variant-numeric:tabular-nums}\n"
                     "th,td{padding:.25em .6em;text-align:right;border-bottom:1px solid #ddd}\n"
                     "th:first-child,td:first-child,td.text,th.text{text-align:left}\n"
                     "figure{margin:1em 0;padding:8px;background:#fff;overflow-x:auto}\n"
                     "figure svg{max-width:100%;height:auto}\n"
                     ".wide{overflow-x:auto}\n"
                     "figcaption{font-size:.88em;color:#444;max-width:60em}\n"
                     "code{font-size:.92em}\n"
                     "@media(prefers-color-scheme:dark){body{color:#ddd;background:#16181c}"
                     "th,td{border-color:#3a3d44}}\n"
                     "</style></head><body>\n<h1>");
    text_append_escaped(out, title);
    text_append(out, "</h1>\n");
}

void ana_html_figure(text_buffer *out, const text_buffer *svg, const char *caption)
{
    if (svg->length == 0) return;
    text_append(out, "<figure>");
    text_append_bytes(out, svg->bytes, svg->length);
    text_format(out, "<figcaption>%s</figcaption></figure>\n", caption);
}

void ana_html_words(text_buffer *out, const char *words)
{
    if (words == NULL) return;
    text_append(out, "<h2>The answer</h2>\n<div class=\"wide\"><pre>");
    text_append_escaped(out, words);
    text_append(out, "</pre></div>\n");
}

void ana_html_provenance(text_buffer *out, const ana_report_fact *facts, int count)
{
    text_append(out, "<h2>Provenance</h2>\n<table><tbody>\n");
    for (int fact = 0; fact < count; fact++) {
        text_append(out, "<tr><td>");
        text_append_escaped(out, facts[fact].name);
        text_append(out, "</td><td class=\"text\">");
        text_append_escaped(out, facts[fact].value);
        text_append(out, "</td></tr>\n");
    }
    text_append(out, "</tbody></table>\n");
}

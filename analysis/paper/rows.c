/// Intervals, and rows with what is published of them.
#include "analysis/paper/rows.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

const char *ana_paper_text(json_value value)
{
    const char *text = "";
    (void)json_string(value, &text, NULL);
    return text;
}

double ana_paper_number(json_value value)
{
    double number = NAN;
    (void)json_double(value, -1e300, 1e300, &number, NULL);
    return number;
}

int ana_paper_list(json_value list, int most, json_value *elements)
{
    int count = 0;
    for (json_value at = json_element(list, 0); at.node != NULL; at = json_next(at)) {
        const char *name = NULL;
        if (json_string(at, &name, NULL) == STATUS_OK) {
            const json_value shared = json_member(json_root(at.document), name);
            count += ana_paper_list(shared, most - count, elements + count);
        } else {
            assert(count < most);
            elements[count++] = at;
        }
    }
    return count;
}

ana_interval ana_interval_of(double number)
{
    return (ana_interval){number, number, number, 1};
}

void ana_interval_add(ana_interval *interval, double number)
{
    if (interval->count == 0) *interval = (ana_interval){number, number, number, 0};
    interval->count++;
    interval->low = fmin(interval->low, number);
    interval->high = fmax(interval->high, number);
}

double ana_rows_published(const ana_rows *rows, const char *quantity)
{
    char name[128];
    snprintf(name, sizeof name, "%s", quantity);
    for (char *comma = name; comma != NULL; comma = strrchr(name, ',')) {
        json_value entry = json_element(json_member(rows->experiment, "published"), 0);
        if (comma != name) *comma = '\0';
        for (; entry.node != NULL; entry = json_next(entry)) {
            if (strcmp(ana_paper_text(json_element(entry, 0)), name) != 0) continue;
            return ana_paper_number(json_element(entry, 1));
        }
    }
    return NAN;
}

ana_reproduced *ana_rows_add(ana_rows *rows, const char *quantity, const ana_interval *number,
                             const char *baseline, const char *note)
{
    assert(rows->count < ANA_ROWS_MAX);
    ana_reproduced *row = &rows->rows[rows->count++];
    *row = (ana_reproduced){.experiment = ana_paper_text(json_member(rows->experiment, "name")),
                            .quantity = quantity,
                            .published = ana_rows_published(rows, quantity),
                            .simulated = number->value,
                            .low = number->low,
                            .high = number->high,
                            .bound = NAN,
                            .agreement = ANA_AGREEMENT_PREDICTED,
                            .baseline = baseline,
                            .note = note};
    return row;
}

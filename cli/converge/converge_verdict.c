/// `dynmo converge --verdict`.
#include "cli/converge/converge_modes.h"

#include "analysis/converge/verdict/verdict.h"
#include "base/json.h"
#include "cli/option_values.h"

#include <string.h>

enum { DRAWN_MAX = 1000000, CLAIMS_MAX = 32 };

/// Whether a claim is asked for.
static bool is_asked(const cli_arguments *arguments, const char *name)
{
    if (!cli_has(arguments, "--claim")) return true;
    for (int index = 0;; index++) {
        const char *asked = cli_value_at(arguments, "--claim", index);
        if (asked == NULL) return false;
        if (strcmp(asked, name) == 0) return true;
    }
}

static status check_claims(const cli_arguments *arguments, error_message *err)
{
    const char *names[CLAIMS_MAX];
    int count = 0;
    while (ana_claim_at(count) != NULL) {
        names[count] = ana_claim_at(count)->name;
        count++;
    }
    for (int index = 0;; index++) {
        const char *asked = cli_value_at(arguments, "--claim", index);
        if (asked == NULL) return STATUS_OK;
        int claim = 0;
        while (claim < count && strcmp(asked, names[claim]) != 0) {
            claim++;
        }
        char suggestion[TEXT_SUGGESTION_BYTES];
        if (claim < count) continue;
        return error_set(err, STATUS_INVALID, "--claim: unknown '%.40s'%s", asked,
                         text_suggestion(asked, names, count, suggestion));
    }
}

static status judge_claims(const cli_arguments *arguments, const ana_verdict_options *options,
                           arena *memory, text_buffer *out, error_message *err)
{
    const bool is_json = cli_has(arguments, "--json");
    json_writer writer = json_writer_init(out);
    TRY(check_claims(arguments, err));
    if (is_json) json_begin_array(&writer);
    for (int index = 0; ana_claim_at(index) != NULL; index++) {
        if (!is_asked(arguments, ana_claim_at(index)->name)) continue;
        ana_verdict verdict;
        TRY(ana_claim_try(ana_claim_at(index), options, memory, &verdict, err));
        if (is_json) {
            ana_verdict_write(&verdict, &writer);
        } else {
            if (out->length > 0) text_append(out, "\n");
            ana_verdict_append(&verdict, out);
        }
    }
    if (is_json) {
        json_end_array(&writer);
        text_append(out, "\n");
    }
    return STATUS_OK;
}

status cli_converge_verdict(const cli_arguments *arguments, arena *memory, text_buffer *out,
                            error_message *err)
{
    ana_verdict_options options = ana_verdict_options_default();
    TRY(cli_int(arguments, "--instances", 1, DRAWN_MAX, options.instance_count,
                &options.instance_count, err));
    TRY(cli_converge_seed(arguments, &options.seed, err));
    return judge_claims(arguments, &options, memory, out, err);
}

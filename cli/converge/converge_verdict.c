/// `dynmo converge --verdict`.
#include "cli/converge/converge_modes.h"

#include "analysis/converge/verdict/load_verdict.h"
#include "analysis/converge/verdict/verdict.h"
#include "balance/schedule/schedule.h"
#include "base/json.h"
#include "cli/option_values.h"
#include "cli/plan/plan_loads.h"

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

static status judge_loads(const cli_arguments *arguments, arena *memory, text_buffer *out,
                          error_message *err)
{
    int stages = 0;
    double gamma_ns = 0;
    cli_plan_loads loads;
    ana_load_verdict verdict;
    TRY(cli_require(arguments, "--stages", err));
    TRY(cli_int(arguments, "--stages", 1, BAL_RANKS_MAX, 0, &stages, err));
    TRY(cli_converge_number(arguments, "--gamma", 1, 1e18, &gamma_ns, err));
    TRY(cli_plan_loads_read(cli_value(arguments, "--loads"),
                            (cli_plan_shape){stages, 1, BAL_PLACEMENT_LOOP}, memory, &loads, err));
    TRY(ana_load_verdict_of(&loads.problem, gamma_ns, memory, &verdict, err));
    if (!cli_has(arguments, "--json")) {
        ana_load_verdict_append(&verdict, out);
        return STATUS_OK;
    }
    json_writer writer = json_writer_init(out);
    ana_load_verdict_write(&verdict, &writer);
    text_append(out, "\n");
    return STATUS_OK;
}

/// Options of one of the two that the other does not know.
static status check_pairs(const cli_arguments *arguments, error_message *err)
{
    const bool has_loads = cli_has(arguments, "--loads");
    static const char *const of_loads[] = {"--stages", "--gamma"};
    static const char *const of_claims[] = {"--claim", "--instances", "--seed"};
    for (int index = 0; index < 2 && !has_loads; index++) {
        if (!cli_has(arguments, of_loads[index])) continue;
        return error_set(err, STATUS_INVALID, "--verdict: %s needs --loads", of_loads[index]);
    }
    for (int index = 0; index < 3 && has_loads; index++) {
        if (!cli_has(arguments, of_claims[index])) continue;
        return error_set(err, STATUS_INVALID, "--verdict --loads draws nothing: %s does not belong",
                         of_claims[index]);
    }
    return STATUS_OK;
}

status cli_converge_verdict(const cli_arguments *arguments, arena *memory, text_buffer *out,
                            error_message *err)
{
    ana_verdict_options options = ana_verdict_options_default();
    TRY(check_pairs(arguments, err));
    if (cli_has(arguments, "--loads")) return judge_loads(arguments, memory, out, err);
    TRY(cli_int(arguments, "--instances", 1, DRAWN_MAX, options.instance_count,
                &options.instance_count, err));
    TRY(cli_converge_seed(arguments, &options.seed, err));
    return judge_claims(arguments, &options, memory, out, err);
}

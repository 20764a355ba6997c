#include "analysis/converge/verdict/verdict.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

enum { DIGITS = 9, TEXT_BYTES = 512, SCRATCH_BYTES = 1 << 16 };

const char *const ana_answer_names[] = {"holds", "holds under conditions", "fails"};

const ana_claim *ana_claim_at(int index)
{
    if (index < ANA_LAYER_CLAIMS) return &ana_layer_claims[index];
    return index == ANA_LAYER_CLAIMS ? &ana_pair_claim : NULL;
}

ana_verdict_options ana_verdict_options_default(void)
{
    return (ana_verdict_options){.seed = 1, .run_count = 40};
}

status ana_trying_next(const ana_trying *at)
{
    arena_reset(at->scratch);
    if (at->options.interrupt == NULL || !atomic_load(at->options.interrupt)) return STATUS_OK;
    return error_set(at->err, STATUS_BACKEND, "interrupted");
}

static status search_case(ana_trying *at, const ana_case_plan *plan)
{
    ana_search search;
    ana_search_begin(&search, &plan->box);
    while (ana_search_next(&search)) {
        TRY(ana_trying_next(at));
        if (search.is_new && at->verdict->claim->needs_best) {
            at->best = ana_instance_best(&search.instance);
        }
        TRY(plan->test(at, &search.instance));
    }
    return STATUS_OK;
}

static status try_all(ana_trying *at, const ana_claim *claim)
{
    ana_verdict *verdict = at->verdict;
    for (int index = 0; index < ANA_VERDICT_CASES_MAX; index++) {
        const ana_case_plan *plan = &claim->cases[index];
        if (plan->condition == NULL) break;
        verdict->case_count++;
        at->tried = &verdict->cases[index];
        at->tried->searched =
            plan->searched != NULL ? plan->searched : ana_search_words(&plan->box, at->memory);
        if (plan->test != NULL) TRY(search_case(at, plan));
    }
    return claim->also != NULL ? claim->also(at) : STATUS_OK;
}

status ana_claim_try(const ana_claim *claim, const ana_verdict_options *options, arena *memory,
                     ana_verdict *verdict, error_message *err)
{
    ana_verdict made = {.claim = claim};
    ana_trying at = {.options = *options,
                     .memory = memory,
                     .scratch = arena_within(memory, SCRATCH_BYTES),
                     .verdict = &made,
                     .err = err};
    TRY(try_all(&at, claim));
    *verdict = made;
    return STATUS_OK;
}

ana_answer ana_verdict_answer(const ana_verdict *verdict)
{
    int broken = 0;
    for (int index = 0; index < verdict->case_count; index++) {
        if (verdict->cases[index].violation_count > 0) broken++;
    }
    if (broken == 0) return ANA_ANSWER_HOLDS;
    return broken == verdict->case_count ? ANA_ANSWER_FAILS : ANA_ANSWER_CONDITIONS;
}

void ana_case_measure(ana_verdict_case *tried, double value)
{
    tried->examined++;
    if (value > tried->worst) tried->worst = value;
}

void ana_case_violate(ana_trying *at, const ana_layer_instance *instance, const char *format, ...)
{
    ana_verdict_case *tried = at->tried;
    tried->violation_count++;
    if (tried->first_violation != NULL) return;
    char text[TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    tried->first_violation = arena_string(at->memory, text);
    if (instance != NULL) tried->example = ana_instance_copy(instance, at->memory);
}

static void append_case(const ana_case_plan *plan, const ana_verdict_case *tried, text_buffer *out)
{
    const bool holds = tried->violation_count == 0;
    text_format(out, "  %-37s %s: %" PRId64 " tried, ", plan->condition, holds ? "holds" : "fails",
                tried->examined);
    if (holds) {
        text_append(out, "none breaks it");
    } else {
        text_format(out, "%" PRId64 " break it", tried->violation_count);
    }
    if (plan->worst_name != NULL) {
        text_format(out, "; %s at most %.4g", plan->worst_name, tried->worst);
    }
    text_format(out, "\n      tried: %s\n", tried->searched);
    if (holds) return;
    text_append(out, "      smallest: ");
    if (tried->example.layer_count > 0) {
        ana_instance_append(&tried->example, out);
        text_append(out, ": ");
    }
    text_format(out, "%s\n", tried->first_violation);
}

void ana_verdict_append(const ana_verdict *verdict, text_buffer *out)
{
    const ana_claim *claim = verdict->claim;
    text_format(out, "%s: %s\n", claim->name, ana_answer_names[ana_verdict_answer(verdict)]);
    text_append_wrapped(out, claim->claim, 2, 100);
    text_format(out, "  says: %s\n", claim->source);
    for (int index = 0; index < verdict->case_count; index++) {
        append_case(&claim->cases[index], &verdict->cases[index], out);
    }
    text_append_wrapped(out, claim->reason, 2, 100);
}

static void write_case(const ana_case_plan *plan, const ana_verdict_case *tried,
                       json_writer *writer)
{
    json_begin_object(writer);
    json_put_string(writer, "condition", plan->condition);
    json_put_bool(writer, "holds", tried->violation_count == 0);
    json_put_string(writer, "searched", tried->searched);
    json_put_int64(writer, "examined", tried->examined);
    json_put_int64(writer, "violations", tried->violation_count);
    if (plan->worst_name != NULL) {
        json_put_object(writer, "worst");
        json_put_string(writer, "name", plan->worst_name);
        json_put_rounded(writer, "value", tried->worst, DIGITS);
        json_end_object(writer);
    } else {
        json_put_null(writer, "worst");
    }
    json_put_string(writer, "smallest_violation", tried->first_violation);
    json_write_key(writer, "counterexample");
    if (tried->example.layer_count > 0) {
        ana_instance_write(&tried->example, writer);
    } else {
        json_put_null(writer, NULL);
    }
    json_end_object(writer);
}

void ana_verdict_write(const ana_verdict *verdict, json_writer *writer)
{
    const ana_claim *claim = verdict->claim;
    json_begin_object(writer);
    json_put_string(writer, "name", claim->name);
    json_put_string(writer, "claim", claim->claim);
    json_put_string(writer, "source", claim->source);
    json_put_string(writer, "answer", ana_answer_names[ana_verdict_answer(verdict)]);
    json_put_string(writer, "reason", claim->reason);
    json_put_array(writer, "cases");
    for (int index = 0; index < verdict->case_count; index++) {
        write_case(&claim->cases[index], &verdict->cases[index], writer);
    }
    json_end_array(writer);
    json_end_object(writer);
}

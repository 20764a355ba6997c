/// The most likely cause of what departs.
#include "analysis/check/check_effects.h"
#include "analysis/check/check_parts.h"
#include "analysis/check/check_slow_cells.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/// A change explains that of the iterations if it makes up at least this part of it.
static const double explaining_share = 0.4;

static bool is_said(const ana_check_quantity *quantity)
{
    return quantity->verdict == ANA_CHECK_DEPARTS || quantity->verdict == ANA_CHECK_IGNORED;
}

/// The quantity of a group that departs most, by its change; NULL: none departs.
static const ana_check_quantity *worst_of(const ana_check *check, ana_check_group group)
{
    const ana_check_quantity *worst = NULL;
    for (int index = 0; index < check->quantity_count; index++) {
        const ana_check_quantity *quantity = &check->quantities[index];
        if (quantity->group != group || !is_said(quantity)) continue;
        if (worst == NULL || fabs(quantity->change) > fabs(worst->change)) worst = quantity;
    }
    return worst;
}

/// The largest change of a group, whether or not it departs; NULL: none is compared.
static const ana_check_quantity *largest_of(const ana_check *check, ana_check_group group)
{
    const ana_check_quantity *largest = NULL;
    for (int index = 0; index < check->quantity_count; index++) {
        const ana_check_quantity *quantity = &check->quantities[index];
        if (quantity->group != group || quantity->count == 0) continue;
        if (largest == NULL || fabs(quantity->change) > fabs(largest->change)) largest = quantity;
    }
    return largest;
}

static void tell_effects(const ana_check *check, const ana_check_effects *effects,
                         ana_check_cause *cause)
{
    char texts[4][32];
    const ana_check_quantity *length = &check->quantities[check->length];
    if (!effects->is_known) return;
    ana_check_percent(effects->ops, texts[0]);
    ana_check_percent(effects->messages, texts[1]);
    ana_check_percent(effects->order, texts[2]);
    ana_check_percent(length->change, texts[3]);
    ana_check_evidence(
        cause,
        "the plan's pipeline with the measured op times alone takes %s, with the "
        "measured messages alone %s, in the measured order alone %s; iterations took "
        "%s",
        texts[0], texts[1], texts[2], texts[3]);
}

/// The ranks that a message goes between.
static void ends_of(const ana_check *check, const ana_check_quantity *message, int *from, int *to)
{
    const int sender = message->op == OP_FORWARD ? message->stage - 1 : message->stage + 1;
    *from = ana_observed_rank_of(&check->plan->plans[0], sender);
    *to = message->rank;
}

/// How many messages there are, how many depart, and how many of these go between the same ranks as
/// one of them.
static void count_messages(const ana_check *check, const ana_check_quantity *like, int *all,
                           int *departing, int *alike)
{
    int ranks[2];
    *all = *departing = *alike = 0;
    ends_of(check, like, &ranks[0], &ranks[1]);
    for (int index = 0; index < check->quantity_count; index++) {
        const ana_check_quantity *message = &check->quantities[index];
        int from = 0;
        int to = 0;
        if (message->group != ANA_CHECK_MESSAGE || message->count == 0) continue;
        ends_of(check, message, &from, &to);
        ++*all;
        if (!is_said(message)) continue;
        ++*departing;
        *alike += (from == ranks[0] && to == ranks[1]) || (from == ranks[1] && to == ranks[0]);
    }
}

static void tell_messages(const ana_check *check, ana_check_cause *cause)
{
    enum { SHOWN = 3 };
    int told = 0;
    for (int index = 0; index < check->quantity_count; index++) {
        const ana_check_quantity *message = &check->quantities[index];
        char planned[32];
        char measured[32];
        if (message->group != ANA_CHECK_MESSAGE || !is_said(message)) continue;
        if (told++ == SHOWN) break;
        text_duration(llround(message->planned), planned);
        text_duration(llround(message->measured), measured);
        ana_check_evidence(cause,
                           "%s: %s instead of %s from the sender's end to the receiver's "
                           "begin, while the receiver idled",
                           message->name, measured, planned);
    }
}

static void explain_link(const ana_check *check, ana_check_cause *cause)
{
    const ana_check_quantity *slow = largest_of(check, ANA_CHECK_MESSAGE);
    const char *how = slow->change > 0 ? "slower" : "faster";
    int all = 0;
    int departing = 0;
    int alike = 0;
    int from = 0;
    int to = 0;
    ends_of(check, slow, &from, &to);
    count_messages(check, slow, &all, &departing, &alike);
    cause->kind = ANA_CAUSE_LINK;
    if (departing == all && alike < all) {
        snprintf(cause->summary, sizeof cause->summary,
                 "all links are %s: messages come late although they were sent in time", how);
    } else if (departing > alike) {
        snprintf(cause->summary, sizeof cause->summary,
                 "%d of %d ways of messages are %s, most of all from rank %d to rank %d", departing,
                 all, how, from, to);
    } else {
        cause->rank = to;
        snprintf(cause->summary, sizeof cause->summary,
                 "the link %s rank %d %s rank %d is %s: messages come late although they were sent "
                 "in time",
                 alike > 1 ? "between" : "from", from, alike > 1 ? "and" : "to", to, how);
    }
    tell_messages(check, cause);
}

static void explain_words(const ana_check_quantity *quantity, ana_check_cause_kind kind,
                          const char *words, ana_check_cause *cause)
{
    cause->kind = kind;
    cause->rank = quantity->rank;
    snprintf(cause->summary, sizeof cause->summary, "%s", words);
    if (quantity->detail[0] != '\0') ana_check_evidence(cause, "%s", quantity->detail);
}

/// What can lengthen a pipeline, with what it makes of the plan's.
typedef struct candidate {
    ana_check_group group;
    double effect;
    const ana_check_quantity *departing; // NULL: none
} candidate;

/// The candidate that departs and changes the plan's pipeline most; else the one whose change makes
/// up enough of that of the iterations. NULL: none.
static const candidate *choose(const ana_check *check, const candidate *candidates, int count)
{
    const ana_check_quantity *length = &check->quantities[check->length];
    const candidate *chosen = NULL;
    for (int each = 0; each < count; each++) {
        const candidate *one = &candidates[each];
        const bool explains = is_said(length) && one->effect * length->change > 0 &&
                              fabs(one->effect) >= explaining_share * fabs(length->change);
        const bool can_explain = explains && one->group != ANA_CHECK_ORDER;
        if (one->departing == NULL && !can_explain) continue;
        if (chosen == NULL || fabs(one->effect) > fabs(chosen->effect) + 1e-9) chosen = one;
    }
    return chosen;
}

static void explain_rest(const ana_check *check, ana_check_cause *cause)
{
    const ana_check_quantity *outside = worst_of(check, ANA_CHECK_OUTSIDE);
    const ana_check_quantity *decisions = worst_of(check, ANA_CHECK_DECISIONS);
    const ana_check_quantity *memory = worst_of(check, ANA_CHECK_MEMORY);
    if (outside != NULL) {
        explain_words(outside, ANA_CAUSE_OUTSIDE,
                      "the pipeline is as planned, what comes behind it is not: reduction of "
                      "gradients, optimizer step, decision or migration",
                      cause);
    } else if (decisions != NULL) {
        explain_words(decisions, ANA_CAUSE_DECISION, "the controller decided otherwise", cause);
    } else if (memory != NULL) {
        explain_words(memory, ANA_CAUSE_MEMORY, "ranks need another amount of memory", cause);
    } else {
        cause->kind = ANA_CAUSE_UNKNOWN;
        snprintf(cause->summary, sizeof cause->summary,
                 "neither op times, messages, order nor decisions account for it");
    }
}

static status explain_pipeline(const ana_check *check, arena *memory, ana_check_cause *cause,
                               error_message *err)
{
    ana_check_effects effects;
    TRY(ana_check_effects_find(check, memory, &effects));
    const bool has_ops = check->plan->has_op_times && check->measured->has_op_times;
    const candidate candidates[] = {
        {ANA_CHECK_OP, effects.ops, worst_of(check, has_ops ? ANA_CHECK_OP : ANA_CHECK_BUSY)},
        {ANA_CHECK_MESSAGE, effects.messages, worst_of(check, ANA_CHECK_MESSAGE)},
        {ANA_CHECK_ORDER, effects.order, worst_of(check, ANA_CHECK_ORDER)},
    };
    const candidate *chosen = choose(check, candidates, sizeof candidates / sizeof candidates[0]);
    if (chosen == NULL) {
        explain_rest(check, cause);
    } else if (chosen->group == ANA_CHECK_OP) {
        TRY(ana_check_explain_ops(check, cause, err));
    } else if (chosen->group == ANA_CHECK_MESSAGE) {
        explain_link(check, cause);
    } else {
        explain_words(chosen->departing, ANA_CAUSE_ORDER, "ops run in another order", cause);
    }
    tell_effects(check, &effects, cause);
    return STATUS_OK;
}

status ana_check_find_cause(ana_check *check, arena *memory, error_message *err)
{
    ana_check_cause *cause = &check->cause;
    *cause = (ana_check_cause){.rank = -1};
    if (check->verdict != ANA_CHECK_DEPARTS) return STATUS_OK;
    const ana_check_quantity *start = worst_of(check, ANA_CHECK_PLAN);
    if (start != NULL) {
        explain_words(start, ANA_CAUSE_PLAN, "another plan was played from the start", cause);
        return STATUS_OK;
    }
    return explain_pipeline(check, memory, cause, err);
}

/// The most likely cause of what departs: which ops are not as planned (all, one kind, one rank or
/// some stages), a link, the order, or what lies outside the pipeline.
#include "analysis/check/check_parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/// A change explains that of the iterations if it makes up at least this part of it.
static const double explaining_share = 0.4;

static bool has_op_times(const ana_check *check)
{
    return check->plan->has_op_times && check->measured->has_op_times;
}

static bool is_said(const ana_check_quantity *quantity)
{
    return quantity->verdict == ANA_CHECK_DEPARTS || quantity->verdict == ANA_CHECK_IGNORED;
}

/// The range of changes among some ops. Zero-initialise.
typedef struct range {
    int count;
    int departing_count;
    double smallest;
    double largest;
} range;

static void widen(range *over, double change, bool departs)
{
    over->smallest = over->count == 0 ? change : fmin(over->smallest, change);
    over->largest = over->count == 0 ? change : fmax(over->largest, change);
    over->count++;
    over->departing_count += departs;
}

/// The quantities that tell how fast ranks are: op times, or their sums where these are missing.
static ana_check_group speed_group(const ana_check *check)
{
    return has_op_times(check) ? ANA_CHECK_OP : ANA_CHECK_BUSY;
}

/// Whether a quantity is one of them, and long enough to tell anything.
static bool counts(const ana_check *check, const ana_check_quantity *quantity)
{
    if (quantity->group != speed_group(check) || quantity->count == 0) return false;
    const double share_ns =
        check->quantities[check->length].planned / ana_check_share_count(check->plan);
    return quantity->group == ANA_CHECK_BUSY ||
           quantity->planned >= share_ns / ANA_CHECK_SCALE_PART;
}

static bool departs(const ana_check *check, const ana_check_quantity *quantity)
{
    return is_said(quantity) && fabs(quantity->change.estimate) > check->options.tolerance;
}

/// The range of those on a rank, or of a kind; -1: any. The others go into others.
static range range_of(const ana_check *check, int rank, int kind, range *others)
{
    range found = {0};
    range rest = {0};
    for (int index = 0; index < check->quantity_count; index++) {
        const ana_check_quantity *quantity = &check->quantities[index];
        if (!counts(check, quantity)) continue;
        const bool is_meant =
            (rank < 0 || quantity->rank == rank) && (kind < 0 || (int)quantity->op == kind);
        widen(is_meant ? &found : &rest, quantity->change.estimate, departs(check, quantity));
    }
    if (others != NULL) *others = rest;
    return found;
}

static text_words range_text(const range *over)
{
    const text_words smallest = ana_check_percent(over->smallest);
    const text_words largest = ana_check_percent(over->largest);
    if (strcmp(smallest.text, largest.text) == 0) return smallest;
    return text_wording("%s to %s", smallest.text, largest.text);
}

static void tell_ranges(const char *who, const range *these, const range *others,
                        ana_check_cause *cause)
{
    ana_check_say(&cause->evidence, "times of %s against the plan: %s%s%s", who,
                  range_text(these).text, others->count > 0 ? "; of all others " : "",
                  others->count > 0 ? range_text(others).text : "");
}

static const char *slower_or_faster(double change)
{
    return change > 0 ? "slower" : "faster";
}

/// What has ops.
static const char *places_of(const ana_check *check)
{
    return check->plan->is_by_layer ? "layers" : "stages";
}

/// Adds the changes of a rank's ops in one iteration. @return how many there are then
static int add_changes(const ana_check *check, int pair, int rank, double *changes, int count)
{
    const ana_observed *one = check->plan;
    const ana_observed *other = check->measured;
    const ana_check_pair *at = &check->pairs[pair];
    const bal_plan *placed = &one->plans[one->plan_of[at->plan_row]];
    const int64_t planned_row = (int64_t)one->sample_of[at->plan_row] * one->stage_count;
    const int64_t measured_row = (int64_t)other->sample_of[at->measured_row] * other->stage_count;
    for (int stage = 0; stage < placed->rank_count * placed->chunk_count; stage++) {
        if (ana_observed_rank_of(placed, stage) != rank) continue;
        for (int kind = 0; kind < OP_KIND_COUNT; kind++) {
            const int64_t planned = one->op_ns[(planned_row + stage) * OP_KIND_COUNT + kind];
            const int64_t measured = other->op_ns[(measured_row + stage) * OP_KIND_COUNT + kind];
            if (planned <= 0 || measured < 0) continue;
            changes[count++] = (double)measured / (double)planned - 1;
        }
    }
    return count;
}

/// Whether a rank's ops depart in the iterations that are under a plan of the plan's side.
static bool departs_under(const ana_check *check, int plan, int rank)
{
    const ana_check_pair *pairs = check->pairs;
    const size_t most =
        (size_t)check->pair_count * (size_t)check->plan->plans[plan].chunk_count * OP_KIND_COUNT;
    double *changes = memory_array(most, sizeof *changes);
    int count = 0;
    for (int pair = check->warmup; pair < check->pair_count; pair++) {
        if (!pairs[pair].same_plan || !ana_check_is_sampled(check, &pairs[pair])) continue;
        if (check->plan->plan_of[pairs[pair].plan_row] != plan) continue;
        count = add_changes(check, pair, rank, changes, count);
    }
    const double change = ana_shift_median(changes, count);
    free(changes);
    return fabs(change) > check->options.tolerance;
}

/// Slow layers that moved were on other ranks under other plans; a slow rank is slow alone.
static bool is_slow_alone(const ana_check *check, int rank)
{
    for (int plan = 0; plan < check->plan->plan_count; plan++) {
        for (int other = 0; other < check->plan->rank_count; other++) {
            if (other != rank && departs_under(check, plan, other)) return false;
        }
    }
    return true;
}

/// Some ops: all, those of one kind, or those of one rank.
typedef struct subset {
    ana_check_cause_kind cause;
    int rank; // -1: any
    int kind; // -1: any
} subset;

/// Whether these ops changed by one factor, and no others, and are enough to say so.
static bool is_alike(const ana_check *check, const subset *of, const range *these,
                     const range *others)
{
    if (these->count == 0 || these->departing_count < these->count) return false;
    const double factor_max = (1 + check->options.tolerance) * (1 + these->smallest);
    if (!(1 + these->largest <= factor_max)) return false;
    if (others->departing_count > 0) return false;
    if (of->cause == ANA_CHECK_CAUSE_KIND) {
        return speed_group(check) == ANA_CHECK_OP && these->count > 1;
    }
    if (of->cause == ANA_CHECK_CAUSE_STRAGGLER) {
        const bool moved = speed_group(check) == ANA_CHECK_OP && check->plan->plan_count > 1;
        return others->count > 0 && (!moved || is_slow_alone(check, of->rank));
    }
    return check->plan->plans[0].rank_count > 1; // else one rank is all
}

static void tell_subset(const ana_check *check, const subset *of, const char *speed,
                        ana_check_cause *cause)
{
    char *out = cause->summary;
    const size_t size = sizeof cause->summary;
    if (of->cause == ANA_CHECK_CAUSE_ALL_OPS) {
        snprintf(out, size,
                 "op times changed on all %s alike, by a factor of %.2f: machine or kernels are %s",
                 places_of(check), cause->factor, speed);
    } else if (of->cause == ANA_CHECK_CAUSE_KIND) {
        snprintf(out, size,
                 "op times changed: %s of all %s alike, by a factor of %.2f, and no other kind: "
                 "the kernels of that pass are %s",
                 bal_op_kind_names[of->kind], places_of(check), cause->factor, speed);
    } else {
        snprintf(out, size, "rank %d is a straggler: all its ops are %s by one factor, %.2f",
                 of->rank, speed, cause->factor);
        ana_check_say(&cause->evidence,
                      "that all kinds of ops changed by one factor speaks for the rank; "
                      "layers that it had all the time, and that are slow themselves, look "
                      "alike");
    }
}

static bool explain_subset(const ana_check *check, subset of, ana_check_cause *cause)
{
    range others;
    char who[32] = "all ops";
    const range these = range_of(check, of.rank, of.kind, &others);
    if (!is_alike(check, &of, &these, &others)) return false;
    if (of.kind >= 0) {
        snprintf(who, sizeof who, "%s of all %s", bal_op_kind_names[of.kind], places_of(check));
    }
    if (of.rank >= 0) snprintf(who, sizeof who, "rank %d", of.rank);
    cause->kind = of.cause;
    cause->rank = of.rank;
    cause->factor = 1 + (these.smallest + these.largest) / 2;
    tell_ranges(who, &these, &others, cause);
    tell_subset(check, &of, slower_or_faster(these.smallest), cause);
    return true;
}

static void explain_stages(const ana_check *check, ana_check_cause *cause)
{
    char list[240] = "";
    int count = 0;
    range these = {0};
    range others = {0};
    for (int index = 0; index < check->quantity_count; index++) {
        const ana_check_quantity *quantity = &check->quantities[index];
        if (quantity->group != speed_group(check) || quantity->count == 0) continue;
        widen(departs(check, quantity) ? &these : &others, quantity->change.estimate, true);
        if (!departs(check, quantity)) continue;
        const size_t used = strlen(list);
        if (used + 48 < sizeof list) {
            snprintf(list + used, sizeof list - used, "%s%s", count > 0 ? ", " : "",
                     quantity->name);
        }
        count++;
    }
    cause->kind = ANA_CHECK_CAUSE_STAGES;
    if (count == 0) {
        snprintf(cause->summary, sizeof cause->summary,
                 "op times changed a little on many %s; none is beyond the tolerance alone",
                 places_of(check));
        tell_ranges("ops", &others, &these, cause);
        return;
    }
    snprintf(cause->summary, sizeof cause->summary, "op times changed on some %s: %s%s",
             places_of(check), list, strlen(list) + 48 >= sizeof list ? ", ..." : "");
    tell_ranges("these", &these, &others, cause);
}

/// Names the cause among those of ops, with its evidence. At least one op (or, where op times are
/// not recorded, one rank's work) departs.
///
/// The rules, of ops that are long enough to count (planned at least a twentieth of a microbatch's
/// share of the iteration); "one factor": the largest is at most 1 + tolerance times the smallest:
/// - all beyond the tolerance, by one factor: machine or kernels
/// - all of one kind on all stages by one factor, and no others: that kind
/// - all of one rank by one factor, and no others under any plan: a straggler
/// - else the stages that are beyond it
static void explain_ops(const ana_check *check, ana_check_cause *cause)
{
    if (explain_subset(check, (subset){ANA_CHECK_CAUSE_ALL_OPS, -1, -1}, cause)) return;
    for (int kind = 0; kind < OP_KIND_COUNT; kind++) {
        if (explain_subset(check, (subset){ANA_CHECK_CAUSE_KIND, -1, kind}, cause)) return;
    }
    for (int rank = 0; rank < check->plan->rank_count; rank++) {
        if (explain_subset(check, (subset){ANA_CHECK_CAUSE_STRAGGLER, rank, -1}, cause)) return;
    }
    explain_stages(check, cause);
}

/// The largest change of a group, or of those of it that depart; NULL: there is none.
static const ana_check_quantity *largest_of(const ana_check *check, ana_check_group group,
                                            bool only_departing)
{
    const ana_check_quantity *largest = NULL;
    for (int index = 0; index < check->quantity_count; index++) {
        const ana_check_quantity *quantity = &check->quantities[index];
        const bool counted = only_departing ? is_said(quantity) : quantity->count > 0;
        if (quantity->group != group || !counted) continue;
        if (largest == NULL || fabs(quantity->change.estimate) > fabs(largest->change.estimate))
            largest = quantity;
    }
    return largest;
}

static const ana_check_quantity *worst_of(const ana_check *check, ana_check_group group)
{
    return largest_of(check, group, true);
}

/// By how much the ops change the work of the rank that changes most, as a part of the iteration.
static double op_effect(const ana_check *check)
{
    const double iteration_ns = check->quantities[check->length].planned;
    double largest = 0;
    for (int rank = -1; rank < check->plan->rank_count; rank++) {
        double sum_ns = 0;
        for (int index = 0; index < check->quantity_count; index++) {
            const ana_check_quantity *quantity = &check->quantities[index];
            if (quantity->group != ANA_CHECK_OP || quantity->rank != rank) continue;
            if (quantity->count > 0) sum_ns += quantity->measured - quantity->planned;
        }
        const double effect = sum_ns * check->plan->plans[0].microbatch_count / iteration_ns;
        if (fabs(effect) > fabs(largest)) largest = effect;
    }
    return largest;
}

static void tell_messages(const ana_check *check, ana_check_cause *cause)
{
    enum { SHOWN = 3 };
    int told = 0;
    for (int index = 0; index < check->quantity_count; index++) {
        const ana_check_quantity *message = &check->quantities[index];
        if (message->group != ANA_CHECK_MESSAGE || !is_said(message)) continue;
        if (told++ == SHOWN) break;
        ana_check_say(&cause->evidence,
                      "%s: %s instead of %s from the sender's end to the receiver's begin, while "
                      "the receiver idled",
                      message->name, text_duration(llround(message->measured)).text,
                      text_duration(llround(message->planned)).text);
    }
}

static void explain_link(const ana_check *check, ana_check_cause *cause)
{
    const ana_check_quantity *slow = largest_of(check, ANA_CHECK_MESSAGE, false);
    int all = 0;
    int departing = 0;
    const int sender = slow->op == OP_FORWARD ? slow->stage - 1 : slow->stage + 1;
    const int from = ana_observed_rank_of(&check->plan->plans[0], sender);
    for (int index = 0; index < check->quantity_count; index++) {
        const ana_check_quantity *message = &check->quantities[index];
        if (message->group != ANA_CHECK_MESSAGE || message->count == 0) continue;
        all++;
        departing += is_said(message);
    }
    cause->kind = ANA_CHECK_CAUSE_LINK;
    if (departing == all && all > 2) {
        snprintf(cause->summary, sizeof cause->summary,
                 "all links are %s: messages come late although they were sent in time",
                 slower_or_faster(slow->change.estimate));
    } else {
        cause->rank = slow->rank;
        snprintf(cause->summary, sizeof cause->summary,
                 "the link between rank %d and rank %d is %s: messages come late although they "
                 "were sent in time (%d of %d ways depart)",
                 from, slow->rank, slower_or_faster(slow->change.estimate), departing, all);
    }
    tell_messages(check, cause);
}

static void explain_words(const ana_check_quantity *quantity, ana_check_cause_kind kind,
                          const char *words, ana_check_cause *cause)
{
    cause->kind = kind;
    cause->rank = quantity->rank;
    snprintf(cause->summary, sizeof cause->summary, "%s", words);
    if (quantity->detail[0] != '\0') ana_check_say(&cause->evidence, "%s", quantity->detail);
}

static void explain_rest(const ana_check *check, ana_check_cause *cause)
{
    static const struct {
        ana_check_group group;
        ana_check_cause_kind kind;
        const char *words;
    } rest[] = {
        {ANA_CHECK_OUTSIDE, ANA_CHECK_CAUSE_OUTSIDE,
         "the pipeline is as planned, what comes after it is not: reduction of gradients, "
         "optimizer step, decision or migration"},
        {ANA_CHECK_DECISIONS, ANA_CHECK_CAUSE_DECISION, "the controller decided otherwise"},
        {ANA_CHECK_MEMORY, ANA_CHECK_CAUSE_MEMORY, "ranks need another amount of memory"},
    };
    for (size_t each = 0; each < sizeof rest / sizeof rest[0]; each++) {
        const ana_check_quantity *worst = worst_of(check, rest[each].group);
        if (worst == NULL) continue;
        explain_words(worst, rest[each].kind, rest[each].words, cause);
        return;
    }
    cause->kind = ANA_CHECK_CAUSE_UNKNOWN;
    snprintf(cause->summary, sizeof cause->summary,
             "neither op times, messages, order nor decisions account for it");
}

/// Whether a change makes up enough of that of the iterations.
static bool explains(const ana_check *check, double effect)
{
    const ana_check_quantity *length = &check->quantities[check->length];
    return is_said(length) && effect * length->change.estimate > 0 &&
           fabs(effect) >= explaining_share * fabs(length->change.estimate);
}

/// Of ops and messages that depart those count that change the iteration most; then the order; then
/// what departs nowhere and yet explains the iterations' length.
static void explain_pipeline(const ana_check *check, ana_check_cause *cause)
{
    const double ops = op_effect(check);
    const ana_check_quantity *slowest = largest_of(check, ANA_CHECK_MESSAGE, false);
    const double messages = slowest != NULL ? slowest->change.estimate : 0; // if all waited for it
    const ana_check_quantity *order = worst_of(check, ANA_CHECK_ORDER);
    const bool is_op = worst_of(check, speed_group(check)) != NULL;
    const bool is_message = worst_of(check, ANA_CHECK_MESSAGE) != NULL;
    if (is_op && (!is_message || fabs(ops) >= fabs(messages))) {
        explain_ops(check, cause);
    } else if (is_message) {
        explain_link(check, cause);
    } else if (order != NULL) {
        explain_words(order, ANA_CHECK_CAUSE_ORDER, "ops run in another order", cause);
    } else if (explains(check, ops) && fabs(ops) >= fabs(messages)) {
        explain_ops(check, cause);
    } else if (explains(check, messages)) {
        explain_link(check, cause);
    } else {
        explain_rest(check, cause);
    }
    if (!has_op_times(check)) return;
    ana_check_say(&cause->evidence,
                  "op times change the work of a rank by %s of the iteration, messages delay a "
                  "microbatch by %s of its share of it; iterations took %s",
                  ana_check_percent(ops).text, ana_check_percent(messages).text,
                  ana_check_percent(check->quantities[check->length].change.estimate).text);
}

void ana_check_find_cause(ana_check *check)
{
    ana_check_cause *cause = &check->cause;
    *cause = (ana_check_cause){.rank = -1};
    if (check->verdict != ANA_CHECK_DEPARTS) return;
    const ana_check_quantity *start = worst_of(check, ANA_CHECK_PLAN);
    if (start != NULL) {
        explain_words(start, ANA_CHECK_CAUSE_PLAN, "another plan was played from the start", cause);
    } else {
        explain_pipeline(check, cause);
    }
}

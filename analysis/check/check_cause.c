/// The most likely cause of what departs: which ops are not as planned (all, one kind, one rank,
/// some stages, or some layers wherever they are), a link, the order, or what lies outside the
/// pipeline. Of several the one that would change the plan's pipeline most.
#include "analysis/check/check_parts.h"
#include "sim/costs.h"
#include "sim/pipeline.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { PLANS_SHOWN = 8 };

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

static void add_evidence(ana_check_cause *cause, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/// Adds a line of evidence.
static void add_evidence(ana_check_cause *cause, const char *format, ...)
{
    va_list arguments;
    if (cause->evidence_count == ANA_CHECK_EVIDENCE_MAX) return;
    va_start(arguments, format);
    vsnprintf(cause->evidence[cause->evidence_count++], ANA_CHECK_LINE_BYTES, format, arguments);
    va_end(arguments);
}

/// What the plan's pipeline would take if one thing alone were as measured: relative changes of the
/// makespan. All 0 where the plan's order or op times are not known.
typedef struct pipeline_effects {
    bool is_known;
    double ops;
    double messages;
    double order;
} pipeline_effects;

/// Times of the stages' ops and messages that make up a play.
enum { TIME_FORWARD, TIME_INPUT, TIME_WEIGHT, TIME_SEND, TIME_SEND_BACK, TIME_NONE, TIME_COUNT };

/// A microbatch's share of the planned iteration, ns.
static double share_ns(const ana_check *check)
{
    return check->quantities[check->length].planned / ana_check_share_count(check->plan);
}

/// A time as planned or, by its change, as measured; never negative.
static int64_t time_of(const ana_check_quantity *quantity, bool is_measured, double share)
{
    double ns = quantity->planned;
    if (is_measured) {
        ns += quantity->change * (quantity->group == ANA_CHECK_OP
                                      ? fmax(quantity->planned, share / ANA_CHECK_SCALE_PART)
                                      : share);
    }
    return ns > 0 ? llround(ns) : 0;
}

/// Puts a time where the costs have it: a message is the sender's there, the receiver's in a check.
static void put_time(const ana_check_quantity *quantity, int64_t value, int stage_count,
                     int64_t *const ns[TIME_COUNT])
{
    const int stage = quantity->stage;
    if (quantity->group == ANA_CHECK_OP) {
        const int kind = quantity->op == OP_FORWARD           ? TIME_FORWARD
                         : quantity->op == OP_BACKWARD_WEIGHT ? TIME_WEIGHT
                                                              : TIME_INPUT;
        ns[kind][stage] = value;
    } else if (quantity->op == OP_FORWARD) {
        if (stage > 0) ns[TIME_SEND][stage - 1] = value;
    } else if (stage + 1 < stage_count) {
        ns[TIME_SEND_BACK][stage + 1] = value;
    }
}

/// Makespan of an order with op times and messages as planned or as measured; -1: it cannot be
/// played.
static int64_t play(const ana_check *check, const bal_schedule *schedule, bool measured_ops,
                    bool measured_messages, arena *memory)
{
    const int stages = schedule->rank_count * schedule->chunk_count;
    int64_t *ns[TIME_COUNT];
    sim_order order;
    sim_summary summary;
    for (int time = 0; time < TIME_COUNT; time++) {
        ns[time] = arena_array(memory, (size_t)stages, sizeof *ns[time]);
    }
    for (int index = 0; index < check->quantity_count; index++) {
        const ana_check_quantity *quantity = &check->quantities[index];
        const bool is_op = quantity->group == ANA_CHECK_OP;
        if (!is_op && quantity->group != ANA_CHECK_MESSAGE) continue;
        if (quantity->count == 0 || quantity->stage >= stages) continue;
        const bool is_measured = is_op ? measured_ops : measured_messages;
        put_time(quantity, time_of(quantity, is_measured, share_ns(check)), stages, ns);
    }
    const bal_stage_costs costs = {.stage_count = stages,
                                   .microbatch_count = 1,
                                   .forward_ns = ns[TIME_FORWARD],
                                   .backward_input_ns = ns[TIME_INPUT],
                                   .backward_weight_ns = ns[TIME_WEIGHT],
                                   .send_forward_ns = ns[TIME_SEND],
                                   .send_backward_ns = ns[TIME_SEND_BACK],
                                   .memory_forward = ns[TIME_NONE],
                                   .memory_backward_input = ns[TIME_NONE],
                                   .memory_backward_weight = ns[TIME_NONE]};
    if (sim_order_compile(schedule, memory, &order, NULL) != STATUS_OK ||
        sim_costs_check(schedule, &costs, NULL) != STATUS_OK) {
        return -1;
    }
    sim_summary_init(&order, memory, &summary);
    sim_order_summarise(&order, &costs, NULL, &summary);
    return summary.makespan_ns;
}

static double effect(int64_t base_ns, int64_t changed_ns)
{
    return changed_ns >= 0 ? (double)changed_ns / (double)base_ns - 1 : 0;
}

/// Plays the plan's order with the plan's op times and messages (medians over what was compared),
/// then with each of the three replaced.
static void find_effects(const ana_check *check, arena *memory, pipeline_effects *effects)
{
    *effects = (pipeline_effects){0};
    if (check->plan->first == NULL || !has_op_times(check)) return;
    const bal_schedule *schedule = &check->plan->first->schedule;
    const ana_timeline *other = check->measured->first;
    const int64_t base_ns = play(check, schedule, false, false, memory);
    if (base_ns <= 0) return;
    effects->is_known = true;
    effects->ops = effect(base_ns, play(check, schedule, true, false, memory));
    effects->messages = effect(base_ns, play(check, schedule, false, true, memory));
    if (other == NULL || other->schedule.rank_count != schedule->rank_count ||
        other->schedule.chunk_count != schedule->chunk_count) {
        return;
    }
    effects->order = effect(base_ns, play(check, &other->schedule, false, false, memory));
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

static bool departs_together(const range *over, double tolerance)
{
    return over->count > 0 && over->departing_count == over->count &&
           (1 + over->largest) <= (1 + tolerance) * (1 + over->smallest);
}

/// The quantities that tell how fast ranks are: op times, or their sums where these are missing.
static ana_check_group speed_group(const ana_check *check)
{
    return has_op_times(check) ? ANA_CHECK_OP : ANA_CHECK_BUSY;
}

static bool is_beyond(const ana_check *check, double change)
{
    return fabs(change) > check->options.tolerance;
}

/// Whether a quantity is one of them, and long enough to tell anything.
static bool counts(const ana_check *check, const ana_check_quantity *quantity)
{
    if (quantity->group != speed_group(check) || quantity->count == 0) return false;
    return quantity->group == ANA_CHECK_BUSY ||
           quantity->planned >= share_ns(check) / ANA_CHECK_SCALE_PART;
}

static bool departs(const ana_check *check, const ana_check_quantity *quantity)
{
    return is_said(quantity) && is_beyond(check, quantity->change);
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
        widen(is_meant ? &found : &rest, quantity->change, departs(check, quantity));
    }
    if (others != NULL) *others = rest;
    return found;
}

static void write_range(const range *over, char out[ANA_CHECK_RANGE_BYTES])
{
    const ana_change_text smallest = ana_check_percent(over->smallest);
    const ana_change_text largest = ana_check_percent(over->largest);
    const bool is_one = strcmp(smallest.text, largest.text) == 0;
    snprintf(out, ANA_CHECK_RANGE_BYTES, "%s%s%s", smallest.text, is_one ? "" : " to ",
             is_one ? "" : largest.text);
}

static void tell_ranges(const char *who, const range *these, const range *others,
                        ana_check_cause *cause)
{
    char text[ANA_CHECK_RANGE_BYTES];
    char other_text[ANA_CHECK_RANGE_BYTES];
    write_range(these, text);
    if (others->count == 0) {
        add_evidence(cause, "times of %s against the plan: %s", who, text);
        return;
    }
    write_range(others, other_text);
    add_evidence(cause, "times of %s against the plan: %s; of all others %s", who, text,
                 other_text);
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

static bool explain_all(const ana_check *check, ana_check_cause *cause)
{
    range none;
    const range all = range_of(check, -1, -1, &none);
    if (!departs_together(&all, check->options.tolerance)) return false;
    const int ranks = check->plan->rank_count;
    if (ranks < 2 && !check->plan->is_by_layer) return false; // then one rank is all
    cause->kind = ANA_CAUSE_ALL_OPS;
    cause->factor = 1 + (all.smallest + all.largest) / 2;
    snprintf(cause->summary, sizeof cause->summary,
             "op times changed on all %s alike, by a factor of %.2f: machine or kernels are %s",
             places_of(check), cause->factor, slower_or_faster(all.smallest));
    tell_ranges("all ops", &all, &none, cause);
    return true;
}

static bool explain_kind(const ana_check *check, ana_check_cause *cause)
{
    if (speed_group(check) != ANA_CHECK_OP) return false;
    for (int kind = 0; kind < OP_KIND_COUNT; kind++) {
        range others;
        char who[32];
        const range these = range_of(check, -1, kind, &others);
        if (!departs_together(&these, check->options.tolerance)) continue;
        if (others.departing_count > 0 || these.count < 2) continue;
        cause->kind = ANA_CAUSE_KIND;
        cause->factor = 1 + (these.smallest + these.largest) / 2;
        snprintf(cause->summary, sizeof cause->summary,
                 "op times changed: %s of all %s alike, by a factor of %.2f, and no other "
                 "kind: the kernels of that pass are %s",
                 ana_check_op_word((bal_op_kind)kind), places_of(check), cause->factor,
                 slower_or_faster(these.smallest));
        snprintf(who, sizeof who, "%s of all %s", ana_check_op_word((bal_op_kind)kind),
                 places_of(check));
        tell_ranges(who, &these, &others, cause);
        return true;
    }
    return false;
}

/// What the ops of a rank took against the plan while one plan held on both sides.
typedef struct epoch {
    int plan;        // index into the plans of the plan's side
    int slow_rank;   // the only one beyond the tolerance; -1: none or several
    int first_layer; // that it had
    int end_layer;
} epoch;

/// Adds the changes of a rank's ops in one iteration. @return how many there are then
static int add_changes(const ana_check *check, int pair, const bal_plan *placed, int rank,
                       double *changes, int count)
{
    const ana_observed *one = check->plan;
    const ana_observed *other = check->measured;
    const int64_t planned_row = (int64_t)check->pairs.plan_sample[pair] * one->stage_count;
    const int64_t measured_row = (int64_t)check->pairs.measured_sample[pair] * other->stage_count;
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

/// The first iteration from which on any of the ops departs.
static int departing_since(const ana_check *check)
{
    int since = INT32_MAX;
    for (int index = 0; index < check->quantity_count; index++) {
        const ana_check_quantity *quantity = &check->quantities[index];
        if (!counts(check, quantity) || !departs(check, quantity)) continue;
        if (quantity->since < since) since = quantity->since;
    }
    return since;
}

/// The median change of the ops of a rank under a plan of the plan's side, since ops depart.
///
/// @param is_known out: false: none was compared
static void rank_change(const ana_check *check, int plan, int rank, int since, arena *scratch,
                        double *change, bool *is_known)
{
    const ana_check_pairs *pairs = &check->pairs;
    const bal_plan *placed = &check->plan->plans[plan];
    const size_t most = (size_t)pairs->count * (size_t)placed->chunk_count * OP_KIND_COUNT;
    double *changes = arena_array(scratch, most, sizeof *changes);
    int count = 0;
    for (int pair = check->warmup; pair < pairs->count; pair++) {
        const bool is_sampled = pairs->plan_sample[pair] >= 0 && pairs->measured_sample[pair] >= 0;
        if (!pairs->same_plan[pair] || !is_sampled) continue;
        if (check->plan->plan_of[pairs->plan_row[pair]] != plan) continue;
        if (check->plan->iterations[pairs->plan_row[pair]].iteration < since) continue;
        count = add_changes(check, pair, placed, rank, changes, count);
    }
    *change = ana_shift_median(changes, count);
    *is_known = count > 0;
}

static void note_layers(const bal_plan *placed, int rank, epoch *at)
{
    at->first_layer = -1;
    for (int stage = 0; stage < placed->rank_count * placed->chunk_count; stage++) {
        if (ana_observed_rank_of(placed, stage) != rank) continue;
        if (at->first_layer < 0) at->first_layer = placed->first_layer[stage];
        at->end_layer = placed->first_layer[stage + 1];
    }
}

/// Finds the ranks that are slow under a plan, in the iterations from since on.
///
/// @param is_known out: false: there are none of these iterations
static void find_slow_rank(const ana_check *check, int since, arena *scratch, epoch *at,
                           int *slow_count, bool *is_known)
{
    *slow_count = 0;
    *is_known = false;
    for (int rank = 0; rank < check->plan->rank_count; rank++) {
        double change = 0;
        bool has_ops = false;
        arena_reset(scratch);
        rank_change(check, at->plan, rank, since, scratch, &change, &has_ops);
        *is_known = *is_known || has_ops;
        if (!has_ops || !is_beyond(check, change)) continue;
        ++*slow_count;
        at->slow_rank = rank;
    }
    if (*slow_count != 1) at->slow_rank = -1;
}

/// Finds the slow rank under each plan that was compared. A plan that was over before any op
/// departed counts only if a rank was slow under it. @param epochs [plan_count]
static void find_epochs(const ana_check *check, arena *scratch, epoch *epochs, int *count)
{
    const int since = departing_since(check);
    *count = 0;
    for (int plan = 0; plan < check->plan->plan_count; plan++) {
        epoch at = {.plan = plan};
        int slow_count = 0;
        bool is_known = false;
        find_slow_rank(check, since, scratch, &at, &slow_count, &is_known);
        if (!is_known) {
            find_slow_rank(check, 0, scratch, &at, &slow_count, &is_known);
            is_known = is_known && slow_count > 0;
        }
        if (!is_known) continue;
        if (at.slow_rank >= 0) note_layers(&check->plan->plans[plan], at.slow_rank, &at);
        epochs[(*count)++] = at;
    }
}

/// Whether layers that the rank has under one plan are elsewhere under another.
static bool has_moved(const epoch *epochs, int count)
{
    for (int each = 1; each < count; each++) {
        if (epochs[each].first_layer != epochs[0].first_layer ||
            epochs[each].end_layer != epochs[0].end_layer) {
            return true;
        }
    }
    return false;
}

static bool is_slow_everywhere(const epoch *epochs, int count, int rank)
{
    for (int each = 0; each < count; each++) {
        if (epochs[each].slow_rank != rank) return false;
    }
    return count > 0;
}

static void tell_moves(const epoch *epochs, int count, ana_check_cause *cause)
{
    char text[240] = "";
    for (int each = 0; each < count && each < PLANS_SHOWN; each++) {
        const size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s%d to %d", each > 0 ? ", then " : "",
                 epochs[each].first_layer, epochs[each].end_layer - 1);
    }
    if (has_moved(epochs, count)) {
        add_evidence(cause,
                     "it is slow with whatever layers it has (%s), and they are not slow "
                     "elsewhere: it is the rank, not its layers",
                     text);
        return;
    }
    add_evidence(cause,
                 "its layers (%s) stayed with it, so that slower layers of this very "
                 "stage are not excluded; that all kinds of ops are slower by one factor "
                 "speaks for the rank",
                 text);
}

/// The only rank that is beyond the tolerance with all its ops; -1: none or several.
static int find_straggler(const ana_check *check, range *these, range *others)
{
    for (int rank = 0; rank < check->plan->rank_count; rank++) {
        *these = range_of(check, rank, -1, others);
        if (!departs_together(these, check->options.tolerance)) continue;
        if (others->departing_count == 0 && others->count > 0) return rank;
    }
    return -1;
}

static bool explain_straggler(const ana_check *check, const epoch *epochs, int epoch_count,
                              ana_check_cause *cause)
{
    range these;
    range others;
    char who[32];
    const int rank = find_straggler(check, &these, &others);
    if (rank < 0) return false;
    if (epoch_count > 1 && !is_slow_everywhere(epochs, epoch_count, rank)) return false;
    cause->kind = ANA_CAUSE_STRAGGLER;
    cause->rank = rank;
    cause->factor = 1 + (these.smallest + these.largest) / 2;
    snprintf(cause->summary, sizeof cause->summary,
             "rank %d is a straggler: all its ops are %s by one factor, %.2f", rank,
             slower_or_faster(these.smallest), cause->factor);
    snprintf(who, sizeof who, "rank %d", rank);
    tell_ranges(who, &these, &others, cause);
    if (epoch_count > 0) tell_moves(epochs, epoch_count, cause);
    return true;
}

/// Layers that every slow rank had, where another is slow under another plan.
static bool explain_layers(const epoch *epochs, int count, ana_check_cause *cause)
{
    int first = 0;
    int end = INT32_MAX;
    bool has_others = false;
    for (int each = 0; each < count; each++) {
        if (epochs[each].slow_rank < 0) return false;
        has_others = has_others || epochs[each].slow_rank != epochs[0].slow_rank;
        if (epochs[each].first_layer > first) first = epochs[each].first_layer;
        if (epochs[each].end_layer < end) end = epochs[each].end_layer;
    }
    if (!has_others || first >= end) return false;
    cause->kind = ANA_CAUSE_STAGES;
    snprintf(cause->summary, sizeof cause->summary,
             "op times changed: of layers among %d to %d, on whatever rank they are", first,
             end - 1);
    for (int each = 0; each < count && each < 3; each++) {
        add_evidence(cause, "under plan %d rank %d alone is off, with layers %d to %d",
                     epochs[each].plan, epochs[each].slow_rank, epochs[each].first_layer,
                     epochs[each].end_layer - 1);
    }
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
        widen(departs(check, quantity) ? &these : &others, quantity->change, true);
        if (!departs(check, quantity)) continue;
        const size_t used = strlen(list);
        if (used + 48 < sizeof list) {
            snprintf(list + used, sizeof list - used, "%s%s", count > 0 ? ", " : "",
                     quantity->name);
        }
        count++;
    }
    cause->kind = ANA_CAUSE_STAGES;
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
/// - all of one rank by one factor, and no others: a straggler; where layers moved, only if the
///   rank is slow under every plan
/// - where layers moved and another rank is slow under each plan, with some layers in common: those
///   layers
/// - else the stages that are beyond it
static void explain_ops(const ana_check *check, arena *memory, ana_check_cause *cause)
{
    arena *scratch = arena_create(1 << 16);
    epoch *epochs = arena_array(memory, (size_t)check->plan->plan_count, sizeof *epochs);
    int epoch_count = 0;
    if (speed_group(check) == ANA_CHECK_OP && !check->plan->is_by_layer) {
        find_epochs(check, scratch, epochs, &epoch_count);
    }
    if (!explain_all(check, cause) && !explain_kind(check, cause) &&
        !explain_straggler(check, epochs, epoch_count, cause) &&
        !explain_layers(epochs, epoch_count, cause)) {
        explain_stages(check, cause);
    }
    arena_destroy(scratch);
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
        if (largest == NULL || fabs(quantity->change) > fabs(largest->change)) largest = quantity;
    }
    return largest;
}

static const ana_check_quantity *worst_of(const ana_check *check, ana_check_group group)
{
    return largest_of(check, group, true);
}

static void tell_effects(const ana_check *check, const pipeline_effects *effects,
                         ana_check_cause *cause)
{
    const ana_check_quantity *length = &check->quantities[check->length];
    if (!effects->is_known) return;
    add_evidence(cause,
                 "the plan's pipeline with the measured op times alone takes %s, with the measured "
                 "messages alone %s, in the measured order alone %s; iterations took %s",
                 ana_check_percent(effects->ops).text, ana_check_percent(effects->messages).text,
                 ana_check_percent(effects->order).text, ana_check_percent(length->change).text);
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
        add_evidence(cause,
                     "%s: %s instead of %s from the sender's end to the receiver's "
                     "begin, while the receiver idled",
                     message->name, measured, planned);
    }
}

static void explain_link(const ana_check *check, ana_check_cause *cause)
{
    const ana_check_quantity *slow = largest_of(check, ANA_CHECK_MESSAGE, false);
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
    if (quantity->detail[0] != '\0') add_evidence(cause, "%s", quantity->detail);
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
                      "the pipeline is as planned, what comes after it is not: reduction of "
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

static void explain_pipeline(const ana_check *check, arena *memory, ana_check_cause *cause)
{
    pipeline_effects effects;
    find_effects(check, memory, &effects);
    const candidate candidates[] = {
        {ANA_CHECK_OP, effects.ops, worst_of(check, speed_group(check))},
        {ANA_CHECK_MESSAGE, effects.messages, worst_of(check, ANA_CHECK_MESSAGE)},
        {ANA_CHECK_ORDER, effects.order, worst_of(check, ANA_CHECK_ORDER)},
    };
    const candidate *chosen = choose(check, candidates, sizeof candidates / sizeof candidates[0]);
    if (chosen == NULL) {
        explain_rest(check, cause);
    } else if (chosen->group == ANA_CHECK_OP) {
        explain_ops(check, memory, cause);
    } else if (chosen->group == ANA_CHECK_MESSAGE) {
        explain_link(check, cause);
    } else {
        explain_words(chosen->departing, ANA_CAUSE_ORDER, "ops run in another order", cause);
    }
    tell_effects(check, &effects, cause);
}

void ana_check_find_cause(ana_check *check, arena *memory)
{
    ana_check_cause *cause = &check->cause;
    *cause = (ana_check_cause){.rank = -1};
    if (check->verdict != ANA_CHECK_DEPARTS) return;
    const ana_check_quantity *start = worst_of(check, ANA_CHECK_PLAN);
    if (start != NULL) {
        explain_words(start, ANA_CAUSE_PLAN, "another plan was played from the start", cause);
    } else {
        explain_pipeline(check, memory, cause);
    }
}

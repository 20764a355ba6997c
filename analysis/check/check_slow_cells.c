#include "analysis/check/check_slow_cells.h"

#include "analysis/check/check_parts.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { PLANS_SHOWN = 8 };

void ana_check_evidence(ana_check_cause *cause, const char *format, ...)
{
    va_list arguments;
    if (cause->evidence_count == ANA_CHECK_EVIDENCE_MAX) return;
    va_start(arguments, format);
    vsnprintf(cause->evidence[cause->evidence_count++], ANA_CHECK_LINE_BYTES, format, arguments);
    va_end(arguments);
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
    const bool has_ops = check->plan->has_op_times && check->measured->has_op_times;
    return has_ops ? ANA_CHECK_OP : ANA_CHECK_BUSY;
}

static bool is_beyond(const ana_check *check, double change)
{
    return fabs(change) > check->options.tolerance;
}

/// Whether a quantity is one of them, and long enough to tell anything.
static bool counts(const ana_check *check, const ana_check_quantity *quantity)
{
    const double share = check->quantities[check->length].planned / check->plan->microbatch_count;
    if (quantity->group != speed_group(check) || quantity->count == 0) return false;
    return quantity->group == ANA_CHECK_BUSY || quantity->planned >= share / ANA_CHECK_SCALE_PART;
}

static bool departs(const ana_check *check, const ana_check_quantity *quantity)
{
    const bool is_said =
        quantity->verdict == ANA_CHECK_DEPARTS || quantity->verdict == ANA_CHECK_IGNORED;
    return is_said && is_beyond(check, quantity->change);
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
    char smallest[32];
    char largest[32];
    ana_check_percent(over->smallest, smallest);
    ana_check_percent(over->largest, largest);
    if (strcmp(smallest, largest) == 0) {
        snprintf(out, ANA_CHECK_RANGE_BYTES, "%s", smallest);
    } else {
        snprintf(out, ANA_CHECK_RANGE_BYTES, "%s to %s", smallest, largest);
    }
}

static void tell_ranges(const char *who, const range *these, const range *others,
                        ana_check_cause *cause)
{
    char text[ANA_CHECK_RANGE_BYTES];
    char other_text[ANA_CHECK_RANGE_BYTES];
    write_range(these, text);
    if (others->count == 0) {
        ana_check_evidence(cause, "times of %s against the plan: %s", who, text);
        return;
    }
    write_range(others, other_text);
    ana_check_evidence(cause, "times of %s against the plan: %s; of all others %s", who, text,
                       other_text);
}

static const char *slower_or_faster(double change)
{
    return change > 0 ? "slower" : "faster";
}

static bool explain_all(const ana_check *check, ana_check_cause *cause)
{
    range none;
    const range all = range_of(check, -1, -1, &none);
    if (!departs_together(&all, check->options.tolerance)) return false;
    const int ranks = check->plan->rank_count;
    if (ranks < 2) return false; // then one rank is all
    cause->kind = ANA_CAUSE_ALL_OPS;
    cause->factor = 1 + (all.smallest + all.largest) / 2;
    snprintf(cause->summary, sizeof cause->summary,
             "op times changed on all stages alike, by a factor of %.2f: machine or kernels are %s",
             cause->factor, slower_or_faster(all.smallest));
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
                 "op times changed: %s of all stages alike, by a factor of %.2f, and no other "
                 "kind: the kernels of that pass are %s",
                 ana_check_op_word((bal_op_kind)kind), cause->factor,
                 slower_or_faster(these.smallest));
        snprintf(who, sizeof who, "%s of all stages", ana_check_op_word((bal_op_kind)kind));
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
    ana_shift_sort(changes, count);
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
/// departed counts only if somebody was slow under it. @param epochs [plan_count]
static status find_epochs(const ana_check *check, arena *scratch, epoch *epochs, int *count)
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
    return STATUS_OK;
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
        ana_check_evidence(cause,
                           "it is slow with whatever layers it has (%s), and they are not slow "
                           "elsewhere: it is the rank, not its layers",
                           text);
        return;
    }
    ana_check_evidence(cause,
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
        ana_check_evidence(cause, "under plan %d rank %d alone is off, with layers %d to %d",
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
                 "op times changed a little on many stages; none is beyond the tolerance alone");
        tell_ranges("ops", &others, &these, cause);
        return;
    }
    snprintf(cause->summary, sizeof cause->summary, "op times changed on some stages: %s%s", list,
             strlen(list) + 48 >= sizeof list ? ", ..." : "");
    tell_ranges("these", &these, &others, cause);
}

status ana_check_explain_ops(const ana_check *check, ana_check_cause *cause, error_message *err)
{
    arena *memory = arena_create(1 << 14);
    arena *scratch = arena_create(1 << 16);
    epoch *epochs = memory != NULL
                        ? arena_array(memory, (size_t)check->plan->plan_count, sizeof *epochs)
                        : NULL;
    int epoch_count = 0;
    status found = STATUS_OK;
    if (epochs == NULL || scratch == NULL) {
        found = error_set(err, STATUS_NO_MEMORY, "out of memory");
    } else if (speed_group(check) == ANA_CHECK_OP) {
        found = find_epochs(check, scratch, epochs, &epoch_count);
    }
    if (found == STATUS_OK && !explain_all(check, cause) && !explain_kind(check, cause) &&
        !explain_straggler(check, epochs, epoch_count, cause) &&
        !explain_layers(epochs, epoch_count, cause)) {
        explain_stages(check, cause);
    }
    arena_destroy(scratch);
    arena_destroy(memory);
    return found;
}

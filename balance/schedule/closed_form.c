#include "balance/schedule/closed_form.h"

#include "balance/schedule/schedule_families.h"

#include <math.h>
#include <stdbool.h>

static bal_closed_ns holds(int64_t ns)
{
    return (bal_closed_ns){.ns = ns};
}

static bal_closed_ns fails(const char *because)
{
    return (bal_closed_ns){.ns = -1, .because = because};
}

static bal_closed_form same(bal_closed_ns length)
{
    return (bal_closed_form){.makespan = length, .span = length};
}

static int64_t work_ns(const bal_equal_stages *stages)
{
    return stages->forward_ns + stages->backward_input_ns + stages->backward_weight_ns;
}

bal_closed_form bal_schedule_length_gpipe(const bal_equal_stages *stages)
{
    const int64_t ahead = stages->rank_count - 1;
    return same(
        holds((stages->microbatch_count + ahead) * work_ns(stages) + 2 * ahead * stages->send_ns));
}

/// A message comes in the way of all but every P-th of the M + P - 2 turns between rank 0's first
/// forward and its last backward.
bal_closed_form bal_schedule_length_1f1b(const bal_equal_stages *stages)
{
    const int64_t ahead = stages->rank_count - 1;
    const int64_t turns = stages->microbatch_count + ahead - 1;
    return same(holds((stages->microbatch_count + ahead) * work_ns(stages) +
                      2 * (turns - turns / stages->rank_count) * stages->send_ns));
}

bal_closed_form bal_schedule_length_interleaved_1f1b(const bal_equal_stages *stages)
{
    const int64_t ahead = stages->rank_count - 1;
    const int64_t chunks = stages->chunk_count;
    const int64_t backward_ns = stages->backward_input_ns + stages->backward_weight_ns;
    const int64_t work = work_ns(stages);
    if (ahead == 0) return same(holds(stages->microbatch_count * work));
    if (work % chunks != 0 || stages->forward_ns % chunks != 0) {
        return same(fails("the times of a chunk are no integers"));
    }
    if (stages->send_ns > bal_smaller(stages->forward_ns, backward_ns) / chunks) {
        return same(fails("a message takes longer than F or BW of a chunk"));
    }
    return same(holds(stages->microbatch_count * work + ahead * (work / chunks) +
                      2 * (stages->rank_count * chunks - 1) * stages->send_ns));
}

/// All work, and for each rank ahead a forward or a turn, of which the span has turns only.
static bal_closed_form turning(const bal_equal_stages *stages, int64_t forward_ns, int64_t turn_ns)
{
    const int64_t ahead = stages->rank_count - 1;
    const int64_t base_ns =
        stages->microbatch_count * work_ns(stages) + 4 * ahead * stages->send_ns;
    return (bal_closed_form){.makespan = holds(base_ns + ahead * bal_larger(forward_ns, turn_ns)),
                             .span = holds(base_ns + ahead * turn_ns)};
}

bal_closed_form bal_schedule_length_zb_h1(const bal_equal_stages *stages)
{
    const int64_t ahead = stages->rank_count - 1;
    const int64_t forward_ns = stages->forward_ns;
    const int64_t input_ns = stages->backward_input_ns;
    const int64_t weight_ns = stages->backward_weight_ns;
    const int64_t send_ns = stages->send_ns;
    if (stages->microbatch_count < stages->rank_count) {
        return same(fails("there are fewer microbatches than ranks"));
    }
    if (ahead > 0 && send_ns > 0) {
        if (stages->microbatch_count < 2 * stages->rank_count - 1) {
            return same(fails("messages take time and there are fewer than 2P-1 microbatches"));
        }
        if (weight_ns > bal_smaller(forward_ns, input_ns)) {
            return same(fails("messages take time and W is longer than F or B"));
        }
        if (2 * send_ns > weight_ns) {
            return same(fails("two messages take longer than W"));
        }
    }
    return turning(stages, forward_ns, bal_larger(input_ns, forward_ns + input_ns - weight_ns));
}

bal_closed_form bal_schedule_length_zb_h2(const bal_equal_stages *stages)
{
    const int64_t ahead = stages->rank_count - 1;
    bal_closed_form form = {.makespan =
                                fails("no formula is known; at least M(F+B+W) + (P-1)(F+c)")};
    const int64_t forward_ns = stages->forward_ns;
    const int64_t weight_ns = stages->backward_weight_ns;
    if (stages->microbatch_count < 2 * stages->rank_count - 1) {
        form.span = fails("there are fewer than 2P-1 microbatches");
    } else if (ahead > 0 && 2 * stages->send_ns > weight_ns) {
        form.span = fails("two messages take longer than W");
    } else {
        const int64_t turn_ns = forward_ns + stages->backward_input_ns + 2 * stages->send_ns -
                                2 * bal_smaller(forward_ns, weight_ns);
        form.span =
            holds(stages->microbatch_count * work_ns(stages) + ahead * bal_larger(0, turn_ns));
    }
    if (ahead == 0) form.makespan = form.span;
    return form;
}

/// The slots that P ranks leave empty under a building block in which every op takes one slot.
static int64_t v_half_bubble(int64_t ranks)
{
    if (ranks <= 2) return ranks - 1;
    return 3 * ranks - (ranks % 2 == 0 ? 7 : 4);
}

static int64_t v_min_bubble(int64_t ranks)
{
    return 4 * ranks - (ranks % 3 == 0 ? 7 : 5);
}

static int64_t one_f_one_b_v_bubble(int64_t ranks)
{
    if (ranks == 2) return 4;
    return 5 * ranks - (ranks % 3 == 1 ? 5 : 7);
}

/// @param reason what keeps this number of ranks and microbatches from a formula, or NULL
static bal_closed_form block(const bal_equal_stages *stages, int64_t bubble, const char *reason)
{
    const int64_t op_ns = stages->forward_ns / 2;
    const int64_t work = stages->microbatch_count * work_ns(stages);
    if (stages->rank_count == 1) return same(holds(work));
    if (reason != NULL) return same(fails(reason));
    if (stages->backward_input_ns != stages->forward_ns ||
        stages->backward_weight_ns != stages->forward_ns) {
        return same(fails("F, B and W take different times"));
    }
    if (stages->forward_ns % 2 != 0) return same(fails("the times of a chunk are no integers"));
    if (stages->send_ns > 0) return same(fails("messages take time"));
    return same(holds(work + bubble * op_ns));
}

bal_closed_form bal_schedule_length_1f1b_v(const bal_equal_stages *stages)
{
    const int64_t ranks = stages->rank_count;
    const char *reason = NULL;
    if (stages->microbatch_count < ranks) reason = "there are fewer microbatches than ranks";
    if (ranks % 3 == 0) reason = "no formula is known where 3 divides the ranks";
    return block(stages, one_f_one_b_v_bubble(ranks), reason);
}

bal_closed_form bal_schedule_length_v_half(const bal_equal_stages *stages)
{
    const bool is_short = stages->microbatch_count < stages->rank_count + 2;
    return block(stages, v_half_bubble(stages->rank_count),
                 is_short ? "there are fewer than P+2 microbatches" : NULL);
}

bal_closed_form bal_schedule_length_v_min(const bal_equal_stages *stages)
{
    const bool is_short = stages->microbatch_count < stages->rank_count + 1;
    return block(stages, v_min_bubble(stages->rank_count),
                 is_short ? "there are fewer than P+1 microbatches" : NULL);
}

/// Why a form of equal ops, without messages, does not hold; NULL: it may.
static const char *not_in_chunks(const bal_equal_stages *stages)
{
    const int chunks = stages->chunk_count;
    if (stages->rank_count > 1 && stages->send_ns > 0) return "messages take time";
    if (stages->forward_ns % chunks != 0 || stages->backward_input_ns % chunks != 0 ||
        stages->backward_weight_ns % chunks != 0) {
        return "the times of a chunk are no integers";
    }
    return NULL;
}

/// zb-h1 with the turns of a chunk.
bal_closed_form bal_schedule_length_interleaved_zb(const bal_equal_stages *stages)
{
    const char *because = not_in_chunks(stages);
    if (because == NULL && stages->microbatch_count < stages->rank_count) {
        because = "there are fewer microbatches than ranks";
    }
    if (because != NULL) return same(fails(because));
    const int64_t forward_ns = stages->forward_ns / stages->chunk_count;
    const int64_t input_ns = stages->backward_input_ns / stages->chunk_count;
    const int64_t weight_ns = stages->backward_weight_ns / stages->chunk_count;
    return turning(stages, forward_ns, bal_larger(input_ns, forward_ns + input_ns - weight_ns));
}

bal_closed_form bal_schedule_length_zb_v_hand(const bal_equal_stages *stages)
{
    const char *because = not_in_chunks(stages);
    if (because == NULL && stages->microbatch_count < 2 * stages->rank_count - 1) {
        because = "there are fewer than 2P-1 microbatches";
    }
    if (because == NULL && (stages->forward_ns != stages->backward_input_ns ||
                            stages->backward_weight_ns > stages->forward_ns)) {
        because = "F and B differ, or W is longer";
    }
    if (because != NULL) return same(fails(because));
    const int64_t forward_ns = stages->forward_ns / 2;
    return turning(stages, forward_ns, 2 * (forward_ns - stages->backward_weight_ns / 2));
}

bal_closed_form bal_schedule_length_dualpipe_v(const bal_equal_stages *stages)
{
    const char *because = not_in_chunks(stages);
    if (because == NULL && (stages->forward_ns != stages->backward_input_ns ||
                            stages->forward_ns != stages->backward_weight_ns)) {
        because = "F, B and W differ";
    }
    if (because != NULL) return same(fails(because));
    return same(holds(stages->microbatch_count * work_ns(stages) +
                      (stages->rank_count - 1) * stages->forward_ns));
}

/// The ends cost (P-2) forwards or backwards, whichever take longer; every further unit of P
/// microbatches begins where the other kind leaves too little room.
bal_closed_form bal_schedule_length_chimera(const bal_equal_stages *stages)
{
    const int64_t ranks = stages->rank_count;
    const int64_t microbatches = stages->microbatch_count;
    const int64_t forward_ns = stages->forward_ns;
    const int64_t backward_ns = stages->backward_input_ns + stages->backward_weight_ns;
    const int64_t shorter_ns = bal_smaller(forward_ns, backward_ns);
    const int64_t longer_ns = bal_larger(forward_ns, backward_ns);
    const int64_t work = microbatches * work_ns(stages);
    if (ranks > 2 && stages->send_ns > 0) return same(fails("messages take time"));
    if (microbatches <= ranks) {
        return same(holds(work + (ranks - 2) * work_ns(stages) - (microbatches - 2) * shorter_ns));
    }
    if (microbatches % ranks != 0) {
        return same(fails("there are more microbatches than ranks and no multiple of them"));
    }
    const int64_t units = microbatches / ranks;
    return same(holds(work + (ranks - 2) * (longer_ns + (units - 1) * (longer_ns - shorter_ns))));
}

bal_closed_form bal_closed_form_of(const char *schedule, const bal_equal_stages *stages)
{
    const bal_schedule_family *family = bal_schedule_family_find(schedule);
    if (family == NULL || family->length == NULL) return same(fails("no formula is known"));
    return family->length(stages);
}

/// P * makespan of Chimera's critical path (P forwards, 2P-2 backwards, 3P-2 messages), and the
/// paper's count of what of it is idle.
double bal_published_eq1_ratio(int rank_count, int64_t forward_ns, int64_t backward_ns,
                               int64_t send_ns)
{
    const double p = rank_count;
    const double total =
        p * (p * (double)(forward_ns + send_ns) + (2 * p - 2) * (double)(backward_ns + send_ns));
    if (rank_count < 2 || rank_count % 2 != 0 || total <= 0) return NAN;
    const double idle =
        (1.5 * p * p + 2 * p - 6) * (double)send_ns + (p * p - 2 * p) * (double)backward_ns;
    return idle / total;
}

bal_published_eq1 bal_published_eq1_of(const double *forward_ns, const double *backward_ns,
                                       int rank_count)
{
    const double p = rank_count;
    double work = 0;
    double backward = 0;
    double forward_max = 0;
    double backward_max = 0;
    for (int rank = 0; rank < rank_count; rank++) {
        work += forward_ns[rank] + backward_ns[rank];
        backward += backward_ns[rank];
        forward_max = fmax(forward_max, forward_ns[rank]);
        backward_max = fmax(backward_max, backward_ns[rank]);
    }
    bal_published_eq1 ratios = {NAN, NAN};
    if (rank_count < 2 || rank_count % 2 != 0 || work <= 0) return ratios;
    const double idle = (1 - 2 / p) * backward;
    ratios.printed_ratio = idle / (work + idle);
    ratios.unequal_ratio = 1 - work / (p * forward_max + (2 * p - 2) * backward_max);
    return ratios;
}

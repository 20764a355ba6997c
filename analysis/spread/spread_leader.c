#include "analysis/spread/spread_leader.h"

#include "analysis/spread/spread_clock.h"
#include "analysis/spread/spread_crew.h"
#include "analysis/spread/spread_parcel.h"
#include "analysis/spread/spread_window.h"
#include "base/arena.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW_ITEMS = 65536, AHEAD_MAX = 4096 };
static const int64_t window_bytes = 256 << 20;
static const int64_t nap_ns = 2000000;
static const int64_t ahead_ns = 100000000; // a rank has work for so long in advance
static const int64_t rate_every_ns = 5000000;

/// A rank, as the leader sees it.
typedef struct member {
    bool is_ready; // has said how many threads it has
    int thread_count;
    int64_t given_count; // items that it has and no results of
    int64_t done_count;  // since marked_ns
    int64_t marked_ns;
    double items_per_ns; // lately; 0: not known yet
} member;

typedef struct leader {
    ana_post *post;
    const ana_spread_options *options;
    const ana_items *items;
    const ana_keeper *keeper; // NULL: nothing is kept
    int pass;
    bool *is_done; // [items->count] left out or kept; NULL: as the items say
    bool has_gap;  // what is kept behind one does not count
    ana_crew *crew;
    ana_window window;
    int32_t *owner; // [window.capacity] who has item i, at i % capacity; -1: nobody any more
    int64_t given;  // items before this one have been given to somebody
    int64_t orphan_count;
    int64_t end;     // items before this one are worth doing: none behind a failed one is
    member *members; // [rank_count]
    ana_spread_report report;
} leader;

// Giving

static int32_t *owner_of(const leader *all, int64_t item)
{
    return &all->owner[item & (all->window.capacity - 1)];
}

/// How many items more a rank should have: for a tenth of a second, and one a thread.
static int64_t room_of(const leader *all, int rank)
{
    const member *to = &all->members[rank];
    const double ahead = to->items_per_ns * (double)ahead_ns;
    int64_t limit = ahead < AHEAD_MAX ? (int64_t)ahead : AHEAD_MAX;
    if (limit < to->thread_count) limit = to->thread_count;
    return limit - to->given_count;
}

static status give_range(leader *all, int rank, int64_t first, int64_t end, error_message *err)
{
    const ana_letter letter = {.kind = ANA_LETTER_CHUNK, .first = first, .count = end - first};
    for (int64_t item = first; item < end; item++) {
        *owner_of(all, item) = rank;
    }
    all->members[rank].given_count += end - first;
    if (rank == ANA_LEADER) return ana_crew_give(all->crew, first, end, err);
    return ana_post_send(all->post, rank, &letter, NULL, 0, err);
}

/// Items that a lost rank had.
static status give_orphans(leader *all, int rank, int64_t room, error_message *err)
{
    for (int64_t item = all->window.next; item < all->given && room > 0 && all->orphan_count > 0;
         item++) {
        if (ana_window_has(&all->window, item) || *owner_of(all, item) >= 0) continue;
        TRY(give_range(all, rank, item, item + 1, err));
        all->orphan_count--;
        all->report.repeated_item_count++;
        room--;
    }
    return STATUS_OK;
}

/// The next items, in pieces where some are left out, up to what the window holds.
static status give_new(leader *all, int rank, int64_t room, error_message *err)
{
    const ana_window *window = &all->window;
    if (window->held_bytes > window_bytes) return STATUS_OK;
    while (room > 0) {
        const int64_t first = ana_window_first_open(window, all->given);
        int64_t end = first;
        while (end < all->end && room > 0 && ana_window_reaches(window, end) &&
               !ana_window_has(window, end)) {
            end++;
            room--;
        }
        if (end == first) return STATUS_OK;
        all->given = end;
        TRY(give_range(all, rank, first, end, err));
    }
    return STATUS_OK;
}

static status give(leader *all, error_message *err)
{
    for (int rank = 0; rank < all->report.rank_count; rank++) {
        const int64_t room =
            all->post->is_lost[rank] || !all->members[rank].is_ready ? 0 : room_of(all, rank);
        // Not item by item: a letter costs more than a short item.
        if (room <= 0 || room < all->members[rank].given_count / 4) continue;
        if (all->orphan_count > 0) TRY(give_orphans(all, rank, room, err));
        TRY(give_new(all, rank, room_of(all, rank), err));
    }
    return STATUS_OK;
}

// Taking

/// Of a rank that has worked: how fast it is.
static void note_rate(member *from, int64_t now_ns)
{
    if (now_ns - from->marked_ns < rate_every_ns || from->done_count == 0) return;
    const double rate = (double)from->done_count / (double)(now_ns - from->marked_ns);
    from->items_per_ns = from->items_per_ns > 0 ? (from->items_per_ns + rate) / 2 : rate;
    from->marked_ns = now_ns;
    from->done_count = 0;
}

static void keep(leader *all, int from, ana_result *result)
{
    all->members[from].done_count++;
    if (ana_window_has(&all->window, result->item)) {
        text_free(&result->text);
        return;
    }
    const int owner = *owner_of(all, result->item);
    if (owner >= 0) all->members[owner].given_count--;
    if (owner < 0) all->orphan_count--;
    if (result->code != STATUS_OK && result->item + 1 < all->end) all->end = result->item + 1;
    ana_window_keep(&all->window, result);
}

static void take_own(leader *all)
{
    ana_result *results = NULL;
    const int64_t count = ana_crew_take(all->crew, &results);
    for (int64_t index = 0; index < count; index++) {
        keep(all, ANA_LEADER, &results[index]);
    }
    note_rate(&all->members[ANA_LEADER], ana_spread_now_ns());
}

static status welcome(leader *all, const ana_letter *hello, error_message *err)
{
    member *from = &all->members[hello->from];
    if (hello->count != all->items->count) {
        return error_set(err, STATUS_INVALID,
                         "rank %d has %" PRId64 " items, rank 0 has %" PRId64
                         ": do they read the same files?",
                         hello->from, hello->count, all->items->count);
    }
    from->is_ready = true;
    from->thread_count = (int)hello->first;
    from->marked_ns = ana_spread_now_ns();
    all->report.thread_count += from->thread_count;
    return STATUS_OK;
}

static void open_results(leader *all, const ana_letter *letter, const char *bytes,
                         int64_t byte_count)
{
    ana_parcel parcel = {.bytes = bytes, .byte_count = byte_count};
    ana_result result;
    while (ana_parcel_read(&parcel, &result)) {
        keep(all, letter->from, &result);
    }
    note_rate(&all->members[letter->from], ana_spread_now_ns());
}

static status take_letters(leader *all, error_message *err)
{
    ana_letter letter;
    const char *bytes = NULL;
    int64_t byte_count = 0;
    bool is_there = true;
    for (;;) {
        TRY(ana_post_take(all->post, &letter, &bytes, &byte_count, &is_there, err));
        if (!is_there) return STATUS_OK;
        if (letter.kind == ANA_LETTER_HELLO) TRY(welcome(all, &letter, err));
        if (letter.kind == ANA_LETTER_RESULTS) {
            open_results(all, &letter, bytes, byte_count);
        }
        if (letter.kind == ANA_LETTER_FAILURE) {
            return error_set(err, (status)letter.code, "rank %d: %.*s", letter.from,
                             (int)byte_count, bytes);
        }
    }
}

/// What lost ranks had is nobody's.
static void find_orphans(leader *all)
{
    for (int rank = 0; rank < all->report.rank_count; rank++) {
        if (all->post->is_lost[rank]) all->members[rank].is_ready = false;
    }
    for (int64_t item = all->window.next; item < all->given; item++) {
        int32_t *owner = owner_of(all, item);
        if (ana_window_has(&all->window, item) || *owner < 0) continue;
        if (!all->post->is_lost[*owner]) continue;
        all->members[*owner].given_count--;
        all->orphan_count++;
        *owner = -1;
    }
}

static status tend(leader *all, error_message *err)
{
    TRY(ana_post_tend(all->post, err));
    const int lost_count = ana_post_lost_count(all->post);
    if (lost_count == all->report.lost_rank_count) return STATUS_OK;
    all->report.lost_rank_count = lost_count;
    find_orphans(all);
    return STATUS_OK;
}

// Putting

static void count_put(leader *all)
{
    const ana_watcher *watcher = &all->options->watcher;
    all->report.item_count++;
    if (watcher->step != NULL) watcher->step(watcher->context);
}

static status put_ready(leader *all, error_message *err)
{
    const ana_items *items = all->items;
    for (;;) {
        const ana_result *front = ana_window_front(&all->window);
        if (front == NULL) return STATUS_OK;
        if (front->code != STATUS_OK) {
            return error_set(err, front->code, "%s",
                             front->text.length > 0 ? front->text.bytes : "");
        }
        const ana_keeper *keeper = all->keeper;
        if (keeper != NULL) {
            TRY(keeper->keep(keeper->context, all->pass, front->item, &front->text, err));
        }
        TRY(items->put(items->context, front->item, &front->text, err));
        count_put(all);
        ana_window_pop(&all->window);
    }
}

static bool is_interrupted(const leader *all)
{
    return all->options->interrupt != NULL && atomic_load(all->options->interrupt);
}

/// Puts what comes without a gap from what is there and what the own threads have at hand.
static status wind_up(leader *all, error_message *err)
{
    ana_crew_drop(all->crew);
    while (ana_crew_is_busy(all->crew)) {
        ana_crew_await(all->crew, ana_spread_now_ns() + nap_ns);
    }
    take_own(all);
    TRY(take_letters(all, err));
    TRY(put_ready(all, err));
    return error_set(err, STATUS_BACKEND, "interrupted");
}

static status work(leader *all, error_message *err)
{
    while (all->window.next < all->items->count) {
        if (is_interrupted(all)) return wind_up(all, err);
        TRY(give(all, err));
        ana_crew_await(all->crew, ana_spread_now_ns() + nap_ns);
        TRY(ana_crew_check(all->crew, err));
        take_own(all);
        TRY(take_letters(all, err));
        TRY(tend(all, err));
        TRY(put_ready(all, err));
    }
    return STATUS_OK;
}

// What is kept

/// Puts a result that was kept, if it is the next one. Results are kept in order, so only what
/// somebody has taken out of a store leaves a gap.
static status put_kept(void *target, int64_t item, const char *bytes, size_t length,
                       error_message *err)
{
    leader *all = target;
    const ana_items *items = all->items;
    const ana_window so_far = {.count = items->count, .is_done = all->is_done};
    text_buffer text = {0};
    all->has_gap = all->has_gap || item != ana_window_first_open(&so_far, all->given);
    if (all->has_gap) return STATUS_OK;
    text_append_bytes(&text, bytes, length);
    status code = STATUS_OK;
    if (code == STATUS_OK) code = items->put(items->context, item, &text, err);
    text_free(&text);
    all->is_done[item] = true;
    all->given = item + 1;
    count_put(all);
    all->report.recalled_item_count++;
    return code;
}

static status recall(leader *all, error_message *err)
{
    const ana_items *items = all->items;
    const size_t count = (size_t)items->count;
    if (all->keeper == NULL || count == 0) return STATUS_OK;
    all->is_done = memory_array(count, sizeof *all->is_done);
    if (items->is_done != NULL) memcpy(all->is_done, items->is_done, count * sizeof *all->is_done);
    return all->keeper->recall(all->keeper->context, all->pass, all, put_kept, err);
}

// The whole

static status open(leader *all, error_message *err)
{
    const int64_t count = all->items->count;
    const int64_t capacity = count < WINDOW_ITEMS ? (count > 0 ? count : 1) : WINDOW_ITEMS;
    TRY(recall(all, err));
    const bool *is_done = all->is_done != NULL ? all->is_done : all->items->is_done;
    ana_window_open(&all->window, count, is_done, capacity);
    all->owner = memory_array((size_t)all->window.capacity, sizeof *all->owner);
    all->members = memory_array((size_t)all->report.rank_count, sizeof *all->members);
    all->given = all->window.next;
    all->end = count;
    all->members[ANA_LEADER] = (member){.is_ready = true,
                                        .thread_count = all->options->thread_count,
                                        .marked_ns = ana_spread_now_ns()};
    return ana_crew_start(all->items, all->options->thread_count, &all->crew, err);
}

/// Tells all how it ended.
static void tell_end(leader *all, status code, const error_message *why)
{
    const char *message = code == STATUS_OK ? "" : why->message;
    const ana_letter letter = {.kind = ANA_LETTER_END, .code = (int32_t)code};
    (void)ana_post_send_all(all->post, &letter, message, (int64_t)strlen(message), NULL);
}

status ana_lead(ana_post *post, const ana_spread_options *options, const ana_items *items,
                const ana_keeper *keeper, int pass, ana_spread_report *report, error_message *err)
{
    const int64_t begun_ns = ana_spread_now_ns();
    error_message own = {0};
    leader all = {.post = post, .options = options, .items = items, .keeper = keeper, .pass = pass};
    all.report.rank_count = ana_post_rank_count(post);
    all.report.thread_count = options->thread_count;
    all.report.lost_rank_count = ana_post_lost_count(post);
    if (options->watcher.begin != NULL) {
        options->watcher.begin(options->watcher.context, items->count);
    }
    status code = open(&all, &own);
    if (code == STATUS_OK) code = work(&all, &own);
    if (options->watcher.end != NULL) options->watcher.end(options->watcher.context);
    tell_end(&all, code, &own);
    if (all.crew != NULL) ana_crew_drop(all.crew);
    ana_crew_stop(all.crew);
    ana_window_close(&all.window);
    free(all.is_done);
    free(all.owner);
    free(all.members);
    all.report.elapsed_ns = ana_spread_now_ns() - begun_ns;
    if (report != NULL) *report = all.report;
    return code == STATUS_OK ? STATUS_OK : error_set(err, code, "%s", own.message);
}

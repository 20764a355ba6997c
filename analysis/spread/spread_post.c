#include "analysis/spread/spread_post.h"

#include "analysis/spread/spread_clock.h"
#include "base/arena.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static const int64_t beat_every_ns = 1000000000;
static const int64_t look_every_ns = 100000000;
static const int64_t nap_ns = 2000000;

status ana_post_open(ana_post *post, ana_carrier *carrier, int64_t watchdog_ns, error_message *err)
{
    *post = (ana_post){.carrier = carrier, .watchdog_ns = watchdog_ns};
    const size_t rank_count = (size_t)ana_post_rank_count(post);
    post->is_lost = memory_array(rank_count, sizeof *post->is_lost);
    post->is_closing = memory_array(rank_count, sizeof *post->is_closing);
    post->heard_ns = memory_array(rank_count, sizeof *post->heard_ns);
    if (post->is_lost != NULL && post->is_closing != NULL && post->heard_ns != NULL) {
        return STATUS_OK;
    }
    ana_post_close(post);
    return error_set(err, STATUS_NO_MEMORY, "out of memory");
}

void ana_post_close(ana_post *post)
{
    free(post->is_lost);
    free(post->is_closing);
    free(post->heard_ns);
    text_free(&post->outgoing);
    text_free(&post->incoming);
}

int ana_post_rank(const ana_post *post)
{
    return post->carrier != NULL ? post->carrier->rank : ANA_LEADER;
}

int ana_post_rank_count(const ana_post *post)
{
    return post->carrier != NULL ? post->carrier->rank_count : 1;
}

int ana_post_lost_count(const ana_post *post)
{
    int count = 0;
    for (int rank = 0; rank < ana_post_rank_count(post); rank++) {
        count += post->is_lost[rank];
    }
    return count;
}

void ana_post_begin_call(ana_post *post)
{
    post->call++;
    for (int rank = 0; rank < ana_post_rank_count(post); rank++) {
        post->heard_ns[rank] = ana_spread_now_ns();
    }
}

status ana_post_send(ana_post *post, int to, const ana_letter *letter, const void *bytes,
                     int64_t byte_count, error_message *err)
{
    ana_letter head = *letter;
    text_buffer *outgoing = &post->outgoing;
    head.call = post->call;
    text_clear(outgoing);
    text_append_bytes(outgoing, (const char *)&head, sizeof head);
    if (byte_count > 0) text_append_bytes(outgoing, bytes, (size_t)byte_count);
    const status code =
        post->carrier->post(post->carrier, to, outgoing->bytes, (int64_t)outgoing->length, err);
    if (code == STATUS_OK || ana_post_rank(post) != ANA_LEADER) return code;
    post->is_lost[to] = true;
    return STATUS_OK;
}

status ana_post_send_all(ana_post *post, const ana_letter *letter, const void *bytes,
                         int64_t byte_count, error_message *err)
{
    for (int rank = 0; rank < ana_post_rank_count(post); rank++) {
        if (rank != ana_post_rank(post)) {
            TRY(ana_post_send(post, rank, letter, bytes, byte_count, err));
        }
    }
    return STATUS_OK;
}

static status leader_is_gone(ana_post *post, error_message *err)
{
    post->is_lost[ANA_LEADER] = true;
    return error_set(err, STATUS_BACKEND, "rank 0 is gone");
}

/// Deals with the letters that concern nobody outside; *is_dealt_with true if this was one.
static status sort_letter(ana_post *post, const ana_letter *letter, bool *is_dealt_with,
                          error_message *err)
{
    const bool is_leader = ana_post_rank(post) == ANA_LEADER;
    *is_dealt_with = true;
    post->heard_ns[letter->from] = ana_spread_now_ns();
    if (letter->kind == ANA_LETTER_BEAT) return STATUS_OK;
    if (letter->kind == ANA_LETTER_CLOSE && post->is_parting) return STATUS_OK;
    if (letter->kind == ANA_LETTER_LEAVE || letter->kind == ANA_LETTER_CLOSE) {
        post->is_lost[letter->from] = true;
        post->is_closing[letter->from] = true;
        post->is_whole = letter->count == 1;
        return is_leader ? STATUS_OK : error_set(err, STATUS_BACKEND, "rank 0 has given up");
    }
    if (letter->call < post->call) return STATUS_OK;
    assert(letter->call == post->call); // all ranks make the same calls in the same order
    *is_dealt_with = false;
    return STATUS_OK;
}

status ana_post_take(ana_post *post, ana_letter *letter, const char **bytes, int64_t *byte_count,
                     bool *is_there, error_message *err)
{
    ana_carrier *carrier = post->carrier;
    text_buffer *incoming = &post->incoming;
    bool is_dealt_with = true;
    *is_there = false;
    while (carrier != NULL && is_dealt_with) {
        int from = 0;
        TRY(carrier->take(carrier, &from, incoming, is_there, err));
        if (!*is_there) return STATUS_OK;
        assert(incoming->length >= sizeof *letter && from >= 0 && from < carrier->rank_count);
        memcpy(letter, incoming->bytes, sizeof *letter);
        letter->from = from;
        *bytes = incoming->bytes + sizeof *letter;
        *byte_count = (int64_t)(incoming->length - sizeof *letter);
        *is_there = false;
        TRY(sort_letter(post, letter, &is_dealt_with, err));
        *is_there = !is_dealt_with;
    }
    return STATUS_OK;
}

/// Looks for the processes of this machine, and at who has been silent for too long. A follower
/// does not judge the leader's silence: it may be at work on what came of the last call.
static status look_for_others(ana_post *post, int64_t now_ns, error_message *err)
{
    ana_carrier *carrier = post->carrier;
    if (ana_post_rank(post) != ANA_LEADER) {
        return carrier->is_gone(carrier, ANA_LEADER) ? leader_is_gone(post, err) : STATUS_OK;
    }
    for (int rank = 0; rank < carrier->rank_count; rank++) {
        if (rank == ANA_LEADER || post->is_lost[rank]) continue;
        const bool is_silent = now_ns - post->heard_ns[rank] > post->watchdog_ns;
        post->is_lost[rank] = is_silent || carrier->is_gone(carrier, rank);
    }
    return STATUS_OK;
}

status ana_post_tend(ana_post *post, error_message *err)
{
    const int64_t now_ns = ana_spread_now_ns();
    const ana_letter beat = {.kind = ANA_LETTER_BEAT};
    if (post->carrier == NULL) return STATUS_OK;
    if (now_ns - post->looked_ns >= look_every_ns) {
        post->looked_ns = now_ns;
        TRY(look_for_others(post, now_ns, err));
    }
    if (ana_post_rank(post) == ANA_LEADER || now_ns - post->beat_ns < beat_every_ns) {
        return STATUS_OK;
    }
    post->beat_ns = now_ns;
    return ana_post_send(post, ANA_LEADER, &beat, NULL, 0, err);
}

status ana_post_await(ana_post *post, ana_letter_kind kind, ana_letter *letter, const char **bytes,
                      int64_t *byte_count, error_message *err)
{
    const struct timespec nap = {.tv_nsec = nap_ns};
    bool is_there = false;
    for (;;) {
        TRY(ana_post_take(post, letter, bytes, byte_count, &is_there, err));
        if (is_there && letter->kind == (int32_t)kind) return STATUS_OK;
        if (is_there) continue;
        TRY(ana_post_tend(post, err));
        nanosleep(&nap, NULL);
    }
}

/// Waits until every follower closes or is lost.
static bool part_as_leader(ana_post *post)
{
    const struct timespec nap = {.tv_nsec = nap_ns};
    const int rank_count = ana_post_rank_count(post);
    const ana_letter closing = {.kind = ANA_LETTER_CLOSE};
    bool is_waiting = true;
    bool is_whole = true;
    ana_post_begin_call(post);
    (void)ana_post_send_all(post, &closing, NULL, 0, NULL);
    while (is_waiting) {
        ana_letter letter;
        const char *bytes = NULL;
        int64_t byte_count = 0;
        bool is_there = false;
        (void)ana_post_take(post, &letter, &bytes, &byte_count, &is_there, NULL);
        (void)ana_post_tend(post, NULL);
        is_waiting = false;
        is_whole = true;
        for (int rank = 1; rank < rank_count; rank++) {
            is_waiting = is_waiting || !post->is_lost[rank];
            is_whole = is_whole && post->is_closing[rank];
        }
        if (is_waiting && !is_there) nanosleep(&nap, NULL);
    }
    for (int rank = 1; rank < rank_count; rank++) {
        if (!post->is_closing[rank]) post->carrier->end(post->carrier, rank);
    }
    return is_whole;
}

bool ana_post_part(ana_post *post)
{
    ana_letter leave = {.kind = ANA_LETTER_LEAVE};
    const char *bytes = NULL;
    int64_t byte_count = 0;
    post->is_parting = true;
    if (ana_post_rank(post) == ANA_LEADER) {
        leave.count = part_as_leader(post);
        (void)ana_post_send_all(post, &leave, NULL, 0, NULL);
        return leave.count == 1;
    }
    (void)ana_post_send(post, ANA_LEADER, &leave, NULL, 0, NULL);
    if (!post->is_lost[ANA_LEADER] || post->is_closing[ANA_LEADER]) {
        (void)ana_post_await(post, ANA_LETTER_LEAVE, &leave, &bytes, &byte_count, NULL);
    }
    return post->is_whole;
}

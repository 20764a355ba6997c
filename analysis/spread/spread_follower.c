#include "analysis/spread/spread_follower.h"

#include "analysis/spread/spread_clock.h"
#include "analysis/spread/spread_crew.h"
#include "analysis/spread/spread_parcel.h"

#include <string.h>

static const int64_t nap_ns = 2000000;
static const int64_t patience_ns = 5000000000; // for the leader's word behind an interruption

typedef struct follower {
    ana_post *post;
    const ana_spread_options *options;
    ana_crew *crew;
    text_buffer parcel;
    int64_t interrupted_ns; // 0: not
    bool has_ended;
    status end; // the leader's
} follower;

/// Sends what the own threads have done.
static status send_results(follower *own, error_message *err)
{
    ana_result *results = NULL;
    const int64_t count = ana_crew_take(own->crew, &results);
    if (count == 0) return STATUS_OK;
    text_clear(&own->parcel);
    for (int64_t index = 0; index < count; index++) {
        ana_parcel_append(&own->parcel, &results[index]);
    }
    const ana_letter letter = {.kind = ANA_LETTER_RESULTS, .count = count};
    return ana_post_send(own->post, ANA_LEADER, &letter, own->parcel.bytes,
                         (int64_t)own->parcel.length, err);
}

static status take_letters(follower *own, error_message *err)
{
    ana_letter letter;
    const char *bytes = NULL;
    int64_t byte_count = 0;
    bool is_there = true;
    while (!own->has_ended) {
        TRY(ana_post_take(own->post, &letter, &bytes, &byte_count, &is_there, err));
        if (!is_there) return STATUS_OK;
        if (letter.kind == ANA_LETTER_CHUNK && own->interrupted_ns == 0) {
            TRY(ana_crew_give(own->crew, letter.first, letter.first + letter.count, err));
        }
        if (letter.kind != ANA_LETTER_END) continue;
        own->has_ended = true;
        own->end = (status)letter.code;
        if (own->end != STATUS_OK) error_set(err, own->end, "%.*s", (int)byte_count, bytes);
    }
    return STATUS_OK;
}

/// Stops and waits for the leader, which is interrupted as well, to say so.
static status heed_interrupt(follower *own, error_message *err)
{
    const atomic_bool *interrupt = own->options->interrupt;
    if (interrupt == NULL || !atomic_load(interrupt)) return STATUS_OK;
    const int64_t now_ns = ana_spread_now_ns();
    if (own->interrupted_ns == 0) {
        own->interrupted_ns = now_ns;
        ana_crew_drop(own->crew);
    }
    if (now_ns - own->interrupted_ns < patience_ns) return STATUS_OK;
    return error_set(err, STATUS_BACKEND, "interrupted");
}

static status work(follower *own, error_message *err)
{
    while (!own->has_ended) {
        ana_crew_await(own->crew, ana_spread_now_ns() + nap_ns);
        TRY(ana_crew_check(own->crew, err));
        TRY(send_results(own, err));
        TRY(take_letters(own, err));
        TRY(ana_post_tend(own->post, err));
        TRY(heed_interrupt(own, err));
    }
    return own->end;
}

/// What keeps this rank from working ends the whole. The leader then says so to all.
static status tell_failure(ana_post *post, status code, error_message *why, error_message *err)
{
    const ana_letter letter = {.kind = ANA_LETTER_FAILURE, .code = (int32_t)code};
    (void)ana_post_send(post, ANA_LEADER, &letter, why->message, (int64_t)strlen(why->message),
                        NULL);
    return error_set(err, code, "%s", why->message);
}

status ana_follow(ana_post *post, const ana_spread_options *options, const ana_items *items,
                  error_message *err)
{
    follower own = {.post = post, .options = options};
    error_message why = {0};
    const ana_letter hello = {
        .kind = ANA_LETTER_HELLO, .first = options->thread_count, .count = items->count};
    status code = ana_crew_start(items, options->thread_count, &own.crew, &why);
    if (code == STATUS_OK) code = ana_post_send(post, ANA_LEADER, &hello, NULL, 0, &why);
    if (code == STATUS_OK) code = work(&own, &why);
    if (own.crew != NULL) ana_crew_drop(own.crew);
    ana_crew_stop(own.crew);
    text_free(&own.parcel);
    if (code == STATUS_OK) return STATUS_OK;
    if (own.has_ended || post->is_lost[ANA_LEADER]) return error_set(err, code, "%s", why.message);
    return tell_failure(post, code, &why, err);
}

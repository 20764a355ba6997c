#include "analysis/spread/spread_carrier.h"
#include "analysis/spread/spread_clock.h"
#include "analysis/spread/spread_follower.h"
#include "analysis/spread/spread_leader.h"
#include "analysis/spread/spread_post.h"
#include "base/arena.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static const int64_t watchdog_default_ns = 60000000000;

struct ana_spread {
    ana_spread_options options;
    ana_post post;
    const ana_keeper *keeper; // NULL: nothing is kept
    int pass;                 // of the next run
};

status ana_spread_open(const ana_spread_options *options, ana_spread **spread, error_message *err)
{
    assert(options->thread_count >= 1);
    ana_carrier *carrier = options->carrier;
    ana_spread *made = memory_array(1, sizeof *made);
    status code = STATUS_OK;
    if (made == NULL) code = error_set(err, STATUS_NO_MEMORY, "out of memory");
    if (code == STATUS_OK) {
        made->options = *options;
        if (options->watchdog_ns == 0) made->options.watchdog_ns = watchdog_default_ns;
        code = ana_post_open(&made->post, carrier, made->options.watchdog_ns, err);
    }
    if (code == STATUS_OK) {
        *spread = made;
        return STATUS_OK;
    }
    if (carrier != NULL) carrier->close(carrier, false);
    free(made);
    return code;
}

void ana_spread_close(ana_spread *spread)
{
    if (spread == NULL) return;
    ana_carrier *carrier = spread->options.carrier;
    if (carrier != NULL) carrier->close(carrier, ana_post_part(&spread->post));
    ana_post_close(&spread->post);
    free(spread);
}

bool ana_spread_is_leader(const ana_spread *spread)
{
    return ana_post_rank(&spread->post) == ANA_LEADER;
}

bool ana_spread_is_speaker(const ana_spread *spread)
{
    const ana_post *post = &spread->post;
    const bool is_leader_gone = post->is_lost[ANA_LEADER] && !post->is_closing[ANA_LEADER];
    return ana_post_rank(post) == (is_leader_gone ? ANA_LEADER + 1 : ANA_LEADER);
}

void ana_spread_keep(ana_spread *spread, const ana_keeper *keeper)
{
    spread->keeper = keeper;
    spread->pass = 0;
}

void ana_spread_watch(ana_spread *spread, const ana_watcher *watcher)
{
    spread->options.watcher = watcher != NULL ? *watcher : (ana_watcher){0};
}

status ana_spread_run(ana_spread *spread, const ana_items *items, ana_spread_report *report,
                      error_message *err)
{
    ana_post_begin_call(&spread->post);
    if (ana_spread_is_leader(spread)) {
        return ana_lead(&spread->post, &spread->options, items, spread->keeper, spread->pass++,
                        report, err);
    }
    return ana_follow(&spread->post, &spread->options, items, err);
}

status ana_spread_share(ana_spread *spread, text_buffer *bytes, error_message *err)
{
    ana_post *post = &spread->post;
    ana_letter letter = {.kind = ANA_LETTER_SHARE};
    const char *received = NULL;
    int64_t byte_count = (int64_t)bytes->length;
    ana_post_begin_call(post);
    if (ana_spread_is_leader(spread)) {
        return ana_post_send_all(post, &letter, bytes->bytes, byte_count, err);
    }
    TRY(ana_post_await(post, ANA_LETTER_SHARE, &letter, &received, &byte_count, err));
    text_clear(bytes);
    text_append_bytes(bytes, received, (size_t)byte_count);
    return STATUS_OK;
}

/// Waits for what every rank that is not lost says; the lowest that failed counts.
static status hear_opinions(ana_post *post, status own, error_message *verdict)
{
    const struct timespec nap = {.tv_nsec = 2000000};
    const int rank_count = ana_post_rank_count(post);
    int speaker = own != STATUS_OK ? ANA_LEADER : rank_count;
    bool *has_spoken = memory_array((size_t)rank_count, sizeof *has_spoken);
    status code = own;
    int waiting = 1;
    while (waiting > 0) {
        ana_letter letter;
        const char *bytes = NULL;
        int64_t byte_count = 0;
        bool is_there = false;
        (void)ana_post_take(post, &letter, &bytes, &byte_count, &is_there, NULL);
        if (is_there && letter.kind == ANA_LETTER_OPINION) {
            has_spoken[letter.from] = true;
            if (letter.code != STATUS_OK && letter.from < speaker) {
                speaker = letter.from;
                code = error_set(verdict, (status)letter.code, "rank %d: %.*s", speaker,
                                 (int)byte_count, bytes);
            }
        }
        if (is_there) continue;
        (void)ana_post_tend(post, NULL);
        waiting = 0;
        for (int rank = 1; rank < rank_count; rank++) {
            waiting += !has_spoken[rank] && !post->is_lost[rank];
        }
        if (waiting > 0) nanosleep(&nap, NULL);
    }
    free(has_spoken);
    return code;
}

status ana_spread_agree(ana_spread *spread, status own, error_message *err)
{
    ana_post *post = &spread->post;
    error_message said = {.code = own};
    if (own != STATUS_OK && err != NULL) said = *err;
    ana_post_begin_call(post);
    ana_letter letter = {.kind = ANA_LETTER_OPINION, .code = (int32_t)own};
    const char *bytes = NULL;
    int64_t byte_count = 0;
    if (ana_spread_is_leader(spread)) {
        const status code = hear_opinions(post, own, &said);
        letter = (ana_letter){.kind = ANA_LETTER_VERDICT, .code = (int32_t)code};
        (void)ana_post_send_all(post, &letter, said.message, (int64_t)strlen(said.message), NULL);
        return code == STATUS_OK ? STATUS_OK : error_set(err, code, "%s", said.message);
    }
    TRY(ana_post_send(post, ANA_LEADER, &letter, said.message, (int64_t)strlen(said.message), err));
    TRY(ana_post_await(post, ANA_LETTER_VERDICT, &letter, &bytes, &byte_count, err));
    if (letter.code == STATUS_OK) return STATUS_OK;
    return error_set(err, (status)letter.code, "%.*s", (int)byte_count, bytes);
}

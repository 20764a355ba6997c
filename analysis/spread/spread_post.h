/// What the ranks of a spread tell each other, over a carrier; who still lives.
#pragma once

#include "analysis/spread/spread_carrier.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum ana_letter_kind {
    ANA_LETTER_HELLO,   // to the leader: this rank begins; count: items, threads in first
    ANA_LETTER_CHUNK,   // of the leader: do items [first, first + count)
    ANA_LETTER_RESULTS, // to the leader: count results, each an ana_parcel_result and its bytes
    ANA_LETTER_FAILURE, // to the leader: this rank cannot work; code and text why
    ANA_LETTER_END,     // of the leader: all is put, or failed with code and text
    ANA_LETTER_SHARE,   // of the leader: bytes
    ANA_LETTER_OPINION, // to the leader: the status of this rank
    ANA_LETTER_VERDICT, // of the leader: the status of all
    ANA_LETTER_BEAT,    // a sign of life
    ANA_LETTER_CLOSE,   // of the leader: it closes, and so nothing more comes of it
    ANA_LETTER_LEAVE,   // this rank closes; of the leader, count 1: all ranks do
} ana_letter_kind;

typedef struct ana_letter {
    int32_t kind; // ana_letter_kind
    int32_t code; // status
    int64_t call; // which collective call it belongs to
    int64_t first;
    int64_t count;
    int from; // out of ana_post_take
} ana_letter;

typedef struct ana_post {
    ana_carrier *carrier; // NULL: one rank
    int64_t watchdog_ns;
    int64_t call;      // number of collective calls begun
    bool *is_lost;     // [rank_count] is given up: gone, silent for too long, or closing
    bool *is_closing;  // [rank_count] has said so
    bool is_parting;   // this rank is
    bool is_whole;     // the leader has said that all are
    int64_t *heard_ns; // [rank_count] when a rank last wrote
    int64_t looked_ns; // when processes were last looked for
    int64_t beat_ns;   // when the last sign of life went out
    text_buffer outgoing;
    text_buffer incoming;
} ana_post;

enum { ANA_LEADER = 0 };

/// @param carrier borrowed; NULL: one rank
/// @return STATUS_NO_MEMORY
status ana_post_open(ana_post *post, ana_carrier *carrier, int64_t watchdog_ns, error_message *err);
void ana_post_close(ana_post *post);

int ana_post_rank(const ana_post *post);
int ana_post_rank_count(const ana_post *post);
int ana_post_lost_count(const ana_post *post);

/// Every collective call begins with this, on all ranks.
void ana_post_begin_call(ana_post *post);

/// Sends a letter with bytes behind it. A rank that cannot be reached is lost, which is no failure
/// of the leader.
///
/// @return STATUS_BACKEND to a follower that cannot reach the leader; STATUS_NO_MEMORY
status ana_post_send(ana_post *post, int to, const ana_letter *letter, const void *bytes,
                     int64_t byte_count, error_message *err);

/// To every rank but the own that is not lost. Those are told too that may only be slow.
status ana_post_send_all(ana_post *post, const ana_letter *letter, const void *bytes,
                         int64_t byte_count, error_message *err);

/// Takes a letter of the call under way; those of earlier ones, signs of life and the leader's
/// leaving are dealt with here.
///
/// @param bytes out: what is behind the letter, valid until the next call
/// @return STATUS_BACKEND to a follower whose leader is gone or has left
status ana_post_take(ana_post *post, ana_letter *letter, const char **bytes, int64_t *byte_count,
                     bool *is_there, error_message *err);

/// Sends signs of life and looks for those of others, now and then; to be called all the time while
/// waiting. The leader finds new losses in is_lost.
///
/// @return STATUS_BACKEND to a follower whose leader is gone
status ana_post_tend(ana_post *post, error_message *err);

/// Says that this rank closes, and waits for the others to say so.
///
/// @return whether all do; ranks that do not are lost, and are ended if they hang on this machine
bool ana_post_part(ana_post *post);

/// Waits for a letter, asleep. Only of followers.
///
/// @return as ana_post_take
status ana_post_await(ana_post *post, ana_letter_kind kind, ana_letter *letter, const char **bytes,
                      int64_t *byte_count, error_message *err);

/// Results that have come before their turn.
#pragma once

#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

/// What became of an item.
typedef struct ana_result {
    int64_t item;
    status code;      // of the item's run
    text_buffer text; // its result, or the message of its failure
} ana_result;

/// Ascending items from `next` on, of which some are there. All operations take constant time but
/// for skipped items.
typedef struct ana_window {
    int64_t count;       // of all items
    const bool *is_done; // [count] those that are left out, or NULL
    int64_t next;        // the item whose turn it is; count: all are through
    int64_t held_bytes;  // of results that are there
    int64_t capacity;    // items from next on that it can hold; a power of two
    ana_result *slots;   // [capacity] of item i at i % capacity; item -1: empty
} ana_window;

/// @param capacity >= 1; rounded up to a power of two
void ana_window_open(ana_window *window, int64_t count, const bool *is_done, int64_t capacity);
void ana_window_close(ana_window *window);

/// The first item at or behind `item` that is not left out; count if there is none.
int64_t ana_window_first_open(const ana_window *window, int64_t item);

/// Whether the item can be taken without leaving the window.
bool ana_window_reaches(const ana_window *window, int64_t item);

/// Whether the result of this item has come already.
bool ana_window_has(const ana_window *window, int64_t item);

/// Keeps a result that the window reaches; its text moves.
///
/// @return false if the item's result has come before: the text is then freed
bool ana_window_keep(ana_window *window, ana_result *result);

/// The result whose turn it is; NULL while it is not there.
const ana_result *ana_window_front(const ana_window *window);

/// Takes the front away.
void ana_window_pop(ana_window *window);

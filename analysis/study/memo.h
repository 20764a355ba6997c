/// Results kept by what they depend on, for who asks the same again and again: the one that was
/// used longest ago goes where there is no room.
#pragma once

#include "base/arena.h"

#include <stddef.h>

enum { ANA_MEMO_ENTRIES = 64, ANA_MEMO_KEY_BYTES_MAX = 1 << 16 };

/// One result. Its value and what that points to are carved from memory.
typedef struct ana_memo_entry {
    void *value; // NULL: just made, the caller finds the result
    arena *memory;
} ana_memo_entry;

/// Not for several threads at once.
typedef struct ana_memo ana_memo;

/// Owned by the caller; release with ana_memo_destroy.
ana_memo *ana_memo_create(void);
void ana_memo_destroy(ana_memo *memo);

/// The entry of these bytes, made if there is none. A result that cannot be found is left without a
/// value: the next who asks tries again.
///
/// @param length at most ANA_MEMO_KEY_BYTES_MAX
/// @return borrowed until ANA_MEMO_ENTRIES - 1 others have been asked for
ana_memo_entry *ana_memo_find(ana_memo *memo, const char *key, size_t length);

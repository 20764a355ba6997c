#include "analysis/study/memo.h"

#include "base/file.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct kept_entry {
    ana_memo_entry entry; // memory NULL: the place is free
    uint64_t hash;
    size_t length;
    const char *key; // [length]
    int64_t last_use;
} kept_entry;

struct ana_memo {
    kept_entry kept[ANA_MEMO_ENTRIES];
    int64_t use_count;
};

ana_memo *ana_memo_create(void)
{
    return memory_array(1, sizeof(ana_memo));
}

void ana_memo_destroy(ana_memo *memo)
{
    for (int place = 0; memo != NULL && place < ANA_MEMO_ENTRIES; place++) {
        arena_destroy(memo->kept[place].entry.memory);
    }
    free(memo);
}

static bool is_of(const kept_entry *kept, uint64_t hash, const char *key, size_t length)
{
    return kept->hash == hash && kept->entry.memory != NULL && kept->length == length &&
           memcmp(kept->key, key, length) == 0;
}

ana_memo_entry *ana_memo_find(ana_memo *memo, const char *key, size_t length)
{
    assert(length <= ANA_MEMO_KEY_BYTES_MAX);
    const uint64_t hash = file_hash(FILE_HASH_START, key, length);
    kept_entry *oldest = &memo->kept[0];
    memo->use_count++;
    for (int place = 0; place < ANA_MEMO_ENTRIES; place++) {
        kept_entry *kept = &memo->kept[place];
        if (kept->last_use < oldest->last_use) oldest = kept;
        if (!is_of(kept, hash, key, length)) continue;
        kept->last_use = memo->use_count;
        if (kept->entry.value == NULL) break;
        return &kept->entry;
    }
    arena_destroy(oldest->entry.memory);
    arena *memory = arena_create(1 << 12);
    char *copy = arena_array(memory, length + 1, 1);
    memcpy(copy, key, length);
    *oldest = (kept_entry){{NULL, memory}, hash, length, copy, memo->use_count};
    return &oldest->entry;
}

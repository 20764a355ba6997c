#include "balance/partition/plan_book.h"

#include <string.h>

enum { KEPT = 64 };

/// A chain as a row of numbers, which decide its plan, and the plan.
typedef struct bal_plan_book_entry {
    arena *memory;  // of words and plan
    int64_t *words; // [word_count]
    size_t word_count;
    bal_pairs_plan plan;
} entry;

static void put(entry *at, const int64_t *numbers, int64_t count)
{
    at->words[at->word_count++] = numbers != NULL ? count : -1;
    if (numbers == NULL) return;
    memcpy(at->words + at->word_count, numbers, (size_t)count * sizeof *numbers);
    at->word_count += (size_t)count;
}

/// Writes all that a plan depends on, each array with its length in front.
static void put_chain(entry *at, const bal_chain *chain)
{
    const int64_t sizes[] = {chain->stage_count,        chain->chunk_count,
                             (int64_t)chain->placement, chain->allow_empty_stages,
                             chain->embedding,          chain->head};
    const int64_t layers = chain->layer_count;
    const int64_t stages = chain->stage_count;
    const int64_t ranks = bal_chain_rank_count(chain);
    const bal_rank_peaks *peaks = chain->rank_peaks;
    put(at, sizes, sizeof sizes / sizeof sizes[0]);
    put(at, chain->weight_before, layers + 1);
    put(at, chain->state_before, layers + 1);
    put(at, chain->activation_before, layers + 1);
    put(at, chain->transfer_ns, layers);
    put(at, chain->stage_memory_bytes, stages);
    put(at, chain->stage_inflight, stages);
    put(at, chain->rank_memory_bytes, ranks);
    put(at, chain->stage_time_factor_ppb, stages);
    put(at, chain->stage_fixed_ns, stages);
    for (int64_t rank = 0; peaks != NULL && rank <= ranks; rank++) {
        at->words[at->word_count++] = peaks->first_peak[rank];
    }
    if (peaks != NULL) put(at, peaks->held, (int64_t)peaks->first_peak[ranks] * chain->chunk_count);
}

/// The most that put_chain writes: three arrays of layers and one more for messages, five of
/// stages or ranks, peaks, and a length for each.
static size_t words_of(const bal_chain *chain)
{
    const size_t layers = (size_t)chain->layer_count + 1;
    const size_t stages = (size_t)chain->stage_count;
    const bal_rank_peaks *peaks = chain->rank_peaks;
    const size_t held = peaks == NULL ? 0 : (size_t)peaks->first_peak[peaks->rank_count];
    return 16 + 4 * layers + 6 * (stages + 1) + held * (size_t)chain->chunk_count;
}

static bool is_same(const entry *one, const entry *other)
{
    return one->word_count == other->word_count &&
           memcmp(one->words, other->words, one->word_count * sizeof *one->words) == 0;
}

static void copy_plan(const bal_pairs_plan *from, int stage_count, arena *memory,
                      bal_pairs_plan *to)
{
    const size_t cuts = (size_t)stage_count + 1;
    int *first = arena_array(memory, cuts, sizeof *first);
    memcpy(first, from->first_layer, cuts * sizeof *first);
    *to = *from;
    to->first_layer = first;
}

/// Keeps what was found in place of the plan that was kept longest ago.
static void keep(bal_plan_book *book, const entry *found, int stage_count)
{
    if (book->entries == NULL) {
        book->entries = arena_array(book->memory, KEPT, sizeof *book->entries);
    }
    entry *kept = &book->entries[book->next];
    book->next = (book->next + 1) % KEPT;
    if (kept->memory == NULL) kept->memory = arena_within(book->memory, 1 << 12);
    arena_reset(kept->memory);
    kept->word_count = found->word_count;
    kept->words = arena_array(kept->memory, found->word_count, sizeof *kept->words);
    memcpy(kept->words, found->words, found->word_count * sizeof *kept->words);
    copy_plan(&found->plan, stage_count, kept->memory, &kept->plan);
}

static const entry *find(const bal_plan_book *book, const entry *wanted)
{
    for (int back = 1; book->entries != NULL && back <= KEPT; back++) {
        const entry *kept = &book->entries[(book->next + KEPT - back) % KEPT];
        if (is_same(kept, wanted)) return kept;
    }
    return NULL;
}

status bal_plan_book_find(bal_plan_book *book, const bal_chain *chain, arena *memory,
                          bal_pairs_plan *plan, error_message *err)
{
    if (book == NULL) return bal_partition_chunks(chain, memory, plan, err);
    entry wanted = {.words = arena_array(memory, words_of(chain), sizeof *wanted.words)};
    put_chain(&wanted, chain);
    const entry *known = find(book, &wanted);
    if (known != NULL) {
        copy_plan(&known->plan, chain->stage_count, memory, plan);
        return STATUS_OK;
    }
    TRY(bal_partition_chunks(chain, memory, plan, err));
    wanted.plan = *plan;
    keep(book, &wanted, chain->stage_count);
    return STATUS_OK;
}

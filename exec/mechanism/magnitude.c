#include "exec/mechanism/magnitude.h"

#include "base/arena.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/// Magnitudes are compared as the 31 bits that IEEE numbers have without their sign, which order as
/// they do. Classes are by 11, then 10, then the last 10 of them.
enum { MAGNITUDE_BITS = 31, DIGIT_COUNT = 3, CLASS_MAX = 1 << 11 };

static const int digit_bits[DIGIT_COUNT] = {11, 10, 10};

static uint32_t magnitude_of(float weight)
{
    uint32_t bits;
    memcpy(&bits, &weight, sizeof bits);
    return bits & 0x7fffffffu;
}

/// Weights that may stay, by the next bits of their magnitudes, of those whose bits in front are
/// known.
///
/// @param known bits in front; shift: bits after the class
static void count_classes(const exec_weights *held, int held_count, uint32_t known, int bits,
                          int shift, int64_t *count)
{
    memset(count, 0, ((size_t)1 << bits) * sizeof *count);
    for (int row = 0; row < held_count; row++) {
        for (int64_t index = 0; index < held[row].count; index++) {
            if (held[row].keep[index] == 0) continue;
            const uint32_t prefix = magnitude_of(held[row].weight[index]) >> shift;
            if (prefix >> bits == known) count[prefix & ((1u << bits) - 1)]++;
        }
    }
}

/// The class in which the wanted-th largest lies; wanted becomes its rank within the class.
static uint32_t class_of(const int64_t *count, int bits, int64_t *wanted)
{
    uint32_t class = (1u << bits) - 1;
    while (class > 0 && count[class] < *wanted) {
        *wanted -= count[class --];
    }
    return class;
}

/// The magnitude of the kept_count-th largest, and how many of just that magnitude stay.
static status find_threshold(const exec_weights *held, int held_count, int64_t kept_count,
                             const exec_group *group, uint32_t *threshold, int64_t *tied_count,
                             error_message *err)
{
    int64_t count[CLASS_MAX];
    int shift = MAGNITUDE_BITS;
    *threshold = 0;
    *tied_count = kept_count;
    for (int digit = 0; digit < DIGIT_COUNT; digit++) {
        const int bits = digit_bits[digit];
        shift -= bits;
        count_classes(held, held_count, *threshold, bits, shift, count);
        TRY(exec_group_sum_int64(group, count, (int64_t)1 << bits, err));
        *threshold = *threshold << bits | class_of(count, bits, tied_count);
    }
    return STATUS_OK;
}

static int64_t count_tied(const exec_weights *of, uint32_t threshold)
{
    int64_t count = 0;
    for (int64_t index = 0; index < of->count; index++) {
        if (of->keep[index] != 0 && magnitude_of(of->weight[index]) == threshold) count++;
    }
    return count;
}

/// @param tied_count of the threshold's magnitude that may stay: the first ones do
static void keep_above(const exec_weights *of, uint32_t threshold, int64_t tied_count)
{
    for (int64_t index = 0; index < of->count; index++) {
        if (of->keep[index] == 0) continue;
        const uint32_t magnitude = magnitude_of(of->weight[index]);
        const bool stays = magnitude > threshold || (magnitude == threshold && tied_count > 0);
        if (magnitude == threshold) tied_count--;
        of->keep[index] = stays;
    }
}

status exec_keep_by_threshold(const exec_weights *held, int held_count, int layer_count,
                              int64_t kept_count, const exec_group *group, error_message *err)
{
    uint32_t threshold;
    int64_t tied_count;
    TRY(find_threshold(held, held_count, kept_count, group, &threshold, &tied_count, err));
    int64_t *tied = memory_array((size_t)layer_count + 1, sizeof *tied); // [layer_count]
    for (int row = 0; row < held_count; row++) {
        tied[held[row].layer] = count_tied(&held[row], threshold);
    }
    const status summed = exec_group_sum_int64(group, tied, layer_count, err);
    int row = 0;
    for (int layer = 0; layer < layer_count && summed == STATUS_OK; layer++) {
        if (row < held_count && held[row].layer == layer) {
            keep_above(&held[row++], threshold, tied_count);
        }
        tied_count -= tied[layer];
    }
    free(tied);
    return summed;
}

/// A weight and its place, as it travels.
typedef struct place {
    uint32_t magnitude;
    int32_t layer;
    int64_t index;
} place;
_Static_assert(sizeof(place) == 16, "no padding in messages");

static int compare_places(const void *left, const void *right)
{
    const place *a = left;
    const place *b = right;
    if (a->magnitude != b->magnitude) return a->magnitude > b->magnitude ? -1 : 1;
    if (a->layer != b->layer) return a->layer < b->layer ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

/// Sorts places and says how many of the largest stay.
static int64_t sort_largest(place *places, int64_t count, int64_t kept_count)
{
    qsort(places, (size_t)count, sizeof *places, compare_places);
    return count < kept_count ? count : kept_count;
}

/// @param places out: of the weights that may stay, carved from memory
static void list_places(const exec_weights *held, int held_count, arena *memory, place **places,
                        int64_t *count)
{
    int64_t most = 0;
    for (int row = 0; row < held_count; row++) {
        most += held[row].count;
    }
    *places = arena_array(memory, (size_t)most, sizeof **places);
    *count = 0;
    for (int row = 0; row < held_count; row++) {
        for (int64_t index = 0; index < held[row].count; index++) {
            if (held[row].keep[index] == 0) continue;
            (*places)[(*count)++] = (place){.magnitude = magnitude_of(held[row].weight[index]),
                                            .layer = held[row].layer,
                                            .index = index};
        }
    }
}

/// What the root does with what it was sent: brings what stays into the order of ranks again.
///
/// @param sizes  [rank_count] bytes of each rank; in: sent, out: that stay
/// @param places of all ranks, one after the other; in: sent, out: that stay
static void choose_at_root(const exec_group *group, arena *memory, int64_t kept_count,
                           int64_t *sizes, place *places)
{
    int64_t count = 0;
    for (int rank = 0; rank < group->rank_count; rank++) {
        count += sizes[rank] / (int64_t)sizeof *places;
    }
    place *sorted = arena_array(memory, (size_t)count, sizeof *sorted);
    memcpy(sorted, places, (size_t)count * sizeof *sorted);
    const int64_t stays = sort_largest(sorted, count, kept_count);
    place *to = places;
    const place *from = places;
    for (int rank = 0; rank < group->rank_count; rank++) {
        const place *end = from + sizes[rank] / (int64_t)sizeof *places;
        const place *first = to;
        for (; from < end; from++) {
            if (stays > 0 && compare_places(from, &sorted[stays - 1]) <= 0) *to++ = *from;
        }
        sizes[rank] = (to - first) * (int64_t)sizeof *places;
    }
}

static void keep_places(const exec_weights *held, int held_count, const place *places,
                        int64_t count)
{
    for (int row = 0; row < held_count; row++) {
        if (held[row].count > 0) memset(held[row].keep, 0, (size_t)held[row].count);
    }
    for (int64_t at = 0; at < count; at++) {
        int row = 0;
        while (held[row].layer != places[at].layer) {
            row++;
        }
        held[row].keep[places[at].index] = 1;
    }
}

static status gather_and_scatter(const exec_weights *held, int held_count, int64_t kept_count,
                                 const exec_group *group, arena *memory, error_message *err)
{
    place *own;
    int64_t count = 0;
    list_places(held, held_count, memory, &own, &count);
    const int64_t sent = sort_largest(own, count, kept_count);
    int64_t *sizes = arena_array(memory, (size_t)group->rank_count, sizeof *sizes);
    void *all = NULL;
    TRY(exec_group_gather(group, own, sent * (int64_t)sizeof *own, memory,
                          group->self == 0 ? sizes : NULL, group->self == 0 ? &all : NULL, err));
    if (group->self == 0) choose_at_root(group, memory, kept_count, sizes, all);
    void *kept;
    int64_t kept_bytes = 0;
    TRY(exec_group_scatter(group, all, sizes, memory, &kept, &kept_bytes, err));
    keep_places(held, held_count, kept, kept_bytes / (int64_t)sizeof *own);
    return STATUS_OK;
}

status exec_keep_by_gather(const exec_weights *held, int held_count, int64_t kept_count,
                           const exec_group *group, error_message *err)
{
    arena *memory = arena_create((size_t)1 << 16);
    const status result = gather_and_scatter(held, held_count, kept_count, group, memory, err);
    arena_destroy(memory);
    return result;
}

/// What happens next where subjects have at most one event each: the end of what they do, or the
/// moment at which they decide again. The event engine and searches by dispatch go by it.
///
/// A rank of a pipeline runs one op at a time, and a message is known as soon as the op that sends
/// it has begun, so that the ranks' own times are all there is to order. They are the leaves of a
/// tree whose nodes hold the earlier of their two children: an array, no pointers, and one path of
/// log2(subjects) nodes per change. Of equal times the lowest subject comes first.
#pragma once

#include "base/arena.h"

#include <assert.h>
#include <stdint.h>

/// The time of a subject that has no event.
#define BAL_NEVER INT64_MAX

typedef struct bal_event_tree {
    int leaf_count;   // power of two, at least as many as there are subjects
    int64_t *next_ns; // [2 * leaf_count] node 1 is the root, the children of n are 2n and 2n + 1,
                      // subject s is leaf_count + s
} bal_event_tree;

/// Forgets all events. O(subjects).
static inline void bal_event_tree_reset(bal_event_tree *tree)
{
    for (int node = 0; node < 2 * tree->leaf_count; node++) {
        tree->next_ns[node] = BAL_NEVER;
    }
}

/// @param tree out: carved from memory, no event
static inline void bal_event_tree_init(int subject_count, arena *memory, bal_event_tree *tree)
{
    *tree = (bal_event_tree){.leaf_count = 1};
    while (tree->leaf_count < subject_count) {
        tree->leaf_count *= 2;
    }
    tree->next_ns = arena_array(memory, 2 * (size_t)tree->leaf_count, sizeof(int64_t));
    bal_event_tree_reset(tree);
}

/// Gives a subject its next event, in place of the one it had; BAL_NEVER: none. O(log subjects):
/// always the whole path, as where it could end early no processor foresees.
static inline void bal_event_tree_set(const bal_event_tree *tree, int subject, int64_t time_ns)
{
    int64_t *next_ns = tree->next_ns;
    int node = tree->leaf_count + subject;
    next_ns[node] = time_ns;
    while (node > 1) {
        const int64_t other_ns = next_ns[node ^ 1];
        time_ns = time_ns < other_ns ? time_ns : other_ns;
        node /= 2;
        next_ns[node] = time_ns;
    }
}

/// Time of a subject's event.
static inline int64_t bal_event_tree_ns(const bal_event_tree *tree, int subject)
{
    return tree->next_ns[tree->leaf_count + subject];
}

/// Time of the next event; BAL_NEVER: there is none.
static inline int64_t bal_event_tree_next_ns(const bal_event_tree *tree)
{
    return tree->next_ns[1];
}

/// Whose event is next, the lowest of several. There must be one. O(log subjects).
static inline int bal_event_tree_next(const bal_event_tree *tree)
{
    const int64_t time_ns = tree->next_ns[1];
    assert(time_ns != BAL_NEVER);
    int node = 1;
    while (node < tree->leaf_count) {
        node = 2 * node + (tree->next_ns[2 * node] != time_ns);
    }
    return node - tree->leaf_count;
}

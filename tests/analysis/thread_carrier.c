#include "tests/analysis/thread_carrier.h"

#include "tests/assert_close.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct letter {
    struct letter *next;
    int from;
    size_t length;
    char bytes[];
} letter;

typedef struct thread_rank {
    ana_carrier table; // stays the first member
    thread_world *world;
    letter *inbox;  // in the order in which they came
    letter *unsent; // since it was cut: to whom is in `to`
    bool is_cut;
    bool is_gone;
    bool was_ended;
} thread_rank;

struct thread_world {
    pthread_mutex_t lock;
    int rank_count;
    thread_rank ranks[THREAD_RANKS_MAX];
};

static void append(letter **list, letter *one)
{
    while (*list != NULL) {
        list = &(*list)->next;
    }
    *list = one;
}

static letter *pop(letter **list)
{
    letter *first = *list;
    if (first == NULL) return NULL;
    *list = first->next;
    first->next = NULL;
    return first;
}

/// What a rank that is cut sends stays with it, for the leader: nobody else hears from followers.
static status post(ana_carrier *carrier, int to, const void *bytes, int64_t byte_count,
                   error_message *err)
{
    thread_rank *own = (thread_rank *)carrier;
    thread_world *world = own->world;
    letter *sent = malloc(sizeof *sent + (size_t)byte_count);
    (void)err;
    assert_non_null(sent);
    assert_true(to >= 0 && to < world->rank_count && to != carrier->rank);
    *sent = (letter){.from = carrier->rank, .length = (size_t)byte_count};
    memcpy(sent->bytes, bytes, (size_t)byte_count);
    pthread_mutex_lock(&world->lock);
    append(own->is_cut ? &own->unsent : &world->ranks[to].inbox, sent);
    pthread_mutex_unlock(&world->lock);
    return STATUS_OK;
}

static status take(ana_carrier *carrier, int *from, text_buffer *bytes, bool *is_there,
                   error_message *err)
{
    thread_rank *own = (thread_rank *)carrier;
    (void)err;
    pthread_mutex_lock(&own->world->lock);
    letter *come = pop(&own->inbox);
    pthread_mutex_unlock(&own->world->lock);
    *is_there = come != NULL;
    if (come == NULL) return STATUS_OK;
    text_clear(bytes);
    text_append_bytes(bytes, come->bytes, come->length);
    *from = come->from;
    free(come);
    return STATUS_OK;
}

static bool is_gone(ana_carrier *carrier, int rank)
{
    thread_world *world = ((thread_rank *)carrier)->world;
    pthread_mutex_lock(&world->lock);
    const bool gone = world->ranks[rank].is_gone;
    pthread_mutex_unlock(&world->lock);
    return gone;
}

static void end(ana_carrier *carrier, int rank)
{
    thread_world *world = ((thread_rank *)carrier)->world;
    pthread_mutex_lock(&world->lock);
    world->ranks[rank].was_ended = true;
    pthread_mutex_unlock(&world->lock);
}

static void close_carrier(ana_carrier *carrier, bool is_whole)
{
    (void)carrier;
    (void)is_whole;
}

thread_world *thread_world_create(int rank_count)
{
    thread_world *world = calloc(1, sizeof *world);
    assert_non_null(world);
    assert_true(rank_count <= THREAD_RANKS_MAX);
    pthread_mutex_init(&world->lock, NULL);
    world->rank_count = rank_count;
    for (int rank = 0; rank < rank_count; rank++) {
        world->ranks[rank] = (thread_rank){.table = {.rank = rank,
                                                     .rank_count = rank_count,
                                                     .core_count = 1,
                                                     .post = post,
                                                     .take = take,
                                                     .is_gone = is_gone,
                                                     .end = end,
                                                     .close = close_carrier},
                                           .world = world};
    }
    return world;
}

void thread_world_destroy(thread_world *world)
{
    for (int rank = 0; rank < world->rank_count; rank++) {
        for (letter *left = pop(&world->ranks[rank].inbox); left != NULL;
             left = pop(&world->ranks[rank].inbox)) {
            free(left);
        }
        for (letter *left = pop(&world->ranks[rank].unsent); left != NULL;
             left = pop(&world->ranks[rank].unsent)) {
            free(left);
        }
    }
    pthread_mutex_destroy(&world->lock);
    free(world);
}

ana_carrier *thread_world_carrier(thread_world *world, int rank)
{
    return &world->ranks[rank].table;
}

void thread_world_cut(thread_world *world, int rank, bool is_seen)
{
    pthread_mutex_lock(&world->lock);
    world->ranks[rank].is_cut = true;
    world->ranks[rank].is_gone = is_seen;
    pthread_mutex_unlock(&world->lock);
}

void thread_world_restore(thread_world *world, int rank)
{
    pthread_mutex_lock(&world->lock);
    thread_rank *back = &world->ranks[rank];
    back->is_cut = false;
    append(&world->ranks[0].inbox, back->unsent);
    back->unsent = NULL;
    pthread_mutex_unlock(&world->lock);
}

bool thread_world_was_ended(thread_world *world, int rank)
{
    pthread_mutex_lock(&world->lock);
    const bool ended = world->ranks[rank].was_ended;
    pthread_mutex_unlock(&world->lock);
    return ended;
}

/// What a play of the event engine knows, for the files that it is made of: dispatch.c prepares and
/// drives it, dispatch_advance.c decides and runs ops, dispatch_messages.c brings messages to where
/// they wait for a link or for their receiver.
#pragma once

#include "balance/schedule/event_tree.h"
#include "sim/costs.h"
#include "sim/dispatch.h"
#include "sim/policy.h"

#include <stdbool.h>

typedef enum sim_direction { SIM_FORWARD, SIM_BACKWARD, SIM_DIRECTION_COUNT } sim_direction;

// Arrival of a message that has not been sent.
#define SIM_UNKNOWN_NS BAL_NEVER

enum { SIM_NO_CELL = -1, SIM_PAIR = 2 };

/// What all ops of one kind and stage have in common. The last stage's F sends to its own B: the
/// loss needs nothing else.
typedef struct sim_dispatch_row {
    const int64_t *op_ns;    // by column of the costs
    const int64_t *delay_ns; // the same, or NULL: its messages are not late
    int64_t transfer_ns;     // from the end of the op until its message is there
    int64_t occupancy_ns;    // of its link
    int64_t claim_change;    // of the rank's claim, once the op has run
    int64_t need;            // room that the op needs below the limit, besides what is claimed
    int link;                // that its message shares, -1: none
    int inbox;               // stage * 2 + direction that its message goes to, -1: it sends none
    int receiver;            // rank of the inbox
    int rank;                // that runs the op
    int weight_row;          // row of the W that is pending after the op, -1: none
    bal_op op;               // of microbatch 0
} sim_dispatch_row;

/// An op, or the message that it sends.
typedef struct sim_dispatch_op {
    int row;
    int microbatch;
} sim_dispatch_op;

/// An op whose place in the order of its rank is fixed.
typedef struct sim_dispatch_step {
    int row;
    int microbatch;
    int wait;                 // cell of the message that it waits for, or the no_wait of the play
    uint32_t sender_and_pair; // row of the op that sends it (its own where none does) * 2; 1: it
                              // is one piece of work with the next, see bal_op.overlaps_next
} sim_dispatch_step;
_Static_assert(sizeof(sim_dispatch_step) == 16, "steps are streamed once per play");

static inline int sim_step_sender(const sim_dispatch_step *step)
{
    return (int)(step->sender_and_pair / 2);
}

static inline bool sim_step_is_pair(const sim_dispatch_step *step)
{
    return step->sender_and_pair % 2 == 1;
}

/// What the messages of one direction to a stage are to a rank without a fixed order.
typedef struct sim_dispatch_inbox {
    int64_t head_ns; // arrival of the first that was not taken, or SIM_UNKNOWN_NS
    int first;       // place of that one among the cells of the inbox
    int end;         // after the last that was sent
    int sender;      // row of the ops that send to it; -1: all is there from the begin
} sim_dispatch_inbox;
_Static_assert(sizeof(sim_dispatch_inbox) == 24, "the two of a stage share a cache line");

typedef struct sim_dispatch_rank {
    int64_t free_ns; // nothing of it begins before
    int64_t claimed;
    int64_t limit;
    int next_step;
    int step_end;
    int next_played; // index into the timeline
    int next_weight; // index into weights of the oldest pending W
    int weight_end;
    int64_t wake_ns; // its next event while it is idle
    int awaited;     // cell of the message without which it does nothing, or SIM_NO_CELL
    bool is_idle;    // does nothing until a message comes, whichever
    bool is_listed;  // stands in runnable
    bool is_running; // the end of its op is an event
    bool is_first;   // that op is the first of a pair
    bool has_first;  // the first of a pair has run
    sim_dispatch_op running;
    sim_dispatch_op first;            // of the pair
    int offer_count;                  // rendezvous: messages that nobody has received yet
    sim_dispatch_op offers[SIM_PAIR]; // its last ops
} sim_dispatch_rank;

struct sim_dispatch {
    const bal_schedule *schedule;
    sim_policy policy;
    sim_network network;
    bool is_in_time; // ends of ops are events: what is there then decides what is run, or what a
                     // message finds when it arrives
    bool has_places; // greedy: which op is next depends on where they stand in the schedule
    int stage_count;
    int microbatch_count;
    int no_wait;                 // cell of what is always there, after all messages
    int64_t now_ns;              // ahead of time that of the rank at hand
    bal_event_tree events;       // when every rank decides next, or its op ends
    sim_dispatch_row *rows;      // [OP_KIND_COUNT][stage_count]
    sim_dispatch_rank *ranks;    // [rank_count]
    sim_dispatch_step *steps;    // [op_count] of each rank from first_op
    sim_dispatch_op *weights;    // [stage_count][microbatch_count] pending W by rank
    int64_t *arrival_ns;         // [stage_count][2][microbatch_count + 1 cell] by microbatch where
                                 // orders are fixed; else by order of arrival
    int *arrived;                // greedy: microbatch of each of these
    sim_dispatch_inbox *inboxes; // [stage_count][2]
    uint32_t *place; // greedy: the same shape, index into the ops * 2 + whether it is BW
    int *stages;     // [rank_count][chunk_count]
    int *runnable;   // [runnable_count] ranks that can go on
    int runnable_count;
    int *round; // [round_count] ranks of one moment, of which some ran no time
    int round_count;
    int *again; // [again_count] those of the next round
    int again_count;
    int *senders;          // [rank_count] scratch of the rendezvous
    arena *memory;         // of all arrays
    int link_room;         // links that link_free_ns has room for
    int64_t *link_free_ns; // [link_room]
    sim_claim *claims;     // [stage_count] all 0 without limits
    int64_t *need;         // [rank_count] scratch of the claims
    sim_cost_table costs;
    bal_op *played_ops; // [op_count]
    bal_schedule played;
    bal_timeline timeline; // of played
};

static inline int sim_dispatch_column(const sim_dispatch *dispatch, int microbatch)
{
    return (int)((uint32_t)microbatch & dispatch->costs.column_mask);
}

/// Time of a message that has its own way.
static inline int64_t sim_dispatch_way_ns(const sim_dispatch *dispatch, const sim_dispatch_row *row,
                                          int microbatch)
{
    if (row->delay_ns == NULL) return row->transfer_ns;
    return row->transfer_ns + row->delay_ns[sim_dispatch_column(dispatch, microbatch)];
}

/// Lets a rank go on before the next event.
static inline void sim_dispatch_list(sim_dispatch *dispatch, int rank)
{
    if (dispatch->ranks[rank].is_listed) return;
    dispatch->ranks[rank].is_listed = true;
    dispatch->runnable[dispatch->runnable_count++] = rank;
}

/// Puts a message after those of its inbox that arrive no later.
static inline void sim_dispatch_queue(sim_dispatch *dispatch, sim_dispatch_inbox *inbox,
                                      int64_t first_cell, int microbatch, int64_t arrival_ns)
{
    int64_t *arrival = dispatch->arrival_ns + first_cell;
    int *arrived = dispatch->arrived + first_cell;
    // Where all were taken the cells are used again, which keeps them in cache.
    if (inbox->first == inbox->end) inbox->first = inbox->end = 0;
    int place = inbox->end++;
    for (; place > inbox->first && arrival[place - 1] > arrival_ns; place--) {
        arrival[place] = arrival[place - 1];
        arrived[place] = arrived[place - 1];
    }
    arrival[place] = arrival_ns;
    arrived[place] = microbatch;
    inbox->head_ns = arrival[inbox->first];
}

/// Tells the receiver of an op's message when it arrives: at now or later. The op sends one.
static inline void sim_dispatch_deliver(sim_dispatch *dispatch, const sim_dispatch_row *row,
                                        int microbatch, int64_t arrival_ns)
{
    sim_dispatch_rank *receiver = &dispatch->ranks[row->receiver];
    const int64_t first_cell = (int64_t)row->inbox * dispatch->microbatch_count;
    if (dispatch->policy != SIM_GREEDY) {
        const int cell = (int)first_cell + microbatch;
        dispatch->arrival_ns[cell] = arrival_ns;
        if (receiver->awaited == cell) sim_dispatch_list(dispatch, row->receiver);
        return;
    }
    sim_dispatch_queue(dispatch, &dispatch->inboxes[row->inbox], first_cell, microbatch,
                       arrival_ns);
    if (!receiver->is_idle) return;
    if (arrival_ns <= dispatch->now_ns) {
        sim_dispatch_list(dispatch, row->receiver);
    } else if (arrival_ns < receiver->wake_ns) {
        receiver->wake_ns = arrival_ns;
        bal_event_tree_set(&dispatch->events, row->receiver, arrival_ns);
    }
}

/// Lets a rank run all that the messages that were sent allow.
void sim_dispatch_run_ahead(sim_dispatch *dispatch, int rank);

/// Lets a rank that is free now decide, and sets its next event.
void sim_dispatch_run_now(sim_dispatch *dispatch, int rank);

/// Ends an op of a rank now: sends its message, or offers it to its receiver. That of the first of
/// a pair leaves when the second ends.
void sim_dispatch_end(sim_dispatch *dispatch, sim_dispatch_rank *state, sim_dispatch_op op,
                      bool is_first);

/// Rendezvous: begins every message whose sender and receiver are both at rest, among those that
/// ranks of this round send or receive.
void sim_dispatch_meet(sim_dispatch *dispatch);

/// STATUS_OK if all ops have run; else STATUS_INVALID naming the ranks that wait for each other, op
/// by op.
status sim_dispatch_check_end(const sim_dispatch *dispatch, error_message *err);

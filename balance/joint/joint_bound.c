#include "balance/joint/joint_bound.h"

#include "balance/partition/chain.h"

#include <assert.h>
#include <string.h>

enum { PPB = 1000000000, PRECISION = 2048 };

/// The layers of one rank: [begin, end), and with two chunks [second_begin, second_end).
typedef struct holding {
    int rank;
    int begin;
    int end;
    int second_begin;
    int second_end;
} holding;

static int64_t max_of(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t min_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/// What layers that take ns, in at most so many runs, take at least on whichever ranks.
static int64_t least(const bal_joint_layers *layers, int64_t ns, int run_count)
{
    if (layers->time_factor_ppb == NULL) return ns;
    const bal_wide scaled = (bal_wide)ns * layers->time_factor_min_ppb / PPB;
    return max_of((int64_t)scaled - run_count, 0);
}

/// Fixed times of the first chunks of ranks [begin, end).
static int64_t fixed_of(const bal_joint_layers *layers, int begin, int end)
{
    int64_t sum = 0;
    for (int rank = begin; rank < end && layers->fixed_ns != NULL; rank++) {
        sum += layers->fixed_ns[rank];
    }
    return sum;
}

/// What one microbatch takes at least through layers [begin, end) in at most so many runs, with the
/// messages over so many cuts.
///
/// @param before [layer_count + 1] ns of the layers in front
static int64_t way(const bal_joint_layers *layers, const int64_t *before, int begin, int end,
                   int run_count, int crossing_count)
{
    return least(layers, before[end] - before[begin], run_count) +
           crossing_count * layers->transfer_min_ns;
}

/// Until the first F reaches a rank whose first layer is begin: the same under all shapes, as stage
/// r is the first of rank r.
static int64_t head_of(const bal_joint_layers *layers, int rank, int begin)
{
    return way(layers, layers->forward_before, 0, begin, rank, rank) + fixed_of(layers, 0, rank);
}

/// From the end of the last B of a rank until stage 0 has ended its own and a W of its first layer.
static int64_t tail_of(const bal_joint_layers *layers, int rank, int begin)
{
    if (rank == 0) return 0;
    return way(layers, layers->input_before, 0, begin, rank, rank) +
           least(layers, layers->weight_before[1], 1);
}

/// The bytes of a rank that holds one microbatch at a time.
static int64_t need_bytes(bal_joint_cost first, bal_joint_cost second)
{
    const int64_t inner = first.held_bytes + max_of(second.held_bytes, second.gradient_bytes);
    return first.state_bytes + second.state_bytes + max_of(inner, first.gradient_bytes);
}

/// The most work in forwards that fits into room bytes: the chunk with more work per byte first.
static int64_t forwards_within(const bal_joint_layers *layers, bal_joint_cost first,
                               bal_joint_cost second, int64_t room)
{
    const int64_t count = layers->microbatch_count;
    const bool second_first = (bal_wide)second.forward_ns * first.held_bytes >
                              (bal_wide)first.forward_ns * second.held_bytes;
    const bal_joint_cost chunks[2] = {second_first ? second : first, second_first ? first : second};
    int64_t work = 0;
    for (int index = 0; index < 2; index++) {
        const bal_joint_cost chunk = chunks[index];
        const int64_t bytes = min_of(count * chunk.held_bytes, room);
        work += bytes == count * chunk.held_bytes
                    ? count * chunk.forward_ns
                    : (int64_t)(((bal_wide)chunk.forward_ns * bytes + chunk.held_bytes - 1) /
                                chunk.held_bytes);
        room -= bytes;
    }
    return work;
}

/// Cuts between chunks of the same rank, which no message crosses: the turn of V.
static int turns_of(bal_joint_shape shape)
{
    return shape.placement == BAL_PLACEMENT_V ? 1 : 0;
}

/// The last stage of a rank.
static int last_stage(const bal_joint_layers *layers, bal_joint_shape shape, int rank)
{
    return bal_stage_of(shape.placement, layers->rank_count, shape.chunk_count, rank,
                        shape.chunk_count - 1);
}

/// What memory for few microbatches forces, each of which stays for long.
///
/// @param stay_ns from the begin of F of the first chunk to the end of its B
static int64_t slots_bound(const bal_joint_layers *layers, bal_joint_cost first, int64_t room,
                           int64_t head, int64_t tail, int64_t stay_ns)
{
    if (first.held_bytes == 0) return 0;
    const int64_t count = layers->microbatch_count;
    const int64_t slots = min_of(room / first.held_bytes, count);
    const bool until_weight = first.gradient_bytes >= first.held_bytes;
    const int64_t again_ns = stay_ns + (until_weight ? first.weight_ns : 0);
    return head + (count - 1) / slots * again_ns + (count - 1) % slots * first.forward_ns +
           stay_ns + max_of(tail, first.weight_ns);
}

/// How long a rank that has its first microbatch waits at least: for the first gradient, with the
/// forwards that memory allows until then, or for the second chunk, with those of the first.
///
/// @param forth_ns from the begin of F of the first chunk to the end of the pipeline
static int64_t wait_of(const bal_joint_layers *layers, bal_joint_shape shape, holding held,
                       bal_joint_cost first, bal_joint_cost second, int64_t room, int64_t forth_ns)
{
    const int second_stage = last_stage(layers, shape, held.rank);
    const int after = layers->rank_count * shape.chunk_count - 1 - second_stage;
    const int last_end = shape.chunk_count == 1 ? held.end : held.second_end;
    const int64_t back_ns =
        way(layers, layers->input_before, last_end, layers->layer_count, after, after);
    const int64_t wait = forth_ns + back_ns - forwards_within(layers, first, second, room);
    if (shape.chunk_count == 1) return max_of(0, wait);
    const int between = second_stage - held.rank - 1;
    const int64_t reach_ns = first.forward_ns +
                             way(layers, layers->forward_before, held.end, held.second_begin,
                                 between, between + 1 - turns_of(shape)) +
                             fixed_of(layers, held.rank + 1, layers->rank_count);
    const int64_t alone = forwards_within(layers, first, (bal_joint_cost){0}, room);
    return max_of(max_of(0, wait), reach_ns - alone);
}

/// The bound that a rank's own layers make; what depends on other cuts is at its least.
static int64_t rank_bound(const bal_joint_layers *layers, bal_joint_shape shape, holding held)
{
    const int rank = held.rank;
    const int count = layers->layer_count;
    const int64_t microbatches = layers->microbatch_count;
    const bal_joint_cost first = bal_joint_cost_of(layers, rank, 0, held.begin, held.end);
    const bal_joint_cost second =
        bal_joint_cost_of(layers, rank, 1, held.second_begin, held.second_end);
    if (need_bytes(first, second) > layers->memory_bytes[rank]) return INT64_MAX;

    const int64_t room = layers->memory_bytes[rank] - first.state_bytes - second.state_bytes;
    // Stages before the rank have a layer each, also where a probe lets them have none.
    const int ahead = held.begin > rank ? held.begin : rank;
    const int64_t head = head_of(layers, rank, ahead);
    const int64_t tail = tail_of(layers, rank, ahead);
    const int64_t pass = first.forward_ns + second.forward_ns + first.input_ns + second.input_ns;
    const int64_t weight = first.weight_ns + second.weight_ns;
    const int64_t work = microbatches * pass + max_of(microbatches * weight, tail);
    const bool lacks_second = shape.chunk_count == 2 && held.second_begin == held.second_end;
    if (held.begin == held.end || lacks_second) return head + work;

    const int after = layers->rank_count * shape.chunk_count - 1 - rank;
    const int crossings = after - turns_of(shape);
    const int64_t forth = first.forward_ns +
                          way(layers, layers->forward_before, held.end, count, after, crossings) +
                          fixed_of(layers, rank + 1, layers->rank_count);
    const int64_t wait = wait_of(layers, shape, held, first, second, room, forth);
    const int64_t stay = forth +
                         way(layers, layers->input_before, held.end, count, after, crossings) +
                         first.input_ns;
    return max_of(head + wait + work, slots_bound(layers, first, room, head, tail, stay));
}

static holding holding_of(const bal_joint_layers *layers, bal_joint_shape shape,
                          const int *first_layer, int rank)
{
    const int second = last_stage(layers, shape, rank);
    const bool is_double = shape.chunk_count == 2;
    return (holding){.rank = rank,
                     .begin = first_layer[rank],
                     .end = first_layer[rank + 1],
                     .second_begin = is_double ? first_layer[second] : first_layer[rank + 1],
                     .second_end = first_layer[second + 1]};
}

int64_t bal_joint_partition_bound(const bal_joint_layers *layers, bal_joint_shape shape,
                                  const int *first_layer)
{
    int64_t bound = 0;
    for (int rank = 0; rank < layers->rank_count; rank++) {
        const holding held = holding_of(layers, shape, first_layer, rank);
        bound = max_of(bound, rank_bound(layers, shape, held));
    }
    return bound;
}

// What the ranks so far hold is a run of layers from the begin and, of the second chunks, one that
// in V begins at the end of the model. For every end of the first run only the longest second one
// within the asked time matters, because whoever can finish from a shorter one can finish from a
// longer one: every later run is cut to what is left, which makes no bound larger. Empty runs of
// two are allowed for the bound, which only makes it smaller.

typedef struct bound_probe {
    const bal_joint_layers *layers;
    bal_joint_shape shape;
    int64_t time_ns; // asked: is there a partition with no bound above it?
    int first_min;   // layers that a first chunk has at least
    int second_min;  // layers that a second chunk has at least
    int middle;      // interleaved: first layer of the second chunks; V: layer_count
    int *reach;      // [rank_count + 1][layer_count + 1] by the end of the first run: layers of the
                     // second; -1: none
    int *origin;     // [rank_count + 1][layer_count + 1] end of the first run one rank before
    int *first_layer; // [stages + 1] of the last partition that was found
} bound_probe;

static bool is_loop(const bound_probe *probe)
{
    return probe->shape.chunk_count == 2 && probe->shape.placement == BAL_PLACEMENT_LOOP;
}

static size_t cell(const bound_probe *probe, int rank, int end)
{
    return (size_t)rank * ((size_t)probe->layers->layer_count + 1) + (size_t)end;
}

/// Whether a rank may hold [begin, end) and what lies between near and far of the second row.
static bool is_within(const bound_probe *probe, int rank, int begin, int end, int near, int far)
{
    const int count = probe->layers->layer_count;
    const int middle = probe->middle;
    const holding held = is_loop(probe) ? (holding){rank, begin, end, middle + near, middle + far}
                                        : (holding){rank, begin, end, count - far, count - near};
    return rank_bound(probe->layers, probe->shape, held) <= probe->time_ns;
}

/// Whether a run of layers is too much work for any rank.
static bool is_too_long(const bound_probe *probe, int begin, int end)
{
    const bal_joint_layers *layers = probe->layers;
    const int64_t work = layers->forward_before[end] - layers->forward_before[begin] +
                         layers->input_before[end] - layers->input_before[begin] +
                         layers->weight_before[end] - layers->weight_before[begin];
    return least(layers, work, 2) > probe->time_ns / layers->microbatch_count;
}

/// Extends one state by a rank: for every end of its first chunk, as much as it can take of the
/// second row. More in the first chunk leaves less for the second.
static void extend(bound_probe *probe, int rank, int begin)
{
    const int count = probe->layers->layer_count;
    const int near = probe->reach[cell(probe, rank, begin)];
    const int ranks_left = probe->layers->rank_count - 1 - rank;
    const int first_left = ranks_left * probe->first_min; // layers that later ranks need
    const int second_left = ranks_left * probe->second_min;
    const int least_far = near + probe->second_min;
    const bool is_double = probe->shape.chunk_count == 2;
    int far = is_double ? count : near;
    for (int end = begin + probe->first_min; end + first_left <= probe->middle; end++) {
        const int second_begin = is_loop(probe) ? probe->middle : end + first_left;
        if (far > count - second_begin - second_left) far = count - second_begin - second_left;
        while (far >= least_far && !is_within(probe, rank, begin, end, near, far)) {
            far--;
        }
        if (far < least_far && (is_double || is_too_long(probe, begin, end))) return;
        if (far < least_far) {
            far = near; // one chunk of more layers may fit, by a rounding
            continue;
        }
        const size_t to = cell(probe, rank + 1, end);
        if (probe->reach[to] >= far) continue;
        probe->reach[to] = far;
        probe->origin[to] = begin;
    }
}

/// Reads the partition whose first row ends there.
static void read_partition(bound_probe *probe, int end)
{
    const int ranks = probe->layers->rank_count;
    const int count = probe->layers->layer_count;
    for (int rank = ranks; rank >= 0; rank--) {
        const int second = probe->reach[cell(probe, rank, end)];
        if (is_loop(probe)) {
            probe->first_layer[ranks + rank] = probe->middle + second;
        } else if (probe->shape.chunk_count == 2) {
            probe->first_layer[2 * ranks - rank] = count - second;
        }
        probe->first_layer[rank] = end;
        if (rank > 0) end = probe->origin[cell(probe, rank, end)];
    }
}

/// Whether some partition with this middle is within the time.
static bool answer_probe(bound_probe *probe)
{
    const int ranks = probe->layers->rank_count;
    const int count = probe->layers->layer_count;
    for (size_t index = 0; index <= cell(probe, ranks, count); index++) {
        probe->reach[index] = -1;
    }
    probe->reach[0] = 0;
    for (int rank = 0; rank < ranks; rank++) {
        for (int begin = 0; begin <= probe->middle; begin++) {
            if (probe->reach[cell(probe, rank, begin)] >= 0) extend(probe, rank, begin);
        }
    }
    for (int end = 0; end <= count; end++) {
        if (probe->reach[cell(probe, ranks, end)] != count - end) continue;
        read_partition(probe, end);
        return true;
    }
    return false;
}

/// Whether some partition is within a time.
static bool has_partition(bound_probe *probe, int64_t time_ns)
{
    const int ranks = probe->layers->rank_count;
    const int count = probe->layers->layer_count;
    const int last = is_loop(probe) ? count - ranks : count;
    probe->time_ns = time_ns;
    for (probe->middle = is_loop(probe) ? ranks : count; probe->middle <= last; probe->middle++) {
        if (answer_probe(probe)) return true;
    }
    return false;
}

/// Steps of a probe over all middles, in layers that a chunk may hold.
static bool is_affordable(const bal_joint_layers *layers)
{
    const int64_t count = layers->layer_count;
    const int64_t chunk = count / layers->rank_count + 1;
    return count * count * layers->rank_count * chunk <= BAL_JOINT_BOUND_STEPS_MAX;
}

/// Narrows the time of the fastest partition, to a relative precision with two chunks per rank.
///
/// @param probe has found some partition
/// @return a time that none is below
static int64_t bisect(bound_probe *probe)
{
    const bal_joint_layers *layers = probe->layers;
    const int64_t precision = probe->shape.chunk_count == 2 ? PRECISION : INT64_MAX;
    int64_t low = -1;
    int64_t high = bal_joint_partition_bound(layers, probe->shape, probe->first_layer);
    while (high - low > 1 + max_of(low, 0) / precision) {
        const int64_t middle = low + (high - low) / 2;
        if (has_partition(probe, middle)) {
            high = bal_joint_partition_bound(layers, probe->shape, probe->first_layer);
        } else {
            low = middle;
        }
    }
    return low + 1;
}

/// Finds the fastest partition whose first and second chunks have so many layers at least.
static status solve(bound_probe probe, arena *memory, int64_t *bound_ns, error_message *err)
{
    const int ranks = probe.layers->rank_count;
    const int count = probe.layers->layer_count;
    if (ranks * probe.shape.chunk_count > count) {
        return error_set(err, STATUS_INFEASIBLE, "%d stages for %d layers",
                         ranks * probe.shape.chunk_count, count);
    }
    if (is_loop(&probe) && !is_affordable(probe.layers)) {
        return error_set(err, STATUS_UNSUPPORTED, "too many interleaved layers for a bound");
    }
    const size_t cells = cell(&probe, ranks, count) + 1;
    probe.reach = arena_array(memory, cells, sizeof *probe.reach);
    probe.origin = arena_array(memory, cells, sizeof *probe.origin);
    if (!has_partition(&probe, INT64_MAX - 1)) {
        return error_set(err, STATUS_INFEASIBLE, "no partition keeps the memory caps");
    }
    *bound_ns = bisect(&probe);
    return STATUS_OK;
}

status bal_joint_bound(const bal_joint_layers *layers, bal_joint_shape shape, arena *memory,
                       int *first_layer, int64_t *bound_ns, error_message *err)
{
    const bound_probe probe = {.layers = layers,
                               .shape = shape,
                               .first_min = shape.chunk_count == 1 ? 1 : 0,
                               .first_layer = first_layer};
    return solve(probe, memory, bound_ns, err);
}

status bal_joint_near_partition(const bal_joint_layers *layers, bal_joint_shape shape,
                                int first_min, int second_min, arena *memory, int *first_layer,
                                error_message *err)
{
    assert(shape.chunk_count == 2 && first_min >= 1 && second_min >= 1);
    const bound_probe probe = {.layers = layers,
                               .shape = shape,
                               .first_min = first_min,
                               .second_min = second_min,
                               .first_layer = first_layer};
    int64_t bound_ns = 0;
    return solve(probe, memory, &bound_ns, err);
}

bool bal_joint_shift_cuts(int stage_count, rng *random, int *first_layer)
{
    const int shifts = 1 + (int)rng_below(random, 2);
    for (int shift = 0; shift < shifts; shift++) {
        const int cut = 1 + (int)rng_below(random, (uint64_t)stage_count - 1);
        first_layer[cut] += rng_below(random, 2) == 0 ? -1 : 1;
    }
    for (int stage = 0; stage < stage_count; stage++) {
        if (first_layer[stage] >= first_layer[stage + 1]) return false;
    }
    return true;
}

/// What a partition is judged by: the squares of what its ranks are above the goal, which unlike
/// the largest alone tells whether a heavy rank's neighbours make room for its layers.
typedef struct judgement {
    bal_wide excess;
    int64_t bound_ns;
} judgement;

static judgement judge(const bal_joint_layers *layers, bal_joint_shape shape, int64_t goal_ns,
                       const int *first_layer)
{
    const int ranks = layers->rank_count;
    judgement sum = {0};
    for (int rank = 0; rank < ranks; rank++) {
        const int64_t bound =
            rank_bound(layers, shape, holding_of(layers, shape, first_layer, rank));
        // Half the range, where memory does not fit, so that the squares add up.
        const int64_t above = min_of(bound, INT64_MAX / 2) - goal_ns;
        sum.bound_ns = max_of(sum.bound_ns, bound);
        if (above > 0) sum.excess += (bal_wide)above * above / ranks;
    }
    return sum;
}

void bal_joint_refine(const bal_joint_layers *layers, bal_joint_shape shape, int64_t goal_ns,
                      int step_count, rng *random, arena *memory, int *first_layer)
{
    enum { HISTORY = 50 };
    const int stages = layers->rank_count * shape.chunk_count;
    const size_t cuts = (size_t)stages + 1;
    const size_t bytes = cuts * sizeof *first_layer;
    int *here_first = arena_array(memory, cuts, sizeof *here_first);
    int *tried_first = arena_array(memory, cuts, sizeof *tried_first);
    bal_wide history[HISTORY];
    if (stages == 1) return;
    memcpy(here_first, first_layer, bytes);
    judgement here = judge(layers, shape, goal_ns, here_first);
    int64_t best_ns = here.bound_ns;
    for (int index = 0; index < HISTORY; index++) {
        history[index] = here.excess;
    }
    for (int step = 0; step < step_count && here.excess > 0; step++) {
        bal_wide *then = &history[step % HISTORY];
        const bal_wide limit = here.excess > *then ? here.excess : *then;
        *then = here.excess;
        memcpy(tried_first, here_first, bytes);
        if (!bal_joint_shift_cuts(stages, random, tried_first)) continue;
        const judgement tried = judge(layers, shape, goal_ns, tried_first);
        if (tried.excess > limit) continue;
        here = tried;
        memcpy(here_first, tried_first, bytes);
        if (here.bound_ns >= best_ns) continue;
        best_ns = here.bound_ns;
        memcpy(first_layer, here_first, bytes);
    }
}

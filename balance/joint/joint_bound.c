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

/// Until the first F reaches a rank whose first layer is begin: the same under all shapes, as stage
/// r is the first of rank r.
static int64_t head_of(const bal_joint_layers *layers, int rank, int begin)
{
    return least(layers, layers->forward_before[begin], rank) + fixed_of(layers, 0, rank) +
           rank * layers->transfer_min_ns;
}

/// From the end of the last B of a rank until stage 0 has ended its own and a W of its first layer.
static int64_t tail_of(const bal_joint_layers *layers, int rank, int begin)
{
    if (rank == 0) return 0;
    const int64_t weight = layers->has_split ? layers->weight_before[1] : 0;
    int64_t input = layers->input_before[begin];
    if (!layers->has_split) input += layers->weight_before[begin];
    return least(layers, input, rank) + least(layers, weight, 1) + rank * layers->transfer_min_ns;
}

/// F of the layers from begin on, and the messages over crossings cuts.
static int64_t forward_from(const bal_joint_layers *layers, int begin, int crossings, int run_count)
{
    const int count = layers->layer_count;
    const int64_t ns = layers->forward_before[count] - layers->forward_before[begin];
    return least(layers, ns, run_count) + crossings * layers->transfer_min_ns;
}

static int64_t input_from(const bal_joint_layers *layers, int begin, int crossings, int run_count)
{
    const int count = layers->layer_count;
    int64_t ns = layers->input_before[count] - layers->input_before[begin];
    if (!layers->has_split) ns += layers->weight_before[count] - layers->weight_before[begin];
    return least(layers, ns, run_count) + crossings * layers->transfer_min_ns;
}

/// The bytes of a rank that holds these layers and one microbatch at a time.
static int64_t need_bytes(const bal_joint_layers *layers, int rank, int first_begin, int first_end,
                          int second_begin, int second_end)
{
    const bal_joint_cost first = bal_joint_cost_of(layers, rank, 0, first_begin, first_end);
    const bal_joint_cost second = bal_joint_cost_of(layers, rank, 1, second_begin, second_end);
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
        const int64_t wanted = count * chunk.held_bytes;
        if (wanted <= room) {
            work += count * chunk.forward_ns;
            room -= wanted;
            continue;
        }
        work += (int64_t)(((bal_wide)chunk.forward_ns * room + chunk.held_bytes - 1) /
                          chunk.held_bytes);
        room = 0;
    }
    return work;
}

/// What the memory of a rank forces: room for few microbatches, each of which stays for long.
///
/// @param stay_ns from the begin of F of the first chunk to the end of its B
static int64_t memory_bound(const bal_joint_layers *layers, bal_joint_cost first,
                            bal_joint_cost second, int64_t room, int64_t head, int64_t tail,
                            int64_t stay_ns, int64_t second_stay_ns)
{
    const int64_t count = layers->microbatch_count;
    int64_t bound = 0;
    if (first.held_bytes > 0) {
        const int64_t slots = min_of(room / first.held_bytes, count);
        const bool until_weight = first.gradient_bytes >= first.held_bytes;
        const int64_t again_ns = stay_ns + (until_weight ? first.weight_ns : 0);
        const int64_t last_begin =
            head + (count - 1) / slots * again_ns + (count - 1) % slots * first.forward_ns;
        bound = last_begin + stay_ns + max_of(tail, first.weight_ns);
    }
    if (room > 0) {
        const bal_wide area =
            ((bal_wide)first.held_bytes * stay_ns + (bal_wide)second.held_bytes * second_stay_ns) *
            count;
        bound = max_of(bound, head + tail + (int64_t)((area + room - 1) / room));
    }
    return bound;
}

/// The bound that a rank's own layers make; what depends on other cuts is at its least.
static int64_t rank_bound(const bal_joint_layers *layers, bal_joint_shape shape, holding held)
{
    const int ranks = layers->rank_count;
    const int rank = held.rank;
    const int64_t count = layers->microbatch_count;
    const bool is_double = shape.chunk_count == 2;
    const bool has_second = held.second_begin < held.second_end;
    const bal_joint_cost first = bal_joint_cost_of(layers, rank, 0, held.begin, held.end);
    const bal_joint_cost second =
        bal_joint_cost_of(layers, rank, 1, held.second_begin, held.second_end);
    const int64_t need =
        need_bytes(layers, rank, held.begin, held.end, held.second_begin, held.second_end);
    if (need > layers->memory_bytes[rank]) return INT64_MAX;

    const int64_t room = layers->memory_bytes[rank] - first.state_bytes - second.state_bytes;
    // Stages before the rank have a layer each, also where a probe lets them have none.
    const int ahead = held.begin > rank ? held.begin : rank;
    const int64_t head = head_of(layers, rank, ahead);
    const int64_t tail = tail_of(layers, rank, ahead);
    const int64_t forward = first.forward_ns + second.forward_ns;
    const int64_t weight = first.weight_ns + second.weight_ns;
    const int64_t both = count * (forward + first.input_ns + second.input_ns);
    int64_t bound = max_of(head + both + count * weight, head + both + tail);
    if (held.begin == held.end || (is_double && !has_second)) return bound;

    // Stages after the first and the second chunk; the turn of V crosses no ranks.
    const bool is_v = is_double && shape.placement == BAL_PLACEMENT_V;
    const int behind_first = (is_double ? 2 * ranks : ranks) - 1 - rank;
    const int behind_second = !is_double ? behind_first : is_v ? rank : ranks - 1 - rank;
    const int crossings = behind_first - (is_v ? 1 : 0);
    const int64_t way = forward_from(layers, held.end, crossings, behind_first) +
                        fixed_of(layers, rank + 1, ranks) + first.forward_ns;
    const int last_end = is_double ? held.second_end : held.end;
    const int64_t wait = way + input_from(layers, last_end, behind_second, behind_second);
    const int64_t before = forwards_within(layers, first, second, room);
    bound = max_of(bound, head + wait + both - before + max_of(count * weight, tail));
    if (is_double) {
        const int between = is_v ? 2 * (ranks - 1 - rank) : ranks - 1;
        const int64_t reach =
            first.forward_ns +
            least(layers,
                  layers->forward_before[held.second_begin] - layers->forward_before[held.end],
                  between) +
            fixed_of(layers, rank + 1, ranks) + (is_v ? between : ranks) * layers->transfer_min_ns;
        const int64_t alone = forwards_within(layers, first, (bal_joint_cost){0}, room);
        bound = max_of(bound, head + reach + both - alone + max_of(count * weight, tail));
    }

    const int64_t stay =
        way + input_from(layers, held.end, crossings, behind_first) + first.input_ns;
    const int64_t second_stay =
        is_double ? second.forward_ns + second.input_ns +
                        forward_from(layers, held.second_end, behind_second, behind_second) +
                        input_from(layers, held.second_end, behind_second, behind_second)
                  : 0;
    return max_of(bound, memory_bound(layers, first, second, room, head, tail, stay, second_stay));
}

static holding holding_of(const bal_joint_layers *layers, bal_joint_shape shape,
                          const int *first_layer, int rank)
{
    const int second = bal_stage_of(shape.placement, layers->rank_count, shape.chunk_count, rank,
                                    shape.chunk_count - 1);
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

// One chunk per rank.

/// Rows of the dynamic program: the least bound of the ranks so far, by the layers they hold.
typedef struct single_table {
    int64_t *least;    // [layer_count + 1]
    int64_t *previous; // [layer_count + 1]
    int *begin;        // [rank_count][layer_count + 1]
} single_table;

/// The least over where the last of the ranks so far begins. Its own work makes its bound larger
/// with every layer in front, which ends the search.
static void fill_cell(const bal_joint_layers *layers, single_table *table, int rank, int end)
{
    const bal_joint_shape shape = {.chunk_count = 1, .placement = BAL_PLACEMENT_LOOP};
    const int64_t count = layers->microbatch_count;
    int64_t best = INT64_MAX;
    for (int begin = end - 1; begin >= rank; begin--) {
        const bal_joint_cost cost = bal_joint_cost_of(layers, rank, 0, begin, end);
        if ((cost.forward_ns + cost.input_ns + cost.weight_ns) * count >= best) break;
        if (table->previous[begin] >= best) continue;
        const holding held = {rank, begin, end, end, end};
        const int64_t value = max_of(table->previous[begin], rank_bound(layers, shape, held));
        if (value >= best) continue;
        best = value;
        table->begin[(size_t)rank * ((size_t)layers->layer_count + 1) + (size_t)end] = begin;
    }
    table->least[end] = best;
}

static status bound_single(const bal_joint_layers *layers, arena *memory, int *first_layer,
                           int64_t *bound_ns, error_message *err)
{
    const int count = layers->layer_count;
    const size_t row = (size_t)count + 1;
    single_table table = {
        .least = arena_array(memory, row, sizeof *table.least),
        .previous = arena_array(memory, row, sizeof *table.previous),
        .begin = arena_array(memory, row * (size_t)layers->rank_count, sizeof *table.begin)};
    for (int end = 0; end <= count; end++) {
        table.least[end] = end == 0 ? 0 : INT64_MAX;
    }
    for (int rank = 0; rank < layers->rank_count; rank++) {
        int64_t *const filled = table.previous;
        table.previous = table.least;
        table.least = filled;
        for (int end = 0; end <= count; end++) {
            if (end > rank) fill_cell(layers, &table, rank, end);
            if (end <= rank) table.least[end] = INT64_MAX;
        }
    }
    if (table.least[count] == INT64_MAX) {
        return error_set(err, STATUS_INFEASIBLE, "no partition keeps the memory caps");
    }
    *bound_ns = table.least[count];
    if (first_layer == NULL) return STATUS_OK;
    first_layer[layers->rank_count] = count;
    for (int rank = layers->rank_count - 1; rank >= 0; rank--) {
        first_layer[rank] = table.begin[(size_t)rank * row + (size_t)first_layer[rank + 1]];
    }
    return STATUS_OK;
}

// Two chunks per rank. What the ranks so far hold is two runs of layers; for every end of the
// first one, only the furthest end of the second within the asked time matters, because whoever can
// finish from a nearer end can finish from a further one: every later run is cut to what is left,
// which makes no bound larger. Empty runs are allowed here, which only makes the bound smaller.

typedef struct double_probe {
    const bal_joint_layers *layers;
    bal_joint_shape shape;
    int64_t time_ns; // asked: is there a partition with no bound above it?
    int middle;      // interleaved: layers of all first chunks
    int first_min;   // layers that a first chunk has at least
    int second_min;  // layers that a second chunk has at least
    int *reach;      // [rank_count + 1][layer_count + 1] by the end of the first run; -1: none
    int *origin;     // [rank_count + 1][layer_count + 1] end of the first run one rank before
} double_probe;

static size_t cell(const double_probe *probe, int rank, int end)
{
    return (size_t)rank * ((size_t)probe->layers->layer_count + 1) + (size_t)end;
}

/// Whether a rank may hold [begin, end) and what lies between near and far of the second row.
static bool is_within(const double_probe *probe, int rank, int begin, int end, int near, int far)
{
    const bool is_v = probe->shape.placement == BAL_PLACEMENT_V;
    const holding held = {rank, begin, end, is_v ? far : near, is_v ? near : far};
    return rank_bound(probe->layers, probe->shape, held) <= probe->time_ns;
}

/// Extends one state by a rank: for every end of its first chunk, as much as it can take of the
/// second row. More in the first chunk leaves less for the second.
static void extend(double_probe *probe, int rank, int begin)
{
    const bool is_v = probe->shape.placement == BAL_PLACEMENT_V;
    const int near = probe->reach[cell(probe, rank, begin)];
    const int step = is_v ? -1 : 1;
    const int ranks_left = probe->layers->rank_count - 1 - rank;
    const int first_left = ranks_left * probe->first_min; // layers that the ranks behind need
    const int second_left = ranks_left * probe->second_min;
    const int least_far = near + step * probe->second_min;
    const int end_max = is_v ? least_far - first_left - second_left : probe->middle - first_left;
    int far = is_v ? begin : probe->layers->layer_count - second_left;
    if (!is_v && least_far > far) return;
    for (int end = begin + probe->first_min; end <= end_max; end++) {
        if (is_v && far < end + first_left + second_left) far = end + first_left + second_left;
        while (far != least_far && !is_within(probe, rank, begin, end, near, far)) {
            far -= step;
        }
        if (far == least_far && !is_within(probe, rank, begin, end, near, far)) return;
        int *best = &probe->reach[cell(probe, rank + 1, end)];
        if (*best >= 0 && (is_v ? *best <= far : *best >= far)) continue;
        *best = far;
        probe->origin[cell(probe, rank + 1, end)] = begin;
    }
}

/// @return where the first row ends in a partition within the time, or -1
static int answer_probe(double_probe *probe)
{
    const int ranks = probe->layers->rank_count;
    const int count = probe->layers->layer_count;
    const bool is_v = probe->shape.placement == BAL_PLACEMENT_V;
    for (size_t index = 0; index <= cell(probe, ranks, count); index++) {
        probe->reach[index] = -1;
    }
    probe->reach[0] = is_v ? count : probe->middle;
    for (int rank = 0; rank < ranks; rank++) {
        for (int begin = 0; begin <= (is_v ? count : probe->middle); begin++) {
            if (probe->reach[cell(probe, rank, begin)] >= 0) extend(probe, rank, begin);
        }
    }
    if (!is_v) {
        return probe->reach[cell(probe, ranks, probe->middle)] == count ? probe->middle : -1;
    }
    for (int end = 0; end <= count; end++) {
        if (probe->reach[cell(probe, ranks, end)] == end) return end;
    }
    return -1;
}

/// The partition of the last answered probe.
static void read_partition(const double_probe *probe, int end, int *first_layer)
{
    const int ranks = probe->layers->rank_count;
    const bool is_v = probe->shape.placement == BAL_PLACEMENT_V;
    for (int rank = ranks; rank >= 0; rank--) {
        const int second = probe->reach[cell(probe, rank, end)];
        first_layer[rank] = end;
        first_layer[is_v ? 2 * ranks - rank : ranks + rank] = second;
        if (rank > 0) end = probe->origin[cell(probe, rank, end)];
    }
}

/// Whether some partition is within a time.
static bool has_partition(double_probe *probe, int64_t time_ns, int *first_layer)
{
    const bool is_v = probe->shape.placement == BAL_PLACEMENT_V;
    const int ranks = probe->layers->rank_count;
    const int last = is_v ? ranks : probe->layers->layer_count - ranks;
    probe->time_ns = time_ns;
    for (probe->middle = ranks; probe->middle <= last; probe->middle++) {
        const int end = answer_probe(probe);
        if (end < 0) continue;
        if (first_layer != NULL) read_partition(probe, end, first_layer);
        return true;
    }
    return false;
}

/// Whether layers that could be divided at will fit a time. Rank r begins behind at least r layers
/// and ends its B before as many.
static bool fits_divided(const bal_joint_layers *layers, int64_t time_ns)
{
    const int count = layers->layer_count;
    bal_wide taken = 0;
    for (int rank = 0; rank < layers->rank_count; rank++) {
        const int64_t left = time_ns - head_of(layers, rank, rank);
        if (left < 0) return false;
        const int64_t factor =
            layers->time_factor_ppb != NULL ? layers->time_factor_ppb[rank] : PPB;
        // Three roundings of two chunks may each have saved half a nanosecond per microbatch.
        const int64_t rounded = layers->time_factor_ppb != NULL ? 4 : 0;
        const bal_wide share = left / layers->microbatch_count + rounded;
        taken += (share * PPB + factor - 1) / factor;
    }
    return taken >= (bal_wide)layers->forward_before[count] + layers->input_before[count] +
                        layers->weight_before[count];
}

/// The smallest time that layers which could be divided fit.
static int64_t bound_divided(const bal_joint_layers *layers, int64_t high)
{
    int64_t low = -1;
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (fits_divided(layers, middle)) {
            high = middle;
        } else {
            low = middle;
        }
    }
    return high;
}

static double_probe make_probe(const bal_joint_layers *layers, bal_joint_shape shape, arena *memory)
{
    const size_t cells = ((size_t)layers->rank_count + 1) * ((size_t)layers->layer_count + 1);
    return (double_probe){.layers = layers,
                          .shape = shape,
                          .reach = arena_array(memory, cells, sizeof(int)),
                          .origin = arena_array(memory, cells, sizeof(int))};
}

/// Steps of a probe over all middles, in layers that a chunk may hold.
static bool is_affordable(const bal_joint_layers *layers)
{
    const int64_t count = layers->layer_count;
    const int64_t chunk = count / layers->rank_count + 1;
    return count * count * layers->rank_count * chunk <= BAL_JOINT_BOUND_STEPS_MAX;
}

/// Narrows the time within which there is a partition to a relative precision.
///
/// @param low         no partition is within it
/// @param first_layer of the last probe that found one, or NULL
/// @return the largest time that is known to have none
static int64_t narrow(double_probe *probe, int64_t low, int *first_layer)
{
    int64_t high = low;
    for (int64_t step = low / PRECISION + 1; high == low; step = 2 * step) {
        if (has_partition(probe, low + step, first_layer)) {
            high = low + step;
        } else {
            low = high = low + step;
        }
    }
    while (high - low > 1 && high - low > low / PRECISION) {
        const int64_t middle = low + (high - low) / 2;
        if (has_partition(probe, middle, first_layer)) {
            high = middle;
        } else {
            low = middle;
        }
    }
    return low;
}

static status bound_double(const bal_joint_layers *layers, bal_joint_shape shape, arena *memory,
                           int64_t *bound_ns, error_message *err)
{
    double_probe probe = make_probe(layers, shape, memory);
    const int64_t divided = bound_divided(layers, INT64_MAX / 4);
    if (shape.placement == BAL_PLACEMENT_LOOP && !is_affordable(layers)) {
        *bound_ns = divided;
        return STATUS_OK;
    }
    if (!has_partition(&probe, INT64_MAX - 1, NULL)) {
        return error_set(err, STATUS_INFEASIBLE, "no partition keeps the memory caps");
    }
    *bound_ns = narrow(&probe, divided - 1, NULL) + 1;
    return STATUS_OK;
}

status bal_joint_near_partition(const bal_joint_layers *layers, bal_joint_shape shape,
                                int first_min, int second_min, arena *memory, int *first_layer,
                                error_message *err)
{
    assert(shape.chunk_count == 2 && first_min >= 1 && second_min >= 1);
    double_probe probe = make_probe(layers, shape, memory);
    probe.first_min = first_min;
    probe.second_min = second_min;
    if ((shape.placement == BAL_PLACEMENT_LOOP && !is_affordable(layers)) ||
        !has_partition(&probe, INT64_MAX - 1, first_layer)) {
        return error_set(err, STATUS_INFEASIBLE, "no partition was found");
    }
    narrow(&probe, bound_divided(layers, INT64_MAX / 4) - 1, first_layer);
    return STATUS_OK;
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

status bal_joint_bound(const bal_joint_layers *layers, bal_joint_shape shape, arena *memory,
                       int *first_layer, int64_t *bound_ns, error_message *err)
{
    if (layers->rank_count * shape.chunk_count > layers->layer_count) {
        return error_set(err, STATUS_INFEASIBLE, "%d stages for %d layers",
                         layers->rank_count * shape.chunk_count, layers->layer_count);
    }
    if (shape.chunk_count == 1) {
        return bound_single(layers, memory, first_layer, bound_ns, err);
    }
    return bound_double(layers, shape, memory, bound_ns, err);
}

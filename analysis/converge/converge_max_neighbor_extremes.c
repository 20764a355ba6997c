/// Max-neighbor on the star and the complete graph, where only extreme nodes are ever chosen.
///
/// Complete graph: every sender proposes to one of the lightest or of the heaviest receivers (under
/// P: nodes), whichever are farther. A heaviest receiver has its farthest proposal from the
/// lightest of those senders that chose it, and the other way round. So senders are looked at from
/// either end of the order, until all receivers at the other end have a proposal. Star: the hub and
/// the leaf of the other role that is farthest, which is one of the lightest or of the heaviest of
/// these.
#include "analysis/converge/converge_max_neighbor.h"
#include "analysis/converge/converge_order.h"

#include <math.h>
#include <string.h>

typedef struct one_node {
    int node; // -1: none
    double load;
} one_node;

typedef struct pair {
    one_node left;
    one_node right;
} pair;

/// Nodes of the same load at one end of the order, which senders propose to, and who proposed.
typedef struct crowd {
    int *node;          // [count] ascending
    one_node *accepted; // [count] the sender; node -1: nobody
    double load;
    int count;
    int receiver_count; // of them; under P a node of the crowd may send
} crowd;

typedef struct extremes_player {
    ana_order order; // complete graph: all nodes; star: the leaves
    double *load;    // [node_count] after the last round
    int *scratch;    // [2 * node_count]
    crowd light;     // arrays [node_count]
    crowd heavy;
    pair *pairs; // [node_count] averaged in the last round, with the loads before
    int pair_count;
} extremes_player;

static bool carve_crowd(size_t nodes, arena *memory, crowd *out)
{
    out->node = arena_array(memory, nodes, sizeof *out->node);
    out->accepted = arena_array(memory, nodes, sizeof *out->accepted);
    return out->node != NULL && out->accepted != NULL;
}

static status prepare(ana_scheme_run *run, arena *memory, error_message *err)
{
    const int nodes = run->graph->node_count;
    extremes_player *player = arena_array(memory, 1, sizeof *player);
    player->load = arena_array(memory, (size_t)nodes, sizeof *player->load);
    player->scratch = arena_array(memory, 2 * (size_t)nodes, sizeof *player->scratch);
    player->pairs = arena_array(memory, (size_t)nodes, sizeof *player->pairs);
    if (player->load == NULL || player->scratch == NULL || player->pairs == NULL ||
        !carve_crowd((size_t)nodes, memory, &player->light) ||
        !carve_crowd((size_t)nodes, memory, &player->heavy)) {
        return error_set(err, STATUS_NO_MEMORY, "out of memory");
    }
    run->state = player;
    ana_order_make(nodes, memory, &player->order);
    return STATUS_OK;
}

static void begin(ana_scheme_run *run)
{
    extremes_player *player = run->state;
    const int nodes = run->graph->node_count;
    const int first = run->graph->kind == ANA_GRAPH_STAR ? 1 : 0;
    memcpy(player->load, run->load, (size_t)nodes * sizeof *run->load);
    ana_order_fill(&player->order, player->load, first, nodes, player->scratch);
    player->pair_count = 0;
}

static one_node at(const ana_order *order, ana_order_place place)
{
    if (ana_order_is_end(order, place)) return (one_node){.node = -1};
    const ana_order_run *run = order->run[place.run];
    return (one_node){.node = run->node[place.index], .load = run->load[place.index]};
}

static bool sends(const ana_scheme_run *run, int node)
{
    return ana_coins_is_sender(&run->coins, run->round, node);
}

static one_node lightest(const ana_scheme_run *run, bool is_sender)
{
    const extremes_player *player = run->state;
    ana_order_place place = ana_order_lightest(&player->order);
    one_node found = at(&player->order, place);
    while (found.node >= 0 && sends(run, found.node) != is_sender) {
        place = ana_order_heavier(&player->order, place);
        found = at(&player->order, place);
    }
    return found;
}

static one_node heaviest(const ana_scheme_run *run, bool is_sender)
{
    const extremes_player *player = run->state;
    ana_order_place place = ana_order_heaviest(&player->order);
    one_node found = at(&player->order, place);
    while (found.node >= 0 && sends(run, found.node) != is_sender) {
        place = ana_order_lighter(&player->order, place);
        found = at(&player->order, place);
    }
    return found;
}

/// Whether a load is farther from the heavy one of two than from the light one.
static bool is_up_farther(double from, double light, double heavy)
{
    return heavy - from > from - light; // equally far: the lighter
}

static void add_pair(extremes_player *player, one_node left, one_node right)
{
    player->pairs[player->pair_count++] = (pair){.left = left, .right = right};
}

/// All nodes of a load that a sender may propose to.
static void gather(const ana_scheme_run *run, double load, crowd *out)
{
    const extremes_player *player = run->state;
    const bool sees_roles = run->options.variant != ANA_VARIANT_P;
    out->load = load;
    out->count = out->receiver_count = 0;
    ana_order_place place = ana_order_find(&player->order, load, 0);
    for (one_node here = at(&player->order, place); here.node >= 0 && here.load == load;
         place = ana_order_heavier(&player->order, place), here = at(&player->order, place)) {
        const bool is_sender = sends(run, here.node);
        if (is_sender && sees_roles) continue;
        out->receiver_count += !is_sender;
        out->accepted[out->count].node = -1;
        out->node[out->count++] = here.node;
    }
}

static uint64_t lot_of(const ana_scheme_run *run, int node)
{
    return ana_coins_lot(&run->coins, run->round, node);
}

/// A receiver hears senders in the order of their distance, so only one at the same distance can
/// take the first one's place: by lot.
/// @return whether it is the first that this receiver hears
static bool propose(const ana_scheme_run *run, one_node from, one_node *accepted)
{
    if (accepted->node < 0) {
        *accepted = from;
        return true;
    }
    if (from.load == accepted->load && lot_of(run, from.node) < lot_of(run, accepted->node)) {
        *accepted = from;
    }
    return false;
}

/// Senders propose to a crowd, the farthest first, until everybody there has heard the farthest of
/// its own, or the next sender is not farther from this crowd than from the other one.
static void propose_all(const ana_scheme_run *run, bool upwards, double other_load, crowd *to)
{
    const extremes_player *player = run->state;
    const ana_order *order = &player->order;
    ana_order_place place = upwards ? ana_order_lightest(order) : ana_order_heaviest(order);
    int heard = 0;
    double last_load = 0;
    for (one_node here = at(order, place); here.node >= 0; here = at(order, place)) {
        place = upwards ? ana_order_heavier(order, place) : ana_order_lighter(order, place);
        if (heard == to->receiver_count && here.load != last_load) return;
        const double gap = upwards ? to->load - here.load : here.load - to->load;
        if (gap <= 0) return;
        if (is_up_farther(here.load, upwards ? other_load : to->load,
                          upwards ? to->load : other_load) != upwards) {
            return;
        }
        if (!sends(run, here.node)) continue;
        const int index = ana_coins_pick(lot_of(run, here.node), to->count);
        const bool is_first = propose(run, here, &to->accepted[index]);
        heard += is_first && !sends(run, to->node[index]);
        last_load = here.load;
    }
}

static void pair_crowd(const ana_scheme_run *run, const crowd *all, extremes_player *player)
{
    for (int index = 0; index < all->count; index++) {
        if (all->accepted[index].node < 0 || sends(run, all->node[index])) continue;
        add_pair(player, all->accepted[index],
                 (one_node){.node = all->node[index], .load = all->load});
    }
}

/// All receivers have one load: each takes the farther of what it heard from either side.
static void merge_crowds(const crowd *from_below, crowd *from_above)
{
    for (int index = 0; index < from_above->count; index++) {
        const one_node below = from_below->accepted[index];
        one_node *above = &from_above->accepted[index];
        if (below.node < 0) continue;
        if (above->node < 0 || !is_up_farther(from_above->load, below.load, above->load)) {
            *above = below;
        }
    }
}

static void pair_complete(const ana_scheme_run *run, extremes_player *player)
{
    const bool sees_roles = run->options.variant != ANA_VARIANT_P;
    const ana_order *order = &player->order;
    const one_node light = sees_roles ? lightest(run, false) : at(order, ana_order_lightest(order));
    const one_node heavy = sees_roles ? heaviest(run, false) : at(order, ana_order_heaviest(order));
    if (light.node < 0) return;
    gather(run, light.load, &player->light);
    gather(run, heavy.load, &player->heavy);
    propose_all(run, false, heavy.load, &player->light);
    propose_all(run, true, light.load, &player->heavy);
    if (light.load == heavy.load) {
        merge_crowds(&player->heavy, &player->light);
    } else {
        pair_crowd(run, &player->heavy, player);
    }
    pair_crowd(run, &player->light, player);
}

/// The leaf whose proposal the hub accepts: of those of a load that send the one with the smallest
/// lot.
static one_node accepted_leaf(const ana_scheme_run *run, double load)
{
    const extremes_player *player = run->state;
    one_node accepted = {.node = -1};
    ana_order_place place = ana_order_find(&player->order, load, 0);
    for (one_node here = at(&player->order, place); here.node >= 0 && here.load == load;
         place = ana_order_heavier(&player->order, place), here = at(&player->order, place)) {
        if (sends(run, here.node)) propose(run, here, &accepted);
    }
    return accepted;
}

/// The hub, if it sends, proposes to one of the farthest leaves that receive (under P: of the
/// farthest leaves); if it receives, all leaves that send propose to it.
static void pair_star(const ana_scheme_run *run, extremes_player *player)
{
    const bool hub_sends = sends(run, 0);
    const bool any = hub_sends && run->options.variant == ANA_VARIANT_P;
    const one_node hub = {.node = 0, .load = player->load[0]};
    const ana_order *order = &player->order;
    const one_node light = any ? at(order, ana_order_lightest(order)) : lightest(run, !hub_sends);
    const one_node heavy = any ? at(order, ana_order_heaviest(order)) : heaviest(run, !hub_sends);
    if (light.node < 0) return;
    const double load = is_up_farther(hub.load, light.load, heavy.load) ? heavy.load : light.load;
    if (!hub_sends) {
        add_pair(player, hub, accepted_leaf(run, load));
        return;
    }
    gather(run, load, &player->light);
    const int leaf = player->light.node[ana_coins_pick(lot_of(run, 0), player->light.count)];
    if (!sends(run, leaf)) add_pair(player, hub, (one_node){.node = leaf, .load = load});
}

static void set_load(const ana_scheme_run *run, extremes_player *player, one_node from, double load)
{
    player->load[from.node] = load;
    if (run->graph->kind == ANA_GRAPH_STAR && from.node == 0) return;
    ana_order_remove(&player->order, from.load, from.node);
    ana_order_insert(&player->order, load, from.node);
}

static double play(ana_scheme_run *run)
{
    extremes_player *player = run->state;
    player->pair_count = 0;
    if (run->graph->kind == ANA_GRAPH_STAR) {
        pair_star(run, player);
    } else {
        pair_complete(run, player);
    }
    double gaps = 0;
    for (int index = 0; index < player->pair_count; index++) {
        const pair *both = &player->pairs[index];
        const double mean = (both->left.load + both->right.load) * 0.5;
        gaps += fabs(both->left.load - both->right.load);
        set_load(run, player, both->left, mean);
        set_load(run, player, both->right, mean);
    }
    return gaps;
}

static void settle(ana_scheme_run *run)
{
    const extremes_player *player = run->state;
    memcpy(run->load, player->load, (size_t)run->graph->node_count * sizeof *run->load);
}

static void recall(const ana_scheme_run *run, double *before)
{
    const extremes_player *player = run->state;
    memcpy(before, player->load, (size_t)run->graph->node_count * sizeof *before);
    for (int index = 0; index < player->pair_count; index++) {
        const pair *both = &player->pairs[index];
        before[both->left.node] = both->left.load;
        before[both->right.node] = both->right.load;
    }
}

const ana_max_neighbor_player ana_max_neighbor_extremes = {
    .prepare = prepare, .begin = begin, .play = play, .settle = settle, .recall = recall};

/// Max-neighbor on tori and hypercubes as passes over rows of nodes without branches, which
/// compilers make wide.
///
/// Every node has a partner in every direction. Those of a row stand in another row, column by
/// column, or in the same row: beside it, where rows have their other end on either side, or in a
/// copy with the columns exchanged. Roles are 1.0 (sends) and 0.0,
/// choices are 1 + direction, 0: none. What is no proposal has gap 0: a pair without a gap changes
/// nothing.
#include "analysis/converge/converge_max_neighbor.h"
#include "analysis/converge/converge_max_neighbor_passes.h"

#include <assert.h>
#include <math.h>

enum { FOUR = 4, DIRECTIONS_MAX = 16 };

/// From node i of a ring or cube to its partner (i ^ flip) + step. Both 0: the node itself, with
/// which directions are filled up to a multiple of four.
typedef struct direction {
    bool is_between_rows;
    int flip;
    int step;
    int opposite; // direction from the partner back
} direction;

/// Unless said otherwise [rows][1 + columns + 1]: on either side of a row stands its other end.
typedef struct row_player {
    int rows;
    int columns;
    int count;                            // of directions, of which some may be the node itself
    direction directions[DIRECTIONS_MAX]; // [count]
    ana_graph_links links;                // for ties
    double *load;                         // now
    double *next;                         // after this round; before: the loads before the last one
    double *role;                         // [node_count + ANA_NIBBLE_BITS], without the ends
    double *open;                         // 1 if a sender may choose that node, else 0
    double *choice; // of a sender the direction it proposes to, of a receiver that it accepts from
    double *gap;    // [columns] the widest in a row,
    double *second; // [columns] the next to it,
    double *widest; // [columns] and its choice
    double *turned; // [2 * FOUR][columns] with columns exchanged
    bool is_wide;   // this machine has vectors of 256 bits
    ana_role_table roles;
} row_player;

/// Where a row begins in arrays that have the ends.
static inline ptrdiff_t begin_of(const row_player *player, int row)
{
    return (ptrdiff_t)row * (player->columns + 2) + 1;
}

static ptrdiff_t place_of(const row_player *player, int node)
{
    return begin_of(player, node / player->columns) + node % player->columns;
}

/// Sets the entries on either side of a row.
static inline void set_ends(const row_player *player, int row, double *array)
{
    double *first = array + begin_of(player, row);
    first[-1] = first[player->columns - 1];
    first[player->columns] = first[0];
}

static void add_direction(row_player *player, direction added)
{
    assert(player->count < DIRECTIONS_MAX);
    player->directions[player->count++] = added;
}

static void add_ring(row_player *player, int length, bool is_between_rows)
{
    const int first = player->count;
    if (length == 2) {
        add_direction(player, (direction){is_between_rows, .flip = 1, .opposite = first});
        return;
    }
    add_direction(player, (direction){is_between_rows, .step = 1, .opposite = first + 1});
    add_direction(player, (direction){is_between_rows, .step = -1, .opposite = first});
}

static void add_cube(row_player *player, int length, bool is_between_rows)
{
    for (int bit = 1; bit < length; bit *= 2) {
        add_direction(player, (direction){is_between_rows, .flip = bit, .opposite = player->count});
    }
}

static void list_directions(const ana_graph *graph, row_player *player)
{
    player->rows = graph->rows;
    player->columns = graph->columns;
    for (int between_rows = 0; between_rows < 2; between_rows++) {
        const int length = between_rows ? graph->rows : graph->columns;
        if (graph->kind == ANA_GRAPH_TORUS) {
            add_ring(player, length, between_rows != 0);
        } else {
            add_cube(player, length, between_rows != 0);
        }
    }
    while (player->count % FOUR != 0) {
        add_direction(player, (direction){.opposite = player->count});
    }
}

static status prepare(ana_scheme_run *run, arena *memory, error_message *err)
{
    const size_t nodes = (size_t)run->graph->node_count;
    row_player *player = arena_array(memory, 1, sizeof *player);
    list_directions(run->graph, player);
    const size_t columns = (size_t)player->columns;
    const size_t places = (size_t)player->rows * (columns + 2);
    const struct {
        double **array;
        size_t length;
    } wanted[] = {{&player->load, places},
                  {&player->next, places},
                  {&player->role, nodes + ANA_NIBBLE_BITS},
                  {&player->open, places},
                  {&player->choice, places},
                  {&player->gap, columns},
                  {&player->second, columns},
                  {&player->widest, columns},
                  {&player->turned, 2 * FOUR * columns}};
    for (size_t index = 0; index < sizeof wanted / sizeof wanted[0]; index++) {
        *wanted[index].array = arena_array(memory, wanted[index].length, sizeof(double));
        if (*wanted[index].array == NULL) {
            return error_set(err, STATUS_NO_MEMORY, "out of memory");
        }
    }
    player->is_wide = ana_is_wide();
    ana_role_table_init(&player->roles);
    run->state = player;
    return ana_graph_link(run->graph, memory, &player->links, err);
}

static void begin(ana_scheme_run *run)
{
    const row_player *player = run->state;
    const size_t bytes = (size_t)player->columns * sizeof *run->load;
    for (int row = 0; row < player->rows; row++) {
        memcpy(player->load + begin_of(player, row), run->load + (ptrdiff_t)row * player->columns,
               bytes);
        set_ends(player, row, player->load);
    }
}

static int partner_on(int length, const direction *towards, int position)
{
    return ((position ^ towards->flip) + towards->step + length) % length;
}

static int partner_of(const row_player *player, const direction *towards, int node)
{
    const int row = node / player->columns;
    const int column = node % player->columns;
    if (towards->is_between_rows) {
        return partner_on(player->rows, towards, row) * player->columns + column;
    }
    return row * player->columns + partner_on(player->columns, towards, column);
}

/// What the partners of a row's nodes have. [columns], in turned or where it stands
ANA_INLINE const double *partners(const row_player *player, const direction *towards, int row,
                                  const double *array, double *turned)
{
    if (towards->is_between_rows) {
        return array + begin_of(player, partner_on(player->rows, towards, row));
    }
    const double *stands = array + begin_of(player, row);
    if (towards->flip == 0) return stands + towards->step;
    for (int column = 0; column < player->columns; column++) {
        turned[column] = stands[column ^ towards->flip];
    }
    return turned;
}

/// What four partners have, and their choices or whether they are open.
typedef struct four_partners {
    const double *load[FOUR];
    const double *mark[FOUR];
} four_partners;

ANA_INLINE four_partners find_partners(const row_player *player, int first, int row,
                                       const double *mark)
{
    four_partners found;
    for (int index = 0; index < FOUR; index++) {
        const direction *towards = &player->directions[first + index];
        double *turned = player->turned + (ptrdiff_t)(2 * index) * player->columns;
        found.load[index] = partners(player, towards, row, player->load, turned);
        found.mark[index] = partners(player, towards, row, mark, turned + player->columns);
    }
    return found;
}

/// The widest gap of a node so far.
typedef struct widest {
    double gap;
    double second;
    double choice;
} widest;

ANA_INLINE widest consider(widest so_far, double gap, double choice)
{
    const double lower = gap < so_far.gap ? gap : so_far.gap;
    so_far.second = lower > so_far.second ? lower : so_far.second;
    so_far.choice = gap > so_far.gap ? choice : so_far.choice;
    so_far.gap = gap > so_far.gap ? gap : so_far.gap;
    return so_far;
}

/// Of four directions more, the widest gap to those that are open.
ANA_INLINE void widen_to_open(const row_player *player, const four_partners *four, int first,
                              const double *restrict load, double *restrict gap,
                              double *restrict second, double *restrict choice)
{
    for (int node = 0; node < player->columns; node++) {
        widest found = {gap[node], second[node], choice[node]};
        for (int index = 0; index < FOUR; index++) {
            const double here = fabs(four->load[index][node] - load[node]);
            found = consider(found, here * four->mark[index][node], 1 + first + index);
        }
        gap[node] = found.gap;
        second[node] = found.second;
        choice[node] = found.choice;
    }
}

/// Of four directions more, the widest gap to those whose choice is the way back.
ANA_INLINE void widen_to_proposals(const row_player *player, const four_partners *four, int first,
                                   const double *restrict load, double *restrict gap,
                                   double *restrict second, double *restrict choice)
{
    double back[FOUR];
    for (int index = 0; index < FOUR; index++) {
        back[index] = 1 + player->directions[first + index].opposite;
    }
    for (int node = 0; node < player->columns; node++) {
        widest found = {gap[node], second[node], choice[node]};
        for (int index = 0; index < FOUR; index++) {
            const double here = fabs(four->load[index][node] - load[node]);
            const double offer = four->mark[index][node] == back[index] ? here : 0;
            found = consider(found, offer, 1 + first + index);
        }
        gap[node] = found.gap;
        second[node] = found.second;
        choice[node] = found.choice;
    }
}

static void clear_widest(const row_player *player)
{
    const size_t bytes = (size_t)player->columns * sizeof(double);
    memset(player->gap, 0, bytes);
    memset(player->second, 0, bytes);
    memset(player->widest, 0, bytes);
}

static double choice_of(const row_player *player, int node, int partner)
{
    for (int index = 0; index < player->count; index++) {
        if (partner_of(player, &player->directions[index], node) == partner) return 1 + index;
    }
    assert(false);
    return 0;
}

static int compare(const row_player *player, int node, int a, int b)
{
    return ana_scheme_compare(player->load, (int)place_of(player, node), (int)place_of(player, a),
                              (int)place_of(player, b));
}

/// Of several that are equally far: the preferred ones, and of these the one that the lot picks.
static double propose_by_lot(const ana_scheme_run *run, const row_player *player, int node)
{
    int tied[DIRECTIONS_MAX];
    int count = 0;
    const int end = player->links.first[node + 1];
    for (int link = player->links.first[node]; link < end; link++) {
        const int other = player->links.neighbour[link];
        if (player->open[place_of(player, other)] == 0) continue;
        const int order = count == 0 ? 1 : compare(player, node, other, tied[0]);
        if (order > 0) count = 0;
        if (order >= 0) tied[count++] = other;
    }
    const uint64_t lot = ana_coins_lot(&run->coins, run->round, node);
    return choice_of(player, node, tied[ana_coins_pick(lot, count)]);
}

static bool has_proposed(const row_player *player, int sender, int receiver)
{
    const int choice = (int)player->choice[place_of(player, sender)];
    if (choice == 0) return false;
    const direction *towards = &player->directions[choice - 1];
    return partner_of(player, towards, sender) == receiver;
}

/// Of several proposals that are equally far: the preferred ones, and of these the smallest lot.
static double accept_by_lot(const ana_scheme_run *run, const row_player *player, int node)
{
    int accepted = -1;
    uint64_t accepted_lot = 0;
    const int end = player->links.first[node + 1];
    for (int link = player->links.first[node]; link < end; link++) {
        const int other = player->links.neighbour[link];
        if (!has_proposed(player, other, node)) continue;
        const uint64_t lot = ana_coins_lot(&run->coins, run->round, other);
        const int order = accepted < 0 ? 1 : compare(player, node, other, accepted);
        if (order < 0 || (order == 0 && lot > accepted_lot)) continue;
        accepted = other;
        accepted_lot = lot;
    }
    return choice_of(player, node, accepted);
}

/// The choices of a row's nodes of one role, those of the others stay.
/// @param has_role [columns] 1: of that role
/// @return how many of them have two equally wide gaps
ANA_INLINE int keep_choices(int columns, const double *restrict gap, const double *restrict second,
                            const double *restrict widest_choice, const double *restrict role,
                            double wanted, double *restrict choice)
{
    int tied_count = 0;
    for (int node = 0; node < columns; node++) {
        choice[node] = role[node] == wanted ? widest_choice[node] : choice[node];
        tied_count += (role[node] == wanted) & (gap[node] > 0) & (gap[node] == second[node]);
    }
    return tied_count;
}

/// Ties are rare once loads differ: they are looked for where there are some.
static void break_ties(const ana_scheme_run *run, row_player *player, int row, double role,
                       double (*by_lot)(const ana_scheme_run *run, const row_player *player,
                                        int node))
{
    const int first = row * player->columns;
    for (int column = 0; column < player->columns; column++) {
        const int node = first + column;
        if (player->role[node] != role || player->gap[column] == 0) continue;
        if (player->gap[column] != player->second[column]) continue;
        player->choice[begin_of(player, row) + column] = by_lot(run, player, node);
    }
}

/// The proposals of a row's senders.
ANA_INLINE void propose(const ana_scheme_run *run, row_player *player, int row)
{
    const ptrdiff_t at = begin_of(player, row);
    const double *role = player->role + (ptrdiff_t)row * player->columns;
    clear_widest(player);
    for (int first = 0; first < player->count; first += FOUR) {
        const four_partners four = find_partners(player, first, row, player->open);
        widen_to_open(player, &four, first, player->load + at, player->gap, player->second,
                      player->widest);
    }
    const int tied_count = keep_choices(player->columns, player->gap, player->second,
                                        player->widest, role, 1, player->choice + at);
    if (tied_count > 0) break_ties(run, player, row, 1, propose_by_lot);
    set_ends(player, row, player->choice);
}

/// Under P senders propose to senders, too: in vain.
static void drop_vain_proposals(row_player *player)
{
    for (int node = 0; node < player->rows * player->columns; node++) {
        double *choice = &player->choice[place_of(player, node)];
        if (*choice == 0) continue;
        const direction *towards = &player->directions[(int)*choice - 1];
        if (player->role[partner_of(player, towards, node)] == 1) *choice = 0;
    }
    for (int row = 0; row < player->rows; row++) {
        set_ends(player, row, player->choice);
    }
}

/// What a row's receivers accept. Rows take turns in place: a receiver's choice is the way back of
/// nobody's but of a sender. @return sum of the gaps
ANA_INLINE double accept(const ana_scheme_run *run, row_player *player, int row)
{
    const ptrdiff_t at = begin_of(player, row);
    const double *role = player->role + (ptrdiff_t)row * player->columns;
    const int columns = player->columns;
    clear_widest(player);
    for (int first = 0; first < player->count; first += FOUR) {
        const four_partners four = find_partners(player, first, row, player->choice);
        widen_to_proposals(player, &four, first, player->load + at, player->gap, player->second,
                           player->widest);
    }
    const int tied_count = keep_choices(columns, player->gap, player->second, player->widest, role,
                                        0, player->choice + at);
    if (tied_count > 0) break_ties(run, player, row, 0, accept_by_lot);
    set_ends(player, row, player->choice);
    for (int column = 0; column < columns; column++) {
        player->gap[column] *= 1 - role[column];
    }
    return ana_sum_in_lanes(player->gap, columns);
}

/// Two average if they have chosen each other; (x + x) / 2 is x to the last bit.
ANA_INLINE void average(const row_player *player, int row, double *restrict with)
{
    const ptrdiff_t at = begin_of(player, row);
    const double *load = player->load + at;
    const double *choice = player->choice + at;
    memcpy(with, load, (size_t)player->columns * sizeof *with);
    for (int first = 0; first < player->count; first += FOUR) {
        const four_partners four = find_partners(player, first, row, player->choice);
        double back[FOUR];
        for (int index = 0; index < FOUR; index++) {
            back[index] = 1 + player->directions[first + index].opposite;
        }
        for (int node = 0; node < player->columns; node++) {
            double other = with[node];
            for (int index = 0; index < FOUR; index++) {
                const bool is_mutual =
                    (choice[node] == 1 + first + index) & (four.mark[index][node] == back[index]);
                other = is_mutual ? four.load[index][node] : other;
            }
            with[node] = other;
        }
    }
    for (int node = 0; node < player->columns; node++) {
        with[node] = (load[node] + with[node]) * 0.5;
    }
}

/// One round. @return sum of the gaps of the pairs
ANA_INLINE double pass(const ana_scheme_run *run, row_player *player)
{
    double gaps = 0;
    for (int row = 0; row < player->rows; row++) {
        propose(run, player, row);
    }
    if (run->options.variant == ANA_VARIANT_P) drop_vain_proposals(player);
    for (int row = 0; row < player->rows; row++) {
        gaps += accept(run, player, row);
    }
    for (int row = 0; row < player->rows; row++) {
        average(player, row, player->next + begin_of(player, row));
        set_ends(player, row, player->next);
    }
    return gaps;
}

ANA_WIDE static double pass_wide(const ana_scheme_run *run, row_player *player)
{
    return pass(run, player);
}

static double pass_plain(const ana_scheme_run *run, row_player *player)
{
    return pass(run, player);
}

/// Under P a sender sees senders, too, and proposes to them in vain.
static void throw_coins(const ana_scheme_run *run, row_player *player)
{
    const double closed = run->options.variant == ANA_VARIANT_P ? 0 : 1;
    ana_throw_roles(&player->roles, &run->coins, run->round, run->graph->node_count, player->role);
    for (int row = 0; row < player->rows; row++) {
        const double *restrict role = player->role + (ptrdiff_t)row * player->columns;
        double *restrict open = player->open + begin_of(player, row);
        for (int column = 0; column < player->columns; column++) {
            open[column] = 1 - closed * role[column];
        }
        set_ends(player, row, player->open);
    }
    memset(player->choice, 0,
           (size_t)player->rows * (size_t)(player->columns + 2) * sizeof *player->choice);
}

static double play(ana_scheme_run *run)
{
    row_player *player = run->state;
    throw_coins(run, player);
    const double gaps = player->is_wide ? pass_wide(run, player) : pass_plain(run, player);
    double *const full = player->next;
    player->next = player->load;
    player->load = full;
    return gaps;
}

/// Rows without their ends.
static void copy_rows(const row_player *player, const double *array, double *out)
{
    for (int row = 0; row < player->rows; row++) {
        memcpy(out + (ptrdiff_t)row * player->columns, array + begin_of(player, row),
               (size_t)player->columns * sizeof *out);
    }
}

static void settle(ana_scheme_run *run)
{
    const row_player *player = run->state;
    copy_rows(player, player->load, run->load);
}

static void recall(const ana_scheme_run *run, double *before)
{
    const row_player *player = run->state;
    copy_rows(player, player->next, before);
}

const ana_max_neighbor_player ana_max_neighbor_rows = {
    .prepare = prepare, .begin = begin, .play = play, .settle = settle, .recall = recall};

/// Re-packing: how many ranks a pipeline is worth, and what becomes of those that it releases.
///
/// The model: a pipeline of P' places holds the same layers as one of P, with the memory that its
/// stages then need; fewer stages hold more layers each, and keep activations of fewer microbatches
/// where the schedule says so. Its iteration lasts what the evaluator says for the balancer's plan.
#pragma once

#include "balance/costs/machine.h"
#include "balance/costs/placement.h"
#include "balance/partition/balancer.h"
#include "balance/problem.h"
#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum bal_repack_kind {
    BAL_REPACK_NONE,        ///< never
    BAL_REPACK_THROUGHPUT,  ///< the fewest ranks that keep the iteration within a tolerance
    BAL_REPACK_GPU_TIME,    ///< the least ranks x time within that tolerance
    BAL_REPACK_PUBLISHED,   ///< as many as Algorithm 4 of the DynMo paper leaves active
    BAL_REPACK_CODED,       ///< as DynMo's released code does it
    BAL_REPACK_FIRST_FIT,   ///< whole ranks into the first one with room
    BAL_REPACK_BEST_FIT,    ///< whole ranks into the one with the least room that does
    BAL_REPACK_ROUND_ROBIN, ///< whole ranks into the others in turn
    BAL_REPACK_HALVING, ///< PipeTransformer: half as many while the memory of the start suffices
    BAL_REPACK_COUNT
} bal_repack_kind;

/// "none", "throughput", "gpu-time", "published", "coded", "first-fit", "best-fit", "round-robin",
/// "halving".
extern const char *const bal_repack_names[BAL_REPACK_COUNT];

/// What released ranks are for.
typedef enum bal_released_use {
    BAL_RELEASED_RELEASE,   ///< they go back to the scheduler
    BAL_RELEASED_REPLICATE, ///< they make further replicas; the global batch is held
    BAL_RELEASED_LEND,      ///< others use them until load returns
    BAL_RELEASED_COUNT
} bal_released_use;

/// "release", "replicate", "lend".
extern const char *const bal_released_names[BAL_RELEASED_COUNT];

typedef struct bal_repack_options {
    bal_repack_kind kind;
    double tolerance_ratio; // >= 0: iterations may last (1 + this) times those of all ranks
    double grow_ratio;  // >= 0: ranks are only taken back if the present ones miss the tolerance
                        // by more than this share of the iteration of all ranks
    int rank_count_min; // 0: 1
    int rank_unit; // ranks are released in groups of this many consecutive ones; ranks_per_node
                   // for whole nodes; 0: 1
    int target_rank_count;       // where the historical kinds stop; 0: 1
    double load_threshold_ratio; // historical ones: act only while the time of all layers is below
                                 // this share of the start's; the paper's tau
    bal_released_use use;
} bal_repack_options;

/// none; tolerance 0.05, grow 0.05, at least 1 rank in units of 1, target 1, threshold 1, release.
bal_repack_options bal_repack_options_default(void);

/// @param machine tells which units and targets there can be
/// @return STATUS_INVALID naming the option, its value and its limits.
status bal_repack_options_check(const bal_repack_options *options, const bal_machine *machine,
                                error_message *err);

/// rank_unit, at least 1.
int bal_repack_unit(const bal_repack_options *options);

/// What re-packing looks at.
typedef struct bal_repack_question {
    const bal_problem *problem; // layers, weight, objective, chunk_count, placement, allow_empty,
                                // microbatch_count, transfer_ns, evaluator; everything per stage is
                                // made anew for each number of ranks
    const bal_machine *machine; // rank_count is P; rank_memory_bytes is the cap of every rank
    const char *schedule;       // tells how many microbatches a stage holds
    const bal_balancer *balancer; // makes the plan for each number of ranks; not one that owns
                                  // freely
    const bal_placed_partition *before; // in force
    int replica_count;                  // D, for further replicas; 0: 1
    int64_t start_load_ns;              // time of all layers at the start, for load_threshold_ratio
    int64_t start_rank_state_bytes; // halving: of the rank that held most at the start; 0: the cap
} bal_repack_question;

/// Arrays are carved from the arena of the call.
typedef struct bal_repack_choice {
    int rank_count;
    int64_t iteration_ns; // predicted, of the choice
    int64_t reference_ns; // of all ranks of the machine
    bal_problem problem;  // as the balancer was asked for the choice: for bal_migration_plan
    bal_answer answer;    // its answer
} bal_repack_choice;

/// Chooses how many ranks to go on with, and how the layers are then cut. Which ranks those are is
/// bal_migration_plan's matter.
///
/// `throughput` takes the smallest number P' of ranks with T(P') <= (1 + tolerance) T(P), P all
/// ranks of the machine; `gpu-time` the one with the smallest P' T(P') among these. Numbers whose
/// lower bound, M times the smallest bottleneck, is already too large are not played. More ranks
/// than now are only taken if the present number misses (1 + tolerance + grow_ratio) T(P).
/// If no plan of all ranks fits the memory, the smallest number that has one is the reference.
///
/// A number of ranks that the schedule has no order for, with the microbatches, is not chosen.
///
/// Where released ranks replicate and there are replicas already, both choose the number with the
/// shortest iteration, the D P ranks making as many replicas as they can and sharing the global
/// batch (bal_batch_share_of); the number in force stays if it misses that by no more than the
/// tolerance. Costs then count as means over the microbatches, and reductions grow by the share of
/// the bytes that a ring of more replicas sends; its latency is not counted. A lone replica goes by
/// the tolerance: what reducing its gradients would take is not known.
///
/// The historical kinds choose the number alone, by bal_repack_merge, while the time of all
/// layers is below load_threshold_ratio; the plan is the balancer's, in order: theirs would compute
/// another network. If so few ranks have no plan, the next number that has one is taken.
///
/// The balancer has stages, and the plan in force whole units (asserted).
///
/// @return STATUS_INVALID for options as above or a problem without evaluator; STATUS_INFEASIBLE if
///         no number of ranks allowed has a plan; what balancer and evaluator return. choice is
///         then untouched.
///
/// Time: one bisection per number of ranks, and the balancer and the evaluator for those that the
/// bounds leave.
status bal_repack_choose(const bal_repack_question *question, const bal_repack_options *options,
                         arena *memory, bal_repack_choice *choice, error_message *err);

/// What reducing gradients takes among another number of replicas: each sends (R - 1) / R of the
/// bytes to its neighbour, twice. Its latency and the links that it crosses are taken to be the
/// same. Rounded up; saturates at INT64_MAX / 4. Of one replica nothing is known: ns as it is.
///
/// @param ns           >= 0, among from_replicas >= 1
/// @param to_replicas  >= 1
int64_t bal_repack_reduction_ns(int64_t ns, int from_replicas, int to_replicas);

/// Where the GPUs of a run are: replica r's rank p is GPUs (r P + p) G to (r P + p + 1) G - 1,
/// nodes are consecutive GPUs.
typedef struct bal_gpu_layout {
    int rank_count;    // P of one replica, none released
    int replica_count; // D
    int gpus_per_rank; // G: tensor, context parallel; 1
    int gpus_per_node;
} bal_gpu_layout;

typedef struct bal_gpu_account {
    int64_t gpu_count;
    int64_t idle_gpu_count; // of released ranks, all replicas
    int64_t released_rank_count;
    int64_t released_node_count; // nodes all of whose GPUs are idle: what a scheduler can take back
} bal_gpu_account;

/// Counts what is idle while every replica uses only some of its ranks.
///
/// @param machine_rank [active_count] the ranks in use, all different; NULL: the first ones
///
/// A last node that is not full counts as a node. Time O(D P + nodes).
void bal_gpu_account_of(const bal_gpu_layout *layout, const int *machine_rank, int active_count,
                        arena *memory, bal_gpu_account *account);

/// How replicas that keep fewer ranks each, and those that the released ranks make, share the
/// global batch.
typedef struct bal_batch_share {
    int replica_count;   // as many as there are ranks and microbatches for
    int played_count;    // microbatches of the replica with the most
    int idle_rank_count; // left over: too few for one more replica
} bal_batch_share;

/// @param rank_count       P of each of the replica_count replicas, before it released any
/// @param kept_rank_count  P' in [1, P]
/// @param microbatch_count M of each of them
bal_batch_share bal_batch_share_of(int rank_count, int kept_rank_count, int replica_count,
                                   int microbatch_count);

/// Merges ranks as others do, faithfully and with their faults: by memory alone, looking neither at
/// load nor at the order of layers. What comes out is accounted, not executed: a pipeline with its
/// layers in another order, or twice, computes another network.
///
/// `published` is Algorithm 4 as printed: for every src and every dst after it, if both together
/// are below the cap and more than target ranks are active, src is released and all its layers go
/// to dst. Nothing is subtracted from src and the loop goes on: it sends the same layers again.
///
/// `coded` is DynMo's release, which empties src; but it too goes on, refuses exact fits (as
/// printed), and drops all transfers unless the target is met exactly. Layers arrive after those of
/// dst, which follow them in the model: any merge breaks the order.
///
/// `first-fit`, `best-fit`, `round-robin`: the classical rules for bins, with whole active ranks as
/// items in order of their number. A rank is kept unless one of the ranks kept so far has room
/// (both together at most the cap): the first, the one with the least room, or the next in turn
/// after the last receiver. Beyond the target nothing is merged.
///
/// @param memory_bytes [rank_count] in: what each rank holds; out: as the algorithm counts it
/// @param is_active    [rank_count] out
/// @return how many are active. Time O(rank_count^2).
/// Source: DynMo (SC'25), Algorithm 4; github.com/wahibium/DynMo at 7faf19e,
/// megatron/balancer/pack.py.
int bal_repack_merge(bal_repack_kind kind, int rank_count, int64_t cap_bytes, int target_rank_count,
                     int64_t *memory_bytes, bool *is_active);

/// PipeTransformer: half as many ranks, again and again, while the largest rank of a balanced split
/// holds no more than the largest one did at the start.
///
/// The original weighs parameters of layers that still train, and splits greedily; here it is the
/// state of all layers, which is less where they are frozen, split exactly.
///
/// @param state_bytes          [layer_count]
/// @param rank_count           in force
/// @param start_rank_bytes_max of the largest rank at the start
/// @param kept_rank_count      out
/// @return what bal_chain_of refuses
/// Source: He et al., ICML 2021, section 3.3; github.com/Distributed-AI/PipeTransformer,
/// pipe/auto_pipe.py.
status bal_repack_halving(const int64_t *state_bytes, int layer_count, int rank_count,
                          int64_t start_rank_bytes_max, arena *memory, int *kept_rank_count,
                          error_message *err);

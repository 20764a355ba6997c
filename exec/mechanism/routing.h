/// Mixture of experts, decided on the host: which tokens meet which experts, with what weight, and
/// how the router learns from it.
///
/// No expert has a capacity and no token is dropped, so experts have as many tokens as the router
/// gives them. Everything is in a fixed order: the entries (token, expert) of a token by ascending
/// expert, those of an expert by ascending token.
/// Source: top-k of a softmax with the weights of the chosen brought to sum 1 as in Mixtral (Jiang
/// et al., arXiv 2401.04088, section 2.1); the balance loss of Switch Transformers (Fedus et al.,
/// JMLR 23 (2022), equations 4 to 6), with shares of entries where a token meets several experts.
#pragma once

#include "base/arena.h"
#include "base/status.h"

/// How the MLP of a block is divided.
typedef struct exec_moe_options {
    int expert_count; // >= 1
    int top_k;        // experts that a token meets, 1 to expert_count
    int expert_width; // of the MLP of one expert; 0: hidden_width / top_k, which costs a token as
                      // much as the dense MLP
    double balance;   // coefficient of the balance loss, >= 0; 0 leaves the router alone
    int sinkhorn_rounds; // of S-BASE, see exec_routing; 0: token choice
    int expert_parallel; // ranks that share the experts of a block, of as many replicas; divides
                         // expert_count; 0: 1. Device cpu only
} exec_moe_options;

enum {
    EXEC_EXPERT_COUNT_MAX = 256,
    EXEC_EXPERT_WIDTH_MAX = 1 << 16,
    EXEC_SINKHORN_ROUNDS_MAX = 1000
};

/// 8 experts, 2 of them for each token, balance 0.01.
exec_moe_options exec_moe_options_default(void);

/// The width that expert_width stands for.
int exec_moe_expert_width(const exec_moe_options *options, int hidden_width);

/// STATUS_INVALID naming parameter, value and limits; also if hidden_width is not a multiple of
/// top_k where expert_width is 0.
status exec_moe_options_check(const exec_moe_options *options, int hidden_width,
                              error_message *err);

/// Who meets whom in one microbatch. Arrays are carved by exec_routing_carve.
typedef struct exec_routing {
    int expert_count;
    int sinkhorn_rounds; // the caller's; 0 as carved. Before experts are chosen each gets an offset
                         // that brings its share of the softmax to the mean, so often: what is
                         // left uneven is the residual imbalance
    int row_count;
    int entry_count;    // first_entry[row_count]
    float *probability; // [row_count][expert_count] softmax of the logits
    int *first_entry; // [row_count + 1] the entries of row r: [first_entry[r], first_entry[r + 1])
    int *expert;      // [entry_count] of an entry
    float *weight;    // [entry_count] of an entry
    int *place;       // [entry_count] where an entry stands once sorted by expert
    int *first_place; // [expert_count + 1] expert e has places [first_place[e], first_place[e + 1])
    int *row;         // [entry_count] of the entry at a place
    float *place_weight; // [entry_count] of the entry at a place
} exec_routing;

/// Carves the arrays for at most row_max rows and entry_max entries.
///
exec_routing exec_routing_carve(arena *memory, int expert_count, int row_max, int entry_max);

/// Routes row_count rows: each to the top_k experts of largest logit, ties to the lower number; its
/// weights are the softmax over these. Fills everything, places too. O(rows * experts * (top_k +
/// sinkhorn_rounds)).
/// Source of the rounds: S-BASE, Clark et al., Unified Scaling Laws for Routed Language Models
/// (arXiv 2202.01169), section 3.1.
///
/// @param logits [row_count][expert_count] of the router
void exec_route(exec_routing *routing, const float *logits, int row_count, int top_k);

/// Fills places from row_count, first_entry, expert and weight, where somebody else chose them: a
/// stable counting sort by expert. A row may have any number of entries.
void exec_routing_sort(exec_routing *routing);

/// Tokens of an expert.
int exec_routing_count(const exec_routing *routing, int expert);

/// The balance loss with coefficient 1: 1 where shares and probabilities are even, up to
/// expert_count where all go to one.
double exec_routing_balance(const exec_routing *routing);

/// Gradient of the logits. The choice is held fixed: the shares in the balance loss too.
///
/// @param weight_gradient [entry_count] by place: dot product of the gradient of the token's output
///                        with what the expert gave it
/// @param balance         coefficient of the balance loss, times whatever the loss is multiplied by
/// @param logits_gradient [row_count][expert_count] out
void exec_routing_gradient(const exec_routing *routing, const float *weight_gradient,
                           double balance, float *logits_gradient);

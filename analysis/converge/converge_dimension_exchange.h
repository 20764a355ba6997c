/// The exchange parameter of dimension exchange.
#pragma once

#include "analysis/converge/converge_scheme.h"

/// The share of a difference that flows between partners. @return NaN if not known
/// Source: Xu and Lau, J. Parallel Distrib. Comput. 16 (1992) and 24 (1995): chains
/// 1 / (1 + sin(pi / n)), even rings and tori 1 / (1 + sin(2 pi / n)), n the longer side;
/// hypercubes 1/2.
double ana_exchange_parameter(const ana_graph *graph, ana_exchange exchange);

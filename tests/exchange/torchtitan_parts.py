"""Has torchtitan split a model by the settings that `dynmo export torchtitan` wrote.

Usage: torchtitan_parts.py SETTINGS.py PLAN.json [SETTINGS.py PLAN.json]...

torchtitan's own splitter makes the parts of a model with modules of the default names, and its own
rule says which rank has which stages: every module must be in the part of its stage, once.
Exits 77 where torchtitan is missing.
"""

import dataclasses
import importlib.metadata
import json
import sys

try:
    import torch
    from torchtitan.config import ParallelismConfig
    from torchtitan.distributed.activation_checkpoint import FullAC, SelectiveAC
    from torchtitan.distributed.pipeline_parallel import (
        _get_pp_rank_to_stage_indices_mapping,
        _split_module,
    )
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)


class Model(torch.nn.Module):
    def __init__(self, blocks):
        super().__init__()
        self.tok_embeddings = torch.nn.Embedding(8, 4)
        self.layers = torch.nn.ModuleDict({str(b): torch.nn.Linear(4, 4) for b in range(blocks)})
        self.norm = torch.nn.LayerNorm(4)
        self.lm_head = torch.nn.Linear(4, 8)


def modules_in(part):
    found = [f"layers.{name}" for name in part.layers]
    for name in ("tok_embeddings", "norm", "lm_head"):
        if getattr(part, name) is not None:
            found.append(name)
    return sorted(found)


def wanted_modules(plan):
    """The modules of every stage in model order, from the plan alone."""
    cuts = plan["first_layer"]
    first = 1 if plan["embedding"] else 0
    end = cuts[-1] - (1 if plan["head"] else 0)
    parts = [
        [f"layers.{layer - first}" for layer in range(max(begin, first), min(stop, end))]
        for begin, stop in zip(cuts, cuts[1:])
    ]
    parts[0].append("tok_embeddings")
    parts[-1] += ["norm", "lm_head"]
    return [sorted(part) for part in parts], end - first


def stages_of(plan, rank):
    ranks = len(plan["stage_ranks"])
    if plan["placement"] == "v":
        return (rank, 2 * ranks - 1 - rank)
    return tuple(rank + chunk * ranks for chunk in range(plan["chunks"]))


def check(settings_path, plan_path):
    settings = {}
    with open(settings_path, encoding="utf-8") as text:
        exec(compile(text.read(), settings_path, "exec"), settings)
    with open(plan_path, encoding="utf-8") as text:
        wanted_plan = json.load(text)
    taken = dataclasses.replace(ParallelismConfig(), **settings["parallelism"])
    wanted, block_count = wanted_modules(wanted_plan)
    names = taken.module_fqns_per_model_part
    assert len(names) == len(wanted), names
    whole = Model(block_count)
    for stage, module_names in enumerate(names):
        held = modules_in(_split_module(whole, module_names))
        assert held == wanted[stage], (stage, held, wanted[stage])
    for rank in range(taken.pipeline_parallel_degree):
        held = _get_pp_rank_to_stage_indices_mapping(
            rank, taken.pipeline_parallel_degree, taken.pipeline_parallel_schedule, len(names)
        )
        assert held == stages_of(wanted_plan, rank), (rank, held)
    print(f"{len(names)} parts as planned, on {taken.pipeline_parallel_degree} ranks")


for recomputation in (FullAC, SelectiveAC):  # by these names points of studies are exported
    recomputation.Config()
for each_settings, each_plan in zip(sys.argv[1::2], sys.argv[2::2]):
    check(each_settings, each_plan)
print(f"torchtitan {importlib.metadata.version('torchtitan')}, torch {torch.__version__}")

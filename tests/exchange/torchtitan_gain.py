"""Has torchtitan split and train by the settings that `dynmo export torchtitan` wrote, beside the
even split (gain.py). torchtitan's own splitter makes the stages, its own builder the schedule.

Usage: DYNMO=... torchtitan_gain.py. Exits 77 where torchtitan is missing.
"""

import dataclasses
import sys

import gain
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.tok_embeddings = torch.nn.Embedding(8, gain.WIDTH)
        self.layers = torch.nn.ModuleDict(
            {str(layer): gain.Layer(layer) for layer in range(len(gain.UNITS))})
        self.norm = torch.nn.Identity()
        self.lm_head = torch.nn.Linear(gain.WIDTH, 8)

    def forward(self, values):
        for module in (self.tok_embeddings, *self.layers.values(), self.norm, self.lm_head):
            values = values if module is None else module(values)
        return values


def build(names):
    from torchtitan.config import ParallelismConfig
    from torchtitan.distributed import pipeline_parallel

    settings = dataclasses.replace(ParallelismConfig(), **names["parallelism"])
    mesh = torch.distributed.init_device_mesh("cpu", (gain.RANKS,), mesh_dim_names=("pp",))
    stages, (part,) = pipeline_parallel._pipeline_module_split(
        Model(), mesh, settings.pipeline_parallel_schedule, torch.device("cpu"),
        settings.module_fqns_per_model_part)
    size = gain.MICROBATCHES * settings.pipeline_parallel_microbatch_size
    schedule = pipeline_parallel._build_pipeline_schedule(
        parallelism=settings, local_batch_size=size, stages=stages,
        loss_fn=lambda found, wanted: (
            torch.nn.functional.cross_entropy(found.flatten(0, -2), wanted.flatten()), None))
    tokens = torch.randint(8, (size, 3))
    inputs = [tokens] if stages[0].is_first else []
    targets = {"target": tokens} if stages[0].is_last else {}
    layers = [*part.layers.values()]
    if stages[0].is_first:
        return [part.tok_embeddings, *layers], 0, lambda: schedule.step(*inputs, **targets)
    first_layer = 1 + len(gain.UNITS) - len(layers)
    return [*layers, part.lm_head], first_layer, lambda: schedule.step(*inputs, **targets)


def start():
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")


if __name__ == "__main__":
    sys.exit(gain.main("torchtitan", __file__, start, build, has_ends=True))

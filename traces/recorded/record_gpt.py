"""Trains a small byte-level GPT on a two-rank pipeline, freezing layers, and records its costs.

    python record_gpt.py gpt-freezing-cpu.csv.gz
    python record_gpt.py small.csv --blocks 4 --iterations 5 --profile gpt-pipeline

The second also writes a Chrome trace of two iterations per rank, made by torch.profiler.

The model is cut into one layer per virtual stage (embedding, transformer layers, LM head) and runs
the interleaved zero-bubble schedule of torch.distributed.pipelining, so that F, B (torch calls it
I) and W are separate operations. Layers are frozen by their plasticity, see Freezing.
"""

import argparse
import gzip
import hashlib
import os
import sys
import sysconfig
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, ScheduleInterleavedZeroBubble

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "recorder"))
import dynmo_recorder  # noqa: E402

SOURCE = ("record_gpt.py: byte-level GPT whose layers freeze as it trains, "
          "torch.distributed.pipelining, interleaved zero bubble, CPU")
RANKS = 2
VOCABULARY = 256
TEXT_FILES = ("argparse.py", "ast.py", "asyncio/base_events.py", "datetime.py", "decimal.py",
              "doctest.py", "email/message.py", "inspect.py", "logging/__init__.py", "os.py",
              "pathlib.py", "pickle.py", "subprocess.py", "tarfile.py", "typing.py", "zipfile.py")


class Embedding(nn.Module):
    def __init__(self, hidden, sequence):
        super().__init__()
        self.token = nn.Embedding(VOCABULARY, hidden)
        self.position = nn.Parameter(torch.zeros(sequence, hidden))

    def forward(self, tokens):
        return self.token(tokens) + self.position


class Block(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.attention_norm, self.mlp_norm = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.qkv, self.project = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def forward(self, x):
        batch, sequence, hidden = x.shape
        split = self.qkv(self.attention_norm(x)).view(batch, sequence, 3, self.heads, -1)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.project(mixed.transpose(1, 2).reshape(batch, sequence, hidden))
        return x + self.down(nn.functional.gelu(self.up(self.mlp_norm(x))))


class Head(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.norm, self.project = nn.LayerNorm(hidden), nn.Linear(hidden, VOCABULARY)

    def forward(self, x):
        return self.project(self.norm(x))


class FreezableStage(PipelineStage):
    """A stage whose layer may be frozen, also together with every layer before it.

    torch's stage runs B and W of a frozen layer as well. Here a frozen layer runs no W, and a layer
    with nothing but frozen layers before it runs no B: its input needs no gradient. If such a layer
    is not frozen itself, its whole backward runs as its W, which is what torch does for stage 0.
    The schedule still sends a gradient (zeros) into the frozen prefix; nothing is computed from it.
    """

    frozen = False
    prefix_is_frozen = False  # every layer before this one is frozen

    def freeze(self):
        self.frozen = True
        for parameter in self.submod.parameters():
            parameter.requires_grad_(False)
            parameter.grad = None

    def _retrieve_recv_activations(self, fwd_chunk_id):
        activations = super()._retrieve_recv_activations(fwd_chunk_id)
        if self.prefix_is_frozen:
            activations = tuple(activation.detach() for activation in activations)
        return activations

    def backward_one_chunk(self, bwd_chunk_id, loss=None, full_backward=True, last_backward=False):
        if not (self.prefix_is_frozen or (self.is_first and self.frozen)):
            return super().backward_one_chunk(bwd_chunk_id, loss, full_backward, last_backward)
        state = self._forward_chunk_states.pop(bwd_chunk_id)
        self.bwd_cache[bwd_chunk_id] = (None,) * len(state.input_values)
        self.backward_state[bwd_chunk_id] = {
            "stage_output": loss if self.is_last else state.stage_output_for_backward(),
            "output_grads": None if self.is_last else self._retrieve_recv_grads(bwd_chunk_id),
            "input_values": state.input_values,
        }

    def backward_weight_one_chunk(self, bwd_chunk_id, last_backward=False):
        state = self.backward_state.get(bwd_chunk_id)
        if self.frozen:
            self.backward_state.pop(bwd_chunk_id)
            self.dw_runner.pop(bwd_chunk_id, None)
        elif isinstance(state, dict):
            self.backward_maybe_with_nosync("full", self.backward_state.pop(bwd_chunk_id),
                                            last_backward=last_backward)
        else:
            super().backward_weight_one_chunk(bwd_chunk_id, last_backward)


class Freezing:
    """Freezes layers whose plasticity has faded, front to back.

    The plasticity of a layer at a check is |w - w'| / |w|, w' being its weights at the previous
    check, smoothed. A layer is frozen when that has fallen below `ratio` times its own peak. Of the
    unfrozen layers only the foremost `window` are judged, at most one is frozen per check, and the
    last `keep` layers always train. All ranks see all numbers and so decide alike.
    """

    def __init__(self, layer_count, every, ratio, window, keep):
        self.layer_count, self.every, self.ratio = layer_count, every, ratio
        self.window, self.keep = window, keep
        self.previous, self.smoothed, self.peak, self.frozen = {}, {}, {}, set()

    def check(self, stages):
        """Returns the layer to freeze now, or None."""
        moved = {}
        for stage in stages:
            if stage.stage_index in self.frozen:
                continue
            weights = nn.utils.parameters_to_vector(stage.submod.parameters()).detach()
            if stage.stage_index in self.previous:
                change = (weights - self.previous[stage.stage_index]).norm() / weights.norm()
                moved[stage.stage_index] = change.item()
            self.previous[stage.stage_index] = weights
        gathered = [None] * dist.get_world_size()
        dist.all_gather_object(gathered, moved)
        for layer, change in sorted(item for part in gathered for item in part.items()):
            self.smoothed[layer] = (self.smoothed.get(layer, change) + change) / 2
            self.peak[layer] = max(self.peak.get(layer, 0), self.smoothed[layer])
        active = [layer for layer in range(self.layer_count - self.keep)
                  if layer not in self.frozen]
        for layer in active[:self.window]:
            if layer in self.peak and self.smoothed[layer] < self.ratio * self.peak[layer]:
                self.frozen.add(layer)
                return layer
        return None

    def apply(self, stages):
        for stage in stages:
            stage.prefix_is_frozen = stage.stage_index > 0 and all(
                layer in self.frozen for layer in range(stage.stage_index))
            if stage.stage_index in self.frozen and not stage.frozen:
                stage.freeze()


def learning_rate(iteration, options):
    """Warm-up, then inverse square root decay."""
    warmup = options.warmup
    step = iteration + 1
    return options.learning_rate * min(step / warmup, (warmup / step) ** 0.5)


def training_text():
    """Source text of Python's own standard library, as one tensor of bytes."""
    library = sysconfig.get_paths()["stdlib"]
    text = b"".join(open(os.path.join(library, name), "rb").read() for name in TEXT_FILES)
    if dist.get_rank() == 0:
        print(f"text of {len(text)} bytes, sha256 {hashlib.sha256(text).hexdigest()}", flush=True)
    return torch.frombuffer(bytearray(text), dtype=torch.uint8).long()


def batches(text, options):
    generator = torch.Generator().manual_seed(options.seed)
    rows = options.microbatches * options.batch
    while True:
        starts = torch.randint(len(text) - options.sequence - 1, (rows, 1), generator=generator)
        window = text[starts + torch.arange(options.sequence + 1)]
        yield window[:, :-1], window[:, 1:].contiguous()


def build_layer(layer, layer_count, options):
    torch.manual_seed(options.seed * 1000 + layer)
    if layer == 0:
        return Embedding(options.hidden, options.sequence)
    if layer == layer_count - 1:
        return Head(options.hidden)
    return Block(options.hidden, options.heads)


def cross_entropy(logits, targets):
    return nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def profiler(options, rank):
    if options.profile is None:
        return None
    wait = options.iterations - 3
    return torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU],
        schedule=torch.profiler.schedule(wait=wait - 1, warmup=1, active=2, repeat=1),
        on_trace_ready=lambda p: export(p, f"{options.profile}-rank{rank}.pt.trace.json"))


def export(profile, path):
    """Writes path.gz; compressed here, so that the file depends on its content alone."""
    profile.export_chrome_trace(path)
    with open(path, "rb") as plain, open(f"{path}.gz", "wb") as compressed:
        compressed.write(gzip.compress(plain.read(), 9, mtime=0))
    os.remove(path)


def run_rank(rank, options, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank,
                            world_size=RANKS)
    layer_count = options.blocks + 2
    stages = [FreezableStage(build_layer(layer, layer_count, options), layer, layer_count,
                             torch.device("cpu"))
              for layer in range(rank, layer_count, RANKS)]
    recorder = dynmo_recorder.Recorder(
        rank=rank, device="cpu", annotate=options.annotate, embedding=1, head=1,
        tokens_per_microbatch=options.batch * options.sequence, source=SOURCE)
    for stage in stages:
        recorder.attach_stage(stage)
    schedule = ScheduleInterleavedZeroBubble(stages, options.microbatches,
                                             loss_fn=recorder.loss(cross_entropy))
    optimizer = torch.optim.AdamW([p for stage in stages for p in stage.submod.parameters()])
    freezing = Freezing(layer_count, options.freeze_every, options.freeze_ratio,
                        options.freeze_window, options.keep)
    data = batches(training_text(), options)
    profile = profiler(options, rank)
    if profile is not None:
        profile.start()
    for iteration in range(options.iterations):
        tokens, targets = next(data)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(iteration, options)
        losses = []
        if rank == 0:
            schedule.step(tokens, return_outputs=False)
        else:
            schedule.step(target=targets, losses=losses, return_outputs=False)
        optimizer.step()
        optimizer.zero_grad()
        recorder.step()
        if profile is not None:
            profile.step()
        if losses and iteration % 10 == 0:
            print(f"iteration {iteration} loss {torch.stack(losses).mean():.3f}", flush=True)
        if (iteration + 1) % freezing.every == 0:
            layer = freezing.check(stages)
            if layer is not None and rank == 0:
                print(f"iteration {iteration + 1} freezes layer {layer}", flush=True)
            freezing.apply(stages)
        dist.barrier()
    if profile is not None:
        profile.stop()
    recorder.write(f"{folder}/rank{rank}.csv")
    dist.destroy_process_group()


def keep_freed_memory():
    """Makes the C library reuse freed memory, as GPU allocators do.

    By default glibc returns large blocks to the system, and getting them back costs thousands of
    page faults per iteration, charged to whichever layer runs next.
    """
    os.environ["MALLOC_MMAP_THRESHOLD_"] = str(32 << 20)
    os.environ["MALLOC_TRIM_THRESHOLD_"] = str(1 << 40)
    os.environ["MALLOC_TOP_PAD_"] = str(64 << 20)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trace", help="CSV file to write; .gz compresses")
    parser.add_argument("--profile", metavar="PREFIX", help="also write Chrome traces")
    parser.add_argument("--annotate", action="store_true", help="dynmo annotations in the profile")
    for name, default in (("blocks", 14), ("hidden", 192), ("heads", 4),
                          ("sequence", 128), ("batch", 4), ("microbatches", 4),
                          ("iterations", 240), ("warmup", 15), ("freeze-every", 10),
                          ("freeze-window", 2), ("keep", 3), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--freeze-ratio", type=float, default=0.4)
    options = parser.parse_args()
    if (options.blocks + 2) % RANKS != 0:
        parser.error(f"--blocks + 2 must be a multiple of {RANKS}")
    if options.profile is not None and options.iterations < 5:
        parser.error("--profile needs --iterations 5 or more")
    keep_freed_memory()
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(run_rank, (options, folder), RANKS)
        dynmo_recorder.merge([f"{folder}/rank{rank}.csv" for rank in range(RANKS)],
                             options.trace)


if __name__ == "__main__":
    main()

"""Records what every layer of a PyTorch training run costs, as a dynmo-trace/1 CSV file.

Put this one file next to the training script; it needs torch and nothing else. README.md shows how
to use it. A row is one phase of one layer for one microbatch. The phase says which gradients the
operation delivers: F none (forward), B that of the input, W those of the weights, BW both;
R is a forward that runs again inside the backward (activation checkpointing).
"""

import collections
import contextlib
import csv
import functools
import gzip
import io
import os
import threading
import time
import types

import torch
from torch.utils._pytree import tree_leaves

FORMAT = "# dynmo-trace/1"
PHASES = ("F", "B", "W", "BW", "R")
PEAK = "peak_"  # how metadata of one rank begins
COLUMNS = ("iteration", "microbatch", "layer", "phase", "rank", "start_ns", "span_ns", "busy_ns",
           "activation_bytes", "parameters", "message_bytes")


class _CpuClock:
    """Marks are taken on the host; busy time is the CPU time of the thread that ran the layer."""

    def mark(self):
        return time.perf_counter_ns(), time.thread_time_ns(), threading.get_ident()

    def measure(self, begin, end):
        """Returns (start_ns, span_ns, busy_ns)."""
        span_ns = end[0] - begin[0]
        return begin[0], span_ns, min(end[1] - begin[1], span_ns) if begin[2] == end[2] else span_ns


class _CudaClock:
    """Marks are events on the current stream; they are read after one synchronize per step."""

    def __init__(self):
        torch.cuda.synchronize()
        self.origin_ns, self.origin = time.perf_counter_ns(), self.mark()

    def mark(self):
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def measure(self, begin, end):
        """Returns (start_ns, span_ns, busy_ns); gaps between kernels count as busy."""
        span_ns = round(begin.elapsed_time(end) * 1e6)
        return self.origin_ns + round(self.origin.elapsed_time(begin) * 1e6), span_ns, span_ns


_probes = [0]  # stages that torch.distributed.pipelining is probing now


def _watch_probes():
    """Stages run once, forward and backward, to learn the shapes of messages: that is no training.

    The names are those of torch 2.15 and, the last, of versions before it.
    """
    if not torch.distributed.is_available():
        return
    from torch.distributed.pipelining import PipelineStage
    for name in ("_forward_metadata_inference", "_backward_metadata_inference",
                 "_shape_inference"):
        method = getattr(PipelineStage, name, None)
        if method is None or hasattr(method, "is_watched"):
            continue

        @functools.wraps(method)
        def watched(*args, _method=method, **kwargs):
            _probes[0] += 1
            try:
                return _method(*args, **kwargs)
            finally:
                _probes[0] -= 1

        watched.is_watched = True
        setattr(PipelineStage, name, watched)


def _needs_gradient(values):
    return any(isinstance(v, torch.Tensor) and v.requires_grad for v in tree_leaves(values))


def _backward_phase(module, input_needs_gradient):
    if not _needs_gradient(list(module.parameters())):
        return "B"
    return "BW" if input_needs_gradient else "W"


class Recorder:
    """Times the phases of the attached layers and keeps the rows in memory until write().

    rank         pipeline rank of this process
    device       "cpu" or "cuda": which clock measures
    every        record iterations 0, every, 2 * every, ...; on the others the hooks return at once
    annotate     also emit torch.profiler.record_function("dynmo it=.. mb=.. L=.. <phase>")
    activations  measure activation_bytes, on the first microbatch of each recorded iteration
    metadata     more lines for the header: tokens_per_microbatch, embedding=1, head=1, source, ...
    """

    def __init__(self, *, rank=0, device="cpu", every=1, annotate=False, activations=True,
                 **metadata):
        if device not in ("cpu", "cuda") or every < 1:
            raise ValueError(f"device {device!r} is not 'cpu' or 'cuda', or every {every} < 1")
        self.iteration, self.rows = 0, []
        self._rank, self._device, self._every = rank, device, every
        self._annotate, self._activations = annotate, activations
        self._metadata = {"device": device, "torch": torch.__version__, **metadata}
        self._modules, self._last = {}, None  # layer -> module; the layer that sends nothing
        self._peaks = {}  # metadata of this rank: torch's statistics of the device's memory
        self._begin_iteration()

    def _begin_iteration(self):
        self._is_recording = self.iteration % self._every == 0
        if self._is_recording:
            self._clock = _CpuClock() if self._device == "cpu" else _CudaClock()
            if self._device == "cuda":
                torch.cuda.reset_peak_memory_stats()
        self._open, self._done = [], []
        self._lingering = None  # a backward whose end torch does not report
        self._microbatch = None  # given by microbatch() or by the stage
        self._latest = None  # (microbatch, layer) of the latest forward
        self._forwards = collections.Counter()  # layer -> forwards so far
        self._pending = collections.defaultdict(collections.deque)  # layer -> awaits its backward
        self._kept, self._sent = {}, {}  # layer -> activation_bytes, message_bytes

    # One window per phase of a layer.

    def _begin(self, microbatch, layer, phase):
        if self._lingering is not None and self._lingering.key[1] != layer:
            self._end_lingering()
        annotation = None
        if self._annotate:
            annotation = torch.profiler.record_function(
                f"dynmo it={self.iteration} mb={microbatch} L={layer} {phase}")
            annotation.__enter__()
        window = types.SimpleNamespace(key=(microbatch, layer, phase), annotation=annotation,
                                       inner=[], hooks=None, is_loss=False,
                                       begin=self._clock.mark())
        self._open.append(window)
        return window

    def _end(self, window):
        window.end = self._clock.mark()
        if window.annotation is not None:
            window.annotation.__exit__(None, None, None)
        self._open.remove(window)
        if window.key[2] == "R":  # time of its own, not of the backward around it
            for outer in self._open:
                outer.inner.append(window)
        elif window.key[2] != "F" and not window.is_loss and self._pending[window.key[1]]:
            self._pending[window.key[1]].popleft()
        self._done.append(window)

    def _end_lingering(self):
        if self._lingering is not None:
            window, self._lingering = self._lingering, None
            self._end(window)

    @contextlib.contextmanager
    def _window(self, *key):
        window = self._begin(*key)
        try:
            yield
        finally:
            self._end(window)

    def _find(self, layer, phases):
        return next((w for w in self._open if w.key[1] == layer and w.key[2] in phases), None)

    def _count_kept(self, layer):
        """Context that sums what autograd keeps for the backward, parameters excluded.

        Does nothing where other such hooks are in force: activation checkpointing needs its own.
        """
        others = torch._C._autograd._top_saved_tensors_default_hooks(True)
        if not self._activations or layer in self._kept or others or not torch.is_grad_enabled():
            return contextlib.nullcontext()
        module, self._kept[layer] = self._modules[layer], 0
        seen = {t.untyped_storage().data_ptr() for t in (*module.parameters(), *module.buffers())}

        def pack(tensor):
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in seen:
                seen.add(storage.data_ptr())
                self._kept[layer] += storage.nbytes()
            return tensor.detach()  # the tensor itself would keep a split backward's graph alive

        return torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor)

    def _note_forward(self, microbatch, layer, output):
        self._latest = (microbatch, layer)
        self._sent[layer] = 0 if layer == self._last else sum(
            t.nbytes for t in tree_leaves(output) if isinstance(t, torch.Tensor))

    def _register(self, module, layer, is_last):
        if not isinstance(module, torch.nn.Module):
            raise TypeError(f"layer {layer} is a {type(module).__name__}, not a torch.nn.Module")
        if layer in self._modules:
            raise ValueError(f"layer {layer} is attached already")
        for other_layer, other in self._modules.items():
            if other in set(module.modules()) or module in set(other.modules()):
                raise ValueError(f"layers {other_layer} and {layer} contain one another")
        self._modules[layer] = module
        self._last = layer if is_last else self._last

    # Ordinary training.

    def attach(self, layers, first_layer=0, layer_count=None):
        """Hooks modules as layers first_layer, first_layer + 1, ...; each runs once per microbatch.

        layer_count: layers of the whole model, if later ones are not in the list.
        """
        layers = list(layers)
        _watch_probes()
        last = (first_layer + len(layers) if layer_count is None else layer_count) - 1
        for layer, module in enumerate(layers, first_layer):
            self._register(module, layer, layer == last)
            bind = functools.partial
            module.register_forward_pre_hook(bind(self._forward_begin, layer), with_kwargs=True)
            module.register_forward_hook(bind(self._forward_end, layer), always_call=True)
            module.register_full_backward_pre_hook(bind(self._backward_begin, layer))
            module.register_full_backward_hook(bind(self._backward_end, layer))

    def microbatch(self, microbatch):
        """Names the microbatch of the next forwards. Without it, forwards of a layer are counted,
        which is wrong only if a microbatch skips a layer (early exit)."""
        self._microbatch = microbatch

    def _forward_begin(self, layer, module, args, kwargs):
        if not self._is_recording or _probes[0]:
            return
        if not (module.training or torch.is_grad_enabled()):
            return
        # torch reports the end of a backward only for positional tensors that need gradients.
        reported = any(isinstance(arg, torch.Tensor) and arg.requires_grad for arg in args)
        backward = _needs_gradient((args, kwargs)), reported
        if torch._C._current_graph_task_id() != -1:  # inside a backward
            if self._pending[layer]:
                microbatch = self._pending[layer][0][0]
                self._pending[layer][0] = (microbatch, *backward)  # F may have run without grad
                self._begin(microbatch, layer, "R")
            return
        microbatch = self._forwards[layer] if self._microbatch is None else self._microbatch
        self._forwards[layer] += 1
        window = self._begin(microbatch, layer, "F")
        window.pending = (microbatch, *backward)
        window.hooks = self._count_kept(layer)
        window.hooks.__enter__()

    def _forward_end(self, layer, module, args, output):
        window = self._find(layer, ("F", "R"))
        if window is None:
            return
        if window.key[2] == "F":
            window.hooks.__exit__(None, None, None)
            self._note_forward(window.key[0], layer, output)
            self._pending[layer].append(window.pending)
        self._end(window)

    def _backward_begin(self, layer, module, gradients):
        self._end_lingering()  # of the loss, which is this layer's too
        if not self._is_recording or _probes[0] or not self._pending[layer]:
            return
        microbatch, needs_gradient, reported = self._pending[layer][0]
        window = self._begin(microbatch, layer, _backward_phase(module, needs_gradient))
        if not reported:  # until the next layer's backward begins or the whole backward ends
            self._lingering = window
            torch.autograd.Variable._execution_engine.queue_callback(self._end_lingering)

    def _backward_end(self, layer, module, input_gradients, output_gradients):
        window = self._find(layer, ("B", "W", "BW"))
        if window is not None and window is not self._lingering:
            self._end(window)

    # torch.distributed.pipelining.

    def attach_stage(self, stage, layer=None):
        """Wraps a pipeline stage, which then is one layer: its stage_index unless given."""
        layer = stage.stage_index if layer is None else layer
        if stage.dw_builder is not None:
            raise ValueError(f"stage {layer} has a dw_builder, whose W cannot be timed from here")
        self._register(stage.submod, layer, stage.is_last)
        forward, backward = stage.forward_maybe_with_nosync, stage.backward_maybe_with_nosync
        in_weight_chunk = False

        def forward_compute(*args, **kwargs):
            if not self._is_recording:
                return forward(*args, **kwargs)
            microbatch = self._microbatch
            with self._window(microbatch, layer, "F"), self._count_kept(layer):
                output = forward(*args, **kwargs)
            self._note_forward(microbatch, layer, output)
            return output

        def backward_compute(kind, arguments, *args, **kwargs):
            phase = {"input": "B", "weight": "W"}.get(kind)
            if kind == "full":
                needs_gradient = not in_weight_chunk and _needs_gradient(arguments["input_values"])
                phase = _backward_phase(stage.submod, needs_gradient)
            is_idle = phase == "W" and not _needs_gradient(list(stage.submod.parameters()))
            if not self._is_recording or is_idle:
                return backward(kind, arguments, *args, **kwargs)
            with self._window(self._microbatch, layer, phase):
                return backward(kind, arguments, *args, **kwargs)

        def wrap_chunk(name):
            chunk = getattr(stage, name)

            def wrapped(microbatch, *args, **kwargs):
                nonlocal in_weight_chunk
                self._microbatch, in_weight_chunk = microbatch, name.startswith("backward_weight")
                return chunk(microbatch, *args, **kwargs)

            setattr(stage, name, wrapped)

        stage.forward_maybe_with_nosync = forward_compute
        stage.backward_maybe_with_nosync = backward_compute
        for name in ("forward_one_chunk", "backward_one_chunk", "backward_weight_one_chunk"):
            wrap_chunk(name)

    def loss(self, function):
        """Returns the loss function, timed into the F of the layer that ran before it, and its
        backward into that of the layer."""
        def timed(*args, **kwargs):
            if self._latest is None or _probes[0]:
                return function(*args, **kwargs)
            with self._window(*self._latest, "F"):
                output = function(*args, **kwargs)
            self._await_loss_backward(output, *self._latest)
            return output
        return timed

    def _await_loss_backward(self, output, microbatch, layer):
        """Opens a window when the gradient of the loss is there; the layer's own backward ends it.
        A stage's backward holds that of the loss already."""
        pending = next((p for p in self._pending[layer] if p[0] == microbatch), None)
        losses = [v for v in tree_leaves(output) if isinstance(v, torch.Tensor) and v.requires_grad]
        if pending is None or not losses:
            return
        phase, iteration = _backward_phase(self._modules[layer], pending[1]), self.iteration

        def begin(gradient):
            if self.iteration == iteration and self._lingering is None:
                self._lingering = self._begin(microbatch, layer, phase)
                self._lingering.is_loss = True
                torch.autograd.Variable._execution_engine.queue_callback(self._end_lingering)

        losses[0].register_hook(begin)

    # Rows and files.

    def step(self):
        """Ends the iteration; call it once per optimizer step. On CUDA it waits for the device."""
        if self._open:
            microbatch, layer, phase = self._open[0].key
            raise RuntimeError(f"step() while phase {phase} of layer {layer}, microbatch "
                               f"{microbatch} is open: call it after the backward")
        if self._is_recording:
            if self._device == "cuda":
                torch.cuda.synchronize()
                self._note_peaks()
            self._append_rows()
        self.iteration += 1
        self._begin_iteration()

    def _note_peaks(self):
        """Keeps the highest peaks of the recorded iterations: of tensors, and of what the allocator
        held for them."""
        for name, peak in (("allocated", torch.cuda.max_memory_allocated()),
                           ("reserved", torch.cuda.max_memory_reserved())):
            key = f"{PEAK}{name}_bytes_rank{self._rank}"
            self._peaks[key] = max(peak, self._peaks.get(key, 0))

    def _append_rows(self):
        measured = collections.defaultdict(list)  # key -> [(start_ns, span_ns, busy_ns)]
        for window in self._done:
            start_ns, span_ns, busy_ns = self._clock.measure(window.begin, window.end)
            busy_ns -= sum(self._clock.measure(w.begin, w.end)[2] for w in window.inner)
            measured[window.key].append((start_ns, span_ns, max(busy_ns, 0)))
        for (microbatch, layer, phase), parts in measured.items():
            start_ns = min(part[0] for part in parts)
            span_ns = max(part[0] + part[1] for part in parts) - start_ns
            sizes = ("", "", "")
            if phase == "F":
                parameters = sum(p.numel() for p in self._modules[layer].parameters())
                sizes = (self._kept.get(layer, ""), parameters, self._sent[layer])
            self.rows.append((self.iteration, microbatch, layer, phase, self._rank, start_ns,
                              span_ns, sum(part[2] for part in parts), *sizes))

    def write(self, path):
        """Writes all rows so far, compressed if path ends in .gz, replacing path in one go."""
        if not self.rows:
            raise RuntimeError("nothing recorded: attach layers, train, and call step()")
        _write(path, {**self._metadata, **self._peaks}, self.rows)


def _write(path, metadata, rows):
    microbatches = 1 + max(int(row[1]) for row in rows)
    text = io.StringIO()
    for line in (FORMAT, *(f"# {k}={v}" for k, v in metadata.items()),
                 f"# microbatches={microbatches}"):
        if "\n" in line:
            raise ValueError(f"metadata must not have line breaks: {line!r}")
        print(line, file=text)
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(sorted(rows, key=lambda r: (*map(int, r[:3]), PHASES.index(r[3]))))
    data = text.getvalue().encode()
    unfinished = f"{os.fspath(path)}.{os.getpid()}.partial"
    with open(unfinished, "wb") as file:
        file.write(gzip.compress(data, 9, mtime=0) if str(path).endswith(".gz") else data)
    os.replace(unfinished, path)


def merge(paths, merged):
    """Writes the rows of all ranks of one run, each in a file of its own so far, into one file."""
    headers, peaks, rows = [], [], {}
    for path in paths:
        with (gzip.open if str(path).endswith(".gz") else open)(path, "rt") as file:
            lines = file.read().splitlines()
        header = [line for line in lines if line.startswith("#")]
        table = list(csv.reader(lines[len(header):]))
        if header[:1] != [FORMAT] or table[:1] != [list(COLUMNS)]:
            raise ValueError(f"{path} was not written by this recorder")
        peaks += [line for line in header if line.startswith(f"# {PEAK}")]
        headers.append([line for line in header[1:]
                        if not line.startswith(("# microbatches=", f"# {PEAK}"))])
        if headers[-1] != headers[0]:
            raise ValueError(f"{path} has another header than {paths[0]}: is it of the same run?")
        for row in table[1:]:
            if rows.setdefault(tuple(row[:4]), row) is not row:
                raise ValueError(f"{path}: iteration, microbatch, layer, phase {row[:4]} twice")
    metadata = dict(line[2:].split("=", 1) for line in headers[0] + peaks)
    _write(merged, metadata, list(rows.values()))

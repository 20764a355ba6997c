"""What measures PyTorch on the GPU shares. Exits with 77 without torch or GPU."""
import json
import sys

try:
    import torch
except ImportError:
    print("skipped: no torch")
    sys.exit(77)
if not torch.cuda.is_available():
    print("skipped: torch sees no GPU")
    sys.exit(77)


def median_ms(run, repeats=5, samples=5):
    """Median time of one run, by events, after one sample that is not counted."""
    times = []
    for _ in range(samples + 1):
        begin = torch.cuda.Event(enable_timing=True)
        end = torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(repeats):
            run()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) / repeats)
    return sorted(times[1:])[samples // 2]


def figure(name, value, unit, setting):
    print(json.dumps({"bench": name, "value": value, "unit": unit, "setting": setting}))

"""Has Megatron core parse and check layouts that `dynmo export megatron --json` wrote.

Usage: megatron_layout.py EXPORT.json PLAN.json [EXPORT.json PLAN.json]...

Every stage must get the blocks that the plan gives it. Exits 77 where megatron.core is missing.
"""

import json
import sys
import warnings

warnings.simplefilter("ignore")
try:
    import megatron.core
    from megatron.core.transformer.enums import LayerType
    from megatron.core.transformer.pipeline_parallel_layer_layout import PipelineParallelLayerLayout
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)


def planned_blocks(plan):
    """The blocks of every stage in model order, counted from 0."""
    cuts = plan["first_layer"]
    first = 1 if plan["embedding"] else 0
    end = cuts[-1] - (1 if plan["head"] else 0)
    return [
        [layer - first for layer in range(max(begin, first), min(stop, end))]
        for begin, stop in zip(cuts, cuts[1:])
    ]


def check(export_path, plan_path):
    with open(export_path, encoding="utf-8") as file:
        export = json.load(file)
    with open(plan_path, encoding="utf-8") as file:
        plan = json.load(file)
    ranks = export["pipeline_model_parallel_size"]
    layout = PipelineParallelLayerLayout.from_str(export["pipeline_model_parallel_layout"], ranks)
    layout.validate_layer_layout(export["num_layers"], None)
    wanted = planned_blocks(plan)
    chunks = export["virtual_pipeline_model_parallel_size"] or 1
    assert layout.virtual_pipeline_model_parallel_size == chunks, chunks
    assert ranks * chunks == len(wanted), (ranks, chunks, len(wanted))
    first_block = 0
    for stage, blocks in enumerate(wanted):
        held = layout.layout[stage % ranks][stage // ranks]
        assert held.count(LayerType.decoder) == len(blocks), (stage, held)
        assert not blocks or blocks[0] == first_block, (stage, blocks)
        assert (LayerType.embedding in held) == (stage == 0), (stage, held)
        assert (LayerType.loss in held) == (stage == len(wanted) - 1), (stage, held)
        first_block += len(blocks)
    print(f"{export['pipeline_model_parallel_layout']}: accepted, PP {ranks}, VPP {chunks}")


for place in range(1, len(sys.argv), 2):
    check(sys.argv[place], sys.argv[place + 1])
print(f"megatron.core {megatron.core.__version__}")

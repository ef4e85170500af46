"""A search with an engine that nobody chose says which engines split layers over GPUs."""

import pytest

import roofsim


@pytest.mark.parametrize(
    ("model", "gpus", "given", "said"),
    [
        ("gpt2-124m", 8, {}, ["pytorch-eager, which replicates layers", "megatron-core"]),
        ("gpt2-124m", 8, {"engine": "pytorch-eager"}, []),
        ("gpt2-124m", 1, {}, []),
        ("resnet18", 8, {}, []),
    ],
    ids=["default", "chosen", "one-gpu", "no-layers-to-split"],
)
def test_engines_that_split_layers_are_named(model, gpus, given, said):
    plan = roofsim.plan(model, gpus=[gpus], gpu="h100", global_batch_size=32, **given)
    notes = [note for note in plan.assumed if note.startswith("engine:")]
    assert len(notes) == (1 if said else 0)
    assert all(words in notes[0] for words in said)

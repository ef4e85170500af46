"""`roofsim show ENGINE`: a version or variant is shown as a run takes it; what a run refuses is refused with its reason."""

from __future__ import annotations

import pytest

from roofsim.analyze.catalogs import entry, file_of
from roofsim.api import run
from roofsim.errors import Place, SpecError, UnknownNameError
from roofsim.spec import catalog
from roofsim.spec.engine.find import WITHOUT_FACTS, choose
from roofsim.spec.engine.versions import Releases

VARIANTS = [
    f"{name}+{variant}"
    for name in catalog.names("engine")
    for variant in catalog.load("engine", name).data.get("variants", {})
]


@pytest.mark.parametrize("name", VARIANTS)
def test_a_variant_is_shown_with_its_facts_and_their_sources(name):
    shown, chosen = entry("engine", name), choose(name, Place("test"))
    assert shown["name"] == chosen.label == name
    groups = {key: value for key, value in chosen.stated.document.data.items() if isinstance(value, dict)}
    assert all(shown[key] == value for key, value in groups.items() if key not in ("sources", *Releases.model_fields))
    assert entry(name, None) == shown
    stem, _, variant = name.partition("+")
    assert shown["sources"].items() >= catalog.load("engine", stem).data["variants"][variant].get("sources", {}).items()
    assert "variants" not in shown
    assert file_of(name, None) == file_of("engine", stem)


def test_a_version_is_shown_with_the_facts_of_then():
    assert entry("huggingface@4.30", None)["attention"]["implementation"] == "unfused"
    assert entry("engine", "huggingface")["attention"]["implementation"] == "sdpa"


@pytest.mark.parametrize("name", WITHOUT_FACTS)
def test_what_a_run_refuses_is_refused_with_its_reason(name):
    why, instead = WITHOUT_FACTS[name]
    with pytest.raises(SpecError) as refused:
        run("gpt2", gpu="a100", engine=name)
    assert why in str(refused.value)
    for asked in (("engine", name), (name, None)):
        with pytest.raises(UnknownNameError) as shown:
            entry(*asked)
        assert why in str(shown.value)
        assert instead in str(shown.value)


def test_unknown_engines_and_variants_name_what_there_is():
    with pytest.raises(UnknownNameError, match="unknown engine 'vlm'"):
        entry("engine", "vlm")
    with pytest.raises(SpecError, match=r"unknown variant 'ligr' of huggingface\. Did you mean 'liger'"):
        entry("huggingface+ligr", None)

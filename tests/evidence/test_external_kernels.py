"""The tables of aiconfigurator-core: what they mean, what is left out, how constants score on them, what can go wrong.

Tables are made here. Where pyarrow is installed they are Parquet; everywhere they are JSON that a stand-in for it reads.
"""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from roofsim.calibrate.kernels.fit import class_of, predict
from roofsim.calibrate.kernels.table import SIZES, Group, KernelTable
from roofsim.errors import SpecError
from roofsim.spec import catalog
from roofsim_evidence.external_kernels import reader as aiconfigurator
from roofsim_evidence.external_kernels.meaning import SYSTEMS, TABLES, full_sizes, reason_left_out
from roofsim_evidence.external_kernels.page import page
from roofsim_evidence.external_kernels.reader import Counts, data_folder, read_chunks
from roofsim_evidence.external_kernels.scores import (
    PRODUCTS,
    examine,
    host_bound,
    not_shipped,
    shipped_fit,
    shipped_rows,
    thinned,
)
from tests.surely import sure

MILLI = 1e-3
LATENCY = 0.25

GEMM = {"gemm_dtype": "bfloat16", "m": 64, "n": 512, "k": 1024, "kernel_source": "torch_flow"}
ATTENTION = {
    "batch_size": 2, "isl": 512, "num_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "attn_dtype": "bfloat16",
    "kv_cache_dtype": "bfloat16", "step": 256, "kernel_source": "fa3",
}  # fmt: skip
LATENT = {
    "batch_size": 4, "isl": 1, "num_heads": 16, "mla_dtype": "bfloat16", "kv_cache_dtype": "fp8", "step": 4095,
    "kernel_source": "default", "tp_size": 8,
}  # fmt: skip
BMM = {"num_tokens": 8, "num_heads": 128, "bmm_dtype": "bfloat16", "op_name": "mla_gen_pre", "kernel_source": "x"}
MOE = {
    "num_tokens": 16, "hidden_size": 2048, "inter_size": 768, "topk": 8, "num_experts": 128, "moe_tp_size": 1,
    "moe_ep_size": 4, "distribution": "power_law_1.2", "moe_dtype": "fp8_block", "kernel_source": "deepgemm",
}  # fmt: skip
ENCODER = {
    "batch_size": 1,
    "isl": 196,
    "num_heads": 12,
    "head_dim": 64,
    "attn_dtype": "bfloat16",
    "kernel_source": "fa",
}


class JsonColumn(list):
    def to_numpy(self):
        return np.array(self, dtype=object if self and isinstance(self[0], str) else None)


class JsonTable(dict):
    column_names = property(list)
    num_rows = property(lambda self: len(next(iter(self.values()))))

    def column(self, name):
        return self[name]


class JsonReader:
    """Reads JSON where pyarrow.parquet reads Parquet."""

    @staticmethod
    def read_table(path, columns=None):
        data = json.loads(path.read_text())
        return JsonTable({name: JsonColumn(data[name]) for name in columns or data})

    @classmethod
    def read_schema(cls, path):
        return SimpleNamespace(names=cls.read_table(path).column_names)

    @classmethod
    def read_metadata(cls, path):
        return SimpleNamespace(num_rows=cls.read_table(path).num_rows)


@pytest.fixture(params=["stand-in", "pyarrow"])
def write(request, monkeypatch, tmp_path):
    """Return a function that writes a table below tmp_path, and see to it that it can be read."""
    if request.param == "pyarrow":
        import pyarrow
        import pyarrow.parquet
    else:
        monkeypatch.setattr(aiconfigurator, "parquet", lambda: JsonReader)

    def written(name, rows, system="gh200_96gb", engine="trtllm"):
        path = tmp_path / system / "family" / engine / "1.0.0" / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        columns = {key: [row.get(key) for row in rows] for key in rows[0]}
        if request.param == "pyarrow":
            pyarrow.parquet.write_table(pyarrow.table(columns), path)
        else:
            path.write_text(json.dumps(columns))
        return tmp_path

    return written


def only(folder, counts=None):
    (chunk,) = read_chunks(folder, counts if counts is not None else Counts())
    return chunk


# ------------------------------------------------------------------------------------------------------------ meaning


@pytest.mark.parametrize(
    ("name", "row", "op", "dtype", "sizes", "other"),
    [
        ("gemm_perf", GEMM, "gemm", "bf16", {"m": 64, "n": 512, "k": 1024}, {}),
        ("gemm_perf", GEMM | {"gemm_dtype": "fp8_block"}, "gemm", "fp8_block", {"m": 64}, {}),
        (
            "context_attention_perf", ATTENTION, "attention_prefill", "bf16",
            {"batch": 2, "heads": 32, "kv_heads": 8, "head_dim": 128, "q_len": 512, "kv_len": 768},
            {"causal": 1, "window": 0.0},
        ),
        ("context_attention_perf", ATTENTION | {"attn_dtype": "fp8", "kv_cache_dtype": "fp8"}, "attention_prefill", "fp8", {}, {}),
        (
            "generation_attention_perf", ATTENTION | {"isl": 1, "step": 1023, "kv_cache_dtype": "fp8", "window_size": 128},
            "attention_decode", "bf16_kvfp8", {"q_len": 1, "kv_len": 1024}, {"window": 128.0},
        ),
        (
            "encoder_attention_perf", ENCODER, "attention_prefill", "bf16",
            {"heads": 12, "kv_heads": 12, "q_len": 196, "kv_len": 196}, {"causal": 0},
        ),
        (
            "generation_mla_perf", LATENT, "mla_decode", "bf16_kvfp8",
            {"batch": 4, "heads": 16, "kv_heads": 1, "head_dim": 576, "q_len": 1, "kv_len": 4096}, {},
        ),
        ("mla_bmm_perf", BMM, "bmm", "bf16", {"m": 8, "n": 512, "k": 128, "batch": 128}, {}),
        ("mla_bmm_perf", BMM | {"op_name": "mla_gen_post"}, "bmm", "bf16", {"n": 128, "k": 512}, {}),
        (
            "moe_perf", MOE, "moe_gemm", "fp8_block", {"m": 16, "n": 768, "k": 2048},
            {"experts": 128, "topk": 8, "tp": 1, "ep": 4, "dist": "power_law_1.2", "ks": "deepgemm"},
        ),
    ],
)  # fmt: skip
def test_a_row_of_each_table(write, name, row, op, dtype, sizes, other):
    counts = Counts()
    chunk = only(write(name, [row | {"latency": LATENCY}]), counts)
    assert chunk.table.groups == (Group("gh200-96gb", op, dtype, "trtllm"),)
    assert chunk.table.seconds == pytest.approx([LATENCY * MILLI])
    first = {key: float(column[0]) for key, column in chunk.table.sizes.items()}
    assert first == {key: float(sizes.get(key, first[key])) for key in SIZES}
    assert chunk.table.other[0].items() >= other.items()
    assert counts.read == {("gh200-96gb", name): 1}


def test_every_system_stands_for_a_card_and_every_table_for_a_class():
    assert set(SYSTEMS.values()) <= set(catalog.names("gpu"))
    assert {class_of(meaning.op).name for meaning in TABLES.values()} == {"gemm", "prefill", "decode", "experts"}
    assert {meaning.op for meaning in TABLES.values()} >= set(PRODUCTS)


def test_the_shipped_rows_of_the_source_come_out_again(write):
    group, rows = next(
        (g, r) for g, r in shipped_rows().items() if g == Group("h100-sxm5-80gb", "gemm", "bf16", "vllm")
    )
    shipped = [dict(zip((*SIZES, "us"), row, strict=True)) for row in sorted(rows)]
    again = [GEMM | {key: int(row[key]) for key in ("m", "n", "k")} | {"latency": row["us"] * MILLI} for row in shipped]
    again.append(again[0] | {"latency": 7.654321})
    table = only(write("gemm_perf", again, "h100_sxm", "vllm")).table
    assert table.groups == (group,)
    assert not_shipped(table).tolist() == [False] * len(shipped) + [True]


# ------------------------------------------------------------------------------------------------------------ counts


@pytest.mark.parametrize(
    ("name", "row", "system", "reason"),
    [
        ("nccl_perf", GEMM, "gh200_96gb", "several GPUs take part"),
        ("custom_allreduce_perf", GEMM, "gh200_96gb", "several GPUs take part"),
        ("dsa_context_module_perf", GEMM, "gh200_96gb", "one time for the kernels of a whole module"),
        ("context_mla_perf", LATENT, "gh200_96gb", "keys and values differ in width, which rows have no column for"),
        ("mamba2_perf", GEMM, "gh200_96gb", "no model of this kernel"),
        ("sudoku_perf", GEMM, "gh200_96gb", "a table that roofsim does not know"),
        ("gemm_perf", GEMM, "h9000_sxm", "no card h9000-sxm in hardware/gpus"),
        ("gemm_perf", GEMM | {"gemm_dtype": "fp3"}, "gh200_96gb", "no model of the format fp3"),
        ("gemm_perf", GEMM | {"gemm_dtype": "nvfp4"}, "gh200_96gb", "gh200-96gb has no peak for nvfp4"),
        ("gemm_perf", GEMM | {"latency": 0.0}, "gh200_96gb", "no time above 0"),
        ("gemm_perf", GEMM | {"latency": float("nan")}, "gh200_96gb", "no time above 0"),
        ("gemm_perf", GEMM | {"m": 0}, "gh200_96gb", "a size below 1"),
        (
            "mla_bmm_perf", BMM | {"bmm_dtype": "fp8", "kernel_source": "bmm_dequant_bf16"}, "gh200_96gb",
            "no model of the format fp8 converted to 16 bits",
        ),
    ],
)  # fmt: skip
def test_what_is_left_out_is_counted_with_its_reason(write, name, row, system, reason):
    counts = Counts()
    folder = write(name, [{"latency": LATENCY} | row] * 3, system)
    assert list(read_chunks(folder, counts)) == []
    assert {key: rows for key, rows in counts.skipped.items() if rows} == {(name, reason): 3}
    assert sum(counts.read.values()) == 0


def test_no_table_with_a_meaning_has_a_reason_too():
    for name in TABLES:
        assert name == "mla_bmm_perf" or reason_left_out(name) == "a table that roofsim does not know", name


# ------------------------------------------------------------------------------------------------------------- scores


def products(gpu, engine, donor, factor=1.0, rows=120):
    """Return rows whose times are those of a donor's shipped constants on a card, times a factor."""
    random = np.random.default_rng(1)
    m, n, k = (2 ** random.integers(4, 14, rows) for _ in range(3))
    fit = shipped_fit()
    group, lender = Group(gpu, "gemm", "bf16", engine), Group(donor, "gemm", "bf16", engine)
    table = KernelTable(
        (group,), np.zeros(rows, dtype=np.int64),
        full_sizes({"m": m, "n": n, "k": k}, rows), ({},) * rows, np.ones(rows),
    )  # fmt: skip
    seconds = predict(table, class_of("gemm"), {group: fit.constants(class_of("gemm"), lender)}) * factor
    return [
        GEMM | {"m": int(a), "n": int(b), "k": int(c), "latency": float(t) / MILLI}
        for a, b, c, t in zip(m, n, k, seconds, strict=True)
    ]


def ratios(tally):
    return {key: np.concatenate(pieces) for key, pieces in tally.ratios.items()}


def test_a_card_with_constants_of_its_own_and_one_that_is_lent_some(write):
    write("gemm_perf", products("h100-sxm5-80gb", "trtllm", "h100-sxm5-80gb"), "h100_sxm")
    folder = write("gemm_perf", products("l4", "vllm", "h100-sxm5-80gb", rows=5), "l4", "vllm")
    measured_ratios = ratios(examine(folder).shipped)
    (own,) = [key for key in measured_ratios if key.basis == "own"]
    (new,) = [key for key in measured_ratios if key.basis != "own"]
    assert own.group.gpu == "h100-sxm5-80gb"
    assert measured_ratios[own] == pytest.approx(1.0, abs=1e-5)
    assert len(measured_ratios[own]) == 120
    # The L4 has measured kernels, in fp32 only: others lend.
    assert (new.basis, new.group.gpu) == ("lent", "l4")


def test_a_card_without_measured_kernels_is_lent_its_sisters(write):
    folder = write("gemm_perf", products("gh200-96gb", "trtllm", "h100-sxm5-80gb", factor=0.8))
    tally = examine(folder).shipped
    ((key, errors),) = ratios(tally).items()
    assert key.basis == "new card"
    assert tally.donors[key] == ("h100-sxm5-80gb", "h200-sxm-141gb")
    assert np.median(errors) == pytest.approx(1.25, rel=0.05)


def test_a_measured_card_is_scored_with_constants_of_the_others_too(write):
    folder = write("gemm_perf", products("arc-pro-b60", "vllm", "arc-pro-b60"), "b60", "vllm")
    examination = examine(folder, refit=True)
    ((key, errors),) = ratios(examination.left_out).items()
    assert (key.basis, key.group.gpu) == ("new card", "arc-pro-b60")
    assert "arc-pro-b60" not in sure(examination.left_out).donors[key]
    assert np.median(np.abs(errors - 1.0)) > 0.1
    assert "## Each card with constants of the other cards only" in page(examination, "test").text


def test_kernels_that_nobody_can_lend_to_are_counted(write):
    tally = examine(write("mla_bmm_perf", [BMM | {"latency": LATENCY}] * 2)).shipped
    assert tally.unscored == {Group("gh200-96gb", "bmm", "bf16", "trtllm"): 2}
    assert not tally.ratios


def test_a_fresh_fit_recovers_a_slower_card_on_rows_that_it_did_not_see(write):
    folder = write("gemm_perf", products("gh200-96gb", "trtllm", "h100-sxm5-80gb", factor=1.5, rows=300))
    examination = examine(folder, refit=True)
    ((key, again),) = ratios(examination.refit).items()
    fitted = sure(examination.refit).fitted[key]
    assert 10 < fitted <= 40
    assert len(again) == 300 - fitted
    assert (
        np.median(np.abs(again - 1.0))
        < 0.06
        < np.median(np.abs(ratios(examination.shipped)[key._replace(basis="new card")] - 1.0))
    )


def test_products_timed_with_their_host_are_told_apart_and_not_fitted(write):
    slow = [row | {"latency": row["latency"] + 0.1} for row in products("gh200-96gb", "vllm", "h100-sxm5-80gb")]
    folder = write("gemm_perf", slow, engine="vllm")
    table = only(folder).table
    assert host_bound(table, 0)
    assert not thinned(table).any()
    examination = examine(folder, refit=True)
    assert examination.refit is None
    assert [key.host_bound for key in examination.shipped.ratios] == [True]
    assert "| gh200-96gb | gemm, host-bound | 120 |" in page(examination, "test").text


def test_thinning_spreads_over_the_sizes(write):
    rows = [GEMM | {"m": m, "latency": 0.001 * m} for m in [1] * 500 + [2**i for i in range(14)]]
    table = only(write("gemm_perf", rows)).table
    kept = table.sizes["m"][thinned(table, 14)]
    assert len(kept) <= 14
    assert {1.0, 8192.0} <= set(kept)
    assert np.sum(kept == 1.0) <= 2


def test_the_page_says_what_was_read_and_what_was_not(write):
    write("nccl_perf", [GEMM | {"latency": LATENCY}] * 7)
    write("mla_bmm_perf", [BMM | {"latency": LATENCY}] * 2)
    folder = write("gemm_perf", products("gh200-96gb", "trtllm", "h100-sxm5-80gb", rows=30))
    text = page(examine(folder, refit=True), "1.2.3", groups=True).text
    for words in (
        "aiconfigurator-core 1.2.3", "32 rows read,", "7 left out", "| `gemm_perf` | 30 | 1 |",
        "| several GPUs take part | 7 | `nccl_perf` |", "bmm bf16 2.", "## Refitted constants", "## Every group",
        "| gh200-96gb | gemm | bf16 | trtllm | new card |",
    ):  # fmt: skip
        assert words in text, words
    assert "nan" not in text


# ------------------------------------------------------------------------------------------------------------- errors


def test_without_the_package_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr(aiconfigurator, "find_spec", lambda name: None)
    with pytest.raises(
        SpecError, match=r"not installed\. Install it with: pip install 'roofsim-evidence\[aiconfigurator\]'"
    ):
        data_folder()


def test_without_pyarrow_the_error_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    path = tmp_path / "l4/gemm/vllm/1/gemm_perf.parquet"
    path.parent.mkdir(parents=True)
    path.touch()
    with pytest.raises(SpecError, match=r"needs pyarrow.*pip install 'roofsim-evidence\[aiconfigurator\]'"):
        list(read_chunks(tmp_path, Counts()))


def test_an_installed_package_is_found_without_importing_it(monkeypatch, write, tmp_path):
    target = tmp_path / "aiconfigurator_core"
    data = target / "systems" / "data"
    data.mkdir(parents=True)
    folder = write("gemm_perf", [GEMM | {"latency": LATENCY}])
    (folder / "gh200_96gb").rename(data / "gh200_96gb")
    (target / "__init__.py").write_text("raise RuntimeError('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert data_folder() == data
    assert data_folder(tmp_path) == data_folder(target) == data_folder(data) == data


@pytest.mark.parametrize(
    ("inside", "words"), [("", "has no tables of measured kernels"), ("nowhere", "no such folder")]
)
def test_folders_without_tables_are_refused(tmp_path, inside, words):
    with pytest.raises(SpecError, match=f"{words}.*SYSTEM/FAMILY/ENGINE/VERSION"):
        data_folder(tmp_path / inside)


def test_a_table_that_lacks_a_column_is_refused(write):
    row = {key: value for key, value in GEMM.items() if key != "k"}
    with pytest.raises(
        SpecError, match=r"gemm_perf.parquet: lacks the column k\. Expected gemm_dtype.*found gemm_dtype"
    ):
        only(write("gemm_perf", [row | {"latency": LATENCY}]))


@pytest.mark.parametrize("name", ["gemm_perf", "nccl_perf"])
def test_a_file_that_is_no_table_is_refused(write, name):
    folder = write(name, [GEMM])
    next(folder.rglob("*.parquet")).write_text("version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(SpecError, match=r"cannot be read as Parquet.*git lfs pull"):
        list(read_chunks(folder, Counts()))


# ------------------------------------------------------------------------------------------------------- command line


def test_the_command_prints_or_writes_the_page_and_the_constants(write, evidence, tmp_path):
    folder = write("gemm_perf", products("gh200-96gb", "trtllm", "h100-sxm5-80gb", rows=60))
    code, out, _ = evidence("score", "external-kernels", "--data", folder)
    assert code == 0
    assert "## Cards without fitted kernels" in out
    text, constants = tmp_path / "page.md", tmp_path / "constants.yaml"
    assert evidence("fit", "external-kernels", "--data", folder, "--output", constants)[0] == 0
    (line,) = [line for line in constants.read_text().splitlines() if "gpu: gh200-96gb, op: gemm" in line]
    assert "error: 0.0" in line
    assert evidence("page", "external-kernels", "--data", folder, "--output", text)[0] == 0
    assert "## Refitted constants" in text.read_text()


def test_rows_to_fit_are_drawn(write, evidence):
    folder = write("gemm_perf", products("h200-sxm-141gb", "trtllm", "h100-sxm5-80gb", rows=60), system="h200_sxm")
    code, out, _ = evidence("fit", "external-kernels", "--data", folder, "--sample")
    assert code == 0
    assert out.startswith("aiconfigurator:trtllm-1.0.0,h200-sxm-141gb,gemm,")


def test_a_folder_that_is_not_there_is_named(evidence):
    code, _, err = evidence("score", "external-kernels", "--data", "nowhere")
    assert code == 2
    assert "nowhere: no such folder" in err

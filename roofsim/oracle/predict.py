"""Price the rows of a table, by kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.errors import Place, Problem, SpecError, did_you_mean

if TYPE_CHECKING:
    from pathlib import Path

    from roofsim.oracle.table import PredictedTable
    from roofsim.spec.scenario.workload import Scenario

#: What a row may be.
STEPS: Final = ("train", "forward", "prefill", "decode")
KINDS: Final = ("kernel", "layer", "collective", *STEPS)


def predict_batch(
    kind: str,
    table: Any,
    scenario: str | Path | dict[str, Any] | Scenario | None = None,
    **overrides: Any,
) -> PredictedTable:
    """Price every row of a table: a stable oracle for schedulers, simulators and partitioners.

    Prices are those of `roofsim.run` (of a step), `roofsim.ops` (of kernels and layers) and `roofsim.collectives`; many rows take
    microseconds each. Names of kinds and columns, their units and meanings are versioned (``roofsim/predict-batch/1``).

    Parameters
    ----------
    kind
        ``prefill``, ``decode``, ``forward``, ``train``
            A step of the scenario. Columns are keys of it, by their short or dotted names: ``batch_size``, ``context_length``,
            ``tensor``, ``gpu``, ``model.num_layers``. Answers: ``time`` (s), ``memory_peak`` (bytes per GPU), ``fits``.
        ``layer``
            One layer of each kind that the model repeats, without its messages. Columns as for steps. Answers per kind of layer and
            phase: ``layers.forward``, ``layers.backward`` (s), and ``layers.communication`` (s, none of it hidden).
        ``kernel``
            A kernel by its sizes: ``op`` (``matmul``, ``attention``, ``elementwise``, ``normalization``, ``softmax``), ``dtype``,
            and ``m, n, k, batch``; ``batch, heads, kv_heads, head_size, q_length, kv_length, causal``; ``elements, inputs``;
            ``rows, width``. Answers: ``time`` (s), ``flops``, ``bytes``, ``bound``.
        ``collective``
            ``op`` (``all_reduce`` ...), ``bytes``, ``ranks``, ``stride`` (1). Answers: ``time`` (s), ``bus_bandwidth`` (B/s).
    table
        Columns (a mapping of names to lists or arrays), rows (mappings), or a data frame. A column of one value holds for all rows.
    scenario
        What is the same for all rows. Of kernels and collectives it says card and engine; its model does not matter, and may be
        left out.
    overrides
        Values of the scenario, as for `roofsim.run`.

    Returns
    -------
    PredictedTable
        A column for each answer, as numpy arrays in the order of the rows. A row that no scenario can be has NaN, and a reason in
        ``reasons``.

    Raises
    ------
    SpecError
        For an unknown kind or column (with near matches), values of the wrong sort, and a scenario that is wrong itself.
    """
    if kind not in KINDS:
        message = f"unknown kind {str(kind)[:60]!r}; known: {', '.join(KINDS)}"
        raise SpecError(Problem(message, Place("kind"), hint=did_you_mean(str(kind), KINDS)))
    from roofsim.oracle.table import columns_of

    columns = columns_of(table)
    if kind == "collective":
        from roofsim.oracle.messages import predict_collectives

        return predict_collectives(columns, scenario, overrides)
    if kind == "kernel":
        from roofsim.oracle.kernels import predict_kernels

        return predict_kernels(columns, scenario, overrides)
    from roofsim.oracle.steps import predict_layers, predict_steps

    return (
        predict_layers(columns, scenario, overrides)
        if kind == "layer"
        else predict_steps(kind, columns, scenario, overrides)
    )

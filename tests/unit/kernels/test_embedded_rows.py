"""Embeddings of 8-bit integers, from their table or from a packed matrix that has them as columns."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument
from tests.unit.kernels.conftest import Arrays, OpenOperator

from xuanzang.export.operators.products import embedded_rows, quantized_product
from xuanzang.kernels.graphs import SharedColumns

SCALE = np.array(0.37, np.float32)


def drawn_table(rows: int, width: int) -> np.ndarray:
    return np.random.default_rng(width).integers(-127, 128, (rows, width), dtype=np.int8)


def opened(operator: OpenOperator, table: np.ndarray, ids: np.ndarray) -> Any:
    return operator(embedded_rows(), {"ids": ids}, constants={"table": table, "scale": SCALE})


def opened_product(operator: OpenOperator, table: np.ndarray) -> Any:
    """Open a product whose matrix has the rows of a table as columns."""
    count, width = table.shape
    constants: Arrays = {
        "weight": np.ascontiguousarray(table.T),
        "x_scale": np.array(0.1, np.float32),
        "weight_scale": np.ones(count, np.float32),
        "x_zero": np.array(128, np.uint8),
        "bias": np.zeros(count, np.float32),
    }
    return operator(quantized_product(), {"x": np.zeros((1, width), np.uint8)}, constants=constants)


def expected(table: np.ndarray, ids: np.ndarray) -> np.ndarray:
    rows: np.ndarray = table[ids].astype(np.float32) * SCALE
    return rows


@pytest.mark.parametrize("shape", [(), (5,), (1, 7), (3, 2), (2, 0)])
def test_rows_are_those_of_the_table_times_the_scale(operator: OpenOperator, shape: tuple[int, ...]) -> None:
    table = drawn_table(300, 37)
    ids = np.random.default_rng(1).integers(-300, 300, shape)
    embed = opened(operator, table, ids)
    [found], [of_function] = (session.run(None, {"ids": ids}) for session in (embed.kernel, embed.function))
    np.testing.assert_array_equal(found, expected(table, ids))
    np.testing.assert_array_equal(found, of_function)


def test_a_table_may_change_from_run_to_run(operator: OpenOperator) -> None:
    ids, tables = np.arange(4), [drawn_table(9, width) for width in (4, 6)]
    embed = operator(embedded_rows(), {"table": tables[0], "scale": SCALE, "ids": ids})
    for table in tables:
        found = embed.run({"table": table, "scale": SCALE, "ids": ids})["embedded"]
        np.testing.assert_array_equal(found, expected(table, ids))


@pytest.mark.parametrize("number", [9, -10])
def test_a_row_that_does_not_exist_is_refused(fastest: OpenOperator, number: int) -> None:
    if not fastest.has_products:  # type: ignore[attr-defined]
        pytest.skip("there is no kernel for this instruction set")
    embed = opened(fastest, drawn_table(9, 8), np.arange(2))
    with pytest.raises(InvalidArgument, match="EmbeddedRows: a row does not exist"):
        embed.kernel.run(None, {"ids": np.array([0, number])})


@pytest.mark.parametrize("width", [64, 70])
@pytest.mark.parametrize("extra_rows", [0, 1])
@pytest.mark.parametrize("in_file", [True, False], ids=["in a file", "in memory"])
def test_a_packed_matrix_serves_as_the_table(
    operator: OpenOperator, tmp_path: Path, width: int, extra_rows: int, in_file: bool
) -> None:
    if not operator.has_products:  # type: ignore[attr-defined]
        pytest.skip("there is no kernel for this instruction set")
    # A whole block of columns, so that the extra row is only in the table.
    columns = drawn_table(256, width)
    table = np.pad(columns, ((0, extra_rows), (0, 0)))
    other, ids = drawn_table(256, width) ^ 1, np.arange(len(table))
    with (tmp_path / "packed").open("w+b") as file:
        library = operator.library  # type: ignore[attr-defined]
        with SharedColumns(library, file.fileno() if in_file else None) as shared:
            # The table's session may be open before the matrix's.
            embed, embed_other = opened(operator, table, ids), opened(operator, other, ids[:256])
            opened_product(operator, drawn_table(64, width))
            product = opened_product(operator, columns)
        assert shared.has_all == in_file
        shared.release()
        np.testing.assert_array_equal(embed.kernel.run(None, {"ids": ids})[0], expected(table, ids))
        if in_file:
            os.pwrite(file.fileno(), bytes(os.fstat(file.fileno()).st_size), 0)
            # The rows are read in the file, those of another table are not.
            assert not embed.kernel.run(None, {"ids": ids})[0].any()
        found = embed_other.kernel.run(None, {"ids": ids[:256]})[0]
        np.testing.assert_array_equal(found, expected(other, ids[:256]))
    del product


def test_a_graph_that_is_closed_before_the_others_are_open_gets_no_matrix(operator: OpenOperator) -> None:
    table, ids = drawn_table(256, 8), np.arange(4)
    with SharedColumns(operator.library):  # type: ignore[attr-defined]
        opened(operator, table, ids)
        product = opened_product(operator, table)
    assert product.kernel.run(None, {"x": np.full((1, 8), 128, np.uint8)})[0].shape == (1, 256)

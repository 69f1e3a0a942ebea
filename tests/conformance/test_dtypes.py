"""Every op in every dtype that it takes gives what its typing rule declares, on every backend: nothing drifts."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance.bed import Bed
from tests.runtime.cupy.cases import Case, all_cases
from vxgraph.errors import BindError
from vxgraph.ir.types import DTYPES, DType, TensorType, dtype_of, f32
from vxgraph.ops import Div, MatMul, QuantizedMatMul
from vxgraph.runtime.backends.cupy import CupyBackend
from vxgraph.runtime.backends.numpy.kernels import compile_kernel
from vxgraph.topology.ids import GPU


def one_of_each() -> list[Case]:
    """The first case of each op in each set of operand and result dtypes."""
    found: dict[tuple[str, ...], Case] = {}
    for case in all_cases():
        if not (case.large or case.same or case.shift):
            key = (case.op.name, *(t.dtype.name for t in (*case.types, *case.outs)))
            found.setdefault(key, case)
    return list(found.values())


CASES = one_of_each()


@pytest.mark.case("N11")
def test_the_table_has_every_op_in_more_than_one_dtype() -> None:
    dtypes: dict[str, set[str]] = {}
    for case in CASES:
        dtypes.setdefault(case.op.name, set()).update(t.dtype.name for t in case.outs)
    fixed = {"argmax", "compare", "size", "sample"}  # theirs is stated, whatever the operands'
    assert {name for name, found in dtypes.items() if len(found) < 2} <= fixed
    assert len(dtypes) >= 35


@pytest.mark.case("N11")
def test_every_op_gives_the_declared_dtype_and_the_references_values(closed_bed: Bed) -> None:
    bed = closed_bed
    bed.open()
    for case in CASES:
        kernel = bed.backend.kernel(case.op, case.types, case.outs, GPU[1])
        operands = tuple(bed.put(a, GPU[1]) for a in case.operands)
        outs = tuple(bed.empty(t.dtype, t.shape(case.sizes), GPU[1]) for t in case.outs)
        with bed.backend.scope():
            event = bed.backend.dispatch(kernel, operands, outs, GPU[1], sizes=case.sizes)
        bed.backend.wait(event)
        for out, t in zip(outs, case.outs, strict=True):
            case.check(bed.get(out, np.zeros(t.shape(case.sizes), t.dtype.numpy), GPU[1]))
        for tensor in (*operands, *outs):
            bed.backend.free(tensor.buffer, GPU[1])


@pytest.mark.case("N11")
def test_numpys_own_results_have_the_declared_dtype() -> None:
    """A fast kernel writes into what it is given; the reference makes its own, and NumPy's promotion shows there."""
    for case in CASES:
        with np.errstate(all="ignore"):
            results = case.op.reference(case.sizes, *case.operands)
        assert [(r.dtype, r.shape) for r in results] == [(t.dtype.numpy, t.shape(case.sizes)) for t in case.outs]
        compile_kernel(case.op, case.types, case.outs, GPU[0])


@pytest.mark.case("N11")
def test_a_scale_by_a_square_root_stays_in_its_dtype(bed: Bed) -> None:
    """NumPy alone makes float64 of `f32_array / np.sqrt(64)`."""
    for dtype in (d for d in DTYPES.values() if d.kind == "float"):
        x, root = np.full((2, 3), 8, dtype.numpy), np.asarray(np.sqrt(64), dtype.numpy)
        t = TensorType(dtype, (2, 3))
        result, _ = bed.apply(Div(), [bed.put(x, GPU[0]), bed.put(root, GPU[0])], (t, TensorType(dtype, ())), GPU[0])
        found = bed.get(result, x, GPU[0])
        assert (dtype_of(found), found.tolist()) == (dtype, [[1.0] * 3] * 2)


@pytest.mark.case("N11")
@pytest.mark.parametrize(("name", "bound"), [("f32", 1e-5), ("f16", 1e-3), ("bf16", 8e-3)])
def test_a_product_accumulates_in_f32_and_is_rounded_once(bed: Bed, name: str, bound: float) -> None:
    """TF32 would be off by 3e-4, and f16 sums of 1024 terms by far more than one rounding."""
    dtype: DType = DTYPES[name]
    rng = np.random.default_rng(7)
    a, b = (rng.uniform(0.5, 1.5, (64, 64 * k)).astype(np.float32).astype(dtype.numpy) for k in (16, 16))
    b = np.ascontiguousarray(b.T)
    types = (TensorType(dtype, a.shape), TensorType(dtype, b.shape))
    result, _ = bed.apply(MatMul(), [bed.put(a, GPU[0]), bed.put(b, GPU[0])], types, GPU[0])
    found = bed.get(result, np.zeros((64, 64), dtype.numpy), GPU[0]).astype(np.float64)
    wanted = a.astype(np.float64) @ b.astype(np.float64)
    assert np.abs(found / wanted - 1).max() <= bound


def test_the_declared_dtype_is_the_results_own(bed: Bed) -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    result, _ = bed.apply(MatMul(), [bed.put(x, GPU[0]), bed.put(x.T.copy(), GPU[0])], (f32[3, 4], f32[4, 3]), GPU[0])
    np.testing.assert_array_equal(bed.get(result, np.zeros((3, 3), np.float32), GPU[0]), x @ x.T)


@pytest.mark.parametrize("stored", ["f16", "bf16", "i8"])
@pytest.mark.parametrize("rows", [1, 3])
def test_stored_weights_are_computed_with_in_f32_or_refused_by_name(bed: Bed, stored: str, rows: int) -> None:
    """A wrong product would be silent; a backend without the kernel says so before anything runs."""
    rng = np.random.default_rng(9)
    x, scale = rng.standard_normal((rows, 64), np.float32), rng.uniform(0.5, 1.5, 40).astype(np.float32)
    weight = (20 * rng.standard_normal((40, 64))).astype(DTYPES[stored].numpy)
    quantised = stored == "i8"
    op = QuantizedMatMul() if quantised else MatMul(True)
    operands = (x, weight, scale) if quantised else (x, weight)
    types = tuple(TensorType(dtype_of(a), a.shape) for a in operands)
    tensors = [bed.put(a, GPU[0]) for a in operands]
    if isinstance(bed.backend, CupyBackend):
        with pytest.raises(BindError) as error:
            bed.apply(op, tensors, types, GPU[0])
        assert str(error.value) == (
            f"{op.name} on gpu:0: cupy has no kernel for {op.name} in f32, {stored}; "
            "bind its topology to numpy, or leave it out"
        )
        return
    result, _ = bed.apply(op, tensors, types, GPU[0])
    exact = x.astype(np.float64) @ weight.astype(np.float64).T * (scale if quantised else 1)
    found = bed.get(result, np.zeros((rows, 40), np.float32), GPU[0])
    np.testing.assert_allclose(found, exact, rtol=0, atol=1e-5 * np.abs(exact).max())

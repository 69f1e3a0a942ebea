"""Files are whole or not there."""

from __future__ import annotations

import stat
from pathlib import Path

import numpy as np
import pytest

from vxgraph.errors import VxError
from vxgraph.tools.files import write_arrays, write_bytes, write_text


def test_what_is_written_reads_back_and_nothing_else_is_left(tmp_path: Path) -> None:
    write_text(tmp_path / "a.txt", "é")
    write_bytes(tmp_path / "a.bin", b"\x00\x01")
    write_arrays(tmp_path / "a.npz", {"file": np.arange(3)})
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "é"
    assert (tmp_path / "a.bin").read_bytes() == b"\x00\x01"
    with np.load(tmp_path / "a.npz") as held:
        assert held["file"].tolist() == [0, 1, 2]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.bin", "a.npz", "a.txt"]


def test_others_may_read_what_they_may_read_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    write_text(tmp_path / "ours", "")
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("plain", "ours")}
    assert len(modes) == 1


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    class Broken:
        def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
            raise RuntimeError("no bytes")

    write_arrays(tmp_path / "a.npz", {"a": np.arange(3)})
    with pytest.raises(RuntimeError):
        write_arrays(tmp_path / "a.npz", {"a": Broken()})  # type: ignore[dict-item]
    assert [p.name for p in tmp_path.iterdir()] == ["a.npz"]
    with np.load(tmp_path / "a.npz") as held:
        assert held["a"].tolist() == [0, 1, 2]


def test_a_folder_that_is_not_there_is_one_message(tmp_path: Path) -> None:
    path = tmp_path / "no" / "a.txt"
    with pytest.raises(VxError) as caught:
        write_text(path, "")
    assert str(caught.value) == f"{path}: cannot write: No such file or directory"

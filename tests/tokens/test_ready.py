"""Ready-made token files: read as they are, refused where they cannot be what they are said to be."""

import numpy as np
import pytest

from umsicht.findings import UserError
from umsicht.tokens import PackedSource
from umsicht.tokens.ready import ReadyMade, open_files, read_ids

EOS = 9


@pytest.fixture
def ids():
    made = np.random.default_rng(0).integers(10, 500, 5000)
    made[[99, 1999, 2000, 4500]] = EOS
    return made


def write(folder, kind, ids):
    path = folder / f"{kind}.bin"
    if kind == "npy":
        path = folder / "x.npy"
        np.save(path, ids.astype(np.uint32))
    elif kind == "header":
        head = np.zeros(256, np.int32)
        head[:3] = (20240520, 1, len(ids))
        path.write_bytes(head.tobytes() + ids.astype(np.uint16).tobytes())
    else:
        path.write_bytes(ids.astype(np.uint16).tobytes())
    return path


@pytest.mark.parametrize("kind", ["raw", "header", "npy"])
def test_documents_are_what_lies_between_end_tokens(tmp_path, ids, kind):
    data = open_files([write(tmp_path, kind, ids)], [], ReadyMade(500, EOS))
    assert data.train.lengths.tolist() == [100, 1900, 1, 2500, 499]
    joined = np.concatenate([data.train.document(i) for i in range(5)])
    assert np.array_equal(joined, ids)
    source = PackedSource(data.train, seq_len=64, batch_tokens=256, eos_id=EOS)
    assert source.batch(0).inputs.shape == (4, 64)


def test_without_an_end_token_a_file_is_one_document(tmp_path, ids):
    assert open_files([write(tmp_path, "raw", ids)], [], ReadyMade(500, None)).train.n_documents == 1


def test_32_bits_read_as_16_are_refused(tmp_path, ids):
    path = tmp_path / "wide.bin"
    path.write_bytes(ids.astype(np.uint32).tobytes())
    with pytest.raises(UserError, match="16"):
        open_files([path], [], ReadyMade(500, EOS))


def test_16_bits_read_as_32_are_refused(tmp_path, ids):
    with pytest.raises(UserError, match="uint32"):
        open_files([write(tmp_path, "raw", ids)], [], ReadyMade(500, EOS, dtype="uint32"))


def test_a_torn_file_is_refused(tmp_path, ids):
    path = write(tmp_path, "header", ids)
    path.write_bytes(path.read_bytes()[:-2])
    with pytest.raises(UserError, match="5000"):
        read_ids(path, "uint16")
    raw = write(tmp_path, "raw", ids)
    raw.write_bytes(raw.read_bytes()[:-1])
    with pytest.raises(UserError, match="9999"):
        read_ids(raw, "uint16")


def test_empty_and_missing_files_are_named(tmp_path):
    (tmp_path / "empty.bin").write_bytes(b"")
    with pytest.raises(UserError, match="no tokens"):
        open_files([tmp_path / "empty.bin"], [], ReadyMade(500, EOS))
    with pytest.raises(UserError, match="nowhere"):
        open_files([tmp_path / "nowhere.bin"], [], ReadyMade(500, EOS))


def test_a_foreign_vocabulary_is_refused(tmp_path, ids):
    with pytest.raises(UserError, match="100"):
        open_files([write(tmp_path, "raw", ids)], [], ReadyMade(100, EOS))

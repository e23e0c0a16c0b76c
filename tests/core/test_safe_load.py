"""Files that try to take memory or time, as somebody who means harm would make them."""

import io
import pickle
import zipfile
from collections import OrderedDict

import pytest
import torch
from torch import nn

from core.errors import CheckpointError
from core.safe_load import MoreThanWeightsError, load_plain


def saved(value, **options):
    target = io.BytesIO()
    torch.save(value, target, **options)
    return target.getvalue()


@pytest.mark.parametrize("legacy", [False, True])
def test_what_state_dicts_are_made_of_is_read(legacy):
    network = nn.Sequential(OrderedDict(conv=nn.Conv2d(1, 4, 3), norm=nn.BatchNorm2d(4)))
    content = {
        "weights": network.state_dict(), "parameters": dict(network.named_parameters()), "half": torch.ones(3).half(),
        "wide": torch.zeros(2, 3).bfloat16(), "plain": [1, 2.5, None, True, "x", (torch.Size([2]), torch.float32)],
    }  # fmt: skip
    found = load_plain(saved(content, _use_new_zipfile_serialization=not legacy), "x.pt")
    assert found["plain"] == content["plain"]
    assert all(torch.equal(found["weights"][name], value) for name, value in network.state_dict().items())
    assert torch.equal(found["wide"], content["wide"])


class Gigabytes:
    def __reduce__(self):
        return bytearray, (2**31 - 1,)


@pytest.mark.parametrize("kind", ["archive", "legacy", "bare"])
def test_a_small_file_that_asks_for_gigabytes_is_refused_before_it_gets_them(kind):
    greedy = [Gigabytes() for _ in range(50)]
    content = pickle.dumps(greedy, 2) if kind == "bare" else saved(greedy, _use_new_zipfile_serialization=kind == "archive")
    assert len(content) < 10_000
    with pytest.raises(MoreThanWeightsError, match="bytearray"):
        load_plain(content, "x.pt")


def test_a_view_of_one_number_as_a_large_tensor_is_refused():
    view = torch.zeros(1).expand(100_000, 100_000)
    with pytest.raises(CheckpointError, match="without the numbers for it"):
        load_plain(saved({"conv1.weight": view}), "x.pt")


def test_values_that_double_with_every_level_are_refused():
    value = [torch.zeros(1)]
    for _ in range(40):
        value = [value, value]
    with pytest.raises(CheckpointError, match="holds more values"):
        load_plain(saved(value), "x.pt")


def test_a_compressed_archive_may_not_unpack_to_more_than_the_limit():
    whole, packed = zipfile.ZipFile(io.BytesIO(saved(torch.zeros(3_000_000)))), io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in whole.namelist():
            archive.writestr(name, whole.read(name))
    assert len(packed.getvalue()) < 100_000
    with pytest.raises(CheckpointError, match="unpacks to"):
        load_plain(packed.getvalue(), "x.pt", limit=10_000_000)


def test_a_flipped_bit_is_noticed():
    content = bytearray(saved(torch.arange(1000.0)))
    content[content.index(torch.arange(1000.0).numpy().tobytes()[400:440])] ^= 1
    with pytest.raises(CheckpointError, match="checksum"):
        load_plain(bytes(content), "x.pt")

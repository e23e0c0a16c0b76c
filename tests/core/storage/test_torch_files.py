"""Files that try to take memory or time, as somebody who means harm would make them."""

import io
import pickle
import tracemalloc
import zipfile
from collections import OrderedDict
from time import perf_counter

import pytest
import torch
from torch import nn

from core.errors import CheckpointError
from core.storage.torch_files import MoreThanWeightsError, load_plain
from tests.helpers.zips import zipped


def saved(value, **options):
    target = io.BytesIO()
    torch.save(value, target, **options)
    return target.getvalue()


def test_what_state_dicts_are_made_of_is_read():
    network = nn.Sequential(OrderedDict(conv=nn.Conv2d(1, 4, 3), norm=nn.BatchNorm2d(4)))
    content = {
        "weights": network.state_dict(),
        "parameters": dict(network.named_parameters()),
        "half": torch.ones(3).half(),
        "wide": torch.zeros(2, 3).bfloat16(),
        "plain": [1, 2.5, None, True, "x", (torch.Size([2]), torch.float32)],
    }
    found = load_plain(saved(content), "x.pt")
    assert found["plain"] == content["plain"]
    assert all(torch.equal(found["weights"][name], value) for name, value in network.state_dict().items())
    assert torch.equal(found["wide"], content["wide"])


class Gigabytes:
    def __reduce__(self):
        return bytearray, (2**31 - 1,)


def test_a_small_file_that_asks_for_gigabytes_is_refused_before_it_gets_them():
    content = saved([Gigabytes() for _ in range(50)])
    assert len(content) < 10_000
    with pytest.raises(MoreThanWeightsError, match="bytearray"):
        load_plain(content, "x.pt")


GREEDY = saved([Gigabytes()])
HARMLESS = saved({"weight": torch.zeros(2)})
EMPTY_ZIP = b"PK\x05\x06" + bytes(18)


def parts_of(content):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def two_directories():
    """Python takes the directory before the end record, torch the one at the stated offset."""
    first = bytearray(zipped(parts_of(GREEDY).items()))
    place = first.rindex(b"PK\x05\x06")
    greedy, directory = bytes(first[:place]), int.from_bytes(first[place + 16 : place + 20], "little")
    second = zipped(parts_of(HARMLESS).items())
    end = bytearray(second[second.rindex(b"PK\x05\x06") :])
    start = int.from_bytes(end[16:20], "little")
    end[16:20] = directory.to_bytes(4, "little")
    return greedy + second[:start] + second[start : second.rindex(b"PK\x05\x06")] + bytes(end)


def many_values(count=400_000):
    return pickle.PROTO + b"\x02" + pickle.EMPTY_LIST + pickle.MARK + pickle.EMPTY_LIST * count + pickle.APPENDS + pickle.STOP


def with_pickle(data):
    parts = parts_of(HARMLESS)
    return zipped(
        [(name, data if name.endswith("data.pkl") else content) for name, content in parts.items()], zipfile.ZIP_DEFLATED
    )


TRICKS = {
    "an old file with an empty zip behind it": saved([Gigabytes()], _use_new_zipfile_serialization=False) + EMPTY_ZIP,
    "an old file": saved({"weight": torch.zeros(2)}, _use_new_zipfile_serialization=False),
    "a bare pickle": pickle.dumps([Gigabytes()], 2),
    "a name in another case": zipped([(name.replace("data.pkl", "data.PKL"), data) for name, data in parts_of(GREEDY).items()]),
    "the same name in two cases": zipped(
        [*parts_of(HARMLESS).items(), ("archive/DATA.pkl", parts_of(GREEDY)["archive/data.pkl"])]
    ),
    "a second end record": GREEDY + EMPTY_ZIP,
    "two directories": two_directories(),
    "values without end": with_pickle(many_values()),
    "names taken from the stack": with_pickle(pickle.dumps(Gigabytes(), 4)),
    "bzip2": zipped(parts_of(HARMLESS).items(), zipfile.ZIP_BZIP2),
    "LZMA": zipped(parts_of(HARMLESS).items(), zipfile.ZIP_LZMA),
    "TorchScript": zipped([*parts_of(HARMLESS).items(), ("archive/constants.pkl", b"."), ("archive/code/a.py", b"")]),
    "two folders": zipped([*parts_of(HARMLESS).items(), ("other/data.pkl", parts_of(GREEDY)["archive/data.pkl"])]),
    "complex numbers": saved(torch.zeros(2, dtype=torch.complex64)),
    "sparse numbers": saved(torch.eye(3).to_sparse()),
    "a number of a million digits": saved(10**4000),
}


@pytest.mark.filterwarnings("ignore:Duplicate name", "ignore:.*quantize")
@pytest.mark.parametrize("name", TRICKS)
def test_a_trick_is_refused_in_little_memory(name):
    """Each was read by PyTorch as something else than what was checked, or took far more than its size."""
    tracemalloc.start()
    began = perf_counter()
    with pytest.raises(CheckpointError):
        load_plain(TRICKS[name], "x.pt")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 60 * 2**20
    assert perf_counter() - began < 30  # a hang, not a speed


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

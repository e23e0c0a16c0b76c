import csv
import io
import zipfile
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image

from core.drawing.pins import MAX_PINS, add_pin, as_csv, as_digits, as_zip, load_pins, relabel_pin, remove_pin
from core.errors import DrawingError


def picture(seed):
    return np.random.default_rng(seed).integers(0, 256, (28, 28), np.uint8)


def test_pins_come_back_as_they_were(tmp_path):
    runs = tmp_path / "runs"
    assert load_pins(runs) == ()
    first, second = add_pin(runs, picture(1), 7), add_pin(runs, picture(2), 0)
    relabel_pin(runs, first.pin_id, 1)
    pins = load_pins(runs)
    assert [(pin.pin_id, pin.label) for pin in pins] == [(first.pin_id, 1), (second.pin_id, 0)]
    assert np.array_equal(pins[0].image, picture(1))
    digits = as_digits(pins)
    assert digits.images.shape == (2, 1, 28, 28)
    assert digits.labels.tolist() == [1, 0]
    remove_pin(runs, first.pin_id)
    remove_pin(runs, first.pin_id)
    assert [pin.pin_id for pin in load_pins(runs)] == [second.pin_id]


def test_there_are_ten_at_most_even_when_added_at_once(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda seed: _outcome(tmp_path, seed), range(14)))
    assert results.count("kept") == MAX_PINS
    assert all("Remove one first" in one for one in results if one != "kept")
    assert len(load_pins(tmp_path)) == MAX_PINS


def _outcome(runs, seed):
    try:
        add_pin(runs, picture(seed), seed % 10)
    except DrawingError as error:
        return str(error)
    return "kept"


@pytest.mark.parametrize("content", ["", "{", "[]", '{"drawings": [{"id": "a", "label": 11, "image": ""}]}'])
def test_a_damaged_file_is_told_and_kept(tmp_path, content):
    (tmp_path / "drawings.json").write_text(content)
    with pytest.raises(DrawingError, match="damaged"):
        load_pins(tmp_path)
    with pytest.raises(DrawingError, match="damaged"):
        add_pin(tmp_path, picture(1), 1)
    assert (tmp_path / "drawings.json").read_text() == content


def test_exports_hold_the_same_numbers(tmp_path):
    for label in (4, 9):
        add_pin(tmp_path, picture(label), label)
    pins = load_pins(tmp_path)
    header, *rows = csv.reader(io.StringIO(as_csv(pins).decode()))
    assert header[:2] == ["label", "pixel0"]
    assert len(header) == 785
    for row, pin in zip(rows, pins, strict=True):
        assert int(row[0]) == pin.label
        assert np.array_equal(np.array(row[1:], np.uint8).reshape(28, 28), pin.image)
    with zipfile.ZipFile(io.BytesIO(as_zip(pins))) as archive:
        assert archive.namelist() == ["4-01.png", "9-02.png"]
        for name, pin in zip(archive.namelist(), pins, strict=True):
            assert np.array_equal(np.asarray(Image.open(io.BytesIO(archive.read(name)))), pin.image)

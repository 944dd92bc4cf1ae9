"""Sizes and times: what is read, what is refused, and that printing loses nothing."""

import pytest
from hypothesis import given, strategies as st

from dlrun.model.units import Bytes, Duration


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("100B", 100),
        ("4GB", 4 * 10**9),
        ("4GiB", 4 * 2**30),
        ("4G", 4 * 10**9),
        ("4Gi", 4 * 2**30),
        ("512 mib", 512 * 2**20),
        ("1.5TB", 15 * 10**11),
        ("2PiB", 2 * 2**50),
        ("0B", 0),
    ],
)
def test_sizes(text, count):
    assert Bytes.parse(text) == count


@pytest.mark.parametrize(
    "text",
    [
        "100",
        "",
        "GB",
        "-4GB",
        "4 G B",
        "4XB",
        "4GBs",
        "1e3GB",
        "4GB 5MB",
        "\u0664GB",
        "4\u212aB",
        "9" * 400 + "GB",
    ],
)
def test_no_sizes(text):
    with pytest.raises(ValueError, match="is not a size"):
        Bytes.parse(text)


@given(st.integers(0, 10**18))
def test_a_size_is_printed_with_its_unit_and_at_most_a_rounding(count):
    size = Bytes(count)
    assert abs(Bytes.parse(str(size)) - count) <= count * 0.051
    assert Bytes(size).mebibytes() == count // 2**20


@given(st.integers(1, 999), st.integers(0, 5), st.booleans())
def test_a_round_size_is_printed_exactly(number, power, binary):
    size = Bytes(number * (1024 if binary else 1000) ** power)
    assert Bytes.parse(str(size)) == size


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90m", 5400),
        ("90min", 5400),
        ("4h", 14400),
        ("1d12h", 129600),
        ("1h30m", 5400),
        ("1.5h", 5400),
        ("45s", 45),
        ("2 h 5 m", 7500),
        ("10:00:00", 36000),
        ("01:00:00", 3600),
        ("00:00:30", 30),
        ("1-12:00:00", 129600),
        ("100:00:00", 360000),
    ],
)
def test_times(text, seconds):
    assert Duration.parse(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "30",
        "30:00",
        "",
        "h",
        "1x",
        "-1h",
        "10:60:00",
        "10:00:60",
        "1-1-1:00:00",
        "4h 3",
        "1:2:3",
        "\u0663h",
        "3\u017f",
        "9" * 400 + "h",
        "9" * 400 + ":00:00",
    ],
)
def test_no_times(text):
    with pytest.raises(ValueError, match="is not a time"):
        Duration.parse(text)


@given(st.integers(0, 10**8))
def test_a_time_survives_both_spellings(seconds):
    time = Duration(seconds)
    assert Duration.parse(str(time)) == time
    assert Duration.parse(time.clock()) == time

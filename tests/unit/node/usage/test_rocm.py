"""Outputs of `rocm-smi --json` that users of it have published, without the lines that are not read."""

from __future__ import annotations

import pytest
from dlrun.node.usage import gpus, rocm, vendor_program

# wandb/wandb, pull request 5449: ROCm 5 on a node with MI250X; two dies share a card, and the second one has no power
MI250X = """\
{"card6": {"GPU ID": "0x7408", "Unique ID": "0xff4251c4d1cac80b", "sclk clock speed:": "(1700Mhz)", "sclk clock level:": "1",
"Max Graphics Package Power (W)": "560.0", "Average Graphics Package Power (W)": "128.0", "GPU use (%)": "100",
"GFX Activity": "1141796410", "GPU memory use (%)": "0", "Memory Activity": "237430125",
"Card series": "AMD INSTINCT MI200 (MCM) OAM LC MBA HPE C2", "Card model": "FirePro W4300"},
"card7": {"GPU ID": "0x7408", "Unique ID": "0xff4251c4d1cac80c", "Temperature (Sensor edge) (C)": "51.0",
"Temperature (Sensor junction) (C)": "53.0", "Temperature (Sensor memory) (C)": "64.0", "fclk clock speed:": "(0Mhz)",
"sclk clock speed:": "(1700Mhz)", "sclk clock level:": "1", "Max Graphics Package Power (W)": "0.0",
"Average Graphics Package Power (W)": "N/A (Secondary die)"}}
"""
# sebhildebrandt/systeminformation, pull request 960: rocm-smi-lib 6.2.4, Radeon 780M
ROCM_6 = """\
{"card0": {"Device Name": "Phoenix3", "Unique ID": "N/A", "Temperature (Sensor edge) (C)": "31.0",
"mclk clock speed:": "(400Mhz)", "sclk clock speed:": "(800Mhz)", "Current Socket Graphics Package Power (W)": "7.222",
"GPU use (%)": "19", "GPU Memory Allocated (VRAM%)": "87", "Memory Activity": "N/A"}}
"""
# marimo-team/marimo, issue 9237
RX_7900 = """\
{"card0": {"GPU use (%)": "0", "VRAM Total Memory (B)": "21458059264", "VRAM Total Used Memory (B)": "27856896",
"Card Series": "Radeon RX 7900 XT", "Card Model": "0x744c", "GUID": "26967", "GFX Version": "gfx1100"}}
"""
# wandb/wandb, issue 7319: the job was granted none
NONE = 'WARNING: No AMD GPUs specified\n{"system": {"Driver version": "6.3.6"}}\n'


def rows(text: str) -> list[dict]:
    return [dict(zip(gpus.COLUMNS, rocm.row(card), strict=True)) for card in rocm.parse(text)]


def test_two_dies_of_a_card():
    first, second = rows(MI250X)
    assert (first["busy"], first["memory_busy"], first["power"], first["clock"]) == (100, 0, 128, 1700)
    assert (second["busy"], second["power"], second["clock"], second["temperature"]) == (None, None, 1700, 51)
    described = [rocm.describe_card(card) for card in rocm.parse(MI250X)]
    assert [one["uuid"] for one in described] == ["0xff4251c4d1cac80b", "0xff4251c4d1cac80c"]
    assert described[0]["name"] == "AMD INSTINCT MI200 (MCM) OAM LC MBA HPE C2"


def test_names_of_rocm_6():
    (one,) = rows(ROCM_6)
    assert (one["busy"], one["power"], one["clock"], one["temperature"]) == (19, 7, 800, 31)
    assert rocm.describe_card(rocm.parse(ROCM_6)[0])["uuid"] == ""


def test_memory():
    (one,) = rows(RX_7900)
    assert one["memory"] == 27856896
    assert rocm.describe_card(rocm.parse(RX_7900)[0])["memory"] == 21458059264


@pytest.mark.parametrize("text", [NONE, "", "ERROR: 2 GPU[0]\n", '{"card0": 1}', '{"card0": {'])
def test_what_has_no_card_is_refused(text):
    with pytest.raises(OSError, match="no card"):
        rocm.parse(text)


def test_the_program_is_asked_once_a_minute(tmp_path, monkeypatch):
    count = tmp_path / "count"
    program = tmp_path / "rocm-smi"
    program.write_text(f"#!/bin/sh\necho x >>{count}\ncat <<'END'\n{RX_7900}END\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    looked = rocm.open_rocm()
    assert looked.describe()[0]["name"] == "Radeon RX 7900 XT"
    assert looked.rows() == looked.rows()
    assert count.read_text() == "x\n"
    monkeypatch.setattr(vendor_program, "MIN_INTERVAL", 0.0)
    program.write_text("#!/bin/sh\nexit 1\n")
    assert looked.rows()[0][2] == 27856896  # the last numbers stay

"""Fuzz one target: `python -m tests.fuzz.one TARGET FOLDER... [options of libFuzzer]`; atheris has to be installed."""

import sys

import atheris

with atheris.instrument_imports(include=["daemon", "schemas"]):
    from tests.fuzz.targets import TARGETS

if __name__ == "__main__":
    atheris.Setup([sys.argv[0], *sys.argv[2:]], TARGETS[sys.argv[1]].run)
    atheris.Fuzz()

"""The variables CUDML_…: what is out of range is refused by the first call, whatever it is."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

import cudml
from array_support import LABELS, child, child_says
from harness import refused
from kernel_case import environment

# For each set of variables a process that has called nothing yet, and for each kind of call in it a
# line of JSON: the number of the set, the kind, what was raised, its text.
CALLS = f"""
import json, os, sys
import numpy as np
import cudml
from array_support import make
from cudml.directml import BufferTensorDesc as T, PaddingOperatorDesc as Desc

desc = Desc(InputTensor=T('FLOAT32', [3]), OutputTensor=T('FLOAT32', [6]),
            PaddingMode='WRAP', PaddingValue=0, StartPadding=[1], EndPadding=[2])
pad = cudml.Operator(desc)
x = np.zeros(3, 'f4')
calls = {{'PADDING': lambda: pad.compile('cpu')(x),
         'padding explain': lambda: cudml.explain('padding', x, 1, 1),
         'padding on': lambda: cudml.explain('padding', x, 1, 1, device='sm_90'),
         'get_num_threads': cudml.get_num_threads,
         'set_num_threads': lambda: cudml.set_num_threads(2)}}
for label in {LABELS!r}:
    calls[label] = make(label).run
for number, variables in enumerate(json.loads(sys.argv[1])):
    if os.fork():
        assert os.wait()[1] == 0
        continue
    os.environ.update(variables)
    for name, call in calls.items():
        try:
            call()
        except Exception as error:
            said = type(error).__name__, str(error)
        else:
            said = 'done', ''
        print(json.dumps([number, name, *said]), flush=True)
    os._exit(0)
"""
WHOLE = "it must be a whole number from {} to {}"
WRONG = {
    "CUDML_NUM_THREADS": (
        WHOLE.format(1, 1024),
        ("abc", "0", "1025", "-1", "2x", " ", " 2", "+2", "1.5", "0x2", "9" * 20),
    ),
    "CUDML_THREADS": ('it must be "auto" or "own"', ("2", "OWN", "own ", "openmp")),
    "CUDML_STREAM_BYTES": (WHOLE.format(0, 2**63 - 1), ("-3", "1e6", "64k", "inf", str(2**63))),
    "CUDML_PREFETCH": ('it must be "runs" or "apart"', ("all", "RUNS", "apart ", "0")),
    "CUDML_LOG": ('it must be "debug" or "off"', ("info", "DEBUG", "1", "debug ")),
    "CUDML_KERNEL": ("it must be one of pool_", ("nonsense", "pool_generic ", "PAD_GENERIC")),
}


Said = dict[str, tuple[str, str]]


def said(*sets: dict[str, str]) -> list[Said]:
    """For each set of variables what every kind of call ends in: an exception's name, its text."""
    result: list[Said] = [{} for _ in sets]
    for line in child_says(CALLS, json.dumps(sets)).splitlines():
        number, name, kind, text = json.loads(line)
        result[number][name] = kind, text
    return result


def test_every_call_refuses_what_is_out_of_range() -> None:
    """A ValueError with operator, variable, value and range, of every call and not only the first;
    a compiled operator says so when it is compiled."""
    pairs = [(name, value) for name, (_, values) in WRONG.items() for value in values]
    for (name, value), calls in zip(pairs, said(*({n: v} for n, v in pairs)), strict=True):
        for call, (kind, text) in calls.items():
            op = call.split("+")[0].split(" ")[0]
            begin = f'{op}: {name} is "{value}"; {WRONG[name][0]}'
            assert (kind, text[: len(begin)]) == ("ValueError", begin), call


def test_what_cannot_be_printed_is_escaped_and_what_is_long_is_cut() -> None:
    (calls,) = said({"CUDML_LOG": "\x07 \udcff é" + "x" * 10_000})
    _, text = calls["padding"]
    assert text.startswith(r'padding: CUDML_LOG is "\x07 \xff éxxx') and len(text) < 400


# Characters at the ends of what each number of bytes holds; then bytes that are none: too long a
# form of one, surrogates, beyond the last one, a character that is cut, and bytes by themselves.
CHARACTERS = ("\x7e\u00a0\u07ff\u0800\ud7ff\ue000\uffff\U00010000\U0010ffff".encode(),)
BROKEN = (b"\xc0\x80", b"\xc1\xbf", b"\xe0\x9f\xbf", b"\xf0\x8f\xbf\xbf", b"\xed\xa0\x80",
          b"\xf4\x90\x80\x80", b"\xf5\x80\x80\x80", b"\xe2\x82", b"\xc2x", b"\x80\xbf")  # fmt: skip


def test_bytes_that_are_no_characters_are_escaped() -> None:
    texts = [b"a" + value + b"z" for value in CHARACTERS + BROKEN]
    for text, calls in zip(
        texts, said(*({"CUDML_LOG": os.fsdecode(t)} for t in texts)), strict=True
    ):
        want = text.decode("utf-8", "backslashreplace")
        assert calls["padding"][1].startswith(f'padding: CUDML_LOG is "{want}"; it must be'), want


def test_values_at_the_ends_of_the_ranges_and_empty_ones() -> None:
    names = ("CUDML_NUM_THREADS", "CUDML_STREAM_BYTES", "CUDML_LOG", "CUDML_KERNEL",
             "CUDML_THREADS", "CUDML_PREFETCH")  # fmt: skip
    ends = [
        ("1", "0", "off", "pool_generic", "auto", "runs"),
        ("1024", str(2**63 - 1), "0", "mvn_generic", "own", "apart"),
    ]
    sets = [dict(zip(names, values, strict=True)) for values in [*ends, ("",) * 6]]
    for calls in said(*sets, {"OMP_NUM_THREADS": "nonsense"}):
        assert {kind for kind, _ in calls.values()} == {"done"}
    assert child_says("import cudml; cudml.get_num_threads()", CUDML_CPU_ISA="") == ""


def test_import_and_what_runs_nothing_do_not_care() -> None:
    variables = {name: values[0] for name, (_, values) in WRONG.items()}
    script = (
        "import cudml, cudml.reference, cudml.bounds\n"
        "print(cudml.__version__, len(cudml.kernels('pool')), cudml.cache_info().hits)"
    )
    assert child_says(script, **variables).startswith(f"{cudml.__version__} ")


def test_the_kernel_is_read_at_every_call() -> None:
    """A name may come and go while the process runs; on the CPU it forces nothing."""
    x = np.zeros((1, 1, 4, 4), np.float32)
    for _ in range(2):
        with (
            environment(CUDML_KERNEL="fastest"),
            refused(ValueError, 'max_pooling: CUDML_KERNEL is "fastest"', "pool_generic", "mvn_"),
        ):
            cudml.max_pooling(x, 2)
        with environment(CUDML_KERNEL="pool_generic"):
            cudml.max_pooling(x, 2)


@pytest.mark.parametrize("command", ["info", "selfcheck --quick", "demo", "explain padding"])
def test_commands_end_in_one_line(command: str) -> None:
    words = command.split() + (["--shape", "3"] if "explain" in command else [])
    script = f"from cudml.__main__ import main; raise SystemExit(main({words!r}))"
    done = child(script, CUDML_NUM_THREADS="abc")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f'cudml {words[0]}: CUDML_NUM_THREADS is "abc"; it must be')
    assert done.stderr.count("\n") == 1

"""The command line: ``python -m cudml demo | explain | info | selfcheck``."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence

import cudml
from cudml._cli.failure import Failure


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status: 0 good, 1 a mismatch, 2 could not be run."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # file names may hold what a terminal cannot show
            stream.reconfigure(errors="backslashreplace")
    parser = _parser()
    options, words = parser.parse_known_args(arguments)
    if options.command == "explain":  # argparse gives up on words behind options
        options.argument += [word for word in words if not word.startswith("-")]
        words = [word for word in words if word.startswith("-")]
    if words:
        parser.error(f"unrecognized arguments: {' '.join(words)}")
    try:
        if options.command is None:
            parser.print_help()
            return 0
        _check_environment(f"cudml {options.command}")
        status = _run(options)
        sys.stdout.flush()
        return status
    except Failure as failure:
        print(f"cudml {options.command}: {failure}", file=sys.stderr)
        return failure.status
    except BrokenPipeError:  # the reader has gone; keep the interpreter's last flush quiet
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return 130


def _check_environment(name: str) -> None:
    """Every command refuses what is out of range in the variables CUDML_…"""
    try:
        cudml._core.check_environment(name)
    except ValueError as error:
        raise Failure(str(error).removeprefix(f"{name}: ")) from None


def _run(options: argparse.Namespace) -> int:
    """Each command is imported when it is asked for, so that the others do not wait for it."""
    if options.command == "demo":
        from cudml._cli import demo

        return demo.run(options.image, options.output)
    if options.command == "explain":
        from cudml._cli import explain

        return explain.run(
            options.operator,
            options.shape,
            options.dtype,
            options.order,
            options.device,
            options.json,
            options.argument,
        )
    if options.command == "info":
        from cudml._cli import info

        return info.run(options.json)
    from cudml._cli import selfcheck

    return selfcheck.run(options.quick, options.json, options.seed, options.case)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m cudml",
        description="DirectML's pooling, padding and mean-variance normalization operators.",
    )
    parser.add_argument("--version", action="version", version=f"cudml {cudml.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="command")
    demo = commands.add_parser("demo", help="every operator on a photograph, with a figure")
    demo.add_argument(
        "image", nargs="?", metavar="IMAGE", help="your photograph (default: matplotlib's)"
    )
    demo.add_argument(
        "--output", default="cudml-demo.png", metavar="PNG", help="default: %(default)s"
    )
    _add_explain(commands)
    info = commands.add_parser("info", help="version, build, processor, threads, CUDA")
    info.add_argument("--json", action="store_true", help="print one JSON object")
    check = commands.add_parser("selfcheck", help="compare every operator with the reference")
    check.add_argument("--quick", action="store_true", help="fewer cases, in a few seconds")
    check.add_argument("--json", action="store_true", help="print one JSON object")
    check.add_argument("--seed", type=_seed, default=0, metavar="N", help="default: %(default)s")
    check.add_argument("--case", metavar="FAMILY/TYPE/NUMBER", help="run only this case")
    return parser


def _add_explain(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    explain = commands.add_parser("explain", help="which kernel a call would run on, and why")
    explain.add_argument("operator", metavar="OPERATOR", help="such as max_pooling")
    explain.add_argument(
        "argument",
        nargs="*",
        metavar="NAME=VALUE",
        help="the operator's arguments; arrays are shapes, as in scale=1,64,1,1 or "
        "scale=float32:1,64,1,1",
    )
    explain.add_argument("--shape", required=True, metavar="N,N,…", help="sizes of the first array")
    explain.add_argument("--dtype", default="float32", metavar="TYPE", help="default: %(default)s")
    explain.add_argument(
        "--order", metavar="AXIS,…", help="dimensions in memory, outermost first: 0,2,3,1 is NHWC"
    )
    explain.add_argument(
        "--device", metavar="DEVICE", help="cpu (the default), cuda, cuda:0, sm_75 … sm_120"
    )
    explain.add_argument("--json", action="store_true", help="print one JSON object")


def _seed(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 0")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())

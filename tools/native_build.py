"""Builds the extension modules: writes a ninja file for each and runs it.

`cudml._core` is the product. `cudml._simt` is the same library with the CUDA kernels compiled by
the host compiler for the executor of csrc/simt; tests import it from the build folder, and no
wheel contains it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import platform
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import cuda_toolkit
from build_needs import check_tools, compiler

ROOT = Path(__file__).resolve().parent.parent
CSRC = ROOT / "csrc"
COMMON = ["-std=c++20", f"-I{CSRC}", f"-I{ROOT / 'include'}"]
WARNED = [
    *("-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-Wno-unknown-pragmas"),
    *("-fno-math-errno", "-fno-trapping-math"),  # neither changes a result
    "-ffp-contract=off",  # products are fused where fused() says so, whatever compiler it is
]
GXX = [*WARNED, "-DNDEBUG"]
# The standard library checks its subscripts, and each line of the source is in the code.
DEBUG = ["-O1", "-g", "-D_GLIBCXX_ASSERTIONS", *WARNED]
DEPENDENCIES = "$flags -MD -MF $out.d -c $in -o $out"
# What plans, checks and explains moves no data: small, it takes as long.
SMALL = ["-Os"]
# Vector loops as -O3 makes them, without its copies of loops.
LEAN = ["-O2", "-ftree-vectorize", "-fvect-cost-model=dynamic"]
# Blocks of gradients are small arrays, which -O3 unrolls into registers: 3 to 4 times faster so.
FLAGS_OF = {"cpu/pool_grad/average_paths.cpp": "-O3", "cpu/pool_grad/max_paths.cpp": "-O3"}
# Base first: the linker keeps the first copy of an inline function it meets. Processors that need
# it are older than 2013: it is kept small, half of what LEAN makes of it. A wheel has 8 MB.
X86_LEVELS = {
    "base": ["-Os"],
    "v3": ["-march=x86-64-v3"],
    "v4": ["-march=x86-64-v4", "-mprefer-vector-width=512"],
}
# Each file of the bindings by itself spends four seconds of five on what pybind11 brings along.
BINDINGS_UNITS = 4
PYBIND11 = "#include <pybind11/pybind11.h>\n#include <pybind11/stl.h>\n"
CPU_ONCE = [
    "cpu/isa/choose.cpp",
    "cpu/isa/dispatch.cpp",
    "cpu/isa/processor.cpp",
    "cpu/threads/arena.cpp",
    "cpu/threads/interrupt.cpp",
    "cpu/threads/openmp.cpp",
    "cpu/threads/openmp_members.cpp",
    "cpu/threads/parallel.cpp",
    "cpu/threads/placement.cpp",
    "cpu/threads/thread_pool.cpp",
]
# A sanitizer must name the kernel's line and the call that led to it.
SANITIZED = ["-g1", "-fno-omit-frame-pointer", "-fno-sanitize-recover=undefined"]


def is_x86_64():
    return platform.machine().lower() in ("x86_64", "amd64")


def version():
    return re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.M).group(1)


def toolkit():
    """The CUDA toolkit to build with, or None and the reason."""
    wish = os.environ.get("CUDML_CUDA", "auto")
    if wish not in ("auto", "on", "off"):
        raise SystemExit(f'CUDML_CUDA is "{wish}"; it must be auto, on or off')
    if wish == "off":
        return None, "switched off by CUDML_CUDA=off when the package was built"
    found = cuda_toolkit.find()
    if found is None and wish == "on":
        raise SystemExit("CUDML_CUDA=on, but no CUDA toolkit was found; set CUDML_CUDA_HOME")
    return found, "" if found else "no CUDA toolkit was found when the package was built"


def sources(folder, pattern="*.cpp", without=()):
    """The sources of a room, but for those named from csrc on."""
    found = sorted((CSRC / folder).glob(pattern))
    return [path for path in found if path.relative_to(CSRC).as_posix() not in without]


def cpu_sources():
    """What is compiled once for each instruction set."""
    return sources("cpu", "**/*.cpp", without=CPU_ONCE)


def object_of(rule, source):
    """The file that a rule makes of a source of csrc, or of one that the build has written."""
    base = CSRC if CSRC in source.parents else source.parent
    return f"{rule}/{source.relative_to(base).as_posix().replace('/', '_')}.o"


def define(name, value):
    return f"'-D{name}=\"{value}\"'"


class Ninja:
    """The text of a build.ninja: rules, then one edge for each object, in link order."""

    def __init__(self):
        self.lines, self.objects, self.headers = ["ninja_required_version = 1.5"], [], {}
        self.flags_of = FLAGS_OF

    def rule(self, name, command, dependencies=True):
        command = " ".join(str(part) for part in command)
        self.lines += [f"rule {name}", f"  command = {command}", f"  description = {name} $out"]
        if dependencies:
            self.lines += ["  depfile = $out.d", "  deps = gcc"]

    def compile(self, rule, source):
        self.objects.append(object_of(rule, source))
        header = self.headers.get(rule)
        needs = f" | {header}" if header else ""
        self.lines.append(f"build {self.objects[-1]}: {rule} {source}{needs}")
        first = f"-include {header.removesuffix('.gch')} " if header else ""
        own = next((flags for name, flags in self.flags_of.items() if source == CSRC / name), "")
        self.lines.append(f"  flags = {first}{own}")

    def precompile(self, rule, header):
        """Compiles a header once; every later source of the rule includes it first."""
        self.lines.append(f"build {header}.gch: {rule} {header}")
        self.lines.append("  flags = -x c++-header")
        self.headers[rule] = f"{header}.gch"

    def link(self, target):
        self.lines.append(f"build {target}: link {' '.join(self.objects)}")
        self.lines.append(f"default {target}")

    def write(self, folder):
        text = "\n".join(self.lines) + "\n"
        file = folder / "build.ninja"
        if not file.exists() or file.read_text() != text:
            file.write_text(text)


def write_once(file, text):
    if not file.exists() or file.read_text() != text:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def plain_rules(ninja, folder, command, facts, levels=(), small=SMALL):
    """Rules "cpp", "plans" and "bindings", and the sources that every build has."""
    import pybind11

    includes = [sysconfig.get_path("include"), pybind11.get_include()]
    isystem = [part for path in includes for part in ("-isystem", path)]
    ninja.rule("cpp", [*command, *levels, DEPENDENCIES])
    ninja.rule("plans", [*command, *small, *levels, DEPENDENCIES])
    ninja.rule("bindings", [*command, "-I.", *isystem, *facts, DEPENDENCIES])
    write_once(folder / "pybind11_parts.h", PYBIND11)
    ninja.precompile("bindings", "pybind11_parts.h")
    for room in ("core", "choose", "ops", "directml", "library"):
        for source in sources(room):
            ninja.compile("plans", source)
    for unit in united(folder, "bindings", sources("bindings"), BINDINGS_UNITS):
        ninja.compile("bindings", unit)


def united(folder, name, files, count):
    """Writes `count` sources that include the files in turn, each about as many."""
    units = [folder / f"{name}_{i}.cpp" for i in range(count)]
    for i, unit in enumerate(units):
        part = files[i * len(files) // count : (i + 1) * len(files) // count]
        write_once(unit, "".join(f'#include "{file}"\n' for file in part))
    return units


def cpu_rules(ninja, command, levels):
    """csrc/cpu once per instruction set; what chooses among them, once."""
    for name in CPU_ONCE:
        ninja.compile("plans" if "/isa/" in name else "cpp", CSRC / name)
    for level, flags in levels.items():
        isa = [f"-DCUDML_ISA={level}", define("CUDML_ISA_NAME", level)]
        # The level's flags come after a file's own: "base" is small in every file.
        ninja.rule(f"cpu_{level}", [*command, *isa, DEPENDENCIES, *flags])
        for source in cpu_sources():
            ninja.compile(f"cpu_{level}", source)


def link_rule(ninja, command, flags, libraries):
    exports = f"-Wl,--version-script={CSRC / 'bindings' / 'exports.map'}"
    ninja.rule("link", [*command, "-shared", *flags, exports, "$in", *libraries, "-o $out"], False)
    ninja.link("module.so")


def facts_of(name, why, toolkit_version="", archs=()):
    return [
        f"-DCUDML_MODULE={name}",
        define("CUDML_VERSION", version()),
        define("CUDML_CUDA_WHY", why),
        define("CUDML_CUDA_TOOLKIT", toolkit_version),
        define("CUDML_CUDA_ARCHITECTURES", ",".join(archs)),
    ]


def nvcc_command(cuda):
    """nvcc; for the gates of continuous integration, the script that notes what it says."""
    if not os.environ.get("CUDML_KERNEL_REPORT"):
        return [cuda.nvcc]
    # The interpreter itself: an environment's name for it must not change the command.
    python = Path(sys.executable).resolve()
    return [python, ROOT / "tools" / "kernel_report.py", "compile", cuda.nvcc]


def sanitized_core_ninja(folder, sanitize):
    """The product without kernels under a sanitizer, with one table of loops, on x86-64 the v3."""
    watched = [f"-fsanitize={sanitize}", *SANITIZED]
    command = [*compiler(), *COMMON, "-O1", *GXX, *watched]
    ninja = Ninja()
    plain_rules(ninja, folder, command, facts_of("_core", "left out of this build"))
    for source in sources("cuda"):
        ninja.compile("cpp", source)
    cpu_rules(ninja, command, {"base": X86_LEVELS["v3"] if is_x86_64() else []})
    link_rule(ninja, [*compiler(), watched[0]], [], ["-lpthread"])
    return ninja


def optimized(ninja, debug):
    """Flags of plain sources, of the CPU's loops, of what is kept small, and of each level."""
    levels = X86_LEVELS if is_x86_64() else {"base": []}
    if not debug:
        return ["-O2", *GXX], [*LEAN, *GXX], SMALL, levels
    ninja.flags_of = {}
    return DEBUG, DEBUG, [], {**levels, "base": []}


def core_ninja(folder, debug=False):
    """The product: every instruction set of the CPU, and kernels where there is a toolkit."""
    cxx, (cuda, why) = compiler(), toolkit()
    archs = cuda_toolkit.architectures() if cuda else []
    ninja, libraries = Ninja(), ["-lpthread", "-ldl"]
    plain, loops, small, levels = optimized(ninja, debug)
    command, loops = [*cxx, *COMMON, *plain], [*cxx, *COMMON, *loops]
    facts = facts_of("_core", why, cuda.version if cuda else "", archs)
    several = ["-DCUDML_X86_LEVELS"] if is_x86_64() else []
    plain_rules(ninja, folder, command, facts, several, small)
    for source in sources("cuda", without=["cuda/absent.cpp"] if cuda else []):
        ninja.compile("plans", source)
    if cuda:
        host = "-Xcompiler=-fPIC,-fvisibility=hidden,-Wall,-Wextra"
        code = [*cuda_toolkit.code_flags(archs), "--compress-mode=size", "--threads=2"]
        code += ["-lineinfo"] if os.environ.get("CUDML_LINEINFO") == "1" else []
        code += ["--expt-relaxed-constexpr", host]
        ninja.rule("cuda", [*nvcc_command(cuda), *COMMON, "-O3", *code, DEPENDENCIES])
        for source in sources("cuda", "*.cu"):
            ninja.compile("cuda", source)
        libraries = [cuda.cudart, "-lrt", "-lpthread", "-ldl"]
    cpu_rules(ninja, loops, levels)
    link_rule(ninja, cxx, [*([] if debug else ["-s"]), "-Wl,--as-needed"], libraries)
    return ninja


def simt_commands(sanitize):
    """How the compiler is called for sources that include the executor's headers, and to link."""
    include = cuda_toolkit.headers()
    if include is None:
        raise SystemExit(
            "cudml._simt needs CUDA's headers: a toolkit, or pip install "
            + " ".join(f'"{name}"' for name in cuda_toolkit.HEADER_PACKAGES)
        )
    watched = [f"-fsanitize={sanitize}", *SANITIZED] if sanitize else []
    # Equal kernels must not become one function: each has a name of its own to be counted by.
    ours = [f"-I{CSRC / 'simt'}", *COMMON, "-O1", *GXX, "-fno-ipa-icf", "-isystem", include]
    return [*compiler(), *ours, *watched], [*compiler(), *watched[:1]]


def simt_ninja(folder, sanitize):
    """The kernels for the host, unstripped: their names are read from the module's symbols."""
    command, link = simt_commands(sanitize)
    ninja = Ninja()
    ninja.rule("kernels", [*command, "-x c++", DEPENDENCIES])
    for source in sources("cuda", "*.cu"):
        ninja.compile("kernels", source)
    for other, objects in taken(sanitize).items():
        ninja.objects += [str(folder_of(*other) / name) for name in objects]
    if sanitize != "thread":
        simt_host_rules(ninja, folder, command)
    link_rule(ninja, link, [], ["-lpthread", "-ldl"])
    return ninja


def simt_host_rules(ninja, folder, command):
    """Everything of `cudml._simt` but the kernels and what it takes from other builds."""
    # pybind11 keeps what two modules share apart by its version; this one shares nothing.
    facts = [*facts_of("_simt", "", "host SIMT executor"), "-DCUDML_SIMT"]
    facts.append("-DPYBIND11_INTERNALS_VERSION=1000")
    plain_rules(ninja, folder, command, facts)
    # ThreadSanitizer must not see the executor's own accesses, which stand in for the hardware.
    executor = [*simt_commands("")[0], "-O2", "-fno-tree-loop-distribute-patterns"]
    ninja.rule("executor", [*executor, DEPENDENCIES])
    for source in sources("simt", without=["simt/bindings.cpp"]):
        ninja.compile("executor", source)
    ninja.compile("bindings", CSRC / "simt" / "bindings.cpp")
    for source in sources("cuda", without=["cuda/absent.cpp"]):
        ninja.compile("cpp", source)
    cpu_rules(ninja, command, {})


def folder_of(name, sanitize=""):
    """Where a module's objects are, and the module itself until it is installed.

    "debug" stands in the place of a sanitizer.
    """
    tag = f"{sysconfig.get_platform()}-{sys.implementation.cache_tag}"
    watched = sanitize.replace(",", "-")
    kind = "" if name == "_core" and not watched else f"-{watched or 'plain'}"
    return ROOT / "build" / f"{name}{kind}-{tag}"


def taken(sanitize):
    """What a build of `cudml._simt` takes from others: (name, sanitize) and their objects.

    All of them take the CPU's kernels, which they do not call, from the product. What runs beside
    the interpreted kernels runs on one thread, so that ThreadSanitizer needs to see the kernels
    only. Those are linked first: the linker keeps the first copy of an inline function it meets.
    """
    found = {("_core", ""): [object_of("cpu_base", source) for source in cpu_sources()]}
    if sanitize == "thread":
        host = Ninja()
        simt_host_rules(host, folder_of("_simt"), [])
        found["_simt", ""] = host.objects
    return found


@contextlib.contextmanager
def locked(name):
    """Keeps other processes out while one builds."""
    (ROOT / "build").mkdir(exist_ok=True)
    with (ROOT / "build" / f"{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def write_commands(folder, file):
    """What compiles each source, for editors and analysers: compile_commands.json."""
    command = [sys.executable, "-m", "ninja", "-C", str(folder), "-t", "compdb"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    write_once(file, done.stdout)


def wished():
    """How the extension is to be built: "" or "debug"."""
    wish = os.environ.get("CUDML_BUILD", "release")
    if wish not in ("release", "debug"):
        raise SystemExit(f'CUDML_BUILD is "{wish}"; it must be release or debug')
    return "" if wish == "release" else wish


def ninja_of(name, sanitize, folder):
    if name == "_simt":
        return simt_ninja(folder, sanitize)
    if sanitize in ("", "debug"):
        return core_ninja(folder, debug=bool(sanitize))
    return sanitized_core_ninja(folder, sanitize)


def build(name, sanitize="", targets=()):
    """Builds `cudml.<name>`, "_core" or "_simt", or of it only `targets`; returns its file."""
    check_tools()
    if sanitize not in ("", "address,undefined", "thread" if name == "_simt" else "debug"):
        raise SystemExit(f'CUDML_SANITIZE is "{sanitize}"; it must be address,undefined or thread')
    for other, objects in taken(sanitize).items() if name == "_simt" else ():
        build(*other, objects)
    folder = folder_of(name, sanitize)
    with locked(folder.name):
        folder.mkdir(parents=True, exist_ok=True)
        ninja_of(name, sanitize, folder).write(folder)
        write_commands(folder, folder / "compile_commands.json")
        if name == "_core" and sanitize in ("", "debug"):  # where clangd looks: of the latest
            write_commands(folder, ROOT / "build" / "compile_commands.json")
        jobs = ["-j", os.environ["MAX_JOBS"]] if os.environ.get("MAX_JOBS") else []
        command = [sys.executable, "-m", "ninja", "-C", str(folder), *jobs, *targets]
        if subprocess.run(command).returncode:
            raise SystemExit("cudml: the C++ build failed; the compiler's message stands above")
    return folder / "module.so"

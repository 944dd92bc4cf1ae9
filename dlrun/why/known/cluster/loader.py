"""Errors of the loader of shared libraries, and of programs for another processor."""

from __future__ import annotations

from dlrun.why.known.form import Form, Writer

# ruff: noqa: E501 - a table
WRITERS = (
    Writer(
        name="the loader of libraries",
        source="https://man7.org/linux/man-pages/man8/ld.so.8.html",
        forms=(
            Form(
                cause="build-mismatch",
                texts=("{1}: cannot allocate memory in static TLS block",),
                source="https://github.com/pytorch/pytorch/issues/2575",
                means="a library was loaded too late: the memory that it needs at a program's start is used up by others ({1})",
                check="the order of imports, and which copies of that library the environment has",
                next="`environment.variables: {LD_PRELOAD: …}` with that library's path, or import its package before the others",
            ),
            # Cited by a program that may do without the library: neither raised, nor the loader's own line.
            Form(
                cause="missing-library",
                texts=(),
                regex=r"^(?!\W*(?:\[\S{1,40}\]:? |\d+: )?[\w.]*(?:Error|Exception): ).{0,200}?(?i:failed to|could not|unable to|load error)\b.{0,160}?([^\s'(]+\.so[^\s:]*): cannot open shared object file",
                source="https://man7.org/linux/man-pages/man8/ld.so.8.html",
                passing=True,
            ),
            Form(
                cause="permission",
                texts=("{1}: failed to map segment from shared object",),
                source="https://man7.org/linux/man-pages/man8/mount.8.html",
                means="a library lies on a file system from which nothing may be run (`noexec`), or the process has no memory left: {1}",
                check="`findmnt -T` of its directory, and `ulimit -v`",
                next="have it unpacked elsewhere: `environment.variables: {TMPDIR: …}` (`TORCH_EXTENSIONS_DIR`, `XDG_CACHE_HOME`) with a directory that is not mounted `noexec`",
            ),
            Form(
                cause="permission",
                texts=("{1}: cannot enable executable stack as shared object requires",),
                source="https://sourceware.org/glibc/wiki/Security%20Exceptions",
                means="the system refuses a library that asks for an executable stack: {1}",
                check="`readelf -lW FILE | grep GNU_STACK`",
                next="install a newer build of it, or clear the mark: `patchelf --clear-execstack FILE`",
            ),
            Form(
                cause="illegal-instruction",
                texts=(
                    "verify that both the operating system and the processor support Intel",
                    "This program was not built to run {1}",
                    "the CPU does not support the instruction set {1}",
                    "Your CPU does not support {1}",
                    "This version of {} requires {1}instructions",
                    "aren't available on your machine",
                ),
                regex=r"requires a CPU with (?:support\b|.*\b(?:SSE|AVX|FMA|POPCNT|F16C|BMI|AMX|NEON|SVE|VSX|x86-64-v))",
                source="https://www.intel.com/content/www/us/en/docs/cpp-compiler/developer-guide-reference/2021-8/x-qx.html",
                passing=True,
            ),
        ),
    ),
)

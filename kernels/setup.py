"""Builds the kernels. Without a C++ compiler the package is installed without them, and keeps the reason."""

import shutil
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import BaseError, CCompilerError

PACKAGE = Path("src/xuanzang/kernels")


class BuildKernels(build_ext):
    """Builds the library, or a text that says why there is none."""

    def build_extension(self, extension: Extension) -> None:
        """Build the library; if that fails, write the reason to a file next to it."""
        library = Path(self.get_ext_fullpath(extension.name))
        record = _record(library)
        record.unlink(missing_ok=True)
        try:
            super().build_extension(extension)
        except (BaseError, CCompilerError) as error:
            library.unlink(missing_ok=True)
            library.parent.mkdir(parents=True, exist_ok=True)
            record.write_text(self._reason(), encoding="utf-8")
            self.warn(f"the kernels were not built: {error}")

    def copy_extensions_to_source(self) -> None:
        """Copy the library or the text into the source tree, for an editable installation."""
        super().copy_extensions_to_source()
        [extension] = self.extensions
        library = Path(self.build_lib, self.get_ext_filename(extension.name))
        if library.exists():
            _record(PACKAGE / library.name).unlink(missing_ok=True)
        else:
            (PACKAGE / library.name).unlink(missing_ok=True)
            self.copy_file(str(_record(library)), str(PACKAGE))

    def _reason(self) -> str:
        """Return one of the reasons of xuanzang.kernels.Reason, and a line of detail."""
        [command, *_] = getattr(self.compiler, "compiler_so_cxx", self.compiler.compiler_so)
        if shutil.which(command):
            return f"compile_error\n{command} failed; `pip install --verbose` shows its messages\n"
        return f"no_compiler\nthere is no C++ compiler {command}\n"


def _record(library: Path) -> Path:
    return library.with_name("not_built.txt")


operators = Extension(
    "xuanzang.kernels._operators",
    sources=sorted(map(str, PACKAGE.glob("*.cc"))),
    depends=sorted(map(str, [*PACKAGE.glob("*.h"), *PACKAGE.glob("*.inc")])),
    extra_compile_args=["-std=c++17", "-O3", "-fvisibility=hidden", "-Wno-psabi"],
    # setuptools then accepts that there is nothing to copy.
    optional=True,
)
setup(ext_modules=[operators], cmdclass={"build_ext": BuildKernels})

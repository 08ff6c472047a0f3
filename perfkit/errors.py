"""The exceptions perfkit raises on purpose, and the exit code each one ends the command line with.

    PerfkitError                     4
    ├── UsageError                   2   wrong usage or input
    │   ├── ReportError              2   a report that cannot be read, or not in full
    │   ├── ConfigError              2   a TOML file (kernels, metrics, rules, claims) that is wrong
    │   └── NotComparableError       2   two launches that must not be compared
    ├── CannotError                  3   the environment cannot: no GPU, no ncu, no compiler, no permission
    ├── ToolError                    4   a tool perfkit started failed: ncu, nvcc, the program
    │   ├── CompileError             4   a CUDA source that does not compile
    │   └── ToolTimeoutError         4   a tool that ran past its limit
    └── CheckFailedError             1   a gate or a verification failed

Every message names the file, kernel or launch, says what happened, and `remedy` says what to do.
"""

from __future__ import annotations


class PerfkitError(Exception):
    """Base of everything perfkit raises on purpose. `remedy` is one or more lines of what to do."""

    exit_code = 4

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy


class UsageError(PerfkitError):
    """Wrong usage or input."""

    exit_code = 2


class ReportError(UsageError):
    """A report that cannot be read, or not in full."""


class ConfigError(UsageError):
    """A TOML file that is wrong; the message names file, key and line."""


class NotComparableError(UsageError):
    """Two launches that must not be compared; the message says why."""


class CannotError(PerfkitError):
    """The environment cannot do what was asked; the message names what is missing."""

    exit_code = 3


class ToolError(PerfkitError):
    """A tool perfkit started failed."""

    exit_code = 4


class CompileError(ToolError):
    """A CUDA source that does not compile; the message holds the compiler's own words, file and line."""


class ToolTimeoutError(ToolError):
    """A tool ran past its limit and was ended with its whole process group."""


class CheckFailedError(PerfkitError):
    """A gate or a verification failed."""

    exit_code = 1

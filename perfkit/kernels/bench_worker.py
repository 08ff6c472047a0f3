"""`python -m perfkit.kernels.bench_worker FD`: the process that measures for `perfkit bench`.

It owns the GPU and nothing else: the process that started it asks for one thing at a time over a socket
(file descriptor FD), one JSON object a line, and decides what to ask next. So the sampling of clocks, the
statistics and the stop rule stay out of the process whose launch loop is being timed, and a crash here is
an answer there.

Requests: {"op": NAME, ...}. Answers: {"ok": true, ...} or {"ok": false, "error": CLASS, "message",
"remedy"}. Names stand for launchers: `open` makes one from a KernelPlan (kernels/plan.py) and verifies it.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import socket
import sys
import tempfile
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfkit.errors import PerfkitError

if TYPE_CHECKING:
    from perfkit.kernels.launching import Launcher, Workspace
    from perfkit.kernels.measuring import Meter
    from perfkit.kernels.plan import KernelPlan
    from perfkit.kernels.verify import Verifier


class Worker:
    """Answers requests. Every `do_*` method is one request; its keyword arguments are the request's
    fields.
    """

    def __init__(self) -> None:
        self._launchers: dict[str, Launcher] = {}
        self._workspace: Workspace | None = None
        self._verifier: Verifier | None = None
        self._meter: Meter | None = None
        self._copies = itertools.count()
        self._folder = tempfile.TemporaryDirectory(prefix="perfkit-bench-")

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Do one request; errors become answers."""
        arguments = {name: value for name, value in request.items() if name != "op"}
        try:
            return {"ok": True, **getattr(self, f"do_{request['op']}")(**arguments)}
        except PerfkitError as error:
            return _failure(type(error).__name__, error.message, error.remedy)
        except Exception as error:  # noqa: BLE001 - the other side turns it into an error that names the kernel
            traceback.print_exc(file=sys.stderr)
            return _failure("ToolError", f"{type(error).__name__}: {error}", "")

    def do_hello(self, seed: int) -> dict[str, Any]:
        """Start CUDA; what GPU and which versions."""
        import platform

        from perfkit.kernels.launching import Workspace, gpu_info, import_cupy
        from perfkit.kernels.measuring import Meter
        from perfkit.kernels.verify import Verifier

        gpu = gpu_info()
        self._workspace = Workspace(seed)
        self._verifier = Verifier(self._workspace)
        self._meter = Meter()
        versions = {"cupy": import_cupy().__version__, "python": platform.python_version()}
        return {"gpu": dataclasses.asdict(gpu), "versions": versions}

    def do_open(self, name: str, plan: dict[str, Any]) -> dict[str, Any]:
        """Load a kernel, run it once, and verify what it wrote when the plan says so."""
        from perfkit.kernels.launching import Launcher

        assert self._workspace is not None
        assert self._verifier is not None
        kernel_plan = self._own_function(_kernel_plan(plan))
        launcher = Launcher(kernel_plan, self._workspace)
        launcher.ready()
        self._launchers[name] = launcher
        launcher.launch()
        self.do_wait()
        outcome = None
        if kernel_plan.verify:
            outcome = self._verifier.check(kernel_plan, launcher.read_outputs())
        return {
            "verification": dataclasses.asdict(outcome) if outcome else None,
            "facts": dataclasses.asdict(launcher.facts),
        }

    def _own_function(self, plan: KernelPlan) -> KernelPlan:
        """CuPy gives one function per cubin file, and attributes (shared memory, carve-out) belong to the
        function.

        k6b and k6b@1 in turn would each undo the other's: the second one is loaded from a copy of the file.
        """
        same = [one.plan for one in self._launchers.values() if one.plan.cubin == plan.cubin != ""]
        wanted = (plan.shared, plan.blocks_per_sm, plan.carveout)
        if all((one.shared, one.blocks_per_sm, one.carveout) == wanted for one in same):
            return plan
        copy = Path(self._folder.name) / f"{next(self._copies)}.cubin"
        copy.write_bytes(Path(plan.cubin).read_bytes())
        return dataclasses.replace(plan, cubin=str(copy))

    def do_wait(self) -> dict[str, Any]:
        """Wait for the GPU; an error of a launch surfaces here."""
        from perfkit.kernels.launching import import_cupy

        import_cupy().cuda.get_current_stream().synchronize()
        return {}

    def do_warm(self, name: str, seconds: float) -> dict[str, Any]:
        """Launch back to back for `seconds`; the launches made and s a launch."""
        launcher = self._launchers[name]
        launcher.ready()
        launches, each = self._timing().warm(launcher.launch, seconds)
        return {"launches": launches, "seconds": each}

    def do_batch(self, name: str, launches: int, inner: int, cold: bool, lead_in: bool) -> dict[str, Any]:
        """See Meter.batch."""
        batch = self._timing().batch(
            self._launchers[name].launch, launches, inner, cold=cold, lead_in=lead_in
        )
        return dataclasses.asdict(batch)

    def do_pairs(self, a: str, b: str, a_first: list[bool], inner: int, spin_cycles: int) -> dict[str, Any]:
        """See Meter.pairs."""
        from perfkit.kernels.measuring import PairPlan

        plan = PairPlan(self._launchers[a].launch, self._launchers[b].launch, a_first, inner, spin_cycles)
        return dataclasses.asdict(self._timing().pairs(plan))

    def do_clear(self) -> dict[str, Any]:
        """Forget every launcher and give the arrays back, before the next problem size."""
        self._launchers.clear()
        if self._workspace is not None and self._verifier is not None:
            self._workspace.clear()
            self._verifier.clear()
        return {}

    def _timing(self) -> Meter:
        assert self._meter is not None
        return self._meter


def _kernel_plan(raw: dict[str, Any]) -> KernelPlan:
    from perfkit.kernels.plan import ArgumentPlan, KernelPlan

    arguments = tuple(ArgumentPlan(**{**a, "shape": tuple(a["shape"])}) for a in raw["arguments"])
    sides = {name: tuple(raw[name]) for name in ("grid", "block")}
    return KernelPlan(**{**raw, **sides, "arguments": arguments})


def _failure(error: str, message: str, remedy: str) -> dict[str, Any]:
    return {"ok": False, "error": error, "message": message, "remedy": remedy}


def serve(connection: socket.socket) -> None:
    """Answer until the other side closes the connection."""
    worker = Worker()
    with connection, connection.makefile("rw", encoding="utf-8") as stream:
        for line in stream:
            stream.write(json.dumps(worker.answer(json.loads(line))) + "\n")
            stream.flush()


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))

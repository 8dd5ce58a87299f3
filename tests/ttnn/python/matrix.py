"""Finds out what of a release of ttnn can be tracked: every published wheel runs this.

Each part of the account is compared with what ttnn itself says of it, as in the other programs,
but a part that differs, or that this ttnn has no words for, does not keep the others from being
tried. Started without the attach library it does the same and compares nothing, which tells a
crash of ttnn from one of ours.

The summary has a line for each thing that is known, as `NAME: WHAT`, and is written as the program
goes on: one that crashes leaves the lines up to there.
"""

import os
import sys

import ttmem_account

RUNS_OF_EACH = 2


class Summary:
    """The summary, written line by line."""

    def __init__(self, path):
        self.path = path

    def say(self, name, what):
        line = " ".join(str(what).split())
        with open(self.path, "a", encoding="utf-8") as summary:
            summary.write(f"{name}: {line}\n")

    def say_status(self):
        """Where the hooks found the runtime, and how each family of them is."""
        if is_attached():
            for line in ttmem_account.hook_status().splitlines():
                self.say("status", line)


def is_attached():
    try:
        ttmem_account.preloaded()
    except RuntimeError:
        return False
    return True


def is_on(family):
    """Whether a family of hooks is."""
    return is_attached() and ttmem_account.is_on(family)


class Part:
    """One part of the account: how often it was equal, or why it is not."""

    def __init__(self, name):
        self.name = name
        self.is_on = is_on(name)
        self.equal = 0
        self.wrong = None
        self.refused = []

    def compare(self, comparison, *arguments):
        """Compares, if the part is tracked; the first difference ends it."""
        if not self.is_on or self.wrong:
            return
        try:
            compared = comparison(*arguments)
            self.equal += 1 if compared is None else compared
        except Exception as error:
            said = str(error).partition("backtrace:")[0].partition("\n")[0]
            if type(error).__name__ == "AccountsDiffer":
                self.wrong = f"differs: {said}"
            else:
                self.wrong = f"not compared: {type(error).__name__}: {said}"

    def verdict(self):
        if self.wrong:
            return self.wrong
        said = f"exact, {self.equal} compared" if self.equal else "nothing to compare"
        if self.refused:
            said += f"; refused by ttnn: {', '.join(self.refused)}"
        return said


def is_slow():
    """Whether programs are sent without queues: on a mock nothing is built or placed for them."""
    return "TT_METAL_SLOW_DISPATCH_MODE" in os.environ


def tolerant_check():
    """The comparison of the other programs, for a ttnn that cannot list its blocks as well."""
    import ttnn
    from ttmem_check import CLASSES, Check, equal_lists

    class TolerantCheck(Check):
        def compare_buffers(self):
            try:
                super().compare_buffers()
            except TypeError:
                self.compare_places()

        def compare_places(self):
            """Every live buffer by its class, address and layout: no list of blocks has sizes."""
            ours = sorted(
                (row["class"], row["address"], row["layout"])
                for row in self.account.rows("buffers")
            )
            theirs = sorted(
                (CLASSES[each.buffer_type.name], each.address, each.buffer_layout.name.lower())
                for each in ttnn._ttnn.reports.get_buffers(self.meshes)
            )
            equal_lists("buffers (class, address, layout)", ours, theirs)

    return TolerantCheck()


class Examination:
    """Takes the steps; after each, the parts that it concerns are compared."""

    NAMES = (
        "buffers",
        "failures",
        "circular buffers",
        "dataflow buffers",
        "dispatches",
        "kernels",
    )

    def __init__(self, device):
        self.device = device
        self.parts = {name: Part(name) for name in self.NAMES}
        self.account = ttmem_account.Account()
        self.check = tolerant_check()

    def compare_buffers(self, name):
        self.parts["buffers"].compare(self.check.compare, name)

    def create_and_free(self):
        """In every layout and class: created, every other one freed, the others forgotten."""
        import layouts
        import ttnn

        live = []
        for name, make in layouts.kinds(self.device).items():
            try:
                live.append(make())
            except (RuntimeError, TypeError) as refusal:
                self.refuse(name, refusal)
            self.compare_buffers(f"create {name}")
        for tensor in live[::2]:
            ttnn.deallocate(tensor)
            self.compare_buffers("free")
        live.clear()
        self.compare_buffers("forget the others")

    def refuse(self, name, refusal):
        """Notes what this ttnn does not do."""
        print(f"{name} is refused: {refusal}", file=sys.stderr)
        self.parts["buffers"].refused.append(name)

    def run_operations(self):
        run = operations(self.device)
        for name, operation in list(run.items()):
            try:
                before = self.dispatches()
                results = [operation() for _ in range(RUNS_OF_EACH)]
            except (RuntimeError, TypeError) as refusal:
                self.refuse(name, refusal)
                del run[name]
                continue
            self.parts["dispatches"].compare(self.compare_dispatches, name, before)
            self.compare_buffers(name)
            results.clear()
        self.parts["kernels"].compare(self.compare_kernels)
        for name, operation in run.items():
            self.examine_storage(name, operation)
        self.compare_buffers("operations")

    def dispatches(self):
        """Programs that were sent to devices so far, and how many devices there are."""
        if not is_attached():
            return 0, 0
        ttmem_account.flush()
        devices = self.account.snapshot()["devices"]
        return sum(device["dispatches"] for device in devices), len(devices)

    def compare_dispatches(self, name, before):
        """Each of the operations has one program, which runs on every device."""
        from ttmem_check import equal

        after, devices = self.dispatches()
        equal(f"{name}: dispatches", after - before[0], RUNS_OF_EACH * devices)

    def examine_storage(self, name, operation):
        """What an operation places on its cores, against a capture of it without dispatch."""
        from captured_storage import capture

        self.device.clear_program_cache()
        captured = [] if is_slow() else capture(operation)
        operation()
        for family, kinds in (
            ("circular buffers", ("local", "global")),
            ("dataflow buffers", ("dataflow", "dataflow_borrowed")),
        ):
            self.parts[family].compare(self.compare_storage, name, captured, kinds)

    def compare_storage(self, name, captured, kinds):
        from ttmem_check import equal_lists

        ttmem_account.flush()
        ours = sorted(
            (row["kind"], row["size_bytes"], row["cores"])
            for row in self.account.rows("cbs")
            if row["kind"] in kinds
        )
        theirs = sorted(
            (storage.kind, storage.size_bytes, len(storage.cores))
            for program in captured
            for storage in program
            if storage.kind in kinds
        )
        equal_lists(f"{name}: {' and '.join(kinds)}", ours, theirs)
        return len(ours)

    def compare_kernels(self):
        """Every kernel that is told of lies in ttnn's own cache on disk, under its name."""
        from ttmem_check import equal

        ttmem_account.flush()
        built = set()
        for folder, folders, _files in os.walk(os.environ["TT_METAL_CACHE"]):
            if os.path.basename(folder) == "kernels":
                built.update(folders)
        rows = self.account.rows("kernels")
        equal("there are kernels", bool(rows), not is_slow())
        for row in rows:
            equal(f"kernel {row['name']} is on disk", row["name"] in built, True)
        return len(rows)

    def run_out_of_memory(self):
        """Requests above all memory, whose refusals have figures."""
        import ttnn
        from out_of_memory import compare_refusal
        from tensors import OUT_OF_MEMORY, empty

        for memory, shape in (
            (ttnn.DRAM_MEMORY_CONFIG, [1, 1, 65536, 524288]),
            (ttnn.L1_MEMORY_CONFIG, [1, 1, 16384, 16384]),
        ):
            try:
                empty(self.device, shape, memory)
            except RuntimeError as refusal:
                self.check.last_refusal = str(refusal).partition("backtrace:")[0]
                if OUT_OF_MEMORY not in self.check.last_refusal:
                    raise
            self.compare_buffers("out of memory")
            self.parts["failures"].compare(compare_refusal, self.check, "out of memory")

    def run(self):
        self.parts["buffers"].compare(self.check.watch, self.device)
        self.create_and_free()
        self.run_operations()
        self.run_out_of_memory()


def operations(device):
    """Calls of one program each, by name."""
    import ttnn
    from tensors import zeros

    a = zeros(device, [1, 1, 1024, 1024], ttnn.DRAM_MEMORY_CONFIG)
    b = zeros(device, [1, 1, 1024, 1024], ttnn.L1_MEMORY_CONFIG)
    return {
        "add": lambda: ttnn.add(a, a),
        "add in l1": lambda: ttnn.add(b, b),
        "relu": lambda: ttnn.relu(a),
        "matmul": lambda: ttnn.matmul(a, a),
        "softmax": lambda: ttnn.softmax(a, -1),
        "layer_norm": lambda: ttnn.layer_norm(a),
        "transpose": lambda: ttnn.transpose(a, -2, -1),
        "concat": lambda: ttnn.concat([a, a], -1),
    }


def main():
    summary = Summary(sys.argv[1])
    # Here, so that what fails is told apart from what follows.
    import ttnn  # noqa: F401
    from ttmem_check import Arguments, close_board, open_board

    summary.say("imports", "yes")
    summary.say_status()
    arguments = Arguments.of_command_line()
    device = open_board(arguments)
    summary.say("opens", "yes")
    examination = Examination(device)
    examination.run()
    for part in examination.parts.values():
        summary.say(part.name, part.verdict())
    summary.say_status()
    close_board(device, arguments)
    summary.say("closes", "yes")


if __name__ == "__main__":
    main()

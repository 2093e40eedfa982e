# SPDX-License-Identifier: MIT OR Apache-2.0
"""Groups of devices: `group = kiln.collective.Group(["opencl:0#0/2", "opencl:0#1/2"])`, `group.all_reduce(arrays)`.

Results need no further call: their devices wait for them, the thread does not. A group fails as one, before its
deadline, whichever member is late, fails, or asks for something else.
"""
import threading
from concurrent.futures import ThreadPoolExecutor, wait

from . import _kiln, _standard
from ._compile import _flatten, _unflatten
from ._kiln import device as _device

__all__ = ["GradSync", "Group"]

_inside = threading.local()  # .group: whose member this thread is at work for


class Group:
    """Devices of one or several kinds, parts of devices, remote ones; with `mpi` those of all processes of mpirun."""

    def __init__(self, devices, /, *, mpi=False, deadline=30.0):
        self.devices = [_device(one) for one in devices]
        self._group = _kiln._group(self.devices, mpi, deadline)
        self._threads = []

    @property
    def ranks(self):
        """How many members there are in all processes."""
        return self._group.ranks

    @property
    def rank(self):
        """The number of this process's first member."""
        return self._group.rank

    def each(self, function, /):
        """What `function` returns for the number of each member, each called by a thread of that member's own.

        A thread that has given a device as much as its queue takes waits until there is room; threads of their own
        keep all devices busy. They stay with the group, for graphs are kept by thread. They do not see the streams and
        tapes that the caller is in. `function` may not call this of the same group: its threads are taken.
        """
        if getattr(_inside, "group", None) is self:
            raise RuntimeError("each was called by a member of the same group, whose threads are taken")
        if not self._threads:
            self._threads = [ThreadPoolExecutor(1, f"kiln member {member}") for member in range(len(self.devices))]
        begun = [thread.submit(self._member, function, member) for member, thread in enumerate(self._threads)]
        wait(begun)
        return [one.result() for one in begun]

    def _member(self, function, member):
        _inside.group = self
        try:
            return function(member)
        finally:
            _inside.group = None

    def all_reduce(self, arrays, /, op="sum"):
        """One array for each device, combined by sum, mean, min, max or prod; each device gets the result."""
        return self._group.call("all_reduce", list(arrays), op, 0)

    def average(self, member, arrays, /, *, bucket_bytes=25 << 20):
        """Means over all members, for a function of one member that kiln.compile records.

        `arrays` may stand in tuples, lists and dicts, such as the gradients of kiln.value_and_grad; each member calls
        this alike, with its number among `devices`. They travel together until they are `bucket_bytes`, the last ones
        first. In a graph each bucket begins to travel when the last of its arrays was computed, beside what is
        computed after it.
        """
        leaves, means, rows = [], {}, []
        tree = _flatten(arrays, leaves)
        for place in reversed(range(len(leaves))):
            leaf = leaves[place]
            row = next((one for one in rows if one["dtype"] == leaf.dtype and one["bytes"] < bucket_bytes), None)
            if row is None:
                row = {"dtype": leaf.dtype, "bytes": 0, "places": []}
                rows.append(row)
            row["bytes"] += leaf.nbytes
            row["places"].append(place)
        begun = []
        for row in rows:
            flat = [_kiln.operators["reshape"](leaves[place], (-1,)) for place in row["places"]]
            op = "sum" if row["dtype"].name in ("float32", "float64") else "mean"
            begun.append((op, self._group.begin(_standard.concat(flat) if len(flat) > 1 else flat[0], op, member)))
        for row, (op, one) in zip(rows, begun):
            whole, start = self._group.end(one), 0
            for place in row["places"]:
                end = start + leaves[place].size
                mean = _kiln.operators["reshape"](whole[start:end], leaves[place].shape)
                # A sum is divided here, not piece by piece in turns with what is computed meanwhile; and each array by
                # itself, for a part of a longer one would be copied by the next graph that reads it.
                means[place] = mean / self.ranks if op == "sum" else mean
                start = end
        return _unflatten(tree, (means[place] for place in range(len(leaves))))

    def reduce(self, arrays, /, op="sum", *, root=0):
        """As all_reduce, for the member `root` alone; the others get None."""
        return self._group.call("reduce", list(arrays), op, root)

    def broadcast(self, arrays, /, *, root=0):
        """The array of the member `root` on each device; those of the others give its shape."""
        return self._group.call("broadcast", list(arrays), "", root)

    def all_gather(self, arrays, /):
        """The arrays one after the other along axis 0, on each device."""
        return self._group.call("all_gather", list(arrays), "", 0)

    def reduce_scatter(self, arrays, /, op="sum"):
        """Combined as by all_reduce; device i gets part i of the elements, with one axis."""
        return self._group.call("reduce_scatter", list(arrays), op, 0)

    def gather(self, arrays, /, *, root=0):
        """As all_gather, for the member `root` alone; the others get None."""
        return self._group.call("gather", list(arrays), "", root)

    def scatter(self, arrays, /, *, root=0):
        """Equal parts of the array of the member `root` along axis 0, one for each device; the others give its shape."""
        return self._group.call("scatter", list(arrays), "", root)

    def all_to_all(self, arrays, /):
        """Device i gets the i-th of as many equal parts along axis 0 of each array, in the order of the members."""
        return self._group.call("all_to_all", list(arrays), "", 0)

    def split(self, colours, keys=None):
        """For each device of this process the group of those whose colours are equal, or None with a colour below 0.

        A part has its devices in the order of their keys, and of their ranks where keys are equal; devices of one part
        get the same object. It is a group by itself, and takes the arrays of its own `devices`.
        """
        made = {}
        parts = self._group.split(list(colours), None if keys is None else list(keys))
        for part in parts:
            if part is not None and id(part) not in made:
                made[id(part)] = group = Group.__new__(Group)
                group._group, group.devices = part[0], [self.devices[member] for member in part[1]]
                group._threads = []
        return [None if part is None else made[id(part)] for part in parts]

    def send(self, array, /, *, source, to):
        """Sends the array of the member `source`, one of this process, to the member `to`; the others need not call."""
        self._group.send(array, source, to)

    def receive(self, like, /, *, source, to):
        """What `source` sends to the member `to`, one of this process; `like`, on its device, gives shape and dtype."""
        return self._group.receive(like, source, to)

    def barrier(self):
        """Returns when every member has come here and all calls before have ended."""
        self._group.barrier()


class GradSync:
    """Averages the gradients of members, one for each device, as they become ready.

    In each epoch a member calls `register` with the numbers of the parameters that it will submit, `submit` for each,
    and `sync`; then `gradient` gives what was reduced. Each member may be driven by a thread of its own. As a context
    manager the job ends with the block.
    """

    def __init__(self, devices, /, *, name="kiln", op="mean", mpi=False, deadline=30.0):
        self.devices = [_device(one) for one in devices]
        self._name = name
        self._job = _kiln._gradsync(name, self.devices, op, mpi, deadline)

    def register(self, member, parameters):
        """Begins the member's next epoch: the numbers of the parameters that it will submit."""
        self._job.register(member, list(parameters))

    def submit(self, member, parameter, gradient):
        """Gives the member's gradient of a parameter."""
        self._job.submit(member, parameter, gradient, False)

    def accumulate(self, member, parameter, gradient):
        """Adds to what the member will submit for a parameter, and sends nothing."""
        self._job.submit(member, parameter, gradient, True)

    def sync(self, member):
        """The member has submitted all; returns when the gradients of the others that it needs are there."""
        self._job.sync(member, False)

    def finish(self, member):
        """The member has no more batches in this round; the others go on without it."""
        self._job.sync(member, True)

    def gradient(self, member, parameter):
        """The reduced gradient of a parameter, on the member's device."""
        return self._job.gradient(member, parameter)

    def close(self):
        """Ends the job, and cancels what is pending."""
        if self._name is not None:
            name, self._name = self._name, None
            _kiln._gradsync_remove(name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

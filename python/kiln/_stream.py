# SPDX-License-Identifier: MIT OR Apache-2.0
"""Streams of a thread, events, and traces."""
import os
import tempfile
import threading

from . import _draw, _kiln
from ._kiln import Event, device as _device

__all__ = ["Event", "Stream", "Trace", "record_event", "trace", "wait_event"]

_here = threading.local()  # .streams: for each device those that this thread is in, the innermost last


class Stream:
    """Keeps what is recorded within `with stream:` apart from the rest of the thread's work.

    Operations of one stream are planned together. Values cross streams freely: what needs one runs after what makes it.
    Several threads may be in one stream.
    """

    def __init__(self, device=None, /):
        self.device = _device(device)
        self._stream = _kiln._stream(self.device)

    def __enter__(self):
        _kiln._stream_set(self.device, self._stream)
        _inside(self.device).append(self._stream)
        return self

    def __exit__(self, *_):
        inside = _inside(self.device)
        inside.pop()
        _kiln._stream_set(self.device, inside[-1] if inside else None)


def _inside(device):
    if not hasattr(_here, "streams"):
        _here.streams = {}
    return _here.streams.setdefault(device, [])


def record_event(device=None, /):
    """An event for what this thread's stream on the device has recorded so far: `wait()`, `poll()`."""
    return _kiln._event_record(_device(device))


def wait_event(event, device=None, /):
    """Lets what this thread's stream on the device records from now on run after the event."""
    _kiln._stream_wait(_device(device), event)


class Trace:
    """What ran and when, as `trace` noted it. Draws itself in a notebook."""

    def __init__(self, path):
        self.path = path
        self._text = None

    @property
    def text(self):
        """The trace as JSON in Chrome's trace event format, for ui.perfetto.dev."""
        if self._text is None:
            with open(self.path, encoding="utf-8") as file:
                self._text = file.read()
        return self._text

    def _repr_html_(self):
        return _draw.trace(self.text)


class trace:
    """Notes what is recorded, planned and run within `with kiln.trace() as t:`, for all devices.

    `path` is where the JSON goes for ui.perfetto.dev; without it the text is in `t.text`. A process that has begun a
    trace goes on noting: the file has everything from the first one on.
    """

    def __init__(self, path=None, /):
        self._path = path

    def __enter__(self):
        _kiln._trace_start()
        self._trace = Trace(self._path)
        return self._trace

    def __exit__(self, kind, *_):
        if self._path is not None:
            _kiln._trace_write(self._path)
            return
        with tempfile.TemporaryDirectory(prefix="kiln-trace-") as folder:
            self._trace.path = os.path.join(folder, "trace.json")
            _kiln._trace_write(self._trace.path)
            _ = self._trace.text
        self._trace.path = None

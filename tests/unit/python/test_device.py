#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""On OpenCL: devices, memory shared with NumPy and by DLPack, threads, and memory that comes back."""
import ctypes
import gc
import os
import subprocess
import sys
import threading
import time

import kiln
import kiln_case
import numpy as np


def aligned(count, dtype=np.float32):
    """An array that begins where a device's buffer may."""
    size = np.dtype(dtype).itemsize * count
    raw = np.zeros(size + 4096, np.uint8)
    offset = -raw.ctypes.data % 4096
    return raw[offset:offset + size].view(dtype)


class Devices(kiln_case.Case):
    def test_devices(self):
        device = kiln.device()
        self.assertEqual(device, kiln.device(device.address))
        self.assertEqual(hash(device), hash(kiln.device(device.address)))
        self.assertEqual(kiln.ones(1).device, device)
        self.assertIn(device.address, kiln.devices())
        self.assertIn(device.address, repr(kiln.devices()[0]))
        self.assertTrue(device.name)
        self.assertTrue(device.supports(kiln.float32))
        before = device.stats["ops_recorded"]
        kiln.ones(2) + 1
        self.assertEqual(device.stats["ops_recorded"], before + 2)
        with self.assertRaises(TypeError):
            kiln.device(3)

    def test_another_device(self):
        other = kiln.device("reference")
        x = kiln.asarray([1.0, 2.0])
        moved = x.to_device(other)
        self.assertEqual(moved.device, other)
        self.same(moved * 2, np.float32([2, 4]))
        with self.assertRaises(kiln.FailedPreconditionError):
            x + moved
        self.assertEqual(kiln.zeros(2, device="reference").device, other)
        default = kiln.device()
        kiln.set_default_device("reference")
        try:
            self.assertEqual(kiln.ones(2).device, other)
        finally:
            kiln.set_default_device(default)

    def test_operations_fuse(self):
        device = kiln.device()
        x = kiln.asarray(np.arange(100, dtype=np.float32))
        before = device.stats["blocks_fused"]
        launched = device.stats["kernels_launched"]
        self.same(kiln.relu(x * 2 - 9) + 1, np.maximum(np.arange(100, dtype=np.float32) * 2 - 9, 0) + 1)
        self.assertEqual(device.stats["blocks_fused"], before + 1)
        self.assertGreater(device.stats["kernels_launched"], launched)
        device.set_fusion(False)
        self.same(x * 2 - 9, np.arange(100, dtype=np.float32) * 2 - 9)
        device.set_fusion(True)
        device.flush()
        device.sync()
        device.trim()

    def test_indexing_on_a_device(self):
        a = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
        x = kiln.asarray(a)
        self.same(x[1, ::-1, [0, 2]], a[1, ::-1, [0, 2]])
        self.same(x[x > 11], a[a > 11])
        x[:, 1] = 0
        a[:, 1] = 0
        self.same(x, a)
        self.same(x @ x.mT, a @ a.swapaxes(1, 2), 1e-5)


class Memory(kiln_case.Case):
    DTYPES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32",
              "float64")

    def test_there_and_back(self):
        for name in self.DTYPES:
            for shape in ((), (3,), (2, 3), (0, 2)):
                a = np.ones(shape, name)
                self.same(kiln.asarray(a), a)
                self.assertEqual(kiln.asarray(a).tolist(), a.tolist())
        self.same(kiln.asarray(np.arange(12.0).reshape(3, 4).T[::2]), np.arange(12.0).reshape(3, 4).T[::2])

    def test_lists(self):
        self.same(kiln.asarray([[1, 2], [3, 4]]), np.int64([[1, 2], [3, 4]]))
        self.same(kiln.asarray([1, 2.5]), np.float32([1, 2.5]))
        self.same(kiln.asarray([True, False]), [True, False])
        self.same(kiln.asarray(3), np.int64(3))
        self.same(kiln.asarray([[], []]), np.zeros((2, 0), np.float32))
        self.same(kiln.asarray([np.float32(1), 2]), np.float32([1, 2]))
        self.same(kiln.asarray([kiln.ones(2), kiln.zeros(2)]), np.float32([[1, 1], [0, 0]]))
        for dtype in ("uint8", "float16", "float64"):
            self.same(kiln.asarray([1, 2], dtype=dtype), np.array([1, 2], dtype))
        self.assertEqual(kiln.asarray([1.5, 2], dtype="bfloat16").tolist(), [1.5, 2.0])
        for bad in ([[1], [1, 2]], [1, [2]], [[1], 2]):
            with self.assertRaises(ValueError):
                kiln.asarray(bad)
        for bad in (["1"], object(), 1j, [1j]):
            with self.assertRaises(TypeError):
                kiln.asarray(bad)
        with self.assertRaises(OverflowError):
            kiln.asarray([300], dtype="uint8")

    def test_a_copy_is_one(self):
        a = aligned(4)
        x = kiln.asarray(a)
        a[:] = 9
        self.same(x, np.zeros(4, np.float32))

    def test_shared_memory(self):
        a = aligned(1024)
        a[:] = np.arange(1024)
        x = kiln.asarray(a, copy=False)
        self.assertEqual(np.asarray(x).ctypes.data, a.ctypes.data)
        held = sys.getrefcount(a)
        del x
        kiln.device().sync()
        gc.collect()
        self.assertLess(sys.getrefcount(a), held)
        with self.assertRaises(ValueError):
            kiln.asarray(a[1::2], copy=False)
        with self.assertRaises(ValueError):
            kiln.asarray(a, dtype="int32", copy=False)
        with self.assertRaises(ValueError):
            kiln.asarray([1, 2], copy=False)

    def test_a_view_is_no_copy(self):
        x = kiln.arange(1000) + 1
        self.assertEqual(np.asarray(x).ctypes.data, np.asarray(x).ctypes.data)
        view = np.asarray(x)
        self.assertFalse(view.flags.writeable)
        del x
        gc.collect()
        junk = kiln.arange(1000) * 0 + 5
        junk.tolist()
        self.same(view, np.arange(1, 1001))

    def test_buffers(self):
        view = memoryview(kiln.asarray([[1, 2], [3, 4]]))
        self.assertEqual((view.shape, view.format, view.readonly), ((2, 2), "l", True))
        self.assertEqual(bytes(kiln.asarray([1, 2], dtype="uint8")), b"\1\2")
        self.same(kiln.asarray(bytearray(b"\1\2")), np.uint8([1, 2]))
        with self.assertRaises(BufferError):
            memoryview(kiln.ones(2, dtype="bfloat16"))
        self.assertEqual(np.asarray(kiln.ones(2, dtype="bfloat16")).dtype, np.float32)
        self.assertEqual(np.asarray(kiln.ones(2), dtype=np.int8).dtype, np.int8)

    def test_dlpack_out(self):
        x = kiln.asarray([[1.0, 2.0], [3.0, 4.0]])
        self.same(np.from_dlpack(x), np.float32([[1, 2], [3, 4]]))
        self.assertEqual(x.__dlpack_device__(), (1, 0))
        self.assertIn("dltensor_versioned", repr(x.__dlpack__(max_version=(1, 0))))
        self.assertIn('"dltensor"', repr(x.__dlpack__()))
        self.same(np.from_dlpack(kiln.zeros((0, 2))), np.zeros((0, 2), np.float32))
        self.assertEqual(kiln.from_dlpack(x, copy=False).tolist(), x.tolist())
        with self.assertRaises(BufferError):
            x.__dlpack__(dl_device=(2, 0))

    def test_memory_objects_by_dlpack(self):
        x = kiln.arange(6, dtype="float32").reshape(2, 3) * 2
        for version, name in (((1, 0), "dltensor_versioned"), (None, "dltensor")):
            capsule = x.__dlpack__(dl_device=(4, 0), max_version=version)
            self.assertIn(f'"{name}"', repr(capsule))
            words = pointer_to(capsule, name.encode(), 12)
            start = 0 if version is None else 4  # version, context, deleter, flags
            memory, device_type = words[start], words[start + 1] & 0xFFFFFFFF
            self.assertEqual(device_type, 4)
            size, opencl = ctypes.c_size_t(), ctypes.CDLL("libOpenCL.so.1")
            self.assertEqual(opencl.clGetMemObjectInfo(ctypes.c_void_p(memory), 0x1102, 8, ctypes.byref(size), None), 0)
            self.assertGreaterEqual(size.value, 24)
            self.same(kiln._kiln._from_capsule(capsule, None, 1), np.float32([[0, 2, 4], [6, 8, 10]]))
        for _ in range(100):
            x.__dlpack__(dl_device=(4, 0))  # which nobody takes
        self.same(x, np.float32([[0, 2, 4], [6, 8, 10]]))
        with self.assertRaises(BufferError):
            x.__dlpack__(dl_device=(4, 0), copy=True)
        with self.assertRaises(ValueError):
            kiln.ones(2, device="reference").__dlpack__(dl_device=(4, 0))

    def test_dlpack_in(self):
        a = aligned(6).reshape(2, 3)
        a[:] = np.arange(6).reshape(2, 3)
        x = kiln.from_dlpack(a)
        self.same(x, a)
        self.assertEqual(np.asarray(x).ctypes.data, a.ctypes.data)
        self.same(kiln.from_dlpack(a.T), a.T)
        with self.assertRaises(ValueError):
            kiln.from_dlpack(a.T, copy=False)
        copied = kiln.from_dlpack(a, copy=True)
        a[:] = 0
        self.assertEqual(float(kiln.sum(copied)), 15)

    def test_dlpack_round(self):
        for name in (*self.DTYPES, "bfloat16"):
            x = kiln.ones((2, 3), dtype=name)
            capsules = [x.__dlpack__(max_version=version, copy=copy) for version in (None, (1, 0))
                        for copy in (None, False, True)]
            for capsule in capsules:
                self.assertEqual(kiln._kiln._from_capsule(capsule, None, 1).tolist(), x.tolist())
                with self.assertRaises(ValueError):  # a capsule is used once
                    kiln._kiln._from_capsule(capsule, None, 1)
            y = kiln.from_dlpack(x)
            self.assertEqual(y.dtype, x.dtype)
            self.assertEqual(y.tolist(), x.tolist())


def pointer_to(capsule, name, count):
    """The first words of what a capsule holds."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return (ctypes.c_uint64 * count).from_address(get(capsule, name))


class Threads(kiln_case.Case):
    def test_many_threads(self):
        results = {}

        def work(number):
            x = kiln.full((64,), float(number))
            for _ in range(50):
                x = x * 1 + 1
            results[number] = float(kiln.sum(x))

        threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        self.assertEqual(results, {n: 64.0 * (n + 50) for n in range(8)})

    def longest_silence(self, work):
        """How long another thread had to wait at most while `work` ran, and how long that took."""
        ticks, done = [], threading.Event()

        def tick():
            while not done.is_set():
                ticks.append(time.monotonic())
                time.sleep(0.001)

        thread = threading.Thread(target=tick)
        thread.start()
        begin = time.monotonic()
        work()
        end = time.monotonic()
        done.set()
        thread.join()
        times = [begin, *[t for t in ticks if begin < t < end], end]
        return max(b - a for a, b in zip(times, times[1:])), end - begin

    def test_others_go_on_while_one_waits(self):
        x = kiln.ones((1024, 1024)) / 1024
        float((x @ x)[0, 0])  # compiled and loaded

        def chain():
            y = x
            for _ in range(20):
                y = y @ x
            return y[0, 0]

        for look in (float, np.asarray, lambda y: y.device.sync(), lambda y: y.__dlpack__(),
                     lambda y: kiln.asarray(y).tolist()):
            y = chain()
            y.device.flush()
            silence, whole = self.longest_silence(lambda: look(y))
            if whole < 0.1:
                self.skipTest(f"the device is too quick to be waited for: {whole * 1000:.0f} ms")
            self.assertLess(silence, whole / 2)

    def test_memory_is_given_back_on_any_thread(self):
        def work():
            for _ in range(50):
                x = kiln.asarray(aligned(256), copy=False)
                float(kiln.sum(x + 1))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        self.assertFalse(any(thread.is_alive() for thread in threads))

    def test_a_value_stays_while_it_is_used(self):
        """Threads write to an array that others compute with: each sees one of its values."""
        x, wrong, end = kiln.zeros(64), [], time.monotonic() + 2
        interval = sys.getswitchinterval()

        def write():
            while time.monotonic() < end:
                x[0] = x[0] + 1.0

        def read():
            try:
                while time.monotonic() < end:
                    float(kiln.sum((x + x) * 2))
                    np.asarray(x)
            except Exception as error:  # noqa: BLE001
                wrong.append(error)

        threads = [threading.Thread(target=work) for work in (write, write, read, read, read)]
        sys.setswitchinterval(1e-6)
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)
        finally:
            sys.setswitchinterval(interval)
        self.assertEqual(wrong, [])

    def test_a_forked_process_is_told(self):
        """The devices' threads are not in it: it would wait for ever."""
        program = """
import os, sys, kiln
x = kiln.ones(1000) + 1
x.tolist()
function = kiln.compile(lambda a: a + 1)
function(x)
if os.fork() == 0:
    for look in (lambda: x + 1, x.tolist, lambda: kiln.ones(2), lambda: function(x), lambda: x.__dlpack__(),
                 x.device.sync, kiln.devices, lambda: x.to_device("reference")):
        try:
            look()
        except kiln.FailedPreconditionError as error:
            assert "spawn" in str(error), error
        else:
            sys.exit("no error")
    del x, function
    sys.exit(0)
assert os.wait()[1] == 0
print(float(kiln.sum(x)))
"""
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((done.stdout, done.returncode), ("2000.0\n", 0), done.stderr)


class Leaks(kiln_case.Case):
    def resident(self):
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def test_peaks(self):
        device = kiln.device()
        x = kiln.ones((1 << 16,)) + 1
        device.sync()
        device.reset_peaks()
        before = device.stats
        self.assertEqual(before["bytes_peak"], before["bytes_used"])
        y = kiln.exp(x)
        device.sync()
        self.assertGreaterEqual(device.stats["bytes_peak"], before["bytes_used"] + 4 * (1 << 16))
        self.assertGreaterEqual(device.stats["bytes_pooled"], device.stats["bytes_used"])
        del x, y

    def test_ten_thousand_rounds(self):
        """Neither tensors nor objects nor memory stay, after errors neither."""
        source = aligned(256)
        function = kiln.compile(lambda a: {"y": a + 1})

        def rounds(count):
            x = kiln.asarray(np.arange(256, dtype=np.float32))
            for i in range(count):
                y = (x * 2 + 1)[3:7]
                y[1] = 5
                z = kiln.asarray([1, 2, 3]) + kiln.asarray(source, copy=False)[:3]
                function(x)
                if i % 10 == 0:
                    np.asarray(y)
                    kiln.from_dlpack(y).__dlpack__(max_version=(1, 0))
                    float(z[0])
                    try:
                        x + kiln.ones(3)
                    except kiln.Error:
                        pass
                    try:
                        kiln.conv(x, "no weight")
                    except TypeError:
                        pass

        rounds(1000)
        kiln.device().sync()
        gc.collect()
        live, resident = kiln.device().stats["tensors_live"], self.resident()
        blocks = sys.getallocatedblocks()  # of Python's allocator: one for each object that stays
        rounds(10000)
        kiln.device().sync()
        gc.collect()
        self.assertLessEqual(kiln.device().stats["tensors_live"], live)
        self.assertLess(sys.getallocatedblocks(), blocks + 500)
        self.assertLess(self.resident() - resident, 8 << 20)


if __name__ == "__main__":
    kiln_case.main()

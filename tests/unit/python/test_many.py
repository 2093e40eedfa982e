#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""On OpenCL: streams, traces and what notebooks draw; groups of devices; devices of a server."""
import html.parser
import json
import os
import re
import subprocess
import sys
import tempfile
import threading

os.environ.setdefault("POCL_DEVICES", "pthread pthread")  # read by PoCL when the first device is asked for

import kiln
import kiln_case
import numpy as np

COMMAND = sys.argv[1]


def numbers(*values, device=None):
    return kiln.asarray(np.float32(values), device=device)


class Balanced(html.parser.HTMLParser):
    """Every element is closed by its own tag."""

    def __init__(self, text):
        super().__init__()
        self.open, self.seen, self.text = [], [], ""
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag

    def handle_data(self, data):
        self.text += data


class Streams(kiln_case.Case):
    def test_values_cross_streams(self):
        one, other = kiln.Stream(), kiln.Stream()
        with one:
            x = numbers(1, 2) + 1
            with other:
                y = x * 10
            z = y + x
        self.same(z, np.float32([22, 33]))
        self.same(x - y, np.float32([-18, -27]))

    def test_events(self):
        x = numbers(1, 2) * 3
        event = kiln.record_event()
        kiln.wait_event(event)
        event.wait()
        self.assertTrue(event.poll())
        self.same(x, np.float32([3, 6]))
        with self.assertRaises(TypeError):
            kiln.wait_event(3)

    def test_several_threads_in_one_stream(self):
        stream, made = kiln.Stream(), []

        def work(i):
            with stream:
                made.append(numbers(i) + i)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(float(x[0]) for x in made), [0, 2, 4, 6])


class Drawings(kiln_case.Case):
    def test_explanations(self):
        function = kiln.compile(lambda a, b: kiln.sum(kiln.relu(a * b + 1) @ b))
        x = kiln.ones((8, 8))
        float(function(x, x))
        told = function.explain()
        self.assertIn("block 0", told)
        page = Balanced(told._repr_html_())
        self.assertIn("block 0", page.text)
        self.assertIn("relu(", page.text)
        self.assertEqual(page.seen.count("details"), len(re.findall("(?m)^(?:block|unfused)", told)))
        self.assertEqual(kiln._draw.Explanation("block <b>\n  [0] a < b")._repr_html_().count("<b>"), 1)

    def test_traces(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "trace.json")
            with kiln.trace(path) as kept:
                float(kiln.sum(kiln.tanh(kiln.ones(1000))))
            with kiln.trace() as told:
                float(kiln.sum(kiln.exp(kiln.ones(1000))))
            for one, operator in ((kept, "tanh"), (told, "exp")):
                names = " ".join(event["name"] for event in json.loads(one.text)["traceEvents"])
                self.assertIn(operator, names)
                drawing = one._repr_html_()
                page = Balanced(drawing)
                self.assertGreater(page.seen.count("rect"), 3)
                self.assertIn(operator, drawing)
                self.assertRegex(page.text, r"\d+\.\d+ ms, \d+ things")
        with self.assertRaises(kiln.UnavailableError):
            with kiln.trace(os.path.join(folder, "gone/trace.json")):
                pass

    def test_long_traces_say_what_is_left_out(self):
        events = [{"ph": "X", "pid": 1, "tid": 1, "name": f"<{i}>", "ts": i, "dur": 1} for i in range(3000)]
        drawn = kiln._draw.trace(json.dumps({"traceEvents": events}))
        self.assertIn("the last 2000 of 3000", drawn)
        self.assertEqual(Balanced(drawn).seen.count("rect"), 2000)
        self.assertIn("empty", kiln._draw.trace("[]"))


class Groups(kiln_case.Case):
    DEVICES = ("opencl:0", "reference")

    def arrays(self):
        return [numbers(1, 2, device=self.DEVICES[0]), numbers(10, 30, device=self.DEVICES[1])]

    def check(self, made, *wanted):
        self.assertEqual(len(made), len(wanted))
        for array, values in zip(made, wanted):
            if values is None:
                self.assertIsNone(array)
            else:
                self.same(array + 0, np.float32(values))

    def test_calls(self):
        group = kiln.collective.Group(self.DEVICES)
        self.assertEqual((group.ranks, group.rank), (2, 0))
        arrays = self.arrays()
        self.check(group.all_reduce(arrays), [11, 32], [11, 32])
        self.check(group.all_reduce(arrays, "mean"), [5.5, 16], [5.5, 16])
        self.check(group.reduce(arrays, "max", root=1), None, [10, 30])
        self.check(group.broadcast(arrays, root=1), [10, 30], [10, 30])
        self.check(group.all_gather(arrays), [1, 2, 10, 30], [1, 2, 10, 30])
        self.check(group.reduce_scatter(arrays), [11], [32])
        self.check(group.gather(arrays, root=1), None, [1, 2, 10, 30])
        self.check(group.scatter(arrays, root=1), [10], [30])
        self.check(group.all_to_all(arrays), [1, 10], [2, 30])
        group.barrier()
        self.assertEqual([str(array.device) for array in group.all_reduce(arrays)], list(self.DEVICES))

    def test_errors(self):
        group = kiln.collective.Group(self.DEVICES)
        with self.assertRaisesRegex(ValueError, "1 arrays for a group of 2"):
            group.all_reduce(self.arrays()[:1])
        with self.assertRaises(ValueError):
            group.all_reduce(self.arrays(), "median")
        with self.assertRaisesRegex(ValueError, "1 to 64 devices"):
            kiln.collective.Group([])
        for seconds in (0, -1, float("nan")):
            with self.assertRaisesRegex(ValueError, "seconds above 0"):
                kiln.collective.Group(self.DEVICES, deadline=seconds)
        with self.assertRaises(kiln.Error):
            group.all_reduce([numbers(1, 2), numbers(1, device="reference")])

    def test_parts(self):
        devices = (*self.DEVICES, "reference:1")
        group = kiln.collective.Group(devices)
        first, second, third = group.split([4, -1, 4], [2, 0, 1])
        self.assertIsNone(second)
        self.assertIs(first, third)
        self.assertEqual([one.address for one in first.devices], ["reference:1", "opencl:0"])
        self.assertEqual((first.ranks, first.rank), (2, 0))
        arrays = [numbers(1, device="reference:1"), numbers(10, device="opencl:0")]
        self.check(first.all_gather(arrays), [1, 10], [1, 10])
        alone = group.split([1, 2, 3])
        self.assertEqual([part.ranks for part in alone], [1, 1, 1])
        del group, third
        self.check(first.all_reduce(arrays), [11], [11])  # outlives the whole
        for colours, keys, words in (([1, 2], None, "2 colours for a group of 1"), ([1 << 40], None, "32 bits"),
                                     ([1], [1, 2], "2 keys"), (["x"], None, "")):
            with self.assertRaisesRegex((ValueError, TypeError), words):
                alone[0].split(colours, keys)

    def test_messages(self):
        group = kiln.collective.Group(self.DEVICES)
        x, y = self.arrays()
        group.send(x, source=0, to=1)
        self.check([group.receive(y, source=0, to=1)], [1, 2])
        group.send(y * 2, source=1, to=0)
        came = group.receive(x, source=1, to=0)
        self.assertEqual(str(came.device), self.DEVICES[0])
        self.check([came], [20, 60])
        with self.assertRaisesRegex(ValueError, "send: rank 2 is none"):
            group.send(x, source=2, to=1)
        with self.assertRaises(ValueError):
            group.receive(x, source=0, to=1)  # `like` is on another device

    def test_state_that_is_shared_out(self):
        group = kiln.collective.Group(self.DEVICES)
        sets = [kiln.train.Params(seed=3, device=device) for device in self.DEVICES]
        alone = kiln.train.Params(seed=3, device="reference")
        for one in (*sets, alone):
            one.add("weight", (3, 2), init="uniform")
            one.add("bias", (2,))
        optimisers = [kiln.train.ShardedOptimiser(group, sets, "adam", rate=0.1, schedule="linear", steps=9,
                                                  bucket_bytes=bucket) for bucket in (0, 8)]
        reference = kiln.train.Optimiser(alone, "adam", rate=0.1, schedule="linear", steps=9)
        for optimiser in optimisers[:1]:
            for step in range(3):
                own = [{"weight": kiln.full((3, 2), float(m + step), device=device),
                        "bias": kiln.full((2,), float(1 - 3 * m), device=device)}
                       for m, device in enumerate(self.DEVICES)]
                optimiser.step(own)
                reference.step({"weight": kiln.full((3, 2), step + 0.5, device="reference"),
                                "bias": kiln.full((2,), -0.5, device="reference")})
            self.assertEqual((optimiser.steps, optimiser.rate), (3, reference.rate))
        for one in sets:
            for name in ("weight", "bias"):
                self.same(one[name], np.asarray(alone[name]), 1e-6)
        with tempfile.TemporaryDirectory() as folder:
            for member in range(2):
                optimisers[0].save(member, os.path.join(folder, f"{member}"))
            resumed = kiln.train.ShardedOptimiser(group, sets, "adam", rate=0.1)
            for member in range(2):
                resumed.load(member, os.path.join(folder, f"{member}"))
            self.assertEqual(resumed.steps, 3)
            with self.assertRaises(kiln.Error):
                optimisers[1].load(0, os.path.join(folder, "0"))  # other rows
            with self.assertRaises(ValueError):
                resumed.save(2, os.path.join(folder, "2"))
        before = np.asarray(sets[0]["bias"])
        for wrong, words in (([own[0]], "1 dicts"), ([own[0], {"weight": own[1]["weight"]}], "bias"),
                             ([own[0], {**own[1], "other": own[1]["bias"]}], "no parameter 'other'")):
            with self.assertRaisesRegex(ValueError, words):
                resumed.step(wrong)
        self.same(sets[0]["bias"], before)
        for arguments in ((group, sets[:1]), (group, [sets[1], sets[0]]), (group, [])):
            with self.assertRaises(ValueError):
                kiln.train.ShardedOptimiser(*arguments)

    def test_means_in_graphs(self):
        devices = ("opencl:0", "opencl:1")
        group = kiln.collective.Group(devices)
        random = np.random.default_rng(5)
        values = {name: random.standard_normal(shape, np.float32) / 4
                  for name, shape in (("a", (6, 7)), ("b", (7,)), ("c", (7, 5)), ("d", (5,)))}
        sets = [{name: kiln.asarray(one, device=device) for name, one in values.items()} for device in devices]
        batches = [kiln.asarray(random.standard_normal((4, 6), np.float32), device=device) for device in devices]

        def loss(p, x):
            return kiln.sum(kiln.square(kiln.tanh(kiln.tanh(x @ p["a"] + p["b"]) @ p["c"] + p["d"])))

        own = kiln.value_and_grad(loss)

        def averaged(member, bucket):
            def both(p, x):
                value, gradients = own(p, x)
                return value, group.average(member, gradients, bucket_bytes=bucket)

            return kiln.compile(both)

        alone = [own(*one) for one in zip(sets, batches)]
        for bucket in (1, 60, 1 << 20):
            steps = [averaged(member, bucket) for member in range(2)]
            for _ in range(3):  # recorded once, replayed twice
                made = [step(*one) for step, one in zip(steps, zip(sets, batches))]
                for name in values:
                    first, second = (np.asarray(gradients[name]) for _, gradients in made)
                    self.same(second, first)
                    mean = (np.asarray(alone[0][1][name]) + np.asarray(alone[1][1][name])) / 2
                    self.same(first, mean, 1e-5)
            self.same(made[0][0], np.asarray(alone[0][0]), 1e-5)

    def test_means_are_read_where_they_lie(self):
        devices = ("opencl:0", "opencl:1")
        group = kiln.collective.Group(devices)
        arrays = [[numbers(5, 3, device=device) for _ in range(4)] for device in devices]
        means = [kiln.compile(lambda *own, m=member: group.average(m, [one * 2 for one in own])) for member in (0, 1)]
        use = kiln.compile(lambda *four: [kiln.tanh(one) for one in four])
        for _ in range(3):  # recorded, then replayed
            made = [step(*own) for step, own in zip(means, arrays)]
            device = made[0][0].device
            used = use(*made[0])
            device.sync()
        with kiln.trace() as trace:
            used = use(*made[0])
            device.sync()
        launched = [event["name"] for event in json.loads(trace.text)["traceEvents"] if event.get("ph") == "X"]
        self.assertEqual([name for name in launched if name == "kiln_elementwise"], [])  # a copy of a part
        for one, own in zip(used, arrays[0]):
            self.same(one, np.tanh(np.asarray(own) * 2), 1e-5)

    def test_each_member_has_a_thread_of_its_own(self):
        group = kiln.collective.Group(self.DEVICES)
        meet = threading.Barrier(2, timeout=60)  # one thread alone would not come through

        def member(number):
            meet.wait()
            return number, threading.get_ident()

        first, second = group.each(member), group.each(member)
        self.assertEqual(first, second)
        self.assertEqual([number for number, _ in first], [0, 1])
        self.assertNotEqual(first[0][1], first[1][1])
        with self.assertRaises(ZeroDivisionError):
            group.each(lambda number: 1 // number)
        with self.assertRaisesRegex(RuntimeError, "threads are taken"):  # not a wait without end
            group.each(lambda number: group.each(lambda other: other))
        for part in group.split([0, 1]):
            self.assertEqual(part.each(lambda number: number), [0])

    def test_calls_say_where_their_time_went(self):
        group = kiln.collective.Group(self.DEVICES)
        with kiln.trace() as t:
            self.check(group.all_reduce(self.arrays()), [11, 32], [11, 32])
            group.barrier()
        notes = [event["args"]["detail"] for event in json.loads(t.text)["traceEvents"]
                 if event.get("cat") == "note" and event["name"] == "all_reduce"]
        self.assertGreaterEqual(len(notes), 2)
        for note in notes[-2:]:
            facts = dict(part.split(" ") for part in note.split(", "))
            self.assertEqual(facts["bytes"], "8")
            self.assertLess({"behind", "computing", "agreeing", "travelling", "copying", "combining", "waiting",
                             "settling", "fetching"}, set(facts))

    def test_gradients_are_averaged(self):
        wanted = {7: [5.5, 16.0], 9: [3.0]}
        arrays = self.arrays()
        small = [numbers(2, device=self.DEVICES[0]), numbers(4, device=self.DEVICES[1])]
        made, failed = [{}, {}], []

        def member(i, job):
            try:
                for _ in range(2):
                    job.register(i, [7, 9])
                    job.accumulate(i, 9, small[i] * 0)
                    job.submit(i, 7, arrays[i] * 1)
                    job.submit(i, 9, small[i] * 1)
                    job.sync(i)
                    made[i] = {number: job.gradient(i, number) + 0 for number in (7, 9)}
                job.finish(i)
            except kiln.Error as error:
                failed.append(error)

        with kiln.collective.GradSync(self.DEVICES, deadline=60.0) as job:
            threads = [threading.Thread(target=member, args=(i, job)) for i in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual(failed, [])
        for of_member in made:
            for number, values in wanted.items():
                self.same(of_member[number], np.float32(values))
        with self.assertRaises(kiln.Error):
            job.register(0, [1])


class Remote(kiln_case.Case):
    def test_devices_of_a_server(self):
        server = subprocess.Popen([COMMAND, "serve", "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True)
        try:
            address = re.search(r"grpc://[\d.]+:\d+", server.stdout.readline()).group(0)
            x = numbers(1, -2, device=address)
            self.same(kiln.relu(x * 2), np.float32([2, 0]))
            self.assertEqual(str(x.device), address)
            self.same(x.to_device(kiln.device("reference")) + 1, np.float32([2, -1]))
            self.same(kiln.grad(lambda x: kiln.sum(x ** 2))(x), np.float32([2, -4]))
            function = kiln.compile(lambda x: kiln.exp(x) + 1)
            for _ in range(2):
                self.same(function(x), np.exp(np.float32([1, -2])) + 1, 1e-5)
        finally:
            server.kill()
            server.communicate()


if __name__ == "__main__":
    kiln_case.main()

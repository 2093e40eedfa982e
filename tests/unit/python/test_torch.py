#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""torch.compile(backend="kiln") against torch itself. KILN_TEST_PYTHON names a Python with torch 2.4 or later."""
import copy
import os
import sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../../.."))
PYTHON = os.environ.get("KILN_TEST_PYTHON")
if PYTHON and os.environ.get("KILN_TEST_PYTHON_USED") is None:
    os.execve(PYTHON, [PYTHON, "-B", "-W", "ignore"] + sys.argv, dict(os.environ, KILN_TEST_PYTHON_USED="1"))

try:
    import torch
    missing = None if tuple(int(n) for n in torch.__version__.split(".")[:2]) >= (2, 4) else "torch is older than 2.4"
except ImportError:
    missing = "no torch: KILN_TEST_PYTHON names no Python that has it (pip install torch)"
if missing:
    print(f"SKIP {missing}\nkiln-test: 0 passed, 0 failed, 1 skipped")
    sys.exit(0)

import kiln.torch  # noqa: E402
import kiln_case  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402


class Bottleneck(nn.Module):
    """Of ResNet-50."""

    def __init__(self, before, inside, stride):
        super().__init__()
        after = 4 * inside
        self.layers = nn.Sequential(
            nn.Conv2d(before, inside, 1, bias=False), nn.BatchNorm2d(inside), nn.ReLU(),
            nn.Conv2d(inside, inside, 3, stride, 1, bias=False), nn.BatchNorm2d(inside), nn.ReLU(),
            nn.Conv2d(inside, after, 1, bias=False), nn.BatchNorm2d(after))
        self.beside = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after)) \
            if stride != 1 or before != after else nn.Identity()

    def forward(self, x):
        return F.relu(self.layers(x) + self.beside(x))


class ResNet(nn.Module):
    """ResNet-50 with `width` channels where it has 64."""

    def __init__(self, width=64, classes=1000):
        super().__init__()
        blocks, before = [], width
        for inside, count, stride in ((width, 3, 1), (2 * width, 4, 2), (4 * width, 6, 2), (8 * width, 3, 2)):
            for i in range(count):
                blocks.append(Bottleneck(before, inside, stride if i == 0 else 1))
                before = 4 * inside
        self.stem = nn.Sequential(nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
                                  nn.MaxPool2d(3, 2, 1))
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(before, classes)

    def forward(self, x):
        return self.head(torch.flatten(F.adaptive_avg_pool2d(self.blocks(self.stem(x)), 1), 1))


class Gpt(nn.Module):
    def __init__(self, words=100, width=32, heads=4, depth=2):
        super().__init__()
        self.heads = heads
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(64, width)
        self.blocks = nn.ModuleList(nn.ModuleDict({
            "before": nn.LayerNorm(width), "qkv": nn.Linear(width, 3 * width), "out": nn.Linear(width, width),
            "between": nn.LayerNorm(width), "up": nn.Linear(width, 4 * width), "down": nn.Linear(4 * width, width)})
            for _ in range(depth))
        self.last = nn.LayerNorm(width)

    def forward(self, tokens):
        batch, length = tokens.shape
        x = self.words(tokens) + self.places(torch.arange(length, device=tokens.device))
        for block in self.blocks:
            parts = block["qkv"](block["before"](x)).split(x.shape[-1], -1)
            parts = [p.view(batch, length, self.heads, -1).transpose(1, 2) for p in parts]
            seen = F.scaled_dot_product_attention(*parts, is_causal=True).transpose(1, 2).reshape(x.shape)
            x = x + block["out"](seen)
            x = x + block["down"](F.gelu(block["up"](block["between"](x)), approximate="tanh"))
        return self.last(x)[:, -1] @ self.words.weight.T


class Log(kiln_case.Case):
    """Counts what was left to torch."""

    def setUp(self):
        torch.manual_seed(0)
        torch._dynamo.reset()
        self.parts, self.compiled = [], 0
        made, inference = kiln.torch._Part.__init__, kiln.torch._inference

        def init(part, *args):
            made(part, *args)
            self.parts.append(part)

        def compiled(*args):
            self.compiled += 1
            return inference(*args)

        kiln.torch._Part.__init__, kiln.torch._inference = init, compiled
        self.addCleanup(setattr, kiln.torch._Part, "__init__", made)
        self.addCleanup(setattr, kiln.torch, "_inference", inference)

    def near(self, made, wanted, within=1e-4):
        made, wanted = [list(v) if isinstance(v, (tuple, list)) else [v] for v in (made, wanted)]
        self.assertEqual(len(made), len(wanted))
        for ours, theirs in zip(made, wanted):
            self.assertEqual((ours.dtype, ours.shape), (theirs.dtype, theirs.shape))
            torch.testing.assert_close(ours, theirs, rtol=within, atol=within)

    def both(self, function, *calls, within=1e-4):
        """The function's results are torch's for each call's arguments."""
        ours = torch.compile(function, backend=kiln.torch.backend)
        with torch.no_grad():
            for args in calls:
                made = ours(*[a.clone() for a in args])
                self.near(made, function(*args), within)
        return ours


class Models(Log):
    def test_resnet_50(self):
        model = ResNet(16, 10).eval()
        for part in model.modules():
            if isinstance(part, nn.BatchNorm2d):
                part.running_mean.normal_(0, 0.1)
                part.running_var.uniform_(0.5, 1.5)
                part.weight.data.uniform_(0.5, 1.0)
        self.both(model, [torch.randn(2, 3, 64, 64)], [torch.randn(3, 3, 64, 64)], [torch.randn(5, 3, 64, 64)])
        self.assertEqual((len(self.parts), self.compiled), (2, 2))  # the second compilation serves every batch
        left = [n for part in self.parts for n in part._nodes if "batch_norm" in str(n.target)]
        self.assertEqual(left, [])

    def test_transformer_encoder(self):
        for activation, first in (("gelu", False), ("relu", True)):
            torch._dynamo.reset()
            layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, activation=activation, norm_first=first)
            model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
            before = self.compiled
            self.both(model, *[[torch.randn(batch, 7, 32)] for batch in (2, 3, 6, 4)])
            self.assertIn(self.compiled - before, (1, 2))  # by the version of torch; the last serves every batch
        self.assertEqual(len(self.parts), self.compiled)

    def test_small_gpt(self):
        self.both(Gpt().eval(), *[[torch.randint(0, 99, shape)] for shape in ((2, 9), (3, 9), (5, 9), (4, 12))])
        self.assertEqual(len(self.parts), self.compiled)
        self.assertLess(self.compiled, 4)


class Training(Log):
    """The same losses as by torch alone, step by step, with the way forward and the way back on Kiln."""

    def losses(self, model, call, batches):
        optimiser, told = torch.optim.SGD(model.parameters(), lr=0.05), []
        for x, wanted in batches:
            optimiser.zero_grad()
            loss = F.cross_entropy(call(x), wanted)
            loss.backward()
            optimiser.step()
            told.append(loss.item())
        return told

    def same_as_torch(self, model, batches, within=2e-3):
        other = copy.deepcopy(model)
        theirs = self.losses(other, other, batches)
        with self.assertNoLogs("kiln.torch", "WARNING"):
            ours = self.losses(model, torch.compile(model, backend=kiln.torch.backend), batches)
        torch.testing.assert_close(ours, theirs, rtol=within, atol=within)
        for mine, wanted in zip(model.parameters(), other.parameters()):
            torch.testing.assert_close(mine, wanted, rtol=within, atol=within)
        self.assertGreaterEqual(len(self.parts), 2)  # there and back

    def test_blocks_of_resnet(self):
        model = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), Bottleneck(8, 4, 1),
                              Bottleneck(16, 8, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))
        self.same_as_torch(model.train(), [(torch.randn(8, 3, 16, 16), torch.randint(0, 10, (8,)))])

    def test_transformer_encoder(self):
        layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True, activation="gelu")
        model = nn.Sequential(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Flatten(), nn.Linear(224, 5))
        batches = [(torch.randn(size, 7, 32), torch.randint(0, 5, (size,))) for size in (3, 4, 6)]
        self.same_as_torch(model.train(), batches)

    def test_small_gpt(self):
        batches = [(torch.randint(0, 99, (4, 9)), torch.randint(0, 99, (4,))) for _ in range(3)]
        self.same_as_torch(Gpt().train(), batches)

    def test_both_ways_are_on_kiln(self):
        model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(16, 3))
        self.same_as_torch(model, [(torch.randn(2, 1, 10, 10), torch.randint(0, 3, (2,)))])
        names = {str(node.target) for part in self.parts for node in part._nodes}
        for name in ("convolution", "convolution_backward", "max_pool2d_with_indices_backward", "avg_pool2d_backward"):
            self.assertIn(f"aten.{name}.default", names)
        self.assertFalse(any(part._fixed for part in self.parts))


class Behaviour(Log):
    def test_products_are_whole(self):
        """No view stands between a product and what follows it."""
        from torch.fx.experimental.proxy_tensor import make_fx

        def heads(x, w, v, bias):
            q, k = ((x @ m).view(2, 5, 3, 4).transpose(1, 2) for m in (w, w))
            y = torch.softmax(q @ k.transpose(-1, -2) / 2, -1) @ k
            return F.linear(y.transpose(1, 2).reshape(2, 5, 12), v, bias) + x

        given = [torch.randn(2, 5, 12), torch.randn(12, 12), torch.randn(12, 12), torch.randn(12)]
        traced = make_fx(heads, tracing_mode="fake")(*given)
        before = {str(node.target) for node in traced.graph.nodes}
        kiln._products.make_whole(traced)
        targets = [str(node.target) for node in traced.graph.nodes]
        self.assertTrue({"aten.mm.default", "aten.bmm.default"} < before, before)
        self.assertEqual(targets.count("aten.matmul.default"), 5)
        self.assertFalse({"aten.mm.default", "aten.bmm.default", "aten.addmm.default"} & set(targets))
        self.assertTrue(torch.allclose(traced(*given), heads(*given), atol=1e-5))

    def test_a_product_of_what_was_spread_stays(self):
        """An operand that the program itself repeats has fewer rows before that than the product."""
        from torch.fx.experimental.proxy_tensor import make_fx

        def spread(x, w):
            return torch.mm(x.expand(2, 1, 4).view(2, 4), w).view(2, 1, 5)

        given = [torch.randn(1, 1, 4), torch.randn(4, 5)]
        traced = make_fx(spread, tracing_mode="fake")(*given)
        kiln._products.make_whole(traced)
        self.assertEqual(traced(*given).shape, (2, 1, 5))
        self.assertTrue(torch.allclose(traced(*given), spread(*given), atol=1e-6))

    def test_what_nobody_reads_is_not_computed(self):
        """A layer norm's mean and deviation are for training."""
        compiled = torch.compile(nn.LayerNorm(768).eval(), backend=kiln.torch.backend, fullgraph=True)
        x = torch.randn(128, 768)
        with torch.no_grad():
            for _ in range(3):
                compiled(x)
            before = dict(kiln.device().stats)
            compiled(x)
            after = dict(kiln.device().stats)
        self.assertLessEqual(after["blocks_fused"] - before["blocks_fused"], 1)

    def test_entry_point(self):
        import tomllib
        with open(os.path.join(ROOT, "python/pyproject.toml"), "rb") as file:
            points = tomllib.load(file)["project"]["entry-points"]["torch_dynamo_backends"]
        self.assertEqual(points, {"kiln": f"{kiln.torch.backend.__module__}:{kiln.torch.backend.__name__}"})

    def test_half_stays_with_torch(self):
        def function(x):
            y = torch.relu(x) @ x
            z = torch.linalg.inv(y + 9 * torch.eye(4))
            return torch.tanh(z) + y

        self.both(function, [torch.rand(4, 4)])
        self.assertEqual(len(self.parts), 2)

    def test_parameters_are_given_once_and_again_when_they_change(self):
        model = nn.Linear(4, 3).eval()
        ours = self.both(model, [torch.randn(2, 4)])
        arrays = self.parts[0]._arrays
        with torch.no_grad():
            x = torch.randn(2, 4)
            ours(x)
            self.assertIs(self.parts[0]._arrays, arrays)
            model.weight.mul_(2)
            model.bias.data = torch.ones(3)
            self.near(ours(x), model(x))
        self.assertIsNot(self.parts[0]._arrays, arrays)

    def test_results_are_in_shared_memory(self):
        ours = self.both(lambda x: x * 2 + 1, [torch.randn(64)])
        with torch.no_grad():
            x = torch.randn(64)
            first, second = ours(x), ours(x)
            first.add_(1)
            self.near(second, x * 2 + 1)
            self.assertEqual(first.data_ptr() % 64, 0)

    def test_inputs_that_change(self):
        def function(x):
            x.add_(1)
            return x * 2

        ours, x, y = torch.compile(function, backend=kiln.torch.backend), torch.zeros(8), torch.zeros(8)
        with torch.no_grad():
            self.near(ours(x), function(y))
            self.near(x, y)

    def test_strides_are_torchs(self):
        def function(x):
            y = (x * 2).transpose(1, 2)
            return y, torch.linalg.inv(y[:, :3, :3] + 5 * torch.eye(3)), y.reshape(2, -1)

        self.both(function, [torch.rand(2, 3, 4)])
        with torch.no_grad():
            ours = torch.compile(function, backend=kiln.torch.backend)(torch.rand(2, 3, 4))
        self.assertEqual(ours[0].stride(), (12, 1, 4))


CASES = {
    "floats": (lambda x: (x.exp(), x.abs().log1p(), x.sigmoid(), F.silu(x), F.gelu(x), x.erf(), torch.rsqrt(x * x + 1),
                          x.reciprocal(), F.leaky_relu(x, 0.2), F.hardswish(x), F.softplus(x), F.elu(x), x.round(),
                          x ** 2, x ** 3.0, 2.0 ** x, torch.log2(x.abs() + 1)), torch.randn(3, 5)),
    "numbers": (lambda x: (x + 2, x - 1.5, 3 - x, x / 3, x // 2, 1 / (x + 9), x.clamp(-1, 1), x.clamp(min=0),
                           x % 3, -x, x.add(x, alpha=3)), torch.randn(3, 5)),
    "integers": (lambda i: (i + 1, i / 2, i * 2.5, i // 3, i % 3, i == 2, i > 1, i.float(), i & 3, ~i, i.sum(),
                            i.sum(0), torch.maximum(i, -i)), torch.randint(-9, 9, (3, 5))),
    "truths": (lambda x: (x > 0, (x > 0) & (x < 1), ~(x > 0), (x > 0).any(1), torch.where(x > 0, x, -1.0), (x > 0) + 1,
                          x.isnan(), x.masked_fill(x > 0, 7.0), (x > 0).sum(1)), torch.randn(3, 5)),
    "shapes": (lambda x: (x.T, x.reshape(5, 3), x[1:, ::2], x[0], x[:, -1], x.unsqueeze(1).expand(3, 4, 5),
                          torch.cat([x, x], 1), torch.stack([x, x]), x.flip(0), x.repeat(2, 3), F.pad(x, (1, 2), value=3),
                          *x.split(2, 1), *x.unbind(0), x.tril(), x.triu(1), x.flatten(), x.unsqueeze(0).squeeze(0)),
               torch.randn(3, 5)),
    "reductions": (lambda x: (x.sum(), x.mean(1), x.amax(0), x.amin((0, 1)), x.var(1), x.std(0, correction=0), x.sum((0, 1), True),
                              x.argmax(1), x.argmin(0), x.softmax(-1), x.log_softmax(0), x.cumsum(1)), torch.randn(3, 5)),
    "indices": (lambda x: (x[torch.tensor([2, 0])], x.index_select(1, torch.tensor([1, 1, 4])),
                           x.gather(1, torch.tensor([[0, 1], [2, 2], [4, 0]]))), torch.randn(3, 5)),
    "made": (lambda x: (torch.arange(5) + x, torch.full((2, 2), 3.5) + x[0, 0], torch.zeros_like(x) + x, torch.ones(3, 1) * x),
             torch.randn(3, 5)),
    "products": (lambda x: (x @ x.T, torch.addmm(x[0], x.T @ x, x.T @ x), torch.bmm(x.expand(2, 3, 5), x.T.expand(2, 5, 3)),
                            torch.einsum("ij,kj->ik", x, x)), torch.randn(3, 5)),
    "windows": (lambda x: (F.max_pool2d(x, 2), F.max_pool2d(x, 3, 2, 1), F.avg_pool2d(x, 2), F.avg_pool2d(x, 3, 1, 1),
                           F.group_norm(x, 2), F.instance_norm(x), F.conv2d(x, x[:, :, :3, :3], stride=2, padding=1)),
                torch.randn(4, 4, 8, 8)),
    "halves": (lambda x: (x.half() * 2, (x.bfloat16() + 1).float(), x.double().sin()), torch.randn(3, 5)),
}


class Operators(Log):
    pass


def _case(name, function, x):
    def test(self):
        self.both(function, [x], within=1e-2 if name == "halves" else 1e-4)
    return test


for _name, (_function, _x) in CASES.items():
    setattr(Operators, "test_" + _name, _case(_name, _function, _x))


if __name__ == "__main__":
    kiln_case.main()
